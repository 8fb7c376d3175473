//! The bytes of a message that is emitted each time.

use crate::config::{DataSet, Group, Profile};
use crate::field::Scalar;
use crate::fixed;
use crate::security::{SECURITY_HEADER_BYTES, SIGNATURE_BYTES};
use crate::values::Values;
use rtwire_wire::uadp::{
    Content, DataSetMessage, DataValue, DateTime, DeltaFields, FieldEncoding, Fields, UadpError,
    Variant,
};

/// The reason why a message could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishFault {
    /// The message does not fit.
    #[error("a message cannot be written: {0}")]
    Codec(UadpError),
    /// The group is secured, and its sealer is missing.
    #[error("the group is secured, but its sealer is missing: name one of the node's sealers")]
    NoSealer,
    /// The message cannot be sealed.
    #[error(transparent)]
    Seal(#[from] crate::security::SealFault),
}

impl From<UadpError> for PublishFault {
    fn from(fault: UadpError) -> Self {
        Self::Codec(fault)
    }
}

/// The kind of message that a writer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Key,
    Delta,
    Event,
    KeepAlive,
}

/// The share of one writer in a message.
pub(super) struct Part<'a> {
    pub(super) data_set: &'a DataSet,
    pub(super) kind: Kind,
    pub(super) sequence: u16,
    pub(super) values: &'a Values,
    pub(super) changed: &'a [bool],
}

/// Room for fields while a message is written, so that nothing is allocated then.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    variants: Vec<Variant<'static>>,
    data_values: Vec<DataValue<'static>>,
    variant_deltas: Vec<(u16, Variant<'static>)>,
    value_deltas: Vec<(u16, DataValue<'static>)>,
    raw: Vec<u8>,
}

impl Scratch {
    /// Reserves room for data sets of at most `fields` fields and `raw_bytes` bytes of RawData.
    pub(super) fn with_room(fields: usize, raw_bytes: usize) -> Self {
        Self {
            variants: Vec::with_capacity(fields),
            data_values: Vec::with_capacity(fields),
            variant_deltas: Vec::with_capacity(fields),
            value_deltas: Vec::with_capacity(fields),
            raw: Vec::with_capacity(raw_bytes),
        }
    }
}

/// Returns the bytes that security adds behind the payload.
pub(super) const fn trailer(group: &Group) -> usize {
    match group.security.is_secured() {
        true => SIGNATURE_BYTES,
        false => 0,
    }
}

/// Writes a message's header. Returns the places of the security header and of the payload.
pub(super) fn header(
    group: &Group,
    sequence: u16,
    writers: &[u16],
    chunk: bool,
    out: &mut [u8],
) -> Result<(usize, usize), UadpError> {
    let mut header = fixed::header(group, sequence, writers);
    header.chunk = chunk;
    let payload = header.emit(out)?;
    let at = if group.security.is_secured() {
        payload - SECURITY_HEADER_BYTES
    } else {
        payload
    };
    Ok((at, payload))
}

/// Writes one DataSetMessage to the front of `out`. Returns its bytes.
pub(super) fn data_set(
    group: &Group,
    part: &Part<'_>,
    time: DateTime,
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Result<usize, UadpError> {
    let fixed = group.profile == Profile::Fixed;
    let data_value = |value: &Scalar| DataValue {
        value: Some(Variant::Scalar(value.value())),
        source_time: Some(time),
        ..DataValue::default()
    };
    let changed = || {
        let all = part.values.words().iter().zip(part.changed).enumerate();
        all.filter(|(_, (_, changed))| **changed)
            .map(|(at, (value, _))| (u16::try_from(at).unwrap_or(u16::MAX), value))
    };
    // Texts and arrays are written behind the header, one after the other: each borrows its own room.
    let one_by_one = !part.values.all_scalars() && part.data_set.encoding != FieldEncoding::RawData;
    let content = match (part.kind, part.data_set.encoding) {
        (Kind::Event, _) if one_by_one => Content::Event(Fields::variants(&[])),
        (Kind::Key, FieldEncoding::Variant) if one_by_one => {
            Content::KeyFrame(Fields::variants(&[]))
        }
        (Kind::Key, FieldEncoding::DataValue) if one_by_one => {
            Content::KeyFrame(Fields::data_values(&[]))
        }
        (Kind::Delta, FieldEncoding::Variant) if one_by_one => {
            Content::DeltaFrame(DeltaFields::variants(&[]))
        }
        (Kind::Delta, FieldEncoding::DataValue) if one_by_one => {
            Content::DeltaFrame(DeltaFields::data_values(&[]))
        }
        (Kind::KeepAlive, encoding) => Content::KeepAlive(encoding),
        (Kind::Event, _) | (Kind::Key, FieldEncoding::Variant) => {
            scratch.variants.clear();
            let fields = part
                .values
                .words()
                .iter()
                .map(|value| Variant::Scalar(value.value()));
            scratch.variants.extend(fields);
            let fields = Fields::variants(&scratch.variants);
            match part.kind {
                Kind::Event => Content::Event(fields),
                _ => Content::KeyFrame(fields),
            }
        }
        (_, FieldEncoding::RawData) => {
            // Within what was reserved.
            scratch.raw.resize(part.data_set.raw_bytes(), 0);
            let mut end = 0;
            for field in 0..part.values.len() {
                let place = scratch.raw.get_mut(end..).unwrap_or_default();
                end += part.values.emit_raw(field, place)?;
            }
            Content::RawData(&scratch.raw)
        }
        (Kind::Key, FieldEncoding::DataValue) => {
            scratch.data_values.clear();
            scratch
                .data_values
                .extend(part.values.words().iter().map(data_value));
            Content::KeyFrame(Fields::data_values(&scratch.data_values))
        }
        (Kind::Delta, FieldEncoding::Variant) => {
            scratch.variant_deltas.clear();
            let fields = changed().map(|(at, value)| (at, Variant::Scalar(value.value())));
            scratch.variant_deltas.extend(fields);
            Content::DeltaFrame(DeltaFields::variants(&scratch.variant_deltas))
        }
        (Kind::Delta, FieldEncoding::DataValue) => {
            scratch.value_deltas.clear();
            scratch
                .value_deltas
                .extend(changed().map(|(at, value)| (at, data_value(value))));
            Content::DeltaFrame(DeltaFields::data_values(&scratch.value_deltas))
        }
    };
    let message = DataSetMessage {
        valid: true,
        sequence: Some(part.sequence),
        timestamp: (!fixed).then_some(time),
        status: Some(0),
        minor_version: (!fixed).then_some(part.data_set.minor_version),
        content,
        ..DataSetMessage::default()
    };
    let bytes = message.emit(out)?;
    match one_by_one && part.kind != Kind::KeepAlive {
        true => fields(part, time, bytes, out),
        false => Ok(bytes),
    }
}

/// Writes fields one by one behind a DataSetMessage of `bytes` bytes, which ends with a FieldCount of 0. Returns the bytes of all.
fn fields(
    part: &Part<'_>,
    time: DateTime,
    bytes: usize,
    out: &mut [u8],
) -> Result<usize, UadpError> {
    let delta = part.kind == Kind::Delta;
    let mut end = bytes;
    let mut count: u16 = 0;
    for field in 0..part.values.len() {
        if delta && !part.changed.get(field).is_some_and(|changed| *changed) {
            continue;
        }
        count = count.saturating_add(1);
        if delta {
            let index = u16::try_from(field).unwrap_or(u16::MAX).to_le_bytes();
            let fit = out.len();
            let place = out.get_mut(end..end + 2).ok_or(UadpError::TooLong {
                needed: end + 2,
                fit,
            })?;
            place.copy_from_slice(&index);
            end += 2;
        }
        let place = out.get_mut(end..).unwrap_or_default();
        let value = part.values.variant(field);
        end += match part.data_set.encoding {
            FieldEncoding::DataValue => DataValue {
                value: Some(value),
                source_time: Some(time),
                ..DataValue::default()
            }
            .emit(place)?,
            _ => value.emit(place)?,
        };
    }
    if let Some(place) = out.get_mut(bytes - 2..bytes) {
        place.copy_from_slice(&count.to_le_bytes());
    }
    Ok(end)
}

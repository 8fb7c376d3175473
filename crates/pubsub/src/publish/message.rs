//! The bytes of a message that is emitted each time.

use crate::config::{DataSet, Group, Profile};
use crate::field::{Scalar, scalar_bytes};
use crate::fixed;
use crate::security::{SECURITY_HEADER_BYTES, SIGNATURE_BYTES};
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
    pub(super) values: &'a [Scalar],
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
    pub(super) fn with_room(fields: usize) -> Self {
        Self {
            variants: Vec::with_capacity(fields),
            data_values: Vec::with_capacity(fields),
            variant_deltas: Vec::with_capacity(fields),
            value_deltas: Vec::with_capacity(fields),
            raw: Vec::with_capacity(8 * fields),
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
        let all = part.values.iter().zip(part.changed).enumerate();
        all.filter(|(_, (_, changed))| **changed)
            .map(|(at, (value, _))| (u16::try_from(at).unwrap_or(u16::MAX), value))
    };
    let content = match (part.kind, part.data_set.encoding) {
        (Kind::KeepAlive, encoding) => Content::KeepAlive(encoding),
        (Kind::Event, _) | (Kind::Key, FieldEncoding::Variant) => {
            scratch.variants.clear();
            let fields = part
                .values
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
            scratch.raw.clear();
            for value in part.values {
                let bytes = scalar_bytes(value.kind()).unwrap_or(0);
                scratch
                    .raw
                    .extend_from_slice(&value.bits().to_le_bytes()[..bytes]);
            }
            Content::RawData(&scratch.raw)
        }
        (Kind::Key, FieldEncoding::DataValue) => {
            scratch.data_values.clear();
            scratch
                .data_values
                .extend(part.values.iter().map(data_value));
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
    DataSetMessage {
        valid: true,
        sequence: Some(part.sequence),
        timestamp: (!fixed).then_some(time),
        status: Some(0),
        minor_version: (!fixed).then_some(part.data_set.minor_version),
        content,
        ..DataSetMessage::default()
    }
    .emit(out)
}

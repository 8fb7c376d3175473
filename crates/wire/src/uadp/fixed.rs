//! Messages whose fields never move: a table of offsets, made once; values are set and read in place.
//!
//! ```text
//!  template  b1 01 ba 08 0f 64 00 … seq … 1b seq status │ field 0 │ field 1 │ …
//!  compared  ×× ×× ×× ×× ×× ×× ×× …     … ××            │         │         │ …
//! ```
//! A received message is checked once: its length, and all octets that must not differ. Then each value is one load.

use super::fixed_error::FixedError;
use super::raw::RawField;
use super::{BuiltIn, DataSetMessage, DateTime, FieldEncoding, UadpError};
use core::marker::PhantomData;

/// Octets of the longest message with a fixed layout.
pub const FIXED_OCTETS: usize = 1500;
/// Fields of the longest message with a fixed layout.
pub const FIXED_FIELDS: usize = 256;
/// DataSetMessages of the longest message with a fixed layout.
pub const FIXED_DATA_SETS: usize = 32;

/// Octets of an untagged Ethernet frame's shortest payload. Shorter messages are padded.
pub const PADDED_OCTETS: usize = 46;

pub(super) const WINDOW: usize = 8;
pub(super) const WINDOWS: usize = FIXED_OCTETS.div_ceil(WINDOW);

/// A DataSetMessage of a fixed layout.
#[derive(Clone, Copy, Debug)]
pub struct FixedDataSet<'d> {
    /// The header; numbers, times and status are only what a message begins with. The content is not used.
    pub header: DataSetMessage<'d>,
    /// The encoding: `RawData`, or `Variant` for single values of types with a fixed length.
    pub encoding: FieldEncoding,
    /// The fields in the order of the metadata.
    pub fields: &'d [RawField<'d>],
    /// The octets that the message is padded to (`ConfiguredSize`); 0 for none.
    pub configured_octets: u16,
}

/// The place of a field in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// The type of the value, or of each element.
    pub kind: BuiltIn,
    /// The offset of the value; of an array or text, of its length.
    pub at: u16,
    /// The octets, with lengths and padding.
    pub octets: u16,
    /// True for a single value of a type with a fixed length.
    pub scalar: bool,
}

impl FieldPlace {
    /// Returns the field's octets in a message.
    #[must_use]
    #[inline]
    pub fn of<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        message.get(usize::from(self.at)..usize::from(self.at) + usize::from(self.octets))
    }

    /// Returns the field's octets in a message, to be changed.
    #[must_use]
    #[inline]
    pub fn of_mut<'a>(&self, message: &'a mut [u8]) -> Option<&'a mut [u8]> {
        message.get_mut(usize::from(self.at)..usize::from(self.at) + usize::from(self.octets))
    }
}

/// A field of a known type in a layout. It serves the layout that made it.
#[derive(Debug)]
pub struct FixedField<T> {
    at: usize,
    kind: PhantomData<T>,
}

impl<T> Clone for FixedField<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for FixedField<T> {}

mod sealed {
    pub trait Octets: Copy {
        fn set(self, at: usize, message: &mut [u8]) -> Option<()>;
        fn get(at: usize, message: &[u8]) -> Option<Self>;
    }
}

/// A Rust type whose values can be fields of a fixed layout.
pub trait FixedValue: sealed::Octets {
    /// The built-in type on the wire.
    const KIND: BuiltIn;
}

macro_rules! fixed_value {
    ($($native:ty, $kind:ident;)*) => {
        $(
            impl FixedValue for $native {
                const KIND: BuiltIn = BuiltIn::$kind;
            }

            impl sealed::Octets for $native {
                #[inline]
                fn set(self, at: usize, message: &mut [u8]) -> Option<()> {
                    let place = message.get_mut(at..at + size_of::<Self>())?;
                    place.copy_from_slice(&self.to_le_bytes());
                    Some(())
                }

                #[inline]
                fn get(at: usize, message: &[u8]) -> Option<Self> {
                    let octets = message.get(at..at + size_of::<Self>())?;
                    Some(Self::from_le_bytes(octets.try_into().ok()?))
                }
            }
        )*
    };
}

fixed_value! {
    i8, SByte;
    u8, Byte;
    i16, Int16;
    u16, UInt16;
    i32, Int32;
    u32, UInt32;
    i64, Int64;
    u64, UInt64;
    f32, Float;
    f64, Double;
}

impl FixedValue for bool {
    const KIND: BuiltIn = BuiltIn::Boolean;
}

impl sealed::Octets for bool {
    #[inline]
    fn set(self, at: usize, message: &mut [u8]) -> Option<()> {
        *message.get_mut(at)? = u8::from(self);
        Some(())
    }

    #[inline]
    fn get(at: usize, message: &[u8]) -> Option<Self> {
        message.get(at).map(|octet| *octet != 0)
    }
}

impl FixedValue for DateTime {
    const KIND: BuiltIn = BuiltIn::DateTime;
}

impl sealed::Octets for DateTime {
    #[inline]
    fn set(self, at: usize, message: &mut [u8]) -> Option<()> {
        sealed::Octets::set(self.0, at, message)
    }

    #[inline]
    fn get(at: usize, message: &[u8]) -> Option<Self> {
        <i64 as sealed::Octets>::get(at, message).map(Self)
    }
}

impl<T: FixedValue> FixedField<T> {
    /// Sets the field in a message of its layout. Returns `None` for a message that is too short for it.
    #[inline]
    pub fn set(self, message: &mut [u8], value: T) -> Option<()> {
        value.set(self.at, message)
    }
}

/// Eight octets of a message, of which some have to be equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) at: u16,
    pub(super) mask: u64,
    pub(super) value: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DataSetPlace {
    pub(super) data_at: u16,
    pub(super) end: u16,
    pub(super) first_field: u16,
    pub(super) fields: u16,
    pub(super) sequence: Option<u16>,
    pub(super) timestamp: Option<u16>,
    pub(super) picoseconds: Option<u16>,
    pub(super) status: Option<u16>,
}

/// The time that a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Moment {
    /// Ticks of 100 ns.
    pub time: DateTime,
    /// The part below 100 ns, in units of 10 ps.
    pub picoseconds: u16,
}

/// A message whose fields never move.
///
/// It covers header and payload; footer and signature follow it. It holds its tables itself, some 9 kB.
#[derive(Clone, Debug)]
pub struct FixedLayout {
    pub(super) template: [u8; FIXED_OCTETS],
    pub(super) octets: usize,
    pub(super) payload_at: usize,
    pub(super) windows: [Window; WINDOWS],
    pub(super) window_count: usize,
    pub(super) data_sets: [DataSetPlace; FIXED_DATA_SETS],
    pub(super) data_set_count: usize,
    pub(super) fields: [FieldPlace; FIXED_FIELDS],
    pub(super) field_count: usize,
    pub(super) sequence: Option<u16>,
    pub(super) timestamp: Option<u16>,
    pub(super) picoseconds: Option<u16>,
    pub(super) token: Option<u16>,
    pub(super) nonce: Option<(u16, u16)>,
}

/// The lengths that a received message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Padding {
    /// The layout's length exactly: UDP, secured messages, and links that do not pad.
    Refused,
    /// Ethernet: a short message may be followed by zeros, up to [`PADDED_OCTETS`].
    ///
    /// Data that are zero up to the end of a padded message are refused as [`FixedError::Ambiguous`], since a heartbeat
    /// looks the same.
    #[default]
    Ethernet,
    /// As `Ethernet`, and such zeros are data: for publishers that are known not to send heartbeats.
    EthernetWithZeros,
}

/// A received message that was checked against its layout.
#[derive(Clone, Copy, Debug)]
pub struct FixedMessage<'a, 'l> {
    layout: &'l FixedLayout,
    bytes: &'a [u8],
}

impl Window {
    /// Returns the eight octets at `at`, with zeros behind the end.
    #[inline]
    pub(super) fn load(bytes: &[u8], at: usize) -> u64 {
        let mut number = [0; WINDOW];
        match bytes.get(at..at + WINDOW) {
            Some(octets) => number.copy_from_slice(octets),
            None => {
                let rest = bytes.get(at..).unwrap_or_default();
                for (to, from) in number.iter_mut().zip(rest) {
                    *to = *from;
                }
            }
        }
        u64::from_le_bytes(number)
    }
}

fn put<const N: usize>(message: &mut [u8], at: Option<u16>, octets: [u8; N]) {
    let Some(at) = at.map(usize::from) else {
        return;
    };
    if let Some(place) = message.get_mut(at..at + N) {
        place.copy_from_slice(&octets);
    }
}

fn get<const N: usize>(message: &[u8], at: Option<u16>) -> Option<[u8; N]> {
    let at = usize::from(at?);
    message.get(at..at + N)?.try_into().ok()
}

impl FixedLayout {
    /// Returns the octets of header and payload.
    #[must_use]
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Returns the offset of the payload.
    #[must_use]
    pub const fn payload_at(&self) -> usize {
        self.payload_at
    }

    /// Returns the message that all others begin with: zero in every field.
    #[must_use]
    pub fn template(&self) -> &[u8] {
        self.template.get(..self.octets).unwrap_or_default()
    }

    /// Writes the template to the front of `out` and returns its octets.
    ///
    /// # Errors
    /// `out` is too short.
    pub fn start(&self, out: &mut [u8]) -> Result<usize, UadpError> {
        let fit = out.len();
        let Some(place) = out.get_mut(..self.octets) else {
            return Err(UadpError::TooLong {
                needed: self.octets,
                fit,
            });
        };
        place.copy_from_slice(self.template());
        Ok(self.octets)
    }

    /// Returns the places of a data set's fields.
    #[must_use]
    pub fn places(&self, data_set: usize) -> &[FieldPlace] {
        let Some(place) = self.data_set(data_set) else {
            return &[];
        };
        let first = usize::from(place.first_field);
        self.fields
            .get(first..first + usize::from(place.fields))
            .unwrap_or_default()
    }

    /// Returns the number of data sets.
    #[must_use]
    pub const fn data_sets(&self) -> usize {
        self.data_set_count
    }

    /// Returns the offsets of a data set's first octet behind its header, and behind its fields.
    #[must_use]
    pub fn data(&self, data_set: usize) -> Option<core::ops::Range<usize>> {
        let place = self.data_set(data_set)?;
        Some(usize::from(place.data_at)..usize::from(place.end))
    }

    /// Finds a field, to set and to read it. Returns `None` if there is no such field of that type.
    #[must_use]
    pub fn field<T: FixedValue>(&self, data_set: usize, index: usize) -> Option<FixedField<T>> {
        let place = self.places(data_set).get(index)?;
        // A status code is a number of 32 bits, too.
        let same = place.kind == T::KIND
            || (place.kind == BuiltIn::StatusCode && T::KIND == BuiltIn::UInt32);
        (place.scalar && same).then_some(FixedField {
            at: usize::from(place.at),
            kind: PhantomData,
        })
    }

    /// Returns the octets that no message of this layout may differ in: their offsets and values, in order.
    pub fn compared(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let windows = self.windows.get(..self.window_count).unwrap_or_default();
        windows.iter().flat_map(|window| {
            let at = usize::from(window.at);
            let octets = window
                .mask
                .to_le_bytes()
                .into_iter()
                .zip(window.value.to_le_bytes());
            let octets = octets.enumerate().filter(|(_, (mask, _))| *mask != 0);
            octets.map(move |(octet, (_, value))| (at + octet, value))
        })
    }

    /// Returns the offset of the group's sequence number, where the layout has one.
    #[must_use]
    pub fn sequence_at(&self) -> Option<usize> {
        self.sequence.map(usize::from)
    }

    /// Returns the offset of a data set's sequence number, where it has one.
    #[must_use]
    pub fn data_set_sequence_at(&self, data_set: usize) -> Option<usize> {
        self.data_set(data_set)?.sequence.map(usize::from)
    }

    fn data_set(&self, data_set: usize) -> Option<&DataSetPlace> {
        self.data_sets
            .get(..self.data_set_count)
            .unwrap_or_default()
            .get(data_set)
    }

    /// Sets the group's sequence number, where the layout has one.
    #[inline]
    pub fn set_sequence(&self, message: &mut [u8], sequence: u16) {
        put(message, self.sequence, sequence.to_le_bytes());
    }

    /// Sets the time of sending, where the layout has one.
    #[inline]
    pub fn set_time(&self, message: &mut [u8], moment: Moment) {
        put(message, self.timestamp, moment.time.0.to_le_bytes());
        put(message, self.picoseconds, moment.picoseconds.to_le_bytes());
    }

    /// Sets the security token and the nonce, where the layout has them. A nonce of another length is not written.
    #[inline]
    pub fn set_security(&self, message: &mut [u8], token_id: u32, nonce: &[u8]) {
        put(message, self.token, token_id.to_le_bytes());
        let Some((at, octets)) = self.nonce else {
            return;
        };
        let place = message.get_mut(usize::from(at)..usize::from(at + octets));
        if let Some(place) = place.filter(|place| place.len() == nonce.len()) {
            place.copy_from_slice(nonce);
        }
    }

    /// Sets a data set's sequence number, where it has one.
    #[inline]
    pub fn set_data_set_sequence(&self, message: &mut [u8], data_set: usize, sequence: u16) {
        if let Some(place) = self.data_set(data_set) {
            put(message, place.sequence, sequence.to_le_bytes());
        }
    }

    /// Sets a data set's time, where it has one.
    #[inline]
    pub fn set_data_set_time(&self, message: &mut [u8], data_set: usize, moment: Moment) {
        if let Some(place) = self.data_set(data_set) {
            put(message, place.timestamp, moment.time.0.to_le_bytes());
            put(message, place.picoseconds, moment.picoseconds.to_le_bytes());
        }
    }

    /// Sets a data set's status, where it has one.
    #[inline]
    pub fn set_data_set_status(&self, message: &mut [u8], data_set: usize, status: u16) {
        if let Some(place) = self.data_set(data_set) {
            put(message, place.status, status.to_le_bytes());
        }
    }

    /// Checks a received message: header and payload, decrypted, without footer and signature.
    ///
    /// # Errors
    /// Another length, another header, or no data: see [`FixedError`].
    #[inline]
    pub fn check<'a, 'l>(
        &'l self,
        message: &'a [u8],
        padding: Padding,
    ) -> Result<FixedMessage<'a, 'l>, FixedError> {
        let Some(bytes) = message.get(..self.octets) else {
            return Err(self.too_short(message));
        };
        let mut differs = 0;
        for window in self.windows.get(..self.window_count).unwrap_or_default() {
            let found = Window::load(bytes, usize::from(window.at));
            differs |= (found ^ window.value) & window.mask;
        }
        if differs != 0 {
            return Err(self.mismatch(bytes));
        }
        if message.len() != self.octets {
            self.padded(message, padding)?;
        }
        Ok(FixedMessage {
            layout: self,
            bytes,
        })
    }

    /// Names the first octet that differs.
    #[cold]
    fn mismatch(&self, bytes: &[u8]) -> FixedError {
        let windows = self.windows.get(..self.window_count).unwrap_or_default();
        for window in windows {
            let at = usize::from(window.at);
            let found = Window::load(bytes, at);
            let differs = (found ^ window.value) & window.mask;
            if differs != 0 {
                let octet = differs.trailing_zeros() as usize / 8;
                return FixedError::Mismatch {
                    at: at + octet,
                    expected: window.value.to_le_bytes()[octet],
                    found: found.to_le_bytes()[octet],
                };
            }
        }
        FixedError::Mismatch {
            at: 0,
            expected: 0,
            found: 0,
        }
    }

    /// Tells a heartbeat from a truncated message.
    #[cold]
    fn too_short(&self, message: &[u8]) -> FixedError {
        let header = self
            .data_set(0)
            .map_or(0, |place| usize::from(place.data_at));
        let mut longer = [0; FIXED_OCTETS];
        if message.len() == header && self.data_set_count == 1 {
            longer[..self.octets].copy_from_slice(self.template());
            longer[..header].copy_from_slice(message);
            return match self.check(&longer[..self.octets], Padding::Refused) {
                Ok(_) => FixedError::Heartbeat,
                Err(error) => error,
            };
        }
        FixedError::Truncated {
            expected: self.octets,
            found: message.len(),
        }
    }

    /// Judges octets behind the message.
    #[cold]
    fn padded(&self, message: &[u8], padding: Padding) -> Result<(), FixedError> {
        let rest = message.get(self.octets..).unwrap_or_default();
        if padding == Padding::Refused
            || message.len() > PADDED_OCTETS
            || rest.iter().any(|octet| *octet != 0)
        {
            return Err(FixedError::TooLong {
                expected: self.octets,
                found: message.len(),
            });
        }
        let at = self
            .data_set(0)
            .map_or(0, |place| usize::from(place.data_at));
        let data = message.get(at..).unwrap_or_default();
        if padding == Padding::Ethernet && data.iter().all(|octet| *octet == 0) {
            return Err(FixedError::Ambiguous { at });
        }
        Ok(())
    }
}

impl<'a> FixedMessage<'a, '_> {
    /// Returns header and payload, without padding.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads a field. Returns `None` only for a field of another layout that is not within this message.
    #[must_use]
    #[inline]
    pub fn get<T: FixedValue>(&self, field: FixedField<T>) -> Option<T> {
        T::get(field.at, self.bytes)
    }

    /// Returns a data set's fields as they lie in the message.
    #[must_use]
    #[inline]
    pub fn data(&self, data_set: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.layout.data(data_set)?)
    }

    /// Returns the group's sequence number.
    #[must_use]
    #[inline]
    pub fn sequence(&self) -> Option<u16> {
        get(self.bytes, self.layout.sequence).map(u16::from_le_bytes)
    }

    /// Returns the time of sending.
    #[must_use]
    #[inline]
    pub fn time(&self) -> Option<DateTime> {
        get(self.bytes, self.layout.timestamp).map(|octets| DateTime(i64::from_le_bytes(octets)))
    }

    /// Returns a data set's sequence number.
    #[must_use]
    #[inline]
    pub fn data_set_sequence(&self, data_set: usize) -> Option<u16> {
        let place = self.layout.data_set(data_set)?;
        get(self.bytes, place.sequence).map(u16::from_le_bytes)
    }

    /// Returns a data set's time.
    #[must_use]
    #[inline]
    pub fn data_set_time(&self, data_set: usize) -> Option<DateTime> {
        let place = self.layout.data_set(data_set)?;
        get(self.bytes, place.timestamp).map(|octets| DateTime(i64::from_le_bytes(octets)))
    }

    /// Returns a data set's status.
    #[must_use]
    #[inline]
    pub fn data_set_status(&self, data_set: usize) -> Option<u16> {
        let place = self.layout.data_set(data_set)?;
        get(self.bytes, place.status).map(u16::from_le_bytes)
    }
}

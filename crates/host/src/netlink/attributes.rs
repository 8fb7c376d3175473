//! Netlink attributes as bytes: read leniently, written as the kernel's headers lay them out.
//!
//! The kernel may return any version of a structure. So every reader takes the fields that are present and returns
//! `None` for the others. No bytes make these functions panic.

/// The mask of the kind. Its upper bits tell the coding of the value.
const KIND_MASK: u16 = 0x3fff;
const NESTED: u16 = 0x8000;
const HEADER_BYTES: usize = 4;

/// Iterates over the attributes in `bytes`; stops at the first that does not fit.
pub(crate) fn each(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & KIND_MASK;
        let value = bytes.get(HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Returns the first attribute of a kind.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    each(bytes)
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

/// Returns the attribute at the end of a path of nested ones.
pub(crate) fn find_path<'a>(bytes: &'a [u8], path: &[u16]) -> Option<&'a [u8]> {
    path.iter()
        .try_fold(bytes, |inside, kind| find(inside, *kind))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array(bytes, at).map(i32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

/// Reads a number of one, two, four or eight bytes.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    match value.len() {
        1 => value.first().map(|octet| u64::from(*octet)),
        2 => u16_at(value, 0).map(u64::from),
        4 => u32_at(value, 0).map(u64::from),
        8 => u64_at(value, 0),
        _ => None,
    }
}

/// Reads a text, without the zero at its end.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|octet| *octet == 0)
        .unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Attributes being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Begins after a header of the message's own.
    pub(crate) fn behind(header: &[u8]) -> Self {
        Self(header.to_vec())
    }

    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        // All attributes written here are far below the length field's 64 KiB.
        let length = u16::try_from(value.len() + HEADER_BYTES).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn u8(self, kind: u16, value: u8) -> Self {
        self.bytes(kind, &[value])
    }

    pub(crate) fn u16(self, kind: u16, value: u16) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    #[cfg(test)]
    pub(crate) fn u64(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub(crate) fn nested(self, kind: u16, inner: Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = Writer::default()
            .u8(1, 7)
            .text(2, "veth")
            .nested(3, Writer::default().u32(1, 9).u64(2, 10))
            .finish();
        assert_eq!(find(&bytes, 1).and_then(number), Some(7));
        assert_eq!(find(&bytes, 2).map(text).as_deref(), Some("veth"));
        assert_eq!(find_path(&bytes, &[3, 1]).and_then(number), Some(9));
        assert_eq!(find_path(&bytes, &[3, 2]).and_then(number), Some(10));
        assert_eq!(find_path(&bytes, &[3, 5]), None);
        assert_eq!(bytes.len() % 4, 0);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic_or_run_for_ever(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(each(&bytes).count() <= bytes.len() / 4);
            for kind in 0..8 {
                let _ = find(&bytes, kind).map(|value| (number(value), text(value)));
            }
        }
    }
}

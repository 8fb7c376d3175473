//! Bytes of the control protocol: a writer, and a reader that refuses what is too short, too long or out of form.
//!
//! Numbers are in network byte order. A text is its length in one byte, then that many bytes of UTF-8.

/// The bytes are not a message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The message ends inside of a field.
    #[error("the message ends inside of its field `{0}`: it was cut off")]
    CutOff(&'static str),
    /// Bytes follow the last field.
    #[error("{0} bytes follow the last field of the message")]
    TooLong(usize),
    /// A field has a value that the protocol does not know.
    #[error("the field `{0}` has a value that this version does not know")]
    Value(&'static str),
    /// The first bytes are not those of the protocol.
    #[error("this is no message of the manager's protocol")]
    Foreign,
    /// The message is of another version.
    #[error("the message is of version {0} of the protocol; this rtwire speaks version 1")]
    Version(u8),
}

/// Collects the fields of a message.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer {
            bytes: Vec::with_capacity(512),
        }
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.raw(&value.to_be_bytes());
    }

    /// Writes a text, cut to 255 bytes at a character's end.
    pub(crate) fn text(&mut self, text: &str) {
        let mut end = text.len().min(255);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // At most 255, by the line above.
        self.u8(end as u8);
        self.raw(&text.as_bytes()[..end]);
    }
}

/// Takes a message apart.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn take(
        &mut self,
        count: usize,
        field: &'static str,
    ) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(CodecError::CutOff(field))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], CodecError> {
        let taken = self.take(N, field)?;
        taken.try_into().map_err(|_| CodecError::CutOff(field))
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, CodecError> {
        Ok(u8::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, CodecError> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, CodecError> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, CodecError> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn u128(&mut self, field: &'static str) -> Result<u128, CodecError> {
        Ok(u128::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, CodecError> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CodecError::Value(field)),
        }
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, CodecError> {
        let count = usize::from(self.u8(field)?);
        let bytes = self.take(count, field)?;
        core::str::from_utf8(bytes).map_err(|_| CodecError::Value(field))
    }

    /// Reads a name of the network: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub(crate) fn name(&mut self, field: &'static str) -> Result<&'a str, CodecError> {
        let text = self.text(field)?;
        if is_name(text) {
            Ok(text)
        } else {
            Err(CodecError::Value(field))
        }
    }

    pub(crate) fn end(self) -> Result<(), CodecError> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(CodecError::TooLong(more)),
        }
    }
}

/// Returns true if a text may be the name of a node: 1 to 64 letters, digits, `-`, `_` and `.`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= 64 && text.bytes().all(fits)
}

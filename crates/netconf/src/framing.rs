//! Messages in a stream of bytes (RFC 6242, sections 4.2 and 4.3).

use crate::error::{NetconfError, begin};

/// The end of a message in NETCONF 1.0.
const END: &[u8] = b"]]>]]>";
/// The largest message in bytes. The settings of a large switch have some hundred kilobytes.
const LARGEST: usize = 64 << 20;
/// The characters of the longest chunk header: `\n#4294967295\n`.
const LONGEST_HEADER: usize = 13;

/// The framing of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// NETCONF 1.0 and every hello: `]]>]]>` behind each message.
    EndOfMessage,
    /// NETCONF 1.1: chunks with their length.
    Chunked,
}

/// Writes a message with its framing.
#[must_use]
pub fn encode(framing: Framing, message: &str) -> Vec<u8> {
    let bytes = message.as_bytes();
    match framing {
        Framing::EndOfMessage => [bytes, END].concat(),
        // An empty chunk is not allowed.
        Framing::Chunked if bytes.is_empty() => b"\n##\n".to_vec(),
        Framing::Chunked => {
            let head = format!("\n#{}\n", bytes.len());
            [head.as_bytes(), bytes, b"\n##\n"].concat()
        }
    }
}

/// Finds messages in the bytes that come.
#[derive(Debug)]
pub struct Decoder {
    framing: Framing,
    /// Bytes that are not decoded yet.
    waiting: Vec<u8>,
    /// The bytes of `waiting` in which no message ends.
    searched: usize,
    /// The chunks of the present message.
    message: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Returns a decoder for the first message, which is a hello.
    #[must_use]
    pub fn new() -> Self {
        Self {
            framing: Framing::EndOfMessage,
            waiting: Vec::new(),
            searched: 0,
            message: Vec::new(),
        }
    }

    /// Sets the framing of the bytes behind the last message.
    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
        self.searched = 0;
    }

    /// Takes bytes that have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Returns the first characters of what has come and is no whole message.
    #[must_use]
    pub fn rest(&self) -> String {
        begin(&self.waiting)
    }

    /// Returns the next message, without its framing; `None` if it is not whole yet.
    ///
    /// # Errors
    /// [`NetconfError::Framing`] and [`NetconfError::TooLong`]: the stream cannot be used any more.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, NetconfError> {
        let found = match self.framing {
            Framing::EndOfMessage => self.end_of_message(),
            Framing::Chunked => self.chunks()?,
        };
        if found.is_none() && self.waiting.len().max(self.message.len()) > LARGEST {
            return Err(NetconfError::TooLong { limit: LARGEST });
        }
        Ok(found)
    }

    fn end_of_message(&mut self) -> Option<Vec<u8>> {
        let from = self.searched.min(self.waiting.len());
        let place = self.waiting[from..]
            .windows(END.len())
            .position(|window| window == END);
        let Some(place) = place else {
            self.searched = (self.waiting.len() + 1).saturating_sub(END.len());
            return None;
        };
        let behind = self.waiting.split_off(from + place + END.len());
        let mut message = std::mem::replace(&mut self.waiting, behind);
        message.truncate(from + place);
        self.searched = 0;
        Some(message)
    }

    fn chunks(&mut self) -> Result<Option<Vec<u8>>, NetconfError> {
        let mut at = 0;
        let mut whole = None;
        while whole.is_none() {
            match header(&self.waiting[at..])? {
                Header::Short => break,
                Header::End(behind) => {
                    at += behind;
                    whole = Some(std::mem::take(&mut self.message));
                }
                Header::Chunk { behind, length } => {
                    if self.message.len().saturating_add(length) > LARGEST {
                        return Err(NetconfError::TooLong { limit: LARGEST });
                    }
                    let Some(chunk) = self.waiting.get(at + behind..at + behind + length) else {
                        break;
                    };
                    self.message.extend_from_slice(chunk);
                    at += behind + length;
                }
            }
        }
        self.waiting.drain(..at);
        Ok(whole)
    }
}

/// The beginning of chunked bytes.
enum Header {
    /// More bytes are needed.
    Short,
    /// The message is whole; the bytes of the mark.
    End(usize),
    /// The bytes of the header, and of the chunk behind it.
    Chunk { behind: usize, length: usize },
}

fn header(bytes: &[u8]) -> Result<Header, NetconfError> {
    let wrong = |what| {
        Err(NetconfError::Framing {
            what,
            begin: begin(bytes),
        })
    };
    let mark = b"\n#";
    if !bytes.starts_with(&mark[..bytes.len().min(2)]) {
        return wrong("a chunk must begin");
    }
    let Some(third) = bytes.get(2) else {
        return Ok(Header::Short);
    };
    if *third == b'#' {
        return match bytes.get(3) {
            None => Ok(Header::Short),
            Some(b'\n') => Ok(Header::End(4)),
            Some(_) => wrong("a line must end behind `##`"),
        };
    }
    let digits = bytes[2..].iter().take_while(|one| one.is_ascii_digit());
    let behind = 2 + digits.count();
    if !(b'1'..=b'9').contains(third) || behind >= LONGEST_HEADER {
        return wrong("the length of a chunk is wrong");
    }
    match bytes.get(behind) {
        None => Ok(Header::Short),
        Some(b'\n') => {
            let text = std::str::from_utf8(&bytes[2..behind]).unwrap_or_default();
            match text.parse::<u32>() {
                Ok(length) => Ok(Header::Chunk {
                    behind: behind + 1,
                    length: length as usize,
                }),
                Err(_) => wrong("the length of a chunk is wrong"),
            }
        }
        Some(_) => wrong("the length of a chunk is wrong"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(decoder: &mut Decoder) -> Vec<String> {
        let next = || decoder.next_message().unwrap();
        std::iter::from_fn(next)
            .map(|message| String::from_utf8(message).unwrap())
            .collect()
    }

    /// The example of RFC 6242, section 4.2.
    #[test]
    fn chunks_of_the_rfc_are_one_message() {
        let mut decoder = Decoder::new();
        decoder.set_framing(Framing::Chunked);
        decoder.push(b"\n#4\n<rpc\n#18\n message-id=\"102\"\n\n#79\n     xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\">\n  <close-session/>\n</rpc>\n##\n");
        assert_eq!(
            all(&mut decoder),
            [
                "<rpc message-id=\"102\"\n     xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\">\n  <close-session/>\n</rpc>"
            ]
        );
    }

    #[test]
    fn wrong_chunks_end_the_session() {
        for wrong in [
            "x",
            "\nx",
            "\n#x",
            "\n#0\n",
            "\n#04\nabcd",
            "\n#4x",
            "\n##x",
            "\n#4294967296\n",
            "\n#12345678901",
            "\n#4\nabcdX",
        ] {
            let mut decoder = Decoder::new();
            decoder.set_framing(Framing::Chunked);
            decoder.push(wrong.as_bytes());
            assert!(decoder.next_message().is_err(), "{wrong:?}");
        }
        let mut decoder = Decoder::new();
        decoder.set_framing(Framing::Chunked);
        decoder.push(b"\n#4294967295\n");
        assert!(matches!(
            decoder.next_message(),
            Err(NetconfError::TooLong { .. })
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn messages_come_back_however_they_are_cut(
            hello in "[a-z\\]>]{0,30}", others in prop::collection::vec("[ -~\n]{1,40}", 0..5),
            cuts in prop::collection::vec(1_usize..20, 1..6), chunked: bool,
        ) {
            prop_assume!(!hello.contains("]]>]]>") && !format!("{hello}]]>]]>")[..hello.len() + 5].contains("]]>]]>"));
            let later = if chunked { Framing::Chunked } else { Framing::EndOfMessage };
            let others: Vec<String> = others.into_iter().map(|one| one.replace(']', ".")).collect();
            let mut bytes = encode(Framing::EndOfMessage, &hello);
            bytes.extend(others.iter().flat_map(|one| encode(later, one)));
            let mut decoder = Decoder::new();
            let mut found = Vec::new();
            let (mut at, mut nth) = (0, 0);
            while at < bytes.len() {
                let to = bytes.len().min(at + cuts[nth % cuts.len()]);
                decoder.push(&bytes[at..to]);
                (at, nth) = (to, nth + 1);
                while let Some(message) = decoder.next_message().unwrap() {
                    found.push(String::from_utf8(message).unwrap());
                    decoder.set_framing(later);
                }
            }
            prop_assert_eq!(found.remove(0), hello);
            prop_assert_eq!(found, others);
        }

        #[test]
        fn no_bytes_make_it_fall(bytes in prop::collection::vec(prop::sample::select(b"\n#0159]>x".to_vec()), 0..60), chunked: bool) {
            let mut decoder = Decoder::new();
            if chunked { decoder.set_framing(Framing::Chunked); }
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_message() {}
        }
    }
}

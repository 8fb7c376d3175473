//! Chunks of one DataSetMessage, joined again in their order.

use rtwire_wire::uadp::Chunk;

/// The longest message that is joined.
const MOST_OCTETS: u32 = 1 << 16;

/// The fate of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// More are missing.
    Part,
    /// It was the last one.
    Whole,
    /// One before it is missing, or it came twice: it was thrown away, and with it what was collected.
    Broken,
}

/// A message that is being collected.
#[derive(Clone, Debug, Default)]
pub(super) struct Joint {
    /// The number and the bytes of the message; `None` between messages.
    wanted: Option<(u16, u32)>,
    octets: Vec<u8>,
}

impl Joint {
    /// Takes a chunk. The first message of a new length allocates, others do not.
    pub(super) fn add(&mut self, chunk: &Chunk<'_>) -> Added {
        let own = (chunk.sequence, chunk.total_octets);
        if chunk.offset == 0 && own.1 <= MOST_OCTETS {
            // The beginning of a message: the one before it has ended, or never will.
            let broken = self.wanted.is_some();
            self.wanted = Some(own);
            self.octets.clear();
            self.octets.reserve(own.1 as usize);
            self.octets.extend_from_slice(chunk.data);
            if broken {
                return Added::Broken;
            }
        } else if self.wanted == Some(own) && chunk.offset as usize == self.octets.len() {
            self.octets.extend_from_slice(chunk.data);
        } else {
            // Counted once for each message.
            let collecting = self.wanted.take().is_some();
            return if collecting {
                Added::Broken
            } else {
                Added::Part
            };
        }
        if self.octets.len() < own.1 as usize {
            return Added::Part;
        }
        self.wanted = None;
        Added::Whole
    }

    /// The message, where the last chunk made it whole.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::{Added, Joint};
    use rtwire_wire::uadp::Chunk;

    fn chunk(sequence: u16, offset: u32, data: &[u8]) -> Chunk<'_> {
        Chunk {
            sequence,
            offset,
            total_octets: 6,
            data,
        }
    }

    #[test]
    fn chunks_in_order_are_one_message_and_a_missing_one_breaks_it() {
        let mut joint = Joint::default();
        assert_eq!(joint.add(&chunk(1, 0, b"abc")), Added::Part);
        assert_eq!(joint.add(&chunk(1, 3, b"def")), Added::Whole);
        assert_eq!(joint.octets(), b"abcdef");
        assert_eq!(joint.add(&chunk(2, 0, b"ab")), Added::Part);
        assert_eq!(joint.add(&chunk(2, 4, b"ef")), Added::Broken);
        assert_eq!(joint.add(&chunk(2, 2, b"cd")), Added::Part);
        // A new one ends what was begun.
        assert_eq!(joint.add(&chunk(3, 0, b"abc")), Added::Part);
        assert_eq!(joint.add(&chunk(4, 0, b"ghi")), Added::Broken);
        assert_eq!(joint.add(&chunk(4, 3, b"jkl")), Added::Whole);
        assert_eq!(joint.octets(), b"ghijkl");
        let long = Chunk {
            total_octets: 1 << 17,
            ..chunk(5, 0, b"abc")
        };
        assert_eq!(joint.add(&long), Added::Part);
        assert_eq!(joint.octets(), b"ghijkl");
    }
}

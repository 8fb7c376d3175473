//! Fields of a question that are copied into its answer.

use super::layout::{PATCH_OCTETS, PATCH_QUESTION, PATCHES};
use super::{MAXIMUM_REPLY_OCTETS, ProgramError};

/// Source of a patch's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchSource {
    /// The question's user data from this byte on, among its first 128 bytes; zeros beyond its end.
    Question {
        /// Offset of the first byte.
        offset: u8,
    },
    /// The question's sequence number: four bytes, network byte order.
    Sequence,
    /// The question's arrival time in ns of CLOCK_TAI: eight bytes, network byte order.
    ArrivalTime,
}

/// A field of the answer that is copied from the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Source of the bytes.
    pub source: PatchSource,
    /// Number of bytes: at most 16, for a sequence number 4, for a time 8.
    pub octets: u8,
    /// Offset in the answer's content, in bytes.
    pub place: u16,
}

/// Offsets in `struct rtw_patch_source`, the source of all patches of one question.
const SEQUENCE_AT: usize = PATCH_QUESTION;
const ARRIVAL_AT: usize = PATCH_QUESTION + 8;
const SOURCE_OCTETS: usize = PATCH_QUESTION + 16;

impl Patch {
    fn from(&self) -> usize {
        match self.source {
            PatchSource::Question { offset } => offset.into(),
            PatchSource::Sequence => SEQUENCE_AT,
            PatchSource::ArrivalTime => ARRIVAL_AT,
        }
    }

    /// Returns the word that describes the patch to the program.
    pub(super) fn word(&self) -> u64 {
        u64::from(self.octets) | (self.from() as u64) << 16 | u64::from(self.place) << 32
    }

    fn is_possible(&self, content: usize) -> bool {
        let octets = usize::from(self.octets);
        let there = match self.source {
            PatchSource::Question { offset } => PATCH_QUESTION.saturating_sub(offset.into()),
            PatchSource::Sequence => 4,
            PatchSource::ArrivalTime => 8,
        };
        (1..=PATCH_OCTETS.min(there)).contains(&octets)
            && usize::from(self.place) + octets <= content
    }
}

/// Checks that a content with its patches can be an answer.
pub(crate) fn check(content: &[u8], patches: &[Patch]) -> Result<(), ProgramError> {
    if content.len() > MAXIMUM_REPLY_OCTETS {
        return Err(ProgramError::TooLong {
            octets: content.len(),
        });
    }
    let wrong = patches
        .iter()
        .position(|patch| !patch.is_possible(content.len()));
    match wrong {
        None if patches.len() <= PATCHES => Ok(()),
        None => Err(ProgramError::Patch { number: PATCHES }),
        Some(number) => Err(ProgramError::Patch { number }),
    }
}

/// Copies the fields of a question into an answer's content, as the program does.
pub(crate) fn apply(
    patches: &[Patch],
    question: &[u8],
    sequence: u32,
    arrival_ns: u64,
    content: &mut [u8],
) {
    let mut source = [0; SOURCE_OCTETS];
    let there = question.len().min(PATCH_QUESTION);
    source[..there].copy_from_slice(&question[..there]);
    source[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
    source[ARRIVAL_AT..].copy_from_slice(&arrival_ns.to_be_bytes());
    for patch in patches {
        let (octets, place) = (usize::from(patch.octets), usize::from(patch.place));
        let from = source.get(patch.from()..patch.from() + octets);
        if let (Some(from), Some(to)) = (from, content.get_mut(place..place + octets)) {
            to.copy_from_slice(from);
        }
    }
}

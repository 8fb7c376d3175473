//! The evidence of one host's end of a run, as a file: its form, and how it is read and written.
//!
//! ```text
//!  file   = magic, block, block, …                     all integers little-endian
//!  block  = kind (1 byte), length (4), check of both (4), payload (length), check of the payload (4)
//!  blocks = header, { frames sent | stamps | arrivals | mark }, talker totals, listener totals, noise, stalls, end
//! ```
//!
//! Each check is a CRC-32 that begins with the check before it. So a changed byte and a block that was left out, doubled or
//! moved are found ([`EvidenceError::Damaged`]). A file without an end block is *truncated*: what it has is right, and it
//! says that the rest is missing ([`HostAccount::is_truncated`]). `docs/evidence.md` describes each block.
//!
//! The check protects from accidents. Who can compute a CRC can write a file of his own.

mod blocks;
mod check;
mod model;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use blocks::Source;
pub use model::{
    ArrivalRecord, ClockBasis, ClockLook, End, FORMAT, Header, HostAccount, HostEvidence,
    ListenerEntry, ListenerTotals, Mark, SentRecord, StampKind, StampRecord, TalkerEntry,
    TalkerTotals, Unkept,
};
pub use read::{EvidenceError, Opened, Witness, is_evidence, read};
pub use write::{Encoder, RECORDS_IN_A_BLOCK};

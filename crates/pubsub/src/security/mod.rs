//! Message security of OPC UA Part 14: signature, encryption, nonces, replays, change of keys.
//!
//! ```text
//!  ExtendedFlags1 … │ security header            │ sizes, DataSetMessages │ signature
//!                   │ flags token length nonce   │ ◄─── AES-CTR ────────► │ HMAC-SHA-256
//!  ◄──────────────────────── signed ───────────────────────────────────► │ 32 bytes
//! ```
//!
//! The nonce is four random bytes and a counter. Two messages of one key never carry the same nonce: [`NonceCounter`]
//! hands out only numbers that the station has reserved in a file before.

mod key;
mod nonce;
mod open;
mod replay;
mod schedule;
mod seal;
mod service;

pub use key::{Algorithm, Key, KeyError, KeyMaterial, SIGNATURE_BYTES};
pub use nonce::NonceCounter;
pub use open::{MOST_KEYS, OpenFault, Opened, Opener, Source};
pub use replay::{Fresh, ReplayWindow};
pub use schedule::{KeySchedule, KeyStep, MOST_TO_COME, Served};
pub use seal::{SECURITY_HEADER_BYTES, SealFault, Sealer};
pub use service::{KeyAnswer, KeyAnswerFault, LEAST_LIFETIME_NS, ServedKeys};

/// The protection of a group's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SecurityMode {
    /// Neither signed nor encrypted.
    #[default]
    None,
    /// Signed: a receiver notices every change, everybody can read.
    Sign,
    /// Signed, and the DataSetMessages are encrypted.
    SignAndEncrypt,
}

impl SecurityMode {
    /// Returns the flags of the security header: bit 0 signed, bit 1 encrypted.
    #[must_use]
    pub const fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Sign => 1,
            Self::SignAndEncrypt => 3,
        }
    }

    /// Returns true where messages are signed.
    #[must_use]
    pub const fn is_secured(self) -> bool {
        !matches!(self, Self::None)
    }
}

//! Verifies and decrypts the messages that a reader group receives.

use super::SecurityMode;
use super::key::{Key, SIGNATURE_BYTES};
use super::replay::{Fresh, ReplayWindow};

/// Keys held at once: the present one, those to come, and the last one for frames that are still on their way.
pub const MOST_KEYS: usize = 8;
/// Senders whose nonces are watched, for each key.
const MOST_SOURCES: usize = 64;

const SIGNED: u8 = 1;
const ENCRYPTED: u8 = 2;
const FOOTER: u8 = 4;

/// The reason why a message is not what a member of the security group has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenFault {
    /// The message ends before its security header or signature.
    #[error("the message ends before its security header or signature")]
    Truncated,
    /// The message is less protected than the group asks for.
    #[error("the message is less protected than the reader group asks for")]
    TooOpen,
    /// No key has this token.
    #[error("no key has the token {token}; is the key file of both ends the same?")]
    UnknownToken {
        /// The token in the message.
        token: u32,
    },
    /// The nonce is not 8 bytes long.
    #[error("the nonce has {bytes} bytes, but 8 are needed")]
    NonceLength {
        /// The bytes in the message.
        bytes: u8,
    },
    /// The signature is not that of a holder of the key.
    #[error("the signature is wrong: the sender has another key, or the message was changed")]
    WrongSignature,
    /// The nonce was used before.
    #[error("the nonce was used before: a replay, or a publisher that repeats its nonce")]
    Replay,
    /// More senders than are watched.
    #[error("more than {MOST_SOURCES} senders use one key; their replays cannot be noticed")]
    TooManySources,
}

/// The sender of a message, as the replay window tells senders apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// A number for the PublisherId.
    pub publisher: u64,
    /// The WriterGroupId; 0 where the message has none.
    pub writer_group: u16,
}

/// A message that was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The place of the first byte behind the security header.
    pub payload: usize,
    /// The place behind the last byte of the DataSetMessages.
    pub end: usize,
    /// The key's token.
    pub token: u32,
}

#[derive(Clone, Debug)]
struct Held {
    key: Key,
    windows: Vec<(Source, ReplayWindow)>,
}

/// The keys of one security group's receiver, and what was seen under each.
#[derive(Clone, Debug)]
pub struct Opener {
    mode: SecurityMode,
    keys: Vec<Held>,
    repeated_nonces: bool,
}

impl Opener {
    /// Opens messages that are protected at least as `mode` asks.
    #[must_use]
    pub fn new(mode: SecurityMode) -> Self {
        Self {
            mode,
            keys: Vec::with_capacity(MOST_KEYS),
            repeated_nonces: false,
        }
    }

    /// Accepts publishers that repeat their nonce. Replays are accepted then, too.
    #[must_use]
    pub fn accepting_repeated_nonces(mut self, accept: bool) -> Self {
        self.repeated_nonces = accept;
        self
    }

    /// Adds a key. One with the same secret bytes stays as it is, with what was seen under it; another one with the same
    /// token is replaced. Beyond [`MOST_KEYS`] the oldest is forgotten, with what was seen under it: call
    /// [`keep_keys`](Self::keep_keys) first.
    pub fn add_key(&mut self, key: Key) {
        let known = |held: &Held| held.key.fingerprint() == key.fingerprint();
        if self.keys.iter().any(known) {
            return;
        }
        self.keys.retain(|held| held.key.token() != key.token());
        if self.keys.len() == MOST_KEYS {
            self.keys.remove(0);
        }
        self.keys.push(Held {
            key,
            windows: Vec::with_capacity(MOST_SOURCES),
        });
    }

    /// Forgets all keys but those with one of `tokens`.
    pub fn keep_keys(&mut self, tokens: &[u32]) {
        self.keys.retain(|held| tokens.contains(&held.key.token()));
    }

    /// The tokens of the keys held, oldest first.
    pub fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        self.keys.iter().map(|held| held.key.token())
    }

    /// Verifies a message, and decrypts it in place. `at` is the place of its security header. No allocation.
    ///
    /// # Errors
    /// The message is not what a member of the group has sent, or was seen before. It is unchanged then.
    pub fn open(
        &mut self,
        message: &mut [u8],
        at: usize,
        source: Source,
    ) -> Result<Opened, OpenFault> {
        let header = message.get(at..).ok_or(OpenFault::Truncated)?;
        let [flags, t0, t1, t2, t3, length, rest @ ..] = header else {
            return Err(OpenFault::Truncated);
        };
        let flags = *flags;
        let wanted = self.mode.flags();
        if flags & wanted != wanted || flags & SIGNED == 0 {
            return Err(OpenFault::TooOpen);
        }
        let token = u32::from_le_bytes([*t0, *t1, *t2, *t3]);
        if *length != 8 {
            return Err(OpenFault::NonceLength { bytes: *length });
        }
        let nonce: [u8; 8] = *rest.first_chunk().ok_or(OpenFault::Truncated)?;
        let mut payload = at + 6 + 8;
        let mut footer = 0;
        if flags & FOOTER != 0 {
            let size = rest.get(8..10).ok_or(OpenFault::Truncated)?;
            footer = usize::from(u16::from_le_bytes([size[0], size[1]]));
            payload += 2;
        }
        let signed = message.len().checked_sub(SIGNATURE_BYTES);
        let signed = signed.ok_or(OpenFault::Truncated)?;
        let end = signed.checked_sub(footer).ok_or(OpenFault::Truncated)?;
        if end < payload {
            return Err(OpenFault::Truncated);
        }
        let held = self.keys.iter_mut().find(|held| held.key.token() == token);
        let held = held.ok_or(OpenFault::UnknownToken { token })?;
        let (content, signature) = message.split_at_mut(signed);
        if !held.key.verify(content, signature) {
            return Err(OpenFault::WrongSignature);
        }
        // Behind the signature: only a holder of the key may use up a place.
        if !self.repeated_nonces {
            let counter = u32::from_le_bytes([nonce[4], nonce[5], nonce[6], nonce[7]]);
            held.fresh(source, counter)?;
        }
        if flags & ENCRYPTED != 0 {
            held.key.apply(nonce, &mut content[payload..end]);
        }
        Ok(Opened {
            payload,
            end,
            token,
        })
    }
}

impl Held {
    fn fresh(&mut self, source: Source, counter: u32) -> Result<(), OpenFault> {
        let place = self.windows.iter().position(|(known, _)| *known == source);
        let place = match place {
            Some(place) => place,
            None if self.windows.len() == MOST_SOURCES => return Err(OpenFault::TooManySources),
            None => {
                self.windows.push((source, ReplayWindow::default()));
                self.windows.len() - 1
            }
        };
        match self.windows[place].1.take(counter) {
            Fresh::New => Ok(()),
            Fresh::Repeated | Fresh::TooOld => Err(OpenFault::Replay),
        }
    }
}

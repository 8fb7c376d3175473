//! The answer of a security key service: the results of the standard's method GetSecurityKeys (OPC 10000-14, 8.3.2).

use super::key::{Algorithm, KeyError, KeyMaterial};

/// The beginning of the URI of each policy.
const POLICIES: &str = "http://opcfoundation.org/UA/SecurityPolicy#";
/// The shortest lifetime of a key that stations can follow, ns: they look at their files every 20 ms.
pub const LEAST_LIFETIME_NS: u64 = 500_000_000;
/// Longer times are taken as this one, ns: a hundred years.
const LONGEST_NS: f64 = 3.2e18;

/// The results of GetSecurityKeys as the service sent them.
#[derive(Clone, PartialEq)]
pub struct KeyAnswer {
    /// SecurityPolicyUri.
    pub policy: String,
    /// FirstTokenId: the token of the first key.
    pub first_token: u32,
    /// Keys: each in a row of signing key, encrypting key and key nonce. The first is current.
    pub keys: Vec<Vec<u8>>,
    /// TimeToNextKey, ms.
    pub time_to_next_key_ms: f64,
    /// KeyLifetime, ms.
    pub key_lifetime_ms: f64,
}

impl core::fmt::Debug for KeyAnswer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (first, count) = (self.first_token, self.keys.len());
        write!(f, "KeyAnswer({count} keys from token {first})")
    }
}

/// The reason why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyAnswerFault {
    /// Another policy.
    #[error(
        "the service's security policy is `{found}`; stations know PubSub-Aes128-CTR and PubSub-Aes256-CTR: give the security group one of them"
    )]
    Policy {
        /// The policy's address.
        found: String,
    },
    /// No key.
    #[error("the service sent no key; does the security group have any?")]
    Empty,
    /// A key's row has a wrong length, or the first token is 0.
    #[error("the service's key {place}: {fault}")]
    Key {
        /// The place in the answer, from 1.
        place: usize,
        /// The fault.
        fault: KeyError,
    },
    /// The lifetime of keys is too short, or no number.
    #[error(
        "the service's KeyLifetime is {ms} ms; stations need at least {} ms",
        LEAST_LIFETIME_NS / 1_000_000
    )]
    Lifetime {
        /// The lifetime, ms.
        ms: f64,
    },
    /// The time to the next key is no time.
    #[error("the service's TimeToNextKey is {ms} ms, which is no time from now on")]
    TimeToNext {
        /// The time, ms.
        ms: f64,
    },
}

/// An answer that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKeys {
    /// The keys in their order; the first is current.
    pub(super) keys: Vec<KeyMaterial>,
    /// The time to the change to the second key, ns.
    pub(super) to_next_ns: u64,
    /// The lifetime of each key, ns.
    pub(super) lifetime_ns: u64,
}

/// Returns the token behind `token`: behind the largest comes 1, as 0 stands for no key.
#[must_use]
const fn token_after(token: u32) -> u32 {
    if token == u32::MAX { 1 } else { token + 1 }
}

impl KeyAnswer {
    /// Checks the answer.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<ServedKeys, KeyAnswerFault> {
        let known = [Algorithm::Aes128Ctr, Algorithm::Aes256Ctr];
        let name = self.policy.strip_prefix(POLICIES).unwrap_or(&self.policy);
        let algorithm = known.into_iter().find(|known| known.name() == name);
        let algorithm = algorithm.ok_or_else(|| KeyAnswerFault::Policy {
            found: self.policy.chars().take(200).collect(),
        })?;
        let mut token = self.first_token;
        let mut keys = Vec::with_capacity(self.keys.len());
        for (at, row) in self.keys.iter().enumerate() {
            let place = at + 1;
            let key = KeyMaterial::from_row(algorithm, token, row);
            keys.push(key.map_err(|fault| KeyAnswerFault::Key { place, fault })?);
            token = token_after(token);
        }
        if keys.is_empty() {
            return Err(KeyAnswerFault::Empty);
        }
        let ns = |ms: f64| (ms * 1e6).min(LONGEST_NS);
        // Written so that what is no number is refused.
        let (lifetime, to_next) = (ns(self.key_lifetime_ms), ns(self.time_to_next_key_ms));
        if self.key_lifetime_ms.is_nan() || lifetime < LEAST_LIFETIME_NS as f64 {
            let ms = self.key_lifetime_ms;
            return Err(KeyAnswerFault::Lifetime { ms });
        }
        if self.time_to_next_key_ms.is_nan() || to_next < 0.0 {
            let ms = self.time_to_next_key_ms;
            return Err(KeyAnswerFault::TimeToNext { ms });
        }
        Ok(ServedKeys {
            keys,
            to_next_ns: to_next as u64,
            lifetime_ns: lifetime as u64,
        })
    }
}

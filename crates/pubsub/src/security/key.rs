//! One key of a security group: its secret bytes, and their expanded form for signing and encrypting.

use aes::{Aes128Enc, Aes256Enc};
use ctr::CtrCore;
use ctr::cipher::{InnerIvInit as _, KeyInit as _, StreamCipher as _, StreamCipherCoreWrapper};
use ctr::flavors::Ctr32BE;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 32;
/// Bytes of a signing key.
const SIGNING_BYTES: usize = 32;
/// Bytes of the part of the nonce that belongs to the key.
const KEY_NONCE_BYTES: usize = 4;

/// The algorithms of a security group. Both sign with HMAC-SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// PubSub-Aes128-CTR.
    Aes128Ctr,
    /// PubSub-Aes256-CTR.
    Aes256Ctr,
}

impl Algorithm {
    /// Returns the bytes of an encrypting key.
    #[must_use]
    pub const fn encrypting_bytes(self) -> usize {
        match self {
            Self::Aes128Ctr => 16,
            Self::Aes256Ctr => 32,
        }
    }

    /// Returns the name of the standard's security policy, without the address before it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Ctr => "PubSub-Aes128-CTR",
            Self::Aes256Ctr => "PubSub-Aes256-CTR",
        }
    }
}

/// The reason why bytes are no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A part has the wrong length.
    #[error("the {part} has {found} bytes, but {algorithm} needs {needed}; write {needed} bytes")]
    Length {
        /// The part of the key.
        part: &'static str,
        /// The bytes found.
        found: usize,
        /// The bytes needed.
        needed: usize,
        /// The algorithm's name.
        algorithm: &'static str,
    },
    /// Token 0 stands for no key.
    #[error("a security token is 0, which stands for no key; number the keys from 1")]
    NoToken,
}

/// The secret bytes of one key. They are not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyMaterial {
    algorithm: Algorithm,
    token: u32,
    signing: Vec<u8>,
    encrypting: Vec<u8>,
    nonce: [u8; KEY_NONCE_BYTES],
}

impl core::fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            algorithm, token, ..
        } = self;
        write!(f, "KeyMaterial({}, token {token})", algorithm.name())
    }
}

impl KeyMaterial {
    /// Takes the three parts of a key.
    ///
    /// # Errors
    /// A part has the wrong length for the algorithm, or the token is 0.
    pub fn new(
        algorithm: Algorithm,
        token: u32,
        signing: &[u8],
        encrypting: &[u8],
        nonce: &[u8],
    ) -> Result<Self, KeyError> {
        let length = |part, found: &[u8], needed| match found.len() == needed {
            true => Ok(()),
            false => Err(KeyError::Length {
                part,
                found: found.len(),
                needed,
                algorithm: algorithm.name(),
            }),
        };
        length("signing key", signing, SIGNING_BYTES)?;
        length("encrypting key", encrypting, algorithm.encrypting_bytes())?;
        length("key nonce", nonce, KEY_NONCE_BYTES)?;
        if token == 0 {
            return Err(KeyError::NoToken);
        }
        let mut own = [0; KEY_NONCE_BYTES];
        own.copy_from_slice(nonce);
        Ok(Self {
            algorithm,
            token,
            signing: signing.to_vec(),
            encrypting: encrypting.to_vec(),
            nonce: own,
        })
    }

    /// Takes a key as the standard's GetSecurityKeys returns it: signing key, encrypting key and key nonce in a row.
    ///
    /// # Errors
    /// As [`KeyMaterial::new`].
    pub fn from_row(algorithm: Algorithm, token: u32, row: &[u8]) -> Result<Self, KeyError> {
        let needed = SIGNING_BYTES + algorithm.encrypting_bytes() + KEY_NONCE_BYTES;
        if row.len() != needed {
            return Err(KeyError::Length {
                part: "key",
                found: row.len(),
                needed,
                algorithm: algorithm.name(),
            });
        }
        let (signing, rest) = row.split_at(SIGNING_BYTES);
        let (encrypting, nonce) = rest.split_at(algorithm.encrypting_bytes());
        Self::new(algorithm, token, signing, encrypting, nonce)
    }

    /// The secret bytes: signing key, encrypting key, key nonce.
    #[must_use]
    pub fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        (&self.signing, &self.encrypting, &self.nonce)
    }

    /// The number that messages name this key by.
    #[must_use]
    pub const fn token(&self) -> u32 {
        self.token
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns a number that tells this key from others without revealing it, for the file of used nonces.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Sha256::new();
        hash.update(b"rtwire pubsub key");
        hash.update(self.token.to_le_bytes());
        hash.update(&self.signing);
        hash.update(&self.encrypting);
        hash.update(self.nonce);
        let digest = hash.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_be_bytes(first)
    }
}

/// The block cipher with its expanded key.
#[derive(Clone)]
enum Cipher {
    Aes128(Box<Aes128Enc>),
    Aes256(Box<Aes256Enc>),
}

/// One key, expanded: signs and encrypts without allocation.
#[derive(Clone)]
pub struct Key {
    token: u32,
    fingerprint: u64,
    signing: Hmac<Sha256>,
    cipher: Cipher,
    nonce: [u8; KEY_NONCE_BYTES],
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Key(token {})", self.token)
    }
}

impl Key {
    /// Expands a key.
    ///
    /// # Errors
    /// The material has a wrong length; [`KeyMaterial::new`] makes none of those.
    pub fn new(material: &KeyMaterial) -> Result<Self, KeyError> {
        let length = |part| KeyError::Length {
            part,
            found: material.encrypting.len(),
            needed: material.algorithm.encrypting_bytes(),
            algorithm: material.algorithm.name(),
        };
        let cipher = match material.algorithm {
            Algorithm::Aes128Ctr => Cipher::Aes128(Box::new(
                Aes128Enc::new_from_slice(&material.encrypting)
                    .map_err(|_| length("encrypting key"))?,
            )),
            Algorithm::Aes256Ctr => Cipher::Aes256(Box::new(
                Aes256Enc::new_from_slice(&material.encrypting)
                    .map_err(|_| length("encrypting key"))?,
            )),
        };
        let signing =
            Hmac::<Sha256>::new_from_slice(&material.signing).map_err(|_| length("signing key"))?;
        Ok(Self {
            token: material.token,
            fingerprint: material.fingerprint(),
            signing,
            cipher,
            nonce: material.nonce,
        })
    }

    /// The number that messages name this key by.
    #[must_use]
    pub const fn token(&self) -> u32 {
        self.token
    }

    /// The number of [`KeyMaterial::fingerprint`].
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Encrypts or decrypts `data` in place with a message's nonce.
    pub fn apply(&self, nonce: [u8; 8], data: &mut [u8]) {
        // Part 14: the key's nonce, the message's nonce, and a block counter that begins with 1, big endian.
        let mut block = [0; 16];
        block[..4].copy_from_slice(&self.nonce);
        block[4..12].copy_from_slice(&nonce);
        block[15] = 1;
        let block = block.into();
        match &self.cipher {
            Cipher::Aes128(cipher) => {
                let core = CtrCore::<_, Ctr32BE>::inner_iv_init(cipher.as_ref(), &block);
                StreamCipherCoreWrapper::from_core(core).apply_keystream(data);
            }
            Cipher::Aes256(cipher) => {
                let core = CtrCore::<_, Ctr32BE>::inner_iv_init(cipher.as_ref(), &block);
                StreamCipherCoreWrapper::from_core(core).apply_keystream(data);
            }
        }
    }

    /// Returns the signature over `data`.
    #[must_use]
    pub fn sign(&self, data: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut mac = self.signing.clone();
        mac.update(data);
        mac.finalize().into_bytes().into()
    }

    /// Returns true if `signature` is that of `data`. Takes the same time wherever they differ.
    #[must_use]
    pub fn verify(&self, data: &[u8], signature: &[u8]) -> bool {
        let mut mac = self.signing.clone();
        mac.update(data);
        mac.verify_slice(signature).is_ok()
    }
}

//! Messages on a byte stream, each with a MAC that is right in one place of one connection only.
//!
//! | part | bytes |
//! |---|---|
//! | hello of the deployer | `RTWD`, version 1, nonce of 32 bytes |
//! | hello of the door | the same, and HMAC-SHA-256 over both hellos |
//! | message | length of its content (4, network byte order), content, HMAC |
//!
//! The HMAC of a message is over the direction (1 byte), both nonces, its number in its direction (8) and its content, by the
//! host's key. So a recorded message is wrong in every other connection, and a message that is repeated, left out or moved is
//! wrong in this one. Contents are authenticated, not encrypted.

use std::io::{self, Read, Write};

use rtwire_manager::Key;

const MAGIC: [u8; 5] = *b"RTWD\x01";
const NONCE: usize = 32;
const MAC: usize = 32;
/// The bytes of a hello without its MAC.
const HELLO: usize = MAGIC.len() + NONCE;
/// The largest content, bytes: a plan of 100 000 streams, or the evidence of an hour.
const LARGEST: usize = 256 * 1024 * 1024;
/// The largest content before the other side has shown its key.
const LARGEST_UNKNOWN: usize = 1_024;
/// The bytes that are read at once: memory grows only with what has come.
const PART: usize = 64 * 1024;

/// The ends of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Deployer = 1,
    Door = 2,
}

/// A line on which both ends have the key, or will have to show it with their next message.
pub(crate) struct Line<S> {
    stream: S,
    key: Key,
    own: End,
    nonces: [u8; 2 * NONCE],
    sent: u64,
    received: u64,
}

/// A refused message.
#[derive(Debug)]
pub(crate) enum LineError {
    Io(io::Error),
    /// The MAC is wrong, or the form.
    Forged,
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> LineError {
        LineError::Io(error)
    }
}

fn hello(nonce: &[u8; NONCE]) -> Vec<u8> {
    let mut hello = MAGIC.to_vec();
    hello.extend_from_slice(nonce);
    hello
}

fn both(deployer: &[u8], door: &[u8]) -> [u8; 2 * NONCE] {
    let mut nonces = [0; 2 * NONCE];
    nonces[..NONCE].copy_from_slice(deployer);
    nonces[NONCE..].copy_from_slice(door);
    nonces
}

impl<S: Read + Write> Line<S> {
    /// Opens the deployer's end. The door has shown its key afterwards.
    pub(crate) fn deployer(
        mut stream: S,
        key: Key,
        nonce: [u8; NONCE],
    ) -> Result<Line<S>, LineError> {
        let own = hello(&nonce);
        stream.write_all(&own)?;
        stream.flush()?;
        let mut answer = [0; HELLO + MAC];
        stream.read_exact(&mut answer)?;
        let (theirs, _) = answer.split_at(HELLO);
        let mut sealed = own;
        sealed.extend_from_slice(&answer);
        if key.open(&sealed).is_none() || !theirs.starts_with(&MAGIC) {
            return Err(LineError::Forged);
        }
        Ok(Line {
            nonces: both(&nonce, &theirs[MAGIC.len()..]),
            stream,
            key,
            own: End::Deployer,
            sent: 0,
            received: 0,
        })
    }

    /// Opens the door's end. The deployer has yet to show its key, with its first message.
    pub(crate) fn door(mut stream: S, key: Key, nonce: [u8; NONCE]) -> Result<Line<S>, LineError> {
        let mut theirs = [0; HELLO];
        stream.read_exact(&mut theirs)?;
        if !theirs.starts_with(&MAGIC) {
            return Err(LineError::Forged);
        }
        let mut hellos = theirs.to_vec();
        hellos.extend(hello(&nonce));
        let sealed = key.seal(hellos);
        stream.write_all(&sealed[HELLO..])?;
        stream.flush()?;
        Ok(Line {
            nonces: both(&theirs[MAGIC.len()..], &nonce),
            stream,
            key,
            own: End::Door,
            sent: 0,
            received: 0,
        })
    }

    fn sealed(&self, from: End, number: u64, content: &[u8]) -> Vec<u8> {
        let mut message = vec![from as u8];
        message.extend_from_slice(&self.nonces);
        message.extend_from_slice(&number.to_be_bytes());
        message.extend_from_slice(content);
        message
    }

    /// Sends a content.
    pub(crate) fn send(&mut self, content: &[u8]) -> Result<(), LineError> {
        let length = u32::try_from(content.len())
            .ok()
            .filter(|_| content.len() <= LARGEST);
        let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
        self.sent += 1;
        let sealed = self.key.seal(self.sealed(self.own, self.sent, content));
        let mac = &sealed[sealed.len() - MAC..];
        self.stream.write_all(&length.to_be_bytes())?;
        self.stream.write_all(content)?;
        self.stream.write_all(mac)?;
        self.stream.flush()?;
        Ok(())
    }

    /// Receives the next content.
    pub(crate) fn receive(&mut self) -> Result<Vec<u8>, LineError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        let is_known = self.own == End::Deployer || self.received > 0;
        let largest = if is_known { LARGEST } else { LARGEST_UNKNOWN };
        if length > largest {
            return Err(LineError::Forged);
        }
        let mut content = Vec::new();
        let mut part = vec![0; PART.min(length + MAC)];
        while content.len() < length + MAC {
            let most = part.len().min(length + MAC - content.len());
            let count = self.stream.read(&mut part[..most])?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            content.extend_from_slice(&part[..count]);
        }
        let mac = content.split_off(length);
        self.received += 1;
        let from = match self.own {
            End::Deployer => End::Door,
            End::Door => End::Deployer,
        };
        let mut sealed = self.sealed(from, self.received, &content);
        sealed.extend_from_slice(&mac);
        match self.key.open(&sealed) {
            Some(_) => Ok(content),
            None => Err(LineError::Forged),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn key(byte: u8) -> Key {
        Key::new(&[byte; 32])
    }

    /// Bytes that come, and a record of those that go.
    struct Tape {
        comes: Vec<u8>,
        at: usize,
        goes: Vec<u8>,
    }

    impl Read for Tape {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let rest = &self.comes[self.at..];
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            self.at += count;
            Ok(count)
        }
    }

    impl Write for Tape {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.goes.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The bytes of a deployer that says hello and sends these contents to a door with the nonce 2.
    fn recorded(contents: &[&[u8]]) -> Vec<u8> {
        let mut hellos = hello(&[1; 32]);
        hellos.extend(hello(&[2; 32]));
        let answer = key(7).seal(hellos)[HELLO..].to_vec();
        let tape = Tape {
            comes: answer,
            at: 0,
            goes: Vec::new(),
        };
        let mut line = Line::deployer(tape, key(7), [1; 32]).unwrap();
        contents
            .iter()
            .for_each(|content| line.send(content).unwrap());
        line.stream.goes
    }

    fn heard(bytes: Vec<u8>, nonce: u8) -> Vec<Vec<u8>> {
        let tape = Tape {
            comes: bytes,
            at: 0,
            goes: Vec::new(),
        };
        let Ok(mut line) = Line::door(tape, key(7), [nonce; 32]) else {
            return Vec::new();
        };
        std::iter::from_fn(|| line.receive().ok()).collect()
    }

    #[test]
    fn both_ends_understand_each_other_and_no_other_key() {
        let (a, b) = UnixStream::pair().unwrap();
        let door = thread::spawn(move || {
            let mut line = Line::door(b, key(7), [2; 32]).unwrap();
            let heard = line.receive().unwrap();
            line.send(&heard).unwrap();
            line.send(&vec![9; 1_000_000]).unwrap();
        });
        let mut line = Line::deployer(a, key(7), [1; 32]).unwrap();
        line.send(b"ready").unwrap();
        assert_eq!(line.receive().unwrap(), b"ready");
        assert_eq!(line.receive().unwrap().len(), 1_000_000);
        door.join().unwrap();

        let (a, b) = UnixStream::pair().unwrap();
        let door = thread::spawn(move || Line::door(b, key(8), [2; 32]).map(|_| ()));
        assert!(matches!(
            Line::deployer(a, key(7), [1; 32]),
            Err(LineError::Forged)
        ));
        door.join().unwrap().unwrap();
    }

    #[test]
    fn a_recorded_connection_is_worth_nothing_in_another() {
        let bytes = recorded(&[b"ready", b"apply"]);
        assert_eq!(
            heard(bytes.clone(), 2),
            [b"ready".to_vec(), b"apply".to_vec()]
        );
        assert!(heard(bytes, 3).is_empty());
        // Before a key is shown, nobody makes the door take much memory.
        assert!(heard(recorded(&[&[0; LARGEST_UNKNOWN + 1]]), 2).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_altered_left_out_or_repeated_is_refused(at in 0_usize..400, bit in 0_u8..8, cut in 0_usize..400) {
            let bytes = recorded(&[b"ready", b"apply this plan", b"confirm"]);
            let all = heard(bytes.clone(), 2);
            let mut altered = bytes.clone();
            let at = at % altered.len();
            altered[at] ^= 1 << bit;
            let heard_altered = heard(altered, 2);
            prop_assert!(heard_altered.len() < all.len());
            prop_assert!(all.starts_with(&heard_altered));
            let cut = cut % bytes.len();
            prop_assert!(all.starts_with(&heard(bytes[..cut].to_vec(), 2)));
            // The second message again, behind itself.
            let first = HELLO + 4 + 5 + MAC;
            let second = first + 4 + 15 + MAC;
            let mut doubled = bytes[..second].to_vec();
            doubled.extend_from_slice(&bytes[first..]);
            prop_assert_eq!(heard(doubled, 2).len(), 2);
            let left_out = [&bytes[..first], &bytes[second..]].concat();
            prop_assert_eq!(heard(left_out, 2).len(), 1);
        }

        #[test]
        fn no_bytes_are_taken_for_a_deployer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(heard(bytes.clone(), 2).is_empty());
            let with_magic = [&MAGIC[..], &bytes].concat();
            prop_assert!(heard(with_magic, 2).is_empty());
        }
    }
}

//! Netlink requests of this crate's own: one socket, one request, all its answers.

use crate::error::{Errno, Error, Result};
use crate::socket::{self, FullBuffer};
use std::os::fd::AsRawFd;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// One request.
pub(crate) struct Question<'a> {
    /// The request's name in error messages.
    pub(crate) call: &'static str,
    /// The protocol of the socket, such as `NETLINK_ROUTE`.
    pub(crate) protocol: i32,
    /// The message's type.
    pub(crate) kind: u16,
    /// True if the request is about all objects.
    pub(crate) dump: bool,
    /// The bytes behind the netlink header.
    pub(crate) body: &'a [u8],
}

/// Sends the request, and calls `show` with type and body of each message of the answer.
///
/// # Errors
/// The kernel refuses the socket or the request; `object` names its subject.
pub(crate) fn ask(
    question: &Question<'_>,
    object: &str,
    mut each: impl FnMut(u16, &[u8]),
) -> Result<()> {
    let fail = |errno| Error::new(question.call, object, errno, None);
    let kind = (libc::AF_NETLINK, libc::SOCK_RAW, question.protocol);
    let socket = socket::open("socket(AF_NETLINK)", object, kind, None)?;
    // struct nlmsghdr: length, type, flags, number, sender. An acknowledgement ends a request that is not a dump.
    let asked = libc::NLM_F_REQUEST
        | if question.dump {
            libc::NLM_F_DUMP
        } else {
            libc::NLM_F_ACK
        };
    let length = (16 + question.body.len()) as u32;
    let mut message = Vec::with_capacity(16 + question.body.len());
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&question.kind.to_ne_bytes());
    message.extend_from_slice(&(asked as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(question.body);
    socket::send(&socket, &message, FullBuffer::Waits).map_err(fail)?;
    let mut room = vec![0_u8; 64 * 1024];
    loop {
        // SAFETY: the room and its size are valid for the whole call.
        let got = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                room.as_mut_ptr().cast(),
                room.len(),
                libc::MSG_TRUNC,
            )
        };
        if got < 0 {
            let errno = Errno::last();
            if errno.interrupted() {
                continue;
            }
            return Err(fail(errno));
        }
        let length = usize::try_from(got).unwrap_or(0).min(room.len());
        for (kind, body) in messages(&room[..length]) {
            match kind {
                DONE => return Ok(()),
                ERROR => {
                    // Zero is the acknowledgement.
                    let number = body.get(..4).and_then(|octets| octets.try_into().ok());
                    return match i32::from_ne_bytes(number.unwrap_or_default()) {
                        0 => Ok(()),
                        number => Err(fail(Errno(number.saturating_neg()))),
                    };
                }
                kind => each(kind, body),
            }
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// Splits netlink messages into type and body of each.
pub(crate) fn messages(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(octets.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(octets.get(4..6)?.try_into().ok()?);
        let body = octets.get(16..length)?;
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, body))
    })
}

/// Splits attributes into type (without its flags) and value of each.
pub(crate) fn attributes(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(octets.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(octets.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = octets.get(4..length)?;
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// Appends an attribute: its length, its type, its value, and padding to a multiple of four bytes.
pub(crate) fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Names and numbers: far below the 64 KiB that the length holds.
    body.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns `length` pseudo-random bytes.
    pub(crate) fn some_octets(length: usize, seed: u64) -> Vec<u8> {
        let mut random = seed;
        (0..length)
            .map(|_| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 60) as u8
            })
            .collect()
    }

    #[test]
    fn any_octets_end_the_parsers() {
        for length in 0..200 {
            let octets = some_octets(length, length as u64);
            let _ = messages(&octets).count();
            let _ = attributes(&octets).count();
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let mut body = Vec::new();
        push_attribute(&mut body, 2, b"netdev\0");
        push_attribute(&mut body, 1 | 0x8000, &7_u32.to_ne_bytes());
        push_attribute(&mut body, 9, b"");
        assert_eq!(body.len() % 4, 0);
        let read: Vec<(u16, &[u8])> = attributes(&body).collect();
        assert_eq!(
            read,
            [
                (2, &b"netdev\0"[..]),
                (1, &7_u32.to_ne_bytes()[..]),
                (9, &b""[..])
            ]
        );
    }
}

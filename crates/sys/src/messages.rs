//! Many messages with one system call: memory prepared once, filled by `recvmmsg`.

use crate::clock::time_ns;
use crate::error::Errno;
use crate::socket::FullBuffer;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes for control messages: `3 × 16 + 16` for a timestamp, `16 + 16 + 16 + 16` for an error report with an address,
/// `16 + 24` for a packet socket's own report.
const CONTROL_OCTETS: usize = 192;

/// The way to wait for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Wait for the first message (at most the socket's receive timeout), then take all that wait.
    ForOne,
    /// Wait for one message and take only it: the cheapest call for one.
    One,
    /// Take the messages that wait; do not wait for one.
    No,
    /// Take the messages in the error queue.
    ErrorQueue,
}

/// The most messages that [`send_batch`] passes to the kernel in one call.
pub(crate) const SEND_MOST: usize = 32;

/// Sends up to 32 messages through a bound or connected socket with one system call. Returns the number that the
/// kernel took.
///
/// An error is that of the first message. An error of a later message comes with the next call.
#[inline]
pub(crate) fn send_batch(
    socket: &OwnedFd,
    messages: &[&[u8]],
    full: FullBuffer,
) -> Result<usize, Errno> {
    // SAFETY: plain C structures, for which all zeroes is a valid value.
    let mut vectors: [libc::iovec; SEND_MOST] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; SEND_MOST] = unsafe { std::mem::zeroed() };
    let count = messages.len().min(SEND_MOST);
    for (index, message) in messages.iter().take(count).enumerate() {
        // The kernel only reads from there.
        vectors[index].iov_base = message.as_ptr().cast_mut().cast();
        vectors[index].iov_len = message.len();
        headers[index].msg_hdr.msg_iov = &raw mut vectors[index];
        headers[index].msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: `count` headers are valid for the whole call. So are the vectors above and the messages, which are
    // borrowed: the headers point to them.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            full.flags() as _,
        )
    };
    usize::try_from(sent).map_err(|_| Errno::last())
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_OCTETS]);

/// Room for a sender's address. That of a packet socket (`sockaddr_ll`) is longer than that of UDP.
#[derive(Clone, Copy)]
#[repr(C)]
struct Name {
    udp: libc::sockaddr_in,
    rest: [u8; size_of::<libc::sockaddr_ll>() - size_of::<libc::sockaddr_in>()],
}

/// Prepared memory for several messages.
pub struct Batch {
    room: usize,
    count: usize,
    names_wanted: bool,
    control_wanted: bool,
    data: Box<[u8]>,
    control: Box<[Control]>,
    names: Box<[Name]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers inside point only into this value's own boxed memory, which moves with it and is touched
// only through `&mut self` (kernel writes) or `&self` (reads).
unsafe impl Send for Batch {}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("capacity", &self.headers.len())
            .field("room", &self.room)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// One message of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The message's bytes.
    pub data: &'a [u8],
    /// True if the message was longer than the room for it.
    pub truncated: bool,
    /// The time at which the kernel received it, ns of CLOCK_REALTIME; `None` without a timestamp.
    pub stamp_realtime_ns: Option<u64>,
    /// The time at which the card received it, ns of the card's clock; `None` without such a timestamp.
    pub stamp_card_ns: Option<u64>,
    /// The VLAN tag (PCP, DEI, VID) that the kernel or the card removed from the frame, if it was asked for. Its TPID is not
    /// kept: it may be that of 802.1Q or 802.1ad.
    pub tag: Option<u16>,
    /// The sender's address, for UDP.
    pub source: Option<SocketAddrV4>,
}

impl Batch {
    /// Prepares memory for `capacity` messages (at least one) of up to `room` bytes each.
    #[must_use]
    pub fn new(capacity: usize, room: usize) -> Self {
        let capacity = capacity.max(1);
        // SAFETY: a plain C structure, for which all zeroes is a valid value.
        let name: Name = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let vector: libc::iovec = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut batch = Self {
            room,
            count: 0,
            names_wanted: true,
            control_wanted: true,
            data: vec![0; capacity * room].into_boxed_slice(),
            control: vec![Control([0; CONTROL_OCTETS]); capacity].into_boxed_slice(),
            names: vec![name; capacity].into_boxed_slice(),
            vectors: vec![vector; capacity].into_boxed_slice(),
            headers: vec![header; capacity].into_boxed_slice(),
        };
        for index in 0..capacity {
            batch.vectors[index] = libc::iovec {
                iov_base: batch.data[index * room..].as_mut_ptr().cast(),
                iov_len: room,
            };
            let header = &mut batch.headers[index].msg_hdr;
            header.msg_iov = &raw mut batch.vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = batch.control[index].0.as_mut_ptr().cast();
            header.msg_name = (&raw mut batch.names[index]).cast();
        }
        batch.count = capacity;
        batch.rearm();
        batch
    }

    /// Receives only the wanted parts: the sender's address (`names`), the timestamp (`control`). Less saves the
    /// kernel a copy.
    #[must_use]
    pub fn with_only(mut self, names: bool, control: bool) -> Self {
        self.names_wanted = names;
        self.control_wanted = control;
        for header in &mut self.headers {
            let header = &mut header.msg_hdr;
            if !names {
                header.msg_name = std::ptr::null_mut();
                header.msg_namelen = 0;
            }
            if !control {
                header.msg_control = std::ptr::null_mut();
                header.msg_controllen = 0;
            }
        }
        self
    }

    /// Prepares the memory of the last receive for the next one.
    fn rearm(&mut self) {
        for header in &mut self.headers[..self.count] {
            let header = &mut header.msg_hdr;
            if self.control_wanted {
                header.msg_controllen = CONTROL_OCTETS as _;
            }
            if self.names_wanted {
                header.msg_namelen = size_of::<Name>() as libc::socklen_t;
            }
            header.msg_flags = 0;
        }
        self.count = 0;
    }

    /// The largest number of messages it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// The number of messages of the last receive.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if the last receive has brought no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Receives up to `limit` messages, in place of those of the last receive.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        wait: Wait,
        limit: usize,
    ) -> Result<usize, Errno> {
        self.rearm();
        let flags = match wait {
            Wait::One => return self.receive_one(socket),
            Wait::ForOne => libc::MSG_WAITFORONE,
            Wait::No => libc::MSG_DONTWAIT,
            Wait::ErrorQueue => libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        };
        let limit = limit.clamp(1, self.headers.len());
        // SAFETY: the headers point into memory of this value that lives across the call, with its true sizes.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                limit as libc::c_uint,
                flags,
                std::ptr::null_mut(),
            )
        };
        if result < 0 {
            let errno = Errno::last();
            // One may have been touched before the call failed.
            self.count = 1;
            self.rearm();
            return Err(errno);
        }
        self.count = usize::try_from(result).unwrap_or(0).min(limit);
        Ok(self.count)
    }

    /// Receives one message; with its timestamp only if control messages are wanted.
    fn receive_one(&mut self, socket: &OwnedFd) -> Result<usize, Errno> {
        let header = &mut self.headers[0];
        let result = if self.control_wanted {
            // SAFETY: the header points into memory of this value that lives across the call, with its true sizes.
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header.msg_hdr, libc::MSG_TRUNC) }
        } else {
            let room = self.room;
            // SAFETY: the first `room` bytes of the data, and the first name, are places of the sizes given.
            unsafe {
                libc::recvfrom(
                    socket.as_raw_fd(),
                    self.data.as_mut_ptr().cast(),
                    room,
                    libc::MSG_TRUNC,
                    header.msg_hdr.msg_name.cast(),
                    if header.msg_hdr.msg_name.is_null() {
                        std::ptr::null_mut()
                    } else {
                        &raw mut header.msg_hdr.msg_namelen
                    },
                )
            }
        };
        if result < 0 {
            let errno = Errno::last();
            self.count = 1;
            self.rearm();
            return Err(errno);
        }
        // The true length, which may be more than the room.
        let length = usize::try_from(result).unwrap_or(0);
        self.headers[0].msg_len = length.min(self.room) as libc::c_uint;
        self.headers[0].msg_hdr.msg_flags = if length > self.room {
            libc::MSG_TRUNC
        } else {
            0
        };
        self.count = 1;
        Ok(1)
    }

    /// Returns the message at `index`; `None` if there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Message<'_>> {
        let header = self.headers[..self.count].get(index)?;
        let start = index * self.room;
        let length = (header.msg_len as usize).min(self.room);
        let (mut stamps, mut tag) = ((None, None), None);
        if self.control_wanted {
            self.each_control(index, |level, kind, payload| match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamps = stamps_of(payload),
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => tag = tag_taken_out(payload),
                _ => {}
            });
        }
        let name = &self.names[index].udp;
        let named = self.names_wanted
            && header.msg_hdr.msg_namelen as usize >= size_of::<libc::sockaddr_in>()
            && i32::from(name.sin_family) == libc::AF_INET;
        Some(Message {
            data: &self.data[start..start + length],
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            stamp_realtime_ns: stamps.0,
            stamp_card_ns: stamps.1,
            tag,
            source: named.then(|| {
                SocketAddrV4::new(
                    Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)),
                    u16::from_be(name.sin_port),
                )
            }),
        })
    }

    /// Creates a batch with one empty message, whose control messages are the first of these bytes.
    #[cfg(any(test, feature = "fuzzed-parsers"))]
    pub(crate) fn with_control(bytes: &[u8]) -> Self {
        let mut batch = Self::new(1, 64);
        let length = bytes.len().min(CONTROL_OCTETS);
        batch.control[0].0[..length].copy_from_slice(&bytes[..length]);
        batch.headers[0].msg_hdr.msg_controllen = length as _;
        batch.count = 1;
        batch
    }

    /// Calls `show` with level, type and bytes of each control message of the message at `index`.
    pub(crate) fn each_control(&self, index: usize, mut show: impl FnMut(i32, i32, &[u8])) {
        let Some(header) = self.headers[..self.count].get(index) else {
            return;
        };
        let header = &header.msg_hdr;
        // SAFETY: the header describes this value's own control memory, as the kernel has left it.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !at.is_null() {
            // SAFETY: FIRSTHDR and NXTHDR return only pointers to whole headers within the control memory, aligned to
            // 8.
            let control = unsafe { &*at };
            let offset = size_of::<libc::cmsghdr>();
            let begin = at as usize - header.msg_control as usize;
            let room = header.msg_controllen.saturating_sub(begin);
            // The kernel writes no such length: it would end beyond the control memory.
            let length = match control.cmsg_len.checked_sub(offset) {
                Some(length) if offset + length <= room => length,
                _ => return,
            };
            // SAFETY: these bytes are within the control memory, as was just checked. They are initialised: all of it was
            // zeroed at first.
            let payload = unsafe { std::slice::from_raw_parts(libc::CMSG_DATA(at), length) };
            show(control.cmsg_level, control.cmsg_type, payload);
            // SAFETY: as for FIRSTHDR.
            at = unsafe { libc::CMSG_NXTHDR(header, at) };
        }
    }
}

/// Returns the tag of a `struct tpacket_auxdata`; status, two lengths and two offsets are before it.
fn tag_taken_out(payload: &[u8]) -> Option<u16> {
    let status = u32::from_ne_bytes(payload.get(..4)?.try_into().ok()?);
    let tag = u16::from_ne_bytes(payload.get(16..18)?.try_into().ok()?);
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some(tag)
}

/// Returns the two timestamps of an SCM_TIMESTAMPING message: the kernel's, ns of CLOCK_REALTIME, and the card's, ns of its
/// clock. Of its three times they are the first and the third; `None` if zero.
pub(crate) fn stamps_of(payload: &[u8]) -> (Option<u64>, Option<u64>) {
    let (kernel, rest) = payload.split_at(payload.len().min(size_of::<libc::timespec>()));
    let card = rest.get(size_of::<libc::timespec>()..);
    (time_of(kernel), card.and_then(time_of))
}

fn time_of(octets: &[u8]) -> Option<u64> {
    const HALF: usize = size_of::<libc::timespec>() / 2;
    let seconds = i64::from_ne_bytes(octets.get(..HALF)?.try_into().ok()?);
    let rest = i64::from_ne_bytes(octets.get(HALF..2 * HALF)?.try_into().ok()?);
    let ns = time_ns(&libc::timespec {
        tv_sec: seconds as libc::time_t,
        tv_nsec: rest as libc::c_long,
    });
    (ns != 0).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_stamp_is_the_first_of_three_and_the_card_s_the_third() {
        let three = |times: [(i64, i64); 3]| -> Vec<u8> {
            let words = times.into_iter().flat_map(|(s, ns)| [s, ns]);
            words.flat_map(i64::to_ne_bytes).collect()
        };
        let (none, kernel, card) = ((0, 0), (2, 5), (3, 7));
        let (at_kernel, at_card) = (Some(2_000_000_005), Some(3_000_000_007));
        assert_eq!(stamps_of(&three([kernel, none, none])), (at_kernel, None));
        assert_eq!(stamps_of(&three([none, none, card])), (None, at_card));
        assert_eq!(
            stamps_of(&three([kernel, none, card])),
            (at_kernel, at_card)
        );
        // The second is of an interface that the kernel has no more.
        assert_eq!(stamps_of(&three([none, kernel, none])), (None, None));
        for length in 0..48 {
            let cut = stamps_of(&three([kernel, none, card])[..length]);
            assert_eq!(cut, (at_kernel.filter(|_| length >= 16), None), "{length}");
        }
    }
}

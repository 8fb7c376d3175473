//! The common part of packet and UDP sockets: options, waiting, errors.

use crate::error::{Errno, Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Opens a close-on-exec socket.
pub(crate) fn open(
    call: &'static str,
    object: &str,
    (family, kind, protocol): (i32, i32, i32),
    capability: Option<&'static str>,
) -> Result<OwnedFd> {
    // SAFETY: all arguments are numbers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(Error::last(call, object, capability));
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Plain kernel structures and numbers that may be passed as a socket option.
///
/// # Safety
/// Only for types without padding and without pointers that the kernel would follow past the call.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers are plain.
unsafe impl Plain for i32 {}
// SAFETY: integers are plain.
unsafe impl Plain for u32 {}
// SAFETY: two integers of equal size, no padding.
unsafe impl Plain for libc::timeval {}
// SAFETY: four integers of equal size, no padding.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: an integer, two half as long, eight bytes: no padding.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: two addresses and an integer of four bytes each: no padding.
unsafe impl Plain for libc::ip_mreqn {}

pub(crate) fn set<T: Plain>(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: T,
) -> std::result::Result<(), Errno> {
    // SAFETY: `value` is plain data; it and its size are valid for the whole call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::last())
    }
}

pub(crate) fn get_i32(
    socket: &OwnedFd,
    level: i32,
    option: i32,
) -> std::result::Result<i32, Errno> {
    let mut value = 0_i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` is a valid place of the size given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(Errno::last())
    }
}

/// Sets the socket's priority (`SO_PRIORITY`): a number 0 to 7, or the class of a queueing discipline.
pub(crate) fn set_priority(socket: &OwnedFd, object: &str, priority: u32) -> Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority).map_err(|errno| {
        let object = format!("priority {priority} of {object}");
        Error::new(
            "setsockopt(SO_PRIORITY)",
            object,
            errno,
            Some("CAP_NET_ADMIN"),
        )
    })
}

/// Sets the receive buffer to `octets` bytes and returns the size in force.
///
/// A size above the system's limit needs CAP_NET_ADMIN; without it, the limit is in force.
pub(crate) fn set_receive_room(socket: &OwnedFd, object: &str, octets: usize) -> Result<usize> {
    // The kernel doubles the number for its own bookkeeping and shows the double.
    let wanted = i32::try_from(octets / 2).unwrap_or(i32::MAX / 2);
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, wanted).is_err() {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, wanted)
            .map_err(|errno| Error::new("setsockopt(SO_RCVBUF)", object, errno, None))?;
    }
    let got = get_i32(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)
        .map_err(|errno| Error::new("getsockopt(SO_RCVBUF)", object, errno, None))?;
    Ok(usize::try_from(got).unwrap_or(0))
}

/// Sets the longest wait of a blocking receive; `None` waits for ever.
pub(crate) fn set_receive_timeout(
    socket: &OwnedFd,
    timeout: Option<Duration>,
) -> std::result::Result<(), Errno> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_RCVTIMEO,
        longest(timeout),
    )
}

/// Sets the longest wait of a send call that waits for room in the send buffer.
pub(crate) fn set_send_timeout(
    socket: &OwnedFd,
    timeout: Duration,
) -> std::result::Result<(), Errno> {
    let value = longest(Some(timeout));
    set(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value)
}

/// Returns the kernel's form of a longest wait; `None` waits for ever.
fn longest(timeout: Option<Duration>) -> libc::timeval {
    // All zeroes means for ever; a timeout that rounds to 0 becomes the shortest one.
    match timeout {
        None => libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        Some(timeout) => libc::timeval {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_usec: if timeout.as_secs() == 0 && timeout.subsec_micros() == 0 {
                1
            } else {
                // Below 10^6, which fits every type.
                timeout.subsec_micros() as libc::suseconds_t
            },
        },
    }
}

/// Takes the error that is pending at the socket.
pub(crate) fn take_error(socket: &OwnedFd) -> Option<Errno> {
    match get_i32(socket, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(number) => Some(Errno(number)),
        Err(errno) => Some(errno),
    }
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A message waits.
    Readable,
    /// An error is pending, or the error queue has a message.
    Error,
    /// Neither came before the time was up, or a signal came.
    Nothing,
}

/// Waits for a message or an error; `None` waits for ever.
///
/// # Errors
/// The kernel's error; a signal is no error.
pub(crate) fn wait(
    socket: &OwnedFd,
    for_data: bool,
    timeout: Option<Duration>,
) -> std::result::Result<Ready, Errno> {
    let mut entry = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: if for_data { libc::POLLIN } else { 0 },
        revents: 0,
    };
    let time =
        timeout.map(|t| crate::clock::timespec(u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)));
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one entry is valid for the whole call; the time is null or points to a live timespec.
    let result = unsafe { libc::ppoll(&raw mut entry, 1, time, std::ptr::null()) };
    if result < 0 {
        let errno = Errno::last();
        return if errno.interrupted() {
            Ok(Ready::Nothing)
        } else {
            Err(errno)
        };
    }
    Ok(if entry.revents & libc::POLLIN != 0 {
        Ready::Readable
    } else if entry.revents != 0 {
        Ready::Error
    } else {
        Ready::Nothing
    })
}

/// Behaviour of a send call when the socket's send buffer is full. The buffer is full while a queue behind it holds the frames:
/// a shaper, a gate that is shut, a link that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FullBuffer {
    /// The call fails at once, with [`Errno::would_block`].
    Fails,
    /// The call waits, at most for the socket's send timeout, and then fails in the same way.
    Waits,
}

impl FullBuffer {
    /// Returns the flags of the send call.
    pub(crate) const fn flags(self) -> i32 {
        match self {
            Self::Fails => libc::MSG_DONTWAIT,
            Self::Waits => 0,
        }
    }
}

/// Sends one datagram or frame on a bound or connected socket.
#[inline]
pub(crate) fn send(
    socket: &OwnedFd,
    bytes: &[u8],
    full: FullBuffer,
) -> std::result::Result<(), Errno> {
    let (start, length) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: the slice is valid for the whole call.
    let sent = unsafe { libc::send(socket.as_raw_fd(), start, length, full.flags()) };
    if sent < 0 { Err(Errno::last()) } else { Ok(()) }
}

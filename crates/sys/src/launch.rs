//! Launch times (`SO_TXTIME`): the socket says when a frame is to leave; a queueing discipline (ETF, TAPRIO) keeps it
//! until then.
//!
//! A kernel whose queue does not support launch times ignores them silently, and the frame leaves at once. Check
//! [`crate::qdisc`] before.

use crate::clock::Clock;
use crate::error::{Errno, Error, Result};
use crate::socket::{self, FullBuffer, Plain};
use std::os::fd::{AsRawFd, OwnedFd};

/// The meaning of a socket's launch times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// The clock of the times. ETF and TAPRIO take CLOCK_TAI only.
    pub clock: Clock,
    /// The time is a deadline: the frame may leave earlier. Must match the queue's setting.
    pub deadline: bool,
    /// Report frames that were refused or missed their time, in the error queue.
    pub report: bool,
}

/// The reason why a frame with a launch time did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchFault {
    /// The queue did not take it. Its time had passed, or was before the last frame's, or clock or mode are not the
    /// queue's.
    Refused,
    /// The queue dropped it, because its time passed before it could leave.
    Missed,
}

/// A report of the queue, from the socket's error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchFailure {
    /// The frame's launch time, ns of the socket's launch clock.
    pub launch_ns: u64,
    /// The reason.
    pub fault: LaunchFault,
}

// SAFETY: two integers of equal size, no padding.
unsafe impl Plain for libc::sock_txtime {}

// The same numbers on every architecture that rtwire runs on; `libc` does not have them.
const SO_TXTIME: i32 = 61;
const SCM_TXTIME: i32 = SO_TXTIME;

/// Turns launch times on.
pub(crate) fn enable(socket: &OwnedFd, object: &str, options: LaunchOptions) -> Result<()> {
    let mut flags = 0;
    if options.deadline {
        flags |= libc::SOF_TXTIME_DEADLINE_MODE;
    }
    if options.report {
        flags |= libc::SOF_TXTIME_REPORT_ERRORS;
    }
    let value = libc::sock_txtime {
        clockid: options.clock.id(),
        flags,
    };
    socket::set(socket, libc::SOL_SOCKET, SO_TXTIME, value).map_err(|errno| {
        // Clocks other than CLOCK_MONOTONIC need it.
        Error::new(
            "setsockopt(SO_TXTIME)",
            object,
            errno,
            Some("CAP_NET_ADMIN"),
        )
    })
}

/// Room for one control message with a time, aligned as its header requires.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends one frame or datagram that is to leave at `launch_ns`. One system call, no allocation.
#[inline]
pub(crate) fn send_at(
    socket: &OwnedFd,
    bytes: &[u8],
    launch_ns: u64,
    full: FullBuffer,
) -> std::result::Result<(), Errno> {
    let mut control = Control([0; 32]);
    let mut vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: msghdr is plain data, for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: arithmetic on a length; 24 on 64-bit machines, 20 on others, within the room.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(8) } as _;
    // SAFETY: the message has room for one control message of eight bytes. So there is a first header within it, and
    // its data are eight bytes within it. Both are written before the kernel reads them. The kernel writes to
    // nothing.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = SCM_TXTIME;
        (*header).cmsg_len = libc::CMSG_LEN(8) as _;
        std::ptr::write_unaligned(libc::CMSG_DATA(header).cast::<u64>(), launch_ns);
    }
    // SAFETY: everything that the message points to lives until the call ends.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, full.flags()) };
    if sent < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Reads a launch report from a `sock_extended_err`; `None` if it is of another kind.
pub(crate) fn report(payload: &[u8]) -> Option<LaunchFailure> {
    const SO_EE_ORIGIN_TXTIME: u8 = 6;
    let word = |at: usize| {
        let octets = payload.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(octets))
    };
    // errno 4, origin 1, type 1, code 1, pad 1, info 4 (low half of the time), data 4 (high half).
    if *payload.get(4)? != SO_EE_ORIGIN_TXTIME {
        return None;
    }
    let fault = match *payload.get(6)? {
        1 => LaunchFault::Refused,
        2 => LaunchFault::Missed,
        _ => return None,
    };
    Some(LaunchFailure {
        launch_ns: u64::from(word(12)?) << 32 | u64::from(word(8)?),
        fault,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_told_from_other_errors() {
        let mut octets = [0_u8; 16];
        octets[..4].copy_from_slice(&(libc::ECANCELED as u32).to_ne_bytes());
        octets[4] = 6;
        octets[6] = 2;
        octets[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        octets[12..].copy_from_slice(&1_u32.to_ne_bytes());
        let missed = LaunchFailure {
            launch_ns: (1 << 32) + 7,
            fault: LaunchFault::Missed,
        };
        assert_eq!(report(&octets), Some(missed));
        octets[6] = 1;
        assert_eq!(report(&octets).map(|r| r.fault), Some(LaunchFault::Refused));
        octets[6] = 3;
        assert_eq!(report(&octets), None);
        octets[6] = 2;
        octets[4] = libc::SO_EE_ORIGIN_TIMESTAMPING;
        assert_eq!(report(&octets), None);
        for length in 0..16 {
            assert_eq!(report(&octets[..length]), None);
        }
    }
}

//! Errors of frames on an interface.

use rtwire_sys::{Errno, ErrorKind};

/// Reason why a frame was not sent or received, or a path could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A system call for setting something up failed.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// The interface does not exist any more. Open again when it is back.
    #[error(
        "interface `{interface}` is gone: it was removed or renamed away; open again when it is back"
    )]
    InterfaceGone {
        /// The interface's name when it was opened.
        interface: String,
    },
    /// The receive program was detached from the interface by another process. Its channels receive nothing any more.
    #[error(
        "the receive program of interface `{interface}` was detached by another process; attach it again, or open the channel with packet sockets"
    )]
    ProgramDetached {
        /// The interface.
        interface: String,
    },
    /// The interface is down. An interface that is being removed is seen as down first.
    #[error("interface `{interface}` is down; bring it up with `ip link set {interface} up`")]
    InterfaceDown {
        /// The interface's name when it was opened.
        interface: String,
    },
    /// The XDP program that a path needs was detached from its interface.
    #[error(
        "the XDP program was detached from interface `{interface}` by somebody else; start again to attach it again"
    )]
    Detached {
        /// The interface.
        interface: String,
    },
    /// The transmit queue was full. This frame was dropped and has used up a number. Or the socket's send buffer was full
    /// ([`Sender::set_room_wait`](crate::Sender::set_room_wait)). Then it was not taken, and has not.
    #[error(
        "the transmit queue of the interface is full: the frame was dropped; send less, or shape"
    )]
    QueueFull,
    /// The frame is longer than the interface allows.
    #[error(
        "a frame of {octets} bytes is longer than interface `{interface}` allows; send less at once"
    )]
    TooLong {
        /// Length of the frame, in bytes.
        octets: usize,
        /// The interface.
        interface: String,
    },
    /// The transmit path does not support the request.
    #[error("{what}")]
    Unsupported {
        /// The request, and what to use in its place.
        what: &'static str,
    },
    /// No queue of the interface would observe launch times: the kernel would ignore them silently.
    #[error(
        "interface `{interface}` keeps no launch times for priority {priority}: {found}; needed: {remedy}"
    )]
    NoLaunch {
        /// The interface.
        interface: String,
        /// The socket's priority.
        priority: u32,
        /// Kind of queue found in its place.
        found: String,
        /// Remedy.
        remedy: String,
    },
    /// The kernel module `uman`, or a device of it, is not there to be used.
    #[error("interface `{interface}` has no path `uman`: {found}; {remedy}")]
    NoUman {
        /// The interface.
        interface: String,
        /// The thing that is missing or in the way.
        found: String,
        /// Remedy.
        remedy: String,
    },
    /// The launch queue dropped the frame at once. The frame has used up a number.
    #[error(
        "the launch queue refused a frame for {launch_ns} ns of CLOCK_TAI: that time had passed, or was before that of the last \
         frame, or the queue was full; hand frames over earlier and in order"
    )]
    LaunchRefused {
        /// Launch time of the frame, in ns.
        launch_ns: u64,
    },
    /// The kernel refused to sleep until an instant.
    #[error("clock_nanosleep: {0}")]
    Clock(Errno),
    /// Any other error of a call on the hot path.
    #[error("{call} on interface `{interface}`: {errno}")]
    Call {
        /// The call.
        call: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's error number.
        errno: Errno,
    },
}

impl LinkError {
    /// Converts an error of a call on the hot path; `exists` tells whether the interface still exists.
    pub(crate) fn of(
        call: &'static str,
        interface: &str,
        errno: Errno,
        octets: usize,
        exists: impl FnOnce() -> bool,
    ) -> Self {
        let interface = interface.to_owned();
        match errno.kind() {
            ErrorKind::QueueFull => Self::QueueFull,
            ErrorKind::TooLong => Self::TooLong { octets, interface },
            _ if !exists() => Self::InterfaceGone { interface },
            ErrorKind::InterfaceMissing => Self::InterfaceGone { interface },
            ErrorKind::InterfaceDown => Self::InterfaceDown { interface },
            _ => Self::Call {
                call,
                interface,
                errno,
            },
        }
    }

    /// Returns the missing capability if that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        match self {
            Self::System(error) => error.capability(),
            _ => None,
        }
    }
}

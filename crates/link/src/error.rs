//! What goes wrong with frames on an interface.

use rtwire_sys::{Errno, ErrorKind};

/// Why a frame did not move, or a path could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Setting something up failed.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// The interface does not exist any more. Open again when it is back.
    #[error(
        "interface `{interface}` is gone: it was removed or renamed away; open again when it is back"
    )]
    InterfaceGone {
        /// Its name when it was opened.
        interface: String,
    },
    /// Somebody has detached the receive program from the interface: its channels get nothing any more.
    #[error(
        "the receive program of interface `{interface}` was detached by somebody else; attach it again, or open the channel with packet sockets"
    )]
    ProgramDetached {
        /// The interface.
        interface: String,
    },
    /// The interface is down. An interface that is being removed is seen as down first.
    #[error("interface `{interface}` is down; bring it up with `ip link set {interface} up`")]
    InterfaceDown {
        /// Its name when it was opened.
        interface: String,
    },
    /// The XDP program that a path needs was taken off its interface.
    #[error(
        "the XDP program was detached from interface `{interface}` by somebody else; start again to attach it again"
    )]
    Detached {
        /// The interface.
        interface: String,
    },
    /// The transmit queue was full: this frame was dropped, and had a number.
    #[error(
        "the transmit queue of the interface is full: the frame was dropped; send less, or shape"
    )]
    QueueFull,
    /// The frame is longer than the interface takes.
    #[error(
        "a frame of {octets} octets is longer than interface `{interface}` takes; send less at once"
    )]
    TooLong {
        /// Its length.
        octets: usize,
        /// The interface.
        interface: String,
    },
    /// The transmit path cannot do that.
    #[error("{what}")]
    Unsupported {
        /// What was asked for, and what to take in its place.
        what: &'static str,
    },
    /// No queue of the interface would keep launch times: the kernel would ignore them silently.
    #[error(
        "interface `{interface}` keeps no launch times for priority {priority}: {found}; needed: {remedy}"
    )]
    NoLaunch {
        /// The interface.
        interface: String,
        /// The socket's priority.
        priority: u32,
        /// What there is in place of it.
        found: String,
        /// What would be right.
        remedy: String,
    },
    /// The launch queue dropped the frame at once; it had a number.
    #[error(
        "the launch queue refused a frame for {launch_ns} ns of CLOCK_TAI: that time had passed, or came before the one that \
         left last, or the queue was full; hand frames over earlier and in order"
    )]
    LaunchRefused {
        /// Its launch time.
        launch_ns: u64,
    },
    /// The kernel refuses to sleep until an instant.
    #[error("clock_nanosleep: {0}")]
    Clock(Errno),
    /// Any other error of a call on the hot path.
    #[error("{call} on interface `{interface}`: {errno}")]
    Call {
        /// The call.
        call: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's number.
        errno: Errno,
    },
}

impl LinkError {
    /// An error of a hot call; `exists` tells whether the interface is still there.
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

    /// The capability that is missing, where that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        match self {
            Self::System(error) => error.capability(),
            _ => None,
        }
    }
}

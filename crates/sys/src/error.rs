//! What goes wrong when the kernel is asked: the call, the object, the reason, and what to do.

use std::fmt;
use std::io;

/// An error number of the kernel, for calls of the hot path: no text, no allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// More octets than fit.
    pub const TOO_LONG: Self = Self(libc::EMSGSIZE);
    /// No room to wait in.
    pub const QUEUE_FULL: Self = Self(libc::ENOBUFS);

    /// The calling thread's last error.
    #[must_use]
    pub fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// Nothing there now: the call would have to wait.
    #[must_use]
    pub const fn would_block(self) -> bool {
        self.0 == libc::EAGAIN || self.0 == libc::EWOULDBLOCK
    }

    /// A signal came; the call may be repeated.
    #[must_use]
    pub const fn interrupted(self) -> bool {
        self.0 == libc::EINTR
    }

    /// What kind of trouble this is.
    #[must_use]
    pub const fn kind(self) -> ErrorKind {
        match self.0 {
            libc::EPERM | libc::EACCES => ErrorKind::Permission,
            libc::ENODEV | libc::ENXIO => ErrorKind::InterfaceMissing,
            libc::ENETDOWN => ErrorKind::InterfaceDown,
            libc::EADDRINUSE | libc::EBUSY => ErrorKind::InUse,
            libc::EOPNOTSUPP
            | libc::ENOPROTOOPT
            | libc::EAFNOSUPPORT
            | libc::EPROTONOSUPPORT
            | libc::ENOSYS => ErrorKind::Unsupported,
            libc::ENOBUFS => ErrorKind::QueueFull,
            libc::EMSGSIZE => ErrorKind::TooLong,
            _ => ErrorKind::Other,
        }
    }

    /// The kernel's own sentence.
    #[must_use]
    pub fn text(self) -> String {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        // std adds " (os error N)", which tells a reader nothing.
        match text.find(" (os error") {
            Some(at) => text[..at].to_owned(),
            None => text,
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {})", self.0, self.text())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Kinds of trouble that a program may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A capability is missing ([`Error::capability`] names it).
    Permission,
    /// The interface does not exist, or not any more.
    InterfaceMissing,
    /// The interface is down.
    InterfaceDown,
    /// Somebody else has it.
    InUse,
    /// This kernel or driver does not do that.
    Unsupported,
    /// A transmit queue was full: the frame was dropped.
    QueueFull,
    /// A frame longer than the interface takes.
    TooLong,
    /// Anything else.
    Other,
}

/// A failed request: which call, on what, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    call: &'static str,
    object: String,
    errno: Errno,
    capability: Option<&'static str>,
}

impl Error {
    /// An error of `call` upon `object`; `capability` is the one that the call needs, if it needs one.
    #[must_use]
    pub fn new(
        call: &'static str,
        object: impl Into<String>,
        errno: Errno,
        capability: Option<&'static str>,
    ) -> Self {
        Self {
            call,
            object: object.into(),
            errno,
            capability,
        }
    }

    /// An error of the call that has just failed on this thread.
    #[must_use]
    pub fn last(
        call: &'static str,
        object: impl Into<String>,
        capability: Option<&'static str>,
    ) -> Self {
        Self::new(call, object, Errno::last(), capability)
    }

    /// The kernel's number.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        self.errno
    }

    /// What kind of trouble this is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.errno.kind()
    }

    /// The capability that is missing, where that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        self.capability
            .filter(|_| self.kind() == ErrorKind::Permission)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}: {}", self.call, self.object, self.errno)?;
        match self.kind() {
            ErrorKind::Permission => match self.capability {
                Some(capability) => write!(
                    f,
                    "; {capability} is needed: run as root, or give it with `setcap {}+ep PROGRAM`",
                    capability.to_lowercase()
                ),
                None => f.write_str("; run as root"),
            },
            ErrorKind::InterfaceMissing => {
                f.write_str("; look at `ip link` for the interfaces there are")
            }
            ErrorKind::InterfaceDown => {
                f.write_str("; bring the interface up with `ip link set INTERFACE up`")
            }
            ErrorKind::InUse => {
                f.write_str("; another program has it: end that one, or take another")
            }
            ErrorKind::Unsupported => f.write_str("; this kernel or driver cannot do it"),
            ErrorKind::QueueFull => {
                f.write_str("; the transmit queue was full: send less, or shape")
            }
            ErrorKind::TooLong => f.write_str("; send less at once, or raise the interface's MTU"),
            ErrorKind::Other => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// What the set-up calls of this crate give.
pub type Result<T> = std::result::Result<T, Error>;

//! Errors of the kernel: the call, the object, the reason, and the remedy.

use std::fmt;
use std::io;

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

/// An error number of the kernel, for calls of the hot path: no text, no allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The message is longer than fits.
    pub const TOO_LONG: Self = Self(libc::EMSGSIZE);
    /// The queue is full.
    pub const QUEUE_FULL: Self = Self(libc::ENOBUFS);

    /// Returns the calling thread's last error.
    #[must_use]
    pub fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// True if nothing is there now: the call would have to wait.
    #[must_use]
    pub const fn would_block(self) -> bool {
        self.0 == libc::EAGAIN || self.0 == libc::EWOULDBLOCK
    }

    /// True if a signal came; the call may be repeated.
    #[must_use]
    pub const fn interrupted(self) -> bool {
        self.0 == libc::EINTR
    }

    /// Returns the kind of the error.
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

    /// Returns the kernel's own sentence.
    #[must_use]
    pub fn text(self) -> String {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        // std adds " (os error N)", which does not help a reader.
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

/// Kinds of errors that a program may want to distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A capability is missing ([`Error::capability`] names it).
    Permission,
    /// The interface does not exist, or no longer.
    InterfaceMissing,
    /// The interface is down.
    InterfaceDown,
    /// Another program has it.
    InUse,
    /// This kernel or driver cannot do it.
    Unsupported,
    /// A transmit queue was full: the frame was dropped.
    QueueFull,
    /// The frame is longer than the interface allows.
    TooLong,
    /// Anything else.
    Other,
}

/// A failed request: the call, its object, the reason, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    call: &'static str,
    object: String,
    errno: Errno,
    capability: Option<&'static str>,
    remedy: Option<&'static str>,
}

impl Error {
    /// Creates an error of `call` on `object`; `capability` is the one that the call needs, if any.
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
            remedy: None,
        }
    }

    /// Ends the message with this remedy instead of the usual one of its kind.
    #[must_use]
    pub fn with_remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = Some(remedy);
        self
    }

    /// Creates an error of the call that has just failed on this thread.
    #[must_use]
    pub fn last(
        call: &'static str,
        object: impl Into<String>,
        capability: Option<&'static str>,
    ) -> Self {
        Self::new(call, object, Errno::last(), capability)
    }

    /// The kernel's error number.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        self.errno
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.errno.kind()
    }

    /// The missing capability, if that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        self.capability
            .filter(|_| self.kind() == ErrorKind::Permission)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}: {}", self.call, self.object, self.errno)?;
        if let Some(remedy) = self.remedy {
            return write!(f, "; {remedy}");
        }
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

/// The result of this crate's set-up calls.
pub type Result<T> = std::result::Result<T, Error>;

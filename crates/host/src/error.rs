//! The errors of setting up a host.

use std::io;

/// The error of setting or reading this host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The kernel refused a netlink request.
    #[error("cannot {what}: {reason}{}", netlink_hint(*errno, reason))]
    Netlink {
        /// The request, as a verb phrase: "create bridge `br0`".
        what: String,
        /// The kernel's error, with its own sentence where it sent one.
        reason: String,
        /// The error number.
        errno: i32,
    },
    /// A network namespace could not be made, entered or removed.
    #[error("cannot {what}: {source}{}", hint(source.raw_os_error().unwrap_or(0)))]
    Namespace {
        /// The request.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A kernel setting below `/proc/sys` could not be written.
    #[error("cannot write `{value}` to `{path}`: {source}")]
    Setting {
        /// The file.
        path: String,
        /// The value to be written.
        value: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no interface of this name.
    #[error("there is no interface `{name}`{}", known(there))]
    NoInterface {
        /// The name.
        name: String,
        /// The existing interfaces.
        there: Vec<String>,
    },
    /// There is no uman device of this name.
    #[error(
        "there is no uman device `{name}`{}; `rtwire uman add` makes one",
        known(there)
    )]
    NoUman {
        /// The name.
        name: String,
        /// The existing uman devices.
        there: Vec<String>,
    },
    /// A setting cannot have this value.
    #[error("{what} cannot be set to {value}")]
    Value {
        /// The setting.
        what: String,
        /// The value.
        value: String,
    },
    /// The code that ran inside a namespace panicked.
    #[error("a thread inside network namespace `{0}` panicked")]
    Panicked(String),
    /// A call of the system layer failed.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// The driver has no receive context (NAPI).
    #[error(
        "interface `{0}` has no receive context (NAPI) that could have a priority; a veth has one with a receive \
         program attached, or after `ethtool -K {0} gro on` and `ethtool -K PEER tso off`"
    )]
    NoReceiveContext(String),
    /// The kernel lets no thread poll a driver all the time.
    #[error(
        "no thread can poll interface `{name}` all the time: threaded busy polling came with Linux 6.19, and this is {kernel} \
         ({reason})"
    )]
    NoPollingThread {
        /// The interface.
        name: String,
        /// The kernel's release.
        kernel: String,
        /// The kernel's answer.
        reason: String,
    },
    /// The kernel accepted a setting, but reading it back shows another.
    #[error("{what} was accepted by the kernel, but is not in force")]
    NotInForce {
        /// The setting.
        what: String,
    },
    /// An interface cannot have this name.
    #[error("`{0}` cannot be an interface's name: use 1 to 15 bytes, without `/` or space")]
    InterfaceName(String),
}

impl HostError {
    /// Returns whether a privilege is missing (EPERM, EACCES).
    #[must_use]
    pub fn is_permission(&self) -> bool {
        let errno = match self {
            Self::Netlink { errno, .. } => *errno,
            Self::Namespace { source, .. } | Self::Setting { source, .. } => {
                source.raw_os_error().unwrap_or(0)
            }
            Self::System(error) => error.errno().0,
            Self::Panicked(_)
            | Self::InterfaceName(_)
            | Self::NoReceiveContext(_)
            | Self::NoPollingThread { .. }
            | Self::NotInForce { .. }
            | Self::NoInterface { .. }
            | Self::NoUman { .. }
            | Self::Value { .. } => 0,
        };
        errno == 1 || errno == 13
    }
}

fn known(there: &[String]) -> String {
    if there.is_empty() {
        "; look at `ip link` for those there are".to_owned()
    } else {
        format!("; there are {}", there.join(", "))
    }
}

/// Returns the hint for an error. As [`hint`], but an unknown kind of queue or link is a feature missing from the
/// kernel.
fn netlink_hint(errno: i32, reason: &str) -> &'static str {
    if reason.contains("kind is unknown") || reason.contains("Unknown device type") {
        return hint(95);
    }
    // The module `uman` has said already what there is instead.
    if reason.contains("choose qdisc or direct") {
        return "";
    }
    hint(errno)
}

/// Returns the remedy for errors that users meet. The numbers are the same on every Linux architecture in use.
fn hint(errno: i32) -> &'static str {
    match errno {
        1 | 13 => " (needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN)",
        95 => " (the kernel lacks this feature: load its module, or use a kernel that has it)",
        _ => "",
    }
}

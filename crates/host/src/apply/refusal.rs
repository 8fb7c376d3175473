//! The reasons why a share is not applied.

use crate::HostError;
use crate::change::guardian::GuardianError;
use crate::change::{ApplyError, RecordError};

/// The reason why a share of a plan was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyRefusal {
    /// The host could not be read, or the interface does not exist.
    #[error(transparent)]
    Host(#[from] HostError),
    /// An earlier run moved the interface into its own namespace, and the isolation asked for leaves it in place.
    #[error(
        "`{interface}` is in network namespace {namespace}, where an earlier rtwire apply put it; put it back first: \
         rtwire revert {interface}; or keep it there: --isolation namespace"
    )]
    Moved {
        /// The interface.
        interface: String,
        /// Its namespace.
        namespace: String,
    },
    /// The namespace that the interface would get exists, and the interface is not in it.
    #[error(
        "there is a network namespace {namespace} already, without `{interface}` in it; if nobody needs it: ip netns del \
         {namespace}"
    )]
    NamespaceTaken {
        /// The interface.
        interface: String,
        /// The namespace.
        namespace: String,
    },
    /// The interface has queueing disciplines that could not be put back.
    #[error(
        "`{interface}` has {found}, made by another program, which could not be put back; remove it first: {command}; \
         or leave the queues alone: --queues none"
    )]
    StrangeQueues {
        /// The interface.
        interface: String,
        /// The kernel's name of what was found.
        found: String,
        /// The command that removes it.
        command: String,
    },
    /// The host lacks something that the plan asks for: the report's `lacks`.
    #[error("nothing was changed; to continue without the missing abilities: --fallback")]
    Lacking,
    /// The interface carries the machine's default route, and nothing would bring it back.
    #[error(
        "`{interface}` carries this machine's default route, and would lose its addresses: use another interface, or add \
         --confirm-within 30s, so that it comes back by itself"
    )]
    DefaultRoute {
        /// The interface.
        interface: String,
    },
    /// The undo record could not be begun or ended.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No guardian watches, so nothing was changed.
    #[error(transparent)]
    Guardian(#[from] GuardianError),
    /// A change was refused or is not in force; those before it were put back.
    #[error(transparent)]
    Change(#[from] ApplyError),
}

impl ApplyRefusal {
    /// Returns whether the host lacks something: a feature, a privilege, a program. Otherwise its present settings are
    /// in the way.
    #[must_use]
    pub const fn is_host_lacking(&self) -> bool {
        matches!(
            self,
            Self::Host(_)
                | Self::StrangeQueues { .. }
                | Self::Lacking
                | Self::Guardian(_)
                | Self::Change(ApplyError::Refused { .. })
        )
    }
}

//! The reasons why an agent cannot go on.

use std::io;

use rtwire_host::HostError;
use rtwire_managerd::ManagerdError;
use rtwire_sys::bpf::BpfError;

/// An error of the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The plan has no such host.
    #[error("the plan has no host \"{host}\"; its hosts are {}", .hosts.join(", "))]
    NoHost {
        /// The name.
        host: String,
        /// The hosts of the plan.
        hosts: Vec<String>,
    },
    /// The plan allows this host no best effort.
    #[error(
        "the plan allows \"{host}\" no best effort, so that it could not even ask the manager: add a [[best-effort]] with `host = \"{host}\"`, and plan again"
    )]
    NoBestEffort {
        /// The host.
        host: String,
    },
    /// The host's own port has gates or credit shapers.
    #[error(
        "the plan has gates or credit shapers at the port of \"{host}\", which the agent's queue does not have: `rtwire apply` sets such a host up"
    )]
    Scheduled {
        /// The host.
        host: String,
    },
    /// The plan's burst of best effort is too small for the parts into which it is divided.
    #[error(
        "the burst of \"{host}\"'s best effort is {burst} B, too small for {peers} peers: it needs {needs} B, one frame for each peer, for control and for all else"
    )]
    SmallBurst {
        /// The host.
        host: String,
        /// Its peers.
        peers: usize,
        /// The burst of the plan, bytes on the wire.
        burst: u64,
        /// The burst that is needed, bytes on the wire.
        needs: u64,
    },
    /// The interface's frames may be longer than the plan's best effort.
    #[error(
        "`{interface}` has an MTU of {mtu}, but the plan's best effort has frames with a payload of {largest} B at most: `ip link set {interface} mtu {largest}`, or state `frame` in the [[best-effort]]"
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU, bytes.
        mtu: u32,
        /// The plan's largest payload, bytes.
        largest: u32,
    },
    /// There is no such interface, or it is no Ethernet interface with an IPv4 address.
    #[error("{0}")]
    Interface(String),
    /// Somebody else has set up the interface's queues.
    #[error(
        "`{interface}` has a queue of its own already (`{there}`), which the agent would replace: remove it (`rtwire revert {interface}`, or `tc qdisc del dev {interface} root`)"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// The kind of its root queue.
        there: String,
    },
    /// The kernel refused a setting.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The kernel refused the gate's programs.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The manager cannot be asked.
    #[error(transparent)]
    Manager(#[from] ManagerdError),
    /// A socket or file cannot be used.
    #[error("cannot {what}: {error}")]
    System {
        /// The operation, with its object.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// Another agent has the interface.
    #[error("another agent runs on `{interface}`: end it first")]
    InUse {
        /// The interface.
        interface: String,
    },
    /// There is no such group of users.
    #[error("there is no group `{group}`: `groupadd {group}`, or state another `--group`")]
    NoGroup {
        /// The group.
        group: String,
    },
}

impl AgentError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> AgentError {
        let what = what.into();
        move |errno| AgentError::System {
            what,
            error: errno.into(),
        }
    }
}

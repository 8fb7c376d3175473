//! The options for opening a host's streams, where the plan leaves a choice.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rtwire_channel::{CardTime, ReceivePath, TxPath};

use crate::streams::REALTIME;

/// The address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// Its interface's MAC address, for RTDiP streams with one listener.
    Mac([u8; 6]),
    /// Its IPv4 address, for UDP streams with one listener.
    Ip(Ipv4Addr),
}

/// The use of the host's agent (`rtwire agent`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentUse {
    /// Streams are opened through the agent where one serves the interface and this user may use it; else directly. So are
    /// those whose options ask for what the agent does not have.
    #[default]
    IfThere,
    /// Streams are opened directly.
    Never,
    /// Streams are opened through the agent with this socket, or not at all.
    At(PathBuf),
}

/// The options for opening streams. The default adds nothing to the plan.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Addresses of peers by host name. Without one, an RTDiP stream goes to its own group.
    pub peers: Vec<(String, PeerAddress)>,
    /// The transmit path. On a path with launch times only cyclic streams take it; all others take the queueing discipline.
    pub path: TxPath,
    /// The receive path of RTDiP streams.
    pub receive_path: ReceivePath,
    /// The time that listeners spin before they sleep.
    pub spin: Duration,
    /// Drops frames beyond their stream's contract at the listener. The tolerance is the promised delay plus this time.
    pub police: Option<Duration>,
    /// The number of arrivals that listeners of newest-value streams note, for
    /// [`StreamListener::arrivals`](crate::StreamListener::arrivals); 0: none. Each takes 32 bytes.
    pub arrivals: usize,
    /// Listeners poll the driver in their own calls (UDP streams only).
    pub polls: bool,
    /// SCHED_FIFO priority for a stream of priority 7; a stream of priority p has `realtime - 7 + p`. `None`: 80 for all.
    pub realtime: Option<u8>,
    /// The time before each instant at which a cyclic talker wakes, to spin until then; 0: it does not spin. `None`: each
    /// talker measures how late it is woken, and spins as long as that needs.
    pub spin_margin: Option<Duration>,
    /// True if all hosts of the plan share this machine's cores, as in the lab: what one talker spins, the others lack.
    pub one_machine: bool,
    /// The clock of the card whose stamps are taken in place of the kernel's at listeners, and beside them at talkers
    /// ([`CardFollower`](crate::CardFollower)). Listeners then have packet sockets.
    pub card: Option<Arc<CardTime>>,
    /// Also opens streams on a transmit path that does not keep the plan's promises.
    pub no_admission: bool,
    /// The use of the host's agent. `rtwire run` and the lab open directly, whatever it says.
    pub agent: AgentUse,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            peers: Vec::new(),
            path: TxPath::Qdisc,
            receive_path: ReceivePath::Auto,
            spin: Duration::ZERO,
            police: None,
            arrivals: 0,
            polls: false,
            realtime: None,
            spin_margin: None,
            one_machine: false,
            card: None,
            no_admission: false,
            agent: AgentUse::IfThere,
        }
    }
}

impl SessionOptions {
    /// Returns the SCHED_FIFO priority of the threads of a stream of priority `pcp`.
    #[must_use]
    pub fn realtime_of(&self, pcp: u8) -> u8 {
        match self.realtime {
            None => REALTIME,
            Some(highest) => highest.saturating_sub(7 - pcp.min(7)).max(1),
        }
    }
}

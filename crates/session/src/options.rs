//! How a host's streams are opened, where the plan leaves a choice.

use std::net::Ipv4Addr;
use std::time::Duration;

use rtwire_channel::{ReceivePath, TxPath};

use crate::streams::REALTIME;

/// The address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// Its interface's MAC address, for RTDiP streams with one listener.
    Mac([u8; 6]),
    /// Its IPv4 address, for UDP streams with one listener.
    Ip(Ipv4Addr),
}

/// How streams are opened. The default asks for nothing that the plan does not ask for.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Addresses of peers by host name. Without one an RTDiP stream goes to its own group.
    pub peers: Vec<(String, PeerAddress)>,
    /// The transmit path. With launch times only cyclic streams take it, all others the queueing discipline.
    pub path: TxPath,
    /// The receive path of RTDiP streams.
    pub receive_path: ReceivePath,
    /// The time for which listeners look again and again before they sleep.
    pub spin: Duration,
    /// Drops what is beyond a stream's contract where it arrives; granted is the promised delay and this much.
    pub police: Option<Duration>,
    /// Listeners poll the driver in their own calls (UDP streams only).
    pub polls: bool,
    /// SCHED_FIFO priority for a stream of priority 7; a stream of priority p has `realtime - 7 + p`. None: the same for all.
    pub realtime: Option<u8>,
    /// Also opens what would not keep the plan's promises.
    pub no_admission: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            peers: Vec::new(),
            path: TxPath::Qdisc,
            receive_path: ReceivePath::Auto,
            spin: Duration::ZERO,
            police: None,
            polls: false,
            realtime: None,
            no_admission: false,
        }
    }
}

impl SessionOptions {
    /// The SCHED_FIFO priority of the threads of a stream of priority `pcp`.
    #[must_use]
    pub fn realtime_of(&self, pcp: u8) -> u8 {
        match self.realtime {
            None => REALTIME,
            Some(highest) => highest.saturating_sub(7 - pcp.min(7)).max(1),
        }
    }
}

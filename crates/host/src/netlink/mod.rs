//! Netlink requests of the calling thread's network namespace.
//!
//! The typed bindings come from `netlink-bindings`, generated from the kernel's descriptions. Two requests are
//! missing there, and are encoded in `raw`: the far end of a veth pair, and multicast forwarding entries.

mod addresses;
pub(crate) mod attributes;
mod burst;
mod classes;
mod discipline;
mod ethtool;
mod facts;
mod links;
mod napi;
mod neighbours;
mod queues;
mod raw;
#[cfg(test)]
mod tests;
mod told;
mod tree;
mod uman;

pub use addresses::{Address, Route};
pub use burst::htb_whole;
pub(crate) use burst::tbf_whole;
pub use classes::ClassCounts;
pub use discipline::{Classes, Discipline, Gate};
pub(crate) use discipline::{HTB_QUANTUM_BYTES, smallest_bytes};
pub use ethtool::{Coalescing, Offloads, Parameter, Parameters, TimeStamping};
pub use facts::{LinkFacts, Qdisc, VlanFacts, XdpAbilities};
pub use links::{BridgePort, Forwarding, Neighbour, VethEnd};
pub use napi::Napi;
pub use neighbours::StaticNeighbour;
pub(crate) use neighbours::hardware_address;
pub(crate) use queues::OWN_RATE;
pub use queues::PortQueue;
pub use tree::{Filter, Queue, Tree};
pub use uman::{UmanLink, UmanMode, UmanOptions, UmanQueue};

use netlink_bindings::traits::NetlinkRequest;
use netlink_socket2::NetlinkSocket;

use crate::HostError;

/// A netlink socket. Its requests act on the namespace of the thread at the first request.
#[derive(Default)]
pub struct Netlink {
    socket: NetlinkSocket,
}

impl Netlink {
    /// Returns a socket that opens at the first request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a request and returns its replies, each the message's payload with the family's header.
    fn ask(
        &mut self,
        request: &raw::RawRequest,
        what: impl FnOnce() -> String,
    ) -> Result<Vec<Vec<u8>>, HostError> {
        let mut found = Vec::new();
        let mut replies = match self.socket.request(request) {
            Ok(replies) => replies,
            Err(error) => {
                return Err(HostError::Netlink {
                    what: what(),
                    reason: error.to_string(),
                    errno: error.raw_os_error().unwrap_or(0),
                });
            }
        };
        while let Some(reply) = replies.recv() {
            match reply {
                Ok(bytes) => found.push(bytes.to_vec()),
                Err(error) => {
                    let errno = error.as_io_error().raw_os_error().unwrap_or(0);
                    return Err(HostError::Netlink {
                        what: what(),
                        reason: error.to_string(),
                        errno,
                    });
                }
            }
        }
        Ok(found)
    }

    /// Sends a request that is answered by an acknowledgement; drops replies that come with it.
    fn acknowledge<R: NetlinkRequest>(
        &mut self,
        request: &R,
        what: impl FnOnce() -> String,
    ) -> Result<(), HostError> {
        let failed = |what: String, reason: String, errno: i32| HostError::Netlink {
            what,
            reason,
            errno,
        };
        let mut replies = match self.socket.request(request) {
            Ok(replies) => replies,
            Err(error) => {
                return Err(failed(
                    what(),
                    error.to_string(),
                    error.raw_os_error().unwrap_or(0),
                ));
            }
        };
        while let Some(reply) = replies.recv() {
            if let Err(error) = reply {
                let errno = error.as_io_error().raw_os_error().unwrap_or(0);
                return Err(failed(what(), error.to_string(), errno));
            }
        }
        Ok(())
    }
}

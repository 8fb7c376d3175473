//! Service data: reads and writes objects of another node, in order and without loss (DS 301, 6.3).
//!
//! ```text
//!  SdoClient: jobs ─► commands, divided into segments ─► Link (sequence layer) ─► frames, when the node may send
//!  SdoServer: objects ◄── commands, put together ◄────── Link                  ◄─ frames
//! ```
//! Both are polled: they report the number of waiting frames, and return one when the node has an asynchronous slot.

mod client;
mod clients;
mod link;
mod multiple;
mod server;

pub use client::{SdoClient, SdoFailure, SdoJob, SdoOutcome};
pub(crate) use clients::{Addressee, SdoClients, addressee, is_held, pass};
pub use multiple::{MultipleRead, MultipleResult, MultipleWrite};
pub use server::{ObjectAccess, Peer, SdoServer};

use rtwire_wire::powerlink::SDO_COMMAND_HEADER_OCTETS;

/// Largest length of one object that is written over the network, in bytes.
pub const MAXIMUM_TRANSFER_OCTETS: usize = 16 << 20;

/// Returns the bytes of command data that fit in a frame with `mtu` bytes behind the Ethernet header. This excludes
/// message type, nodes, service and sequence layer, the command's header, and the total length.
pub(crate) const fn segment_octets(mtu: usize) -> usize {
    let room = mtu.saturating_sub(4 + 4 + SDO_COMMAND_HEADER_OCTETS + 4);
    if room < 32 { 32 } else { room }
}

/// Methods of a node for service data over UDP, the same for both kinds of nodes. They use the node's `serve`,
/// `server` and `statistics`.
macro_rules! datagram_methods {
    () => {
        /// Processes service data received over UDP (the payload of a datagram to port
        /// [`SDO_UDP_PORT`](rtwire_wire::powerlink::SDO_UDP_PORT)). [`next_datagram`](Self::next_datagram) returns
        /// the answers.
        pub fn datagram(&mut self, now_ns: u64, from: ([u8; 4], u16), payload: &[u8]) {
            match rtwire_wire::powerlink::Sdo::parse_datagram(payload) {
                Ok(sdo) => self.serve(now_ns, crate::sdo::Peer::Udp(from.0, from.1), &sdo),
                Err(_) => self.statistics.invalid_frames += 1,
            }
        }

        /// Returns the number of datagrams that wait to be sent.
        #[must_use]
        pub fn datagrams_waiting(&self) -> usize {
            self.server.frames_waiting(false)
        }

        /// Writes the payload of the next datagram to the start of `out`; returns its length in bytes and its
        /// destination.
        pub fn next_datagram(
            &mut self,
            now_ns: u64,
            out: &mut [u8],
        ) -> Option<(usize, [u8; 4], u16)> {
            self.server.next_datagram(now_ns, out)
        }
    };
}
pub(crate) use datagram_methods;

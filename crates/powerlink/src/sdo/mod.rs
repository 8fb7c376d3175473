//! Service data: reading and writing objects of another node, in order and without loss (DS 301, 6.3).
//!
//! ```text
//!  SdoClient: jobs ─► commands, divided into segments ─► Link (sequence layer) ─► frames, when the node may send
//!  SdoServer: objects ◄── commands, put together ◄────── Link                  ◄─ frames
//! ```
//! Both are pulled: they say how many frames wait, and give one when the node has an asynchronous slot.

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

/// The most that one object may hold when it is written over the network, octets.
pub const MAXIMUM_TRANSFER_OCTETS: usize = 16 << 20;

/// Octets of command data that a frame of `mtu` octets (behind the Ethernet header) has room for: without message type,
/// nodes, service and sequence layer, and without the command's header and the number of all octets.
pub(crate) const fn segment_octets(mtu: usize) -> usize {
    let room = mtu.saturating_sub(4 + 4 + SDO_COMMAND_HEADER_OCTETS + 4);
    if room < 32 { 32 } else { room }
}

/// The methods of a node for service data over UDP: both kinds have the same, upon their `serve`, `server` and `statistics`.
macro_rules! datagram_methods {
    () => {
        /// Takes service data that came by UDP (the payload of a datagram to port
        /// [`SDO_UDP_PORT`](rtwire_wire::powerlink::SDO_UDP_PORT)); what is to be sent is fetched with
        /// [`next_datagram`](Self::next_datagram).
        pub fn datagram(&mut self, now_ns: u64, from: ([u8; 4], u16), payload: &[u8]) {
            match rtwire_wire::powerlink::Sdo::parse_datagram(payload) {
                Ok(sdo) => self.serve(now_ns, crate::sdo::Peer::Udp(from.0, from.1), &sdo),
                Err(_) => self.statistics.invalid_frames += 1,
            }
        }

        /// How many datagrams wait to be sent.
        #[must_use]
        pub fn datagrams_waiting(&self) -> usize {
            self.server.frames_waiting(false)
        }

        /// Writes the payload of the next datagram to the front of `out`; gives its octets, and where it goes.
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

//! The managing node's service data with its nodes, and by UDP.

use super::ManagingNode;
use super::errors::LiveObjects;
use crate::cn::Objects;
use crate::sdo::{Addressee, Peer, addressee};
use rtwire_wire::powerlink::{Sdo, node};

impl ManagingNode {
    pub(super) fn sdo(&mut self, now_ns: u64, at: usize, source: u8, sdo: &Sdo<'_>) {
        let Some(cn) = self.nodes.get_mut(at) else {
            return;
        };
        match addressee(&cn.client, &self.server, (node::MN, source), sdo) {
            Addressee::Client => {
                cn.client.receive(now_ns, sdo);
                self.outcomes(now_ns, at);
            }
            Addressee::Nobody => {}
            Addressee::Server => self.serve(now_ns, Peer::Node(source), sdo),
        }
    }

    fn serve(&mut self, now_ns: u64, peer: Peer, sdo: &Sdo<'_>) {
        let mut objects = LiveObjects {
            objects: Objects {
                dictionary: &mut self.dictionary,
                image: &mut self.image,
                events: &mut self.events,
                running: true,
                limits: [1490, 1490],
            },
            counters: &mut self.counters,
            nodes: &mut self.nodes,
            places: &self.places,
            history: &mut self.history,
        };
        self.server.receive(now_ns, peer, sdo, &mut objects);
    }

    /// Takes service data that came by UDP (the payload of a datagram to port
    /// [`SDO_UDP_PORT`](rtwire_wire::powerlink::SDO_UDP_PORT)); what is to be sent is fetched with
    /// [`next_datagram`](Self::next_datagram).
    pub fn datagram(&mut self, now_ns: u64, from: ([u8; 4], u16), payload: &[u8]) {
        match Sdo::parse_datagram(payload) {
            Ok(sdo) => self.serve(now_ns, Peer::Udp(from.0, from.1), &sdo),
            Err(_) => self.statistics.invalid_frames += 1,
        }
    }

    /// How many datagrams wait to be sent.
    #[must_use]
    pub fn datagrams_waiting(&self) -> usize {
        self.server.frames_waiting(false)
    }

    /// Writes the payload of the next datagram to the front of `out`; gives its octets, and where it goes.
    pub fn next_datagram(&mut self, now_ns: u64, out: &mut [u8]) -> Option<(usize, [u8; 4], u16)> {
        self.server.next_datagram(now_ns, out)
    }
}

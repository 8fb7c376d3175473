//! The managing node's service data with its nodes, and by UDP.

use super::ManagingNode;
use super::errors::LiveObjects;
use crate::cn::Objects;
use crate::sdo::{Addressee, Peer, addressee};
use rtwire_wire::powerlink::{Sdo, node};

impl ManagingNode {
    crate::sdo::datagram_methods!();

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
                keeping: None,
            },
            counters: &mut self.counters,
            nodes: &mut self.nodes,
            places: &self.places,
            history: &mut self.history,
        };
        self.server.receive(now_ns, peer, sdo, &mut objects);
    }
}

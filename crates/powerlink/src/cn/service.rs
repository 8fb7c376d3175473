//! The controlled node's service data: its server, and its clients, which ask other nodes.

use super::{ControlledNode, FRAME_OCTETS};
use crate::Event;
use crate::sdo::{Addressee, Peer, SdoJob, addressee};
use rtwire_wire::powerlink::{Asnd, MINIMUM_OCTETS, Message, Packet, Sdo, multicast, node, pad};
use rtwire_wire::{MacAddress, Outbox};

/// Writes a message to a node as a frame to `out`. Returns its length in octets; 0 where there is no room.
fn frame(from: (MacAddress, u8), destination: u8, sdo: &Sdo<'_>, out: &mut [u8]) -> usize {
    let packet = Packet {
        destination_address: multicast::ASND,
        source_address: from.0,
        destination,
        source: from.1,
        message: Message::Asnd(Asnd::Sdo(*sdo)),
    };
    packet
        .emit(out)
        .map_or(0, |octets| pad(out, octets, MINIMUM_OCTETS))
}

impl ControlledNode {
    crate::sdo::datagram_methods!();

    /// Begins a job of service data with another node, which may be the managing node. Returns the number that its
    /// event will have; `None` where `node` is no other node's number.
    ///
    /// The messages take asynchronous slots as the managing node assigns them. Without a cycle the job waits, at most
    /// twice the time in object 1300h.
    pub fn submit(&mut self, now_ns: u64, node: u8, job: SdoJob) -> Option<u32> {
        if node == self.node || matches!(node, node::INVALID | node::BROADCAST) {
            return None;
        }
        let id = self.clients.submit(now_ns, node, job);
        self.prepare_pres();
        Some(id)
    }

    /// Reports the outcomes of jobs as events.
    pub(super) fn outcomes(&mut self) {
        while let Some((node, id, outcome)) = self.clients.outcome() {
            self.events.push(Event::Sdo { node, id, outcome });
        }
    }

    pub(super) fn send_waiting(&mut self, now_ns: u64, outbox: &mut dyn Outbox) -> bool {
        let from = (self.address, self.node);
        let mut room = [0; FRAME_OCTETS];
        let mut octets = 0;
        self.clients_first = !self.clients_first;
        for clients in [self.clients_first, !self.clients_first] {
            if clients {
                self.clients
                    .next_frame(now_ns, &self.server, &mut |to, sdo| {
                        octets = frame(from, to, sdo, &mut room);
                    });
            } else {
                self.server.next_frame(now_ns, true, &mut |peer, sdo| {
                    if let Peer::Node(to) = peer {
                        octets = frame(from, to, sdo, &mut room);
                    }
                });
            }
            if octets > 0 {
                outbox.send(room.get(..octets).unwrap_or_default(), None);
                return true;
            }
        }
        self.generic.pop(|frame| outbox.send(frame, None))
    }

    pub(super) fn sdo(&mut self, now_ns: u64, source: u8, sdo: &Sdo<'_>) {
        let client = self.clients.of(source).map(|client| {
            let nodes = (self.node, source);
            (addressee(client, &self.server, nodes, sdo), client)
        });
        match client {
            Some((Addressee::Client, client)) => {
                client.receive(now_ns, sdo);
                self.outcomes();
            }
            Some((Addressee::Nobody, _)) => {}
            Some((Addressee::Server, _)) | None => self.serve(now_ns, Peer::Node(source), sdo),
        }
        self.prepare_pres();
    }

    fn serve(&mut self, now_ns: u64, peer: Peer, sdo: &Sdo<'_>) {
        self.with_server(|server, objects| {
            server.receive(now_ns, peer, sdo, objects);
        });
        self.after_writes(now_ns);
    }
}

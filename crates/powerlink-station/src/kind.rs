//! A node of either kind, as the station drives it.

use core::ops::Range;
use rtwire_powerlink::sdo::SdoJob;
use rtwire_powerlink::{ControlledNode, Event, LinkErrors, ManagingNode, ProcessImage, Statistics};
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::{Node, Outbox};

#[derive(Debug)]
pub(crate) enum Kind {
    Managing(Box<ManagingNode>),
    Controlled(Box<ControlledNode>),
}

/// The object behind a point. The point is found by it again after the image was laid out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) node: u8,
    pub(crate) index: u16,
    pub(crate) subindex: u8,
    pub(crate) output: bool,
}

impl Kind {
    pub(crate) fn image(&self) -> &ProcessImage {
        match self {
            Self::Managing(node) => node.image(),
            Self::Controlled(node) => node.image(),
        }
    }

    pub(crate) fn image_mut(&mut self) -> &mut ProcessImage {
        match self {
            Self::Managing(node) => node.image_mut(),
            Self::Controlled(node) => node.image_mut(),
        }
    }

    /// Takes outputs over that were computed from the inputs of `cycle`: into the PRes, or with the next SoC.
    pub(crate) fn commit_of(&mut self, cycle: u64) {
        match self {
            Self::Managing(node) => node.commit_of(cycle),
            Self::Controlled(node) => node.commit_of(cycle),
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        match self {
            Self::Managing(node) => node.next_event(),
            Self::Controlled(node) => node.next_event(),
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        match self {
            Self::Managing(node) => node.statistics(),
            Self::Controlled(node) => node.statistics(),
        }
    }

    /// Reports errors of the interface to the node.
    pub(crate) fn observe(&mut self, now_ns: u64, seen: &LinkErrors) {
        match self {
            Self::Managing(node) => node.observe(now_ns, seen),
            Self::Controlled(node) => node.observe(now_ns, seen),
        }
    }

    /// Returns the number of missing responses (managing node) or SoC (controlled node).
    pub(crate) fn missing(&self, statistics: &Statistics) -> u64 {
        match self {
            Self::Managing(_) => statistics.lost_responses,
            Self::Controlled(_) => statistics.lost_soc,
        }
    }

    pub(crate) fn send_ethernet(&mut self, frame: &[u8]) -> bool {
        match self {
            Self::Managing(node) => node.send_ethernet(frame),
            Self::Controlled(node) => node.send_ethernet(frame),
        }
    }

    /// Begins a job of service data with another node. Returns its number.
    pub(crate) fn submit(&mut self, now_ns: u64, target: u8, job: SdoJob) -> Option<u32> {
        match self {
            Self::Managing(node) => node.submit(now_ns, target, job),
            Self::Controlled(node) => node.submit(now_ns, target, job),
        }
    }

    pub(crate) fn datagram(&mut self, now_ns: u64, from: ([u8; 4], u16), payload: &[u8]) {
        match self {
            Self::Managing(node) => node.datagram(now_ns, from, payload),
            Self::Controlled(node) => node.datagram(now_ns, from, payload),
        }
    }

    pub(crate) fn datagrams_waiting(&self) -> usize {
        match self {
            Self::Managing(node) => node.datagrams_waiting(),
            Self::Controlled(node) => node.datagrams_waiting(),
        }
    }

    pub(crate) fn next_datagram(
        &mut self,
        now_ns: u64,
        out: &mut [u8],
    ) -> Option<(usize, [u8; 4], u16)> {
        match self {
            Self::Managing(node) => node.next_datagram(now_ns, out),
            Self::Controlled(node) => node.next_datagram(now_ns, out),
        }
    }

    pub(crate) fn find(&self, key: Key) -> Option<Range<usize>> {
        let image = self.image();
        let channels = if key.output {
            &image.transmit
        } else {
            &image.receive
        };
        // Of a controlled node's own PDOs there is one kind each; their node is 0.
        let of_node = matches!(self, Self::Managing(_));
        channels
            .iter()
            .filter(|channel| !of_node || channel.node == key.node)
            .find_map(|channel| {
                let same = |m: &&rtwire_powerlink::pdo::Mapped| {
                    (m.index, m.subindex) == (key.index, key.subindex)
                };
                let mapped = channel.mapped.iter().find(same)?;
                let begin = channel.at + mapped.offset_octets;
                Some(begin..begin + mapped.octets)
            })
    }
}

impl Node for Kind {
    fn start(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        match self {
            Self::Managing(node) => node.start(now_ns, outbox),
            Self::Controlled(node) => node.start(now_ns, outbox),
        }
    }

    fn frame(&mut self, now_ns: u64, frame: &[u8], outbox: &mut dyn Outbox) {
        // No system call: the clock is read from mapped memory.
        let read_ns = clock::now_ns(Clock::Monotonic);
        match self {
            Self::Managing(node) => {
                node.reads_at(read_ns);
                node.frame(now_ns, frame, outbox);
            }
            Self::Controlled(node) => {
                node.reads_at(read_ns);
                node.frame(now_ns, frame, outbox);
            }
        }
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        match self {
            Self::Managing(node) => node.moment(now_ns, outbox),
            Self::Controlled(node) => node.moment(now_ns, outbox),
        }
    }

    fn sending_took(&mut self, took_ns: u64) {
        match self {
            Self::Managing(node) => node.sending_took(took_ns),
            Self::Controlled(node) => node.sending_took(took_ns),
        }
    }

    fn settle(&mut self, outbox: &mut dyn Outbox) {
        match self {
            Self::Managing(node) => node.settle(outbox),
            Self::Controlled(node) => node.settle(outbox),
        }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        match self {
            Self::Managing(node) => node.wake_at_ns(),
            Self::Controlled(node) => node.wake_at_ns(),
        }
    }
}

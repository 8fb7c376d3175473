//! What a simulator has seen, and how to ask it.

use std::collections::VecDeque;

use super::{Event, Simulator};
use crate::histogram::Histogram;

/// What was seen at a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSeen {
    /// Most bits on the wire that waited at once, without what was sent of the frame under way already.
    pub backlog_bits: u64,
    /// Most frames that waited or were being sent at once.
    pub backlog_frames: u64,
    /// Frames that found no memory.
    pub dropped: u64,
    /// By class: largest time from arrival at the port to the last bit on the link, picoseconds.
    pub class_delay_ps: Vec<u64>,
    /// Scheduled frames that did not begin to be sent at the start of their window, on the port's own clock.
    pub off_window: u64,
}

/// What was seen of a stream at a listener.
#[derive(Clone, Debug, Default)]
pub struct ListenerSeen {
    /// Frames that came.
    pub received: u64,
    /// Those of them whose delays count: all, but where a schedule needs every frame in its place (`isolation = "frames"`),
    /// and not all have come into theirs yet.
    pub judged: u64,
    /// Largest delay, picoseconds.
    pub worst_ps: u64,
    /// Least delay, picoseconds; 0 where nothing came.
    pub least_ps: u64,
    /// When the frame of the largest delay entered its talker's queue, picoseconds.
    pub worst_born_ps: u64,
    pub(super) histogram: Histogram,
}

impl ListenerSeen {
    pub(super) fn judge(&mut self, delay_ps: u64, born_ps: u64) {
        self.least_ps = if self.judged == 0 {
            delay_ps
        } else {
            self.least_ps.min(delay_ps)
        };
        self.judged += 1;
        self.histogram.record(delay_ps);
        if delay_ps > self.worst_ps {
            self.worst_ps = delay_ps;
            self.worst_born_ps = born_ps;
        }
    }

    /// A delay in picoseconds that so many thousandths of all did not exceed, up to 1.6 % too high but never above the
    /// largest; none where nothing came.
    #[must_use]
    pub fn quantile_ps(&self, permille: u64) -> Option<u64> {
        let value = self.histogram.quantile(permille)?;
        Some(value.min(self.worst_ps))
    }
}

impl Simulator<'_> {
    /// Frames that each flow has sent: streams first, then best-effort allowances.
    #[must_use]
    pub fn sent(&self) -> &[u64] {
        &self.sent
    }

    /// What listeners saw: of all streams and then allowances, in the order of the description.
    #[must_use]
    pub fn listeners(&self) -> &[ListenerSeen] {
        &self.listeners
    }

    /// What was seen at a port, in the order of the plan's ports.
    #[must_use]
    pub fn port(&self, index: usize) -> Option<&PortSeen> {
        self.ports.get(index).map(|port| &port.seen)
    }

    /// Transmissions so far: each frame counts at each port that sends it.
    #[must_use]
    pub fn frame_hops(&self) -> u64 {
        self.frame_hops
    }

    /// Copies of frames that were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Copies of frames that reached a listener so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When the first frame of an edge came to its port, picoseconds.
    pub(crate) fn first_came_ps(&self, edge: u32) -> Option<u64> {
        let came = self.first_came_ps.get(edge as usize).copied();
        came.filter(|came| *came != u64::MAX)
    }

    /// When a frame of the flow that is last at ties came to the port of an edge, picoseconds.
    pub(crate) fn came_ps(&self, born_ps: u64, edge: u32) -> Option<u64> {
        let mut trace = self.trace.iter();
        let found = trace.find(|(born, at, _)| *born == born_ps && *at == edge);
        found.map(|(_, _, came_ps)| *came_ps)
    }

    /// The instant that has been reached, picoseconds.
    #[must_use]
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Copies of frames under way, counted where they are: in queues, in pipelines, on links.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let queued: usize = self
            .ports
            .iter()
            .flat_map(|port| port.queues.iter().map(VecDeque::len))
            .sum();
        let moving = self
            .events
            .iter()
            .filter(|event| matches!(event, Event::Arrives(_) | Event::Eligible { .. }));
        queued as u64 + moving.count() as u64
    }

    /// Copies of frames that came into being less those that ended: the same as [`Simulator::in_flight`], kept as a sum.
    #[must_use]
    pub fn copies_alive(&self) -> u64 {
        self.copies - self.delivered
    }
}

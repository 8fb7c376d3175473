//! The results of a simulator and access to them.

use std::collections::VecDeque;

use super::{Event, Simulator};
use crate::histogram::Histogram;

/// The results at a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSeen {
    /// Largest number of bits on the wire that waited at once, without the sent part of the frame being sent.
    pub backlog_bits: u64,
    /// Largest number of frames that waited or were being sent at once.
    pub backlog_frames: u64,
    /// Frames dropped because the memory was full.
    pub dropped: u64,
    /// Largest time of each class from arrival at the port to the last bit on the link, ps.
    pub class_delay_ps: Vec<u64>,
    /// Scheduled frames whose transmission did not begin at the start of their window, on the port's own clock.
    pub off_window: u64,
}

/// The results of a stream at a listener.
#[derive(Clone, Debug, Default)]
pub struct ListenerSeen {
    /// Frames that arrived.
    pub received: u64,
    /// Frames whose delay counts. These are all frames, except while a schedule with `isolation = "frames"` is not yet
    /// filled.
    pub judged: u64,
    /// Largest delay, ps.
    pub worst_ps: u64,
    /// Least delay, ps; 0 if nothing arrived.
    pub least_ps: u64,
    /// Frames that broken links lost on their way to it.
    pub cut: u64,
    /// Time at which the frame of the largest delay entered its talker's queue, ps.
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

    /// Returns a delay that `permille` thousandths of all frames did not exceed, ps. It is up to 1.6 % too high, but
    /// never above the largest. Returns `None` if nothing arrived.
    #[must_use]
    pub fn quantile_ps(&self, permille: u64) -> Option<u64> {
        let value = self.histogram.quantile(permille)?;
        Some(value.min(self.worst_ps))
    }
}

impl Simulator<'_> {
    /// Returns the number of frames that each flow has sent: streams first, then best-effort allowances.
    #[must_use]
    pub fn sent(&self) -> &[u64] {
        &self.sent
    }

    /// Returns the results of the listeners: those of streams, then those of allowances, in the order of the
    /// description.
    #[must_use]
    pub fn listeners(&self) -> &[ListenerSeen] {
        &self.listeners
    }

    /// Returns the results of the ports, in the order of the plan's ports.
    #[must_use]
    pub fn port(&self, index: usize) -> Option<&PortSeen> {
        self.ports.get(index).map(|port| &port.seen)
    }

    /// Returns the number of transmissions so far. Each frame counts at each port that sends it.
    #[must_use]
    pub fn frame_hops(&self) -> u64 {
        self.frame_hops
    }

    /// Returns the number of copies of frames dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of copies of frames that have reached a listener.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the time at which the first frame of an edge arrived at its port, ps.
    pub(crate) fn first_came_ps(&self, edge: u32) -> Option<u64> {
        let came = self.came.get(edge as usize).map(|came| came.first_ps);
        came.filter(|came| *came != u64::MAX)
    }

    /// Returns the time at which the last frame of an edge's first burst arrived at its port, ps: as many frames as its
    /// flow may send at once.
    pub(crate) fn burst_came_ps(&self, edge: u32) -> Option<u64> {
        let came = self.came.get(edge as usize)?;
        (came.first_ps != u64::MAX).then_some(came.burst_ps)
    }

    /// Returns the time at which a frame of the flow that is last at ties arrived at an edge's port, ps.
    pub(crate) fn came_ps(&self, born_ps: u64, edge: u32) -> Option<u64> {
        let mut trace = self.trace.iter();
        let found = trace.find(|(born, at, _)| *born == born_ps && *at == edge);
        found.map(|(_, _, came_ps)| *came_ps)
    }

    /// The same for the last of the frames that entered their talker's queue together.
    pub(crate) fn last_came_ps(&self, born_ps: u64, edge: u32) -> Option<u64> {
        let mut trace = self.trace.iter().rev();
        let found = trace.find(|(born, at, _)| *born == born_ps && *at == edge);
        found.map(|(_, _, came_ps)| *came_ps)
    }

    /// Returns the current simulated time, ps.
    #[must_use]
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Returns the number of copies in the network, counted in queues, in pipelines and on links.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let queued: usize = self
            .ports
            .iter()
            .flat_map(|port| port.queues.iter().map(VecDeque::len))
            .sum();
        let begun: usize = self.ports.iter().map(|port| port.pieces.frames()).sum();
        let moving = self
            .events
            .iter()
            .filter(|event| matches!(event, Event::Arrives(_) | Event::Eligible { .. }));
        (queued + begun) as u64 + moving.count() as u64
    }

    /// Returns the number of copies created minus the number of copies ended. It equals [`Simulator::in_flight`] but
    /// is kept as a sum.
    #[must_use]
    pub fn copies_alive(&self) -> u64 {
        self.copies - self.delivered
    }
}

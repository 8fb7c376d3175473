//! Frames that are forwarded before their end has come.
//!
//! ```text
//! head at the port ──latency──► port idle, nothing waits ──► sent at once
//!                                        else ──► last bit at the port ──latency──► queue
//! ```

use rtwire_plan::CutThrough;

use super::{Event, Frame, Simulator, Waiting};
use crate::scenario::Lateness;

impl Simulator<'_> {
    /// True if a frame may be forwarded at an edge before its end has come.
    pub(super) fn has_head(&self, edge: u32, bits: u32) -> bool {
        let edge = &self.model.edges[edge as usize];
        edge.cut_through != CutThrough::Off && bits > self.model.header_bits
    }

    /// Announces the head of a frame to the ports behind, of which the last bit is there at `last_ps`.
    pub(super) fn send_heads(&mut self, frame: Frame, last_ps: u64, took_ps: u64, tie: u16) {
        let edge = &self.model.edges[frame.edge as usize];
        let (first, end) = edge.branches;
        for branch in first..end {
            let next = self.model.branches[branch as usize];
            if !self.has_head(next, frame.bits) {
                continue;
            }
            let line = &self.model.ports[edge.port as usize].line;
            // Rounded up: the head is never early.
            let head_ps = line.transmit(self.model.header_bits, 0).0 + 1;
            let at_ps = (last_ps - took_ps.min(last_ps)).saturating_add(head_ps);
            let frame = Frame {
                edge: next,
                ..frame
            };
            self.copies += 1;
            self.events
                .push(at_ps, tie, Event::Heads { frame, last_ps });
        }
    }

    /// Decides whether a frame whose head has come is forwarded if it can be.
    pub(super) fn head(&mut self, frame: Frame, last_ps: u64) {
        let edge = &self.model.edges[frame.edge as usize];
        let (index, lane) = (edge.port, edge.lane as usize);
        let is_victim = edge.flow == self.last_at_ties;
        self.heads[lane] += 1;
        let cuts = match self.lateness[index as usize] {
            _ if edge.cut_through == CutThrough::On => true,
            Lateness::Prompt | Lateness::BusyStart => true,
            Lateness::Pipeline => false,
            Lateness::Random => self.random.once_in(2),
            // As early as the others are to meet, where a stored frame would be too late.
            Lateness::Gather { at_ps } => !is_victim && at_ps < last_ps + edge.latency_min_ps,
        };
        let tie = self.tie(edge.flow);
        let most_ps = edge.latency_ps;
        let late_ps = if cuts {
            self.late_ps(index, frame.edge)
        } else {
            0
        };
        // Behind all frames of its lane, whatever becomes of them.
        let (before_ps, before_tie) = self.lanes[lane];
        let late_ps = late_ps.max(before_ps.saturating_sub(self.now_ps));
        if !cuts || late_ps > most_ps {
            self.events.push(last_ps, tie, Event::Stored(frame));
            return;
        }
        let at_ps = last_ps.saturating_add(late_ps);
        let lane_tie = if at_ps == before_ps {
            tie.max(before_tie)
        } else {
            tie
        };
        self.lanes[lane] = (at_ps, lane_tie);
        let event = Event::Cuts {
            frame,
            last_ps,
            late_ps,
        };
        self.events.push(self.now_ps + late_ps, tie, event);
    }

    /// Forwards a frame whose head is through its latency, if the port is idle and no other is before it. Else it waits
    /// for its end.
    pub(super) fn cut(&mut self, frame: Frame, last_ps: u64, late_ps: u64) {
        let edge = &self.model.edges[frame.edge as usize];
        let (index, lane) = (edge.port, edge.lane as usize);
        let port = &self.ports[index as usize];
        let idle = port.filled == 0 && !port.woken && self.now_ps >= port.busy_until_ps;
        if idle && self.heads[lane] == 1 {
            if self.takes_memory(frame, last_ps) {
                let came_ps = last_ps;
                self.queue(index, Waiting { frame, came_ps });
            }
        } else if self.now_ps < last_ps {
            let tie = self.tie(edge.flow);
            self.events
                .push(last_ps, tie, Event::Late { frame, late_ps });
        } else {
            self.stored(frame, last_ps, late_ps);
        }
    }

    /// Lets a frame whose last bit came at `last_ps` pass a latency that is known. Its lane knows it, too.
    pub(super) fn stored(&mut self, frame: Frame, last_ps: u64, late_ps: u64) {
        if self.takes_memory(frame, last_ps) {
            let came_ps = last_ps;
            let at_ps = last_ps.saturating_add(late_ps).max(self.now_ps);
            let edge = &self.model.edges[frame.edge as usize];
            let (lane_ps, lane_tie) = self.lanes[edge.lane as usize];
            let tie = self.tie(edge.flow);
            let tie = if lane_ps == at_ps { lane_tie } else { tie };
            self.events
                .push(at_ps, tie, Event::Eligible { frame, came_ps });
        }
    }

    /// Notes that a frame is in its queue, or lost.
    pub(super) fn leaves_lane(&mut self, frame: Frame) {
        if self.has_head(frame.edge, frame.bits) {
            let lane = self.model.edges[frame.edge as usize].lane;
            let heads = &mut self.heads[lane as usize];
            *heads = heads.saturating_sub(1);
        }
    }
}

//! Frames that are interrupted so that their rest is in the victim's way.
//!
//! ```text
//! preemptable   |== carried ==|crc|gap|               |== rest that cannot be interrupted ==|
//! express                     ^ comes |=== is sent ===|
//! victim                                               ^ comes
//! ```

use super::Search;
use crate::model::Binding;
use crate::scenario::Scenario;
use crate::simulator::pieces;

impl Search<'_, '_> {
    /// Lets an express flow interrupt a preemptable one at a port of the victim's route, so that the longest rest that cannot be
    /// interrupted begins before the victim comes. Returns false if no port permits it.
    pub(super) fn cut(&mut self, scenario: &mut Scenario) -> bool {
        let model = self.model;
        let mut choices = Vec::new();
        for (low, lower) in self.meetings.iter().enumerate() {
            let mine = &model.edges[lower.mine as usize];
            let Some(preemption) = model.ports[mine.port as usize].preemption else {
                continue;
            };
            let class = model.edges[lower.theirs as usize].class;
            if mine.class < preemption.first_express || class >= preemption.first_express {
                continue;
            }
            let (here, carried) = (model.flows[lower.flow].bits, preemption);
            let Some(carried) = pieces::before_longest_rest(here, carried) else {
                continue;
            };
            for (high, other) in self.meetings.iter().enumerate() {
                let theirs = &model.edges[other.theirs as usize];
                if theirs.port == mine.port && theirs.class >= preemption.first_express {
                    choices.push((low, high, carried));
                }
            }
        }
        if choices.is_empty() {
            return false;
        }
        let (low, high, carried) = choices[self.random.below(choices.len() as u64) as usize];
        let (lower, other) = (self.meetings[low], self.meetings[high]);
        let (Some((mine_ps, low_ps)), Some((_, high_ps))) =
            (self.arrivals(low), self.arrivals(high))
        else {
            return false;
        };
        let port = model.edges[lower.mine as usize].port;
        let line = &model.ports[port as usize].line;
        let time = |bits: u32| line.transmit(bits, 0).0;
        // Rounded so that the rest has begun when the victim comes.
        let sent_ps = time(model.flows[other.flow].bits) + 1;
        let ends_ps = mine_ps.checked_sub(sent_ps + 1);
        let begins_ps = ends_ps.and_then(|at| at.checked_sub(time(pieces::wire_bits(carried)) + 1));
        let Some(begins_ps) = begins_ps else {
            return false;
        };
        let comes_ps = begins_ps + time(pieces::sent_bits(carried));
        let signed = |ps: u64| i64::try_from(ps).unwrap_or(i64::MAX / 2);
        for (flow, wanted_ps, was_ps) in [
            (lower.flow, begins_ps, low_ps),
            (other.flow, comes_ps, high_ps),
        ] {
            let source = &mut scenario.sources[flow];
            let shift = signed(wanted_ps) - signed(was_ps);
            source.phase_ps = source.phase_ps.saturating_add_signed(shift);
        }
        if self.random.once_in(2) {
            // Its second frame meets the victim.
            let apart_ps = match model.flows[other.flow].binding {
                Binding::Interval { interval_ps } => interval_ps,
                _ => 0,
            };
            let source = &mut scenario.sources[other.flow];
            source.gap_before = 1;
            source.gap_ps = (mine_ps - comes_ps).saturating_sub(apart_ps);
        }
        true
    }

    /// Returns the times at which the victim's worst frame and the first one of another source arrived where they meet,
    /// ps.
    fn arrivals(&self, meeting: usize) -> Option<(u64, u64)> {
        let (first_ps, _) = self.seen.get(meeting).copied().flatten()?;
        let (mine_ps, _) = self
            .comes
            .get(self.meetings[meeting].hop)
            .copied()
            .flatten()?;
        Some((mine_ps, first_ps))
    }
}

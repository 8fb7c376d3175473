//! Links that are broken for a time, and the recovery of the streams that have another way.

use super::{Frame, Simulator};
use crate::model::{Binding, NONE};
use crate::recovery::{Recovering, RecoverySeen};

impl Simulator<'_> {
    /// Returns the recovery function of a flow's frames.
    pub(super) fn recovery(&mut self, flow: u32) -> Option<&mut Recovering> {
        let recovery = self.model.flows[flow as usize].recovery;
        // Recorded departures are no copies of each other.
        if recovery == NONE || self.tape.is_some() {
            return None;
        }
        self.recoveries.get_mut(recovery as usize)
    }

    /// Returns true if both copies of a frame are launched, one of them at `local_ps`, and false if none is: the end of the
    /// simulation does not come between them. `None` for frames without a copy that has a launch of its own.
    pub(super) fn is_both_copies(&self, flow: u32, local_ps: u64) -> Option<bool> {
        let own = &self.model.flows[flow as usize];
        let first = &self.model.flows[own.leader as usize];
        match (own.binding, first.binding) {
            (
                Binding::Launch {
                    offset_ps: own_ps, ..
                },
                Binding::Launch {
                    offset_ps: first_ps,
                    ..
                },
            ) if own.recovery != NONE => {
                let of_first_ps = local_ps.saturating_sub(own_ps).saturating_add(first_ps);
                Some(of_first_ps <= self.duration_ps)
            }
            _ => None,
        }
    }

    /// Returns the results of the redundant streams that have a recovery, with their names, in the order of the plan.
    pub fn recoveries(&self) -> impl Iterator<Item = (&str, &RecoverySeen)> {
        let models = self.model.recoveries.iter().zip(&self.recoveries);
        models.map(|(model, recovering)| {
            let flow = &self.model.flows[model.flow as usize];
            (flow.name.as_str(), recovering.seen())
        })
    }

    /// True if a broken link loses a frame of which the first bit is sent at `starts_ps`, and the last bit comes at `ends_ps`.
    /// The frame is counted at each listener that it does not reach.
    pub(super) fn is_cut(
        &mut self,
        index: u32,
        frame: Frame,
        starts_ps: u64,
        ends_ps: u64,
    ) -> bool {
        let broken = self.breaks.iter().any(|one| {
            one.port == index as usize && one.from_ps <= ends_ps && starts_ps < one.until_ps
        });
        if broken {
            let edge = &self.model.edges[frame.edge as usize];
            let (flow, even) = (edge.flow, edge.even);
            let (first, end) = self.model.flows[flow as usize].listeners;
            for at in first as usize..end as usize {
                if self.model.listeners[at].path.contains(&even) {
                    self.listeners[at].cut += 1;
                }
            }
            self.copies -= 1;
        }
        broken
    }
}

//! The actions that inform the port about a cycle's requests: their frames, the response before each, and the chain's
//! end.

use super::ManagingNode;
use super::cycle::Phase;
use crate::prepared;
use rtwire_wire::{Action, Arm, Outbox, Slot};

impl ManagingNode {
    /// Returns the slot of the request at `place` of the running cycle.
    pub(super) fn slot(&self, place: usize) -> Option<Slot> {
        prepared::request(self.statistics.cycles, place)
    }

    /// Prepares and arms the requests of the cycle that begins. Must precede its SoC, so that none of them leaves
    /// without it.
    pub(super) fn announce_polls(&mut self, outbox: &mut dyn Outbox) {
        self.disarm(outbox);
        let mut before = None;
        for (place, poll) in self.polls.iter().take(self.poll_count).enumerate() {
            let Some(slot) = self.slot(place) else {
                break;
            };
            let frame = &poll.frame;
            outbox.act(Action::Prepare { slot, frame });
            if let Some((behind, node)) = before {
                outbox.act(Action::Arm(Arm {
                    slot,
                    cue: prepared::pres(node),
                    after_ns: 0,
                    behind: Some(behind),
                }));
            }
            before = Some((slot, poll.node));
        }
        self.armed = before.map(|_| self.statistics.cycles);
    }

    /// Disarms the requests where the isochronous phase is over or was broken off. This is the last step of every
    /// call.
    pub(super) fn disarm_if_over(&mut self, outbox: &mut dyn Outbox) {
        if !matches!(
            self.phase,
            Phase::WaitFirst { .. } | Phase::WaitResponse { .. }
        ) {
            self.disarm(outbox);
        }
    }

    fn disarm(&mut self, outbox: &mut dyn Outbox) {
        let armed = self.armed.take();
        if let Some(slot) = armed.and_then(|cycle| prepared::request(cycle, 0)) {
            outbox.act(Action::Disarm { slot });
        }
    }
}

//! What the port is told of the PRes: the frame, when to send it by itself, and when not any more.

use super::ControlledNode;
use crate::prepared;
use rtwire_wire::powerlink::node;
use rtwire_wire::{Action, Arm, Outbox};

/// What the port was told last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// The prepared frame is the newest.
    pub(super) frame: bool,
    /// The reply is armed on PReqs.
    armed: bool,
    /// It is armed on the managing node's PRes, too, so long after it, ns.
    chained_ns: Option<u64>,
    /// It was renewed since the last SoC.
    pub(super) renewed: bool,
}

impl ControlledNode {
    /// Gives the actions that follow from the state and the PRes as they are now. The last step of every call: a state that
    /// does not answer is told in the call that enters it.
    pub(super) fn tell_answering(&mut self, outbox: &mut dyn Outbox) {
        let slot = prepared::RESPONSE;
        let chained_ns = self.timing.chained.then_some(self.timing.chain_ns);
        let leaves_chain = self.told.chained_ns.is_some() && chained_ns.is_none();
        if self.told.armed && (!self.answers() || leaves_chain) {
            outbox.act(Action::Disarm { slot });
            self.told.armed = false;
            self.told.chained_ns = None;
        }
        if !self.answers() {
            return;
        }
        if !core::mem::replace(&mut self.told.frame, true) {
            let frame = &self.pres;
            outbox.act(Action::Prepare { slot, frame });
        }
        let known = self.told.armed && self.told.chained_ns == chained_ns;
        if core::mem::replace(&mut self.told.renewed, true) && known {
            return;
        }
        self.told.armed = true;
        self.told.chained_ns = chained_ns;
        let arm = |cue, after_ns| {
            Action::Arm(Arm {
                slot,
                cue,
                after_ns,
                behind: None,
            })
        };
        outbox.act(arm(prepared::PREQ, 0));
        if let Some(after_ns) = chained_ns {
            outbox.act(arm(prepared::pres(node::MN), after_ns));
        }
    }

    /// The PRes is due: on a PReq, or at this time behind the managing node's PRes.
    pub(super) fn respond(&self, launch_ns: Option<u64>, outbox: &mut dyn Outbox) {
        outbox.act(Action::Due {
            slot: prepared::RESPONSE,
            frame: &self.pres,
            launch_ns,
        });
    }
}

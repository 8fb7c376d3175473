//! The actions that inform the port about the PRes: its frame, when the port may send it, and when no longer.

use super::ControlledNode;
use crate::prepared;
use rtwire_wire::powerlink::node;
use rtwire_wire::{Action, Arm, Outbox};

/// The PRes at the port, after the last actions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// True where the port has the newest frame.
    pub(super) frame: bool,
    /// True where the reply is armed on PReqs.
    armed: bool,
    /// The time in ns from the managing node's PRes to the reply armed on it; `None` where none is armed on it.
    chained_ns: Option<u64>,
    /// True where the reply was armed anew since the last SoC.
    pub(super) renewed: bool,
}

impl ControlledNode {
    /// Emits the actions that follow from the current state and PRes. This is the last step of every call: the call
    /// that enters a state without answers also disarms the PRes.
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

    /// Makes the PRes due: at once on a PReq, or at `launch_ns` in PollResponse chaining.
    pub(super) fn respond(&self, launch_ns: Option<u64>, outbox: &mut dyn Outbox) {
        outbox.act(Action::Due {
            slot: prepared::RESPONSE,
            frame: &self.pres,
            launch_ns,
        });
    }
}

//! The actions of a node, carried out with the driver program.

use super::requests::Requests;
use super::{Program, Role, replies};
use rtwire_link::run::Offload;
use rtwire_powerlink::prepared;
use rtwire_wire::{Action, Slot};

/// The driver program as a node sees it: it keeps prepared frames, and knows which have left.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) program: Program,
    pub(super) role: Role,
    pub(super) requests: Requests,
    /// True where the driver has answered the frame that the node is being shown.
    pub(super) answered: bool,
    /// The cycle of the frame that the node is shown, or was shown last.
    pub(super) cycle: u64,
}

impl Driver {
    fn reply(&mut self, action: Action<'_>) -> bool {
        match action {
            Action::Prepare { slot, frame } if slot == prepared::RESPONSE => {
                replies::prepare_response(&self.program, frame);
            }
            Action::Arm(arm) if arm.slot == prepared::RESPONSE => {
                replies::arm(&self.program, &arm, self.cycle);
            }
            Action::Disarm { slot } if slot == prepared::RESPONSE => replies::disarm(&self.program),
            Action::Due { slot, .. } if slot == prepared::RESPONSE => {
                return core::mem::take(&mut self.answered);
            }
            _ => {}
        }
        false
    }

    fn request(&mut self, action: Action<'_>) -> bool {
        let (program, requests) = (&self.program, &mut self.requests);
        match action {
            Action::Prepare { slot, frame } => requests.prepare(program, slot, frame),
            Action::Arm(arm) => requests.arm(program, &arm),
            Action::Disarm { .. } => requests.disarm(program),
            Action::Due { slot, .. } => return requests.due(program, slot),
        }
        false
    }
}

impl Offload for Driver {
    fn act(&mut self, action: Action<'_>) -> bool {
        match self.role {
            Role::Controlled => self.reply(action),
            Role::Managing => self.request(action),
        }
    }

    fn leaves(&mut self, slot: Slot) {
        if self.role == Role::Managing {
            self.requests.leaves(&self.program, slot);
        }
    }

    fn has_left(&self, slot: Slot) -> bool {
        match self.role {
            Role::Controlled => slot == prepared::RESPONSE && self.answered,
            Role::Managing => self.requests.has_left(&self.program, slot),
        }
    }

    fn stop(&mut self) {
        match self.role {
            Role::Controlled => replies::disarm(&self.program),
            Role::Managing => self.requests.disarm(&self.program),
        }
    }
}

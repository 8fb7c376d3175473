//! The actions of a node on their way: to what sends for it, or into the queue.

use super::queue::Queue;
use rtwire_wire::{Action, Outbox, Slot};

/// The part of a port that sends prepared frames for the node, and knows which have left. See [`rtwire_wire::action`] for the
/// contract. No call may block or allocate.
pub trait Offload {
    /// Carries out one action. Returns true for a frame that is due and has left already: the loop does not send it. Returns
    /// false for any other frame that is due: the loop sends it, and the port does not.
    fn act(&mut self, action: Action<'_>) -> bool;

    /// Reports that the loop sends the frame of this slot now, which was due. [`Port::send`](super::Port::send) follows, or
    /// [`Port::send_at`](super::Port::send_at) has taken it. A chain moves from here on.
    fn leaves(&mut self, slot: Slot);

    /// Returns true if the port itself has sent the slot's frame. A frame of a chain counts if it left since it was prepared.
    /// A reply counts if it left on the frame that the node is handling now.
    fn has_left(&self, slot: Slot) -> bool;

    /// Disarms every slot. The loop calls it when it ends, since nobody is there then to disarm them.
    fn stop(&mut self);
}

/// The outbox of a node: its frames wait in the queue, its actions reach the port at once.
pub(super) struct Actions<'a, 'o> {
    pub(super) queue: &'a mut Queue,
    pub(super) offload: Option<&'o mut dyn Offload>,
    /// Frames that were due and had left.
    pub(super) offloaded: &'a mut u64,
}

impl Outbox for Actions<'_, '_> {
    fn send(&mut self, frame: &[u8], launch_ns: Option<u64>) {
        self.queue.send(frame, launch_ns, None);
    }

    fn act(&mut self, action: Action<'_>) {
        let offload = self.offload.as_mut();
        let left = offload.is_some_and(|offload| offload.act(action));
        if let Action::Due {
            slot,
            frame,
            launch_ns,
        } = action
        {
            if left {
                *self.offloaded += 1;
            } else {
                self.queue.send(frame, launch_ns, Some(slot));
            }
        }
    }

    fn has_left(&self, slot: Slot) -> bool {
        let offload = self.offload.as_ref();
        offload.is_some_and(|offload| offload.has_left(slot))
    }
}

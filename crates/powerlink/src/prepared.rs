//! The slots and cues of POWERLINK's nodes: the numbers behind their [actions](rtwire_wire::action).
//!
//! ```text
//!  controlled node                                     managing node, in each cycle
//!  Prepare RESPONSE                                    Prepare request(cycle, 0) .. request(cycle, n)
//!  Arm     RESPONSE on PREQ                            Arm     request(cycle, k) on pres(node of k-1) behind request(cycle, k-1)
//!  Arm     RESPONSE on pres(240), after its time       send    SoC
//!  Due     RESPONSE, on each of these frames           Due     request(cycle, 0), and each k on the response before, or its timeout
//!  Disarm  RESPONSE, as it leaves its cyclic states    Disarm  request(cycle, 0), at the end of the isochronous phase
//! ```

use rtwire_wire::{Cue, Slot};

/// The controlled node's PRes: a reply.
pub const RESPONSE: Slot = Slot(0);

/// A PReq to this node arrives.
pub const PREQ: Cue = Cue(0);

/// The slots of one cycle's requests.
pub const REQUESTS: usize = 256;

/// Returns the cue that a PRes of `node` is.
#[must_use]
pub const fn pres(node: u8) -> Cue {
    Cue(node as u16)
}

/// Returns the slot of the managing node's request at `place`, from 0 on: a chain. Two cycles in a row have different slots, so
/// that a cycle is prepared while the one before it may still be read. `None` from [`REQUESTS`] on: there is no slot.
#[must_use]
pub const fn request(cycle: u64, place: usize) -> Option<Slot> {
    if place >= REQUESTS {
        return None;
    }
    Some(Slot(((cycle % 2) as usize * REQUESTS + place) as u16))
}

/// Returns which of the two sets of slots this one is in, 0 or 1, and its place there.
#[must_use]
pub const fn place(slot: Slot) -> (u64, usize) {
    let slot = slot.0 as usize;
    ((slot / REQUESTS) as u64, slot % REQUESTS)
}

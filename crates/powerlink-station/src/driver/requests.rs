//! The managing node's requests: those that the driver sends, and those that it has sent.

use super::layout::{CYCLES, Chain, POLLS, Prepared};
use super::{Program, prepare};
use rtwire_powerlink::prepared;
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::{Arm, Slot};
use std::sync::atomic::Ordering;

/// The chain's turn while it does not move: no request has this number.
const STOPPED: u64 = u32::MAX as u64;

/// The stage of a cycle's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The chain is being prepared; its first request has not left.
    Prepared,
    /// Each response makes the next request leave.
    Runs,
    /// The chain was disarmed, or a request was left out: user space sends what is left.
    Over,
}

/// One cycle's chain, as user space has given it.
#[derive(Debug)]
pub(super) struct Requests {
    /// The most requests that the driver sends in a cycle; user space sends those behind.
    most: usize,
    /// The time from the first request after which the driver sends no other one, ns.
    chain_ns: u64,
    /// The cycle's number; its last bit says which set of slots it has.
    cycle: u64,
    /// The requests that are prepared and armed.
    count: usize,
    stage: Stage,
}

impl Requests {
    pub(super) fn new(most: usize, chain_ns: u64) -> Self {
        Self {
            most: most.clamp(1, POLLS - 1),
            chain_ns,
            cycle: 0,
            count: 0,
            stage: Stage::Over,
        }
    }

    /// Returns the place of a slot in the cycle that is prepared or runs. `None` for a slot of another cycle, or
    /// behind the most requests.
    fn place(&self, slot: Slot) -> Option<usize> {
        let (set, place) = prepared::place(slot);
        (set == self.cycle % CYCLES as u64 && place < self.most).then_some(place)
    }

    fn set_turn(&self, program: &Program, place: u64) {
        if let Some(turn) = program.chain.word(0, Chain::Turn as usize) {
            turn.store((self.cycle & 0xffff_ffff) << 32 | place, Ordering::Release);
        }
    }

    fn set_count(&mut self, program: &Program, count: usize) {
        self.count = count;
        let set = self.cycle as usize % CYCLES;
        if let Some(word) = program.chain.word(0, Chain::Count as usize + set) {
            word.store(count as u64, Ordering::Relaxed);
        }
    }

    /// Prepares a request. The first slot of a set begins a cycle.
    pub(super) fn prepare(&mut self, program: &Program, slot: Slot, frame: &[u8]) {
        let (set, first) = prepared::place(slot);
        if first == 0 {
            if self.stage == Stage::Runs {
                self.disarm(program);
            }
            self.cycle += 1;
            if self.cycle % CYCLES as u64 != set {
                self.cycle += 1;
            }
            self.stage = Stage::Prepared;
            self.set_count(program, 1);
        }
        if let Some(place) = self.place(slot) {
            prepare(&program.polls, set as usize * POLLS + place, 0, frame);
        }
    }

    /// Arms a request, if the chain is armed in its order: each slot behind the one before.
    pub(super) fn arm(&mut self, program: &Program, arm: &Arm) {
        let behind = arm.behind.and_then(|slot| self.place(slot));
        let (Some(behind), Some(place)) = (behind, self.place(arm.slot)) else {
            return;
        };
        if place != behind + 1 || place != self.count {
            return;
        }
        let value = (self.cycle as usize % CYCLES) * POLLS + behind;
        if let Some(node) = program.polls.word(value, Prepared::Node as usize) {
            node.store(arm.cue.0.into(), Ordering::Relaxed);
        }
        self.set_count(program, place + 1);
    }

    pub(super) fn disarm(&mut self, program: &Program) {
        self.stage = Stage::Over;
        self.set_turn(program, STOPPED);
    }

    /// Returns true where the driver has sent this request. Else it is user space's to send, and the driver goes on from there.
    pub(super) fn due(&mut self, program: &Program, slot: Slot) -> bool {
        let place = self.place(slot);
        if place == Some(0) {
            return false;
        }
        let turn = program.chain.word(0, Chain::Turn as usize);
        let running = self.stage == Stage::Runs;
        let (Some(place), Some(turn), true) = (place, turn, running) else {
            self.disarm(program);
            return false;
        };
        let now = turn.load(Ordering::Acquire);
        let left = (now & 0xffff_ffff) as usize;
        if place <= left {
            return true;
        }
        if place == left + 1 && place < self.count {
            // A response is missing. If it comes at this very moment, the driver may be the first.
            return turn
                .compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Acquire)
                .is_err();
        }
        // A request was left out: user space sends the rest of this cycle.
        self.disarm(program);
        false
    }

    /// Notes that user space sends this request now. The first one sets the chain going: none may leave before it.
    pub(super) fn leaves(&mut self, program: &Program, slot: Slot) {
        if self.stage == Stage::Prepared && self.place(slot) == Some(0) {
            self.stage = Stage::Runs;
            // Without a system call: the clock is read from mapped memory, too.
            let until_ns = clock::now_ns(Clock::Monotonic).saturating_add(self.chain_ns);
            if let Some(word) = program.chain.word(0, Chain::UntilNs as usize) {
                word.store(until_ns, Ordering::Relaxed);
            }
            self.set_turn(program, 0);
        }
    }

    pub(super) fn has_left(&self, program: &Program, slot: Slot) -> bool {
        let turn = program.chain.word(0, Chain::Turn as usize);
        let left = turn.map_or(0, |turn| turn.load(Ordering::Acquire)) & 0xffff_ffff;
        let place = self.place(slot);
        self.stage == Stage::Runs && place.is_some_and(|place| place as u64 <= left)
    }
}

//! The managing node's polls: which the driver sends, and which it has sent.

use super::layout::{CYCLES, Chain, POLLS};
use super::{Program, prepare};
use std::sync::atomic::Ordering;

/// Follows the node's cycle and the driver's.
#[derive(Debug)]
pub(super) struct Polls {
    /// Whom the driver knows of for the next cycle.
    next: Vec<u8>,
    /// And for this one.
    expected: Vec<u8>,
    most: usize,
    /// Cycles so far.
    cycle: u64,
    /// Polls of this cycle so far.
    position: usize,
    /// Whether the chain of this cycle has been broken off.
    broken: bool,
}

/// What is to become of a poll that the node wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The driver has sent it.
    Sent,
    /// It is to be sent now.
    Send,
}

impl Polls {
    /// For at most `most` polls in a cycle.
    pub(super) fn new(most: usize) -> Self {
        let most = most.clamp(1, POLLS - 1);
        Self {
            next: Vec::with_capacity(most),
            expected: Vec::with_capacity(most),
            most,
            cycle: 0,
            position: 0,
            broken: false,
        }
    }

    /// What the next cycle is going to poll, in its order. Said again, it replaces what was said before.
    pub(super) fn announce<'a>(
        &mut self,
        program: &Program,
        polls: impl IntoIterator<Item = (u8, &'a [u8])>,
    ) {
        self.next.clear();
        let base = (self.cycle.wrapping_add(1) as usize % CYCLES) * POLLS;
        for (index, (node, octets)) in polls.into_iter().take(self.most).enumerate() {
            self.next.push(node);
            prepare(&program.polls, base + index, 0, node, octets);
        }
    }

    /// A SoC: what is polled from now on belongs to a new cycle.
    pub(super) fn cycle(&mut self, program: &Program) {
        self.cycle += 1;
        self.position = 0;
        self.broken = false;
        core::mem::swap(&mut self.next, &mut self.expected);
        self.next.clear();
        if let Some(count) = program
            .chain
            .word(0, Chain::Count as usize + self.cycle as usize % CYCLES)
        {
            count.store(self.expected.len() as u64, Ordering::Relaxed);
        }
    }

    /// The node wants to poll `node`.
    pub(super) fn poll(&mut self, program: &Program, node: u8) -> Fate {
        let index = self.position;
        self.position += 1;
        let Some(turn) = program.chain.word(0, Chain::Turn as usize) else {
            return Fate::Send;
        };
        let of_cycle = (self.cycle & 0xffff_ffff) << 32;
        if index == 0 {
            // Without a chain where this cycle begins otherwise than it was announced.
            self.broken = self.expected.first() != Some(&node);
            let start = if self.broken { u64::from(u32::MAX) } else { 0 };
            turn.store(of_cycle | start, Ordering::Release);
            return Fate::Send;
        }
        if self.broken {
            return Fate::Send;
        }
        let now = turn.load(Ordering::Acquire);
        let done = (now & 0xffff_ffff) as usize;
        // Sent already, perhaps together with one that the node has left out.
        if (index..=done).any(|sent| self.expected.get(sent) == Some(&node)) {
            return Fate::Sent;
        }
        let as_expected = self.expected.get(index) == Some(&node);
        if as_expected && done + 1 == index {
            // The node goes on without a response: from here on the driver may go on again.
            return match turn.compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => Fate::Send,
                // The response has come this very moment, and the driver has sent it.
                Err(_) => Fate::Sent,
            };
        }
        self.broken = true;
        turn.store(of_cycle | u64::from(u32::MAX), Ordering::Release);
        Fate::Send
    }
}

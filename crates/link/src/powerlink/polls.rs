//! The managing node's polls: which the driver sends, and which it has sent.

use super::layout::{CYCLES, Chain, FRAME_OCTETS, POLLS};
use super::{Program, prepare};
use std::sync::atomic::Ordering;

/// Polls of one cycle, as the node said them.
#[derive(Debug)]
struct List {
    count: usize,
    frames: Box<[Frame]>,
}

#[derive(Clone, Debug)]
struct Frame {
    node: u8,
    length: usize,
    octets: [u8; FRAME_OCTETS],
}

/// Follows the node's cycle and the driver's.
#[derive(Debug)]
pub(super) struct Polls {
    /// The last round of cycles: one cycle, or as many as multiplexed slots take turns in.
    lists: Box<[List]>,
    /// Of the current cycle.
    list: usize,
    /// What the driver knows of the current cycle; its polls are those of the list before it was begun anew.
    expected: Vec<u8>,
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
    /// For at most `most` polls in a cycle, and multiplexed slots that take turns in `round` cycles (1: there are none).
    pub(super) fn new(most: usize, round: usize) -> Self {
        let most = most.clamp(1, POLLS - 1);
        let frame = Frame {
            node: 0,
            length: 0,
            octets: [0; FRAME_OCTETS],
        };
        let list = || List {
            count: 0,
            frames: vec![frame.clone(); most].into_boxed_slice(),
        };
        Self {
            lists: (0..round.max(1)).map(|_| list()).collect(),
            list: 0,
            expected: Vec::with_capacity(most),
            cycle: 0,
            position: 0,
            broken: false,
        }
    }

    /// A SoC: what is polled from now on belongs to a new cycle.
    pub(super) fn cycle(&mut self, program: &Program) {
        self.cycle += 1;
        self.list = (self.list + 1) % self.lists.len();
        self.position = 0;
        self.broken = false;
        self.expected.clear();
        let base = (self.cycle as usize % CYCLES) * POLLS;
        let list = &mut self.lists[self.list];
        for (index, frame) in list.frames[..list.count].iter().enumerate() {
            self.expected.push(frame.node);
            prepare(
                &program.polls,
                base + index,
                0,
                frame.node,
                &frame.octets[..frame.length],
            );
        }
        list.count = 0;
        if let Some(count) = program
            .chain
            .word(0, Chain::Count as usize + self.cycle as usize % CYCLES)
        {
            count.store(self.expected.len() as u64, Ordering::Relaxed);
        }
    }

    /// The node wants to poll `node`.
    pub(super) fn poll(&mut self, program: &Program, node: u8, octets: &[u8]) -> Fate {
        let index = self.position;
        self.position += 1;
        self.remember(node, octets);
        let Some(turn) = program.chain.word(0, Chain::Turn as usize) else {
            return Fate::Send;
        };
        let of_cycle = (self.cycle & 0xffff_ffff) << 32;
        if index == 0 {
            // Without a chain where this cycle begins otherwise than its model.
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

    fn remember(&mut self, node: u8, octets: &[u8]) {
        let list = &mut self.lists[self.list];
        let Some(frame) = list.frames.get_mut(list.count) else {
            return;
        };
        let length = octets.len().min(FRAME_OCTETS);
        frame.node = node;
        frame.length = length;
        frame.octets[..length].copy_from_slice(&octets[..length]);
        list.count += 1;
    }
}

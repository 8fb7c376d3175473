//! Frames in pieces (IEEE Std 802.3, clause 99), written from its rules alone.

use std::collections::VecDeque;

use rtwire_plan::Network;

use super::{Frame, PS, Port};

/// Preamble and mark before each piece; the gap behind it; the check of a piece that is not the last; the least last piece.
const PREAMBLE: u128 = 8 * 8;
const GAP: u128 = 12 * 8;
const CHECK: u128 = 4 * 8;
const LEAST_LAST: u128 = 64 * 8;

/// The frames of a port that may be interrupted.
#[derive(Default)]
pub(super) struct Merge {
    first_express: usize,
    /// The least part of a frame in a piece that is not the last.
    least: u128,
    /// True if the frame under way may be interrupted.
    preemptable: bool,
    /// The part of the frame under way that no piece before has carried.
    left: u128,
    /// The part of it that its piece carries, if that is not the last one.
    carried: Option<u128>,
    /// The frame that is interrupted, and its part that no piece has carried.
    interrupted: Option<(Frame, u128)>,
}

impl Merge {
    pub(super) fn of(network: &Network, from: &str, to: &str) -> Option<Merge> {
        let stated = network.preemption(from, to)?;
        let blocks = 1 + u128::from(stated.additional_fragment_size);
        Some(Merge {
            first_express: usize::from(stated.first_express),
            least: (64 * blocks - 4) * 8,
            ..Merge::default()
        })
    }
}

impl Port {
    /// A frame of `class` has come. Returns the end of the piece under way, if it ends that one early.
    pub(super) fn interrupt(&mut self, class: usize, now: u128) -> Option<u128> {
        let rate = self.rate;
        let merge = self.merge.as_mut()?;
        let (_, start) = self.sending?;
        if class < merge.first_express || !merge.preemptable || merge.carried.is_some() {
            return None;
        }
        // The byte under way is sent to its end.
        let bytes = ((now - start) * rate / PS)
            .saturating_sub(PREAMBLE)
            .div_ceil(8);
        let carried = (bytes * 8).max(merge.least);
        if carried + LEAST_LAST > merge.left {
            return None;
        }
        merge.carried = Some(carried);
        self.busy_until = start + (PREAMBLE + carried + CHECK + GAP) * PS / rate;
        Some(self.busy_until)
    }

    /// Returns the frame whose last piece has been sent.
    pub(super) fn piece_ends(&mut self) -> Option<Frame> {
        let (frame, _) = self.sending.take()?;
        if let Some(merge) = &mut self.merge {
            if let Some(carried) = merge.carried.take() {
                merge.interrupted = Some((frame, merge.left - carried));
                return None;
            }
        }
        Some(frame)
    }

    /// Returns the frame to send now, and the bits of what is left of it.
    pub(super) fn next(&mut self) -> Option<(Frame, u128)> {
        let mut highest = |from: usize| {
            let queues = self.queues.iter_mut().skip(from);
            queues.rev().find_map(VecDeque::pop_front)
        };
        let Some(merge) = &mut self.merge else {
            return highest(0).map(|frame| (frame, frame.bits));
        };
        let whole = |frame: Frame| (frame, frame.bits.saturating_sub(PREAMBLE + GAP));
        let express = highest(merge.first_express).map(whole);
        merge.preemptable = express.is_none();
        let (frame, left) = express
            .or_else(|| merge.interrupted.take())
            .or_else(|| highest(0).map(whole))?;
        merge.left = left;
        Some((frame, PREAMBLE + left + GAP))
    }
}

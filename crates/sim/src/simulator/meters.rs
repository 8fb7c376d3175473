//! Flow meters at switches: a frame passes if it is not too long and its meter's bucket has as many tokens.

use super::{Frame, Simulator};
use crate::fixed::Bucket;
use crate::model::{MeterModel, NONE};

/// The results of a flow meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterSeen {
    /// Frames that passed.
    pub passed: u64,
    /// Frames that were discarded: too long, or beyond the contract.
    pub discarded: u64,
}

/// A flow meter at work.
#[derive(Clone, Debug)]
pub(super) struct Metering {
    bucket: Bucket,
    seen: MeterSeen,
}

impl Metering {
    pub(super) fn new(model: &MeterModel) -> Metering {
        Metering {
            bucket: Bucket::new(model.rate, model.burst_bits, model.longest_bits),
            seen: MeterSeen::default(),
        }
    }
}

impl Simulator<'_> {
    /// Returns the results of the flow meters, in the order of the plan.
    pub fn meters(&self) -> impl Iterator<Item = MeterSeen> {
        self.meters.iter().map(|meter| meter.seen)
    }

    /// True if a frame that has arrived passes the meter at the end of its link, if there is one.
    pub(super) fn passes_meter(&mut self, frame: Frame) -> bool {
        let number = self.model.edges[frame.edge as usize].meter;
        if number == NONE {
            return true;
        }
        let model = &self.model.meters[number as usize];
        let now_ps = self.now_ps;
        let meter = &mut self.meters[number as usize];
        let bits = u64::from(frame.bits).saturating_sub(model.uncounted_bits);
        let passes =
            bits <= model.longest_bits && meter.bucket.earliest_ps(now_ps, bits) == Some(now_ps);
        if passes {
            meter.bucket.take(now_ps, bits);
            meter.seen.passed += 1;
        } else {
            meter.seen.discarded += 1;
        }
        passes
    }
}

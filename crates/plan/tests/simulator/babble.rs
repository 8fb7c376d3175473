//! A talker that goes wrong, and the meters that guard the others from it: buckets of whole units of 10^-21 bit.

use rtwire_plan::FlowMeter;

use super::{Behaviour, Dice, PS};

/// Parts of 10^9: clocks differ by as many.
const PARTS: u128 = 1_000_000_000;

/// Returns the instants in ps and the sizes in bits of what a talker sends that goes wrong. Its link takes `rate` bit/s; its
/// frames have `usual` bits, and the smallest ones `least`.
pub(super) fn babble(
    (usual, least, rate): (u128, u128, u128),
    behaviour: Behaviour,
    horizon_ps: u128,
    dice: &mut Dice,
) -> Vec<(u128, u128)> {
    let mut list = Vec::new();
    let mut now = 0;
    let mut left = 0;
    // Frames of one size, or of any.
    let fixed = [Some(usual), Some(least), None][usize::try_from(dice.below(3)).unwrap()];
    while now <= horizon_ps {
        if left == 0 {
            left = 1 + dice.below(200);
            if behaviour == Behaviour::Random {
                now += u128::from(dice.below(3_000_000_000));
            }
        }
        left -= 1;
        let any = u64::try_from((usual - least) / 8 + 1).unwrap();
        let bits = fixed.unwrap_or_else(|| match dice.below(8) {
            0 => usual + 8,
            1 => least,
            2 => least + 8 * u128::from(dice.below(any)),
            _ => usual,
        });
        list.push((now, bits));
        now += bits * PS / rate;
    }
    list
}

/// A meter at work.
pub(super) struct Bucket {
    tokens: u128,
    full: u128,
    /// Per picosecond.
    fill: u128,
    last_ps: u128,
    longest: u128,
    uncounted: u128,
}

impl Bucket {
    /// Returns the meter of a plan, with a clock that is fast by `fast` parts of 10^9.
    pub(super) fn new(meter: &FlowMeter, overhead_bytes: u64, fast: i64) -> Bucket {
        let full = u128::from(meter.committed_burst_bytes) * 8 * PS * PARTS;
        let parts = u128::try_from(i128::try_from(PARTS).unwrap() + i128::from(fast)).unwrap();
        Bucket {
            tokens: full,
            full,
            fill: u128::from(meter.committed_rate_bps) * parts,
            last_ps: 0,
            longest: u128::from(meter.longest_frame_bytes + overhead_bytes) * 8,
            uncounted: u128::from(overhead_bytes - meter.overhead_bytes) * 8,
        }
    }

    /// True if a frame of `bits` on the wire passes at `now`.
    pub(super) fn passes(&mut self, now: u128, bits: u128) -> bool {
        self.tokens = self
            .full
            .min(self.tokens + (now - self.last_ps) * self.fill);
        self.last_ps = now;
        let cost = (bits - self.uncounted) * PS * PARTS;
        let passes = bits <= self.longest && cost <= self.tokens;
        if passes {
            self.tokens -= cost;
        }
        passes
    }
}

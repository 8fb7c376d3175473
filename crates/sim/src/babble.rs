//! A talker that goes wrong: it sends frames of one stream as fast as its link takes them, of any size.

use crate::fixed::duration_ps;
use crate::model::Flow;
use crate::random::Random;
use rtwire_plan::Ratio;

/// The most by which a frame is longer than its stream's, bits.
const LONGER_BITS: u64 = 8 * 64;

/// A babbling source.
#[derive(Clone, Debug)]
pub(crate) struct Babble {
    rate: Ratio,
    usual_bits: u32,
    least_bits: u32,
    /// Frames that are left of this burst, and the size of all of them; 0 for any size.
    left: u64,
    size_bits: u32,
    /// The time in which a meter of its contract fills, ps.
    fills_ps: u64,
    next_ps: u64,
}

impl Babble {
    /// Creates a source that babbles from `phase_ps` on, over a link of `rate_bps`. Its smallest frames have `least_bits`.
    pub(crate) fn new(flow: &Flow, phase_ps: u64, rate_bps: u64, least_bits: u32) -> Babble {
        let burst = u64::try_from(flow.burst.ceil()).unwrap_or(u64::MAX);
        Babble {
            rate: Ratio::whole(i128::from(rate_bps)),
            usual_bits: flow.bits,
            least_bits: least_bits.min(flow.bits),
            left: 0,
            size_bits: 0,
            fills_ps: duration_ps(burst, flow.rate)
                .unwrap_or(1 << 40)
                .min(1 << 40),
            next_ps: phase_ps,
        }
    }

    fn size(&self, random: &mut Random) -> u32 {
        let any = u64::from(self.usual_bits - self.least_bits) / 8;
        // At most what a frame has more than the least one, which is a number of 32 bits.
        let more = |bits: u64| u32::try_from(bits).unwrap_or(0);
        match random.below(16) {
            0 => self.usual_bits + more(8 + random.up_to(LONGER_BITS / 8 - 1) * 8),
            1..4 => self.least_bits,
            4..8 => self.least_bits + more(random.up_to(any) * 8),
            _ => self.usual_bits,
        }
    }

    /// Returns the time and the size of the next frame, ps and bits.
    pub(crate) fn next(&mut self, random: &mut Random) -> (u64, u32) {
        if self.left == 0 {
            self.left = 1 + random.of_any_size(1_000);
            // Bursts of one size use the bucket to its end; mixed ones find it at any depth.
            self.size_bits = match random.below(4) {
                0 => self.least_bits,
                1 => self.usual_bits,
                _ => 0,
            };
            // Every now and then the meter fills up meanwhile.
            let pause_ps = random.of_any_size(self.fills_ps.saturating_mul(2));
            self.next_ps = self.next_ps.saturating_add(pause_ps);
        }
        self.left -= 1;
        let bits = match self.size_bits {
            0 => self.size(random),
            bits => bits,
        };
        let at_ps = self.next_ps;
        let takes_ps = duration_ps(u64::from(bits), self.rate).unwrap_or(1);
        self.next_ps = at_ps.saturating_add(takes_ps);
        (at_ps, bits)
    }
}

//! The queue by which an agent limits a stream: when must it let a frame go?
//!
//! It is a token bucket with the rate and the burst of the stream's contract. A talker that uses all of its contract leaves no
//! spare rate: service that the queue lost while the machine stood still delays every later frame. So two buckets are followed.
//!
//! - One takes its tokens when the frames really left. It says what the queue could do for this frame, whatever was before.
//! - One leaves at the first moment, and stands still only while the machine does. A queue that loses a little with each frame
//!   falls behind it.

use rtwire_measure::verdict::StallLine;
use rtwire_plan::Stream;

/// The rate and the burst of a stream. Both times are ns at the contract's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The time for the tokens of one frame.
    frame_ns: u64,
    /// The time in which the empty bucket becomes full.
    full_ns: u64,
}

/// A bucket of tokens.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Its tokens behind the last frame, ns. Less than none if that frame left before its time.
    tokens_ns: i128,
    /// The time at which the last frame left, ns.
    left_ns: u64,
}

/// The queue of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    limit: Limit,
    real: Bucket,
    ideal: Bucket,
}

impl Limit {
    /// Returns the limit of a stream's contract.
    pub(crate) fn new(stream: &Stream) -> Self {
        let rate = &stream.contract.rate;
        let part = |value: i128| u64::try_from(value).unwrap_or(u64::MAX).max(1);
        let (num, den) = (part(rate.num()), part(rate.den()));
        let time_ns = |bits: u64| {
            let ns = (u128::from(bits) * u128::from(den) * 1_000_000_000).div_ceil(u128::from(num));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        Self {
            frame_ns: time_ns(stream.wire_bytes * 8),
            full_ns: time_ns(stream.contract.burst_bits),
        }
    }

    /// Returns an empty queue with a full bucket.
    pub(crate) fn queue(self) -> Held {
        let full = Bucket {
            tokens_ns: i128::from(self.full_ns),
            left_ns: 0,
        };
        Held {
            limit: self,
            real: full,
            ideal: full,
        }
    }
}

impl Bucket {
    fn tokens_at(&self, limit: Limit, at_ns: u64) -> i128 {
        let since_ns = i128::from(at_ns.saturating_sub(self.left_ns));
        (self.tokens_ns + since_ns).min(i128::from(limit.full_ns))
    }

    /// Returns the first time at which a frame that came at `came_ns` may leave.
    fn ready_ns(&self, limit: Limit, came_ns: u64) -> u64 {
        let from_ns = came_ns.max(self.left_ns);
        let missing = i128::from(limit.frame_ns) - self.tokens_at(limit, from_ns);
        from_ns.saturating_add(u64::try_from(missing.max(0)).unwrap_or(u64::MAX))
    }

    fn leave(&mut self, limit: Limit, at_ns: u64) {
        self.tokens_ns = self.tokens_at(limit, at_ns) - i128::from(limit.frame_ns);
        self.left_ns = at_ns.max(self.left_ns);
    }
}

impl Held {
    /// Returns the time from which a frame should be at its port, ns. It was sent at `sent_ns` and entered the port at
    /// `entered_ns`. The frames are passed in order.
    pub(crate) fn pass(&mut self, sent_ns: u64, entered_ns: u64, stalls: &StallLine) -> u64 {
        let real_ns = self.real.ready_ns(self.limit, sent_ns);
        let ideal_ns = stalls.resume(self.ideal.ready_ns(self.limit, sent_ns));
        self.real.leave(self.limit, entered_ns);
        self.ideal.leave(self.limit, ideal_ns);
        real_ns.min(ideal_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame each 100 ns, bursts of two.
    const LIMIT: Limit = Limit {
        frame_ns: 100,
        full_ns: 200,
    };

    fn passed(frames: &[(u64, u64)], stalls: &StallLine) -> Vec<u64> {
        let mut held = LIMIT.queue();
        let pass = |&(sent_ns, entered_ns)| held.pass(sent_ns, entered_ns, stalls);
        frames.iter().map(pass).collect()
    }

    #[test]
    fn a_talker_ahead_of_its_contract_is_held() {
        let frames = [
            (1_000, 1_000),
            (1_000, 1_000),
            (1_000, 1_100),
            (1_200, 1_200),
        ];
        let held = passed(&frames, &StallLine::default());
        assert_eq!(held, [1_000, 1_000, 1_100, 1_200]);
    }

    #[test]
    fn what_a_stall_took_delays_all_later_frames_of_a_full_contract() {
        let stall = StallLine::new([(1_050, 1_650)]);
        // Two at once, then one each 100 ns: the third leaves when the machine goes on, and the others behind it.
        let frames: Vec<_> = [(1_000, 1_000), (1_000, 1_000)]
            .into_iter()
            .chain((1..10).map(|k| (1_000 + 100 * k, 1_000 + 100 * k)))
            .map(|(sent, left): (u64, u64)| match sent {
                1_000 => (sent, left),
                1_100 | 1_200 => (sent, 1_650),
                _ => (sent, (1_650 + sent - 1_200).max(sent)),
            })
            .collect();
        let held = passed(&frames, &stall);
        let late: Vec<_> = frames
            .iter()
            .zip(&held)
            .map(|((_, left), held)| left - held)
            .collect();
        // The one that the stall held up is late, and the stall explains it. The others are not.
        assert_eq!(late, [0, 0, 550, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_queue_that_is_slower_than_the_contract_falls_behind() {
        let frames: Vec<_> = (0..100)
            .map(|k| (1_000 + 100 * k, 1_000 + 110 * k))
            .collect();
        let held = passed(&frames, &StallLine::default());
        let last = frames.last().map(|(_, left)| left - held[99]);
        assert_eq!(last, Some(990));
    }
}

//! Holds a stream against its contract where it arrives. Pure.
//!
//! Sequence numbers count the frames. Their times are those of the talker's own clock, where the frames carry them. So
//! neither the network's delay nor a stall of this host makes frames look more frequent than they were sent.
//!
//! A reader that sees only some of the frames (newest-value streams) is enough. Between two frames that it has seen, at
//! most `b + r·t` bits may have been numbered.

use crate::task::ContractTerms;

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;
/// The accepted error of the talker's clock: it may run fast by one part in this number.
const CLOCK_PART: i128 = 5_000;

/// Counts the frames that are longer or more frequent than their contract. Allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct ContractWatch {
    terms: ContractTerms,
    /// The newest sequence number and its time, ns.
    last: Option<(u32, u64)>,
    /// Frames since the first one, without those that were counted as too frequent.
    frames: i128,
    first_ns: u64,
    /// The least of `frames·M − r·t` so far, scaled as in [`Self::level`].
    least: i128,
    too_long: u64,
    too_frequent: u64,
}

impl ContractWatch {
    /// Returns a watch that has seen no frame.
    #[must_use]
    pub(crate) const fn new(terms: ContractTerms) -> Self {
        Self {
            terms,
            last: None,
            frames: 0,
            first_ns: 0,
            least: 0,
            too_long: 0,
            too_frequent: 0,
        }
    }

    /// Frames with more data than the contract's.
    #[must_use]
    pub(crate) const fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Frames beyond rate and burst.
    #[must_use]
    pub(crate) const fn too_frequent(&self) -> u64 {
        self.too_frequent
    }

    /// Notes a frame with `bytes` of user data, numbered `sequence`, at `time_ns` of one clock.
    ///
    /// Ignores a number that is not later than the newest, unless the talker began again.
    pub(crate) fn observe(&mut self, sequence: u32, time_ns: u64, bytes: usize) {
        self.too_long += u64::from(bytes > self.terms.payload_bytes);
        let Some((last, last_ns)) = self.last else {
            return self.begin(sequence, time_ns);
        };
        let step = sequence.wrapping_sub(last);
        if step == 0 || step > u32::MAX / 2 {
            // A smaller number at a later time: the talker began again. Else an old frame, or one that came twice.
            if step != 0 && time_ns > last_ns {
                self.begin(sequence, time_ns);
            }
            return;
        }
        self.last = Some((sequence, time_ns.max(last_ns)));
        self.frames += i128::from(step);
        let level = self.level(time_ns.max(last_ns));
        self.least = self.least.min(level - self.frame());
        let excess = level - self.least - self.allowed();
        if excess > 0 {
            // As a policer does: the excess frames are taken out, so that one burst is not counted again and again.
            let beyond = (excess / self.frame().max(1) + 1).min(i128::from(step));
            self.frames -= beyond;
            self.too_frequent += u64::try_from(beyond).unwrap_or(u64::MAX);
        }
    }

    fn begin(&mut self, sequence: u32, time_ns: u64) {
        self.last = Some((sequence, time_ns));
        self.first_ns = time_ns;
        self.frames = 1;
        self.least = 0;
    }

    /// Returns `frames·M − r·t`, in bits times the rate's denominator times 10⁹.
    fn level(&self, time_ns: u64) -> i128 {
        let passed = i128::from(time_ns - self.first_ns.min(time_ns));
        let passed = passed + passed / CLOCK_PART;
        self.frames.saturating_mul(self.frame())
            - passed.saturating_mul(i128::from(self.terms.rate.0))
    }

    fn frame(&self) -> i128 {
        i128::from(self.terms.frame_bits) * SECOND * i128::from(self.terms.rate.1.max(1))
    }

    fn allowed(&self) -> i128 {
        let burst = i128::from(self.terms.burst_bits) * SECOND;
        burst.saturating_mul(i128::from(self.terms.rate.1.max(1)))
            + i128::from(self.terms.margin_ns) * i128::from(self.terms.rate.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: u64 = 8_000;
    const MS: u64 = 1_000_000;

    /// A frame each millisecond, 10 ms granted.
    fn watch() -> ContractWatch {
        ContractWatch::new(ContractTerms {
            rate: (FRAME * 1_000, 1),
            burst_bits: FRAME,
            margin_ns: 10 * MS,
            frame_bits: FRAME,
            payload_bytes: 64,
        })
    }

    #[test]
    fn twice_the_rate_is_found_within_a_few_cycles_of_the_margin() {
        let mut watch = watch();
        for frame in 0..20 {
            watch.observe(frame, 5 * MS + u64::from(frame) * MS / 2, 64);
        }
        assert_eq!(watch.too_frequent(), 0, "within the margin");
        for frame in 20..2_020 {
            watch.observe(frame, 5 * MS + u64::from(frame) * MS / 2, 64);
        }
        assert!((990..=1_010).contains(&watch.too_frequent()), "{watch:?}");
    }

    #[test]
    fn ten_percent_too_many_are_found() {
        let mut watch = watch();
        for frame in 0..1_100 {
            watch.observe(frame, 5 * MS + u64::from(frame) * MS * 10 / 11, 64);
        }
        assert!(watch.too_frequent() > 80, "{watch:?}");
    }

    #[test]
    fn a_burst_counts_once_and_long_frames_always() {
        let mut watch = watch();
        (0..100).for_each(|frame| watch.observe(frame, u64::from(frame) * MS, 64));
        // Thirty at one moment, then as agreed.
        (100..130).for_each(|frame| watch.observe(frame, 100 * MS, 65));
        let found = watch.too_frequent();
        assert!((19..=21).contains(&found), "{watch:?}");
        (130..1_000).for_each(|frame| watch.observe(frame, u64::from(frame) * MS, 64));
        assert_eq!((watch.too_frequent(), watch.too_long()), (found, 30));
    }

    #[test]
    fn a_talker_that_begins_again_and_one_whose_numbers_wrap_are_good() {
        let mut watch = watch();
        for frame in 0..50_u64 {
            let number = u32::MAX.wrapping_sub(20).wrapping_add(frame as u32);
            watch.observe(number, frame * MS, 64);
        }
        for frame in 0..50_u64 {
            watch.observe(frame as u32, (60 + frame) * MS, 64);
        }
        assert_eq!(watch.too_frequent(), 0, "{watch:?}");
    }

    proptest! {
        /// A stream on its grid is called good, whichever of its frames are seen, by a clock that is a little fast.
        #[test]
        fn what_conforms_is_called_good(
            seen in prop::collection::vec(any::<bool>(), 1..2_000),
            late in prop::collection::vec(0_u64..50_000, 2_000),
        ) {
            let mut watch = watch();
            for (frame, seen) in (0_u32..).zip(seen) {
                if seen {
                    let due = u64::from(frame) * (MS - 100);
                    watch.observe(frame, 7 + due + late[frame as usize], 64);
                }
            }
            prop_assert_eq!(watch.too_frequent(), 0);
        }
    }
}

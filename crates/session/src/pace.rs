//! The instants at which a cyclic stream is sent, and the rule for a late frame. Pure.
//!
//! Frame n is due at `base + n·T`. A late frame never moves the next one:
//!
//! - Whole cycles that have passed are skipped and counted; nothing is sent in a burst to catch up.
//! - A frame that is late by at most the declared tick error J conforms to the contract, and is sent.
//! - A later frame is sent only if the contract still allows the next one at its own instant. Else its cycle is skipped
//!   and counted: late, it would be closer to the next frame than the promises of other streams allow.
//! - A stream with launch times in the plan has windows instead of a contract between frames: its frame is sent, late or
//!   not.
//! - A frame whose sender was held up inside its send call counts at the kernel's timestamp, where one has come, else at the end
//!   of that call. So the next one is skipped if it would be too close.
//! - A clock that was set back moves the instants: the next one is the first of the grid after the clock's new time. A clock that
//!   was set forward has passed instants, and they are skipped.

use rtwire_channel::Shaper;

/// Instants `base + n·T`, in ns of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// One of the instants.
    pub base_ns: u64,
    /// T, at least 1.
    pub interval_ns: u64,
}

impl Grid {
    /// Returns the first instant at or after `from_ns`.
    #[must_use]
    pub fn first_from(&self, from_ns: u64) -> u64 {
        let interval = self.interval_ns.max(1);
        let phase = self.base_ns % interval;
        let into = (from_ns % interval + interval - phase) % interval;
        match into {
            0 => from_ns,
            into => from_ns.saturating_add(interval - into),
        }
    }
}

/// The decision for one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Send now: the frame was due at `due_ns` and is late by `late_ns`.
    Send {
        /// The instant, ns.
        due_ns: u64,
        /// The lateness, ns.
        late_ns: u64,
    },
    /// Send nothing in this cycle: a frame now would break the contract of the next one.
    Skip {
        /// The instant, ns.
        due_ns: u64,
        /// The lateness, ns.
        late_ns: u64,
    },
}

/// The time in ns that a send call may take and the frame still counts at its beginning.
const CALL_NS: u64 = 50_000;

/// Walks along a grid. Allocates nothing.
#[derive(Clone, Debug)]
pub struct Pace {
    grid: Grid,
    tick_error_ns: u64,
    shaper: Option<Shaper>,
    /// The shaper before the newest frame, and the time at which that frame was taken.
    before: Option<(Shaper, u64)>,
    wire_bits: u64,
    due_ns: u64,
    skipped: u64,
    late: u64,
}

impl Pace {
    /// Begins with the first instant at or after `from_ns`.
    ///
    /// `shaper` holds the contract of frames of `wire_bits` each. Without one, no frame is skipped for being late within
    /// its cycle.
    #[must_use]
    pub fn new(
        grid: Grid,
        from_ns: u64,
        tick_error_ns: u64,
        shaper: Option<Shaper>,
        wire_bits: u64,
    ) -> Self {
        Self {
            grid,
            tick_error_ns,
            shaper,
            before: None,
            wire_bits,
            due_ns: grid.first_from(from_ns),
            skipped: 0,
            late: 0,
        }
    }

    /// The next instant, ns.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The time from one instant to the next, ns.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        self.grid.interval_ns
    }

    /// The cycles so far in which nothing was sent.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The frames so far that were sent later than the declared tick error.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Decides for the newest instant at or before `now_ns`, or for the next one if none has come. Then steps on.
    pub fn turn(&mut self, now_ns: u64) -> Turn {
        let interval = self.grid.interval_ns.max(1);
        let passed = now_ns.saturating_sub(self.due_ns) / interval;
        self.skipped += passed;
        let due_ns = self.due_ns.saturating_add(passed.saturating_mul(interval));
        self.due_ns = due_ns.saturating_add(interval);
        let late_ns = now_ns.saturating_sub(due_ns);
        let in_time = late_ns <= self.tick_error_ns;
        if let Some(shaper) = &mut self.shaper {
            let mut after = shaper.clone();
            let goes = after.take(now_ns, self.wire_bits).is_ok()
                && (in_time || after.clone().take(self.due_ns, self.wire_bits).is_ok());
            if !goes {
                self.skipped += 1;
                return Turn::Skip { due_ns, late_ns };
            }
            self.before = Some((std::mem::replace(shaper, after), now_ns));
        }
        self.late += u64::from(!in_time);
        Turn::Send { due_ns, late_ns }
    }

    /// Tells that the clock was set back, and that it is `now_ns` now.
    pub fn clock_was_set_back(&mut self, now_ns: u64) {
        self.due_ns = self.grid.first_from(now_ns);
        self.before = None;
        if let Some(shaper) = &mut self.shaper {
            shaper.clock_was_set_back(now_ns);
        }
    }

    /// Notes that the newest frame left at `left_ns` or before: the kernel's timestamp, or the end of the send call.
    ///
    /// A thread can be stopped between its decision and the kernel's part of the call. Its frame may then have left as late
    /// as the call ended.
    pub fn sent(&mut self, left_ns: u64) {
        let Some((before, taken_ns)) = self.before.take() else {
            return;
        };
        if left_ns.saturating_sub(taken_ns) > CALL_NS.max(self.tick_error_ns) {
            let mut later = before;
            // More time has passed since, so there are at least as many tokens.
            if later.take(left_ns, self.wire_bits).is_ok() {
                self.shaper = Some(later);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rtwire_channel::ShaperConfig;

    const FRAME: u64 = 12_304;

    /// One frame of `FRAME` bits in each `interval_ns`, with a tick error: depth M + r·J.
    fn contract(interval_ns: u64, tick_error_ns: u64) -> ShaperConfig {
        let rate = (FRAME * 1_000_000_000, interval_ns);
        let extra = u128::from(FRAME) * u128::from(tick_error_ns);
        let burst = FRAME + u64::try_from(extra.div_ceil(interval_ns.into())).unwrap();
        ShaperConfig::with_burst(rate, burst, 1_000, tick_error_ns)
    }

    fn pace(interval_ns: u64, tick_error_ns: u64) -> Pace {
        let grid = Grid {
            base_ns: 0,
            interval_ns,
        };
        let shaper = Shaper::new(contract(interval_ns, tick_error_ns));
        Pace::new(grid, 1, tick_error_ns, Some(shaper), FRAME)
    }

    #[test]
    fn a_grid_has_its_phase_on_both_sides_of_its_base() {
        let grid = Grid {
            base_ns: 530,
            interval_ns: 500,
        };
        assert_eq!(grid.first_from(1_030), 1_030);
        assert_eq!(grid.first_from(1_031), 1_530);
        assert_eq!(grid.first_from(7), 30);
    }

    #[test]
    fn a_stall_of_more_than_half_a_cycle_costs_one_cycle_and_moves_no_other() {
        let mut pace = pace(1_000_000, 50_000);
        let mut sent = Vec::new();
        for cycle in 1..=10_u64 {
            let due = pace.due_ns();
            assert_eq!(due, cycle * 1_000_000, "the grid has moved");
            let now = if cycle == 5 {
                due + 600_000
            } else {
                due + 9_000
            };
            if let Turn::Send { late_ns, .. } = pace.turn(now) {
                sent.push((cycle, late_ns));
            }
        }
        assert_eq!(pace.skipped(), 1);
        assert_eq!(sent.len(), 9);
        assert!(sent.iter().all(|(_, late)| *late == 9_000), "{sent:?}");
    }

    #[test]
    fn cycles_that_passed_are_counted_and_never_made_up_for() {
        let mut pace = pace(1_000_000, 50_000);
        // Stopped for seven cycles and a little.
        assert!(matches!(
            pace.turn(8_010_000),
            Turn::Send {
                due_ns: 8_000_000,
                late_ns: 10_000
            }
        ));
        assert_eq!((pace.skipped(), pace.due_ns()), (7, 9_000_000));
    }

    #[test]
    fn a_frame_that_was_held_up_in_its_call_costs_the_next_cycle() {
        let mut pace = pace(1_000_000, 50_000);
        assert!(matches!(pace.turn(1_001_000), Turn::Send { .. }));
        // Stopped inside the call: the frame left at 1.6 ms, and the next instant is 0.4 ms behind it.
        pace.sent(1_600_000);
        assert!(matches!(pace.turn(2_001_000), Turn::Skip { .. }));
        assert!(matches!(pace.turn(3_001_000), Turn::Send { .. }));
        // A call of ordinary length costs nothing.
        pace.sent(3_041_000);
        assert!(matches!(pace.turn(4_001_000), Turn::Send { .. }));
        assert_eq!(pace.skipped(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_by_an_hour_costs_a_cycle_and_not_an_hour() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let mut pace = pace(1_000_000, 50_000);
        let start = pace.turn(HOUR_NS + 1_000_000);
        assert!(matches!(start, Turn::Send { .. }));
        pace.sent(HOUR_NS + 1_000_900);
        pace.clock_was_set_back(1_200_000);
        assert_eq!(pace.due_ns(), 2_000_000);
        // As many tokens as after the newest frame, and no more: the frame at 2 ms is 0.8 ms after 1.2 ms.
        assert!(matches!(pace.turn(2_000_500), Turn::Skip { .. }));
        for cycle in 3..10_u64 {
            assert_eq!(pace.due_ns(), cycle * 1_000_000);
            assert!(matches!(
                pace.turn(cycle * 1_000_000 + 500),
                Turn::Send { .. }
            ));
        }
    }

    #[test]
    fn a_stream_with_windows_goes_late_and_is_counted() {
        let grid = Grid {
            base_ns: 0,
            interval_ns: 1_000,
        };
        let mut pace = Pace::new(grid, 1_000, 0, None, FRAME);
        assert!(matches!(pace.turn(1_400), Turn::Send { late_ns: 400, .. }));
        assert_eq!((pace.late(), pace.skipped()), (1, 0));
    }

    proptest! {
        /// For all wake-ups, the frames that are sent keep the contract, and each instant is on the grid.
        #[test]
        fn what_is_sent_conforms(
            interval in 1_000_u64..10_000_000,
            error in 0_u64..1_000,
            wakes in prop::collection::vec(0_u64..30_000_000, 1..200),
        ) {
            let mut pace = pace(interval, error.min(interval - 1));
            let mut meter = rtwire_channel::shaper::ContractMeter::new((FRAME * 1_000_000_000, interval));
            let (mut now, mut cycles, mut sent) = (0_u64, 0_u64, 0_u64);
            for late in wakes {
                now = now.max(pace.due_ns()) + late % (3 * interval);
                let before = pace.due_ns();
                match pace.turn(now) {
                    Turn::Send { due_ns, .. } => {
                        prop_assert_eq!(due_ns % interval, 0);
                        meter.observe(now, FRAME);
                        sent += 1;
                    }
                    Turn::Skip { due_ns, .. } => prop_assert_eq!(due_ns % interval, 0),
                }
                cycles += (pace.due_ns() - before) / interval;
            }
            prop_assert_eq!(cycles, sent + pace.skipped());
            prop_assert_eq!(meter.excess_ns(&contract(interval, error.min(interval - 1))), 0);
        }
    }
}

//! The times and sizes of a source's frames, on its host's clock. None exceeds its contract.

use crate::babble::Babble;
use crate::fixed::{Bucket, duration_ps};
use crate::model::{Binding, Flow};
use crate::random::Random;
use crate::scenario::{Behaviour, Pattern};

/// An active source. It creates frames one by one and stores none.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    behaviour: Behaviour,
    random: Random,
    bits: u32,
    least_bits: u32,
    tick_error_ps: u64,
    /// Number of frames so far.
    count: u32,
    /// Time of the last frame.
    last_ps: u64,
    pace: Pace,
}

#[derive(Clone, Debug)]
enum Pace {
    /// Without regard to any contract.
    Babble(Babble),
    /// A group of frames in each interval. `nominal_ps` is the start of the next one, `left` are those of this one that
    /// have not been sent.
    Slots {
        interval_ps: u64,
        nominal_ps: u64,
        group: u32,
        left: u32,
    },
    /// At most one frame in each period on its host's clock.
    Launches { period_ps: u64, nominal_ps: u64 },
    /// As much as the bucket permits.
    Bucket {
        bucket: Bucket,
        /// For [`Pattern::Periodic`]: the time of the next frame, and the time between two frames.
        nominal_ps: u64,
        apart_ps: u64,
        /// For [`Pattern::Shaped`]: the current tick (with its delay), its nominal time, and the tick interval.
        tick_ps: u64,
        grid_ps: u64,
        shaping_ps: u64,
    },
}

impl Source {
    /// Creates the source of a flow. [`Binding::Unshaped`] has no contract and is treated as greedy.
    pub(crate) fn new(flow: &Flow, behaviour: Behaviour, random: Random) -> Source {
        let mut random = random;
        let mut behaviour = behaviour;
        if flow.best_effort && behaviour.pattern != Pattern::Greedy {
            behaviour.pattern = Pattern::Random;
        }
        let apart_ps = duration_ps(u64::from(flow.bits), flow.rate);
        if behaviour.pattern == Pattern::Periodic && apart_ps.is_none() {
            behaviour.pattern = Pattern::Greedy;
        }
        let phase_ps = behaviour.phase_ps;
        let pace = match flow.binding {
            Binding::Interval { interval_ps } => Pace::Slots {
                interval_ps: interval_ps.max(1),
                nominal_ps: phase_ps,
                group: flow.group.max(1),
                left: 0,
            },
            Binding::Launch {
                period_ps,
                offset_ps,
            } => Pace::Launches {
                period_ps: period_ps.max(1),
                nominal_ps: offset_ps,
            },
            Binding::Rate | Binding::Unshaped => Pace::Bucket {
                bucket: Bucket::new(flow.rate, flow.burst, u64::from(flow.bits)),
                nominal_ps: phase_ps,
                apart_ps: apart_ps.unwrap_or(u64::MAX),
                tick_ps: phase_ps.saturating_add(random.up_to(flow.tick_error_ps)),
                grid_ps: phase_ps,
                shaping_ps: flow.shaping_ps.max(1),
            },
        };
        Source {
            behaviour,
            random,
            bits: flow.bits,
            least_bits: flow.least_bits,
            tick_error_ps: flow.tick_error_ps,
            count: 0,
            last_ps: phase_ps,
            pace,
        }
    }

    /// The same source, but it babbles.
    pub(crate) fn babbling(self, babble: Babble) -> Source {
        Source {
            pace: Pace::Babble(babble),
            ..self
        }
    }

    fn late_ps(&mut self) -> u64 {
        let most = self.tick_error_ps;
        match self.behaviour.pattern {
            Pattern::Greedy => 0,
            Pattern::Periodic | Pattern::Shaped => self.random.up_to(most),
            Pattern::Random => match self.random.below(3) {
                0 => 0,
                1 => most,
                _ => self.random.up_to(most),
            },
        }
    }

    fn size(&mut self) -> u32 {
        if self.least_bits >= self.bits || self.behaviour.pattern != Pattern::Random {
            return self.bits;
        }
        match self.random.below(4) {
            0 => self.least_bits,
            // Sizes are whole bytes.
            1 => {
                let bytes = u64::from((self.bits - self.least_bits) / 8);
                let more = u32::try_from(self.random.up_to(bytes) * 8).unwrap_or(0);
                self.least_bits + more
            }
            _ => self.bits,
        }
    }

    /// Returns the next frame: its time (ps of the host's clock, never before the last one's) and its bits on the
    /// wire. The time is its entry into the host's queue. Returns `None` if the source never sends again.
    pub(crate) fn next(&mut self) -> Option<(u64, u32)> {
        if let Pace::Babble(babble) = &mut self.pace {
            return Some(babble.next(&mut self.random));
        }
        let bits = self.size();
        if let Pace::Launches {
            period_ps,
            nominal_ps,
        } = &mut self.pace
        {
            if self.behaviour.pattern == Pattern::Random && self.random.once_in(4) {
                // A program without data skips periods.
                let turns = self.random.up_to(3);
                *nominal_ps = nominal_ps.saturating_add(period_ps.saturating_mul(turns));
            }
            let nominal = *nominal_ps;
            *nominal_ps = nominal.saturating_add(*period_ps);
            let late_ps = match self.behaviour.pattern {
                Pattern::Greedy if self.count % 2 == 0 => self.tick_error_ps,
                _ => self.late_ps(),
            };
            self.count = self.count.saturating_add(1);
            self.last_ps = nominal.saturating_add(late_ps);
            return Some((self.last_ps, self.bits));
        }
        if let Pace::Slots { left, .. } = &mut self.pace {
            if *left > 0 {
                // All of a group are handed over together.
                *left -= 1;
                self.count = self.count.saturating_add(1);
                return Some((self.last_ps, bits));
            }
        }
        let pause = self.behaviour.gap_before != 0 && self.behaviour.gap_before == self.count;
        let gap_ps = if pause { self.behaviour.gap_ps } else { 0 };
        let fresh = self.count == 0 || pause;
        let pattern = self.behaviour.pattern;
        let late_ps =
            if matches!(self.pace, Pace::Slots { .. }) && pattern == Pattern::Greedy && fresh {
                // The worst case of an interval: the first frame as late as permitted, the others on time.
                self.tick_error_ps
            } else {
                self.late_ps()
            };
        let after_ps = self.last_ps.saturating_add(gap_ps);
        let at = match &mut self.pace {
            // These cases have returned above.
            Pace::Launches { .. } | Pace::Babble(_) => return None,
            Pace::Slots {
                interval_ps,
                nominal_ps,
                group,
                left,
            } => {
                *left = *group - 1;
                let pause_ps = if pattern == Pattern::Random && self.random.once_in(4) {
                    self.random.of_any_size(interval_ps.saturating_mul(4))
                } else {
                    gap_ps
                };
                let nominal = nominal_ps.saturating_add(pause_ps);
                *nominal_ps = nominal.saturating_add(*interval_ps);
                nominal.saturating_add(late_ps).max(self.last_ps)
            }
            Pace::Bucket {
                bucket,
                nominal_ps,
                apart_ps,
                tick_ps,
                grid_ps,
                shaping_ps,
            } => {
                let wanted = match pattern {
                    Pattern::Greedy => after_ps,
                    Pattern::Periodic => {
                        let nominal = nominal_ps.saturating_add(gap_ps);
                        *nominal_ps = nominal.saturating_add(*apart_ps);
                        nominal.saturating_add(late_ps).max(self.last_ps)
                    }
                    Pattern::Random => match self.random.below(8) {
                        0 if *apart_ps != u64::MAX => {
                            let most = apart_ps.saturating_mul(32);
                            after_ps.saturating_add(self.random.of_any_size(most))
                        }
                        0 => after_ps.saturating_add(self.random.of_any_size(1 << 34)),
                        _ => after_ps,
                    },
                    Pattern::Shaped => after_ps.max(*tick_ps),
                };
                let mut at = bucket.earliest_ps(wanted, u64::from(bits))?;
                if pattern == Pattern::Shaped && at > *tick_ps {
                    // The next tick at or after this time. A tick in time may still be late enough.
                    let ticks = at.saturating_sub(*grid_ps).div_ceil(*shaping_ps).max(1);
                    *grid_ps = grid_ps.saturating_add(ticks.saturating_mul(*shaping_ps));
                    *tick_ps = grid_ps.saturating_add(self.random.up_to(self.tick_error_ps));
                    at = *tick_ps;
                }
                bucket.take(at, u64::from(bits));
                at
            }
        };
        self.count = self.count.saturating_add(1);
        self.last_ps = at;
        Some((at, bits))
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;

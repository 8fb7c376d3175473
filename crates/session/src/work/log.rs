//! The notes of a sending thread: how late its ticks and its wake-ups were.

use rtwire_measure::noise::StallSource;

use super::Late;
use super::tail::Tail;
use crate::outcome::TalkerResult;

/// The largest number of late ticks kept with their times; further ones are in the percentiles only.
const STALLS_MOST: usize = 4_096;
/// The largest number of ticks whose lateness is kept.
const OVERSHOOTS_MOST: usize = 4_000_000;

/// The notes of the sending thread. All memory is allocated before the run.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) result: TalkerResult,
    late: Vec<Late>,
    tick_error_ns: u64,
    last_awake_ns: u64,
    lateness: Tail,
    pub(super) wake_late: Tail,
    /// The lateness of the last tick, ns.
    pub(super) late_ns: u64,
}

impl Log {
    /// Makes room for a talker's notes. A tick later than `tick_error_ns` is noted with its times.
    pub(super) fn new(stream: usize, frames_most: usize, tick_error_ns: u64) -> Self {
        Self {
            result: TalkerResult {
                stream,
                overshoots_ns: Vec::with_capacity(frames_most.min(OVERSHOOTS_MOST)),
                ..TalkerResult::default()
            },
            late: Vec::with_capacity(STALLS_MOST),
            tick_error_ns,
            last_awake_ns: 0,
            lateness: Tail::new(),
            wake_late: Tail::new(),
            late_ns: 0,
        }
    }

    /// Notes that the tick due at `due_ns` was taken at `woke_ns`. Does not allocate.
    pub(super) fn tick(&mut self, due_ns: u64, woke_ns: u64) {
        let late_ns = woke_ns.saturating_sub(due_ns);
        self.lateness.record(late_ns);
        self.late_ns = late_ns;
        let overshoots = &mut self.result.overshoots_ns;
        if overshoots.len() < overshoots.capacity() {
            overshoots.push(u32::try_from(late_ns).unwrap_or(u32::MAX));
        }
        if late_ns > self.tick_error_ns && self.late.len() < self.late.capacity() {
            self.late.push(Late {
                alive_ns: self.last_awake_ns.min(due_ns),
                due_ns,
                woke_ns,
            });
        }
        self.last_awake_ns = woke_ns;
    }

    /// Returns the result of the talker of stream `name`, after the run.
    pub(super) fn result(self, name: &str) -> TalkerResult {
        let stalls = self.late.iter();
        let stalls = stalls.map(|late| late.stall(StallSource::Talker(name.to_owned())));
        TalkerResult {
            stalls: stalls.collect(),
            lateness: self.lateness.summary(),
            wake_late: self.wake_late.summary(),
            ..self.result
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtwire_measure::noise::Stall;

    #[global_allocator]
    static ALLOCATOR: rtwire_testkit::CountingAllocator = rtwire_testkit::CountingAllocator;

    #[test]
    fn noting_ticks_allocates_nothing_and_forgets_none_that_is_late() {
        let mut log = Log::new(0, 100, 1_000);
        let before = rtwire_testkit::allocations();
        for tick in 1..=50 {
            let due_ns = tick * 10_000;
            // Every other one is late.
            log.tick(due_ns, due_ns + 900 + tick % 2 * 200);
        }
        assert_eq!(rtwire_testkit::allocations(), before);
        let result = log.result("C-to-B");
        assert_eq!((result.overshoots_ns.len(), result.stalls.len()), (50, 25));
        let expected = Stall {
            source: StallSource::Talker("C-to-B".to_owned()),
            alive_ns: 20_900,
            due_ns: 30_000,
            woke_ns: 31_100,
        };
        assert_eq!(result.stalls[1], expected);
    }
}

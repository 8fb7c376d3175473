//! The kernel's transmit stamps of a publisher: the deviation of the time between two frames from the interval.

use crate::report::{Collector, Times};
use rtwire_link::TxStamps;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time between looks, and the wait for the last stamps.
const LOOK: Duration = Duration::from_millis(20);

/// Collects stamps until `done` is set.
pub(crate) fn deviations(mut stamps: TxStamps, interval_ns: u64, done: &AtomicBool) -> Times {
    let mut collector = Collector::new();
    let mut last: Option<(u64, u64)> = None;
    loop {
        let over = done.load(Ordering::Relaxed);
        let read = stamps.collect(LOOK, |stamp| {
            if let Some((frame, tai_ns)) = last {
                if stamp.frame == frame + 1 {
                    let took = stamp.tai_ns.saturating_sub(tai_ns);
                    collector.record(took.abs_diff(interval_ns));
                }
            }
            last = Some((stamp.frame, stamp.tai_ns));
        });
        if over || read.is_err() {
            return collector.times();
        }
    }
}

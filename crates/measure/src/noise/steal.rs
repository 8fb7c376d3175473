//! Stolen time from `/proc/stat`, read by an ordinary thread.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtwire_sys::clock::{Clock, now_ns};

use super::StealInterval;

/// Period at which `/proc/stat` is read.
const EVERY: Duration = Duration::from_millis(100);

/// The unit of `/proc/stat` in ns: USER_HZ is 100 on every architecture that rtwire supports.
const TICK_NS: u64 = 10_000_000;

/// Largest number of intervals kept. Time stolen later still counts in the totals.
const MAX_INTERVALS: usize = 10_000;

/// Time stolen during a record.
#[derive(Debug, Default)]
pub(super) struct Stolen {
    /// Core and its total, ns.
    pub(super) totals: Vec<(u32, u64)>,
    /// The intervals in which it was stolen.
    pub(super) intervals: Vec<StealInterval>,
}

/// Starts a thread that watches until `stop` is set and the thread is unparked.
pub(super) fn watch(stop: Arc<AtomicBool>) -> std::io::Result<JoinHandle<Stolen>> {
    thread::Builder::new()
        .name("rtw-steal".to_owned())
        .spawn(move || {
            let first = read();
            let mut seen = first.clone();
            let mut from_ns = now_ns(Clock::Tai);
            let mut intervals = Vec::new();
            loop {
                let last_round = stop.load(Ordering::Acquire);
                if !last_round {
                    thread::park_timeout(EVERY);
                }
                let now = read();
                let to_ns = now_ns(Clock::Tai);
                for (core, stolen_ns) in increases(&seen, &now) {
                    if intervals.len() < MAX_INTERVALS {
                        intervals.push(StealInterval {
                            core,
                            from_ns,
                            to_ns,
                            stolen_ns,
                        });
                    }
                }
                seen = now;
                from_ns = to_ns;
                if last_round {
                    return Stolen {
                        totals: differences(&first, &seen),
                        intervals,
                    };
                }
            }
        })
}

/// Returns the stolen time of each core since the machine started, ns; empty if the kernel does not report it.
fn read() -> Vec<(u32, u64)> {
    parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

fn parse(stat: &str) -> Vec<(u32, u64)> {
    let lines = stat.lines().take_while(|line| line.starts_with("cpu"));
    lines
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let core = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
            // user nice system idle iowait irq softirq steal
            let ticks: u64 = fields.nth(7)?.parse().ok()?;
            Some((core, ticks.saturating_mul(TICK_NS)))
        })
        .collect()
}

fn differences(before: &[(u32, u64)], after: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let of = |core| {
        before
            .iter()
            .find(|(c, _)| *c == core)
            .map_or(u64::MAX, |(_, ns)| *ns)
    };
    after
        .iter()
        .map(|(core, ns)| (*core, ns.saturating_sub(of(*core))))
        .collect()
}

fn increases(before: &[(u32, u64)], after: &[(u32, u64)]) -> impl Iterator<Item = (u32, u64)> {
    differences(before, after)
        .into_iter()
        .filter(|(_, ns)| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_steal_column() {
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 80 9 10\ncpu1 1 2 3 4 5 6 7 0 0 0\nintr 5\ncpu9 nonsense";
        let first = parse(stat);
        assert_eq!(first, [(0, 800_000_000), (1, 0)]);
        let later = parse(&stat.replace(" 80 ", " 83 "));
        assert_eq!(
            increases(&first, &later).collect::<Vec<_>>(),
            [(0, 30_000_000)]
        );
        assert_eq!(
            differences(&[], &later),
            [(0, 0), (1, 0)],
            "a core that appears has had nothing stolen yet"
        );
    }

    #[test]
    fn this_kernel_tells_it() {
        assert!(!read().is_empty());
    }
}

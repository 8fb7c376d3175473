//! SoC by launch time: the queue that keeps them, the time ahead of which they are handed over, and those that it has dropped.

use crate::driver::StationPath;
use crate::driver::uman_soc::{LATEST_NS, PERIODS_NS};
use crate::error::StationError;
use crate::project::{Project, SocSending};
use rtwire_link::LinkError;
use rtwire_link::TxStamps;
use rtwire_link::run::{LaunchWindow, Launches};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The period of reading the queue's reports. Long, since each wake-up takes time from a real-time loop.
const LOOK: Duration = Duration::from_millis(100);

/// The way in which SoC leave.
#[derive(Debug)]
pub(crate) struct SocWay {
    /// By launch time; `None`: the loop sends them.
    pub(crate) launches: Option<Launches>,
    /// By the kernel module `uman`, handed over within these times.
    pub(crate) by_module: Option<LaunchWindow>,
    /// The same in words.
    pub(crate) said: String,
}

/// Finds the way for a project.
///
/// # Errors
/// Launch times are asked for, and the interface keeps none, or the cycle is too short for them.
pub(crate) fn way(project: &Project, cycle_ns: u64) -> Result<SocWay, StationError> {
    let by_loop = |why: &str| SocWay {
        launches: None,
        by_module: None,
        said: format!("SoC sent by the loop{why}"),
    };
    if project.soc == SocSending::Spin {
        return Ok(by_loop(""));
    }
    if project.station_path == StationPath::Uman {
        return by_module(project, cycle_ns);
    }
    match open(project, cycle_ns) {
        Ok(launches) => {
            let (queue, window) = (launches.queue(), launches.window());
            let keeper = if queue.hardware { "the card" } else { "ETF" };
            let said = format!(
                "SoC by launch time, kept by {keeper} (delta {}), handed over {} ahead",
                us(queue.delta_ns),
                us(window.earliest_ns)
            );
            Ok(SocWay {
                launches: Some(launches),
                by_module: None,
                said,
            })
        }
        Err(error) if project.soc == SocSending::Auto => {
            let why = match error {
                // Without the remedy: nobody has asked for launch times.
                StationError::Link(LinkError::NoLaunch { found, .. }) => {
                    format!("no launch times: {found}")
                }
                error => error.to_string(),
            };
            Ok(by_loop(&format!(", since {why}")))
        }
        Err(error) => Err(error),
    }
}

/// The kernel module sends SoC at their instants, whatever the interface's queues.
fn by_module(project: &Project, cycle_ns: u64) -> Result<SocWay, StationError> {
    let window = LaunchWindow {
        earliest_ns: LATEST_NS.saturating_add(project.soc_margin_ns),
        latest_ns: LATEST_NS,
    };
    let (fits, takes) = (
        window.earliest_ns <= cycle_ns / 2,
        PERIODS_NS.contains(&cycle_ns),
    );
    if fits && takes {
        return Ok(SocWay {
            launches: None,
            by_module: Some(window),
            said: format!(
                "SoC sent by the module at their instants, handed over {} ahead",
                us(window.earliest_ns)
            ),
        });
    }
    if project.soc == SocSending::Launch && !fits {
        return Err(StationError::Lead {
            path: project.path.clone(),
            lead: us(window.earliest_ns),
            delta: us(LATEST_NS),
            margin: us(project.soc_margin_ns),
            cycle: us(cycle_ns),
        });
    }
    if project.soc == SocSending::Launch {
        return Err(StationError::Link(LinkError::Unsupported {
            what: "the module `uman` sends SoC in cycles of 50 µs to 1 s: set `soc = \"auto\"`, or another cycle",
        }));
    }
    Ok(SocWay {
        launches: None,
        by_module: None,
        said: format!(
            "SoC sent by the loop, since the cycle of {} is too short or too long for the module",
            us(cycle_ns)
        ),
    })
}

fn open(project: &Project, cycle_ns: u64) -> Result<Launches, StationError> {
    let launches = Launches::open(
        &project.interface,
        project.soc_priority,
        project.soc_margin_ns,
    )?;
    let lead_ns = launches.window().earliest_ns;
    if lead_ns > cycle_ns / 2 {
        return Err(StationError::Lead {
            path: project.path.clone(),
            lead: us(lead_ns),
            delta: us(launches.queue().delta_ns),
            margin: us(project.soc_margin_ns),
            cycle: us(cycle_ns),
        });
    }
    Ok(launches)
}

fn us(ns: u64) -> String {
    if ns % 1000 == 0 {
        format!("{} µs", ns / 1000)
    } else {
        format!("{}.{:03} µs", ns / 1000, ns % 1000)
    }
}

/// Counts the SoC that the queue has dropped, until `over` is set.
pub(crate) fn count_dropped(reports: &mut TxStamps, dropped: &AtomicU64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        // An interface that is gone ends the loop, too; until then there is nothing to read.
        if reports.collect_reports(Duration::ZERO, |_| {}).is_ok() {
            dropped.store(reports.launch_missed(), Ordering::Relaxed);
        }
    }
}

/// Sets its flag when it is dropped, also by a panic.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The events about SoC: at most one in a second.
#[derive(Debug, Default)]
pub(crate) struct Told {
    unlaunched: u64,
    dropped: u64,
    next_ns: u64,
}

impl Told {
    /// Returns the news in words; `None` without any. Allocates only for news.
    pub(crate) fn news(&mut self, unlaunched: u64, dropped: u64, now_ns: u64) -> Option<String> {
        if (unlaunched, dropped) == (self.unlaunched, self.dropped) || now_ns < self.next_ns {
            return None;
        }
        let late = unlaunched.saturating_sub(self.unlaunched);
        let lost = dropped.saturating_sub(self.dropped);
        *self = Self {
            unlaunched,
            dropped,
            next_ns: now_ns.saturating_add(1_000_000_000),
        };
        let mut words = Vec::new();
        if lost > 0 {
            words.push(format!(
                "{lost} SoC lost: the launch queue was too late for them and dropped them"
            ));
        }
        if late > 0 {
            words.push(format!(
                "{late} SoC without launch time: not handed over in time, or refused by the queue"
            ));
        }
        Some(words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_once_and_no_more_than_once_a_second() {
        let mut told = Told::default();
        let second = 1_000_000_000;
        assert_eq!(told.news(0, 0, 5), None);
        let words = told.news(2, 3, 6).unwrap();
        assert!(
            words.starts_with("3 SoC lost") && words.contains("; 2 SoC"),
            "{words}"
        );
        assert_eq!(told.news(2, 3, 2 * second), None);
        assert!(told.news(2, 4, 2 * second).is_some());
        assert_eq!(told.news(2, 9, 2 * second + 5), None);
        let words = told.news(2, 10, 3 * second).unwrap();
        assert!(
            words.starts_with("6 SoC lost") && !words.contains(';'),
            "{words}"
        );
    }

    #[test]
    fn times_are_shown_whole() {
        assert_eq!(us(200_000), "200 µs");
        assert_eq!(us(1_050), "1.050 µs");
    }
}

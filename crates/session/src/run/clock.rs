//! The largest difference of this host's clock from the network's, and the watch over it: who keeps it, and whether it is set.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_host::clock::{self, ClockQuestion, ClockState};
use rtwire_measure::clock_steps::{ClockStep, StepWatch};
use rtwire_measure::evidence::{ClockBasis, ClockLook};

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(20);

/// The reason to believe that this host's clock is the network's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClockSource {
    /// None.
    #[default]
    Unknown,
    /// The user says so.
    Stated {
        /// The largest difference from the network's time, ns.
        uncertainty_ns: u64,
    },
    /// ptp4l says so, and is asked once a second.
    Ptp(ClockQuestion),
}

impl ClockSource {
    /// Returns the largest difference from the network's time, ns; `None` if it is not known.
    pub(super) fn uncertainty_ns(&self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Stated { uncertainty_ns } => Some(*uncertainty_ns),
            Self::Ptp(question) => Some(accepted_ns(question, question.phc.map(|_| READ_ROOM_NS))),
        }
    }

    /// Returns the same for the file of evidence.
    pub(super) fn basis(&self) -> ClockBasis {
        match self {
            Self::Unknown => ClockBasis::Unknown,
            Self::Stated { uncertainty_ns } => ClockBasis::Stated {
                uncertainty_ns: *uncertainty_ns,
            },
            // Each look adds the error with which it read the interface's clock.
            Self::Ptp(question) => ClockBasis::Ptp {
                uncertainty_ns: accepted_ns(question, question.phc.map(|_| 0)),
            },
        }
    }
}

/// The error of reading the interface's clock for which a run allows before its first look, ns.
const READ_ROOM_NS: u64 = 2_000;

/// Returns the largest difference of CLOCK_TAI from the network's time with which a look finds the clock synchronised, ns.
///
/// ptp4l's clock may be off by the limit. Where that is the interface's, CLOCK_TAI may seem to be off from it by the limit and by
/// `read_ns`, the error of that reading; and the reading may be wrong by its error. All of these add up.
fn accepted_ns(question: &ClockQuestion, read_ns: Option<u64>) -> u64 {
    let limit_ns = question.limit_ns;
    let second_ns = read_ns.map_or(0, |read_ns| {
        limit_ns.saturating_add(read_ns).saturating_add(read_ns)
    });
    // The grandmaster's own clock is the network's time.
    match question.gives_time && read_ns.is_some() {
        true => second_ns,
        false => limit_ns.saturating_add(second_ns),
    }
}

/// Returns the largest difference from the network's time that a look leaves open, ns; `None` if it finds the clock not synchronised.
fn claimed_ns(question: &ClockQuestion, state: &ClockState) -> Option<u64> {
    let read_ns = state.system.phc_uncertainty_ns;
    state.synchronised.then(|| accepted_ns(question, read_ns))
}

/// The largest number of steps that are kept: a clock that is set again and again is as useless as one that was set once.
const STEPS_MOST: usize = 8;

/// Watches the clock: asks its daemon once a second, and looks all the time whether it is set.
#[derive(Debug)]
pub(super) struct ClockWatch<'a> {
    source: &'a ClockSource,
    newest: Mutex<Option<ClockLook>>,
    lost: AtomicBool,
    /// The largest difference that any look left open, ns.
    most_ns: AtomicU64,
    steps: Mutex<Vec<ClockStep>>,
}

impl<'a> ClockWatch<'a> {
    pub(super) fn new(source: &'a ClockSource) -> Self {
        Self {
            source,
            newest: Mutex::new(None),
            lost: AtomicBool::new(false),
            most_ns: AtomicU64::new(0),
            steps: Mutex::new(Vec::new()),
        }
    }

    /// Looks until `over` is set, and once more then.
    pub(super) fn follow(&self, over: &AtomicBool) {
        let mut watch = StepWatch::new();
        let mut asked: Option<Instant> = None;
        loop {
            let last = over.load(Ordering::Relaxed);
            if let Some(step) = watch.look() {
                self.stepped(step);
            }
            if let ClockSource::Ptp(question) = self.source {
                if last || asked.is_none_or(|asked| asked.elapsed() >= EVERY) {
                    self.look(question);
                    asked = Some(Instant::now());
                }
            }
            if last {
                return;
            }
            thread::sleep(NAP);
        }
    }

    fn stepped(&self, step: ClockStep) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() >= STEPS_MOST {
            return;
        }
        steps.push(step);
        self.lost.store(true, Ordering::Relaxed);
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let look = newest.get_or_insert_with(|| ClockLook {
            offset_ns: None,
            uncertainty_ns: None,
            state: String::new(),
            set: Vec::new(),
        });
        // Nobody knows how far it is from the network's time now.
        look.uncertainty_ns = None;
        look.state = step.to_string();
        look.set.push(step.to_string());
    }

    /// Returns the steps of the clock so far.
    pub(super) fn steps(&self) -> Vec<ClockStep> {
        self.steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn look(&self, question: &ClockQuestion) {
        let state = clock::state(question);
        let claimed_ns = claimed_ns(question, &state);
        self.most_ns
            .fetch_max(claimed_ns.unwrap_or(0), Ordering::Relaxed);
        let look = ClockLook {
            offset_ns: state.daemon.as_ref().and_then(|daemon| daemon.offset_ns),
            uncertainty_ns: claimed_ns,
            state: state.reasons.join("; "),
            set: Vec::new(),
        };
        if look.uncertainty_ns.is_none() {
            self.lost.store(true, Ordering::Relaxed);
        }
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        // A bad look stays until the writer has taken it.
        if newest
            .as_ref()
            .is_none_or(|before| before.uncertainty_ns.is_some())
        {
            *newest = Some(look);
        }
    }

    /// Takes the newest look that was not taken yet.
    pub(super) fn take(&self) -> Option<ClockLook> {
        self.newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Returns the largest difference from the network's time, ns. `None` if it is not known, was lost in any look, or was larger in
    /// one than the delays of the run were watched with.
    pub(super) fn uncertainty_ns(&self) -> Option<u64> {
        let known = self.source.uncertainty_ns();
        let most_ns = self.most_ns.load(Ordering::Relaxed);
        known.filter(|known| !self.lost.load(Ordering::Relaxed) && most_ns <= *known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtwire_host::clock::{Daemon, DaemonPort, SystemClock};

    /// A look at the clock that finds ptp4l's offset, and that of CLOCK_TAI from the interface's clock, read to ±`read`.
    fn looked(question: &ClockQuestion, offset: i64, tai: Option<(i64, u64)>) -> ClockState {
        let daemon = Daemon {
            own_grandmaster: question.gives_time,
            offset_ns: Some(offset),
            ports: vec![DaemonPort {
                number: 1,
                state: if question.gives_time {
                    "MASTER"
                } else {
                    "SLAVE"
                }
                .to_owned(),
            }],
            ..Daemon::default()
        };
        let system = SystemClock {
            tai_offset_s: 37,
            phc_minus_tai_ns: tai.map(|(ns, _)| ns),
            phc_uncertainty_ns: tai.map(|(_, read)| read),
        };
        let reasons = clock::judge(question, &daemon, &system);
        ClockState {
            version: 1,
            time_ns: 0,
            synchronised: reasons.is_empty(),
            reasons,
            limit_ns: question.limit_ns,
            daemon: Some(daemon),
            system,
        }
    }

    /// The check accepts both offsets at their limits: a host's claim covers them together, and the errors of reading.
    #[test]
    fn a_host_claims_no_less_than_its_looks_accept() {
        let question = ClockQuestion {
            phc: Some(0),
            ..ClockQuestion::default()
        };
        let (limit, read) = (1_000_i64, 300_i64);
        let claim = |question: &ClockQuestion, offset, tai| {
            claimed_ns(question, &looked(question, offset, tai))
        };
        let both = Some((-(limit + read), read.unsigned_abs()));
        // From the master to ptp4l's clock, from there to CLOCK_TAI, and the error of that.
        let farthest = u64::try_from(limit + (limit + read) + read).unwrap();
        assert_eq!(claim(&question, limit, both), Some(farthest));
        assert_eq!(claim(&question, limit + 1, both), None, "beyond the limit");
        let beyond = Some((limit + read + 1, read.unsigned_abs()));
        assert_eq!(claim(&question, limit, beyond), None, "beyond the limit");
        // Where ptp4l steers the system's clock there is one offset, and at the grandmaster the other one.
        assert_eq!(claim(&question, limit, None), Some(1_000));
        let gives = ClockQuestion {
            gives_time: true,
            ..question.clone()
        };
        assert_eq!(claim(&gives, 0, both), Some(1_600));
        // The header and the watch over delays begin with no less.
        let source = ClockSource::Ptp(question);
        let watched = source.uncertainty_ns().unwrap();
        assert!(watched >= farthest, "{watched}");
        assert_eq!(
            source.basis(),
            ClockBasis::Ptp {
                uncertainty_ns: 2_000
            }
        );
    }

    #[test]
    fn a_clock_whose_daemon_is_gone_is_not_known_any_more() {
        let stated = ClockSource::Stated {
            uncertainty_ns: 700,
        };
        let watch = ClockWatch::new(&stated);
        watch.follow(&AtomicBool::new(true));
        assert_eq!((watch.uncertainty_ns(), watch.take()), (Some(700), None));
        let folder = tempfile::tempdir().unwrap();
        let ptp = ClockSource::Ptp(ClockQuestion {
            socket: folder.path().join("nobody"),
            ..ClockQuestion::default()
        });
        let watch = ClockWatch::new(&ptp);
        assert_eq!(watch.uncertainty_ns(), Some(1_000));
        watch.follow(&AtomicBool::new(true));
        assert_eq!(watch.uncertainty_ns(), None);
        let look = watch.take().unwrap();
        assert!(look.state.contains("not running"), "{look:?}");
    }

    #[test]
    fn a_clock_that_was_set_is_not_known_any_more_whoever_stated_it() {
        let stated = ClockSource::Stated {
            uncertainty_ns: 700,
        };
        let watch = ClockWatch::new(&stated);
        let step = ClockStep {
            at_ns: 5,
            by_ns: -3_000_000_000,
        };
        for _ in 0..STEPS_MOST + 1 {
            watch.stepped(step);
        }
        assert_eq!(watch.uncertainty_ns(), None);
        assert_eq!(watch.steps().len(), STEPS_MOST);
        let look = watch.take().unwrap();
        assert_eq!(look.set[0], "the clock was set back by 3.000 s");
        assert_eq!(look.uncertainty_ns, None);
    }
}

//! The largest difference of this host's clock from the network's, and the watch over it: who keeps it, and whether it is set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_host::clock::{self, ClockQuestion};
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
            Self::Ptp(question) => Some(question.limit_ns),
        }
    }

    /// Returns the same for the file of evidence.
    pub(super) fn basis(&self) -> ClockBasis {
        match self {
            Self::Unknown => ClockBasis::Unknown,
            Self::Stated { uncertainty_ns } => ClockBasis::Stated {
                uncertainty_ns: *uncertainty_ns,
            },
            Self::Ptp(question) => ClockBasis::Ptp {
                uncertainty_ns: question.limit_ns,
            },
        }
    }
}

/// The largest number of steps that are kept: a clock that is set again and again is as useless as one that was set once.
const STEPS_MOST: usize = 8;

/// Watches the clock: asks its daemon once a second, and looks all the time whether it is set.
#[derive(Debug)]
pub(super) struct ClockWatch<'a> {
    source: &'a ClockSource,
    newest: Mutex<Option<ClockLook>>,
    lost: AtomicBool,
    steps: Mutex<Vec<ClockStep>>,
}

impl<'a> ClockWatch<'a> {
    pub(super) fn new(source: &'a ClockSource) -> Self {
        Self {
            source,
            newest: Mutex::new(None),
            lost: AtomicBool::new(false),
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
        let read = state.system.phc_uncertainty_ns.unwrap_or(0);
        let look = ClockLook {
            offset_ns: state.daemon.as_ref().and_then(|daemon| daemon.offset_ns),
            uncertainty_ns: state
                .synchronised
                .then(|| question.limit_ns.saturating_add(read)),
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

    /// Returns the largest difference from the network's time, ns. `None` if it is not known, or was lost in any look.
    pub(super) fn uncertainty_ns(&self) -> Option<u64> {
        let known = self.source.uncertainty_ns();
        known.filter(|_| !self.lost.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

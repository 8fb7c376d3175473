//! The largest difference of this host's clock from the network's, and the watch over it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_host::clock::{self, ClockQuestion};
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

/// Looks at the clock once a second.
#[derive(Debug)]
pub(super) struct ClockWatch<'a> {
    source: &'a ClockSource,
    newest: Mutex<Option<ClockLook>>,
    lost: AtomicBool,
}

impl<'a> ClockWatch<'a> {
    pub(super) fn new(source: &'a ClockSource) -> Self {
        Self {
            source,
            newest: Mutex::new(None),
            lost: AtomicBool::new(false),
        }
    }

    /// Looks until `over` is set, and once more then. Returns at once where there is nobody to ask.
    pub(super) fn follow(&self, over: &AtomicBool) {
        let ClockSource::Ptp(question) = self.source else {
            return;
        };
        loop {
            let last = over.load(Ordering::Relaxed);
            self.look(question);
            if last {
                return;
            }
            let start = Instant::now();
            while start.elapsed() < EVERY && !over.load(Ordering::Relaxed) {
                thread::sleep(NAP);
            }
        }
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
        watch.follow(&AtomicBool::new(false));
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
}

//! The card's stamps during a run: switched on, their clock followed, and what is left of their error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rtwire_channel::{CardFollower, CardTime};
use rtwire_measure::stamp_origin::StampOrigin;
use rtwire_measure::units::duration;
use rtwire_sys::card_stamps::{CardWish, ReceivedFrames};
use rtwire_sys::stamps::StampSource;

use super::{RunOptions, RunReport, Verdict};
use crate::error::SessionError;
use crate::task::Assignment;

/// The time between two looks whether a reading is due.
const NAP: Duration = Duration::from_millis(20);
/// The least error of a converted stamp for which delays make room, ns, and what the error at the start may grow to.
const ROOM: (u64, u64) = (1_000, 4);

/// A card that is asked for its stamps.
pub(super) struct CardWatch {
    follower: CardFollower,
    time: Arc<CardTime>,
    /// The error for which delays make room, ns.
    room_ns: u64,
}

/// State of the card at the end of a run.
#[derive(Clone, Debug)]
pub(super) struct CardEnd {
    pub(super) origin: StampOrigin,
    error_ns: u64,
    room_ns: u64,
    set: u64,
}

impl CardWatch {
    /// Switches the stamps on that the streams of this host need; `None` if the kernel is to stamp.
    ///
    /// # Errors
    /// The card cannot do it, with the reason.
    pub(super) fn open(
        options: &RunOptions,
        assignment: &Assignment,
    ) -> Result<Option<Self>, SessionError> {
        if options.stamps == StampSource::Software {
            return Ok(None);
        }
        let wish = CardWish {
            transmit: !assignment.talkers.is_empty(),
            receive: match assignment.listeners.is_empty() {
                true => ReceivedFrames::Any,
                false => ReceivedFrames::Every,
            },
        };
        let refused = |error: rtwire_channel::LinkError| SessionError::Stamps(error.to_string());
        let follower = CardFollower::open(&options.interface, wish).map_err(refused)?;
        let time = follower.time();
        let room_ns = time.error_ns().saturating_mul(ROOM.1).max(ROOM.0);
        Ok(Some(Self {
            follower,
            time,
            room_ns,
        }))
    }

    pub(super) fn time(&self) -> Arc<CardTime> {
        Arc::clone(&self.time)
    }

    /// Returns the error for which delays make room, ns.
    pub(super) fn room_ns(&self) -> u64 {
        self.room_ns
    }

    /// Follows the card's clock until `over` is set, and reads it once more then.
    pub(super) fn follow(&mut self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            // A clock that is gone leaves its last relation; the interface is gone with it, which the run tells.
            let _ = self.follower.look();
            thread::sleep(NAP);
        }
        let _ = self.follower.read();
    }

    pub(super) fn end(&self) -> CardEnd {
        CardEnd {
            origin: StampOrigin::card(
                self.time.clock(),
                self.time.error_ns(),
                Some(self.time.rate_ppb()),
            ),
            error_ns: self.time.error_ns(),
            room_ns: self.room_ns,
            set: self.time.set(),
        }
    }
}

impl RunReport {
    /// Returns the report with what the card's clock did. Where it was known less well than the delays make room for, a
    /// complete run is inconclusive.
    #[must_use]
    pub(super) fn with_card(mut self, end: Option<CardEnd>) -> Self {
        let Some(end) = end else {
            return self;
        };
        if end.error_ns > end.room_ns {
            self.reasons.push(format!(
                "the card's clock was known only to {}, more than the {} that delays make room for{}",
                duration(end.error_ns),
                duration(end.room_ns),
                if end.set > 0 { ": a clock was set" } else { "" }
            ));
            if self.verdict == Verdict::Complete {
                self.verdict = Verdict::Inconclusive;
            }
        }
        self.stamps = Some(end.origin);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::empty;
    use super::*;

    #[test]
    fn a_card_s_clock_that_went_astray_settles_nothing() {
        let end = |error_ns, set| {
            Some(CardEnd {
                origin: StampOrigin::card(0, error_ns, None),
                error_ns,
                room_ns: 1_000,
                set,
            })
        };
        assert_eq!(empty().with_card(None).stamps, None);
        let well = empty().with_card(end(900, 0));
        assert_eq!((well.verdict, well.reasons.len()), (Verdict::Complete, 0));
        assert_eq!(well.stamps.unwrap().conversion_ns, Some(900));
        let astray = empty().with_card(end(2_000_000, 1));
        assert_eq!(astray.verdict, Verdict::Inconclusive);
        assert!(
            astray.reasons[0].contains("a clock was set"),
            "{:?}",
            astray.reasons
        );
    }
}

//! What ended a hold, or cost a response: a stall of the machine, or something else?
//!
//! Beside the stations a noise recorder notes when each core stood still. What happened within some milliseconds behind the
//! end of such a stall is put down to it, with its length; everything else is unexplained, and ours to look into.

use rtwire_measure::noise::{NoiseRecord, Stall};
use rtwire_measure::units::duration;
use rtwire_station::{Io, StationStatus};
use rtwire_sys::clock::{self, Clock};
use std::collections::HashSet;

/// A node is told lost, and the managing node leaves Operational, at most so long after what caused it: five responses
/// missing, a state that is wrong for some cycles.
const INTERRUPTED_WITHIN_NS: u64 = 20_000_000;
/// A missing response is noticed with its timeout, and once more after that.
const LOST_WITHIN_NS: u64 = 3_000_000;
/// The clocks of who notes what are read one after the other.
const SLACK_NS: u64 = 500_000;

/// Something that happened, ns of CLOCK_TAI.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) at_ns: u64,
    pub(crate) what: String,
}

/// Notes what a control loop sees: neither allocates nor calls the kernel.
pub(crate) struct Losses {
    last: u64,
    /// When, CLOCK_MONOTONIC, and how many responses did not come since the moment before.
    seen: Vec<(u64, u64)>,
}

impl Losses {
    pub(crate) fn new() -> Self {
        Self {
            last: 0,
            seen: Vec::with_capacity(100_000),
        }
    }

    pub(crate) fn look(&mut self, io: &Io<'_>) {
        if io.missing != self.last {
            if self.seen.len() < self.seen.capacity() {
                self.seen.push((io.now_ns, io.missing - self.last));
            }
            self.last = io.missing;
        }
    }

    pub(crate) fn happened(&self) -> Vec<Happened> {
        let offset = offset_ns(Clock::Monotonic);
        let each = |(at_ns, count): &(u64, u64)| Happened {
            at_ns: at_ns.wrapping_add(offset),
            what: format!("{count} PRes lost"),
        };
        self.seen.iter().map(each).collect()
    }
}

/// Gathers the events of a station that end its operation, out of states that it tells again and again.
pub(crate) struct Interruptions {
    told: HashSet<(u64, String)>,
    all: Vec<Happened>,
}

impl Interruptions {
    pub(crate) fn new() -> Self {
        Self {
            told: HashSet::new(),
            all: Vec::new(),
        }
    }

    pub(crate) fn look(&mut self, status: &StationStatus) {
        let offset = offset_ns(Clock::Realtime);
        for event in &status.events {
            let what = &event.what;
            if !what.starts_with("from Operational to ") && !what.contains(": is lost: ") {
                continue;
            }
            // Told again with a clock that is read anew: the same but for some microseconds.
            let key = (event.time_ns / 1_000_000, what.clone());
            let beside = [(key.0 - 1, what.clone()), (key.0 + 1, what.clone())];
            if beside.iter().any(|key| self.told.contains(key)) || !self.told.insert(key) {
                continue;
            }
            self.all.push(Happened {
                at_ns: event.time_ns.wrapping_add(offset),
                what: what.clone(),
            });
        }
    }

    pub(crate) fn happened(self) -> Vec<Happened> {
        self.all
    }
}

/// What makes a time of this clock one of CLOCK_TAI.
fn offset_ns(clock: Clock) -> u64 {
    clock::now_ns(Clock::Tai).wrapping_sub(clock::now_ns(clock))
}

/// What happened during a hold, and the stalls beside it.
pub(crate) struct Account {
    pub(crate) interruptions: Vec<Happened>,
    pub(crate) losses: Vec<Happened>,
    pub(crate) noise: NoiseRecord,
    /// A stall that can have lasted longer than this explains what follows it.
    pub(crate) bearable_ns: u64,
}

/// What was found about one kind of happening.
pub(crate) struct Verdict {
    pub(crate) held: Option<bool>,
    pub(crate) account: String,
}

/// The longest that a stall can have lasted, ns.
fn length_ns(stall: &Stall) -> u64 {
    stall.woke_ns.saturating_sub(stall.alive_ns)
}

impl Account {
    fn long_stalls(&self) -> Vec<&Stall> {
        let long = |stall: &&Stall| length_ns(stall) > self.bearable_ns;
        self.noise.stalls.iter().filter(long).collect()
    }

    /// The longest stall that something can be put down to.
    fn cause<'a>(
        &self,
        stalls: &[&'a Stall],
        happened: &Happened,
        within_ns: u64,
    ) -> Option<&'a Stall> {
        let near = |stall: &&&Stall| {
            happened.at_ns + SLACK_NS >= stall.due_ns && happened.at_ns <= stall.woke_ns + within_ns
        };
        let found = stalls
            .iter()
            .filter(near)
            .max_by_key(|stall| length_ns(stall));
        found.copied()
    }

    fn judge(&self, name: &str, all: &[Happened], within_ns: u64) -> Verdict {
        let stalls = self.long_stalls();
        let mut longest_ns = 0;
        let mut unexplained = Vec::new();
        for happened in all {
            let seconds = happened.at_ns.saturating_sub(self.noise.from_ns) as f64 / 1e9;
            match self.cause(&stalls, happened, within_ns) {
                Some(stall) => {
                    longest_ns = longest_ns.max(length_ns(stall));
                    eprintln!(
                        "  {seconds:.3} s: {}: {} had stood still for {}",
                        happened.what,
                        stall.source,
                        duration(length_ns(stall))
                    );
                }
                None => {
                    eprintln!("  {seconds:.3} s: {}: unexplained", happened.what);
                    unexplained.push(format!("{seconds:.3} s: {}", happened.what));
                }
            }
        }
        let explained = all.len() - unexplained.len();
        let held = match (all.is_empty(), unexplained.is_empty()) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        };
        let bearable = duration(self.bearable_ns);
        let mut account = format!(
            "the machine stood still for more than {bearable} {} times",
            stalls.len()
        );
        if explained > 0 {
            account += &format!(
                "; to such stalls, the longest {}, {explained} {name} are put down",
                duration(longest_ns)
            );
        }
        if !unexplained.is_empty() {
            let some: Vec<_> = unexplained.iter().take(5).cloned().collect();
            account += &format!("; {} unexplained: {}", unexplained.len(), some.join("; "));
        }
        Verdict { held, account }
    }

    pub(crate) fn interruptions(&self) -> Verdict {
        self.judge("interruptions", &self.interruptions, INTERRUPTED_WITHIN_NS)
    }

    pub(crate) fn losses(&self) -> Verdict {
        self.judge("losses", &self.losses, LOST_WITHIN_NS)
    }
}

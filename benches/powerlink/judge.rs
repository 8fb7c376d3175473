//! What ended a hold, or lost a response: a stall of the machine, or something else?
//!
//! Beside the stations, a noise recorder notes when each core stood still. An event within some milliseconds after
//! such a stall is attributed to it, with its length. All other events are unexplained, and have to be examined.
//!
//! The report also says which share of all time would be explained in this way. On a machine that stalls all the
//! time, an explanation means little.
//!
//! A core may be late at several consecutive looks. Then these stalls count as one, of their total length: hardly
//! anything ran between them.

use rtwire_measure::noise::{NoiseOptions, NoiseRecord, StallSource};
use rtwire_measure::units::duration;
use rtwire_powerlink_station::{Io, StationStatus};
use rtwire_sys::clock::{self, Clock};
use std::collections::{BTreeMap, HashSet};

/// The longest time from a cause until a node is reported lost, or the managing node leaves Operational.
///
/// It covers five missing responses, or a wrong state for some cycles.
const INTERRUPTED_WITHIN_NS: u64 = 20_000_000;
/// The longest time until a missing response is noticed: its timeout, some cycles of 250 µs later at most.
const LOST_WITHIN_NS: u64 = 1_000_000;
/// The longest time by which an event may be noted before its stall: their clocks are read one after the other.
const SLACK_NS: u64 = 100_000;

/// An event, ns of CLOCK_TAI.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    /// The earliest time at which it happened.
    pub(crate) from_ns: u64,
    /// The time at which it was noted.
    pub(crate) at_ns: u64,
    pub(crate) what: String,
    /// True if the managing node noticed a stall of its own meanwhile.
    pub(crate) own_stall: bool,
}

impl Happened {
    /// True if the event may follow from this stall.
    fn is_near(&self, standstill: &Standstill, within_ns: u64) -> bool {
        self.at_ns + SLACK_NS >= standstill.from_ns && self.from_ns <= standstill.to_ns + within_ns
    }
}

/// A stall of a core, or several with a late look between each two.
#[derive(Debug)]
struct Standstill {
    source: StallSource,
    from_ns: u64,
    to_ns: u64,
    /// The length of all stalls together.
    length_ns: u64,
    stalls: u32,
}

impl Standstill {
    /// Returns all standstills of a record, in the order in which they began.
    fn all(noise: &NoiseRecord) -> Vec<Self> {
        let mut last: BTreeMap<&StallSource, Self> = BTreeMap::new();
        let mut all = Vec::new();
        for stall in &noise.stalls {
            let length_ns = stall.length_ns();
            match last.get_mut(&stall.source) {
                // The core was awake at the end of the previous one, and late at the very next look.
                Some(open) if stall.alive_ns <= open.to_ns => {
                    open.to_ns = stall.woke_ns;
                    open.length_ns += length_ns;
                    open.stalls += 1;
                }
                _ => {
                    let open = Self {
                        source: stall.source.clone(),
                        from_ns: stall.due_ns,
                        to_ns: stall.woke_ns,
                        length_ns,
                        stalls: 1,
                    };
                    all.extend(last.insert(&stall.source, open));
                }
            }
        }
        all.extend(last.into_values());
        all.sort_by_key(|standstill| standstill.from_ns);
        all
    }

    fn words(&self) -> String {
        let length = duration(self.length_ns);
        match self.stalls {
            1 => length,
            stalls => {
                let whole = duration(self.to_ns.saturating_sub(self.from_ns));
                format!("{length} of {whole}, {stalls} times on end")
            }
        }
    }
}

/// Notes the losses that a control loop sees: it neither allocates nor calls the kernel.
pub(crate) struct Losses {
    last: Seen,
    all: Vec<Loss>,
}

/// The control loop's view of one cycle.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The time, ns of CLOCK_MONOTONIC.
    now_ns: u64,
    missing: u64,
    own_stalls: u64,
}

/// Responses that were missing between two cycles.
///
/// In the reduced cycle of an interrupted network the loop is not called, so the two cycles may be some time apart.
#[derive(Clone, Copy)]
struct Loss {
    before: Seen,
    after: Seen,
}

impl Losses {
    pub(crate) fn new() -> Self {
        Self {
            last: Seen::default(),
            all: Vec::with_capacity(100_000),
        }
    }

    pub(crate) fn look(&mut self, io: &Io<'_>) {
        let before = self.last;
        self.last = Seen {
            now_ns: io.now_ns,
            missing: io.missing,
            own_stalls: io.own_stalls,
        };
        if io.missing != before.missing && self.all.len() < self.all.capacity() {
            self.all.push(Loss {
                before,
                after: self.last,
            });
        }
    }

    pub(crate) fn happened(&self) -> Vec<Happened> {
        let offset = offset_ns(Clock::Monotonic);
        let each = |Loss { before, after }: &Loss| Happened {
            from_ns: before.now_ns.wrapping_add(offset),
            at_ns: after.now_ns.wrapping_add(offset),
            what: format!("{} PRes lost", after.missing - before.missing),
            own_stall: after.own_stalls != before.own_stalls,
        };
        self.all.iter().map(each).collect()
    }
}

/// Collects the events of a station that end its operation, from states that it reports repeatedly.
pub(crate) struct Interruptions {
    told: HashSet<(u64, String)>,
    all: Vec<Happened>,
    errors: Vec<Happened>,
}

impl Interruptions {
    pub(crate) fn new() -> Self {
        Self {
            told: HashSet::new(),
            all: Vec::new(),
            errors: Vec::new(),
        }
    }

    pub(crate) fn look(&mut self, status: &StationStatus) {
        let offset = offset_ns(Clock::Realtime);
        for event in &status.events {
            let what = &event.what;
            let ends = what.starts_with("from Operational to ") || what.contains(": is lost: ");
            // An error explains the interruption; its code follows it.
            if !ends && !what.ends_with("h)") {
                continue;
            }
            // A repeated report, with a newly read clock: the same except for some microseconds.
            let key = (event.time_ns / 1_000_000, what.clone());
            let beside = [(key.0 - 1, what.clone()), (key.0 + 1, what.clone())];
            if beside.iter().any(|key| self.told.contains(key)) || !self.told.insert(key) {
                continue;
            }
            let at_ns = event.time_ns.wrapping_add(offset);
            let happened = Happened {
                from_ns: at_ns,
                at_ns,
                what: what.clone(),
                own_stall: false,
            };
            if ends {
                self.all.push(happened);
            } else {
                self.errors.push(happened);
            }
        }
    }

    /// Returns each event with the errors that were reported with it.
    pub(crate) fn happened(self) -> Vec<Happened> {
        let with_errors = |mut happened: Happened| {
            for error in &self.errors {
                if error.at_ns.abs_diff(happened.at_ns) < 1_000_000 {
                    happened.what += &format!(" ({})", error.what);
                }
            }
            happened
        };
        self.all.into_iter().map(with_errors).collect()
    }
}

/// Returns the offset that converts a time of this clock to CLOCK_TAI.
fn offset_ns(clock: Clock) -> u64 {
    clock::now_ns(Clock::Tai).wrapping_sub(clock::now_ns(clock))
}

/// The events during a hold, and the stalls beside them.
pub(crate) struct Account {
    pub(crate) interruptions: Vec<Happened>,
    pub(crate) losses: Vec<Happened>,
    pub(crate) noise: NoiseRecord,
    pub(crate) bearable: Bearable,
    /// The share of cycles in which the managing node noticed a stall of its own, 0 to 1.
    pub(crate) own_stalls: f64,
}

/// The lengths from which on a stall explains the events after it.
#[derive(Clone, Copy)]
pub(crate) struct Bearable {
    pub(crate) without_interruption_ns: u64,
    pub(crate) without_loss_ns: u64,
}

/// Returns the settings of the noise recorder, and the stalls that explain an event. With artificial stalls, only
/// longer ones do.
pub(crate) fn watching(nodes: u8, stalled: bool) -> (NoiseOptions, Bearable) {
    let options = |period_ns, stall_threshold_ns| NoiseOptions {
        period_ns,
        stall_threshold_ns,
        max_stalls: 400_000,
        ..NoiseOptions::default()
    };
    if stalled {
        let most_ns = crate::stalls::MOST.as_nanos() as u64;
        let bearable = Bearable {
            without_interruption_ns: most_ns,
            without_loss_ns: most_ns,
        };
        (options(250_000, 200_000), bearable)
    } else if nodes == 1 {
        // Stalls of 2 ms have to be tolerated: such a stall is seen as one of 1.5 to 2 ms.
        let bearable = Bearable {
            without_interruption_ns: 1_500_000,
            without_loss_ns: 1_500_000,
        };
        (options(500_000, 500_000), bearable)
    } else {
        // A response has some 116 µs: no shorter stall loses one. A look every 100 µs would see more, but takes time
        // that eight nodes need: with it they were not operational for long.
        let bearable = Bearable {
            without_interruption_ns: 200_000,
            without_loss_ns: 100_000,
        };
        (options(250_000, 100_000), bearable)
    }
}

/// The result for one kind of event.
pub(crate) struct Verdict {
    pub(crate) held: Option<bool>,
    pub(crate) account: String,
}

impl Account {
    fn longer_than(&self, bearable_ns: u64) -> Vec<Standstill> {
        let mut all = Standstill::all(&self.noise);
        all.retain(|standstill| standstill.length_ns > bearable_ns);
        all
    }

    /// Returns the longest stall that an event can be attributed to.
    fn cause<'a>(
        &self,
        standstills: &'a [Standstill],
        happened: &Happened,
        within_ns: u64,
    ) -> Option<&'a Standstill> {
        let near = |standstill: &&Standstill| happened.is_near(standstill, within_ns);
        let found = standstills.iter().filter(near);
        found.max_by_key(|standstill| standstill.length_ns)
    }

    /// Returns the share of time, 0 to 1, in which any event would be attributed to one of these stalls.
    fn by_chance(&self, standstills: &[Standstill], within_ns: u64) -> f64 {
        let (mut covered_ns, mut until_ns) = (0, 0);
        for standstill in standstills {
            let from_ns = standstill.from_ns.saturating_sub(SLACK_NS).max(until_ns);
            until_ns = until_ns.max(standstill.to_ns + within_ns);
            covered_ns += until_ns.saturating_sub(from_ns);
        }
        let whole_ns = self.noise.to_ns.saturating_sub(self.noise.from_ns).max(1);
        covered_ns as f64 / whole_ns as f64
    }

    /// Describes the stalls before an event that are too short to explain it.
    fn before(&self, happened: &Happened, within_ns: u64) -> String {
        let all = Standstill::all(&self.noise);
        let near = all
            .iter()
            .filter(|standstill| happened.is_near(standstill, within_ns));
        let words = near.map(|standstill| {
            let ago_ns = happened.at_ns.saturating_sub(standstill.to_ns);
            let (source, ago) = (&standstill.source, duration(ago_ns));
            format!("{source} {}, {ago} ago", standstill.words())
        });
        let words: Vec<_> = words.collect();
        if words.is_empty() {
            "no stall".to_owned()
        } else {
            words.join("; ")
        }
    }

    fn judge(&self, name: &str, all: &[Happened], bearable_ns: u64, within_ns: u64) -> Verdict {
        let standstills = self.longer_than(bearable_ns);
        let (mut longest_ns, mut own, mut on_end) = (0, 0, 0);
        let mut unexplained = Vec::new();
        for happened in all {
            let seconds = happened.at_ns.saturating_sub(self.noise.from_ns) as f64 / 1e9;
            match self.cause(&standstills, happened, within_ns) {
                Some(standstill) => {
                    longest_ns = longest_ns.max(standstill.length_ns);
                    on_end += u32::from(standstill.stalls > 1);
                    eprintln!(
                        "  {seconds:.3} s: {}: {} had stood still for {}",
                        happened.what,
                        standstill.source,
                        standstill.words()
                    );
                }
                None if happened.own_stall => {
                    eprintln!(
                        "  {seconds:.3} s: {}: the managing node itself had stood still",
                        happened.what
                    );
                    own += 1;
                }
                None => {
                    eprintln!(
                        "  {seconds:.3} s: {}: unexplained; before it: {}",
                        happened.what,
                        self.before(happened, within_ns)
                    );
                    unexplained.push(format!("{seconds:.3} s: {}", happened.what));
                }
            }
        }
        let explained = all.len() - unexplained.len() - own;
        let held = match (all.is_empty(), unexplained.is_empty()) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        };
        let bearable = duration(bearable_ns);
        let mut account = format!(
            "a core stood still for more than {bearable} {} times, which explains {:.2} % of all time",
            standstills.len(),
            100.0 * self.by_chance(&standstills, within_ns)
        );
        if explained > 0 {
            account += &format!(
                "; {explained} {name} are attributed to such stalls, the longest of {}",
                duration(longest_ns)
            );
        }
        if on_end > 0 {
            account += &format!(" ({on_end} to several consecutive stalls)");
        }
        if own > 0 {
            account += &format!(
                "; {own} to the managing node's own stalls of more than half a cycle, which it noticed in {:.2} % of the \
                 cycles and the noise recorder did not",
                100.0 * self.own_stalls
            );
        }
        if !unexplained.is_empty() {
            let some: Vec<_> = unexplained.iter().take(5).cloned().collect();
            account += &format!("; {} unexplained: {}", unexplained.len(), some.join("; "));
        }
        Verdict { held, account }
    }

    pub(crate) fn interruptions(&self) -> Verdict {
        let bearable_ns = self.bearable.without_interruption_ns;
        let all = &self.interruptions;
        self.judge("interruptions", all, bearable_ns, INTERRUPTED_WITHIN_NS)
    }

    pub(crate) fn losses(&self) -> Verdict {
        let bearable_ns = self.bearable.without_loss_ns;
        self.judge("losses", &self.losses, bearable_ns, LOST_WITHIN_NS)
    }
}

//! Does the plan follow?
//!
//! A plan from `rtwire plan --certificate` carries the facts on which its promises rest. For each port these are the
//! lateness of each stream's frames, the service, and the delay of each class. For each promise they are the pieces of
//! its sum. [`check`] accepts them, or names the first fact that does not follow.
//!
//! ```text
//! network ──► contracts, ports ─┐
//!                               ├──► each fact from the others, by one theorem ──► proved | first fact that fails
//! certificate ──► claims ───────┘
//! ```
//!
//! It searches nothing and repeats nothing: each claim is asked once, given all others. That suffices on rings too (see
//! the theorem of the first late frame in `rules.rs`). It shares no code with the planner or the simulator, and has its
//! own arithmetic.
//!
//! ```
//! let fault = rtwire_proof::check(b"{}").unwrap_err();
//! assert!(matches!(fault, rtwire_proof::Refused::Form { .. }));
//! ```
//!
//! Limits: covered are strict priorities, first in first out, shaped sources, and latencies that vary. Not covered are:
//!
//! - credit-based and asynchronous shapers, gates and launches, frame preemption, flow meters, cyclic queueing;
//! - latencies of single inputs and ports of a switch, and cut-through;
//! - talkers without a shaper, or with several frames in each interval;
//! - what comes from such a port, and memory that is shared with one;
//! - jitter.
//!
//! A promise that rests on one of them is named in the [`Verdict`] as not covered, never as proved. Identities, terms,
//! gate lists, recoveries and transfers are not looked at. Where limits were ignored, deadlines and buffers are not asked.

mod check;
mod closed;
mod curve;
mod file;
mod model;
mod number;
mod rules;
mod schedule;

/// A fact of a certificate that does not follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The rule by which it should follow.
    pub rule: &'static str,
    /// The stream, class or port.
    pub at: String,
    /// The claim, with its unit.
    pub claimed: String,
    /// The least claim that would follow from the others.
    pub needed: String,
}

/// The reason why a certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The file is not of the form that the checker knows.
    #[error("not a plan that can be checked: {what}; make one with `rtwire plan --certificate`")]
    Form {
        /// The fault.
        what: String,
    },
    /// The version of plan or certificate is another one.
    #[error("version {found} of plan or certificate cannot be checked: plan again")]
    Version {
        /// The version in the file.
        found: u64,
    },
    /// The plan has no certificate.
    #[error("the plan has no certificate: make one with `rtwire plan --certificate`")]
    NoCertificate,
    /// A fact does not follow.
    #[error("{} of {}: the certificate claims {}, but {} follows from its other facts; plan again", .0.rule, .0.at, .0.claimed, .0.needed)]
    Fact(Fact),
}

/// The judgement of one promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The stream.
    pub stream: String,
    /// The listener.
    pub listener: String,
    /// The promise, nanoseconds.
    pub delay_ns: u64,
    /// The largest delay in the schedule that the certificate carries for it, picoseconds.
    pub attained_ps: Option<u64>,
    /// True if that schedule attains the promise, but for rounding up to whole nanoseconds.
    pub exact: bool,
    /// The mechanism that has no rule in the checker; `None`: the promise is proved.
    pub not_covered: Option<String>,
}

/// The judgement of an accepted certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Every promise of the plan.
    pub promises: Vec<Judged>,
    /// True if the plan ignores limits: then deadlines and buffers were not asked.
    pub limits_ignored: bool,
}

impl Verdict {
    /// Returns the number of promises that a schedule attains.
    #[must_use]
    pub fn exact(&self) -> usize {
        self.promises.iter().filter(|one| one.exact).count()
    }

    /// Returns the number of proved promises.
    #[must_use]
    pub fn proved(&self) -> usize {
        self.promises.iter().filter(|one| one.not_covered.is_none()).count()
    }
}

/// Names of flows or ports, each with a time in picoseconds.
pub type Timed = [(String, u64)];

/// The network of a plan file, for playing schedules.
pub struct Stage {
    model: model::Model,
}

impl Stage {
    /// Reads the network of a plan file.
    ///
    /// # Errors
    /// [`Refused::Form`].
    pub fn of(bytes: &[u8]) -> Result<Stage, Refused> {
        Ok(Stage { model: model::Model::of(&read(bytes)?)? })
    }

    /// Plays a schedule as [`check`] does: frames by flow and release, and ports where frames meet.
    ///
    /// Returns the largest delay of a stream's frames at a listener, picoseconds. `None` if the network may not show it.
    #[must_use]
    pub fn attained(&self, stream: &str, to: &str, frames: &Timed, meets: &Timed) -> Option<u64> {
        let int = |(name, at): &(String, u64)| (name.clone(), file::Int(*at));
        let ints = |list: &Timed| list.iter().map(int).collect();
        let schedule = file::Schedule { frames: ints(frames), meets: ints(meets) };
        let number = self.model.flows.iter().position(|flow| flow.name == stream)?;
        let end = format!(">{to}");
        let hops = &self.model.flows[number].hops;
        let last = hops.iter().position(|hop| self.model.ports[hop.port].name.ends_with(&end))?;
        u64::try_from(self.model.attained(&schedule, number, last)?).ok()
    }
}

fn read(bytes: &[u8]) -> Result<file::File, Refused> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|fault| Refused::Form { what: fault.to_string() })
}

/// Checks the certificate of a plan file.
///
/// # Errors
/// [`Refused`]: the file cannot be checked, or the first fact that does not follow.
pub fn check(bytes: &[u8]) -> Result<Verdict, Refused> {
    check::check(&read(bytes)?)
}

//! Measurements of `rtwire doctor --measure`, and findings from them. Plain data: the measuring is elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Area, Certainty, Examination, Finding, Level};

/// A measurement on this host, with the host's own noise during it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The quantity: `wake-up`, `transmit`, `launch` or `receive`.
    pub what: String,
    /// The place: `own cable`, or the interface.
    pub at: String,
    /// The load: `idle`, or the work done meanwhile.
    pub load: String,
    /// The number of samples.
    pub samples: u64,
    /// The smallest sample, ns; negative if early.
    pub min_ns: i64,
    /// The median, ns.
    pub p50_ns: i64,
    /// The 99th percentile, ns.
    pub p99_ns: i64,
    /// The 99.9th percentile, ns.
    pub p999_ns: i64,
    /// The largest sample, ns.
    pub max_ns: i64,
    /// The samples so late that a stall is likely.
    pub stalled: Stalled,
    /// The number of frames that were sent and never received, where they can be counted.
    pub lost: Option<u64>,
    /// The host's own noise meanwhile; null if it could not be recorded.
    pub noise: Option<Noise>,
}

/// Samples above a limit, and the stalls of the machine that explain them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stalled {
    /// The limit, ns.
    pub limit_ns: u64,
    /// The number of samples above it.
    pub count: u64,
    /// The number of those that a stall of the machine explains, by the noise record.
    pub explained: u64,
}

/// The wake-up delay of a thread above all others, on the worst core: the delay that no program here can avoid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The 99.9th percentile, ns.
    pub p999_ns: u64,
    /// The largest delay, ns.
    pub max_ns: u64,
    /// The SCHED_FIFO priority that its threads really had.
    pub priority: u32,
}

/// A setting asked of the kernel, and the one read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// The subject: `the sender's thread`.
    pub what: String,
    /// The place: `own cable`, the interface, or `this process`.
    pub at: String,
    /// The setting asked for.
    pub asked: String,
    /// The setting read back.
    pub found: String,
    /// True if both are the same.
    pub in_force: bool,
    /// The side that decides about it.
    #[serde(skip)]
    pub right: Right,
}

/// The side that decides whether a request comes into force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Right {
    /// The kernel, by the capabilities and limits of the process.
    #[default]
    Process,
    /// The interface, its driver and what is set up there.
    Interface,
}

impl Verification {
    /// Compares a request and the setting read back, as texts.
    #[must_use]
    pub fn new(
        what: impl Into<String>,
        at: impl Into<String>,
        asked: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (asked, found) = (asked.into(), found.into());
        Self {
            what: what.into(),
            at: at.into(),
            in_force: asked == found,
            asked,
            found,
            right: Right::Process,
        }
    }

    /// Returns the same verification, decided by the interface.
    #[must_use]
    pub fn of_interface(self) -> Self {
        Self {
            right: Right::Interface,
            ..self
        }
    }
}

impl Examination {
    /// Adds measurements, and the findings from them: settings that are not in force, and late wake-ups that no stall
    /// explains. The figures themselves are not judged: the plan decides which delay is too long.
    pub fn measured(&mut self, measurements: Vec<Measurement>, verified: Vec<Verification>) {
        const WHY_NOT_IN_FORCE: &str = "a measurement with other settings than those asked for shows, and promises, something else";
        const WHY_OUTRANKED: &str =
            "more urgent real-time threads run on the measuring thread's core";
        for one in verified.iter().filter(|one| !one.in_force) {
            let found = format!(
                "{} ({}): asked for {}, found {}",
                one.what, one.at, one.asked, one.found
            );
            self.findings.push(
                Finding::good(Area::Limits, "measured.in_force", found, WHY_NOT_IN_FORCE)
                    .at(Level::Fault)
                    .sure(Certainty::Tried)
                    .by_hand("run as root, or add the capability that `limits.capabilities` names"),
            );
        }
        let late = measurements.iter().filter(|one| one.what == "wake-up");
        for one in late.filter(|one| one.stalled.count > one.stalled.explained) {
            let found = format!(
                "{} of {} wake-ups ({}, {}) were over {} µs late, and no stall of the machine explains {} of them",
                one.stalled.count,
                one.samples,
                one.at,
                one.load,
                one.stalled.limit_ns / 1_000,
                one.stalled.count - one.stalled.explained
            );
            self.findings.push(
                Finding::good(Area::Limits, "measured.outranked", found, WHY_OUTRANKED)
                    .at(Level::Weak)
                    .sure(Certainty::Concluded)
                    .by_hand("ps -eLo rtprio,psr,pid,comm --sort -rtprio | head"),
            );
        }
        self.findings.sort_by_key(|finding| finding.area);
        self.ready = !self.findings.iter().any(Finding::endangers);
        self.measurements = measurements;
        self.verified = verified;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake_up(count: u64, explained: u64) -> Measurement {
        Measurement {
            what: "wake-up".to_owned(),
            at: "own cable".to_owned(),
            load: "idle".to_owned(),
            samples: 1000,
            min_ns: 1,
            p50_ns: 2,
            p99_ns: 3,
            p999_ns: 4,
            max_ns: 5,
            stalled: Stalled {
                limit_ns: 1_000_000,
                count,
                explained,
            },
            lost: None,
            noise: None,
        }
    }

    fn examined(measurements: Vec<Measurement>, verified: Vec<Verification>) -> Examination {
        let mut examination = Examination {
            version: 1,
            interface: None,
            ready: true,
            findings: Vec::new(),
            measurements: Vec::new(),
            verified: Vec::new(),
        };
        examination.measured(measurements, verified);
        examination
    }

    #[test]
    fn late_figures_alone_endanger_nothing_and_what_the_machine_does_not_explain_does() {
        assert!(examined(vec![wake_up(0, 0)], Vec::new()).ready);
        assert!(examined(vec![wake_up(3, 3)], Vec::new()).ready);
        let outranked = examined(vec![wake_up(3, 2)], Vec::new());
        assert!(!outranked.ready);
        assert_eq!(outranked.findings[0].id, "measured.outranked");
        assert!(outranked.findings[0].found.contains("explains 1 of them"));
        let receive = Measurement {
            what: "receive".to_owned(),
            ..wake_up(3, 0)
        };
        assert!(examined(vec![receive], Vec::new()).ready);
    }

    #[test]
    fn what_is_not_in_force_is_a_fault() {
        let same = Verification::new("a", "b", "SCHED_FIFO 80", "SCHED_FIFO 80");
        assert!(examined(Vec::new(), vec![same]).ready);
        let other = Verification::new("the thread", "b", "SCHED_FIFO 80", "SCHED_OTHER");
        let found = examined(Vec::new(), vec![other]);
        assert!(!found.ready && !found.verified[0].in_force);
        assert_eq!(found.findings[0].id, "measured.in_force");
    }
}

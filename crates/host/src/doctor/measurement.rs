//! What `rtwire doctor --measure` measured, and what that says of the host. Who measures is elsewhere: this is plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Area, Certainty, Examination, Finding, Level};

/// Something that was measured on this host, beside the host's own noise meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// What: `wake-up`, `transmit`, `launch` or `receive`.
    pub what: String,
    /// Where: `own cable`, or the interface.
    pub at: String,
    /// Under which load: `idle`, or what was done meanwhile.
    pub load: String,
    /// How many samples.
    pub samples: u64,
    /// The smallest, ns; below 0: early.
    pub min_ns: i64,
    /// Half of them were at most this, ns.
    pub p50_ns: i64,
    /// 99 of 100 were at most this, ns.
    pub p99_ns: i64,
    /// 999 of 1000 were at most this, ns.
    pub p999_ns: i64,
    /// The largest, ns.
    pub max_ns: i64,
    /// Those that were late by so much that something must have stood in the way.
    pub stalled: Stalled,
    /// Frames that were sent and never came, where they can be counted.
    pub lost: Option<u64>,
    /// The host's own noise meanwhile; null where it could not be recorded.
    pub noise: Option<Noise>,
}

/// Samples above a limit, and whether the machine itself stood still then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stalled {
    /// From here on a sample counts, ns.
    pub limit_ns: u64,
    /// How many.
    pub count: u64,
    /// How many of them a stall of the machine explains, as the noise record has it.
    pub explained: u64,
}

/// How late a thread above all others woke meanwhile, on whichever core was worst: what no program here can avoid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// 99 of 100 were at most this, ns.
    pub p99_ns: u64,
    /// 999 of 1000 were at most this, ns.
    pub p999_ns: u64,
    /// The largest, ns.
    pub max_ns: u64,
    /// The priority under SCHED_FIFO that its threads really had.
    pub priority: u32,
}

/// Something that was asked of the kernel, and what was found when it was looked at again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Of what: `the sender's thread`.
    pub what: String,
    /// Where: `own cable`, the interface, or `this process`.
    pub at: String,
    /// What was asked for.
    pub asked: String,
    /// What there was.
    pub found: String,
    /// Whether they are the same.
    pub in_force: bool,
    /// Who decides about it.
    #[serde(skip)]
    pub right: Right,
}

/// Who decides whether something that was asked for comes into force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Right {
    /// The kernel, by the capabilities and limits of the process.
    #[default]
    Process,
    /// The interface, its driver and what is set up there.
    Interface,
}

impl Verification {
    /// One that compares in words.
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

    /// The same, where the interface decides.
    #[must_use]
    pub fn of_interface(self) -> Self {
        Self {
            right: Right::Interface,
            ..self
        }
    }
}

impl Examination {
    /// Takes up what was measured, and concludes from it: settings that are not in force, and late wake-ups that the machine
    /// itself does not explain. The figures themselves are not judged: what is too late is for the plan to say.
    pub fn measured(&mut self, measurements: Vec<Measurement>, verified: Vec<Verification>) {
        const WHY_NOT_IN_FORCE: &str =
            "a tool that takes what it asked for as given measures, and promises, something else";
        const WHY_OUTRANKED: &str = "real-time threads that are more urgent than the measuring one run for so long on its core";
        for one in verified.iter().filter(|one| !one.in_force) {
            let found = format!(
                "{} ({}): asked for {}, found {}",
                one.what, one.at, one.asked, one.found
            );
            self.findings.push(
                Finding::good(Area::Limits, "measured.in_force", found, WHY_NOT_IN_FORCE)
                    .at(Level::Fault)
                    .sure(Certainty::Tried)
                    .by_hand(
                        "run as root, or give the capability that `limits.capabilities` names",
                    ),
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

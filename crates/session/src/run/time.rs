//! The network's time at a host while it runs streams that depend on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RunReport, Verdict};

/// The network's time at this host, of a plan with gates or launch times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkTime {
    /// The number of checks.
    pub looks: u64,
    /// The number of checks in which this host was without the network's time.
    pub apart: u64,
    /// The reasons, each once; at most 5.
    pub reasons: Vec<String>,
    /// True if it was run without a common time on purpose (`--no-sync`).
    pub waived: bool,
}

impl NetworkTime {
    /// Notes one check. `missing` is the reason why the network's time is missing; `None`: it is there.
    pub fn look(&mut self, missing: Option<String>) {
        // Offsets differ from check to check: a run of an hour must not list each.
        const REASONS: usize = 5;
        self.looks += 1;
        if let Some(reason) = missing {
            self.apart += 1;
            if self.reasons.len() < REASONS && !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
        }
    }

    /// Returns true if this host had the network's time in every check.
    #[must_use]
    pub fn held(&self) -> bool {
        self.looks > 0 && self.apart == 0
    }

    /// Returns the label of every result; `None` if the time held.
    #[must_use]
    pub fn label(&self) -> Option<String> {
        let reasons = self.reasons.join("; ");
        (!self.held()).then(|| {
            format!(
                "NOT SYNCHRONISED in {} of {} looks ({reasons}): gates and launch times were those of this host's own clock",
                self.apart, self.looks
            )
        })
    }
}

impl RunReport {
    /// Returns the report with the state of the network's time.
    ///
    /// A time that was lost during the run makes a complete run inconclusive. A run without a common time on purpose is
    /// labelled only.
    #[must_use]
    pub fn with_time(mut self, time: NetworkTime) -> Self {
        if let Some(label) = time.label() {
            self.reasons.insert(0, label);
            if !time.waived && self.verdict == Verdict::Complete {
                self.verdict = Verdict::Inconclusive;
            }
        }
        self.time = Some(time);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::empty;
    use super::*;

    fn looked(missing: &[Option<&str>], waived: bool) -> RunReport {
        let mut time = NetworkTime {
            waived,
            ..NetworkTime::default()
        };
        for one in missing {
            time.look(one.map(str::to_owned));
        }
        empty().with_time(time)
    }

    #[test]
    fn a_time_that_was_lost_settles_nothing_and_one_that_was_waived_is_told() {
        let held = looked(&[None, None], false);
        assert_eq!((held.verdict, held.reasons.len()), (Verdict::Complete, 0));
        let lost = looked(
            &[
                None,
                Some("port 1 is LISTENING"),
                Some("port 1 is LISTENING"),
            ],
            false,
        );
        assert_eq!(lost.verdict, Verdict::Inconclusive);
        assert_eq!(lost.time.as_ref().unwrap().reasons.len(), 1);
        assert!(
            lost.reasons[0].contains("2 of 3 looks"),
            "{:?}",
            lost.reasons
        );
        let waived = looked(&[Some("no ptp4l")], true);
        assert_eq!(waived.verdict, Verdict::Complete);
        assert!(waived.reasons[0].starts_with("NOT SYNCHRONISED"));
        // Nobody looked: nothing is known.
        assert!(!NetworkTime::default().held());
    }
}

//! Whether a host had the network's time while it ran streams that hang on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RunReport, Verdict};

/// The network's time at this host, of a plan with gates or launch times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkTime {
    /// How often it was looked.
    pub looks: u64,
    /// How often this host had not the network's time.
    pub apart: u64,
    /// Why not, each reason once.
    pub reasons: Vec<String>,
    /// Whether it was run without on purpose (`--no-sync`).
    pub waived: bool,
}

impl NetworkTime {
    /// Takes up one look: why this host had not the network's time, or nothing.
    pub fn look(&mut self, missing: Option<String>) {
        // Offsets differ from look to look: a run of an hour is not to tell each.
        const REASONS: usize = 5;
        self.looks += 1;
        if let Some(reason) = missing {
            self.apart += 1;
            if self.reasons.len() < REASONS && !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
        }
    }

    /// Whether this host had the network's time whenever it was looked.
    #[must_use]
    pub fn held(&self) -> bool {
        self.looks > 0 && self.apart == 0
    }

    /// What has to be said beside every result; nothing where the time held.
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
    /// The report with what is known of the network's time. A time that was lost on the way settles nothing, whatever else
    /// went well; without on purpose it was known before, and is said.
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

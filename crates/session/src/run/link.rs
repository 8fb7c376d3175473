//! The interface's link during a run: it is there before the first frame is counted, and it is told if it went.
//!
//! Attaching the receive program takes the link down with some drivers. A run that began meanwhile lost frames that nobody
//! counted.

use super::{RunReport, Verdict};
use rtwire_sys::carrier::{Carrier, carrier, wait_for_carrier};
use rtwire_sys::interface::Interface;
use std::time::Duration;

/// Time for which the link is awaited at the start. Auto-negotiation takes some 4 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// The link of a run's interface.
pub(super) struct LinkWatch {
    interface: Interface,
    /// `None` where the kernel does not tell it.
    at_start: Option<Carrier>,
}

impl LinkWatch {
    /// Waits for the link, some seconds at most, and begins to count.
    pub(super) fn start(interface: Interface) -> Self {
        let at_start = wait_for_carrier(&interface, PATIENCE).ok();
        Self {
            interface,
            at_start,
        }
    }

    /// Returns the number of times that the link went or came since then.
    pub(super) fn changes(&self) -> u32 {
        let now = carrier(&self.interface).ok();
        self.at_start
            .zip(now)
            .map_or(0, |(start, now)| now.changes.wrapping_sub(start.changes))
    }
}

impl RunReport {
    /// Returns the report with what its link did. What is sent without a link is lost and counted nowhere, so a link that
    /// went leaves a complete run inconclusive.
    #[must_use]
    pub(super) fn with_link(mut self, changes: u32) -> Self {
        if changes > 0 {
            self.reasons.push(format!(
                "the link of `{}` went or came {changes} times during the run: frames sent meanwhile are lost and counted nowhere",
                self.interface
            ));
            if self.verdict == Verdict::Complete {
                self.verdict = Verdict::Inconclusive;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::empty;
    use super::*;

    #[test]
    fn a_link_that_went_settles_nothing() {
        let steady = empty().with_link(0);
        assert_eq!(
            (steady.verdict, steady.reasons.len()),
            (Verdict::Complete, 0)
        );
        let went = empty().with_link(2);
        assert_eq!(went.verdict, Verdict::Inconclusive);
        assert!(went.reasons[0].contains("2 times"), "{:?}", went.reasons);
        let mut broken = empty();
        broken.verdict = Verdict::Broken;
        assert_eq!(broken.with_link(2).verdict, Verdict::Broken);
    }
}

//! Asks the daemon and the clocks, and judges the answers.

use rtwire_sys::clock::{self, Clock};

use super::daemon::daemon;
use super::judge::judge;
use super::state::{ClockQuestion, ClockState, SystemClock};
use crate::netlink::Netlink;

/// Returns the number of the interface's hardware clock, `/dev/ptpN`, if it has one.
#[must_use]
pub fn hardware_clock(interface: &str) -> Option<u32> {
    Netlink::new().time_stamping(interface).ok()?.phc
}

/// Reads the machine's own clocks. Leaves out those that cannot be read.
#[must_use]
pub fn system(phc: Option<u32>) -> SystemClock {
    let read = phc.and_then(|index| clock::phc_minus_tai_ns(index).ok());
    SystemClock {
        tai_offset_s: clock::tai_offset_ns().unwrap_or(0) / 1_000_000_000,
        phc_minus_tai_ns: read.map(|(offset, _)| offset),
        phc_uncertainty_ns: read.map(|(_, uncertainty)| uncertainty),
    }
}

/// Asks the daemon and the clocks, and judges the answers. Waits for the daemon as long as [`ClockQuestion::patience`]
/// allows.
#[must_use]
pub fn state(question: &ClockQuestion) -> ClockState {
    let answer = daemon(question);
    let system = system(question.phc);
    let reasons = match &answer {
        Ok(daemon) => judge(question, daemon, &system),
        Err(error) => vec![error.to_string()],
    };
    ClockState {
        version: 1,
        time_ns: clock::now_ns(Clock::Realtime),
        synchronised: reasons.is_empty(),
        reasons,
        limit_ns: question.limit_ns,
        daemon: answer.ok(),
        system,
    }
}

//! This machine's clock, set for a while.

use std::process::Command;

use rtwire_sys::clock::tai_minus_monotonic_ns;

/// This machine's clock, set by some seconds until this is dropped. Only for tests that run alone: all programs see it.
///
/// Needs root, and `phc_ctl` of linuxptp.
#[derive(Debug)]
pub struct Apart {
    by_s: i64,
}

impl Apart {
    /// Sets the clock forward by `by_s` seconds, or back if that is below 0. Checks that it is set.
    #[must_use]
    pub fn set(by_s: i64) -> Self {
        set_clock(by_s);
        Self { by_s }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        set_clock(-self.by_s);
    }
}

fn set_clock(by_s: i64) {
    let before = tai_minus_monotonic_ns().0;
    let done = Command::new("phc_ctl")
        .args(["CLOCK_REALTIME", "--", "adj", &format!("{by_s}.0")])
        .output()
        .expect("phc_ctl runs");
    assert!(done.status.success(), "{done:?}");
    let by_ns = tai_minus_monotonic_ns().0 - before;
    let wrong_ns = by_ns.abs_diff(by_s * 1_000_000_000);
    assert!(wrong_ns < 100_000_000, "the clock was set by {by_ns} ns");
}

//! Runs that Ctrl-C or SIGTERM ended: they say so, and one that was to last longer is never kept.

use std::time::Duration;

/// The exit code of an interrupted run that found nothing worse.
const INCONCLUSIVE: u8 = 4;

/// Says that a run was interrupted after what it has done.
pub(crate) fn say(done: &str) {
    eprintln!("{}", sentence(done));
}

/// Returns the sentence that says so.
pub(crate) fn sentence(done: &str) -> String {
    format!("interrupted (Ctrl-C or SIGTERM) after {done}")
}

/// Returns the time that a run took, beside its planned one.
pub(crate) fn time(took: Duration, planned: Option<Duration>) -> String {
    let took = took.as_secs_f64();
    match planned {
        Some(planned) => format!("{took:.1} s of {:.1} s", planned.as_secs_f64()),
        None => format!("{took:.1} s"),
    }
}

/// Returns the exit code of an interrupted run that found `own`. `cut`: it was to last longer.
pub(crate) fn code(own: u8, cut: bool) -> u8 {
    if cut && own == 0 { INCONCLUSIVE } else { own }
}

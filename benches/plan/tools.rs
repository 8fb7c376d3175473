//! The common tools of all parts of the table: processor time, random numbers, rows.

use rtwire_measure::bench::{Compared, Row};

/// Returns this thread's processor time, s; other programs do not count.
pub(crate) fn used_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let ns: u64 = text.split(' ').next().unwrap().parse().unwrap();
    ns as f64 / 1e9
}

/// Returns the processor seconds of some work, and its result.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = used_s();
    let result = work();
    (used_s() - before, result)
}

/// Returns the largest memory of this process so far, MiB.
pub(crate) fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Makes a row whose figure must not be above `limit`.
pub(crate) fn at_most(figure: &str, value: f64, unit: &str, limit: f64, samples: u64) -> Row {
    judged(
        figure,
        value,
        unit,
        format!("at most {limit} {unit}"),
        value <= limit,
        samples,
    )
}

/// Makes a row whose figure must not be below `limit`.
pub(crate) fn at_least(figure: &str, value: f64, unit: &str, limit: f64, samples: u64) -> Row {
    judged(
        figure,
        value,
        unit,
        format!("at least {limit} {unit}"),
        value >= limit,
        samples,
    )
}

pub(crate) fn judged(
    figure: &str,
    value: f64,
    unit: &str,
    reach: String,
    held: bool,
    samples: u64,
) -> Row {
    Row {
        figure: figure.to_owned(),
        value,
        unit: unit.to_owned(),
        reach: Some(reach.trim().to_owned()),
        held: Some(held),
        why: (!held).then(|| "not reached in this run".to_owned()),
        samples,
        against: Vec::new(),
    }
}

pub(crate) fn against(mut row: Row, name: &str, value: f64) -> Row {
    row.against.push(Compared {
        name: name.to_owned(),
        value,
    });
    row
}

/// Returns the value at a share (0 to 1) of a sorted list.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0)
}

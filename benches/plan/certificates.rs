//! Certificates: their size, and the checker's time beside that of planning.

use rtwire_measure::bench::Row;
use rtwire_plan::{Options, certify, plan, plan_file, read};

use crate::bounds::hundred;
use crate::tools::{against, at_most, timed};

/// Returns the mean processor seconds of several rounds, and the last result.
fn mean<T>(rounds: u32, mut work: impl FnMut() -> T) -> (f64, T) {
    // The kernel counts processor time in steps of some milliseconds, so all rounds are timed together.
    let (seconds, result) = timed(|| {
        for _ in 1..rounds {
            work();
        }
        work()
    });
    (seconds / f64::from(rounds), result)
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let rounds = if quick { 1 } else { 50 };
    let mut rows = Vec::new();
    for kind in ["tree", "ring"] {
        let network = read(&hundred(kind), "hundred.toml", &[]).unwrap();
        let (planning, made) = mean(rounds, || plan(&network, &Options::default()).unwrap());
        let certified = certify(&made).unwrap();
        let (with, without) = (plan_file::text(&certified), plan_file::text(&made));
        let (checking, verdict) = mean(rounds, || rtwire_proof::check(with.as_bytes()).unwrap());
        let promises = verdict.promises.len() as u64;
        let row = at_most(
            &format!("checking a certificate, {kind}, 100 streams, over planning"),
            checking / planning,
            "×",
            1.0,
            promises,
        );
        let row = against(row, "checking, ms", checking * 1e3);
        let row = against(row, "planning, ms", planning * 1e3);
        rows.push(against(row, "promises proved", verdict.proved() as f64));
        let more = (with.len() - without.len()) as f64;
        let row = at_most(
            &format!("certificate, {kind}, 100 streams, over the plan without it"),
            more / without.len() as f64,
            "×",
            0.5,
            promises,
        );
        let row = against(row, "certificate, kB", more / 1e3);
        rows.push(against(row, "plan without, kB", without.len() as f64 / 1e3));
    }
    rows
}

//! The experiment's figures as rows of a benchmark's table, for `make bench-host`.

use super::{Outcome, SetUp};
use rtwire_measure::bench::{Compared, Row};
use rtwire_measure::summary::RANKS;

/// Prints the rows of one load, each behind `@@ row `. `limit_ns` is the bound in ns of the set-ups with priorities;
/// `faults` lists deviations from theory.
pub(crate) fn print(outcomes: &[Outcome], limit_ns: Option<u64>, faults: &[String]) {
    let us = |ns: u64| ns as f64 / 1000.0;
    let load = outcomes.first().map_or(0, |one| one.load_bps / 1_000_000);
    let row = |figure: String, value: f64, unit: &str, samples: u64| Row {
        figure: format!("OSADL, {figure}, {load} Mbit/s, virtual time"),
        value,
        unit: unit.to_owned(),
        reach: None,
        held: None,
        why: Some("nothing was set to be reached".to_owned()),
        samples,
        against: Vec::new(),
    };
    let mut rows = Vec::new();
    for (nth, one) in outcomes.iter().enumerate() {
        let samples = one.round_trips_ns.len() as u64;
        let name = |what: &str| format!("round trip, {}, {what}", one.set_up.name());
        for (what, permille) in RANKS {
            let mut figure = row(name(what), us(one.at(permille)), "µs", samples);
            // Compared with the set-up without priority.
            if let (Some(none), true) = (outcomes.first(), nth > 0) {
                figure.against.push(Compared {
                    name: none.set_up.name().to_owned(),
                    value: us(none.at(permille)),
                });
            }
            let bounded = matches!(one.set_up, SetUp::Priority | SetUp::Limited);
            if let (Some(limit_ns), "max", true) = (limit_ns, what, bounded) {
                figure.reach = Some(format!("at most what is promised, {:.1} µs", us(limit_ns)));
                figure.held = Some(one.at(1000) <= limit_ns);
                figure.why = None;
            }
            rows.push(figure);
        }
        rows.push(Row {
            reach: Some("none".to_owned()),
            held: Some(one.lost() == 0),
            why: None,
            ..row(name("lost"), one.lost() as f64, "frames", one.sent)
        });
    }
    rows.push(Row {
        reach: Some("ordered as theory says".to_owned()),
        held: Some(faults.is_empty()),
        why: (!faults.is_empty()).then(|| faults.join("; ")),
        ..row(
            "rules of theory broken".to_owned(),
            faults.len() as f64,
            "",
            1,
        )
    });
    for row in rows {
        println!("@@ row {}", serde_json::to_string(&row).unwrap());
    }
}

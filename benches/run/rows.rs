//! The table's rows, from the runs of all senders. Each figure is the median over the rounds; the largest value is the
//! largest of all, and cycles are added up.

use rtwire_measure::bench::{Compared, Row};
use rtwire_measure::summary::Summary;

use crate::Measured;
use crate::judge::Judged;
use crate::senders::Sender;
use crate::watch::sees_all_stalls;

/// The largest accepted distance of the mean period from the cycle, as a part of it: 0.1 µs of 1 ms.
const MEAN_PART: f64 = 1e-4;
const NOT_SET: &str = "nothing was set to be reached";
/// The names of the figures that are compared with those of peers.
const AT_MOST: &str = "at most the best peer's";

fn row(figure: String, value: f64, unit: &str, samples: u64) -> Row {
    Row {
        figure,
        value,
        unit: unit.to_owned(),
        reach: None,
        held: None,
        why: Some(NOT_SET.to_owned()),
        samples,
        against: Vec::new(),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn decided(mut row: Row, reach: &str, held: bool) -> Row {
    row.reach = Some(reach.to_owned());
    row.held = Some(held);
    row.why = (!held).then(|| "not reached in this run".to_owned());
    row
}

/// A distribution of a run: its name, and how it is read.
type Kind = (&'static str, fn(&Judged) -> Summary);
/// A figure of a distribution: its name, and how it is read from the rounds.
type Figure = (&'static str, fn(&[Judged], fn(&Judged) -> Summary) -> f64);

const FIGURES: [Figure; 4] = [
    ("p50", |runs, of| {
        median(runs.iter().map(|run| of(run).p50 as f64))
    }),
    ("p99", |runs, of| {
        median(runs.iter().map(|run| of(run).p99 as f64))
    }),
    ("p99.9", |runs, of| {
        median(runs.iter().map(|run| of(run).p999 as f64))
    }),
    ("max", |runs, of| {
        runs.iter()
            .map(|run| of(run).max as f64)
            .fold(0.0, f64::max)
    }),
];

/// Returns all rows of one cycle and load.
pub(crate) fn of(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for sender in Sender::ALL {
        match (measured.runs.get(&sender), measured.failed.get(&sender)) {
            (_, Some(why)) => rows.push(Row {
                why: Some(why.clone()),
                ..row(name(measured, sender, "frames"), 0.0, "", 0)
            }),
            (Some(runs), None) => rows.extend(of_sender(measured, sender, runs)),
            (None, None) => {}
        }
    }
    rows.extend(costs(measured));
    rows
}

fn name(measured: &Measured, sender: Sender, figure: &str) -> String {
    format!("{}, {}, {figure}", conditions(measured), sender.name())
}

fn conditions(measured: &Measured) -> String {
    let load = if measured.loaded { "load" } else { "idle" };
    format!("{} µs {load}", measured.cycle_us)
}

fn of_sender(measured: &Measured, sender: Sender, runs: &[Judged]) -> Vec<Row> {
    let ours = sender == Sender::Rtwire;
    let frames: u64 = runs.iter().map(|run| run.off_grid.samples).sum();
    let named = |figure: &str| name(measured, sender, figure);
    let mean_us = median(runs.iter().map(|run| run.mean_ns)) / 1e3;
    let cycle_us = measured.cycle_us as f64;
    let mut rows = vec![decided(
        row(named("mean period"), mean_us, "µs", frames),
        &format!("{cycle_us} µs ± {}", cycle_us * MEAN_PART),
        (mean_us - cycle_us).abs() <= cycle_us * MEAN_PART,
    )];
    let sum = |of: fn(&Judged) -> u64| runs.iter().map(of).sum::<u64>() as f64;
    let unexplained = sum(|run| run.unexplained);
    let missing = row(named("cycles missing"), sum(|run| run.missing), "", frames);
    rows.push(missing);
    let mut without = decided(
        row(named("missing without a stall"), unexplained, "", frames),
        "0",
        unexplained == 0.0,
    );
    if unexplained > 0.0 && !sees_all_stalls(measured.cycle_us * 1_000) {
        without.held = None;
        without.why = Some("the record of stalls does not see the shortest that matter".to_owned());
    }
    rows.push(without);
    rows.push(row(
        named("frames in a burst"),
        sum(|run| run.crowded),
        "",
        frames,
    ));
    let kinds: [Kind; 2] = [
        ("off grid", |run| run.off_grid),
        ("period error", |run| run.period),
    ];
    for (kind, of) in kinds {
        for (figure, read) in FIGURES {
            let value = read(runs, of) / 1e3;
            let mut one = row(named(&format!("{kind} {figure}")), value, "µs", frames);
            if ours {
                one.against = against(measured, |runs| read(runs, of) / 1e3);
                // Only these do not depend on what the machine did to one of them.
                if kind == "off grid" && ["p50", "p99"].contains(&figure) {
                    let best = one.against.iter().map(|peer| peer.value);
                    let best = best.fold(f64::INFINITY, f64::min);
                    one = decided(one, AT_MOST, value <= best);
                }
            }
            rows.push(one);
        }
    }
    rows
}

/// Returns the same figure of the peers that ran.
fn against(measured: &Measured, read: impl Fn(&[Judged]) -> f64) -> Vec<Compared> {
    let peers = [Sender::Bare, Sender::Isochron].into_iter();
    let ran = peers.filter_map(|peer| Some((peer, measured.runs.get(&peer)?)));
    ran.map(|(peer, runs)| Compared {
        name: peer.name().to_owned(),
        value: read(runs),
    })
    .collect()
}

/// Returns what spinning costs, and how late threads wake here.
fn costs(measured: &Measured) -> Vec<Row> {
    let rounds = measured.spinning.len() as u64;
    let named = |figure: &str| name(measured, Sender::Rtwire, figure);
    let share = median(measured.spinning.iter().map(|(share, _)| share * 100.0));
    let margin = median(measured.spinning.iter().map(|(_, margin)| margin / 1e3));
    let mut rows = vec![
        row(named("spinning"), share, "%", rounds),
        row(named("margin"), margin, "µs", rounds),
    ];
    let waking = &measured.waking;
    for (nth, figure) in ["p50", "p99", "p99.9", "max"].into_iter().enumerate() {
        let values = waking.iter().map(|round| round[nth]);
        let value = if figure == "max" {
            values.fold(0.0, f64::max)
        } else {
            median(values)
        };
        let figure = format!("{}, cyclictest, wake-up {figure}", conditions(measured));
        rows.push(row(figure, value, "µs", waking.len() as u64));
    }
    rows
}

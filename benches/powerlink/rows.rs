//! From measurements to the table.
//!
//! The other stack is not installed here. Its figures were taken earlier, on a machine of the same kind, with one
//! controlled node at 1 ms. They come from several runs, so each is a range. A figure within reach of the lower end holds. One
//! beyond reach of the upper end does not. Between them there is no judgement.

use crate::judge::Account;
use crate::rig::{Outcome, Path, Scenario};
use rtwire_measure::bench::{Compared, Row};
use rtwire_measure::summary::Summary;
use std::time::Duration;

const OTHER: &str = "openPOWERLINK 2.7.2, measured before";
const PRES_P50_US: (f64, f64) = (16.0, 35.0);
const PRES_P99_US: (f64, f64) = (42.0, 99.0);
const SOC_P50_US: (f64, f64) = (6.0, 9.0);
const SOC_P99_US: (f64, f64) = (54.0, 217.0);

type Measured = [(Scenario, Outcome)];

/// Returns the rows of all cycles, paths and loads.
pub(crate) fn cycles(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for (scenario, outcome) in measured {
        let judged = scenario.nodes == 1 && scenario.cycle_us == 1_000;
        let share = match scenario.path {
            Path::Driver => (0.1, 0.15),
            Path::User | Path::Apart | Path::Plain => (0.7, 0.7),
        };
        let report = outcome.report.as_ref();
        let latency = report.and_then(|report| report.latency_ns);
        let deviation = report.and_then(|report| report.soc.as_ref().map(|soc| soc.deviation_ns));
        for (figure, summary, at, range, share) in [
            ("PReq–PRes", latency, "p50", PRES_P50_US, share.0),
            ("PReq–PRes", latency, "p99", PRES_P99_US, share.1),
            ("SoC deviation", deviation, "p50", SOC_P50_US, 0.25),
            ("SoC deviation", deviation, "p99", SOC_P99_US, 0.25),
        ] {
            let figure = format!("{figure}, {scenario}, {at}");
            rows.push(row(figure, summary, at, judged.then_some((range, share))));
        }
    }
    rows.extend(phases(measured));
    rows.extend(calls(measured));
    rows
}

fn row(
    figure: String,
    summary: Option<Summary>,
    at: &str,
    reach: Option<((f64, f64), f64)>,
) -> Row {
    let value = summary.map(|s| if at == "p50" { s.p50 } else { s.p99 } as f64 / 1_000.0);
    let (held, why) = match (value, reach) {
        (None, _) => (
            None,
            Some("nothing was measured: the network did not become operational".to_owned()),
        ),
        (Some(_), None) => (None, None),
        (Some(value), Some(((low, high), share))) if value <= share * low => {
            let _ = high;
            (Some(true), None)
        }
        (Some(value), Some(((_, high), share))) if value > share * high => {
            (Some(false), Some("not reached in this run".to_owned()))
        }
        _ => (
            None,
            Some("within reach of the other's higher figure, not of its lower one".to_owned()),
        ),
    };
    Row {
        figure,
        value: value.unwrap_or(0.0),
        unit: "µs".to_owned(),
        reach: reach
            .map(|((low, high), share)| format!("at most {share} of {low} to {high} µs ({OTHER})")),
        held,
        why,
        samples: summary.map_or(0, |s| s.samples),
        against: reach.map_or_else(Vec::new, |((low, high), _)| {
            vec![
                Compared {
                    name: format!("{OTHER}, at best"),
                    value: low,
                },
                Compared {
                    name: format!("{OTHER}, at worst"),
                    value: high,
                },
            ]
        }),
    }
}

/// Returns the isochronous phase with eight nodes, driver beside user space.
fn phases(measured: &Measured) -> Vec<Row> {
    // Also the number of lost nodes meanwhile: a phase with fewer nodes is shorter.
    let phase = |scenario: &Scenario| {
        let (_, outcome) = measured.iter().find(|(other, _)| other == scenario)?;
        let utilization = outcome.report.as_ref()?.utilization.as_ref()?;
        Some((utilization.isochronous_ns?, outcome.interruptions))
    };
    let chains = measured
        .iter()
        .map(|(scenario, _)| *scenario)
        .filter(|scenario| scenario.nodes == 8 && scenario.path == Path::Driver);
    chains
        .filter_map(|scenario| {
            let (driver, _) = phase(&scenario)?;
            let (user, interruptions) = phase(&Scenario {
                path: Path::User,
                ..scenario
            })?;
            let (held, why) = if interruptions > 0 {
                let why = format!(
                    "in user space nodes were lost {interruptions} times: its phase is not one of eight nodes throughout"
                );
                (None, Some(why))
            } else if driver.p50 as f64 <= 0.2 * user.p50 as f64 {
                (Some(true), None)
            } else {
                (Some(false), Some("not reached in this run".to_owned()))
            };
            Some(Row {
                figure: format!("isochronous phase, {scenario}, p50"),
                value: driver.p50 as f64 / 1_000.0,
                unit: "µs".to_owned(),
                reach: Some("at most 0.2 of user space".to_owned()),
                held,
                why,
                samples: driver.samples,
                against: vec![Compared {
                    name: "user space".to_owned(),
                    value: user.p50 as f64 / 1_000.0,
                }],
            })
        })
        .collect()
}

/// Returns the system calls that a controlled node makes in a cycle.
fn calls(measured: &Measured) -> Vec<Row> {
    measured
        .iter()
        .filter(|(scenario, _)| {
            scenario.nodes == 1 && scenario.cycle_us == 1_000 && !scenario.loaded
        })
        .map(|(scenario, outcome)| {
            let value = outcome.calls as f64 / outcome.calls_cycles.max(1) as f64;
            let judged = scenario.path == Path::Driver;
            Row {
                figure: format!("system calls a cycle of a CN, {scenario}"),
                value,
                unit: "calls".to_owned(),
                reach: judged.then(|| "one or none".to_owned()),
                held: judged.then_some(value <= 1.05),
                why: (judged && value > 1.05).then(|| "woken more than once".to_owned()),
                samples: outcome.calls_cycles,
                against: Vec::new(),
            }
        })
        .collect()
}

/// Returns the judgement of a short cycle: it stayed operational or not. Each loss is attributed to a stall of the
/// machine, or unexplained.
pub(crate) fn held(holding: &[(Scenario, Outcome, Account)], hold: Duration) -> Vec<Row> {
    let enough = hold >= Duration::from_secs(600);
    let mut rows = Vec::new();
    for (scenario, outcome, account) in holding {
        let stalls = if scenario.nodes == 1 {
            "through stalls of up to 2 ms"
        } else {
            "each stall explained"
        };
        for (what, unit, count, verdict) in [
            (
                "interruptions",
                "times",
                outcome.interruptions,
                account.interruptions(),
            ),
            ("PRes lost", "frames", outcome.lost, account.losses()),
        ] {
            // A node that is to stay operational may lose a response; eight nodes without artificial stalls may not.
            let judged = what == "interruptions" || scenario.nodes > 1;
            let held = match verdict.held {
                _ if !outcome.booted => Some(false),
                Some(true) if !enough => None,
                held => held,
            };
            let why = format!(
                "{}{}; {} cycles, {} more skipped in {} stalls that the managing node saw, the worst {}",
                if enough {
                    ""
                } else {
                    "too short to hold (see --minutes); "
                },
                verdict.account,
                outcome.cycles,
                outcome.skipped,
                outcome.stalls,
                rtwire_measure::units::duration(outcome.worst_stall_ns),
            );
            rows.push(Row {
                figure: format!("{what} in {} s, {scenario}", hold.as_secs()),
                value: if outcome.booted { count as f64 } else { 1.0 },
                unit: unit.to_owned(),
                reach: judged.then(|| format!("none in 600 s, {stalls}")),
                held: held.filter(|_| judged),
                why: Some(why),
                samples: outcome.cycles * u64::from(scenario.nodes),
                against: Vec::new(),
            });
        }
    }
    rows
}

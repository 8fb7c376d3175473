//! Small random networks, and every network within their options: written as text, read, planned.
//!
//! The enumeration knows the manual (docs/synthesis.md), nothing of the search: it has lists of its own of priorities,
//! routes and intervals, computes costs by itself, and asks the planner alone.

use super::*;
use crate::sets::Chance;

/// The values of one stream that may change.
#[derive(Clone, Debug, PartialEq)]
struct Values {
    priority: u8,
    route: Vec<&'static str>,
    /// The place in the list of shaping intervals.
    rung: usize,
    scheduled: bool,
}

#[derive(Clone, Debug)]
struct Stream {
    name: &'static str,
    frame: u64,
    /// A rate in Mbit/s, or an interval in us.
    rate: Option<u64>,
    interval_us: u64,
    deadline_ns: Option<u64>,
    values: Values,
}

#[derive(Clone, Debug)]
struct Case {
    switches: usize,
    queues: [u8; 2],
    gates: bool,
    best_effort: bool,
    streams: Vec<Stream>,
    may: MayChange,
}

const SWITCHES: [&str; 3] = ["s1", "s2", "s3"];
const HOSTS: [&str; 4] = ["A", "B", "C", "D"];
/// 200 us in the file, and what is shorter: 1, 2, 5 times a power of ten, not below 50 us.
const RUNGS: [&str; 3] = ["200 us", "100 us", "50 us"];

fn switch_of(host: &str, switches: usize) -> &'static str {
    let at = HOSTS.iter().position(|one| *one == host).unwrap();
    SWITCHES[at % switches]
}

/// All ways through a triangle or less: direct, or over the third switch.
fn routes(from: &'static str, to: &'static str, switches: usize) -> Vec<Vec<&'static str>> {
    let (a, b) = (switch_of(from, switches), switch_of(to, switches));
    if a == b {
        return vec![vec![from, a, to]];
    }
    let mut all = vec![vec![from, a, b, to]];
    if switches == 3 {
        let third = SWITCHES
            .iter()
            .find(|one| **one != a && **one != b)
            .unwrap();
        all.push(vec![from, a, third, b, to]);
    }
    all
}

fn toml(case: &Case) -> String {
    let mut text =
        "[network]\nname = \"t\"\n[defaults]\ntick-error = \"5 us\"\nlink-rate = \"100 Mbit/s\"\n\
        shaping-interval = \"200 us\"\n"
            .to_owned();
    let gates = if case.gates {
        "gates = \"unlimited\"\n"
    } else {
        ""
    };
    for switch in &SWITCHES[..case.switches] {
        text += &format!(
            "[[switch]]\nname = \"{switch}\"\nbuffer = \"64 KiB\"\nlatency = \"3 us\"\nqueues = {}\n{gates}",
            case.queues[0]
        );
    }
    for host in HOSTS {
        text += &format!("[[host]]\nname = \"{host}\"\nqueues = {}\n", case.queues[1]);
        let switch = switch_of(host, case.switches);
        text += &format!("[[link]]\nends = [\"{host}\", \"{switch}\"]\n");
    }
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        if a < case.switches && b < case.switches && a != b && (a < b || case.switches == 3) {
            text += &format!(
                "[[link]]\nends = [\"{}\", \"{}\"]\n",
                SWITCHES[a], SWITCHES[b]
            );
        }
    }
    if case.best_effort {
        text += "[[best-effort]]\nname = \"o\"\nhost = \"D\"\nto = [\"A\"]\nrate = \"5 Mbit/s\"\n";
    }
    for stream in &case.streams {
        let Values {
            priority,
            route,
            rung,
            scheduled,
        } = &stream.values;
        let (talker, listener) = (route[0], route[route.len() - 1]);
        text += &format!(
            "[[stream]]\nname = \"{}\"\ntalker = \"{talker}\"\nlisteners = [\"{listener}\"]\nframe = \"{} B\"\n\
             priority = {priority}\nroute = {route:?}\n",
            stream.name, stream.frame
        );
        match stream.rate {
            Some(rate) => {
                text += &format!(
                    "rate = \"{rate} Mbit/s\"\nshaping-interval = \"{}\"\n",
                    RUNGS[*rung]
                );
            }
            None => text += &format!("interval = \"{} us\"\n", stream.interval_us),
        }
        if *scheduled {
            text += "schedule = \"time-triggered\"\n";
        }
        if let Some(ns) = stream.deadline_ns {
            text += &format!("deadline = \"{ns} ns\"\n");
        }
    }
    text
}

/// Asks the planner alone. `None` for a description that is refused by its reader.
fn decided(case: &Case) -> Option<(bool, rtwire_plan::Plan)> {
    let network = read(&toml(case), "t.toml", &[]).ok()?;
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    let plan = plan(&network, &options).unwrap();
    let late = plan.warnings.iter().any(|one| one.starts_with("ignored: "));
    Some((!late, plan))
}

fn options_of(stream: &Stream, case: &Case) -> Vec<Values> {
    let stated = &stream.values;
    let (from, to) = (stated.route[0], stated.route[stated.route.len() - 1]);
    let mut all = Vec::new();
    for priority in 0..8 {
        for route in routes(from, to, case.switches) {
            for rung in 0..RUNGS.len() {
                for scheduled in [false, true] {
                    let allowed = (case.may.priorities || priority == stated.priority)
                        && (case.may.routes || route == stated.route)
                        && (rung == 0 || (case.may.shaping_intervals && stream.rate.is_some()))
                        && (scheduled == stated.scheduled
                            || (case.may.gates
                                && scheduled
                                && case.gates
                                && stream.rate.is_none()));
                    if allowed {
                        let route = route.clone();
                        all.push(Values {
                            priority,
                            route,
                            rung,
                            scheduled,
                        });
                    }
                }
            }
        }
    }
    all
}

/// The cost as the manual has it.
fn cost(stated: &Case, chosen: &Case, objective: Objective) -> Vec<u64> {
    let (mut streams, mut values, mut distance, mut longer, mut scheduled) = (0, 0, 0, 0, 0);
    let mut used = std::collections::BTreeSet::new();
    for (old, new) in stated.streams.iter().zip(&chosen.streams) {
        let (old, new) = (&old.values, &new.values);
        let mut changed = 0;
        if old.priority != new.priority {
            changed += 1;
            distance += u64::from(old.priority.abs_diff(new.priority));
        }
        if old.route != new.route {
            changed += 1;
            distance += 1 + old.route.len().abs_diff(new.route.len()) as u64;
        }
        if old.rung != new.rung {
            changed += 1;
            distance += new.rung as u64;
        }
        if old.scheduled != new.scheduled {
            changed += 1;
            distance += 1;
        }
        values += changed;
        streams += u64::from(changed > 0);
        scheduled += u64::from(new.scheduled);
        used.insert(new.priority);
        longer += u64::from(new.route.len() == 5);
    }
    match objective {
        Objective::Changes => vec![streams, values, distance],
        Objective::Simple => vec![scheduled, used.len() as u64, longer, streams, distance],
    }
}

fn random(seed: u64) -> Case {
    let mut chance = Chance(seed);
    let switches = chance.of(&[1, 2, 3, 3]);
    let gates = chance.below(2) == 0;
    let queues = [
        if gates {
            2 + chance.of(&[0, 2])
        } else {
            chance.of(&[1, 2, 3])
        },
        chance.of(&[1, 2, 8]),
    ];
    let count = 2 + chance.below(3);
    let names = ["p", "q", "r", "u"];
    let mut streams = Vec::new();
    for name in &names[..count] {
        let from = chance.below(4);
        let to = (from + 1 + chance.below(3)) % 4;
        let ways = routes(HOSTS[from], HOSTS[to], switches);
        let rate = (chance.below(2) == 0).then(|| chance.of(&[10, 20, 40]));
        streams.push(Stream {
            name,
            frame: chance.of(&[100, 500, 1514]),
            rate,
            interval_us: chance.of(&[500, 1000]),
            deadline_ns: None,
            values: Values {
                priority: chance.of(&[0, 0, 3, 6]),
                route: ways[chance.below(ways.len())].clone(),
                rung: 0,
                scheduled: false,
            },
        });
    }
    let mut may = MayChange {
        priorities: chance.below(4) > 0,
        routes: chance.below(4) > 0,
        shaping_intervals: chance.below(4) > 0,
        gates: chance.below(4) > 0,
    };
    if may == MayChange::NOTHING {
        may.priorities = true;
    }
    let best_effort = chance.below(3) == 0;
    let mut case = Case {
        switches,
        queues,
        gates,
        best_effort,
        streams,
        may,
    };
    // Deadlines near what the file is promised: some fit, some are late.
    if let Some((_, plan)) = decided(&case) {
        for (stream, planned) in case.streams.iter_mut().zip(&plan.streams) {
            let percent = chance.of(&[60, 75, 90, 95, 100, 130, 200]);
            let delay = planned.promises[0].delay_ns;
            stream.deadline_ns = delay.map(|ns| ns * percent / 100);
        }
    }
    case
}

#[derive(Default, Debug)]
struct Count {
    cases: u32,
    stated: u32,
    changed: u32,
    none: u32,
    scheduled: u32,
    networks: u64,
}

fn compare(case: &Case, objective: Objective, count: &mut Count) {
    let options: Vec<Vec<Values>> = case
        .streams
        .iter()
        .map(|one| options_of(one, case))
        .collect();
    let mut least: Option<(Vec<u64>, Case)> = None;
    let mut at = vec![0; options.len()];
    loop {
        let mut chosen = case.clone();
        for ((stream, options), at) in chosen.streams.iter_mut().zip(&options).zip(&at) {
            stream.values = options[*at].clone();
        }
        let own = cost(case, &chosen, objective);
        // Cheaper ones alone are asked about.
        if least.as_ref().is_none_or(|(least, _)| own < *least) {
            count.networks += 1;
            if decided(&chosen).is_some_and(|(fits, _)| fits) {
                least = Some((own, chosen));
            }
        }
        let Some(next) = (0..at.len()).find(|one| at[*one] + 1 < options[*one].len()) else {
            break;
        };
        at[next] += 1;
        at[..next].fill(0);
    }
    count.cases += 1;
    let stated_fits = decided(case).unwrap().0;
    let text = toml(case);
    let (found, changed) = synthesized(&text, case.may, objective);
    let report = &found.report;
    let shown = || format!("{objective:?} {report:?}\n{text}\n{least:?}");
    if stated_fits {
        count.stated += 1;
        assert_eq!(report.certainty, Certainty::AsStated, "{}", shown());
        return;
    }
    let Some((least, _)) = &least else {
        count.none += 1;
        assert_eq!(report.certainty, Certainty::NoneFits, "{}", shown());
        return;
    };
    count.changed += 1;
    count.scheduled += u32::from(changed.contains("time-triggered"));
    assert_eq!(report.certainty, Certainty::Least, "{}", shown());
    let values: Vec<u64> = report.cost.iter().map(|part| part.value).collect();
    assert_eq!(&values, least, "{}", shown());
}

/// Returns the case with fewer free values until its enumeration is small.
fn small(mut case: Case, most: usize) -> Case {
    let size = |case: &Case| -> usize {
        let streams = case.streams.iter();
        streams.map(|one| options_of(one, case).len()).product()
    };
    while size(&case) > most && case.streams.len() > 2 {
        case.streams.pop();
    }
    if size(&case) > most {
        case.may.shaping_intervals = false;
    }
    if size(&case) > most {
        case.may.routes = false;
    }
    case
}

#[test]
fn an_enumeration_of_all_networks_finds_nothing_better() {
    let cases = std::env::var("RTWIRE_SYNTHESIS_CASES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut count = Count::default();
    for seed in 0..cases {
        let case = small(random(seed), 5_000);
        for objective in [Objective::Changes, Objective::Simple] {
            println!("seed {seed}, {objective:?}");
            compare(&case, objective, &mut count);
        }
    }
    println!("{count:?}");
    // Each outcome is there: a synthesis that always answers the same is none.
    assert!(count.changed > count.cases / 10, "{count:?}");
    assert!(count.none > count.cases / 20, "{count:?}");
    assert!(count.stated > 0 && count.scheduled > 0, "{count:?}");
}

//! The tightness of bounds: tandems of periodic frames, trees, rings, AFDX-like networks, and a single port. Each is
//! shown beside the worst schedule that the simulator finds in the same run.

use std::fmt::Write as _;

use rtwire_measure::bench::Row;
use rtwire_plan::{Analysis, Network, Options, Plan, plan, read};
use rtwire_sim::random::Random;
use rtwire_sim::{Model, PatternChoice, Report, Scenario, Simulator};

use crate::tools::{against, at_least, at_most, judged, timed};

const MS: u64 = 1_000_000_000;
/// 12 336 bit on the wire.
const FRAME: &str = "frame = \"1518 B\"\nvlan = 1\n";

/// A line of switches of 100 Mbit/s. Flows enter and leave it over links fast enough to be ignored.
struct Tandem {
    name: String,
    ports: u64,
    /// The first port of each flow, and the one behind its last.
    flows: Vec<(u64, u64)>,
    /// The interval of each flow.
    interval_ns: u64,
    /// True if a frame of lower priority may block each port.
    blocked: bool,
}

impl Tandem {
    fn description(&self) -> String {
        let mut text = format!(
            "[network]\nname = \"{}\"\n[defaults]\ntick-error = \"0 us\"\n",
            self.name
        );
        for at in 0..=self.ports {
            writeln!(
                text,
                "[[switch]]\nname = \"s{at}\"\nbuffer = \"100 MB\"\nqueues = 2"
            )
            .unwrap();
            if at > 0 {
                writeln!(
                    text,
                    "[[link]]\nends = [\"s{}\", \"s{at}\"]\nrate = \"100 Mbit/s\"\ncable-delay = \"5 us\"",
                    at - 1
                )
                .unwrap();
            }
        }
        let mut stream = |name: &str, from: u64, to: u64, more: &str| {
            for (end, at) in [("t", from), ("l", to)] {
                writeln!(
                    text,
                    "[[host]]\nname = \"{end}{name}\"\n[[link]]\nends = [\"{end}{name}\", \"s{at}\"]\nrate = \"1000 Gbit/s\""
                )
                .unwrap();
            }
            writeln!(
                text,
                "[[stream]]\nname = \"{name}\"\ntalker = \"t{name}\"\nlisteners = [\"l{name}\"]\n{FRAME}{more}"
            )
            .unwrap();
        };
        for (number, (from, to)) in self.flows.iter().enumerate() {
            stream(
                &format!("f{number}"),
                *from,
                *to,
                &format!("interval = \"{} ns\"\npriority = 7", self.interval_ns),
            );
        }
        if self.blocked {
            for at in 0..self.ports {
                stream(
                    &format!("low{at}"),
                    at,
                    at + 1,
                    "interval = \"100 ms\"\npriority = 0",
                );
            }
        }
        text
    }
}

/// Returns interleaved flows, flows crossed by local ones, and sink trees, as in the vectors; also with a blocking
/// frame.
fn tandems() -> Vec<Tandem> {
    let mut list = Vec::new();
    let mut add = |kind: &str, ports: u64, flows: Vec<(u64, u64)>, blocked: bool| {
        let name = format!("{kind} {ports}{}", if blocked { " blocked" } else { "" });
        // 20 Mbit/s each; in a sink tree 60 Mbit/s in sum.
        let interval_ns = if kind == "sink tree" {
            205_600 * ports
        } else {
            616_800
        };
        list.push(Tandem {
            name,
            ports,
            flows,
            interval_ns,
            blocked,
        });
    };
    let interleaved = |ports: u64| {
        let mut flows = vec![(0, ports)];
        flows.push((0, 2));
        flows.extend((1..ports - 1).map(|at| (at, at + 2)));
        flows
    };
    for ports in [2, 3, 4, 6, 8] {
        add("interleaved", ports, interleaved(ports), false);
    }
    for ports in [2, 3, 4] {
        let mut flows = vec![(0, ports)];
        flows.extend((0..ports).flat_map(|at| [(at, at + 1), (at, at + 1)]));
        add("crossed twice", ports, flows, false);
    }
    for ports in [2, 3, 4, 6] {
        let flows = (0..ports).map(|at| (at, ports)).collect();
        add("sink tree", ports, flows, false);
    }
    for ports in [2, 3, 4, 6, 8] {
        add("interleaved", ports, interleaved(ports), true);
    }
    list
}

fn planned(network: &Network, analysis: Analysis) -> Plan {
    let options = Options {
        ignore_limits: true,
        analysis,
    };
    plan(network, &options).unwrap()
}

/// Returns for each stream the bound, ns, and the worst delay found, ps.
fn searched(network: &Network, simulations: u64, longest_ps: u64) -> Vec<(u64, u64)> {
    let plan = planned(network, Analysis::default());
    let report = crate::searched::searched(network, &plan, simulations, longest_ps);
    report
        .streams
        .iter()
        .filter(|stream| !stream.best_effort)
        .filter_map(|stream| Some((stream.promised_delay_ns?, stream.worst_delay_ps?)))
        .collect()
}

fn ratio((bound_ns, seen_ps): (u64, u64)) -> f64 {
    bound_ns as f64 * 1e3 / seen_ps.max(1) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn tandem_rows(quick: bool) -> Vec<Row> {
    let simulations = if quick { 300 } else { 40_000 };
    let mut rows = Vec::new();
    let (mut equal, mut worst, mut below) = (0, 1.0_f64, false);
    let list = tandems();
    let count = list.len();
    for tandem in list {
        let network = read(&tandem.description(), "tandem.toml", &[]).unwrap();
        let found = searched(&network, simulations, 20 * MS)[0];
        let here = ratio(found);
        below |= here < 1.0 - 1e-9;
        // Equal up to two nanoseconds: promises are rounded up to whole ones.
        let same = found.0 * 1_000 <= found.1 + 2_000;
        equal += usize::from(same);
        if !same {
            worst = worst.max(here);
        }
        rows.push(Row {
            figure: format!("bound over worst found, {}", tandem.name),
            value: here,
            unit: "×".to_owned(),
            reach: None,
            held: None,
            why: None,
            samples: simulations,
            against: Vec::new(),
        });
    }
    rows.push(judged(
        &format!("tandems equal to the worst found, of {count}"),
        equal as f64,
        "",
        "13 of 17, none below".to_owned(),
        equal * 17 >= count * 13 && !below,
        count as u64,
    ));
    rows.push(at_most(
        "tandems that are not equal, largest",
        worst,
        "×",
        1.05,
        count as u64,
    ));
    rows
}

/// Returns a hundred periodic streams: a tree of 64 devices, a ring of 16 switches, or eight switches as in an
/// aircraft.
pub(crate) fn hundred(kind: &str) -> String {
    let mut random = Random::new(3, 0);
    let mut text = format!(
        "[network]\nname = \"{kind}\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n"
    );
    let (switches, hosts) = match kind {
        "tree" => (9, 64),
        "ring" => (16, 48),
        _ => (8, 100),
    };
    for at in 0..switches {
        writeln!(text, "[[switch]]\nname = \"s{at}\"\nbuffer = \"100 MB\"").unwrap();
        let other = match kind {
            "ring" => Some((at + 1) % switches),
            "tree" => (at > 0).then_some(0),
            _ => (at > 0).then(|| (at - 1) / 2),
        };
        if let Some(other) = other {
            writeln!(
                text,
                "[[link]]\nends = [\"s{at}\", \"s{other}\"]\ncable-delay = \"500 ns\""
            )
            .unwrap();
        }
    }
    let place = |host: u64| match kind {
        "tree" => 1 + host % 8,
        _ => host % switches,
    };
    for host in 0..hosts {
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\n[[link]]\nends = [\"h{host}\", \"s{}\"]",
            place(host)
        )
        .unwrap();
    }
    for stream in 0..100 {
        let from = random.below(hosts);
        let mut to = (from + 1 + random.below(hosts - 1)) % hosts;
        while kind == "ring" && place(to) == place(from) {
            to = (to + 1) % hosts;
        }
        let interval = [1_000, 2_000, 4_000, 8_000][random.below(4) as usize];
        let frame = [64, 128, 256, 512][random.below(4) as usize];
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{from}\"\nlisteners = [\"h{to}\"]\nframe = \"{frame} B\"\ninterval = \"{interval} us\""
        )
        .unwrap();
        if kind == "ring" {
            let mut at = place(from);
            let mut route = format!("route = [\"h{from}\", \"s{at}\"");
            while at != place(to) {
                at = (at + 1) % switches;
                write!(route, ", \"s{at}\"").unwrap();
            }
            writeln!(text, "{route}, \"h{to}\"]").unwrap();
        }
    }
    text
}

fn network_rows(quick: bool) -> Vec<Row> {
    let simulations = if quick { 100 } else { 90_000 };
    ["tree", "ring", "AFDX-like"]
        .iter()
        .flat_map(|kind| {
            let network = read(&hundred(kind), "hundred.toml", &[]).unwrap();
            let found = searched(&network, simulations, 30 * MS);
            let streams = found.len() as u64;
            // Equal up to two nanoseconds, as above.
            let exact = found.iter().filter(|one| one.0 * 1_000 <= one.1 + 2_000);
            let exact = exact.count() as f64;
            let least = found.iter().copied().map(ratio).fold(f64::MAX, f64::min);
            let row = at_most(
                &format!("bound over worst found, {kind}, 100 streams, median"),
                median(found.into_iter().map(ratio).collect()),
                "×",
                1.3,
                streams,
            );
            let plus = planned(&network, Analysis::TfaPlusPlus);
            let default = planned(&network, Analysis::default());
            let sum = |plan: &Plan| {
                let promises = plan.streams.iter().flat_map(|stream| &stream.promises);
                promises.filter_map(|promise| promise.delay_ns).sum::<u64>() as f64
            };
            let row = against(row, "least", least);
            let row = against(
                row,
                "all bounds over those of TFA++",
                sum(&default) / sum(&plus),
            );
            let figure = format!("exact promises (attained by a schedule), {kind}, 100 streams");
            let exact = exact * 100.0 / streams as f64;
            [row, at_least(&figure, exact, "%", 70.0, streams)]
        })
        .collect()
}

/// A tree in which every port has credits, or every switch has regulators.
fn shaped_rows(quick: bool) -> Vec<Row> {
    let simulations = if quick { 100 } else { 90_000 };
    [("credit", "CBS"), ("asynchronous", "ATS")]
        .iter()
        .map(|(kind, name)| {
            let ratios = crate::shaped::distances(kind, 1, simulations);
            let least = ratios[0];
            let row = at_most(
                &format!("bound over worst found, {name}, 40 streams, median"),
                median(ratios),
                "×",
                1.25,
                40,
            );
            against(row, "least", least)
        })
        .collect()
}

/// Measures frames of eight links at one port, all at once: periodic ones, and bursts of a hundred.
fn port_rows() -> Vec<Row> {
    ["interval = \"20 ms\"", "rate = \"1 Mbit/s\"\nburst = \"20 kB\""]
        .iter()
        .zip(["packet", "fluid"])
        .map(|(contract, name)| {
            let mut text = "[network]\nname = \"port\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
                [[switch]]\nname = \"s\"\nbuffer = \"10 MB\"\n[[host]]\nname = \"sink\"\n\
                [[link]]\nends = [\"sink\", \"s\"]\nrate = \"100 Mbit/s\"\n"
                .to_owned();
            for host in 0..8 {
                writeln!(
                    text,
                    "[[host]]\nname = \"h{host}\"\n[[link]]\nends = [\"h{host}\", \"s\"]\nrate = \"1000 Gbit/s\"\n\
                     [[stream]]\nname = \"f{host}\"\ntalker = \"h{host}\"\nlisteners = [\"sink\"]\nframe = \"60 B\"\n{contract}"
                )
                .unwrap();
            }
            let network = read(&text, "port.toml", &[]).unwrap();
            let plan = planned(&network, Analysis::default());
            let model = Model::new(&network).unwrap();
            let mut simulator = Simulator::new(&model);
            let scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 40 * MS, 0);
            simulator.run(&scenario);
            let report = Report::new(&model, &simulator, &scenario, "greedy", &plan);
            let port = report.ports.iter().find(|port| port.node == "s").unwrap();
            let class = &port.classes[0];
            let share = class.worst_delay_ps as f64 / (class.promised_delay_ns.unwrap() as f64 * 1e3);
            at_least(&format!("single port, {name}, of the bound seen"), share, "", 0.998, 1)
        })
        .collect()
}

fn simulator_rows(quick: bool) -> Vec<Row> {
    let network = read(&hundred("tree"), "hundred.toml", &[]).unwrap();
    let model = Model::new(&network).unwrap();
    let mut simulator = Simulator::new(&model);
    let length = if quick { 200 * MS } else { 100_000 * MS };
    let scenario = Scenario::new(&model, PatternChoice::Mixed, 1, length, 0);
    simulator.run(&Scenario::new(&model, PatternChoice::Mixed, 1, 50 * MS, 0));
    let (seconds, ()) = timed(|| simulator.run(&scenario));
    let hops = simulator.frame_hops();
    vec![at_least(
        "simulator, frame-hops a second",
        hops as f64 / seconds / 1e6,
        "M/s",
        2.0,
        hops,
    )]
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let mut rows = port_rows();
    rows.extend(tandem_rows(quick));
    rows.extend(network_rows(quick));
    rows.extend(shaped_rows(quick));
    rows.extend(simulator_rows(quick));
    rows
}

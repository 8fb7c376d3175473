//! `rtwire powerlink monitor`: watches a network by its frames on an interface.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_measure::jitter::{Follower, JitterReport, Settings};
use rtwire_measure::report::Machine;
use rtwire_measure::units::{duration, grouped};
use rtwire_sys::signal;

use super::live::Screen;
use super::{Failure, LACKING};
use crate::jitter_command;
use crate::output::{self, print};

/// Arguments of `rtwire powerlink monitor`.
#[derive(Args)]
pub(super) struct MonitorArguments {
    /// The interface
    interface: String,
    /// Stop after this time; without it, at Ctrl-C
    #[arg(long, value_parser = crate::arguments::parse_duration)]
    duration: Option<Duration>,
    /// The time between displays
    #[arg(long, default_value = "1s", value_parser = crate::arguments::parse_duration)]
    every: Duration,
    /// Print JSON, one report of `rtwire jitter` in a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &MonitorArguments) -> Result<(), Failure> {
    let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let mut live = jitter_command::live(&arguments.interface)?;
    let mut screen = Screen::new(arguments.json);
    let begun = Instant::now();
    let mut states = BTreeMap::new();
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let machine = Machine::this(env!("CARGO_PKG_VERSION"));
    loop {
        let left = arguments
            .duration
            .map(|duration| duration.saturating_sub(begun.elapsed()));
        if stop.load(Ordering::Relaxed) {
            return super::interrupted(begun.elapsed(), arguments.duration);
        }
        // A reader that went away has seen enough.
        if left == Some(Duration::ZERO) || output::is_lost() {
            return Ok(());
        }
        let time = left.map_or(arguments.every, |left| left.min(arguments.every));
        let mut follower = Follower::new(Settings {
            worst: 0,
            around: 0,
            ..Settings::default()
        });
        jitter_command::listen(&mut live, &mut follower, Some(time), stop)?;
        let (report, _) = follower.finish(&arguments.interface, "live", &command, machine.clone());
        for node in &report.nodes {
            states.insert(node.node, node.last_state.clone());
        }
        if arguments.json {
            let line = serde_json::to_string(&report).map_err(|e| (LACKING, e.to_string()))?;
            print(&(line + "\n"));
        } else {
            let text = table(&report, &states);
            if screen.is_terminal() {
                screen.redraw(&text);
            } else {
                print(&(text + "\n"));
            }
        }
    }
}

fn table(report: &JitterReport, states: &BTreeMap<u8, Option<String>>) -> String {
    let cycle = report.cycle.map_or_else(
        || "no cycle".to_owned(),
        |cycle| format!("cycle {}", duration(cycle.cycle_ns)),
    );
    let soc = report.soc.as_ref().map_or_else(String::new, |soc| {
        format!(
            ", SoC deviation p50 {} max {}, {} missing",
            duration(soc.deviation_ns.p50),
            duration(soc.deviation_ns.max),
            soc.missing
        )
    });
    let mut text = format!(
        "{}: {cycle}{soc}; {} SoC, {} PReq, {} SoA, {} ASnd\n",
        report.source,
        grouped(report.frames.soc),
        grouped(report.frames.preq),
        grouped(report.frames.soa),
        grouped(report.frames.asnd),
    );
    if states.is_empty() {
        text.push_str("no node responds\n");
        return text;
    }
    let head = [
        "node",
        "state",
        "PReq",
        "late",
        "lost",
        "PReq–PRes p50",
        "max",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (number, state) in states {
        let node = report.nodes.iter().find(|node| node.node == *number);
        let figure = |f: fn(rtwire_measure::summary::Summary) -> u64| {
            let summary = node.and_then(|node| node.latency_ns);
            summary.map_or_else(|| "-".to_owned(), |s| duration(f(s)))
        };
        let count = |f: fn(&rtwire_measure::jitter::NodeReport) -> u64| grouped(node.map_or(0, f));
        rows.push(vec![
            number.to_string(),
            match node {
                Some(_) => state.clone().unwrap_or_default(),
                None => "silent".to_owned(),
            },
            count(|n| n.polled),
            count(|n| n.late),
            count(|n| n.lost),
            figure(|s| s.p50),
            figure(|s| s.max),
        ]);
    }
    crate::columns::table(&mut text, 2, &rows);
    text
}

//! `rtwire powerlink monitor`: watches a network by its frames on an interface.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_measure::capture::{LINK_ETHERNET, Packet};
use rtwire_measure::jitter::{Follower, JitterReport, Settings};
use rtwire_measure::report::Machine;
use rtwire_measure::units::{duration, grouped};
use rtwire_powerlink_station::driver::DriverTap;
use rtwire_sys::signal;
use rtwire_sys::stamps::StampSource;

use super::live::Screen;
use super::{Failure, LACKING};
use crate::jitter_command;
use crate::output::{self, print};

/// The time between two looks at a driver's ring: it has room for 256 frames.
const TAP_LOOK: Duration = Duration::from_micros(500);

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
    let mut live = jitter_command::live(&arguments.interface, StampSource::Software)?;
    let mut tap = None;
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
        if !tap.as_ref().is_some_and(DriverTap::is_current) {
            // Without the privilege for it, frames that a driver takes stay unseen.
            tap = DriverTap::open(&arguments.interface).ok().flatten();
        }
        let mut notes = Vec::new();
        match &mut tap {
            Some(tap) => notes.extend(follow(tap, &mut follower, time, stop)),
            None => jitter_command::listen(&mut live, &mut follower, Some(time), stop)?,
        }
        let (mut report, _) =
            follower.finish(&arguments.interface, "live", &command, machine.clone());
        report.notes.extend(notes.iter().cloned());
        for node in &report.nodes {
            states.insert(node.node, node.last_state.clone());
        }
        if arguments.json {
            let line = serde_json::to_string(&report).map_err(|e| (LACKING, e.to_string()))?;
            print(&(line + "\n"));
        } else {
            let text = table(&report, &states, &notes);
            if screen.is_terminal() {
                screen.redraw(&text);
            } else {
                print(&(text + "\n"));
            }
        }
    }
}

/// Follows the frames that the driver of a station on this interface takes. Returns notes for the reader.
fn follow(
    tap: &mut DriverTap,
    follower: &mut Follower,
    time: Duration,
    stop: &AtomicBool,
) -> Vec<String> {
    let begun = Instant::now();
    let missed = tap.missed();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) && begun.elapsed() < time {
        while let Some(tapped) = tap.next_frame() {
            number += 1;
            let packet = |data| Packet {
                number,
                time_ns: Some(tapped.at_ns),
                link_type: LINK_ETHERNET,
                data,
                original_octets: u32::try_from(data.len()).unwrap_or(u32::MAX),
            };
            follower.packet(&packet(tapped.frame));
            if let Some(answer) = tapped.answer {
                follower.untimed_response(&packet(answer));
            }
        }
        thread::sleep(TAP_LOOK);
    }
    let mut notes = vec![if tap.is_controlled() {
        format!(
            "Frames as the driver of node {} takes them here. The times of its own responses are not known.",
            tap.node()
        )
    } else {
        "Frames as the driver of the managing node takes them here: its own are not among them."
            .to_owned()
    }];
    let missed = tap.missed() - missed;
    if missed > 0 {
        notes.push(format!(
            "{missed} frames came faster than they were looked at, and are missing here."
        ));
    }
    notes
}

fn table(report: &JitterReport, states: &BTreeMap<u8, Option<String>>, notes: &[String]) -> String {
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
    for note in notes {
        text.push_str(note);
        text.push('\n');
    }
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

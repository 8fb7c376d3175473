//! Random networks with gates: no frame leaves its window, and no delay, jitter or backlog exceeds its bound. This
//! holds for all clocks, talkers and unscheduled traffic that the description permits.
//!
//! `RTWIRE_SIMULATIONS=5000` simulates more networks.

use crate::common;

use common::gated::random_gated;
use common::network;
use rtwire_plan::schedule::check::faults;
use rtwire_plan::{Isolation, Network, Options, Plan, plan};
use rtwire_sim::random::Random;
use rtwire_sim::{Model, Outcome, PatternChoice, Report, Scenario, Simulator};

const MS: u64 = 1_000_000_000;
const CHOICES: [PatternChoice; 5] = [
    PatternChoice::Greedy,
    PatternChoice::Periodic,
    PatternChoice::Random,
    PatternChoice::Shaped,
    PatternChoice::Mixed,
];

fn play(network: &Network, plan: &Plan, choice: PatternChoice, seed: u64) -> Report {
    let model = Model::with_plan(network, plan).unwrap();
    let scenario = Scenario::new(&model, choice, seed, 20 * MS, 0);
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario);
    assert_eq!(simulator.in_flight(), 0, "frames are stuck");
    Report::new(&model, &simulator, &scenario, choice.word(), plan)
}

fn count() -> u64 {
    std::env::var("RTWIRE_SIMULATIONS").map_or(100, |text| text.parse().unwrap())
}

#[test]
fn schedules_hold_whatever_clocks_do() {
    let (mut planned, mut offered, mut frames) = (0, 0, 0);
    for seed in 0..count() {
        let mut random = Random::new(seed, 77);
        let text = random_gated(&mut random);
        let network = match rtwire_plan::read(&text, "random.toml", &[]) {
            Ok(network) => network,
            // Streams may share the queues of a switch that has few. Such a network has no schedule.
            Err(faults) => {
                let message = faults.to_string();
                assert!(
                    message.contains("share queue") || message.contains("same or higher"),
                    "{message}\n{text}"
                );
                continue;
            }
        };
        offered += 1;
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        let plan = plan(&network, &options).unwrap();
        if !plan.warnings.is_empty() {
            continue;
        }
        planned += 1;
        assert_eq!(
            faults(&network, &plan),
            Vec::<String>::new(),
            "seed {seed}\n{text}"
        );
        for (at, choice) in CHOICES.into_iter().enumerate() {
            let misses = matches!(choice, PatternChoice::Random | PatternChoice::Mixed);
            if misses && network.schedule.isolation == Isolation::Frames {
                // Talkers that skip periods: `frames` promises nothing about them.
                continue;
            }
            let report = play(&network, &plan, choice, seed * 10 + at as u64);
            let broken: Vec<_> = report
                .streams
                .iter()
                .filter(|stream| stream.violated || stream.frames_lost > 0)
                .collect();
            let ports: Vec<_> = report
                .ports
                .iter()
                .filter(|port| port.violated || port.frames_off_window > 0)
                .collect();
            assert!(
                report.outcome == Outcome::Kept,
                "seed {seed}, {choice:?}: {broken:#?} {ports:#?}\n{text}"
            );
            frames += report.frame_hops;
        }
    }
    println!("{planned} of {offered} networks planned, {frames} frame-hops");
    assert!(planned * 2 > offered, "{planned} of {offered}");
}

/// A talker without gates that sends bursts before its scheduled frames or in their queue.
#[test]
fn a_talkers_own_traffic_may_go_first() {
    for (queues, priority, below) in [(8, 7, 0), (8, 5, 0), (1, 0, 0), (8, 7, 1)] {
        let text = format!(
            "[network]\nname = \"seam\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-error = \"0 ns\"\n\
             [[switch]]\nname = \"s\"\nqueues = 8\nbuffer = \"1 MB\"\ngates = \"unlimited\"\n\
             [[host]]\nname = \"t\"\nqueues = {queues}\n[[host]]\nname = \"l\"\n[[host]]\nname = \"m\"\n\
             [[link]]\nends = [\"t\", \"s\"]\n[[link]]\nends = [\"l\", \"s\"]\n[[link]]\nends = [\"m\", \"s\"]\n\
             [[stream]]\nname = \"timed\"\ntalker = \"t\"\nlisteners = [\"l\"]\nframe = \"200 B\"\n\
             interval = \"1 ms\"\npriority = 5\nschedule = \"time-triggered\"\n\
             [[stream]]\nname = \"soon after\"\ntalker = \"t\"\nlisteners = [\"l\"]\nframe = \"60 B\"\n\
             interval = \"1 ms\"\npriority = 5\nschedule = \"time-triggered\"\n\
             [[stream]]\nname = \"burst\"\ntalker = \"t\"\nlisteners = [\"m\"]\nframe = \"60 B\"\n\
             rate = \"20 Mbit/s\"\nburst = \"2 kB\"\npriority = {priority}\n"
        )
        .replace("soon after", "soon-after");
        let text = if below == 0 {
            text
        } else {
            text + "[[best-effort]]\nhost = \"t\"\nto = [\"m\"]\nrate = \"5 Mbit/s\"\n"
        };
        let network = network(&text);
        let plan = plan(&network, &Options::default()).unwrap();
        assert_eq!(faults(&network, &plan), Vec::<String>::new());
        for (seed, choice) in CHOICES.into_iter().enumerate() {
            let report = play(&network, &plan, choice, seed as u64);
            assert!(
                report.outcome == Outcome::Kept && off_window(&report) == 0,
                "{queues} {priority} {below} {choice:?}: {:#?}",
                report.streams
            );
        }
    }
}

const CELL: &str = include_str!("../../../examples/scheduled-cell.toml");

fn off_window(report: &Report) -> u64 {
    report.ports.iter().map(|port| port.frames_off_window).sum()
}

#[test]
fn an_error_of_one_nanosecond_is_seen() {
    let network = network(CELL);
    let good = plan(&network, &Options::default()).unwrap();
    assert_eq!(
        off_window(&play(&network, &good, PatternChoice::Periodic, 1)),
        0
    );
    let mut changed = 0;
    for at in 0..good.ports.len() {
        if good.ports[at].gates.is_none() {
            continue;
        }
        changed += 1;
        let name = format!("{}>{}", good.ports[at].node, good.ports[at].port);
        // All windows of one port too late.
        let mut bad = good.clone();
        bad.ports[at].gates.as_mut().unwrap().base_offset_ns += 1;
        assert!(!faults(&network, &bad).is_empty(), "{name}");
        let report = play(&network, &bad, PatternChoice::Periodic, 1);
        assert!(
            off_window(&report) > 0 && report.outcome == Outcome::Broken,
            "{name}"
        );
        // One window too short, and all later ones too early.
        let mut bad = good.clone();
        bad.ports[at].gates.as_mut().unwrap().entries[0].duration_ns -= 1;
        let found = faults(&network, &bad);
        assert!(
            found.iter().any(|fault| fault.contains("entries of")),
            "{found:?}"
        );
        let entries = &mut bad.ports[at].gates.as_mut().unwrap().entries;
        entries[1].duration_ns += 1;
        let found = faults(&network, &bad);
        assert!(
            found
                .iter()
                .any(|fault| fault.contains("not open for it alone")),
            "{name}: {found:?}"
        );
    }
    assert!(changed >= 5);
    for stream in 0..good.streams.len() {
        let mut bad = good.clone();
        let Some(launch) = &mut bad.streams[stream].launch else {
            continue;
        };
        launch.offset_ns += 1;
        let found = faults(&network, &bad);
        assert!(!found.is_empty());
    }
    // The controller has gates of its own: its frame arrives when they are already open.
    let mut bad = good.clone();
    bad.streams[0].launch.as_mut().unwrap().offset_ns += 1;
    assert!(off_window(&play(&network, &bad, PatternChoice::Periodic, 1)) > 0);
}

/// Clocks twice as far apart as the description permits break a tight schedule.
#[test]
fn worse_clocks_than_stated_are_seen() {
    let network = network(CELL);
    let plan = plan(&network, &Options::default()).unwrap();
    let model = Model::with_plan(&network, &plan).unwrap();
    let mut simulator = Simulator::new(&model);
    let mut broken = false;
    for seed in 0..20 {
        let mut scenario = Scenario::new(&model, PatternChoice::Greedy, seed, 20 * MS, 0);
        for clock in &mut scenario.clocks {
            clock.error_ps *= 2;
            clock.limit_ps *= 2;
        }
        simulator.run(&scenario);
        broken |=
            Report::new(&model, &simulator, &scenario, "greedy", &plan).outcome == Outcome::Broken;
    }
    assert!(broken);
}

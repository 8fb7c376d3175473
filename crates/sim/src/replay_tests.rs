//! A recorded simulation, replayed: each frame has the delay that it had. Both sides share the simulator's ports, so this
//! shows that the record loses nothing; the ports have referees of their own (`tests/replay.rs`).

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crate::model::Model;
use crate::random::Random;
use crate::replay::tape::Tape;
use crate::scenario::{Lateness, PatternChoice, Scenario};
use crate::simulator::Simulator;
use rtwire_plan::{Network, Options, Plan, plan};

#[path = "../tests/common/mod.rs"]
mod common;

const MS: u64 = 1_000_000_000;
const CHOICES: [PatternChoice; 4] = [
    PatternChoice::Greedy,
    PatternChoice::Periodic,
    PatternChoice::Random,
    PatternChoice::Shaped,
];

fn planned(network: &Network) -> Plan {
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    plan(network, &options).unwrap()
}

/// Records a network's sources and replays them. Returns the number of frames.
fn recorded_and_replayed(network: &Network, seed: u64, late: Lateness) -> usize {
    let plan = planned(network);
    let model = Model::with_plan(network, &plan).unwrap();
    let choice = CHOICES[(seed % 4) as usize];
    let mut scenario = Scenario::new(&model, choice, seed, 15 * MS, 0);
    scenario.lateness.fill(late);
    scenario.clocks.clear();
    let mut simulator = Simulator::new(&model);
    let recorded = simulator.record(&scenario);
    let ports: Vec<_> = (0..model.port_count())
        .map(|port| simulator.port(port).cloned())
        .collect();
    let entries: Vec<_> = (0..).map_while(|number| recorded.entry(number)).collect();
    let count = entries.len();
    let mut unsourced = model.clone();
    for flow in &mut unsourced.flows {
        flow.binding = crate::model::Binding::Rate;
    }
    let mut simulator = Simulator::new(&unsourced);
    let empty = Tape::new(&unsourced, entries).unwrap();
    let (replayed, left) = simulator.replay(empty, late, u64::MAX);
    assert!(!left);
    for number in 0..u32::try_from(count).unwrap() {
        let flow = recorded.entry(number).unwrap().flow;
        let (first, end) = model.flows[flow as usize].listeners;
        for way in 0..end - first {
            assert_eq!(
                recorded.slot(number, way),
                replayed.slot(number, way),
                "seed {seed}, {late:?}, frame {number} of flow {flow}"
            );
        }
    }
    for (port, seen) in ports.iter().enumerate() {
        assert_eq!(
            simulator.port(port).cloned(),
            *seen,
            "seed {seed}, port {port}"
        );
    }
    count
}

#[test]
fn a_recorded_simulation_is_replayed_frame_by_frame() {
    let mut frames = 0;
    for seed in 0..60 {
        let late = [Lateness::Prompt, Lateness::BusyStart, Lateness::Pipeline][(seed % 3) as usize];
        let mut random = Random::new(seed, 9);
        let text = match seed % 5 {
            0 => common::networks::random_description(&mut random),
            1 => common::networks::random_shapers(&mut random),
            2 => common::networks::random_shaped_ways(&mut random),
            _ => common::gated::random_gated(&mut random),
        };
        // Some gated networks have no schedule.
        let Ok(mut network) = rtwire_plan::read(&text, "random.toml", &[]) else {
            continue;
        };
        if seed % 2 == 0 {
            for switch in &mut network.switches {
                switch.buffer.bytes = 4000 + random.below(20_000);
            }
        }
        frames += recorded_and_replayed(&network, seed, late);
    }
    assert!(frames > 10_000, "only {frames} frames");
}

//! Laws of every simulation: no frame is lost without being counted, and the same seed produces the same result.

use crate::common;

use common::networks::random_description;
use common::{network, promises};
use rtwire_plan::Network;
use rtwire_sim::random::Random;
use rtwire_sim::{
    Model, Outcome, PatternChoice, Report, Scenario, SearchOptions, Simulator, search,
};

const MS: u64 = 1_000_000_000;
const CHOICES: [PatternChoice; 5] = [
    PatternChoice::Greedy,
    PatternChoice::Periodic,
    PatternChoice::Random,
    PatternChoice::Shaped,
    PatternChoice::Mixed,
];

/// A network with too little memory.
fn crowded(seed: u64) -> Network {
    let mut network = network(&random_description(&mut Random::new(seed, 2)));
    let mut random = Random::new(seed, 3);
    for switch in &mut network.switches {
        switch.buffer.bytes = 1600 + random.below(6000);
        switch.buffer.frames = random.once_in(2).then_some(1 + random.below(6));
    }
    for stream in &mut network.streams {
        if random.once_in(5) {
            stream.shaped = false;
        }
    }
    network
}

#[test]
fn sent_is_received_or_dropped_or_under_way() {
    let mut dropped = 0;
    for seed in 0..60 {
        let mut network = crowded(seed);
        for stream in &mut network.streams {
            stream.listeners.truncate(1);
            stream.listener_indices.truncate(1);
            stream.routes.truncate(1);
        }
        let model = Model::new(&network).unwrap();
        let mut simulator = Simulator::new(&model);
        for choice in CHOICES {
            simulator.start(&Scenario::new(&model, choice, seed, 10 * MS, 0));
            let mut until = 0;
            let mut more = true;
            while more {
                until += MS / 3;
                more = simulator.play_until(until);
                let received: u64 = simulator.listeners().iter().map(|seen| seen.received).sum();
                assert_eq!(
                    simulator.sent().iter().sum::<u64>(),
                    received + simulator.dropped() + simulator.in_flight(),
                    "seed {seed}, {choice:?}, at {} ps",
                    simulator.now_ps()
                );
                assert!(until < 100_000 * MS, "seed {seed}: it never ends");
            }
            assert_eq!(simulator.in_flight(), 0);
            dropped += simulator.dropped();
        }
    }
    assert!(
        dropped > 1000,
        "only {dropped} frames dropped: the memory was too large"
    );
}

#[test]
fn copies_of_multicast_frames_are_counted() {
    for seed in 0..40 {
        let network = crowded(seed);
        let model = Model::new(&network).unwrap();
        let mut simulator = Simulator::new(&model);
        simulator.start(&Scenario::new(
            &model,
            PatternChoice::Mixed,
            seed,
            5 * MS,
            0,
        ));
        let mut until = 0;
        while simulator.play_until(until) {
            assert_eq!(
                simulator.copies_alive(),
                simulator.in_flight(),
                "seed {seed}"
            );
            until += MS / 4;
        }
        assert_eq!((simulator.copies_alive(), simulator.in_flight()), (0, 0));
    }
}

fn report(model: &Model, simulator: &mut Simulator<'_>, network: &Network, seed: u64) -> String {
    let plan = promises(network);
    let scenario = Scenario::new(model, PatternChoice::Mixed, seed, 20 * MS, 50);
    simulator.run(&scenario);
    let mut report = Report::new(model, simulator, &scenario, "mixed", &plan);
    let options = SearchOptions {
        simulations: 30,
        seed,
        longest_ps: 10 * MS,
    };
    search(model, simulator, &plan, &options, &mut report, |_| true);
    serde_json::to_string(&report).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let mut differ = 0;
    for seed in 0..15 {
        let network = network(&random_description(&mut Random::new(seed, 4)));
        let model = Model::new(&network).unwrap();
        let mut used = Simulator::new(&model);
        let first = report(&model, &mut used, &network, seed);
        let again = report(&model, &mut used, &network, seed);
        assert_eq!(first, again, "a simulator that was used before differs");
        let fresh = report(&model, &mut Simulator::new(&model), &network, seed);
        assert_eq!(first, fresh);
        differ += u32::from(first != report(&model, &mut used, &network, seed + 1));
    }
    assert!(differ >= 14, "the seed has no effect");
}

/// A simulation in several pieces has the same result.
#[test]
fn pieces_make_the_whole() {
    for seed in 0..20 {
        let model = Model::new(&crowded(seed)).unwrap();
        let scenario = Scenario::new(&model, PatternChoice::Mixed, seed, 10 * MS, 0);
        let mut whole = Simulator::new(&model);
        whole.run(&scenario);
        let mut pieces = Simulator::new(&model);
        pieces.start(&scenario);
        let mut until = 0;
        while pieces.play_until(until) {
            until += 77_777_777;
        }
        for port in 0..model.port_count() {
            assert_eq!(whole.port(port), pieces.port(port));
        }
        assert_eq!(whole.sent(), pieces.sent());
    }
}

/// A search result is reproduced from its witness.
#[test]
fn a_witness_can_be_played_again() {
    let network = network(include_str!("../../../examples/line.toml"));
    let model = Model::new(&network).unwrap();
    let mut simulator = Simulator::new(&model);
    let scenario = Scenario::new(&model, PatternChoice::Greedy, 3, 10 * MS, 0);
    simulator.run(&scenario);
    let plan = promises(&network);
    let mut report = Report::new(&model, &simulator, &scenario, "greedy", &plan);
    let options = SearchOptions {
        simulations: 300,
        seed: 3,
        longest_ps: 20 * MS,
    };
    search(&model, &mut simulator, &plan, &options, &mut report, |_| {
        true
    });
    assert_eq!(report.witnesses.len(), 6);
    for witness in &report.witnesses {
        simulator.run(&witness.scenario);
        let at = report.streams.iter().position(|stream| {
            stream.name == witness.stream && stream.listener == witness.listener
        });
        assert_eq!(
            simulator.listeners()[at.unwrap()].worst_ps,
            witness.delay_ps
        );
    }
}

/// A promise, a backlog or a class's bound that is one unit too low is found to be broken.
#[test]
fn a_bound_too_low_by_one_is_broken() {
    let network = network(include_str!("../../../examples/line.toml"));
    let model = Model::new(&network).unwrap();
    let mut simulator = Simulator::new(&model);
    let scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 20 * MS, 0);
    simulator.run(&scenario);
    let judge =
        |plan: &rtwire_plan::Plan| Report::new(&model, &simulator, &scenario, "greedy", plan);
    let good = promises(&network);
    let report = judge(&good);
    assert_eq!(report.outcome, Outcome::Kept);

    let worst_ps = report.streams[0].worst_delay_ps.unwrap();
    for (promise_ns, outcome) in [
        (worst_ps.div_ceil(1000), Outcome::Kept),
        (worst_ps.div_ceil(1000) - 1, Outcome::Broken),
    ] {
        let mut plan = good.clone();
        plan.streams[0].promises[0].delay_ns = Some(promise_ns);
        let report = judge(&plan);
        assert_eq!(report.outcome, outcome);
        assert_eq!(report.streams[0].violated, outcome == Outcome::Broken);
    }

    for (at, port) in report.ports.iter().enumerate() {
        let index = good
            .ports
            .iter()
            .position(|plan| plan.node == port.node && plan.port == port.port);
        let index = index.unwrap();
        let mut plan = good.clone();
        plan.ports[index].backlog_bytes = Some(port.highest_backlog_bytes);
        plan.ports[index].backlog_frames = Some(port.highest_backlog_frames);
        assert_eq!(judge(&plan).outcome, Outcome::Kept);
        plan.ports[index].backlog_bytes = Some(port.highest_backlog_bytes - 1);
        assert!(judge(&plan).ports[at].violated);
        plan.ports[index].backlog_bytes = None;
        plan.ports[index].backlog_frames = Some(port.highest_backlog_frames - 1);
        assert!(judge(&plan).ports[at].violated);
        for (class, seen) in port.classes.iter().enumerate() {
            let mut plan = good.clone();
            plan.ports[index].classes[class].delay_ns =
                Some(seen.worst_delay_ps.div_ceil(1000) - 1);
            let report = judge(&plan);
            assert_eq!(report.outcome, Outcome::Broken);
            assert!(report.ports[at].classes[class].violated);
        }
    }
}

//! Latencies that differ between frames, and memory that is freed late: what the promises must cover, and that the
//! simulator finds it where they do not.

use crate::common;
use crate::exceeded::exceeded;
use crate::searched;

use common::gated::random_gated;
use common::networks::random_description;
use common::referee::check;
use common::{network, promises};
use rtwire_plan::{Analysis, LatencyLimits, Network, Plan, Release, SwitchPort};
use rtwire_sim::random::Random;
use rtwire_sim::{Behaviour, Lateness, Model, Pattern, PatternChoice, Scenario, Simulator};
use searched::searched;

const MS: u64 = 1_000_000_000;
const NS: u64 = 1_000;

/// One frame of x each period, and bursts of two frames of y, at the same port of 100 Mbit/s: 6.72 µs a frame.
fn two_inputs(latency: &str) -> Network {
    network(&description(latency))
}

fn description(latency: &str) -> String {
    format!(
        "[network]\nname = \"two inputs\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[switch]]\nname = \"s\"\nlatency = {latency}\nbuffer = \"1 MB\"\n\
         [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
         [[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"b\", \"s\"]\n[[link]]\nends = [\"c\", \"s\"]\n\
         [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"c\"]\nframe = \"60 B\"\ninterval = \"1 ms\"\n\
         [[stream]]\nname = \"y\"\ntalker = \"b\"\nlisteners = [\"c\"]\nframe = \"60 B\"\nrate = \"1 Mbit/s\"\n\
         burst = \"168 B\"\n"
    )
}

fn promise_ns(plan: &Plan) -> u64 {
    plan.streams[0].promises[0].delay_ns.unwrap()
}

/// As [`two_inputs`], with a latency of its own for the input of each host.
fn two_latencies(of_x: &str, of_y: &str) -> Network {
    let text = description("\"0 us\"");
    network(&format!(
        "{text}[[port]]\nswitch = \"s\"\nfrom = \"a\"\nto = \"c\"\nlatency = {of_x}\n\
         [[port]]\nswitch = \"s\"\nfrom = \"b\"\nlatency = {of_y}\n"
    ))
}

const CONSTANT: &str = "{ min = \"5 us\", max = \"5 us\" }";

/// By hand: on the switch, y1 comes at -1.72 µs and has a latency of 5 µs, y2 comes at 5 µs and has none, and x comes at
/// 0 and has 5 µs. So x is behind both and leaves 23.44 µs after it came. Its own link took 6.72 µs before.
#[test]
fn frames_of_another_input_gather_before_one_that_is_late() {
    let network = two_inputs("\"5 us\"");
    let model = Model::new(&network).unwrap();
    let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 900_000_000, 0);
    // y starts 1.72 µs before x. Both take as long to the switch.
    scenario.sources = vec![
        Behaviour::new(Pattern::Greedy, 11_720 * NS),
        Behaviour::new(Pattern::Greedy, 10_000 * NS),
    ];
    scenario.last_at_ties = Some(0);
    let at_ps = (11_720 + 6_720 + 5_000) * NS;
    scenario.lateness.fill(Lateness::Gather { at_ps });
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario);
    assert_eq!(simulator.listeners()[0].worst_ps, 30_160 * NS);
    let promise = promise_ns(&promises(&network));
    assert!((30_160..=30_162).contains(&promise), "{promise}");
}

#[test]
fn a_constant_latency_keeps_the_bound_of_a_late_start() {
    let network = two_inputs(CONSTANT);
    let plan = promises(&network);
    assert_eq!(promise_ns(&plan), 25_161);
    let report = searched(&network, &plan, 300, 3 * MS);
    let worst_ps = report.streams[0].worst_delay_ps.unwrap();
    assert!(
        (25_159_000..=25_161_000).contains(&worst_ps),
        "the search reaches what is promised: {worst_ps}"
    );
}

#[test]
fn a_search_finds_what_a_varying_latency_does() {
    let network = two_inputs("\"5 us\"");
    let report = searched(&network, &promises(&network), 300, 3 * MS);
    let worst_ps = report.streams[0].worst_delay_ps.unwrap();
    assert!((30_159_000..=30_162_000).contains(&worst_ps), "{worst_ps}");
    // Held against the promise of a constant latency, it is a broken one.
    let report = searched(&network, &promises(&two_inputs(CONSTANT)), 300, 3 * MS);
    assert!(report.streams[0].violated);
}

/// By hand, from the schedule above: what gathers is y, so its variation counts for x, and not that of x. From its own
/// input x has its own latency only.
#[test]
fn each_input_counts_with_its_own_latency() {
    let varies = "\"5 us\"";
    let short = "{ min = \"1 us\", max = \"1 us\" }";
    for (of_x, of_y, expected) in [
        (CONSTANT, varies, 30_160),
        (varies, CONSTANT, 25_160),
        (short, CONSTANT, 21_160),
        (short, varies, 26_160),
    ] {
        let network = two_latencies(of_x, of_y);
        let plan = promises(&network);
        let promise = promise_ns(&plan);
        assert!(
            (expected..=expected + 2).contains(&promise),
            "{promise} of {expected}"
        );
        let report = searched(&network, &plan, 400, 3 * MS);
        let worst_ps = report.streams[0].worst_delay_ps.unwrap();
        let near = (expected - 2) * NS..=(expected + 2) * NS;
        assert!(near.contains(&worst_ps), "{worst_ps} of {expected}");
        // One latency for both promises more.
        let wide = promise_ns(&promises(&two_inputs(varies)));
        assert!(promise <= wide);
    }
}

/// Frames of one input keep their order within a class, whatever their latencies.
#[test]
fn frames_of_one_input_stay_in_order() {
    for seed in 1..20 {
        let text = random_description(&mut Random::new(seed, 5));
        let mut network = network(&text);
        for switch in &mut network.switches {
            (switch.latency_min_ns, switch.latency_ns) = (0, 300_000);
            switch.queues = 1;
        }
        network.best_effort.clear();
        // All frames leave one host at once.
        let first = network.streams[0].clone();
        network.streams = (0..8)
            .map(|number| {
                let mut stream = first.clone();
                stream.name = format!("n{number}");
                stream.listeners.truncate(1);
                stream.routes.truncate(1);
                stream
            })
            .collect();
        let model = Model::new(&network).unwrap();
        let mut scenario = Scenario::new(&model, PatternChoice::Greedy, seed, 1, 0);
        scenario.lateness.fill(Lateness::Random);
        let mut simulator = Simulator::new(&model);
        simulator.run(&scenario);
        let seen: Vec<u64> = simulator.listeners().iter().map(|it| it.worst_ps).collect();
        assert!(seen.is_sorted(), "seed {seed}: {seen:?}");
    }
}

const fn count(usual: u64) -> u64 {
    if cfg!(debug_assertions) {
        usual / 10
    } else {
        usual
    }
}

/// The promises of a constant latency do not hold if it varies. Those of a varying one do.
#[test]
fn a_search_breaks_promises_that_take_a_varying_latency_for_a_constant_one() {
    let change = |wrong: bool| {
        move |network: &mut Network, planned: bool| {
            for switch in &mut network.switches {
                switch.latency_ns = switch.latency_ns.max(100_000);
                switch.latency_min_ns = if planned && wrong {
                    switch.latency_ns
                } else {
                    0
                };
            }
        }
    };
    let [networks, late, _] = exceeded(count(240), 300, change(true));
    println!("{late} of {networks} networks with broken promises");
    assert!(late * 10 > networks, "only {late} of {networks}");
    let [networks, late, over] = exceeded(count(240), 300, change(false));
    assert_eq!((late, over), (0, 0), "of {networks}");
}

/// States for most ways through a switch a latency of their own. With `constant` it does not vary.
fn pairs(network: &mut Network, random: &mut Random, constant: bool) {
    let whole = network.clone();
    for switch in &mut network.switches {
        let neighbours: Vec<&str> = whole.neighbours(&switch.name).collect();
        for from in &neighbours {
            for to in neighbours.iter().filter(|to| *to != from) {
                let max_ns = 50_000 + random.up_to(150_000);
                let varies = !random.once_in(4);
                let min_ns = if varies { 0 } else { random.up_to(max_ns) };
                if random.once_in(4) {
                    continue;
                }
                let latency = LatencyLimits {
                    min_ns: if constant { max_ns } else { min_ns },
                    max_ns,
                };
                switch.ports.push(SwitchPort {
                    from: Some((*from).to_owned()),
                    to: Some((*to).to_owned()),
                    latency: Some(latency),
                    ..SwitchPort::default()
                });
            }
        }
    }
    assert_eq!(network.check(), Ok(()));
}

#[test]
fn latencies_of_pairs_are_in_the_promises() {
    let change = |wrong: bool| {
        move |network: &mut Network, planned: bool| {
            let seed = network.streams.len() as u64;
            // What is planned begins as a copy of what is played.
            network
                .switches
                .iter_mut()
                .for_each(|switch| switch.ports.clear());
            pairs(network, &mut Random::new(seed, 3), planned && wrong);
        }
    };
    let [networks, late, _] = exceeded(count(80), 200, change(true));
    println!("{late} of {networks} networks with broken promises");
    assert!(late > 0, "none of {networks}");
    let [networks, late, over] = exceeded(count(80), 200, change(false));
    assert_eq!((late, over), (0, 0), "of {networks}");
}

#[test]
fn windows_wait_for_the_latency_of_each_pair() {
    let mut played = 0;
    for seed in 0..12 {
        let mut random = Random::new(seed, 23);
        let text = random_gated(&mut random);
        let Ok(mut network) = rtwire_plan::read(&text, "random.toml", &[]) else {
            continue;
        };
        pairs(&mut network, &mut random, false);
        let plan = promises(&network);
        if !plan.warnings.is_empty() {
            continue;
        }
        played += 1;
        let plans = [(Analysis::default(), plan)];
        if let Err(message) = check(&network, &plans, seed, 20) {
            panic!("seed {seed}: {message}\n{text}");
        }
    }
    assert!(played > 0);
}

/// Memory that is freed with a frame's last bit is more than one that is freed bit by bit.
#[test]
fn memory_that_is_freed_late_never_exceeds_its_needs() {
    let change = |wrong: bool| {
        move |network: &mut Network, planned: bool| {
            for switch in &mut network.switches {
                switch.buffer.release = if planned && wrong {
                    Release::Bit
                } else {
                    Release::Frame
                };
            }
        }
    };
    let [networks, _, over] = exceeded(count(240), 300, change(true));
    println!("{over} of {networks} networks with more memory than they need");
    assert!(over * 2 > networks, "only {over} of {networks}");
    let [networks, late, over] = exceeded(count(240), 300, change(false));
    assert_eq!((late, over), (0, 0), "of {networks}");
}

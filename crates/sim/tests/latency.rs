//! Latencies that differ between frames, and memory that is freed late: what the promises must cover, and that the
//! simulator finds it where they do not.

use crate::common;
use crate::searched;

use common::networks::{random_description, random_line, random_ring, random_shaped_ways};
use common::{network, promises};
use rtwire_plan::{Network, Plan, Release};
use rtwire_sim::random::Random;
use rtwire_sim::report::PortReport;
use rtwire_sim::{Behaviour, Lateness, Model, Pattern, PatternChoice, Scenario, Simulator};
use searched::searched;

const MS: u64 = 1_000_000_000;
const NS: u64 = 1_000;

/// One frame of x each period, and bursts of two frames of y, at the same port of 100 Mbit/s: 6.72 µs a frame.
fn two_inputs(latency: &str) -> Network {
    network(&format!(
        "[network]\nname = \"two inputs\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[switch]]\nname = \"s\"\nlatency = {latency}\nbuffer = \"1 MB\"\n\
         [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
         [[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"b\", \"s\"]\n[[link]]\nends = [\"c\", \"s\"]\n\
         [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"c\"]\nframe = \"60 B\"\ninterval = \"1 ms\"\n\
         [[stream]]\nname = \"y\"\ntalker = \"b\"\nlisteners = [\"c\"]\nframe = \"60 B\"\nrate = \"1 Mbit/s\"\n\
         burst = \"168 B\"\n"
    ))
}

fn promise_ns(plan: &Plan) -> u64 {
    plan.streams[0].promises[0].delay_ns.unwrap()
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

/// Returns the numbers of random networks, and of those in which a search exceeds a delay and a memory of the plan of
/// `planned`, while what is played is the network itself.
fn exceeded(networks: u64, simulations: u64, change: impl Fn(&mut Network, bool)) -> [u64; 3] {
    let kinds: [fn(&mut Random) -> String; 4] = [
        random_description,
        random_ring,
        random_line,
        random_shaped_ways,
    ];
    let mut counts = [0; 3];
    for seed in 0..networks {
        let describe = kinds[(seed % 4) as usize];
        let mut played = network(&describe(&mut Random::new(seed, 17)));
        change(&mut played, false);
        let mut planned = played.clone();
        change(&mut planned, true);
        let plan = promises(&planned);
        let report = searched(&played, &plan, simulations, 20 * MS);
        let late = report.streams.iter().any(|stream| stream.violated);
        let mut classes = report.ports.iter().flat_map(|port| &port.classes);
        let class = classes.any(|class| class.violated);
        let over = |port: &PortReport| {
            let needs = port.promised_backlog_bytes;
            needs.is_some_and(|needs| port.highest_backlog_bytes > needs)
        };
        counts[0] += 1;
        counts[1] += u64::from(late || class);
        counts[2] += u64::from(report.ports.iter().any(over));
    }
    counts
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

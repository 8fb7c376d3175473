//! Frame preemption: fragments by hand, promises that are met to the picosecond, and networks in which nothing exceeds them.
//!
//! The numbers by hand are bytes of IEEE Std 802.3, clause 99. A piece of a frame has a preamble with its mark (8) before it
//! and a gap (12) behind it. A piece that is not the last one carries at least 60 bytes of the frame and an mCRC (4). The
//! last one has at least 64 bytes with the FCS. At 100 Mbit/s an byte takes 80 ns.

use crate::common;
use crate::exceeded::exceeded;
use crate::searched;

use common::networks::{random_description, random_line, random_ring};
use common::referee::{all_methods, check, loses_nothing_as_planned};
use common::{network, pick, promises};
use rtwire_plan::Network;
use rtwire_plan::network::Preemption;
use rtwire_sim::random::Random;
use rtwire_sim::{Behaviour, Lateness, Model, Pattern, PatternChoice, Scenario, Simulator};
use searched::searched;

const MS: u64 = 1_000_000_000;
const BYTE: u64 = 80_000;

/// The contract of z: two frames, and no more.
const TWO: &str = "rate = \"0 bit/s\"\nburst = \"168 B\"";

/// One switch of 100 Mbit/s. x comes from a and z from d, both urgent and of 60 B, y from b, preemptable and of `low`; all go to
/// c. `keys` is what all nodes state, `switch` what the switch states.
fn one_switch(low: u64, keys: &str, switch: &str) -> Network {
    with_z(low, keys, switch, TWO)
}

fn with_z(low: u64, keys: &str, switch: &str, z: &str) -> Network {
    let host = |name: &str| {
        format!("[[host]]\nname = \"{name}\"\n{keys}\n[[link]]\nends = [\"{name}\", \"s\"]\n")
    };
    let hosts: String = ["a", "b", "c", "d"].map(host).concat();
    let stream = |name: &str, talker: &str, contract: &str| {
        format!(
            "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"c\"]\n{contract}\n"
        )
    };
    let low = format!("frame = \"{low} B\"\ninterval = \"10 ms\"");
    network(&format!(
        "[network]\nname = \"preempt\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[switch]]\nname = \"s\"\nqueues = 8\nbuffer = \"1 MB\"\n{keys}\n{switch}\n{hosts}{}{}{}",
        stream(
            "x",
            "a",
            "frame = \"60 B\"\ninterval = \"10 ms\"\npriority = 7"
        ),
        stream("y", "b", &low),
        stream("z", "d", &format!("frame = \"60 B\"\npriority = 7\n{z}")),
    ))
}

const BOTH: &str = "preemptable = [0, 1, 2, 3]";

/// Keeps only some of the streams.
fn only(mut network: Network, names: &[&str]) -> Network {
    network
        .streams
        .retain(|it| names.contains(&it.name.as_str()));
    network
}

fn promise(network: &Network, stream: &str) -> u64 {
    let plan = promises(network);
    let stream = plan.streams.iter().find(|it| it.name == stream).unwrap();
    stream.promises[0].delay_ns.unwrap()
}

/// Returns the largest delays of the streams of which the first bit of each leaves its talker at the given times, ps. `pause` is
/// the time between the first two frames of z.
fn delays_ps(network: &Network, starts_ps: &[u64], pause: u64) -> Vec<u64> {
    let model = Model::new(network).unwrap();
    let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 5 * MS, 0);
    let streams = network.streams.iter().zip(starts_ps);
    scenario.sources = streams
        .map(|(stream, start)| Behaviour {
            gap_before: u32::from(stream.name == "z"),
            gap_ps: pause,
            ..Behaviour::new(Pattern::Greedy, *start)
        })
        .collect();
    scenario.last_at_ties = Some(0);
    scenario.lateness.fill(Lateness::Prompt);
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario);
    assert_eq!(simulator.in_flight(), 0);
    simulator.listeners().iter().map(|it| it.worst_ps).collect()
}

/// Returns the delay of x, which comes `at` bytes after y has begun on the last link, and that of y.
fn meet(network: &Network, at: u64) -> (u64, u64) {
    // y reaches the switch after its own link, x after 84 bytes of its own one.
    let low = network.streams[1].wire_bytes;
    let seen = delays_ps(network, &[(low + at - 84) * BYTE + MS, MS], 0);
    (seen[0] - 84 * BYTE, seen[1] - low * BYTE)
}

#[test]
fn an_express_frame_ends_the_piece_that_is_being_sent() {
    let network = only(one_switch(1_514, BOTH, ""), &["x", "y"]);
    let bytes = |delay: u64| {
        assert_eq!(delay % BYTE, 0);
        delay / BYTE
    };
    let both = |at: u64| {
        let (x, y) = meet(&network, at);
        (bytes(x), bytes(y))
    };
    // y has just begun: 8 + 60 + 4 + 12 bytes, then x. y costs 24 bytes more than whole, and waits for x.
    assert_eq!(both(1), (83 + 84, 1_538 + 24 + 84));
    assert_eq!(both(68), (16 + 84, 1_538 + 24 + 84));
    // From there on the piece ends at once: mCRC and gap.
    assert_eq!(both(700), (16 + 84, 1_538 + 24 + 84));
    // The rest must have 64 bytes: with 1 454 of 1 518 sent it has, one byte later it has not.
    assert_eq!(both(8 + 1_454), (16 + 84, 1_538 + 24 + 84));
    assert_eq!(both(8 + 1_455), (63 + 12 + 84, 1_538));
    // At one instant both are there before the port chooses.
    assert_eq!(both(0), (84, 84 + 1_538));
    // Without preemption x waits for all of y.
    let whole = only(one_switch(1_514, "", ""), &["x", "y"]);
    assert_eq!(meet(&whole, 1), ((1_537 + 84) * BYTE, 1_538 * BYTE));
    // Preemption at one end only is none.
    let mut one_end = network.clone();
    one_end
        .hosts
        .iter_mut()
        .for_each(|host| host.preemption = None);
    assert_eq!(meet(&one_end, 1), meet(&whole, 1));
    // A receiver that needs longer fragments: 64 (1 + 3) with the mCRC.
    let keys = format!("{BOTH}\nadditional-fragment-size = 3");
    let longer = only(one_switch(1_514, &keys, ""), &["x", "y"]);
    assert_eq!(meet(&longer, 0).0, 84 * BYTE);
    assert_eq!(meet(&longer, 1).0, (8 + 256 + 12 - 1 + 84) * BYTE);
}

#[test]
fn a_frame_of_123_bytes_cannot_be_interrupted_and_one_of_124_can() {
    let of = |frame: u64| meet(&only(one_switch(frame, BOTH, ""), &["x", "y"]), 1);
    // 119 B and the FCS.
    assert_eq!(of(119), ((142 + 84) * BYTE, 143 * BYTE));
    assert_eq!(of(120), ((83 + 84) * BYTE, (144 + 24 + 84) * BYTE));
}

/// x: its own link 84, the longest piece 143, itself 84: 311 bytes. It is 1 ps less, because the piece must have begun.
#[test]
fn the_promise_of_an_express_frame_is_met() {
    let network = only(one_switch(119, BOTH, ""), &["x", "y"]);
    assert_eq!(promise(&network, "x"), 311 * 80);
    let start = MS + 143 * BYTE + 1 - 84 * BYTE;
    assert_eq!(delays_ps(&network, &[start, MS], 0)[0], 311 * BYTE - 1);
}

/// The same with a frame of 1 538 bytes on the wire, which z cuts so that 123 of its bytes are left.
///
/// y begins at 0 on the last link. z comes at 1 403: 8 of preamble and 1 395 of 1 518 bytes have been sent. The piece ends at
/// 1 419, z at 1 503. The rest is sent until 1 503 + 8 + 123 + 12 = 1 646. z's second frame and x come with its first bit:
/// z is through at 1 730, x at 1 814. That is 311 bytes after x came, 395 with its own link.
#[test]
fn the_promise_of_an_express_frame_is_met_by_the_rest_of_a_long_one() {
    let network = only(one_switch(1_514, BOTH, ""), &["x", "y", "z"]);
    assert_eq!(promise(&network, "x"), 395 * 80);
    let begins = MS + 1_538 * BYTE;
    let starts = [
        begins + (1_503 - 84) * BYTE + 1,
        MS,
        begins + (1_403 - 84) * BYTE,
    ];
    let seen = delays_ps(&network, &starts, 100 * BYTE + 1);
    assert_eq!(seen[0], 395 * BYTE - 1);
    // Whole frames would be promised 1 395 bytes more.
    let whole = only(one_switch(1_514, "", ""), &["x", "y", "z"]);
    assert_eq!(promise(&whole, "x"), (395 + 1_538 - 143) * 80);
}

/// y: its own link 1 538, itself 1 538, and for each of three express frames 84 and an interruption of 24.
#[test]
fn the_promise_of_a_preemptable_frame_is_met() {
    let each = "interval = \"100 us\"";
    let network = only(with_z(1_514, BOTH, "", each), &["x", "y", "z"]);
    let bytes = 2 * 1_538 + 3 * (84 + 24);
    assert_eq!(promise(&network, "y"), bytes * 80);
    // z comes at 200 and at 1 450 bytes, x at 1 000.
    let begins = MS + 1_538 * BYTE;
    let at = |bytes: u64| begins + (bytes - 84) * BYTE;
    let seen = delays_ps(&network, &[at(1_000), MS, at(200)], 0);
    assert_eq!(seen[1], bytes * BYTE);
}

/// The memory of a port. y is interrupted by x at once: 60 of its bytes are sent until 68, mCRC and gap until 84, x until 168.
/// z comes at 100. Then 1 518 - 60 bytes of y and its gap are left, of x 68 bytes, and all of z.
#[test]
fn an_interrupted_frame_keeps_its_memory() {
    for (release, bytes) in [
        ("frame", 1_538 + 84 + 84),
        ("bit", 1_518 - 60 + 12 + 68 + 84),
    ] {
        let keys = format!("buffer-release = \"{release}\"");
        let network = only(one_switch(1_514, BOTH, &keys), &["x", "y", "z"]);
        let model = Model::new(&network).unwrap();
        let mut simulator = Simulator::new(&model);
        let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 5 * MS, 0);
        let begins = MS + 1_538 * BYTE;
        scenario.sources = [begins - 74 * BYTE, MS, begins + (100 - 84) * BYTE]
            .map(|start| Behaviour::new(Pattern::Greedy, start))
            .to_vec();
        // Its second frame later.
        scenario.sources[2].gap_before = 1;
        scenario.sources[2].gap_ps = MS;
        scenario.lateness.fill(Lateness::Prompt);
        simulator.run(&scenario);
        let at = network.links.iter().position(|link| link.ends[0] == "c");
        let seen = simulator.port(2 * at.unwrap() + 1).unwrap();
        assert_eq!(seen.backlog_frames, 3);
        assert_eq!(seen.backlog_bits, bytes * 8, "{release}");
        let plan = promises(&network);
        let port = plan
            .ports
            .iter()
            .find(|it| it.node == "s" && it.port == "c");
        assert!(port.unwrap().backlog_bytes.unwrap() >= bytes);
    }
}

/// Adds preemption to most nodes of a network.
fn preempt(network: &mut Network, random: &mut Random) {
    network.shapers.clear();
    network.defaults.frame_overhead_bytes = 24;
    let stated = |queues: u8, map: Option<[u8; 8]>, random: &mut Random| {
        if random.once_in(8) {
            return None;
        }
        let first = u8::try_from(random.below(u64::from(queues))).unwrap();
        let class = |pcp: u8| map.map_or(pcp * queues / 8, |map| map[usize::from(pcp)]);
        Some(Preemption {
            preemptable: (0..8).filter(|pcp| class(*pcp) < first).collect(),
            additional_fragment_size: pick(random, &[0, 0, 0, 1, 2, 3]),
        })
    };
    for host in &mut network.hosts {
        host.preemption = stated(host.queues, host.priority_map, random);
    }
    for switch in &mut network.switches {
        switch.preemption = stated(switch.queues, switch.priority_map, random);
    }
}

/// Returns a random network with preemption, or none if nothing in it preempts.
fn random_preempting(seed: u64) -> Option<Network> {
    let mut random = Random::new(seed, 23);
    let describe = [random_description, random_ring, random_line][(seed % 3) as usize];
    let text =
        describe(&mut random).replace("frame-overhead = \"0 B\"", "frame-overhead = \"24 B\"");
    let mut network = network(&text);
    preempt(&mut network, &mut random);
    network.preempting_port().is_some().then_some(network)
}

#[test]
fn no_bound_is_exceeded_with_preemption() {
    let usual = if cfg!(debug_assertions) { 30 } else { 300 };
    let count = std::env::var("RTWIRE_SIMULATIONS").map_or(usual, |count| count.parse().unwrap());
    let first = std::env::var("RTWIRE_FIRST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (mut played, mut near, mut hops, mut compared) = (0_u64, 0_u64, 0_u64, 0_u64);
    for seed in first..first + count {
        let Some(network) = random_preempting(seed) else {
            continue;
        };
        match check(&network, &all_methods(&network), seed, 60) {
            Ok(one) => {
                played += 1;
                near += u64::from(one.used_permille >= 900);
                hops += one.frame_hops;
                compared += one.promises;
            }
            Err(failure) => panic!("seed {seed}: {failure}\n{network:#?}"),
        }
    }
    println!(
        "{played} networks with preemption, in {near} 90 % of a promise were used, {hops} frame-hops, {compared} comparisons"
    );
    assert!(played * 2 > count, "only {played} of {count} preempt");
    assert!(
        near * 2 > played,
        "only {near} of {played} came near a promise"
    );
}

#[test]
fn memory_as_large_as_planned_loses_nothing_with_preemption() {
    let count = if cfg!(debug_assertions) { 20 } else { 150 };
    let mut tried = 0;
    for seed in 0..count {
        let Some(network) = random_preempting(3 * seed + 1_000) else {
            continue;
        };
        let told = format!("seed {seed}");
        tried += u64::from(loses_nothing_as_planned(network, seed, &told));
    }
    assert!(
        tried * 3 > count,
        "only {tried} networks had bounds everywhere"
    );
}

/// A search exceeds promises of preemptable frames that take frames as whole. It exceeds promises of express frames that take
/// fragments as shorter than they are, too.
#[test]
fn a_search_breaks_promises_that_leave_preemption_out() {
    let networks = if cfg!(debug_assertions) { 24 } else { 90 };
    let change = |wrong: fn(&mut Preemption)| {
        move |network: &mut Network, planned: bool| {
            let seed = network.streams.len() as u64;
            preempt(network, &mut Random::new(seed, 29));
            let hosts = network.hosts.iter_mut().map(|it| &mut it.preemption);
            let switches = network.switches.iter_mut().map(|it| &mut it.preemption);
            for stated in hosts.chain(switches).flatten() {
                stated.additional_fragment_size = 3;
                if planned {
                    wrong(stated);
                }
            }
        }
    };
    let [count, late, _] = exceeded(networks, 200, change(|_| ()));
    assert_eq!(late, 0, "of {count}");
    let [count, late, _] = exceeded(networks, 200, change(|it| it.preemptable.clear()));
    println!("{late} of {count} networks break the promises of whole frames");
    assert!(late > 0, "none of {count}");
    let [count, late, _] = exceeded(networks, 200, change(|it| it.additional_fragment_size = 0));
    println!("{late} of {count} networks break the promises of shorter fragments");
    assert!(late > 0, "none of {count}");
}

/// The search finds the cut of a long frame that leaves the longest piece before the victim: 395 bytes, of which a search
/// without it finds 336.
#[test]
fn the_search_cuts_a_frame_before_the_victim() {
    let network = only(one_switch(1_514, BOTH, ""), &["x", "y", "z"]);
    let plan = promises(&network);
    let report = searched(&network, &plan, 4_000, 20 * MS);
    let seen = report.streams.iter().find(|it| it.name == "x").unwrap();
    let seen = seen.worst_delay_ps.unwrap();
    println!("{} of {} bytes", seen / BYTE, 395);
    assert!(seen > 390 * BYTE && seen < 395 * BYTE, "{seen}");
}

/// The numbers that the example tells its readers, with preemption and without.
#[test]
fn the_example_tells_its_promises() {
    let text = include_str!("../../../examples/preemption.toml");
    let lines = text.lines().filter(|line| !line.starts_with("preemptable"));
    let whole = network(&lines.collect::<Vec<_>>().join("\n"));
    let here = network(text);
    let mut seen = Vec::new();
    for stream in ["setpoints", "log"] {
        for network in [&here, &whole] {
            let ns = promise(network, stream);
            let shown = format!("{}.{:03} us", ns / 1000, ns % 1000);
            println!("{stream}: {shown}");
            seen.push((ns, text.contains(&shown)));
        }
    }
    assert!(seen.iter().all(|(_, told)| *told), "{seen:?}");
    // Two switches, at each of which 143 bytes are in the way in place of 1538.
    assert_eq!(seen[1].0 - seen[0].0, 2 * (1_538 - 143) * 80);
    let report = searched(&here, &promises(&here), 500, 20 * MS);
    assert!(report.streams.iter().all(|stream| !stream.violated));
}

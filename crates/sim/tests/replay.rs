//! Replays beside a model of their own, and beside the plan's promises.
//!
//! The model searches all frames for the next one at every step, in fractions of a picosecond. It shares nothing with the
//! simulator.

use crate::common;

use common::gated::random_gated;
use common::network;
use common::networks::{random_description, random_line, random_ring, random_shapers};
use proptest::prelude::*;
use rtwire_plan::{ContractKind, Network, Options, Plan, Ratio, Stream, plan, read};
use rtwire_sim::SimulationError;
use rtwire_sim::random::Random;
use rtwire_sim::replay::{self, Departure, Fate, Replay};

/// A time of CLOCK_TAI in 2026.
const TAI: u64 = 1_795_000_000_123_456_789;
const MS: u64 = 1_000_000;

/// A frame at a port of the model: arrival in 10^-12 s / rate, class, bits.
type Waiting = (i128, u8, i128);

/// Sends frames by priority, without preemption, and returns the begin of each in 10^-12 s / rate. A frame of b bits
/// takes b x 10^12 such units.
fn serve(frames: &[Waiting]) -> Vec<i128> {
    let mut begins = vec![None; frames.len()];
    let mut now = i128::MIN;
    for _ in frames {
        let left = (0..frames.len()).filter(|at| begins[*at].is_none());
        let first = left.clone().map(|at| frames[at].0).min().unwrap();
        now = now.max(first);
        let here = left.filter(|at| frames[*at].0 <= now);
        let next = here.min_by_key(|at| (u8::MAX - frames[*at].1, frames[*at].0, *at));
        let next = next.unwrap();
        begins[next] = Some(now);
        now += frames[next].2 * 1_000_000_000_000;
    }
    begins.into_iter().map(Option::unwrap).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_port_sends_as_the_model_does(
        rate in prop_oneof![Just(10_000_000_u64), Just(30_000_000), Just(1_000_000_007), 1_000..10_000_000_000_u64],
        classes in 1_u8..=8,
        seed: u64,
        count in 1_usize..40,
        spread in prop_oneof![Just(1_u64), Just(100_000), Just(3_000_000)],
    ) {
        let mut random = Random::new(seed, 0);
        let entries: Vec<replay::Entry> = (0..count)
            .map(|_| replay::Entry {
                at_ns: TAI + random.below(spread),
                class: random.below(u64::from(classes)) as u8,
                wire_bytes: 84 + random.below(1455) as u32,
            })
            .collect();
        let rate = i128::from(rate);
        let frames: Vec<Waiting> = entries
            .iter()
            .map(|it| (i128::from(it.at_ns) * 1000 * rate, it.class, i128::from(it.wire_bytes) * 8))
            .collect();
        let begins = serve(&frames);
        let exits = replay::port(rate as u64, classes, &entries).unwrap();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|at| begins[*at]);
        for (place, at) in order.into_iter().enumerate() {
            let came_ps = i128::from(entries[at].at_ns) * 1000;
            prop_assert_eq!(exits[at].place as usize, place);
            prop_assert_eq!(i128::from(exits[at].begins_ps), begins[at].div_euclid(rate) - came_ps);
            let end = begins[at] + frames[at].2 * 1_000_000_000_000;
            prop_assert_eq!(i128::from(exits[at].ends_ps), end.div_euclid(rate) - came_ps);
        }
    }

    /// Three hosts, two switches in line with priorities, one listener.
    #[test]
    fn two_switches_in_line_send_as_the_model_does(
        seed: u64,
        count in 1_usize..40,
        spread in prop_oneof![Just(200_000_u64), Just(3_000_000)],
        queues in prop_oneof![Just(1_u8), Just(2), Just(8)],
    ) {
        let (network, plan) = two_in_line(queues);
        let mut random = Random::new(seed, 0);
        let departures: Vec<Departure> = (0..count)
            .map(|frame| Departure {
                flow: random.below(6) as usize,
                frame: frame as u64,
                at_ns: TAI + random.below(spread),
                wire_bytes: Some(84 + random.below(1455) as u32),
            })
            .collect();
        let ends_ps = in_line(&network, &departures, queues);
        // Two frames of one class came at the same time: their order is not described.
        prop_assume!(ends_ps.is_some());
        let ends_ps = ends_ps.unwrap();
        let replayed = Replay::new(&network, &plan).unwrap().run(&departures).unwrap();
        for (it, end_ps) in departures.iter().zip(ends_ps) {
            let seen = replayed.at(it.flow, "L").unwrap().frame(it.frame).unwrap();
            let delay = (end_ps - i128::from(it.at_ns) * 1000).unsigned_abs().div_ceil(1000) as u64;
            prop_assert_eq!(seen.at_ns, it.at_ns);
            prop_assert_eq!(seen.fate, Fate::Arrives { least_ns: delay, most_ns: delay });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    /// A replay of any record ends with a result or an error.
    #[test]
    fn any_record_has_a_result_or_an_error(
        seed in 0_u64..1000,
        origin: u64,
        frames in prop::collection::vec(
            (
                0_usize..12,
                any::<u64>(),
                prop_oneof![40 => 0_u64..10_000_000, 40 => Just(0), 1 => any::<u64>()],
                prop_oneof![80 => 1_u32..2_000, 1 => 0_u32..70_000],
            ),
            0..60,
        ),
        rate in prop_oneof![1_u64..100, 1_000_000..1_000_000_000_u64, any::<u64>()],
        classes in 1_u8..10,
    ) {
        let mut random = Random::new(seed, 5);
        let text = if seed % 2 == 0 { random_shapers(&mut random) } else { random_gated(&mut random) };
        let entries: Vec<replay::Entry> = frames
            .iter()
            .map(|it| replay::Entry {
                at_ns: origin.wrapping_add(it.2),
                class: (it.0 % 8) as u8,
                wire_bytes: it.3,
            })
            .collect();
        let exits = replay::port(rate, classes, &entries);
        prop_assert!(exits.is_err() || exits.unwrap().len() == frames.len());
        let Ok(mut network) = read(&text, "random.toml", &[]) else {
            return Ok(());
        };
        for switch in &mut network.switches {
            switch.buffer.bytes = 2000 + random.below(100_000);
        }
        let plan = common::promises(&network);
        let departures: Vec<Departure> = frames
            .iter()
            .map(|(flow, frame, at_ns, bytes)| Departure {
                flow: *flow % network.streams.len().max(1),
                frame: *frame,
                at_ns: origin.wrapping_add(*at_ns),
                wire_bytes: (bytes % 3 > 0).then_some(*bytes),
            })
            .collect();
        let replay = Replay::new(&network, &plan).unwrap();
        if let Ok(replayed) = replay.run(&departures) {
            for it in &replayed.listeners {
                let own = departures.iter().filter(|departure| departure.flow == it.flow);
                prop_assert_eq!(it.frames.len(), own.count());
            }
        }
    }
}

/// Rates in Mbit/s at which every bit takes a whole number of ps.
const LINE: [(&str, &str, u64); 5] = [
    ("H0", "s0", 100),
    ("H1", "s0", 1000),
    ("H2", "s0", 50),
    ("s0", "s1", 80),
    ("s1", "L", 100),
];
const CABLE_NS: i128 = 130;

fn two_in_line(queues: u8) -> (Network, Plan) {
    let mut text = String::from("[network]\nname = \"line\"\n[[host]]\nname = \"L\"\n");
    for host in 0..3 {
        text += &format!("[[host]]\nname = \"H{host}\"\nqueues = {queues}\n");
        for (at, priority) in [1, 6].into_iter().enumerate() {
            text += &format!(
                "[[stream]]\nname = \"f{host}{at}\"\ntalker = \"H{host}\"\nlisteners = [\"L\"]\nframe = \"200 B\"\n\
                 interval = \"100 ms\"\npriority = {priority}\n"
            );
        }
    }
    for switch in 0..2 {
        text += &format!(
            "[[switch]]\nname = \"s{switch}\"\nlatency = \"0 us\"\nbuffer = \"10 MB\"\nqueues = {queues}\n"
        );
    }
    for (a, b, rate) in LINE {
        text += &format!(
            "[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"{rate} Mbit/s\"\ncable-delay = \"{CABLE_NS} ns\"\n"
        );
    }
    let network = network(&text);
    let plan = common::promises(&network);
    (network, plan)
}

/// Returns the arrival of each frame at the listener, ps; `None` if two frames of one class reach a port together.
fn in_line(network: &Network, departures: &[Departure], queues: u8) -> Option<Vec<i128>> {
    let class = |flow: usize| (u16::from(network.streams[flow].pcp) * u16::from(queues) / 8) as u8;
    let mut at_ps: Vec<i128> = departures
        .iter()
        .map(|it| i128::from(it.at_ns) * 1000)
        .collect();
    for (hop, (_, _, mbps)) in LINE.into_iter().enumerate() {
        let own: Vec<usize> = (0..departures.len())
            .filter(|at| hop > 2 || departures[*at].flow / 2 == hop)
            .collect();
        // One ps per bit and Tbit/s: a frame's time in ps is bits x 10^6 / Mbit/s.
        let rate = i128::from(mbps) * 1_000_000;
        let frames: Vec<Waiting> = own
            .iter()
            .map(|at| {
                let it = &departures[*at];
                let bits = i128::from(it.wire_bytes.unwrap()) * 8;
                (at_ps[*at] * rate, class(it.flow), bits)
            })
            .collect();
        for (at, frame) in frames.iter().enumerate() {
            let twin = |other: &Waiting| (other.0, other.1) == (frame.0, frame.1);
            if frames[..at].iter().any(twin) {
                return None;
            }
        }
        for ((at, begin), frame) in own.iter().zip(serve(&frames)).zip(&frames) {
            at_ps[*at] = (begin + frame.2 * 1_000_000_000_000) / rate + CABLE_NS * 1000;
        }
    }
    Some(at_ps)
}

/// Returns departures of a stream that keep its contract exactly, in whole ns from `from_ns` on: greedy, or at random.
fn conforming(stream: &Stream, plan: &Plan, index: usize, random: &mut Random) -> Vec<u64> {
    let contract = &stream.contract;
    let (length_ns, late_ns) = (20 * MS, contract.tick_error_ns);
    if let Some(launch) = &plan.streams[index].launch {
        // Launches count from the epoch of CLOCK_TAI.
        let first = TAI.div_ceil(launch.period_ns) * launch.period_ns + launch.offset_ns;
        let starts = (0..length_ns / launch.period_ns).map(|turn| first + turn * launch.period_ns);
        return starts.map(|at| at + random.up_to(late_ns)).collect();
    }
    if let ContractKind::Interval { interval_ns, .. } = contract.kind {
        let first = TAI + random.below(interval_ns);
        let starts = (0..length_ns / interval_ns).map(|turn| first + turn * interval_ns);
        let greedy = random.once_in(2);
        let mut times: Vec<u64> = starts
            .enumerate()
            .map(|(turn, at)| match (greedy, turn) {
                (true, 0) => at + late_ns,
                (true, _) => at,
                (false, _) => at + random.up_to(late_ns),
            })
            .collect();
        times.sort_unstable();
        return times;
    }
    // A bucket as a virtual clock, in exact ns: each frame advances it by M / r, and it is at most b / r ahead.
    let billion = Ratio::whole(1_000_000_000);
    let ns = |bits: Ratio| bits.times(billion).unwrap().over(contract.rate).unwrap();
    let (cost, depth) = (ns(stream.wire_bits()), ns(contract.burst));
    let mut ahead = Ratio::ZERO;
    let (mut now, mut times) = (random.below(2 * MS), Vec::new());
    while now < length_ns && times.len() < 400 {
        let earliest = ahead.plus(cost).unwrap().minus(depth).unwrap().ceil();
        now = now.max(u64::try_from(earliest.max(0)).unwrap());
        times.push(TAI + now);
        let start = ahead.max(Ratio::whole(i128::from(now)));
        ahead = start.plus(cost).unwrap();
        if random.once_in(8) {
            now += random.below(3 * MS);
        }
    }
    times
}

/// Replays conforming departures. Returns the number of frames, and the largest used share of a promise, in thousandths.
fn replayed_within_promises(network: &Network, plan: &Plan, random: &mut Random) -> (usize, u64) {
    let mut departures = Vec::new();
    for (flow, stream) in network.streams.iter().enumerate() {
        let times = conforming(stream, plan, flow, random);
        let frames = times.into_iter().enumerate();
        departures.extend(frames.map(|(frame, at_ns)| Departure {
            flow,
            frame: frame as u64,
            at_ns,
            wire_bytes: None,
        }));
    }
    let replay = Replay::new(network, plan).unwrap();
    let replayed = replay.run(&departures).unwrap();
    let first = departures.iter().map(|it| it.at_ns).min().unwrap_or(0);
    let mut used = 0;
    for it in replayed
        .listeners
        .iter()
        .filter(|it| it.flow < network.streams.len())
    {
        let stream = &plan.streams[it.flow];
        let promise = stream.promises.iter().find(|to| to.listener == it.listener);
        let Some(promise_ns) = promise.unwrap().delay_ns else {
            continue;
        };
        for frame in &it.frames {
            let Fate::Arrives { least_ns, most_ns } = frame.fate else {
                panic!("{} to {}: {:?}", it.name, it.listener, frame);
            };
            assert!(least_ns <= most_ns);
            if frame.at_ns - first < replay.settled_ns() {
                continue;
            }
            assert!(
                most_ns <= promise_ns,
                "{} to {}: {frame:?}, {promise_ns} ns promised",
                it.name,
                it.listener
            );
            used = used.max(most_ns * 1000 / promise_ns.max(1));
        }
    }
    (departures.len(), used)
}

/// Makes the description of a random network.
type Describe = fn(&mut Random) -> String;

#[test]
fn conforming_departures_keep_every_promise() {
    let kinds: [(&str, Describe); 5] = [
        ("trees", random_description),
        ("lines", random_line),
        ("rings", random_ring),
        ("credits and regulators", random_shapers),
        ("gates", random_gated),
    ];
    for (name, describe) in kinds {
        let (mut sound, mut frames, mut near) = (0, 0, 0);
        for seed in 0..40 {
            let text = describe(&mut Random::new(seed, 31));
            // Some gated networks have no schedule, and some plans are refused.
            let Ok(network) = read(&text, "random.toml", &[]) else {
                continue;
            };
            let Ok(plan) = plan(&network, &Options::default()) else {
                continue;
            };
            sound += 1;
            let (count, used) =
                replayed_within_promises(&network, &plan, &mut Random::new(seed, 32));
            frames += count;
            near = near.max(used);
        }
        println!("{name}: {sound} networks, {frames} frames, {near} permille of a promise used");
        assert!(sound >= 8, "{name}: only {sound} sound networks");
        assert!(
            near > 500,
            "{name}: at most {near} permille of a promise used"
        );
    }
}

#[test]
fn a_talker_that_breaks_its_contract_is_found_late() {
    let (network, plan) = two_in_line(2);
    let promise_ns = plan.streams[0].promises[0].delay_ns.unwrap();
    // The contract permits one frame in 100 ms.
    let frames = |apart_ns: u64| -> Vec<Departure> {
        (0..60)
            .map(|frame| Departure {
                flow: 0,
                frame,
                at_ns: TAI + frame * apart_ns,
                wire_bytes: None,
            })
            .collect()
    };
    let replay = Replay::new(&network, &plan).unwrap();
    let worst = |departures: &[Departure]| {
        let replayed = replay.run(departures).unwrap();
        replayed.at(0, "L").unwrap().worst_ns().unwrap()
    };
    assert!(worst(&frames(100 * MS)) <= promise_ns);
    assert!(worst(&frames(0)) > promise_ns);
}

#[test]
fn one_port_sends_the_most_urgent_first() {
    let entry = |at_ns, class, wire_bytes| replay::Entry {
        at_ns: TAI + at_ns,
        class,
        wire_bytes,
    };
    // 1000 B take 800 µs at 10 Mbit/s. The first begins at once; the urgent one overtakes the second.
    let entries = [
        entry(0, 0, 1000),
        entry(1, 0, 1000),
        entry(2, 1, 1000),
        entry(3_000_000, 0, 500),
    ];
    let exits = replay::port(10_000_000, 2, &entries).unwrap();
    let seen: Vec<_> = exits
        .iter()
        .map(|exit| (exit.place, exit.begins_ps, exit.ends_ps))
        .collect();
    let ns = 1000;
    assert_eq!(
        seen,
        [
            (0, 0, 800_000 * ns),
            (2, 1_599_999 * ns, 2_399_999 * ns),
            (1, 799_998 * ns, 1_599_998 * ns),
            (3, 0, 400_000 * ns),
        ]
    );
    // An urgent frame that comes at the very end of a transmission is chosen next.
    let entries = [
        entry(0, 0, 1000),
        entry(0, 0, 1000),
        entry(800_000, 1, 1000),
    ];
    let exits = replay::port(10_000_000, 2, &entries).unwrap();
    assert_eq!((exits[1].place, exits[2].place), (2, 1));
}

#[test]
fn a_port_refuses_what_it_cannot_have() {
    let entry = replay::Entry {
        at_ns: TAI,
        class: 3,
        wire_bytes: 84,
    };
    let range = |result: Result<Vec<replay::Exit>, SimulationError>| {
        assert!(matches!(result, Err(SimulationError::Range { .. })));
    };
    assert!(replay::port(1000, 4, &[entry]).is_ok());
    for classes in [0, 3, 9] {
        assert_eq!(
            replay::port(1000, classes, &[entry]),
            Err(SimulationError::UnknownClass { class: 3, classes })
        );
    }
    range(replay::port(0, 8, &[entry]));
    range(replay::port(
        1000,
        8,
        &[entry, replay::Entry { at_ns: 0, ..entry }],
    ));
    range(replay::port(
        1,
        8,
        &[replay::Entry {
            wire_bytes: 65_536,
            ..entry
        }; 20],
    ));
    for wire_bytes in [0, 65_537] {
        let wrong = replay::Entry {
            wire_bytes,
            ..entry
        };
        assert!(matches!(
            replay::port(1000, 8, &[wrong]),
            Err(SimulationError::FrameSize { .. })
        ));
    }
    assert!(replay::port(1, 1, &[]).unwrap().is_empty());
}

//! Tests that no simulated delay is above its promise, and no simulated backlog above its bound.

use crate::simulator;

use std::fmt::Write as _;

use rtwire_plan::network::FlowMeters;
use rtwire_plan::{
    CutThrough, GateProfile, Network, Options, Plan, Preemption, Reason, Release, plan, read,
};
use simulator::{Behaviour, Dice, Faults, simulate, simulate_with};

/// Returns a random tree of switches with hosts, streams and best effort.
pub(crate) fn random_description(dice: &mut Dice) -> String {
    let switches = 1 + dice.below(6);
    let hosts = 2 + dice.below(7);
    let rates = ["10 Mbit/s", "100 Mbit/s", "1 Gbit/s"];
    let uniform = dice.below(2) == 0;
    let strict = dice.below(2) == 0;
    let mut text = String::from("[network]\nname = \"random\"\n[defaults]\n");
    let overhead = ["24 B", "0 B"][usize::try_from(dice.below(2)).unwrap()];
    writeln!(text, "frame-overhead = \"{overhead}\"").unwrap();
    for switch in 0..switches {
        let queues = if strict { 1 + dice.below(8) } else { 1 };
        let latency = [0, 5, 50][usize::try_from(dice.below(3)).unwrap()];
        // Mostly any latency up to that one, at times a constant one, or one from a least on.
        let latency = match dice.below(5) {
            0 => format!("{{ min = \"{latency} us\", max = \"{latency} us\" }}"),
            1 => format!("{{ min = \"{} us\", max = \"{latency} us\" }}", latency / 2),
            _ => format!("\"{latency} us\""),
        };
        let cut_through = ["off", "off", "possible", "on"][usize::try_from(dice.below(4)).unwrap()];
        let release = ["frame", "frame", "bit"][usize::try_from(dice.below(3)).unwrap()];
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\nlatency = {latency}\nqueues = {queues}\nbuffer = \"100 MB\"\nbuffer-release = \"{release}\"\ncut-through = \"{cut_through}\""
        )
        .unwrap();
    }
    let mut joined: Vec<(String, String)> = Vec::new();
    let mut link = |text: &mut String, dice: &mut Dice, a: &str, b: &str| {
        joined.push((a.to_owned(), b.to_owned()));
        let rate = if uniform {
            1
        } else {
            usize::try_from(dice.below(3)).unwrap()
        };
        let cable = dice.below(2_000);
        writeln!(
            text,
            "[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"{}\"\ncable-delay = \"{cable} ns\"",
            rates[rate]
        )
        .unwrap();
    };
    for switch in 1..switches {
        let other = if dice.below(2) == 0 {
            switch - 1
        } else {
            dice.below(switch)
        };
        link(&mut text, dice, &format!("s{switch}"), &format!("s{other}"));
    }
    for host in 0..hosts {
        let queues = 1 + dice.below(8);
        let latency = if dice.below(4) == 0 {
            dice.below(200)
        } else {
            0
        };
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\nqueues = {queues}\nlatency = \"{latency} us\""
        )
        .unwrap();
        let at = dice.below(switches);
        link(&mut text, dice, &format!("h{host}"), &format!("s{at}"));
    }
    // The latency of a port, of an input, or of a pair.
    let joined = &joined;
    for switch in (0..switches).map(|switch| format!("s{switch}")) {
        let ends = joined.iter().flat_map(|(a, b)| [(a, b), (b, a)]);
        let near: Vec<&String> = ends
            .filter(|(a, _)| **a == switch)
            .map(|(_, b)| b)
            .collect();
        for (number, one) in near.iter().enumerate() {
            if dice.below(2) == 0 {
                continue;
            }
            let other = near[(number + 1) % near.len()];
            let way = match dice.below(3) {
                0 => format!("from = \"{one}\""),
                1 => format!("to = \"{one}\""),
                _ if other == *one => continue,
                _ => format!("from = \"{one}\"\nto = \"{other}\""),
            };
            let most = dice.below(60);
            let least = dice.below(most + 1);
            writeln!(
                text,
                "[[port]]\nswitch = \"{switch}\"\n{way}\nlatency = {{ min = \"{least} us\", max = \"{most} us\" }}"
            )
            .unwrap();
        }
    }
    let streams = 1 + dice.below(12);
    for stream in 0..streams {
        let talker = dice.below(hosts);
        let mut listeners = Vec::new();
        for _ in 0..=dice.below(2) {
            let listener = dice.below(hosts);
            if listener != talker && !listeners.contains(&listener) {
                listeners.push(listener);
            }
        }
        if listeners.is_empty() {
            listeners.push((talker + 1) % hosts);
        }
        let listeners: Vec<String> = listeners
            .iter()
            .map(|host| format!("\"h{host}\""))
            .collect();
        let frame = [60, 128, 512, 1514][usize::try_from(dice.below(4)).unwrap()];
        let priority = dice.below(8);
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{talker}\"\nlisteners = [{}]\nframe = \"{frame} B\"\n\
             priority = {priority}",
            listeners.join(", ")
        )
        .unwrap();
        if dice.below(2) == 0 {
            let interval = 200 + dice.below(4_000);
            let error = [0, 30, 150][usize::try_from(dice.below(3)).unwrap()];
            writeln!(
                text,
                "interval = \"{interval} us\"\ntick-error = \"{error} us\"\nframes-per-interval = {}",
                [1, 1, 2, 4][usize::try_from(dice.below(4)).unwrap()]
            )
            .unwrap();
        } else {
            let rate = 50 + dice.below(6_000);
            let interval = 100 + dice.below(3_000);
            writeln!(
                text,
                "rate = \"{rate} kbit/s\"\nshaping-interval = \"{interval} us\"\ntick-error = \"{} us\"",
                dice.below(200)
            )
            .unwrap();
        }
    }
    if dice.below(2) == 0 {
        let host = dice.below(hosts);
        let to = (host + 1 + dice.below(hosts - 1)) % hosts;
        writeln!(
            text,
            "[[best-effort]]\nhost = \"h{host}\"\nto = [\"h{to}\"]\nrate = \"{} kbit/s\"\nburst = \"{} B\"",
            100 + dice.below(900),
            1538 + dice.below(10_000)
        )
        .unwrap();
    }
    text
}

/// Returns the largest used share of a promise in percent, or a message if one was exceeded.
pub(crate) fn compare(
    network: &Network,
    plan: &Plan,
    behaviour: Behaviour,
    dice: &mut Dice,
) -> Result<u128, String> {
    compare_with(network, plan, behaviour, dice, Faults::default())
}

/// As [`compare`], with something that goes wrong. Nothing is promised to a talker that does, and to its host.
fn compare_with(
    network: &Network,
    plan: &Plan,
    behaviour: Behaviour,
    dice: &mut Dice,
    faults: Faults<'_>,
) -> Result<u128, String> {
    let outcome = simulate_with(network, behaviour, 25_000_000_000, dice, faults);
    let talkers = network.streams.iter().map(|it| &it.talker);
    let hosts: Vec<&String> = talkers
        .chain(network.best_effort.iter().map(|it| &it.host))
        .collect();
    let wrong = faults.babbling.map(|flow| hosts[flow]);
    for (flow, count) in &outcome.discarded {
        if wrong != Some(hosts[*flow]) {
            return Err(format!(
                "{behaviour:?}: a meter discarded {count} frames of flow {flow}, which keeps its contract"
            ));
        }
    }
    if outcome.missed > 0 {
        return Err(format!(
            "{behaviour:?}: {} frames missed their cycle",
            outcome.missed
        ));
    }
    let mut used = 0;
    for (index, stream) in plan.streams.iter().enumerate() {
        if wrong == Some(hosts[index]) {
            continue;
        }
        for promise in &stream.promises {
            let Some(delay_ns) = promise.delay_ns else {
                continue;
            };
            let seen = outcome
                .delays_ps
                .get(&(index, promise.listener.clone()))
                .copied()
                .unwrap_or(0);
            let promised = u128::from(delay_ns) * 1_000;
            if seen > promised {
                return Err(format!(
                    "{behaviour:?}: {} to {}: {seen} ps seen, {promised} ps promised",
                    stream.name, promise.listener
                ));
            }
            used = used.max(seen * 100 / promised.max(1));
            let least = outcome.least_ps.get(&(index, promise.listener.clone()));
            if let (Some(jitter_ns), Some(least)) = (promise.jitter_ns, least) {
                let soonest = promised - u128::from(jitter_ns) * 1_000;
                if *least < soonest {
                    return Err(format!(
                        "{behaviour:?}: {} to {}: {least} ps seen, no less than {soonest} ps promised",
                        stream.name, promise.listener
                    ));
                }
            }
        }
    }
    for port in plan.ports.iter().filter(|it| wrong != Some(&it.node)) {
        let seen = outcome
            .backlog_bits
            .get(&(port.node.clone(), port.port.clone()))
            .copied()
            .unwrap_or(0);
        if let Some(bytes) = port.backlog_bytes {
            if seen > u128::from(bytes) * 8 {
                return Err(format!(
                    "{behaviour:?}: port {}>{}: {seen} bit seen, {bytes} B promised",
                    port.node, port.port
                ));
            }
        }
    }
    Ok(used)
}

#[test]
fn no_promise_is_exceeded_in_random_networks() {
    let (mut planned, mut tight) = (0, 0);
    // More with RTWIRE_SIMULATIONS=5000.
    let seeds = std::env::var("RTWIRE_SIMULATIONS").map_or(400, |count| count.parse().unwrap());
    for seed in 0..seeds {
        let mut dice = Dice::new(seed + 1);
        let text = random_description(&mut dice);
        let network = read(&text, "random.toml", &[])
            .unwrap_or_else(|faults| panic!("seed {seed}: {faults}\n{text}"));
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        let plan =
            plan(&network, &options).unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
        if plan.streams.iter().any(|stream| {
            stream
                .promises
                .iter()
                .any(|promise| promise.delay_ns.is_none())
        }) {
            continue;
        }
        planned += 1;
        let mut most = 0;
        for behaviour in [
            Behaviour::Greedy,
            Behaviour::GreedyPrompt,
            Behaviour::Random,
            Behaviour::Random,
        ] {
            match compare(&network, &plan, behaviour, &mut dice) {
                Ok(used) => most = most.max(used),
                Err(message) => panic!("seed {seed}: {message}\n{text}"),
            }
        }
        tight += usize::from(most >= 80);
    }
    println!("{planned} networks planned, {tight} of them used 80 % of a promise or more");
    assert!(
        planned >= 250,
        "only {planned} networks had bounds everywhere"
    );
    assert!(
        tight >= planned / 4,
        "only {tight} of {planned} networks came near a promise: the simulation is too tame"
    );
}

/// Draws a random map for each node of priorities to its queues.
fn with_maps(network: &mut Network, dice: &mut Dice) {
    let mut map = |queues: u8| {
        let mut draw = || u8::try_from(dice.below(u64::from(queues))).unwrap();
        Some(std::array::from_fn(|_| draw()))
    };
    for host in &mut network.hosts {
        host.priority_map = map(host.queues);
    }
    for switch in &mut network.switches {
        switch.priority_map = map(switch.queues);
    }
}

/// Each node has its own order of priorities, so that a stream's class differs from port to port. Best effort, priority 0, may be
/// above streams.
#[test]
fn no_promise_is_exceeded_with_a_map_of_priorities_at_each_node() {
    let (mut planned, mut differs) = (0, 0);
    for seed in 0..200 {
        let mut dice = Dice::new(seed + 1);
        let text = random_description(&mut dice);
        let plain = read(&text, "random.toml", &[]).unwrap();
        let mut network = plain.clone();
        with_maps(&mut network, &mut dice);
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        let of_plain = plan(&plain, &options).unwrap();
        let plan = plan(&network, &options).unwrap();
        planned += 1;
        for behaviour in [Behaviour::Greedy, Behaviour::Random] {
            if let Err(message) = compare(&network, &plan, behaviour, &mut dice) {
                panic!("seed {seed}: {message}\n{network:?}");
            }
            // The referee sees maps: it breaks promises that were made without them.
            differs += usize::from(compare(&network, &of_plain, behaviour, &mut dice).is_err());
        }
    }
    println!("{planned} networks; {differs} simulations exceed the promises of the default map");
    assert!(differs > 20, "{differs}");
}

/// Returns a random network in which most nodes let frames of lower priorities be interrupted, and the same one with whole frames.
fn with_preemption(dice: &mut Dice) -> (Network, Network) {
    let text =
        random_description(dice).replace("frame-overhead = \"0 B\"", "frame-overhead = \"24 B\"");
    let mut whole = read(&text, "random.toml", &[]).unwrap();
    for switch in &mut whole.switches {
        switch.cut_through = CutThrough::Off;
        switch.queues = 8;
        switch.buffer.release = Release::Frame;
    }
    for host in &mut whole.hosts {
        host.queues = 8;
    }
    let mut network = whole.clone();
    let nodes = network.switches.iter_mut().map(|it| &mut it.preemption);
    for preemption in nodes.chain(network.hosts.iter_mut().map(|it| &mut it.preemption)) {
        *preemption = (dice.below(4) > 0).then(|| Preemption {
            preemptable: (0..1 + u8::try_from(dice.below(7)).unwrap()).collect(),
            additional_fragment_size: u8::try_from(dice.below(4)).unwrap(),
        });
    }
    (network, whole)
}

/// The referee sends frames in pieces by the rules of clause 99. It breaks promises that were made for whole frames, and without
/// pieces it breaks those that were made for them.
#[test]
fn no_promise_is_exceeded_with_preemption() {
    let (mut tight, mut of_whole, mut of_pieces) = (0, 0, 0);
    for seed in 0..300 {
        let mut dice = Dice::new(seed + 1);
        let (network, whole) = with_preemption(&mut dice);
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        let made =
            plan(&network, &options).unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
        let plain = plan(&whole, &options).unwrap();
        let mut most = 0;
        for behaviour in [
            Behaviour::Greedy,
            Behaviour::GreedyPrompt,
            Behaviour::Random,
        ] {
            match compare(&network, &made, behaviour, &mut dice) {
                Ok(used) => most = most.max(used),
                Err(message) => panic!("seed {seed}: {message}\n{network:?}"),
            }
            of_whole += usize::from(compare(&network, &plain, behaviour, &mut dice).is_err());
            of_pieces += usize::from(compare(&whole, &made, behaviour, &mut dice).is_err());
        }
        tight += usize::from(most >= 80);
    }
    println!(
        "{tight} of 300 networks used 80 % of a promise; pieces exceed {of_whole} plans of whole frames, whole frames {of_pieces} of pieces"
    );
    assert!(tight >= 75, "{tight}");
    assert!(of_whole >= 10 && of_pieces >= 20, "{of_whole}, {of_pieces}");
}

/// The referee sees frames that are forwarded before their end has come: delays are others than those of stored frames.
#[test]
fn no_promise_is_exceeded_with_cut_through_everywhere() {
    let mut differs = 0;
    for seed in 0..150 {
        let mut dice = Dice::new(seed + 1);
        let mut network = read(&random_description(&mut dice), "random.toml", &[]).unwrap();
        for switch in &mut network.switches {
            switch.cut_through = CutThrough::Off;
            switch.latency_min_ns = switch.latency_ns;
            switch.ports.clear();
        }
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        let stored = network.clone();
        for switch in &mut network.switches {
            switch.cut_through = CutThrough::Possible;
        }
        let plan = plan(&network, &options).unwrap();
        for behaviour in [Behaviour::GreedyPrompt, Behaviour::Random] {
            if let Err(message) = compare(&network, &plan, behaviour, &mut dice) {
                panic!("seed {seed}: {message}");
            }
        }
        let mut delays = |network: &Network| {
            let outcome = simulate(network, Behaviour::GreedyPrompt, 25_000_000_000, &mut dice);
            outcome.delays_ps
        };
        differs += usize::from(delays(&network) != delays(&stored));
    }
    println!("the delays of {differs} of 150 networks differ from those of stored frames");
    assert!(differs > 50, "{differs}");
}

/// Streams that pass a switch of a ring twice, by different ports.
#[test]
fn no_promise_is_exceeded_where_a_switch_is_passed_twice() {
    let mut tight = 0;
    for seed in 0..60 {
        let mut dice = Dice::new(seed + 1);
        let count = 3 + dice.below(3);
        let mut text =
            String::from("[network]\nname = \"ring\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n");
        for at in 0..count {
            writeln!(
                text,
                "[[switch]]\nname = \"s{at}\"\nbuffer = \"100 MB\"\nqueues = 2\nlatency = \"{} us\"\n\
                 [[host]]\nname = \"h{at}\"\n[[link]]\nends = [\"h{at}\", \"s{at}\"]\n\
                 [[link]]\nends = [\"s{at}\", \"s{}\"]",
                dice.below(20),
                (at + 1) % count
            )
            .unwrap();
        }
        for stream in 0..3 + dice.below(6) {
            let from = dice.below(count);
            // Around the ring, and as far again as there is no port twice.
            let more = 1 + dice.below(count - 1);
            let way = (0..=count).map(|step| (from + step) % count);
            let mut way: Vec<String> = way.map(|at| format!("\"s{at}\"")).collect();
            let last = if dice.below(3) == 0 {
                way.truncate(usize::try_from(more).unwrap() + 1);
                (from + more) % count
            } else {
                from
            };
            if last == from {
                // The last port is that to a host of its own.
                let at = format!("e{stream}");
                writeln!(
                    text,
                    "[[host]]\nname = \"{at}\"\n[[link]]\nends = [\"{at}\", \"s{from}\"]"
                )
                .unwrap();
                way.push(format!("\"{at}\""));
            } else {
                way.push(format!("\"h{last}\""));
            }
            let to = way[way.len() - 1].clone();
            writeln!(
                text,
                "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{from}\"\nlisteners = [{to}]\nframe = \"{} B\"\n\
                 interval = \"{} us\"\npriority = {}\nroute = [\"h{from}\", {}]",
                60 + dice.below(900),
                800 + dice.below(2_000),
                dice.below(8),
                way.join(", ")
            )
            .unwrap();
        }
        let network =
            read(&text, "ring.toml", &[]).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
        assert_eq!(network.check(), Ok(()));
        let twice = network.without_second_pass().is_err();
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        let plan = plan(&network, &options).unwrap();
        let mut most = 0;
        for behaviour in [Behaviour::Greedy, Behaviour::Random] {
            match compare(&network, &plan, behaviour, &mut dice) {
                Ok(used) => most = most.max(used),
                Err(message) => panic!("seed {seed}: {message}\n{text}"),
            }
        }
        tight += usize::from(twice && most >= 70);
    }
    println!("{tight} rings with a switch that is passed twice used 70 % of a promise or more");
    assert!(tight >= 10, "{tight}");
}

/// Tests the experiment with greedy sources: it is near the bound, and the published exact values stay below the
/// bound.
#[test]
fn the_single_switch_is_tight() {
    let fixtures: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/captures/bounds.json")).unwrap();
    let exact = &fixtures["loeser_haertig"]["packet_exact_us"];
    let source = include_str!("../../../examples/five-nodes.toml");
    for (interval, key) in [
        ("10 ms", "ts10ms"),
        ("1 ms", "ts1ms"),
        ("100 us", "ts100us"),
    ] {
        let set = [
            ("shaping-interval".to_owned(), interval.to_owned()),
            ("tick-error".to_owned(), "0 us".to_owned()),
        ];
        let network = read(
            &source.replace("latency = \"10 us\"", "latency = \"0 us\""),
            "five.toml",
            &set,
        )
        .unwrap();
        let plan = plan(&network, &Options::default()).unwrap();
        let port = plan
            .ports
            .iter()
            .find(|port| port.node == "s1" && port.port == "B")
            .unwrap();
        let bound_us = port.classes[0].delay_ns.unwrap() as f64 / 1e3;
        let reached = exact[key][1].as_f64().unwrap();
        assert!(
            bound_us >= reached,
            "{interval}: a schedule reaches {reached} us, the bound is {bound_us} us"
        );
        assert!(
            reached >= 0.8 * bound_us,
            "{interval}: the bound {bound_us} us is far above {reached} us"
        );
        let mut dice = Dice::new(7);
        let used = compare(&network, &plan, Behaviour::Greedy, &mut dice).unwrap();
        println!("{interval}: {used} % of a promise used");
        assert!(used >= 80, "{interval}: only {used} %");
    }
}

/// Returns a random network with meters at most switches, whose clocks may differ.
fn with_meters(dice: &mut Dice) -> Network {
    let mut network = read(&random_description(dice), "random.toml", &[]).unwrap();
    network.defaults.clock_drift_ppb = [0, 100_000][usize::try_from(dice.below(2)).unwrap()];
    let overhead = network.defaults.frame_overhead_bytes;
    for switch in &mut network.switches {
        switch.cut_through = CutThrough::Off;
    }
    let overhead_bytes = [0, 4, overhead][usize::try_from(dice.below(3)).unwrap()].min(overhead);
    for switch in &mut network.switches {
        switch.flow_meters = (dice.below(8) > 0).then_some(FlowMeters { overhead_bytes });
    }
    network
}

/// One talker sends without regard to its contract: frames of any size as fast as its link takes them. The meters let no more of it
/// through than the promises of all other hosts bear, and discard nothing of a talker that keeps its contract.
#[test]
fn no_promise_is_exceeded_beside_a_talker_that_goes_wrong() {
    let (mut compared, mut unguarded, mut tight, mut generous) = (0, 0, 0, 0);
    let seeds = std::env::var("RTWIRE_SIMULATIONS").map_or(300, |count| count.parse().unwrap());
    for seed in 0..seeds {
        let mut dice = Dice::new(seed + 1);
        let network = with_meters(&mut dice);
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        let plan = plan(&network, &options).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
        let babbling =
            usize::try_from(dice.below((network.streams.len() + network.best_effort.len()) as u64))
                .unwrap();
        let host = network.streams.get(babbling).map_or_else(
            || &network.best_effort[babbling - network.streams.len()].host,
            |it| &it.talker,
        );
        let first = network.neighbours(host).next().unwrap();
        let guarded = network.flow_meters(host, first).is_some();
        for behaviour in [
            Behaviour::Greedy,
            Behaviour::GreedyPrompt,
            Behaviour::Random,
        ] {
            let mut faults = Faults {
                meters: &plan.meters,
                ..Faults::default()
            };
            // All keep their contracts: no meter is noticed.
            compare_with(&network, &plan, behaviour, &mut dice, faults)
                .unwrap_or_else(|it| panic!("seed {seed}: {it}\n{network:?}"));
            if !guarded {
                continue;
            }
            faults.babbling = Some(babbling);
            let used = compare_with(&network, &plan, behaviour, &mut dice, faults)
                .unwrap_or_else(|it| panic!("seed {seed}: {babbling} babbles: {it}\n{network:?}"));
            compared += 1;
            tight += usize::from(used >= 80);
            // Meters that let through twice as much.
            let mut wide = plan.meters.clone();
            for meter in &mut wide {
                meter.committed_rate_bps *= 2;
                meter.committed_burst_bytes *= 2;
            }
            faults.meters = &wide;
            let broken = compare_with(&network, &plan, behaviour, &mut dice, faults);
            generous += usize::from(broken.is_err());
            faults.meters = &[];
            let broken = compare_with(&network, &plan, behaviour, &mut dice, faults);
            unguarded += usize::from(broken.is_err());
        }
    }
    println!(
        "{compared} simulations with a talker that goes wrong, {tight} used 80 % of a promise or more; without meters {unguarded} break promises, \
         with meters for twice as much {generous}"
    );
    assert!(compared > 400, "{compared}");
    assert!(tight > 40, "{tight}");
    assert!(unguarded > 100, "the talker is too tame: {unguarded}");
    assert!(generous > 20, "{generous}");
}

/// Returns a random network with cyclic streams, whose clocks may differ.
fn with_cycles(dice: &mut Dice) -> Option<Network> {
    let mut network = read(&random_description(dice), "random.toml", &[]).unwrap();
    let mut one = |of: &[u64]| of[usize::try_from(dice.below(of.len() as u64)).unwrap()];
    network.schedule.clock_error_ns = one(&[0, 500, 3_000, 20_000]);
    network.schedule.best_effort_percent = u8::try_from(one(&[0, 10])).unwrap();
    network.schedule.cycle_ns = Some(one(&[125_000, 500_000, 1_000_000, 3_000_000, 10_000_000]));
    network.defaults.clock_drift_ppb = one(&[0, 100_000]);
    for switch in &mut network.switches {
        switch.cut_through = CutThrough::Off;
        switch.gates = Some(GateProfile::unlimited());
        switch.queues = u8::try_from(one(&[3, 4, 8])).unwrap();
    }
    let pcp = u8::try_from(one(&[2, 6, 7])).unwrap();
    for stream in &mut network.streams {
        stream.cyclic = one(&[0, 1, 1]) == 1;
        stream.pcp = if stream.cyclic {
            pcp
        } else {
            u8::try_from(one(&[0, 1])).unwrap()
        };
    }
    assert_eq!(network.cyclic_faults(), []);
    network.has_cyclic_streams().then_some(network)
}

/// Every frame of a cyclic stream leaves in the cycle after the one in which it came, whenever those begin within the
/// clocks' error. No promise is exceeded, of delay, jitter and memory, neither of cyclic nor of other streams.
#[test]
fn no_promise_is_exceeded_with_cyclic_streams() {
    let (mut planned, mut compared, mut tight, mut crowded) = (0, 0, 0, 0);
    let seeds = std::env::var("RTWIRE_SIMULATIONS").map_or(600, |count| count.parse().unwrap());
    for seed in 0..seeds {
        let mut dice = Dice::new(seed + 1);
        let Some(network) = with_cycles(&mut dice) else {
            continue;
        };
        let Ok(plan) = plan(&network, &Options::default()) else {
            // What comes in a cycle is too much for the next one.
            let options = Options {
                ignore_limits: true,
                ..Options::default()
            };
            let Ok(plan) = plan(&network, &options) else {
                continue;
            };
            let faults = Faults {
                cyclic: plan.cyclic.as_ref(),
                ..Faults::default()
            };
            let broken = compare_with(&network, &plan, Behaviour::Random, &mut dice, faults);
            crowded += usize::from(broken.is_err_and(|it| it.contains("missed")));
            continue;
        };
        planned += 1;
        for behaviour in [
            Behaviour::Greedy,
            Behaviour::GreedyPrompt,
            Behaviour::Random,
            Behaviour::Random,
        ] {
            let faults = Faults {
                cyclic: plan.cyclic.as_ref(),
                ..Faults::default()
            };
            let used = compare_with(&network, &plan, behaviour, &mut dice, faults)
                .unwrap_or_else(|it| panic!("seed {seed}: {it}\n{network:?}\n{plan:?}"));
            compared += 1;
            tight += usize::from(used >= 80);
        }
    }
    println!(
        "{compared} simulations of {planned} networks, {tight} used 80 % of a promise or more; of those refused {crowded} missed a cycle"
    );
    assert!(planned > 100, "{planned}");
    assert!(tight > 40, "{tight}");
    assert!(crowded > 0, "what is refused never goes wrong");
}

/// One stream over one switch, whose frame takes 123 us of a cycle of 200 us. Two of them in a cycle are too much.
fn one_a_cycle(interval_ns: u64, tick_error_us: u64, clock_error_us: u64, beside: bool) -> Network {
    let beside = if beside {
        "[[best-effort]]\nhost = \"a\"\nto = [\"b\"]\nrate = \"3 Mbit/s\"\nframe = \"60 B\"\n"
    } else {
        ""
    };
    let text = format!(
        "[network]\nname = \"one\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-error = \"{clock_error_us} us\"\n\
         [schedule]\ncycle = \"200 us\"\n[[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nqueues = 8\ngates = \"unlimited\"\n\
         [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"s\", \"b\"]\n\
         [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"b\"]\nframe = \"1514 B\"\ninterval = \"{interval_ns} ns\"\n\
         tick-error = \"{tick_error_us} us\"\npriority = 6\nschedule = \"cyclic\"\n{beside}"
    );
    read(&text, "one.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The clocks' error, the tick error and the talker's own port each bring a second frame into a cycle. With an interval that is longer
/// by that and a nanosecond there is one, and no frame misses its cycle.
#[test]
fn each_reason_for_a_second_frame_in_a_cycle_is_counted() {
    // The time by which an interval must be longer than the cycle.
    for (tick_error_us, clock_error_us, beside, longer_ns) in [
        (0, 2, false, 4_000),
        (4, 0, false, 4_000),
        // A frame of best effort that has begun takes 6.72 us.
        (0, 0, true, 6_720),
    ] {
        let of = |interval_ns| one_a_cycle(interval_ns, tick_error_us, clock_error_us, beside);
        let options = |ignore_limits| Options {
            ignore_limits,
            ..Options::default()
        };
        let missed = |network: &Network| {
            let plan = plan(network, &options(true)).unwrap();
            let faults = Faults {
                cyclic: plan.cyclic.as_ref(),
                ..Faults::default()
            };
            let one = |seed| {
                let mut dice = Dice::new(seed);
                let outcome = simulate_with(
                    network,
                    Behaviour::Random,
                    200_000_000_000,
                    &mut dice,
                    faults,
                );
                outcome.missed
            };
            (1..=40).map(one).sum::<u64>()
        };
        let name = format!("tick error {tick_error_us}, clock error {clock_error_us}, {beside}");
        // The delay at the talker is rounded up, by less.
        let good = of(200_000 + longer_ns + 1);
        let planned = plan(&good, &options(false)).unwrap_or_else(|it| panic!("{name}: {it}"));
        assert_eq!(planned.cyclic.unwrap().ports[0].cycle_frames, 1, "{name}");
        assert_eq!(missed(&good), 0, "{name}");
        let tight = of(200_000 + longer_ns - 1);
        let refused = plan(&tight, &options(false)).unwrap_err();
        assert!(
            matches!(refused.reasons[..], [Reason::Cycle { .. }]),
            "{name}: {refused}"
        );
        // Rare, and so shown with an interval at which it is not.
        assert!(missed(&of(200_000 + longer_ns / 2)) > 0, "{name}");
    }
}

/// A frame over two switches. Cable, clocks, latency and another frame each take their part of a cycle. The least cycle that is
/// accepted has room for all of them. In one that lacks half of a part a frame may come too late to the next switch.
#[test]
fn each_part_of_a_cycle_is_needed() {
    let of = |cycle_ns: u64, (cable, clock, latency, beside): (u64, u64, u64, bool)| {
        let beside = if beside {
            "[[best-effort]]\nhost = \"c\"\nto = [\"b\"]\nrate = \"10 Mbit/s\"\nframe = \"1514 B\"\n"
        } else {
            ""
        };
        let switch = |name: &str, latency: u64| {
            format!(
                "[[switch]]\nname = \"{name}\"\nbuffer = \"1 MB\"\nqueues = 8\ngates = \"unlimited\"\nlatency = \"{latency} us\"\n"
            )
        };
        let text = format!(
            "[network]\nname = \"two\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-error = \"{clock} us\"\n\
             [schedule]\ncycle = \"{cycle_ns} ns\"\nbest-effort-share = 0\n{}{}[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
             [[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"c\", \"s\"]\n[[link]]\nends = [\"s\", \"t\"]\n\
             cable-delay = \"{cable} us\"\n[[link]]\nends = [\"t\", \"b\"]\nrate = \"1 Gbit/s\"\n\
             [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"b\"]\nframe = \"1514 B\"\ninterval = \"1 ms\"\n\
             tick-error = \"0 us\"\npriority = 6\nschedule = \"cyclic\"\n{beside}",
            switch("s", latency),
            switch("t", 0),
        );
        read(&text, "two.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"))
    };
    for (parts, part_ns) in [
        ((50, 0, 0, false), 50_000),
        ((0, 20, 0, false), 40_000),
        ((0, 0, 50, false), 50_000),
        ((0, 0, 0, true), 123_040),
    ] {
        let options = |ignore_limits| Options {
            ignore_limits,
            ..Options::default()
        };
        let fits = |cycle_ns| plan(&of(cycle_ns, parts), &options(false)).is_ok();
        let (mut short, mut long) = (100_000, 500_000);
        assert!(!fits(short) && fits(long), "{parts:?}");
        while long - short > 1 {
            let middle = u64::midpoint(short, long);
            if fits(middle) {
                long = middle;
            } else {
                short = middle;
            }
        }
        // The frame takes 123.04 us. What comes with the end of a cycle is too late.
        assert_eq!(long, 123_040 + part_ns + 1, "{parts:?}");
        let broken = |cycle_ns| {
            let network = of(cycle_ns, parts);
            let plan = plan(&network, &options(true)).unwrap();
            let faults = Faults {
                cyclic: plan.cyclic.as_ref(),
                ..Faults::default()
            };
            let one = |seed| {
                let mut dice = Dice::new(seed);
                compare_with(&network, &plan, Behaviour::Random, &mut dice, faults).is_err()
            };
            (1..=200).filter(|seed| one(*seed)).count()
        };
        assert_eq!(broken(long), 0, "{parts:?}");
        assert!(broken(long - part_ns / 2) > 0, "{parts:?}");
    }
}

/// Nothing is promised if a cycle may be missed: neither to cyclic streams nor to others.
#[test]
fn a_plan_whose_cycles_fail_promises_nothing() {
    let network = one_a_cycle(150_000, 0, 0, true);
    let refused = plan(&network, &Options::default()).unwrap_err();
    assert!(refused.is_unbounded(), "{refused}");
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    let plan = plan(&network, &options).unwrap();
    for promise in plan.streams.iter().flat_map(|it| &it.promises) {
        assert_eq!((promise.delay_ns, promise.jitter_ns), (None, None));
    }
    assert!(plan.ports.iter().all(|port| port.backlog_bytes.is_none()));
}

/// A host that was late may hand a frame over as fast as it likes. So one frame of 123.04 us that is on time may follow one that is
/// late by that and its latency, and both come in a cycle of 250 us.
#[test]
fn a_hosts_latency_brings_frames_together() {
    let mut network = one_a_cycle(251_100, 0, 0, false);
    network.schedule.cycle_ns = Some(250_000);
    let frames = |network: &Network| {
        let plan = plan(network, &Options::default()).unwrap();
        plan.cyclic.unwrap().ports[0].cycle_frames
    };
    assert_eq!(frames(&network), 1);
    network.schedule.cycle_ns = Some(250_999);
    network.hosts[0].latency_ns = 1_000;
    network.links[1].rate_bps = 1_000_000_000;
    assert_eq!(frames(&network), 2);
}

/// Two hosts at one link have no cycles, but a jitter that is promised and judged.
#[test]
fn the_jitter_between_hosts_at_one_link_is_judged() {
    let text = |jitter: &str| {
        format!(
            "[network]\nname = \"direct\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n[schedule]\ncycle = \"200 us\"\n\
             [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\n\
             [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"b\"]\nframe = \"100 B\"\ninterval = \"1 ms\"\npriority = 6\n\
             schedule = \"cyclic\"\njitter = \"{jitter}\"\n[[best-effort]]\nhost = \"a\"\nto = [\"b\"]\nrate = \"5 Mbit/s\"\n"
        )
    };
    let planned = |jitter: &str| {
        let network = read(&text(jitter), "direct.toml", &[]).unwrap();
        plan(&network, &Options::default())
    };
    // One frame of best effort has begun: 1538 B.
    let good = planned("200 us").unwrap();
    assert_eq!(good.streams[0].promises[0].jitter_ns, Some(123_040));
    let refused = planned("1 us").unwrap_err();
    assert!(
        matches!(refused.reasons[..], [Reason::Jitter { .. }]),
        "{refused}"
    );
}

//! Routers: promises by hand, with and without re-marking; routes that pass none; and a second simulator of the same network,
//! which knows switches only.

mod networks;

use crate::simulated::{compare, random_description};
use crate::simulator::{Behaviour, Dice};
use networks::{routed, switched, without_tables};
use rtwire_plan::{ChangeKind, Network, NodeKind, Options, Plan, plan, plan_file, read, verify};

fn planned(network: &Network) -> Plan {
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    plan(network, &options).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// `x` of 524 bytes on the wire (41.92 us) passes two routers and a switch, where `y` and `z` of 1024 (81.92 us) and priority 4 meet
/// it. Each sends one frame in 1 ms, and no node has a latency.
fn two_routers(first: &str, second: &str, x: &str) -> String {
    let mut text = format!(
        "[network]\nname = \"t\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[router]]\nname = \"r1\"\nbuffer = \"1 MB\"\nqueues = 8\n{first}\n\
         [[router]]\nname = \"r2\"\nbuffer = \"1 MB\"\nqueues = 8\n{second}\n\
         [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nqueues = 8\n[[host]]\nname = \"L\"\n[[link]]\nends = [\"s\", \"L\"]\n\
         [[link]]\nends = [\"r1\", \"r2\"]\n[[link]]\nends = [\"r2\", \"s\"]\n"
    );
    for (name, at, bytes, more) in [
        ("x", "r1", 500, x),
        ("y", "s", 1000, "priority = 4"),
        ("z", "s", 1000, "priority = 4"),
    ] {
        text += &format!(
            "[[host]]\nname = \"{name}-host\"\n[[link]]\nends = [\"{name}-host\", \"{at}\"]\n\
             [[stream]]\nname = \"{name}\"\ntalker = \"{name}-host\"\nlisteners = [\"L\"]\nframe = \"{bytes} B\"\n\
             interval = \"1 ms\"\n{more}\n"
        );
    }
    text
}

const X: &str = "transport = \"udp\"\npriority = 7\ndscp = 46";

fn network(text: &str) -> Network {
    read(text, "t.toml", &[]).unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}

/// `x` has priority 7 at its host. Its four links take 4 x 41.92 us.
///
/// - Both routers have 46 = 6, or no table: 46 is 5 by its upper three bits. Then `x` is above `y` and `z` at the switch, where one
///   of them has just begun: 81.92 us more.
/// - The second router has 46 = 3, or the first one goes on with 10, which is 1: `x` is below both there, and waits for
///   2 x 81.92 us. The priority that it has behind the first router is another one.
/// - The first router has 46 = 3 alone: nothing is in the way there, and behind the second `x` is above again.
/// - Without `dscp` it is 56, the class selector of priority 7.
#[test]
fn promises_with_and_without_remarking_are_those_by_hand() {
    let own = 4 * 41_920;
    let (one, both) = (own + 81_920, own + 2 * 81_920);
    let plain = "transport = \"udp\"\npriority = 7";
    for (first, second, x, promise, priorities) in [
        ("", "", X, one, [7, 5, 5, 5]),
        (
            "dscp-priority = { 46 = 6 }",
            "dscp-priority = { 46 = 6 }",
            X,
            one,
            [7, 6, 6, 6],
        ),
        (
            "dscp-priority = { 46 = 6 }",
            "dscp-priority = { 46 = 3 }",
            X,
            both,
            [7, 6, 3, 3],
        ),
        ("dscp-priority = { 46 = 3 }", "", X, one, [7, 3, 5, 5]),
        ("remark = { 46 = 10 }", "", X, both, [7, 5, 1, 1]),
        (
            "remark = { 46 = 10 }",
            "dscp-priority = { 10 = 6, 46 = 0 }",
            X,
            one,
            [7, 5, 6, 6],
        ),
        // What the last router writes is read by none.
        ("", "remark = { 46 = 0 }", X, one, [7, 5, 5, 5]),
        ("", "", plain, one, [7, 7, 7, 7]),
        (
            "remark = { 56 = 46 }",
            "dscp-priority = { 46 = 0 }",
            plain,
            both,
            [7, 7, 0, 0],
        ),
    ] {
        let network = network(&two_routers(first, second, x));
        assert_eq!(network.check(), Ok(()));
        let plan = planned(&network);
        let found = plan.streams[0].promises[0].clone();
        let shown = format!("{first} | {second} | {x}");
        assert_eq!(found.delay_ns, Some(promise), "{shown}");
        assert_eq!(found.priorities, priorities, "{shown}");
        // The queues of x at the ports of its route: with eight queues the priority itself.
        for (pair, priority) in found.route.windows(2).zip(priorities) {
            let mut ports = plan.ports.iter();
            let port = ports.find(|port| port.node == pair[0] && port.port == pair[1]);
            let mut classes = port.unwrap().classes.iter();
            let own = classes.find(|class| class.flows.contains(&"x".to_owned()));
            assert_eq!(own.unwrap().class, priority, "{shown} {pair:?}");
        }
        // Its host has the stream's own priority.
        let identity = &plan.streams[0].identity;
        assert_eq!((identity.pcp, identity.queue), (7, 7));
        assert_eq!(identity.dscp, Some(if x == X { 46 } else { 56 }));
        assert_eq!(plan.streams[1].identity.dscp, None);
        assert!(plan.streams[1].promises[0].priorities.is_empty());
        let again = plan_file::read(plan_file::text(&plan).as_bytes(), "plan.json").unwrap();
        assert_eq!(again.network.switches, network.switches);
        assert!(verify(&again).is_empty());
    }
}

/// A port of a router is told from one of a switch. Another table makes another plan.
#[test]
fn the_plan_names_routers_and_its_fingerprint_has_their_tables() {
    let plain = planned(&network(&two_routers("", "", X)));
    let kind = |node: &str| {
        let mut ports = plain.ports.iter();
        ports.find(|port| port.node == node).unwrap().node_kind
    };
    assert_eq!(
        (kind("x-host"), kind("r1"), kind("s")),
        (NodeKind::Host, NodeKind::Router, NodeKind::Switch)
    );
    for (table, x) in [
        ("remark = { 46 = 10 }", X),
        ("", "transport = \"udp\"\npriority = 7"),
    ] {
        let other = planned(&network(&two_routers(table, "", x)));
        assert_ne!(other.plan_id, plain.plan_id, "{table} {x}");
    }
}

/// Best effort of 1538 bytes on the wire (123.04 us) has DSCP 0. It is below a stream of priority 2 (81.92 us) at the router, unless
/// its table has a priority for 0: then the stream waits for the whole burst of three.
#[test]
fn best_effort_has_dscp_0_at_a_router() {
    let text = |table: &str| {
        format!(
            "[network]\nname = \"t\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
             [[router]]\nname = \"r\"\nbuffer = \"1 MB\"\nqueues = 8\n{table}\n\
             [[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[host]]\nname = \"L\"\n\
             [[link]]\nends = [\"A\", \"r\"]\n[[link]]\nends = [\"B\", \"r\"]\nrate = \"1 Gbit/s\"\n[[link]]\nends = [\"r\", \"L\"]\n\
             [[stream]]\nname = \"x\"\ntalker = \"A\"\nlisteners = [\"L\"]\nframe = \"1000 B\"\ninterval = \"1 ms\"\n\
             priority = 2\ntransport = \"udp\"\n\
             [[best-effort]]\nhost = \"B\"\nto = [\"L\"]\nrate = \"1 kbit/s\"\nburst = \"4614 B\"\n"
        )
    };
    let promise = |table: &str| planned(&network(&text(table))).streams[0].promises[0].delay_ns;
    assert_eq!(promise(""), Some(2 * 81_920 + 123_040));
    // Three frames over a link ten times as fast: at the queue together when the last of them has come.
    let three = promise("dscp-priority = { 0 = 3 }").unwrap();
    assert!(three > 2 * 81_920 + 2 * 123_040, "{three}");
    assert_eq!(promise("remark = { 0 = 56 }"), Some(2 * 81_920 + 123_040));
}

/// From A to B there are a way of two links through a router and one of three through switches.
const TWO_WAYS: &str = r#"
[network]
name = "two ways"
[defaults]
link-rate = "100 Mbit/s"
[[router]]
name = "r"
buffer = "100 kB"
[[switch]]
name = "s1"
buffer = "100 kB"
[[switch]]
name = "s2"
buffer = "100 kB"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "r"]
[[link]]
ends = ["r", "B"]
[[link]]
ends = ["A", "s1"]
[[link]]
ends = ["s1", "s2"]
[[link]]
ends = ["s2", "B"]
"#;

fn stream(name: &str, more: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"A\"\nlisteners = [\"B\"]\nframe = \"200 B\"\ninterval = \"1 ms\"\n{more}\n"
    )
}

#[test]
fn only_udp_streams_and_best_effort_take_a_way_through_a_router() {
    let text = TWO_WAYS.to_owned()
        + &stream("layer2", "")
        + &stream("udp", "transport = \"udp\"")
        + &stream(
            "stated",
            "transport = \"udp\"\nroute = [\"A\", \"s1\", \"s2\", \"B\"]",
        )
        + "[[best-effort]]\nhost = \"A\"\nto = [\"B\"]\nrate = \"1 Mbit/s\"\n";
    let network = network(&text);
    let route = |at: usize| network.streams[at].routes[0].join(" ");
    assert_eq!(route(0), "A s1 s2 B");
    assert_eq!(route(1), "A r B");
    assert_eq!(route(2), "A s1 s2 B");
    assert_eq!(network.best_effort[0].routes[0].join(" "), "A r B");
    let rule = planned(&network).routes.unwrap();
    assert!(
        rule.ends_with("only UDP streams and best effort pass routers"),
        "{rule}"
    );
}

/// Each fault is told once, at the place that is wrong.
#[test]
fn a_stream_that_passes_no_router_says_why() {
    let gates = "gates = \"unlimited\"\nqueues = 8\n";
    for (more, place, why) in [
        (
            "route = [\"A\", \"r\", \"B\"]",
            "\"r\", \"B\"]",
            "route: it passes router \"r\", but RTDiP upon Ethernet is layer 2: routers forward UDP only",
        ),
        (
            "transport = \"udp\"\nschedule = \"time-triggered\"\nroute = [\"A\", \"r\", \"B\"]",
            "\"r\", \"B\"]",
            "route: it passes router \"r\", but it is time-triggered: routers have no gates (802.1Qbv) for its windows",
        ),
    ] {
        let text = TWO_WAYS.replace("name = \"s1\"\n", &format!("name = \"s1\"\n{gates}"));
        let text = text + &stream("one", more);
        let faults = read(&text, "t.toml", &[]).unwrap_err();
        assert_eq!(faults.faults.len(), 1, "{faults}");
        let fault = &faults.faults[0];
        assert_eq!(fault.message, why);
        let line = text.lines().nth(fault.line - 1).unwrap();
        assert!(line[fault.column - 1..].starts_with(place), "{faults}");
    }
    // Without the way through switches.
    let only = TWO_WAYS.replace("[[link]]\nends = [\"s1\", \"s2\"]\n", "");
    for (more, why) in [
        (
            "",
            "RTDiP upon Ethernet is layer 2: routers forward UDP only",
        ),
        (
            "transport = \"udp\"\nredundancy = \"disjoint\"",
            "redundancy (802.1CB) is layer 2: no router forwards its sequence numbers",
        ),
        (
            "transport = \"udp\"\nschedule = \"time-triggered\"",
            "it is time-triggered: routers have no gates (802.1Qbv) for its windows",
        ),
    ] {
        let faults = read(&(only.clone() + &stream("one", more)), "t.toml", &[]).unwrap_err();
        assert_eq!(faults.faults.len(), 1, "{faults}");
        let message = format!("\"B\" is reached from \"A\" through router \"r\" only, but {why}");
        assert_eq!(faults.faults[0].message, message);
        assert!(
            faults.faults[0].excerpt.starts_with("listeners"),
            "{faults}"
        );
    }
    let udp = read(
        &(only + &stream("one", "transport = \"udp\"")),
        "t.toml",
        &[],
    );
    assert_eq!(udp.unwrap().streams[0].routes[0].join(" "), "A r B");
}

/// Two copies would pass the router and the switches: they do not share a link, but one of them is stopped.
#[test]
fn two_copies_take_no_router() {
    // A and B behind a switch each, so that the ways part between switches.
    let text = "[network]\nname = \"t\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n\
        [[switch]]\nname = \"a\"\nbuffer = \"1 MB\"\n[[switch]]\nname = \"b\"\nbuffer = \"1 MB\"\n\
        [[KIND]]\nname = \"r\"\nbuffer = \"1 MB\"\n[[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n\
        [[link]]\nends = [\"A\", \"a\"]\n[[link]]\nends = [\"b\", \"B\"]\n[[link]]\nends = [\"a\", \"b\"]\n\
        [[link]]\nends = [\"a\", \"r\"]\n[[link]]\nends = [\"r\", \"b\"]\n";
    let text = text.to_owned() + &stream("one", "redundancy = \"disjoint\"");
    let switches = network(&text.replace("KIND", "switch"));
    assert_eq!(switches.streams[1].routes[0].join(" "), "A a r b B");
    let faults = read(&text.replace("KIND", "router"), "t.toml", &[]).unwrap_err();
    assert_eq!(faults.faults.len(), 1, "{faults}");
    assert!(
        faults.faults[0].message.ends_with(
            "share no link between switches; two ways would pass router \"r\", but redundancy (802.1CB) is layer 2: no router forwards its sequence numbers"
        ),
        "{faults}"
    );
}

/// A plan file is refused if a stream passes a router that does not forward it, or a router cuts through.
#[test]
fn a_spoiled_plan_with_routers_is_refused() {
    let plan = planned(&network(&two_routers("", "", X)));
    type Spoil = fn(&mut Network);
    let spoil: [(Spoil, &str); 5] = [
        (
            |it| it.streams[0].transport = rtwire_plan::network::Transport::Rtdip,
            "`dscp`",
        ),
        (
            |it| {
                it.streams[0].dscp = None;
                it.streams[0].transport = rtwire_plan::network::Transport::Rtdip;
            },
            "passes router \"r1\", but RTDiP upon Ethernet is layer 2",
        ),
        (
            |it| it.streams[0].time_triggered = true,
            "passes router \"r1\", but it is time-triggered",
        ),
        (
            |it| {
                let router = it.switches.iter_mut().find(|it| it.name == "r2").unwrap();
                router.cut_through = rtwire_plan::CutThrough::On;
            },
            "router \"r2\" has cut-through",
        ),
        (
            |it| {
                let router = it.switches.iter_mut().find(|it| it.name == "r2").unwrap();
                router.routing.as_mut().unwrap().remark.insert(46, 64);
            },
            "router \"r2\": DSCP 64 is above 63",
        ),
    ];
    for (spoil, why) in spoil {
        let mut spoiled = plan.clone();
        spoil(&mut spoiled.network);
        let text = plan_file::text(&plan_file::sealed(spoiled));
        let refused = plan_file::read(text.as_bytes(), "plan.json").unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

/// A higher priority helps behind a router only as far as the router reads it: a suggestion is planned with routers.
#[test]
fn a_suggested_priority_is_one_that_routers_read() {
    // x is below y and z at the switch, which takes 331.52 us in all, and above them it takes 249.6 us.
    let deadline = "transport = \"udp\"\npriority = 3\ndeadline = \"300 us\"";
    let options = Options::default();
    let suggested = |first: &str, x: &str| {
        let network = network(&two_routers(first, "", x));
        let refusal = plan(&network, &options).unwrap_err();
        let mut all = refusal.suggestions.into_iter();
        let priority = all.find(|one| one.kind == ChangeKind::Priority);
        priority.map(|one| one.change)
    };
    // Without `dscp` the class selector grows with the priority.
    assert_eq!(
        suggested("", deadline).unwrap(),
        "priority = 5 for \"x\", in place of 3"
    );
    // The first router makes 40 a 0: 48 is the next.
    assert_eq!(
        suggested("remark = { 40 = 0 }", deadline).unwrap(),
        "priority = 6 for \"x\", in place of 3"
    );
    // Routers read the stated code and never the priority.
    assert_eq!(suggested("", &format!("{deadline}\ndscp = 10")), None);
}

/// Returns a random network with routers, and the same one with switches in their place.
fn random(seed: u64) -> (Network, Network, Dice) {
    let mut dice = Dice::new(seed + 1);
    let text = random_description(&mut dice);
    let plain = read(&text, "random.toml", &[]).unwrap();
    let network = routed(&plain, &mut |limit| dice.below(limit));
    assert_eq!(network.check(), Ok(()), "seed {seed}");
    let switches = switched(&network).unwrap();
    assert_eq!(switches.check(), Ok(()), "seed {seed}");
    (network, switches, dice)
}

/// The promises and the needs for memory are those of switches at which the queue of each stream is stated. The second simulator,
/// which plays these switches, breaks no promise of the routers, and breaks promises that were made without their tables.
#[test]
fn no_promise_is_exceeded_behind_routers() {
    let (mut passing, mut differ, mut tight, mut broken) = (0, 0, 0, 0);
    // More with RTWIRE_SIMULATIONS=5000.
    let seeds =
        std::env::var("RTWIRE_SIMULATIONS").map_or(400_usize, |count| count.parse().unwrap());
    for seed in 0..seeds as u64 {
        let (network, switches, mut dice) = random(seed);
        let (plan, other) = (planned(&network), planned(&switches));
        passing += usize::from(network.streams.iter().any(|it| it.dscp.is_some()));
        for (ours, theirs) in plan.streams.iter().zip(&other.streams) {
            for (ours, theirs) in ours.promises.iter().zip(&theirs.promises) {
                let of =
                    |it: &rtwire_plan::Promise| (it.route.clone(), it.delay_ns, it.terms.clone());
                assert_eq!(of(ours), of(theirs), "seed {seed}");
            }
        }
        for (ours, theirs) in plan.ports.iter().zip(&other.ports) {
            assert_eq!(ours.classes, theirs.classes, "seed {seed}");
            assert_eq!(ours.backlog_bytes, theirs.backlog_bytes, "seed {seed}");
            assert_eq!(ours.loeser_haertig, theirs.loeser_haertig, "seed {seed}");
        }
        let mut plain = network.clone();
        without_tables(&mut plain);
        let plain = planned(&plain);
        let delays = |plan: &Plan| {
            let promises = plan.streams.iter().flat_map(|it| &it.promises);
            promises.map(|it| it.delay_ns).collect::<Vec<_>>()
        };
        differ += usize::from(delays(&plain) != delays(&plan));
        let mut most = 0;
        for behaviour in [
            Behaviour::Greedy,
            Behaviour::GreedyPrompt,
            Behaviour::Random,
        ] {
            match compare(&switches, &plan, behaviour, &mut dice) {
                Ok(used) => most = most.max(used),
                Err(message) => panic!("seed {seed}: {message}\n{network:?}"),
            }
            broken += usize::from(compare(&switches, &plain, behaviour, &mut dice).is_err());
        }
        tight += usize::from(most >= 80);
    }
    println!(
        "{seeds} networks: {passing} with a stated DSCP, {differ} with other promises by their tables; {tight} used 80 % of a promise; {broken} simulations exceed promises without tables"
    );
    assert!(
        passing > seeds / 2 && differ > seeds / 4,
        "{passing} {differ}"
    );
    assert!(tight > seeds / 4 && broken > seeds / 20, "{tight} {broken}");
}

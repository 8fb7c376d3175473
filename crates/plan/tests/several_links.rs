//! Hosts with several links: the routes of their streams, of two copies, and the promises there.

use std::fmt::Write as _;

use crate::simulated::{compare, random_description};
use crate::simulator::{Behaviour, Dice};
use rtwire_plan::{Network, Options, Plan, plan, read};

/// Two hosts at two switches that no link joins, one host at the second, and a cable between two of them.
const TWO_NETWORKS: &str = r#"
[network]
name = "two networks"
[defaults]
link-rate = "100 Mbit/s"
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
[[host]]
name = "C"
[[link]]
ends = ["A", "s1"]
[[link]]
ends = ["A", "s2"]
[[link]]
ends = ["s1", "B"]
[[link]]
ends = ["s2", "B"]
[[link]]
ends = ["C", "s2"]
"#;

fn stream(name: &str, from: &str, to: &str, more: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"{from}\"\nlisteners = [{to}]\nframe = \"1000 B\"\ninterval = \"1 ms\"\n{more}\n"
    )
}

fn network(streams: &str) -> Network {
    read(&format!("{TWO_NETWORKS}{streams}"), "two.toml", &[])
        .unwrap_or_else(|faults| panic!("{faults}"))
}

fn planned(network: &Network) -> Plan {
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    plan(network, &options).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[test]
fn a_stream_leaves_over_the_first_link_of_its_route() {
    let streams = stream("one", "A", "\"B\"", "")
        + &stream("stated", "A", "\"B\"", "route = [\"A\", \"s2\", \"B\"]")
        + &stream("far", "A", "\"C\"", "")
        + &stream("all", "A", "\"B\", \"C\"", "")
        + &stream("back", "C", "\"A\"", "");
    let network = network(&streams);
    assert_eq!(network.check(), Ok(()));
    let route = |stream: usize, way: usize| network.streams[stream].routes[way].join(" ");
    assert_eq!(route(0, 0), "A s1 B");
    assert_eq!(route(1, 0), "A s2 B");
    // B joins both switches, but forwards nothing.
    assert_eq!(route(2, 0), "A s2 C");
    assert_eq!(
        (route(3, 0), route(3, 1)),
        ("A s1 B".into(), "A s2 C".into())
    );
    assert_eq!(route(4, 0), "C s2 A");
    let plan = planned(&network);
    // A frame of 1024 B on the wire: 81.92 us. Two streams share A's first link: one waits for the other there.
    let promise = |stream: usize| plan.streams[stream].promises[0].delay_ns.unwrap();
    assert_eq!(promise(0), 3 * 81_920);
    assert_eq!(promise(1), 4 * 81_920);
    assert_eq!(promise(4), 2 * 81_920);
    let passing = |node: &str, to: &str| {
        let mut ports = plan.ports.iter();
        let port = ports.find(|port| port.node == node && port.port == to);
        let flows = port.unwrap().classes.iter().flat_map(|class| &class.flows);
        flows.cloned().collect::<Vec<_>>()
    };
    assert_eq!(passing("A", "s1"), ["one", "all"]);
    assert_eq!(passing("A", "s2"), ["stated", "far", "all"]);
}

#[test]
fn a_caller_with_one_interface_names_the_host_and_its_links() {
    let network = network(&stream("one", "A", "\"C\"", ""));
    let message = network.without_several_links(None, "not here").unwrap_err();
    assert!(
        message.starts_with("host \"A\" has several links, to \"s1\" and \"s2\": it is planned and simulated, but not here\n"),
        "{message}"
    );
    assert!(network.without_several_links(Some("B"), "x").is_err());
    assert_eq!(network.without_several_links(Some("C"), "x"), Ok(()));
}

/// Returns every route from one node to another through switches, as names.
fn all_routes(network: &Network, way: &mut Vec<String>, to: &str, found: &mut Vec<Vec<String>>) {
    let at = way.last().unwrap().clone();
    if at == to {
        found.push(way.clone());
        return;
    }
    if way.len() > 1 && network.host(&at).is_some() {
        return;
    }
    for next in network.neighbours(&at) {
        if !way.iter().any(|node| node == next) {
            way.push(next.to_owned());
            all_routes(network, way, to, found);
            way.pop();
        }
    }
}

/// Returns the links of a route, each with its ends in order.
fn links(route: &[String]) -> Vec<(&str, &str)> {
    let pairs = route.windows(2).map(|pair| (&*pair[0], &*pair[1]));
    pairs.map(|(a, b)| (a.min(b), a.max(b))).collect()
}

/// Returns a number for the hosts whose link two routes share: 0 for none, 1 for B, 2 for A, 3 for both. `None` if they share
/// a link between switches.
fn shared_ends(one: &[String], other: &[String]) -> Option<u32> {
    let theirs = links(other);
    let shared = links(one).into_iter().filter(|link| theirs.contains(link));
    shared
        .map(|(a, _)| match a {
            "A" => Some(2),
            "B" => Some(1),
            _ => None,
        })
        .sum()
}

/// Two copies share as little as they can: nothing, or one end's link, or both ends' links, and are short then.
#[test]
fn two_copies_share_only_the_link_of_a_host_that_has_no_other_way() {
    let (mut apart, mut half, mut refused) = (0, 0, 0);
    for seed in 0..400 {
        let mut dice = Dice::new(seed + 1);
        let switches = 2 + dice.below(4);
        let mut text =
            "[network]\nname = \"mesh\"\n[defaults]\nlink-rate = \"1 Gbit/s\"\n".to_owned();
        for at in 0..switches {
            writeln!(text, "[[switch]]\nname = \"s{at}\"\nbuffer = \"1 MB\"").unwrap();
        }
        let mut joined: Vec<(String, String)> = Vec::new();
        for _ in 0..switches + dice.below(4) {
            let (a, b) = (dice.below(switches), dice.below(switches));
            joined.push((format!("s{}", a.min(b)), format!("s{}", a.max(b))));
        }
        for host in ["A", "B"] {
            writeln!(text, "[[host]]\nname = \"{host}\"").unwrap();
            for _ in 0..=dice.below(3) {
                joined.push((host.to_owned(), format!("s{}", dice.below(switches))));
            }
        }
        joined.sort();
        joined.dedup();
        for (a, b) in joined.iter().filter(|(a, b)| a != b) {
            writeln!(text, "[[link]]\nends = [\"{a}\", \"{b}\"]").unwrap();
        }
        let mut routes = Vec::new();
        let plain = match read(
            &(text.clone() + &stream("x", "A", "\"B\"", "")),
            "m.toml",
            &[],
        ) {
            Ok(network) => network,
            Err(_) => continue,
        };
        all_routes(&plain, &mut vec!["A".to_owned()], "B", &mut routes);
        let shortest = routes.iter().map(Vec::len).min().unwrap();
        assert_eq!(plain.streams[0].routes[0].len(), shortest, "{text}");
        // Shared ends first: none, the listener's only, the talker's only, both; then the number of links.
        let mut best: Option<(u32, usize)> = None;
        for (at, one) in routes.iter().enumerate() {
            for other in &routes[at + 1..] {
                let Some(ends) = shared_ends(one, other) else {
                    continue;
                };
                let rank = (ends, one.len() + other.len() - 2);
                best = Some(best.map_or(rank, |best| best.min(rank)));
            }
        }
        let twice = stream("x", "A", "\"B\"", "redundancy = \"disjoint\"");
        match read(&(text.clone() + &twice), "mesh.toml", &[]) {
            Ok(network) => {
                let ways = [&network.streams[0].routes[0], &network.streams[1].routes[0]];
                assert!(ways.iter().all(|way| routes.contains(way)), "{text}");
                let rank =
                    shared_ends(ways[0], ways[1]).expect("no link between switches is shared");
                assert_eq!(
                    best,
                    Some((rank, ways[0].len() + ways[1].len() - 2)),
                    "seed {seed}: {ways:?}\n{text}"
                );
                apart += u32::from(rank == 0);
                half += u32::from(rank == 1 || rank == 2);
            }
            Err(faults) => {
                assert_eq!(best, None, "seed {seed}: {faults}\n{text}");
                assert!(faults.to_string().contains("no two ways"), "{faults}");
                refused += 1;
            }
        }
    }
    println!("{apart} pairs share nothing, {half} one end's link, {refused} refused");
    assert!(
        apart > 30 && half > 20 && refused > 20,
        "{apart} {half} {refused}"
    );
}

/// A second simulator finds no delay and no backlog beyond the promises, where hosts send and receive over several links.
#[test]
fn no_promise_is_exceeded_with_several_links() {
    let (mut tight, mut several) = (0, 0);
    for seed in 0..300 {
        let mut dice = Dice::new(seed + 1);
        let mut text = random_description(&mut dice);
        let count = |text: &str, what: &str| text.matches(what).count() as u64;
        let (hosts, switches) = (count(&text, "[[host]]"), count(&text, "[[switch]]"));
        for _ in 0..1 + dice.below(hosts) {
            let (host, switch) = (dice.below(hosts), dice.below(switches));
            if !text.contains(&format!("[\"h{host}\", \"s{switch}\"]")) {
                writeln!(
                    text,
                    "[[link]]\nends = [\"h{host}\", \"s{switch}\"]\nrate = \"100 Mbit/s\""
                )
                .unwrap();
            }
        }
        let network = read(&text, "random.toml", &[])
            .unwrap_or_else(|faults| panic!("seed {seed}: {faults}\n{text}"));
        assert_eq!(network.check(), Ok(()));
        // A talker that uses two links in one simulation.
        let first = |host: &str| {
            let streams = network
                .streams
                .iter()
                .filter(|stream| stream.talker == host);
            let ways = streams.flat_map(|stream| &stream.routes);
            ways.map(|route| route[1].clone())
                .collect::<std::collections::BTreeSet<_>>()
        };
        several += usize::from(network.hosts.iter().any(|host| first(&host.name).len() > 1));
        let plan = planned(&network);
        let mut most = 0;
        for behaviour in [
            Behaviour::Greedy,
            Behaviour::GreedyPrompt,
            Behaviour::Random,
        ] {
            match compare(&network, &plan, behaviour, &mut dice) {
                Ok(used) => most = most.max(used),
                Err(message) => panic!("seed {seed}: {message}\n{text}"),
            }
        }
        tight += usize::from(most >= 80);
    }
    println!("{several} networks with a talker on two links; {tight} used 80 % of a promise");
    assert!(several > 50 && tight > 100, "{several} {tight}");
}

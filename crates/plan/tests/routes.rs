//! Networks with loops: the routes of streams, and the promises of two copies over two routes.

use std::fmt::Write as _;

use rtwire_plan::{Network, Options, Plan, plan, read};

/// Returns switches s0, s1, … with a host h0, h1, … each, joined by `links`.
fn network(switches: usize, links: &[(usize, usize)], streams: &str) -> Network {
    let mut text =
        "[network]\nname = \"mesh\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n".to_owned();
    for at in 0..switches {
        writeln!(
            text,
            "[[switch]]\nname = \"s{at}\"\nqueues = 8\nbuffer = \"1 MB\"\ngates = \"unlimited\"\n\
             [[host]]\nname = \"h{at}\"\n[[link]]\nends = [\"h{at}\", \"s{at}\"]"
        )
        .unwrap();
    }
    for (a, b) in links {
        writeln!(text, "[[link]]\nends = [\"s{a}\", \"s{b}\"]").unwrap();
    }
    read(&(text + streams), "mesh.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

fn planned(network: &Network) -> Plan {
    plan(network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn stream(name: &str, from: usize, to: &[usize], more: &str) -> String {
    let to: Vec<String> = to.iter().map(|at| format!("\"h{at}\"")).collect();
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"h{from}\"\nlisteners = [{}]\nframe = \"100 B\"\ninterval = \"1 ms\"\n{more}\n",
        to.join(", ")
    )
}

#[test]
fn a_ring_is_planned_without_stated_routes() {
    let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
    let streams = stream("near", 0, &[1], "")
        + &stream("far", 0, &[2], "")
        + &stream("back", 2, &[0], "")
        + &stream(
            "stated",
            0,
            &[1],
            "route = [\"h0\", \"s0\", \"s3\", \"s2\", \"s1\", \"h1\"]",
        )
        + &stream("all", 3, &[0, 1, 2], "priority = 3")
        + "[[best-effort]]\nhost = \"h1\"\nto = [\"h3\"]\nrate = \"1 Mbit/s\"\n";
    let network = network(4, &ring, &streams);
    let plan = planned(&network);
    let route = |at: usize| network.streams[at].routes[0].join(" ");
    assert_eq!(route(0), "h0 s0 s1 h1");
    // Both ways have two links between switches; that over s3 has the last link of the file.
    assert_eq!(route(1), "h0 s0 s1 s2 h2");
    assert_eq!(route(2), "h2 s2 s1 s0 h0");
    assert_eq!(route(3), "h0 s0 s3 s2 s1 h1");
    assert_eq!(network.best_effort[0].routes[0].join(" "), "h1 s1 s2 s3 h3");
    // The ways of a multicast form a tree: what comes to a node comes from one side.
    let mut from = std::collections::BTreeMap::new();
    for route in &network.streams[4].routes {
        for pair in route.windows(2) {
            assert_eq!(*from.entry(&pair[1]).or_insert(&pair[0]), &pair[0]);
        }
    }
    let rule = plan.routes.as_deref().unwrap();
    assert!(rule.contains("fewest links"), "{rule}");
    assert!(network.has_loops());
    // What switches forward by address is the same way.
    let towards = network.towards("h3");
    assert_eq!(
        (towards["s1"], towards["s2"], towards["s3"]),
        ("s2", "s3", "h3")
    );
}

#[test]
fn without_loops_nothing_is_said_of_routes() {
    let network = network(3, &[(0, 1), (1, 2)], &stream("one", 0, &[2], ""));
    assert!(!network.has_loops());
    assert_eq!(planned(&network).routes, None);
}

/// Tests two copies over two routes: each is promised, no link between switches carries both, and one copy survives a
/// cut cable.
#[test]
fn redundant_streams_are_planned_over_two_ways() {
    // The shortest way alone leaves no second one beside it: 0-1-2-3 crosses both.
    let links = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 2), (1, 5), (5, 3)];
    for timed in ["", "priority = 7\nschedule = \"time-triggered\""] {
        let more = format!("redundancy = \"disjoint\"\n{timed}");
        let network = network(6, &links, &stream("twice", 0, &[3], &more));
        let names: Vec<&str> = network.streams.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["twice", "twice~2"]);
        assert_eq!(network.streams[1].copy_of.as_deref(), Some("twice"));
        let plan = planned(&network);
        let ways: Vec<&Vec<String>> = plan
            .streams
            .iter()
            .map(|stream| &stream.promises[0].route)
            .collect();
        let between = |way: &[String]| -> Vec<[String; 2]> {
            let pairs = way[1..way.len() - 1].windows(2);
            pairs
                .map(|pair| {
                    let mut ends = [pair[0].clone(), pair[1].clone()];
                    ends.sort();
                    ends
                })
                .collect()
        };
        let (one, other) = (between(ways[0]), between(ways[1]));
        assert!(one.iter().all(|link| !other.contains(link)), "{ways:?}");
        assert_eq!(one.len() + other.len(), 6);
        assert!(
            plan.streams
                .iter()
                .all(|it| it.promises[0].delay_ns.is_some())
        );
        assert!(
            network
                .without_redundancy()
                .unwrap_err()
                .contains("\"twice\"")
        );
        assert_eq!(
            rtwire_plan::schedule::check::faults(&network, &plan),
            Vec::<String>::new()
        );
    }
}

/// Tests that a queue for a scheduled stream's second copy is closed to other traffic like that of the first.
#[test]
fn the_second_copy_shares_no_queue_either() {
    let links = [(0, 1), (1, 2), (2, 0)];
    let streams = stream(
        "twice",
        0,
        &[1],
        "redundancy = \"disjoint\"\npriority = 7\nschedule = \"time-triggered\"",
    ) + &stream("other", 2, &[1], "priority = 7");
    let network = std::panic::catch_unwind(|| network(3, &links, &streams));
    let message = *network.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("would share queue 7"), "{message}");
}

/// Tests that a change is proposed for the name in the file, which both copies share, and is tried for both.
#[test]
fn suggestions_for_redundant_streams_name_what_is_in_the_file() {
    let links = [(0, 1), (1, 2), (2, 0)];
    let with = |deadline: &str| {
        let more = format!("redundancy = \"disjoint\"\ndeadline = \"{deadline}\"");
        network(3, &links, &stream("twice", 0, &[1], &more))
    };
    let refusal = plan(&with("10 us"), &Options::default()).unwrap_err();
    let changes = refusal.suggestions.iter();
    let changes: Vec<&str> = changes.map(|it| it.change.as_str()).collect();
    let deadline = changes
        .iter()
        .find_map(|change| change.strip_prefix("deadline = \"")?.split('"').next())
        .unwrap_or_else(|| panic!("{changes:?}"));
    assert_eq!(
        changes[0],
        format!("deadline = \"{deadline}\" for \"twice\"")
    );
    // Faster links fit, too. Nothing names the second copy, which the file does not have.
    assert!(
        changes[1..]
            .iter()
            .all(|change| change.starts_with("rate = ")),
        "{changes:?}"
    );
    assert!(
        !changes.iter().any(|change| change.contains("~2")),
        "{changes:?}"
    );
    plan(&with(deadline), &Options::default()).unwrap();
}

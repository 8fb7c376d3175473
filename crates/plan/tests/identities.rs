//! Identities: independent of a file's order, unique, kept when the network grows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use proptest::prelude::*;
use rtwire_plan::schedule::Scheduling;
use rtwire_plan::{Destination, Identity, Options, Plan, plan, plan_with, read};

const HEAD: &str = "[network]\nname = \"cell\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n";

/// Returns a star of eight hosts. The caller appends streams in any order.
fn pieces() -> Vec<String> {
    let mut pieces =
        vec!["[[switch]]\nname = \"s1\"\nbuffer = \"64 KiB\"\nqueues = 8\n".to_owned()];
    for host in 0..8 {
        pieces.push(format!("[[host]]\nname = \"h{host}\"\n"));
        pieces.push(format!("[[link]]\nends = [\"h{host}\", \"s1\"]\n"));
    }
    for (number, (to, more)) in [
        ("\"h1\"", ""),
        ("\"h2\", \"h3\"", "transport = \"udp\"\nvlan = 5\n"),
        ("\"h2\"", "transport = \"udp\"\npriority = 7\n"),
        ("\"h1\", \"h4\"", "port = 1001\npriority = 3\n"),
        ("\"h1\"", "semantics = \"newest\"\n"),
        ("\"h3\", \"h4\", \"h5\"", "transport = \"udp\"\n"),
    ]
    .iter()
    .enumerate()
    {
        pieces.push(stream(&format!("f{number}"), number % 2 * 6, to, more));
    }
    pieces.push(
        "[[best-effort]]\nname = \"logs\"\nhost = \"h0\"\nto = [\"h1\", \"h2\"]\nrate = \"1 Mbit/s\"\nburst = \"1542 B\"\n".to_owned(),
    );
    pieces
}

fn stream(name: &str, talker: usize, to: &str, more: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"h{talker}\"\nlisteners = [{to}]\npayload = \"64 B\"\ninterval = \"1 ms\"\n{more}"
    )
}

fn planned(pieces: &[String]) -> Plan {
    let text = HEAD.to_owned() + &pieces.concat();
    let network = read(&text, "cell.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn kept(pieces: &[String], old: &Plan) -> Plan {
    let text = HEAD.to_owned() + &pieces.concat();
    let network = read(&text, "cell.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let mut go_on = || true;
    let mut scheduling = Scheduling::new(&mut go_on).keeping(old);
    plan_with(&network, &Options::default(), &mut scheduling)
        .unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn identities(plan: &Plan) -> BTreeMap<(String, String), Identity> {
    let streams = plan.streams.iter();
    let others = plan.best_effort.iter();
    streams
        .map(|stream| ((stream.name.clone(), String::new()), &stream.identity))
        .chain(others.map(|flow| ((flow.name.clone(), flow.to.clone()), &flow.identity)))
        .map(|(name, identity)| (name, identity.clone()))
        .collect()
}

/// Checks that no two streams can be confused.
fn unique(plan: &Plan) {
    let all = identities(plan);
    let numbers: BTreeSet<u32> = all.values().map(|one| one.number).collect();
    let keys: BTreeSet<u32> = all.values().map(|one| one.key).collect();
    assert_eq!((numbers.len(), keys.len()), (all.len(), all.len()));
    assert!(!keys.contains(&0));
    let groups: Vec<String> = all
        .values()
        .filter(|one| !matches!(one.destination, Destination::Peer { .. }))
        .map(|one| one.destination.to_string())
        .collect();
    assert_eq!(groups.len(), groups.iter().collect::<BTreeSet<_>>().len());
    let mut heard = BTreeSet::new();
    for (stream, planned) in plan.network.streams.iter().zip(&plan.streams) {
        assert_eq!(stream.port, planned.identity.port);
        for listener in &stream.listeners {
            let key = (
                stream.transport == rtwire_plan::Transport::Udp,
                listener.clone(),
                planned.identity.port,
            );
            assert!(
                stream.copy_of.is_some() || heard.insert(key),
                "{}",
                stream.name
            );
        }
    }
    for flow in &plan.best_effort {
        assert!(heard.insert((false, flow.to.clone(), flow.identity.port)));
    }
}

proptest! {
    #[test]
    fn the_order_of_a_file_does_not_matter(order in Just(pieces()).prop_shuffle()) {
        let (plain, shuffled) = (planned(&pieces()), planned(&order));
        prop_assert_eq!(identities(&plain), identities(&shuffled));
        prop_assert_eq!(&plain.plan_id, &shuffled.plan_id);
        unique(&shuffled);
    }
}

#[test]
fn addresses_come_from_numbers_and_stated_ports_are_kept() {
    let plan = planned(&pieces());
    unique(&plan);
    let shown: Vec<String> = plan
        .streams
        .iter()
        .map(|stream| {
            let one = &stream.identity;
            let vlan = one.vlan.map_or("-".to_owned(), |vlan| vlan.to_string());
            format!(
                "{} {} {} {} {vlan} {} {}",
                stream.name, one.number, one.destination, one.port, one.pcp, one.queue
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "f0 1 03:72:74:02:00:01 1000 - 0 0",
            "f1 2 239.192.0.2 1001 5 0 0",
            "f2 3 host \"h2\" 1002 - 7 7",
            "f3 4 03:72:74:02:00:04 1001 - 3 3",
            "f4 5 03:72:74:02:00:05 1004 - 0 0",
            "f5 6 239.192.0.6 1005 - 0 0",
        ]
    );
    let others: Vec<(&str, &str, u32)> = plan
        .best_effort
        .iter()
        .map(|flow| (flow.name.as_str(), flow.to.as_str(), flow.identity.number))
        .collect();
    assert_eq!(others, [("logs", "h1", 7), ("logs", "h2", 8)]);
    for stream in &plan.streams {
        let found = plan.stream_of_key(stream.identity.key).unwrap();
        assert_eq!(found.name, stream.name);
    }
    assert_eq!(plan.stream_of_key(0), None);
}

#[test]
fn words_and_ignored_limits_do_not_make_another_plan() {
    let text = HEAD.to_owned() + &pieces().concat();
    let of = |text: &str, ignore_limits| {
        let network = read(text, "cell.toml", &[]).unwrap();
        let options = Options {
            ignore_limits,
            ..Options::default()
        };
        plan(&network, &options).unwrap()
    };
    let (plain, commented) = (of(&text, false), of(&format!("# by hand\n{text}"), true));
    assert_ne!(plain.input_hash, commented.input_hash);
    assert_eq!(plain.plan_id, commented.plan_id);
    assert_ne!(plain.checksum, commented.checksum);
    let other = of(
        &text.replace("interval = \"1 ms\"", "interval = \"2 ms\""),
        false,
    );
    assert_ne!(plain.plan_id, other.plan_id);
    assert_ne!(plain.streams[0].identity.key, other.streams[0].identity.key);
}

#[test]
fn a_plan_that_grows_keeps_its_identities() {
    let old = planned(&pieces());
    let mut more = pieces();
    // One goes, one comes first by name, one has another talker, one is given the port of another.
    more.retain(|piece| !piece.contains("\"f4\""));
    more.insert(3, stream("a-new-one", 0, "\"h1\"", ""));
    let new = kept(&more, &old);
    unique(&new);
    assert_eq!((old.epoch, new.epoch), (1, 2));
    let (before, after) = (identities(&old), identities(&new));
    for (name, identity) in &after {
        let Some(kept) = before.get(name) else {
            assert_eq!(name.0, "a-new-one");
            // 1 to 8 are taken, and 5 was the one that went.
            assert_eq!(identity.number, 9);
            continue;
        };
        assert_eq!(
            (identity.number, &identity.destination, identity.port),
            (kept.number, &kept.destination, kept.port)
        );
        assert_ne!(identity.key, kept.key, "another epoch has other keys");
    }
    let again = kept(&more, &new);
    assert_eq!(again.epoch, 3);
    assert_eq!(again.numbers_used, 9);
}

/// Numbers are never used again, and there are fewer multicast addresses than numbers. So old networks come to numbers
/// that have no address of their own.
#[test]
fn multicast_addresses_of_large_numbers_are_kept() {
    let mut old = planned(&pieces());
    old.numbers_used = 300_000;
    let mut more = pieces();
    let group = |name: &str| stream(name, 0, "\"h3\", \"h4\"", "transport = \"udp\"\n");
    more.extend([group("w-goes"), group("x-stays")]);
    let first = kept(&more, &old);
    unique(&first);
    let address = |plan: &Plan, name: &str| {
        let stream = plan.streams.iter().find(|one| one.name == name).unwrap();
        assert!(stream.identity.number > 300_000);
        stream.identity.destination.clone()
    };
    let before = address(&first, "x-stays");
    more.retain(|piece| !piece.contains("w-goes"));
    more.insert(3, group("a-new-one"));
    let second = kept(&more, &first);
    unique(&second);
    assert_eq!(address(&second, "x-stays"), before);
    assert_ne!(address(&second, "a-new-one"), before);
}

#[test]
fn a_hundred_thousand_streams_have_identities() {
    let mut text = HEAD.to_owned() + "[[switch]]\nname = \"s1\"\nbuffer = \"1 MB\"\n";
    for host in 0..8 {
        write!(
            text,
            "[[host]]\nname = \"h{host}\"\n[[link]]\nends = [\"h{host}\", \"s1\"]\nrate = \"100 Gbit/s\"\n"
        )
        .unwrap();
    }
    for number in 0..100_000 {
        write!(
            text,
            "[[stream]]\nname = \"f{number}\"\ntalker = \"h{}\"\nlisteners = [\"h{}\"]\npayload = \"64 B\"\ninterval = \"1 s\"\n",
            number % 4,
            4 + number % 2
        )
        .unwrap();
    }
    // Its text is larger than what `read` takes: the network is joined from two halves.
    let half = text.find("[[stream]]\nname = \"f50000\"").unwrap();
    let mut network = read(&text[..half], "large.toml", &[]).unwrap();
    let begin = text.find("[[stream]]").unwrap();
    let second = text[..begin].to_owned() + &text[half..];
    let second = read(&second, "large.toml", &[]).unwrap();
    network.streams.extend(second.streams);
    let options = Options {
        ignore_limits: true,
        analysis: rtwire_plan::Analysis::Tfa,
    };
    let plan = plan(&network, &options).unwrap_or_else(|refusal| panic!("{refusal}"));
    unique(&plan);
}

//! Routes of connections against those of the planner, which has its own way to them.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;

use crate::ledger::Ledger;

/// Returns the description of switches in a tree with random links beside it, and two hosts at each; and the number of hosts.
fn network(switches: usize, chords: &[(usize, usize)]) -> (String, usize) {
    let mut text = "[network]\nname = \"r\"\n[defaults]\nlink-rate = \"1 Gbit/s\"\n".to_owned();
    let mut links = Vec::new();
    for at in 0..switches {
        let _ = write!(text, "[[switch]]\nname = \"s{at}\"\nbuffer = \"1 MB\"\n");
        for host in [2 * at, 2 * at + 1] {
            let _ = write!(text, "[[host]]\nname = \"h{host}\"\n");
            links.push([format!("h{host}"), format!("s{at}")]);
        }
        if at > 0 {
            links.push([format!("s{}", at / 2), format!("s{at}")]);
        }
    }
    let mut joined = std::collections::BTreeSet::new();
    for (a, b) in chords {
        let (a, b) = (a % switches, b % switches);
        let (low, high) = (a.min(b), a.max(b));
        // The tree has those between a switch and its half.
        if low != high && high / 2 != low && joined.insert((low, high)) {
            links.push([format!("s{low}"), format!("s{high}")]);
        }
    }
    for [a, b] in &links {
        let _ = write!(text, "[[link]]\nends = [\"{a}\", \"{b}\"]\n");
    }
    (text, 2 * switches)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_connection_goes_where_a_stream_of_the_plan_would(
        switches in 1_usize..7,
        chords in prop::collection::vec((0_usize..7, 0_usize..7), 0..8),
    ) {
        let (mut text, hosts) = network(switches, &chords);
        let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let pairs: Vec<(usize, usize)> = pairs.collect();
        for (a, b) in &pairs {
            let _ = write!(
                text,
                "[[stream]]\nname = \"{a}-{b}\"\ntalker = \"h{a}\"\nlisteners = [\"h{b}\"]\npayload = \"64 B\"\ninterval = \"100 ms\"\n"
            );
        }
        let network = rtwire_plan::read(&text, "r.toml", &[]).unwrap();
        let options = rtwire_plan::Options { ignore_limits: true, ..Default::default() };
        let plan = Arc::new(rtwire_plan::plan(&network, &options).unwrap());
        let budgets = crate::budgets_of(&plan, &[1_000_000_000; 8]).unwrap();
        let mut ledger = Ledger::new(Arc::clone(&plan), &budgets, Vec::new(), 0, 0).unwrap();
        for ((a, b), stream) in pairs.iter().zip(&plan.network.streams) {
            let way = ledger.way(&format!("h{a}"), &format!("h{b}")).unwrap();
            prop_assert_eq!(&way, &stream.routes[0]);
        }
        prop_assert!(ledger.way("h0", "nobody").is_err());
    }
}

/// Two hosts on one cable.
#[test]
fn a_cable_is_a_way() {
    let text = "[network]\nname = \"r\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nends = [\"a\", \"b\"]\nrate = \"1 Gbit/s\"\n";
    let network = rtwire_plan::read(text, "r.toml", &[]).unwrap();
    let plan = Arc::new(rtwire_plan::plan(&network, &Default::default()).unwrap());
    let budgets = crate::budgets_of(&plan, &[1_000_000_000; 8]).unwrap();
    let mut ledger = Ledger::new(plan, &budgets, Vec::new(), 0, 0).unwrap();
    assert_eq!(ledger.way("a", "b").unwrap(), ["a", "b"]);
    assert!(ledger.way("a", "a").is_err());
}

/// From one end of a row of switches to the other, while the first host is in the middle.
#[test]
fn no_promise_exceeds_the_longest_one() {
    const SWITCHES: usize = 9;
    let mut text = "[network]\nname = \"row\"\n[defaults]\nlink-rate = \"1 Gbit/s\"\n".to_owned();
    let mut links = Vec::new();
    for (host, at) in [("m", SWITCHES / 2), ("a", 0), ("z", SWITCHES - 1)] {
        let _ = write!(text, "[[host]]\nname = \"{host}\"\n");
        links.push((host.to_owned(), at));
    }
    for at in 0..SWITCHES {
        let _ = write!(text, "[[switch]]\nname = \"s{at}\"\nbuffer = \"1 MB\"\n");
        if at > 0 {
            links.push((format!("s{}", at - 1), at));
        }
    }
    for (from, at) in &links {
        let _ = write!(text, "[[link]]\nends = [\"{from}\", \"s{at}\"]\n");
    }
    let network = rtwire_plan::read(&text, "row.toml", &[]).unwrap();
    let plan = Arc::new(rtwire_plan::plan(&network, &Default::default()).unwrap());
    let budgets = crate::budgets_of(&plan, &[1_000_000; 8]).unwrap();
    let mut ledger = Ledger::new(plan, &budgets, Vec::new(), 0, 0).unwrap();
    let way = ledger.way("a", "z").unwrap();
    let whole: u64 = way
        .windows(2)
        .map(|pair| {
            let budget = ledger.admission().budget_ns(&pair[0], &pair[1], 0);
            budget.unwrap()
        })
        .sum();
    assert!(whole > 9_000_000, "{whole}");
    assert!(ledger.longest_promise_ns() >= whole);
}

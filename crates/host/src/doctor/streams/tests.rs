//! Planted queues: each fault is found, and what `rtwire apply` would make has none.

use std::collections::BTreeMap;

use super::*;
use crate::apply::{Choices, Mechanism, Present, configure, share};
use crate::change::Value;
use crate::netlink::Classes;

const PLAN: &str = include_str!("../../../../../tests/vm/suites/two-hosts.toml");

fn share_of(more: &str, keys: &str) -> Share {
    let text = PLAN
        .replace("\n#gates", &format!("\n{more}"))
        .replace("\n#schedule", &format!("\n{keys}"));
    let network = rtwire_plan::read(&text, "t.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    share(&network, &plan, "A").unwrap()
}

fn gated() -> Share {
    share_of(
        "gates = \"unlimited\"",
        "schedule = \"time-triggered\"\njitter = \"10 us\"",
    )
}

/// Returns the queues that `rtwire apply` makes of a share on a host that has all.
fn made(share: &Share, mechanism: Mechanism) -> Tree {
    let kinds = ["mqprio", "etf", "taprio", "cbs", "htb", "tbf", "vlan"];
    let present = Present {
        interface: "eth9".to_owned(),
        tx_queues: 4,
        mtu: 1500,
        kinds: BTreeMap::from(kinds.map(|kind| (kind, true))),
        ..Present::default()
    };
    let choices = Choices {
        mechanism,
        etf_delta_ns: 200_000,
        ..Choices::default()
    };
    let all = configure(share, &present, &choices);
    let mut trees = all.wanted.into_iter().filter_map(|one| match one.to {
        Value::Queues(tree) => Some(tree),
        _ => None,
    });
    trees.next_back().unwrap()
}

fn faults(share: &Share, tree: &Tree) -> Vec<String> {
    let found = follow(share, "eth9", 1500, tree, &[]).into_iter();
    found
        .filter(|one| one.level == Level::Fault)
        .map(|one| one.found)
        .collect()
}

#[test]
fn what_apply_makes_has_no_fault() {
    for (share, mechanism) in [
        (share_of("", ""), Mechanism::Mqprio),
        (share_of("", ""), Mechanism::Htb),
        (gated(), Mechanism::Taprio),
        (gated(), Mechanism::TaprioAssist),
        (gated(), Mechanism::Etf),
    ] {
        let tree = made(&share, mechanism);
        assert_eq!(faults(&share, &tree), Vec::<String>::new(), "{mechanism:?}");
        assert_eq!(follow(&share, "eth9", 1500, &tree, &[]).len(), 2);
    }
}

#[test]
fn each_planted_fault_is_named() {
    let plain = share_of("", "");
    let mqprio = made(&plain, Mechanism::Mqprio);
    let taprio = made(&gated(), Mechanism::Taprio);
    let changed = |tree: &Tree, change: &dyn Fn(&mut Tree)| {
        let mut tree = tree.clone();
        change(&mut tree);
        tree
    };
    let entries = |tree: &mut Tree, change: &dyn Fn(&mut Gate)| {
        if let Discipline::Taprio { entries, .. } = &mut tree.queues[0].discipline {
            entries.iter_mut().for_each(change);
        }
    };
    let below = |discipline: Discipline| {
        changed(&mqprio, &|tree| {
            let one = Queue {
                handle: 0x40_0000,
                parent: (tree.queues[0].handle & 0xffff_0000) | 4,
                class: false,
                discipline: discipline.clone(),
                overhead_bytes: 0,
                raw: None,
            };
            tree.queues.push(one);
        })
    };
    let etf = |delta_ns| Discipline::Etf {
        delta_ns,
        deadline: false,
        offload: false,
        skip_socket_check: false,
    };
    let cases = [
        (&plain, Tree::default(), "there are no classes"),
        (
            &plain,
            changed(&mqprio, &|tree| {
                tree.queues[0].discipline = Discipline::Mqprio {
                    classes: Classes {
                        map: [0; 16],
                        queues: vec![(0, 4)],
                    },
                };
            }),
            "shares the class with all other traffic",
        ),
        (&plain, below(etf(0)), "delta 0 drops every frame"),
        (&plain, below(etf(5_000)), "gives them no launch time"),
        (
            &plain,
            below(Discipline::Foreign {
                name: "netem".to_owned(),
            }),
            "netem delays",
        ),
        (
            &gated(),
            changed(&taprio, &|tree| entries(tree, &|gate| gate.gates &= !8)),
            "closed 100.0 % of the cycle; its class never opens",
        ),
        (
            &gated(),
            changed(&taprio, &|tree| {
                entries(tree, &|gate| gate.duration_ns /= 2)
            }),
            "and its cycle 1000000 ns",
        ),
        (
            &gated(),
            changed(&taprio, &|tree| {
                let Discipline::Taprio { entries, .. } = &mut tree.queues[0].discipline else {
                    return;
                };
                let gate = |gates, duration_ns| Gate { gates, duration_ns };
                *entries = vec![gate(8, 900), gate(7, 999_100)];
            }),
            "its longest window is 900 ns",
        ),
    ];
    for (share, tree, words) in &cases {
        let found = faults(share, tree);
        let fast = found.iter().find(|one| one.contains("stream fast:"));
        assert!(
            fast.is_some_and(|fast| fast.contains(words)),
            "{words}: {found:?}"
        );
    }
    let small = follow(&plain, "eth9", 68, &mqprio, &[]);
    assert!(
        small[0].found.contains("do not fit the MTU of 68"),
        "{small:?}"
    );
}

#[test]
fn the_vlan_link_of_datagrams_is_judged() {
    let mut share = share_of("", "");
    share.sends[1].udp = true;
    let tree = made(&share, Mechanism::Mqprio);
    let link = |id, egress: &[(u32, u8)], up| VlanLink {
        name: "rtw9v5".to_owned(),
        id,
        egress: egress.iter().copied().collect(),
        mtu: 1500,
        up,
        queues: Tree::default(),
    };
    let said = |links: &[VlanLink]| {
        let found = follow(&share, "eth9", 1500, &tree, links);
        (found[1].level, found[1].found.clone())
    };
    assert_eq!(said(&[link(5, &[(3, 3)], true)]).0, Level::Good);
    let mut slow = link(5, &[(3, 3)], true);
    let name = "netem".to_owned();
    slow.queues.queues.push(Queue {
        handle: 0x1_0000,
        parent: u32::MAX,
        class: false,
        discipline: Discipline::Foreign { name },
        overhead_bytes: 0,
        raw: None,
    });
    let mut small = link(5, &[(3, 3)], true);
    small.mtu = 68;
    for (links, words) in [
        (vec![], "without a tag"),
        (vec![link(6, &[(3, 3)], true)], "no link of VLAN 5"),
        (vec![link(5, &[], true)], "priority 0, not 3"),
        (vec![link(5, &[(3, 3)], false)], "is down"),
        (vec![slow], "netem delays"),
        (vec![small], "the MTU of 68 of rtw9v5"),
    ] {
        let (level, found) = said(&links);
        assert!(
            level == Level::Fault && found.contains(words),
            "{words}: {found}"
        );
    }
}

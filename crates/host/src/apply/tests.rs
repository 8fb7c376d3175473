//! From a plan to settings, without a host.

use proptest::prelude::*;
use rtwire_plan::{GateEntry, GateList, Options};

use super::*;
use crate::change::{Subject, Value};
use crate::netlink::{Discipline, Tree};

const LINE: &str = r#"
[network]
name = "t"
[[switch]]
name = "s"
buffer = "200 kB"
queues = 4
[[host]]
name = "A"
queues = 4
[[host]]
name = "B"
queues = 4
[[link]]
ends = ["A", "s"]
rate = "100 Mbit/s"
[[link]]
ends = ["s", "B"]
rate = "100 Mbit/s"
[[stream]]
name = "fast"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 7
"#;

fn network(more: &str) -> (rtwire_plan::Network, rtwire_plan::Plan) {
    let network = rtwire_plan::read(&format!("{LINE}{more}"), "t.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &Options::default()).unwrap();
    (network, plan)
}

fn share_of(more: &str, host: &str) -> Share {
    let (network, plan) = network(more);
    share(&network, &plan, host).unwrap()
}

fn present(tx_queues: u32, kinds: &[&'static str]) -> Present {
    let all = ["mqprio", "etf", "taprio", "cbs", "htb", "tbf", "vlan"];
    Present {
        interface: "eth9".to_owned(),
        index: 9,
        tx_queues,
        mtu: 1500,
        kinds: all
            .into_iter()
            .map(|kind| (kind, kinds.contains(&kind)))
            .collect(),
        ipv6: true,
        ..Present::default()
    }
}

fn tree(all: &Configuration) -> Option<&Tree> {
    all.wanted.iter().find_map(|one| match &one.to {
        Value::Queues(tree) => Some(tree),
        _ => None,
    })
}

#[test]
fn an_unknown_host_is_answered_with_those_there_are() {
    let (network, plan) = network("");
    let error = share(&network, &plan, "C").unwrap_err();
    assert!(error.to_string().contains("A, B"), "{error}");
}

#[test]
fn the_mechanism_follows_what_the_host_has() {
    let share = share_of("", "A");
    let all = |tx_queues, kinds: &[&'static str]| {
        configure(&share, &present(tx_queues, kinds), &Choices::default())
    };
    assert_eq!(
        all(4, &["mqprio", "htb", "tbf"]).mechanism,
        Mechanism::Mqprio
    );
    assert_eq!(all(1, &["mqprio", "htb", "tbf"]).mechanism, Mechanism::Htb);
    assert_eq!(all(4, &["htb"]).mechanism, Mechanism::Htb);
    assert_eq!(all(4, &["htb"]).lacks, []);
    let nothing = all(4, &[]);
    assert_eq!(nothing.mechanism, Mechanism::None);
    assert!(
        nothing.lacks[0].lost.contains("every promise"),
        "{:?}",
        nothing.lacks
    );
}

#[test]
fn gates_without_taprio_say_which_promise_is_lost() {
    let mut share = share_of("", "A");
    share.gates = Some(GateList {
        cycle_ns: 1_000_000,
        base_offset_ns: 0,
        entries: vec![
            GateEntry {
                gates: 8,
                duration_ns: 100_000,
            },
            GateEntry {
                gates: 7,
                duration_ns: 900_000,
            },
        ],
        scheduled_queues: 8,
        unscheduled_open_ns: 900_000,
        guard_band_ns: 0,
    });
    share.sends[0].launch = Some(rtwire_plan::Launch {
        offset_ns: 0,
        period_ns: 1_000_000,
        windows: Vec::new(),
    });
    let all = configure(&share, &present(4, &["htb"]), &Choices::default());
    let lack = &all.lacks[0];
    assert!(
        lack.what.contains("taprio") && lack.lost.contains("fast"),
        "{lack:?}"
    );
    assert_eq!(all.mechanism, Mechanism::Htb);
    let all = configure(&share, &present(4, &["taprio", "tbf"]), &Choices::default());
    assert_eq!((all.mechanism, all.lacks.len()), (Mechanism::Taprio, 0));
    let Some(Discipline::Taprio {
        cycle_ns,
        entries,
        classes,
        ..
    }) = tree(&all).map(|tree| tree.queues[0].discipline.clone())
    else {
        panic!("{all:?}");
    };
    let sum: u64 = entries
        .iter()
        .map(|entry| u64::from(entry.duration_ns))
        .sum();
    assert_eq!(sum, cycle_ns);
    assert_eq!(classes.map[7], 3, "the most urgent class");
    assert_eq!(classes.queues[3].0, 3, "queues in the order of classes");
}

#[test]
fn a_gate_list_that_misses_its_cycle_by_a_nanosecond_is_refused() {
    let (network, mut plan) = network("");
    for (last, right) in [(899_999, false), (900_000, true), (900_001, false)] {
        plan.ports[0].gates = Some(GateList {
            cycle_ns: 1_000_000,
            base_offset_ns: 0,
            entries: vec![
                GateEntry {
                    gates: 8,
                    duration_ns: 100_000,
                },
                GateEntry {
                    gates: 7,
                    duration_ns: last,
                },
            ],
            scheduled_queues: 8,
            unscheduled_open_ns: last,
            guard_band_ns: 0,
        });
        let host = plan.ports[0].node.clone();
        assert_eq!(share(&network, &plan, &host).is_ok(), right, "{last}");
    }
}

#[test]
fn best_effort_is_limited_and_clocks_are_never_silenced() {
    for (kinds, tx_queues) in [(vec!["mqprio", "tbf"], 4), (vec!["htb"], 1)] {
        let share = share_of("", "A");
        let all = configure(&share, &present(tx_queues, &kinds), &Choices::default());
        let tree = tree(&all).unwrap();
        assert!(
            all.notes.iter().any(|note| note.contains("PTP")),
            "{:?}",
            all.notes
        );
        let limited = tree.queues.iter().any(|queue| match queue.discipline {
            Discipline::Tbf { rate_bytes, .. } => rate_bytes == 125_000,
            Discipline::HtbClass { ceil_bytes, .. } => ceil_bytes == 125_000,
            _ => false,
        });
        assert!(limited, "{tree:?}");
    }
}

proptest! {
    #[test]
    fn whatever_the_host_has_the_settings_are_whole(
        tx_queues in 1_u32..9,
        kinds in prop::sample::subsequence(vec!["mqprio", "etf", "taprio", "cbs", "htb", "tbf", "vlan"], 0..=7),
        mechanism in prop::sample::select(vec![
            Mechanism::Auto, Mechanism::Taprio, Mechanism::TaprioAssist, Mechanism::TaprioHardware,
            Mechanism::Etf, Mechanism::Mqprio, Mechanism::Htb, Mechanism::None,
        ]),
        classes in 1_u8..9,
        gated in any::<bool>(),
    ) {
        let mut share = share_of("", "A");
        share.classes = classes;
        if gated {
            share.gates = Some(GateList {
                cycle_ns: 5_000_000_001,
                base_offset_ns: 7,
                entries: vec![GateEntry { gates: 1, duration_ns: 5_000_000_001 }],
                scheduled_queues: 1,
                unscheduled_open_ns: 0,
                guard_band_ns: 0,
            });
        }
        let choices = Choices { mechanism, etf_delta_ns: 200_000, ..Choices::default() };
        let all = configure(&share, &present(tx_queues, &kinds), &choices);
        if let Some(tree) = tree(&all) {
            let mut handles: Vec<u32> = tree.queues.iter().map(|queue| queue.handle).collect();
            handles.sort_unstable();
            handles.dedup();
            prop_assert_eq!(handles.len(), tree.queues.len());
            for queue in &tree.queues {
                prop_assert!(kinds.contains(&queue.discipline.kind()) || queue.discipline.kind() == "pfifo");
                if let Discipline::Taprio { cycle_ns, entries, .. } = &queue.discipline {
                    let sum: u64 = entries.iter().map(|entry| u64::from(entry.duration_ns)).sum();
                    prop_assert_eq!(sum, *cycle_ns);
                }
            }
        }
        // Nothing is done silently: either what was asked for, or a lack that says what is lost.
        prop_assert!(all.mechanism == mechanism || mechanism == Mechanism::Auto || !all.lacks.is_empty());
    }

    #[test]
    fn the_difference_to_itself_is_nothing(tx_queues in 1_u32..5) {
        let share = share_of("", "A");
        let all = configure(&share, &present(tx_queues, &["mqprio", "tbf", "htb"]), &Choices::default());
        let same = |subject: &Subject| {
            all.wanted.iter().find(|one| one.subject == *subject).map_or(Value::Absent, |one| one.to.clone())
        };
        prop_assert_eq!(crate::change::difference(&all.wanted, &same), Vec::new());
    }
}

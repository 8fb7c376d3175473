//! From a plan to settings, without a host.

use proptest::prelude::*;
use rtwire_plan::{GateEntry, GateList, Options};

use super::*;
use crate::change::{Subject, Value};
use crate::netlink::{Discipline, Tree};

/// The fixture of the command's own tests, of which the streams are enough here.
const LINE: &str = include_str!("../../../../tests/vm/suites/two-hosts.toml");

fn network(more: &str) -> (rtwire_plan::Network, rtwire_plan::Plan) {
    let streams = LINE.split("[[best-effort]]").next().unwrap();
    let network = rtwire_plan::read(&format!("{streams}{more}"), "t.toml", &[]).unwrap();
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
    // The limit on best effort below it stops the gates' timer: the list is set again, and starts it.
    let tree = tree(&all).unwrap();
    let kinds: Vec<&str> = tree.steps().map(|queue| queue.discipline.kind()).collect();
    assert_eq!(kinds, ["taprio", "tbf", "taprio"]);
}

/// The kernel's map is the description's: PCP 3 goes to the highest queue, and best effort (0) to queue 1, where its limit is.
#[test]
fn the_map_of_priorities_is_that_of_the_host() {
    let mut share = share_of("", "A");
    share.classes = 8;
    share.priority_map = Some([1, 0, 6, 7, 2, 3, 4, 5]);
    share.sends.iter_mut().for_each(|one| one.class = 7);
    let choices = Choices {
        mechanism: Mechanism::Mqprio,
        ..Choices::default()
    };
    let all = configure(&share, &present(8, &["mqprio", "tbf"]), &choices);
    let queues = tree(&all).unwrap().queues.clone();
    let Discipline::Mqprio { classes } = &queues[0].discipline else {
        panic!("{queues:?}");
    };
    assert_eq!(classes.map[..8], [1, 0, 6, 7, 2, 3, 4, 5]);
    let limit = queues
        .iter()
        .find(|queue| matches!(queue.discipline, Discipline::Tbf { .. }));
    // Transmit queue 1 is the second child.
    assert_eq!(limit.unwrap().parent & 0xffff, 2);
}

/// Returns HTB's priority of each class of streams, the least urgent class first.
fn priorities(classes: &[u8]) -> Vec<u32> {
    let mut share = share_of("", "A");
    share.classes = 8;
    let one = share.sends[0].clone();
    share.sends = classes
        .iter()
        .map(|class| {
            let mut stream = one.clone();
            stream.class = *class;
            stream
        })
        .collect();
    let all = configure(&share, &present(1, &["htb"]), &Choices::default());
    let queues = &tree(&all).unwrap().queues;
    let priority = |class: &u8| {
        let handle = 0x1_0010 + u32::from(*class);
        let found = queues.iter().find(|queue| queue.handle == handle);
        match found.unwrap().discipline {
            Discipline::HtbClass { priority, .. } => priority,
            _ => panic!("{queues:?}"),
        }
    };
    classes.iter().map(priority).collect()
}

/// A map may put two priorities of streams into the two lowest of eight queues. HTB keeps their order, too.
#[test]
fn htb_keeps_the_order_of_all_classes() {
    assert_eq!(priorities(&[0, 1]), [6, 5]);
    assert_eq!(priorities(&[0, 1, 2, 5, 7]), [6, 5, 4, 2, 0]);
    assert_eq!(priorities(&[0, 2, 7]), [6, 5, 0]);
    assert_eq!(priorities(&[1, 2, 7]), [6, 5, 0]);
    assert_eq!(
        priorities(&[0, 1, 2, 3, 4, 5, 6, 7]),
        [7, 6, 5, 4, 3, 2, 1, 0]
    );
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

/// The plan's network with a credit of 20 Mbit/s for its fast stream.
const CREDIT: &str = r#"
[[shaper]]
node = "A"
priority = 7
kind = "credit"
idle-slope = "20 Mbit/s"
"#;

#[test]
fn a_credit_becomes_cbs_at_its_class_or_a_lack_that_says_what_is_lost() {
    let share = share_of(CREDIT, "A");
    assert_eq!(share.credits.len(), 1);
    let with = |tx_queues, kinds: &[&'static str], speed_mbps| {
        let present = Present {
            speed_mbps,
            ..present(tx_queues, kinds)
        };
        configure(&share, &present, &Choices::default())
    };
    let all = with(4, &["mqprio", "cbs", "tbf"], Some(1_000));
    assert_eq!(all.lacks, []);
    let queues = &tree(&all).unwrap().queues;
    let cbs = queues
        .iter()
        .find(|queue| queue.discipline.kind() == "cbs")
        .unwrap();
    // Class 3 of 4 has the fourth queue, and is counted as the wire counts.
    assert_eq!((cbs.parent, cbs.overhead_bytes), (0x1_0004, 24));
    let Discipline::Cbs {
        idle_slope_kbps,
        send_slope_kbps,
        ..
    } = cbs.discipline
    else {
        panic!("{cbs:?}")
    };
    // The kernel counts at the rate of the interface, not at the planned one.
    assert_eq!((idle_slope_kbps, send_slope_kbps), (20_000, -980_000));
    for (kinds, queues, speed, part) in [
        (&["mqprio", "tbf"][..], 4, Some(100), "cbs"),
        (&["mqprio", "cbs"], 4, None, "speed"),
        (&["mqprio", "cbs"], 4, Some(10), "faster"),
        (&["htb", "cbs"], 1, Some(100), "queue for each class"),
    ] {
        let all = with(queues, kinds, speed);
        let lack = all.lacks.iter().find(|lack| lack.what.contains(part));
        let lack = lack.unwrap_or_else(|| panic!("{part}: {:?}", all.lacks));
        assert!(lack.lost.contains("fast"), "{lack:?}");
    }
}

#[test]
fn a_namespace_comes_before_what_is_set_in_it() {
    let share = share_of("", "A");
    let choices = Choices {
        isolation: Isolation::Namespace,
        irq_cpu: Some(1),
        ..Choices::default()
    };
    let with = |present: &Present| configure(&share, present, &choices).wanted;
    let here = Present {
        interrupts: vec![7],
        ..present(1, &["htb"])
    };
    let wanted = with(&here);
    let place = wanted
        .iter()
        .position(|one| matches!(one.subject, Subject::Place { .. }))
        .unwrap();
    for (at, one) in wanted.iter().enumerate() {
        let inside = matches!(one.subject, Subject::Inside { .. });
        // Interrupts are the machine's, wherever the interface is.
        let machine =
            matches!(&one.subject, Subject::Setting { path } if path.starts_with("/proc/irq/"));
        assert_eq!(at > place && !machine, inside, "{one:?}");
    }
    // Once it is there, nothing is to be done here.
    let there = with(&Present {
        moved: true,
        held_by: vec!["link `rtw9v5` upon it".to_owned()],
        ..here.clone()
    });
    assert!(matches!(there[0].subject, Subject::Namespace { .. }));
    // What would not survive is named.
    let held = Present {
        held_by: vec!["link `eth9.5` upon it".to_owned()],
        ..here
    };
    let all = configure(&share, &held, &choices);
    assert!(all.lacks[0].what.contains("eth9.5"), "{:?}", all.lacks);
    assert!(
        !all.wanted
            .iter()
            .any(|one| matches!(one.subject, Subject::Place { .. }))
    );
}

#[test]
fn receive_work_that_no_thread_can_do_is_a_lack() {
    let share = share_of("", "A");
    let choices = Choices {
        receive_priority: Some(40),
        ..Choices::default()
    };
    let bare = present(1, &["htb"]);
    let all = configure(&share, &bare, &choices);
    assert!(all.lacks[0].what.contains("NAPI"), "{:?}", all.lacks);
    let threads = Present {
        receive_contexts: 2,
        interrupt_threads: vec![(9, "irq/7-eth9".to_owned())],
        ..bare
    };
    let all = configure(&share, &threads, &choices);
    assert_eq!(all.lacks, []);
    let fifo = |value: &Value| match value {
        Value::Fifo(priority) => Some(*priority),
        Value::Threads(threads) => threads.first().map(|thread| thread.fifo),
        _ => None,
    };
    let priorities: Vec<u8> = all.wanted.iter().filter_map(|one| fifo(&one.to)).collect();
    assert_eq!(priorities, [40, 40]);
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

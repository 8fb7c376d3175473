//! Frame preemption: where it is, of which classes, and that plans' files are held to the same rules as descriptions.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_describe::{Network, Preemption, read};

/// A switch of eight queues between A, B and C, each with the given keys.
fn described(switch: &str, hosts: [&str; 3], more: &str) -> Result<Network, String> {
    let host = |(name, keys): (&str, &str)| {
        format!(
            "[[host]]\nname = \"{name}\"\n{keys}\n[[link]]\nends = [\"{name}\", \"s\"]\nrate = \"100 Mbit/s\"\n"
        )
    };
    let hosts: String = ["A", "B", "C"].into_iter().zip(hosts).map(host).collect();
    let text = format!(
        "[network]\nname = \"t\"\n[[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nqueues = 8\n{switch}\n{hosts}{more}"
    );
    read(&text, "t.toml", &[]).map_err(|faults| faults.to_string())
}

/// Makes a network wrong.
type Spoils = fn(&mut Network);

#[test]
fn a_link_has_it_if_both_ends_have_it() {
    let more = "[[port]]\nswitch = \"s\"\nto = \"B\"\npreemptable = [0, 1]\n";
    let hosts = [
        "preemptable = [0]\nqueues = 4\npriority-map = [0, 1, 1, 1, 2, 2, 2, 3]\nadditional-fragment-size = 2",
        "preemptable = []",
        "",
    ];
    let network = described("preemptable = [0, 1, 2, 3, 4]", hosts, more).unwrap();
    let at = |from: &str, to: &str| {
        let here = network.preemption(from, to);
        here.map(|here| (here.first_express, here.additional_fragment_size))
    };
    assert_eq!(at("s", "A"), Some((5, 2)), "the size is the receiver's");
    assert_eq!(at("A", "s"), Some((1, 0)));
    assert_eq!(at("s", "B"), Some((2, 0)), "of its port before its switch");
    assert_eq!(at("B", "s"), None, "B interrupts nothing");
    assert_eq!((at("s", "C"), at("C", "s")), (None, None), "C has none");
    assert_eq!(network.preempting_port(), Some(("A", "s")));
    let refused = |node| network.without_preemption(node, "this cannot");
    assert!(
        refused(None)
            .unwrap_err()
            .contains("port A>s preempts frames")
    );
    assert!(
        refused(Some("s"))
            .unwrap_err()
            .contains("port s>A preempts frames")
    );
    assert_eq!((refused(Some("B")), refused(Some("C"))), (Ok(()), Ok(())));
    // Which classes are preemptable depends on the map of the node alone: all express, or none, is no preemption.
    let all = described(
        "preemptable = [0, 1, 2, 3, 4, 5, 6, 7]",
        ["preemptable = []"; 3],
        "",
    );
    assert_eq!(all.unwrap().preempting_port(), None);
}

#[test]
fn what_was_stated_stays_in_files_and_nothing_else_does() {
    let with = described("preemptable = [1, 0]", ["preemptable = []"; 3], "").unwrap();
    let stated = with.switches[0].preemption.as_ref().unwrap();
    assert_eq!(stated.preemptable, [0, 1]);
    let text = serde_json::to_string(&with).unwrap();
    assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), with);
    let without = described("", [""; 3], "").unwrap();
    assert!(!serde_json::to_string(&without).unwrap().contains("preempt"));
}

/// A network that no description was read for: what [`Network::check`] refuses.
#[test]
fn a_network_from_elsewhere_is_checked() {
    let good = described("preemptable = [0]", ["preemptable = []"; 3], "").unwrap();
    assert_eq!(good.check(), Ok(()));
    let spoilt: [(Spoils, &str); 6] = [
        (|it| it.switches[0].queues = 4, "share queue 0"),
        (
            |it| it.defaults.frame_overhead_bytes = 0,
            "`frame-overhead` is 0 B",
        ),
        (
            |it| it.hosts.iter_mut().for_each(|host| host.preemption = None),
            "no neighbour has",
        ),
        (
            |it| {
                it.hosts[0].preemption = Some(Preemption {
                    preemptable: vec![9],
                    additional_fragment_size: 0,
                })
            },
            "has priority 9",
        ),
        (
            |it| {
                it.hosts[0].preemption = Some(Preemption {
                    preemptable: vec![],
                    additional_fragment_size: 4,
                })
            },
            "must be 0 to 3",
        ),
        (
            |it| it.switches[0].preemption.as_mut().unwrap().preemptable = vec![7],
            "below the preemptable priority 7",
        ),
    ];
    for (spoil, message) in spoilt {
        let mut network = good.clone();
        spoil(&mut network);
        let told = network.check().unwrap_err();
        assert!(told.contains(message), "{message}: {told}");
    }
}

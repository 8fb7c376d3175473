//! A share applied by the library alone, as an agent does it: on a veth, seen by `ip` and `tc`. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::Command;

use rtwire_host::apply::{ApplyRefusal, Choices, Isolation, Keep, Share, prepare, share};
use rtwire_host::change::guardian::{Guardian, Watched};
use rtwire_host::change::{self, Record, State, confirm};
use rtwire_host::netlink::Netlink;
use rtwire_testkit::{NetnsPair, Side, ip, require, tc};

const NETWORK: &str = include_str!("../../../tests/vm/suites/two-hosts.toml");

fn share_of_a() -> Share {
    let network = rtwire_plan::read(NETWORK, "two-hosts.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    share(&network, &plan, "A").unwrap()
}

/// A person's view of the interface: the kernel's own listing, not ours.
fn looks(side: &Side) -> String {
    let list = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(["-n", &side.namespace])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let counters = |line: &str| !line.contains("direct_packets_stat");
    let text = list("ip", &["address", "show", "dev", &side.interface])
        + &list("ip", &["route"])
        + &list("tc", &["qdisc", "show", "dev", &side.interface]);
    let lines: Vec<&str> = text.lines().filter(|line| counters(line)).collect();
    lines.join("\n")
}

/// A guardian that never puts anything back: the test watches in its place.
fn idle_guardian() -> Box<Command> {
    let mut command = Command::new("echo");
    command.arg("ready");
    Box::new(command)
}

#[test]
fn prepared_changes_are_carried_out_kept_or_put_back() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let (share, choices) = (share_of_a(), Choices::default());
    let before = looks(&pair.a);
    pair.a.run(|| {
        let prepared = || prepare(&share, "rtwa", &choices, None).unwrap();
        let first = prepared();
        assert!(!first.report().changes.is_empty() && !first.report().applied);
        assert_eq!(looks(&pair.a), before, "to prepare changes nothing");

        // Not confirmed: the guardian of this record puts all back.
        let keep = |within_ns| Keep::IfConfirmed {
            within_ns,
            guardian: idle_guardian(),
        };
        let mut seen = 0;
        let applied = first
            .carry_out(directory, "test", keep(0), &mut |_, _| seen += 1)
            .unwrap();
        assert_eq!(seen, applied.made);
        let text = looks(&pair.a);
        assert!(text.contains("htb") && !text.contains("inet "), "{text}");
        let watched = Guardian::start(directory, "rtwa").unwrap().watch().unwrap();
        assert_eq!(watched, Watched::PutBack(applied.made));
        assert_eq!(looks(&pair.a), before);

        // Confirmed in time: it stays, and a second run finds nothing to change.
        const HOUR_NS: u64 = 3_600_000_000_000;
        let applied = prepared()
            .carry_out(directory, "test", keep(HOUR_NS), &mut |_, _| {})
            .unwrap();
        confirm(directory, "rtwa").unwrap();
        assert_eq!(Record::list(directory)[0].1, State::Confirmed);
        let again = prepared()
            .carry_out(directory, "test", Keep::Always, &mut |_, _| {})
            .unwrap();
        assert_eq!(again.made, 0);
        let record = Record::open(directory, "rtwa").unwrap().unwrap();
        let undone = change::revert(&mut Netlink::new(), record, &mut |_, _| {}).unwrap();
        assert_eq!(undone, applied.made);
        assert_eq!(looks(&pair.a), before);
    });
}

#[test]
fn an_agent_cannot_cut_its_machine_off_or_destroy_what_it_could_not_put_back() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    let folder = tempfile::tempdir().unwrap();
    let share = share_of_a();
    let named = &pair.a.namespace;
    ip(named, "route add default via 10.77.0.2");
    let before = looks(&pair.a);
    pair.a.run(|| {
        let choices = Choices::default();
        let prepared = prepare(&share, "rtwa", &choices, None).unwrap();
        let refused = prepared
            .carry_out(folder.path(), "test", Keep::Always, &mut |_, _| {})
            .unwrap_err();
        assert!(
            matches!(refused, ApplyRefusal::DefaultRoute { .. }),
            "{refused}"
        );
        assert_eq!(looks(&pair.a), before);
        // Without isolation it keeps its addresses, so it may.
        let open = Choices {
            isolation: Isolation::None,
            ..Choices::default()
        };
        let prepared = prepare(&share, "rtwa", &open, None).unwrap();
        prepared.allowed(&Keep::Always).unwrap();
        // Queues of somebody else that no record can describe.
        tc(named, "qdisc add dev rtwa root handle 7: htb");
        let filter = Command::new("tc")
            .args([
                "-n",
                named.as_str(),
                "filter",
                "add",
                "dev",
                "rtwa",
                "parent",
                "7:",
            ])
            .args(["bpf", "bytecode", "1,6 0 0 4294967295", "flowid", "7:1"])
            .status();
        assert!(filter.unwrap().success());
        let refused = prepare(&share, "rtwa", &choices, None).unwrap_err();
        assert!(
            matches!(refused, ApplyRefusal::StrangeQueues { .. }),
            "{refused}"
        );
        let nowhere = prepare(&share, "rtwx", &choices, None).unwrap_err();
        assert!(nowhere.to_string().contains("rtwa"), "{nowhere}");
    });
}

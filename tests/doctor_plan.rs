//! `rtwire doctor IF --plan`: each stream followed through the queues that are really there; faults planted with `tc`. What
//! needs mqprio, TAPRIO or ETF is in the kernel lab (`tests/vm/suites/host.sh`). Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "apply_common/mod.rs"]
mod apply_common;

use apply_common::{Bench, code, said};
use rtwire_testkit::require;
use serde_json::Value;

/// Findings about streams: id, level, words.
fn streams(bench: &Bench) -> Vec<(String, String, String)> {
    let plan = bench.plan();
    let plan = plan.to_str().unwrap();
    let output = bench.rtwire(&["doctor", "rtwa", "--plan", plan, "--host", "A", "--json"]);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        said(&output)
    );
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = all["findings"].as_array().unwrap().iter();
    let own = findings.filter(|one| one["id"].as_str().unwrap().starts_with("streams."));
    let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    own.map(|one| (text(one, "id"), text(one, "level"), text(one, "found")))
        .collect()
}

#[test]
fn applied_streams_are_good_and_each_planted_queue_is_found() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    for (_, level, found) in streams(&bench) {
        assert_eq!(level, "fault", "nothing is applied: {found}");
        assert!(found.contains("there are no classes"), "{found}");
    }
    code(&bench.apply(&[]), 0);
    let good = |bench: &Bench, when: &str| {
        let found = streams(bench);
        let ids: Vec<&str> = found.iter().map(|(id, ..)| id.as_str()).collect();
        assert_eq!(ids, ["streams.fast", "streams.slow"]);
        for (_, level, found) in &found {
            assert_eq!(level, "good", "{when}: {found}");
        }
        assert!(found[0].2.contains("stream fast: class 1:13"), "{found:?}");
    };
    good(&bench, "applied");
    let filters = "tc filter del dev rtwa parent 1: pref 4";
    for (fault, undo, stream, words) in [
        (
            filters,
            "tc filter add dev rtwa parent 1: pref 4 protocol 0x88b5 u32 match u8 7 0xff at 1 flowid 1:13",
            "streams.fast",
            "no filter knows its frames",
        ),
        (
            "tc class change dev rtwa parent 1:1 classid 1:13 htb rate 8bit ceil 20mbit prio 0",
            "tc class change dev rtwa parent 1:1 classid 1:13 htb rate 8bit ceil 100mbit prio 0",
            "streams.fast",
            "its class is held to 20000000 bit/s",
        ),
        (
            "ip link set rtwa mtu 200",
            "ip link set rtwa mtu 1500",
            "streams.slow",
            "do not fit the MTU of 200",
        ),
    ] {
        bench.sh(fault);
        let found = streams(&bench);
        let (_, level, text) = found.iter().find(|(id, ..)| id == stream).unwrap();
        assert!(level == "fault" && text.contains(words), "{fault}: {text}");
        bench.sh(undo);
        good(&bench, undo);
    }
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    for (queues, words) in [
        (
            "tc qdisc replace dev rtwa root handle 7: htb default 5; tc class add dev rtwa parent 7: classid 7:5 htb rate 3mbit",
            "shares the class with all other traffic",
        ),
        (
            "tc qdisc replace dev rtwa root tbf rate 20mbit burst 4k latency 5ms",
            "tbf holds it to 20000000 bit/s",
        ),
        (
            "tc qdisc replace dev rtwa root pfifo limit 9",
            "pfifo has no classes",
        ),
    ] {
        bench.sh(queues);
        for (_, level, found) in streams(&bench) {
            assert!(
                level == "fault" && found.contains(words),
                "{queues}: {found}"
            );
        }
        bench.sh("tc qdisc del dev rtwa root");
    }
}

#[test]
fn wrong_usage_is_named() {
    require!(root, program "ip");
    let bench = Bench::new();
    let plan = bench.plan();
    let plan = plan.to_str().unwrap();
    code(&bench.rtwire(&["doctor", "rtwa", "--plan", plan]), 2);
    code(&bench.rtwire(&["doctor", "--plan", plan, "--host", "A"]), 2);
    let nobody = bench.rtwire(&["doctor", "rtwa", "--plan", plan, "--host", "C"]);
    code(&nobody, 2);
    assert!(said(&nobody).contains("A, B"), "{}", said(&nobody));
}

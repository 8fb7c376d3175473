//! A description with a manager: the lab runs it, an agent on each host, and TCP of the kernel.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::*;

/// A stalling machine may need several runs.
const TRIES: u32 = 4;
const TIMES: [&str; 4] = ["--calibration", "1s", "--duration", "4s"];

fn reservations() -> PathBuf {
    example("reservations.toml")
}

fn link<'a>(report: &'a Value, from: &str, to: &str) -> &'a Value {
    let links = report["sharing"]["links"].as_array().unwrap();
    let mut links = links.iter();
    let found = links.find(|link| link["node"] == from && link["port"] == to);
    found.unwrap_or_else(|| panic!("no link {from} to {to}: {}", report["sharing"]))
}

#[test]
fn tcp_gets_what_real_time_leaves_and_no_promise_breaks() {
    let _alone = alone();
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let (code, report) = measured(&reservations(), &TIMES);
        assert_ne!(report["verdict"], "broken", "{}", report["reasons"]);
        let office = link(&report, "s1", "office");
        let number = |key: &str| office[key].as_f64().unwrap();
        // Four streams of 1 024 bytes on the wire at 10.24 Mbit/s.
        assert!(
            (40.0..42.0).contains(&number("real_time_percent")),
            "{office}"
        );
        let hosts = report["sharing"]["reservations"].as_array().unwrap();
        for host in hosts {
            assert!(host["granted"].as_u64() > Some(0), "{host}");
        }
        // What a transfer brings depends on the machine; that each gets its part does not.
        let all = number("real_time_percent") + number("best_effort_percent");
        assert!(all <= 100.1, "{office}");
        let shared = number("of_free_percent") > 40.0 && number("fairness") > 0.9;
        if shared && (report["verdict"].as_str(), code) == (Some("kept"), 0) {
            for stream in report["streams"].as_array().unwrap() {
                let slowest = stream["exact_delay_ns"]["max"].as_u64();
                assert!(slowest <= stream["promised_delay_ns"].as_u64(), "{stream}");
            }
            let strangers = report["ports"].to_string().contains("of no stream here");
            assert!(!strangers, "{}", report["ports"]);
            return;
        }
        seen.push(format!("{} {office}", report["reasons"]));
    }
    panic!("{TRIES} times not kept, or not shared: {seen:#?}");
}

/// Without its limits one host's TCP fills the buffer that all share: that is no network that keeps its promises.
#[test]
fn a_host_without_its_limits_is_found() {
    let _alone = alone();
    let child = started(lab(&reservations(), &TIMES).arg("--json"));
    let found = while_running(child.id(), |lab| {
        let namespace = lab["nodes"][0]["namespace"].as_str().unwrap();
        let removed = Command::new("ip")
            .args(["netns", "exec", namespace])
            .args("tc qdisc del dev eth0 root".split(' '))
            .status();
        assert!(removed.unwrap().success());
    });
    assert_eq!(found["nodes"][0]["name"], "press");
    let (code, report) = reported(child);
    assert_eq!(
        (report["verdict"].as_str(), code),
        (Some("broken"), Some(1)),
        "{}",
        report["reasons"]
    );
    assert!(
        report["reasons"].to_string().contains("Port s1 to office"),
        "{}",
        report["reasons"]
    );
}

#[test]
fn ways_past_an_agent_are_refused() {
    let _alone = alone();
    let output = lab(&reservations(), &["--transmit-path", "direct"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the agents limit what passes the queue"),
        "{said}"
    );
}

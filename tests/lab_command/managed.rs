//! A description with a manager: the lab runs it, an agent on each host, and TCP of the kernel.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rtwire_sys::netns;
use serde_json::Value;

use crate::support::*;

/// A stalling machine may need several runs.
const TRIES: u32 = 4;
const TIMES: [&str; 4] = ["--calibration", "500ms", "--duration", "3s"];

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

/// Without its limits a host's best effort fills the buffer that all share: that is no network that keeps its promises. How
/// fast TCP of the kernel gets is the machine's affair, so datagrams come beside it, as fast as the link takes them.
#[test]
fn a_host_without_its_limits_is_found() {
    let _alone = alone();
    let child = started(lab(&reservations(), &TIMES).arg("--json"));
    let found = while_running(child.id(), |lab| {
        let namespace = |node: usize| lab["nodes"][node]["namespace"].as_str().unwrap();
        let removed = Command::new("ip")
            .args(["netns", "exec", namespace(0)])
            .args("tc qdisc del dev eth0 root".split(' '))
            .status();
        assert!(removed.unwrap().success());
        flood(namespace(0), address_in(namespace(4)));
    });
    assert_eq!(found["nodes"][0]["name"], "press");
    assert_eq!(found["nodes"][4]["name"], "office");
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

/// The address of a lab's host, as the kernel lists it.
fn address_in(namespace: &str) -> IpAddr {
    let listed = Command::new("ip")
        .args([
            "-n", namespace, "-json", "-4", "addr", "show", "dev", "eth0",
        ])
        .output()
        .unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let address = listed[0]["addr_info"][0]["local"].as_str();
    address.unwrap().parse().unwrap()
}

/// Sends datagrams from a namespace for most of a second: up to three times what a link of 100 Mbit/s takes.
fn flood(namespace: &str, to: IpAddr) {
    let namespace = namespace.to_owned();
    let sender = thread::spawn(move || {
        netns::enter(&namespace).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let until = Instant::now() + Duration::from_millis(800);
        while Instant::now() < until {
            for _ in 0..25 {
                // A full queue of the link is no fault: it is what this is for.
                let _ = socket.send_to(&[0; 1472], (to, 9));
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    sender.join().unwrap();
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

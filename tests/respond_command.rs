//! `rtwire respond` and `rtwire ping` as a user runs them, over a veth: in each mode of XDP, and without. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rtwire_sys::bpf::XdpMode;
use rtwire_testkit::{NetnsPair, foreign_xdp, ip, require};
use serde_json::Value;

#[path = "respond_common/mod.rs"]
mod respond_common;

use respond_common::{MAC_B, Running, finished, frames_sent, ping, rtwire, wait_until_sent};

/// All of `count` answered, and both sides agree.
fn all_answered(arguments: &[&str], expected: &str) {
    let pair = NetnsPair::new();
    let mut responder = Running::start(&pair.b, arguments);
    assert!(responder.said.contains(expected), "{}", responder.said);
    let mut asked = 0;
    for (count, more) in [
        (300, &["--interval", "1ms", "--deadline", "1s"][..]),
        (2000, &["--interval", "0s", "--spin"]),
        (200, &["--interval", "0s", "--size", "1450"]),
        (200, &["--interval", "0s", "--size", "0"]),
    ] {
        let count = count.to_string();
        let mut all = vec!["--count", &count];
        all.extend_from_slice(more);
        let (code, report, stderr) = ping(&pair.a, &all);
        assert_eq!(code, Some(0), "{more:?}: {report} {stderr}");
        assert_eq!(report["sent"].to_string(), count);
        assert_eq!(report["answered"], report["sent"]);
        for none in [
            "late",
            "lost",
            "waiting",
            "duplicate",
            "reordered",
            "unknown",
        ] {
            assert_eq!(report[none], 0, "{none}: {report}");
        }
        let trip = |key: &str| report["round_trip_ns"][key].as_u64().unwrap();
        assert!(
            trip("min") > 100 && trip("min") <= trip("p50") && trip("p50") <= trip("max"),
            "{report}"
        );
        asked += report["sent"].as_u64().unwrap();
    }
    responder.signal("-USR1");
    let meanwhile = responder.report();
    let (code, reports, _) = responder.end(Some("-INT"));
    assert_eq!(code, Some(0));
    assert_eq!(reports.len(), 1, "one more at the end");
    for report in [&meanwhile, &reports[0]] {
        assert_eq!(report["answered"], asked);
        assert_eq!(report["unanswered"], 0);
    }
}

#[test]
fn native_xdp_answers_every_question() {
    require!(root, program "ip");
    all_answered(&["--mode", "native"], "XDP in native mode");
}

#[test]
fn generic_xdp_answers_every_question() {
    require!(root, program "ip");
    all_answered(&["--mode", "generic"], "XDP in generic mode");
}

#[test]
fn a_packet_socket_answers_every_question() {
    require!(root, program "ip");
    all_answered(&["--path", "packet"], "packet socket");
}

#[test]
fn prepared_content_is_what_comes_back() {
    require!(root, program "ip");
    for more in [
        &["--mode", "native"][..],
        &["--mode", "generic"],
        &["--path", "packet"],
    ] {
        let pair = NetnsPair::new();
        let long = "x".repeat(1476);
        let mut all = vec!["--content", long.as_str(), "--key", "77"];
        all.extend_from_slice(more);
        let responder = Running::start(&pair.b, &all);
        let asked = [
            "--count",
            "100",
            "--interval",
            "0s",
            "--key",
            "77",
            "--room",
            "1476",
        ];
        let (code, report, stderr) = ping(&pair.a, &asked);
        assert_eq!(
            (code, &report["answered"]),
            (Some(0), &Value::from(100)),
            "{more:?} {report} {stderr}"
        );
        // Without room in the question's frame the driver of a veth cannot answer so much: counted, and told.
        let asked = [
            "--count",
            "2",
            "--interval",
            "1ms",
            "--timeout",
            "50ms",
            "--key",
            "77",
        ];
        let no_room = if more.contains(&"packet") { 0 } else { 2 };
        assert_eq!(ping(&pair.a, &asked).1["lost"], no_room);
        // Another key is another channel's: no answer.
        let asked = [
            "--count",
            "3",
            "--interval",
            "1ms",
            "--timeout",
            "50ms",
            "--key",
            "78",
        ];
        let (code, report, _) = ping(&pair.a, &asked);
        assert_eq!((code, &report["lost"]), (Some(1), &Value::from(3)));
        let (_, reports, _) = responder.end(Some("-TERM"));
        assert_eq!(
            (&reports[0]["answered"], &reports[0]["wrong_key"]),
            (&Value::from(102 - no_room), &Value::from(3))
        );
        assert_eq!(reports[0]["no_room"], no_room);
    }
}

#[test]
fn a_round_trip_over_the_deadline_is_counted_and_told_by_the_exit_code() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let _responder = Running::start(&pair.b, &[]);
    let (code, report, _) = ping(
        &pair.a,
        &["--count", "50", "--deadline", "1ns", "--no-noise"],
    );
    assert_eq!(
        (code, &report["over_deadline"], &report["answered"]),
        (Some(1), &50.into(), &50.into())
    );
    assert_eq!(report["deadline_ns"], 1);
}

#[test]
fn nobody_there_means_every_number_is_lost() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let (code, report, _) = ping(&pair.a, &["--count", "20", "--timeout", "50ms"]);
    assert_eq!(
        (code, &report["sent"], &report["lost"]),
        (Some(1), &20.into(), &20.into())
    );
}

#[test]
fn ping_goes_on_until_it_is_stopped_and_reports_meanwhile() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let responder = Running::start(&pair.b, &[]);
    let child = rtwire(&pair.a, &["ping", &pair.a.interface, MAC_B, "--json"])
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    for name in ["-USR1", "-INT"] {
        wait_until_sent(&pair.a, frames_sent(&pair.a) + 100);
        assert!(
            Command::new("kill")
                .args([name, &id])
                .status()
                .unwrap()
                .success()
        );
    }
    let output = child.wait_with_output().unwrap();
    let reports: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports.len(), 2, "{reports:?}");
    let sent = |at: usize| reports[at]["sent"].as_u64().unwrap();
    assert!(sent(0) > 10 && sent(1) > sent(0), "{reports:?}");
    assert_eq!(reports[1]["answered"], sent(1));
    assert_eq!(output.status.code(), Some(0));
    let (_, reports, _) = responder.end(Some("-INT"));
    assert_eq!(reports[0]["answered"], sent(1));
}

#[test]
fn another_programs_place_is_respected() {
    require!(root, program "ip");
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let pair = NetnsPair::new();
        let foreign = foreign_xdp();
        let theirs = pair.b.run(|| {
            let index = rtwire_sys::interface::by_name(&pair.b.interface)
                .unwrap()
                .index;
            foreign.attach_xdp("foreign", index, mode).unwrap()
        });
        let output = rtwire(&pair.b, &["respond", &pair.b.interface, "--path", "xdp"])
            .output()
            .unwrap();
        let (code, _, stderr) = finished(&output);
        assert_eq!(code, Some(3), "{stderr}");
        let named = "another XDP program is there already: `foreign`, number ";
        assert!(stderr.contains(named), "{stderr}");
        assert!(stderr.contains(&format!("in {mode} mode")), "{stderr}");
        assert!(stderr.contains("--path packet"), "{stderr}");
        assert_eq!(theirs.is_attached(), Ok(true));
        // As the help of `--path auto` says, a packet socket takes the driver's place, and it is reported.
        let responder = Running::start(&pair.b, &[]);
        assert!(
            responder.said.contains("packet socket"),
            "{}",
            responder.said
        );
        assert!(responder.said.contains(named), "{}", responder.said);
        assert_eq!(ping(&pair.a, &["--count", "10"]).0, Some(0));
        assert_eq!(theirs.is_attached(), Ok(true));
        drop(responder);
        // With a packet socket the two get along.
        let _responder = Running::start(&pair.b, &["--path", "packet"]);
        assert_eq!(ping(&pair.a, &["--count", "10"]).0, Some(0));
    }
}

#[test]
fn responders_share_the_program_and_one_may_be_killed() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let first = Running::start(&pair.b, &["--port", "2007"]);
    let _second = Running::start(&pair.b, &["--port", "2008"]);
    let output = rtwire(&pair.b, &["respond", &pair.b.interface, "--port", "2008"])
        .output()
        .unwrap();
    let (_, _, stderr) = finished(&output);
    assert!(stderr.contains("port 2008"), "{stderr}");
    assert!(stderr.contains("is in use"), "{stderr}");
    for port in ["2007", "2008"] {
        assert_eq!(ping(&pair.a, &["--count", "10", "--port", port]).0, Some(0));
    }
    let (code, _, _) = first.end(Some("-KILL"));
    assert_eq!(code, None);
    assert_eq!(
        ping(&pair.a, &["--count", "10", "--port", "2008"]).0,
        Some(0)
    );
}

#[test]
fn a_killed_responder_leaves_nothing_behind() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let attached = || {
        let output = Command::new("ip")
            .args(["-n", &pair.b.namespace, "link", "show", &pair.b.interface])
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).contains("xdp")
    };
    let responder = Running::start(&pair.b, &[]);
    assert!(attached());
    let (code, _, _) = responder.end(Some("-KILL"));
    assert_eq!(code, None);
    let until = Instant::now() + Duration::from_secs(2);
    while attached() && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!attached());
    // And the place is free again.
    let _responder = Running::start(&pair.b, &[]);
}

#[test]
fn an_interface_that_is_deleted_ends_both_with_a_reason() {
    require!(root, program "ip");
    for more in [&[][..], &["--path", "packet"]] {
        let pair = NetnsPair::new();
        let responder = Running::start(&pair.b, more);
        let asking = rtwire(&pair.a, &["ping", &pair.a.interface, MAC_B])
            .spawn()
            .unwrap();
        wait_until_sent(&pair.a, 100);
        ip(&pair.b.namespace, &format!("link del {}", pair.b.interface));
        let (code, reports, said) = responder.end(None);
        assert_eq!((code, reports.len()), (Some(3), 1), "{said}");
        assert!(said.contains("is gone"), "{said}");
        let output = asking.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(
            stderr.contains("is gone") || stderr.contains("is down"),
            "{stderr}"
        );
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("sent "),
            "the account so far"
        );
    }
}

#[test]
fn a_port_is_answered_at_by_one() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let _first = Running::start(&pair.b, &["--path", "packet"]);
    for path in ["packet", "xdp"] {
        let output = rtwire(&pair.b, &["respond", &pair.b.interface, "--path", path])
            .output()
            .unwrap();
        let (code, _, stderr) = finished(&output);
        assert_eq!(code, Some(3), "{stderr}");
        assert!(
            stderr.contains("port 2007") && stderr.contains("is in use"),
            "{stderr}"
        );
    }
}

#[test]
fn wrong_usage_is_told_before_anything_is_done() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let long = "x".repeat(1477);
    for (arguments, expected) in [
        (
            vec!["respond", "rtwb", "--port", "49152"],
            "choose a port below 49152",
        ),
        (vec!["respond", "rtwb", "--content", &long], "at most 1476"),
        (
            vec!["respond", "rtwb", "--file", "/nowhere"],
            "cannot read `/nowhere`",
        ),
        (vec!["ping", "rtwb", "02:00"], "not a MAC address"),
        (
            vec!["ping", "rtwb", MAC_B, "--size", "1477"],
            "at most 1476",
        ),
        (
            vec![
                "ping",
                "rtwb",
                MAC_B,
                "--interval",
                "1us",
                "--timeout",
                "1s",
            ],
            "--timeout is too long",
        ),
    ] {
        let (code, _, stderr) = finished(&rtwire(&pair.b, &arguments).output().unwrap());
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    for arguments in [
        ["respond", "nowhere"].as_slice(),
        &["ping", "nowhere", MAC_B],
    ] {
        let (code, _, stderr) = finished(&rtwire(&pair.b, arguments).output().unwrap());
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("`nowhere`"), "{stderr}");
    }
}

//! `rtwire ping` and `rtwire respond` when things go wrong meanwhile: links, names, stalls. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "respond_common/mod.rs"]
mod respond_common;

use respond_common::{MAC_B, Running, finished, frames_sent, ping, rtwire, wait_until_sent};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_sys::sched;
use rtwire_testkit::{NetnsPair, ip, require};
use serde_json::Value;

fn number(report: &Value, key: &str) -> u64 {
    let value = report[key].as_u64();
    value.unwrap_or_else(|| panic!("{key} is no number: {report}"))
}

#[test]
fn a_link_that_goes_down_and_comes_back_costs_only_what_was_asked_meanwhile() {
    require!(root, program "ip");
    for more in [
        &["--mode", "native"][..],
        &["--mode", "generic"],
        &["--path", "packet"],
    ] {
        let pair = NetnsPair::new();
        let responder = Running::start(&pair.b, more);
        let asking = [
            "ping",
            &pair.a.interface,
            MAC_B,
            "--json",
            "--count",
            "1500",
            "--timeout",
            "100ms",
        ];
        let child = rtwire(&pair.a, &asking).spawn().unwrap();
        wait_until_sent(&pair.a, 200);
        ip(&pair.b.namespace, "link set rtwb down");
        thread::sleep(Duration::from_millis(200));
        ip(&pair.b.namespace, "link set rtwb up");
        let (code, report, stderr) = finished(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(1), "{more:?}: {report} {stderr}");
        let lost = number(&report, "lost");
        assert!((50..1000).contains(&lost), "{more:?}: {report}");
        // What stood in a queue while the link was down may be answered after its time.
        assert_eq!(
            number(&report, "answered") + number(&report, "late") + lost,
            1500,
            "{more:?}: {report}"
        );
        // It answers still, and says so itself.
        let (code, again, _) = ping(&pair.a, &["--count", "20"]);
        assert_eq!(
            (code, number(&again, "answered")),
            (Some(0), 20),
            "{more:?}"
        );
        let (code, reports, said) = responder.end(Some("-INT"));
        assert_eq!(code, Some(0), "{more:?}: {said}");
        assert_eq!(
            number(&reports[0], "answered"),
            number(&report, "answered") + 20,
            "{more:?}"
        );
    }
}

#[test]
fn a_new_address_of_the_interface_is_answered_at() {
    require!(root, program "ip");
    for more in [
        &["--mode", "native"][..],
        &["--mode", "generic"],
        &["--path", "packet"],
    ] {
        let pair = NetnsPair::new();
        let responder = Running::start(&pair.b, more);
        assert_eq!(ping(&pair.a, &["--count", "10"]).0, Some(0), "{more:?}");
        let address = "02:00:00:00:00:77";
        ip(
            &pair.b.namespace,
            &format!("link set rtwb address {address}"),
        );
        // The responder looks at the address ten times a second.
        thread::sleep(Duration::from_millis(500));
        let asking = ["ping", "rtwa", address, "--json", "--count", "50"];
        let (code, report, stderr) = finished(&rtwire(&pair.a, &asking).output().unwrap());
        assert_eq!(code, Some(0), "{more:?}: {report} {stderr}");
        assert_eq!(number(&report, "answered"), 50, "{more:?}");
        assert_eq!(responder.end(Some("-INT")).0, Some(0), "{more:?}");
    }
}

#[test]
fn a_new_name_of_the_interface_changes_nothing() {
    require!(root, program "ip");
    for more in [
        &["--mode", "native"][..],
        &["--mode", "generic"],
        &["--path", "packet"],
    ] {
        let pair = NetnsPair::new();
        let responder = Running::start(&pair.b, more);
        assert_eq!(ping(&pair.a, &["--count", "20"]).0, Some(0));
        ip(&pair.b.namespace, "link set rtwb name renamed0");
        let (code, report, stderr) = ping(&pair.a, &["--count", "200"]);
        assert_eq!(code, Some(0), "{more:?}: {report} {stderr}");
        let (code, reports, said) = responder.end(Some("-INT"));
        assert_eq!(
            (code, number(&reports[0], "answered")),
            (Some(0), 220),
            "{said}"
        );
    }
}

#[test]
fn an_asker_whose_own_link_is_down_says_so_with_its_account() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let _responder = Running::start(&pair.b, &[]);
    let asking = ["ping", &pair.a.interface, MAC_B, "--count", "100000"];
    let child = rtwire(&pair.a, &asking).spawn().unwrap();
    wait_until_sent(&pair.a, 200);
    ip(&pair.a.namespace, "link set rtwa down");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("is down"), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("sent "));
}

/// Takes a core away for some milliseconds again and again, until it is dropped.
struct Thief<'a>(&'a AtomicBool);

impl Drop for Thief<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_late_answer_in_a_stall_of_this_machine_is_told_from_one_that_nothing_explains() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let responder = Running::start(&pair.b, &["--path", "packet"]);
    let asking = [
        "--cpu",
        "0",
        "--realtime",
        "50",
        "--deadline",
        "8ms",
        // A question is on its way much of the time: the thief meets one.
        "--interval",
        "100us",
        "--count",
        "6000",
    ];
    let stop = AtomicBool::new(false);
    let (_, stalled, stderr) = thread::scope(|scope| {
        let _thief = Thief(&stop);
        scope.spawn(|| {
            sched::set_cpu(0).unwrap();
            // As urgent as the threads that record: they cannot interrupt it.
            sched::set_fifo(99).unwrap();
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(15) {
                    std::hint::spin_loop();
                }
                thread::sleep(Duration::from_millis(60));
            }
        });
        ping(&pair.a, &asking)
    });
    assert!(number(&stalled, "over_deadline") > 0, "{stalled} {stderr}");
    assert!(number(&stalled, "over_deadline_explained") > 0, "{stalled}");
    assert!(number(&stalled, "stalls_recorded") > 0, "{stalled}");
    // A responder that is stopped is no stall of this machine.
    let before = frames_sent(&pair.a);
    let child = {
        let mut all = vec!["ping", &pair.a.interface, MAC_B, "--json"];
        all.extend_from_slice(&asking);
        rtwire(&pair.a, &all).spawn().unwrap()
    };
    wait_until_sent(&pair.a, before + 1_000);
    responder.signal("-STOP");
    thread::sleep(Duration::from_millis(200));
    responder.signal("-CONT");
    let (code, report, stderr) = finished(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{report} {stderr}");
    assert!(
        number(&report, "over_deadline_unexplained") > 50,
        "{report}"
    );
    assert_eq!(
        number(&report, "over_deadline"),
        number(&report, "over_deadline_explained") + number(&report, "over_deadline_unexplained")
    );
    // Without the record nothing is said of it.
    let (_, report, _) = ping(&pair.a, &["--deadline", "1s", "--count", "5", "--no-noise"]);
    assert_eq!(report["over_deadline_explained"], Value::Null);
}

//! `rtwire apply`, `confirm` and `revert` on a veth, with the disciplines that every kernel has; what needs others is in
//! the kernel lab (`tests/vm/suites/apply.sh`). Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "apply_common/mod.rs"]
mod apply_common;
#[path = "capture_common/mod.rs"]
mod capture_common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use apply_common::{Bench, code, said, same, wait_for};
use rtwire_testkit::{ip, require};
use serde_json::Value;

#[test]
fn what_is_applied_is_in_force_and_what_is_reverted_is_as_before_to_the_byte() {
    require!(root, program "ip", program "tc", program "ethtool", program "sysctl");
    let bench = Bench::new();
    let before = bench.looks();
    let dry = bench.apply(&["--dry-run"]);
    code(&dry, 0);
    assert!(said(&dry).contains("none made"), "{}", said(&dry));
    same(&bench.looks(), &before, "a dry run changes nothing");

    code(&bench.apply(&[]), 0);
    let classes = bench.sh("tc class show dev rtwa");
    for part in ["rate 100Mbit", "ceil 101", "prio 7", "prio 0"] {
        assert!(classes.contains(part), "no `{part}` in {classes}");
    }
    let filters = bench.sh("tc filter show dev rtwa");
    assert!(filters.contains("flowid 1:13"), "{filters}");
    let address = bench.sh("ip address show dev rtwa");
    assert!(
        !address.contains("inet") && address.contains("NOARP"),
        "{address}"
    );

    let again = bench.apply(&[]);
    code(&again, 0);
    assert!(
        said(&again).contains("as planned already"),
        "{}",
        said(&again)
    );
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    bench.comes_back_to(&before, "");
}

/// TCP hands up to 64 KiB to the queue as one frame, with its offloads off, too. Applied, no burst is larger than planned.
#[test]
fn best_effort_of_tcp_keeps_the_planned_burst() {
    require!(root, program "ip", program "dumpcap", program "tshark", program "iperf3");
    let bench = Bench::new();
    let allowance = "\n[[best-effort]]\nname = \"tcp\"\nhost = \"A\"\nto = [\"B\"]\nrate = \"10 Mbit/s\"\nburst = \"3076 B\"\n";
    let network = fs::read_to_string(bench.plan()).unwrap();
    let planned = network
        .split("\n[[best-effort]]")
        .next()
        .unwrap()
        .to_owned()
        + allowance;
    fs::write(bench.plan(), planned).unwrap();
    let applied = bench.apply(&["--isolation", "none", "--fallback"]);
    code(&applied, 0);
    let classes = bench.sh("tc class show dev rtwa");
    // HTB sends a frame beyond its burst: 3076 bytes on the wire are a burst of one frame, and one more.
    assert!(classes.contains("cburst 1536b"), "{classes}");

    let mut server = Command::new("ip");
    server.args([
        "netns",
        "exec",
        &bench.pair.b.namespace,
        "iperf3",
        "-s",
        "-1",
    ]);
    let mut server = server.stdout(std::process::Stdio::null()).spawn().unwrap();
    let file = bench.folder.path().join("tcp.pcapng");
    let capture = capture_common::Capture::start(&bench.pair.a.namespace, "rtwa", &file);
    let line = format!(
        "for n in 1 2 3 4 5; do sleep 0.2; iperf3 -c {} -t 2 && break; done",
        bench.pair.b.address
    );
    let done = bench.sh(&line);
    assert!(done.contains("receiver"), "{done}");
    let own = bench.pair.a.address.to_string();
    let frames = capture.frames();
    let sent: Vec<_> = frames
        .into_iter()
        .filter(|frame| frame.source == own)
        .collect();
    server.wait().unwrap();
    assert!(sent.len() > 1_000, "{}", sent.len());
    // 10 Mbit/s of frames, with 24 bytes more each on the wire. A stall of the machine between queue and capture may bring two
    // frames together; before, bursts were of 99 kB.
    let burst = capture_common::largest_burst(&sent, 1_270_000);
    assert!(burst < 3 * 3_076, "{burst} B at once");
}

/// Best effort whose burst is one frame, which is what a description without `burst` has.
#[test]
fn best_effort_without_a_burst_is_applied_and_reads_back() {
    require!(root, program "ip", program "tc");
    let bench = Bench::new();
    let network = fs::read_to_string(bench.plan()).unwrap();
    for rate in ["1 Mbit/s", "20 Mbit/s", "93 Mbit/s"] {
        let other = network
            .replace("burst = \"3000 B\"\n", "")
            .replace("rate = \"10 Mbit/s\"", &format!("rate = \"{rate}\""));
        assert_ne!(other, network);
        fs::write(bench.plan(), other).unwrap();
        code(&bench.apply(&["--isolation", "none"]), 0);
        let checked = bench.apply(&["--isolation", "none", "--check"]);
        code(&checked, 0);
        code(&bench.rtwire(&["revert", "rtwa"]), 0);
    }
}

#[test]
fn queues_of_somebody_else_come_back_or_are_left_alone() {
    require!(root, program "ip", program "tc");
    let bench = Bench::new();
    for queues in [
        "tc qdisc add dev rtwa root handle 7: tbf rate 20mbit burst 4k latency 5ms",
        "tc qdisc add dev rtwa root handle 7: pfifo limit 77",
        "tc qdisc add dev rtwa root handle 7: htb default 5; tc class add dev rtwa parent 7: classid 7:5 htb rate 3mbit; \
         tc qdisc add dev rtwa parent 7:5 handle 8: pfifo limit 9",
    ] {
        bench.sh(queues);
        let before = bench.looks();
        code(&bench.apply(&[]), 0);
        assert_ne!(bench.looks(), before);
        code(&bench.rtwire(&["revert", "rtwa"]), 0);
        bench.comes_back_to(&before, queues);
        bench.sh("tc qdisc del dev rtwa root");
    }
    // Filters of a kind that cannot be put back.
    bench.sh("tc qdisc add dev rtwa root handle 7: htb; \
         tc filter add dev rtwa parent 7: bpf bytecode '1,6 0 0 4294967295' flowid 7:1");
    let before = bench.looks();
    let output = bench.apply(&[]);
    code(&output, 3);
    assert!(
        said(&output).contains("could not be put back"),
        "{}",
        said(&output)
    );
    same(&bench.looks(), &before, "");
}

#[test]
fn the_lines_that_explain_do_the_same() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    let before = bench.looks();
    let explained = bench.apply(&["--explain"]);
    code(&explained, 0);
    same(&bench.looks(), &before, "");
    let lines = String::from_utf8(explained.stdout).unwrap();
    code(&bench.apply(&[]), 0);
    let applied = bench.looks();
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    bench.sh(&lines);
    same(&bench.looks(), &applied, &lines);
    let rest = said(&bench.apply(&["--dry-run"]));
    assert!(!rest.contains("would change"), "{rest}");
}

#[test]
fn unconfirmed_settings_go_back_by_themselves_and_confirmed_ones_stay() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    let before = bench.looks();
    code(&bench.apply(&["--confirm-within", "1s"]), 0);
    assert_ne!(bench.looks(), before);
    wait_for(Duration::from_secs(20), || bench.looks() == before);
    code(&bench.rtwire(&["confirm", "rtwa"]), 2);

    code(&bench.apply(&["--confirm-within", "4s"]), 0);
    let applied = bench.looks();
    code(&bench.rtwire(&["confirm", "rtwa"]), 0);
    // Longer than the time to confirm: nobody puts anything back.
    thread::sleep(Duration::from_secs(5));
    same(&bench.looks(), &applied, "");
    // Applied twice is refused: the record of the first would be lost.
    bench.sh("ip link set rtwa arp on");
    let twice = bench.apply(&[]);
    code(&twice, 1);
    assert!(said(&twice).contains("rtwire revert"), "{}", said(&twice));
    code(&bench.rtwire(&["revert"]), 0);
    bench.comes_back_to(&before, "");
}

#[test]
fn a_guardian_that_was_killed_too_leaves_a_record_that_the_next_run_finds() {
    require!(root, program "ip", program "tc", program "ethtool", program "pgrep");
    let bench = Bench::new();
    let before = bench.looks();
    code(&bench.apply(&["--confirm-within", "2s"]), 0);
    let pids = Command::new("ip")
        .args(["netns", "pids", &bench.pair.a.namespace])
        .output()
        .unwrap();
    for pid in String::from_utf8(pids.stdout).unwrap().split_whitespace() {
        let line = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
        assert!(String::from_utf8_lossy(&line).contains("host-guardian"));
        assert!(
            Command::new("kill")
                .args(["-9", pid])
                .status()
                .unwrap()
                .success()
        );
    }
    // Longer than the time to confirm.
    thread::sleep(Duration::from_secs(3));
    assert_ne!(bench.looks(), before, "nobody is there to put it back");
    let doctor = bench.rtwire(&["doctor", "rtwa"]);
    assert!(
        said(&doctor).contains("rtwire revert rtwa"),
        "{}",
        said(&doctor)
    );
    // Too late: puts back what nobody confirmed.
    let late = bench.rtwire(&["confirm", "rtwa"]);
    code(&late, 1);
    bench.comes_back_to(&before, "");
}

#[test]
fn killed_at_any_moment_it_can_be_put_back() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    let before = bench.looks();
    let start = Instant::now();
    code(&bench.apply(&[]), 0);
    let whole = start.elapsed();
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    let (mut unfinished, mut finished) = (0, 0);
    for moment in 0..100_u32 {
        let mut child = bench.apply_command(&[]).spawn().unwrap();
        // Evenly over the whole run, and a little beyond.
        thread::sleep(whole * moment / 90);
        let _ = child.kill();
        let _ = child.wait();
        let output = bench.rtwire(&["revert"]);
        code(&output, 0);
        if said(&output).contains("setting(s)") {
            unfinished += 1;
        } else {
            finished += 1;
        }
        assert_eq!(bench.records(), Vec::<PathBuf>::new(), "moment {moment}");
        if moment % 10 == 9 {
            bench.comes_back_to(&before, &format!("killed at moment {moment}"));
        }
    }
    assert!(
        unfinished > 5 && finished > 5,
        "{unfinished} with changes, {finished} without"
    );
}

#[test]
fn a_record_that_was_cut_off_at_its_beginning_goes_and_one_that_nobody_can_read_is_named() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    code(&bench.apply(&[]), 0);
    let record = bench.records().remove(0);
    let text = fs::read_to_string(&record).unwrap();
    code(&bench.rtwire(&["revert"]), 0);
    for cut in [0, 1, text.find('\n').unwrap()] {
        fs::write(&record, &text[..cut]).unwrap();
        let output = bench.rtwire(&["revert"]);
        code(&output, 0);
        assert!(
            said(&output).contains("nothing to put back"),
            "{}",
            said(&output)
        );
        assert!(!record.exists(), "after {cut} octets");
    }
    fs::write(&record, "of another program\n").unwrap();
    let output = bench.rtwire(&["revert"]);
    code(&output, 2);
    let name = record.file_name().unwrap().to_str().unwrap();
    assert!(said(&output).contains(name), "{}", said(&output));
    assert!(record.exists());
}

#[test]
fn a_change_that_is_refused_takes_all_others_back() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    let before = bench.looks();
    // The settings before the interrupt's are made, that one is not there to be set.
    bench.sh("ip link add rtwdummy type veth peer name rtwdummy2");
    let text = fs::read_to_string(bench.plan()).unwrap();
    // A frame larger than a veth takes: the MTU is refused by the kernel.
    let text = text
        .replace("payload = \"200 B\"", "frame = \"65535 B\"")
        .replace("\"200 kB\"", "\"2 MB\"");
    fs::write(bench.plan(), text).unwrap();
    let output = bench.apply(&[]);
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    same(&bench.looks(), &before, &said(&output));
    code(&bench.rtwire(&["revert", "rtwa"]), 2);
}

#[test]
fn wrong_usage_and_missing_abilities_are_named() {
    require!(root, program "ip");
    let bench = Bench::new();
    let before = bench.looks();
    let plan = bench.plan();
    let plan = plan.to_str().unwrap();
    let nobody = bench.rtwire(&["apply", plan, "--host", "C", "--interface", "rtwa"]);
    code(&nobody, 2);
    assert!(said(&nobody).contains("A, B"), "{}", said(&nobody));
    let nowhere = bench.rtwire(&["apply", plan, "--host", "A", "--interface", "rtwx"]);
    code(&nowhere, 2);
    assert!(said(&nowhere).contains("rtwa"), "{}", said(&nowhere));
    code(&bench.apply(&["--confirm-within", "soon"]), 2);
    let taprio = bench.apply(&["--queues", "taprio"]);
    code(&taprio, 3);
    let text = said(&taprio);
    assert!(
        text.contains("cannot be promised") && text.contains("--fallback"),
        "{text}"
    );
    same(&bench.looks(), &before, "");
    let report = bench.apply(&["--queues", "taprio", "--fallback", "--json"]);
    code(&report, 0);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["mechanism"], "htb");
    assert_eq!(report["applied"], true);
    assert!(!report["lacks"].as_array().unwrap().is_empty());
    ip(&bench.pair.a.namespace, "link show rtwa");
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
}

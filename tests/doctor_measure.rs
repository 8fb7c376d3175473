//! `rtwire doctor --measure` sees what is planted: a busy real-time thread, a missing right, an interface that goes. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_sys::clock::{Clock, now_ns, sleep_until};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface, sched};
use rtwire_testkit::{NetnsPair, Side, ip, require};
use serde_json::Value;

/// A planted real-time thread disturbs every other measurement of this machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

const BRIEF: [&str; 5] = ["--measure", "--duration", "400ms", "--load", "none"];

fn doctor(side: Option<&Side>, before: &[&str], arguments: &[&str]) -> Command {
    let mut words = vec!["env".to_owned()];
    if let Some(side) = side {
        words = ["ip", "netns", "exec", &side.namespace]
            .map(str::to_owned)
            .to_vec();
    }
    words.extend(before.iter().map(|word| (*word).to_owned()));
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args([env!("CARGO_BIN_EXE_rtwire"), "doctor"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn measured<'a>(report: &'a Value, what: &str, at: &str, load: &str) -> &'a Value {
    let all = report["measurements"].as_array().unwrap();
    all.iter()
        .find(|one| one["what"] == what && one["at"] == at && one["load"] == load)
        .unwrap_or_else(|| panic!("no {what}, {at}, {load} in {all:#?}"))
}

fn finding<'a>(report: &'a Value, id: &str) -> Option<&'a Value> {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|one| one["id"] == id)
}

#[test]
fn the_machine_is_measured_idle_and_loaded_and_what_was_asked_for_is_in_force() {
    require!(root);
    let _alone = alone();
    let arguments = ["--measure", "--duration", "400ms", "--json"];
    let output = doctor(None, &[], &arguments).output().unwrap();
    let report = report(&output);
    for load in ["idle", "processors and network busy"] {
        for what in ["wake-up", "transmit", "receive"] {
            let one = measured(&report, what, "own cable", load);
            assert!(one["samples"].as_u64().unwrap() > 100, "{one}");
            let at = |key: &str| one[key].as_i64().unwrap();
            assert!(0 < at("min_ns") && at("min_ns") <= at("p50_ns"), "{one}");
            assert!(at("p50_ns") <= at("p999_ns") && at("p999_ns") <= at("max_ns"));
            assert_eq!(one["noise"]["priority"], 90, "{one}");
        }
        assert_eq!(measured(&report, "transmit", "own cable", load)["lost"], 0);
    }
    let verified = report["verified"].as_array().unwrap();
    for what in [
        "memory",
        "the queue",
        "the sender's thread",
        "the receiver's thread",
    ] {
        assert!(verified.iter().any(|one| one["what"] == what), "{what}");
    }
    let pcp = verified.iter().find(|one| one["asked"] == "PCP 6").unwrap();
    assert!(pcp["what"].as_str().unwrap().contains("other end"), "{pcp}");
    assert!(
        verified.iter().all(|one| one["in_force"] == true),
        "{verified:#?}"
    );
    let schema = rtwire_host::doctor::json_schema();
    let fault = jsonschema::validate(&schema, &report).err();
    assert!(fault.is_none(), "{fault:?}");
}

/// Keeps all processors busy with `priority`, at the same time, for `busy` of each 20 ms while `work` is done. (One that is
/// free would be where a real-time thread goes.)
fn hog<T>(priority: u8, busy_ns: u64, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for cpu in sched::affinity().unwrap() {
            let stop = &stop;
            scope.spawn(move || {
                sched::set_cpu(cpu).unwrap();
                sched::set_fifo(priority).unwrap();
                const EVERY_NS: u64 = 20_000_000;
                while !stop.load(Ordering::Relaxed) {
                    let next = now_ns(Clock::Monotonic).next_multiple_of(EVERY_NS);
                    let _ = sleep_until(Clock::Monotonic, next);
                    while now_ns(Clock::Monotonic) < next + busy_ns {}
                }
            });
        }
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_busy_thread_that_is_more_urgent_is_seen_and_one_that_is_less_urgent_is_not() {
    require!(root);
    let _alone = alone();
    let look = || {
        let all = [&BRIEF[..], &["--json"]].concat();
        report(&doctor(None, &[], &all).output().unwrap())
    };
    let busy_ns = 5_000_000;
    let outranked = hog(85, busy_ns, look);
    let wake_up = measured(&outranked, "wake-up", "own cable", "idle");
    // What the machine itself does is explained: it is in the way of the most urgent threads, too.
    let not_explained = |one: &Value| {
        let number = |key: &str| one["stalled"][key].as_u64().unwrap();
        number("count") - number("explained")
    };
    let late = not_explained(wake_up);
    assert!(
        late > 3 && wake_up["max_ns"].as_u64().unwrap() > 3_000_000,
        "{wake_up}"
    );
    let found = finding(&outranked, "measured.outranked").expect("it is concluded");
    assert_eq!(found["level"], "weak");
    assert_eq!(outranked["ready"], false);
    // The same work below ours costs nothing that the machine itself does not do.
    let below = hog(10, busy_ns, look);
    let wake_up = measured(&below, "wake-up", "own cable", "idle");
    assert!(not_explained(wake_up) < late, "{wake_up}");
}

#[test]
fn an_interface_is_measured_with_its_own_queue_and_what_others_send() {
    require!(root, program "ip");
    let _alone = alone();
    let pair = NetnsPair::new();
    let stop = AtomicBool::new(false);
    let (output, seen) = thread::scope(|scope| {
        let (stop, b) = (&stop, &pair.b);
        // Another station: sends something of its own, and looks what comes.
        let peer = scope.spawn(move || b.run(|| station(b, stop)));
        let all = [&["rtwa"], &BRIEF[..], &["--json"]].concat();
        let output = doctor(Some(&pair.a), &[], &all).output().unwrap();
        stop.store(true, Ordering::Relaxed);
        (output, peer.join().unwrap())
    });
    let report = report(&output);
    for what in ["wake-up", "transmit", "receive"] {
        let one = measured(&report, what, "rtwa", "idle");
        assert!(one["samples"].as_u64().unwrap() > 50, "{one}");
    }
    let verified = report["verified"].as_array().unwrap();
    let pcp = verified
        .iter()
        .find(|one| one["at"] == "rtwa" && one["asked"] == "PCP 6");
    let pcp = pcp.unwrap_or_else(|| panic!("{verified:#?}"));
    assert_eq!(pcp["in_force"], true);
    // What the report says is what the other end saw: our frames, with that priority, for nobody but ourselves.
    assert!(seen > 200, "{seen}");
}

/// Frames of the measurement that came here as they should.
fn station(side: &Side, stop: &AtomicBool) -> u64 {
    const EVERY: u16 = 3;
    let own = interface::by_name(&side.interface).unwrap();
    let accept = Filter::new(&[Instruction::Accept]).unwrap();
    let (receiver, ()) =
        PacketSocket::receiver(&own, EVERY, &accept, PacketSocket::enable_tags).unwrap();
    receiver
        .set_receive_timeout(Some(Duration::from_millis(2)))
        .unwrap();
    let sender = PacketSocket::sender(&own).unwrap();
    let mut frame = [0_u8; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&own.mac);
    frame[12..14].copy_from_slice(&[0x88, 0xb6]);
    let mut batch = Batch::new(1, 256);
    let mut seen = 0;
    while !stop.load(Ordering::Relaxed) {
        let _ = sender.send(&frame);
        if receiver.receive(&mut batch, Wait::One, 1).is_err() {
            continue;
        }
        let message = batch.get(0).unwrap();
        let data = message.data;
        if data.windows(8).any(|octets| octets == b"rtwdoctr") && data[..6] == data[6..12] {
            assert_eq!(
                message.tag.map(|tag| (tag >> 13, tag & 0xfff)),
                Some((6, 0))
            );
            seen += 1;
        }
    }
    seen
}

#[test]
fn an_interface_that_goes_ends_the_measurement_with_what_there_is() {
    require!(root, program "ip");
    let _alone = alone();
    let pair = NetnsPair::new();
    let all = [
        "rtwa",
        "--measure",
        "--duration",
        "3s",
        "--load",
        "none",
        "--json",
    ];
    let before = pair.a.frames_sent();
    let child = doctor(Some(&pair.a), &[], &all).spawn().unwrap();
    // It measures on its own cable first.
    let until = Instant::now() + Duration::from_secs(60);
    while pair.a.frames_sent() < before + 200 {
        assert!(Instant::now() < until, "it never sends on rtwa");
        thread::sleep(Duration::from_millis(20));
    }
    ip(&pair.a.namespace, "link del rtwa");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("rtwa") && (said.contains("gone") || said.contains("down")),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let report = report(&output);
    let some = measured(&report, "transmit", "rtwa", "idle");
    let samples = some["samples"].as_u64().unwrap();
    assert!(0 < samples && samples < 2_900, "{some}");
}

#[test]
fn a_right_that_is_missing_is_found_by_what_is_in_force() {
    require!(root, program "setpriv", program "prlimit");
    let _alone = alone();
    let all = [&BRIEF[..], &["--json"]].concat();
    let before = [
        "prlimit",
        "--rtprio=0",
        "setpriv",
        "--bounding-set=-sys_nice",
        "--inh-caps=-sys_nice",
    ];
    let output = doctor(None, &before, &all).output().unwrap();
    let report = report(&output);
    let found = finding(&report, "measured.in_force").expect("a fault");
    assert_eq!(found["level"], "fault");
    let text = found["found"].as_str().unwrap();
    assert!(
        text.contains("SCHED_FIFO 80") && text.contains("Other"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(1));
    // The figures are there all the same.
    measured(&report, "wake-up", "own cable", "idle");
}

#[test]
fn without_root_and_with_wrong_words_there_is_one_message() {
    require!(root, program "setpriv");
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rtwire");
    std::fs::copy(env!("CARGO_BIN_EXE_rtwire"), &program).unwrap();
    let open = format!("chmod 755 {0} {0}/rtwire", folder.path().display());
    assert!(
        Command::new("sh")
            .args(["-c", &open])
            .status()
            .unwrap()
            .success()
    );
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ])
        .arg(&program)
        .args(["doctor", "--json"])
        .args(BRIEF)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("CAP_SYS_ADMIN") && said.lines().count() == 1,
        "{said}"
    );
    for (arguments, part) in [
        (vec!["--duration", "1s"], "--measure"),
        (vec!["--measure", "--duration", "0s"], "above 0"),
        (vec!["--measure", "--load", "all of it"], "processors"),
        (vec!["rtwx", "--measure"], "rtwx"),
    ] {
        let output = doctor(None, &[], &arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(part), "{said}");
    }
}

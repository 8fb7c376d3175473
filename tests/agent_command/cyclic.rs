//! Cyclic connections: their frames leave at the launches that the manager chose. The referee is a capture of the cable.

use std::io::Write as _;
use std::process::Stdio;

use rtwire_agent::ReserveWish;
use rtwire_testkit::require;

use super::room::{BINARY, Room, Running, text, until, wish};

const INTERVAL_US: u64 = 20_000;
/// Many more lines than the medians need. The last one ends without a launch of its own behind it.
const LINES: usize = 100;

/// Starts `rtwire channel send` with one line for each launch.
fn sender(room: &Room, frame: &str) -> Running {
    let mut send = room.at("press", BINARY);
    send.args(["channel", "send", "--to", "office", "--interval", "20 ms"])
        .args(["--frame", frame, "--agent"])
        .arg(room.socket("press"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut send);
    let mut lines = running.child.stdin.take().unwrap();
    // All at once: the command waits for each launch.
    let text: String = (0..LINES).map(|nth| format!("line {nth}\n")).collect();
    lines.write_all(text.as_bytes()).unwrap();
    running
}

#[test]
fn frames_leave_at_the_launches_that_the_manager_chose() {
    require!(root, program "ip", program "dumpcap", program "tshark");
    let room = Room::new();
    let _manager = room.manager();
    let _agent = room.agent("press");
    let capture = room.capture("press", "launches.pcapng");
    // Long frames: a slot of the second has to wait for that of the first.
    let first = sender(&room, "1400 B");
    until("the first connection", || room.connections("press") == [1]);
    let second = sender(&room, "100 B");
    until("the second connection", || {
        room.connections("press") == [1, 2]
    });
    let listed = room.listed("press");
    for mut running in [first, second] {
        let status = running.child.wait().unwrap();
        assert!(status.success(), "{status:?}");
    }
    let frames = capture.frames();
    let tai_us = rtwire_sys::clock::tai_offset_ns().unwrap() / 1_000;
    let mut offsets = Vec::new();
    for connection in listed["connections"].as_array().unwrap() {
        assert_eq!(connection["interval_ns"], INTERVAL_US * 1_000, "{listed}");
        let offset_us = connection["launch_offset_ns"].as_u64().unwrap() / 1_000;
        let port = connection["port"].as_u64().unwrap();
        let own = frames
            .iter()
            .filter(|frame| u64::from(frame.destination_port) == port);
        let own: Vec<u64> = own
            .map(|frame| frame.at_us.saturating_add_signed(tai_us))
            .collect();
        assert_eq!(own.len(), LINES, "{connection}");
        // Each frame is in an interval of its own.
        let interval = |at_us: &u64| (at_us - offset_us) / INTERVAL_US;
        assert!(
            own.windows(2)
                .all(|pair| interval(&pair[0]) < interval(&pair[1]))
        );
        // The machine may be late at times, so the median counts; without launches it is anywhere in the 20 ms.
        let mut late_us: Vec<u64> = own
            .iter()
            .map(|at_us| (at_us - offset_us) % INTERVAL_US)
            .collect();
        late_us.sort_unstable();
        assert!(late_us[LINES / 2] < 2_000, "{connection}: {late_us:?}");
        offsets.push(offset_us);
    }
    assert_ne!(offsets[0], offsets[1]);
}

#[test]
fn a_cycle_that_has_no_offset_is_refused_with_the_reason() {
    require!(root, program "ip");
    let room = Room::new();
    let _manager = room.manager();
    let _agent = room.agent("press");
    let run = |interval: &str| {
        let mut send = room.at("press", BINARY);
        send.args(["channel", "send", "--to", "office", "--frame", "100 B"])
            .args(["--interval", interval, "--agent"])
            .arg(room.socket("press"))
            .stdin(Stdio::null());
        send.output().unwrap()
    };
    let short = run("10 us");
    assert_eq!(short.status.code(), Some(1), "{}", text(&short));
    assert!(
        text(&short).contains("no launch offset is free at \"press\""),
        "{}",
        text(&short)
    );
    let zero = ReserveWish {
        interval_ns: Some(0),
        ..wish()
    };
    let refused = room.client("press").reserve(zero).unwrap_err().to_string();
    assert!(
        refused.contains("an interval is at least 1 ns"),
        "{refused}"
    );
}

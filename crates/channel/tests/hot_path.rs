//! The hot path allocates nothing and makes at most one system call for a frame.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{
    Endpoint, EndpointConfig, NewestListener, Order, QueueListener, Semantics, Talker, WakeUp,
};
use rtwire_testkit::{CountingAllocator, NetnsPair, Side, allocations, require};
use std::net::Ipv4Addr;
use std::process::Command;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

enum Listener {
    Queue(QueueListener),
    Newest(NewestListener),
}

/// Opens a talker and a listener for one path, one way to wait and one semantics, in the namespaces `a` and `b`.
fn open(
    a: &Side,
    b: &Side,
    way: Way,
    wait: (WakeUp, Order),
    semantics: Semantics,
) -> (Talker, Listener) {
    let mut config = listener_config(way, 1001);
    (config.wake_up, config.order) = wait;
    let listener = b.run(|| {
        let path = EndpointConfig {
            path: way.path(),
            ..EndpointConfig::new(b.interface.as_str())
        };
        let endpoint = Endpoint::with(&path).unwrap();
        match semantics {
            Semantics::Queue => Listener::Queue(endpoint.queue_listener(&config).unwrap()),
            Semantics::Newest => Listener::Newest(endpoint.newest_listener(&config).unwrap()),
        }
    });
    let mut config = talker_config(a, b, way, 1001);
    config.semantics = semantics;
    config.stamping = Some(BOTH_STAMPS);
    (a.run(|| Talker::open(&config).unwrap()), listener)
}

/// Sends `count` values, `burst` at a time, and receives each.
fn exchange(talker: &mut Talker, listener: &mut Listener, count: usize, burst: usize) {
    let data = [0x33; 200];
    for _ in 0..count / burst {
        for _ in 0..burst {
            talker.send(&data).unwrap();
        }
        match listener {
            Listener::Queue(listener) => {
                for _ in 0..burst {
                    assert_eq!(listener.recv(SOON).unwrap().unwrap().data, data);
                }
            }
            Listener::Newest(listener) => {
                let newest = listener.read().unwrap().unwrap();
                assert_eq!((newest.data, newest.skipped), (&data[..], burst as u64 - 1));
            }
        }
    }
}

#[test]
fn nothing_is_allocated() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            for semantics in [Semantics::Queue, Semantics::Newest] {
                let (mut talker, mut listener) = open(&pair.a, &pair.b, way, wait, semantics);
                let mut stamps = talker.take_stamps().unwrap().unwrap();
                let before = allocations();
                exchange(&mut talker, &mut listener, 300, 1);
                exchange(&mut talker, &mut listener, 300, 30);
                let mut collected = 0;
                while collected < 600 {
                    collected += stamps
                        .collect(std::time::Duration::from_millis(10), |_| ())
                        .unwrap();
                }
                assert_eq!(allocations() - before, 0, "{way:?} {wait:?} {semantics:?}");
            }
        }
    }
    // Proof that the counter counts.
    let before = allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(allocations() - before, 1);
}

/// Runs under `strace`: see the next test.
#[test]
#[ignore = "run by the test at_most_one_system_call_for_a_frame"]
fn child_that_exchanges_frames() {
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let side = |namespace: &str, interface: &str, last: u8| Side {
        namespace: std::env::var(namespace).unwrap(),
        interface: interface.to_owned(),
        mac: [2, 0, 0, 0, 0, last],
        address: Ipv4Addr::new(10, 77, 0, last),
    };
    let (a, b) = (side("RTWTEST_A", "rtwa", 1), side("RTWTEST_B", "rtwb", 2));
    let (way, wake_up) = (
        WAYS[number("RTWTEST_WAY")],
        WAITS[number("RTWTEST_WAKE_UP")],
    );
    let (mut talker, mut listener) = open(&a, &b, way, wake_up, Semantics::Queue);
    exchange(
        &mut talker,
        &mut listener,
        number("RTWTEST_FRAMES"),
        number("RTWTEST_BURST"),
    );
}

/// Returns the number of system calls of a child process that sends and receives `frames` frames.
fn calls(pair: &NetnsPair, way: usize, wake_up: usize, frames: usize, burst: usize) -> i64 {
    let output = Command::new("strace")
        .args(["-f", "-c", "-U", "calls,name"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_exchanges_frames", "--ignored"])
        .env("RTWTEST_A", &pair.a.namespace)
        .env("RTWTEST_B", &pair.b.namespace)
        .env("RTWTEST_WAY", way.to_string())
        .env("RTWTEST_WAKE_UP", wake_up.to_string())
        .env("RTWTEST_FRAMES", frames.to_string())
        .env("RTWTEST_BURST", burst.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let total = text
        .lines()
        .find_map(|line| line.trim().strip_suffix(" total"));
    total
        .and_then(|line| line.trim().parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn at_most_one_system_call_for_a_frame() {
    require!(root, program "ip", program "strace");
    let pair = NetnsPair::new();
    for (way, name) in WAYS.iter().enumerate() {
        for (wake_up, waits) in WAITS.iter().enumerate() {
            for burst in [1, 50] {
                let few = calls(&pair, way, wake_up, 500, burst);
                let many = calls(&pair, way, wake_up, 1500, burst);
                let ring = *name != Way::Udp && waits.0 != WakeUp::Block;
                // One call to send; none to receive from a ring, else one. A few more for threads that start and end.
                let allowed = if ring { 1000 } else { 2000 };
                let calls = many - few;
                assert!(
                    calls >= 900,
                    "{name:?} {waits:?} in {burst}: only {calls} calls were counted"
                );
                assert!(
                    calls <= allowed + 20,
                    "{name:?} {waits:?} in {burst}: {calls} calls for 1000 frames"
                );
            }
        }
    }
}

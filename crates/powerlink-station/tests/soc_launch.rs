//! SoC by launch time, kept by ETF. A managing node and two controlled ones are around a bridge, and an observer
//! watches the managing node's frames. ETF is in few kernels: these run in the kernel lab.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed unwrap is a failed test"
)]

use rtwire_powerlink_station::powerlink::Cdc;
use rtwire_powerlink_station::{
    Handle, Project, SocLaunchStatus, Station, StationError, StationStatus,
};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface};
use rtwire_testkit::{Side, Star, require, tc};
use rtwire_wire::powerlink::{Message, Packet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
/// The queue's delta, ns. An emulated processor wakes milliseconds late, and stalls for longer now and then. Virtual
/// time (`tests/vm/measure/soc.sh`) shows how exact SoC are, and that the network then stays operational.
const DELTA_NS: u64 = 25 * MS;
/// The tolerance in ns for the comparison of a stalled machine's clocks, and for the time until the peer stamps a
/// frame.
const TOLERANCE_NS: i64 = 3_000_000;
const PATIENCE: Duration = Duration::from_secs(240);
const ALL_FRAMES: u16 = 3;

fn etf(side: &Side, options: &str) {
    tc(
        &side.namespace,
        &format!("qdisc add dev rtws root etf clockid CLOCK_TAI {options}"),
    );
}

fn managing(path: &str) -> String {
    let mut text = format!(
        "[station]\ncdc = \"calm.cdc\"\nnode = 240\ninterface = \"rtws\"\ncycle = \"100 ms\"\npath = \"{path}\"\npriority = 60\n\
         spin = \"0 us\"\nsoc = \"launch\"\nsoc-margin = \"20 ms\"\n"
    );
    for node in 1..=2 {
        text += &format!(
            "[[node]]\nnumber = {node}\nmandatory = true\nresponse-timeout = \"20 ms\"\n\
             receives = [\"6200h/1 u8\"]\nsends = [\"6000h/1 u8\"]\n"
        );
    }
    text
}

fn controlled(node: usize) -> String {
    format!(
        "[station]\ncdc = \"calm.cdc\"\nnode = {node}\ninterface = \"rtws\"\ncycle = \"100 ms\"\npath = \"user\"\npriority = 50\n\
         receives = [\"6200h/1 u8\"]\nsends = [\"6000h/1 u8\"]\n"
    )
}

fn open(side: &Side, text: &str) -> Result<Station, StationError> {
    let folder = tempfile::tempdir().unwrap();
    // A second without SoC is borne: this machine stalls for some tenths of it.
    let mut calm = Cdc::default();
    calm.push(0x1c14, 0, 1000 * MS, 4);
    std::fs::write(folder.path().join("calm.cdc"), calm.emit()).unwrap();
    let project = Project::parse(text, &folder.path().join("test.toml")).unwrap();
    side.run(|| match project.node {
        240 => Station::managing(&project),
        _ => Station::controlled(&project),
    })
}

/// Runs a station until told to stop.
fn run(side: &Side, text: &str, told: &Sender<(Handle, String)>, stop: &AtomicBool) {
    let mut station = open(side, text).unwrap();
    told.send((station.handle(), station.path().to_owned()))
        .unwrap();
    side.run(|| station.run(stop, |_| {})).unwrap();
}

/// A frame that the managing node has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// A SoC; `late_ns` counts from its instant, and is negative for an early one.
    Soc {
        late_ns: i64,
    },
    Request,
    Other,
}

/// Watches what comes from the managing node, at its port of the bridge.
fn watch(star: &Star, stop: &AtomicBool) -> Vec<Seen> {
    let port = &star.ports[0];
    port.run(|| {
        let accept = Filter::new(&[Instruction::Accept]).unwrap();
        let found = interface::by_name(&port.interface).unwrap();
        let (socket, _) = PacketSocket::receiver(&found, ALL_FRAMES, &accept, |socket| {
            socket.enable_rx_stamps()?;
            socket.take_all()?;
            socket.set_receive_room(16 << 20)
        })
        .unwrap();
        let mut batch = Batch::new(64, 256);
        let mut seen = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
            while let Ok(count) = socket.receive(&mut batch, Wait::No, 64) {
                for message in (0..count).filter_map(|index| batch.get(index)) {
                    let from = message.data.get(6..12) == Some(&star.stations[0].mac[..]);
                    let Ok(packet) = Packet::parse(message.data) else {
                        continue;
                    };
                    match packet.message {
                        _ if !from => {}
                        Message::Soc(soc) => {
                            let at_ns = message.stamp_realtime_ns.unwrap();
                            let late_ns = at_ns as i64 - soc.net_time.to_ns() as i64;
                            seen.push(Seen::Soc { late_ns });
                        }
                        Message::PReq(_) => seen.push(Seen::Request),
                        _ => seen.push(Seen::Other),
                    }
                }
            }
        }
        seen
    })
}

fn status(handle: &Handle) -> StationStatus {
    (0..60)
        .find_map(|_| handle.status(Duration::from_secs(1)))
        .expect("a station that runs tells its state")
}

fn soc(handle: &Handle) -> SocLaunchStatus {
    status(handle).soc_launch.expect("SoC leave by launch time")
}

fn operational(status: &StationStatus) -> bool {
    status.state == "Operational" && status.nodes.iter().all(|node| node.operational)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Ends everything, be it by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the network; `work` is given the managing node's handle, and what it has said of its path.
fn with_network<T>(star: &Star, path: &str, work: impl FnOnce(&Handle, &str) -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        let (told, handles) = channel();
        for node in 1..=2 {
            let (told, stop, side) = (told.clone(), &stop, &star.stations[node]);
            scope.spawn(move || run(side, &controlled(node), &told, stop));
        }
        for _ in 1..=2 {
            handles.recv().unwrap();
        }
        let (text, side, stop) = (managing(path), &star.stations[0], &stop);
        scope.spawn(move || run(side, &text, &told, stop));
        let (manager, said) = handles.recv().unwrap();
        work(&manager, &said)
    })
}

fn it_runs(path: &str) {
    let star = Star::new(3);
    etf(&star.stations[0], &format!("delta {DELTA_NS}"));
    with_network(&star, path, |manager, said| {
        assert!(said.contains("SoC by launch time, kept by ETF"), "{said}");
        assert!(said.contains("delta 25000 µs"), "{said}");
        until("operational", || operational(&status(manager)));
        let (before, begun) = (soc(manager), status(manager));
        let over = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&star, &over));
            {
                let _over = Stop(&over);
                until("a hundred cycles", || {
                    status(manager).cycles >= begun.cycles + 100
                });
            }
            watcher.join().unwrap()
        });
        let (after, ended) = (soc(manager), status(manager));
        println!("@@ note {path}: {before:?}, {after:?}");
        judge(&seen);
        let handed_over = after.handed_over - before.handed_over;
        assert!(handed_over >= 80, "{before:?} {after:?}");
        let by_driver = ended.sent_by_driver.unwrap_or(0);
        assert_eq!(by_driver > 0, path == "driver", "{ended:?}");
        until("operational still, or again", || {
            operational(&status(manager))
        });
    });
}

/// Each SoC is before the requests of its cycle, and most have left by themselves: before their instant, as only ETF does.
fn judge(seen: &[Seen]) {
    let mut late = Vec::new();
    for (before, now) in seen.iter().zip(&seen[1..]) {
        if let Seen::Soc { late_ns } = *now {
            assert_ne!(*before, Seen::Request, "a SoC behind a request: {seen:?}");
            late.push(late_ns);
        }
    }
    late.sort_unstable();
    println!(
        "@@ note {} SoC, {} to {} ns after their instants",
        late.len(),
        late[0],
        late[late.len() - 1]
    );
    let launched = -(DELTA_NS as i64) - TOLERANCE_NS..=TOLERANCE_NS;
    let there = late.iter().filter(|late| launched.contains(late)).count();
    assert!(
        there * 10 >= late.len() * 9,
        "{there} of {}: {late:?}",
        late.len()
    );
    let early = late.iter().filter(|late| **late < 0).count();
    assert!(early * 10 >= late.len() * 8, "{early} early: {late:?}");
    assert!(late[0] >= *launched.start(), "too early: {late:?}");
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn a_network_runs_with_soc_by_launch_time_in_user_space() {
    require!(root, program "ip", program "tc");
    it_runs("user");
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn a_network_runs_with_soc_by_launch_time_in_the_driver() {
    require!(root, program "ip", program "tc");
    it_runs("driver");
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn soc_that_the_queue_drops_or_refuses_are_counted() {
    require!(root, program "ip", program "tc");
    let star = Star::new(3);
    let manager_side = &star.stations[0];
    // It wakes only at the instant itself, and so always too late.
    etf(manager_side, "delta 0");
    with_network(&star, "user", |manager, _| {
        until("some are dropped", || soc(manager).dropped >= 5);
        let told = status(manager);
        let events = || told.events.iter().map(|event| event.what.as_str());
        assert!(
            events().any(|what| what.contains("SoC lost: the launch queue was too late")),
            "{:?}",
            told.events
        );
        // Launch times as deadlines are not what the sender means: each is refused.
        tc(&manager_side.namespace, "qdisc del dev rtws root");
        etf(manager_side, "delta 100000 deadline_mode");
        let before = soc(manager);
        until("some are refused", || {
            soc(manager).by_loop >= before.by_loop + 5
        });
        // They are sent all the same, so that the network runs.
        until("operational", || operational(&status(manager)));
        let told = status(manager);
        let events = || told.events.iter().map(|event| event.what.as_str());
        assert!(
            events().any(|what| what.contains("SoC without launch time")),
            "{:?}",
            told.events
        );
    });
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn what_takes_more_than_half_of_the_cycle_is_refused() {
    require!(root, program "ip", program "tc");
    let star = Star::new(1);
    etf(&star.stations[0], "delta 30000001");
    let error = open(&star.stations[0], &managing("user")).unwrap_err();
    assert!(error.is_usage(), "{error}");
    let text = error.to_string();
    for part in [
        "handed over 50000.001 µs ahead",
        "delta of 30000.001 µs",
        "cycle of 100000 µs",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let auto = managing("user").replace("\"launch\"", "\"auto\"");
    let station = open(&star.stations[0], &auto).unwrap();
    let said = station.path();
    assert!(
        said.contains("SoC sent by the loop, since `") && said.contains("half of the cycle"),
        "{said}"
    );
}

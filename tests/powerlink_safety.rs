//! What a POWERLINK station does not do on real interfaces: answer for a program that stands still, obey requests of strangers,
//! manage a network that another one manages. Judged by what passes at the bridge. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use powerlink_common::{Cell, PATIENCE, Running, last_state, number, operational, told, until};
use rtwire_link::{Sender, SenderConfig, TxPath};
use rtwire_powerlink_station::{Project, RunningStation, Station};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface};
use rtwire_testkit::{Side, require};
use serde_json::Value;

const CYCLE_NS: u64 = 20_000_000;
/// The default: 5 cycles of 20 ms.
const WATCHDOG_NS: u64 = 5 * CYCLE_NS;
const SOC: u8 = 1;
const PREQ: u8 = 3;
const PRES: u8 = 4;
const SOA: u8 = 5;

/// A frame at a port of the bridge: its time by the kernel's stamp, its message type, its sender's number, RD, and its sender's
/// last byte of the address.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ns: u64,
    kind: u8,
    destination: u8,
    source: u8,
    ready: bool,
    mac: u8,
}

/// Returns what passes at a port of the bridge until `stop` is set.
fn watch(port: &Side, stop: &AtomicBool) -> Vec<Seen> {
    port.run(|| {
        let found = interface::by_name(&port.interface).unwrap();
        let filter = Filter::new(&[
            Instruction::LoadHalf(12),
            Instruction::Jump {
                test: Test::Equal(0x88ab),
                yes: 0,
                no: 1,
            },
            Instruction::Accept,
            Instruction::Reject,
        ])
        .unwrap();
        let (socket, ()) = PacketSocket::receiver(&found, 3, &filter, |socket| {
            socket.enable_rx_stamps()?;
            socket.take_all()?;
            socket.set_receive_room(64 << 20)?;
            Ok(())
        })
        .unwrap();
        let mut batch = Batch::new(256, 128).with_only(false, true);
        let mut seen = Vec::new();
        loop {
            let last = stop.load(Ordering::Relaxed);
            while let Ok(count) = socket.receive(&mut batch, Wait::No, usize::MAX) {
                for message in (0..count).filter_map(|index| batch.get(index)) {
                    let data = message.data;
                    seen.push(Seen {
                        at_ns: message.stamp_realtime_ns.unwrap(),
                        kind: data[14] & 0x7f,
                        destination: data[15],
                        source: data[16],
                        ready: data.get(18).is_some_and(|flags| flags & 1 != 0),
                        mac: data[11],
                    });
                }
            }
            if last {
                return seen;
            }
            thread::sleep(Duration::from_millis(20));
        }
    })
}

/// Watches a port while `meanwhile` runs.
fn watched<T>(port: &Side, meanwhile: impl FnOnce() -> T) -> (Vec<Seen>, T) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let seen = scope.spawn(|| watch(port, &stop));
        thread::sleep(Duration::from_millis(300));
        let result = meanwhile();
        stop.store(true, Ordering::Relaxed);
        (seen.join().unwrap(), result)
    })
}

fn now_ns() -> u64 {
    clock::now_ns(Clock::Realtime)
}

/// Stops a program for 2 s. Returns the times of both signals.
fn stopped_for_2_s(program: &Running) -> (u64, u64) {
    program.signal("-STOP");
    let stopped_ns = now_ns();
    thread::sleep(Duration::from_secs(2));
    let resumed_ns = now_ns();
    program.signal("-CONT");
    (stopped_ns, resumed_ns)
}

/// Returns the time at which the managing node tells node 2 as lost, behind a time.
fn lost_at_ns(states: &Path, behind_ns: u64) -> Option<u64> {
    let text = std::fs::read_to_string(states).unwrap();
    let told = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let events = told.flat_map(|state| state["events"].as_array().cloned().unwrap_or_default());
    let lost = |event: &Value| {
        let what = event["what"].as_str()?;
        let at_ns = event["time_ns"].as_u64()?;
        (what.starts_with("node 2: is lost") && at_ns > behind_ns).then_some(at_ns)
    };
    events.filter_map(|event| lost(&event)).min()
}

#[test]
fn a_node_whose_program_is_stopped_falls_silent_and_comes_back() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (cell, states) = Cell::telling(path);
        let node = cell.running[1].as_ref().unwrap();
        // At the managing node's port, where all its requests and all responses pass.
        let (seen, (stopped_ns, resumed_ns)) = watched(&cell.star.ports[0], || {
            let times = stopped_for_2_s(node);
            thread::sleep(Duration::from_millis(200));
            times
        });
        let answers = |from_ns: u64, to_ns: u64| {
            let of_node = |seen: &&Seen| seen.kind == PRES && seen.source == 2;
            let all = seen.iter().filter(of_node);
            all.filter(|s| (from_ns..to_ns).contains(&s.at_ns))
                .copied()
                .collect::<Vec<_>>()
        };
        assert!(
            !answers(stopped_ns - 200_000_000, stopped_ns).is_empty(),
            "{path}"
        );
        // The watchdog, the cycle that was running, and the time in which a signal arrives.
        let end_ns = stopped_ns + WATCHDOG_NS + 2 * CYCLE_NS;
        let after = answers(end_ns, resumed_ns);
        assert!(
            after.is_empty(),
            "{path}: {} answers of a stopped program",
            after.len()
        );
        if path == "driver" {
            let until_then = answers(stopped_ns, end_ns);
            assert!((3..=7).contains(&until_then.len()), "{}", until_then.len());
        }
        // What it says then is not valid before its program had its turn: in an operational state none of the old data.
        let back = answers(resumed_ns, u64::MAX);
        assert!(
            back.first().is_none_or(|first| !first.ready),
            "{path}: {back:?}"
        );
        // The managing node has it as lost within two cycles: by its SoC behind the last answer, the one in which it asks in vain
        // included.
        let last_ns = answers(0, resumed_ns).last().unwrap().at_ns;
        until("lost", || lost_at_ns(&states, last_ns).is_some());
        let lost_ns = lost_at_ns(&states, last_ns).unwrap();
        let socs = seen
            .iter()
            .filter(|s| s.kind == SOC && (last_ns..lost_ns).contains(&s.at_ns));
        assert!((1..=3).contains(&socs.count()), "{path}");
        cell.wait("all are back", operational);
    }
}

#[test]
fn a_managing_node_whose_program_is_stopped_sends_nothing_and_comes_back() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (cell, states) = Cell::telling(path);
        let manager = cell.running[3].as_ref().unwrap();
        let port = &cell.star.ports[0];
        // A response of the node that each place of the chain waits for, again and again: as of a node that is mad.
        let mut response = [0_u8; 60];
        response[..6].copy_from_slice(&[1, 0x11, 0x1e, 0, 0, 2]);
        response[6..12].copy_from_slice(&cell.star.stations[1].mac);
        response[12..18].copy_from_slice(&[0x88, 0xab, PRES, 255, 1, 0xfd]);
        let (seen, (stopped_ns, resumed_ns)) = watched(&cell.star.ports[1], || {
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let begun = scope.spawn(|| stopped_for_2_s(manager));
                scope.spawn(|| {
                    port.run(|| {
                        let mut sender = Sender::frames(&SenderConfig {
                            path: TxPath::Direct,
                            ..SenderConfig::new(&port.interface)
                        })
                        .unwrap();
                        // From behind the watchdog on, until shortly before it goes on.
                        thread::sleep(Duration::from_millis(300));
                        while !over.load(Ordering::Relaxed) {
                            for node in [1, 2, 3] {
                                response[16] = node;
                                sender.send(&response).unwrap();
                            }
                            thread::sleep(Duration::from_millis(5));
                        }
                    });
                });
                thread::sleep(Duration::from_millis(1_900));
                over.store(true, Ordering::Relaxed);
                begun.join().unwrap()
            })
        });
        let of_manager = seen.iter().filter(|seen| seen.source == 240);
        let silent = stopped_ns + WATCHDOG_NS + 2 * CYCLE_NS..resumed_ns;
        let sent: Vec<_> = of_manager
            .filter(|seen| silent.contains(&seen.at_ns))
            .collect();
        assert!(sent.is_empty(), "{path}: {sent:?}");
        // The cycle in which it was stopped is not gone on with.
        let behind: Vec<&Seen> = seen
            .iter()
            .filter(|s| s.at_ns >= resumed_ns && s.source == 240)
            .collect();
        let requests = behind.iter().take_while(|seen| seen.kind != SOC);
        let old = requests
            .filter(|seen| seen.kind == PREQ && seen.ready)
            .count();
        assert_eq!(old, 0, "{path}: {:?}", &behind[..behind.len().min(10)]);
        cell.wait("all are back", operational);
        until("told", || {
            number(&last_state(&states), "watchdog_lapses") > 0
        });
    }
}

#[test]
fn requests_of_strangers_are_neither_answered_nor_obeyed() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (cell, states) = Cell::node_2_telling(path);
        let own = cell.star.stations[2].mac;
        let managing = cell.star.stations[0].mac;
        // To node 2: from a stranger as node 240, and from the managing node's address with another number.
        let request = |mac: [u8; 6], source: u8| {
            let mut frame = [0_u8; 60];
            frame[..6].copy_from_slice(&own);
            frame[6..12].copy_from_slice(&mac);
            frame[12..24].copy_from_slice(&[0x88, 0xab, PREQ, 2, source, 0, 1, 0, 0, 0, 1, 0]);
            frame[24] = 0x5a;
            frame
        };
        let stranger = [2, 0x77, 0, 0, 0, 0x77];
        let port = &cell.star.ports[2];
        let before = number(&last_state(&states), "requests_foreign");
        let (seen, ()) = watched(port, || {
            port.run(|| {
                let mut sender = Sender::frames(&SenderConfig {
                    path: TxPath::Direct,
                    ..SenderConfig::new(&port.interface)
                })
                .unwrap();
                for _ in 0..100 {
                    for frame in [request(stranger, 240), request(managing, 9)] {
                        sender.send(&frame).unwrap();
                        thread::sleep(Duration::from_millis(3));
                    }
                }
            });
        });
        until("counted", || {
            number(&last_state(&states), "requests_foreign") >= before + 200
        });
        // An answer for each request of the managing node, and no more.
        let right = seen
            .iter()
            .filter(|s| s.kind == PREQ && s.destination == 2 && s.mac != 0x77 && s.source == 240);
        let (right, answers) = (
            right.count(),
            seen.iter()
                .filter(|s| s.kind == PRES && s.source == 2)
                .count(),
        );
        assert!(right > 20, "{path}: {right}");
        assert!(
            answers <= right + 1,
            "{path}: {answers} answers to {right} requests"
        );
        cell.wait("nobody has fallen over", operational);
    }
}

#[test]
fn of_two_managing_nodes_one_is_left() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (mut cell, states) = Cell::telling(path);
        // The second one is at node 3's place, so that it is cut off while it starts: it waits for nobody.
        cell.running[2] = None;
        let second = cell.folder.path().join("second.json");
        let port = &cell.star.ports[3];
        rtwire_testkit::ip(
            &port.namespace,
            &format!("link set {} nomaster", port.interface),
        );
        let text = std::fs::read_to_string(cell.folder.path().join("mn.toml")).unwrap();
        let text = text.replace("mandatory = true", "mandatory = false");
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with("ethernet"))
            .fold(String::new(), |all, line| all + line + "\n");
        std::fs::write(cell.folder.path().join("second.toml"), text).unwrap();
        let side = &cell.star.stations[3];
        let running = Running::telling(side, &["mn", &cell.file("second.toml")], &second);
        until("the second one is operational, too", || {
            last_state(&second)["state"] == "Operational"
        });
        rtwire_testkit::ip(
            &port.namespace,
            &format!("link set {} master rtwbr", port.interface),
        );
        let (first_mac, second_mac) = (cell.star.stations[0].mac, side.mac);
        let (stays, yields) = if first_mac < second_mac {
            (&states, &second)
        } else {
            (&second, &states)
        };
        until("one yields", || last_state(yields)["state"] == "NotActive");
        assert!(told(yields, "yields to another one"));
        thread::sleep(Duration::from_secs(2));
        let (seen, ()) = watched(&cell.star.ports[1], || {
            thread::sleep(Duration::from_secs(2))
        });
        let managing: std::collections::BTreeSet<u8> = seen
            .iter()
            .filter(|s| matches!(s.kind, SOC | SOA))
            .map(|s| s.mac)
            .collect();
        assert_eq!(managing.len(), 1, "{path}: {managing:?}");
        assert_eq!(last_state(yields)["state"], "NotActive");
        assert_ne!(last_state(stays)["state"], "NotActive");
        drop(running);
    }
}

#[test]
fn a_control_loop_sees_which_inputs_are_live() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        cell.begin_controlled();
        let node = cell.running[1].as_ref().unwrap();
        cell.mn().run(|| {
            let project = Project::read(cell.file("mn.toml").as_ref()).unwrap();
            let mut station = Station::managing(&project).unwrap();
            let level = station.input(1, 0x6000, 1).unwrap();
            let valve = station.input(2, 0x6000, 1).unwrap();
            let mut running = station.start().unwrap();
            let wait = Duration::from_secs(1);
            let both = |live: bool, running: &mut RunningStation| {
                let end = Instant::now() + PATIENCE;
                loop {
                    if let Some(io) = running.wait(wait).unwrap() {
                        let of = [level, valve].map(|input| io.validity(input).live);
                        assert_eq!(of[1], io.live(valve).is_some());
                        if of == [true, live] {
                            return (io.cycle, io.missing);
                        }
                    }
                    assert!(Instant::now() < end, "{path}: live {live}");
                }
            };
            let (_, before) = both(true, &mut running);
            node.signal("-STOP");
            // The first response that is missing marks it: in the very image that counts it, or the one behind.
            let mut first_missing = None;
            let (marked, missing) = loop {
                let Some(io) = running.wait(wait).unwrap() else {
                    continue;
                };
                if io.missing > before && first_missing.is_none() {
                    first_missing = Some(io.cycle);
                }
                let told = io.validity(valve);
                if !told.live {
                    break (io.cycle, io.missing);
                }
            };
            let first = first_missing.unwrap_or(marked);
            assert!(
                marked <= first + 2,
                "{path}: {marked} behind {first}, {missing} missing"
            );
            node.signal("-CONT");
            both(true, &mut running);
            running.stop().unwrap();
        });
    }
}

//! POWERLINK stations on real interfaces refuse three things: to answer for a program that stands still, to obey requests of
//! strangers, and to manage a network that another one manages. Judged by what passes at the bridge. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use powerlink_common::seen::{PREQ, PRES, SOA, SOC, Seen, stopped_for, watched};
use powerlink_common::{Cell, PATIENCE, Running, last_state, number, operational, told, until};
use rtwire_link::{Sender, SenderConfig, TxPath};
use rtwire_powerlink::Cdc;
use rtwire_powerlink_station::{Project, RunningStation, Station};
use rtwire_testkit::require;
use serde_json::Value;

const CYCLE_NS: u64 = 20_000_000;
/// The default for 20 ms.
const WATCHDOG: usize = 5;
const WATCHDOG_NS: u64 = WATCHDOG as u64 * CYCLE_NS;

fn stopped_for_2_s(program: &Running) -> (u64, u64) {
    stopped_for(program, Duration::from_secs(2))
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

/// Stops the program of node 2. What must not happen does not, ever. Returns true where the machine was quick enough to show what
/// must happen: the driver goes on for some cycles, and the managing node tells the node as lost within two.
fn falls_silent_and_comes_back(cell: &Cell, states: &Path, path: &str) -> bool {
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
    let socs = |from_ns: u64, to_ns: u64| {
        let all = seen.iter().filter(|s| s.kind == SOC);
        all.map(|s| s.at_ns)
            .filter(|at_ns| (from_ns..to_ns).contains(at_ns))
            .collect::<Vec<_>>()
    };
    assert!(!answers(0, stopped_ns).is_empty(), "{path}");
    // The cycle that was running, and the watchdog's: by their SoC, since a managing node may be late. One more for frames on
    // their way.
    let cycles = if path == "driver" { WATCHDOG } else { 0 };
    let behind = socs(stopped_ns, resumed_ns);
    assert!(behind.len() > 2 * WATCHDOG, "{path}: {}", behind.len());
    let end_ns = behind[cycles + 1];
    let after = answers(end_ns, resumed_ns);
    assert!(
        after.is_empty(),
        "{path}: answers of a stopped program {after:?}"
    );
    let by_driver = answers(stopped_ns, end_ns).len();
    assert!(by_driver <= cycles + 1, "{path}: {by_driver}");
    // What it says then is not valid before its program had its turn: in an operational state none of the old data.
    let back = answers(resumed_ns, u64::MAX);
    assert!(
        back.first().is_none_or(|first| !first.ready),
        "{path}: {back:?}"
    );
    // The managing node has it as lost within two cycles: by its SoC behind the last answer, the one in which it asks in vain
    // included.
    let last_ns = answers(0, resumed_ns).last().unwrap().at_ns;
    until("lost", || lost_at_ns(states, last_ns).is_some());
    let lost_ns = lost_at_ns(states, last_ns).unwrap();
    let asked_in_vain = socs(last_ns, lost_ns).len();
    cell.wait("all are back", operational);
    (path == "user" || by_driver > 1) && (1..=3).contains(&asked_in_vain)
}

#[test]
fn a_node_whose_program_is_stopped_falls_silent_and_comes_back() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        // Its own file has another cycle than the managing node writes to it.
        cell.change("cn2.toml", |text| text.replace("\"20 ms\"", "\"1 ms\""));
        let states = cell.begin();
        cell.wait(path, operational);
        let quick = (0..5).any(|_| falls_silent_and_comes_back(&cell, &states, path));
        assert!(quick, "{path}: not once in five stops");
    }
}

const SLOW_PROGRAM: &str = "RTWIRE_TEST_SLOW_PROGRAM";
/// A turn of the slow program.
const TURN: Duration = Duration::from_millis(400);

/// A program with node 2 that sets another number in each of its turns, which are long.
fn slow_program(file: &str) {
    let project = Project::read(file.as_ref()).unwrap();
    let mut station = Station::controlled(&project).unwrap();
    let level = station.output(0, 0x6000, 1).unwrap();
    let mut running = station.start().unwrap();
    for turn in 1_u64.. {
        if let Some(io) = running.wait(Duration::from_secs(1)).unwrap() {
            io.set(level, turn & 0xff);
        }
        thread::sleep(TURN);
    }
}

#[test]
fn outputs_that_a_program_has_set_before_a_stop_are_not_sent_as_valid() {
    if let Ok(file) = std::env::var(SLOW_PROGRAM) {
        return slow_program(&file);
    }
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        // The managing node does not lose it.
        let mut cdc = Cdc::default();
        cdc.push(0x1c09, 2, 1_000_000, 4);
        cell.configure("mn.toml", &cdc);
        let side = &cell.star.stations[2];
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &side.namespace])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "outputs_that_a_program_has_set_before_a_stop_are_not_sent_as_valid",
            ])
            .env(SLOW_PROGRAM, cell.file("cn2.toml"))
            .stdout(Stdio::null());
        let program = Running(command.spawn().unwrap());
        for station in [1, 3, 0] {
            let running = cell.station(station);
            cell.running.push(Some(running));
        }
        cell.wait(path, operational);
        let (seen, (stopped_ns, resumed_ns)) = watched(&cell.star.ports[0], || {
            thread::sleep(TURN);
            let times = stopped_for(&program, Duration::from_millis(700));
            thread::sleep(4 * TURN);
            times
        });
        let answers: Vec<&Seen> = seen
            .iter()
            .filter(|s| s.kind == PRES && s.source == 2)
            .collect();
        let before = answers.iter().rfind(|s| s.at_ns < stopped_ns).unwrap();
        assert!(before.ready, "{path}");
        let behind: Vec<_> = answers.iter().filter(|s| s.at_ns > resumed_ns).collect();
        // What it had set in the turn in which it was stopped, and what it had handed over before, are old.
        let first = behind.iter().find(|s| s.ready).unwrap();
        let newer = first.value.wrapping_sub(before.value);
        assert!((2..10).contains(&newer), "{path}: {before:?} {first:?}");
        let old = behind.iter().take_while(|s| !s.ready).count();
        assert!(old > 3, "{path}: {old}");
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

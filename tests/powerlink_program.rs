//! Programs that have a station in them: they wait for its cycles, and are told what the kernel counts of its interface. Needs
//! root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use powerlink_common::{alone, until};
use rtwire_powerlink::sdo::{SdoJob, SdoOutcome};
use rtwire_powerlink_station::{
    Handle, Project, RunningStation, SdoReply, Station, StationError, StationStatus,
};
use rtwire_sys::interface;
use rtwire_testkit::{NetnsPair, Side, Star, ip, require};

const SECOND: Duration = Duration::from_secs(1);
const MN: u8 = 240;

fn project(node: u8, interface: &str, path: &str, rest: &str) -> Project {
    let text = format!(
        "[station]\nnode = {node}\ninterface = \"{interface}\"\ncycle = \"10 ms\"\npath = \"{path}\"\npriority = 50\n{rest}"
    );
    Project::parse(&text, Path::new("project.toml")).unwrap()
}

/// Two numbers each way, with each node.
const OBJECTS: &str =
    "receives = [\"6200h/1 u32\", \"6200h/2 u64\"]\nsends = [\"6000h/1 u32\", \"6000h/2 u64\"]\n";

fn managing_of(nodes: u8, interface: &str, path: &str) -> Station {
    let node = |number| {
        format!(
            "[[node]]\nnumber = {number}\nmandatory = true\nresponse-timeout = \"2 ms\"\n{OBJECTS}"
        )
    };
    let nodes: String = (1..=nodes).map(node).collect();
    Station::managing(&project(MN, interface, path, &nodes)).unwrap()
}

fn managing(path: &str) -> Station {
    managing_of(1, "rtwa", path)
}

fn controlled(path: &str) -> Station {
    Station::controlled(&project(1, "rtwb", path, OBJECTS)).unwrap()
}

/// A controlled node that sends what it receives, in a program that waits, until `over`.
fn echo(mut station: Station, over: &AtomicBool) {
    let inputs = [1, 2].map(|subindex| station.input(0, 0x6200, subindex).unwrap());
    let outputs = [1, 2].map(|subindex| station.output(0, 0x6000, subindex).unwrap());
    let mut node = station.start().unwrap();
    while !over.load(Ordering::Relaxed) {
        let Some(io) = node.wait(SECOND).unwrap() else {
            continue;
        };
        let [first, second] = inputs.map(|input| io.get(input));
        assert_eq!(first, second, "half a cycle");
        for output in outputs {
            io.set(output, first);
        }
    }
    node.stop().unwrap();
}

#[test]
fn a_program_waits_for_its_cycles_and_is_echoed() {
    require!(root);
    require!(program "ip");
    let _alone = alone();
    for path in ["user", "driver"] {
        let pair = NetnsPair::new();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| pair.b.run(|| echo(controlled(path), &over)));
            pair.a.run(|| {
                let mut station = managing(path);
                let sent = [1, 2].map(|subindex| station.output(1, 0x6200, subindex).unwrap());
                let back = [1, 2].map(|subindex| station.input(1, 0x6000, subindex).unwrap());
                let mut cell = station.start().unwrap();
                let (mut echoed, mut cycles, mut last) = (0_u64, 0, 0);
                // A hundred cycles, each with another number back than the one before.
                while cycles < 100 {
                    let Some(io) = cell.wait(SECOND).unwrap() else {
                        continue;
                    };
                    assert!(io.cycle > last || last == 0, "{} behind {last}", io.cycle);
                    assert!(last == 0 || io.cycle == last + 1 + io.missed);
                    last = io.cycle;
                    let [first, second] = back.map(|input| io.get(input));
                    assert_eq!(first, second, "half a cycle");
                    // The node's reset, where a stall of the machine has brought one, begins with 0.
                    assert!(first == 0 || first >= echoed, "{first} behind {echoed}");
                    if first > echoed {
                        echoed = first;
                        cycles += 1;
                        assert!(first < io.cycle, "{first} comes back before it is sent");
                    }
                    for output in sent {
                        io.set(output, io.cycle);
                    }
                }
                who_is_late_sees_the_newest(&mut cell);
                cell.stop().unwrap();
            });
            over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn what_is_set_in_a_cycle_reaches_all_nodes_in_one_cycle() {
    require!(root);
    require!(program "ip");
    let _alone = alone();
    let star = Star::new(4);
    for path in ["user", "driver"] {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for (number, side) in (1..).zip(&star.stations[1..]) {
                let over = &over;
                scope.spawn(move || {
                    side.run(|| {
                        let project = project(number, "rtws", path, OBJECTS);
                        echo(Station::controlled(&project).unwrap(), over);
                    });
                });
            }
            let together = star.stations[0].run(|| {
                let mut station = managing_of(3, "rtws", path);
                let points = [1, 2, 3].map(|node| {
                    [1, 2].map(|subindex| {
                        let sent = station.output(node, 0x6200, subindex).unwrap();
                        (sent, station.input(node, 0x6000, subindex).unwrap())
                    })
                });
                let mut cell = station.start().unwrap();
                let (mut all, mut together) = (0, 0);
                while all < 100 {
                    let Some(io) = cell.wait(SECOND).unwrap() else {
                        continue;
                    };
                    let back = points.map(|[(_, first), _]| io.get(first));
                    if !back.contains(&0) {
                        all += 1;
                        together += u32::from(back == [back[0]; 3]);
                    }
                    for (sent, _) in points.as_flattened() {
                        io.set(*sent, io.cycle);
                    }
                }
                cell.stop().unwrap();
                together
            });
            over.store(true, Ordering::Relaxed);
            // A program that wakes late echoes late: now and then, not in every other cycle.
            assert!(together > 50, "{path}: {together} of 100");
        });
    }
}

fn who_is_late_sees_the_newest(cell: &mut RunningStation) {
    let before = cell.wait(SECOND).unwrap().map_or(0, |io| io.cycle);
    thread::sleep(Duration::from_millis(200));
    // 20 cycles, but for those that a stall of the machine has skipped.
    let begun = std::time::Instant::now();
    let io = cell.wait(SECOND).unwrap().unwrap();
    assert_eq!(io.missed, io.cycle - before - 1);
    assert!(io.missed >= 5, "{} missed", io.missed);
    let missed = io.missed;
    // It did not wait, and the one behind is the next.
    eprintln!("{missed} cycles missed, told in {:?}", begun.elapsed());
    until("the next", || {
        cell.wait(SECOND).unwrap().is_some_and(|io| io.missed == 0)
    });
}

#[test]
fn a_wait_ends_with_its_time_and_with_the_interface() {
    require!(root);
    require!(program "ip");
    let _alone = alone();
    let pair = NetnsPair::new();
    pair.b.run(|| {
        let mut node = controlled("user").start().unwrap();
        // There is no managing node, and no cycle.
        assert!(node.wait(Duration::from_millis(50)).unwrap().is_none());
        assert!(node.handle().status(SECOND).is_some());
        ip(&pair.a.namespace, "link del rtwa");
        // It waits for longer than the loop takes to notice.
        let ended = node.wait(30 * SECOND);
        assert!(matches!(ended, Err(StationError::Link(_))), "{ended:?}");
        let text = ended.err().unwrap().to_string();
        assert!(text.contains("rtwb"), "{text}");
        assert!(matches!(node.wait(SECOND), Err(StationError::Ended)));
    });
}

/// A folder as `/sys/class/net`, with what few interfaces count.
struct Planted(tempfile::TempDir, String);

impl Planted {
    fn new(side: &Side) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let planted = Self(folder, side.interface.clone());
        let index = side.run(|| interface::by_name(&side.interface).unwrap().index);
        std::fs::create_dir_all(planted.0.path().join(&planted.1).join("statistics")).unwrap();
        planted.write("ifindex", index.into());
        planted.write("statistics/rx_crc_errors", 7);
        planted.write("statistics/collisions", 7);
        planted
    }

    fn write(&self, file: &str, value: u64) {
        let path = self.0.path().join(&self.1).join(file);
        std::fs::write(path, format!("{value}\n")).unwrap();
    }
}

fn status(handle: &Handle) -> StationStatus {
    loop {
        if let Some(status) = handle.status(SECOND) {
            return status;
        }
    }
}

fn told(handle: &Handle, part: &str) -> bool {
    status(handle)
        .events
        .iter()
        .any(|event| event.what.contains(part))
}

fn wait_for(handle: &Handle, state: &str) {
    until(state, || status(handle).state == state);
}

/// Reads a number of 32 bits; `None` where a stall of the machine has broken the link.
fn read(handle: &Handle, node: u8, index: u16, subindex: u8) -> Option<u32> {
    match handle.sdo(node, SdoJob::Read(index, subindex), 5 * SECOND) {
        SdoReply::Outcome(SdoOutcome::Done(octets)) => {
            Some(u32::from_le_bytes(octets.try_into().unwrap()))
        }
        _ => None,
    }
}

#[test]
fn what_the_kernel_counts_of_an_interface_reaches_objects_and_state() {
    require!(root);
    require!(program "ip");
    let _alone = alone();
    let pair = NetnsPair::new();
    let planted = [Planted::new(&pair.a), Planted::new(&pair.b)];
    let start = |side: &Side, station: fn(&str) -> Station, planted: &Planted| {
        side.run(|| {
            let mut station = station("user");
            station.set_statistics_folder(planted.0.path()).unwrap();
            station.start().unwrap()
        })
    };
    let node = start(&pair.b, controlled, &planted[1]);
    let cell = start(&pair.a, managing, &planted[0]);
    let [mn, cn] = [cell.handle(), node.handle()];
    wait_for(&cn, "Operational");
    let both = [
        (&mn, &cn, MN, [0x1c00, 0x1c01]),
        (&cn, &mn, 1, [0x1c0f, 0x1c0a]),
    ];
    for ((own, other, number, objects), planted) in both.into_iter().zip(&planted) {
        // What was counted before the station began is not its own; what the kernel does not tell is not 0.
        let begun = status(own);
        assert_eq!((begun.crc_errors, begun.collisions), (Some(0), Some(0)));
        assert_eq!(begun.link_losses, None);
        // One at a time, with many good cycles between them, is borne.
        for count in [8, 9, 10] {
            planted.write("statistics/rx_crc_errors", count);
            until("counted", || status(own).crc_errors == Some(count - 7));
            thread::sleep(Duration::from_millis(400));
        }
        assert!(!told(own, "frames with a wrong check sequence"));
        until("read", || {
            wait_for(&cn, "Operational");
            // A stall of the machine may have brought a reset, which begins the counters of a controlled node anew.
            read(other, number, objects[0], 1)
                .is_some_and(|count| count == 3 || number == 1 && count < 3)
        });
        planted.write("statistics/rx_crc_errors", 12);
        until("too many", || {
            told(own, "frames with a wrong check sequence")
        });
        wait_for(&cn, "Operational");
        planted.write("statistics/collisions", 9);
        until("too many", || told(own, "collisions on the medium"));
        assert_eq!(status(own).collisions, Some(2));
        wait_for(&cn, "Operational");
    }
    for running in [cell, node] {
        running.stop().unwrap();
    }
}

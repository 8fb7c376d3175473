//! `rtwire powerlink` as a user runs it: a cell of a managing node and three controlled nodes in namespaces, in user space and
//! in the driver. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use powerlink_common::{
    Cell, Running, alone, asked, last_state, number, operational, rtwire, said, until,
};
use rtwire_powerlink_station::{Project, Station};
use rtwire_testkit::{Side, ip, require};
use serde_json::Value;

#[test]
fn a_cell_boots_and_does_what_it_is_told() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        cell.change("cn3.toml", |text| {
            text.replace("priority", "parameters = \"cn3.parameters\"\npriority")
        });
        for station in [1, 2, 3, 0] {
            let running = cell.station(station);
            cell.running.push(Some(running));
        }
        cell.wait(path, operational);
        if path == "driver" {
            a_monitor_beside_a_driver_sees_what_it_takes(&cell);
        }
        // Service data, both ways, while the cycle runs.
        let read = |object: &str, kind: &str| {
            asked(
                cell.mn(),
                &["sdo", "read", "rtws", "2", object, "--type", kind],
            )
        };
        // A node that a stall of the machine has reset meanwhile is asked again.
        until("what was read", || {
            read("1F93h/1", "u8") == (0, "2\n".to_owned())
        });
        until("what is refused", || {
            let (code, text) = read("5fffh", "u8");
            code == 1 && text.contains("node 2 refuses 5FFFh/0: there is no such object")
        });
        let write = [
            "sdo", "write", "rtws", "2", "1020h/1", "1234", "--type", "u32",
        ];
        until("what was written", || {
            asked(cell.mn(), &write) == (0, String::new())
                && read("1020h/1", "u32") == (0, "1234\n".to_owned())
        });
        // Node 3 stores what was written to it; "save" is the number of DS 301.
        let to_3 = |object: &str, value: &str| {
            let write = ["sdo", "write", "rtws", "3", object, value, "--type", "u32"];
            asked(cell.mn(), &write) == (0, String::new())
        };
        until("what was stored", || {
            to_3("1020h/1", "4321") && to_3("1010h/1", "1702257011")
        });
        // Ordinary traffic through the asynchronous phase.
        round_trip(&cell.star.stations[0], &cell.star.stations[2]);
        service_by_udp(&cell.star.stations[0]);
        service_of_the_managing_node_by_udp(&cell.star.stations[2]);
        // A node that is stopped, and begins anew.
        let nmt = |command: &str| asked(cell.mn(), &["nmt", "rtws", command, "3"]);
        assert_eq!(nmt("stop-node").0, 0);
        cell.wait("stopped", |states| states[2] == "Stopped");
        assert_eq!(nmt("reset-node").0, 0);
        cell.wait("and back", operational);
        // A node whose program ends, and comes back.
        cell.running[2] = None;
        cell.wait("lost", |states| states[2] != "Operational");
        cell.wait("the others go on", |states| {
            states[..2].iter().all(|state| state == "Operational")
        });
        cell.running[2] = Some(cell.station(3));
        cell.wait("found again", operational);
        until("what was restored", || {
            let read = ["sdo", "read", "rtws", "3", "1020h/1", "--type", "u32"];
            asked(cell.mn(), &read) == (0, "4321\n".to_owned())
        });
        // A cable that is pulled, and put back.
        ip(&cell.star.ports[2].namespace, "link set rtwp3 down");
        cell.wait("pulled", |states| states[1] != "Operational");
        ip(&cell.star.ports[2].namespace, "link set rtwp3 up");
        cell.wait("put back", operational);
    }
}

/// Reads and writes objects of node 2 over UDP, from the managing node's `plk0`.
fn service_by_udp(from: &Side) {
    let ask = |arguments: &[&str]| asked(from, &[&["sdo"], arguments].concat());
    let read = |node, object| ask(&["read", "192.168.100.2", node, object, "--type", "u32"]);
    let number = "NMT_EPLNodeID_REC/NodeID_U8";
    // A link that a stalled machine has broken begins anew.
    until("read", || {
        ask(&["read", "192.168.100.2", "2", number]) == (0, "2\n".to_owned())
    });
    let write = [
        "write",
        "192.168.100.2",
        "2",
        "1020h/2",
        "7",
        "--type",
        "u32",
    ];
    until("written", || {
        ask(&write) == (0, String::new()) && read("2", "1020h/2") == (0, "7\n".to_owned())
    });
    until("refused", || {
        let (code, text) = read("2", "5fffh");
        code == 1 && text.contains("node 2 refuses 5FFFh/0: there is no such object")
    });
    until("not another one's", || {
        let (code, text) = read("3", "1020h/2");
        code == 1 && text.contains("192.168.100.2 is node 2, not node 3")
    });
    // Nobody has this address.
    let (code, text) = ask(&["read", "192.168.100.77", "77", number, "--timeout", "1s"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("192.168.100.77 "), "{text}");
}

/// The managing node serves by UDP, too.
fn service_of_the_managing_node_by_udp(from: &Side) {
    let read = [
        "sdo",
        "read",
        "192.168.100.240",
        "240",
        "1006h",
        "--type",
        "u32",
    ];
    until("read of the managing node", || {
        asked(from, &read) == (0, "20000\n".to_owned())
    });
}

/// Datagrams there and back between two `plk0`; one that is lost is sent again, as datagrams are.
fn round_trip(a: &Side, b: &Side) {
    let wait = Some(Duration::from_secs(1));
    let server = b.run(|| UdpSocket::bind("192.168.100.2:7000").unwrap());
    server.set_read_timeout(wait).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut room = [0; 2000];
            while !over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = server.recv_from(&mut room) {
                    let _ = server.send_to(&room[..length], from);
                }
            }
        });
        a.run(|| {
            let socket = UdpSocket::bind("192.168.100.240:0").unwrap();
            socket.set_read_timeout(wait).unwrap();
            for length in [1_usize, 100, 180] {
                let data = vec![length as u8; length];
                let mut room = [0; 2000];
                until("an answer through plk0", || {
                    let _ = socket.send_to(&data, "192.168.100.2:7000");
                    let answer = socket.recv_from(&mut room);
                    answer.is_ok_and(|(answered, _)| room[..answered] == data)
                });
            }
            over.store(true, Ordering::Relaxed);
        });
    });
}

/// XDP consumes these frames; the packet socket of a monitor has none of them.
fn a_monitor_beside_a_driver_sees_what_it_takes(cell: &Cell) {
    let report = |station: usize| {
        let (code, text) = asked(
            &cell.star.stations[station],
            &["monitor", "rtws", "--duration", "500ms", "--json"],
        );
        assert_eq!(code, 0, "{text}");
        let report: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        report
    };
    until("a controlled node's driver shows it", || {
        let seen = report(1);
        let node = seen["nodes"].as_array().and_then(|nodes| nodes.first());
        let node = node.cloned().unwrap_or_default();
        seen["cycle"]["cycle_ns"] == 20_000_000
            && number(&seen["frames"], "soc") >= 10
            && node["node"] == 1
            && number(&node, "answered") >= 10
            && node["last_state"] == "operational"
            && node["latency_ns"].is_null()
    });
    until("a managing node's driver shows its nodes", || {
        let seen = report(0);
        let nodes = seen["nodes"].as_array().cloned().unwrap_or_default();
        nodes.len() == 3 && nodes.iter().all(|node| node["last_state"] == "operational")
    });
}

#[test]
fn a_chain_of_responses_runs_in_user_space_and_in_the_driver() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        cell.change("mn.toml", |text| {
            text.replace("[[node]]", "[[node]]\nchained = true")
        });
        let own = cell.begin_controlled();
        let states = cell.folder.path().join("mn.json");
        let manager = Running::telling(cell.mn(), &["mn", &cell.file("mn.toml")], &states);
        cell.running.push(Some(manager));
        cell.wait(path, operational);
        let responses = || {
            let nodes = last_state(&states)["nodes"].clone();
            let of = |node: usize| number(&nodes[node], "responses");
            [of(0), of(1), of(2)]
        };
        let (before, by_driver) = (responses(), number(&last_state(&own), "sent_by_driver"));
        until("all respond", || {
            let now = responses();
            before
                .iter()
                .zip(now)
                .all(|(before, now)| now >= before + 100)
        });
        // Nobody is polled; a node's response is sent where its path says.
        let own = last_state(&own);
        let by_driver = number(&own, "sent_by_driver") - by_driver;
        assert_eq!(by_driver >= 80, path == "driver", "{path}: {own}");
        assert_eq!(number(&last_state(&states), "sent_by_driver"), 0, "{path}");
        let (code, text) = asked(
            &cell.star.ports[0],
            &["monitor", "rtwp1", "--duration", "1s", "--json"],
        );
        assert_eq!(code, 0, "{text}");
        let report: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert!(report["latency_ns"].is_null(), "no PReq: {report}");
    }
}

#[test]
fn the_example_controls_its_cell() {
    let _alone = alone();
    require!(root);
    require!(program "ip");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = Path::new(env!("CARGO_BIN_EXE_rtwire")).parent().unwrap();
    // Beside the command, in the same profile.
    let mut build = Command::new(env!("CARGO"));
    build
        .current_dir(&project)
        .args(["build", "--locked", "-q", "-p", "rtwire-powerlink-station"]);
    build.args(["--example", "powerlink_cell"]);
    if programs.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success());
    // A machine that stands still takes longer.
    let told = ["9", "20", "60"].into_iter().find_map(|seconds| {
        let output = Command::new(project.join("examples/powerlink-cell/run"))
            .arg(seconds)
            .env("RTWIRE_CELL_PROGRAMS", programs)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}{}", said(&output));
        is_controlled(&text).then_some(()).or_else(|| {
            eprintln!("not in {seconds} s:\n{text}");
            None
        })
    });
    assert!(told.is_some());
}

/// Whether the example's output shows a level that rises, a valve that follows it, and the network's cycle.
fn is_controlled(text: &str) -> bool {
    let levels: Vec<(u64, bool)> = text
        .lines()
        .filter_map(|line| {
            let (level, valve) = line.strip_prefix("level ")?.split_once(", valve ")?;
            Some((level.parse().ok()?, valve == "open"))
        })
        .collect();
    let rises = levels
        .windows(2)
        .any(|two| two[1].0 > two[0].0 && two[0].0 > 0);
    // The valve follows the level, some cycles later.
    let follows = levels.iter().any(|(level, open)| *level > 550 && *open)
        || levels
            .iter()
            .all(|(level, open)| *level < 550 && (!*open || *level > 450));
    rises && follows && text.contains("cycle 10.00 ms")
}

#[test]
fn a_scan_finds_who_is_there_and_disturbs_nobody() {
    require!(root);
    require!(program "ip");
    let cell = Cell::files("user");
    let (code, text) = asked(cell.mn(), &["scan", "rtws"]);
    assert_eq!((code, text.as_str()), (0, "no controlled node answers\n"));
    let _nodes = [cell.station(1), cell.station(3)];
    until("both are found", || {
        let numbers: Vec<_> = cell.nodes().iter().map(|n| n["node"].as_u64()).collect();
        numbers == [Some(1), Some(3)]
    });
    let _manager = cell.station(0);
    // A managing node that still listens takes a scan for another one, and waits: not before it is active.
    cell.wait("active", |states| states[0] != "NotActive");
    // From another place of the same network: the managing node there is not ours to ask.
    until("the managing node is noticed", || {
        let (code, text) = asked(&cell.star.stations[2], &["scan", "rtws"]);
        code == 1 && text.contains("a managing node is active")
    });
}

#[test]
fn a_scan_notices_a_managing_node_that_another_program_runs_on_its_interface() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        for station in [1, 2, 3] {
            let running = cell.station(station);
            cell.running.push(Some(running));
        }
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            // A program of its own: no control socket, and its frames do not show on its interface.
            let manager = scope.spawn(|| {
                cell.mn().run(|| {
                    let project = Project::read(cell.file("mn.toml").as_ref()).unwrap();
                    let mut station = Station::managing(&project).unwrap();
                    station.run(&stop, |_| {}).unwrap();
                });
            });
            until("it is noticed", || {
                let (code, text) = asked(cell.mn(), &["scan", "rtws"]);
                code == 1 && text.contains("a managing node is active")
            });
            let read = ["sdo", "read", "rtws", "2", "1018h/1"];
            let (code, text) = asked(cell.mn(), &read);
            assert_eq!(code, 1, "{path}: {text}");
            stop.store(true, Ordering::Relaxed);
            manager.join().unwrap();
        });
    }
}

#[test]
fn a_monitor_sees_the_network_from_anywhere() {
    require!(root);
    require!(program "ip");
    let cell = Cell::start("user");
    cell.wait("boot", operational);
    let (code, text) = asked(
        &cell.star.ports[0],
        &["monitor", "rtwp1", "--duration", "3s", "--json"],
    );
    assert_eq!(code, 0, "{text}");
    let report: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(report["cycle"]["cycle_ns"], 20_000_000);
    assert_eq!(report["nodes"].as_array().unwrap().len(), 3);
}

#[test]
fn the_state_follows_its_schema() {
    require!(root);
    require!(program "ip");
    let cell = Cell::files("user");
    let output = rtwire(
        cell.mn(),
        &[
            "mn",
            &cell.file("mn.toml"),
            "--duration",
            "3s",
            "--every",
            "200ms",
            "--json",
        ],
    )
    .output()
    .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() >= 2, "{text}");
    let schema = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["schema", "powerlink"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    let committed: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/powerlink.schema.json");
    let committed: Value = serde_json::from_slice(&std::fs::read(committed).unwrap()).unwrap();
    assert_eq!(schema, committed, "`make generate` writes it anew");
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in text.lines() {
        let state: Value = serde_json::from_str(line).unwrap();
        let faults: Vec<_> = validator
            .iter_errors(&state)
            .map(|f| f.to_string())
            .collect();
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(state["nodes"].as_array().unwrap().len(), 3);
    }
}

fn refused(text: &str, role: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("project.toml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["powerlink", role, file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = said(&output).replace(file.to_str().unwrap(), "project.toml");
    (output.status.code().unwrap(), said)
}

#[test]
fn faulty_projects_are_told_all_at_once_with_their_places() {
    let text = "[station]\nnode = 241\ninterfce = \"eth0\"\ncycle = \"1 mss\"\npath = \"drvier\"\n\n[[node]]\nnumber = 1\nsends = [\"6000h u16\", \"6000h/1 u17\"]\n\n[[node]]\nnumber = 1\n[extra]\n";
    let (code, said) = refused(text, "mn");
    assert_eq!(code, 2);
    for part in [
        "project.toml:2:8: `node` is 241, but expected is a number from 1 to 240",
        "project.toml:3:1: unknown key `interfce` in [station]",
        "did you mean `interface`?",
        "project.toml:4:9: ",
        "project.toml:5:8: `path` is \"drvier\", but expected is \"auto\" or \"user\" or \"driver\" or \"native\"",
        "did you mean \"driver\"?",
        "project.toml:9:23: `6000h/1 u17` is no object with its type",
        "project.toml:12:10: node 1 is there already",
        "project.toml:13:2: unknown table `extra`",
    ] {
        assert!(said.contains(part), "{part}\n---\n{said}");
    }
    assert!(
        !said.contains("`6000h u16` is no"),
        "sub-index 0 may be left out: {said}"
    );
    assert!(
        !said.contains("missing key `interface`"),
        "one fault, not two: {said}"
    );
    let (code, said) = refused("[station\n", "mn");
    assert_eq!(code, 2);
    assert!(said.contains("project.toml:1:9: not TOML"), "{said}");
    let (code, said) = refused(
        "[station]\nnode = 240\ninterface = \"lo\"\ncycle = \"1 ms\"\n",
        "mn",
    );
    assert_eq!(code, 2);
    assert!(said.contains("a managing node needs a network"), "{said}");
}

#[test]
fn the_wrong_role_or_a_missing_interface_is_told() {
    let cn = "[station]\nnode = 7\ninterface = \"rtwnone\"\ncycle = \"1 ms\"\n";
    let (code, said) = refused(cn, "mn");
    assert_eq!(code, 2);
    assert!(
        said.contains("describes a controlled node, not a managing node"),
        "{said}"
    );
    let (code, said) = refused(cn, "cn");
    assert_eq!(code, 3);
    assert!(said.contains("rtwnone"), "{said}");
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["powerlink", "mn", "/nowhere/cell.toml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    // Without a station there, and without a network to be the managing node of for a moment.
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["powerlink", "nmt", "rtwnone", "reset-node", "1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("rtwnone"));
}

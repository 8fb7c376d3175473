//! What goes wrong on real interfaces, each made to happen: answers that are late or corrupt, SoC that get lost, cables pulled
//! in each state, numbers given twice, wrong devices; and a megabyte of service data beside the cycle. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use std::path::Path;
use std::thread;
use std::time::Duration;

use powerlink_common::{Cell, Running, asked, last_state, operational, until};
use rtwire_link::{Sender, SenderConfig, TxPath};
use rtwire_powerlink::Cdc;
use rtwire_testkit::{ip, require};
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{
    MINIMUM_OCTETS, Message, NmtState, Packet, Poll, Response, SendRequest, multicast,
};
use serde_json::Value;

/// Writes a configuration beside the managing node's project, which takes it.
fn with_cdc(cell: &Cell, cdc: &Cdc) {
    std::fs::write(cell.folder.path().join("more.cdc"), cdc.emit()).unwrap();
    change(cell, "mn.toml", |text| {
        text.replace("[station]", "[station]\ncdc = \"more.cdc\"")
    });
}

fn change(cell: &Cell, file: &str, how: impl FnOnce(String) -> String) {
    let path = cell.folder.path().join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, how(text)).unwrap();
}

/// Starts the controlled nodes, then the managing node, which tells its state to a file.
fn start(cell: &mut Cell) -> std::path::PathBuf {
    for station in [1, 2, 3] {
        let running = cell.station(station);
        cell.running.push(Some(running));
    }
    let states = cell.folder.path().join("mn.json");
    let running = Running::telling(cell.mn(), &["mn", &cell.file("mn.toml")], &states);
    cell.running.push(Some(running));
    states
}

fn event(states: &Path, part: &str) -> bool {
    std::fs::read_to_string(states).unwrap().contains(part)
}

fn number(state: &Value, key: &str) -> u64 {
    state[key].as_u64().unwrap_or(0)
}

#[test]
fn late_and_missing_responses_are_counted_and_the_node_comes_back() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        let states = start(&mut cell);
        cell.wait(path, operational);
        let before = last_state(&states)["nodes"][1]["responses"].as_u64();
        // Its program stands still, again and again: what it answers then is late, or nothing.
        let node = cell.running[1].as_ref().unwrap();
        until("counted", || {
            node.signal("-STOP");
            thread::sleep(Duration::from_millis(12));
            node.signal("-CONT");
            thread::sleep(Duration::from_millis(60));
            let now = last_state(&states);
            let one = &now["nodes"][1];
            // The driver answers for a program that stands still: there nothing is late.
            let answered = one["responses"].as_u64() > before.map(|before| before + 20);
            if path == "driver" {
                answered
            } else {
                number(one, "lost") + number(one, "late") > 0
            }
        });
        cell.wait("and back", operational);
    }
}

#[test]
fn corrupt_responses_are_dropped_and_counted() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        let states = start(&mut cell);
        cell.wait(path, operational);
        // As if from node 2: a size that cannot be, a state of no meaning, a frame cut short. On the managing node's cable.
        let response = Packet {
            destination_address: multicast::PRES,
            source_address: MacAddress(cell.star.stations[2].mac),
            destination: 255,
            source: 2,
            message: Message::PRes(Response {
                state: NmtState::OPERATIONAL,
                exception_new: false,
                request: SendRequest::NONE,
                poll: Poll {
                    multiplexed: false,
                    ready: true,
                    pdo_version: 0,
                    payload: &[7],
                },
            }),
        };
        let mut right = [0; MINIMUM_OCTETS];
        response.emit(&mut right).unwrap();
        let (mut size, mut state) = (right, right);
        size[22..24].copy_from_slice(&[0xff, 0xff]);
        state[17] = 0x77;
        let port = &cell.star.ports[0];
        port.run(|| {
            let mut sender = Sender::frames(&SenderConfig {
                path: TxPath::Direct,
                ..SenderConfig::new(&port.interface)
            })
            .unwrap();
            for _ in 0..20 {
                for frame in [&size[..], &state, &right[..18]] {
                    sender.send(frame).unwrap();
                    thread::sleep(Duration::from_millis(7));
                }
            }
        });
        until("counted", || {
            number(&last_state(&states), "frames_invalid") >= 20
        });
        cell.wait("all go on", operational);
    }
}

#[test]
fn without_soc_a_node_goes_back_and_comes_again() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let mut cell = Cell::files(path);
        let own = cell.folder.path().join("cn2.json");
        for station in [1, 3] {
            let running = cell.station(station);
            cell.running.push(Some(running));
        }
        let two = Running::telling(
            &cell.star.stations[2],
            &["cn", &cell.file("cn2.toml")],
            &own,
        );
        cell.running.push(Some(two));
        let manager = cell.station(0);
        cell.running.push(Some(manager));
        cell.wait(path, operational);
        // Its port of the bridge lets no group frames pass: no SoC, no SoA, but its own requests.
        let port = &cell.star.ports[2];
        let flood = |how: &str| {
            let set = format!("link set rtwp3 type bridge_slave mcast_flood {how}");
            ip(&port.namespace, &set);
        };
        flood("off");
        until("it has noticed", || {
            last_state(&own)["state"] == "PreOperational1"
        });
        assert!(event(&own, "SoC did not come, too often"), "{path}");
        flood("on");
        cell.wait("and back", operational);
    }
}

#[test]
fn a_cable_is_pulled_in_each_state() {
    require!(root);
    require!(program "ip");
    // How the managing node is kept from going on (object 1F80h), and where node 2 is then.
    for (start_up, state) in [
        (0x80, "PreOperational1"),
        (0x100, "ReadyToOperate"),
        (0, "PreOperational2"),
        (0, "Operational"),
    ] {
        let mut cell = Cell::files("user");
        let mut cdc = Cdc::default();
        cdc.push(0x1f80, 0, start_up, 4);
        if state == "PreOperational2" {
            // So many objects that it takes a while to write them, while the cycle runs without this node.
            let mut long = Cdc::default();
            for _ in 0..400 {
                long.push(0x1006, 0, 20_000, 4);
            }
            cdc.push_data(0x1f22, 2, long.emit());
            change(&cell, "mn.toml", |text| {
                let (before, behind) = text.split_once("number = 2").unwrap();
                let behind = behind.replacen("mandatory = true", "configure = false", 1);
                format!("{before}number = 2{behind}")
            });
        }
        with_cdc(&cell, &cdc);
        start(&mut cell);
        cell.wait(state, |states| states[1] == state);
        ip(&cell.star.ports[2].namespace, "link set rtwp3 down");
        cell.wait("pulled", |states| states[1] == "NotActive");
        ip(&cell.star.ports[2].namespace, "link set rtwp3 up");
        cell.wait("put back", |states| states[1] == state);
    }
}

#[test]
fn a_number_given_twice_is_told() {
    require!(root);
    require!(program "ip");
    let mut cell = Cell::files("user");
    change(&cell, "cn3.toml", |text| {
        text.replace("node = 3", "node = 1")
    });
    let states = start(&mut cell);
    until("told", || event(&states, "node 1: answers twice"));
    // One of them goes, and the other takes part.
    cell.running[2] = None;
    cell.wait("one is left", |states| {
        states[..2].iter().all(|state| state == "Operational")
    });
}

#[test]
fn a_wrong_device_is_told_and_left_out() {
    require!(root);
    require!(program "ip");
    let mut cell = Cell::files("user");
    let xdd = description(0x42);
    std::fs::write(cell.folder.path().join("panel.xdd"), &xdd).unwrap();
    change(&cell, "mn.toml", |text| {
        text.replace(
            "name = \"panel\"",
            "name = \"panel\"\ndescription = \"panel.xdd\"",
        )
    });
    let states = start(&mut cell);
    until("told", || {
        event(&states, "node 3: the node is of another device type")
    });
    cell.wait("the others run without it", |states| {
        states[..2].iter().all(|state| state == "Operational") && states[2] != "Operational"
    });
    // The right device: the same description.
    change(&cell, "cn3.toml", |text| {
        text.replace("node = 3", "node = 3\ndescription = \"panel.xdd\"")
    });
    cell.running[2] = None;
    cell.running[2] = Some(cell.station(3));
    cell.wait("the right one is taken", operational);
}

/// A device description: who makes it, and an object that takes anything.
fn description(vendor: u32) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<ISO15745ProfileContainer xmlns="http://www.ethernet-powerlink.org">
<ISO15745Profile><ProfileHeader/><ProfileBody><ApplicationLayers><ObjectList>
<Object index="1000" name="NMT_DeviceType_U32" objectType="7" dataType="0007" accessType="const" defaultValue="0x000F0191"/>
<Object index="1018" name="NMT_IdentityObject_REC" objectType="9">
<SubObject subIndex="00" name="NumberOfEntries" objectType="7" dataType="0005" accessType="const" defaultValue="4"/>
<SubObject subIndex="01" name="VendorId_U32" objectType="7" dataType="0007" accessType="const" defaultValue="{vendor}"/>
<SubObject subIndex="02" name="ProductCode_U32" objectType="7" dataType="0007" accessType="const" defaultValue="7"/>
<SubObject subIndex="03" name="RevisionNo_U32" objectType="7" dataType="0007" accessType="const" defaultValue="1"/>
<SubObject subIndex="04" name="SerialNo_U32" objectType="7" dataType="0007" accessType="const" defaultValue="1"/>
</Object>
<Object index="2100" name="Recipe_DOM" objectType="7" dataType="000F" accessType="rw"/>
</ObjectList></ApplicationLayers></ProfileBody></ISO15745Profile>
</ISO15745ProfileContainer>
"#
    )
}

#[test]
fn a_megabyte_passes_both_ways_beside_the_cycle() {
    require!(root);
    require!(program "ip");
    let mut cell = Cell::files("user");
    std::fs::write(cell.folder.path().join("valve.xdd"), description(1)).unwrap();
    change(&cell, "cn2.toml", |text| {
        text.replace("node = 2", "node = 2\ndescription = \"valve.xdd\"")
    });
    // A cycle that is short enough for the time of a test; stalls of the machine cost answers, but no node: nothing counts.
    for name in ["mn.toml", "cn1.toml", "cn2.toml", "cn3.toml"] {
        change(&cell, name, |text| {
            text.replace("\"20 ms\"", "\"4 ms\"")
                .replace("\"5 ms\"", "\"1 ms\"")
        });
    }
    let mut cdc = Cdc::default();
    cdc.push(0x1c02, 3, 0, 4);
    cdc.push(0x1f98, 8, 1500, 2);
    let mut patient = Cdc::default();
    for counter in [0x1c0b, 0x1c0c, 0x1c0d] {
        patient.push(counter, 3, 0, 4);
    }
    patient.push(0x1f98, 8, 1500, 2);
    for node in 1..=3 {
        for threshold in [0x1c06, 0x1c09, 0x1c17] {
            cdc.push(threshold, node, 0, 4);
        }
    }
    with_cdc(&cell, &cdc);
    for node in 1..=3 {
        let file = format!("cn{node}.toml");
        std::fs::write(cell.folder.path().join("cn.cdc"), patient.emit()).unwrap();
        change(&cell, &file, |text| {
            text.replace("[station]", "[station]\ncdc = \"cn.cdc\"")
        });
    }
    let states = start(&mut cell);
    cell.wait("boot", operational);
    let megabyte: Vec<u8> = (0..1_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let (there, back) = (cell.file("there"), cell.file("back"));
    std::fs::write(&there, &megabyte).unwrap();
    let before = number(&last_state(&states), "cycles");
    // By the name that the description gives it.
    let xdd = cell.file("valve.xdd");
    let common = [
        "rtws",
        "2",
        "Recipe_DOM",
        "--description",
        &xdd,
        "--timeout",
        "200s",
    ];
    let sdo = |way: &[&str]| {
        let arguments: Vec<&str> = [&["sdo", way[0]], &common[..], &way[1..]].concat();
        asked(cell.mn(), &arguments)
    };
    assert_eq!(sdo(&["write", "--file", &there]), (0, String::new()));
    assert_eq!(sdo(&["read", "--output", &back]), (0, String::new()));
    assert!(
        std::fs::read(&back).unwrap() == megabyte,
        "not what was written"
    );
    let state = last_state(&states);
    assert!(number(&state, "cycles") > before + 500, "{state}");
    assert_eq!(number(&state, "left_operational"), 0, "{state}");
    assert!(cell.states().iter().all(|state| state == "Operational"));
}

#[test]
fn service_data_and_commands_work_without_a_managing_node_and_beside_one() {
    require!(root);
    require!(program "ip");
    let mut cell = Cell::files("user");
    let nowhere = asked(
        cell.mn(),
        &["sdo", "read", "rtws", "2", "1018h/1", "--timeout", "1s"],
    );
    assert_eq!(nowhere.0, 1, "{}", nowhere.1);
    assert!(
        nowhere.1.contains("no node 2 answers there"),
        "{}",
        nowhere.1
    );
    let two = cell.station(2);
    cell.running.push(Some(two));
    // By number and by name, with the type that the name has.
    until("read alone", || {
        let read = ["sdo", "read", "rtws", "2", "NMT_EPLNodeID_REC/NodeID_U8"];
        asked(cell.mn(), &read) == (0, "2\n".to_owned())
    });
    let write = [
        "sdo", "write", "rtws", "2", "1020h/1", "77", "--type", "u32",
    ];
    assert_eq!(asked(cell.mn(), &write), (0, String::new()));
    let read = ["sdo", "read", "rtws", "2", "1020h/1", "--type", "u32"];
    assert_eq!(asked(cell.mn(), &read), (0, "77\n".to_owned()));
    // A node that begins anew has forgotten it.
    assert_eq!(
        asked(cell.mn(), &["nmt", "rtws", "reset-node", "2"]),
        (0, String::new())
    );
    until("reset", || asked(cell.mn(), &read) == (0, "0\n".to_owned()));
    let (code, text) = asked(cell.mn(), &["sdo", "read", "rtws", "2", "NMT_Nonsense"]);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("`NMT_Nonsense` is no name of DS 301"),
        "{text}"
    );
    // A managing node elsewhere: from a place without station nothing is sent, and it is said why.
    for station in [1, 0] {
        let running = cell.station(station);
        cell.running.push(Some(running));
    }
    cell.wait("boot", |states| states[1] == "Operational");
    let (code, text) = asked(&cell.star.stations[3], &["nmt", "rtws", "stop-node", "2"]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("a managing node is active elsewhere"),
        "{text}"
    );
    // A controlled node asks it.
    let stop = ["nmt", "rtws", "stop-node", "2"];
    assert_eq!(asked(&cell.star.stations[1], &stop), (0, String::new()));
    cell.wait("stopped", |states| states[1] == "Stopped");
    let (code, text) = asked(
        &cell.star.stations[1],
        &["sdo", "read", "rtws", "2", "1018h/1"],
    );
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("a controlled node runs here"), "{text}");
}

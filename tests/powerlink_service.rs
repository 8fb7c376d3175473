//! Service data and commands on real interfaces: a megabyte both ways beside the cycle; without a managing node, and beside one.
//! Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use powerlink_common::{Cell, asked, description, last_state, number, operational, told, until};
use rtwire_powerlink::Cdc;
use rtwire_testkit::require;

#[test]
fn a_megabyte_passes_both_ways_beside_the_cycle() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        a_megabyte_both_ways(path);
    }
}

fn a_megabyte_both_ways(path: &str) {
    let mut cell = Cell::files(path);
    std::fs::write(cell.folder.path().join("valve.xdd"), description(1)).unwrap();
    cell.change("cn2.toml", |text| {
        text.replace("node = 2", "node = 2\ndescription = \"valve.xdd\"")
    });
    // A cycle that is short enough for the time of a test; stalls of the machine cost answers, but no node: nothing counts.
    cell.change_all(|text| {
        text.replace("\"20 ms\"", "\"4 ms\"")
            .replace("\"5 ms\"", "\"1 ms\"")
    });
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
    cell.configure("mn.toml", &cdc);
    for node in 1..=3 {
        cell.configure(&format!("cn{node}.toml"), &patient);
    }
    let states = cell.begin();
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
    assert_eq!(number(&state, "left_operational"), 0, "{path}: {state}");
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
        text.contains("`NMT_Nonsense` is not a name of DS 301"),
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
    a_controlled_node_asks(&cell);
}

/// Service data of a controlled node with the others, the managing one included.
fn a_controlled_node_asks(cell: &Cell) {
    let one = &cell.star.stations[1];
    let ask = |arguments: &[&str]| asked(one, &[&["sdo"], arguments].concat());
    let read = |node: &str| ask(&["read", "rtws", node, "NMT_EPLNodeID_REC/NodeID_U8"]);
    assert_eq!(asked(one, &["nmt", "rtws", "reset-node", "2"]).0, 0);
    cell.wait("begun anew", |states| states[1] == "Operational");
    for node in ["2", "240"] {
        until("read", || read(node) == (0, format!("{node}\n")));
    }
    let write = ["write", "rtws", "2", "1020h/1", "78", "--type", "u32"];
    until("written", || ask(&write) == (0, String::new()));
    let (code, text) = read("1");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("cannot ask node 1"), "{text}");
    // Who asks next does not get the answer that nobody waited for.
    until("not the answer to another question", || {
        let hasty = ["read", "rtws", "2", "1018h/1", "--timeout", "1ms"];
        let (code, text) = ask(&hasty);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("does not answer in time"), "{text}");
        let (code, text) = read("2");
        assert!(code == 1 || text == "2\n", "{text}");
        code == 0
    });
}

#[test]
fn lists_of_nodes_are_published() {
    require!(root);
    require!(program "ip");
    let (cell, own) = Cell::node_2_telling("user");
    // By the managing node, and by it on the request of a controlled one.
    for (station, command, told_as) in [
        (0, "publish-configured", "NMTPublishConfiguredNodes"),
        (1, "publish-operational", "NMTPublishOperational"),
    ] {
        until("told", || {
            let publish = ["nmt", "rtws", command, "255"];
            assert_eq!(
                asked(&cell.star.stations[station], &publish),
                (0, String::new())
            );
            told(&own, &format!("{told_as}: nodes 1, 2, 3"))
        });
    }
    let (code, text) = asked(cell.mn(), &["nmt", "rtws", "publish-active", "3"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("goes to all nodes"), "{text}");
    let (code, text) = asked(
        &cell.star.ports[0],
        &["nmt", "rtwp1", "publish-active", "255"],
    );
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no station runs on `rtwp1`"), "{text}");
}

//! A POWERLINK cell with several asynchronous slots, mapped process data and stored parameters, as Wireshark's dissector reads
//! it: a reader of EPSG DS 301 and 302-B that shares nothing with rtwire. Needs root.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed unwrap is a failed test"
)]

mod capture_common;
mod powerlink_common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capture_common::Capture;
use powerlink_common::{Cell, asked, operational, until};
use rtwire_testkit::require;

/// Message types (DS 301, Table 30; AInv: 302-B).
const SOC: u32 = 1;
const PREQ: u32 = 3;
const PRES: u32 = 4;
const SOA: u32 = 5;
const AINV: u32 = 13;
/// The invitation to send what the node likes.
const UNSPECIFIED_INVITE: u32 = 0xff;
/// The command of service data that writes one object.
const WRITE_BY_INDEX: u32 = 1;

/// The dissector's fields that are read of each frame, in this order.
const FIELDS: [&str; 16] = [
    "eth.src",
    "epl.mtyp",
    "epl.src",
    "epl.dest",
    "epl.soa.svid",
    "epl.soa.svtg",
    "epl.asnd.svid",
    "epl.asnd.sdo.cmd.command.id",
    "epl.asnd.sdo.cmd.response",
    "epl.asnd.sdo.cmd.abort",
    "epl.asnd.sdo.cmd.data.index",
    "epl.asnd.sdo.cmd.data.subindex",
    "epl.pdo.index",
    "epl.pdo.subindex",
    "epl.pres.size",
    "_ws.malformed",
];

/// A frame as the dissector reads it: the values of [`FIELDS`], empty where it has none.
struct Read(Vec<String>);

impl Read {
    fn text(&self, field: &str) -> &str {
        &self.0[FIELDS.iter().position(|name| *name == field).unwrap()]
    }

    fn number(&self, field: &str) -> Option<u32> {
        let text = self.text(field);
        text.strip_prefix("0x").map_or_else(
            || text.parse().ok(),
            |text| u32::from_str_radix(text, 16).ok(),
        )
    }
}

fn read(file: &Path) -> Vec<Read> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file);
    command.args(["-Y", "epl or ip", "-T", "fields"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let fields = |line: &str| Read(line.split('\t').map(str::to_owned).collect());
    text.lines().map(fields).collect()
}

#[test]
fn another_dissector_reads_what_the_cell_says() {
    require!(root, program "ip", program "dumpcap", program "tshark");
    for path in ["user", "driver"] {
        dissector_reads_cell(path);
    }
}

fn dissector_reads_cell(path: &str) {
    let mut cell = Cell::files(path);
    cell.change("mn.toml", |text| {
        text.replace("priority", "async-slots = 4\npriority")
    });
    cell.change("cn3.toml", |text| {
        text.replace("priority", "parameters = \"cn3.parameters\"\npriority")
    });
    let file = cell.folder.path().join("cell.pcapng");
    let port = &cell.star.ports[0];
    let capture = Capture::whole(&port.namespace, &port.interface, &file);
    for station in [1, 2, 3, 0] {
        let running = cell.station(station);
        cell.running.push(Some(running));
    }
    cell.wait("operational", operational);
    let write = |object: &str, value: &str| {
        let write = ["sdo", "write", "rtws", "3", object, value, "--type", "u32"];
        asked(cell.mn(), &write) == (0, String::new())
    };
    // "save", as DS 301 has it.
    until("what was stored", || {
        write("1020h/1", "4321") && write("1010h/1", "1702257011")
    });
    // Ordinary frames wait at two nodes: the managing node invites more than one in a cycle.
    let sink = cell
        .mn()
        .run(|| UdpSocket::bind("192.168.100.240:7000").unwrap());
    sink.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    for node in [2, 3] {
        cell.star.stations[node].run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            until("datagrams through plk0", || {
                for _ in 0..20 {
                    let _ = socket.send_to(&[0; 600], "192.168.100.240:7000");
                }
                (0..20).all(|_| sink.recv(&mut [0; 700]).is_ok())
            });
        });
    }
    capture.end();

    let frames = read(&file);
    for (number, frame) in frames.iter().enumerate() {
        let malformed = frame.text("_ws.malformed");
        assert_eq!(malformed, "", "frame {number}: {:?}", frame.0);
    }
    slots(&frames);
    stored(&frames);
    mapped(&frames);
}

/// Each invitation lies in the asynchronous phase, and there are no more of them than the file allows. Behind one that leaves
/// open what is sent, one node sends one frame. (This dissector reads an AInv's service, but not its target.)
fn slots(frames: &[Read]) {
    let nodes: BTreeMap<&str, u32> = frames
        .iter()
        .filter(|frame| frame.number("epl.mtyp") == Some(PRES))
        .filter_map(|frame| Some((frame.text("eth.src"), frame.number("epl.src")?)))
        .collect();
    let mut slots_of_cycle = None;
    let mut used = BTreeSet::new();
    for (number, frame) in frames.iter().enumerate() {
        match frame.number("epl.mtyp") {
            Some(SOC) => slots_of_cycle = None,
            Some(SOA) => slots_of_cycle = Some(1),
            Some(AINV) => {
                let Some(slots) = &mut slots_of_cycle else {
                    panic!("frame {number}: AInv before SoA");
                };
                *slots += 1;
                assert!(*slots <= 4, "frame {number}: slot {slots} of a cycle");
                if frame.number("epl.asnd.svid") == Some(UNSPECIFIED_INVITE) {
                    let sent = frames[number + 1..]
                        .iter()
                        .take_while(|next| !matches!(next.number("epl.mtyp"), Some(SOC | AINV)));
                    let sent: Vec<_> = sent.map(|next| next.text("eth.src")).collect();
                    assert!(sent.len() <= 1, "frame {number}: {sent:?} sent in one slot");
                    used.extend(sent.first().and_then(|source| nodes.get(source)));
                }
            }
            _ => {}
        }
    }
    let both = BTreeSet::from([2, 3]);
    assert!(
        used.is_superset(&both),
        "nodes that sent behind an AInv: {used:?}"
    );
}

/// The write of 1010h/1 to node 3, and its answer.
fn stored(frames: &[Read]) {
    let is = |frame: &Read, from, to| {
        frame.number("epl.src") == Some(from) && frame.number("epl.dest") == Some(to)
    };
    let write = frames.iter().position(|frame| {
        is(frame, 240, 3)
            && frame.number("epl.asnd.sdo.cmd.data.index") == Some(0x1010)
            && frame.number("epl.asnd.sdo.cmd.data.subindex") == Some(1)
            && frame.number("epl.asnd.sdo.cmd.command.id") == Some(WRITE_BY_INDEX)
    });
    let behind = &frames[write.expect("no write of 1010h/1")..];
    // Of an answer without data it shows the flags only.
    let answer = behind
        .iter()
        .find(|frame| is(frame, 3, 240) && frame.number("epl.asnd.sdo.cmd.response") == Some(1));
    let answer = answer.expect("no answer to the write of 1010h/1");
    assert_eq!(answer.number("epl.asnd.sdo.cmd.abort"), Some(0));
}

/// The dissector keeps the mappings that it saw written, and reads the process data by them: as the files of the cell have it.
fn mapped(frames: &[Read]) {
    let last = |kind, field, node| {
        let one = |frame: &&Read| {
            frame.number("epl.mtyp") == Some(kind) && frame.number(field) == Some(node)
        };
        let with_data = |frame: &&Read| one(frame) && !frame.text("epl.pdo.index").is_empty();
        let frame = frames.iter().rev().find(with_data);
        let frame = frame.expect("a frame of the node whose objects are known");
        let objects = frame.text("epl.pdo.index").split(',');
        objects
            .zip(frame.text("epl.pdo.subindex").split(','))
            .map(|(index, sub)| format!("{index}/{sub}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(last(PRES, "epl.src", 1), "0x6000/0x01");
    assert_eq!(last(PRES, "epl.src", 2), "0x6000/0x01");
    assert_eq!(last(PREQ, "epl.dest", 2), "0x6200/0x01");
    assert_eq!(last(PREQ, "epl.dest", 3), "0x6200/0x01 0x6200/0x02");
}

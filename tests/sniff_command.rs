//! `rtwire sniff` upon the recorded messages, upon damaged ones, and live. Live needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rtwire_link::{Sender, SenderConfig};
use rtwire_measure::capture::{LINK_ETHERNET, Reader, Recorded, Writer};
use rtwire_testkit::{NetnsPair, require};
use rtwire_wire::{EtherType, MacAddress, Pcp, VlanTag, ethernet};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_rtwire");
const FIXED: &str = "b101ba080f64002b2b2b2b010000001b000000000003020101030201";

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/uadp")
}

fn sniff(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("sniff").args(arguments).output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let read = |line| serde_json::from_str(line).unwrap();
    text.lines().map(read).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(octet).collect()
}

/// A capture with these messages in Ethernet frames.
fn capture(path: &Path, messages: &[Vec<u8>]) {
    let mut file = fs::File::create(path).unwrap();
    let mut writer = Writer::new(&mut file, LINK_ETHERNET).unwrap();
    for message in messages {
        let mut frame = vec![0; 12];
        frame.extend([0xb6, 0x2c]);
        frame.extend(message);
        writer
            .packet(&Recorded {
                time_ns: 1,
                data: &frame,
                original_octets: frame.len() as u32,
                comment: "",
            })
            .unwrap();
    }
}

#[test]
fn every_recorded_message_as_the_other_decoder_read_it() {
    let expected: Value =
        serde_json::from_slice(&fs::read(captures().join("expected.json")).unwrap()).unwrap();
    let schema = jsonschema::validator_for(
        &serde_json::from_str::<Value>(include_str!("../schema/sniff.schema.json")).unwrap(),
    )
    .unwrap();
    for (name, messages) in expected.as_object().unwrap() {
        let path = captures().join(name);
        let output = sniff(&[path.to_str().unwrap(), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        let found = lines(&output);
        for (line, told) in found.iter().zip(messages.as_array().unwrap()) {
            assert!(schema.is_valid(line), "{line}");
            assert_eq!(line["faults"].as_array().unwrap().len(), 0);
            let tag = told["vlan_tci"].as_u64();
            assert_eq!(line["vlan"].as_u64(), tag.map(|tag| tag & 0xfff), "{name}");
            assert_eq!(line["pcp"].as_u64(), tag.map(|tag| tag >> 13), "{name}");
            let theirs = told["fields"].as_array().unwrap();
            let ours = line["fields"].as_array().unwrap();
            assert_eq!(ours.len(), theirs.len(), "{name}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert_eq!(ours["offset"], theirs["offset"], "{name}");
                assert_eq!(ours["hex"], theirs["bytes"], "{name}");
                // Times are shown as such.
                if let Some(number) = ours["value"].as_f64() {
                    let value: f64 = theirs["value"].as_str().unwrap().parse().unwrap();
                    assert_eq!(number, value, "{name}, {theirs}");
                }
            }
        }
        // The library's reader agrees on the number of packets.
        let mut reader = Reader::new(fs::File::open(&path).unwrap()).unwrap();
        let mut packets = 0;
        while reader.next_packet().unwrap().is_some() {
            packets += 1;
        }
        assert!(found.len() <= packets && found.len() >= 3, "{name}");
    }
}

#[test]
fn the_schema_is_the_committed_one() {
    let output = Command::new(BINARY)
        .args(["schema", "sniff"])
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let committed: Value =
        serde_json::from_str(include_str!("../schema/sniff.schema.json")).unwrap();
    assert!(printed == committed, "run `make generate`");
}

#[test]
fn a_fault_is_named_by_its_offset() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.pcapng");
    let name = file.to_str().unwrap();
    let whole = bytes(FIXED);
    let mut version = whole.clone();
    version[0] = 0xb2;
    capture(&file, &[whole.clone(), whole[..12].to_vec(), version]);
    let output = sniff(&[name, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = lines(&output);
    assert_eq!(found[0]["faults"].as_array().unwrap().len(), 0);
    assert_eq!(found[1]["faults"][0]["offset"], 11);
    let what = found[1]["faults"][0]["what"].as_str().unwrap();
    assert!(what.contains("NetworkMessageNumber at offset 11"), "{what}");
    assert_eq!(found[2]["faults"][0]["offset"], 0);
    // As text; one line for a right message.
    let output = sniff(&[name, "--brief"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("11  fault: truncated"), "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("2 of 3 messages have faults")
    );
    // Nothing of UADP, and no such file.
    capture(&file, &[]);
    assert_eq!(sniff(&[name]).status.code(), Some(4));
    assert_eq!(sniff(&["/no/such/file"]).status.code(), Some(2));
    fs::write(&file, b"no capture").unwrap();
    assert_eq!(sniff(&[name]).status.code(), Some(2));
}

#[test]
fn live_from_ethernet_with_a_tag_and_from_udp() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let mut command = Command::new("ip");
    command.args([
        "netns",
        "exec",
        &pair.b.namespace,
        BINARY,
        "sniff",
        &pair.b.interface,
        "--port",
        "14840",
        "--json",
        "--duration",
        "30s",
        "--count",
        "40",
    ]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let message = bytes(FIXED);
    let header = ethernet::Header {
        destination: MacAddress([0x01, 0x00, 0x5e, 0x7f, 0, 1]),
        source: MacAddress(pair.a.mac),
        vlan: VlanTag::new(Pcp::new(3).unwrap(), 8),
        ether_type: EtherType::UADP,
    };
    let mut frame = vec![0; header.octets() + message.len()];
    let at = header.emit(&mut frame).unwrap();
    frame[at..].copy_from_slice(&message);
    let done = AtomicBool::new(false);
    // Sends until the listener has seen enough, whenever it began.
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            pair.a.run(|| {
                let config = SenderConfig::new(pair.a.interface.as_str());
                let mut sender = Sender::frames(&config).unwrap();
                let socket = UdpSocket::bind((pair.a.address, 0)).unwrap();
                while !done.load(Ordering::Relaxed) {
                    sender.send(&frame).unwrap();
                    // Nobody listens there: the answer says so.
                    let _ = socket.send_to(&message, (pair.b.address, 14840));
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            });
        });
        let output = child.wait_with_output().unwrap();
        done.store(true, Ordering::Relaxed);
        output
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = lines(&output);
    assert_eq!(found.len(), 40);
    let (udp, link): (Vec<_>, Vec<_>) = found.iter().partition(|line| line["source"].is_string());
    assert!(
        udp.len() >= 10 && link.len() >= 10,
        "{} and {}",
        udp.len(),
        link.len()
    );
    for line in &found {
        assert_eq!(line["bytes"], 28);
        assert!(line["time_ns"].as_u64().unwrap() > 0);
        assert_eq!(line["fields"][2]["value"], 2234);
    }
    for line in link {
        assert_eq!((&line["vlan"], &line["pcp"]), (&8.into(), &3.into()));
    }
    for line in udp {
        let to = format!("{}:14840", pair.b.address);
        assert_eq!(line["destination"].as_str(), Some(to.as_str()));
    }
}

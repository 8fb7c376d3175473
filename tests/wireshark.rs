//! The Wireshark dissector upon a capture that this test records itself: RTDiP over Ethernet, with and without a tag, over
//! UDP, and packets that receivers refuse. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rtwire_channel::{Semantics, Talker, TalkerConfig, Transport};
use rtwire_link::{Sender, SenderConfig};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_testkit::{NetnsPair, require};
use rtwire_wire::{EtherType, MacAddress, Pcp, VlanTag, ethernet};
use serde_json::Value;

/// What is sent, in this order: see `send`.
const FRAMES: usize = 11;

fn raw(sender: &mut Sender, packet: &[u8]) {
    let header = ethernet::Header {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        vlan: None,
        ether_type: EtherType::RTDIP,
    };
    let mut frame = vec![0; header.octets() + packet.len()];
    let at = header.emit(&mut frame).unwrap();
    frame[at..].copy_from_slice(packet);
    sender.send(&frame).unwrap();
}

fn packet(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    // Version 1, priority 2, ports 1001 and 7, 30 octets, number 9, key 0.
    let mut packet = vec![0x10, 2, 3, 0xe9, 0, 7, 0, 30, 0, 0, 0, 9, 0, 0, 0, 0];
    packet.extend([0x42; 30]);
    change(&mut packet);
    packet
}

fn send(pair: &NetnsPair) {
    let to = MacAddress(pair.b.mac);
    let base = |transport, port| TalkerConfig {
        source_port: 7,
        ..TalkerConfig::new(pair.a.interface.as_str(), transport, port)
    };
    pair.a.run(|| {
        // 0: queue semantics, short, so padded.
        let mut config = base(Transport::rtdip(to), 1001);
        config.pcp = Pcp::new(5).unwrap();
        config.key = 0x0102_0304;
        Talker::open(&config).unwrap().send(b"abc").unwrap();
        // 1: newest-value semantics behind a tag.
        let mut config = base(Transport::rtdip(to), 1002);
        config.semantics = Semantics::Newest;
        config.pcp = Pcp::new(6).unwrap();
        config.transport = Transport::Rtdip {
            destination: to,
            vlan: VlanTag::new(Pcp::new(6).unwrap(), 12),
        };
        Talker::open(&config).unwrap().send(&[7; 100]).unwrap();
        // 2, 3: the same over UDP; the second number of its channel.
        let mut talker = Talker::open(&base(Transport::udp(pair.b.address, 1003), 1003)).unwrap();
        talker.send(b"first").unwrap();
        talker.send(&[1; 1000]).unwrap();
        // 4: foreign UDP at that port.
        let socket = std::net::UdpSocket::bind((pair.a.address, 0)).unwrap();
        socket
            .send_to(b"this is no RTDiP packet", (pair.b.address, 1003))
            .unwrap();
        // 5 to 10: what receivers refuse.
        let config = SenderConfig::new(pair.a.interface.as_str());
        let mut sender = Sender::frames(&config).unwrap();
        raw(&mut sender, &packet(|p| p[0] = 0x20));
        raw(
            &mut sender,
            &packet(|p| p[6..8].copy_from_slice(&999_u16.to_be_bytes())),
        );
        raw(&mut sender, &packet(|p| p[0] = 0x18));
        raw(&mut sender, &packet(|p| p[1] = 8));
        raw(&mut sender, &packet(|p| p.truncate(9)));
        // A time stamp announced, and cut off.
        raw(
            &mut sender,
            &packet(|p| {
                p[0] = 0x12;
                p.truncate(20);
            }),
        );
    });
}

fn record(pair: &NetnsPair, file: &Path) {
    let mut capture = Command::new("ip")
        .args([
            "netns",
            "exec",
            &pair.b.namespace,
            "dumpcap",
            "-q",
            "-i",
            &pair.b.interface,
        ])
        .args([
            "-c",
            &FRAMES.to_string(),
            "-a",
            "duration:20",
            "-f",
            "ether src 02:00:00:00:00:01",
            "-w",
        ])
        .arg(file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says where it writes to when it has begun.
    let mut said = BufReader::new(capture.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("File:") {
        line.clear();
        assert!(
            said.read_line(&mut line).unwrap() > 0,
            "dumpcap ended early"
        );
    }
    send(pair);
    assert!(capture.wait().unwrap().success());
}

/// The RTDiP layer of each frame that has one, with `_frame` as its place in the capture.
fn dissected(file: &Path) -> Vec<(usize, Value)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/wireshark/rtdip.lua");
    let output = Command::new("tshark")
        .args([
            "-r",
            file.to_str().unwrap(),
            "-T",
            "json",
            "--no-duplicate-keys",
            "-X",
        ])
        .arg(format!("lua_script:{}", script.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{said}");
    let frames: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(frames.len(), FRAMES);
    let layers = frames
        .iter()
        .map(|frame| frame["_source"]["layers"]["rtdip"].clone());
    layers
        .enumerate()
        .filter(|(_, layer)| !layer.is_null())
        .collect()
}

#[test]
fn every_field_is_shown_and_every_fault_told() {
    require!(root, program "ip", program "tshark", program "dumpcap");
    let pair = NetnsPair::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rtdip.pcapng");
    let before = now_ns(Clock::Tai);
    record(&pair, &file);
    let after = now_ns(Clock::Tai);
    let found = dissected(&file);
    let frames: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
    assert_eq!(
        frames,
        [0, 1, 2, 3, 5, 6, 7, 8, 9, 10],
        "all but the foreign datagram"
    );
    let field = |at: usize, name: &str| {
        let (_, layer) = found.iter().find(|(frame, _)| *frame == at).unwrap();
        layer[format!("rtdip.{name}")]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    for (at, name, expected) in [
        (0, "version", "1"),
        (0, "flags.newest", "0"),
        (0, "flags.time", "1"),
        (0, "priority", "5"),
        (0, "dstport", "1001"),
        (0, "srcport", "7"),
        (0, "length", "3"),
        (0, "sequence", "0"),
        (0, "key", "0x01020304"),
        (0, "data", "61:62:63"),
        (1, "flags.newest", "1"),
        (1, "priority", "6"),
        (1, "dstport", "1002"),
        (1, "length", "100"),
        (2, "data", "66:69:72:73:74"),
        (2, "padding", ""),
        (3, "dstport", "1003"),
        (3, "sequence", "1"),
        (3, "length", "1000"),
        (5, "version", "2"),
        (6, "length", "999"),
        (8, "priority", "8"),
    ] {
        assert_eq!(field(at, name), expected, "frame {at}, {name}");
    }
    assert_eq!(field(0, "padding").len(), (60 - 14 - 16 - 8 - 3) * 3 - 1);
    for at in 0..4 {
        let stamp: u64 = field(at, "time_tai_ns").parse().unwrap();
        assert!((before..=after).contains(&stamp), "frame {at}");
        assert!(
            field(at, "time").contains("UTC") || field(at, "time").starts_with("20"),
            "{}",
            field(at, "time")
        );
    }
    // The whole of each layer: expert information hangs at its item.
    let told = |at: usize, what: &str| {
        let (_, layer) = found.iter().find(|(frame, _)| *frame == at).unwrap();
        assert!(
            layer.to_string().contains(&format!("rtdip.{what}")),
            "frame {at}: {layer:#}"
        );
    };
    for (at, what) in [
        (5, "wrong_version"),
        (6, "wrong_length"),
        (7, "reserved_flag"),
        (8, "wrong_priority"),
        (9, "truncated"),
        (10, "truncated"),
    ] {
        told(at, what);
    }
    for (at, layer) in &found[..4] {
        assert!(
            !layer.to_string().contains("_ws.expert"),
            "frame {at}: {layer:#}"
        );
    }
}

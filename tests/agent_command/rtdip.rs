//! Connections that RTDiP carries. The referees are captures, read by `tshark`, and the counters of the cable's other end.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rtwire_agent::{Carrier, Channel, ClientError, ReserveWish};
use rtwire_testkit::require;
use rtwire_wire::Pcp;
use rtwire_wire::rtdip::{Header, Semantics};

use crate::capture_common::{Seen, fields_of, microseconds};
use crate::room::{BINARY, Room, Running, text, until, wish};
use crate::{beyond, counts};

fn rtdip_wish(vlan: Option<u16>) -> ReserveWish {
    ReserveWish {
        carrier: Carrier::Rtdip,
        vlan,
        ..wish()
    }
}

/// Returns a packet of a connection, with so many bytes behind its header.
fn packet(channel: &Channel, sequence: u32, data: usize) -> Vec<u8> {
    let header = Header {
        semantics: Semantics::Queue,
        priority: Pcp::new(channel.priority).unwrap(),
        destination_port: channel.port,
        source_port: channel.source_port,
        sequence,
        key: channel.key,
        time_ns: None,
    };
    let mut bytes = vec![0; 16 + data];
    header.emit(&vec![0x55; data], &mut bytes).unwrap();
    bytes
}

/// Returns the frames of RTDiP in a capture, and their forms: destination, tag, length.
fn frames_of(room: &Room, file: &str) -> (Vec<Seen>, BTreeSet<String>) {
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "eth.dst",
        "vlan.id",
        "vlan.priority",
    ];
    // The EtherType of the frame, or of what is behind its tag.
    let filter = "eth.type == 0x88b5 || vlan.etype == 0x88b5";
    let lines = fields_of(&room.path(file), filter, &fields);
    let mut forms = BTreeSet::new();
    let frames = lines
        .lines()
        .map(|line| {
            let (time, form) = line.split_once('\t').unwrap();
            forms.insert(form.to_owned());
            Seen {
                at_us: microseconds(time).unwrap(),
                bytes: form.split_once('\t').unwrap().0.parse().unwrap(),
                source: String::new(),
                tos: 0,
                destination_port: 0,
            }
        })
        .collect();
    (frames, forms)
}

/// All that was admitted leaves as frames of RTDiP and arrives; nothing else does.
#[test]
fn a_connection_of_rtdip_carries_what_was_admitted_and_nothing_else() {
    require!(root, program "ip", program "dumpcap", program "tshark");
    let room = Room::new();
    let _manager = room.manager();
    let _agents = [room.agent("press"), room.agent("office")];
    let mut talker = room.client("press");
    let mut listener = room.client("office");
    for vlan in [None, Some(5)] {
        let tag = vlan.map_or(0, |_| 4);
        let (channel, out) = talker.reserve(rtdip_wish(vlan)).unwrap();
        let (heard, inbox) = listener.listen(channel.connection).unwrap();
        assert_eq!(heard, channel);
        inbox
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        out.set_nonblocking(true).unwrap();

        let file = format!("rtdip-{tag}.pcapng");
        let capture = room.capture("press", &file);
        let hearing = std::thread::spawn(move || {
            let (mut buffer, mut heard) = ([0; 2_000], 0_u64);
            while let Ok(count) = inbox.recv(&mut buffer) {
                let (_, data) = Header::parse(&buffer[..count]).unwrap();
                assert!(data.iter().all(|byte| *byte == 0x55) && data.len() == 970 - tag);
                heard += 1;
            }
            heard
        });
        let begun = Instant::now();
        let mut offered = 0;
        while begun.elapsed() < Duration::from_secs(1) {
            // What the queue does not take is told, or dropped.
            let _ = out.send(&packet(&channel, offered, 970 - tag));
            offered += 1;
        }
        let heard = hearing.join().unwrap();
        capture.end();
        let (frames, forms) = frames_of(&room, &file);
        // Many times the rate was offered. A good case must be good: all of the rate is there.
        assert!(offered > 2_000 && frames.len() > 850, "{}", frames.len());
        assert_eq!(beyond(&frames, 1_000, 2_048), None);
        assert!(beyond(&frames, 800, 2_048).is_some(), "the referee sees it");
        let [_, high, middle, low] = channel.number.to_be_bytes();
        let group = format!("03:72:74:{:02x}:{middle:02x}:{low:02x}", 2 + high);
        let form = match vlan {
            Some(_) => format!("1000\t{group}\t5\t5"),
            None => format!("1000\t{group}\t\t"),
        };
        assert_eq!(forms, BTreeSet::from([form]));
        assert_eq!(heard, frames.len() as u64, "each of them arrived");
        let arrived = counts(listener.counts(channel.connection).unwrap());
        assert_eq!(arrived, (heard, 0, 0));

        // Another key, another port, a longer and a shorter frame: dropped and counted.
        let stranger = |change: &dyn Fn(&mut Channel)| {
            let mut other = channel.clone();
            change(&mut other);
            packet(&other, 0, 100)
        };
        let wrong = [
            stranger(&|other| other.key ^= 1),
            stranger(&|other| other.port += 1),
            packet(&channel, 0, 971 - tag),
            packet(&channel, 0, 29),
        ];
        let (_, before, _) = counts(talker.counts(channel.connection).unwrap());
        let left = room.left_bytes("press");
        for bytes in &wrong {
            // The gate's refusal is told to the program, as that of a full queue.
            assert!(out.send(bytes).is_err());
        }
        until("all are counted", || {
            let (_, now, _) = counts(talker.counts(channel.connection).unwrap());
            now == before + 4
        });
        assert!(room.left_bytes("press") - left < 400, "nothing left");

        listener.release(channel.connection).unwrap();
        talker.release(channel.connection).unwrap();
        assert_eq!(room.connections("press"), [0_u64; 0]);
        has_no_rights(&room, &channel, &out);
    }
}

/// A socket that has lost its rights makes no frames of RTDiP.
fn has_no_rights(room: &Room, channel: &Channel, socket: &UdpSocket) {
    let capture = room.capture("press", "after.pcapng");
    for number in 0..100 {
        let _ = socket.send(&packet(channel, number, 100));
    }
    capture.end();
    assert_eq!(frames_of(room, "after.pcapng").1, BTreeSet::new());
}

/// Lines by the command, from one host to another; what is killed is given back.
#[test]
fn lines_travel_by_rtdip() {
    require!(root, program "ip");
    let room = Room::new();
    let _manager = room.manager();
    let _agents = [room.agent("press"), room.agent("office")];
    let channel = |host: &str, words: &[&str]| {
        let mut command = room.at(host, BINARY);
        command.arg("channel").args(words);
        command.arg("--agent").arg(room.socket(host));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Running::start(command.stderr(Stdio::null()))
    };
    let mut send = vec!["send", "--to", "office", "--rate", "1 Mbit/s"];
    send.extend(["--frame", "100 B", "--carrier", "rtdip", "--vlan", "7"]);
    let mut sender = channel("press", &send);
    until("the connection", || room.connections("press") == [1]);
    let mut hearer = channel("office", &["hear", "1"]);
    let mut said = BufReader::new(hearer.child.stdout.take().unwrap()).lines();
    let mut lines = sender.child.stdin.take().unwrap();
    let heard = std::thread::spawn(move || said.next().unwrap().unwrap());
    // Until the listener is there, packets are lost.
    until("a line", || {
        lines.write_all(b"a value\n").unwrap();
        heard.is_finished()
    });
    assert_eq!(heard.join().unwrap(), "a value");
    sender.kill();
    until("it is given back", || room.connections("press").is_empty());
}

/// Lines that come faster than the rate are dropped by the connection's queue: that ends no command.
#[test]
fn lines_beyond_the_rate_are_dropped_by_either_carrier() {
    require!(root, program "ip");
    let room = Room::new();
    let _manager = room.manager();
    let _agent = room.agent("press");
    for carrier in ["udp", "rtdip"] {
        let mut command = room.at("press", BINARY);
        command.args(["channel", "send", "--to", "office", "--rate", "1 Mbit/s"]);
        command.args(["--frame", "100 B", "--carrier", carrier, "--agent"]);
        command.arg(room.socket("press")).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut sender = command.spawn().unwrap();
        let mut lines = sender.stdin.take().unwrap();
        lines.write_all(&b"a value\n".repeat(5_000)).unwrap();
        drop(lines);
        let sent = sender.wait_with_output().unwrap();
        assert_eq!(sent.status.code(), Some(0), "{carrier}: {}", text(&sent));
        assert!(text(&sent).contains(": 5000 frames"), "{}", text(&sent));
    }
}

#[test]
fn what_rtdip_cannot_carry_is_refused_with_the_reason() {
    require!(root, program "ip");
    let room = Room::new();
    let _manager = room.manager();
    let _agent = room.agent("press");
    let mut client = room.client("press");
    let mut refusal = |wish: ReserveWish| match client.reserve(wish) {
        Err(ClientError::Refused { reason, text }) => format!("{reason}: {text}"),
        other => panic!("{other:?}"),
    };
    let udp = ReserveWish {
        carrier: Carrier::Udp,
        ..rtdip_wish(Some(5))
    };
    assert!(refusal(udp).contains("faulty: datagrams have no VLAN tag of their own"));
    for id in [0, 4_095] {
        assert!(refusal(rtdip_wish(Some(id))).contains("a VLAN id is 1 to 4094"));
    }
    let long = ReserveWish {
        frame_bytes: 1_518,
        ..rtdip_wish(Some(5))
    };
    assert!(refusal(long).contains("needs an MTU of 1528"));
    let short = ReserveWish {
        frame_bytes: 20,
        ..rtdip_wish(None)
    };
    assert!(refusal(short).contains("less than its headers"));
    assert_eq!(room.connections("press"), [0_u64; 0]);

    let mut command = room.at("press", BINARY);
    command.args(["channel", "send", "--to", "office", "--rate", "1 Mbit/s"]);
    command.args(["--frame", "100 B", "--vlan", "7", "--agent"]);
    let refused = command.arg(room.socket("press")).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
}

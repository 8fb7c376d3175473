//! A publisher whose messages the driver sends as answers, on real interfaces: questions by hand, answers read byte by byte.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod pubsub_common;

use pubsub_common::*;
use rtwire_link::program::{Attach, ProgramConfig, ReceiveProgram, XdpMode};
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, WakeUp};
use rtwire_sys::bpf::{BpfObject, Direction};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::interface::by_name;
use rtwire_sys::netdev::{RECEIVE_TAGS, receive_metadata};
use rtwire_testkit::{NetnsPair, Side, TAG_BESIDE, foreign_bpf, ip, require};
use std::time::{Duration, Instant};

const ASKED: [u8; 6] = [1, 0, 0x5e, 0x7f, 0, 1];
const BACK: [u8; 6] = [1, 0, 0x5e, 0x7f, 0, 2];
/// The interval of questions: longer than a round trip takes.
const INTERVAL: Duration = Duration::from_micros(20);
const LEASE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(20);

/// The questions: often enough for round trips one behind the other.
const OUT: &str = "\
[connection]\npublisher-id = 2234\naddress = \"01-00-5E-7F-00-01\"\n\
[[writer-group]]\nname = \"setpoints\"\nid = 100\ninterval = \"20 us\"\nreceive-timeout = \"60 s\"\n\
[[writer-group.data-set]]\nname = \"out\"\nwriter = 7\n\
[[writer-group.data-set.field]]\nname = \"up\"\ntype = \"Int32\"\n\
[[writer-group.data-set.field]]\nname = \"down\"\ntype = \"Int64\"\n";

/// The answers.
const ANSWERS: &str = "\
[connection]\npublisher-id = 2235\naddress = \"01-00-5E-7F-00-02\"\n[real-time]\npriority = 0\n\
[[writer-group]]\nname = \"positions\"\nid = 200\ninterval = \"2 ms\"\nanswers = \"out.toml\"\nanswers-lease = \"100 ms\"\n\
[[writer-group.data-set]]\nname = \"back\"\nwriter = 9\n\
[[writer-group.data-set.field]]\nname = \"cycle\"\ntype = \"Int64\"\nvalue = \"counter\"\n\
[[writer-group.data-set.field]]\nname = \"number\"\ntype = \"Int32\"\ncopy = \"up\"\n";

/// Returns a question, by the bytes of the standard's fixed profile.
fn question(sequence: u16, up: i32, down: i64) -> Vec<u8> {
    let mut frame = ASKED.to_vec();
    frame.extend([2, 0, 0, 0, 0, 0x77, 0xb6, 0x2c]);
    // Flags; publisher 2234; group 100, version 1, message number 1.
    frame.extend([0xb1, 0x01, 0xba, 0x08, 0x0f, 100, 0, 1, 0, 0, 0, 1, 0]);
    frame.extend(sequence.to_le_bytes());
    frame.push(0x1b);
    frame.extend(sequence.to_le_bytes());
    frame.extend([0, 0]);
    frame.extend(up.to_le_bytes());
    frame.extend(down.to_le_bytes());
    frame
}

/// An answer, by the same bytes.
#[derive(Debug, PartialEq)]
struct Answer {
    tag: Option<u16>,
    sequence: u16,
    cycle: i64,
    number: i32,
}

/// A change of a question.
type Change<'a> = Box<dyn Fn(Vec<u8>) -> Vec<u8> + 'a>;

/// One end of the wire.
struct Wire {
    sender: Sender,
    receiver: Receiver,
    own: [u8; 6],
    sent: Instant,
}

impl Wire {
    /// Opens the end that receives frames to `from`.
    fn open(side: &Side, from: [u8; 6]) -> Self {
        let config = ReceiverConfig {
            interface: side.interface.clone(),
            wake_up: WakeUp::Block,
            queue_frames: 1024,
            stamps: false,
            one_by_one: false,
        };
        let jump = |test, yes, no| Instruction::Jump { test, yes, no };
        let [a, b, c, d, e, f] = from;
        let filter = Filter::new(&[
            Instruction::LoadWord(0),
            jump(Test::Equal(u32::from_be_bytes([a, b, c, d])), 0, 3),
            Instruction::LoadHalf(4),
            jump(Test::Equal(u32::from(u16::from_be_bytes([e, f]))), 0, 1),
            Instruction::Accept,
            Instruction::Reject,
        ]);
        Self {
            sender: Sender::frames(&SenderConfig::new(&side.interface)).unwrap(),
            receiver: Receiver::frames_with_tags(&config, &filter.unwrap()).unwrap(),
            own: side.mac,
            sent: Instant::now(),
        }
    }

    /// Sends a frame, not sooner than the questions' interval behind the last one.
    fn send(&mut self, frame: &[u8]) {
        while self.sent.elapsed() < INTERVAL {
            std::hint::spin_loop();
        }
        self.sender.send(frame).unwrap();
        self.sent = Instant::now();
    }

    fn next(&mut self, timeout: Duration) -> Option<(Option<u16>, Vec<u8>)> {
        if !self.receiver.wait(Some(timeout)).unwrap() {
            return None;
        }
        let frame = self.receiver.peek().unwrap();
        let found = (frame.tag, frame.data.to_vec());
        self.receiver.release();
        Some(found)
    }

    /// Returns the next answer, from the station with this address.
    fn answer(&mut self, timeout: Duration, from: [u8; 6]) -> Option<Answer> {
        let (tag, frame) = self.next(timeout)?;
        assert_eq!((&frame[..6], &frame[6..12]), (&BACK[..], &from[..]));
        assert_eq!(frame[12..14], [0xb6, 0x2c]);
        let (header, rest) = frame[14..].split_at(13);
        assert_eq!(
            header,
            [0xb1, 0x01, 0xbb, 0x08, 0x0f, 200, 0, 1, 0, 0, 0, 1, 0]
        );
        assert_eq!(
            (rest[2], &rest[3..5], &rest[5..7]),
            (0x1b, &rest[..2], &[0, 0][..])
        );
        assert!(rest[19..].iter().all(|octet| *octet == 0), "{rest:02x?}");
        Some(Answer {
            tag,
            sequence: u16::from_le_bytes(rest[..2].try_into().unwrap()),
            cycle: i64::from_le_bytes(rest[7..15].try_into().unwrap()),
            number: i32::from_le_bytes(rest[15..19].try_into().unwrap()),
        })
    }
}

/// Waits until a question is answered, or goes on to Linux.
fn fate(wire: &mut Wire, linux: &mut Wire, from: [u8; 6]) -> Option<Answer> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = wire.answer(Duration::ZERO, from) {
            return Some(answer);
        }
        if linux.next(Duration::ZERO).is_some() {
            return None;
        }
        assert!(begun.elapsed() < PATIENCE, "a question is lost");
    }
}

/// Sends good questions until one is answered.
fn until_answered(wire: &mut Wire, from: [u8; 6], sequence: &mut u16) -> Answer {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        *sequence += 1;
        wire.send(&question(*sequence, -1, 1));
        if let Some(answer) = wire.answer(Duration::from_millis(20), from) {
            return answer;
        }
    }
    panic!("no answer")
}

fn answers_in(mode: XdpMode) {
    let pair = NetnsPair::new();
    let folder = Folder::new();
    folder.write("out.toml", OUT);
    let file = folder.write("back.toml", ANSWERS);
    let _program = match mode {
        // A veth takes what its peer's driver sends only if it has a program itself.
        XdpMode::Native => pair.a.run(|| {
            let mut config = ProgramConfig::new(&pair.a.interface);
            config.attach = Attach::Only(mode);
            Some(ReceiveProgram::with(&config).unwrap())
        }),
        // Native mode does not take such frames.
        XdpMode::Generic => {
            for side in [&pair.a, &pair.b] {
                ip(
                    &side.namespace,
                    &format!("link set {} mtu 9000", side.interface),
                );
            }
            None
        }
    };
    let (mut wire, mut linux) = (
        pair.a.run(|| Wire::open(&pair.a, BACK)),
        pair.b.run(|| Wire::open(&pair.b, ASKED)),
    );
    let station = start(&pair.b, "publish", &file, &["--json"]);
    let from = linux.own;
    let mut sequence = 0;
    let mut last = until_answered(&mut wire, from, &mut sequence);
    passed(&mut linux);
    let mut answered = 1;
    let mut lapsed = 0;
    let mut ask =
        |(wire, linux): (&mut Wire, &mut Wire), frame: &dyn Fn(Vec<u8>) -> Vec<u8>, tag| {
            let begun = Instant::now();
            let answer = loop {
                assert!(begun.elapsed() < PATIENCE, "no answer to {sequence}");
                sequence += 1;
                wire.send(&frame(question(sequence, i32::from(sequence), 5)));
                match fate(wire, linux, from) {
                    Some(answer) => break answer,
                    // On a busy machine the station may be late for its lease.
                    None => lapsed += 1,
                }
            };
            assert_eq!(answer.tag, tag);
            assert_eq!(
                answer.sequence,
                last.sequence.wrapping_add(1),
                "each answer has the next number"
            );
            assert_eq!(
                answer.number,
                i32::from(sequence),
                "the question's own value"
            );
            assert!(answer.cycle >= last.cycle);
            last = answer;
            answered += 1;
        };
    for _ in 0..200 {
        ask((&mut wire, &mut linux), &|frame| frame, None);
    }
    let padded = |mut frame: Vec<u8>| {
        frame.resize(60, 0);
        frame
    };
    let tagged = |mut frame: Vec<u8>| {
        frame.splice(12..12, [0x81, 0x00, 0x60, 0x08]);
        frame
    };
    ask((&mut wire, &mut linux), &padded, None);
    ask((&mut wire, &mut linux), &tagged, Some(3 << 13 | 8));
    // The same with a tag that the driver keeps outside of the frame. Before Linux 6.8 a veth does not tell it.
    let bits = pair
        .b
        .run(|| receive_metadata(&by_name(&pair.b.interface).unwrap()));
    if mode == XdpMode::Generic || bits.unwrap().unwrap_or(0) & RECEIVE_TAGS != 0 {
        let pushing = foreign_bpf(TAG_BESIDE);
        let index = pair.a.run(|| by_name(&pair.a.interface).unwrap().index);
        pair.a
            .run(|| pushing.attach_tc("tag", index, Direction::Egress))
            .unwrap();
        for _ in 0..20 {
            ask((&mut wire, &mut linux), &|frame| frame, Some(5 << 13 | 42));
        }
        pair.a
            .run(|| BpfObject::detach_tc(index, Direction::Egress))
            .unwrap();
    }
    // What is no question gets no answer: the next one is that of the good question behind it.
    let changed = |at: usize, to: u8| {
        move |mut frame: Vec<u8>| {
            frame[at] = to;
            frame
        }
    };
    let cut = |bytes: usize| move |frame: Vec<u8>| frame[..frame.len() - bytes].to_vec();
    let longer = |octet: u8| {
        move |mut frame: Vec<u8>| {
            frame.push(octet);
            frame
        }
    };
    let strangers: [(&str, Change<'_>); 9] = [
        ("publisher", Box::new(changed(16, 0xbb))),
        ("group", Box::new(changed(19, 101))),
        ("version", Box::new(changed(21, 2))),
        ("not valid", Box::new(changed(29, 0x1a))),
        ("from a group", Box::new(changed(6, 3))),
        ("cut by one", Box::new(cut(1))),
        ("a heartbeat", Box::new(cut(12))),
        ("longer by one", Box::new(longer(7))),
        (
            "padded heartbeat",
            Box::new(|frame: Vec<u8>| padded(cut(12)(frame))),
        ),
    ];
    for (what, change) in &strangers {
        wire.send(&change(question(0, 1, 2)));
        // It goes on to Linux.
        let passed = linux.next(PATIENCE).map(|(_, frame)| frame);
        assert_eq!(passed, Some(change(question(0, 1, 2))), "{what}");
        ask((&mut wire, &mut linux), &|frame| frame, None);
    }

    // The program hangs: answers end within the lease, whatever is asked.
    station.hang();
    let hung = Instant::now();
    let mut unanswered = 0;
    while unanswered < 50 {
        sequence += 1;
        let asked = hung.elapsed();
        wire.send(&question(sequence, i32::from(sequence), 5));
        match fate(&mut wire, &mut linux, from) {
            Some(answer) => {
                assert_eq!(answer.number, i32::from(sequence));
                assert!(asked <= LEASE, "answered {asked:?} after the program hung");
                assert_eq!(unanswered, 0, "answers begin again by themselves");
                answered += 1;
                last = answer;
            }
            None => unanswered += 1,
        }
    }
    station.signal("CONT");
    last.sequence += 1;
    assert_eq!(
        until_answered(&mut wire, from, &mut sequence).sequence,
        last.sequence
    );
    answered += 1;
    let (code, report) = station.stop();
    assert_eq!(code, Some(0), "{report}");
    let counters = &report["groups"][0]["answers"];
    assert_eq!(count(counters, "answered"), answered, "{report}");
    assert!(count(counters, "lapsed") >= lapsed + 50, "{report}");
    assert_eq!(count(counters, "too_soon"), 0, "{report}");
    assert_eq!(
        count(counters, "others"),
        strangers.len() as u64,
        "{report}"
    );
    let answers = &report["answers"];
    assert_eq!(answers["mode"], mode.to_string(), "{report}");
    assert_eq!(
        answers["why_generic"].is_string(),
        mode == XdpMode::Generic,
        "{report}"
    );
    // Answered or not, each of them was for the questions' reader. While the program hung, the newest ones pushed out others.
    let seen = count(answers, "frames") + count(answers, "missed");
    assert_eq!(
        seen,
        u64::from(sequence) + strangers.len() as u64,
        "{report}"
    );
    let reader = &answers["questions"][0]["readers"][0];
    assert!(count(reader, "taken") >= 200, "{report}");
    assert_eq!(
        reader["values"][0]["value"], "-1",
        "the last one's: {report}"
    );

    // It has gone, and its answers with it.
    passed(&mut linux);
    wire.send(&question(sequence + 1, 1, 2));
    assert!(linux.next(PATIENCE).is_some());
    assert_eq!(wire.answer(Duration::ZERO, from), None);
}

/// Takes what has gone on to Linux.
fn passed(linux: &mut Wire) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| linux.next(Duration::ZERO).map(|(_, frame)| frame)).collect()
}

#[test]
fn questions_are_answered_by_the_driver_in_native_mode() {
    require!(root, program "ip");
    answers_in(XdpMode::Native);
}

#[test]
fn questions_are_answered_by_the_driver_in_generic_mode() {
    require!(root, program "ip");
    answers_in(XdpMode::Generic);
}

#[test]
fn where_the_driver_cannot_answer_it_is_said() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let file = folder.write("back.toml", ANSWERS);
    let refused = |out: &str, code: i32, why: &str| {
        folder.write("out.toml", out);
        let output = run(&pair.b, "publish", &file, &["--cycles", "1"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(why), "{errors}");
        assert_eq!(output.status.code(), Some(code), "{errors}");
    };
    refused(
        &OUT.replace("\"up\"", "\"other\""),
        2,
        "its messages have no field `up`",
    );
    let other = OUT.replace("address = ", "vlan = 8\naddress = ");
    refused(&other, 2, "an answer keeps the VLAN tag of its question");
    let program = pair
        .b
        .run(|| ReceiveProgram::attach(&pair.b.interface).unwrap());
    refused(OUT, 3, "another XDP program is there already");
    drop(program);
    folder.write("out.toml", OUT);
    assert!(
        run(&pair.b, "publish", &file, &["--cycles", "1"])
            .status
            .success()
    );
}

//! The program, run on frames of every kind (`BPF_PROG_TEST_RUN`): it answers what the parser takes for the question, and nothing else.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use crate::Project;
use proptest::prelude::*;
use rtwire_pubsub::fixed_layout;
use rtwire_testkit::layout as shared_layout;
use rtwire_wire::uadp::{Content, DataSetMessage, Header, MessageKind};
use std::path::Path;
use std::time::Duration;

const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ASKED: [u8; 6] = [1, 0, 0x5e, 0x7f, 0, 1];
const ANSWER: [u8; 6] = [1, 0, 0x5e, 0x7f, 0, 2];
/// Longer than any of these tests.
const LONG_NS: u64 = 3_600_000_000_000;

fn group(publisher: &str, id: u16, fields: &str) -> rtwire_pubsub::Group {
    let text = format!(
        "[connection]\naddress = \"01-00-5E-7F-00-01\"\n{publisher}\n[[writer-group]]\nname = \"g\"\nid = {id}\ninterval = \"1 ms\"\n\
         [[writer-group.data-set]]\nname = \"d\"\nwriter = 7\n{fields}"
    );
    let project = Project::parse(&text, Path::new("p.toml")).unwrap();
    project.groups[0].group.clone()
}

const FIELDS: &str = "[[writer-group.data-set.field]]\nname = \"up\"\ntype = \"Int32\"\n\
    [[writer-group.data-set.field]]\nname = \"down\"\ntype = \"Int64\"\n";

struct Bench {
    object: BpfObject,
    driver: Driver,
    reader: FrameRing,
    out: Vec<u8>,
    question: Box<FixedLayout>,
    answer: Box<FixedLayout>,
}

impl Bench {
    fn with(change: impl FnOnce(&mut Pair<'_>)) -> Self {
        let question = fixed_layout(&group("publisher-id = 2234", 100, FIELDS)).unwrap();
        let more = "[[writer-group.data-set.field]]\nname = \"more\"\ntype = \"UInt64\"\n";
        let answer = group("publisher-id = 2235", 101, &format!("{more}{FIELDS}"));
        let answer = fixed_layout(&answer).unwrap();
        let interface = Interface {
            name: "test".to_owned(),
            index: 1,
            mac: OWN,
            mtu: 1500,
            up: true,
        };
        let object =
            BpfObject::load(PROGRAM, rtwire_bpf::PUBSUB.bytes, &[]).expect("these tests need root");
        let mut pair = Pair {
            question: &question,
            destination: MacAddress(ASKED),
            vlan: None,
            interval_ns: 2,
            zeros_are_data: false,
            answer: &answer,
            answer_to: MacAddress(ANSWER),
            copies: vec![Copied {
                question: question.places(0)[0],
                answer: answer.places(0)[1],
            }],
            lease_ns: LONG_NS,
        };
        change(&mut pair);
        let driver = Driver::of(&object, &interface, &[pair]).unwrap();
        Self {
            object,
            driver,
            reader: FrameRing::new(),
            out: Vec::new(),
            question,
            answer,
        }
    }

    fn run(&mut self, frame: &[u8]) -> u32 {
        let run = self
            .object
            .test_run_xdp(PROGRAM, frame, &mut self.out, 1)
            .unwrap();
        if run.verdict == PASS {
            assert_eq!(self.out, frame, "what goes on to Linux is as it came");
        }
        run.verdict
    }

    /// Returns a question with a number and values.
    fn question(&self, sequence: u16, up: i32, down: i64) -> Vec<u8> {
        let mut message = self.question.template().to_vec();
        self.question.set_sequence(&mut message, sequence);
        self.question
            .set_data_set_sequence(&mut message, 0, sequence);
        self.question
            .field::<i32>(0, 0)
            .unwrap()
            .set(&mut message, up);
        self.question
            .field::<i64>(0, 1)
            .unwrap()
            .set(&mut message, down);
        message
    }

    fn prepare(&self, more: u64) {
        let mut message = self.answer.template().to_vec();
        self.answer
            .field::<u64>(0, 0)
            .unwrap()
            .set(&mut message, more);
        self.driver.prepare(0, &message);
    }

    fn counters(&self) -> AnswerCounters {
        self.driver.counters(0)
    }
}

fn frame(tag: Option<u16>, message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(ASKED);
    frame.extend(PEER);
    if let Some(tci) = tag {
        frame.extend([0x81, 0x00]);
        frame.extend(tci.to_be_bytes());
    }
    frame.extend([0xb6, 0x2c]);
    frame.extend(message);
    frame
}

/// Parses an answer with the parser for any message, which knows no layout. Returns the tag, the numbers, and the data.
fn parsed(frame: &[u8]) -> (Option<u16>, [u16; 2], Vec<u8>) {
    assert_eq!((&frame[..6], &frame[6..12]), (&ANSWER[..], &OWN[..]));
    let tag = (frame[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([frame[14], frame[15]]));
    let at = if tag.is_some() { 16 } else { 12 };
    assert_eq!(frame[at..at + 2], [0xb6, 0x2c]);
    let message = &frame[at + 2..];
    let (header, payload) = Header::parse(message).unwrap();
    assert_eq!(header.kind, MessageKind::Data);
    assert_eq!(
        header.publisher_id,
        Some(rtwire_wire::uadp::PublisherId::UInt16(2235))
    );
    let group = header.group.unwrap();
    assert_eq!(group.writer_group_id, Some(101));
    let (set, _) = DataSetMessage::parse(&message[payload..]).unwrap();
    assert!(set.valid);
    let Content::RawData(data) = set.content else {
        panic!("{:?}", set.content)
    };
    (
        tag,
        [group.sequence.unwrap(), set.sequence.unwrap()],
        data.to_vec(),
    )
}

#[test]
fn the_layouts_are_those_of_the_kernel_program() {
    for object in [rtwire_bpf::PUBSUB, rtwire_bpf::PUBSUB_TAGS] {
        shared_layout::check(object.built_at, layout::FIELDS);
    }
    let header = include_str!("../../../bpf/programs/pubsub.h");
    let expected = [
        ("RTW_PS_PAIRS", layout::PAIRS as u64),
        (
            "RTW_PS_FRAME_BYTES",
            rtwire_link::frame_ring::FRAME_OCTETS as u64,
        ),
        ("RTW_PS_MESSAGE_BYTES", layout::MESSAGE_BYTES as u64),
        ("RTW_PS_RING", rtwire_link::frame_ring::RING as u64),
        ("RTW_PS_BUFFERS", layout::BUFFERS as u64),
        ("RTW_PS_WINDOWS", layout::WINDOWS as u64),
        ("RTW_PS_COPIES", layout::COPIES as u64),
        ("RTW_PS_COPY_BYTES", layout::COPY_BYTES as u64),
        ("RTW_PS_ANY_VLAN", layout::ANY_VLAN),
        ("RTW_PS_ANSWERED", layout::ANSWERED),
    ];
    assert_eq!(shared_layout::numbers(header), expected);
}

#[test]
fn a_question_gets_the_newest_answer_with_its_own_field_and_the_next_number() {
    let mut bench = Bench::with(|_| {});
    for tag in [None, Some(3 << 13 | 8), Some(0)] {
        for round in 0..3_u64 {
            bench.prepare(1_000 + round);
            let asked = bench.question(40 + round as u16, -7, 9);
            let asked = frame(tag, &asked);
            let before = bench.counters().answered;
            assert_eq!(bench.run(&asked), TX);
            assert!(bench.out.len() >= 60);
            let (found, numbers, data) = parsed(&bench.out);
            assert_eq!(found, tag);
            assert_eq!(numbers, [before as u16; 2]);
            let mut expected = (1_000 + round).to_le_bytes().to_vec();
            expected.extend((-7_i32).to_le_bytes());
            expected.extend([0; 8]);
            assert_eq!(data[..20], expected);
            // The subscriber gets the question as it came.
            let taken = bench.driver.take(&mut bench.reader).unwrap();
            assert_eq!(taken.did, ANSWERED);
            assert_eq!(bench.reader.octets()[..taken.length], asked);
        }
    }
    assert_eq!(bench.counters().answered, 9);
    assert_eq!(bench.counters().others, 0);
}

#[test]
fn answers_end_with_their_lease_and_where_questions_come_too_fast() {
    let mut bench = Bench::with(|pair| pair.lease_ns = 1_000_000);
    let asked = frame(None, &bench.question(1, 2, 3));
    assert_eq!(bench.run(&asked), PASS);
    assert_eq!(bench.counters().unarmed, 1);
    bench.prepare(1);
    let renewed = Duration::from_nanos(wait::monotonic_ns());
    while Duration::from_nanos(wait::monotonic_ns()) < renewed + Duration::from_millis(2) {
        std::hint::spin_loop();
    }
    assert_eq!(bench.run(&asked), PASS);
    assert_eq!(bench.counters().lapsed, 1);

    let mut bench = Bench::with(|pair| pair.interval_ns = LONG_NS);
    bench.prepare(1);
    let verdicts: Vec<u32> = (0..6).map(|_| bench.run(&asked)).collect();
    assert_eq!(verdicts, [TX, TX, TX, TX, PASS, PASS]);
    assert_eq!(bench.counters().too_soon, 2);
    bench.driver.disarm();
    assert_eq!(bench.run(&asked), PASS);
    assert_eq!(bench.counters().unarmed, 1);
}

#[test]
fn only_the_stated_vlan_and_address_are_asked_at() {
    let mut bench = Bench::with(|pair| pair.vlan = Some(8));
    bench.prepare(1);
    let message = bench.question(1, 2, 3);
    assert_eq!(bench.run(&frame(None, &message)), PASS);
    assert_eq!(bench.run(&frame(Some(9), &message)), PASS);
    assert_eq!(bench.run(&frame(Some(5 << 13 | 8), &message)), TX);
    let good = frame(Some(8), &message);
    // Another destination, a group as the source, two tags, another EtherType.
    for (at, octet) in [(5, 2), (6, 3), (16, 0x81), (17, 0x2d)] {
        let mut other = good.clone();
        other[at] = octet;
        assert_eq!(bench.run(&other), PASS, "{at}");
    }
    assert_eq!(bench.run(&good), TX);
}

/// Returns whether the parser for any message takes a frame's message for the question, as a reader over a packet socket does.
fn is_question(message: &[u8], question: &FixedLayout, zeros_are_data: bool) -> bool {
    let whole = question.octets();
    let Some(own) = message.get(..whole) else {
        return false;
    };
    let Ok((header, payload)) = Header::parse(own) else {
        return false;
    };
    let template = question.template();
    let (wanted, _) = Header::parse(template).unwrap();
    let mut group = header.group.unwrap_or_default();
    if group.sequence.is_none() {
        return false;
    }
    group.sequence = wanted.group.unwrap().sequence;
    let same = Header {
        group: Some(group),
        ..header
    } == wanted;
    let Ok((set, _)) = DataSetMessage::parse(&own[payload..]) else {
        return false;
    };
    let right = set.valid
        && set.sequence.is_some()
        && set.status.is_some()
        && set.timestamp.is_none()
        && set.major_version.is_none()
        && set.minor_version.is_none()
        && matches!(set.content, Content::RawData(_));
    let behind = &message[whole..];
    let short = message.len() <= 46;
    let padding = behind.is_empty() || short && behind.iter().all(|octet| *octet == 0);
    let hidden = matches!(message.len(), 42 | 46) || !behind.is_empty();
    let zeros = message[whole - 12..].iter().all(|octet| *octet == 0);
    same && right && padding && !(short && hidden && zeros && !zeros_are_data)
}

#[test]
fn what_the_program_answers_is_what_the_parser_takes() {
    for zeros_are_data in [false, true] {
        let bench =
            std::cell::RefCell::new(Bench::with(|pair| pair.zeros_are_data = zeros_are_data));
        bench.borrow().prepare(1);
        let answered = std::cell::Cell::new(0);
        let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
        let length = prop_oneof![
            4 => Just(0_isize),
            1 => -40_isize..40,
            1 => Just(14),
            1 => Just(10),
        ];
        let case = (
            changes,
            length,
            any::<(u16, i8, bool)>(),
            any::<bool>(),
            any::<bool>(),
        );
        proptest!(ProptestConfig::with_cases(3_000), |((changes, more, (sequence, value, both), noise, tagged) in case)| {
            let mut bench = bench.borrow_mut();
            let mut message = bench.question(sequence, i32::from(value / 64), i64::from(both));
            for (at, octet) in changes {
                let at = at.index(message.len());
                message[at] = octet;
            }
            let length = message.len().saturating_add_signed(more);
            message.resize(length, u8::from(noise && more == 10));
            let expected = is_question(&message, &bench.question, zeros_are_data);
            let verdict = bench.run(&frame(tagged.then_some(8), &message));
            prop_assert!(verdict != DROP);
            prop_assert_eq!(verdict == TX, expected, "{:02x?}", message);
            answered.set(answered.get() + u32::from(expected));
        });
        // Both verdicts are there.
        let answered = answered.get();
        assert!((300..2_700).contains(&answered), "{answered}");
    }
}

#[test]
fn truncated_and_padded_messages() {
    let mut bench = Bench::with(|_| {});
    bench.prepare(1);
    let whole = bench.question(1, 2, 3);
    let header = bench.question.data(0).unwrap().start;
    for length in 0..whole.len() {
        let mut short = frame(None, &whole[..length]);
        assert_eq!(bench.run(&short), PASS, "{length}");
        // With the padding of a card: no header and no datum is made of its zeros. A message that was cut behind that cannot be told
        // from one that ends with zeros.
        short.resize(60, 0);
        let expected = if length > header { TX } else { PASS };
        assert_eq!(bench.run(&short), expected, "{length} padded");
    }
    // A padded heartbeat, also one that was cut within its number and status.
    assert_eq!(bench.counters().ambiguous, 5);
    let mut padded = frame(None, &whole);
    padded.resize(60, 0);
    assert_eq!(bench.run(&padded), TX);
    // A heartbeat that was padded.
    let mut zeros = frame(None, &bench.question(1, 0, 0));
    zeros.resize(60, 0);
    assert_eq!(bench.run(&zeros), PASS);
    assert_eq!(bench.counters().ambiguous, 6);
    padded.resize(61, 0);
    assert_eq!(bench.run(&padded), PASS);
    let mut long = frame(None, &whole);
    long.resize(2_000, 0);
    assert_eq!(bench.run(&long), PASS);
    assert_eq!(bench.driver.oversize(), 1);
}

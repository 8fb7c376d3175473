//! Texts, bytes and arrays as fields: every encoding, both profiles, chunks; values that are too long, and bytes on the wire that are wrong.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Sent, field};
use proptest::prelude::*;
use rtwire_pubsub::publish::PublisherNode;
use rtwire_pubsub::publish::{WriterGroup, longest_message_bytes};
use rtwire_pubsub::subscribe::{ReaderGroup, SubscriberNode};
use rtwire_pubsub::{
    ConfigFault, DataSet, Extent, Field, FieldValue, Group, Profile, Publisher, Scalar,
    ScalarArray, Values,
};
use rtwire_wire::Node;
use rtwire_wire::uadp::{BuiltIn, FieldEncoding};

const MS: u64 = 1_000_000;

fn group(encoding: FieldEncoding, key_frame_count: u32, fields: Vec<Field>) -> Group {
    let raw = encoding == FieldEncoding::RawData;
    Group {
        name: "g".to_owned(),
        publisher: Publisher::UInt16(2234),
        id: 100,
        version: 1,
        profile: if raw {
            Profile::Fixed
        } else {
            Profile::Dynamic
        },
        interval_ns: MS,
        offset_ns: 0,
        keep_alive_ns: 10 * MS,
        receive_timeout_ns: 50 * MS,
        security: Default::default(),
        data_sets: vec![DataSet {
            writer: 1,
            name: "d".to_owned(),
            encoding,
            key_frame_count,
            major_version: 1,
            minor_version: 1,
            event: false,
            zeros_are_data: false,
            fields,
        }],
    }
}

fn fields() -> Vec<Field> {
    vec![
        field("number", BuiltIn::Int32, Extent::Scalar),
        field("text", BuiltIn::String, Extent::Bytes(20)),
        field("bytes", BuiltIn::ByteString, Extent::Bytes(9)),
        field("list", BuiltIn::Int16, Extent::Elements(5)),
        field("flag", BuiltIn::Boolean, Extent::Scalar),
    ]
}

struct Pair {
    publisher: PublisherNode,
    subscriber: SubscriberNode,
}

impl Pair {
    fn new(group: &Group) -> Self {
        let writers = WriterGroup::new(group.clone(), &[], None, 0).unwrap();
        let mut this = Self {
            publisher: PublisherNode::new(vec![writers], Vec::new(), false),
            subscriber: SubscriberNode::new(
                vec![ReaderGroup::new(group.clone(), None).unwrap()],
                0,
            ),
        };
        this.publisher.start(0, &mut Sent::default());
        this.subscriber.start(0, &mut Sent::default());
        this
    }

    fn set(&mut self, field: usize, value: FieldValue<'_>) -> bool {
        self.publisher.groups_mut()[0].set_value(0, field, value)
    }

    fn step(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Sent::default();
        let now = self.publisher.wake_at_ns().unwrap();
        self.publisher.moment(now, &mut sent);
        sent.0
    }

    fn deliver(&mut self, frame: &[u8]) {
        self.subscriber.frame(0, frame, &mut Sent::default());
    }

    fn turn(&mut self) -> Vec<Vec<u8>> {
        let frames = self.step();
        frames.iter().for_each(|frame| self.deliver(frame));
        frames
    }

    fn got(&self) -> Option<&Values> {
        self.subscriber.groups()[0].readers()[0].all()
    }

    fn shown(&self) -> Vec<String> {
        let values = self.got().unwrap();
        let all = 0..values.len();
        all.map(|at| values.get(at).unwrap().to_string()).collect()
    }
}

fn list(numbers: &[i16]) -> Vec<u8> {
    numbers.iter().flat_map(|one| one.to_le_bytes()).collect()
}

const ENCODINGS: [FieldEncoding; 3] = [
    FieldEncoding::RawData,
    FieldEncoding::Variant,
    FieldEncoding::DataValue,
];

#[test]
fn texts_bytes_and_arrays_arrive_in_each_encoding() {
    for encoding in ENCODINGS {
        let mut pair = Pair::new(&group(encoding, 1, fields()));
        let octets = list(&[-3, 300, 7]);
        let array = ScalarArray::of_octets(BuiltIn::Int16, &octets).unwrap();
        assert!(pair.set(0, FieldValue::Scalar(Scalar::of_number(BuiltIn::Int32, 5))));
        assert!(pair.set(1, FieldValue::Text("Öffnung 3")));
        assert!(pair.set(2, FieldValue::Bytes(&[1, 0, 255])));
        assert!(pair.set(3, FieldValue::Array(array)));
        pair.turn();
        let wanted = ["5", "Öffnung 3", "0100ff", "[-3, 300, 7]", "false"];
        assert_eq!(pair.shown(), wanted, "{encoding:?}");
        // Shorter ones leave nothing of the longer ones behind.
        assert!(pair.set(1, FieldValue::Text("zu")));
        assert!(pair.set(
            3,
            FieldValue::Array(ScalarArray::of_octets(BuiltIn::Int16, &[]).unwrap())
        ));
        pair.turn();
        assert_eq!(
            pair.shown(),
            ["5", "zu", "0100ff", "[]", "false"],
            "{encoding:?}"
        );
        assert_eq!(pair.got().unwrap().words()[1].number(), 2);
    }
}

#[test]
fn the_bytes_of_a_raw_text_and_array_are_the_standard_s() {
    // OPC 10000-14, 7.2.4.5.11: a text has its length and is padded with zeros; an array has the length of its dimension.
    let fields = vec![
        field("text", BuiltIn::String, Extent::Bytes(6)),
        field("list", BuiltIn::UInt16, Extent::Elements(3)),
    ];
    let mut pair = Pair::new(&group(FieldEncoding::RawData, 1, fields));
    assert!(pair.set(0, FieldValue::Text("abc")));
    let array = ScalarArray::of_octets(BuiltIn::UInt16, &[0x34, 0x12, 2, 0]).unwrap();
    assert!(pair.set(1, FieldValue::Array(array)));
    let frames = pair.turn();
    let raw = [
        3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, // text
        2, 0, 0, 0, 0x34, 0x12, 2, 0, 0, 0, // list
    ];
    assert!(frames[0].ends_with(&raw), "{:02x?}", frames[0]);
}

#[test]
fn the_bytes_of_variants_are_the_standard_s() {
    let fields = vec![
        field("text", BuiltIn::String, Extent::Bytes(6)),
        field("bytes", BuiltIn::ByteString, Extent::Bytes(2)),
        field("list", BuiltIn::UInt16, Extent::Elements(3)),
    ];
    let mut pair = Pair::new(&group(FieldEncoding::Variant, 1, fields));
    assert!(pair.set(0, FieldValue::Text("abc")));
    assert!(pair.set(1, FieldValue::Bytes(&[9])));
    let array = ScalarArray::of_octets(BuiltIn::UInt16, &[0x34, 0x12, 2, 0]).unwrap();
    assert!(pair.set(2, FieldValue::Array(array)));
    let frames = pair.turn();
    let fields = [
        3,
        0,
        12,
        3,
        0,
        0,
        0,
        b'a',
        b'b',
        b'c', // count, text
        15,
        1,
        0,
        0,
        0,
        9, // bytes
        0x80 | 5,
        2,
        0,
        0,
        0,
        0x34,
        0x12,
        2,
        0, // list
    ];
    assert!(frames[0].ends_with(&fields), "{:02x?}", frames[0]);
}

#[test]
fn only_a_changed_text_is_in_a_delta_frame() {
    for encoding in [FieldEncoding::Variant, FieldEncoding::DataValue] {
        let mut pair = Pair::new(&group(encoding, 40, fields()));
        assert!(pair.set(1, FieldValue::Text("before")));
        assert!(pair.set(2, FieldValue::Bytes(&[7; 9])));
        let whole = pair.turn()[0].len();
        assert_eq!(pair.turn(), Vec::<Vec<u8>>::new(), "nothing has changed");
        // Of the same length: only the bytes differ.
        assert!(pair.set(1, FieldValue::Text("behind")));
        let frames = pair.turn();
        assert!(frames[0].len() < whole - 9, "{encoding:?}");
        assert_eq!(pair.shown()[1], "behind");
        assert_eq!(pair.shown()[2], "07".repeat(9));
        let counters = pair.subscriber.groups()[0].readers()[0].counters();
        assert_eq!((counters.key_frames, counters.delta_frames), (1, 1));
    }
}

#[test]
fn what_is_too_long_or_of_another_type_is_not_taken() {
    let mut pair = Pair::new(&group(FieldEncoding::Variant, 1, fields()));
    assert!(pair.set(1, FieldValue::Text("kept")));
    assert!(!pair.set(1, FieldValue::Text("123456789012345678901")));
    assert!(!pair.set(1, FieldValue::Bytes(b"bytes")));
    assert!(!pair.set(2, FieldValue::Bytes(&[0; 10])));
    assert!(!pair.set(
        3,
        FieldValue::Array(ScalarArray::of_octets(BuiltIn::Int16, &[0; 12]).unwrap())
    ));
    assert!(!pair.set(
        3,
        FieldValue::Array(ScalarArray::of_octets(BuiltIn::UInt16, &[0; 2]).unwrap())
    ));
    assert!(!pair.set(3, FieldValue::Scalar(Scalar::of_number(BuiltIn::UInt32, 1))));
    assert!(!pair.set(0, FieldValue::Text("1")));
    assert!(ScalarArray::of_octets(BuiltIn::Int16, &[0; 3]).is_none());
    // The length of a text is no scalar that a program could set.
    assert!(!pair.publisher.groups_mut()[0].set(0, 1, Scalar::of_number(BuiltIn::UInt32, 9)));
    pair.turn();
    assert_eq!(pair.shown()[1], "kept");

    // A reader that reserved less takes nothing of the message, and says so.
    let wide = group(FieldEncoding::Variant, 1, fields());
    let mut narrow = wide.clone();
    narrow.data_sets[0].fields[1].extent = Extent::Bytes(3);
    let mut other = Pair::new(&narrow);
    pair.step().iter().for_each(|frame| other.deliver(frame));
    assert!(other.got().is_none());
    assert_eq!(
        other.subscriber.groups()[0].readers()[0]
            .counters()
            .mismatches,
        1
    );
}

#[test]
fn a_raw_text_beyond_its_room_or_not_utf8_is_malformed() {
    let fields = vec![
        field("text", BuiltIn::String, Extent::Bytes(30)),
        field("list", BuiltIn::UInt16, Extent::Elements(3)),
    ];
    let mut pair = Pair::new(&group(FieldEncoding::RawData, 1, fields));
    assert!(pair.set(0, FieldValue::Text("abc")));
    pair.turn();
    let taken = |pair: &Pair| pair.subscriber.groups()[0].readers()[0].counters().taken;
    assert_eq!(taken(&pair), 1);
    let frame = pair.step().remove(0);
    let text = frame.len() - 34 - 10;
    for (at, byte) in [
        (text, 31),
        (text + 3, 1),
        (text + 5, 0xff),
        (text + 20, 1),
        (text + 34, 4),
    ] {
        let mut wrong = frame.clone();
        wrong[at] = byte;
        pair.deliver(&wrong);
        assert_eq!(taken(&pair), 1, "byte {at}");
        assert_eq!(pair.shown()[0], "abc");
    }
    assert_eq!(pair.subscriber.groups()[0].counters().malformed, 5);
    for length in 0..frame.len() {
        pair.deliver(&frame[..length]);
    }
    assert_eq!(taken(&pair), 1, "a truncated message is no value");
    pair.deliver(&frame);
    assert_eq!(taken(&pair), 2);
}

#[test]
fn a_long_text_travels_in_chunks_and_its_longest_message_is_known() {
    let long = vec![field("log", BuiltIn::String, Extent::Bytes(5000))];
    let group = group(FieldEncoding::Variant, 1, long);
    let mut pair = Pair::new(&group);
    assert!(pair.publisher.groups()[0].has_chunks());
    let text = "0123456789".repeat(500);
    assert!(pair.set(0, FieldValue::Text(&text)));
    assert_eq!(pair.turn().len(), 4);
    assert_eq!(pair.shown()[0], text);
    assert!(pair.set(0, FieldValue::Text("short")));
    assert_eq!(pair.turn().len(), 1, "a short text needs no chunks");
    assert_eq!(pair.shown()[0], "short");

    let mut small = group.clone();
    small.data_sets[0].fields[0].extent = Extent::Bytes(100);
    let mut pair = Pair::new(&small);
    assert!(pair.set(0, FieldValue::Text(&text[..100])));
    assert_eq!(longest_message_bytes(&small).unwrap(), pair.turn()[0].len());
}

#[test]
fn a_description_that_cannot_be_is_refused() {
    let fault = |kind, extent| {
        let group = group(FieldEncoding::Variant, 1, vec![field("f", kind, extent)]);
        group.check().unwrap_err()
    };
    let name = || "f".to_owned();
    assert_eq!(
        fault(BuiltIn::String, Extent::Scalar),
        ConfigFault::OtherExtent { field: name() }
    );
    assert_eq!(
        fault(BuiltIn::Int32, Extent::Bytes(4)),
        ConfigFault::OtherExtent { field: name() }
    );
    assert_eq!(
        fault(BuiltIn::String, Extent::Elements(4)),
        ConfigFault::OtherExtent { field: name() }
    );
    assert_eq!(
        fault(BuiltIn::String, Extent::Bytes(0)),
        ConfigFault::ExtentSize { field: name() }
    );
    assert_eq!(
        fault(BuiltIn::Double, Extent::Elements(u32::MAX)),
        ConfigFault::ExtentSize { field: name() }
    );
    assert_eq!(
        fault(BuiltIn::Guid, Extent::Scalar),
        ConfigFault::NoFieldType {
            field: name(),
            kind: BuiltIn::Guid
        }
    );
    let long = vec![field("f", BuiltIn::String, Extent::Bytes(1500))];
    let fixed = group(FieldEncoding::RawData, 1, long);
    assert!(matches!(
        WriterGroup::new(fixed, &[], None, 0),
        Err(ConfigFault::TooLong { .. })
    ));
}

#[test]
fn a_state_image_has_whole_words_and_takes_no_broken_text() {
    let fields = fields();
    let mut values = Values::new(&fields);
    // Five words, and 3 for 20 bytes, 2 for 9, 2 for 10.
    assert_eq!(values.image_words(), 12);
    assert!(values.set(1, FieldValue::Text("12345678a")));
    assert!(values.set(2, FieldValue::Bytes(&[5])));
    let mut image: Vec<u64> = values.image().collect();
    let text = u64::from_le_bytes(*b"12345678");
    assert_eq!(image, [0, 9, text, u64::from(b'a'), 0, 1, 5, 0, 0, 0, 0, 0]);
    let mut other = Values::new(&fields);
    assert!(other.take_image(&image));
    assert_eq!(other.get(1), Some(FieldValue::Text("12345678a")));
    assert_eq!(other.get(2), Some(FieldValue::Bytes(&[5])));
    // A program that wrote more than there is room for, or no text.
    image[5] = u64::MAX;
    assert!(!other.take_image(&image));
    assert_eq!(
        other.get(2),
        Some(FieldValue::Bytes(&[5, 0, 0, 0, 0, 0, 0, 0, 0]))
    );
    image[2] = 0xff;
    assert!(!other.take_image(&image));
    assert_eq!(other.get(1), Some(FieldValue::Text("")));
}

proptest! {
    #[test]
    fn what_is_set_is_what_arrives(
        text in "\\PC{0,5}",
        bytes in proptest::collection::vec(any::<u8>(), 0..10),
        numbers in proptest::collection::vec(any::<i16>(), 0..6),
        number: i32,
        encoding in 0..3_usize,
    ) {
        let mut pair = Pair::new(&group(ENCODINGS[encoding], 1, fields()));
        let octets = list(&numbers);
        let array = ScalarArray::of_octets(BuiltIn::Int16, &octets).unwrap();
        // A message of zeros is ambiguous where it may be padding.
        let number = number | 1;
        prop_assert!(pair.set(0, FieldValue::Scalar(Scalar::of_number(BuiltIn::Int32, i64::from(number)))));
        prop_assert!(pair.set(1, FieldValue::Text(&text)));
        prop_assert!(pair.set(2, FieldValue::Bytes(&bytes)));
        prop_assert!(pair.set(3, FieldValue::Array(array)));
        pair.turn();
        let got = pair.got().unwrap();
        prop_assert_eq!(got.words()[0].number(), i64::from(number));
        prop_assert_eq!(got.get(1), Some(FieldValue::Text(&text)));
        prop_assert_eq!(got.get(2), Some(FieldValue::Bytes(&bytes)));
        prop_assert_eq!(got.get(3), Some(FieldValue::Array(array)));
        let mut other = Values::new(&fields());
        prop_assert!(other.take_image(&got.image().collect::<Vec<_>>()));
        prop_assert_eq!(other.get(1), got.get(1));
        prop_assert_eq!(other.get(3), got.get(3));
    }
}

//! The cost of writing and reading a message with ten fields: five `Int32` and five `Double`.
//!
//! The messages are those of the captures `wire-r10` (RawData, 78 bytes) and `wire-v10` (Variant). Every message has
//! other values than the one before, and every value that is read is used. The table has the fastest of many rounds:
//! the cost itself. What the machine adds is in the noise record.
//!
//! open62541's codec takes its turn with ours in the same run, upon the same bytes. What it writes must be what it has read. Its decoding
//! allocates the message, and ends with freeing it. Its encoding needs the size first, which is a row's comparison of its own. Both encode
//! Variants that are there: of ours one field has changed since the last message, of theirs none. A row of its own has the cost with making all of them.

use crate::peers::peer;
use rtwire_measure::bench::{Compared, Row};
use rtwire_wire::uadp::{
    Body, BuiltIn, Content, DataSetMessage, DataSets, DataValue, DateTime, Field, FieldEncoding,
    Fields, FixedDataSet, FixedField, FixedLayout, GroupHeader, Header, NetworkMessage, Padding,
    PublisherId, RawField, RawValue, Value, Variant, WriterIds, parse_raw,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Messages in a round.
const MESSAGES: u32 = 20_000;

/// Turns of ours and theirs.
const TURNS: u32 = 10;

const OTHER: &str = "open62541 1.5.10";

/// Figures of ours, those of theirs beside them, and the most that ours may take of theirs. The shares are those of the aims (10, 15, 60,
/// 100 ns) in what open62541 took on the machine where they were set (55, 416, 84, 360 ns).
const FIGURES: [(&str, &str, f64); 4] = [
    ("encode, fixed layout, RawData", "raw encode", 10.0 / 55.0),
    ("decode, fixed layout, RawData", "raw decode", 15.0 / 416.0),
    ("encode, dynamic, Variant", "variant encode", 60.0 / 84.0),
    ("decode, dynamic, Variant", "variant decode", 100.0 / 360.0),
];

const FIELDS: [RawField<'static>; 10] = {
    let (int, double) = (
        RawField::scalar(BuiltIn::Int32),
        RawField::scalar(BuiltIn::Double),
    );
    [
        int, double, int, double, int, double, int, double, int, double,
    ]
};

fn header(sequence: u16) -> Header<'static> {
    Header {
        publisher_id: Some(PublisherId::UInt16(2234)),
        group: Some(GroupHeader {
            writer_group_id: Some(100),
            sequence: Some(sequence),
            ..GroupHeader::default()
        }),
        ..Header::default()
    }
}

fn periodic(sequence: u16) -> Header<'static> {
    let mut header = header(sequence);
    header.group = header.group.map(|group| GroupHeader {
        group_version: Some(0),
        message_number: Some(1),
        ..group
    });
    header
}

struct Fixed {
    layout: FixedLayout,
    ints: [FixedField<i32>; 5],
    doubles: [FixedField<f64>; 5],
}

impl Fixed {
    fn new() -> Self {
        let data_set = FixedDataSet {
            header: DataSetMessage {
                sequence: Some(0),
                ..DataSetMessage::default()
            },
            encoding: FieldEncoding::RawData,
            fields: &FIELDS,
            configured_octets: 0,
        };
        let layout = FixedLayout::new(&periodic(0), &[data_set]).unwrap();
        let places = [0, 2, 4, 6, 8];
        Self {
            ints: places.map(|index| layout.field(0, index).unwrap()),
            doubles: places.map(|index| layout.field(0, index + 1).unwrap()),
            layout,
        }
    }

    fn write(&self, message: &mut [u8], number: u16, ints: [i32; 5], doubles: [f64; 5]) {
        self.layout.set_sequence(message, number);
        self.layout.set_data_set_sequence(message, 0, number);
        for (field, value) in self.ints.iter().zip(ints) {
            field.set(message, value);
        }
        for (field, value) in self.doubles.iter().zip(doubles) {
            field.set(message, value);
        }
    }

    fn read(&self, message: &[u8]) -> f64 {
        let found = self.layout.check(message, Padding::Refused).unwrap();
        let mut sum = 0.0;
        for field in self.ints {
            sum += f64::from(found.get(field).unwrap());
        }
        for field in self.doubles {
            sum += found.get(field).unwrap();
        }
        sum
    }
}

fn values(number: u16) -> [Variant<'static>; 10] {
    let (ints, doubles) = natives(number);
    std::array::from_fn(|at| {
        if at % 2 == 0 {
            ints[at / 2].into()
        } else {
            doubles[at / 2].into()
        }
    })
}

fn natives(number: u16) -> ([i32; 5], [f64; 5]) {
    let first = i32::from(number);
    (
        [first, first + 1, first + 2, first + 3, first + 4],
        [1.5, 2.5, 3.5, 4.5, f64::from(first)],
    )
}

fn emit(number: u16, content: Content<'_>, out: &mut [u8]) -> usize {
    let ids = [62541];
    let messages = [DataSetMessage {
        sequence: Some(number),
        content,
        ..DataSetMessage::default()
    }];
    let header = Header {
        writers: Some(WriterIds::of(&ids)),
        ..header(number)
    };
    let message = NetworkMessage::new(header, Body::DataSets(DataSets::of(&messages)));
    message.emit(out).unwrap()
}

fn number_of(value: &Value<'_>) -> f64 {
    match value {
        Value::Int32(number) => f64::from(*number),
        Value::Double(number) => *number,
        _ => f64::NAN,
    }
}

/// Reads a message and adds up its fields.
fn read(bytes: &[u8]) -> f64 {
    let message = NetworkMessage::parse(bytes, 0).unwrap();
    let Body::DataSets(messages) = message.body else {
        return f64::NAN;
    };
    let mut sum = 0.0;
    for message in messages.iter() {
        match message.content {
            Content::KeyFrame(fields) => {
                for field in fields.iter() {
                    let value = match field {
                        Field::Variant(value) => Some(value),
                        Field::DataValue(value) => value.value,
                    };
                    if let Some(Variant::Scalar(value)) = value {
                        sum += number_of(&value);
                    }
                }
            }
            Content::RawData(data) => parse_raw(&FIELDS, data, 0, false, |_, value| {
                if let RawValue::Scalar(value) = value {
                    sum += number_of(&value);
                }
            })
            .unwrap(),
            _ => return f64::NAN,
        }
    }
    sum
}

/// The fastest round of each kind of work, in ns for a message.
type Found = BTreeMap<String, f64>;

fn note(found: &mut Found, what: &str, ns: f64) {
    let fastest = found.entry(what.to_owned()).or_insert(f64::INFINITY);
    *fastest = fastest.min(ns);
}

fn cost(found: &mut Found, what: &str, rounds: u32, mut work: impl FnMut(u16)) {
    for _ in 0..rounds {
        let begun = Instant::now();
        for number in 0..MESSAGES {
            work(number as u16);
        }
        let ns = begun.elapsed().as_nanos() as f64 / f64::from(MESSAGES);
        note(found, what, ns);
    }
}

/// Measures ours, and returns the messages of both encodings for the other codec.
fn own(found: &mut Found, rounds: u32) -> [(&'static str, Vec<u8>); 2] {
    let mut out = [0; 512];
    let fixed = Fixed::new();
    let octets = fixed.layout.start(&mut out).unwrap();
    assert_eq!(octets, 78, "as recorded");
    cost(found, "encode, fixed layout, RawData", rounds, |number| {
        let (ints, doubles) = black_box(natives(number));
        fixed.write(black_box(&mut out[..octets]), number, ints, doubles);
    });
    let image = [7; 60];
    let data = fixed.layout.data(0).unwrap();
    let what = "encode, fixed layout, RawData, from a process image";
    cost(found, what, rounds, |number| {
        let message = black_box(&mut out[..octets]);
        fixed.layout.set_sequence(message, number);
        fixed.layout.set_data_set_sequence(message, 0, number);
        message[data.clone()].copy_from_slice(black_box(&image));
    });
    let (ints, doubles) = natives(9);
    fixed.write(&mut out[..octets], 9, ints, doubles);
    let raw_message = out[..octets].to_vec();
    let expected: f64 =
        ints.iter().map(|int| f64::from(*int)).sum::<f64>() + doubles.iter().sum::<f64>();
    assert_eq!(fixed.read(&raw_message), expected);
    cost(found, "decode, fixed layout, RawData", rounds, |_| {
        black_box(fixed.read(black_box(&raw_message)));
    });

    let mut fields = values(0);
    cost(found, "encode, dynamic, Variant", rounds, |number| {
        fields[0] = i32::from(number).into();
        let content = Content::KeyFrame(Fields::variants(black_box(&fields)));
        black_box(emit(number, content, black_box(&mut out)));
    });
    let what = "encode, dynamic, Variant, with making the values";
    cost(found, what, rounds, |number| {
        let fields = black_box(values(number));
        let content = Content::KeyFrame(Fields::variants(&fields));
        black_box(emit(number, content, black_box(&mut out)));
    });
    let octets = emit(9, Content::KeyFrame(Fields::variants(&values(9))), &mut out);
    assert_eq!(octets, 87, "as recorded");
    let variants = out[..octets].to_vec();
    assert_eq!(read(&variants), expected);
    cost(found, "decode, dynamic, Variant", rounds, |_| {
        black_box(read(black_box(&variants)));
    });

    let data_values = |number| {
        values(number).map(|value| DataValue {
            value: Some(value),
            source_time: Some(DateTime(i64::from(number))),
            ..DataValue::default()
        })
    };
    cost(found, "encode, dynamic, DataValue", rounds, |number| {
        let fields = black_box(data_values(number));
        let content = Content::KeyFrame(Fields::data_values(&fields));
        black_box(emit(number, content, black_box(&mut out)));
    });
    let fields = data_values(9);
    let octets = emit(9, Content::KeyFrame(Fields::data_values(&fields)), &mut out);
    assert_eq!(read(&out[..octets]), expected);
    cost(found, "decode, dynamic, DataValue", rounds, |_| {
        black_box(read(black_box(&out[..octets])));
    });

    let raw = &raw_message[data];
    let octets = emit(9, Content::RawData(raw), &mut out);
    assert_eq!(read(&out[..octets]), expected);
    cost(
        found,
        "decode, dynamic, RawData by its metadata",
        rounds,
        |_| {
            black_box(read(black_box(&out[..octets])));
        },
    );
    [("raw", raw_message), ("variant", variants)]
}

/// Measures open62541 upon a message. It prints what it did, and the ns that it took.
fn theirs(found: &mut Found, peer: &Path, (name, message): &(&str, Vec<u8>), rounds: u32) {
    let digits = message.iter().fold(String::new(), |mut digits, octet| {
        write!(digits, "{octet:02x}").unwrap();
        digits
    });
    let mut command = Command::new(peer);
    let output = command.args(["codec", name, &digits, &rounds.to_string()]);
    let output = output.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{OTHER}: {said}");
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let (what, ns) = line.rsplit_once(' ').unwrap();
        note(found, what, ns.parse().unwrap());
    }
}

fn row(figure: &str, value: f64, found: &Found, samples: u64) -> Row {
    let aim = FIGURES.iter().find(|(ours, ..)| *ours == figure);
    let mut row = Row {
        figure: format!("{figure}, 10 fields"),
        value,
        unit: "ns".to_owned(),
        reach: None,
        held: None,
        why: Some("no reach is stated for this encoding".to_owned()),
        samples,
        against: Vec::new(),
    };
    let Some((_, theirs, share)) = aim else {
        return row;
    };
    let other = found[*theirs];
    let held = value <= share * other;
    row.reach = Some(format!("at most {share:.3} of {OTHER}"));
    row.held = Some(held);
    row.why = (!held).then(|| "not reached in this run".to_owned());
    row.against.push(Compared {
        name: OTHER.to_owned(),
        value: other,
    });
    if let Some(kind) = theirs.strip_suffix(" encode") {
        row.against.push(Compared {
            name: format!("{OTHER}, its size, which it needs first"),
            value: found[&format!("{kind} size")],
        });
    }
    row
}

/// Measures all encodings.
pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let rounds = if quick { 2 } else { 20 };
    let peer = peer();
    let (mut ours, mut other) = (Found::new(), Found::new());
    for _ in 0..TURNS {
        for message in own(&mut ours, rounds) {
            theirs(&mut other, &peer, &message, rounds);
        }
    }
    let samples = u64::from(TURNS * rounds) * u64::from(MESSAGES);
    let rows = ours.iter();
    rows.map(|(figure, ns)| row(figure, *ns, &other, samples))
        .collect()
}

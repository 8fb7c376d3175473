//! The cost of writing and reading a message with ten fields: five `Int32` and five `Double`.
//!
//! The messages are those of the captures `wire-r10` (RawData, 78 bytes) and `wire-v10` (Variant). Every message has
//! other values than the one before, and every value that is read is used. The table has the fastest of many rounds:
//! the cost itself. What the machine adds is in the noise record.

use rtwire_measure::bench::Row;
use rtwire_wire::uadp::{
    Body, BuiltIn, Content, DataSetMessage, DataSets, DataValue, DateTime, Field, FieldEncoding,
    Fields, FixedDataSet, FixedField, FixedLayout, GroupHeader, Header, NetworkMessage, Padding,
    PublisherId, RawField, RawValue, Value, Variant, WriterIds, parse_raw,
};
use std::hint::black_box;
use std::time::Instant;

/// Messages in a round.
const MESSAGES: u32 = 20_000;

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

/// Returns the fastest round, in ns for a message, and the number of messages.
fn cost(rounds: u32, mut work: impl FnMut(u16)) -> (f64, u64) {
    let mut fastest = f64::INFINITY;
    for _ in 0..rounds {
        let begun = Instant::now();
        for number in 0..MESSAGES {
            work(number as u16);
        }
        fastest = fastest.min(begun.elapsed().as_nanos() as f64 / f64::from(MESSAGES));
    }
    (fastest, u64::from(rounds) * u64::from(MESSAGES))
}

fn row(figure: &str, (value, samples): (f64, u64), most_ns: Option<f64>) -> Row {
    let held = most_ns.map(|most| value <= most);
    Row {
        figure: format!("{figure}, 10 fields"),
        value,
        unit: "ns".to_owned(),
        reach: most_ns.map(|most| format!("at most {most} ns")),
        held,
        why: match held {
            Some(false) => Some("not reached in this run".to_owned()),
            None => Some("no reach is stated for this encoding".to_owned()),
            Some(true) => None,
        },
        samples,
        against: Vec::new(),
    }
}

/// Measures all encodings.
pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let rounds = if quick { 20 } else { 200 };
    let mut out = [0; 512];
    let mut rows = Vec::new();

    let fixed = Fixed::new();
    let octets = fixed.layout.start(&mut out).unwrap();
    assert_eq!(octets, 78, "as recorded");
    let measured = cost(rounds, |number| {
        let (ints, doubles) = black_box(natives(number));
        fixed.write(black_box(&mut out[..octets]), number, ints, doubles);
    });
    rows.push(row("encode, fixed layout, RawData", measured, Some(10.0)));
    let image = [7; 60];
    let data = fixed.layout.data(0).unwrap();
    let measured = cost(rounds, |number| {
        let message = black_box(&mut out[..octets]);
        fixed.layout.set_sequence(message, number);
        fixed.layout.set_data_set_sequence(message, 0, number);
        message[data.clone()].copy_from_slice(black_box(&image));
    });
    rows.push(row(
        "encode, fixed layout, RawData, from a process image",
        measured,
        None,
    ));
    let (ints, doubles) = natives(9);
    fixed.write(&mut out[..octets], 9, ints, doubles);
    let expected: f64 =
        ints.iter().map(|int| f64::from(*int)).sum::<f64>() + doubles.iter().sum::<f64>();
    assert_eq!(fixed.read(&out[..octets]), expected);
    let measured = cost(rounds, |_| {
        black_box(fixed.read(black_box(&out[..octets])));
    });
    rows.push(row("decode, fixed layout, RawData", measured, Some(15.0)));

    let measured = cost(rounds, |number| {
        let fields = black_box(values(number));
        let content = Content::KeyFrame(Fields::variants(&fields));
        black_box(emit(number, content, black_box(&mut out)));
    });
    rows.push(row("encode, dynamic, Variant", measured, Some(60.0)));
    let octets = emit(9, Content::KeyFrame(Fields::variants(&values(9))), &mut out);
    assert_eq!(octets, 87, "as recorded");
    assert_eq!(read(&out[..octets]), expected);
    let measured = cost(rounds, |_| {
        black_box(read(black_box(&out[..octets])));
    });
    rows.push(row("decode, dynamic, Variant", measured, Some(100.0)));

    let data_values = |number| {
        values(number).map(|value| DataValue {
            value: Some(value),
            source_time: Some(DateTime(i64::from(number))),
            ..DataValue::default()
        })
    };
    let measured = cost(rounds, |number| {
        let fields = black_box(data_values(number));
        let content = Content::KeyFrame(Fields::data_values(&fields));
        black_box(emit(number, content, black_box(&mut out)));
    });
    rows.push(row("encode, dynamic, DataValue", measured, None));
    let octets = emit(
        9,
        Content::KeyFrame(Fields::data_values(&data_values(9))),
        &mut out,
    );
    assert_eq!(read(&out[..octets]), expected);
    let measured = cost(rounds, |_| {
        black_box(read(black_box(&out[..octets])));
    });
    rows.push(row("decode, dynamic, DataValue", measured, None));

    let mut raw = [0; 60];
    fixed.write(&mut out[..78], 9, ints, doubles);
    raw.copy_from_slice(&out[data]);
    let octets = emit(9, Content::RawData(&raw), &mut out);
    assert_eq!(read(&out[..octets]), expected);
    let measured = cost(rounds, |_| {
        black_box(read(black_box(&out[..octets])));
    });
    rows.push(row(
        "decode, dynamic, RawData by its metadata",
        measured,
        None,
    ));
    rows
}

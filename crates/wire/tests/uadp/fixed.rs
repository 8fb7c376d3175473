//! Fixed layouts: the same octets as the recorded ones and as the strict value; only data become values.

use super::capture::{from_hex, messages};
use rtwire_wire::uadp::*;

const TWO: [RawField<'static>; 2] = [RawField::scalar(BuiltIn::Int32); 2];

fn periodic(sequence: u16) -> Header<'static> {
    Header {
        publisher_id: Some(PublisherId::UInt16(2234)),
        group: Some(GroupHeader {
            writer_group_id: Some(100),
            group_version: Some(0x2b2b_2b2b),
            message_number: Some(1),
            sequence: Some(sequence),
        }),
        ..Header::default()
    }
}

fn data_set(fields: &'static [RawField<'static>]) -> FixedDataSet<'static> {
    FixedDataSet {
        header: DataSetMessage {
            sequence: Some(0),
            status: Some(0),
            ..DataSetMessage::default()
        },
        encoding: FieldEncoding::RawData,
        fields,
        configured_octets: 0,
    }
}

fn layout() -> FixedLayout {
    FixedLayout::new(&periodic(0), &[data_set(&TWO)]).unwrap()
}

#[test]
fn the_recorded_profile_is_written_and_read_in_place() {
    let layout = layout();
    let fields = [0, 1].map(|index| layout.field::<i32>(0, index).unwrap());
    let mut out = [0xaa; 64];
    let octets = layout.start(&mut out).unwrap();
    for (number, recorded) in messages("profile-fixed.pcap").iter().enumerate() {
        let message = layout.check(recorded, Padding::Refused).unwrap();
        let number = number as u16;
        assert_eq!(message.sequence(), Some(number));
        assert_eq!(message.data_set_sequence(0), Some(number));
        assert_eq!(message.data_set_status(0), Some(0));
        for (index, field) in fields.iter().enumerate() {
            let value = message.get(*field).unwrap();
            assert_eq!(value, 0x0102_0300 + index as i32);
            field.set(&mut out, value).unwrap();
        }
        layout.set_sequence(&mut out, number);
        layout.set_data_set_sequence(&mut out, 0, number);
        assert_eq!(out[..octets], recorded[..]);
    }
    assert!(layout.field::<u32>(0, 0).is_none(), "another type");
    assert!(layout.field::<i32>(0, 2).is_none(), "no such field");
    assert!(layout.field::<i32>(1, 0).is_none(), "no such data set");
}

#[test]
fn a_layout_begins_with_what_the_strict_value_writes() {
    let ids = [7, 8];
    let header = Header {
        publisher_id: Some(PublisherId::String("line 3")),
        data_set_class_id: Some(Guid([9; 16])),
        writers: Some(WriterIds::of(&ids)),
        timestamp: Some(DateTime(5)),
        picoseconds: Some(6),
        security: Some(SecurityHeader {
            signed: true,
            token_id: 3,
            nonce: &[1, 2, 3, 4, 5, 6, 7, 8],
            ..SecurityHeader::default()
        }),
        ..periodic(4)
    };
    let inner = DataSetMessage {
        sequence: Some(1),
        timestamp: Some(DateTime(2)),
        picoseconds: Some(3),
        status: Some(4),
        major_version: Some(5),
        minor_version: Some(6),
        ..DataSetMessage::default()
    };
    let variants = [
        RawField::scalar(BuiltIn::Double),
        RawField::scalar(BuiltIn::Boolean),
    ];
    let raw = [RawField::array(BuiltIn::UInt16, &[3]), RawField::string(5)];
    let layout = FixedLayout::new(
        &header,
        &[
            FixedDataSet {
                header: inner,
                encoding: FieldEncoding::Variant,
                fields: &variants,
                configured_octets: 0,
            },
            FixedDataSet {
                header: inner,
                encoding: FieldEncoding::RawData,
                fields: &raw,
                configured_octets: 0,
            },
        ],
    )
    .unwrap();
    let values = [Variant::from(0.0_f64), Variant::from(false)];
    let zeros = [0; 4 + 6 + 4 + 5];
    let strict = [
        DataSetMessage {
            content: Content::KeyFrame(Fields::variants(&values)),
            ..inner
        },
        DataSetMessage {
            content: Content::RawData(&zeros),
            ..inner
        },
    ];
    let mut expected = [0; 256];
    let octets = NetworkMessage::new(header, Body::DataSets(DataSets::of(&strict)))
        .emit(&mut expected)
        .unwrap();
    assert_eq!(layout.template(), &expected[..octets]);

    // What can change from message to message is no other layout, and is found where it was set.
    let mut message = layout.template().to_vec();
    layout.set_sequence(&mut message, 99);
    let moment = Moment {
        time: DateTime(77),
        picoseconds: 8,
    };
    layout.set_time(&mut message, moment);
    layout.set_security(&mut message, 12, &[0x5a; 8]);
    layout.set_data_set_time(&mut message, 1, moment);
    layout.set_data_set_sequence(&mut message, 1, 55);
    layout.set_data_set_status(&mut message, 1, 0x8000);
    let flag = layout.field::<bool>(0, 1).unwrap();
    flag.set(&mut message, true).unwrap();
    let found = layout.check(&message, Padding::Refused).unwrap();
    assert_eq!(found.time(), Some(moment.time));
    assert_eq!(found.data_set_time(1), Some(moment.time));
    assert_eq!(found.get(flag), Some(true));
    let (header, at) = Header::parse(&message).unwrap();
    assert_eq!(header.group.unwrap().sequence, Some(99));
    assert_eq!(
        (header.timestamp, header.picoseconds),
        (Some(DateTime(77)), Some(8))
    );
    assert_eq!(header.security.unwrap().token_id, 12);
    assert_eq!(header.security.unwrap().nonce, [0x5a; 8]);
    let Body::DataSets(inside) = Body::parse(&header, &message[at..], at).unwrap() else {
        panic!("no data sets");
    };
    let second = inside.iter().nth(1).unwrap();
    assert_eq!(second.sequence, Some(55));
    assert_eq!(second.status, Some(0x8000));
    assert_eq!(
        (second.timestamp, second.picoseconds),
        (Some(DateTime(77)), Some(8))
    );
}

#[test]
fn truncated_and_padded_messages_never_become_zeros() {
    let layout = layout();
    let recorded = &messages("profile-fixed.pcap")[0];
    let header = 20;
    for octets in 0..recorded.len() {
        let cut = &recorded[..octets];
        for padding in [
            Padding::Refused,
            Padding::Ethernet,
            Padding::EthernetWithZeros,
        ] {
            let error = layout.check(cut, padding).unwrap_err();
            let expected = if octets == header {
                FixedError::Heartbeat
            } else {
                FixedError::Truncated {
                    expected: 28,
                    found: octets,
                }
            };
            assert_eq!(error, expected);
        }
    }
    // A padded heartbeat.
    let mut heartbeat = recorded[..header].to_vec();
    heartbeat.resize(PADDED_OCTETS, 0);
    let error = layout.check(&heartbeat, Padding::Ethernet).unwrap_err();
    assert_eq!(error, FixedError::Ambiguous { at: header });
    assert!(layout.check(&heartbeat, Padding::EthernetWithZeros).is_ok());
    assert!(layout.check(&heartbeat, Padding::Refused).is_err());
    // A padded message: the values are those before the padding.
    let mut padded = recorded.clone();
    padded.resize(PADDED_OCTETS, 0);
    let field = layout.field::<i32>(0, 1).unwrap();
    let found = layout.check(&padded, Padding::Ethernet).unwrap();
    assert_eq!(found.get(field), Some(0x0102_0301));
    assert_eq!(found.bytes(), &recorded[..]);
    assert!(layout.check(&padded, Padding::Refused).is_err());
    // Longer than any padding, or not of zeros.
    padded.push(0);
    assert!(layout.check(&padded, Padding::Ethernet).is_err());
    padded.truncate(40);
    padded[35] = 1;
    assert!(layout.check(&padded, Padding::Ethernet).is_err());
    // Zeros that are no padding are data.
    let zeros = layout.template();
    let found = layout.check(zeros, Padding::Ethernet).unwrap();
    assert_eq!(found.get(field), Some(0));
}

#[test]
fn each_octet_of_the_headers_is_compared() {
    let layout = layout();
    let recorded = from_hex("b101ba080f64002b2b2b2b010000001b000000000003020101030201");
    let changing = [13, 14, 16, 17, 18, 19];
    for at in 0..recorded.len() {
        for bit in 0..8 {
            let mut other = recorded.clone();
            other[at] ^= 1 << bit;
            let result = layout.check(&other, Padding::Refused).map(|_| ());
            if at >= 20 || changing.contains(&at) {
                assert_eq!(result, Ok(()), "offset {at}");
            } else {
                let expected = FixedError::Mismatch {
                    at,
                    expected: recorded[at],
                    found: other[at],
                };
                assert_eq!(result, Err(expected));
            }
        }
    }
}

#[test]
fn raw_fields_of_metadata() {
    let bytes = &messages("wire-arr.pcap")[0];
    let message = NetworkMessage::parse(bytes, 0).unwrap();
    let Body::DataSets(inside) = message.body else {
        panic!("no data sets");
    };
    let Content::RawData(data) = inside.iter().next().unwrap().content else {
        panic!("not raw");
    };
    let fields = [
        RawField::scalar(BuiltIn::Int32),
        RawField::array(BuiltIn::Int32, &[3]),
    ];
    let mut found = Vec::new();
    parse_raw(&fields, data, 15, false, |_, value| {
        found.push(value.to_variant().unwrap());
    })
    .unwrap();
    let elements = [0xaa00, 0xaa01, 0xaa02];
    assert_eq!(found[0], Variant::from(0x0102_0300));
    assert_eq!(found[1], Variant::Array(Array::of(&elements)));
    // Each shorter message is refused, and longer ones unless padding is expected.
    for octets in 0..data.len() {
        assert!(parse_raw(&fields, &data[..octets], 15, true, |_, _| ()).is_err());
    }
    let mut longer = data.to_vec();
    longer.push(0);
    assert!(parse_raw(&fields, &longer, 15, false, |_, _| ()).is_err());
    assert!(parse_raw(&fields, &longer, 15, true, |_, _| ()).is_ok());
    // A shorter array is padded to its field, a text too.
    let mut out = [0xaa; 64];
    let short = Variant::Array(Array::of(&elements[..2]));
    assert_eq!(fields[1].emit(&short, &mut out), Ok(16));
    assert_eq!(out[..16], from_hex("0200000000aa000001aa000000000000"));
    let text = RawField::string(6);
    assert_eq!(text.emit(&Variant::from("abc"), &mut out), Ok(10));
    assert_eq!(out[..10], from_hex("03000000616263000000"));
    assert!(text.emit(&Variant::from("too long"), &mut out).is_err());
    let (value, octets) = text.parse(&out[..10], 0).unwrap();
    assert_eq!(
        (value.to_variant(), octets),
        (Some(Variant::from("abc")), 10)
    );
    out[9] = 1;
    assert!(text.parse(&out[..10], 0).is_err(), "no padding");
}

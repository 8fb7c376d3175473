//! The fields of UADP messages: RawData by metadata, and fixed layouts, upon any bytes. The first octets choose the
//! metadata, the rest is the message. What a fixed layout accepts, the dynamic reader reads as the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_wire::uadp::{
    Body, BuiltIn, Content, DataSetMessage, FieldEncoding, FixedDataSet, FixedLayout, GroupHeader,
    Header, NetworkMessage, Padding, PublisherId, RawField, RawValue, Variant, parse_raw,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, message)) = bytes.split_at_checked(4) else {
        return;
    };
    let rows = [u32::from(choice[0] & 3)];
    let rows_and_columns = [u32::from(choice[0] >> 2 & 3), 2];
    let mut fields = Vec::new();
    for octet in &choice[1..] {
        let Some(kind) = BuiltIn::from_id(octet & 0x1f) else {
            continue;
        };
        let dimensions: &[u32] = match octet >> 5 {
            0..=3 => &[],
            4 | 5 => &rows,
            _ => &rows_and_columns,
        };
        fields.push(RawField {
            kind,
            dimensions,
            maximum_octets: u32::from(choice[0] >> 4),
        });
    }
    for padded in [false, true] {
        let mut seen = 0;
        let read = parse_raw(&fields, message, 0, padded, |_, value| {
            seen += 1;
            if let RawValue::Array(array) = value {
                assert_eq!(array.iter().count(), array.len());
            }
        });
        assert!(read.is_err() || seen == fields.len());
    }
    layout(&fields, message);
});

fn layout(fields: &[RawField<'_>], message: &[u8]) {
    for encoding in [FieldEncoding::RawData, FieldEncoding::Variant] {
        let header = Header {
            publisher_id: Some(PublisherId::UInt16(2234)),
            group: Some(GroupHeader {
                writer_group_id: Some(100),
                sequence: Some(0),
                ..GroupHeader::default()
            }),
            ..Header::default()
        };
        let data_set = FixedDataSet {
            header: DataSetMessage {
                sequence: Some(0),
                ..DataSetMessage::default()
            },
            encoding,
            fields,
            configured_octets: 0,
        };
        let Ok(layout) = FixedLayout::new(&header, &[data_set]) else {
            continue;
        };
        for padding in [
            Padding::Refused,
            Padding::Ethernet,
            Padding::EthernetWithZeros,
        ] {
            let _ = layout.check(message, padding);
        }
        // The same octets behind the right header.
        let mut right = layout.template().to_vec();
        for (index, place) in layout.places(0).iter().enumerate() {
            let octets = place.of_mut(&mut right).expect("a place of the layout");
            for (to, from) in octets.iter_mut().zip(message.iter().skip(index)) {
                *to = *from;
            }
        }
        let found = layout
            .check(&right, Padding::Refused)
            .expect("the header is right");
        let Ok(parsed) = NetworkMessage::parse(&right, 0) else {
            continue;
        };
        let Body::DataSets(messages) = parsed.body else {
            panic!("no data sets");
        };
        let Some(Content::KeyFrame(read)) = messages.iter().next().map(|first| first.content)
        else {
            continue;
        };
        for (index, field) in read.iter().enumerate() {
            if let (Some(Variant::Scalar(value)), Some(place)) =
                (field.value(), layout.field::<u32>(0, index))
            {
                let ours = found.get(place).expect("a field of the layout");
                assert_eq!(Some(ours), number(&value));
            }
        }
    }
}

fn number(value: &rtwire_wire::uadp::Value<'_>) -> Option<u32> {
    match value {
        rtwire_wire::uadp::Value::UInt32(number) | rtwire_wire::uadp::Value::StatusCode(number) => {
            Some(*number)
        }
        _ => None,
    }
}

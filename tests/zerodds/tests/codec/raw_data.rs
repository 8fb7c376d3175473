//! RawData with metadata: both codecs find the same values in the same octets.

use crate::emitted;
use proptest::collection::vec;
use proptest::prelude::*;
use rtwire_wire::uadp::*;
use rtwire_zerodds::{ours, theirs};
use zerodds_opcua_gateway::types::BuiltinTypeKind;
use zerodds_opcua_pubsub::config::{DataSetMetaData, DataSetReaderConfig, FieldMetaData};
use zerodds_opcua_pubsub::from_binary;
use zerodds_opcua_pubsub::reader::DataSetReader;
use zerodds_opcua_pubsub::uadp::NetworkMessage as TheirMessage;

/// The types that take the same octets in every message, or do so with a longest length.
const KINDS: &[(BuiltIn, BuiltinTypeKind)] = &[
    (BuiltIn::Boolean, BuiltinTypeKind::Boolean),
    (BuiltIn::SByte, BuiltinTypeKind::SByte),
    (BuiltIn::Byte, BuiltinTypeKind::Byte),
    (BuiltIn::Int16, BuiltinTypeKind::Int16),
    (BuiltIn::UInt16, BuiltinTypeKind::UInt16),
    (BuiltIn::Int32, BuiltinTypeKind::Int32),
    (BuiltIn::UInt32, BuiltinTypeKind::UInt32),
    (BuiltIn::Int64, BuiltinTypeKind::Int64),
    (BuiltIn::UInt64, BuiltinTypeKind::UInt64),
    (BuiltIn::Float, BuiltinTypeKind::Float),
    (BuiltIn::Double, BuiltinTypeKind::Double),
    (BuiltIn::DateTime, BuiltinTypeKind::DateTime),
    (BuiltIn::Guid, BuiltinTypeKind::Guid),
    (BuiltIn::StatusCode, BuiltinTypeKind::StatusCode),
    (BuiltIn::String, BuiltinTypeKind::String),
    (BuiltIn::ByteString, BuiltinTypeKind::ByteString),
];

/// A field, and the value that a message has of it.
#[derive(Clone, Debug)]
struct Told {
    field: RawField<'static>,
    value: Variant<'static>,
    theirs: FieldMetaData,
}

/// Fields of every type, and arrays. Texts and arrays are as long as they can be: the other codec knows no padding (see below).
fn told() -> BoxedStrategy<Told> {
    (
        0..KINDS.len(),
        0..4_usize,
        vec(any::<u8>(), 64),
        "[a-zäß€]{0,6}",
    )
        .prop_map(|(kind, length, octets, text)| {
            let (kind, their_kind) = KINDS[kind];
            let (octets, text): (&'static [u8], &'static str) = (octets.leak(), text.leak());
            let mut theirs = FieldMetaData::scalar("field", their_kind);
            let value = match kind {
                BuiltIn::String => Variant::Scalar(Value::String(Some(text))),
                BuiltIn::ByteString => Variant::Scalar(Value::ByteString(Some(&octets[..length]))),
                _ if length == 0 => Variant::Scalar(Value::parse(kind, octets).unwrap().0),
                _ => {
                    theirs.value_rank = 1;
                    let octets = &octets[..length * kind.octets().unwrap()];
                    Variant::Array(Array::of_octets(kind, octets).unwrap())
                }
            };
            let maximum_octets = match value {
                Variant::Scalar(Value::String(_)) => text.len() as u32,
                Variant::Scalar(Value::ByteString(_)) => length as u32,
                _ => 0,
            };
            let dimensions: &[u32] = match value {
                Variant::Array(_) => vec![length as u32].leak(),
                _ => &[],
            };
            let field = RawField {
                kind,
                dimensions,
                maximum_octets,
            };
            Told {
                field,
                value,
                theirs,
            }
        })
        .boxed()
}

/// Returns what our codec reads in the fields that it wrote, and what the other one reads.
fn both(told: &[Told]) -> (Vec<String>, Result<Vec<String>, String>) {
    let mut data = Vec::new();
    for Told { field, value, .. } in told {
        let at = data.len();
        data.resize(at + field.octets().unwrap(), 0xaa);
        field.emit(value, &mut data[at..]).unwrap();
    }
    let messages = [DataSetMessage {
        content: Content::RawData(&data),
        ..DataSetMessage::default()
    }];
    let body = Body::DataSets(DataSets::of(&messages));
    let bytes = emitted(&NetworkMessage::new(Header::default(), body));
    let fields: Vec<_> = told.iter().map(|told| told.field).collect();
    let mut ours = Vec::new();
    parse_raw(&fields, &data, 0, false, |_, value| {
        ours.push(ours::raw(&value));
    })
    .unwrap();
    let meta_data = DataSetMetaData {
        fields: told.iter().map(|told| told.theirs.clone()).collect(),
        ..DataSetMetaData::default()
    };
    let reader = DataSetReader::new(DataSetReaderConfig::new("reader", meta_data));
    let message: TheirMessage = from_binary(&bytes).unwrap();
    let theirs = reader.decode(&message.messages[0]).map(|data_set| {
        let value = |field: &zerodds_opcua_pubsub::reader::ReceivedField| {
            theirs::variant(field.value.value.as_ref().unwrap())
        };
        data_set.fields.iter().map(value).collect()
    });
    (ours, theirs.map_err(|error| error.to_string()))
}

proptest! {
    #[test]
    fn both_read_the_same_fields(told in vec(told(), 1..6)) {
        let (ours, theirs) = both(&told);
        prop_assert_eq!(Ok(ours), theirs);
    }
}

/// Texts and arrays that are shorter than their longest are padded with zeros (Part 14, 7.2.4.5.11). The other codec takes the padding
/// for the next field.
#[test]
fn padding_is_read_otherwise() {
    let text = |maximum_octets| Told {
        field: RawField::string(maximum_octets),
        value: Variant::from("ab"),
        theirs: FieldMetaData::scalar("text", BuiltinTypeKind::String),
    };
    let number = Told {
        field: RawField::scalar(BuiltIn::UInt16),
        value: Variant::from(7_u16),
        theirs: FieldMetaData::scalar("number", BuiltinTypeKind::UInt16),
    };
    let wanted = || vec!["String \"ab\"".to_owned(), "UInt16 7".to_owned()];
    let (ours, theirs) = both(&[text(2), number.clone()]);
    assert_eq!((ours, theirs), (wanted(), Ok(wanted())));
    let (ours, theirs) = both(&[text(5), number]);
    assert_eq!(ours, wanted());
    assert_ne!(theirs, Ok(wanted()));
}

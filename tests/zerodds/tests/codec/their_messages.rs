//! Random messages of the other codec's encoder: ours reads what was written, and writes it in the same octets.

use crate::{emitted, read_by_us};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use rtwire_wire::uadp::NetworkMessage as OurMessage;
use rtwire_zerodds::theirs;
use zerodds_opcua_gateway::data_value::{
    DataValue, ExtensionObject, ExtensionObjectBody, Variant, VariantValue,
};
use zerodds_opcua_gateway::node_id::{NodeId, NodeIdentifier};
use zerodds_opcua_gateway::types::{Guid, LocalizedText, QualifiedName};
use zerodds_opcua_pubsub::to_binary;
use zerodds_opcua_pubsub::uadp::{
    DataSetData, DataSetMessage, DataSetMessageKind, GroupHeader, NetworkMessage, PublisherId,
};

pub(crate) fn text() -> impl Strategy<Value = String> + Clone {
    "[a-zäß€ ]{0,6}"
}

fn octets() -> impl Strategy<Value = Vec<u8>> + Clone {
    vec(any::<u8>(), 0..8)
}

pub(crate) fn guid() -> impl Strategy<Value = Guid> + Clone {
    any::<[u8; 16]>().prop_map(Guid::from_bytes)
}

pub(crate) fn node() -> BoxedStrategy<NodeId> {
    let identifier = prop_oneof![
        // Each of the three forms of a number.
        any::<u8>().prop_map(|id| NodeIdentifier::Numeric(id.into())),
        any::<u16>().prop_map(|id| NodeIdentifier::Numeric(id.into())),
        any::<u32>().prop_map(NodeIdentifier::Numeric),
        text().prop_map(NodeIdentifier::String),
        guid().prop_map(NodeIdentifier::Guid),
        octets().prop_map(NodeIdentifier::Opaque),
    ];
    let namespace = prop_oneof![Just(0), 0..256_u16, any::<u16>()];
    (namespace, identifier)
        .prop_map(|(namespace_index, identifier_type)| NodeId {
            namespace_index,
            identifier_type,
        })
        .boxed()
}

/// Values of one type each, of every type that the other codec has.
fn kinds() -> Vec<BoxedStrategy<VariantValue>> {
    let body = prop_oneof![
        Just(ExtensionObjectBody::None),
        octets().prop_map(ExtensionObjectBody::ByteString),
        text().prop_map(ExtensionObjectBody::XmlElement),
    ];
    vec![
        any::<bool>().prop_map(VariantValue::Boolean).boxed(),
        any::<i8>().prop_map(VariantValue::SByte).boxed(),
        any::<u8>().prop_map(VariantValue::Byte).boxed(),
        any::<i16>().prop_map(VariantValue::Int16).boxed(),
        any::<u16>().prop_map(VariantValue::UInt16).boxed(),
        any::<i32>().prop_map(VariantValue::Int32).boxed(),
        any::<u32>().prop_map(VariantValue::UInt32).boxed(),
        any::<i64>().prop_map(VariantValue::Int64).boxed(),
        any::<u64>().prop_map(VariantValue::UInt64).boxed(),
        any::<u32>()
            .prop_map(|bits| VariantValue::Float(f32::from_bits(bits)))
            .boxed(),
        any::<u64>()
            .prop_map(|bits| VariantValue::Double(f64::from_bits(bits)))
            .boxed(),
        text().prop_map(VariantValue::String).boxed(),
        any::<i64>().prop_map(VariantValue::DateTime).boxed(),
        guid().prop_map(VariantValue::Guid).boxed(),
        octets().prop_map(VariantValue::ByteString).boxed(),
        text().prop_map(VariantValue::XmlElement).boxed(),
        node().prop_map(VariantValue::NodeId).boxed(),
        any::<u32>().prop_map(VariantValue::StatusCode).boxed(),
        (any::<u16>(), text())
            .prop_map(|(namespace_index, name)| {
                VariantValue::QualifiedName(QualifiedName {
                    namespace_index,
                    name,
                })
            })
            .boxed(),
        (of(text()), of(text()))
            .prop_map(|(locale, text)| VariantValue::LocalizedText(LocalizedText { locale, text }))
            .boxed(),
        (node(), body)
            .prop_map(|(type_id, body)| {
                VariantValue::ExtensionObject(ExtensionObject { type_id, body })
            })
            .boxed(),
    ]
}

/// Null, one value, an array or a matrix. No empty array: its length is 0 (Part 6, 5.2.5), and the other codec writes a
/// null Variant instead.
pub(crate) fn variant() -> BoxedStrategy<Variant> {
    let many = |value: BoxedStrategy<VariantValue>| {
        (vec(value, 6), 0..6_usize).prop_map(|(mut value, shape)| {
            let array_dimensions = match shape {
                0..2 => vec![],
                2..4 => vec![shape as u32],
                4 => vec![2, 3],
                _ => vec![1, 3, 2],
            };
            let product: u32 = array_dimensions.iter().product();
            value.truncate(if array_dimensions.is_empty() {
                shape
            } else {
                product as usize
            });
            Variant {
                array_dimensions,
                value,
            }
        })
    };
    proptest::strategy::Union::new(kinds().into_iter().map(many)).boxed()
}

/// DataValues, without both SourcePicoseconds and ServerTimestamp: `Form::SourcePicoseconds`.
fn data_value() -> BoxedStrategy<DataValue> {
    let source = prop_oneof![
        any::<(Option<i64>, Option<i64>)>().prop_map(|(source, server)| (source, None, server)),
        any::<(Option<i64>, Option<u16>)>().prop_map(|(source, part)| (source, part, None)),
    ];
    (of(variant()), any::<(Option<u32>, Option<u16>)>(), source)
        .prop_map(|(value, (status, server_pico_sec), source)| DataValue {
            value,
            status,
            source_timestamp: source.0,
            source_pico_sec: source.1,
            server_timestamp: source.2,
            server_pico_sec,
        })
        .boxed()
}

/// Each kind of message with each encoding that it may have: an event has Variants only (Part 14, 7.2.4.5.7).
fn content() -> BoxedStrategy<(DataSetMessageKind, DataSetData)> {
    use DataSetMessageKind::{DeltaFrame, Event, KeepAlive, KeyFrame};
    let with = |kind| move |data| (kind, data);
    let variants = || vec(variant(), 0..5);
    prop_oneof![
        variants()
            .prop_map(DataSetData::Variant)
            .prop_map(with(KeyFrame)),
        vec(data_value(), 0..4)
            .prop_map(DataSetData::DataValue)
            .prop_map(with(KeyFrame)),
        octets().prop_map(DataSetData::Raw).prop_map(with(KeyFrame)),
        vec((any::<u16>(), variant()), 0..4)
            .prop_map(DataSetData::DeltaVariant)
            .prop_map(with(DeltaFrame)),
        vec((any::<u16>(), data_value()), 0..4)
            .prop_map(DataSetData::DeltaDataValue)
            .prop_map(with(DeltaFrame)),
        variants()
            .prop_map(DataSetData::Variant)
            .prop_map(with(Event)),
        Just((KeepAlive, DataSetData::None)),
    ]
    .boxed()
}

fn data_set() -> BoxedStrategy<DataSetMessage> {
    let front = any::<(u16, bool, Option<u16>, Option<i64>, Option<u16>)>();
    let back = any::<(Option<u16>, Option<u32>, Option<u32>)>();
    (front, back, content())
        .prop_map(|(front, back, (kind, data))| DataSetMessage {
            writer_id: front.0,
            valid: front.1,
            kind,
            sequence_number: front.2,
            timestamp: front.3,
            pico_seconds: front.4,
            status: back.0,
            config_major_version: back.1,
            config_minor_version: back.2,
            data,
        })
        .boxed()
}

pub(crate) fn publisher() -> BoxedStrategy<PublisherId> {
    prop_oneof![
        any::<u8>().prop_map(PublisherId::Byte),
        any::<u16>().prop_map(PublisherId::UInt16),
        any::<u32>().prop_map(PublisherId::UInt32),
        any::<u64>().prop_map(PublisherId::UInt64),
        text().prop_map(PublisherId::String),
    ]
    .boxed()
}

/// Messages of the other codec, with everything that its encoder can write.
pub(crate) fn message() -> BoxedStrategy<NetworkMessage> {
    let group = any::<(Option<u16>, Option<u32>, Option<u16>, Option<u16>)>().prop_map(|parts| {
        GroupHeader {
            writer_group_id: parts.0,
            group_version: parts.1,
            network_message_number: parts.2,
            sequence_number: parts.3,
        }
    });
    let times = any::<(Option<i64>, Option<u16>, bool)>();
    let header = (of(publisher()), of(guid()), of(group), times);
    (header, vec(variant(), 0..3), vec(data_set(), 1..4))
        .prop_map(|(header, promoted_fields, mut messages)| {
            let (publisher_id, data_set_class_id, group_header, times) = header;
            if !times.2 {
                // Without a payload header its encoder takes one message.
                messages.truncate(1);
            }
            NetworkMessage {
                publisher_id,
                data_set_class_id,
                group_header,
                timestamp: times.0,
                pico_seconds: times.1,
                promoted_fields,
                payload_header: times.2,
                messages,
            }
        })
        .boxed()
}

proptest! {
    #[test]
    fn we_read_what_they_write_and_write_the_same(message in message()) {
        let bytes = to_binary(&message).unwrap();
        let ours = read_by_us(&bytes).unwrap();
        prop_assert_eq!(ours.difference(&theirs::reading(&message)), None);
        prop_assert_eq!(emitted(&OurMessage::parse(&bytes, 0).unwrap()), bytes);
    }
}

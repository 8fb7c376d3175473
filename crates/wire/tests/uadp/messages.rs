//! Random messages: values of every type, in every form that the standard knows.

use proptest::prelude::*;
use rtwire_wire::uadp::*;

/// Values of every type. Texts live as long as the test.
fn value() -> BoxedStrategy<Value<'static>> {
    fn text() -> impl Strategy<Value = Option<&'static str>> {
        proptest::option::of("[a-zäß€ ]{0,6}".prop_map(|text| &*text.leak()))
    }
    fn octets() -> impl Strategy<Value = Option<&'static [u8]>> {
        proptest::option::of(
            proptest::collection::vec(any::<u8>(), 0..8).prop_map(|octets| &*octets.leak()),
        )
    }
    fn node() -> impl Strategy<Value = NodeId<'static>> {
        prop_oneof![
            any::<u8>().prop_map(NodeId::TwoByte),
            any::<(u8, u16)>().prop_map(|(namespace, id)| NodeId::FourByte { namespace, id }),
            any::<(u16, u32)>().prop_map(|(namespace, id)| NodeId::Numeric { namespace, id }),
            (any::<u16>(), text()).prop_map(|(namespace, id)| NodeId::String { namespace, id }),
            any::<(u16, [u8; 16])>().prop_map(|(namespace, id)| NodeId::Guid {
                namespace,
                id: Guid(id)
            }),
            (any::<u16>(), octets()).prop_map(|(namespace, id)| NodeId::Opaque { namespace, id }),
        ]
    }
    let numbers = prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        any::<i8>().prop_map(Value::SByte),
        any::<u8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Int16),
        any::<u16>().prop_map(Value::UInt16),
        any::<i32>().prop_map(Value::Int32),
        any::<u32>().prop_map(Value::UInt32),
        any::<i64>().prop_map(Value::Int64),
        any::<u64>().prop_map(Value::UInt64),
    ];
    let others = prop_oneof![
        any::<u32>().prop_map(|bits| Value::Float(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::Double(f64::from_bits(bits))),
        text().prop_map(Value::String),
        any::<i64>().prop_map(|ticks| Value::DateTime(DateTime(ticks))),
        any::<[u8; 16]>().prop_map(|octets| Value::Guid(Guid(octets))),
        octets().prop_map(Value::ByteString),
        octets().prop_map(Value::XmlElement),
        node().prop_map(Value::NodeId),
        (
            node(),
            proptest::option::of(text()),
            proptest::option::of(any::<u32>())
        )
            .prop_map(|(node, namespace_uri, server)| {
                Value::ExpandedNodeId(ExpandedNodeId {
                    node,
                    namespace_uri,
                    server,
                })
            }),
        any::<u32>().prop_map(Value::StatusCode),
    ];
    let structures = prop_oneof![
        (any::<u16>(), text())
            .prop_map(|(namespace, name)| Value::QualifiedName(QualifiedName { namespace, name })),
        (proptest::option::of(text()), proptest::option::of(text()))
            .prop_map(|(locale, text)| Value::LocalizedText(LocalizedText { locale, text })),
        (node(), octets(), 0..3_u8).prop_map(|(type_id, octets, form)| {
            Value::ExtensionObject(ExtensionObject {
                type_id,
                body: match form {
                    0 => ExtensionBody::None,
                    1 => ExtensionBody::Binary(octets),
                    _ => ExtensionBody::Xml(octets),
                },
            })
        }),
        any::<i32>().prop_map(|value| {
            let inner = DataValue {
                value: Some(Variant::from(value)),
                status: Some(7),
                ..DataValue::default()
            };
            let out = vec![0; 32].leak();
            Value::DataValue(Encoded::of_data_value(&inner, out).unwrap())
        }),
    ];
    prop_oneof![numbers, others, structures].boxed()
}

fn array() -> BoxedStrategy<Array<'static>> {
    fn of<T: Element + Clone + std::fmt::Debug + 'static>(
        element: impl Strategy<Value = T>,
    ) -> impl Strategy<Value = Array<'static>> {
        proptest::collection::vec(element, 0..5)
            .prop_map(|elements| Array::of::<T>(elements.leak()))
    }
    let same_kind = (value(), 0..4_usize).prop_map(|(value, count)| Array {
        kind: value.built_in(),
        elements: Some(Elements::values(vec![value; count].leak())),
        dimensions: None,
    });
    let matrix = (1..4_i32, 1..4_i32, any::<i16>()).prop_map(|(rows, columns, element)| {
        let elements = vec![element; (rows * columns) as usize].leak();
        Array {
            dimensions: Some(Dimensions::of(vec![rows, columns].leak())),
            ..Array::of::<i16>(elements)
        }
    });
    let nested = any::<u8>().prop_map(|inner| {
        let out = vec![0; 8].leak();
        let inner = Value::Variant(Encoded::of_variant(&Variant::from(inner), out).unwrap());
        Array {
            kind: BuiltIn::Variant,
            elements: Some(Elements::values(vec![inner; 2].leak())),
            dimensions: None,
        }
    });
    let null = any::<u8>().prop_map(|_| Array {
        kind: BuiltIn::Float,
        elements: None,
        dimensions: None,
    });
    prop_oneof![
        of(any::<bool>()),
        of(any::<u8>()),
        of(any::<i32>()),
        of(any::<u64>()),
        of(any::<u64>().prop_map(f64::from_bits)),
        same_kind,
        matrix,
        nested,
        null
    ]
    .boxed()
}

pub(crate) fn variant() -> BoxedStrategy<Variant<'static>> {
    prop_oneof![
        1 => Just(Variant::Null),
        8 => value().prop_map(Variant::Scalar),
        4 => array().prop_map(Variant::Array),
    ]
    .boxed()
}

pub(crate) fn data_value() -> BoxedStrategy<DataValue<'static>> {
    (
        proptest::option::of(variant()),
        any::<Option<u32>>(),
        any::<[Option<i64>; 2]>(),
        any::<[Option<u16>; 2]>(),
    )
        .prop_map(|(value, status, times, picoseconds)| DataValue {
            value,
            status,
            source_time: times[0].map(DateTime),
            source_picoseconds: picoseconds[0],
            server_time: times[1].map(DateTime),
            server_picoseconds: picoseconds[1],
        })
        .boxed()
}

fn content() -> BoxedStrategy<Content<'static>> {
    let many = 0..5_usize;
    let variants = move || proptest::collection::vec(variant(), many.clone());
    let encoding = prop_oneof![
        Just(FieldEncoding::Variant),
        Just(FieldEncoding::RawData),
        Just(FieldEncoding::DataValue)
    ];
    prop_oneof![
        variants().prop_map(|fields| Content::KeyFrame(Fields::variants(fields.leak()))),
        proptest::collection::vec(data_value(), 0..4)
            .prop_map(|fields| Content::KeyFrame(Fields::data_values(fields.leak()))),
        proptest::collection::vec(any::<u8>(), 1..40)
            .prop_map(|octets| Content::RawData(octets.leak())),
        proptest::collection::vec((any::<u16>(), variant()), 0..4)
            .prop_map(|fields| Content::DeltaFrame(DeltaFields::variants(fields.leak()))),
        proptest::collection::vec((any::<u16>(), data_value()), 0..4)
            .prop_map(|fields| Content::DeltaFrame(DeltaFields::data_values(fields.leak()))),
        variants().prop_map(|fields| Content::Event(Fields::variants(fields.leak()))),
        encoding.clone().prop_map(Content::KeepAlive),
        encoding.prop_map(Content::Heartbeat),
    ]
    .boxed()
}

pub(crate) fn data_set() -> BoxedStrategy<DataSetMessage<'static>> {
    (
        any::<(bool, Option<u16>, Option<i64>, Option<u16>, Option<u16>)>(),
        any::<(Option<u32>, Option<u32>)>(),
        any::<bool>(),
        content(),
    )
        .prop_map(|(front, versions, spare, content)| {
            let plain =
                front.2.is_none() && front.3.is_none() && content.kind() == DataSetKind::KeyFrame;
            DataSetMessage {
                valid: front.0,
                sequence: front.1,
                timestamp: front.2.map(DateTime),
                picoseconds: front.3,
                status: front.4,
                major_version: versions.0,
                minor_version: versions.1,
                spare_flags: spare && plain,
                content,
            }
        })
        .boxed()
}

pub(crate) fn publisher() -> BoxedStrategy<PublisherId<'static>> {
    prop_oneof![
        any::<u8>().prop_map(PublisherId::Byte),
        any::<u16>().prop_map(PublisherId::UInt16),
        any::<u32>().prop_map(PublisherId::UInt32),
        any::<u64>().prop_map(PublisherId::UInt64),
        "[a-z0-9ü]{0,12}".prop_map(|text| PublisherId::String(text.leak())),
    ]
    .boxed()
}

fn security() -> BoxedStrategy<SecurityHeader<'static>> {
    (
        any::<(bool, bool, u32)>(),
        proptest::collection::vec(any::<u8>(), 0..12),
    )
        .prop_map(|(told, nonce)| SecurityHeader {
            signed: told.0,
            encrypted: false,
            force_key_reset: told.1,
            token_id: told.2,
            nonce: nonce.leak(),
            footer_octets: None,
        })
        .boxed()
}

pub(crate) fn header() -> BoxedStrategy<Header<'static>> {
    (
        proptest::option::of(publisher()),
        any::<(Option<[u8; 16]>, Option<[Option<u16>; 3]>, Option<u32>)>(),
        any::<(Option<i64>, Option<u16>)>(),
        proptest::option::of(proptest::collection::vec(variant(), 0..4)),
        proptest::option::of(security()),
        (0..5_u8, 0..3_u8),
    )
        .prop_map(|(publisher_id, parts, time, promoted, security, stray)| {
            let mut header = Header {
                publisher_id,
                data_set_class_id: parts.0.map(Guid),
                group: parts.1.map(|numbers| GroupHeader {
                    writer_group_id: numbers[0],
                    group_version: parts.2,
                    message_number: numbers[1],
                    sequence: numbers[2],
                }),
                timestamp: time.0.map(DateTime),
                picoseconds: time.1,
                promoted: promoted.map(|fields| Fields::variants(fields.leak())),
                security,
                stray_id_type: if publisher_id.is_none() { stray.0 } else { 0 },
                spare_flags: stray.1,
                ..Header::default()
            };
            // As many spare octets as there is room for.
            while header.emit(&mut [0; 4096]).is_err() && header.spare_flags > 0 {
                header.spare_flags -= 1;
            }
            header
        })
        .boxed()
}

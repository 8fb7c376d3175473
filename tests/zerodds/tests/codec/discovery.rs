//! Announcements of metadata: both codecs write the same octets, and find the same names, types and lengths in them.
//!
//! But for the security header: discovery has one even where nothing is secured (Part 14, 7.2.4.6.3). The other codec writes none, and
//! does not read one.

use crate::their_messages::{guid, node, publisher, text, variant};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use rtwire_pubsub::Publisher;
use rtwire_pubsub::discovery::{Announcer, Description, Learned, learn, probe};
use rtwire_pubsub::uabinary::{Item, Record};
use rtwire_wire::uadp::{BuiltIn, Guid as OurGuid, Header, Information, Value, WriterIds};
use rtwire_wire::{Node, Outbox};
use rtwire_zerodds::{Reading, ours, theirs};
use zerodds_opcua_gateway::data_value::VariantValue;
use zerodds_opcua_gateway::types::{BuiltinTypeKind, LocalizedText, QualifiedName};
use zerodds_opcua_pubsub::config::{
    ConfigurationVersion, DataSetMetaData, EnumDefinition, EnumDescription, EnumField,
    FieldMetaData, KeyValuePair, SimpleTypeDescription, StructureDefinition, StructureDescription,
    StructureField, StructureType,
};
use zerodds_opcua_pubsub::to_binary;
use zerodds_opcua_pubsub::uadp::{
    DataSetMetaDataResponse, DiscoveryRequest, DiscoveryResponse, DiscoveryResponsePayload,
    InformationType, PublisherId,
};

/// The bit of ExtendedFlags1 that tells of a security header.
const SECURITY: u8 = 0x10;

fn localized() -> impl Strategy<Value = LocalizedText> + Clone {
    (of(text()), of(text())).prop_map(|(locale, text)| LocalizedText { locale, text })
}

fn qualified() -> impl Strategy<Value = QualifiedName> + Clone {
    (any::<u16>(), text()).prop_map(|(namespace_index, name)| QualifiedName {
        namespace_index,
        name,
    })
}

fn kind() -> impl Strategy<Value = BuiltinTypeKind> {
    use BuiltinTypeKind::*;
    prop_oneof![
        Just(Boolean),
        Just(Int32),
        Just(Double),
        Just(String),
        Just(DateTime),
        Just(Guid),
        Just(LocalizedText),
        Just(ExtensionObject),
        Just(DataValue),
        Just(Variant),
        Just(DiagnosticInfo),
    ]
}

fn field() -> BoxedStrategy<FieldMetaData> {
    let front = (text(), localized(), any::<u16>(), kind(), node());
    let property = (qualified(), variant()).prop_map(|(key, value)| KeyValuePair { key, value });
    let back = (
        any::<(i32, u32)>(),
        vec(any::<u32>(), 0..3),
        guid(),
        vec(property, 0..2),
    );
    (front, back)
        .prop_map(|(front, back)| FieldMetaData {
            name: front.0,
            description: front.1,
            field_flags: front.2,
            builtin_type: front.3,
            data_type: front.4,
            value_rank: back.0.0,
            array_dimensions: back.1,
            max_string_length: back.0.1,
            data_set_field_id: back.2,
            properties: back.3,
        })
        .boxed()
}

fn structure() -> BoxedStrategy<StructureDescription> {
    let numbers = any::<(i32, u32, bool)>();
    let field = (
        text(),
        localized(),
        node(),
        numbers,
        vec(any::<u32>(), 0..3),
    )
        .prop_map(
            |(name, description, data_type, numbers, array_dimensions)| StructureField {
                name,
                description,
                data_type,
                value_rank: numbers.0,
                array_dimensions,
                max_string_length: numbers.1,
                is_optional: numbers.2,
            },
        );
    let form = prop_oneof![Just(StructureType::Structure), Just(StructureType::Union)];
    (node(), qualified(), node(), node(), form, vec(field, 0..3))
        .prop_map(|parts| StructureDescription {
            data_type_id: parts.0,
            name: parts.1,
            structure_definition: StructureDefinition {
                default_encoding_id: parts.2,
                base_data_type: parts.3,
                structure_type: parts.4,
                fields: parts.5,
            },
        })
        .boxed()
}

fn enumeration() -> BoxedStrategy<EnumDescription> {
    let field = (any::<i64>(), localized(), localized(), text()).prop_map(
        |(value, display_name, description, name)| EnumField {
            value,
            display_name,
            description,
            name,
        },
    );
    (node(), qualified(), vec(field, 0..3), any::<u8>())
        .prop_map(
            |(data_type_id, name, fields, builtin_type)| EnumDescription {
                data_type_id,
                name,
                enum_definition: EnumDefinition { fields },
                builtin_type,
            },
        )
        .boxed()
}

fn meta_data() -> BoxedStrategy<DataSetMetaData> {
    let simple = (node(), qualified(), node(), any::<u8>()).prop_map(
        |(data_type_id, name, base_data_type, builtin_type)| SimpleTypeDescription {
            data_type_id,
            name,
            base_data_type,
            builtin_type,
        },
    );
    let types = (
        vec(structure(), 0..2),
        vec(enumeration(), 0..2),
        vec(simple, 0..2),
    );
    let front = (vec(text(), 0..3), text(), localized(), vec(field(), 0..4));
    (types, front, guid(), any::<(u32, u32)>())
        .prop_map(
            |(types, front, data_set_class_id, version)| DataSetMetaData {
                name: front.1,
                description: front.2,
                namespaces: front.0,
                structure_data_types: types.0,
                enum_data_types: types.1,
                simple_data_types: types.2,
                fields: front.3,
                data_set_class_id,
                configuration_version: ConfigurationVersion {
                    major_version: version.0,
                    minor_version: version.1,
                },
            },
        )
        .boxed()
}

/// Returns what our codec has read: the data set, and each of its fields.
fn ours(meta: &Record) -> Reading {
    let mut out = Reading::default();
    let text = |record: &Record, name: &str, kind| match record.get(name) {
        Some(Item::Encoded(octets)) => ours::scalar(&Value::parse(kind, octets).unwrap().0),
        Some(Item::Guid(octets)) => OurGuid(*octets).to_string(),
        other => panic!("{name}: {other:?}"),
    };
    let (guid, localized, node) = (BuiltIn::Guid, BuiltIn::LocalizedText, BuiltIn::NodeId);
    out.line("name", meta.text("Name"));
    out.line("description", text(meta, "Description", localized));
    out.line("class", text(meta, "DataSetClassId", guid));
    let version = meta.record("ConfigurationVersion").unwrap();
    out.line("major version", version.number("MajorVersion"));
    out.line("minor version", version.number("MinorVersion"));
    for field in meta.records("Fields") {
        out.line("field", field.text("Name"));
        out.line("description", text(field, "Description", localized));
        out.line("flags", field.number("FieldFlags"));
        out.line("kind", field.number("BuiltInType"));
        out.line("type", text(field, "DataType", node));
        match field.get("ValueRank") {
            Some(Item::Int32(rank)) => out.line("rank", rank),
            other => panic!("{other:?}"),
        }
        let lengths = field.list("ArrayDimensions").iter().map(|item| match item {
            Item::UInt32(length) => *length,
            other => panic!("{other:?}"),
        });
        out.line("lengths", format!("{:?}", lengths.collect::<Vec<_>>()));
        out.line("longest text", field.number("MaxStringLength"));
        out.line("id", text(field, "DataSetFieldId", guid));
        for property in field.records("Properties") {
            out.line(
                "property",
                ours::variant(&property.variant("Value").unwrap()),
            );
        }
    }
    out
}

/// Returns what the other codec has written, in the same lines.
fn theirs(meta: &DataSetMetaData) -> Reading {
    let mut out = Reading::default();
    let text = |value: VariantValue| theirs::scalar(&value);
    let localized = |value: &LocalizedText| text(VariantValue::LocalizedText(value.clone()));
    out.line("name", &meta.name);
    out.line("description", localized(&meta.description));
    out.line("class", text(VariantValue::Guid(meta.data_set_class_id)));
    out.line("major version", meta.configuration_version.major_version);
    out.line("minor version", meta.configuration_version.minor_version);
    for field in &meta.fields {
        out.line("field", &field.name);
        out.line("description", localized(&field.description));
        out.line("flags", field.field_flags);
        out.line("kind", field.builtin_type.value());
        out.line("type", text(VariantValue::NodeId(field.data_type.clone())));
        out.line("rank", field.value_rank);
        out.line("lengths", format!("{:?}", field.array_dimensions));
        out.line("longest text", field.max_string_length);
        out.line("id", text(VariantValue::Guid(field.data_set_field_id)));
        for property in &field.properties {
            out.line("property", theirs::variant(&property.value));
        }
    }
    out
}

struct Sent(Vec<Vec<u8>>);

impl Outbox for Sent {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        self.0.push(frame.to_vec());
    }
}

/// Asks a publisher of ours, and returns its announcement; `None` if it does not fit into a frame.
fn announced(publisher: &Publisher, writer: u16, meta: Record) -> Option<Vec<u8>> {
    let description = Description::MetaData { writer, meta };
    let mut announcer = Announcer::new(publisher.clone(), &[], 0, &[description], 1).ok()?;
    let mut sent = Sent(Vec::new());
    let asked = probe(publisher, Information::MetaData(WriterIds::of(&[writer]))).unwrap();
    announcer.frame(0, &asked, &mut sent);
    announcer.moment(announcer.wake_at_ns().unwrap(), &mut sent);
    sent.0.pop()
}

proptest! {
    #[test]
    fn both_announce_metadata_in_the_same_octets(
        publisher in publisher(),
        writer in any::<u16>(),
        meta_data in meta_data(),
    ) {
        let response = DiscoveryResponse {
            publisher_id: Some(publisher.clone()),
            // The first that a publisher sends.
            sequence_number: 0,
            payload: DiscoveryResponsePayload::DataSetMetaData(DataSetMetaDataResponse {
                data_set_writer_id: writer,
                meta_data: meta_data.clone(),
                status_code: 0,
            }),
        };
        let bytes = to_binary(&response).unwrap();
        let publisher = match publisher {
            PublisherId::Byte(id) => Publisher::Byte(id),
            PublisherId::UInt16(id) => Publisher::UInt16(id),
            PublisherId::UInt32(id) => Publisher::UInt32(id),
            PublisherId::UInt64(id) => Publisher::UInt64(id),
            PublisherId::String(id) => Publisher::String(id),
        };
        let Some(Learned::MetaData { writer: found, meta }) = learn(&publisher, &bytes).unwrap() else {
            panic!("no metadata");
        };
        prop_assert_eq!(found, writer);
        prop_assert_eq!(ours(&meta).difference(&theirs(&meta_data)), None);
        let announced = announced(&publisher, writer, meta);
        prop_assert!(announced.is_some() || bytes.len() > 1400, "{} octets", bytes.len());
        if let Some(mut announced) = announced {
            let (header, end) = Header::parse(&announced).unwrap();
            let octets = header.security.unwrap().octets();
            announced[1] &= !SECURITY;
            announced.drain(end - octets..end);
            prop_assert_eq!(announced, bytes);
        }
    }
}

/// A probe has a ProbeType in front of its InformationType (Part 14, 7.2.4.6.12.3). The other codec leaves it out, and reads ours as another
/// question.
#[test]
fn probes_are_written_otherwise() {
    let request = DiscoveryRequest {
        publisher_id: Some(PublisherId::UInt16(2234)),
        information_type: InformationType::DataSetMetaData,
        data_set_writer_ids: vec![7],
    };
    let theirs = to_binary(&request).unwrap();
    let publisher = Publisher::UInt16(2234);
    let ours = probe(&publisher, Information::MetaData(WriterIds::of(&[7]))).unwrap();
    let payload = Header::parse(&ours).unwrap().1;
    let their_payload = Header::parse(&theirs).unwrap().1;
    assert_eq!(ours[payload], 1, "ProbeType");
    assert_eq!(ours[payload + 1..], theirs[their_payload..]);
}

//! What `zerodds_opcua_pubsub` has read, line by line.

use crate::{Reading, hex, joined};
use zerodds_opcua_gateway::data_value::{DataValue, ExtensionObjectBody, Variant, VariantValue};
use zerodds_opcua_gateway::node_id::{NodeId, NodeIdentifier};
use zerodds_opcua_gateway::types::Guid;
use zerodds_opcua_pubsub::uadp::{
    DataSetData, DataSetMessage, DataSetMessageKind, NetworkMessage, PublisherId,
};

/// Returns the fields of a message.
#[must_use]
pub fn reading(message: &NetworkMessage) -> Reading {
    let mut out = Reading::default();
    out.option("publisher", message.publisher_id.as_ref().map(publisher));
    out.option("class", message.data_set_class_id.as_ref().map(guid));
    if let Some(group) = &message.group_header {
        out.line("group", "told");
        out.option("group id", group.writer_group_id);
        out.option("group version", group.group_version);
        out.option("group number", group.network_message_number);
        out.option("group sequence", group.sequence_number);
    }
    out.option("time", message.timestamp);
    out.option("picoseconds", message.pico_seconds);
    for field in &message.promoted_fields {
        out.line("promoted", variant(field));
    }
    for (at, data_set) in message.messages.iter().enumerate() {
        let writer = message.payload_header.then_some(data_set.writer_id);
        data_set_lines(&mut out, at, writer, data_set);
    }
    out
}

fn publisher(id: &PublisherId) -> String {
    match id {
        PublisherId::Byte(id) => format!("Byte {id}"),
        PublisherId::UInt16(id) => format!("UInt16 {id}"),
        PublisherId::UInt32(id) => format!("UInt32 {id}"),
        PublisherId::UInt64(id) => format!("UInt64 {id}"),
        PublisherId::String(id) => format!("String {id:?}"),
    }
}

fn data_set_lines(out: &mut Reading, at: usize, writer: Option<u16>, message: &DataSetMessage) {
    let name = |field: &str| format!("message {at} {field}");
    let kind = match message.kind {
        DataSetMessageKind::KeyFrame => "key frame",
        DataSetMessageKind::DeltaFrame => "delta frame",
        DataSetMessageKind::Event => "event",
        DataSetMessageKind::KeepAlive => "keep-alive",
    };
    out.line(&name("kind"), kind);
    out.option(&name("writer"), writer);
    out.line(&name("valid"), message.valid);
    out.option(&name("sequence"), message.sequence_number);
    out.option(&name("time"), message.timestamp);
    out.option(&name("picoseconds"), message.pico_seconds);
    out.option(&name("status"), message.status);
    out.option(&name("major version"), message.config_major_version);
    out.option(&name("minor version"), message.config_minor_version);
    let (encoding, fields): (&str, Vec<(u16, String)>) = match &message.data {
        DataSetData::Variant(fields) => {
            ("Variant", (0..).zip(fields.iter().map(variant)).collect())
        }
        DataSetData::DataValue(fields) => (
            "DataValue",
            (0..).zip(fields.iter().map(data_value)).collect(),
        ),
        DataSetData::DeltaVariant(fields) => {
            let line = |(index, field): &(u16, Variant)| (*index, variant(field));
            ("Variant", fields.iter().map(line).collect())
        }
        DataSetData::DeltaDataValue(fields) => {
            let line = |(index, field): &(u16, DataValue)| (*index, data_value(field));
            ("DataValue", fields.iter().map(line).collect())
        }
        DataSetData::Raw(octets) => return out.line(&name("raw"), hex(octets)),
        DataSetData::None => return,
    };
    out.line(&name("encoding"), encoding);
    for (index, field) in fields {
        out.line(&name(&format!("field {index}")), field);
    }
}

fn data_value(data: &DataValue) -> String {
    let number =
        |name: &str, number: Option<String>| number.map(|number| format!("{name} {number}"));
    let parts = [
        data.value.as_ref().map(variant),
        number("status", data.status.map(|status| format!("{status:#x}"))),
        number(
            "source",
            data.source_timestamp.map(|ticks| ticks.to_string()),
        ),
        number(
            "source picoseconds",
            data.source_pico_sec.map(|part| part.to_string()),
        ),
        number(
            "server",
            data.server_timestamp.map(|ticks| ticks.to_string()),
        ),
        number(
            "server picoseconds",
            data.server_pico_sec.map(|part| part.to_string()),
        ),
    ];
    format!("DataValue {}", joined(parts.into_iter().flatten()))
}

/// Returns a Variant as a line shows it.
#[must_use]
pub fn variant(value: &Variant) -> String {
    let Some(first) = value.value.first() else {
        return match value.array_dimensions.is_empty() {
            true => "null".to_owned(),
            false => format!("empty {:?} ", value.array_dimensions),
        };
    };
    let kind = format!("{:?}", first.kind());
    if value.array_dimensions.is_empty() {
        return format!("{kind} {}", scalar(first));
    }
    let values = joined(value.value.iter().map(scalar));
    format!("{kind} {:?} {values}", value.array_dimensions)
}

/// Returns a value without its type as a line shows it.
#[must_use]
pub fn scalar(value: &VariantValue) -> String {
    match value {
        VariantValue::Boolean(value) => value.to_string(),
        VariantValue::SByte(value) => value.to_string(),
        VariantValue::Byte(value) => value.to_string(),
        VariantValue::Int16(value) => value.to_string(),
        VariantValue::UInt16(value) => value.to_string(),
        VariantValue::Int32(value) => value.to_string(),
        VariantValue::UInt32(value) => value.to_string(),
        VariantValue::Int64(value) => value.to_string(),
        VariantValue::UInt64(value) => value.to_string(),
        VariantValue::Float(value) => format!("{:#x}", value.to_bits()),
        VariantValue::Double(value) => format!("{:#x}", value.to_bits()),
        VariantValue::String(text) => format!("{text:?}"),
        VariantValue::DateTime(ticks) => ticks.to_string(),
        VariantValue::Guid(id) => guid(id),
        VariantValue::ByteString(octets) => hex(octets),
        VariantValue::XmlElement(text) => hex(text.as_bytes()),
        VariantValue::NodeId(id) => node(id),
        VariantValue::StatusCode(code) => format!("{code:#x}"),
        VariantValue::QualifiedName(name) => format!("{} {:?}", name.namespace_index, name.name),
        VariantValue::LocalizedText(text) => format!("{:?} {:?}", text.locale, text.text),
        VariantValue::ExtensionObject(object) => {
            let body = match &object.body {
                ExtensionObjectBody::None => "none".to_owned(),
                ExtensionObjectBody::ByteString(octets) => format!("binary {}", hex(octets)),
                ExtensionObjectBody::XmlElement(text) => format!("xml {}", hex(text.as_bytes())),
            };
            format!("{} {body}", node(&object.type_id))
        }
    }
}

fn node(id: &NodeId) -> String {
    let namespace = id.namespace_index;
    match &id.identifier_type {
        NodeIdentifier::Numeric(id) => format!("{namespace} number {id}"),
        NodeIdentifier::String(id) => format!("{namespace} text {id:?}"),
        NodeIdentifier::Guid(id) => format!("{namespace} guid {}", guid(id)),
        NodeIdentifier::Opaque(id) => format!("{namespace} octets {}", hex(id)),
    }
}

fn guid(id: &Guid) -> String {
    let (clock, rest) = id.data4.split_at(2);
    let groups = (id.data1, id.data2, id.data3);
    format!(
        "{:08x}-{:04x}-{:04x}-{}-{}",
        groups.0,
        groups.1,
        groups.2,
        hex(clock),
        hex(rest)
    )
}

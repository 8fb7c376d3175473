//! What `rtwire_wire::uadp` has read, line by line.

use crate::{Reading, hex, joined};
use rtwire_wire::uadp::{
    Array, Body, Content, DataSetKind, DataSetMessage, DataValue, DateTime, ExtensionBody, Field,
    FieldEncoding, NetworkMessage, NodeId, PublisherId, RawValue, Value, Variant,
};

/// Returns the fields of a message; of a body other than DataSetMessages only its kind.
#[must_use]
pub fn reading(message: &NetworkMessage<'_>) -> Reading {
    let mut out = Reading::default();
    let header = &message.header;
    out.option("publisher", header.publisher_id.map(publisher));
    out.option("class", header.data_set_class_id);
    if let Some(group) = &header.group {
        out.line("group", "told");
        out.option("group id", group.writer_group_id);
        out.option("group version", group.group_version);
        out.option("group number", group.message_number);
        out.option("group sequence", group.sequence);
    }
    out.option("time", header.timestamp.map(|time| time.0));
    out.option("picoseconds", header.picoseconds);
    for field in header.promoted.iter().flat_map(|fields| fields.iter()) {
        out.line("promoted", field_text(&field));
    }
    match &message.body {
        Body::DataSets(messages) => {
            let mut writers = header.writers.iter().flat_map(|writers| writers.iter());
            for (at, message) in messages.iter().enumerate() {
                data_set(&mut out, at, writers.next(), &message);
            }
        }
        Body::Chunk(_) => out.line("body", "chunk"),
        Body::Probe(_) => out.line("body", "probe"),
        Body::Announcement(_) => out.line("body", "announcement"),
        Body::Encrypted(_) => out.line("body", "encrypted"),
    }
    out
}

fn publisher(id: PublisherId<'_>) -> String {
    match id {
        PublisherId::Byte(id) => format!("Byte {id}"),
        PublisherId::UInt16(id) => format!("UInt16 {id}"),
        PublisherId::UInt32(id) => format!("UInt32 {id}"),
        PublisherId::UInt64(id) => format!("UInt64 {id}"),
        PublisherId::String(id) => format!("String {id:?}"),
    }
}

fn data_set(out: &mut Reading, at: usize, writer: Option<u16>, message: &DataSetMessage<'_>) {
    let name = |field: &str| format!("message {at} {field}");
    let kind = match message.content.kind() {
        DataSetKind::KeyFrame => "key frame",
        DataSetKind::DeltaFrame => "delta frame",
        DataSetKind::Event => "event",
        DataSetKind::KeepAlive => "keep-alive",
    };
    out.line(&name("kind"), kind);
    out.option(&name("writer"), writer);
    out.line(&name("valid"), message.valid);
    out.option(&name("sequence"), message.sequence);
    out.option(&name("time"), message.timestamp.map(|time| time.0));
    out.option(&name("picoseconds"), message.picoseconds);
    out.option(&name("status"), message.status);
    out.option(&name("major version"), message.major_version);
    out.option(&name("minor version"), message.minor_version);
    let fields = match &message.content {
        Content::KeyFrame(fields) | Content::Event(fields) => fields,
        Content::DeltaFrame(fields) => {
            out.line(&name("encoding"), encoding(fields.encoding()));
            for (index, field) in fields.iter() {
                out.line(&name(&format!("field {index}")), field_text(&field));
            }
            return;
        }
        Content::RawData(octets) => return out.line(&name("raw"), hex(octets)),
        // RawData of no octet: the other codec has no word for a heartbeat.
        Content::Heartbeat(FieldEncoding::RawData) => return out.line(&name("raw"), ""),
        Content::Heartbeat(_) => return out.line(&name("heartbeat"), ""),
        // The other codec does not keep the encoding of a message without fields.
        Content::KeepAlive(_) => return,
    };
    out.line(&name("encoding"), encoding(fields.encoding()));
    for (index, field) in fields.iter().enumerate() {
        out.line(&name(&format!("field {index}")), field_text(&field));
    }
}

const fn encoding(encoding: FieldEncoding) -> &'static str {
    match encoding {
        FieldEncoding::Variant => "Variant",
        FieldEncoding::RawData => "RawData",
        FieldEncoding::DataValue => "DataValue",
    }
}

fn field_text(field: &Field<'_>) -> String {
    match field {
        Field::Variant(value) => variant(value),
        Field::DataValue(value) => data_value(value),
    }
}

fn data_value(data: &DataValue<'_>) -> String {
    let number =
        |name: &str, number: Option<String>| number.map(|number| format!("{name} {number}"));
    let ticks = |time: DateTime| time.0.to_string();
    let parts = [
        data.value.as_ref().map(variant),
        number("status", data.status.map(|status| format!("{status:#x}"))),
        number("source", data.source_time.map(ticks)),
        number(
            "source picoseconds",
            data.source_picoseconds.map(|part| part.to_string()),
        ),
        number("server", data.server_time.map(ticks)),
        number(
            "server picoseconds",
            data.server_picoseconds.map(|part| part.to_string()),
        ),
    ];
    format!("DataValue {}", joined(parts.into_iter().flatten()))
}

/// Returns a Variant as a line shows it.
#[must_use]
pub fn variant(value: &Variant<'_>) -> String {
    match value {
        Variant::Null => "null".to_owned(),
        Variant::Scalar(value) => format!("{} {}", value.built_in(), scalar(value)),
        Variant::Array(array) => array_text(array),
    }
}

fn array_text(array: &Array<'_>) -> String {
    let lengths: Vec<i64> = match &array.dimensions {
        Some(dimensions) => dimensions.iter().map(i64::from).collect(),
        // A null array has no length.
        None if array.elements.is_none() => vec![-1],
        None => vec![array.len() as i64],
    };
    let values: Vec<Value<'_>> = array.iter().collect();
    elements(array.kind.name(), &lengths, &values)
}

fn elements(kind: &str, lengths: &[i64], values: &[Value<'_>]) -> String {
    // The other codec's types keep the type with each element, so an empty array has none.
    let kind = if values.is_empty() { "empty" } else { kind };
    format!("{kind} {lengths:?} {}", joined(values.iter().map(scalar)))
}

/// Returns a field of RawData as a line shows a Variant.
#[must_use]
pub fn raw(value: &RawValue<'_>) -> String {
    let array = match value {
        RawValue::Scalar(value) => return variant(&Variant::Scalar(*value)),
        RawValue::Array(array) => array,
    };
    let lengths: Vec<i64> = array.lengths().map(i64::from).collect();
    let values: Result<Vec<Value<'_>>, _> = array.iter().collect();
    match values {
        Ok(values) => elements(array.kind().name(), &lengths, &values),
        Err(error) => error.to_string(),
    }
}

/// Returns a value without its type as a line shows it.
#[must_use]
pub fn scalar(value: &Value<'_>) -> String {
    match *value {
        Value::Boolean(value) => value.to_string(),
        Value::SByte(value) => value.to_string(),
        Value::Byte(value) => value.to_string(),
        Value::Int16(value) => value.to_string(),
        Value::UInt16(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::UInt32(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::UInt64(value) => value.to_string(),
        // The bits: a NaN is no number to compare.
        Value::Float(value) => format!("{:#x}", value.to_bits()),
        Value::Double(value) => format!("{:#x}", value.to_bits()),
        Value::String(text) => format!("{:?}", text.unwrap_or_default()),
        Value::DateTime(DateTime(ticks)) => ticks.to_string(),
        Value::Guid(guid) => guid.to_string(),
        Value::ByteString(octets) | Value::XmlElement(octets) => hex(octets.unwrap_or_default()),
        Value::NodeId(id) => node(&id),
        Value::StatusCode(code) => format!("{code:#x}"),
        Value::QualifiedName(name) => {
            format!("{} {:?}", name.namespace, name.name.unwrap_or_default())
        }
        Value::LocalizedText(text) => {
            let part =
                |part: Option<Option<&str>>| format!("{:?}", part.map(Option::unwrap_or_default));
            format!("{} {}", part(text.locale), part(text.text))
        }
        Value::ExtensionObject(object) => {
            let body = match object.body {
                ExtensionBody::None => "none".to_owned(),
                ExtensionBody::Binary(octets) => {
                    format!("binary {}", hex(octets.unwrap_or_default()))
                }
                ExtensionBody::Xml(octets) => format!("xml {}", hex(octets.unwrap_or_default())),
            };
            format!("{} {body}", node(&object.type_id))
        }
        // Types that the other codec does not know.
        Value::ExpandedNodeId(_)
        | Value::DataValue(_)
        | Value::Variant(_)
        | Value::DiagnosticInfo(_) => format!("{value:?}"),
    }
}

fn node(id: &NodeId<'_>) -> String {
    match *id {
        NodeId::TwoByte(id) => format!("0 number {id}"),
        NodeId::FourByte { namespace, id } => format!("{namespace} number {id}"),
        NodeId::Numeric { namespace, id } => format!("{namespace} number {id}"),
        NodeId::String { namespace, id } => {
            format!("{namespace} text {:?}", id.unwrap_or_default())
        }
        NodeId::Guid { namespace, id } => format!("{namespace} guid {id}"),
        NodeId::Opaque { namespace, id } => {
            format!("{namespace} octets {}", hex(id.unwrap_or_default()))
        }
    }
}

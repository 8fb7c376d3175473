//! The forms of messages that the other codec reads otherwise than the standard has them: each with its clause.
//!
//! Clauses are those of OPC 10000-14 (PubSub) and OPC 10000-6 (binary encoding), version 1.05.

use rtwire_wire::uadp::{
    Array, Body, BuiltIn, Content, DataSets, DataValue, ExtensionBody, Field, FieldEncoding,
    NetworkMessage, Value, Variant,
};

/// A form that the other codec does not read as the standard has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A heartbeat is a key frame that ends with its header (Part 14, 7.2.4.5.5). The other codec wants a FieldCount behind it.
    Heartbeat,
    /// Without a payload header there are no sizes, and messages follow one another (Part 14, 7.2.4.5.3). The other codec
    /// reads the first, and passes over the others without a word.
    Unannounced,
    /// A null array has the length -1 (Part 6, 5.2.5). The other codec refuses it.
    NullArray,
    /// Variants hold every built-in type (Part 6, 5.1.2 and 5.2.2.16). The other codec refuses ExpandedNodeId, DataValue, Variant and
    /// DiagnosticInfo.
    OtherType,
    /// An XmlElement is UTF-8 (Part 6, 5.2.2.8). The other codec refuses other octets; ours passes them on as octets.
    XmlOctets,
    /// In a DataValue the SourcePicoseconds are in front of the ServerTimestamp (Part 6, 5.2.2.17). The other codec has them behind it.
    SourcePicoseconds,
    /// Chunks, discovery and secured messages: the other codec has no decoder for them, or another one.
    OtherBody,
}

/// Returns the first form in a message that the other codec reads otherwise; `None` if both have to read the same.
#[must_use]
pub fn unlike(message: &NetworkMessage<'_>) -> Option<Form> {
    let messages = match &message.body {
        Body::DataSets(messages) if message.header.security.is_none() => messages,
        _ => return Some(Form::OtherBody),
    };
    if message.header.writers.is_none() && messages.len() > 1 {
        return Some(Form::Unannounced);
    }
    let promoted = message.header.promoted;
    let mut promoted = promoted.iter().flat_map(|fields| fields.iter());
    promoted
        .find_map(|field| in_field(&field))
        .or_else(|| in_data_sets(messages))
}

fn in_data_sets(messages: &DataSets<'_>) -> Option<Form> {
    messages.iter().find_map(|message| match &message.content {
        Content::KeyFrame(fields) | Content::Event(fields) => {
            fields.iter().find_map(|field| in_field(&field))
        }
        Content::DeltaFrame(fields) => fields.iter().find_map(|(_, field)| in_field(&field)),
        // RawData has no FieldCount: no octet is RawData as well.
        Content::Heartbeat(FieldEncoding::RawData) => None,
        Content::Heartbeat(_) => Some(Form::Heartbeat),
        Content::RawData(_) | Content::KeepAlive(_) => None,
    })
}

fn in_field(field: &Field<'_>) -> Option<Form> {
    match field {
        Field::Variant(value) => in_variant(value),
        Field::DataValue(value) => in_data_value(value),
    }
}

fn in_data_value(data: &DataValue<'_>) -> Option<Form> {
    if let Some(form) = data.value.as_ref().and_then(in_variant) {
        return Some(form);
    }
    let swapped = data.source_picoseconds.is_some() && data.server_time.is_some();
    swapped.then_some(Form::SourcePicoseconds)
}

fn in_variant(value: &Variant<'_>) -> Option<Form> {
    match value {
        Variant::Null => None,
        Variant::Scalar(value) => in_value(value),
        Variant::Array(Array { elements: None, .. }) => Some(Form::NullArray),
        Variant::Array(array) => array.iter().find_map(|value| in_value(&value)),
    }
}

fn in_value(value: &Value<'_>) -> Option<Form> {
    let xml = match value {
        Value::XmlElement(octets) => *octets,
        Value::ExtensionObject(object) => match object.body {
            ExtensionBody::Xml(octets) => octets,
            ExtensionBody::None | ExtensionBody::Binary(_) => None,
        },
        _ => None,
    };
    if std::str::from_utf8(xml.unwrap_or_default()).is_err() {
        return Some(Form::XmlOctets);
    }
    let other = matches!(
        value.built_in(),
        BuiltIn::ExpandedNodeId | BuiltIn::DataValue | BuiltIn::Variant | BuiltIn::DiagnosticInfo
    );
    other.then_some(Form::OtherType)
}

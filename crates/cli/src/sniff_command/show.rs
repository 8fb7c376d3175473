//! A message as text and as JSON: its summary, every field with its offset and bytes, its faults.

use std::fmt::Write as _;

use rtwire_measure::capture::Packet;
use rtwire_wire::VlanTag;
use rtwire_wire::uadp::{
    Body, Content, DataSetMessage, DateTime, FieldEncoding, Header, NetworkMessage, Probe,
    PublisherId, Seen, Value, View, ViewField, ViewValue,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::frame::{Carried, Frame};

/// The bytes of a field that are shown as text; JSON has all of them.
const SHOWN_OCTETS: usize = 8;

/// A message, as a line of `rtwire sniff --json` has it.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "rtwire sniff, one line of --json")]
pub(super) struct Shown {
    /// The number of the packet in the capture, or since listening began, from 1.
    packet: u64,
    /// The time of the capture, ns since 1970-01-01 UTC; null if unknown.
    time_ns: Option<u64>,
    /// The source on the link; null where the capture has none.
    source_mac: Option<String>,
    /// The destination on the link; null where the capture has none.
    destination_mac: Option<String>,
    /// The VLAN identifier; null without a tag.
    vlan: Option<u16>,
    /// The priority code point; null without a tag.
    pcp: Option<u8>,
    /// Address and port of the sender; null for messages over Ethernet.
    source: Option<String>,
    /// Address and port of the receiver; null for messages over Ethernet.
    destination: Option<String>,
    /// The message's first byte, counted from the start of the packet.
    offset_in_packet: usize,
    /// The message's length in bytes, with the padding of a short frame.
    bytes: usize,
    /// One line that says what the message is.
    summary: String,
    /// All fields in the order of the message.
    fields: Vec<ShownField>,
    /// The faults; empty for a right message.
    pub(super) faults: Vec<ShownFault>,
}

#[derive(Serialize, JsonSchema)]
struct ShownField {
    /// The first byte, counted from the start of the message.
    offset: usize,
    /// The bytes, in hexadecimal.
    hex: String,
    /// The name in the standard; in a DataSetMessage behind `DSM` and its number, `f` and the field's number.
    name: String,
    /// The value; null where the bytes are all that is known.
    value: serde_json::Value,
}

/// A fault.
#[derive(Serialize, JsonSchema)]
pub(super) struct ShownFault {
    /// The place, counted from the start of the message.
    offset: usize,
    /// The fault in words.
    what: String,
}

/// Returns the JSON Schema of a line.
pub(super) fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Shown).to_value()
}

impl Shown {
    /// Reads the message of a frame. `cut`: bytes of the packet that the capture has not.
    pub(super) fn new(packet: &Packet<'_>, frame: &Frame, signature: usize, cut: usize) -> Self {
        let (octets, missing) = match &frame.carried {
            Carried::Message { bytes, missing } => (bytes.clone(), *missing),
            Carried::Fragment => (0..0, 0),
        };
        let message = packet.data.get(octets.clone()).unwrap_or_default();
        let view = View::new(message).with_signature_octets(signature);
        let mut fields = Vec::new();
        let mut faults = Vec::new();
        let missing = missing.max(cut);
        if missing > 0 {
            faults.push(ShownFault {
                offset: message.len(),
                what: format!("the capture has {missing} bytes less than the packet had"),
            });
        }
        view.walk(&mut |seen| match seen {
            Seen::Field(field) => fields.push(shown(&field, message)),
            Seen::Fault(fault) => faults.push(ShownFault {
                offset: fault.at().unwrap_or(0),
                what: fault.to_string(),
            }),
        });
        let tag = frame.tag.map(VlanTag::from_bits);
        let (source, destination) = frame.sockets.unzip();
        let (destination_mac, source_mac) = frame.addresses.unzip();
        Self {
            packet: packet.number,
            time_ns: packet.time_ns,
            source_mac: source_mac.map(|address| address.to_string()),
            destination_mac: destination_mac.map(|address| address.to_string()),
            vlan: tag.map(|tag| tag.vid),
            pcp: tag.map(|tag| tag.pcp.get()),
            source: source.map(|address| address.to_string()),
            destination: destination.map(|address| address.to_string()),
            offset_in_packet: octets.start,
            bytes: message.len(),
            summary: summary(&view),
            fields,
            faults,
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Strings and numbers can always be written.
        serde_json::to_string(self).map_or_else(|_| String::new(), |line| line + "\n")
    }

    pub(super) fn to_text(&self, brief: bool) -> String {
        let mut text = format!("{}", self.packet);
        if let Some(ns) = self.time_ns {
            let _ = write!(text, "  {}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        }
        let ends = (&self.source, &self.destination);
        if let (Some(source), Some(destination)) = ends {
            let _ = write!(text, "  {source} > {destination}");
        } else if let (Some(source), Some(destination)) = (&self.source_mac, &self.destination_mac)
        {
            let _ = write!(text, "  {source} > {destination}");
        }
        if let (Some(vlan), Some(pcp)) = (self.vlan, self.pcp) {
            let _ = write!(text, "  VLAN {vlan} PCP {pcp}");
        }
        let _ = writeln!(text, "  {} B  {}", self.bytes, self.summary);
        if !brief {
            for field in &self.fields {
                let _ = writeln!(
                    text,
                    "  {:>5}  {:<18}  {:<24}  {}",
                    field.offset,
                    shortened(&field.hex),
                    field.name,
                    plain(&field.value)
                );
            }
        }
        for fault in &self.faults {
            let _ = writeln!(text, "  {:>5}  fault: {}", fault.offset, fault.what);
        }
        text
    }
}

fn shortened(hex: &str) -> String {
    match hex.get(..SHOWN_OCTETS * 2) {
        Some(front) if hex.len() > SHOWN_OCTETS * 2 => format!("{front}…"),
        _ => hex.to_owned(),
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn shown(field: &ViewField<'_>, message: &[u8]) -> ShownField {
    let octets = message
        .get(field.at..field.at + field.octets)
        .unwrap_or_default();
    ShownField {
        offset: field.at,
        hex: hex(octets),
        name: field.to_string(),
        value: match field.value {
            ViewValue::Number(number) if field.name.ends_with("Timestamp") => {
                time(DateTime(number as i64)).into()
            }
            ViewValue::Number(number) => number.into(),
            ViewValue::Text(text) => text.into(),
            ViewValue::Value(value) => json_of(&value),
            ViewValue::Octets(_) => serde_json::Value::Null,
        },
    }
}

/// Shows a moment in UTC with 100 ns, or its ticks where a calendar would be nonsense.
fn time(moment: DateTime) -> String {
    let Some(ns) = moment.to_unix_ns().filter(|ns| *ns >= 0) else {
        return format!("{} ticks since 1601", moment.0);
    };
    let seconds = ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The civil date of a day since 1970-01-01, in years that begin in March.
    let day = days + 719_468;
    let era = day / 146_097;
    let of_era = day - era * 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{:07}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        ns / 100 % 10_000_000
    )
}

fn json_of(value: &Value<'_>) -> serde_json::Value {
    match *value {
        Value::Boolean(value) => value.into(),
        Value::SByte(value) => value.into(),
        Value::Byte(value) => value.into(),
        Value::Int16(value) => value.into(),
        Value::UInt16(value) => value.into(),
        Value::Int32(value) => value.into(),
        Value::UInt32(value) | Value::StatusCode(value) => value.into(),
        Value::Int64(value) => value.into(),
        Value::UInt64(value) => value.into(),
        // JSON has no infinities: they are texts.
        Value::Float(value) if !value.is_finite() => value.to_string().into(),
        Value::Float(value) => value.into(),
        Value::Double(value) if !value.is_finite() => value.to_string().into(),
        Value::Double(value) => value.into(),
        Value::String(text) => text.into(),
        Value::DateTime(moment) => time(moment).into(),
        Value::Guid(guid) => guid.to_string().into(),
        Value::ByteString(octets) | Value::XmlElement(octets) => octets.map(hex).into(),
        Value::LocalizedText(text) => text.text.flatten().into(),
        Value::QualifiedName(name) => name
            .name
            .map(|text| format!("{}:{text}", name.namespace))
            .into(),
        _ => serde_json::Value::Null,
    }
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

/// Says in one line what the message is.
fn summary(view: &View<'_>) -> String {
    let header = match view.strict() {
        Ok(message) => return of_message(&message),
        Err(_) => Header::parse(view.message()),
    };
    match header {
        Ok((header, _)) => format!("{}, payload not readable", of_header(&header)),
        Err(_) => "no UADP message that can be read".to_owned(),
    }
}

fn of_header(header: &Header<'_>) -> String {
    let mut text = match header.publisher_id {
        Some(id) => format!("publisher {}", publisher(id)),
        None => "no publisher".to_owned(),
    };
    if let Some(group) = header.group {
        if let Some(id) = group.writer_group_id {
            let _ = write!(text, ", group {id}");
        }
        if let Some(sequence) = group.sequence {
            let _ = write!(text, ", message {sequence}");
        }
    }
    if let Some(security) = header.security {
        text.push_str(match (security.signed, security.encrypted) {
            (true, true) => ", signed and encrypted",
            (true, false) => ", signed",
            (false, true) => ", encrypted",
            (false, false) => ", not secured",
        });
        let _ = write!(text, " (token {})", security.token_id);
    }
    text
}

fn of_message(message: &NetworkMessage<'_>) -> String {
    let header = of_header(&message.header);
    let what = match message.body {
        Body::DataSets(messages) => {
            let mut ids = message.header.writers.map(|writers| writers.iter());
            let each = messages.iter().map(|data_set| {
                let id = ids.as_mut().and_then(Iterator::next);
                of_data_set(&data_set, id)
            });
            each.collect::<Vec<_>>().join("; ")
        }
        Body::Chunk(chunk) => format!(
            "chunk of {} B at {} of {}",
            chunk.data.len(),
            chunk.offset,
            chunk.total_octets
        ),
        Body::Probe(Probe::Information(_)) => "discovery probe for information".to_owned(),
        Body::Probe(Probe::FindApplications) => "discovery probe for applications".to_owned(),
        Body::Announcement(announcement) => {
            format!("discovery announcement {}", announcement.sequence)
        }
        Body::Encrypted(octets) => format!("{} B encrypted", octets.len()),
    };
    format!("{header}: {what}")
}

fn of_data_set(message: &DataSetMessage<'_>, writer: Option<u16>) -> String {
    let encoding = |encoding| match encoding {
        FieldEncoding::Variant => "Variant",
        FieldEncoding::RawData => "RawData",
        FieldEncoding::DataValue => "DataValue",
    };
    let mut text = match message.content {
        Content::KeyFrame(fields) => {
            format!(
                "key frame, {} {}",
                fields.len(),
                encoding(fields.encoding())
            )
        }
        Content::RawData(octets) => format!("key frame, {} B RawData", octets.len()),
        Content::DeltaFrame(fields) => {
            format!(
                "delta frame, {} {}",
                fields.len(),
                encoding(fields.encoding())
            )
        }
        Content::Event(fields) => format!("event, {} Variant", fields.len()),
        Content::KeepAlive(_) => "keep-alive".to_owned(),
        Content::Heartbeat(_) => "heartbeat".to_owned(),
    };
    if let Some(writer) = writer {
        text = format!("writer {writer} {text}");
    }
    if let Some(sequence) = message.sequence {
        let _ = write!(text, ", number {sequence}");
    }
    if !message.valid {
        text.push_str(", not valid");
    }
    text
}

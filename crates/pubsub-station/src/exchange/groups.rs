//! The structures of data sets, their writers and readers.

use super::export::{mode, profile, publisher_value, record, security_group};
use super::{NAMESPACE_INDEX, Properties, RAW, SOURCE_TIME, VALUE_ATTRIBUTE};
use crate::StationError;
use crate::project::{FieldSource, GroupEntry};
use rtwire_pubsub::uabinary::{Item, Record};
use rtwire_pubsub::{DataSet, Extent, Field, Group};
use rtwire_wire::uadp::{FieldEncoding, Value};

/// Returns a time as the standard's Duration: milliseconds.
pub(super) fn milliseconds(ns: u64, what: impl Fn() -> String) -> Result<f64, StationError> {
    let ms = ns as f64 / 1e6;
    match nanoseconds(ms) {
        Some(back) if back == ns => Ok(ms),
        _ => Err(StationError::NotCarried {
            what: what(),
            why: format!(
                "{ns} ns are no exact number of milliseconds in 64 bits of floating point"
            ),
        }),
    }
}

/// Returns a Duration in ns; `None` below zero and beyond what 64 bits hold.
pub(super) fn nanoseconds(ms: f64) -> Option<u64> {
    let ns = (ms * 1e6).round();
    (0.0..1e18).contains(&ns).then_some(ns as u64)
}

/// The name of a data set in the file, where no two may be the same: with the numbers of group and writer.
fn data_set_name(group: &Group, set: &DataSet) -> String {
    format!("{}/{} ({}.{})", group.name, set.name, group.id, set.writer)
}

fn node(group: &Group, set: &DataSet, field: &Field) -> Item {
    let name = format!("{}/{}", data_set_name(group, set), field.name);
    Item::node_text(NAMESPACE_INDEX, &name)
}

/// Returns the identifier of a field in its data set: always the same for the same names (a hash, FNV-1a).
fn field_id(group: &Group, set: &DataSet, at: usize, field: &Field) -> Item {
    let text = format!("{}/{}/{at}/{}", group.name, set.name, field.name);
    let hash = |seed: u64| {
        text.bytes().fold(seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let mut octets = [0; 16];
    let halves = [hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4)];
    for (place, half) in octets.chunks_exact_mut(8).zip(halves) {
        place.copy_from_slice(&half.to_le_bytes());
    }
    // The form of an identifier that a program made up (RFC 9562, version 8).
    octets[7] = octets[7] & 0x0f | 0x80;
    octets[8] = octets[8] & 0x3f | 0x80;
    Item::Guid(octets)
}

pub(super) fn meta_data(
    group: &Group,
    set: &DataSet,
    sources: &[FieldSource],
) -> Result<Record, StationError> {
    let mut fields = Vec::new();
    for (at, field) in set.fields.iter().enumerate() {
        let mut properties = Properties::default();
        match sources.get(at) {
            None | Some(FieldSource::Program | FieldSource::Question(_)) => {}
            Some(FieldSource::Constant(value)) => properties.add("value", value.value()),
            Some(FieldSource::Text(text)) => properties.add("value", word(text)),
            Some(FieldSource::Bytes(bytes) | FieldSource::Elements(bytes)) => {
                properties.add("value", Value::ByteString(Some(bytes)));
            }
            Some(FieldSource::Counter) => properties.add("value", word("counter")),
            Some(FieldSource::NegativeCounter) => properties.add("value", word("negative-counter")),
            Some(FieldSource::Time) => properties.add("value", word("time")),
            Some(FieldSource::Sine) => properties.add("value", word("sine")),
        }
        let (rank, lengths, bytes) = match field.extent {
            Extent::Scalar => (-1_i32, None, 0),
            Extent::Bytes(most) => (-1, None, most),
            Extent::Elements(most) => (1, Some(vec![most.into()]), 0),
        };
        fields.push(
            record("FieldMetaData")?
                .with("Name", &field.name[..])
                .with("BuiltInType", field.kind.id())
                .with("DataType", Item::node_number(field.kind.id()))
                .with("ValueRank", rank)
                .with("ArrayDimensions", Item::List(lengths))
                .with("MaxStringLength", bytes)
                .with("DataSetFieldId", field_id(group, set, at, field))
                .with("Properties", properties.into_item()),
        );
    }
    let version = record("ConfigurationVersionDataType")?
        .with("MajorVersion", set.major_version)
        .with("MinorVersion", set.minor_version);
    Ok(record("DataSetMetaDataType")?
        .with("Name", &data_set_name(group, set)[..])
        .with("Fields", Item::records(fields))
        .with("ConfigurationVersion", version))
}

const fn word(word: &str) -> Value<'_> {
    Value::String(Some(word))
}

pub(super) fn published_data_set(
    group: &Group,
    set: &DataSet,
    sources: &[FieldSource],
) -> Result<Record, StationError> {
    if set.event {
        return Err(StationError::NotCarried {
            what: format!("the event `{}` of group `{}`", set.name, group.name),
            why: "the standard's file describes events by a node and a filter, which a project does not have".to_owned(),
        });
    }
    let interval = group.interval_ns as f64 / 1e6;
    let mut variables = Vec::new();
    for field in &set.fields {
        variables.push(
            record("PublishedVariableDataType")?
                .with("PublishedVariable", node(group, set, field))
                .with("AttributeId", VALUE_ATTRIBUTE)
                .with("SamplingIntervalHint", interval),
        );
    }
    let items = record("PublishedDataItemsDataType")?;
    let items = items.with("PublishedData", Item::records(variables));
    Ok(record("PublishedDataSetDataType")?
        .with("Name", &data_set_name(group, set)[..])
        .with("DataSetMetaData", meta_data(group, set, sources)?)
        .with("DataSetSource", Item::object(items)))
}

const fn field_mask(encoding: FieldEncoding) -> u32 {
    match encoding {
        FieldEncoding::RawData => RAW,
        FieldEncoding::Variant => 0,
        FieldEncoding::DataValue => SOURCE_TIME,
    }
}

pub(super) fn writer(group: &Group, set: &DataSet) -> Result<Record, StationError> {
    let settings = record("UadpDataSetWriterMessageDataType")?.with(
        "DataSetMessageContentMask",
        profile(group.profile).data_set_mask().0,
    );
    let mut properties = Properties::default();
    if set.zeros_are_data {
        properties.add("zeros-are-data", Value::Boolean(true));
    }
    Ok(record("DataSetWriterDataType")?
        .with("Name", &set.name[..])
        .with("Enabled", true)
        .with("DataSetWriterId", set.writer)
        .with("DataSetFieldContentMask", field_mask(set.encoding))
        .with("KeyFrameCount", set.key_frame_count)
        .with("DataSetName", &data_set_name(group, set)[..])
        .with("DataSetWriterProperties", properties.into_item())
        .with("MessageSettings", Item::object(settings)))
}

pub(super) fn reader(
    entry: &GroupEntry,
    set: &DataSet,
    sources: &[FieldSource],
) -> Result<Record, StationError> {
    let group = &entry.group;
    let layout = profile(group.profile);
    let what = |key: &str| format!("`{key}` of group `{}`", group.name);
    let settings = record("UadpDataSetReaderMessageDataType")?
        .with("GroupVersion", group.version)
        .with("NetworkMessageContentMask", layout.network_mask().0)
        .with("DataSetMessageContentMask", layout.data_set_mask().0)
        .with(
            "PublishingInterval",
            milliseconds(group.interval_ns, || what("interval"))?,
        );
    let timeout = milliseconds(group.receive_timeout_ns, || what("receive-timeout"))?;
    Ok(record("DataSetReaderDataType")?
        .with("Name", &set.name[..])
        .with("Enabled", true)
        .with(
            "PublisherId",
            Item::variant(publisher_value(&group.publisher)),
        )
        .with("WriterGroupId", group.id)
        .with("DataSetWriterId", set.writer)
        .with("DataSetMetaData", meta_data(group, set, sources)?)
        .with("DataSetFieldContentMask", field_mask(set.encoding))
        .with("MessageReceiveTimeout", timeout)
        .with("KeyFrameCount", set.key_frame_count)
        .with("HeaderLayoutUri", layout.uri())
        .with("SecurityMode", mode(group.security))
        .with("SecurityGroupId", security_group(entry))
        .with("MessageSettings", Item::object(settings)))
}

pub(super) fn field_target(
    group: &Group,
    set: &DataSet,
    at: usize,
    field: &Field,
) -> Result<Record, StationError> {
    Ok(record("FieldTargetDataType")?
        .with("DataSetFieldId", field_id(group, set, at, field))
        .with("TargetNodeId", node(group, set, field))
        .with("AttributeId", VALUE_ATTRIBUTE))
}

//! A project in, a configuration file out.

use super::groups::{field_target, published_data_set, reader, writer};
use super::{ETHERNET, NAMESPACE, Properties, UDP};
use crate::project::{GroupEntry, Project, RealTime, Transport};
use crate::{StationError, exchange::groups::milliseconds};
use rtwire_pubsub::security::SecurityMode;
use rtwire_pubsub::uabinary::{Item, Record, write};
use rtwire_pubsub::{Profile, Publisher};
use rtwire_wire::uadp::{self, Value};
use std::path::Path;

/// The structure in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Body {
    /// PubSubConfiguration2DataType, of version 1.05.
    #[default]
    Second,
    /// PubSubConfigurationDataType, of version 1.04: for stacks that know no other.
    First,
}

/// A structure whose name is one of the table.
pub(super) fn record(name: &str) -> Result<Record, StationError> {
    Record::named(name).ok_or_else(|| StationError::NotCarried {
        what: name.to_owned(),
        why: "the table of structures does not have it".to_owned(),
    })
}

/// Returns a project as the standard's configuration file. Groups that are streams of a plan are written as the plan has them,
/// each destination as a connection of its own.
///
/// # Errors
/// The project has something that the standard's file cannot hold; it is named.
pub fn export(project: &Project, body: Body) -> Result<Vec<u8>, StationError> {
    let mut destinations: Vec<Transport> = Vec::new();
    for entry in &project.groups {
        if entry.answer.is_some() {
            return Err(StationError::NotCarried {
                what: format!("`answers` of group `{}`", entry.group.name),
                why: "the standard's file has no answers by a driver".to_owned(),
            });
        }
        if !destinations.contains(&entry.transport) {
            destinations.push(entry.transport);
        }
    }
    let mut connections = Vec::new();
    for (nth, transport) in destinations.iter().enumerate() {
        let name = match destinations.len() {
            1 => "connection".to_owned(),
            _ => format!("connection {}", nth + 1),
        };
        let groups = project.groups.iter();
        let groups: Vec<&GroupEntry> = groups.filter(|one| one.transport == *transport).collect();
        connections.push(connection(project, &name, transport, &groups)?);
    }
    let mut sets = Vec::new();
    for entry in &project.groups {
        for (set, sources) in entry.group.data_sets.iter().zip(&entry.sources) {
            sets.push(published_data_set(&entry.group, set, sources)?);
        }
    }
    let configuration = match body {
        Body::First => record("PubSubConfigurationDataType")?,
        Body::Second => record("PubSubConfiguration2DataType")?.with("ConfigurationVersion", 1_u32),
    };
    let configuration = configuration
        .with("PublishedDataSets", Item::records(sets))
        .with("Connections", Item::records(connections))
        .with("Enabled", true);
    let namespaces = Item::List(Some(vec![NAMESPACE.into()]));
    let file = record("UABinaryFileDataType")?
        .with("Namespaces", namespaces)
        .with("Body", Item::object(configuration));
    Ok(write(&file)?)
}

/// Returns the URL of a destination (OPC 10000-14, 7.3.2 and 7.3.3).
pub(super) fn url(transport: &Transport) -> String {
    match transport {
        Transport::Udp { address } => format!("opc.udp://{address}"),
        Transport::Ethernet { address, vlan } => {
            let mac = address.to_string().replace(':', "-").to_uppercase();
            match vlan {
                Some(tag) => format!("opc.eth://{mac}:{}.{}", tag.vid, tag.pcp.get()),
                None => format!("opc.eth://{mac}"),
            }
        }
    }
}

pub(super) fn publisher_value(publisher: &Publisher) -> Value<'_> {
    match publisher {
        Publisher::Byte(id) => Value::Byte(*id),
        Publisher::UInt16(id) => Value::UInt16(*id),
        Publisher::UInt32(id) => Value::UInt32(*id),
        Publisher::UInt64(id) => Value::UInt64(*id),
        Publisher::String(id) => Value::String(Some(id)),
    }
}

fn connection(
    project: &Project,
    name: &str,
    transport: &Transport,
    groups: &[&GroupEntry],
) -> Result<Record, StationError> {
    let connection = &project.connection;
    let mut address = record("NetworkAddressUrlDataType")?.with("Url", &url(transport)[..]);
    if let Some(interface) = &connection.interface {
        address = address.with("NetworkInterface", &interface[..]);
    }
    let profile = match transport {
        Transport::Ethernet { .. } => ETHERNET,
        Transport::Udp { .. } => UDP,
    };
    let (mut writers, mut readers) = (Vec::new(), Vec::new());
    for entry in groups {
        writers.push(writer_group(project, entry)?);
        readers.push(reader_group(entry)?);
    }
    Ok(record("PubSubConnectionDataType")?
        .with("Name", name)
        .with("Enabled", true)
        .with(
            "PublisherId",
            Item::variant(publisher_value(&connection.publisher)),
        )
        .with("TransportProfileUri", profile)
        .with("Address", Item::object(address))
        .with(
            "ConnectionProperties",
            connection_properties(project).into_item(),
        )
        .with("WriterGroups", Item::records(writers))
        .with("ReaderGroups", Item::records(readers)))
}

/// The settings of the threads, and the address of discovery.
fn connection_properties(project: &Project) -> Properties {
    let mut properties = real_time(&project.real_time);
    if let Some(discovery) = &project.connection.discovery {
        properties.add("discovery", Value::String(Some(&url(discovery))));
    }
    properties
}

/// The settings of the threads, where they are not the usual ones.
fn real_time(settings: &RealTime) -> Properties {
    let mut properties = Properties::default();
    let usual = RealTime::default();
    if settings.priority != usual.priority {
        let priority = settings.priority.unwrap_or(0);
        properties.add("real-time.priority", Value::UInt32(u32::from(priority)));
    }
    if let Some(cpu) = settings.cpu {
        properties.add("real-time.cpu", Value::UInt64(cpu as u64));
    }
    if settings.spin_ns != usual.spin_ns {
        properties.add("real-time.spin", Value::UInt64(settings.spin_ns));
    }
    if settings.receive_spin_ns != usual.receive_spin_ns {
        let spin = Value::UInt64(settings.receive_spin_ns);
        properties.add("real-time.receive-spin", spin);
    }
    if settings.path != usual.path {
        properties.add("real-time.path", Value::String(Some(settings.path.name())));
    }
    if let Some(priority) = settings.socket_priority {
        properties.add("real-time.socket-priority", Value::UInt32(priority));
    }
    properties
}

pub(super) const fn mode(security: SecurityMode) -> i32 {
    match security {
        SecurityMode::None => 1,
        SecurityMode::Sign => 2,
        SecurityMode::SignAndEncrypt => 3,
    }
}

pub(super) const fn profile(profile: Profile) -> uadp::Profile {
    match profile {
        Profile::Fixed => uadp::Profile::PeriodicFixed,
        Profile::Dynamic => uadp::Profile::Dynamic,
    }
}

/// The group of keys is named after the key file.
pub(super) fn security_group(entry: &GroupEntry) -> Item {
    let files = entry.security.as_ref();
    let stem = files.and_then(|files| files.keys.file_stem());
    Item::String(stem.map(|stem| stem.to_string_lossy().into_owned()))
}

pub(super) fn writer_group(project: &Project, entry: &GroupEntry) -> Result<Record, StationError> {
    let group = &entry.group;
    let what = |key: &str| format!("`{key}` of group `{}`", group.name);
    let layout = profile(group.profile);
    let mut settings = record("UadpWriterGroupMessageDataType")?
        .with("GroupVersion", group.version)
        // One message for each data set, or several in one.
        .with(
            "DataSetOrdering",
            if group.profile == Profile::Fixed {
                2_i32
            } else {
                1
            },
        )
        .with("NetworkMessageContentMask", layout.network_mask().0)
        .with("SamplingOffset", -1.0);
    if group.offset_ns > 0 {
        let offset = milliseconds(group.offset_ns, || what("offset"))?;
        settings = settings.with("PublishingOffset", Item::List(Some(vec![offset.into()])));
    }
    let mut properties = Properties::default();
    if let Some(files) = &entry.security {
        let folder = project.path.parent().unwrap_or(Path::new(""));
        let relative = |file: &Path| {
            let file = file.strip_prefix(folder).unwrap_or(file);
            file.to_string_lossy().into_owned()
        };
        properties.add("key-file", Value::String(Some(&relative(&files.keys))));
        if files.nonces != files.keys.with_extension("nonces") {
            properties.add("nonce-file", Value::String(Some(&relative(&files.nonces))));
        }
        if files.accept_repeated_nonces {
            properties.add("accept-repeated-nonces", Value::Boolean(true));
        }
    }
    let mut writers = Vec::new();
    for set in &group.data_sets {
        writers.push(writer(group, set)?);
    }
    Ok(record("WriterGroupDataType")?
        .with("Name", &group.name[..])
        .with("Enabled", true)
        .with("SecurityMode", mode(group.security))
        .with("SecurityGroupId", security_group(entry))
        .with("GroupProperties", properties.into_item())
        .with("WriterGroupId", group.id)
        .with(
            "PublishingInterval",
            milliseconds(group.interval_ns, || what("interval"))?,
        )
        .with(
            "KeepAliveTime",
            milliseconds(group.keep_alive_ns, || what("keep-alive"))?,
        )
        .with("Priority", entry.pcp)
        .with("HeaderLayoutUri", layout.uri())
        .with("MessageSettings", Item::object(settings))
        .with("DataSetWriters", Item::records(writers)))
}

fn reader_group(entry: &GroupEntry) -> Result<Record, StationError> {
    let mut readers = Vec::new();
    for (set, sources) in entry.group.data_sets.iter().zip(&entry.sources) {
        let targets = record("TargetVariablesDataType")?.with(
            "TargetVariables",
            Item::records(
                set.fields
                    .iter()
                    .enumerate()
                    .map(|(at, field)| field_target(&entry.group, set, at, field))
                    .collect::<Result<_, _>>()?,
            ),
        );
        let one = reader(entry, set, sources)?;
        readers.push(one.with("SubscribedDataSet", Item::object(targets)));
    }
    Ok(record("ReaderGroupDataType")?
        .with("Name", &entry.group.name[..])
        .with("Enabled", true)
        .with("SecurityMode", mode(entry.group.security))
        .with("SecurityGroupId", security_group(entry))
        .with("DataSetReaders", Item::records(readers)))
}

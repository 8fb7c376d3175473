//! The descriptions that a publisher announces of its project, and the project that announcements make.

use super::export::{publisher_value, record, url, writer_group};
use super::groups::meta_data;
use super::{Choice, ETHERNET, Imported, Side, UDP, import};
use crate::StationError;
use crate::project::{GroupEntry, Project, Transport};
use rtwire_pubsub::Publisher;
use rtwire_pubsub::discovery::{Description, Learned};
use rtwire_pubsub::uabinary::{Item, Record, write};
use std::path::Path;

/// Returns the descriptions of a group: its configuration, and the metadata of its data sets. What only rtwire knows, such as files of keys and
/// sources of values, is not told.
///
/// # Errors
/// The group has something that the standard's structures cannot hold.
pub fn descriptions(
    project: &Project,
    entry: &GroupEntry,
) -> Result<Vec<Description>, StationError> {
    let group = &entry.group;
    let none = || Item::List(None);
    let own = writer_group(project, entry)?;
    let bare = own
        .records("DataSetWriters")
        .map(|writer| writer.clone().with("DataSetWriterProperties", none()));
    let bare = Item::records(bare.collect());
    let configuration = own
        .clone()
        .with("GroupProperties", none())
        .with("DataSetWriters", bare);
    let mut all = vec![Description::Group {
        group: group.id,
        writers: group.data_sets.iter().map(|set| set.writer).collect(),
        configuration,
    }];
    for set in &group.data_sets {
        all.push(Description::MetaData {
            writer: set.writer,
            meta: meta_data(group, set, &[])?,
        });
    }
    Ok(all)
}

/// Returns the project of what a publisher has announced, as [`import`] returns that of a file. The announcements do not tell the address of
/// messages: it is `address`.
///
/// # Errors
/// Something is announced that a project cannot have; it is named.
pub fn discovered(
    learned: &[Learned],
    publisher: &Publisher,
    address: &Transport,
    path: &Path,
) -> Result<Imported, StationError> {
    let name = |writer: u64| format!("writer {writer}");
    let (mut groups, mut sets): (Vec<Record>, Vec<Record>) = (Vec::new(), Vec::new());
    for one in learned {
        match one {
            Learned::Group { configuration, .. } => {
                let writers = configuration.records("DataSetWriters").map(|writer| {
                    let id = writer.number("DataSetWriterId");
                    writer.clone().with("DataSetName", &name(id)[..])
                });
                let writers = Item::records(writers.collect());
                groups.push(configuration.clone().with("DataSetWriters", writers));
            }
            Learned::MetaData { writer, meta } => sets.push(
                record("PublishedDataSetDataType")?
                    .with("Name", &name(u64::from(*writer))[..])
                    .with("DataSetMetaData", meta.clone()),
            ),
            Learned::Refused { .. } => {}
        }
    }
    let profile = match address {
        Transport::Ethernet { .. } => ETHERNET,
        Transport::Udp { .. } => UDP,
    };
    let place = record("NetworkAddressUrlDataType")?.with("Url", &url(address)[..]);
    let connection = record("PubSubConnectionDataType")?
        .with("Name", "connection")
        .with("Enabled", true)
        .with("PublisherId", Item::variant(publisher_value(publisher)))
        .with("TransportProfileUri", profile)
        .with("Address", Item::object(place))
        .with("WriterGroups", Item::records(groups));
    let body = record("PubSubConfiguration2DataType")?
        .with("PublishedDataSets", Item::records(sets))
        .with("Connections", Item::records(vec![connection]))
        .with("Enabled", true);
    let file = record("UABinaryFileDataType")?.with("Body", Item::object(body));
    let choice = Choice {
        side: Some(Side::Writers),
        ..Choice::default()
    };
    import(&write(&file)?, path, &choice)
}

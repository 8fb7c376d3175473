//! Discovery: a subscriber asks, a publisher describes itself (Part 14, 7.2.4.6).
//!
//! The large structures of announcements (metadata, configurations) stay as octets.

use super::bytes::{Reader, Writer};
use super::header::WriterIds;
use super::variant::Elements;
use super::{BuiltIn, UadpError};

/// A subscriber's question to publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe<'a> {
    /// Asks for information about one publisher, which the header's PublisherId names.
    Information(Information<'a>),
    /// Asks all publishers to describe their applications.
    FindApplications,
}

/// The information that a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Information<'a> {
    /// The endpoints of the publisher's server.
    Endpoints,
    /// The metadata of these writers' data sets.
    MetaData(WriterIds<'a>),
    /// The configuration of these writers.
    WriterConfiguration(WriterIds<'a>),
    /// The configuration of a writer group.
    WriterGroup {
        /// The number of the writer group.
        writer_group_id: u16,
        /// True if the group's writers are to be included.
        include_writers: bool,
    },
    /// The configuration of the publisher's connections.
    Connections {
        /// The transport profiles of interest, as `String`s; all if there is none.
        transport_profiles: Option<Elements<'a>>,
        /// True if the writer groups are to be included.
        include_groups: bool,
        /// True if the groups' writers are to be included.
        include_writers: bool,
    },
}

/// A publisher's description of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// The number of announcements that the publisher has sent.
    pub sequence: u16,
    /// The description.
    pub content: AnnouncementContent<'a>,
}

/// The content of an announcement. Bodies are octets up to the payload's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementContent<'a> {
    /// The endpoints of the publisher's server: `EndpointDescription[]` and a status code.
    Endpoints(&'a [u8]),
    /// The metadata of a writer's data set.
    MetaData {
        /// The writer.
        writer_id: u16,
        /// A `DataSetMetaDataType` and a status code.
        body: &'a [u8],
    },
    /// The configuration of writers.
    WriterConfiguration {
        /// The writers.
        writer_ids: WriterIds<'a>,
        /// A `WriterGroupDataType` and a status code for each writer.
        body: &'a [u8],
    },
    /// The configuration of the publisher's connections.
    Connections(&'a [u8]),
    /// The description of the application, or its status.
    Application(&'a [u8]),
    /// Another announcement, by its number.
    Other {
        /// The type: neither 0 nor one of the above.
        kind: u8,
        /// The content.
        body: &'a [u8],
    },
}

/// Reads a `UInt16[]`. A null array is read as an empty one.
fn read_ids<'a>(reader: &mut Reader<'a>) -> Result<WriterIds<'a>, UadpError> {
    const WHAT: &str = "DataSetWriterIds";
    let count = reader.length(WHAT)?.unwrap_or(0);
    Ok(WriterIds::encoded(reader.take(WHAT, count * 2)?))
}

fn write_ids(writer: &mut Writer<'_>, ids: &WriterIds<'_>) -> Result<(), UadpError> {
    writer.length(Some(ids.len()))?;
    ids.iter().try_for_each(|id| writer.u16(id))
}

impl<'a> Probe<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let at = reader.offset();
        match reader.u8("ProbeType")? {
            1 => Ok(Self::Information(Information::read(reader)?)),
            2 => Ok(Self::FindApplications),
            found => Err(UadpError::Reserved {
                what: "ProbeType",
                at,
                found: u64::from(found),
            }),
        }
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        match self {
            Self::Information(information) => {
                writer.u8(1)?;
                information.write(writer)
            }
            Self::FindApplications => writer.u8(2),
        }
    }
}

impl<'a> Information<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let at = reader.offset();
        Ok(match reader.u8("InformationType")? {
            1 => Self::Endpoints,
            2 => Self::MetaData(read_ids(reader)?),
            3 => Self::WriterConfiguration(read_ids(reader)?),
            4 => Self::WriterGroup {
                writer_group_id: reader.u16("WriterGroupId")?,
                include_writers: reader.u8("IncludeDataSetWriters")? != 0,
            },
            5 => Self::Connections {
                transport_profiles: match reader.length("TransportProfileUris")? {
                    Some(count) => Some(Elements::read(reader, BuiltIn::String, count, 0)?),
                    None => None,
                },
                include_groups: reader.u8("IncludeWriterGroups")? != 0,
                include_writers: reader.u8("IncludeDataSetWriters")? != 0,
            },
            found => {
                return Err(UadpError::Reserved {
                    what: "InformationType",
                    at,
                    found: u64::from(found),
                });
            }
        })
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        match self {
            Self::Endpoints => writer.u8(1),
            Self::MetaData(ids) => {
                writer.u8(2)?;
                write_ids(writer, ids)
            }
            Self::WriterConfiguration(ids) => {
                writer.u8(3)?;
                write_ids(writer, ids)
            }
            Self::WriterGroup {
                writer_group_id,
                include_writers,
            } => {
                writer.u8(4)?;
                writer.u16(*writer_group_id)?;
                writer.u8(u8::from(*include_writers))
            }
            Self::Connections {
                transport_profiles,
                include_groups,
                include_writers,
            } => {
                writer.u8(5)?;
                writer.length(transport_profiles.map(|profiles| profiles.len()))?;
                if let Some(profiles) = transport_profiles {
                    profiles.write(writer, BuiltIn::String)?;
                }
                writer.put(&[u8::from(*include_groups), u8::from(*include_writers)])
            }
        }
    }
}

impl<'a> Announcement<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, UadpError> {
        let at = reader.offset();
        let kind = reader.u8("AnnouncementType")?;
        let sequence = reader.u16("the announcement's SequenceNumber")?;
        let content = match kind {
            0 => {
                return Err(UadpError::Reserved {
                    what: "AnnouncementType",
                    at,
                    found: 0,
                });
            }
            1 => AnnouncementContent::Endpoints(reader.rest()),
            2 => AnnouncementContent::MetaData {
                writer_id: reader.u16("DataSetWriterId")?,
                body: reader.rest(),
            },
            3 => AnnouncementContent::WriterConfiguration {
                writer_ids: read_ids(reader)?,
                body: reader.rest(),
            },
            4 => AnnouncementContent::Connections(reader.rest()),
            5 => AnnouncementContent::Application(reader.rest()),
            kind => AnnouncementContent::Other {
                kind,
                body: reader.rest(),
            },
        };
        Ok(Self { sequence, content })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), UadpError> {
        let kind = match self.content {
            AnnouncementContent::Endpoints(_) => 1,
            AnnouncementContent::MetaData { .. } => 2,
            AnnouncementContent::WriterConfiguration { .. } => 3,
            AnnouncementContent::Connections(_) => 4,
            AnnouncementContent::Application(_) => 5,
            AnnouncementContent::Other { kind: 0..=5, .. } => {
                return Err(UadpError::Inconsistent {
                    what: "this AnnouncementType is reserved or has a name of its own",
                });
            }
            AnnouncementContent::Other { kind, .. } => kind,
        };
        writer.u8(kind)?;
        writer.u16(self.sequence)?;
        match &self.content {
            AnnouncementContent::MetaData { writer_id, body } => {
                writer.u16(*writer_id)?;
                writer.put(body)
            }
            AnnouncementContent::WriterConfiguration { writer_ids, body } => {
                write_ids(writer, writer_ids)?;
                writer.put(body)
            }
            AnnouncementContent::Endpoints(body)
            | AnnouncementContent::Connections(body)
            | AnnouncementContent::Application(body)
            | AnnouncementContent::Other { body, .. } => writer.put(body),
        }
    }
}

//! Discovery without I/O: a publisher that describes itself when it is asked, and what a subscriber asks and learns (OPC 10000-14, 7.2.4.6).
//!
//! ```text
//!  probe (PublisherId, writers) ─► Announcer ─► announcements: metadata of each data set, configuration of each writer group
//!                                   waits 100 to 500 ms: one answer for all who ask
//!  announcement ─► learn ─► Learned: DataSetMetaDataType, WriterGroupDataType
//! ```
//!
//! # Limits
//! Descriptions are not secured, and each has to fit into one frame. Probes for endpoints, connections and applications are passed over.

use crate::config::Publisher;
use crate::uabinary::{Record, UabinaryFault, read_structure, write_structure};
use rtwire_wire::uadp::{
    Announcement, AnnouncementContent, Body, Header, Information, MessageKind, NetworkMessage,
    Probe, SecurityHeader, UadpError, WriterIds,
};
use rtwire_wire::{Node, Outbox};

/// The longest message behind the Ethernet header; datagrams have 28 bytes less.
const MOST_BYTES: usize = 1472;
/// The time in ns before an answer, at least: publishers do not answer all at once.
const LEAST_WAIT_NS: u64 = 100_000_000;
/// The time in ns before an answer, at most.
const MOST_WAIT_NS: u64 = 500_000_000;

/// The fault of a description or of an announcement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryFault {
    /// A structure cannot be written or read.
    #[error(transparent)]
    Structure(#[from] UabinaryFault),
    /// A message cannot be written or read.
    #[error("a discovery message is faulty: {0}")]
    Message(UadpError),
    /// A description is longer than a frame.
    #[error(
        "the description of {what} has {bytes} bytes, but {MOST_BYTES} fit into a frame; give it fewer fields or shorter names, or switch discovery off"
    )]
    TooLong {
        /// The data set or the group.
        what: String,
        /// The bytes of its announcement.
        bytes: usize,
    },
}

impl From<UadpError> for DiscoveryFault {
    fn from(fault: UadpError) -> Self {
        Self::Message(fault)
    }
}

/// A part of a publisher that it describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// The metadata of a writer's data set.
    MetaData {
        /// The writer.
        writer: u16,
        /// The `DataSetMetaDataType`.
        meta: Record,
    },
    /// The configuration of a writer group and its writers.
    Group {
        /// The WriterGroupId.
        group: u16,
        /// The writers.
        writers: Vec<u16>,
        /// The `WriterGroupDataType`.
        configuration: Record,
    },
}

/// The content of an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The metadata of a writer's data set.
    MetaData {
        /// The writer.
        writer: u16,
        /// The `DataSetMetaDataType`.
        meta: Record,
    },
    /// The configuration of a writer group.
    Group {
        /// The writers that it is about.
        writers: Vec<u16>,
        /// The `WriterGroupDataType`.
        configuration: Record,
    },
    /// The publisher does not have it: the status code of its answer.
    Refused {
        /// The writers that were asked for.
        writers: Vec<u16>,
        /// The status code.
        status: u32,
    },
}

impl Learned {
    /// Returns true where both describe the same data set, or the same writer group.
    #[must_use]
    pub fn is_about_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MetaData { writer, .. }, Self::MetaData { writer: same, .. }) => writer == same,
            (
                Self::Group { configuration, .. },
                Self::Group {
                    configuration: other,
                    ..
                },
            ) => configuration.number("WriterGroupId") == other.number("WriterGroupId"),
            _ => false,
        }
    }
}

/// Counters of discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryCounters {
    /// Probes to this publisher.
    pub probes: u64,
    /// Probes to others, and other messages.
    pub foreign: u64,
    /// Probes that could not be read.
    pub malformed: u64,
    /// Announcements sent.
    pub announcements: u64,
}

#[derive(Debug)]
struct Entry {
    writers: Vec<u16>,
    /// The group that it describes; `None`: metadata.
    group: Option<u16>,
    body: Vec<u8>,
    due_ns: Option<u64>,
}

/// A publisher that answers probes, as a node.
#[derive(Debug)]
pub struct Announcer {
    publisher: Publisher,
    entries: Vec<Entry>,
    buffer: Vec<u8>,
    prefix: usize,
    header_bytes: usize,
    sequence: u16,
    draw: u64,
    counters: DiscoveryCounters,
}

impl Announcer {
    /// Makes a node that describes `publisher`. Its messages follow `prefix`, an Ethernet header or nothing; `header_bytes` is the length of what
    /// stands before a message that it receives. `seed` chooses the waits before answers: another one at each publisher.
    ///
    /// # Errors
    /// A description is longer than a frame, or no such structure.
    pub fn new(
        publisher: Publisher,
        prefix: &[u8],
        header_bytes: usize,
        descriptions: &[Description],
        seed: u64,
    ) -> Result<Self, DiscoveryFault> {
        let mut buffer = vec![0; prefix.len() + MOST_BYTES];
        buffer[..prefix.len()].copy_from_slice(prefix);
        let mut this = Self {
            publisher,
            entries: Vec::new(),
            buffer,
            prefix: prefix.len(),
            header_bytes,
            sequence: 0,
            draw: seed | 1,
            counters: DiscoveryCounters::default(),
        };
        for description in descriptions {
            let entry = entry(description)?;
            let (what, bytes) = (description.name(), entry.body.len());
            this.entries.push(entry);
            if this.write(this.entries.len() - 1).is_err() {
                let bytes = bytes + 2 * description.writers().len() + 30;
                return Err(DiscoveryFault::TooLong { what, bytes });
            }
        }
        Ok(this)
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> DiscoveryCounters {
        self.counters
    }

    /// Returns a wait before an answer (xorshift).
    const fn wait_ns(&mut self) -> u64 {
        self.draw ^= self.draw << 13;
        self.draw ^= self.draw >> 7;
        self.draw ^= self.draw << 17;
        LEAST_WAIT_NS + self.draw % (MOST_WAIT_NS - LEAST_WAIT_NS)
    }

    /// Takes a message. A probe for this publisher is answered later, once for all that come until then.
    fn receive(&mut self, now_ns: u64, message: &[u8]) {
        let Ok((header, at)) = Header::parse(message) else {
            self.counters.malformed += 1;
            return;
        };
        let ours = header.publisher_id == Some(self.publisher.id());
        if header.kind != MessageKind::Probe || !ours {
            self.counters.foreign += 1;
            return;
        }
        let payload = message.get(at..).unwrap_or_default();
        let Ok(Body::Probe(probe)) = Body::parse(&header, payload, at) else {
            self.counters.malformed += 1;
            return;
        };
        self.counters.probes += 1;
        let due_ns = now_ns.saturating_add(self.wait_ns());
        let (wants_group, ids, id) = match probe {
            Probe::Information(Information::MetaData(ids)) => (false, Some(ids), None),
            Probe::Information(Information::WriterConfiguration(ids)) => (true, Some(ids), None),
            Probe::Information(Information::WriterGroup {
                writer_group_id, ..
            }) => (true, None, Some(writer_group_id)),
            _ => return,
        };
        for entry in &mut self.entries {
            let about = wants_group == entry.group.is_some();
            // Without a list, or with an empty one, all are asked for.
            let named = ids.is_none_or(|ids| {
                ids.is_empty() || ids.iter().any(|id| entry.writers.contains(&id))
            });
            if about && named && id.is_none_or(|id| entry.group == Some(id)) {
                let earlier = entry.due_ns.unwrap_or(u64::MAX);
                entry.due_ns = Some(earlier.min(due_ns));
            }
        }
    }

    /// Writes an announcement into the buffer. Returns the frame's end.
    fn write(&mut self, nth: usize) -> Result<usize, UadpError> {
        let Some(entry) = self.entries.get(nth) else {
            return Ok(0);
        };
        let body = &entry.body[..];
        let content = match entry.group {
            None => AnnouncementContent::MetaData {
                writer_id: entry.writers.first().copied().unwrap_or(0),
                body,
            },
            Some(_) => AnnouncementContent::WriterConfiguration {
                writer_ids: WriterIds::of(&entry.writers),
                body,
            },
        };
        let message = NetworkMessage::new(
            header(&self.publisher, MessageKind::Announcement),
            Body::Announcement(Announcement {
                sequence: self.sequence,
                content,
            }),
        );
        let out = self.buffer.get_mut(self.prefix..).unwrap_or_default();
        Ok(self.prefix + message.emit(out)?)
    }
}

impl Node for Announcer {
    fn start(&mut self, _now_ns: u64, _outbox: &mut dyn Outbox) {}

    fn frame(&mut self, now_ns: u64, frame: &[u8], _outbox: &mut dyn Outbox) {
        if let Some(message) = frame.get(self.header_bytes..) {
            self.receive(now_ns, message);
        }
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        for nth in 0..self.entries.len() {
            let due = self.entries.get_mut(nth).and_then(|entry| {
                let due = entry.due_ns.filter(|due| *due <= now_ns);
                if due.is_some() {
                    entry.due_ns = None;
                }
                due
            });
            if due.is_none() {
                continue;
            }
            // It fitted when it was made, and its length does not change.
            if let Ok(end) = self.write(nth) {
                outbox.send(self.buffer.get(..end).unwrap_or_default(), None);
                self.sequence = self.sequence.wrapping_add(1);
                self.counters.announcements += 1;
            }
        }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.entries.iter().filter_map(|entry| entry.due_ns).min()
    }
}

impl Description {
    fn writers(&self) -> &[u16] {
        match self {
            Self::MetaData { writer, .. } => core::slice::from_ref(writer),
            Self::Group { writers, .. } => writers,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::MetaData { writer, .. } => format!("the data set of writer {writer}"),
            Self::Group { group, .. } => format!("writer group {group}"),
        }
    }
}

/// Returns the header of a discovery message. It has a security header even where nothing is secured, so that its first
/// bytes are known (7.2.4.6.3, 7.2.4.6.12.1). Messages without one are read, too.
fn header(publisher: &Publisher, kind: MessageKind) -> Header<'_> {
    Header {
        kind,
        publisher_id: Some(publisher.id()),
        security: Some(SecurityHeader::default()),
        ..Header::default()
    }
}

/// Returns the body of a description: the structure, and a status code of good for each writer.
fn entry(description: &Description) -> Result<Entry, DiscoveryFault> {
    let writers = description.writers().to_vec();
    let (group, body) = match description {
        Description::MetaData { meta, .. } => {
            let mut body = write_structure(meta)?;
            body.extend(0_u32.to_le_bytes());
            (None, body)
        }
        Description::Group {
            group,
            configuration,
            ..
        } => {
            let mut body = write_structure(configuration)?;
            body.extend(u32::try_from(writers.len()).unwrap_or(0).to_le_bytes());
            body.extend(writers.iter().flat_map(|_| 0_u32.to_le_bytes()));
            (Some(*group), body)
        }
    };
    Ok(Entry {
        writers,
        group,
        body,
        due_ns: None,
    })
}

/// Writes a probe to a publisher. Empty lists of writers ask for all.
///
/// # Errors
/// The identifier is too long.
pub fn probe(publisher: &Publisher, information: Information<'_>) -> Result<Vec<u8>, UadpError> {
    let header = header(publisher, MessageKind::Probe);
    let message = NetworkMessage::new(header, Body::Probe(Probe::Information(information)));
    let mut out = vec![0; MOST_BYTES];
    let bytes = message.emit(&mut out)?;
    out.truncate(bytes);
    Ok(out)
}

/// Reads an announcement of `publisher` about metadata or a writer group. Returns `None` for other messages.
///
/// # Errors
/// It is one, and cannot be read.
pub fn learn(publisher: &Publisher, message: &[u8]) -> Result<Option<Learned>, DiscoveryFault> {
    let Ok((header, at)) = Header::parse(message) else {
        return Ok(None);
    };
    if header.kind != MessageKind::Announcement || header.publisher_id != Some(publisher.id()) {
        return Ok(None);
    }
    let payload = message.get(at..).unwrap_or_default();
    let Body::Announcement(announcement) = Body::parse(&header, payload, at)? else {
        return Ok(None);
    };
    match announcement.content {
        AnnouncementContent::MetaData { writer_id, body } => {
            let (meta, end) = read_structure("DataSetMetaDataType", body)?;
            let status = status(body.get(end..));
            Ok(Some(match refusal(status) {
                None => Learned::MetaData {
                    writer: writer_id,
                    meta,
                },
                Some(status) => Learned::Refused {
                    writers: vec![writer_id],
                    status,
                },
            }))
        }
        AnnouncementContent::WriterConfiguration { writer_ids, body } => {
            let (configuration, end) = read_structure("WriterGroupDataType", body)?;
            let writers: Vec<u16> = writer_ids.iter().collect();
            // Behind the number of codes.
            let status = status(body.get(end + 4..));
            Ok(Some(match refusal(status) {
                None => Learned::Group {
                    writers,
                    configuration,
                },
                Some(status) => Learned::Refused { writers, status },
            }))
        }
        _ => Ok(None),
    }
}

/// Returns the status code at the front; good where there is none.
fn status(bytes: Option<&[u8]>) -> u32 {
    match bytes {
        Some([a, b, c, d, ..]) => u32::from_le_bytes([*a, *b, *c, *d]),
        _ => 0,
    }
}

/// Returns the status code where it is a bad one.
fn refusal(status: u32) -> Option<u32> {
    (status >> 30 == 2).then_some(status)
}

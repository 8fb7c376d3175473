//! A configuration file in, a project out.

use super::parse::{destination, id, interval, name, profile, publisher, security, small};
use super::{NAMESPACE, RAW, SOURCE_TIME, property, text};
use crate::StationError;
use crate::exchange::groups::nanoseconds;
use crate::project::{
    Connection, FieldSource, GroupEntry, Project, RealTime, SecurityFiles, Transport,
    usual_timeout_ns,
};
use rtwire_pubsub::uabinary::{Item, Object, Record, read};
use rtwire_pubsub::{
    DataSet, Extent, Field, Group, MOST_FIELD_BYTES, Publisher, Scalar, ScalarArray, is_bytes,
    scalar_bytes,
};
use rtwire_wire::uadp::{BuiltIn, FieldEncoding, Value};
use std::path::Path;

/// The room for texts and arrays whose largest length the file does not tell.
const UNSTATED_BYTES: u32 = 256;
const UNSTATED_ELEMENTS: u32 = 64;

/// The part of the file to take.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Choice {
    /// The connection's name; needed where there are several.
    pub connection: Option<String>,
    /// The writer groups or the readers; without it the writer groups if there are any.
    pub side: Option<Side>,
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The data sets that it publishes.
    Writers,
    /// The data sets that it subscribes to.
    Readers,
}

/// A project and what was left out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The project.
    pub project: Project,
    /// The parts of the file that a project has not, one sentence each.
    pub notes: Vec<String>,
}

fn refused(what: impl Into<String>, why: impl Into<String>) -> StationError {
    StationError::NotCarried {
        what: what.into(),
        why: why.into(),
    }
}

/// Reads a configuration file as the project whose file will be `path`: files of keys are looked for in its folder.
///
/// # Errors
/// The file is damaged: the field and its offset are told. It has what a project cannot have: it is named.
pub fn import(bytes: &[u8], path: &Path, choice: &Choice) -> Result<Imported, StationError> {
    let file = read(bytes)?;
    let of_ours = |item: &Item| matches!(item, Item::String(Some(uri)) if uri == NAMESPACE);
    let place = file.list("Namespaces").iter().position(of_ours);
    let mut import = Import {
        // The file leaves out the standard's namespace, which has the number 0.
        namespace: place.and_then(|at| u16::try_from(at + 1).ok()),
        folder: path.parent().unwrap_or(Path::new("")),
        notes: Vec::new(),
    };
    let second = file.object("Body", "PubSubConfiguration2DataType");
    let body = second.or_else(|| file.object("Body", "PubSubConfigurationDataType"));
    let body = body.ok_or_else(|| {
        refused(
            "the file's body",
            "it is no PubSubConfiguration2DataType and no PubSubConfigurationDataType",
        )
    })?;
    for (list, what) in [
        ("SubscribedDataSets", "standalone subscribed data sets"),
        ("DataSetClasses", "data set classes"),
        ("DefaultSecurityKeyServices", "security key services"),
        ("SecurityGroups", "security groups (keys come from a file)"),
        ("PubSubKeyPushTargets", "key push targets"),
    ] {
        if !body.list(list).is_empty() {
            import.notes.push(format!("left out: {what}"));
        }
    }
    if body.number("Enabled") == 0 {
        import
            .notes
            .push("the configuration is disabled in the file; a project runs".to_owned());
    }
    let connection = chosen(body, choice)?;
    let project = import.connection(body, connection, path, choice.side)?;
    // All that a project's file is checked for.
    let project = Project::parse(&text(&project), path)?;
    Ok(Imported {
        project,
        notes: import.notes,
    })
}

fn chosen<'r>(body: &'r Record, choice: &Choice) -> Result<&'r Record, StationError> {
    let all: Vec<&Record> = body.records("Connections").collect();
    let names: Vec<&str> = all.iter().map(|one| one.text("Name")).collect();
    match (&choice.connection, &all[..]) {
        (_, []) => Err(refused("the configuration", "it has no connection")),
        (Some(name), _) => all
            .iter()
            .find(|one| one.text("Name") == name)
            .copied()
            .ok_or_else(|| StationError::NoSuch {
                what: "connection",
                name: name.clone(),
                there: names.join(", "),
            }),
        (None, [one]) => Ok(one),
        (None, _) => Err(refused(
            format!("{} connections ({})", all.len(), names.join(", ")),
            "a project has one; choose it with --connection",
        )),
    }
}

struct Import<'p> {
    namespace: Option<u16>,
    folder: &'p Path,
    notes: Vec<String>,
}

impl Import<'_> {
    fn property<'r>(&self, record: &'r Record, list: &str, name: &str) -> Option<Value<'r>> {
        property(record, list, self.namespace, name)
    }

    fn note_disabled(&mut self, what: &str, record: &Record) {
        if record.number("Enabled") == 0 {
            let name = record.text("Name");
            self.notes.push(format!(
                "{what} `{name}` is disabled in the file; a project runs all"
            ));
        }
    }

    fn connection(
        &mut self,
        body: &Record,
        connection: &Record,
        path: &Path,
        side: Option<Side>,
    ) -> Result<Project, StationError> {
        let name = connection.text("Name");
        let what = format!("connection `{name}`");
        self.note_disabled("connection", connection);
        let address = connection.object("Address", "NetworkAddressUrlDataType");
        let address =
            address.ok_or_else(|| refused(&what, "its Address is no NetworkAddressUrlDataType"))?;
        let transport = destination(connection.text("TransportProfileUri"), address.text("Url"))
            .map_err(|why| refused(&what, why))?;
        let any = |list| !connection.list(list).is_empty();
        let side = side.unwrap_or(if any("WriterGroups") {
            Side::Writers
        } else {
            Side::Readers
        });
        let (publisher, groups) = match side {
            Side::Writers => {
                let publisher = publisher(connection.variant("PublisherId"))
                    .map_err(|why| refused(&what, why))?;
                let mut groups = Vec::new();
                for group in connection.records("WriterGroups") {
                    groups.push(self.writer_group(body, connection, group, &publisher, transport)?);
                }
                (publisher, groups)
            }
            Side::Readers => self.reader_groups(connection, transport)?,
        };
        if groups.is_empty() {
            return Err(refused(
                what,
                "it has neither writer groups nor readers to take",
            ));
        }
        let interface = address.text("NetworkInterface");
        Ok(Project {
            path: path.to_owned(),
            connection: Connection {
                interface: (!interface.is_empty()).then(|| interface.to_owned()),
                publisher,
                discovery: self.discovery(connection),
            },
            real_time: self.real_time(connection),
            groups,
        })
    }

    fn discovery(&self, connection: &Record) -> Option<Transport> {
        let found = self.property(connection, "ConnectionProperties", "discovery")?;
        let Value::String(Some(url)) = found else {
            return None;
        };
        destination(connection.text("TransportProfileUri"), url).ok()
    }

    fn real_time(&self, connection: &Record) -> RealTime {
        let number = |name: &str| match self.property(connection, "ConnectionProperties", name)? {
            Value::UInt32(number) => Some(u64::from(number)),
            Value::UInt64(number) => Some(number),
            _ => None,
        };
        let usual = RealTime::default();
        let path = match self.property(connection, "ConnectionProperties", "real-time.path") {
            Some(Value::String(Some(path))) => path.parse().ok(),
            _ => None,
        };
        RealTime {
            priority: match number("real-time.priority") {
                Some(0) => None,
                Some(priority) => u8::try_from(priority).ok(),
                None => usual.priority,
            },
            cpu: number("real-time.cpu").and_then(|cpu| usize::try_from(cpu).ok()),
            spin_ns: number("real-time.spin").unwrap_or(usual.spin_ns),
            receive_spin_ns: number("real-time.receive-spin").unwrap_or(0),
            path: path.unwrap_or(usual.path),
            socket_priority: number("real-time.socket-priority")
                .and_then(|priority| u32::try_from(priority).ok()),
        }
    }

    fn writer_group(
        &mut self,
        body: &Record,
        connection: &Record,
        group: &Record,
        publisher: &Publisher,
        transport: Transport,
    ) -> Result<GroupEntry, StationError> {
        let what = format!("writer group `{}`", group.text("Name"));
        let refuse = |why: String| refused(what.clone(), why);
        self.note_disabled("writer group", group);
        let settings = group.object("MessageSettings", "UadpWriterGroupMessageDataType");
        let settings = settings.ok_or_else(|| refuse("its messages are not UADP".to_owned()))?;
        let own = group.object("TransportSettings", "DatagramWriterGroupTransport2DataType");
        if own.is_some_and(|own| own.get("Address") != Some(&Item::Object(Object::Null))) {
            return Err(refuse("it has an address of its own".to_owned()));
        }
        let offset = match settings.list("PublishingOffset") {
            [] => 0.0,
            [Item::Double(bits)] => f64::from_bits(*bits).max(0.0),
            several => {
                let count = several.len();
                return Err(refuse(format!(
                    "it has {count} PublishingOffsets; one can be kept"
                )));
            }
        };
        if settings.double("SamplingOffset") > 0.0 {
            let note =
                format!("{what}: SamplingOffset is left out; rtwire samples right before it sends");
            self.notes.push(note);
        }
        let writers: Vec<&Record> = group.records("DataSetWriters").collect();
        let masks = writers.iter().map(|writer| {
            let settings = writer.object("MessageSettings", "UadpDataSetWriterMessageDataType");
            settings.map(|settings| settings.number("DataSetMessageContentMask"))
        });
        let profile =
            profile(settings.number("NetworkMessageContentMask"), masks).map_err(&refuse)?;
        let keep_alive_ns = nanoseconds(group.double("KeepAliveTime")).filter(|ns| *ns > 0);
        let id = id(group.number("WriterGroupId"), "WriterGroupId").map_err(&refuse)?;
        let mut own = Group {
            name: name(group.text("Name"), || format!("group {id}")),
            publisher: publisher.clone(),
            id,
            version: small(settings.number("GroupVersion")),
            profile,
            interval_ns: interval(group.double("PublishingInterval")).map_err(&refuse)?,
            offset_ns: nanoseconds(offset).unwrap_or(0),
            keep_alive_ns: keep_alive_ns.unwrap_or(1_000_000_000),
            receive_timeout_ns: 0,
            security: security(group.number("SecurityMode")).map_err(&refuse)?,
            data_sets: Vec::new(),
        };
        let groups = connection.records("ReaderGroups");
        let mut readers = groups.flat_map(|group| group.records("DataSetReaders"));
        let own_reader = readers.find(|reader| {
            reader.number("WriterGroupId") == u64::from(id)
                && reader.variant("PublisherId") == connection.variant("PublisherId")
        });
        own.receive_timeout_ns = own_reader
            .and_then(|reader| nanoseconds(reader.double("MessageReceiveTimeout")))
            .filter(|ns| *ns > 0)
            .unwrap_or_else(|| usual_timeout_ns(profile, own.interval_ns, own.keep_alive_ns));
        let mut sources = Vec::new();
        for writer in writers {
            self.note_disabled("writer", writer);
            let wanted = writer.text("DataSetName");
            let mut sets = body.records("PublishedDataSets");
            let set = sets.find(|set| set.text("Name") == wanted);
            let set =
                set.ok_or_else(|| refuse(format!("there is no published data set `{wanted}`")))?;
            if let Some(Item::Object(Object::Other(_))) = set.get("DataSetSource") {
                let why = "its source are no PublishedDataItems; events are not published";
                return Err(refused(format!("data set `{wanted}`"), why));
            }
            let meta = set.record("DataSetMetaData");
            let (mut one, from) = self.data_set(writer, meta)?;
            one.zeros_are_data = self.property(writer, "DataSetWriterProperties", "zeros-are-data")
                == Some(Value::Boolean(true));
            own.data_sets.push(one);
            sources.push(from);
        }
        let security = self.files(group, "GroupProperties", &own);
        Ok(entry(own, transport, security, sources))
    }

    /// Takes the readers, those of one writer group together.
    fn reader_groups(
        &mut self,
        connection: &Record,
        transport: Transport,
    ) -> Result<(Publisher, Vec<GroupEntry>), StationError> {
        let mut publishers: Vec<Publisher> = Vec::new();
        let mut entries: Vec<GroupEntry> = Vec::new();
        for group in connection.records("ReaderGroups") {
            self.note_disabled("reader group", group);
            for reader in group.records("DataSetReaders") {
                let what = format!("reader `{}`", reader.text("Name"));
                let refuse = |why: String| refused(what.clone(), why);
                self.note_disabled("reader", reader);
                let settings = reader.object("MessageSettings", "UadpDataSetReaderMessageDataType");
                let settings =
                    settings.ok_or_else(|| refuse("its messages are not UADP".to_owned()))?;
                let mask = settings.number("DataSetMessageContentMask");
                let network = settings.number("NetworkMessageContentMask");
                let profile = profile(network, [Some(mask)].into_iter()).map_err(&refuse)?;
                let id = id(reader.number("WriterGroupId"), "WriterGroupId").map_err(&refuse)?;
                let publisher = publisher(reader.variant("PublisherId")).map_err(&refuse)?;
                let timeout_ns = nanoseconds(reader.double("MessageReceiveTimeout"));
                let timeout_ns = timeout_ns.filter(|ns| *ns > 0);
                let told = settings.double("PublishingInterval");
                let interval_ns = match (interval(told), timeout_ns) {
                    (Ok(ns), _) => ns,
                    (Err(_), Some(timeout_ns)) if told == 0.0 => {
                        let note = format!(
                            "{what}: no PublishingInterval is told; a fifth of its timeout is taken"
                        );
                        self.notes.push(note);
                        (timeout_ns / 5).max(10_000)
                    }
                    (Err(why), _) => return Err(refuse(why)),
                };
                let (set, sources) = self.data_set(reader, reader.record("DataSetMetaData"))?;
                if !publishers.contains(&publisher) {
                    publishers.push(publisher.clone());
                }
                if let Some(other) = entries.iter_mut().find(|entry| entry.group.id == id) {
                    other.group.data_sets.push(set);
                    other.sources.push(sources);
                    continue;
                }
                let keep_alive_ns = 1_000_000_000;
                let usual = || usual_timeout_ns(profile, interval_ns, keep_alive_ns);
                let own = Group {
                    name: name(group.text("Name"), || format!("group {id}")),
                    publisher,
                    id,
                    version: small(settings.number("GroupVersion")),
                    profile,
                    interval_ns,
                    offset_ns: 0,
                    keep_alive_ns,
                    receive_timeout_ns: timeout_ns.unwrap_or_else(usual),
                    security: security(
                        reader
                            .number("SecurityMode")
                            .max(group.number("SecurityMode")),
                    )
                    .map_err(&refuse)?,
                    data_sets: vec![set],
                };
                let files = self.files(group, "GroupProperties", &own);
                entries.push(entry(own, transport, files, vec![sources]));
            }
        }
        match &publishers[..] {
            [one] => Ok((one.clone(), entries)),
            [] => Err(refused("the connection", "it has no readers")),
            several => Err(refused(
                format!("readers of {} publishers", several.len()),
                "a project has one publisher; make a project for each",
            )),
        }
    }

    fn data_set(
        &mut self,
        end: &Record,
        meta: Option<&Record>,
    ) -> Result<(DataSet, Vec<FieldSource>), StationError> {
        let what = format!("data set of `{}`", end.text("Name"));
        let refuse = |why: String| refused(what.clone(), why);
        let meta = meta.ok_or_else(|| refuse("it has no metadata".to_owned()))?;
        let writer = id(end.number("DataSetWriterId"), "DataSetWriterId").map_err(&refuse)?;
        let mask = small(end.number("DataSetFieldContentMask"));
        let encoding = match mask {
            0 => FieldEncoding::Variant,
            _ if mask & RAW != 0 => FieldEncoding::RawData,
            SOURCE_TIME => FieldEncoding::DataValue,
            other => {
                let why = format!(
                    "DataSetFieldContentMask {other:#x} is none of 0 (Variant), 0x20 (RawData) and 2 (DataValue with its time)"
                );
                return Err(refuse(why));
            }
        };
        let (mut fields, mut sources) = (Vec::new(), Vec::new());
        for field in meta.records("Fields") {
            let name = field.text("Name");
            let id = u8::try_from(field.number("BuiltInType")).unwrap_or(0);
            let rank = match field.get("ValueRank") {
                Some(Item::Int32(rank)) => *rank,
                _ => 0,
            };
            let Some(kind) = BuiltIn::from_id(id) else {
                return Err(refuse(format!("field `{name}` is no built-in type")));
            };
            let extent = self
                .extent(field, kind, rank, encoding)
                .map_err(|why| refuse(format!("field `{name}`{why}")))?;
            sources.push(self.source(field, kind, extent).map_err(&refuse)?);
            fields.push(Field {
                name: name.to_owned(),
                kind,
                extent,
            });
        }
        let version = meta.record("ConfigurationVersion");
        let number = |field| version.map_or(0, |version| small(version.number(field)));
        let set = DataSet {
            writer,
            name: name(end.text("Name"), || format!("writer {writer}")),
            encoding,
            key_frame_count: small(end.number("KeyFrameCount")).max(1),
            major_version: number("MajorVersion"),
            minor_version: number("MinorVersion"),
            event: false,
            zeros_are_data: false,
            fields,
        };
        Ok((set, sources))
    }

    /// Returns the longest value of a field, or the end of a sentence that begins with the field.
    fn extent(
        &mut self,
        field: &Record,
        kind: BuiltIn,
        rank: i32,
        encoding: FieldEncoding,
    ) -> Result<Extent, String> {
        let dimensions = field.list("ArrayDimensions");
        let (extent, unit) = match (is_bytes(kind), scalar_bytes(kind).is_some(), rank) {
            (_, true, -1) => return Ok(Extent::Scalar),
            (true, _, -1) => (
                Extent::Bytes(small(field.number("MaxStringLength"))),
                "bytes",
            ),
            (_, true, 1) => {
                let most = match dimensions {
                    [Item::UInt32(most)] => *most,
                    _ => 0,
                };
                (Extent::Elements(most), "elements")
            }
            _ => {
                return Err(format!(
                    " is {kind} with ValueRank {rank}; fields are scalars of at most 8 bytes, String, ByteString, and arrays of scalars (ValueRank -1 or 1)"
                ));
            }
        };
        let extent = match extent {
            Extent::Bytes(0) | Extent::Elements(0) if encoding == FieldEncoding::RawData => {
                return Err(format!(
                    " has no largest number of {unit}, and RawData has the same length in every message"
                ));
            }
            Extent::Bytes(0) => Extent::Bytes(UNSTATED_BYTES),
            Extent::Elements(0) => Extent::Elements(UNSTATED_ELEMENTS),
            stated => {
                let too_long = |_| format!(" has more than {MOST_FIELD_BYTES} bytes");
                stated.check(kind).map_err(too_long)?;
                return Ok(stated);
            }
        };
        let most = match extent {
            Extent::Elements(most) | Extent::Bytes(most) => most,
            Extent::Scalar => 0,
        };
        let name = field.text("Name");
        self.notes.push(format!(
            "field `{name}`: no largest number of {unit} is told; {most} are reserved"
        ));
        Ok(extent)
    }

    fn source(&self, field: &Record, kind: BuiltIn, extent: Extent) -> Result<FieldSource, String> {
        let value = self.property(field, "Properties", "value");
        Ok(match value {
            None => FieldSource::Program,
            Some(Value::String(Some(text))) if kind == BuiltIn::String => {
                FieldSource::Text(text.to_owned())
            }
            Some(Value::ByteString(Some(bytes))) if kind == BuiltIn::ByteString => {
                FieldSource::Bytes(bytes.to_vec())
            }
            Some(Value::ByteString(Some(bytes)))
                if matches!(extent, Extent::Elements(_))
                    && ScalarArray::of_octets(kind, bytes).is_some() =>
            {
                FieldSource::Elements(bytes.to_vec())
            }
            Some(Value::String(Some("counter"))) => FieldSource::Counter,
            Some(Value::String(Some("negative-counter"))) => FieldSource::NegativeCounter,
            Some(Value::String(Some("time"))) => FieldSource::Time,
            Some(Value::String(Some("sine"))) => FieldSource::Sine,
            Some(other) => match Scalar::of_value(&other).filter(|one| one.kind() == kind) {
                Some(value) => FieldSource::Constant(value),
                None => {
                    let name = field.text("Name");
                    return Err(format!(
                        "the property `value` of field `{name}` is no {kind} and no generator"
                    ));
                }
            },
        })
    }

    fn files(&mut self, group: &Record, list: &str, own: &Group) -> Option<SecurityFiles> {
        if !own.security.is_secured() {
            return None;
        }
        let file = |name| match self.property(group, list, name) {
            Some(Value::String(Some(file))) => Some(self.folder.join(file)),
            _ => None,
        };
        let (keys, nonces) = (file("key-file"), file("nonce-file"));
        let accept = self.property(group, list, "accept-repeated-nonces");
        let accept_repeated_nonces = accept == Some(Value::Boolean(true));
        let keys = keys.unwrap_or_else(|| {
            let id = group.text("SecurityGroupId");
            let stem = name(&id.replace('/', "-"), || format!("group-{}", own.id));
            let file = format!("{stem}.keys");
            self.notes.push(format!(
                "group `{}` is secured: put the keys of security group `{id}` into `{file}` (docs/pubsub.md, Security)",
                own.name
            ));
            self.folder.join(file)
        });
        Some(SecurityFiles {
            nonces: nonces.unwrap_or_else(|| keys.with_extension("nonces")),
            keys,
            accept_repeated_nonces,
        })
    }
}

fn entry(
    group: Group,
    transport: Transport,
    security: Option<SecurityFiles>,
    sources: Vec<Vec<FieldSource>>,
) -> GroupEntry {
    let pcp = match transport {
        Transport::Ethernet {
            vlan: Some(tag), ..
        } => tag.pcp.get(),
        _ => 0,
    };
    GroupEntry {
        group,
        transport,
        stream: None,
        pcp,
        security,
        sources,
        answer: None,
    }
}

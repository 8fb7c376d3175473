//! The tables `[[writer-group]]`, their data sets and fields.

use super::answer::{self, AnswerEntry};
use super::connection::{Read, Transport};
use super::field::{FieldSource, field};
use super::stream::Streams;
use core::ops::Range;
use rtwire_describe::project_file::{Findings, Keys, short};
use rtwire_pubsub::publish::{WriterGroup, longest_message_bytes};
use rtwire_pubsub::security::SecurityMode;
use rtwire_pubsub::{DataSet, Field, Group, Profile};
use rtwire_wire::MacAddress;
use rtwire_wire::uadp::FieldEncoding;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The time without a message after which a keep-alive is sent by default, ns.
const KEEP_ALIVE_NS: u64 = 1_000_000_000;
/// The least receive timeout by default, ns: ordinary machines stand still for some milliseconds now and then.
const LEAST_TIMEOUT_NS: u64 = 100_000_000;

/// A group and what only one end needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupEntry {
    /// The group, as both ends know it.
    pub group: Group,
    /// Ethernet or UDP, with the destination.
    pub transport: Transport,
    /// The name of its stream in the plan; `None` where the file itself says all.
    pub stream: Option<String>,
    /// The priority code point of its frames; 0 for datagrams.
    pub pcp: u8,
    /// The files of its keys; `None` without security.
    pub security: Option<SecurityFiles>,
    /// The sources of the fields' values, for each data set.
    pub sources: Vec<Vec<FieldSource>>,
    /// The questions that the driver answers with this group's messages; `None`: they leave at their instants.
    pub answer: Option<AnswerEntry>,
}

/// The files that message security needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityFiles {
    /// The keys.
    pub keys: PathBuf,
    /// The publisher's used nonces.
    pub nonces: PathBuf,
    /// True where a subscriber accepts publishers that repeat their nonce.
    pub accept_repeated_nonces: bool,
}

/// Returns the receive timeout of a group that states none, ns.
pub(crate) fn usual_timeout_ns(profile: Profile, interval_ns: u64, keep_alive_ns: u64) -> u64 {
    let usual = match profile {
        Profile::Fixed => interval_ns.saturating_mul(5),
        Profile::Dynamic => interval_ns.max(keep_alive_ns).saturating_mul(3),
    };
    usual.max(LEAST_TIMEOUT_NS)
}

fn array<'d>(
    table: &'d DeTable<'d>,
    key: &str,
    findings: &mut Findings<'_>,
) -> Option<&'d Spanned<DeValue<'d>>> {
    let value = table.get(key)?;
    if matches!(value.get_ref(), DeValue::Array(_)) {
        return Some(value);
    }
    let message = format!("`{key}` is a list: write `[[…{key}]]`");
    findings.at(&value.span(), message, None);
    None
}

fn tables<'d>(
    list: &'d DeArray<'d>,
    heading: &str,
    findings: &mut Findings<'_>,
) -> Vec<(&'d DeTable<'d>, Range<usize>)> {
    let mut found = Vec::new();
    for item in list {
        match item.get_ref() {
            DeValue::Table(table) => found.push((table, item.span())),
            _ => findings.at(
                &item.span(),
                format!("an entry of {heading} is a table"),
                None,
            ),
        }
    }
    found
}

pub(super) fn read_all(
    document: &DeTable<'_>,
    path: &Path,
    connection: &Read,
    streams: &Streams<'_>,
    findings: &mut Findings<'_>,
) -> Vec<GroupEntry> {
    const KEY: &str = "writer-group";
    let Some(value) = array(document, KEY, findings) else {
        if !document.contains_key(KEY) {
            let message = "missing table `[[writer-group]]`".to_owned();
            findings.at(&(0..0), message, None);
        }
        return Vec::new();
    };
    let DeValue::Array(list) = value.get_ref() else {
        return Vec::new();
    };
    let mut groups: Vec<GroupEntry> = Vec::new();
    for (table, span) in tables(list, "[[writer-group]]", findings) {
        let Some(entry) = read(table, span.clone(), path, connection, streams, findings) else {
            continue;
        };
        let same = |other: &GroupEntry| {
            other.group.id == entry.group.id || other.group.name == entry.group.name
        };
        if groups.iter().any(same) {
            let message = "two writer groups have the same id or name".to_owned();
            findings.at(&span, message, Some("give each its own".to_owned()));
        }
        if groups.iter().any(|other| mix_up(other, &entry)) {
            let message = "two writer groups have a data set with the same `writer`".to_owned();
            let help = "messages of the profile `dynamic` name only the writer: number them through the whole file";
            findings.at(&span, message, Some(help.to_owned()));
        }
        let other = groups.iter().find(|other| other.pcp != entry.pcp);
        if let Some(other) = other {
            let message = format!(
                "groups `{}` and `{}` have different priorities: {} and {}",
                short(&other.group.name),
                short(&entry.group.name),
                other.pcp,
                entry.pcp
            );
            let help = "one file has one transmit queue: give each priority a file of its own";
            findings.at(&span, message, Some(help.to_owned()));
        }
        if let Err(fault) = entry.group.check() {
            if findings.is_clean() {
                findings.at(&span, fault.to_string(), None);
            }
        }
        groups.push(entry);
    }
    groups
}

/// Returns true where a reader cannot tell the messages of two groups apart: those of the profile `dynamic` have no group header.
fn mix_up(one: &GroupEntry, other: &GroupEntry) -> bool {
    let dynamic = [one, other]
        .iter()
        .any(|entry| entry.group.profile == Profile::Dynamic);
    let mut sets = one.group.data_sets.iter();
    dynamic
        && sets.any(|set| {
            let mut others = other.group.data_sets.iter();
            others.any(|other| other.writer == set.writer)
        })
}

fn read(
    table: &DeTable<'_>,
    span: Range<usize>,
    path: &Path,
    connection: &Read,
    streams: &Streams<'_>,
    findings: &mut Findings<'_>,
) -> Option<GroupEntry> {
    let list = array(table, "data-set", findings);
    let mut keys = Keys::new(table, "[[writer-group]]", span.clone(), findings);
    let stream = keys.text("stream");
    let _ = keys.get("data-set");
    let id = keys.number("id", 1..0x1_0000);
    let name = keys.text("name").map(|(text, _)| text.to_owned());
    let profile = match keys.choice("profile", &["fixed", "dynamic"]) {
        Some("dynamic") => Profile::Dynamic,
        _ => Profile::Fixed,
    };
    let interval_ns = keys.time("interval", 10_000);
    let offset_ns = keys.time("offset", 0);
    let keep_alive_ns = keys.time("keep-alive", 1_000_000).unwrap_or(KEEP_ALIVE_NS);
    let timeout_ns = keys.time("receive-timeout", 1_000_000);
    let version = keys.number("version", 0..0x1_0000_0000);
    let security = match keys.choice("security", &["none", "sign", "sign-and-encrypt"]) {
        Some("sign") => SecurityMode::Sign,
        Some("sign-and-encrypt") => SecurityMode::SignAndEncrypt,
        _ => SecurityMode::None,
    };
    let relative = |file: &str| path.parent().unwrap_or(Path::new("")).join(file);
    let key_file = keys.text("key-file").map(|(file, _)| relative(file));
    let nonce_file = keys.text("nonce-file").map(|(file, _)| relative(file));
    let accept = keys.flag("accept-repeated-nonces").unwrap_or(false);
    let answer = answer::read(&mut keys, path);
    for key in ["id", "interval", "data-set"] {
        // A stream has its interval.
        let planned = key == "interval" && table.contains_key("stream");
        if !planned && !table.contains_key(key) {
            keys.missing(key);
        }
    }
    if security.is_secured() && !table.contains_key("key-file") {
        keys.missing("key-file");
    }
    for key in ["key-file", "nonce-file", "accept-repeated-nonces"] {
        if let (false, Some(value)) = (security.is_secured(), table.get(key)) {
            let message = format!("`{key}` is for groups with security");
            let help = Some("add security = \"sign-and-encrypt\"".to_owned());
            keys.findings.at(&value.span(), message, help);
        }
    }
    keys.finish();
    let mut planned = None;
    if let Some((stream, place)) = &stream {
        planned = Some(streams.find(stream, place, findings)?);
    }
    let mut by_plan = |key: &str, own: Option<u64>, planned: Option<u64>| {
        let differing = own.zip(planned).filter(|(own, planned)| own != planned);
        if let (Some((own, planned)), Some(value)) = (differing, table.get(key)) {
            let message = format!("`{key}` is {own} ns, and the plan's stream has {planned} ns");
            let help = format!("remove `{key}`, or plan the stream with it");
            findings.at(&value.span(), message, Some(help));
        }
        planned.or(own)
    };
    let planned_interval = planned.as_ref().map(|planned| planned.interval_ns);
    let interval_ns = by_plan("interval", interval_ns, planned_interval);
    let planned_offset = planned.as_ref().map(|planned| planned.offset_ns);
    let offset_ns = by_plan("offset", offset_ns, planned_offset).unwrap_or(0);
    let (transport, pcp) = match &planned {
        Some(planned) => (Some(planned.transport), planned.pcp),
        None => match connection.transport {
            Some(Transport::Ethernet {
                vlan: Some(tag), ..
            }) => (connection.transport, tag.pcp.get()),
            other => (other, 0),
        },
    };
    let id = u16::try_from(id?).ok()?;
    let name = name.unwrap_or_else(|| match &stream {
        Some((stream, _)) => (*stream).to_owned(),
        None => format!("group {id}"),
    });
    let mut group = Group {
        name,
        publisher: connection.connection.publisher.clone(),
        id,
        version: version
            .and_then(|version| u32::try_from(version).ok())
            .unwrap_or(1),
        profile,
        interval_ns: interval_ns?,
        offset_ns,
        keep_alive_ns,
        receive_timeout_ns: 0,
        security,
        data_sets: Vec::new(),
    };
    let usual = || usual_timeout_ns(profile, group.interval_ns, keep_alive_ns);
    group.receive_timeout_ns = timeout_ns.unwrap_or_else(usual);
    let mut sources = Vec::new();
    if let Some(DeValue::Array(list)) = list.map(Spanned::get_ref) {
        for (table, span) in tables(list, "[[writer-group.data-set]]", findings) {
            if let Some((set, own)) = data_set(table, span, profile, findings) {
                group.data_sets.push(set);
                sources.push(own);
            }
        }
    }
    let longest = group.check().is_ok().then(|| longest_message_bytes(&group));
    if let (Some(planned), Some((stream, place)), Some(transport), Some(Ok(message))) =
        (&planned, &stream, transport, longest)
    {
        let bytes = (transport.header_bytes() + message) as u64;
        if WriterGroup::new(group.clone(), &[], Some(0), 0).is_ok_and(|group| group.has_chunks()) {
            let message = format!(
                "group `{}` has messages in chunks, and a stream has one frame in an interval",
                short(&group.name)
            );
            let help = "split its data sets into groups".to_owned();
            findings.at(place, message, Some(help));
        } else if bytes > planned.frame_bytes {
            let message = format!(
                "group `{}` has frames of up to {bytes} bytes, and stream `{}` was planned with {}",
                short(&group.name),
                short(stream),
                planned.frame_bytes
            );
            let help = format!("plan the stream with `frame = \"{bytes} B\"`, or send less");
            findings.at(place, message, Some(help));
        }
    }
    let mut entry = GroupEntry {
        // Without an address nothing is opened: that is a fault of [connection], named there.
        transport: transport.unwrap_or(Transport::Ethernet {
            address: MacAddress([0; 6]),
            vlan: None,
        }),
        stream: stream.map(|(stream, _)| stream.to_owned()),
        pcp,
        security: key_file
            .filter(|_| security.is_secured())
            .map(|keys| SecurityFiles {
                nonces: nonce_file.unwrap_or_else(|| keys.with_extension("nonces")),
                keys,
                accept_repeated_nonces: accept,
            }),
        group,
        sources,
        answer: None,
    };
    entry.answer = answer.of(&entry, &span, findings);
    Some(entry)
}

fn data_set(
    table: &DeTable<'_>,
    span: Range<usize>,
    profile: Profile,
    findings: &mut Findings<'_>,
) -> Option<(DataSet, Vec<FieldSource>)> {
    let list = array(table, "field", findings);
    let mut keys = Keys::new(table, "[[writer-group.data-set]]", span, findings);
    let _ = keys.get("field");
    let writer = keys.number("writer", 1..0x1_0000);
    let name = keys.text("name").map(|(text, _)| text.to_owned());
    let encoding = match keys.choice("encoding", &["variant", "raw", "data-value"]) {
        Some("variant") => FieldEncoding::Variant,
        Some("raw") => FieldEncoding::RawData,
        Some("data-value") => FieldEncoding::DataValue,
        _ if profile == Profile::Fixed => FieldEncoding::RawData,
        _ => FieldEncoding::Variant,
    };
    let key_frame_count = keys
        .number("key-frame-count", 1..0x1_0000_0000)
        .unwrap_or(1);
    let major = keys.number("major-version", 0..0x1_0000_0000).unwrap_or(1);
    let minor = keys.number("minor-version", 0..0x1_0000_0000).unwrap_or(1);
    let zeros_are_data = keys.flag("zeros-are-data").unwrap_or(false);
    let event = keys.flag("event").unwrap_or(false);
    for key in ["writer", "field"] {
        if !table.contains_key(key) {
            keys.missing(key);
        }
    }
    keys.finish();
    let mut fields = Vec::new();
    let mut sources = Vec::new();
    if let Some(DeValue::Array(list)) = list.map(Spanned::get_ref) {
        for (table, span) in tables(list, "[[writer-group.data-set.field]]", findings) {
            if let Some((field, source)) = field(table, span.clone(), findings) {
                if fields.iter().any(|other: &Field| other.name == field.name) {
                    let message = format!("two fields are named `{}`", short(&field.name));
                    findings.at(&span, message, None);
                }
                fields.push(field);
                sources.push(source);
            }
        }
    }
    let writer = u16::try_from(writer?).ok()?;
    let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let set = DataSet {
        writer,
        name: name.unwrap_or_else(|| format!("writer {writer}")),
        encoding,
        key_frame_count: number(key_frame_count),
        major_version: number(major),
        minor_version: number(minor),
        event,
        zeros_are_data,
        fields,
    };
    Some((set, sources))
}

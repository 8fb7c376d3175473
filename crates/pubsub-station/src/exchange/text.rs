//! A project as the text of its file.

use crate::project::{FieldSource, GroupEntry, Project, RealTime, Transport};
use core::fmt::Write as _;
use rtwire_pubsub::security::SecurityMode;
use rtwire_pubsub::{Extent, FieldValue, Profile, Publisher, Scalar, ScalarArray};
use rtwire_wire::uadp::{BuiltIn, FieldEncoding};
use std::path::Path;

/// Returns a text as TOML writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control.is_control() => {
                // Writing to a text does not fail.
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn time(ns: u64) -> String {
    let (number, unit) = match ns {
        _ if ns % 1_000_000_000 == 0 && ns > 0 => (ns / 1_000_000_000, "s"),
        _ if ns % 1_000_000 == 0 => (ns / 1_000_000, "ms"),
        _ if ns % 1_000 == 0 => (ns / 1_000, "us"),
        _ => (ns, "ns"),
    };
    format!("\"{number} {unit}\"")
}

fn scalar(value: Scalar) -> String {
    match value.kind() {
        BuiltIn::Float | BuiltIn::Double if value.float().is_nan() => "nan".to_owned(),
        BuiltIn::Float | BuiltIn::Double => format!("{:?}", value.float()),
        _ => value.to_string(),
    }
}

fn list(kind: BuiltIn, octets: &[u8]) -> String {
    let array = ScalarArray::of_octets(kind, octets);
    let elements = array.into_iter().flat_map(ScalarArray::iter);
    format!("[{}]", elements.map(scalar).collect::<Vec<_>>().join(", "))
}

struct Lines(String);

impl Lines {
    fn table(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "{gap}{name}");
    }

    fn key(&mut self, key: &str, value: impl core::fmt::Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }
}

/// Returns the project file of a project that has no streams of a plan. What has its usual value is left out. `parse(text(x)) = x`.
#[must_use]
pub fn text(project: &Project) -> String {
    let mut out = Lines(String::new());
    out.table("[connection]");
    if let Some(interface) = &project.connection.interface {
        out.key("interface", quoted(interface));
    }
    match project.groups.first().map(|entry| entry.transport) {
        Some(Transport::Udp { address }) => {
            out.key("transport", "\"udp\"");
            out.key("address", format!("\"{address}\""));
        }
        Some(Transport::Ethernet { address, vlan }) => {
            let mac = address.to_string().replace(':', "-").to_uppercase();
            out.key("address", format!("\"{mac}\""));
            if let Some(tag) = vlan {
                if tag.vid > 0 {
                    out.key("vlan", tag.vid);
                }
                out.key("pcp", tag.pcp.get());
            }
        }
        None => {}
    }
    match &project.connection.discovery {
        Some(Transport::Udp { address }) => out.key("discovery", format!("\"{address}\"")),
        Some(Transport::Ethernet { address, .. }) => {
            let mac = address.to_string().replace(':', "-").to_uppercase();
            out.key("discovery", format!("\"{mac}\""));
        }
        None => {}
    }
    let (kind, id) = match &project.connection.publisher {
        Publisher::Byte(id) => ("Byte", id.to_string()),
        Publisher::UInt16(id) => ("UInt16", id.to_string()),
        Publisher::UInt32(id) => ("UInt32", id.to_string()),
        Publisher::UInt64(id) => ("UInt64", id.to_string()),
        Publisher::String(id) => ("String", quoted(id)),
    };
    out.key("publisher-id", id);
    out.key("publisher-id-type", format!("\"{kind}\""));
    real_time(&mut out, &project.real_time);
    let folder = project.path.parent().unwrap_or(Path::new(""));
    for entry in &project.groups {
        group(&mut out, entry, folder);
    }
    out.0
}

fn real_time(out: &mut Lines, settings: &RealTime) {
    let usual = RealTime::default();
    if *settings == usual {
        return;
    }
    out.table("[real-time]");
    if settings.priority != usual.priority {
        out.key("priority", settings.priority.unwrap_or(0));
    }
    if let Some(cpu) = settings.cpu {
        out.key("cpu", cpu);
    }
    if settings.spin_ns != usual.spin_ns {
        out.key("spin", time(settings.spin_ns));
    }
    if settings.receive_spin_ns != usual.receive_spin_ns {
        out.key("receive-spin", time(settings.receive_spin_ns));
    }
    if settings.path != usual.path {
        out.key("path", quoted(settings.path.name()));
    }
    if let Some(priority) = settings.socket_priority {
        out.key("socket-priority", priority);
    }
}

fn group(out: &mut Lines, entry: &GroupEntry, folder: &Path) {
    let group = &entry.group;
    out.table("[[writer-group]]");
    out.key("id", group.id);
    out.key("name", quoted(&group.name));
    let fixed = group.profile == Profile::Fixed;
    out.key("profile", if fixed { "\"fixed\"" } else { "\"dynamic\"" });
    out.key("interval", time(group.interval_ns));
    if group.offset_ns > 0 {
        out.key("offset", time(group.offset_ns));
    }
    out.key("keep-alive", time(group.keep_alive_ns));
    out.key("receive-timeout", time(group.receive_timeout_ns));
    out.key("version", group.version);
    if let Some(files) = &entry.security {
        let sign = group.security == SecurityMode::Sign;
        let mode = if sign {
            "\"sign\""
        } else {
            "\"sign-and-encrypt\""
        };
        out.key("security", mode);
        let relative = |file: &Path| {
            let file = file.strip_prefix(folder).unwrap_or(file);
            quoted(&file.to_string_lossy())
        };
        out.key("key-file", relative(&files.keys));
        if files.nonces != files.keys.with_extension("nonces") {
            out.key("nonce-file", relative(&files.nonces));
        }
        if files.accept_repeated_nonces {
            out.key("accept-repeated-nonces", true);
        }
    }
    for (set, sources) in group.data_sets.iter().zip(&entry.sources) {
        out.table("[[writer-group.data-set]]");
        out.key("writer", set.writer);
        out.key("name", quoted(&set.name));
        let encoding = match set.encoding {
            FieldEncoding::RawData => "\"raw\"",
            FieldEncoding::Variant => "\"variant\"",
            FieldEncoding::DataValue => "\"data-value\"",
        };
        out.key("encoding", encoding);
        out.key("key-frame-count", set.key_frame_count);
        out.key("major-version", set.major_version);
        out.key("minor-version", set.minor_version);
        if set.event {
            out.key("event", true);
        }
        if set.zeros_are_data {
            out.key("zeros-are-data", true);
        }
        for (field, source) in set.fields.iter().zip(sources) {
            out.table("[[writer-group.data-set.field]]");
            out.key("name", quoted(&field.name));
            out.key("type", quoted(field.kind.name()));
            match field.extent {
                Extent::Scalar => {}
                Extent::Bytes(most) => out.key("max-bytes", most),
                Extent::Elements(most) => out.key("max-elements", most),
            }
            match source {
                FieldSource::Text(text) => out.key("value", quoted(text)),
                FieldSource::Bytes(bytes) => {
                    let value = FieldValue::Bytes(bytes);
                    out.key("value", format!("\"{value}\""));
                }
                FieldSource::Elements(octets) => out.key("value", list(field.kind, octets)),
                // A configuration file has no answers.
                FieldSource::Program | FieldSource::Question(_) => {}
                FieldSource::Constant(value) => out.key("value", scalar(*value)),
                FieldSource::Counter => out.key("value", "\"counter\""),
                FieldSource::NegativeCounter => out.key("value", "\"negative-counter\""),
                FieldSource::Time => out.key("value", "\"time\""),
                FieldSource::Sine => out.key("value", "\"sine\""),
            }
        }
    }
}

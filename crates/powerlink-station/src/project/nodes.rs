//! The part of a project that lists nodes and their objects.

use super::{Direction, MappedObject, NodeEntry, relative};
use crate::configure;
use core::ops::Range;
use rtwire_describe::project_file::{Findings, Keys, short};
use rtwire_powerlink::pdo::Mapped;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The most process data of a frame, bytes.
const PAYLOAD_OCTETS: usize = 1490;

pub(super) fn read_nodes(
    document: &DeTable<'_>,
    path: &Path,
    findings: &mut Findings<'_>,
) -> Vec<NodeEntry> {
    let Some(list) = document.get("node") else {
        return Vec::new();
    };
    let DeValue::Array(items) = list.get_ref() else {
        findings.at(
            &list.span(),
            "`node` may be given many times: write `[[node]]`".to_owned(),
            None,
        );
        return Vec::new();
    };
    let mut nodes: Vec<NodeEntry> = Vec::new();
    for item in items {
        let DeValue::Table(table) = item.get_ref() else {
            findings.at(
                &item.span(),
                "a node is a table `[[node]]`".to_owned(),
                None,
            );
            continue;
        };
        let mut keys = Keys::new(table, "[[node]]", item.span(), findings);
        let number = keys.number("number", 1..240);
        if !table.contains_key("number") {
            keys.missing("number");
        }
        let number = number.unwrap_or(0) as u8;
        if number > 0 && nodes.iter().any(|other| other.number == number) {
            let span = table.get("number").map_or(item.span(), toml::Spanned::span);
            keys.findings
                .at(&span, format!("node {number} is there already"), None);
        }
        let name = keys.text("name").map(|(name, _)| name.to_owned());
        let entry = NodeEntry {
            number,
            name: name.unwrap_or_else(|| format!("node {number}")),
            mandatory: keys.flag("mandatory").unwrap_or(false),
            response_timeout_ns: keys.time("response-timeout", 1_000).unwrap_or(200_000),
            configure: keys.flag("configure").unwrap_or(true),
            chained: keys.flag("chained").unwrap_or(false),
            description: keys
                .text("description")
                .map(|(file, _)| relative(path, file)),
            objects: objects(&mut keys),
        };
        keys.finish();
        nodes.push(entry);
    }
    for direction in [Direction::Receives, Direction::Sends] {
        let needed: usize = nodes
            .iter()
            .map(|node| configure::pdos(&node.objects, direction).count().max(1))
            .sum();
        if needed > configure::MOST_PDOS {
            let message = format!(
                "the network has too many objects: {needed} PDOs of {} objects each, of {} that there are",
                configure::PDO_OBJECTS,
                configure::MOST_PDOS
            );
            findings.at(&list.span(), message, None);
        }
    }
    nodes
}

pub(super) fn objects(keys: &mut Keys<'_, '_, '_>) -> Vec<MappedObject> {
    let mut all = Vec::new();
    for (key, direction) in [
        ("receives", Direction::Receives),
        ("sends", Direction::Sends),
    ] {
        let mut offset_octets = 0;
        for (text, span) in keys.texts(key) {
            match object(text, offset_octets) {
                Some(mapped) if mapped.end() > PAYLOAD_OCTETS => {
                    let message =
                        format!("`{key}` is longer than the {PAYLOAD_OCTETS} bytes of a frame");
                    let help = Some("more nodes, or fewer and shorter objects".to_owned());
                    keys.findings.at(&span, message, help);
                    break;
                }
                Some(mapped) => {
                    offset_octets += mapped.octets;
                    all.push(MappedObject { direction, mapped });
                }
                None => not_an_object(keys, text, &span),
            }
        }
    }
    all
}

fn not_an_object(keys: &mut Keys<'_, '_, '_>, text: &str, span: &Range<usize>) {
    let message = format!("`{}` is no object with its type", short(text));
    let help =
        Some("index/sub-index and u8, u16, u32 or u64, for instance \"6000h/1 u8\"".to_owned());
    keys.findings.at(span, message, help);
}

fn object(text: &str, offset_octets: usize) -> Option<Mapped> {
    let (place, kind) = text.trim().split_once(' ')?;
    let octets = match kind.trim() {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" => 4,
        "u64" | "i64" => 8,
        _ => return None,
    };
    let (index, subindex) = crate::place(place)?;
    Some(Mapped {
        index,
        subindex,
        offset_octets,
        octets,
    })
}

/// Reads index and sub-index, as in `6000h/1` and `0x6000/1`. A number is hexadecimal where it is marked so.
#[must_use]
pub fn place(text: &str) -> Option<(u16, u8)> {
    let number = |text: &str| -> Option<u32> {
        let text = text.trim();
        let hexadecimal = text
            .strip_prefix("0x")
            .or_else(|| text.strip_suffix(['h', 'H']));
        match hexadecimal {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let (index, subindex) = text.split_once('/').unwrap_or((text, "0"));
    Some((
        u16::try_from(number(index)?).ok()?,
        u8::try_from(number(subindex)?).ok()?,
    ))
}

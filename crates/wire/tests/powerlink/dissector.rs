//! Everything that tshark's `epl` dissector shows of the recorded frames, ours shows too, at the same place.

use crate::capture;
use rtwire_testkit::require;
use rtwire_wire::powerlink::{Field, NetTime, NmtCommandId, Value, View};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// One `<field …>` of tshark's PDML.
struct Shown {
    name: String,
    at: usize,
    octets: usize,
    /// Octets in hexadecimal, or the number if it has a mask.
    value: String,
    masked: bool,
    show: String,
}

fn attribute(line: &str, name: &str) -> Option<String> {
    let begin = line.find(&format!(" {name}=\""))? + name.len() + 3;
    let end = line[begin..].find('"')? + begin;
    Some(line[begin..end].to_owned())
}

/// The fields that tshark shows of each frame.
fn shown() -> Vec<Vec<Shown>> {
    let output = Command::new("tshark")
        .args(["-T", "pdml", "-r"])
        .arg(capture::path())
        .env("TZ", "UTC")
        .output()
        .unwrap();
    assert!(output.status.success());
    let mut packets = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        if line.starts_with("<packet>") {
            packets.push(Vec::new());
        }
        let name = attribute(line, "name").unwrap_or_default();
        let octets = attribute(line, "size").and_then(|size| size.parse().ok());
        if !name.starts_with("epl.") || octets.is_none_or(|octets: usize| octets == 0) {
            continue;
        }
        packets.last_mut().unwrap().push(Shown {
            at: attribute(line, "pos").unwrap().parse().unwrap(),
            octets: octets.unwrap(),
            value: attribute(line, "value").unwrap_or_default(),
            masked: attribute(line, "unmaskedvalue").is_some(),
            show: attribute(line, "show").unwrap_or_default(),
            name,
        });
    }
    packets
}

/// True for fields that tshark derives from other frames, or adds for filters: they hold no octets of their own.
fn derived(shown: &Shown) -> bool {
    let flags = ["soc", "preq", "pres", "soa", "asnd", "amni", "ainv"];
    let name = shown.name.trim_start_matches("epl.");
    flags.contains(&name)
        || name == "node"
        || name.starts_with("od.meta")
        || name == "asnd.sdo.seq"
        || name == "asnd.sdo.cmd"
        || name == "asnd.sdo.cmd.data.mapping"
}

/// True for fields that tshark derives from its object dictionary: for a frame they are just data.
fn interpreted(name: &str) -> bool {
    name.starts_with("epl.od.data") || name.starts_with("epl.pdo")
}

/// True if `ours` and tshark's field have the same value.
fn same(ours: &Field<'_>, shown: &Shown, frame: &[u8]) -> bool {
    if shown.masked {
        return Value::Number(u64::from_str_radix(&shown.value, 16).unwrap()) == ours.value;
    }
    let octets = &frame[shown.at..shown.at + shown.octets];
    let hexadecimal: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(hexadecimal, shown.value, "{}", shown.name);
    match ours.value {
        Value::Octets(data) => {
            let time = (shown.octets == 8).then(|| {
                let number = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
                NetTime {
                    seconds: number(0),
                    nanoseconds: number(4),
                }
            });
            data == octets
                && time.is_none_or(|time| shown.show.contains(&format!(".{:09}", time.nanoseconds)))
        }
        Value::Number(number) => {
            let show = &shown.show;
            let told = match show.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None if show.split('.').count() == 4 => {
                    let parts = show.split('.').map(|part| part.parse::<u64>().unwrap());
                    Some(parts.fold(0, |sum, part| sum << 8 | part))
                }
                None => show.parse().ok(),
            };
            // tshark 4.0 declares the abort code as one octet, and shows only the first of its four.
            let told = told.filter(|_| shown.name != "epl.asnd.sdo.cmd.abort.code");
            match told {
                Some(told) => told == number,
                // A version is shown as text: the octets themselves can be compared.
                None => number.to_le_bytes()[..shown.octets] == *octets,
            }
        }
    }
}

#[test]
fn all_that_tshark_shows_is_shown() {
    require!(program "tshark");
    let (frames, packets) = (capture::frames(), shown());
    assert_eq!(frames.len(), packets.len());
    let (mut compared, mut names, mut faults) = (0, BTreeSet::new(), BTreeMap::new());
    for (index, (frame, packet)) in frames.iter().zip(&packets).enumerate() {
        let mut ours = Vec::new();
        View::new(frame).fields(&mut |field| ours.push(field));
        for shown in packet.iter().filter(|shown| !derived(shown)) {
            let end = shown.at + shown.octets;
            let found = if interpreted(&shown.name) {
                // The octets are shown as data; their meaning is in the object dictionary.
                ours.iter().any(|field| {
                    matches!(field.value, Value::Octets(_))
                        && field.at <= shown.at
                        && end <= field.at + field.octets
                })
            } else {
                ours.iter().any(|field| {
                    field.name == shown.name
                        && (field.at, field.octets) == (shown.at, shown.octets)
                        && same(field, shown, frame)
                })
            };
            if !found {
                let beside = ours.iter().find(|field| field.name == shown.name);
                faults.entry(shown.name.clone()).or_insert_with(|| {
                    format!(
                        "frame {}: tshark shows `{}` in octets {}..{end}; ours: {beside:?}",
                        index + 1,
                        shown.show,
                        shown.at,
                    )
                });
            }
            compared += 1;
            names.insert(shown.name.clone());
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(
        compared > 60_000 && names.len() > 100,
        "only {compared} values of {} fields compared",
        names.len()
    );
    println!("{compared} values of {} fields agree", names.len());
}

/// The recording has few of them.
#[test]
fn nmt_commands_have_the_names_that_tshark_gives_them() {
    require!(program "tshark");
    let output = Command::new("tshark").args(["-G", "values"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut compared = 0;
    for line in text.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let ["V", "epl.asnd.nmtcommand.cid", number, name] = parts[..] else {
            continue;
        };
        let command = NmtCommandId(number.parse().unwrap());
        // Two requests, which are no commands; a misprint; and dynamic node allocation, which we do not know.
        if matches!(command.0, 0x01 | 0x02 | 0x2d | 0x49) {
            continue;
        }
        assert_eq!(command.name(), Some(name), "{number}");
        compared += 1;
    }
    assert!(compared >= 25, "only {compared}");
}

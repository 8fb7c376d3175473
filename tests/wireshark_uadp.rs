//! The Wireshark dissector of UADP upon the recorded messages, held against what another decoder read in them, and upon
//! messages cut at each length.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rtwire_measure::capture::{LINK_ETHERNET, Recorded, Writer};
use rtwire_testkit::require;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A field as tshark shows it: its offset in the message, its octets, its name, its value.
type Field = (u64, String, String, String);

struct Dissected {
    fields: Vec<Field>,
    experts: Vec<String>,
}

/// The messages of a capture as tshark shows them.
fn dissected(file: &Path) -> Vec<Dissected> {
    let script = root().join("packaging/wireshark/uadp.lua");
    let output = Command::new("tshark")
        .args([
            "-r",
            file.to_str().unwrap(),
            "-Y",
            "uadp",
            "-T",
            "pdml",
            "-X",
        ])
        .arg(format!("lua_script:{}", script.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("Lua Error"), "{}", file.display());
    let document = roxmltree::Document::parse(&text).unwrap();
    let packets = document
        .descendants()
        .filter(|node| node.has_tag_name("packet"));
    packets
        .map(|packet| {
            let layer = packet
                .children()
                .find(|node| node.attribute("name") == Some("uadp"))
                .unwrap();
            let number = |node: &roxmltree::Node<'_, '_>, name| -> u64 {
                node.attribute(name).unwrap().parse().unwrap()
            };
            let start = number(&layer, "pos");
            let mut found = Dissected {
                fields: Vec::new(),
                experts: Vec::new(),
            };
            for node in layer
                .descendants()
                .filter(|node| node.has_tag_name("field"))
            {
                let name = node.attribute("name").unwrap();
                if node
                    .ancestors()
                    .any(|one| one.attribute("name") == Some("_ws.expert"))
                {
                    if name.starts_with("uadp.") {
                        found.experts.push(name.to_owned());
                    }
                } else if name.starts_with("uadp.") && node.attribute("unmaskedvalue").is_none() {
                    let show = node.attribute("show").unwrap_or("");
                    let show = match show.strip_prefix("0x") {
                        Some(hex) => u64::from_str_radix(hex, 16).unwrap().to_string(),
                        None => show.to_owned(),
                    };
                    let octets = node.attribute("value").unwrap_or("").to_owned();
                    found.fields.push((
                        number(&node, "pos") - start,
                        octets,
                        name.to_owned(),
                        show,
                    ));
                }
            }
            found
        })
        .collect()
}

/// The name in the dissector of a field of the other decoder.
fn our_name(theirs: &str) -> &'static str {
    let inner = theirs.rsplit('.').next().unwrap();
    match theirs.split('.').next().unwrap() {
        "UADPVersion|Flags" => return "uadp.flags",
        "PublisherId" if inner == "len" => return "uadp.publisher_length",
        "PublisherId" if inner == "str" => return "uadp.publisher_text",
        "PublisherId" => return "uadp.publisher",
        "GroupFlags" => return "uadp.group.flags",
        "WriterGroupId" => return "uadp.group.id",
        "GroupVersion" => return "uadp.group.version",
        "NetworkMessageNumber" => return "uadp.group.number",
        "SequenceNumber" => return "uadp.group.sequence",
        "Timestamp" => return "uadp.timestamp",
        "PicoSeconds" => return "uadp.picoseconds",
        "Trailer/Signature/Padding" => return "uadp.signature",
        _ => {}
    }
    match inner {
        "ExtendedFlags1" => "uadp.ext1",
        "DataSetClassId" => "uadp.class",
        "Count" => "uadp.count",
        "SecurityFlags" => "uadp.security.flags",
        "SecurityTokenId" => "uadp.security.token",
        "NonceLength" => "uadp.security.nonce_length",
        "MessageNonce" => "uadp.security.nonce",
        "<encrypted payload>" => "uadp.encrypted",
        "Signature" => "uadp.signature",
        "DataSetFlags1" => "uadp.dsm.flags1",
        "DataSetFlags2" => "uadp.dsm.flags2",
        "SequenceNumber" => "uadp.dsm.sequence",
        "Timestamp" => "uadp.dsm.timestamp",
        "Status" => "uadp.dsm.status",
        "MajorVersion" => "uadp.dsm.major",
        "MinorVersion" => "uadp.dsm.minor",
        "FieldCount" => "uadp.dsm.field_count",
        "RawData" => "uadp.dsm.raw",
        "index" => "uadp.field.index",
        "variantMask" => "uadp.field.variant",
        "dvMask" => "uadp.field.data_value",
        "sourceTs" => "uadp.field.source",
        "i32" => "uadp.value.int",
        "f64" => "uadp.value.double",
        "DateTime" => "uadp.value.time",
        writer if writer.starts_with("DataSetWriterId") => "uadp.writer",
        size if size.starts_with("Size") => "uadp.size",
        other => panic!("no name for {other}"),
    }
}

#[test]
fn every_field_is_shown_as_the_other_decoder_read_it() {
    require!(program "tshark");
    let folder = root().join("tests/captures/uadp");
    let expected: Value =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let mut values = 0;
    for (name, messages) in expected.as_object().unwrap() {
        let found = dissected(&folder.join(name));
        assert!(found.len() >= 3, "{name}");
        for message in &found {
            assert_eq!(message.experts, [""; 0], "{name}");
        }
        for (message, told) in found.iter().zip(messages.as_array().unwrap()) {
            let theirs: Vec<_> = told["fields"]
                .as_array()
                .unwrap()
                .iter()
                .map(|field| {
                    let text = |key: &str| field[key].as_str().unwrap();
                    let at = field["offset"].as_u64().unwrap();
                    (
                        at,
                        text("bytes").to_owned(),
                        our_name(text("name")),
                        text("value"),
                    )
                })
                .collect();
            let places: Vec<_> = theirs.iter().map(|t| (t.0, t.1.as_str(), t.2)).collect();
            let ours: Vec<_> = message
                .fields
                .iter()
                .map(|f| (f.0, f.1.as_str(), f.2.as_str()))
                .collect();
            assert_eq!(ours, places, "{name}");
            for (ours, theirs) in message.fields.iter().zip(&theirs) {
                if theirs.3.is_empty() || theirs.2 == "uadp.security.nonce" {
                    continue;
                }
                let same = match (ours.3.parse::<f64>(), theirs.3.parse::<f64>()) {
                    (Ok(ours), Ok(theirs)) => ours == theirs,
                    _ => ours.3 == theirs.3,
                };
                assert!(same, "{name}: {ours:?}, {theirs:?}");
                values += 1;
            }
        }
    }
    assert!(values > 800, "{values}");
}

#[test]
fn every_cut_message_is_told() {
    require!(program "tshark");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.pcapng");
    let whole = "f101ba080964000000014df40900000300060003020106010302010603030201";
    let octet = |at: usize| u8::from_str_radix(&whole[at..at + 2], 16).unwrap();
    let message: Vec<u8> = (0..whole.len()).step_by(2).map(octet).collect();
    let mut capture = fs::File::create(&file).unwrap();
    let mut writer = Writer::new(&mut capture, LINK_ETHERNET).unwrap();
    let mut record = |message: &[u8]| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0xb6, 0x2c];
        frame.extend(message);
        let recorded = Recorded {
            time_ns: 1,
            data: &frame,
            original_octets: frame.len() as u32,
            comment: "",
        };
        writer.packet(&recorded).unwrap();
    };
    // An empty message has no layer.
    for octets in 1..message.len() {
        record(&message[..octets]);
    }
    let mut wrong = message.clone();
    wrong[0] = 0xf2;
    record(&wrong);
    wrong = message.clone();
    wrong[17] = 0x1f;
    record(&wrong);
    wrong = message.clone();
    wrong.extend([0, 0, 7]);
    record(&wrong);
    let found = dissected(&file);
    assert_eq!(found.len(), message.len() + 2);
    let (cut, wrong) = found.split_at(message.len() - 1);
    for (octets, message) in (1..).zip(cut) {
        // The header alone is a heartbeat.
        let expected: &[&str] = if octets == 15 {
            &[]
        } else {
            &["uadp.truncated"]
        };
        assert_eq!(message.experts, expected, "cut to {octets}");
    }
    let faults: Vec<_> = wrong
        .iter()
        .map(|message| message.experts.join(" "))
        .collect();
    assert_eq!(
        faults,
        ["uadp.wrong_version", "uadp.reserved", "uadp.trailing"]
    );
}

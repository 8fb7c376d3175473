//! `rtwire export`: YANG data as published, and a page that has it all.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "yang_common/mod.rs"]
mod yang_common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const GATED: &str = r#"
[network]
name = "t"
[[switch]]
name = "s"
buffer = "200 kB"
queues = 8
gates = "unlimited"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "s"]
rate = "100 Mbit/s"
[[link]]
ends = ["s", "B"]
rate = "100 Mbit/s"
[[stream]]
name = "fast"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 7
schedule = "time-triggered"
vlan = 5
"#;

fn export(text: &str, more: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .arg("export")
        .arg(&file)
        .args(more)
        .output()
        .unwrap();
    (folder, output)
}

/// The data of the one switch `s`.
fn exported(text: &str, more: &[&str]) -> (tempfile::TempDir, Value) {
    let mut arguments = vec!["--yang", "--switch", "s"];
    arguments.extend(more);
    let (folder, output) = export(text, &arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let data = serde_json::from_slice(&output.stdout).unwrap();
    (folder, data)
}

/// The network without gates, with a credit for PCP 7 at the ports of `s`, and a stream in it.
fn credit(text: &str, more: &str) -> String {
    let text = text
        .replace("schedule = \"time-triggered\"\n", "")
        .replace("gates = \"unlimited\"\n", "");
    format!(
        "{text}[[stream]]\nname = \"slow\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"64 B\"\ninterval = \"1 ms\"\npriority = 6\n\
         [[shaper]]\nnode = \"s\"\n{more}priority = 7\nkind = \"credit\"\nidle-slope = \"20 Mbit/s\"\n"
    )
}

fn lint(folder: &Path, document: &Value) -> (bool, String) {
    yang_common::lint(folder, document).unwrap()
}

/// Every path to a value, as JSON pointers.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(key, value)| paths(value, &format!("{at}/{key}"), found)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(nth, value)| paths(value, &format!("{at}/{nth}"), found)),
        _ => {}
    }
}

const COMPONENT: &str = "/ieee802-dot1q-bridge:bridges/bridge/0/component/0";
const SFSG: &str = "ieee802-dot1q-stream-filters-gates-bridge";
const IDENTITY: &str = "/ieee802-dot1cb-stream-identification:stream-identity/0";

/// AVB's table: PCP 3 is class A. The credit is at the class that the map names.
#[test]
fn the_map_of_priorities_is_in_the_data_and_on_the_page() {
    let text = credit(GATED, "to = \"B\"\n")
        .replace(
            "queues = 8\n",
            "queues = 8\npriority-map = \"802.1q-avb\"\n",
        )
        .replace("priority = 7\nkind", "priority = 3\nkind");
    let (folder, data) = exported(&text, &[]);
    let (valid, said) = lint(folder.path(), &data);
    assert!(valid, "{said}\n{data:#}");
    let port = "/ietf-interfaces:interfaces/interface/0/ieee802-dot1q-bridge:bridge-port";
    let table = data
        .pointer(&format!("{port}/traffic-class/traffic-class-table"))
        .unwrap();
    for (pcp, class) in [(0, 1), (1, 0), (2, 6), (3, 7), (7, 5)] {
        assert_eq!(table[format!("priority{pcp}")], class, "{table}");
    }
    let (_, page) = export(&text, &["--page", "--switch", "s"]);
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(
        page.contains("traffic class 7: credit-based shaper"),
        "{page}"
    );
    let row = page
        .lines()
        .find(|line| line.trim_start().starts_with("traffic class "))
        .unwrap();
    let row: Vec<&str> = row.split_whitespace().skip(2).collect();
    assert_eq!(row, ["1", "0", "6", "7", "2", "3", "4", "5"], "{page}");
}

#[test]
fn data_of_a_gated_switch_are_as_published_and_each_departure_is_refused() {
    let (folder, data) = exported(GATED, &[]);
    let (valid, said) = lint(folder.path(), &data);
    assert!(valid, "{said}\n{data:#}");
    // The departures that were in force until the structure was published in 2023, and others.
    let removed = |path: &str, key: &str| {
        let mut wrong = data.clone();
        let members = wrong.pointer_mut(path).unwrap().as_object_mut().unwrap();
        members.remove(key).unwrap();
        wrong
    };
    let replaced = |path: &str, value: Value| {
        let mut wrong = data.clone();
        *wrong.pointer_mut(path).unwrap() = value;
        wrong
    };
    let renamed = |path: &str, old: &str, new: &str| {
        let mut wrong = data.clone();
        let members = wrong.pointer_mut(path).unwrap().as_object_mut().unwrap();
        let value = members.remove(old).unwrap();
        members.insert(new.to_owned(), value);
        wrong
    };
    let filter = format!("{COMPONENT}/{SFSG}:stream-filters/stream-filter-instance-table/0");
    let bridge = "/ieee802-dot1q-bridge:bridges/bridge/0";
    let port = "/ietf-interfaces:interfaces/interface/0/ieee802-dot1q-bridge:bridge-port";
    for (what, wrong) in [
        ("no address", removed(bridge, "address")),
        ("no type of bridge", removed(bridge, "bridge-type")),
        ("no type of component", removed(COMPONENT, "type")),
        (
            "filters in the module of 2020",
            renamed(
                COMPONENT,
                &format!("{SFSG}:stream-filters"),
                "ieee802-dot1q-stream-filters-gates:stream-filters",
            ),
        ),
        (
            "a filter without its gate",
            replaced(
                &format!("{COMPONENT}/{SFSG}:stream-gates/stream-gate-instance-table"),
                Value::Array(Vec::new()),
            ),
        ),
        (
            "an address with colons",
            replaced(&format!("{bridge}/address"), "02:72:74:00:00:01".into()),
        ),
        ("no largest frame", removed(&filter, "max-sdu-size")),
        (
            "a priority as a number",
            replaced(&format!("{filter}/priority-spec"), 7.into()),
        ),
        (
            "an identity without its parameters",
            removed(IDENTITY, "null-stream-identification"),
        ),
        (
            "an identity at a port that is not there",
            replaced(
                &format!("{IDENTITY}/out-facing/input-port/0"),
                "swp9".into(),
            ),
        ),
        (
            "a class that no port has",
            replaced(
                &format!("{port}/traffic-class/traffic-class-table/priority7"),
                8.into(),
            ),
        ),
    ] {
        let (valid, _) = lint(folder.path(), &wrong);
        assert!(!valid, "accepted: {what}");
    }
    // A filter whose handle belongs to no identity: the modules accept it, and it does nothing.
    let unknown = replaced(&format!("{filter}/stream-handle"), 4_000_000.into());
    let faults = yang_common::structure::faults(&unknown);
    assert!(
        faults.iter().any(|fault| fault.contains("stream-handle")),
        "{faults:?}"
    );
    no_node_is_renamed_unnoticed(&data);
}

#[test]
fn data_of_a_switch_with_credits_are_as_published_and_a_departure_is_refused() {
    let (folder, data) = exported(&credit(GATED, ""), &[]);
    let (valid, said) = lint(folder.path(), &data);
    assert!(valid, "{said}\n{data:#}");
    no_node_is_renamed_unnoticed(&data);
    let slope = "/ietf-interfaces:interfaces/interface/0/ieee802-dot1q-bridge:bridge-port/\
        ieee802-dot1q-cbsa-bridge:cbsa/cbsa-parameter-table/0/admin-idle-slope";
    let mut wrong = data;
    // Numbers of 64 bits are texts in JSON (RFC 7951, section 6.1).
    *wrong.pointer_mut(slope).unwrap() = 20_000_000.into();
    assert!(!lint(folder.path(), &wrong).0);
}

#[test]
fn data_of_a_switch_with_preemption_are_as_published_and_a_departure_is_refused() {
    let example = include_str!("../examples/preemption.toml");
    let (folder, output) = export(example, &["--yang", "--switch", "s2"]);
    assert!(output.status.success());
    let data: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (valid, said) = lint(folder.path(), &data);
    assert!(valid, "{said}\n{data:#}");
    no_node_is_renamed_unnoticed(&data);
    let table = "ieee802-dot1q-bridge:bridge-port/\
        ieee802-dot1q-preemption-bridge:frame-preemption-parameters/frame-preemption-status-table";
    let ports = data["ietf-interfaces:interfaces"]["interface"].as_array();
    for port in ports.unwrap() {
        let name = port["name"].as_str().unwrap();
        let status = port.pointer(&format!("/{table}")).unwrap();
        for pcp in 0..8 {
            // drive2, computer and archive have no preemption: frames to them are whole.
            let may_be_interrupted = pcp < 4 && matches!(name, "s1" | "drive1");
            let expected = ["express", "preemptable"][usize::from(may_be_interrupted)];
            assert_eq!(status[format!("priority{pcp}")], expected, "{name} {pcp}");
        }
    }
    let mut wrong = data.clone();
    let first = format!("/ietf-interfaces:interfaces/interface/0/{table}/priority0");
    *wrong.pointer_mut(&first).unwrap() = "preemptible".into();
    assert!(!lint(folder.path(), &wrong).0, "accepted: another word");
    let (_folder, output) = export(example, &["--page", "--switch", "s2"]);
    let page = String::from_utf8(output.stdout).unwrap();
    for line in [
        "priorities 0, 1, 2, 3 preemptable, all others express; addFragSize 0 at drive1",
        "frame preemption: none, all priorities express",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

fn no_node_is_renamed_unnoticed(data: &Value) {
    let mut all = Vec::new();
    paths(data, "", &mut all);
    for path in &all {
        let Some(members) = data.pointer(path).and_then(Value::as_object) else {
            continue;
        };
        for key in members.keys() {
            let mut wrong = data.clone();
            let members = wrong.pointer_mut(path).unwrap().as_object_mut().unwrap();
            let value = members.remove(key).unwrap();
            members.insert(format!("{key}x"), value);
            let faults = yang_common::structure::faults(&wrong);
            assert!(!faults.is_empty(), "accepted: {path}/{key}x");
        }
    }
}

#[test]
fn every_switch_of_every_example_exports_data_as_published() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for path in networks(&examples) {
        let (folder, output) = export(&fs::read_to_string(&path).unwrap(), &["--yang"]);
        // Some are there to be refused, and two are not for switches that rtwire can tell about it.
        let said = String::from_utf8_lossy(&output.stderr);
        let redundant = said.contains("has `redundancy`");
        let routed = said.contains("\"r1\" is a router");
        if output.status.code() == Some(1) || redundant || routed {
            assert_eq!(redundant, path.ends_with("redundant.toml"));
            assert_eq!(routed, path.ends_with("routed.toml"));
            continue;
        }
        assert!(
            output.status.success(),
            "{}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (name, data) in all.as_object().unwrap() {
            let (valid, said) = lint(folder.path(), data);
            assert!(valid, "{}: {name}: {said}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} switches");
}

/// The networks below a folder.
fn networks(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(networks(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && fs::read_to_string(&path).unwrap().contains("[[switch]]")
        {
            found.push(path);
        }
    }
    found
}

/// The data of one stream, calculated by hand from the description: A (port 1) sends `fast` in VLAN 5 with PCP 7 to B (port 2);
/// C (port 3) neither sends nor hears it.
#[test]
fn static_entries_vlans_and_identification_follow_the_route() {
    let text = format!(
        "{GATED}[[host]]\nname = \"C\"\n[[link]]\nends = [\"s\", \"C\"]\nrate = \"100 Mbit/s\"\n"
    );
    let (_folder, data) = exported(
        &text,
        &["--port", "s>B=swp2#12", "--address", "s=00:1b:21:0a:0b:0c"],
    );
    assert_eq!(
        data["ieee802-dot1q-bridge:bridges"]["bridge"][0]["address"],
        "00-1B-21-0A-0B-0C"
    );
    let number = |name: &str| -> u64 {
        let interfaces = data["ietf-interfaces:interfaces"]["interface"]
            .as_array()
            .unwrap();
        let one = interfaces.iter().find(|one| one["name"] == name).unwrap();
        let words = one["description"].as_str().unwrap();
        let number = words
            .strip_prefix("port ")
            .and_then(|rest| rest.split(':').next());
        number.unwrap().parse().unwrap()
    };
    assert_eq!(number("swp2"), 12);
    let component = data.pointer(COMPONENT).unwrap();
    let database = &component["filtering-database"];
    let entry = &database["filtering-entry"][0];
    assert_eq!(entry["vids"], "5");
    assert_eq!(entry["entry-type"], "static");
    let word = |entry: &Value, port: &str, kind: &str, leaf: &str| -> String {
        let map = entry["port-map"].as_array().unwrap();
        let one = map
            .iter()
            .find(|one| one["port-ref"] == number(port))
            .unwrap();
        one[kind][leaf].as_str().unwrap().to_owned()
    };
    for (port, control) in [("A", "filter"), ("swp2", "forward"), ("C", "filter")] {
        let found = word(entry, port, "static-filtering-entries", "control-element");
        assert_eq!(found, control, "{port}");
    }
    let vlans = database["vlan-registration-entry"].as_array().unwrap();
    let tagged = vlans.iter().find(|one| one["vids"] == "5").unwrap();
    let kind = "static-vlan-registration-entries";
    for (port, control) in [
        ("A", "fixed-new-ignored"),
        ("swp2", "fixed-new-ignored"),
        ("C", "forbidden"),
    ] {
        let found = word(tagged, port, kind, "registrar-admin-control");
        assert_eq!(found, control, "{port}");
        assert_eq!(word(tagged, port, kind, "vlan-transmitted"), "tagged");
    }
    let untagged = vlans.iter().find(|one| one["vids"] == "1").unwrap();
    assert_eq!(word(untagged, "C", kind, "vlan-transmitted"), "untagged");
    let identity = data.pointer(IDENTITY).unwrap();
    assert_eq!(
        identity["out-facing"]["input-port"],
        serde_json::json!(["A"])
    );
    let parameters = &identity["null-stream-identification"];
    assert_eq!(parameters["tagged"], "tagged");
    assert_eq!(parameters["vlan"], 5);
    assert_eq!(parameters["destination-mac"], entry["address"]);
    let filter = &component[format!("{SFSG}:stream-filters")]["stream-filter-instance-table"][0];
    assert_eq!(filter["stream-handle"], identity["handle"]);
    assert_eq!(filter["priority-spec"], "seven");
    // 64 B of user data, 16 B of RTDiP, 8 B of its time stamp.
    assert_eq!(filter["max-sdu-size"], 88);
    let gates = &component[format!("{SFSG}:stream-gates")]["stream-gate-instance-table"];
    assert_eq!(gates.as_array().unwrap().len(), 1);
    assert_eq!(gates[0]["admin-ipv"], "null", "the tag says it");
}

/// A bridge takes such frames as of its port's priority, or as of what a tag without a VLAN says: neither is the plan's.
#[test]
fn frames_without_a_vlan_have_their_priority_from_a_gate() {
    for vlan in ["", "vlan = 0\n"] {
        let (_folder, data) = exported(&GATED.replace("vlan = 5\n", vlan), &[]);
        let component = data.pointer(COMPONENT).unwrap();
        let filter =
            &component[format!("{SFSG}:stream-filters")]["stream-filter-instance-table"][0];
        let gates = component[format!("{SFSG}:stream-gates")]["stream-gate-instance-table"]
            .as_array()
            .unwrap();
        assert_eq!(
            (filter["priority-spec"].as_str(), gates.len()),
            (Some("wildcard"), 1)
        );
        assert_eq!(
            filter["stream-gate-ref"],
            gates[0]["stream-gate-instance-id"]
        );
        assert_eq!(gates[0]["admin-ipv"], "seven");
        let identity = &data.pointer(IDENTITY).unwrap()["null-stream-identification"];
        assert_eq!(
            (&identity["tagged"], &identity["vlan"]),
            (&"priority".into(), &0.into())
        );
    }
    let (_folder, output) = export(&GATED.replace("vlan = 5\n", ""), &["--page"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.contains("the switch takes the PCP above by their address"),
        "{page}"
    );
}

#[test]
fn credits_are_in_the_data_and_on_the_page_and_what_is_in_neither_is_told() {
    let text = credit(GATED, "to = \"B\"\n");
    let (_folder, data) = exported(&text, &[]);
    let interfaces = data["ietf-interfaces:interfaces"]["interface"]
        .as_array()
        .unwrap();
    for one in interfaces {
        let port = &one["ieee802-dot1q-bridge:bridge-port"];
        let slope = port.pointer("/ieee802-dot1q-cbsa-bridge:cbsa/cbsa-parameter-table/0");
        let map = "/transmission-selection-algorithm-table/transmission-selection-algorithm-map/0";
        if one["name"] == "B" {
            let wanted = serde_json::json!({ "traffic-class": 7, "admin-idle-slope": "20000000" });
            assert_eq!(slope, Some(&wanted));
            assert_eq!(port.pointer(map).unwrap()["traffic-class"], 7);
        } else {
            assert_eq!((slope, port.pointer(map)), (None, None), "only B's port");
        }
    }
    let (_folder, output) = export(&text, &["--page"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.contains("traffic class 7: credit-based shaper (802.1Qav), idle slope 20000000 bit/s"),
        "{page}"
    );
    // Nothing of the plan may be missing in silence.
    let asynchronous = text
        .replace("kind = \"credit\"", "kind = \"asynchronous\"")
        .replace("idle-slope = \"20 Mbit/s\"\n", "")
        .replace("vlan = 5\n", "transport = \"udp\"\n");
    let (_folder, output) = export(&asynchronous, &["--yang"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("port B, class 7: its asynchronous shapers"),
        "{told}"
    );
    assert!(told.contains("fast has no filter"), "{told}");
    let example = include_str!("../examples/preemption.toml");
    let (_folder, output) = export(example, &["--yang"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let missing = "port plc: the MAC merge sublayer (802.3, clause 99) is not in the data; turn it on at both ends of the \
        link, with addFragSize 0 at plc";
    assert!(told.contains(missing), "{told}");
    let example = include_str!("../examples/flow-meters.toml");
    let (_folder, output) = export(example, &["--yang", "--switch", "s1"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("pictures: its flow meter at the port to camera"),
        "{told}"
    );
    let (_folder, output) = export(example, &["--page", "--switch", "s1"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.contains("Flow meters (802.1Q") && page.contains("CBS B"),
        "{page}"
    );
    let example = include_str!("../examples/cyclic.toml");
    let (_folder, output) = export(example, &["--yang", "--switch", "s2"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("priority 6: the stream gates of cyclic queueing"),
        "{told}"
    );
    let (_folder, output) = export(example, &["--page", "--switch", "s2"]);
    let page = String::from_utf8(output.stdout).unwrap();
    for line in [
        "for all frames of priority 6: always open, cycle 250000 ns",
        "125000 ns                      7\n  125000 ns                      6\n",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    let (_folder, output) = export(&asynchronous, &["--page"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.contains("asynchronous traffic shaping (802.1Qcr)"),
        "{page}"
    );
}

#[test]
fn each_switch_has_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("switches");
    let shown = into.to_str().unwrap();
    let (_folder, whole) = export(GATED, &["--yang"]);
    let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
    for (form, end) in [("--yang", "json"), ("--page", "txt")] {
        let (_folder, output) = export(GATED, &[form, "--into", shown]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let name = into.join(format!("s.{end}"));
        let listed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(listed.trim(), name.to_str().unwrap());
        let text = fs::read_to_string(name).unwrap();
        if end == "json" {
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole["s"]);
        } else {
            assert!(text.contains("switch s"), "{text}");
        }
    }
}

#[test]
fn the_page_has_what_a_person_types_in() {
    let (_folder, output) = export(GATED, &["--page", "--port", "s>B=swp2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "switch s",
        "traffic class",
        "port swp2 (to B)",
        "cycle 1000000 ns",
        "0x80",
        "tc7",
        "fast",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

/// A number that is stated for one port is not given to another. A number alone leaves the name.
#[test]
fn ports_without_a_number_get_those_that_are_free() {
    for number in 1..=3 {
        let (_folder, output) = export(GATED, &["--page", "--port", &format!("s>B=#{number}")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{number}: {said}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("port B (to B)"), "{text}");
    }
}

#[test]
fn wrong_usage_is_named() {
    for (more, part) in [
        (vec!["--yang", "--switch", "x"], "switches are s"),
        (vec!["--page", "--port", "s>X=swp1"], "no such port"),
        (
            vec!["--page", "--port", "s>B=swp1#0"],
            "no number of a port",
        ),
        (vec!["--page", "--port", "s>B=A"], "are both called A"),
        (
            vec!["--page", "--port", "s>B=#7", "--port", "s>A=#7"],
            "both have the number 7",
        ),
        (
            vec!["--yang", "--address", "x=00-1B-21-00-00-01"],
            "no such switch",
        ),
        (
            vec!["--yang", "--address", "s=01-1B-21-00-00-01"],
            "no address of a switch",
        ),
        (vec![], "--yang"),
        (vec!["--yang", "--into", "/proc/none"], "/proc/none"),
    ] {
        let (_folder, output) = export(GATED, &more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

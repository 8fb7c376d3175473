//! Files of other kinds, given to each command that reads a network description or a POWERLINK project: one message, which
//! says what the file seems to be, where that shows and what would be right; never a parser's hundred faults.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn rtwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(arguments)
        .output()
        .unwrap()
}

/// What each command takes besides the file.
const COMMANDS: [&[&str]; 8] = [
    &["plan"],
    &["lab"],
    &["run", "--host", "A", "--interface", "lo"],
    &["apply", "--host", "A", "--interface", "lo"],
    &["export", "--page"],
    &["simulate"],
    &["powerlink", "mn"],
    &["powerlink", "cn"],
];

/// A folder with a file of each kind: its name, its first faulty place, what it is called, and what is said of it.
fn kinds(folder: &Path) -> Vec<(PathBuf, &'static str, &'static str, &'static str)> {
    let example = project("examples/five-nodes.toml");
    let plan = rtwire(&["plan", example.to_str().unwrap(), "--json"]).stdout;
    assert!(plan.len() > 10_000, "a plan of many lines");
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let page = "<!DOCTYPE html>\n<html><head><title>r</title></head>\n".to_owned()
        + &"<p style=\"x = 1\">some words</p>\n".repeat(200);
    let table = "stream,src,dst,size\n".to_owned() + &"1,[2],[3, 4],100\n".repeat(60);
    let utf16: Vec<u8> = "\u{feff}[network]\nname = \"x\"\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let cdc = [
        &2_u32.to_le_bytes()[..],
        &[0x06, 0x10, 0, 4, 0, 0, 0, 0x10, 0x27, 0, 0],
        &[0x83, 0x1f, 0, 1, 0, 0, 0, 5],
    ]
    .concat();
    vec![
        (
            write("plan.json", &plan),
            "plan.json:1:1: ",
            "this is a plan, as `rtwire plan --json` prints it",
            "plans are for `rtwire plan`",
        ),
        (
            write("cut.json", &plan[..plan.len() / 2]),
            "cut.json:1:1: ",
            "this is JSON",
            "`rtwire import`",
        ),
        (
            write("list.json", b"[\n {\"name\": 1}\n]\n"),
            "list.json:1:2: ",
            "this is JSON",
            "`rtwire import`",
        ),
        (
            write("report.html", page.as_bytes()),
            "report.html:1:1: ",
            "this is a page for a browser (HTML)",
            "the .json beside it",
        ),
        (
            write(
                "device.xdd",
                b"<?xml version=\"1.0\"?>\n<ISO15745ProfileContainer>\n<a b=\"c\"/>\n",
            ),
            "device.xdd:1:1: ",
            "this is a device description (XDD, XDC)",
            "names it with `description`",
        ),
        (
            write("cell.cdc", &cdc),
            "cell.cdc:1:1: ",
            "this is no text",
            "named by `cdc`",
        ),
        (
            project("tests/captures/powerlink/boot-three-nodes.pcap"),
            ".pcap:1:1: ",
            "this is a capture of frames (pcap)",
            "`rtwire jitter` reads captures",
        ),
        (
            write("utf16.toml", &utf16),
            "utf16.toml:1:1: ",
            "this is a text in UTF-16",
            "save it as UTF-8",
        ),
        (
            write("streams.csv", table.as_bytes()),
            "streams.csv:1:",
            "this is a text of another kind",
            "expected is a",
        ),
        (
            write("latin.toml", b"[network]\n# caf\xe9\nname = \"x\"\n"),
            "latin.toml:2:6: ",
            "not in UTF-8: byte 0xe9",
            "save it so",
        ),
    ]
}

/// Whether commands that take plans read it as one (`plan_file_command`).
fn is_about_plans(file: &Path) -> bool {
    file.ends_with("plan.json") || file.ends_with("cut.json")
}

#[test]
fn each_command_says_what_the_file_is_and_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    for (file, place, what, help) in kinds(folder.path()) {
        for command in COMMANDS {
            if is_about_plans(&file) && command[0] != "powerlink" {
                continue;
            }
            let mut arguments = command.to_vec();
            arguments.push(file.to_str().unwrap());
            let output = rtwire(&arguments);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let at = format!("{arguments:?}\n{said}");
            assert_eq!(output.status.code(), Some(2), "{at}");
            assert!(output.stdout.is_empty(), "{at}");
            assert!(said.lines().count() <= 5 && said.len() < 800, "{at}");
            let wanted = if command[0] == "powerlink" {
                "a POWERLINK project (docs/powerlink-stations.md)"
            } else {
                "a network description (docs/network-description.md)"
            };
            for part in [place, what, help, wanted] {
                assert!(said.contains(part), "`{part}` is missing: {at}");
            }
            assert!(said.trim_end().ends_with("1 fault"), "{at}");
        }
    }
    for document in ["network-description.md", "powerlink-stations.md"] {
        assert!(project("docs").join(document).exists(), "{document}");
    }
}

#[test]
fn json_of_a_faulty_file_has_the_fault_too() {
    let folder = tempfile::tempdir().unwrap();
    for (file, _, what, _) in kinds(folder.path()) {
        let what = match file.file_name().and_then(|name| name.to_str()) {
            Some("plan.json") => continue,
            Some("cut.json") => "the plan is cut off here",
            _ => what,
        };
        let output = rtwire(&["plan", "--json", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["status"], "invalid");
        let faults = answer["faults"].as_array().unwrap();
        assert_eq!(faults.len(), 1);
        assert!(faults[0]["message"].as_str().unwrap().contains(what));
    }
}

#[test]
fn a_description_with_many_slips_shows_twenty_and_counts_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let slips = |head: &str| {
        let mut text = head.to_owned();
        for at in 0..90 {
            text += &format!("key{at} = value of {at}\n");
        }
        text
    };
    for (command, head) in [
        (&["plan"][..], "[network]\nname = \"x\"\n"),
        (&["powerlink", "mn"], "[station]\nnode = 240\n"),
    ] {
        let file = folder.path().join("slips.toml");
        fs::write(&file, slips(head)).unwrap();
        let mut arguments = command.to_vec();
        arguments.push(file.to_str().unwrap());
        let output = rtwire(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.matches("slips.toml:").count(), 20, "{said}");
        let count: usize = said
            .trim_end()
            .rsplit('\n')
            .next()
            .and_then(|last| last.strip_suffix(" faults"))
            .and_then(|count| count.parse().ok())
            .unwrap();
        assert!(count >= 90, "{said}");
        assert!(said.contains(&format!("and {} more", count - 20)), "{said}");
    }
}

//! A UDP stream with several listeners in the lab: once over each link, and nowhere else. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::{Command, Stdio};

use rtwire_testkit::require;
use serde_json::Value;

const HEAD: &str = r#"
[network]
name = "datagrams to several"
[defaults]
tick-error = "5 ms"
link-rate = "100 Mbit/s"
[[stream]]
name = "telemetry"
talker = "A"
listeners = ["B", "C"]
payload = "200 B"
interval = "1 ms"
priority = 4
transport = "udp"
"#;

/// A and B at one switch, C and D at the next.
fn network() -> String {
    let mut text = HEAD.to_owned();
    for switch in ["s1", "s2"] {
        text +=
            &format!("[[switch]]\nname = \"{switch}\"\nlatency = \"10 us\"\nbuffer = \"64 KiB\"\n");
    }
    for host in ["A", "B", "C", "D"] {
        text += &format!("[[host]]\nname = \"{host}\"\n");
    }
    for (a, b) in [
        ("A", "s1"),
        ("B", "s1"),
        ("s1", "s2"),
        ("C", "s2"),
        ("D", "s2"),
    ] {
        text += &format!("[[link]]\nends = [\"{a}\", \"{b}\"]\n");
    }
    text
}

fn rtwire(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Takes the lab down, however the test ends.
struct Lab(String);

impl Drop for Lab {
    fn drop(&mut self) {
        rtwire(&["lab", "down", &self.0]);
    }
}

#[test]
fn datagrams_reach_every_listener_and_nobody_else() {
    require!(root, program "ip");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("network.toml");
    std::fs::write(&file, network()).unwrap();
    let arguments = [
        "lab",
        file.to_str().unwrap(),
        "--duration",
        "1s",
        "--calibration",
        "500ms",
        "--keep",
        "--json",
    ];
    let (code, out, said) = rtwire(&arguments);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{said}"));
    let labs: Value = serde_json::from_str(&rtwire(&["lab", "list", "--json"]).1).unwrap();
    let ours = labs.as_array().unwrap().iter().find(|lab| {
        lab["file"]
            .as_str()
            .is_some_and(|path| path.ends_with(file.to_str().unwrap()))
    });
    let lab = Lab(ours.unwrap()["id"].as_str().unwrap().to_owned());
    // A shared machine may stall; what it must not do is lose frames or break a promise.
    assert!(matches!(code, Some(0 | 4)), "{code:?} {report:#} {said}");
    let streams = report["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2);
    for stream in streams {
        assert!(stream["frames_sent"].as_u64().unwrap() > 500, "{stream:#}");
        assert_eq!(
            stream["frames_received"], stream["frames_sent"],
            "{stream:#}"
        );
    }
    // What has come to D, whom nobody sends to: a question of its switch for members, no more.
    let (_, devices, _) = rtwire(&["lab", "enter", &lab.0, "D", "cat", "/proc/net/dev"]);
    let received: u64 = devices
        .lines()
        .filter(|line| !line.contains("lo:"))
        .filter_map(|line| {
            line.split_once(':')?
                .1
                .split_whitespace()
                .nth(1)?
                .parse::<u64>()
                .ok()
        })
        .sum();
    assert!(received < 20, "{devices}");
}

//! Managers and agents watched from outside: their status files, `rtwire metrics`, `rtwire top`; and their systemd units.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rtwire_agent::{End, Reply};
use rtwire_testkit::require;
use serde_json::Value;

use crate::room::{BINARY, Room, Running, text, until, wish};
use crate::streams::{by_agent, listener_of, talker_of};
use crate::streams_faults::{STREAM, wish as stream_wish};

/// The families of a text with their samples, by the reader of Prometheus's own library for Python.
const READER: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
found = {}
for family in families(sys.stdin.read()):
    for sample in family.samples:
        assert sample.value == sample.value, sample
        found.setdefault(sample.name, []).append([sample.labels, sample.value])
print(json.dumps(found))
";

fn units() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn get(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn parsed(body: &str) -> Value {
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut into = python.stdin.take().unwrap();
    into.write_all(body.as_bytes()).unwrap();
    drop(into);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{body}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn figures_are_those_of_the_manager_and_the_agents() {
    require!(root, program "ip", program "python3");
    let room = Room::new();
    let _manager = room.manager();
    let _agents = [room.agent("press"), room.agent("office")];
    let mut client = room.client("press");
    let (channel, socket) = client.reserve(wish()).unwrap();
    let mut hearing = room.client("office");
    let (_, heard) = hearing.listen(channel.connection).unwrap();
    let (_, _stream) = client
        .open(stream_wish(&room, End::Talker, STREAM))
        .unwrap();
    // Five frames as admitted, and two that are too long: the program at the other end counts what comes.
    heard
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut came = 0;
    for (count, bytes) in [(2, 959), (5, 958)] {
        for _ in 0..count {
            // Longer ones have the error of a frame that was dropped.
            let _ = socket.send(&vec![7; bytes]);
            if bytes == 958 {
                assert_eq!(heard.recv(&mut [0; 2_000]).unwrap(), bytes);
                came += 1;
            }
        }
    }
    let files = ["manager.status", "press.status", "office.status"];
    let known = |name: &str, key: &str| {
        let bytes = fs::read(room.path(name)).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()?[key].as_u64()
    };
    until("the connection in the files", || {
        known(files[0], "connections") == Some(1) && known(files[1], "channels") == Some(1)
    });

    let end_of = |name: &str, stream: &str| {
        let bytes = fs::read(room.path(name)).ok()?;
        let status: Value = serde_json::from_slice(&bytes).ok()?;
        let mut ends = status["ends"].as_array()?.iter();
        ends.find(|end| end["stream"] == stream).cloned()
    };
    until("the counts of both ends in the files", || {
        let counts = |name, end, foreign| {
            end_of(name, "connection-1").is_some_and(|found| {
                found["end"] == end && found["frames"] == came && found["foreign"] == foreign
            })
        };
        counts(files[1], "talker", 2) && counts(files[2], "listener", 0)
    });
    let stream = end_of(files[1], STREAM).unwrap();
    assert_eq!(
        (&stream["end"], &stream["pid"], &stream["frames"]),
        (&"talker".into(), &std::process::id().into(), &0.into())
    );

    let mut command = Command::new(BINARY);
    command
        .current_dir(room.folder.path())
        .args(["metrics", "--listen", "127.0.0.1:0"]);
    command
        .args(files)
        .arg("none.status")
        .stderr(Stdio::piped());
    let mut metrics = Running::start(&mut command);
    let mut lines = BufReader::new(metrics.child.stderr.take().unwrap()).lines();
    let missing = lines.next().unwrap().unwrap();
    assert!(missing.contains("`none.status`"), "{missing}");
    let ready = lines.next().unwrap().unwrap();
    let address = ready
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.strip_suffix("/metrics"));
    let address: SocketAddr = address.unwrap().parse().unwrap();

    for (request, code) in [
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\u{1}\u{2}\r\n\r\n", "405"),
    ] {
        let answer = get(address, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
    }
    // Too much, and never an end: no answer, and the next one is served.
    assert_eq!(get(address, &"x".repeat(100_000)), "");
    let answer = get(address, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    let found = parsed(body);
    let value = |name: &str, labels: &Value| {
        let samples = found[name]
            .as_array()
            .unwrap_or_else(|| panic!("no {name}: {body}"));
        let mut samples = samples.iter();
        let sample = samples.find(|sample| sample[0] == *labels);
        sample.unwrap_or_else(|| panic!("no {labels}: {body}"))[1]
            .as_f64()
            .unwrap()
    };
    let none = serde_json::json!({});
    assert_eq!(value("rtwire_manager_connections", &none), 1.0);
    assert_eq!(
        value("rtwire_manager_connections_granted_total", &none),
        1.0
    );
    let press = serde_json::json!({"host": "press"});
    assert_eq!(value("rtwire_agent_channels", &press), 1.0);
    let end = serde_json::json!({"host": "office", "stream": "connection-1", "end": "listener"});
    assert_eq!(value("rtwire_agent_stream_frames_total", &end), 5.0);
    // The stream of the plan (10.24 Mbit/s on the wire), its best effort, and the connection of 8 Mbit/s.
    let link = serde_json::json!({"from": "press", "to": "s1"});
    let promised = value("rtwire_link_promised_bits_per_second", &link);
    assert!((18.2e6..19.0e6).contains(&promised), "{promised}");
    assert_eq!(value("rtwire_link_rate_bits_per_second", &link), 100e6);
    let file = |name: &str| serde_json::json!({ "file": name });
    assert_eq!(value("rtwire_status_readable", &file("none.status")), 0.0);
    assert_eq!(value("rtwire_status_readable", &file(files[0])), 1.0);
    let p50 = value(
        "rtwire_manager_answer_seconds",
        &serde_json::json!({"quantile": "0.5"}),
    );
    assert!(p50 > 0.0 && p50 < 10.0, "{p50}");

    let top = room.rtwire(&["top", files[0], files[1], "none.status"]);
    let shown = text(&top);
    assert_eq!(top.status.code(), Some(0), "{shown}");
    for part in [
        "connections 1",
        "press>s1",
        "100 Mbit/s",
        "connection-1",
        STREAM,
        "`none.status`",
    ] {
        assert!(shown.contains(part), "no {part}: {shown}");
    }
    let foreign = room.rtwire(&["top", "plan.json"]);
    assert_eq!(foreign.status.code(), Some(3));
    assert!(
        text(&foreign).contains("is no status file"),
        "{}",
        text(&foreign)
    );
    for (name, schema) in [(files[0], "manager-status"), (files[1], "agent-status")] {
        let schema = room.rtwire(&["schema", schema]);
        let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
        let status: Value = serde_json::from_slice(&fs::read(room.path(name)).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&status), "{status}");
    }
}

#[test]
fn systemd_accepts_the_units() {
    require!(program "systemd-analyze");
    let folder = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for path in units() {
        let unit = fs::read_to_string(&path).unwrap();
        let name = path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replace("@.", "@eth0.");
        let file = folder.path().join(&name);
        // A program that is there, for the check.
        fs::write(&file, unit.replace("/usr/bin/rtwire", BINARY)).unwrap();
        names.push(file);
    }
    assert_eq!(names.len(), 5);
    let mut command = Command::new("systemd-analyze");
    let checked = command
        .args(["verify", "--man=no"])
        .args(&names)
        .output()
        .unwrap();
    // An unknown key is a warning only.
    assert!(
        checked.status.success() && text(&checked).is_empty(),
        "{}",
        text(&checked)
    );
    for path in units() {
        let unit = fs::read_to_string(&path).unwrap();
        let line = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/rtwire "));
        let verb = line.unwrap().split(' ').next().unwrap();
        let help = Command::new(BINARY)
            .args([verb, "--help"])
            .output()
            .unwrap();
        let help = text(&help);
        for option in line
            .unwrap()
            .split(' ')
            .filter(|word| word.starts_with("--"))
        {
            assert!(help.contains(option), "{verb} has no {option}");
        }
    }
}

/// The agent works with no more than the capabilities of its unit.
#[test]
fn the_units_capabilities_are_enough() {
    require!(root, program "ip", program "setpriv");
    let unit = units()
        .into_iter()
        .find(|path| path.ends_with("rtwire-agent@.service"));
    let unit = fs::read_to_string(unit.unwrap()).unwrap();
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let caps: Vec<String> = line
        .unwrap()
        .split(' ')
        .map(|cap| format!("+{}", cap.strip_prefix("CAP_").unwrap().to_lowercase()))
        .collect();
    let caps = format!("-all,{}", caps.join(","));
    let room = Room::new();
    let _manager = room.manager();
    let limited = |host: &str| {
        let own = room.agent_command(host);
        let mut command = room.at(host, "setpriv");
        command.args(["--bounding-set", &caps, "--inh-caps", "-all", BINARY]);
        // The same words as ever, behind the program's name.
        let words: Vec<_> = own
            .get_args()
            .skip_while(|word| *word != BINARY)
            .skip(1)
            .collect();
        command.args(words).args(["--group", "0"]);
        crate::room::started(command, "rtwire agent: ready")
    };
    let _agents = [limited("press"), limited("office")];
    // Both ends of a stream as well: a listener's needs a group of the interface.
    let (press, office) = (by_agent(&room, "press"), by_agent(&room, "office"));
    let mut talker = talker_of(&room, &press, "press-state").unwrap();
    let mut listener = listener_of(&room, &office, "press-state");
    talker.send(b"a value").unwrap();
    let value = listener.recv(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(value.unwrap().data, b"a value");
    let mut client = room.client("press");
    let (channel, socket) = client.reserve(wish()).unwrap();
    socket.send(&[0; 100]).unwrap();
    until("the frame in the counts", || {
        matches!(
            client.counts(channel.connection),
            Ok(Reply::Counts { frames: 1, .. })
        )
    });
}

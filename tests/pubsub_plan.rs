//! Writer groups as streams of a plan: both ends take address, VLAN tag, priority, interval and offset from the plan file, and
//! what does not fit it is refused with its place.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod pubsub_common;

use pubsub_common::*;
use rtwire_testkit::{NetnsPair, require};
use std::path::{Path, PathBuf};
use std::process::Command;

fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/pubsub-tsn").join(name)
}

/// Plans the example's network into the folder.
fn plan(folder: &Folder) -> serde_json::Value {
    let path = folder.path("plan.json");
    let output = Command::new(BINARY)
        .arg("plan")
        .arg(example("network.toml"))
        .arg("--output")
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The example's project, without real-time priority.
fn groups() -> String {
    let text = std::fs::read_to_string(example("planned.toml")).unwrap();
    text.replace("priority = 80 ", "priority = 0 ")
}

#[test]
fn both_ends_take_their_streams_from_the_plan() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let plan = plan(&folder);
    let file = folder.write("project.toml", &groups());
    let listens = [
        "--host",
        "drive",
        "--messages",
        "200",
        "--duration",
        "60s",
        "--values",
        "--json",
    ];
    let mut subscriber = start(&pair.b, "subscribe", &file, &listens);
    let sniff = Command::new("ip")
        .args(["netns", "exec", &pair.b.namespace, BINARY, "sniff"])
        .args([
            &pair.b.interface,
            "--json",
            "--count",
            "20",
            "--duration",
            "60s",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let publisher = start(
        &pair.a,
        "publish",
        &file,
        &["--host", "controller", "--json"],
    );
    // Who publishes when is the plan's: the sample is taken at the instant, or late on a busy machine.
    let mut early = 0;
    for _ in 0..100 {
        let line = subscriber.until("axes / axis 1");
        let rest = line.split("sampled = ").nth(1).unwrap();
        let sampled: u64 = rest.split([',', '\n']).next().unwrap().parse().unwrap();
        let launch = &plan["streams"][0]["launch"];
        let (offset, period) = (count(launch, "offset_ns"), count(launch, "period_ns"));
        early += u64::from((sampled - offset) % period < period / 2);
    }
    assert!(early > 50, "{early} of 100 near their instant");
    let (code, report) = subscriber.end();
    assert_eq!(code, Some(0), "{report}");
    let (_, published) = publisher.stop();
    for at in 0..2 {
        let name = plan["streams"][at]["name"].as_str().unwrap();
        assert_eq!(report["groups"][at]["name"], name, "{report}");
        assert_eq!(published["groups"][at]["name"], name, "{published}");
        let reader = &report["groups"][at]["readers"][0];
        assert!(count(reader, "taken") >= 200, "{report}");
    }
    let seen = sniff.wait_with_output().unwrap();
    let text = String::from_utf8(seen.stdout).unwrap();
    for line in text.lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let identities = plan["streams"].as_array().unwrap().iter();
        let mut identities = identities.map(|stream| &stream["identity"]);
        let of_plan = identities.any(|identity| {
            let mac = &identity["destination"]["mac"];
            line.contains(mac.as_str().unwrap())
                && message["vlan"] == identity["vlan"]
                && message["pcp"] == identity["pcp"]
        });
        assert!(of_plan, "{line}");
    }
    assert_eq!(text.lines().count(), 20, "{text}");
}

/// Runs a verb on the project, and returns the exit code and the message.
fn refused(verb: &str, file: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(BINARY);
    command.arg(verb).arg(file);
    let output = command
        .args(["--interface", "lo", "--duration", "1ms"])
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), error)
}

#[test]
fn what_does_not_fit_the_plan_is_refused_with_its_place() {
    let folder = Folder::new();
    plan(&folder);
    let good = groups();
    let stream = "stream = \"axes\"\n";
    for (verb, host, from, to, wanted) in [
        (
            "publish",
            "controller",
            stream,
            "stream = \"axis\"\n",
            "did you mean `axes`?",
        ),
        (
            "subscribe",
            "drive",
            stream,
            "stream = \"torques\"\n",
            "there are: axes, limits",
        ),
        (
            "publish",
            "controller",
            stream,
            "stream = \"axes\"\ninterval = \"2 ms\"\n",
            "`interval` is 2000000 ns, and the plan's stream has 1000000 ns",
        ),
        (
            "subscribe",
            "drive",
            stream,
            "stream = \"axes\"\noffset = \"7 us\"\n",
            "`offset` is 7000 ns",
        ),
        ("publish", "drive", "", "", "its talker is `controller`"),
        ("subscribe", "controller", "", "", "its listeners: drive"),
        ("publish", "controler", "", "", "did you mean `controller`?"),
        (
            "publish",
            "controller",
            "publisher-id",
            "address = \"01-00-5E-7F-00-01\"\npublisher-id",
            "`address` is the plan's",
        ),
        (
            "publish",
            "controller",
            "publisher-id",
            "transport = \"udp\"\npublisher-id",
            "the transport is UDP",
        ),
        (
            "publish",
            "controller",
            "plan = \"plan.json\"\n",
            "",
            "`stream` needs a plan",
        ),
        (
            "publish",
            "controller",
            "plan.json",
            "project.toml",
            "not a plan",
        ),
        (
            "publish",
            "controller",
            "stream = \"axes\"\n",
            "interval = \"1 ms\"\n",
            "missing key `address` in [connection]",
        ),
        (
            "subscribe",
            "drive",
            "writer = 1\n",
            &format!("writer = 1\n{}", many()),
            "frames of up to 134 bytes, and stream `axes` was planned with 64",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        let file = folder.write("project.toml", &text);
        let (code, error) = refused(verb, &file, &["--host", host]);
        assert_eq!(code, Some(2), "{wanted}: {error}");
        assert!(error.contains(wanted), "{wanted}: {error}");
        assert!(error.contains("project.toml:"), "{error}");
    }
    // The same plan by the option.
    let file = folder.write("project.toml", &good.replace("plan = \"plan.json\"\n", ""));
    let plan = folder.path("plan.json");
    let given = ["--plan", plan.to_str().unwrap(), "--host", "drive"];
    let (_, error) = refused("subscribe", &file, &given);
    assert!(!error.contains("project.toml:"), "{error}");
}

/// Ten more fields.
fn many() -> String {
    let field =
        |at| format!("[[writer-group.data-set.field]]\nname = \"more {at}\"\ntype = \"Int64\"\n");
    (0..10).map(field).collect()
}

//! `rtwire publish` and `rtwire subscribe` between two network namespaces: every transport, layout and protection.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod pubsub_common;

use pubsub_common::*;
use rtwire_testkit::{NetnsPair, Side, require};
use std::io::{BufRead as _, BufReader, Read as _};

/// Publishes 300 messages at `a`, of which 200 must arrive at `b`, and checks each value.
fn delivers(pair: &NetnsPair, folder: &Folder, text: &str) -> serde_json::Value {
    // A machine that stands still for 100 ms, the usual timeout here, is no fault of a station.
    let interval = "interval = \"2 ms\"\n";
    let patient = format!("{interval}receive-timeout = \"10 s\"\n");
    let file = folder.write("project.toml", &text.replace(interval, &patient));
    let arguments = [
        "--messages",
        "200",
        "--duration",
        "60s",
        "--values",
        "--json",
    ];
    let mut subscriber = start(&pair.b, "subscribe", &file, &arguments);
    let publisher = start(&pair.a, "publish", &file, &["--json"]);
    for nth in 0..200 {
        let line = subscriber.until("up = ");
        let number = |name: &str| -> i64 {
            let rest = line.split(&format!("{name} = ")).nth(1).unwrap();
            rest.split([',', '\n']).next().unwrap().parse().unwrap()
        };
        assert_eq!(number("down"), -number("up"), "message {nth}: {line}");
        assert!(line.contains("same = 2.5"), "{line}");
    }
    let (code, report) = subscriber.end();
    let (_, published) = publisher.stop();
    assert!(count(&published, "frames") >= 200, "{published}");
    let reader = reader(&report);
    assert_eq!(reader["state"], "Operational", "{report}");
    for name in ["duplicates", "old", "mismatches", "malformed", "timeouts"] {
        assert_eq!(count(reader, name), 0, "{name}: {report}");
    }
    // A stalled machine skips instants, but loses nothing.
    assert_eq!((code, count(reader, "lost")), (Some(0), 0), "{report}");
    report
}

#[test]
fn every_transport_delivers_both_layouts() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    for transport in [ETHERNET, TAGGED, MULTICAST, UNICAST] {
        for layout in [FIXED, DYNAMIC] {
            let report = delivers(&pair, &folder, &project(transport, layout, ""));
            assert_eq!(count(reader(&report), "key_frames"), 200, "{report}");
        }
    }
}

#[test]
fn delta_frames_and_data_values_carry_the_values() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    for encoding in ["variant", "data-value"] {
        let set = format!("encoding = \"{encoding}\"\nkey-frame-count = 10\n");
        let report = delivers(&pair, &folder, &project(ETHERNET, DYNAMIC, &set));
        let (keys, deltas) = (
            count(reader(&report), "key_frames"),
            count(reader(&report), "delta_frames"),
        );
        assert!(keys >= 19 && deltas > 5 * keys, "{report}");
    }
}

#[test]
fn secured_messages_arrive() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    folder.keys("a.keys", &[7], 0);
    for mode in ["sign", "sign-and-encrypt"] {
        for (transport, layout) in [(ETHERNET, FIXED), (TAGGED, DYNAMIC), (MULTICAST, FIXED)] {
            let group = format!("{layout}{}", secured(mode, "a.keys", ""));
            delivers(&pair, &folder, &project(transport, &group, ""));
        }
    }
}

#[test]
fn a_data_set_longer_than_a_frame_arrives() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    folder.keys("a.keys", &[7], 0);
    let group = format!("{DYNAMIC}{}", secured("sign-and-encrypt", "a.keys", ""));
    let mut text = project(ETHERNET, &group, "");
    for nth in 0..400 {
        text += &format!(
            "[[writer-group.data-set.field]]\nname = \"w{nth}\"\ntype = \"Double\"\nvalue = {nth}.5\n"
        );
    }
    let report = delivers(&pair, &folder, &text);
    let values = reader(&report)["values"].as_array().unwrap();
    assert_eq!(values[402]["value"], "399.5");
    let group = &report["groups"][0];
    // 400 Variants of 9 bytes: three frames each.
    assert_eq!(count(group, "incomplete"), 0, "{report}");
    assert!(count(group, "chunks") >= 600, "{report}");
}

#[test]
fn an_update_of_a_mapped_file_raises_an_event() {
    use rtwire_pubsub_station::ValueMemory;
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let text = project(ETHERNET, DYNAMIC, "event = true\n").replace("value = \"counter\"\n", "");
    let file = folder.write("project.toml", &text);
    std::fs::create_dir(folder.path("in")).unwrap();
    let input = ValueMemory::file(&folder.path("in/g.d.image"), 3).unwrap();
    let arguments = ["--messages", "5", "--duration", "60s", "--values", "--json"];
    let mut subscriber = start(&pair.b, "subscribe", &file, &arguments);
    let images = folder.path("in").display().to_string();
    let publisher = start(&pair.a, "publish", &file, &["--images", &images, "--json"]);
    for number in 1..=5 {
        input.write(number, [number, 0, 0].into_iter());
        let line = subscriber.until("up = ");
        assert!(line.contains(&format!("up = {number},")), "{line}");
    }
    let (code, report) = subscriber.end();
    let (_, published) = publisher.stop();
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(count(reader(&report), "events"), 5, "{report}");
    assert_eq!(count(&published["groups"][0], "events"), 5, "{published}");
}

#[test]
fn values_go_through_memory_mapped_images() {
    use rtwire_pubsub_station::ValueMemory;
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let text = project(ETHERNET, FIXED, "").replace("value = \"counter\"\n", "");
    let file = folder.write("project.toml", &text);
    for end in ["in", "out"] {
        std::fs::create_dir(folder.path(end)).unwrap();
    }
    let input = ValueMemory::file(&folder.path("in/g.d.image"), 3).unwrap();
    input.write(1, [4711, 0, 0].into_iter());
    let path = |end: &str| folder.path(end).display().to_string();
    let subscriber = start(
        &pair.b,
        "subscribe",
        &file,
        &["--images", &path("out"), "--messages", "50", "--json"],
    );
    let publisher = start(
        &pair.a,
        "publish",
        &file,
        &["--images", &path("in"), "--json"],
    );
    let (code, report) = subscriber.end();
    publisher.stop();
    assert_eq!(code, Some(0), "{report}");
    let output = ValueMemory::file(&folder.path("out/g.d.image"), 3).unwrap();
    let mut words = [0; 3];
    assert_eq!(output.read(&mut words).map(|stamp| stamp.updates), Some(50));
    assert_eq!((words[0], f64::from_bits(words[2])), (4711, 2.5));
}

/// A text and a list behind the other fields. Each word of the image: three scalars, length and 16 bytes, length and 4, length and 6.
const LONG: &str = "\
[[writer-group.data-set.field]]\nname = \"text\"\ntype = \"String\"\nmax-bytes = 16\n\
[[writer-group.data-set.field]]\nname = \"bytes\"\ntype = \"ByteString\"\nmax-bytes = 4\nvalue = \"00ff\"\n\
[[writer-group.data-set.field]]\nname = \"list\"\ntype = \"Int16\"\nmax-elements = 3\nvalue = [-1, 2]\n";

#[test]
fn texts_and_arrays_go_from_image_to_image_in_both_layouts() {
    use rtwire_pubsub_station::ValueMemory;
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for layout in [FIXED, DYNAMIC] {
        let folder = Folder::new();
        let file = folder.write("project.toml", &(project(ETHERNET, layout, "") + LONG));
        for end in ["in", "out"] {
            std::fs::create_dir(folder.path(end)).unwrap();
        }
        let input = ValueMemory::file(&folder.path("in/g.d.image"), 10).unwrap();
        let text = [*b"Position", *b" 3 of 4\0"].map(u64::from_le_bytes);
        input.write(1, [0, 0, 0, 15, text[0], text[1], 0, 0, 0, 0].into_iter());
        let path = |end: &str| folder.path(end).display().to_string();
        let out = path("out");
        let arguments = ["--images", &out, "--messages", "5", "--values", "--json"];
        let mut subscriber = start(&pair.b, "subscribe", &file, &arguments);
        let publisher = start(
            &pair.a,
            "publish",
            &file,
            &["--images", &path("in"), "--json"],
        );
        let line = subscriber.until("up = ");
        let wanted = "text = Position 3 of 4, bytes = 00ff, list = [-1, 2]";
        assert!(line.contains(wanted), "{line}");
        let (code, report) = subscriber.end();
        publisher.stop();
        assert_eq!(code, Some(0), "{report}");
        assert_eq!(reader(&report)["values"][3]["value"], "Position 3 of 4");
        let output = ValueMemory::file(&folder.path("out/g.d.image"), 10).unwrap();
        let mut words = [0; 10];
        assert_eq!(output.read(&mut words).map(|stamp| stamp.updates), Some(5));
        let list = u64::from_le_bytes([0xff, 0xff, 2, 0, 0, 0, 0, 0]);
        assert_eq!(words[3..], [15, text[0], text[1], 2, 0xff00, 2, list]);
    }
}

#[test]
fn a_subscriber_learns_from_a_publisher_what_it_sends() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let discovered = folder.path("discovered.toml");
    let ask = |address: &str, id: &str, duration: &str| {
        let output = std::process::Command::new("ip")
            .args(["netns", "exec", &pair.b.namespace, BINARY, "pubsub"])
            .args(["discover", address, "--interface", &pair.b.interface])
            .args(["--publisher-id", id, "--duration", duration, "--output"])
            .arg(&discovered)
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), told)
    };
    let own = "discovery = \"01-00-5E-00-00-09\"\n";
    let text = project(&format!("{ETHERNET}{own}"), DYNAMIC, "") + LONG;
    let file = folder.write("project.toml", &text);
    let publisher = start(&pair.a, "publish", &file, &["--json"]);
    let (code, told) = ask("01-00-5E-00-00-09", "2234", "20s");
    assert_eq!(code, Some(0), "{told}");
    // Messages go to another address than probes.
    let learned = std::fs::read_to_string(&discovered).unwrap();
    assert!(!learned.contains("value ="), "{learned}");
    let (from, to) = (
        "\naddress = \"01-00-5E-00-00-09\"",
        "\naddress = \"01-00-5E-7F-00-01\"",
    );
    assert!(learned.contains(from) && learned.contains(own), "{learned}");
    let learned = learned.replace(from, to);
    let learned = folder.write("learned.toml", &learned);
    let arguments = ["--messages", "5", "--duration", "60s", "--values", "--json"];
    let mut subscriber = start(&pair.b, "subscribe", &learned, &arguments);
    let line = subscriber.until("up = ");
    assert!(line.contains("same = 2.5"), "{line}");
    assert!(line.contains("list = [-1, 2]"), "{line}");
    assert_eq!(subscriber.end().0, Some(0));
    let (code, told) = ask("01-00-5E-00-00-09", "2235", "10ms");
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("publisher 2235 has not answered"), "{told}");
    publisher.stop();
}

/// Returns a project of these fields, with their types and values.
fn version(connection: &str, number: u32, fields: &[(&str, &str, &str)]) -> String {
    let mut text = format!(
        "[connection]\npublisher-id = 2234\n{connection}[real-time]\npriority = 0\n\
         [[writer-group]]\nname = \"g\"\nid = 100\nversion = {number}\n{FIXED}\
         [[writer-group.data-set]]\nname = \"d\"\nwriter = 7\nmajor-version = {number}\n"
    );
    for (name, kind, value) in fields {
        text += &format!(
            "[[writer-group.data-set.field]]\nname = \"{name}\"\ntype = \"{kind}\"\nvalue = {value}\n"
        );
    }
    text
}

/// Fields change places, and a new one stands before them; they come back; one goes.
fn follows_changes(connection: &str) {
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let write = |name: &str, number, fields: &[(&str, &str, &str)]| {
        folder.write(name, &version(connection, number, fields))
    };
    let (speed, number) = (("speed", "Double", "1.5"), ("count", "Int32", "7"));
    let first = write("first.toml", 1, &[speed, number]);
    let more = [
        ("new", "Int64", "-1"),
        ("count", "Int32", "8"),
        ("speed", "Double", "2.5"),
    ];
    let second = write("second.toml", 2, &more);
    let fewer = write("fewer.toml", 3, &[number]);
    let arguments = ["--values", "--json", "--duration", "60s"];
    let mut subscriber = start(&pair.b, "subscribe", &first, &arguments);
    for (file, wanted) in [
        (&first, "speed = 1.5, count = 7"),
        (&second, "speed = 2.5, count = 8"),
        (&first, "speed = 1.5, count = 7"),
    ] {
        let publisher = start(&pair.a, "publish", file, &["--json"]);
        subscriber.until(wanted);
        publisher.stop();
    }
    // A field is gone: nothing is taken, and the reason is told.
    let publisher = start(&pair.a, "publish", &fewer, &["--json"]);
    subscriber.told("has no field `speed` any more");
    publisher.stop();
    let (_, report) = subscriber.stop();
    let group = &report["groups"][0];
    assert_eq!(count(reader(&report), "changes"), 2, "{report}");
    assert!(count(group, "other_versions") > 0, "{report}");
    assert_eq!(
        group["metadata_fault"],
        "the publisher's data set `d` has no field `speed` any more"
    );
}

#[test]
fn a_running_subscriber_follows_changes_of_the_metadata() {
    require!(root, program "ip");
    follows_changes(&format!("{ETHERNET}discovery = \"01-00-5E-00-00-09\"\n"));
}

/// As `rtwire pubsub discover` writes it: one address for messages and announcements.
#[test]
fn a_running_subscriber_follows_changes_by_datagrams_at_one_address() {
    require!(root, program "ip");
    follows_changes(&format!("{MULTICAST}discovery = \"239.0.0.7:4840\"\n"));
}

#[test]
fn reports_fit_their_schemas() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let file = folder.write("project.toml", &project(ETHERNET, FIXED, ""));
    let subscriber = start(&pair.b, "subscribe", &file, &["--json"]);
    let (code, published) = start(&pair.a, "publish", &file, &["--cycles", "20", "--json"]).end();
    assert_eq!(code, Some(0), "{published}");
    assert_eq!(
        (count(&published, "cycles"), count(&published, "frames")),
        (20, 20)
    );
    let (_, subscribed) = subscriber.stop();
    for (name, report) in [("publish", published), ("subscribe", subscribed)] {
        let path = format!(
            "{}/../../schema/{name}.schema.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(path).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&report), "{name}: {report}");
        let printed = std::process::Command::new(BINARY)
            .args(["schema", name])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(printed.stdout).unwrap(),
            text,
            "run `make generate`"
        );
    }
}

#[test]
fn a_faulty_file_is_refused_with_its_place() {
    let folder = Folder::new();
    let good = project(ETHERNET, FIXED, "");
    for (from, to, wanted) in [
        ("interval", "intervall", "project.toml:"),
        ("interval", "intervall", "did you mean `interval`?"),
        ("\"2 ms\"", "\"2\"", "has no unit"),
        ("Int32", "Int33", "expected is \"Boolean\""),
        (
            "value = 2.5",
            "value = \"noise\"",
            "expected is \"program\"",
        ),
        (
            "publisher-id = 2234",
            "publisher-id = 70000",
            "from 0 to 65535",
        ),
        ("01-00-5E-7F-00-01", "01-00-5E", "MAC address"),
        ("\"Int32\"", "\"String\"", "missing key `max-bytes`"),
        (
            "\"Int32\"",
            "\"Int32\"\nmax-bytes = 8",
            "an array of numbers has `max-elements`",
        ),
        (
            "\"Int32\"\nvalue = \"counter\"",
            "\"Int32\"\nmax-elements = 1\nvalue = [1, 2]",
            "longer than the field",
        ),
        (
            "\"Int32\"\nvalue = \"counter\"",
            "\"ByteString\"\nmax-bytes = 9\nvalue = \"0x1\"",
            "in hexadecimal",
        ),
        (
            "\"Int32\"\nvalue = \"counter\"",
            "\"String\"\nmax-bytes = 3\nmax-elements = 2",
            "no array of texts",
        ),
        ("id = 100\n", "", "missing key `id`"),
        (
            "name = \"down\"",
            "name = \"up\"",
            "two fields are named `up`",
        ),
        (
            "writer = 7\n",
            "writer = 7\nencoding = \"variant\"\n",
            "profile `dynamic`",
        ),
        (
            "id = 100\n",
            "id = 100\nsecurity = \"sign\"\n",
            "missing key `key-file`",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let file = folder.write("project.toml", &text);
        for verb in ["publish", "subscribe"] {
            let output = std::process::Command::new(BINARY)
                .arg(verb)
                .arg(&file)
                .output()
                .unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }
}

#[test]
fn groups_that_a_reader_cannot_tell_apart_are_refused_with_their_place() {
    let folder = Folder::new();
    let good = project(ETHERNET, DYNAMIC, "");
    let at = good.find("[[writer-group]]").unwrap();
    let second = good[at..]
        .replace("\"g\"", "\"h\"")
        .replace("= 100", "= 101");
    for (second, refused) in [
        (second.clone(), true),
        (second.replace("\"dynamic\"", "\"fixed\""), true),
        (second.replace("writer = 7", "writer = 8"), false),
    ] {
        let file = folder.write("project.toml", &format!("{good}{second}"));
        let output = std::process::Command::new(BINARY)
            .arg("subscribe")
            .arg(&file)
            .args(["--interface", "lo", "--duration", "1ms"])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code() == Some(2), refused, "{error}");
        let wanted = "two writer groups have a data set with the same `writer`";
        assert_eq!(error.contains(wanted), refused, "{error}");
    }
}

/// Returns what `rtwire publish` says about a key file, which it must refuse.
fn refusal(folder: &Folder) -> String {
    let group = format!("{FIXED}{}", secured("sign", "a.keys", ""));
    let file = folder.write("project.toml", &project(UNICAST, &group, ""));
    let output = std::process::Command::new(BINARY)
        .arg("publish")
        .arg(&file)
        .args(["--interface", "lo"])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    error
}

#[test]
fn a_key_file_with_more_keys_than_fit_is_refused() {
    let folder = Folder::new();
    folder.keys("a.keys", &[1, 2, 3, 4, 5, 6, 7, 8, 9], 0);
    let error = refusal(&folder);
    assert!(error.contains("9 keys, but at most 8 fit"), "{error}");
}

#[test]
fn a_key_file_of_another_user_is_refused() {
    require!(root);
    let folder = Folder::new();
    let keys = folder.keys("a.keys", &[7], 0);
    std::os::unix::fs::chown(keys, Some(1234), None).unwrap();
    let error = refusal(&folder);
    assert!(error.contains("1234") && error.contains("chown"), "{error}");
}

#[test]
fn a_key_file_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let keys = folder.keys("a.keys", &[7], 0);
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = refusal(&folder);
    assert!(
        error.contains("mode 640") && error.contains("chmod 600"),
        "{error}"
    );
}

/// Builds an example beside the command, in the same profile. Returns the folder of the programs. Of the whole workspace: a package
/// alone has other features, and all that it needs would be built again.
fn build_example(example: &str) -> &'static std::path::Path {
    let project = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = std::path::Path::new(BINARY).parent().unwrap();
    let mut build = std::process::Command::new(env!("CARGO"));
    build
        .current_dir(&project)
        .args(["build", "--locked", "-q", "--workspace"]);
    build.args(["--example", example]);
    if programs.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success());
    programs
}

/// The program upon the library: `image.set` at one end, `image.newest` at the other.
#[test]
fn a_program_sets_and_reads_values_through_the_front_door() {
    require!(root, program "ip");
    let programs = build_example("pubsub_program");
    let pair = NetnsPair::new();
    let program = |side: &Side, role: &str, cycles: &str| {
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", &side.namespace]);
        command.arg(programs.join("examples/pubsub_program"));
        let project = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command
            .arg(role)
            .arg(project.join("examples/pubsub-tsn/program.toml"));
        command.args([&side.interface, cycles]);
        command.stdout(std::process::Stdio::piped());
        command
    };
    let mut subscriber = program(&pair.b, "subscribe", "200").spawn().unwrap();
    let mut lines = BufReader::new(subscriber.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert_eq!(first, "open\n");
    let published = program(&pair.a, "publish", "400").output().unwrap();
    let published = String::from_utf8(published.stdout).unwrap();
    assert!(
        published.starts_with("sent 4") || published.starts_with("sent 3"),
        "{published}"
    );
    let mut text = String::new();
    lines.read_to_string(&mut text).unwrap();
    assert!(subscriber.wait().unwrap().success());
    let last = text.lines().rfind(|line| line.starts_with("cycle "));
    let last = last.unwrap();
    let number: f64 = last[6..].split(':').next().unwrap().parse().unwrap();
    let position = format!("position {:.4} at", (number / 100.0).sin());
    assert!(
        number >= 199.0 && last.contains(&position),
        "{position}: {text}"
    );
    assert!(text.lines().last().unwrap().starts_with("taken "), "{text}");
}

#[test]
fn the_example_runs_as_its_readme_says() {
    require!(root, program "ip");
    let project = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = build_example("pubsub_echo");
    let output = std::process::Command::new(project.join("examples/pubsub-tsn/run"))
        .arg(programs)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    assert!(
        text.contains("1000 taken, 0 gaps, 0 lost"),
        "{text}{errors}"
    );
    let trips = text
        .lines()
        .find_map(|line| line.strip_prefix("round trips "))
        .unwrap();
    let trips: u64 = trips.split(':').next().unwrap().parse().unwrap();
    assert!(trips > 900, "{text}{errors}");
    // Each step was seen, and the moments are in order: no step is longer than the whole.
    let us = |step: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(step)).unwrap();
        // The last words are p50, p99, p99.9, the largest, and the samples.
        let mut words = line.rsplit(' ').filter(|word| !word.is_empty());
        let mut word = |at| -> f64 { words.nth(at).unwrap().parse().unwrap() };
        assert!(word(0) > 900.0, "{line}");
        word(3)
    };
    let whole = us("1 - 8, out and back");
    let steps = [
        "1 sampled - 2",
        "2 written - 3",
        "3 left - 4",
        "4 arrived at pong - 5",
        "5 decoded at pong - 6",
        "6 answer left - 7",
        "7 answer arrived - 8",
    ];
    let sum: f64 = steps.into_iter().map(us).sum();
    assert!(
        whole > 0.0 && sum < 2.0 * whole && sum > 0.5 * whole,
        "{text}"
    );
}

//! The plan as the file that flows: every command takes it in place of the description, and nothing is planned anew.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn rtwire<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(arguments)
        .output()
        .unwrap()
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Standard output, where the command did what it should.
fn good(arguments: &[&str]) -> String {
    let output = rtwire(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error, where it ended with this code.
fn bad(arguments: &[&str], code: i32) -> String {
    let output = rtwire(arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {output:?}"
    );
    String::from_utf8(output.stderr).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn planned(folder: &Path, name: &str) -> PathBuf {
    let plan = folder.join("plan.json");
    good(&["plan", shown(&example(name)), "--output", shown(&plan)]);
    plan
}

#[test]
fn a_plan_is_shown_as_its_description_is() {
    let folder = tempfile::tempdir().unwrap();
    let (description, plan) = (
        example("five-nodes.toml"),
        planned(folder.path(), "five-nodes.toml"),
    );
    for more in [
        &[][..],
        &["--json"],
        &["--explain", "A-to-B"],
        &["--csv", "streams"],
        &["--gates"],
    ] {
        let of = |file: &Path| good(&[&["plan", shown(file)], more].concat());
        assert_eq!(of(&description), of(&plan), "{more:?}");
    }
    // What --json prints is a plan as well.
    let answer = folder.path().join("answer.json");
    std::fs::write(&answer, good(&["plan", shown(&description), "--json"])).unwrap();
    assert_eq!(
        good(&["plan", shown(&answer)]),
        good(&["plan", shown(&plan)])
    );
    assert_eq!(
        good(&["plan", shown(&plan), "--diff", shown(&description)]),
        "no promise and no port differs\n"
    );
    // The same plan, the same bytes.
    let again = folder.path().join("again.json");
    good(&["plan", shown(&plan), "-o", shown(&again)]);
    assert_eq!(
        std::fs::read(&plan).unwrap(),
        std::fs::read(&again).unwrap()
    );
}

#[test]
fn every_command_takes_either_form() {
    let folder = tempfile::tempdir().unwrap();
    let description = example("scheduled-cell.toml");
    let plan = planned(folder.path(), "scheduled-cell.toml");
    let host = json(&plan)["network"]["hosts"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    for arguments in [
        &["simulate", "FILE", "--duration", "20ms", "--json"][..],
        &["export", "FILE", "--yang"],
        &["export", "FILE", "--page"],
    ] {
        let of = |file: &Path| {
            let put = |one: &&str| {
                if *one == "FILE" {
                    shown(file).to_owned()
                } else {
                    (*one).to_owned()
                }
            };
            let all: Vec<String> = arguments.iter().map(put).collect();
            let output = rtwire(&all);
            (output.status.code(), output.stdout)
        };
        assert_eq!(of(&description), of(&plan), "{arguments:?}");
    }
    // Those that need a network interface get as far as looking for it, with either.
    for file in [&description, &plan] {
        for verb in ["apply", "run"] {
            let said = bad(
                &[
                    verb,
                    shown(file),
                    "--host",
                    &host,
                    "--interface",
                    "nowhere0",
                    "--no-sync",
                ],
                2,
            );
            assert!(said.contains("nowhere0"), "{verb}: {said}");
        }
        let said = bad(
            &[
                "apply",
                shown(file),
                "--host",
                "nobody",
                "--interface",
                "nowhere0",
            ],
            2,
        );
        assert!(said.contains("nobody"), "{said}");
    }
    let said = bad(&["lab", shown(&plan), "--report", "/nowhere/a.html"], 2);
    assert!(said.contains("/nowhere"), "{said}");
}

/// States and durations of a gate list.
fn entries(list: &Value, gates: &str, duration: &str) -> Vec<(u64, u64)> {
    let number = |entry: &Value, key: &str| entry[key].as_u64().unwrap();
    let list = list.as_array().unwrap().iter();
    list.map(|entry| (number(entry, gates), number(entry, duration)))
        .collect()
}

/// The gate lists of YANG data, wherever they are.
fn lists_in(value: &Value, found: &mut Vec<Vec<(u64, u64)>>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "gate-control-entry" {
                    found.push(entries(value, "gate-states-value", "time-interval-value"));
                }
                lists_in(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| lists_in(item, found)),
        _ => {}
    }
}

#[test]
fn gates_of_a_kept_plan_are_exported_as_the_file_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let old = planned(folder.path(), "scheduled-cell.toml");
    // One more stream, which alone would move others.
    let mut text = std::fs::read_to_string(example("scheduled-cell.toml")).unwrap();
    let before = json(&old);
    let hosts = before["network"]["hosts"].as_array().unwrap();
    let name = |at: usize| hosts[at]["name"].as_str().unwrap();
    text += &format!(
        "\n[[stream]]\nname = \"a-new-one\"\ntalker = \"{}\"\nlisteners = [\"{}\"]\npayload = \"64 B\"\ninterval = \"1 ms\"\npriority = 1\n",
        name(0),
        name(1)
    );
    let grown = folder.path().join("grown.toml");
    std::fs::write(&grown, text).unwrap();
    let kept = folder.path().join("plan-kept.json");
    good(&[
        "plan",
        shown(&grown),
        "--keep",
        shown(&old),
        "--output",
        shown(&kept),
    ]);
    let plan = json(&kept);
    assert_eq!(plan["epoch"], 2);
    for stream in before["streams"].as_array().unwrap() {
        let all = plan["streams"].as_array().unwrap();
        let same = all
            .iter()
            .find(|one| one["name"] == stream["name"])
            .unwrap();
        assert_eq!(same["launch"], stream["launch"]);
        for field in ["number", "destination", "port"] {
            assert_eq!(same["identity"][field], stream["identity"][field]);
        }
        assert_ne!(same["identity"]["key"], stream["identity"]["key"]);
    }
    let exported: Value = serde_json::from_str(&good(&["export", shown(&kept), "--yang"])).unwrap();
    let mut lists = 0;
    let switches: BTreeSet<&str> = exported
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for switch in switches {
        let ports = plan["ports"].as_array().unwrap().iter();
        let mut planned: Vec<Vec<(u64, u64)>> = ports
            .filter(|port| port["node"] == switch && !port["gates"].is_null())
            .map(|port| entries(&port["gates"]["entries"], "gates", "duration_ns"))
            .collect();
        let mut written = Vec::new();
        lists_in(&exported[switch], &mut written);
        planned.sort();
        written.sort();
        assert_eq!(written, planned, "{switch}");
        lists += written.len();
    }
    assert!(lists > 0, "the example has gates");
    assert!(good(&["verify", shown(&kept)]).starts_with("all "));
}

#[test]
fn wrong_files_and_options_have_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(folder.path(), "line.toml");
    let cut = folder.path().join("cut.json");
    let text = std::fs::read_to_string(&plan).unwrap();
    std::fs::write(&cut, &text[..text.len() / 2]).unwrap();
    let old = folder.path().join("old.json");
    std::fs::write(&old, text.replacen("\"version\": 3", "\"version\": 1", 1)).unwrap();
    let refused = folder.path().join("refused.json");
    let answer = rtwire(&[
        "plan",
        shown(&example("five-nodes-unshaped.toml")),
        "--json",
    ]);
    assert_eq!(answer.status.code(), Some(1));
    std::fs::write(&refused, &answer.stdout).unwrap();
    let interface = ["--host", "A", "--interface", "lo"];
    for (file, part) in [
        (shown(&cut), "the plan is cut off here"),
        (
            shown(&old),
            "this is a plan of version 1; this rtwire reads version 3: plan again with `rtwire plan",
        ),
        (shown(&refused), "`unbounded`; mend the description"),
        ("/nowhere/p.json", "cannot read `/nowhere/p.json`"),
    ] {
        for verb in [
            &["plan", file][..],
            &["simulate", file],
            &["export", file, "--yang"],
            &["lab", file],
            &[&["apply", file], &interface[..]].concat(),
            &[&["run", file], &interface[..]].concat(),
            &["verify", file],
            &["plan", shown(&example("line.toml")), "--keep", file],
            &["plan", shown(&example("line.toml")), "--diff", file],
        ] {
            let said = bad(verb, 2);
            assert!(said.contains(part), "{verb:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{verb:?}: {said}");
        }
    }
    for (option, part) in [
        (
            &["--set", "shaping-interval=1ms"][..],
            "--set changes a description",
        ),
        (&["--method", "tfa"], "--method is for planning"),
        (&["--keep", shown(&plan)], "--keep is for planning"),
    ] {
        let said = bad(&[&["plan", shown(&plan)], option].concat(), 2);
        assert!(said.contains(part), "{said}");
    }
    let said = bad(&["plan", shown(&plan), "-o", shown(&plan)], 2);
    assert!(said.contains("choose another name"), "{said}");
    let said = bad(
        &["export", shown(&plan), "--yang", "--set", "tick-error=1us"],
        2,
    );
    assert!(said.contains("--set changes a description"), "{said}");
}

#[test]
fn a_full_disk_is_told() {
    let description = example("line.toml");
    let said = bad(&["plan", shown(&description), "--output", "/dev/full"], 2);
    assert!(said.contains("cannot write `/dev/full`"), "{said}");
    let said = bad(
        &["plan", shown(&description), "--output", "/nowhere/p.json"],
        2,
    );
    assert!(said.contains("cannot write `/nowhere/p.json`"), "{said}");
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["plan", shown(&description), "--json"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_changed_plan_is_refused_named_and_sealed_where_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(folder.path(), "five-nodes.toml");
    assert!(good(&["verify", shown(&plan)]).contains("and everything else in the plan follows"));
    let text = std::fs::read_to_string(&plan).unwrap();
    let (bent, out) = (
        folder.path().join("bent.json"),
        folder.path().join("out.json"),
    );

    // A promise that does not hold.
    let mut document = json(&plan);
    let right = document["streams"][0]["promises"][0]["delay_ns"]
        .as_u64()
        .unwrap();
    document["streams"][0]["promises"][0]["delay_ns"] = (right - 1).into();
    std::fs::write(&bent, document.to_string()).unwrap();
    let said = bad(&["simulate", shown(&bent)], 2);
    assert!(said.contains("was changed after it was planned"), "{said}");
    let output = rtwire(&["verify", shown(&bent), "--seal", shown(&out)]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains(&format!(
            "promises[0].delay_ns: the plan says {}, but {right} follows",
            right - 1
        )),
        "{said}"
    );
    assert!(
        said.contains("nothing was written") && !out.exists(),
        "{said}"
    );
    let report = rtwire(&["verify", shown(&bent), "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["holds"], false);
    let schema: Value = serde_json::from_str(&good(&["schema", "verify"])).unwrap();
    assert!(
        jsonschema::validator_for(&schema)
            .unwrap()
            .is_valid(&report)
    );
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/verify.schema.json");
    assert_eq!(json(&committed), schema, "`make generate` writes it anew");

    // Words only: all promises hold, and the file can be written anew.
    let words = text.replacen("\"description\": ", "\"description\": \"\", \"was\": ", 1);
    assert_ne!(words, text);
    let mut document = json(&plan);
    document["network"]["description"] = "by hand".into();
    std::fs::write(&bent, document.to_string()).unwrap();
    let output = rtwire(&["verify", shown(&bent)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("but the file was changed"));
    good(&["verify", shown(&bent), "--seal", shown(&out)]);
    good(&["verify", shown(&out)]);
    assert_eq!(json(&out)["plan_id"], json(&plan)["plan_id"]);
}

#[test]
fn a_certificate_is_checked_and_a_bent_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, bent, out) = (
        folder.path().join("plan.json"),
        folder.path().join("bent.json"),
        folder.path().join("out.json"),
    );
    let with = |name: &str, search: &str| {
        let description = example(name);
        let description = shown(&description);
        good(&[
            "plan",
            description,
            "--certificate",
            "--search",
            search,
            "--output",
            shown(&plan),
        ]);
    };
    let bare = json(&planned(folder.path(), "ring.toml"));
    with("ring.toml", "300");
    let said = good(&["verify", shown(&plan)]);
    assert!(
        said.starts_with("certificate: 6 promises proved from their facts\ncertificate: "),
        "{said}"
    );
    assert!(said.contains(" of 6 promises with a schedule are exact"));
    let report: Value = serde_json::from_str(&good(&["verify", shown(&plan), "--json"])).unwrap();
    assert_eq!(report["certificate"]["proved"], 6);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/verify.schema.json");
    let schema = jsonschema::validator_for(&json(&committed)).unwrap();
    assert!(schema.is_valid(&report), "{report}");

    // Without it the plan is the same one.
    assert_eq!(bare["plan_id"], json(&plan)["plan_id"]);

    // One fact is lowered: it is named, and the file cannot be sealed.
    let mut document = json(&plan);
    let late = &mut document["certificate"]["ports"][0]["classes"][0]["delay_ps"];
    *late = (late.as_u64().unwrap() - 5_000).into();
    std::fs::write(&bent, document.to_string()).unwrap();
    let output = rtwire(&["verify", shown(&bent), "--seal", shown(&out)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("certificate: delay of class "), "{said}");
    assert!(said.contains("nothing was written"), "{said}");
    assert!(!out.exists());

    // Mechanisms without a rule are named.
    with("scheduled-cell.toml", "20");
    let said = good(&["verify", shown(&plan)]);
    assert!(
        said.contains("is not covered by the checker (its launches and windows): planned again"),
        "{said}"
    );
}

/// The answers of every way to plan are checked, and what a plan leaves open is told.
#[test]
fn certificates_of_all_plans_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let certified = |name: &str, more: &[&str]| {
        let description = example(name);
        let arguments = [
            &["plan", shown(&description), "--certificate", "--json"],
            more,
        ];
        std::fs::write(&plan, good(&arguments.concat())).unwrap();
        good(&["verify", shown(&plan)])
    };
    let ignored = "certificate: the plan ignores limits: deadlines and buffers were not asked\n";
    let said = certified("ring.toml", &["--synthesize"]);
    assert!(!json(&plan)["synthesis"].is_null());
    assert!(said.starts_with("certificate: 6 promises proved"), "{said}");
    assert!(!said.contains(ignored), "{said}");

    let said = certified("ring.toml", &["--no-admission"]);
    assert!(said.contains(ignored), "{said}");
    let report: Value = serde_json::from_str(&good(&["verify", shown(&plan), "--json"])).unwrap();
    assert_eq!(report["certificate"]["limits_ignored"], true);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/verify.schema.json");
    let schema = jsonschema::validator_for(&json(&committed)).unwrap();
    assert!(schema.is_valid(&report), "{report}");

    // Schedules have both copies of a frame, and no more frames than they need.
    let _ = certified("redundant.toml", &["--search", "300"]);
    let facts = json(&plan)["certificate"]["promises"].clone();
    let mut frames = Vec::new();
    for one in facts.as_array().unwrap() {
        let of = |flow: &str| -> BTreeSet<u64> {
            let frames = one["attained"]["schedule"]["frames"].as_array().unwrap();
            let own = frames.iter().filter(|frame| frame[0] == flow);
            own.filter_map(|frame| frame[1].as_u64()).collect()
        };
        assert_eq!(of("position"), of("position~2"), "{one}");
        frames.push(of("position").len());
    }
    assert!(frames.iter().all(|own| *own <= 2), "{frames:?}");
}

#[test]
fn times_are_read_alike_everywhere() {
    let description = example("five-nodes.toml");
    for time in ["1.5s", "500us", "2min", "30 s"] {
        let said = bad(
            &[
                "apply",
                shown(&description),
                "--host",
                "A",
                "--interface",
                "nowhere0",
                "--confirm-within",
                time,
            ],
            2,
        );
        assert!(said.contains("nowhere0"), "{time}: {said}");
    }
    let said = bad(
        &[
            "apply",
            shown(&description),
            "--host",
            "A",
            "--interface",
            "lo",
            "--confirm-within",
            "soon",
        ],
        2,
    );
    assert!(said.contains("confirm-within"), "{said}");
}

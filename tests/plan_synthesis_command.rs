//! `rtwire plan --synthesize`: changes, cost, files, refusals, faults.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rtwire_testkit::{Signal, catches};
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    examples.join(name)
}

fn rtwire(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    command.args(arguments).output().unwrap()
}

#[track_caller]
fn ends_with(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

/// One stream that is late behind two others, with comments and a list over several lines.
const LATE: &str = r#"# A small cell.
[network]
name = "cell"
[defaults]
tick-error = "0 us"
link-rate = "100 Mbit/s"
[[switch]]
name = "s" # the only one
queues = 8
buffer = "1 MB"
[[host]]
name = "A"
[[host]]
name = "B"
[[host]]
name = "C"
[[host]]
name = "L"
[[link]]
ends = ["C", "s"]
[[link]]
ends = ["A", "s"]
[[link]]
ends = ["B", "s"]
[[link]]
ends = ["L", "s"]

[[stream]]
name = "control" # must be fast
talker = "A"
listeners = [
  "L", # the drive
]
frame = "500 B"
interval = "1 ms"
deadline = "170 us"

[[stream]]
name = "bulk"
talker = "B"
listeners = ["L"]
frame = "1000 B"
rate = "40 Mbit/s"
shaping-interval = "1 ms"

[[stream]]
name = "more"
talker = "C"
listeners = ["L"]
frame = "1000 B"
rate = "40 Mbit/s"
shaping-interval = "1 ms"
"#;

fn late(folder: &Path, deadline: &str) -> String {
    let file = folder.join("late.toml");
    std::fs::write(&file, LATE.replace("170 us", deadline)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_plan_the_changes_and_the_cost_are_shown_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = late(folder.path(), "170 us");
    ends_with(&rtwire(&["plan", &file]), 1);
    let (new, plan) = (
        folder.path().join("new.toml"),
        folder.path().join("plan.json"),
    );
    let (new, plan) = (new.to_str().unwrap(), plan.to_str().unwrap());
    let output = rtwire(&["plan", "--synthesize", &file, "--write", new, "-o", plan]);
    let (out, err) = ends_with(&output, 0);
    assert_eq!(err, "");
    assert!(out.contains("cell: guaranteed worst case"), "{out}");
    assert!(out.contains("control  priority  0            1\n"), "{out}");
    let cost = "cost: streams changed 1, values changed 1, distance 1: least (";
    assert!(out.contains(cost), "{out}");
    // One line more, and nothing else.
    let written = std::fs::read_to_string(new).unwrap();
    let name = "name = \"control\" # must be fast\n";
    assert_eq!(
        written,
        LATE.replace(name, &format!("{name}priority = 1\n"))
    );
    ends_with(&rtwire(&["plan", new]), 0);
    ends_with(&rtwire(&["verify", plan]), 0);
    // Again, in place, and then there is nothing to do.
    let in_place = rtwire(&["plan", "--synthesize", &file, "--write", &file]);
    assert_eq!(ends_with(&in_place, 0).0, out);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    let (out, _) = ends_with(&rtwire(&["plan", "--synthesize", &file]), 0);
    assert!(
        out.ends_with("\nnothing to change: the network fits as it is\n"),
        "{out}"
    );
}

#[test]
fn json_has_the_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = late(folder.path(), "170 us");
    let output = rtwire(&[
        "plan",
        "--synthesize=priorities",
        &file,
        "--json",
        "--objective",
        "simple",
    ]);
    let (out, _) = ends_with(&output, 0);
    let answer: Value = serde_json::from_str(&out).unwrap();
    let schema = ends_with(&rtwire(&["schema", "plan"]), 0).0;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(
        jsonschema::validator_for(&schema)
            .unwrap()
            .is_valid(&answer)
    );
    assert_eq!(answer["status"], "ok");
    let found = &answer["synthesis"];
    assert_eq!(found["objective"], "simple");
    assert_eq!(found["certainty"], "least");
    assert_eq!(found["cost"][1]["name"], "priorities in use");
    assert_eq!(found["cost"][1]["value"], 2);
    let change = &found["changes"][0];
    assert_eq!(change["key"], "priority");
    assert!(change["old"].is_string() && change["new"].is_string());
    // The answer is a plan as well.
    let plan = folder.path().join("answer.json");
    std::fs::write(&plan, &out).unwrap();
    ends_with(&rtwire(&["verify", plan.to_str().unwrap()]), 0);
}

#[test]
fn what_cannot_be_is_refused_with_names() {
    let folder = tempfile::tempdir().unwrap();
    // 80 us on two links, whatever else is done.
    let file = late(folder.path(), "79 us");
    let new = folder.path().join("new.toml");
    let output = rtwire(&[
        "plan",
        "--synthesize",
        &file,
        "--write",
        new.to_str().unwrap(),
    ]);
    let (out, err) = ends_with(&output, 1);
    assert_eq!(out, "");
    assert!(err.contains("no choice fits"), "{err}");
    assert!(err.contains("\"control\""), "{err}");
    assert!(!new.exists());
    let (out, _) = ends_with(&rtwire(&["plan", "--synthesize", &file, "--json"]), 1);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["status"], "reject");
    assert_eq!(answer["synthesis"]["certainty"], "none_fits");
    // With shaping intervals alone it is not soon enough, and all were tried.
    let file = late(folder.path(), "130 us");
    let output = rtwire(&["plan", "--synthesize=shaping-intervals", &file]);
    let (_, err) = ends_with(&output, 1);
    assert!(
        err.contains("no choice fits: all were tried or ruled out ("),
        "{err}"
    );
}

#[test]
fn examples_that_are_refused_are_made_to_fit() {
    let file = example("five-nodes.toml");
    let (file, set) = (file.to_str().unwrap(), "shaping-interval=100ms");
    ends_with(&rtwire(&["plan", file, "--set", set]), 1);
    let synthesize = ["plan", "--synthesize", file, "--set", set];
    let (out, _) = ends_with(&rtwire(&synthesize), 0);
    assert!(out.contains("shaping-interval  \"100 ms\""), "{out}");
    let again = ends_with(&rtwire(&synthesize), 0).0;
    assert_eq!(out, again, "the same file, another plan");
}

#[test]
fn faults_end_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = late(folder.path(), "170 us");
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    ends_with(&rtwire(&["plan", "--synthesize", &file, "-o", plan]), 0);
    for (arguments, part) in [
        (&["--synthesize=prioritys", &file][..], "priorities"),
        (&["--synthesize=", &file], "--synthesize"),
        (&[&file, "--write", "x.toml"], "--synthesize"),
        (&[&file, "--objective", "simple"], "--synthesize"),
        (&["--synthesize", &file, "--no-admission"], "--no-admission"),
        (
            &["--synthesize", plan],
            "this is a plan already; give its description",
        ),
        (
            &["--synthesize", "/no/such.toml"],
            "cannot read `/no/such.toml`",
        ),
        (
            &["--synthesize", &file, "--write", "/no/such/new.toml"],
            "--write: cannot write",
        ),
    ] {
        let mut all = vec!["plan"];
        all.extend(arguments);
        let (_, err) = ends_with(&rtwire(&all), 2);
        assert!(err.contains(part), "\"{part}\" is missing in\n{err}");
    }
}

/// 24 streams on a ring of four switches. No search is through with them in any time that a test has.
fn many(folder: &Path, deadline_us: u64) -> String {
    let mut text = "[network]\nname = \"many\"\n[defaults]\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n".to_owned();
    for switch in 0..4 {
        let next = (switch + 1) % 4;
        text += &format!(
            "[[switch]]\nname = \"s{switch}\"\nqueues = 8\nbuffer = \"1 MB\"\n\
             [[link]]\nends = [\"s{switch}\", \"s{next}\"]\n"
        );
    }
    for host in 0..8 {
        let switch = host % 4;
        text += &format!(
            "[[host]]\nname = \"h{host}\"\n[[link]]\nends = [\"h{host}\", \"s{switch}\"]\n"
        );
    }
    for stream in 0..24 {
        let talker = stream % 8;
        let listener = (talker + 1 + stream * 3 % 7) % 8;
        let bytes = 300 + 137 * (stream % 9);
        let deadline_us = deadline_us << (stream % 3);
        text += &format!(
            "[[stream]]\nname = \"x{stream}\"\ntalker = \"h{talker}\"\nlisteners = [\"h{listener}\"]\n\
             frame = \"{bytes} B\"\ninterval = \"1 ms\"\ndeadline = \"{deadline_us} us\"\n"
        );
    }
    let file = folder.join("many.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_budget_that_is_used_up_shows_and_writes_the_best_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let file = many(folder.path(), 550);
    let new = folder.path().join("new.toml");
    let path = new.to_str().unwrap();
    // A slow machine needs a longer one to find something.
    let found = ["2 s", "8 s", "30 s"].iter().find_map(|budget| {
        let output = rtwire(&[
            "plan",
            "--synthesize",
            &file,
            "--budget",
            budget,
            "--write",
            path,
        ]);
        let code = output.status.code().unwrap();
        let (out, err) = ends_with(&output, code);
        assert!(
            err.contains("the budget is used up: this is the best so far"),
            "{out}{err}"
        );
        match code {
            0 => Some(out),
            1 => {
                assert!(!new.exists(), "what does not fit is not written");
                None
            }
            _ => panic!("{out}{err}"),
        }
    });
    let out = found.expect("something that fits");
    assert!(out.contains("best found of"), "{out}");
    assert!(!out.contains("least ("), "{out}");
    ends_with(&rtwire(&["plan", &file]), 1);
    ends_with(&rtwire(&["plan", path]), 0);
}

#[test]
fn ctrl_c_ends_a_synthesis_with_what_came_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let file = many(folder.path(), 400);
    let (new, plan) = (
        folder.path().join("new.toml"),
        folder.path().join("plan.json"),
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    command.args(["plan", "--synthesize", &file, "--budget", "60 s"]);
    command.arg("--write").arg(&new).arg("-o").arg(&plan);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !catches(child.id(), Signal::Interrupt) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let (out, err) = ends_with(&child.wait_with_output().unwrap(), 1);
    assert_eq!(out, "");
    assert!(
        err.contains("rtwire plan: ended by Ctrl-C: this is the best so far"),
        "{err}"
    );
    assert!(err.contains("no choice was found that fits"), "{err}");
    assert!(!new.exists() && !plan.exists());
}

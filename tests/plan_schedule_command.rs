//! `rtwire plan` with time-triggered streams: `--gates`, `--keep`, `--replan`, `--budget`, Ctrl-C; and with loops.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rtwire_plan::plan_file;
use rtwire_testkit::{Signal, catches};
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    examples.join(name)
}

fn plan(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
    command.arg("plan").args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn ends_with(output: &Output, code: i32) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

fn launches(answer: &str) -> BTreeMap<String, Value> {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let streams = answer["streams"].as_array().unwrap().iter();
    streams
        .filter(|stream| !stream["launch"].is_null())
        .map(|stream| (stream["name"].to_string(), stream["launch"].clone()))
        .collect()
}

const MORE: &str = "\n[[stream]]\nname = \"more\"\ntalker = \"drive-2\"\nlisteners = [\"controller\"]\n\
     payload = \"300 B\"\ninterval = \"1 ms\"\npriority = 7\nschedule = \"time-triggered\"\n";

#[test]
fn gate_lists_are_shown_entry_by_entry() {
    let file = example("scheduled-cell.toml");
    let output = plan(&[file.to_str().unwrap(), "--gates"]).output().unwrap();
    let (out, _) = ends_with(&output, 0);
    for part in [
        "entries in ",
        "into the cycle",
        "open queues",
        "controller>",
    ] {
        assert!(out.contains(part), "\"{part}\" is missing in\n{out}");
    }
    let none = example("line.toml");
    let output = plan(&[none.to_str().unwrap(), "--gates"]).output().unwrap();
    assert_eq!(ends_with(&output, 0).0, "no port needs a gate list\n");
}

#[test]
fn what_is_kept_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let old = example("scheduled-cell.toml");
    let first = plan(&[old.to_str().unwrap(), "--json"]).output().unwrap();
    let (first, _) = ends_with(&first, 0);
    let kept = folder.path().join("kept.json");
    std::fs::write(&kept, &first).unwrap();
    let new = folder.path().join("new.toml");
    std::fs::write(&new, std::fs::read_to_string(&old).unwrap() + MORE).unwrap();
    let (new, kept) = (new.to_str().unwrap(), kept.to_str().unwrap());
    let output = plan(&[new, "--json", "--keep", kept]).output().unwrap();
    let (out, _) = ends_with(&output, 0);
    let (before, now) = (launches(&first), launches(&out));
    assert_eq!(now.len(), before.len() + 1);
    for (name, launch) in &before {
        assert_eq!(now.get(name), Some(launch), "{name} moved");
    }

    // The place of a kept stream is taken by another that is kept, too: it is told which one moved.
    let mut broken = plan_file::read(first.as_bytes(), "first.json").unwrap();
    let mut launches = broken
        .streams
        .iter_mut()
        .filter_map(|one| one.launch.as_mut());
    for window in &mut launches.next().unwrap().windows {
        window.start_ns = 0;
    }
    let odd = folder.path().join("odd.json");
    std::fs::write(&odd, plan_file::text(&plan_file::sealed(broken))).unwrap();
    let output = plan(&[new, "--keep", odd.to_str().unwrap()])
        .output()
        .unwrap();
    let (out, _) = ends_with(&output, 0);
    assert!(out.contains("has moved"), "{out}");
}

#[test]
fn faulty_kept_plans_and_budgets_end_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = example("scheduled-cell.toml");
    let file = file.to_str().unwrap();
    let no_plan = folder.path().join("no-plan.json");
    std::fs::write(&no_plan, "[1, 2]").unwrap();
    let refused = folder.path().join("refused.json");
    std::fs::write(&refused, "{\"status\": \"invalid\"}").unwrap();
    for (arguments, part) in [
        (
            &[file, "--keep", "/no/such.json"][..],
            "--keep: cannot read `/no/such.json`",
        ),
        (
            &[file, "--keep", no_plan.to_str().unwrap()],
            "`rtwire plan NETWORK.toml --output plan.json`",
        ),
        (
            &[file, "--keep", refused.to_str().unwrap()],
            "there is no plan to use in it",
        ),
        (&[file, "--replan"], "--keep"),
        (&[file, "--budget", "soon"], "--budget"),
    ] {
        let output = plan(arguments).output().unwrap();
        let (out, err) = ends_with(&output, 2);
        assert!(err.contains(part), "\"{part}\" is missing in\n{err}");
        assert_eq!(out, "");
    }
}

/// Three streams that keep apart two by two, and not all three: no search finds that out.
fn without_end(folder: &Path) -> PathBuf {
    let mut text = String::from(
        "[network]\nname = \"hard\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-error = \"0 ns\"\n\
         [schedule]\nbest-effort-share = 0\n[[switch]]\nname = \"s\"\nqueues = 8\nbuffer = \"1 MB\"\ngates = \"unlimited\"\n\
         [[host]]\nname = \"sink\"\n[[link]]\nends = [\"sink\", \"s\"]\n",
    );
    for interval in [200, 300, 500] {
        text += &format!(
            "[[host]]\nname = \"h{interval}\"\n[[link]]\nends = [\"h{interval}\", \"s\"]\n\
             [[stream]]\nname = \"every-{interval}\"\ntalker = \"h{interval}\"\nlisteners = [\"sink\"]\nframe = \"540 B\"\n\
             interval = \"{interval} us\"\npriority = 7\nschedule = \"time-triggered\"\n"
        );
    }
    let file = folder.join("hard.toml");
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn a_search_ends_with_its_budget_and_shows_the_best_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let file = without_end(folder.path());
    let started = Instant::now();
    let output = plan(&[file.to_str().unwrap(), "--budget", "1s"])
        .output()
        .unwrap();
    let (out, err) = ends_with(&output, 1);
    // It used its time, and ended within a round of it.
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert!(err.contains("the budget is used up"), "{err}");
    assert!(err.contains("no place was found"), "{err}");
    // Two of the three have a place.
    assert_eq!(out.matches("time-triggered").count(), 1, "{out}");
    assert_eq!(out.matches("\n  every-").count(), 3 + 2, "{out}");
    // Nothing but the message where nobody watches.
    assert!(!err.contains("searching a schedule"), "{err}");
}

/// Waits until a process takes Ctrl-C, and has had so much time of the processor behind that.
fn wait_until_it_has_searched(pid: u32, time: Duration) {
    let until = Instant::now() + Duration::from_secs(60);
    let processor_ns = || -> u64 {
        let times = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        times.split(' ').next().unwrap().parse().unwrap()
    };
    let wait = |there: &dyn Fn() -> bool| {
        while !there() {
            assert!(Instant::now() < until, "process {pid} does not search");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(&|| catches(pid, Signal::Interrupt));
    let begin = processor_ns();
    wait(&|| u128::from(processor_ns() - begin) >= time.as_nanos());
}

#[test]
fn ctrl_c_ends_a_search_with_the_best_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let file = without_end(folder.path());
    let started = Instant::now();
    let child = plan(&[file.to_str().unwrap(), "--budget", "600s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_it_has_searched(child.id(), Duration::from_millis(500));
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(300));
    let (out, err) = ends_with(&output, 1);
    assert!(err.contains("ended by Ctrl-C"), "{err}");
    assert_eq!(out.matches("\n  every-").count(), 3 + 2, "{out}");
}

#[test]
fn progress_is_shown_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = without_end(folder.path());
    let inner = format!(
        "{} plan {} --budget 1s",
        env!("CARGO_BIN_EXE_rtwire"),
        file.display()
    );
    // script(1) gives the command a terminal; it is part of every Debian.
    let output = Command::new("script")
        .args(["-qec", &inner, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = text(&output.stdout);
    assert!(out.contains("searching a schedule: round "), "{out}");
    assert_eq!(output.status.code(), Some(1), "{out}");
}

#[test]
fn the_rule_of_routes_is_told_where_there_is_a_choice() {
    let ring = example("ring.toml");
    let (out, _) = ends_with(&plan(&[ring.to_str().unwrap()]).output().unwrap(), 0);
    assert!(
        out.contains("routes, where a stream states none: fewest links"),
        "{out}"
    );
    let line = example("line.toml");
    let (out, _) = ends_with(&plan(&[line.to_str().unwrap()]).output().unwrap(), 0);
    assert!(!out.contains("routes, "), "{out}");
}

/// Two copies are planned; what would have to send them says that it cannot.
#[test]
fn redundancy_is_planned_and_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let ring = std::fs::read_to_string(example("ring.toml")).unwrap();
    let file = folder.path().join("twice.toml");
    let twice = ring.replace(
        "name = \"1-to-3\"",
        "name = \"1-to-3\"\nredundancy = \"disjoint\"",
    );
    std::fs::write(&file, twice).unwrap();
    let file = file.to_str().unwrap();
    let (out, _) = ends_with(&plan(&[file]).output().unwrap(), 0);
    assert!(out.contains("  1-to-3~2  cell3"), "{out}");
    for arguments in [
        &["lab", file, "--duration", "1s"][..],
        &["run", file, "--host", "cell1", "--interface", "lo"],
        &["export", file, "--page"],
        &[
            "apply",
            file,
            "--host",
            "cell1",
            "--interface",
            "lo",
            "--dry-run",
        ],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
            .args(arguments)
            .output()
            .unwrap();
        let (_, err) = ends_with(&output, 2);
        assert!(
            err.contains("\"1-to-3\" has `redundancy`"),
            "{arguments:?}: {err}"
        );
    }
}

/// A host with two links is planned, proved and simulated; what knows one interface of a host names it and its links.
#[test]
fn a_host_with_two_links_is_planned_and_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let (file, planned) = (
        folder.path().join("two.toml"),
        folder.path().join("two.json"),
    );
    let line = std::fs::read_to_string(example("line.toml")).unwrap();
    let host = {
        let network = rtwire_plan::read(&line, "line.toml", &[]).unwrap();
        let first = network.streams[0].talker.clone();
        let own = network.neighbours(&first).next().unwrap().to_owned();
        let mut others = network.switches.iter().map(|switch| &switch.name);
        let other = others.find(|name| **name != own).unwrap();
        let link =
            format!("\n[[link]]\nends = [\"{first}\", \"{other}\"]\nrate = \"100 Mbit/s\"\n");
        std::fs::write(&file, line + &link).unwrap();
        first
    };
    let (file, planned) = (file.to_str().unwrap(), planned.to_str().unwrap());
    let rtwire = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rtwire"));
        command.args(arguments).output().unwrap()
    };
    let _ = ends_with(&rtwire(&["plan", file, "--certificate", "-o", planned]), 0);
    let _ = ends_with(&rtwire(&["verify", planned]), 0);
    let (out, _) = ends_with(&rtwire(&["simulate", planned]), 0);
    assert!(out.contains("all within the promises"), "{out}");
    let own = ["--host", &host, "--interface", "lo"];
    let keys = folder.path().to_str().unwrap();
    for arguments in [
        &["lab", file, "--duration", "1s"][..],
        &[&["run", file][..], &own].concat(),
        &["export", file, "--page"],
        &[&["apply", planned, "--dry-run"][..], &own].concat(),
        &[
            "manager",
            planned,
            "--state",
            keys,
            "--keys",
            keys,
            "--listen",
            "127.0.0.1:0",
        ],
    ] {
        let (_, err) = ends_with(&rtwire(arguments), 2);
        let named = format!("host \"{host}\" has several links, to \"");
        assert!(err.contains(&named), "{arguments:?}: {err}");
    }
}

//! Programs in the lab's network: the library's examples, with nothing between them but the plan's file.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::kept::Kept;
use crate::support::*;

/// An example of the library, built beside this test, with the workspace.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is missing: cargo build --release -p rtwire --examples",
        program.display()
    );
    program
}

/// Talker and listener of thirty lines each exchange values over the lab's switch, and each value is in time.
#[test]
fn programs_of_thirty_lines_keep_the_promise_in_the_lab() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    let file = example("five-nodes.toml");
    let planned = rtwire(&["plan", file.to_str().unwrap(), "--output", plan]).output();
    assert!(planned.as_ref().unwrap().status.success(), "{planned:?}");
    let written: Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
    let stream = &written["streams"][0];
    let (name, promise) = (&stream["name"], &stream["promises"][0]["delay_ns"]);
    let (name, promise_ns) = (name.as_str().unwrap(), promise.as_u64().unwrap());

    let lab = Kept::new();
    let on = |host: &str, example: &str| -> Command {
        let mut command = rtwire(&["lab", "enter", &lab.id, host, "--"]);
        let arguments = [plan, host, "eth0", name, "400"];
        command.arg(program(example)).args(arguments);
        command
    };
    // A machine that stalls may delay some values of a run, but not of this many.
    const TRIES: usize = 5;
    let mut tries = Vec::new();
    let kept = (0..TRIES).any(|_| {
        let listens = on("B", "session_listener").stdout(Stdio::piped()).spawn();
        let mut listens = listens.unwrap();
        let mut says = BufReader::new(listens.stdout.take().unwrap());
        let mut heard = String::new();
        says.read_line(&mut heard).unwrap();
        let talked = on("A", "session_talker").output().unwrap();
        says.read_to_string(&mut heard).unwrap();
        listens.wait().unwrap();
        let slowest = heard.lines().find_map(|line| {
            let rest = line.strip_prefix("slowest ")?;
            rest.strip_suffix(" ns")?.parse::<u64>().ok()
        });
        let whole = heard.contains("received 400, newest Some(399), lost 0, foreign 0");
        tries.push(format!("{heard}{}", text(&talked.stdout)));
        whole && slowest.is_some_and(|ns| (1..=promise_ns).contains(&ns))
    });
    println!("promise {promise_ns} ns: {tries:#?}");
    assert!(kept, "promise {promise_ns} ns: {tries:#?}");
}

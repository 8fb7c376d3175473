//! `rtwire simulate`: the real binary, its output and its exit codes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn rtwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .arg("simulate")
        .args(arguments)
        .output()
        .unwrap()
}

fn example(name: &str) -> String {
    let project: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    project.join("examples").join(name).display().to_string()
}

fn json(arguments: &[&str]) -> (Value, i32) {
    let output = rtwire(&[arguments, &["--json"]].concat());
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|fault| panic!("{fault}: {}", String::from_utf8_lossy(&output.stderr)));
    (value, output.status.code().unwrap())
}

#[test]
fn examples_keep_their_promises() {
    for name in [
        "cyclic.toml",
        "five-nodes.toml",
        "flow-meters.toml",
        "line.toml",
        "preemption.toml",
        "redundant.toml",
        "ring.toml",
    ] {
        for pattern in ["greedy", "periodic", "random", "shaped", "mixed"] {
            let (report, code) =
                json(&[&example(name), "--pattern", pattern, "--duration", "200ms"]);
            assert_eq!(
                (report["outcome"].as_str(), code),
                (Some("kept"), 0),
                "{name}, {pattern}"
            );
            assert_eq!(report["pattern"], pattern);
            for stream in report["streams"].as_array().unwrap() {
                assert_eq!(stream["frames_lost"], 0);
                assert!(stream["frames_received"].as_u64().unwrap() > 0);
                let worst = stream["worst_delay_ps"].as_u64().unwrap();
                if let Some(promised) = stream["promised_delay_ns"].as_u64() {
                    assert!(worst <= promised * 1000, "{stream}");
                }
                let p50 = stream["p50_delay_ns"].as_u64().unwrap();
                let p999 = stream["p999_delay_ns"].as_u64().unwrap();
                assert!(p50 <= p999 && p999 <= worst.div_ceil(1000));
            }
        }
    }
}

#[test]
fn a_search_comes_near_the_promises() {
    let (report, code) = json(&[
        &example("line.toml"),
        "--search",
        "600",
        "--seed",
        "1",
        "--duration",
        "50ms",
    ]);
    assert_eq!(code, 0);
    assert_eq!(report["simulations"], 601);
    let witnesses = report["witnesses"].as_array().unwrap();
    assert_eq!(witnesses.len(), 6);
    let used = |witness: &Value| witness["used_permille"].as_u64().unwrap();
    assert!(witnesses.iter().all(|witness| used(witness) <= 1000));
    assert!(witnesses.iter().map(used).max().unwrap() >= 950);
}

#[test]
fn the_same_seed_prints_the_same() {
    let file = example("line.toml");
    let run = |seed: &str| {
        rtwire(&[
            &file,
            "--seed",
            seed,
            "--duration",
            "50ms",
            "--search",
            "50",
            "--json",
        ])
        .stdout
    };
    assert_eq!(run("4"), run("4"));
    assert_ne!(run("4"), run("5"));
}

#[test]
fn a_broken_promise_is_exit_code_1() {
    let file = example("five-nodes-unshaped.toml");
    // The plan is refused; nothing is simulated.
    let output = rtwire(&[&file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--no-admission"));
    // Simulated all the same, frames are lost.
    let (report, code) = json(&[&file, "--no-admission", "--duration", "200ms"]);
    assert_eq!((report["outcome"].as_str(), code), (Some("broken"), 1));
    let streams = report["streams"].as_array().unwrap();
    let lost: u64 = streams
        .iter()
        .map(|stream| stream["frames_lost"].as_u64().unwrap())
        .sum();
    let ports = report["ports"].as_array().unwrap();
    let dropped: u64 = ports
        .iter()
        .map(|port| port["frames_dropped"].as_u64().unwrap())
        .sum();
    assert!(lost > 0);
    assert_eq!(lost, dropped);
    let table = rtwire(&[&file, "--no-admission", "--duration", "200ms"]);
    assert_eq!(table.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&table.stdout).contains("not within the promises"));
}

#[test]
fn fast_clocks_are_allowed_for_by_name_only() {
    let file = example("line.toml");
    assert_eq!(
        rtwire(&[&file, "--drift", "100", "--duration", "50ms"])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(rtwire(&[&file, "--drift", "200000"]).status.code(), Some(2));
}

#[test]
fn faults_are_exit_code_2() {
    let file = example("line.toml");
    for arguments in [
        &["/nowhere.toml"][..],
        &[&file, "--duration", "0s"],
        &[&file, "--duration", "200000 d"],
        &[&file, "--duration", "soon"],
        &[&file, "--pattern", "wild"],
        &[&file, "--set", "nothing"],
        &[&file, "--set", "no-such-key=1 ms"],
        &[],
    ] {
        let output = rtwire(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
}

#[test]
fn progress_is_for_terminals() {
    let output = rtwire(&[
        &example("five-nodes.toml"),
        "--search",
        "300",
        "--duration",
        "20ms",
    ]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("all within the promises, nothing lost") && text.contains("finds it again"),
        "{text}"
    );
}

/// A link breaks: the recovered stream loses nothing, streams without a second way do, and the command says both.
#[test]
fn a_broken_link_is_survived_by_redundant_streams() {
    let file = example("redundant.toml");
    let with = |more: &[&str]| json(&[&[file.as_str(), "--duration", "300ms"][..], more].concat());
    let cut = |report: &Value| {
        let streams = report["streams"].as_array().unwrap().iter();
        streams
            .map(|it| it["frames_cut"].as_u64().unwrap_or(0))
            .sum::<u64>()
    };
    let (whole, code) = with(&[]);
    assert_eq!((code, cut(&whole)), (0, 0));
    assert!(whole.get("broken_links").is_none());
    for (link, seed) in [("s1,s2", "1"), ("s3,s4", "2"), ("s2,s3", "3")] {
        let (report, code) = with(&["--break-link", link, "--seed", seed]);
        let stream = &report["recovered"][0];
        assert_eq!(
            (code, stream["frames_lost"].as_u64()),
            (0, Some(0)),
            "{report}"
        );
        assert!(cut(&report) > 0, "{link}");
        assert_eq!(stream["frames_twice"], 0);
        let worst = stream["worst_delay_ps"].as_u64().unwrap();
        assert!(worst <= stream["promised_delay_ns"].as_u64().unwrap() * 1_000);
        assert!(report["broken_links"][0]["until_ns"].is_null());
    }
    let at = |from: &str, length: &str| {
        with(&[
            "--break-link",
            "s1,s2",
            "--break-at",
            from,
            "--break-for",
            length,
        ])
    };
    let (short, code) = at("100ms", "20ms");
    assert_eq!(
        (code, short["broken_links"][0]["until_ns"].as_u64()),
        (0, Some(120_000_000))
    );
    let (long, _) = at("100ms", "80ms");
    assert!(cut(&short) < cut(&long));
    // The talker's own link is on both ways.
    let shared = [
        "--duration",
        "300ms",
        "--break-link",
        "cell,s1",
        "--break-at",
        "0",
    ];
    let output = rtwire(&[&[file.as_str()][..], &shared[..]].concat());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("RECOVERY BROKEN: position to press"),
        "{told}"
    );
    for (arguments, message) in [
        (
            &["--break-link", "s1,s4"][..],
            "there is no such link; links are cell,s1",
        ),
        (
            &["--break-link", "s1"][..],
            "name the two nodes of a link, such as s1,s2",
        ),
        (&["--break-at", "1ms"][..], "--break-link"),
    ] {
        let output = rtwire(&[&[file.as_str()][..], arguments].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(message), "{arguments:?}: {told}");
    }
}

#[test]
fn a_talker_that_goes_wrong_is_held_off_by_meters() {
    let file = example("flow-meters.toml");
    let shared = ["--duration", "200ms", "--babble", "pictures"];
    let (report, code) = json(&[&[file.as_str()][..], &shared[..]].concat());
    assert_eq!((report["outcome"].as_str(), code), (Some("kept"), 0));
    assert_eq!(report["babbling"], serde_json::json!(["pictures"]));
    let of = |list: &str, key: &str, name: &str| {
        let mut all = report[list].as_array().unwrap().iter();
        all.find(|it| it[key] == name).unwrap().clone()
    };
    let discarded = |flow| {
        of("meters", "flow", flow)["frames_discarded"]
            .as_u64()
            .unwrap()
    };
    assert!(discarded("pictures") > 1_000);
    assert_eq!((discarded("setpoints"), discarded("actuals")), (0, 0));
    assert_eq!(of("streams", "name", "pictures")["unjudged"], true);
    assert_eq!(of("streams", "name", "setpoints")["frames_lost"], 0);
    let output = rtwire(&[&[file.as_str()][..], &shared[..]].concat());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    for line in [
        "meter at",
        "babbling: pictures;",
        "all other hosts' streams within the promises",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    // The same network without meters.
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let unguarded = folder.path().join("unguarded.toml");
    std::fs::write(&unguarded, text.replace("flow-meters = \"on\"\n", "")).unwrap();
    let output = rtwire(&[&[unguarded.to_str().unwrap()][..], &shared[..]].concat());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("PROMISE BROKEN: setpoints"), "{told}");
    for (arguments, message) in [
        (
            &["--babble", "picture"][..],
            "there are setpoints actuals pictures files",
        ),
        (&["--babble", "pictures", "--search", "9"][..], "--search"),
    ] {
        let output = rtwire(&[&[file.as_str()][..], arguments].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(message), "{arguments:?}: {told}");
    }
}

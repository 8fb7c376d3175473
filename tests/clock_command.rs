//! `rtwire clock` beside two real `ptp4l` over a veth, one of which is killed. Needs root and linuxptp.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "ptp_common/mod.rs"]
mod ptp_common;

use std::fs;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use ptp_common::Ptp;
use rtwire_testkit::{NetnsPair, require};
use serde_json::Value;

fn clock(socket: &str, folder: &std::path::Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(["clock", "--socket", socket, "--json", "--record"])
        .arg(folder.join("record.jsonl"))
        .args(more)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Looks until it is as wanted; the last look.
fn until(what: &str, mut look: impl FnMut() -> (bool, Output)) -> Output {
    let start = Instant::now();
    loop {
        let (there, output) = look();
        if there {
            return output;
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{what}: not in a minute: {said}"
        );
        thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_clock_that_follows_is_told_from_one_whose_master_died() {
    require!(root, program "ip", program "ptp4l");
    let pair = NetnsPair::new();
    let folder = tempfile::tempdir().unwrap();
    let master = Ptp::start(&pair.a, folder.path(), "master", "priority1 100");
    let slave = Ptp::start(&pair.b, folder.path(), "slave", "slaveOnly 1");
    // Software stamps on a busy machine: a second is what it takes to tell a clock that follows from one that does not.
    let limit = ["--limit", "1000000000"];
    let output = until("synchronised", || {
        let output = clock(&slave.socket, folder.path(), &limit);
        (output.status.code() == Some(0), output)
    });
    let state = json(&output);
    let daemon = &state["daemon"];
    assert_eq!(state["synchronised"], true);
    assert_eq!(daemon["ports"][0]["state"], "SLAVE");
    assert_eq!(daemon["own_grandmaster"], false);
    assert!(
        daemon["offset_ns"].is_i64() && daemon["delay_ns"].is_i64(),
        "{state}"
    );

    let giving = clock(&master.socket, folder.path(), &["--gives-time"]);
    assert_eq!(giving.status.code(), Some(0), "{}", json(&giving));
    assert_eq!(json(&giving)["daemon"]["identity"], daemon["grandmaster"]);
    let asked_wrongly = clock(&master.socket, folder.path(), &limit);
    assert_eq!(asked_wrongly.status.code(), Some(1));
    assert!(
        json(&asked_wrongly)["reasons"][0]
            .as_str()
            .unwrap()
            .contains("follows nobody")
    );
    // Nothing follows to the nanosecond.
    let strict = until("an offset", || {
        let output = clock(&slave.socket, folder.path(), &["--limit", "0"]);
        (output.status.code() == Some(1), output)
    });
    assert!(
        json(&strict)["reasons"][0]
            .as_str()
            .unwrap()
            .contains("ns from its master")
    );

    drop(master);
    let output = until("apart", || {
        let output = clock(&slave.socket, folder.path(), &limit);
        (output.status.code() == Some(1), output)
    });
    let state = json(&output);
    assert_eq!(state["synchronised"], false);
    assert!(!state["reasons"].as_array().unwrap().is_empty());

    let other_domain = clock(&slave.socket, folder.path(), &["--domain", "7"]);
    assert_eq!(other_domain.status.code(), Some(3));
    assert!(
        json(&other_domain)["reasons"][0]
            .as_str()
            .unwrap()
            .contains("--domain")
    );
    let socket = slave.socket.clone();
    drop(slave);
    let gone = clock(&socket, folder.path(), &limit);
    assert_eq!(gone.status.code(), Some(3), "{}", json(&gone));
    // All of it is in the record.
    let record = fs::read_to_string(folder.path().join("record.jsonl")).unwrap();
    let looks: Vec<Value> = record
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(looks.iter().any(|look| look["synchronised"] == true));
    assert!(looks.last().unwrap()["daemon"].is_null());
}

//! Pings without end: every number answered, both processes' memory constant. Needs root.
//!
//! 100 000 by default, in a second or two: too short to say anything of memory. With `RTWIRE_SOAK_PINGS=10000000` (as
//! `make soak` and `make test-full` set it) memory is looked at, and a run that is too short for that fails.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "respond_common/mod.rs"]
mod respond_common;

use respond_common::{MAC_B, Running, finished, rtwire};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rtwire_testkit::{NetnsPair, require};
use serde_json::Value;

/// The source's deadline for a round trip to a reply from the driver.
const DEADLINE: &str = "74.4us";

/// The number of pings that a long run was asked for.
fn asked_for() -> Option<u64> {
    let count = std::env::var("RTWIRE_SOAK_PINGS").ok()?;
    Some(count.parse().unwrap())
}

/// Resident memory of a process, KiB; `None` where it has ended.
fn resident_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Two pieces of the noise record come and go within this time; each takes some 5 MiB for its time.
const SETTLES: Duration = Duration::from_secs(15);
/// The time behind it in which memory must stay.
const STAYS: Duration = Duration::from_secs(5);
/// The growth that is none, KiB.
const MORE_KIB: u64 = 3_072;

/// Waits for the end, and looks at memory meanwhile: once it has settled it never grows beyond that, in a time that is
/// proved to be long enough.
fn ends_with_constant_memory(mut child: Child, responder: u32) -> (Option<i32>, Value, String) {
    let pids = [child.id(), responder];
    let mut most = [0; 2];
    let (start, mut looks) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(100));
        for (most, pid) in most.iter_mut().zip(pids) {
            let Some(now) = resident_kib(pid) else {
                continue;
            };
            if start.elapsed() < SETTLES {
                *most = now.max(*most);
            } else {
                looks += 1;
                assert!(now <= *most + MORE_KIB, "{pid}: {most} KiB, then {now} KiB");
            }
        }
    }
    assert!(
        looks > 0 && start.elapsed() >= SETTLES + STAYS,
        "it ended after {:?}: memory was not looked at",
        start.elapsed()
    );
    finished(&child.wait_with_output().unwrap())
}

#[test]
fn no_number_is_lost_and_in_a_long_run_memory_is_constant() {
    require!(root, program "ip");
    for mode in ["native", "generic"] {
        let pair = NetnsPair::new();
        let responder = Running::start(&pair.b, &["--mode", mode]);
        let total = asked_for().unwrap_or(100_000) / if mode == "native" { 1 } else { 2 };
        let total_text = total.to_string();
        let asking = [
            "ping",
            &pair.a.interface,
            MAC_B,
            "--json",
            "--interval",
            "0s",
            "--spin",
            "--count",
            &total_text,
            "--deadline",
            DEADLINE,
            "--cpu",
            "0",
            "--realtime",
            "50",
        ];
        let child = rtwire(&pair.a, &asking).spawn().unwrap();
        let (code, report, stderr) = match asked_for() {
            Some(_) => ends_with_constant_memory(child, responder.id()),
            None => finished(&child.wait_with_output().unwrap()),
        };
        // Late ones are this machine's business: the benchmark shows them.
        assert!(
            matches!(code, Some(0 | 1 | 4)),
            "{code:?} {report} {stderr}"
        );
        let number = |key: &str| report[key].as_u64().unwrap_or(u64::MAX);
        assert_eq!(number("answered"), total, "{report}");
        for none in [
            "lost",
            "late",
            "waiting",
            "duplicate",
            "reordered",
            "unknown",
        ] {
            assert_eq!(number(none), 0, "{none}: {report}");
        }
        assert_eq!(
            number("over_deadline"),
            number("over_deadline_explained") + number("over_deadline_unexplained")
        );
        println!("{mode}: {report}");
        let (code, reports, said) = responder.end(Some("-INT"));
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(reports[0]["answered"], total);
    }
}

//! `rtwire apply` with a network namespace of its own, and with receive work in threads: in force, read back, undone. What ordinary
//! kernels lack is in the kernel lab (`tests/vm/suites/host.sh`). Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "apply_common/mod.rs"]
mod apply_common;

use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use apply_common::{Bench, code, said, same};
use rtwire_testkit::require;

/// The namespace has its name from the interface, which is the same in all tests.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const OWN: &str = "rtw-rtwa";
const MOVED: [&str; 2] = ["--isolation", "namespace"];

/// One test at a time, without what another left.
struct Alone(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Drop for Alone {
    fn drop(&mut self) {
        remove_own();
    }
}

fn remove_own() {
    let _ = Command::new("ip").args(["netns", "del", OWN]).output();
}

fn alone() -> Alone {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    remove_own();
    Alone(alone)
}

fn own(line: &str) -> Output {
    Command::new("ip")
        .args(["netns", "exec", OWN, "sh", "-ec", line])
        .output()
        .unwrap()
}

fn settled(bench: &Bench) -> String {
    let looks = bench.settled();
    let settings = "cd /proc/sys/net; grep -r . ipv4/conf/rtwa ipv6/conf/rtwa ipv4/neigh/rtwa ipv6/neigh/rtwa 2>/dev/null || true";
    looks + &bench.sh(settings)
}

#[test]
fn an_interface_goes_into_its_namespace_and_comes_back_to_the_byte() {
    require!(root, program "ip", program "tc", program "ethtool", program "nsenter");
    let _alone = alone();
    let bench = Bench::new();
    bench.sh("sysctl -qw net.ipv4.conf.rtwa.accept_local=1 net.ipv4.neigh.rtwa.delay_first_probe_time=3; \
              tc qdisc add dev rtwa root handle 7: tbf rate 20mbit burst 4k latency 5ms");
    let before = settled(&bench);
    let dry = bench.apply(&[&MOVED[..], &["--dry-run"]].concat());
    code(&dry, 0);
    assert!(said(&dry).contains("this one → rtw-rtwa"), "{}", said(&dry));
    same(&settled(&bench), &before, "a dry run");
    code(&bench.apply(&MOVED), 0);
    let there = own(
        "ip link show rtwa; ip address show; tc qdisc show; sysctl net.ipv6.conf.all.disable_ipv6",
    );
    let text = said(&there);
    assert!(
        text.contains("NOARP") && text.contains("qdisc htb"),
        "{text}"
    );
    assert!(
        text.contains("disable_ipv6 = 1") && !text.contains("inet "),
        "{text}"
    );
    let again = bench.apply(&MOVED);
    code(&again, 0);
    assert!(
        said(&again).contains("as planned already"),
        "{}",
        said(&again)
    );
    let elsewhere = bench.apply(&[]);
    code(&elsewhere, 1);
    assert!(
        said(&elsewhere).contains("rtwire revert rtwa"),
        "{}",
        said(&elsewhere)
    );
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    same(&settled(&bench), &before, "");
    assert!(!fs::exists(format!("/run/netns/{OWN}")).unwrap());
}

#[test]
fn killed_at_any_moment_of_the_way_it_comes_back() {
    require!(root, program "ip", program "nsenter");
    let _alone = alone();
    let bench = Bench::new();
    let before = settled(&bench);
    let start = Instant::now();
    code(&bench.apply(&MOVED), 0);
    let whole = start.elapsed();
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    let mut unfinished = 0;
    for moment in 0..25_u32 {
        let mut child = bench.apply_command(&MOVED).spawn().unwrap();
        thread::sleep(whole * moment / 22);
        let _ = child.kill();
        let _ = child.wait();
        let output = bench.rtwire(&["revert"]);
        code(&output, 0);
        unfinished += u32::from(said(&output).contains("setting(s)"));
        assert!(
            !fs::exists(format!("/run/netns/{OWN}")).unwrap(),
            "moment {moment}"
        );
    }
    assert!(unfinished > 2, "{unfinished} of 25 with changes");
    same(&settled(&bench), &before, "");
}

#[test]
fn a_name_whose_maker_was_killed_before_there_was_a_namespace_is_taken_back() {
    require!(root, program "ip", program "nsenter");
    let _alone = alone();
    let bench = Bench::new();
    let before = settled(&bench);
    code(&bench.apply(&MOVED), 0);
    let path = bench.records().remove(0);
    let record = fs::read_to_string(&path).unwrap();
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    // Up to and with the line that was written before the namespace was made.
    let end = record.find(&format!("\"name\":\"{OWN}\"")).unwrap();
    let end = end + record[end..].find('\n').unwrap() + 1;
    fs::write(&path, &record[..end]).unwrap();
    fs::write(format!("/run/netns/{OWN}"), "").unwrap();
    code(&bench.rtwire(&["revert"]), 0);
    assert!(!fs::exists(format!("/run/netns/{OWN}")).unwrap());
    assert!(bench.records().is_empty());
    same(&settled(&bench), &before, "");
}

#[test]
fn what_would_not_survive_a_move_is_named_and_nothing_is_changed() {
    require!(root, program "ip", program "tc", program "nsenter");
    let _alone = alone();
    let bench = Bench::new();
    for (plant, remove, part) in [
        (
            "ip link add rtwbr type bridge; ip link set rtwa master rtwbr",
            "ip link del rtwbr",
            "port",
        ),
        (
            "tc qdisc add dev rtwa ingress",
            "tc qdisc del dev rtwa ingress",
            "ingress rules",
        ),
    ] {
        bench.sh(plant);
        let before = settled(&bench);
        let refused = bench.apply(&MOVED);
        code(&refused, 3);
        assert!(said(&refused).contains(part), "{}", said(&refused));
        same(&settled(&bench), &before, plant);
        bench.sh(remove);
    }
    // A namespace of that name is somebody's.
    assert!(
        Command::new("ip")
            .args(["netns", "add", OWN])
            .status()
            .unwrap()
            .success()
    );
    let refused = bench.apply(&MOVED);
    code(&refused, 1);
    assert!(
        said(&refused).contains("ip netns del"),
        "{}",
        said(&refused)
    );
    assert!(fs::exists(format!("/run/netns/{OWN}")).unwrap());
}

#[test]
fn what_somebody_put_into_the_namespace_is_not_removed_with_it() {
    require!(root, program "ip", program "nsenter");
    let _alone = alone();
    let bench = Bench::new();
    let before = settled(&bench);
    code(&bench.apply(&MOVED), 0);
    assert!(own("ip link add strange type bridge").status.success());
    let left = bench.rtwire(&["revert", "rtwa"]);
    code(&left, 1);
    assert!(said(&left).contains("strange"), "{}", said(&left));
    // Everything else is back already; with the stranger gone the rest follows.
    assert!(own("ip link del strange").status.success());
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    same(&settled(&bench), &before, "");
}

#[test]
fn streams_in_udp_take_their_addresses_along() {
    require!(root, program "ip", program "nsenter");
    let _alone = alone();
    let bench = Bench::new();
    let text = fs::read_to_string(bench.plan()).unwrap();
    let text = text.replace("vlan = 5", "transport = \"udp\"");
    fs::write(bench.plan(), text).unwrap();
    let before = settled(&bench);
    code(&bench.apply(&MOVED), 0);
    let there = said(&own("ip -4 -o address show dev rtwa; ip -6 address show"));
    for address in ["10.77.0.1/24", "10.77.0.9/24", "10.78.0.1/24"] {
        assert!(there.contains(address), "{there}");
    }
    assert!(!there.contains("inet6"), "{there}");
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    same(&settled(&bench), &before, "");
}

#[test]
fn from_a_view_of_its_own_nothing_is_lost() {
    require!(root, program "ip");
    let _alone = alone();
    let bench = Bench::new();
    let before = settled(&bench);
    let rtwire = |arguments: &[&str]| {
        Command::new("ip")
            .args([
                "netns",
                "exec",
                &bench.pair.a.namespace,
                env!("CARGO_BIN_EXE_rtwire"),
            ])
            .args(arguments)
            .env("RTWIRE_STATE_DIRECTORY", bench.folder.path().join("state"))
            .output()
            .unwrap()
    };
    let plan = bench.plan();
    let plan = plan.to_str().unwrap();
    let all = [
        "apply",
        plan,
        "--host",
        "A",
        "--interface",
        "rtwa",
        MOVED[0],
        MOVED[1],
    ];
    let output = rtwire(&all);
    if output.status.success() {
        // The first process's view could be reached.
        assert!(own("ip link show rtwa").status.success());
        code(&rtwire(&["revert", "rtwa"]), 0);
    } else {
        code(&output, 3);
        assert!(said(&output).contains("nsenter"), "{}", said(&output));
    }
    same(&settled(&bench), &before, &said(&output));
}

#[test]
fn receive_work_gets_threads_of_the_priority_asked_for() {
    require!(root, program "ip", program "ethtool", program "nsenter", program "chrt");
    let _alone = alone();
    let bench = Bench::new();
    let before = settled(&bench);
    let asked = ["--receive-priority", "41", "--irq-cpu", "0"];
    code(&bench.apply(&asked), 0);
    let thread = bench.sh("pgrep '^napi/rtwa-' | tail -n 1");
    let scheduling = bench.sh(&format!("chrt -p {0}; taskset -cp {0}", thread.trim()));
    assert!(
        scheduling.contains("SCHED_FIFO") && scheduling.contains("priority: 41"),
        "{scheduling}"
    );
    assert!(scheduling.trim_end().ends_with(": 0"), "{scheduling}");
    let again = bench.apply(&asked);
    assert!(
        said(&again).contains("as planned already"),
        "{}",
        said(&again)
    );
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    same(&settled(&bench), &before, "");
    let wrong = bench.apply(&["--receive-priority", "99"]);
    code(&wrong, 2);
    assert!(said(&wrong).contains("1..=98"), "{}", said(&wrong));
}

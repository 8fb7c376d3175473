//! The kernel does what the wrappers promise: clocks, scheduling, names, filters, error messages.
#![allow(clippy::unwrap_used)]

use rtwire_sys::clock::{self, Clock, Sleep};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::{ErrorKind, interface, netns, port_lock, sched, signal};
use rtwire_testkit::require;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn clocks_go_on_and_sleeps_reach_their_instant() {
    for clock in [Clock::Tai, Clock::Monotonic, Clock::Realtime] {
        let start = clock::now_ns(clock);
        assert_eq!(
            clock::sleep_until(clock, start + 3_000_000),
            Ok(Sleep::Reached)
        );
        assert!(clock::now_ns(clock) >= start + 3_000_000);
        // A past time is not waited for.
        assert_eq!(clock::sleep_until(clock, start), Ok(Sleep::Reached));
    }
    let offset = clock::now_ns(Clock::Tai) as i64 - clock::now_ns(Clock::Realtime) as i64;
    assert!((offset - clock::tai_offset_ns().unwrap()).abs() < 1_000_000_000);
}

#[test]
fn processor_time_is_the_threads_own() {
    let start = clock::thread_cpu_ns();
    std::thread::sleep(Duration::from_millis(30));
    let slept = clock::thread_cpu_ns() - start;
    assert!(slept < 20_000_000, "{slept}");
    while clock::thread_cpu_ns() - start < 5_000_000 {}
}

#[test]
fn scheduling_is_read_back() {
    require!(root);
    std::thread::spawn(|| {
        assert_eq!(sched::current().unwrap().policy, sched::Policy::Other);
        let fifo = sched::set_fifo(7).unwrap();
        assert_eq!((fifo.policy, fifo.priority), (sched::Policy::Fifo, 7));
        let error = sched::set_fifo(100).unwrap_err();
        let text = "sched_setscheduler for SCHED_FIFO 100: Invalid argument";
        assert_eq!(error.to_string(), text);
        let cpus = sched::affinity().unwrap();
        let mut hold = sched::CoreHold::new();
        hold.here();
        let held = sched::affinity().unwrap();
        assert_eq!(held, [sched::cpu()], "one core of {cpus:?}");
        hold.release();
        assert_eq!(sched::affinity().unwrap(), cpus);
        let last = *cpus.last().unwrap();
        assert_eq!(sched::set_cpu(last).unwrap().cpus, [last]);
        assert_eq!(sched::cpu(), last);
        assert!(sched::set_cpu(100_000).is_err());
        assert!(sched::set_cpu(1023).is_err());
        assert_eq!(sched::set_other().unwrap().policy, sched::Policy::Other);
    })
    .join()
    .unwrap();
}

#[test]
fn a_name_is_held_once_and_let_go() {
    require!(root);
    let name = format!("rtwtest/{}", std::process::id());
    assert!(!port_lock::is_held(&name).unwrap());
    let lock = port_lock::NameLock::take(&name).unwrap();
    assert!(port_lock::is_held(&name).unwrap());
    assert_eq!(
        port_lock::NameLock::take(&name).unwrap_err().kind(),
        ErrorKind::InUse
    );
    // A longer name with the same beginning is another.
    assert!(!port_lock::is_held(&format!("{name}0")).unwrap());
    drop(lock);
    assert!(!port_lock::is_held(&name).unwrap());
    assert!(port_lock::is_held(&"x".repeat(101)).is_err());
}

#[test]
fn the_loopback_interface_is_known() {
    let lo = interface::by_name("lo").unwrap();
    assert_eq!((lo.index, lo.mac), (1, [0; 6]));
    assert!(lo.mtu >= 1500);
    for wrong in ["", "nosuch0", "a/b", "a-name-that-is-too-long", "nul\0"] {
        let error = interface::by_name(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InterfaceMissing, "{wrong:?}");
    }
}

#[test]
fn wrong_filters_are_refused_before_the_kernel_sees_them() {
    let jump = |yes, no| Instruction::Jump {
        test: Test::Equal(1),
        yes,
        no,
    };
    let cases: [(&[Instruction], &str); 4] = [
        (&[], "0 instructions"),
        (
            &[jump(0, 1), Instruction::Accept],
            "instruction 0, which jumps past the end",
        ),
        (
            &[Instruction::LoadLength],
            "a program that neither accepts nor rejects at its end",
        ),
        (&[Instruction::Accept; 4097], "4097 instructions"),
    ];
    for (program, reason) in cases {
        let error = Filter::new(program).unwrap_err();
        let text = format!("checking a socket filter for {reason}: Invalid argument");
        assert_eq!(error.to_string(), text);
    }
    assert!(Filter::new(&[jump(1, 0), Instruction::Accept, Instruction::Reject]).is_ok());
}

#[test]
fn a_signal_sets_the_flag() {
    let stop = signal::install_stop_flag().unwrap();
    assert!(!stop.load(Ordering::Relaxed));
    let process = std::process::id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &process])
        .status();
    assert!(sent.unwrap().success());
    for _ in 0..100 {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the flag was not set");
}

/// Runs while no namespace has a name yet.
#[test]
#[ignore = "run by the next test"]
fn child_that_names_a_namespace_before_ip_does() {
    netns::create("ours").unwrap();
    let ip = std::process::Command::new("ip")
        .args(["netns", "add", "theirs"])
        .status();
    assert!(ip.unwrap().success());
    netns::delete("ours").unwrap();
    println!("LEFT {:?}", netns::list("").unwrap());
}

/// `ip netns add` makes the directory of names a mount of its own, which hides earlier names' mounts.
#[test]
fn a_name_made_before_the_first_of_ip_can_be_taken_away() {
    require!(root, program "ip", program "unshare");
    let child = "mount -t tmpfs none /run && exec \"$0\" \"$@\"";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", child])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_names_a_namespace_before_ip_does"])
        .args(["--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("LEFT [\"theirs\"]"), "{text}");
}

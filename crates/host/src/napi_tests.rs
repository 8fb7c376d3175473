//! Receive threads and deferred interrupts upon a real veth. Needs root.

use super::*;
use rtwire_sys::sched::Policy;
use rtwire_testkit::{NetnsPair, Side};
use std::process::Command;

/// A veth has a receive context with GRO on, where its peer sends no large segments.
fn with_context() -> NetnsPair {
    assert!(rtwire_testkit::require_root() && rtwire_testkit::require_program("ethtool"));
    let pair = NetnsPair::new();
    for (side, feature, state) in [(&pair.a, "tso", "off"), (&pair.b, "gro", "on")] {
        let done = Command::new("ip")
            .args(["netns", "exec", &side.namespace, "ethtool", "-K"])
            .args([side.interface.as_str(), feature, state])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    pair
}

fn napis(side: &Side) -> Vec<Napi> {
    side.run(|| {
        let index = interface::by_name(&side.interface).unwrap().index;
        Netlink::new().napis(index).unwrap()
    })
}

fn fifo(priority: u8) -> NapiPriority {
    NapiPriority {
        want: Want::Fifo(priority),
        cpus: vec![0],
    }
}

#[test]
fn threads_have_the_priority_asked_for_and_end_with_their_guard() {
    let pair = with_context();
    let before = napis(&pair.b);
    assert_eq!(before.len(), 1);
    assert_eq!(before[0].thread, None);
    let guard = pair
        .b
        .run(|| NapiThreads::start(&pair.b.interface, &fifo(41)))
        .unwrap();
    let [thread] = guard.threads() else {
        panic!("{guard:?}")
    };
    // The kernel's present state, not the guard's note.
    let now = thread::scheduling(thread.thread).unwrap();
    assert_eq!(
        (now.policy, now.priority, now.cpus),
        (Policy::Fifo, 41, vec![0])
    );
    let name = std::fs::read_to_string(format!("/proc/{}/comm", thread.thread)).unwrap();
    assert!(name.starts_with("napi/"), "{name}");
    // Dropped in another namespace than the one it was made in.
    drop(guard);
    assert_eq!(napis(&pair.b), before);
}

#[test]
fn time_sharing_and_its_nice_value_are_a_choice_too() {
    let pair = with_context();
    let priority = NapiPriority {
        want: Want::Other(7),
        cpus: Vec::new(),
    };
    let guard = pair
        .b
        .run(|| NapiThreads::start(&pair.b.interface, &priority))
        .unwrap();
    let thread = guard.threads()[0].thread;
    assert_eq!(thread::scheduling(thread).unwrap().policy, Policy::Other);
    assert_eq!(thread::nice(thread).unwrap(), 7);
}

#[test]
fn a_refused_priority_leaves_everything_as_it_was() {
    let pair = with_context();
    let before = napis(&pair.b);
    let refused = pair
        .b
        .run(|| NapiThreads::start(&pair.b.interface, &fifo(0)));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("SCHED_FIFO 0"), "{message}");
    assert_eq!(napis(&pair.b), before);
}

#[test]
fn an_interface_without_receive_context_is_refused_with_the_way_to_get_one() {
    let pair = NetnsPair::new();
    let refused = pair
        .b
        .run(|| NapiThreads::start(&pair.b.interface, &fifo(41)));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("gro on"), "{message}");
    let message = pair
        .b
        .run(|| NapiThreads::start("nowhere", &fifo(41)))
        .unwrap_err()
        .to_string();
    assert!(message.contains("nowhere"), "{message}");
}

#[test]
fn a_whole_interface_can_be_set_where_the_kernel_knows_no_single_context() {
    let pair = with_context();
    pair.b
        .run(|| write_setting(&pair.b.interface, "threaded", "1"))
        .unwrap();
    assert!(napis(&pair.b)[0].thread.is_some());
    // A context that was threaded before stays so.
    drop(
        pair.b
            .run(|| NapiThreads::start(&pair.b.interface, &fifo(3)))
            .unwrap(),
    );
    assert!(napis(&pair.b)[0].thread.is_some());
    let refused = pair.b.run(|| write_setting("nowhere", "threaded", "1"));
    assert!(refused.unwrap_err().to_string().contains("nowhere"));
}

#[test]
fn interrupts_are_deferred_while_the_guard_lives() {
    let pair = with_context();
    let before = napis(&pair.b);
    let guard = pair
        .b
        .run(|| NapiDeferral::hold(&pair.b.interface, 100, 5_000_000))
        .unwrap();
    let held = napis(&pair.b);
    assert_eq!(
        (held[0].defer_hard_irqs, held[0].gro_flush_timeout_ns),
        (100, 5_000_000)
    );
    drop(guard);
    assert_eq!(napis(&pair.b), before);
}

#[test]
fn an_interface_that_goes_leaves_nothing_to_undo() {
    let pair = with_context();
    let guard = pair
        .b
        .run(|| NapiThreads::start(&pair.b.interface, &fifo(41)))
        .unwrap();
    let thread = guard.threads()[0].thread;
    rtwire_testkit::ip(&pair.a.namespace, "link del rtwa");
    drop(guard);
    assert!(thread::scheduling(thread).is_err(), "its thread is gone");
}

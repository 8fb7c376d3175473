//! Receive work in threads that poll the driver all the time (threaded busy polling): the receive program runs in them, each frame
//! arrives, and a reader that sleeps is woken. A kernel without them is named.
#![allow(clippy::unwrap_used)]

mod common;

use rtwire_host::HostError;
use rtwire_host::napi::{NapiPriority, NapiThreads};
use rtwire_host::netlink::{Napi, Netlink};
use rtwire_link::program::{Attach, ProgramConfig, QueueConfig, ReceiveProgram, XdpMode};
use rtwire_link::{Sender, SenderConfig, TxPath};
use rtwire_sys::carrier::wait_for_carrier;
use rtwire_sys::interface::by_name;
use rtwire_sys::sched::thread::Want;
use rtwire_testkit::{NetnsPair, Side, cards, kernel_at_least, require};
use rtwire_wire::rtdip::Semantics;
use std::time::Duration;

const PORT: u16 = 1001;
const FRAMES: u32 = 200;
const SOON: Option<Duration> = Some(Duration::from_secs(5));

fn frame(from: &Side, to: &Side, sequence: u32) -> Vec<u8> {
    common::frame((from, to), None, Semantics::Queue, PORT, sequence)
}

fn contexts(side: &Side) -> Vec<Napi> {
    side.run(|| {
        let index = by_name(&side.interface).unwrap().index;
        Netlink::new().napis(index).unwrap()
    })
}

/// The interrupts of a card so far, as the kernel counts them: the lines that have its name.
fn interrupts(card: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/interrupts").unwrap();
    let own = table.lines().filter(|line| line.contains(card));
    let counts = own.flat_map(|line| line.split_whitespace().skip(1));
    counts.filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Sends frames one by one to a sleeping reader of the program, and returns the interrupts meanwhile.
fn frames_arrive(a: &Side, b: &Side, program: &ReceiveProgram, card: &str) -> u64 {
    let open = || program.queue_channel(PORT, 0, &QueueConfig::default());
    let mut queue = b.run(open).unwrap();
    let config = SenderConfig {
        path: TxPath::Qdisc,
        ..SenderConfig::new(a.interface.as_str())
    };
    let mut sender = a.run(|| Sender::frames(&config)).unwrap();
    let before = interrupts(card);
    for number in 0..FRAMES {
        sender.send(&frame(a, b, number)).unwrap();
        assert!(queue.wait(SOON).unwrap(), "{number} woke nobody");
        queue.release();
    }
    interrupts(card) - before
}

fn polled(a: &Side, b: &Side, card: Option<&str>) {
    let name = card.unwrap_or("none");
    let config = ProgramConfig {
        attach: Attach::Only(XdpMode::Native),
        ..ProgramConfig::new(b.interface.as_str())
    };
    let program = b.run(|| ReceiveProgram::with(&config)).unwrap();
    for side in [a, b] {
        let wait = || wait_for_carrier(&by_name(&side.interface).unwrap(), Duration::from_secs(30));
        assert!(side.run(wait).unwrap().on);
    }
    let before = contexts(b);
    assert!(!before.is_empty() && before.iter().all(|napi| !napi.polls));
    let interrupted = frames_arrive(a, b, &program, name);
    let wanted = NapiPriority {
        want: Want::Other(0),
        cpus: Vec::new(),
    };
    let threads = b.run(|| NapiThreads::poll(&b.interface, &wanted));
    if !kernel_at_least(6, 19) {
        let refused = threads.unwrap_err();
        assert!(
            matches!(refused, HostError::NoPollingThread { .. }),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("came with Linux 6.19"),
            "{refused}"
        );
        assert_eq!(contexts(b), before);
        return;
    }
    let threads = threads.unwrap();
    assert_eq!(threads.threads().len(), before.len());
    assert!(contexts(b).iter().all(|napi| napi.polls));
    let polled = frames_arrive(a, b, &program, name);
    if card.is_some() {
        println!("@@ note {FRAMES} frames: {interrupted} interrupts, polled {polled}");
        assert!(interrupted > u64::from(FRAMES / 2), "{interrupted}");
        assert!(polled < u64::from(FRAMES / 10), "{polled}");
    }
    drop(threads);
    let after = contexts(b);
    assert!(
        after
            .iter()
            .all(|napi| !napi.polls && napi.thread.is_none())
    );
    frames_arrive(a, b, &program, name);
}

#[test]
fn a_thread_that_polls_loses_nothing_or_the_kernel_is_named() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    polled(&pair.a, &pair.b, None);
}

#[test]
#[ignore = "needs cards: runs in the kernel lab (tests/vm/suites/cards.sh)"]
fn on_cards_a_thread_that_polls_needs_no_interrupt() {
    let [a, b] = cards();
    // The card's name in /proc/interrupts, which cards.sh knows.
    let card = std::env::var("RTWIRE_CARD").unwrap();
    polled(&a, &b, Some(&card));
}

//! `rtwire ping --deadline`: what stalls of this machine explain, and what they do not, on a machine under load. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "respond_common/mod.rs"]
mod respond_common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use respond_common::{MAC_B, Running, ping, rtwire};
use rtwire_link::responder::port_filter;
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
use rtwire_sys::sched;
use rtwire_testkit::{NetnsPair, Side, require};
use rtwire_wire::EtherType;
use serde_json::Value;

/// The port of `rtwire ping` and `rtwire respond` where none is given.
const PORT: u16 = 2007;
/// Each question whose number is a multiple of this is answered late.
const PLANTED: u64 = 10;
const DELAY: Duration = Duration::from_micros(100);
/// What a deadline grants above the median: less than the planted delay, more than the usual jitter.
const GRANTED: Duration = Duration::from_micros(60);
/// The shortest stall that the record knows.
const SHORTEST_STALL: Duration = Duration::from_micros(100);

/// Loads and thieves of two tests would add up.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets a flag when dropped, so that a failed assertion ends the threads too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Echoes questions until `stop` is set, each tenth of them 100 µs late. A responder written for this test alone.
fn delaying_responder(side: &Side, stop: &AtomicBool, ready: &mpsc::Sender<()>) {
    side.run(|| {
        let config = ReceiverConfig {
            interface: side.interface.clone(),
            wake_up: WakeUp::SpinThenBlock(Duration::ZERO),
            queue_frames: 256,
            stamps: false,
            one_by_one: false,
        };
        let filter = port_filter(PORT).unwrap();
        let mut receiver = Receiver::frames(&config, EtherType::RTDIP.0, &filter).unwrap();
        let mut sender = Sender::frames(&SenderConfig {
            path: TxPath::Direct,
            ..SenderConfig::new(side.interface.as_str())
        })
        .unwrap();
        sched::set_cpu(1).unwrap();
        sched::set_fifo(60).unwrap();
        ready.send(()).unwrap();
        while !stop.load(Ordering::Relaxed) {
            if !receiver.wait(Some(Duration::from_millis(50))).unwrap() {
                continue;
            }
            let mut frame = receiver.peek().unwrap().data.to_vec();
            receiver.release();
            // Behind the Ethernet header: the ports at 2 and 4, the number at 8.
            let number = u32::from_be_bytes(frame[22..26].try_into().unwrap());
            let (to, from) = (frame[..6].to_vec(), frame[6..12].to_vec());
            frame[..6].copy_from_slice(&from);
            frame[6..12].copy_from_slice(&to);
            let ports = [frame[18], frame[19], frame[16], frame[17]];
            frame[16..20].copy_from_slice(&ports);
            if u64::from(number) % PLANTED == 0 {
                spin(DELAY);
            }
            sender.send(&frame).unwrap();
        }
    });
}

#[test]
fn a_delay_planted_in_the_responder_is_not_explained_by_stalls_of_a_loaded_machine() {
    require!(root, program "ip");
    let _alone = alone();
    let pair = NetnsPair::new();
    let stop = AtomicBool::new(false);
    let (ready, begun) = mpsc::channel();
    let (median_ns, report, stderr) = thread::scope(|scope| {
        let _ends = Ends(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        scope.spawn(|| delaying_responder(&pair.b, &stop, &ready));
        begun.recv().unwrap();
        let asking = ["--cpu", "0", "--realtime", "50", "--interval", "1ms"];
        // What is late depends on the machine: its usual round trip first.
        let (_, usual, _) = ping(&pair.a, &[&asking[..], &["--count", "500"]].concat());
        let median_ns = usual["round_trip_ns"]["p50"].as_u64().unwrap();
        let deadline = format!("{}ns", median_ns + nanoseconds(GRANTED));
        let more = ["--count", "6000", "--deadline", &deadline];
        let (_, report, stderr) = ping(&pair.a, &[&asking[..], &more].concat());
        (median_ns, report, stderr)
    });
    // Those that are late by the planted delay and by no stall beside it. One that a stall hit as well is later, and rightly explained.
    let hit_ns = median_ns + nanoseconds(DELAY + SHORTEST_STALL);
    let misses = report["misses"].as_array().unwrap();
    let planted: Vec<&Value> = misses
        .iter()
        .filter(|miss| miss["number"].as_u64().unwrap() % PLANTED == 0)
        .filter(|miss| miss["round_trip_ns"].as_u64().unwrap() < hit_ns)
        .collect();
    let summary = format!(
        "usual {median_ns} ns; {} misses listed of {} over, {} in stalls, by chance {}; {stderr}",
        misses.len(),
        report["over_deadline"],
        report["over_deadline_in_stalls"],
        report["in_stalls_by_chance"]
    );
    // The report lists the first 1000 misses; on a machine that stalls much others are among them.
    assert!(planted.len() >= 50, "{} planted: {summary}", planted.len());
    let none = report["over_deadline_explained"] == 0;
    let explained = planted
        .iter()
        .filter(|miss| miss["in_stall"] == true && !none);
    let explained = explained.count();
    println!(
        "{explained} of {} planted explained; {summary}",
        planted.len()
    );
    assert!(
        explained * 20 <= planted.len(),
        "{explained} of {} planted are explained: {summary}",
        planted.len()
    );
}

#[test]
fn a_full_record_of_stalls_is_inconclusive_and_named() {
    require!(root, program "ip");
    let _alone = alone();
    let pair = NetnsPair::new();
    let _responder = Running::start(&pair.b, &[]);
    let stop = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        let _ends = Ends(&stop);
        scope.spawn(|| {
            sched::set_cpu(0).unwrap();
            sched::set_fifo(99).unwrap();
            // Half of the looks at this core come late: more in 5 s than the record has room for. It ends by itself, so
            // that the asker gets its core back.
            let end = Instant::now() + Duration::from_secs(8);
            while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                spin(Duration::from_micros(80));
                thread::sleep(Duration::from_micros(30));
            }
        });
        let asking = [
            "ping",
            &pair.a.interface,
            MAC_B,
            "--cpu",
            "0",
            "--realtime",
            "50",
            "--deadline",
            "40us",
            "--interval",
            "1ms",
            "--count",
            "7000",
        ];
        rtwire(&pair.a, &asking).output().unwrap()
    });
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text} {stderr}");
    assert!(stderr.contains("the record of stalls was full"), "{stderr}");
    assert!(stderr.contains("stalls of core 0"), "{stderr}");
    assert!(
        text.contains("by accident") || text.contains("accident alone"),
        "{text}"
    );
}

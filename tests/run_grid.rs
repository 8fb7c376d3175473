//! A talker of `rtwire run` that is stopped again and again by SIGSTOP: it loses the cycles that the stops cover, no other,
//! and never makes up for them. Judged from outside, by the kernel's receive timestamps at the other end. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "run_common/mod.rs"]
mod run_common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rtwire_measure::noise::{NoiseOptions, NoiseRecord, NoiseRecorder};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, clock, interface};
use rtwire_testkit::{NetnsPair, Side, require};
use serde_json::Value;

use run_common::Running;

const CYCLE_NS: u64 = 1_000_000;
/// J, as the network declares it.
const TICK_ERROR_NS: u64 = 250_000;
/// The time in ns from a decision to the kernel's timestamp at the receiver, where nothing holds the thread up.
const CALL_NS: u64 = 60_000;
/// The time in ns that a continued thread may take until it runs.
const WAKE_NS: u64 = 300_000;
/// The phase of the cycle at which a stop begins: early enough to be certain at the next instant.
const PHASE_NS: u64 = 550_000;
const NETWORK: &str = r#"
[network]
name = "one stream"
[defaults]
tick-error = "250 us"
link-rate = "1 Gbit/s"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "B"]
[[stream]]
name = "cyclic"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
priority = 7
"#;

/// One stop of the process, ns of CLOCK_TAI.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// Before the signal: it did not begin earlier.
    before: u64,
    /// The talker was seen stopped: it is certain from here on.
    seen: u64,
    /// Before SIGCONT: it is certain until here.
    ending: u64,
    /// After SIGCONT: it did not end later.
    after: u64,
}

impl Stop {
    /// Returns true if the frame due at `due_ns` cannot have been sent in time.
    fn covers(&self, due_ns: u64) -> bool {
        self.seen <= due_ns && self.ending > due_ns + TICK_ERROR_NS
    }

    /// Returns true if it may have disturbed the frame due at `due_ns`.
    fn touches(&self, due_ns: u64) -> bool {
        self.before <= due_ns + CALL_NS && self.after + WAKE_NS >= due_ns
    }

    /// Returns true if it may have begun while the frame due at `due_ns` was being sent.
    fn began_at(&self, due_ns: u64) -> bool {
        self.before <= due_ns + TICK_ERROR_NS + CALL_NS && self.seen >= due_ns
    }

    /// Returns true if the frame that came at `stamp_ns` may have been decided on before the stop and sent behind it: no
    /// program can know that it is stopped between the two.
    fn may_have_held(&self, stamp_ns: u64) -> bool {
        let due_ns = self.seen / CYCLE_NS * CYCLE_NS;
        self.began_at(due_ns) && (self.ending..=self.after + WAKE_NS).contains(&stamp_ns)
    }
}

/// Ends the watcher, also where the test fails.
struct Watching<'a>(&'a AtomicBool);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What the outside saw.
struct Seen {
    stamps: Vec<u64>,
    stops: Vec<Stop>,
    noise: NoiseRecord,
    report: Value,
}

/// Sends the arrival of each RTDiP frame at `side`, ns of CLOCK_TAI, until `over` is set.
fn watch(side: &Side, over: &AtomicBool, to: &mpsc::Sender<u64>) {
    let found = interface::by_name(&side.interface).unwrap();
    let rtdip = Filter::new(&[
        Instruction::LoadHalf(12),
        Instruction::Jump {
            test: Test::Equal(0x88b5),
            yes: 0,
            no: 1,
        },
        Instruction::Accept,
        Instruction::Reject,
    ])
    .unwrap();
    let (socket, ()) = PacketSocket::receiver(&found, 3, &rtdip, |socket| {
        socket.enable_rx_stamps()?;
        socket.take_all()?;
        socket.set_receive_room(64 << 20)?;
        Ok(())
    })
    .unwrap();
    let offset_ns = clock::tai_offset_ns().unwrap();
    let mut batch = Batch::new(256, 128).with_only(false, true);
    loop {
        let last = over.load(Ordering::Acquire);
        let ready = socket.wait(Some(Duration::from_millis(20)));
        ready.unwrap();
        while let Ok(count @ 1..) = socket.receive(&mut batch, Wait::No, usize::MAX) {
            for message in (0..count).filter_map(|index| batch.get(index)) {
                let stamp_ns = message.stamp_realtime_ns.unwrap();
                to.send(stamp_ns.saturating_add_signed(offset_ns)).unwrap();
            }
        }
        if last {
            return;
        }
    }
}

fn start(pair: &NetnsPair, folder: &Path) -> Running {
    let file = folder.join("network.toml");
    std::fs::write(&file, NETWORK).unwrap();
    // Each program becomes the next, so that the process id is the talker's. Its main thread, which may have to take the
    // signal, must not wait for a core.
    let run = run_common::run(&pair.a, &file, "A");
    let mut urgent = Command::new("chrt");
    urgent.args(["-f", "60"]).arg(run.get_program());
    Running::start(urgent.args(run.get_args()))
}

/// Compiles the program that stops a process: a shell is too slow for a stop of half a cycle.
fn stopper(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("stop.c"), folder.join("stop"));
    std::fs::write(&source, include_str!("run_grid/stop.c")).unwrap();
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .args([&program, &source])
        .status();
    assert!(compiled.unwrap().success());
    program
}

/// Stops the process `count` times for `length_us` each.
fn stop(program: &Path, id: u32, count: u32, length_us: u64) -> Vec<Stop> {
    // Less urgent than every thread of the talker, so that it holds nothing up but by its signals.
    let output = Command::new("chrt")
        .args(["-f", "55"])
        .arg(program)
        .args([id.to_string(), count.to_string()])
        .args([length_us * 1_000, CYCLE_NS, PHASE_NS].map(|ns| ns.to_string()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let stops = text.lines().map(|line| {
        let mut times = line.split(' ').map(|ns| ns.parse().unwrap());
        let mut next = || times.next().unwrap();
        Stop {
            before: next(),
            seen: next(),
            ending: next(),
            after: next(),
        }
    });
    stops.collect()
}

/// Runs a talker and stops it.
fn run(count: u32, length_us: u64) -> Seen {
    let pair = NetnsPair::new();
    let folder = tempfile::tempdir().unwrap();
    let stopper = stopper(folder.path());
    let over = AtomicBool::new(false);
    let (to, arrivals) = mpsc::channel();
    // Sees every stall that is longer than the tick error.
    let recorder = NoiseRecorder::start(NoiseOptions {
        period_ns: 200_000,
        stall_threshold_ns: 50_000,
        // A machine that wakes late has a stall of this length at most looks: room for half a minute of them.
        max_stalls: 1 << 17,
        ..NoiseOptions::default()
    });
    thread::scope(|scope| {
        let (pair, over) = (&pair, &over);
        scope.spawn(move || pair.b.run(|| watch(&pair.b, over, &to)));
        let watching = Watching(over);
        let talker = start(pair, folder.path());
        let id = talker.id();
        // It is on its grid once frames come.
        let mut stamps: Vec<u64> = (0..50)
            .map(|_| arrivals.recv_timeout(Duration::from_secs(30)).unwrap())
            .collect();
        let stops = stop(&stopper, id, count, length_us);
        let last_ns = stops.last().unwrap().after;
        // And after the last stop it is again.
        while *stamps.last().unwrap() < last_ns + 50 * CYCLE_NS {
            stamps.push(arrivals.recv_timeout(Duration::from_secs(30)).unwrap());
        }
        talker.signal("-INT");
        let output = talker.output();
        drop(watching);
        stamps.extend(arrivals.iter());
        Seen {
            stamps,
            stops,
            noise: recorder.unwrap().stop().unwrap(),
            report: serde_json::from_slice(&output.stdout).unwrap(),
        }
    })
}

impl Seen {
    /// Returns true if a stall of the machine overlaps these times: then it may be the cause.
    fn stalled(&self, from_ns: u64, to_ns: u64) -> bool {
        let mut stalls = self.noise.stalls.iter();
        stalls.any(|stall| stall.alive_ns < to_ns && stall.woke_ns > from_ns)
    }

    /// Returns what was seen near a time in words, times in ns relative to it.
    fn near(&self, time_ns: u64) -> String {
        let is_near = |from_ns: u64, to_ns: u64| {
            from_ns < time_ns + 3 * CYCLE_NS && to_ns + 3 * CYCLE_NS > time_ns
        };
        let from = |at_ns: u64| i128::from(at_ns) - i128::from(time_ns);
        let stops = self
            .stops
            .iter()
            .filter(|stop| is_near(stop.before, stop.after));
        let stops: Vec<_> = stops
            .map(|stop| [stop.before, stop.seen, stop.ending, stop.after].map(from))
            .collect();
        let stamps = self.stamps.iter().filter(|&&stamp| is_near(stamp, stamp));
        let stamps: Vec<_> = stamps.map(|&stamp| from(stamp)).collect();
        let stalls = self.noise.stalls.iter();
        let stalls: Vec<_> = stalls
            .filter(|stall| is_near(stall.alive_ns, stall.woke_ns))
            .map(|stall| [stall.alive_ns, stall.due_ns, stall.woke_ns].map(from))
            .collect();
        format!("stops {stops:?}, arrivals {stamps:?}, stalls {stalls:?}")
    }

    /// Checks every cycle. Returns the number of cycles that stops covered.
    fn check(&self) -> usize {
        let due_of = |stamp: u64| stamp / CYCLE_NS * CYCLE_NS;
        // What neither a stop nor a recorded stall explains.
        let mut odd = Vec::new();
        let mut note = |explained: bool, at_ns: u64, what: &str| {
            if !explained {
                odd.push(format!("{what} at {at_ns}: {}", self.near(at_ns)));
            }
        };
        for pair in self.stamps.windows(2) {
            let least_ns = CYCLE_NS - TICK_ERROR_NS - CALL_NS;
            note(
                pair[1] - pair[0] >= least_ns || self.stalled(due_of(pair[0]), pair[1]),
                pair[0],
                "two frames close together",
            );
        }
        for &stamp in &self.stamps {
            let (due_ns, late_ns) = (due_of(stamp), stamp % CYCLE_NS);
            note(
                late_ns <= TICK_ERROR_NS + CALL_NS
                    || self.stops.iter().any(|stop| stop.began_at(due_ns))
                    || self.stalled(due_ns - CYCLE_NS, stamp),
                due_ns,
                "a frame behind its instant",
            );
        }
        let (first, last) = (self.stamps[0], *self.stamps.last().unwrap());
        let mut covered = 0;
        let mut late_before = false;
        let mut next = self.stamps.iter().copied().peekable();
        for due_ns in (due_of(first)..=due_of(last)).step_by(CYCLE_NS as usize) {
            let stalled = || self.stalled(due_ns - CYCLE_NS, due_ns + CYCLE_NS);
            let mut came = None;
            while let Some(stamp) = next.next_if(|&stamp| stamp < due_ns + CYCLE_NS) {
                note(came.is_none() || stalled(), due_ns, "two frames in a cycle");
                came = Some(stamp - due_ns);
            }
            if self.stops.iter().any(|stop| stop.covers(due_ns)) {
                covered += 1;
                let held = |late_ns: u64| {
                    let stamp_ns = due_ns + late_ns;
                    self.stops.iter().any(|stop| stop.may_have_held(stamp_ns))
                };
                assert!(came.is_none_or(held), "made up for: {}", self.near(due_ns));
            } else if !self.stops.iter().any(|stop| stop.touches(due_ns)) && !late_before {
                note(came.is_some() || stalled(), due_ns, "a cycle lost");
            }
            late_before = came.is_some_and(|late_ns| late_ns > TICK_ERROR_NS);
        }
        // A fault of the talker shows at each stop. A delay of the machine between two looks of the record does not.
        assert!(odd.len() <= self.stops.len() / 5, "{odd:#?}");
        // The talker's own account is what the outside saw.
        let row = &self.report["talkers"][0];
        assert_eq!(row["frames_sent"].as_u64(), Some(self.stamps.len() as u64));
        let cycles = (due_of(last) - due_of(first)) / CYCLE_NS + 1;
        let missing = cycles - self.stamps.len() as u64;
        assert!(row["ticks_skipped"].as_u64().unwrap() >= missing, "{row}");
        covered
    }
}

#[test]
fn stops_of_half_a_cycle_cost_the_cycles_that_they_cover() {
    require!(root, program "ip", program "chrt", program "cc");
    let seen = run(40, 600);
    let covered = seen.check();
    // Each covers one instant, where it was seen in time.
    assert!(covered >= 10, "{covered}: {:?}", seen.stops);
}

#[test]
fn stops_of_fifty_cycles_are_never_made_up_for() {
    require!(root, program "ip", program "chrt", program "cc");
    let seen = run(10, 50_000);
    let covered = seen.check();
    // A stop is longer than asked for where it was seen late.
    assert!(covered >= 10 * 48, "{covered}: {:?}", seen.stops);
}

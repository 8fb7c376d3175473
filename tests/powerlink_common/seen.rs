//! Frames that pass at a port of the bridge, and programs that are stopped meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface};
use rtwire_testkit::Side;

use super::{PATIENCE, Running};

pub const SOC: u8 = 1;
pub const PREQ: u8 = 3;
pub const PRES: u8 = 4;
pub const SOA: u8 = 5;

/// A frame at a port of the bridge: its time by the kernel's stamp, its message type, its sender's number, RD, its sender's last
/// byte of the address, and the first byte of data.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub at_ns: u64,
    pub kind: u8,
    pub destination: u8,
    pub source: u8,
    pub ready: bool,
    pub mac: u8,
    /// The first byte of process data.
    pub value: u8,
}

/// Returns what passes at a port of the bridge until `stop` is set.
pub fn watch(port: &Side, stop: &AtomicBool) -> Vec<Seen> {
    port.run(|| {
        let found = interface::by_name(&port.interface).unwrap();
        let filter = Filter::new(&[
            Instruction::LoadHalf(12),
            Instruction::Jump {
                test: Test::Equal(0x88ab),
                yes: 0,
                no: 1,
            },
            Instruction::Accept,
            Instruction::Reject,
        ])
        .unwrap();
        let (socket, ()) = PacketSocket::receiver(&found, 3, &filter, |socket| {
            socket.enable_rx_stamps()?;
            socket.take_all()?;
            socket.set_receive_room(64 << 20)?;
            Ok(())
        })
        .unwrap();
        let mut batch = Batch::new(256, 128).with_only(false, true);
        let mut seen = Vec::new();
        loop {
            let last = stop.load(Ordering::Relaxed);
            while let Ok(count) = socket.receive(&mut batch, Wait::No, usize::MAX) {
                for message in (0..count).filter_map(|index| batch.get(index)) {
                    let data = message.data;
                    seen.push(Seen {
                        at_ns: message.stamp_realtime_ns.unwrap(),
                        kind: data[14] & 0x7f,
                        destination: data[15],
                        source: data[16],
                        ready: data.get(18).is_some_and(|flags| flags & 1 != 0),
                        mac: data[11],
                        value: data.get(24).copied().unwrap_or(0),
                    });
                }
            }
            if last {
                return seen;
            }
            thread::sleep(Duration::from_millis(20));
        }
    })
}

/// Watches a port while `meanwhile` runs.
pub fn watched<T>(port: &Side, meanwhile: impl FnOnce() -> T) -> (Vec<Seen>, T) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let seen = scope.spawn(|| watch(port, &stop));
        thread::sleep(Duration::from_millis(300));
        let result = meanwhile();
        stop.store(true, Ordering::Relaxed);
        (seen.join().unwrap(), result)
    })
}

pub fn now_ns() -> u64 {
    clock::now_ns(Clock::Realtime)
}

/// Returns true once each thread of a program is stopped.
pub fn stands_still(program: &Running) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", program.0.id())).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        behind_name.trim_start().starts_with('T')
    })
}

/// Stops a program for some time. Returns the time at which it stood still, and that before it went on.
pub fn stopped_for(program: &Running, time: Duration) -> (u64, u64) {
    program.signal("-STOP");
    let end = Instant::now() + PATIENCE;
    while !stands_still(program) {
        assert!(Instant::now() < end, "it goes on");
        thread::sleep(Duration::from_millis(1));
    }
    let stopped_ns = now_ns();
    thread::sleep(time);
    let resumed_ns = now_ns();
    program.signal("-CONT");
    (stopped_ns, resumed_ns)
}

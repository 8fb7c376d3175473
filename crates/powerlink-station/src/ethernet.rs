//! `plk0`: ordinary Ethernet traffic through the asynchronous phase.
//!
//! Two ordinary threads move frames. One passes them from the TAP device to the real-time loop, which passes them to
//! the node once a cycle. The other passes them from the interface to the TAP device. Between them and the loop are
//! two queues of buffers made once: the loop neither allocates nor waits.

use crate::StationError;
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::tap::Tap;
use rtwire_sys::{Batch, Wait, interface, sched};
use rtwire_wire::EtherType;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Frames that may wait for the loop.
const WAITING: usize = 64;
const ROOM: usize = 1514;
/// The period in which the threads check whether they must end.
const LOOK: Duration = Duration::from_millis(100);
/// The most frames to the loop in one cycle: more than the network passes in many.
const A_CYCLE: usize = 4;
const ETH_P_ALL: u16 = 3;

type Buffer = Vec<u8>;

#[derive(Debug)]
pub(crate) struct Ethernet {
    full: Receiver<Buffer>,
    empty: SyncSender<Buffer>,
    /// A frame for which the node had no room yet.
    kept: Option<Buffer>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _settings: Settings,
}

impl Ethernet {
    /// Makes the device with the interface's MAC address, and starts the threads.
    pub(crate) fn open(
        of_interface: &str,
        device: &str,
        mac: [u8; 6],
        (address, prefix): ([u8; 4], u8),
    ) -> Result<Self, StationError> {
        let settings = Settings::apply(of_interface);
        let tap = Arc::new(Tap::open(device, mac, address, prefix)?);
        let found = interface::by_name(of_interface)?;
        // What comes, but for POWERLINK and for what this host sends itself.
        let filter = Filter::new(&[
            Instruction::LoadHalf(12),
            Instruction::Jump {
                test: Test::Equal(EtherType::POWERLINK.0.into()),
                yes: 3,
                no: 0,
            },
            Instruction::LoadPacketType,
            Instruction::Jump {
                test: Test::AtLeast(3),
                yes: 1,
                no: 0,
            },
            Instruction::Accept,
            Instruction::Reject,
        ])?;
        let (socket, ()) = PacketSocket::receiver(&found, ETH_P_ALL, &filter, |socket| {
            socket.set_receive_room(1 << 20)?;
            Ok(())
        })?;
        let _ = socket.set_receive_timeout(Some(LOOK));
        let stop = Arc::new(AtomicBool::new(false));
        let (fill, full) = sync_channel::<Buffer>(WAITING);
        let (empty, free) = sync_channel::<Buffer>(WAITING);
        for _ in 0..WAITING {
            // There is room for all of them.
            let _ = empty.try_send(vec![0; ROOM]);
        }
        let mut threads = Vec::new();
        threads.push({
            let (tap, stop) = (Arc::clone(&tap), Arc::clone(&stop));
            thread::spawn(move || from_device(&tap, &free, &fill, &stop))
        });
        threads.push({
            let stop = Arc::clone(&stop);
            thread::spawn(move || to_device(&tap, &socket, &stop))
        });
        Ok(Self {
            full,
            empty,
            kept: None,
            stop,
            threads,
            _settings: settings,
        })
    }

    /// Passes waiting frames to the node, as far as it has room. Neither allocates nor waits.
    pub(crate) fn hand_over(&mut self, mut send: impl FnMut(&[u8]) -> bool) {
        for _ in 0..A_CYCLE {
            let Some(buffer) = self.kept.take().or_else(|| self.full.try_recv().ok()) else {
                return;
            };
            if !send(&buffer) {
                self.kept = Some(buffer);
                return;
            }
            let _ = self.empty.try_send(buffer);
        }
    }
}

impl Drop for Ethernet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Moves frames from the host to the network. Where the loop is slow, they wait in the device's own queue.
fn from_device(tap: &Tap, free: &Receiver<Buffer>, fill: &SyncSender<Buffer>, stop: &AtomicBool) {
    let mut buffer: Option<Buffer> = None;
    while !stop.load(Ordering::Relaxed) {
        let Some(mut room) = buffer.take().or_else(|| free.recv_timeout(LOOK).ok()) else {
            continue;
        };
        room.resize(ROOM, 0);
        match tap.receive(&mut room, LOOK) {
            Ok(length) if length >= 14 => {
                room.truncate(length);
                if fill.send(room).is_err() {
                    return;
                }
            }
            Ok(_) => buffer = Some(room),
            // The device is gone, or down.
            Err(_) => {
                buffer = Some(room);
                thread::sleep(LOOK);
            }
        }
    }
}

/// Moves frames from the network to the host.
fn to_device(tap: &Tap, socket: &PacketSocket, stop: &AtomicBool) {
    let mut batch = Batch::new(32, ROOM + 22).with_only(false, false);
    while !stop.load(Ordering::Relaxed) {
        match socket.receive(&mut batch, Wait::ForOne, usize::MAX) {
            Ok(count) => {
                for message in (0..count).filter_map(|index| batch.get(index)) {
                    let _ = tap.send(message.data);
                }
            }
            Err(errno) if errno.would_block() || errno.interrupted() => {}
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Settings that keep the host from answering on the interface itself, past the asynchronous phase: the interface has
/// the same MAC address as the device. Dropping this restores them.
#[derive(Debug, Default)]
struct Settings {
    before: Vec<(PathBuf, String)>,
}

impl Settings {
    fn apply(of_interface: &str) -> Self {
        let mut settings = Self::default();
        for (family, key, value) in [
            // Answer no ARP question on the interface itself.
            ("ipv4", "arp_ignore", "8"),
            // Take nothing whose way back is through the device.
            ("ipv4", "rp_filter", "1"),
            ("ipv6", "disable_ipv6", "1"),
        ] {
            let path = PathBuf::from(format!("/proc/sys/net/{family}/conf/{of_interface}/{key}"));
            let Ok(before) = fs::read_to_string(&path) else {
                continue;
            };
            if before.trim() != value && fs::write(&path, value).is_ok() {
                settings.before.push((path, before));
            }
        }
        settings
    }
}

impl Drop for Settings {
    /// Writes on an ordinary thread. While the kernel's network lock is taken, a write of `disable_ipv6` tries again
    /// and again. At real-time priority it would keep the processor from the holder of the lock.
    fn drop(&mut self) {
        if self.before.is_empty() {
            return;
        }
        let restore = || {
            for (path, before) in &self.before {
                let _ = fs::write(path, before);
            }
        };
        let ordinary = || {
            let _ = sched::set_other();
            restore();
        };
        thread::scope(|scope| {
            if thread::Builder::new()
                .spawn_scoped(scope, ordinary)
                .is_err()
            {
                restore();
            }
        });
    }
}

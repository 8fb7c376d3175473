//! The records of single frames at the emulated ports (`struct rtw_event` in `crates/bpf/programs/switch_port.h`), and
//! the thread that reads them while the lab measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtwire_sys::bpf::MappedArray;

use crate::fabric::Fabric;

/// Number of words of a `struct rtw_event`.
pub(crate) const EVENT_WORDS: usize = 4;
/// Largest number of records of a run: 24 bytes each. Further ones are only counted.
const EVENTS_MOST: usize = 60_000_000;
/// The time between two readings of the ring. The ring holds the records of a second at 500 000 records a second.
const READ_EVERY: Duration = Duration::from_millis(4);
/// Priority of the reader: above ordinary threads, below the hosts.
const PRIORITY: u8 = 50;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The port accepted the frame.
    Entered,
    /// The frame arrived at the other end of the link.
    Left,
    /// The port had no room for it.
    Dropped,
}

/// One frame at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The time, ns of CLOCK_TAI.
    pub(crate) time_ns: u64,
    /// The frame's RTDiP key, shifted left by 32, and its sequence number. Without a key: 48 bits that tell its headers from
    /// others, shifted left by 16, and the node that it goes to.
    pub(crate) identity: u64,
    /// True for an RTDiP frame or datagram.
    pub(crate) has_key: bool,
    /// The port's index.
    pub(crate) port: u16,
    /// The frame's size on the wire, bytes.
    pub(crate) wire_bytes: u16,
    /// The core that ran the program.
    pub(crate) core: u8,
    /// The priority class.
    pub(crate) class: u8,
    pub(crate) kind: Kind,
}

impl Event {
    fn of([time_ns, identity, what]: [u64; 3]) -> Option<Self> {
        let [p0, p1, kind, class, core, no_key, b0, b1] = what.to_le_bytes();
        Some(Self {
            time_ns,
            identity,
            has_key: no_key == 0,
            port: u16::from_le_bytes([p0, p1]),
            wire_bytes: u16::from_le_bytes([b0, b1]),
            core,
            class,
            kind: match kind {
                1 => Kind::Entered,
                2 => Kind::Left,
                3 => Kind::Dropped,
                _ => return None,
            },
        })
    }
}

/// The ring that the kernel program writes. It never blocks the program: the oldest records are overwritten.
pub(crate) struct EventRing {
    ring: MappedArray,
    written: MappedArray,
}

/// The records of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// In the order in which the program began to write them.
    pub(crate) all: Vec<Event>,
    /// Number of records that were overwritten before they were read, or that found no room.
    pub(crate) lost: u64,
}

impl EventRing {
    pub(crate) fn new(ring: MappedArray, written: MappedArray) -> Self {
        Self { ring, written }
    }

    /// Returns the number of records that were ever written.
    pub(crate) fn written(&self) -> u64 {
        self.written
            .word(0, 0)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Reads all complete records from position `next` on.
    pub(crate) fn read(&self, next: &mut u64, events: &mut Events) {
        while let Some(record) = self.at(next, &mut events.lost) {
            match Event::of(record) {
                Some(event) if events.all.len() < EVENTS_MOST => events.all.push(event),
                _ => events.lost += 1,
            }
        }
    }

    /// Returns the record at position `next`, and moves on. If it was overwritten, it moves to the oldest one that is
    /// left.
    fn at(&self, next: &mut u64, lost: &mut u64) -> Option<[u64; 3]> {
        loop {
            let places = self.ring.len() as u64;
            let place = usize::try_from(*next % places.max(1)).ok()?;
            let word = |word| self.ring.word(place, word);
            let turn = word(0)?.load(Ordering::Acquire);
            if turn == *next + 1 {
                let mut record = [0; 3];
                for (at, field) in record.iter_mut().enumerate() {
                    *field = word(at + 1)?.load(Ordering::Relaxed);
                }
                // The turn is read again after the fields: the program withdraws it before it writes new ones.
                fence(Ordering::Acquire);
                if word(0)?.load(Ordering::Relaxed) == turn {
                    *next += 1;
                    return Some(record);
                }
            }
            let written = self.written();
            if written <= *next + places {
                return None;
            }
            let oldest = written - places / 2;
            *lost += oldest - *next;
            *next = oldest;
        }
    }
}

/// Reads the ring until it is stopped.
pub(crate) struct EventReader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Events>,
}

impl EventReader {
    /// Starts to read the records that are written from now on.
    pub(crate) fn start(fabric: &Fabric) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ring = Arc::clone(&fabric.events);
        let mut next = ring.written();
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                // Without the priority the ring may overflow, which is counted.
                let _ = rtwire_sys::sched::set_fifo(PRIORITY);
                let mut events = Events::default();
                while !stop.load(Ordering::Relaxed) {
                    thread::sleep(READ_EVERY);
                    ring.read(&mut next, &mut events);
                }
                ring.read(&mut next, &mut events);
                events
            }
        });
        Self { stop, thread }
    }

    /// Stops, and returns the records.
    pub(crate) fn finish(self) -> Events {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(Events {
            all: Vec::new(),
            lost: u64::MAX,
        })
    }
}

//! Soak of every kind of channel with self-checking values at full speed. It finds lost numbers, torn values, and
//! growing memory.

use super::listener;
use rtwire_channel::{
    Endpoint, EndpointConfig, ListenerConfig, ListenerTransport, ReceivePath, Semantics, Talker,
    TalkerConfig, Transport, TxPath, WakeUp,
};
use rtwire_measure::bench::{Compared, Row};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::{memory, sched};
use rtwire_testkit::{NetnsPair, Side};
use rtwire_wire::MacAddress;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 1001;
/// Largest number of values in flight where none may be lost: less than any queue here holds.
const WINDOW: u64 = 100;
const MOMENT: Option<Duration> = Some(Duration::from_millis(20));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Frames(ReceivePath),
    Udp,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Frames(ReceivePath::Native), "native"),
    (Kind::Frames(ReceivePath::Generic), "generic"),
    (Kind::Frames(ReceivePath::Packet), "packet sockets"),
    (Kind::Udp, "UDP"),
];

impl Kind {
    /// Returns the lengths of values; the longest that fits a datagram is 1448.
    const fn sizes(self) -> [usize; 4] {
        match self {
            Self::Frames(_) => [1, 64, 1024, 1450],
            Self::Udp => [1, 64, 1024, 1448],
        }
    }
}

/// Results of a soak.
#[derive(Default)]
struct Soaked {
    sent: u64,
    received: u64,
    /// Numbers lost or out of order; for newest values, numbers that go backwards.
    wrong: u64,
    torn: u64,
    grown_kib: u64,
    /// Newest values that were overtaken, or lost with their numbers known.
    skipped: u64,
}

/// Returns one byte of a self-checking value: it follows from the value's number and the byte's place.
fn octet(number: u32, at: usize) -> u8 {
    (number.wrapping_mul(0x9e37_79b1) >> 24) as u8 ^ at as u8
}

fn is_whole(number: u32, data: &[u8]) -> bool {
    data.iter()
        .enumerate()
        .all(|(at, &found)| found == octet(number, at))
}

/// Returns this process's resident memory, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn talker(pair: &NetnsPair, kind: Kind, semantics: Semantics) -> Talker {
    let (transport, path) = match kind {
        Kind::Udp => (Transport::udp(pair.b.address, PORT), TxPath::Qdisc),
        Kind::Frames(_) => (Transport::rtdip(MacAddress(pair.b.mac)), TxPath::Direct),
    };
    let config = TalkerConfig {
        path,
        semantics,
        ..TalkerConfig::new(pair.a.interface.as_str(), transport, PORT)
    };
    pair.a.run(|| Talker::open(&config)).unwrap()
}

fn config(kind: Kind) -> (ReceivePath, ListenerConfig) {
    let mut config = ListenerConfig::new(PORT);
    config.wake_up = WakeUp::SpinThenBlock(Duration::from_micros(50));
    match kind {
        Kind::Frames(path) => (path, config),
        Kind::Udp => {
            config.transport = ListenerTransport::udp(PORT);
            (ReceivePath::Packet, config)
        }
    }
}

/// Sends until the time is up, at most the window ahead of `received` if there is one. Returns the number of values
/// sent.
fn talk(
    mut talker: Talker,
    time: Duration,
    size: impl Fn(u32) -> usize,
    received: Option<&AtomicU64>,
) -> u64 {
    sched::set_cpu(0).unwrap();
    let end = Instant::now() + time;
    let (mut data, mut sent) = (vec![0; 1500], 0_u64);
    while Instant::now() < end {
        if received.is_some_and(|received| sent - received.load(Ordering::Acquire) >= WINDOW) {
            thread::yield_now();
            continue;
        }
        let length = size(sent as u32);
        for (at, place) in data[..length].iter_mut().enumerate() {
            *place = octet(sent as u32, at);
        }
        // A value that a full queue drops has used up a number all the same; the receiver finds it missing.
        let _ = talker.send(&data[..length]);
        sent += 1;
    }
    sent
}

fn queue(kind: Kind, time: Duration) -> Soaked {
    let pair = NetnsPair::new();
    let (path, config) = config(kind);
    let mut reader = listener(&pair.b, path, &config);
    let talker = talker(&pair, kind, Semantics::Queue);
    let (received, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut soaked = Soaked::default();
    soaked.sent = thread::scope(|scope| {
        let talking = scope.spawn(|| {
            let sizes = kind.sizes();
            let size = |number: u32| sizes[number as usize % sizes.len()];
            let sent = talk(talker, time, size, Some(&received));
            over.store(true, Ordering::Release);
            sent
        });
        let mut memory = Memory::new(time);
        let mut next = 0_u32;
        loop {
            let was_over = over.load(Ordering::Acquire);
            let Some(value) = reader.recv(MOMENT).unwrap() else {
                if was_over {
                    break;
                }
                continue;
            };
            soaked.wrong += u64::from(value.sequence != next);
            soaked.torn += u64::from(!is_whole(value.sequence, value.data));
            next = value.sequence.wrapping_add(1);
            soaked.received += 1;
            received.fetch_add(1, Ordering::Release);
            memory.look();
        }
        soaked.grown_kib = memory.grown();
        talking.join().unwrap()
    });
    soaked
}

fn newest(kind: Kind, time: Duration, size: usize) -> Soaked {
    let pair = NetnsPair::new();
    let (path, config) = config(kind);
    let endpoint = EndpointConfig {
        path,
        ..EndpointConfig::new(pair.b.interface.as_str())
    };
    let open =
        |side: &Side| side.run(|| Endpoint::with(&endpoint).unwrap().newest_listener(&config));
    let mut reader = open(&pair.b).unwrap();
    let talker = talker(&pair, kind, Semantics::Newest);
    let over = AtomicBool::new(false);
    let mut soaked = Soaked::default();
    soaked.sent = thread::scope(|scope| {
        let talking = scope.spawn(|| {
            let sent = talk(talker, time, |_| size, None);
            over.store(true, Ordering::Release);
            sent
        });
        let mut memory = Memory::new(time);
        let mut last = None;
        while !over.load(Ordering::Acquire) {
            if let Some(value) = reader.read().unwrap().filter(|value| value.fresh) {
                soaked.wrong += u64::from(last >= Some(value.sequence));
                soaked.torn += u64::from(!is_whole(value.sequence, value.data));
                soaked.skipped += value.skipped;
                soaked.received += 1;
                last = Some(value.sequence);
            }
            memory.look();
        }
        soaked.grown_kib = memory.grown();
        talking.join().unwrap()
    });
    soaked
}

/// Memory in KiB after a fifth of the time, when all room has been touched, and at the end.
struct Memory {
    early: Option<u64>,
    due: Instant,
}

impl Memory {
    fn new(time: Duration) -> Self {
        Self {
            early: None,
            due: Instant::now() + time / 5,
        }
    }

    fn look(&mut self) {
        if self.early.is_none() && Instant::now() > self.due {
            self.early = Some(resident_kib());
        }
    }

    fn grown(&self) -> u64 {
        self.early
            .map_or(0, |early| resident_kib().saturating_sub(early))
    }
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let time = Duration::from_secs(if quick { 1 } else { 60 });
    sched::set_cpu(1).unwrap();
    memory::touch_stack();
    let mut rows = Vec::new();
    for (kind, name) in KINDS {
        let start = now_ns(Clock::Monotonic);
        let soaked = queue(kind, time);
        rows.push(row(
            format!("soak, queue, {name}: numbers lost or out of order"),
            &soaked,
            (
                soaked.sent - soaked.received + soaked.wrong + soaked.torn,
                start,
            ),
        ));
        for size in kind.sizes() {
            let start = now_ns(Clock::Monotonic);
            let soaked = newest(kind, time, size);
            rows.push(row(
                format!("soak, newest value, {name}, {size} B: torn values and steps backwards"),
                &soaked,
                (soaked.wrong + soaked.torn, start),
            ));
        }
    }
    rows
}

fn row(figure: String, soaked: &Soaked, (value, start_ns): (u64, u64)) -> Row {
    let compared = |name: &str, value: u64| Compared {
        name: name.to_owned(),
        value: value as f64,
    };
    // A queue's room may be touched late. Memory that grows with the number of values would be far beyond this limit.
    let held = value == 0 && soaked.received > 0 && soaked.grown_kib < 2048;
    Row {
        figure,
        value: value as f64,
        unit: String::new(),
        reach: Some("none; memory constant".to_owned()),
        held: Some(held),
        why: (!held).then(|| format!("memory grew by {} KiB", soaked.grown_kib)),
        samples: soaked.received,
        against: vec![
            compared("sent", soaked.sent),
            compared("skipped", soaked.skipped),
            compared("memory grown, KiB", soaked.grown_kib),
            compared("ms", (now_ns(Clock::Monotonic) - start_ns) / 1_000_000),
        ],
    }
}

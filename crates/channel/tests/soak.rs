//! Soak of every kind of channel at full speed: no number lost, no value torn, constant memory.
//!
//! Each takes a fraction of a second by default; `RTWIRE_TEST_SOAK_SECONDS=60` (as `make soak` sets it) makes it
//! longer.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{ChannelError, LinkError, Semantics, Talker};
use rtwire_link::program::{Attach, ProgramConfig, ReceiveProgram, XdpMode};
use rtwire_testkit::{NetnsPair, require};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 1001;
/// Largest number of frames in flight where none may be lost: less than any queue here holds.
const WINDOW: u64 = 100;
/// Cores of the writer and of its readers. On one core each reader would see only what the writer did before it was
/// interrupted.
const CORES: [usize; 2] = [0, 1];
/// Readers of one newest value.
const READERS: usize = 3;

/// Memory is counted for the whole process, so these tests run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the lengths of values; the longest that fits a datagram is 1448.
fn sizes(way: Way) -> [usize; 4] {
    [1, 64, 1024, if way == Way::Udp { 1448 } else { 1450 }]
}

/// Moves the thread to a core; with only one processor it stays there.
fn at_core(core: usize) {
    let _ = rtwire_sys::sched::set_cpu(core);
}

/// Returns the duration for each channel, way to wait and length.
fn time() -> Duration {
    let seconds = std::env::var("RTWIRE_TEST_SOAK_SECONDS").ok();
    seconds
        .and_then(|text| text.parse().ok())
        .map_or(Duration::from_millis(150), Duration::from_secs)
}

/// Returns one byte of a self-checking value: it follows from the value's number and the byte's place.
fn octet(number: u32, at: usize) -> u8 {
    (number.wrapping_mul(0x9e37_79b1) >> 24) as u8 ^ at as u8
}

fn check(number: u32, data: &[u8], what: &str) {
    for (at, &found) in data.iter().enumerate() {
        assert_eq!(
            found,
            octet(number, at),
            "{what}: number {number}, byte {at}"
        );
    }
}

/// Returns this process's resident memory, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends self-checking values until the time is up; returns their number. `size` returns a value's length by its
/// number. With `received` the sender stays at most the window ahead of it.
fn talk(mut talker: Talker, size: impl Fn(u32) -> usize, received: Option<&AtomicU64>) -> u64 {
    at_core(CORES[0]);
    let end = Instant::now() + time();
    let mut data = vec![0; 1450];
    let mut sent = 0;
    while Instant::now() < end {
        if received.is_some_and(|received| sent - received.load(Ordering::Acquire) >= WINDOW) {
            thread::yield_now();
            continue;
        }
        let length = size(sent as u32);
        for (at, place) in data[..length].iter_mut().enumerate() {
            *place = octet(sent as u32, at);
        }
        match talker.send(&data[..length]) {
            Ok(number) => assert_eq!(u64::from(number), sent),
            // The value had a number, and no one promised its delivery.
            Err(ChannelError::Link(LinkError::QueueFull)) if received.is_none() => {}
            Err(error) => panic!("{error}"),
        }
        sent += 1;
    }
    sent
}

/// Memory in KiB after a fifth of the time and at the end. A queue's room (some 400 KiB) may be touched late. Memory
/// that grows with the number of values would be far beyond it.
struct Memory {
    early: Option<u64>,
    from: Instant,
}

impl Memory {
    fn new() -> Self {
        Self {
            early: None,
            from: Instant::now(),
        }
    }

    fn look(&mut self) {
        if self.early.is_none() && self.from.elapsed() > time() / 5 {
            self.early = Some(resident_kib());
        }
    }

    fn constant(&self, what: &str) {
        let (early, now) = (self.early.unwrap(), resident_kib());
        assert!(now <= early + 2048, "{what}: {early} KiB, then {now} KiB");
    }
}

fn config(pair: &NetnsPair, way: Way, semantics: Semantics) -> rtwire_channel::TalkerConfig {
    let mut config = talker_config(&pair.a, &pair.b, way, PORT);
    config.semantics = semantics;
    config
}

/// Runs a talker on a thread and `read` in this one. `read` is called until it has been told that all values are
/// sent; it returns the number of values it took.
fn soak_queue(
    talker: Talker,
    sizes: [usize; 4],
    what: &str,
    mut read: impl FnMut(&mut dyn FnMut(u32, &[u8])) -> bool,
) {
    let received = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let mut memory = Memory::new();
    let sent = thread::scope(|scope| {
        let talking = scope.spawn(|| {
            let sent = talk(talker, |number| sizes[number as usize % 4], Some(&received));
            over.store(true, Ordering::Release);
            sent
        });
        let mut next = 0_u32;
        loop {
            let was_over = over.load(Ordering::Acquire);
            let any = read(&mut |number, data| {
                assert_eq!(
                    number, next,
                    "{what}: none lost, none twice, none out of order"
                );
                assert_eq!(data.len(), sizes[number as usize % 4], "{what}");
                check(number, data, what);
                next = next.wrapping_add(1);
                received.fetch_add(1, Ordering::Release);
            });
            memory.look();
            if was_over && !any {
                break;
            }
        }
        talking.join().unwrap()
    });
    assert_eq!(received.load(Ordering::Relaxed), sent, "{what}");
    assert!(sent > 100, "{what}: {sent} is too little for a test");
    memory.constant(what);
    println!("{what}: {sent} values, none lost");
}

#[test]
fn channels_keep_every_number_and_their_memory() {
    require!(root, program "ip");
    let _alone = alone();
    at_core(CORES[1]);
    let pair = NetnsPair::new();
    const MOMENT: Option<Duration> = Some(Duration::from_millis(50));
    for way in WAYS {
        for (wake_up, order) in WAITS {
            let mut listening = listener_config(way, PORT);
            (listening.wake_up, listening.order) = (wake_up, order);
            let (_endpoint, mut listener) = listener(&pair, way, &listening);
            let talker = talker(&pair, &config(&pair, way, Semantics::Queue));
            let what = format!("queue, {way:?}, {wake_up:?}, {order:?}");
            soak_queue(talker, sizes(way), &what, |take| {
                let received = listener.recv(MOMENT).unwrap();
                received
                    .inspect(|received| take(received.sequence, received.data))
                    .is_some()
            });
            assert_eq!(listener.statistics().unwrap().lost, 0);
        }
    }
}

#[test]
fn newest_values_are_whole_and_never_go_back() {
    require!(root, program "ip");
    let _alone = alone();
    at_core(CORES[1]);
    let pair = NetnsPair::new();
    for way in WAYS {
        for size in sizes(way) {
            let listening = listener_config(way, PORT);
            let (_endpoint, mut reader) = newest_listener(&pair, way, &listening);
            let talker = talker(&pair, &config(&pair, way, Semantics::Newest));
            let what = format!("newest, {way:?}, {size} octets");
            let over = AtomicBool::new(false);
            let mut memory = Memory::new();
            let (mut last, mut fresh) = (None, 0_u64);
            thread::scope(|scope| {
                scope.spawn(|| {
                    talk(talker, |_| size, None);
                    over.store(true, Ordering::Release);
                });
                while !over.load(Ordering::Acquire) {
                    if let Some(value) = reader.read().unwrap() {
                        check(value.sequence, value.data, &what);
                        assert!(last <= Some(value.sequence), "{what}: a step back");
                        last = Some(value.sequence);
                        fresh += u64::from(value.fresh);
                    }
                    memory.look();
                }
            });
            assert!(fresh > 0, "{what}: nothing came");
            memory.constant(&what);
        }
    }
}

/// The slots of the receive program with several readers, in each mode.
#[test]
fn slots_are_whole_for_several_readers() {
    require!(root, program "ip");
    let _alone = alone();
    let pair = NetnsPair::new();
    for mode in [XdpMode::Native, XdpMode::Generic] {
        soak_slot(&pair, mode);
    }
}

fn soak_slot(pair: &NetnsPair, mode: XdpMode) {
    let program = pair
        .b
        .run(|| {
            ReceiveProgram::with(&ProgramConfig {
                attach: Attach::Only(mode),
                ..ProgramConfig::new(pair.b.interface.as_str())
            })
        })
        .unwrap();
    for size in sizes(Way::Native) {
        let slot = pair.b.run(|| program.newest_channel(PORT, 0)).unwrap();
        let talker = talker(pair, &config(pair, Way::RtdipDirect, Semantics::Newest));
        let what = format!("newest, receive program, {mode}, {size} bytes");
        let over = AtomicBool::new(false);
        let mut memory = Memory::new();
        let sent = thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    let mut slot = slot.clone();
                    let (over, what) = (&over, &what);
                    scope.spawn(move || {
                        at_core(CORES[1]);
                        let mut data = vec![0; 1476];
                        let (mut last, mut fresh) = (None, 0_u64);
                        while !over.load(Ordering::Acquire) {
                            let Some(value) = slot.read(&mut data) else {
                                continue;
                            };
                            assert_eq!(value.length, size, "{what}");
                            check(value.sequence, &data[..value.length], what);
                            assert!(last <= Some(value.sequence), "{what}: a step back");
                            last = Some(value.sequence);
                            fresh += u64::from(value.fresh);
                        }
                        fresh
                    })
                })
                .collect();
            let talking = scope.spawn(|| talk(talker, |_| size, None));
            while !talking.is_finished() {
                thread::sleep(time() / 20);
                memory.look();
            }
            let sent = talking.join().unwrap();
            thread::sleep(Duration::from_millis(20));
            over.store(true, Ordering::Release);
            for reader in readers {
                assert!(reader.join().unwrap() > 0, "{what}: a reader saw nothing");
            }
            sent
        });
        // Values that the link had no room for are missing by their numbers: all are accounted for.
        let accepted = slot.counters().accepted;
        let mut data = [0; 1476];
        let newest = slot.clone().read(&mut data).unwrap();
        assert_eq!(
            accepted + slot.missing(),
            u64::from(newest.sequence) + 1,
            "{what}"
        );
        assert!(u64::from(newest.sequence) < sent);
        memory.constant(&what);
        println!("{what}: {sent} sent, {accepted} became the newest");
    }
}

#[test]
fn datagrams_reach_a_listener_beyond_a_router() {
    require!(root, program "ip", program "sysctl");
    let _alone = alone();
    // a — b (router) — c: the second cable is connected to b as well.
    let (near, far) = (NetnsPair::new(), NetnsPair::new());
    let (router, c) = (&near.b.namespace, &far.b);
    rtwire_testkit::ip(
        router,
        &format!(
            "link add toc type veth peer name fromb netns {}",
            c.namespace
        ),
    );
    for line in ["addr add 10.78.0.1/24 dev toc", "link set toc up"] {
        rtwire_testkit::ip(router, line);
    }
    for line in [
        "addr add 10.78.0.2/24 dev fromb",
        "link set fromb up",
        "route add 10.77.0.1/32 via 10.78.0.1 dev fromb",
    ] {
        rtwire_testkit::ip(&c.namespace, line);
    }
    rtwire_testkit::ip(&near.a.namespace, "route add 10.78.0.0/24 via 10.77.0.2");
    near.b
        .run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    let mut listener = c.run(|| {
        let endpoint = rtwire_channel::Endpoint::open("fromb").unwrap();
        endpoint
            .queue_listener(&listener_config(Way::Udp, PORT))
            .unwrap()
    });
    let mut config = talker_config(&near.a, &near.b, Way::Udp, PORT);
    config.transport = rtwire_channel::Transport::udp("10.78.0.2".parse().unwrap(), PORT);
    let mut talker = talker(&near, &config);
    for number in 0..100 {
        talker.send(&[number; 64]).unwrap();
        let received = listener.recv(SOON).unwrap().unwrap();
        assert_eq!(
            (received.sequence, received.data),
            (number.into(), &[number; 64][..])
        );
        let rtwire_channel::SourceAddress::Udp(source) = received.source else {
            panic!("no datagram")
        };
        assert_eq!(*source.ip(), near.a.address);
    }
    assert_eq!(listener.statistics().unwrap().lost, 0);
}

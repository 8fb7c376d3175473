//! The loop that drives nodes, on a real veth: order, instants, interfaces that go down or are removed, and no
//! allocation.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_link::LinkError;
use rtwire_link::run::{PacketPort, PortConfig, RunConfig, RunStatistics, Runner};
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::{CountingAllocator, NetnsPair, Side, allocations, ip, require};
use rtwire_wire::{MacAddress, Node, Outbox};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Local experimental EtherType 2, which nothing else here uses.
const ETHER_TYPE: u16 = 0x88b6;
const GROUP: MacAddress = MacAddress([1, 0x11, 0x1e, 0, 0, 0x77]);
const PERIOD_NS: u64 = 2_000_000;

fn now_ns() -> u64 {
    clock::now_ns(Clock::Monotonic)
}

fn frame(kind: u8) -> Vec<u8> {
    let mut frame = GROUP.0.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.push(kind);
    frame.extend([0; 16]);
    frame
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[15..23].try_into().unwrap())
}

/// Sends three frames each period: one for half a period later, and two that must not overtake it.
struct Beacon {
    next_ns: u64,
    number: u64,
    answers: u64,
    prepared: [Vec<u8>; 3],
}

impl Beacon {
    fn new() -> Self {
        Self {
            next_ns: 0,
            number: 0,
            answers: 0,
            prepared: [frame(1), frame(2), frame(3)],
        }
    }
}

impl Node for Beacon {
    fn start(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
        self.next_ns = now_ns + PERIOD_NS;
    }

    fn frame(&mut self, _now_ns: u64, frame: &[u8], _outbox: &mut dyn Outbox) {
        assert_eq!(frame[14], 9);
        self.answers += 1;
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        assert!(now_ns >= self.next_ns, "a moment that came early");
        for (index, prepared) in (0_u64..).zip(&mut self.prepared) {
            prepared[15..23].copy_from_slice(&(self.number + index).to_be_bytes());
            let launch_ns = now_ns + PERIOD_NS / 2;
            prepared[23..31].copy_from_slice(&launch_ns.to_be_bytes());
            outbox.send(prepared, (index == 0).then_some(launch_ns));
        }
        self.number += 3;
        while self.next_ns <= now_ns {
            self.next_ns += PERIOD_NS;
        }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        Some(self.next_ns)
    }
}

/// Answers each third frame, and checks that all come in order and none before its time.
#[derive(Default)]
struct Listener {
    seen: Vec<u64>,
    early: u64,
}

impl Node for Listener {
    fn start(&mut self, _now_ns: u64, _outbox: &mut dyn Outbox) {
        self.seen.reserve(1 << 16);
    }

    fn frame(&mut self, _now_ns: u64, octets: &[u8], outbox: &mut dyn Outbox) {
        assert_eq!(octets.len(), 60, "padded by the loop");
        self.seen.push(number(octets));
        let launch_ns = u64::from_be_bytes(octets[23..31].try_into().unwrap());
        self.early += u64::from(now_ns() < launch_ns);
        if octets[14] == 3 {
            let mut answer = [0; 20];
            answer[..14].copy_from_slice(&octets[..14]);
            answer[14] = 9;
            outbox.send(&answer, None);
        }
    }

    fn moment(&mut self, _now_ns: u64, _outbox: &mut dyn Outbox) {
        panic!("never asked for");
    }

    fn wake_at_ns(&self) -> Option<u64> {
        None
    }
}

fn runner(side: &Side, config: &RunConfig) -> Runner<PacketPort> {
    side.run(|| {
        let port = PacketPort::open(&PortConfig {
            groups: vec![GROUP],
            ..PortConfig::new(&side.interface, ETHER_TYPE)
        });
        Runner::new(port.unwrap(), config)
    })
}

type Ended = (Result<(), LinkError>, RunStatistics);

/// Runs both nodes for as long as `meanwhile` takes.
fn both(
    pair: &NetnsPair,
    config: &RunConfig,
    meanwhile: impl FnOnce(),
) -> (Beacon, Ended, Listener, Ended) {
    let (mut a, mut b) = (runner(&pair.a, config), runner(&pair.b, config));
    let stop = AtomicBool::new(false);
    let (mut beacon, mut listener) = (Beacon::new(), Listener::default());
    let (first, second) = thread::scope(|scope| {
        let sends = scope.spawn(|| {
            let ended = a.run(&mut beacon, &stop, |_, _, _| {});
            (ended, a.statistics())
        });
        let hears = scope.spawn(|| {
            let ended = b.run(&mut listener, &stop, |_, _, _| {});
            (ended, b.statistics())
        });
        meanwhile();
        stop.store(true, Ordering::Relaxed);
        (sends.join().unwrap(), hears.join().unwrap())
    });
    (beacon, first, listener, second)
}

#[test]
fn frames_come_in_order_and_never_before_their_instant() {
    require!(root);
    require!(program "ip");
    let pair = NetnsPair::new();
    for config in [
        RunConfig::default(),
        RunConfig {
            spin_ns: 300_000,
            linger_ns: 100_000,
            ..RunConfig::default()
        },
    ] {
        let (beacon, (sent, a), listener, (heard, b)) =
            both(&pair, &config, || thread::sleep(Duration::from_millis(500)));
        sent.unwrap();
        heard.unwrap();
        assert!(listener.seen.len() > 60, "{a:?}");
        assert!(
            listener.seen.windows(2).all(|w| w[1] == w[0] + 1),
            "in order, none missing"
        );
        assert_eq!(listener.early, 0, "never before the launch instant");
        assert!(beacon.answers + 2 >= b.sent, "{a:?} {b:?}");
        assert_eq!((a.unsent, a.overflowed, a.downs), (0, 0, 0));
        assert!(a.moments >= 40 && b.moments == 0);
    }
}

#[test]
fn an_interface_that_goes_down_and_up_again_stops_nothing() {
    require!(root);
    require!(program "ip");
    let pair = NetnsPair::new();
    let (beacon, (sent, a), listener, (heard, _)) = both(&pair, &RunConfig::default(), || {
        thread::sleep(Duration::from_millis(200));
        ip(&pair.a.namespace, "link set rtwa down");
        thread::sleep(Duration::from_millis(300));
        ip(&pair.a.namespace, "link set rtwa up");
        thread::sleep(Duration::from_millis(300));
    });
    sent.unwrap();
    heard.unwrap();
    assert!(a.downs > 0 && a.unsent > 0, "{a:?}");
    let most_missing = listener.seen.windows(2).map(|w| w[1] - w[0]).max().unwrap();
    assert!(most_missing > 200, "while it was down: {most_missing}");
    assert!(
        *listener.seen.last().unwrap() + 30 > beacon.number,
        "and then again"
    );
    assert!(beacon.answers > 0);
    // The moments went on all the time.
    assert!(a.moments > 300, "{a:?}");
}

#[test]
fn an_interface_that_is_removed_ends_the_loop() {
    require!(root);
    require!(program "ip");
    let pair = NetnsPair::new();
    let (_, (sent, _), _, (heard, _)) = both(&pair, &RunConfig::default(), || {
        thread::sleep(Duration::from_millis(50));
        ip(&pair.a.namespace, "link del rtwa");
        thread::sleep(Duration::from_millis(400));
    });
    for ended in [sent, heard] {
        let error = ended.unwrap_err();
        assert!(
            matches!(error, LinkError::InterfaceGone { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn the_loop_allocates_nothing() {
    require!(root);
    require!(program "ip");
    let pair = NetnsPair::new();
    let mut a = runner(&pair.a, &RunConfig::default());
    let mut b = runner(&pair.b, &RunConfig::default());
    let stop = AtomicBool::new(false);
    let (mut beacon, calls) = (Beacon::new(), AtomicU64::new(0));
    let mut before = 0;
    thread::scope(|scope| {
        let hears = scope.spawn(|| b.run(&mut Listener::default(), &stop, |_, _, _| {}));
        a.run(&mut beacon, &stop, |_, _, _| {
            match calls.fetch_add(1, Ordering::Relaxed) {
                20 => before = allocations(),
                220 => {
                    assert_eq!(allocations(), before, "the loop has allocated");
                    stop.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
        })
        .unwrap();
        hears.join().unwrap().unwrap();
    });
    assert!(calls.load(Ordering::Relaxed) > 220 && beacon.answers > 20);
}

//! Tests of the emulated port's kernel program with frames of every kind.

use rtwire_host::Namespace;
use rtwire_host::netlink::{Netlink, VethEnd};
use rtwire_sys::bpf::BpfObject;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::netns;

use crate::events::{EVENT_WORDS, EventRing, Events, Kind};
use crate::fabric::FIRST_IFINDEX;
use crate::ports::{Field, POOL_WORDS, PORT_WORDS, PortRecords};

const TC_ACT_UNSPEC: u32 = u32::MAX;
const TC_ACT_SHOT: u32 = 2;
/// Offsets in `struct __sk_buff`.
const PRIORITY: usize = 32;
const INGRESS_IFINDEX: usize = 36;
const IFINDEX: usize = 40;
const CONTEXT_BYTES: usize = 192;

/// The program in a namespace of its own, which has the interfaces with the program's indices.
struct Bench {
    namespace: Namespace,
    program: BpfObject,
    records: PortRecords,
}

impl Bench {
    fn new(name: &str) -> Self {
        let namespace = Namespace::create(&format!("rtwtest-{}-{name}", std::process::id()))
            .expect("these tests need root");
        let file = netns::open(namespace.name()).unwrap();
        let end = |name: &'static str, ifindex: u32| VethEnd {
            name,
            ifindex,
            mac: [2, 0, 0, 0, 0, u8::try_from(ifindex % 256).unwrap()],
            namespace: &file,
        };
        let [near, far] = [end("near", FIRST_IFINDEX), end("far", FIRST_IFINDEX + 1)];
        namespace
            .run(|| Netlink::new().create_veth(near, far))
            .unwrap()
            .unwrap();
        let program = BpfObject::load(
            "switch",
            rtwire_bpf::SWITCH.bytes,
            &[("ports", 2), ("pools", 1)],
        )
        .unwrap();
        let records = PortRecords::new(
            program.map_array("ports", PORT_WORDS).unwrap(),
            program.map_array("pools", POOL_WORDS).unwrap(),
        );
        let map = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
        records.set(0, Field::ClassOf, map);
        records.set(0, Field::OverheadBytes, 24);
        Self {
            namespace,
            program,
            records,
        }
    }

    /// Runs a program as at interface `FIRST_IFINDEX + port`; returns its verdict and the frame's class afterwards.
    fn run(&self, program: &str, port: u32, from: u32, frame: &[u8]) -> (u32, u32) {
        let mut context = vec![0; CONTEXT_BYTES];
        context[IFINDEX..][..4].copy_from_slice(&(FIRST_IFINDEX + port).to_ne_bytes());
        context[INGRESS_IFINDEX..][..4].copy_from_slice(&from.to_ne_bytes());
        let verdict = self
            .namespace
            .run(|| self.program.test_run(program, frame, &mut context))
            .unwrap()
            .unwrap();
        let priority = u32::from_ne_bytes(context[PRIORITY..][..4].try_into().unwrap());
        (verdict, priority)
    }

    fn enter(&self, frame: &[u8]) -> (u32, u32) {
        self.run("port_enter", 0, 0, frame)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.namespace.delete();
    }
}

fn frame(ether_type: u16, body: &[u8], length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(body);
    frame.resize(length.max(frame.len()), 0);
    frame
}

fn class(number: u32) -> u32 {
    0x1_0010 + number
}

#[test]
fn the_class_comes_from_tag_rtdip_or_ipv4() {
    let bench = Bench::new("class");
    for pcp in 0..8 {
        let octet = u8::try_from(pcp).unwrap();
        let rtdip = frame(0x88b5, &[0x10, octet], 60);
        assert_eq!(bench.enter(&rtdip), (TC_ACT_UNSPEC, class(pcp)));
        let tagged = frame(0x8100, &[octet << 5, 0, 0x88, 0xb5, 0x10, 7 - octet], 64);
        assert_eq!(
            bench.enter(&tagged),
            (TC_ACT_UNSPEC, class(pcp)),
            "the tag comes first"
        );
        let ipv4 = frame(0x0800, &[0x45, octet << 5], 60);
        assert_eq!(bench.enter(&ipv4), (TC_ACT_UNSPEC, class(pcp)));
    }
    let foreign = frame(0x86dd, &[0xff; 40], 60);
    assert_eq!(bench.enter(&foreign), (TC_ACT_UNSPEC, class(0)));
}

#[test]
fn each_priority_has_the_class_of_the_map() {
    let bench = Bench::new("map");
    for expected in [
        [0; 8],
        [0, 0, 0, 1, 1, 1, 2, 2],
        // Stream classes A and B of IEEE 802.1Q.
        [1, 0, 6, 7, 2, 3, 4, 5],
    ] {
        let map = u64::from_le_bytes(expected);
        bench.records.set(0, Field::ClassOf, map);
        let classes: Vec<u32> = (0..8)
            .map(|pcp| bench.enter(&frame(0x88b5, &[0x10, pcp], 60)).1 - class(0))
            .collect();
        assert_eq!(classes, expected.map(u32::from));
    }
}

#[test]
fn a_frame_cut_short_is_of_the_lowest_class_and_nothing_worse() {
    let bench = Bench::new("short");
    // 15 bytes are the shortest frame on which the kernel runs a program.
    for length in 15..18 {
        let mut short = frame(0x88b5, &[0x10, 7, 0], 17);
        short.truncate(length);
        let expected = if length >= 16 { class(7) } else { class(0) };
        assert_eq!(
            bench.enter(&short),
            (TC_ACT_UNSPEC, expected),
            "{length} octets"
        );
    }
    // The kernel does not run a program on an IPv4 packet without its header.
    for ether_type in [0x88b5, 0x8100] {
        assert_eq!(
            bench.enter(&frame(ether_type, &[0xff], 15)),
            (TC_ACT_UNSPEC, class(0))
        );
    }
}

#[test]
fn the_buffer_is_exact_to_the_byte() {
    let bench = Bench::new("buffer");
    bench.records.set(0, Field::LimitBytes, 1_000);
    let big = frame(0x88b5, &[0x10, 0], 400);
    assert_eq!(bench.enter(&big).0, TC_ACT_UNSPEC);
    assert_eq!(bench.enter(&big).0, TC_ACT_UNSPEC);
    assert_eq!(bench.enter(&big).0, TC_ACT_SHOT);
    assert_eq!(bench.enter(&frame(0x88b5, &[], 201)).0, TC_ACT_SHOT);
    assert_eq!(bench.enter(&frame(0x88b5, &[], 200)).0, TC_ACT_UNSPEC);
    assert_eq!(bench.records.get(0, Field::QueuedBytes), 1_000);
    assert_eq!(bench.records.get(0, Field::MaxBytes), 1_000);
    assert_eq!(bench.records.get(0, Field::DroppedFrames), 2);
    assert_eq!(bench.records.get(0, Field::AcceptedBytes), 1_000);
    assert_eq!(
        bench.records.get(0, Field::WireBytes),
        0,
        "nothing has left yet"
    );
    // One frame leaves: it arrives at the other end of the cable.
    assert_eq!(bench.run("port_leave", 1, 0, &big).0, TC_ACT_UNSPEC);
    assert_eq!(bench.records.get(0, Field::QueuedBytes), 600);
    assert_eq!(bench.records.get(0, Field::WireBytes), 424);
    assert_eq!(bench.records.take_window(0), 1_000);
    assert_eq!(bench.records.take_window(0), 600);
}

#[test]
fn a_short_frame_costs_a_whole_minimum_on_the_wire() {
    let bench = Bench::new("minimum");
    bench.enter(&frame(0x88b5, &[], 20));
    bench.run("port_leave", 1, 0, &frame(0x88b5, &[], 20));
    assert_eq!(bench.records.get(0, Field::WireBytes), 84);
}

#[test]
fn a_pool_is_shared_and_given_back_when_the_port_is_full() {
    let bench = Bench::new("pool");
    bench.records.set(0, Field::Pool, 1);
    bench.records.set_pool(0, 500, 0);
    let big = frame(0x88b5, &[], 300);
    assert_eq!(bench.enter(&big).0, TC_ACT_UNSPEC);
    assert_eq!(bench.enter(&big).0, TC_ACT_SHOT);
    assert_eq!(
        bench.records.get(0, Field::QueuedBytes),
        300,
        "the port has none of it"
    );
    bench.records.set(0, Field::LimitBytes, 400);
    bench.records.set_pool(0, 10_000, 0);
    assert_eq!(bench.enter(&big).0, TC_ACT_SHOT, "now the port is full");
    assert_eq!(
        bench.records.pool_max(0),
        600,
        "the pool had it for a moment"
    );
    bench.run("port_leave", 1, 0, &big);
    bench.records.set_pool(0, 300, 0);
    assert_eq!(
        bench.enter(&big).0,
        TC_ACT_UNSPEC,
        "the pool got everything back"
    );
}

#[test]
fn a_switch_says_nothing_of_its_own() {
    let bench = Bench::new("own");
    bench.records.set(0, Field::ForwardsOnly, 1);
    let igmp = frame(0x0800, &[0x46, 0xc0], 60);
    assert_eq!(bench.run("port_enter", 0, 0, &igmp).0, TC_ACT_SHOT);
    assert_eq!(
        bench.run("port_enter", 0, FIRST_IFINDEX + 1, &igmp).0,
        TC_ACT_UNSPEC
    );
    assert_eq!(
        bench.records.get(0, Field::DroppedFrames),
        0,
        "not a frame of the plan"
    );
}

#[test]
fn a_buffer_counted_in_frames_holds_so_many_however_small() {
    let bench = Bench::new("frames");
    bench.records.set(0, Field::LimitBytes, 10_000);
    bench.records.set(0, Field::LimitFrames, 3);
    let small = frame(0x88b5, &[], 60);
    let verdicts: Vec<u32> = (0..4).map(|_| bench.enter(&small).0).collect();
    assert_eq!(
        verdicts,
        [TC_ACT_UNSPEC, TC_ACT_UNSPEC, TC_ACT_UNSPEC, TC_ACT_SHOT]
    );
    assert_eq!(
        bench.records.get(0, Field::QueuedBytes),
        180,
        "the dropped frame gave its bytes back"
    );
    assert_eq!(bench.records.get(0, Field::MaxFrames), 3);
    bench.run("port_leave", 1, 0, &small);
    assert_eq!(bench.enter(&small).0, TC_ACT_UNSPEC);
    bench.records.set(0, Field::LimitFrames, 0);
    bench.records.set(0, Field::Pool, 1);
    bench.records.set_pool(0, 10_000, 1);
    assert_eq!(bench.enter(&small).0, TC_ACT_UNSPEC);
    assert_eq!(
        bench.enter(&small).0,
        TC_ACT_SHOT,
        "the pool has room for one"
    );
}

#[test]
fn a_tag_that_the_kernel_keeps_beside_the_frame_still_counts() {
    // In a test run the tag is in the frame; in the lab of the line example it is beside the frame. Both are 64 bytes
    // here.
    let bench = Bench::new("tag");
    let tagged = frame(0x8100, &[7 << 5, 0, 0x88, 0xb5, 0x10, 7], 64);
    bench.enter(&tagged);
    assert_eq!(bench.records.get(0, Field::QueuedBytes), 64);
    bench.run("port_leave", 1, 0, &tagged);
    assert_eq!(bench.records.get(0, Field::WireBytes), 88);
}

/// A frame of key 7 and number 9: Ethernet, tagged Ethernet, a datagram.
fn identified() -> [Vec<u8>; 3] {
    let mut rtdip = vec![0x10, 3, 0, 1, 0, 2, 0, 30];
    rtdip.extend([0, 0, 0, 9, 0, 0, 0, 7]);
    let mut tagged = vec![3 << 5, 0, 0x88, 0xb5];
    tagged.extend(&rtdip);
    let mut datagram = vec![0x45, 3 << 5, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0];
    datagram.extend([0; 8 + 8]);
    datagram.extend(&rtdip);
    [
        frame(0x88b5, &rtdip, 60),
        frame(0x8100, &tagged, 64),
        frame(0x0800, &datagram, 60),
    ]
}

#[test]
fn each_frame_leaves_a_record_of_entering_leaving_and_dropping() {
    let bench = Bench::new("records");
    let ring = EventRing::new(
        bench.program.map_array("events", EVENT_WORDS).unwrap(),
        bench.program.map_array("events_written", 1).unwrap(),
    );
    let (mut next, mut events) = (0, Events::default());
    let before = clock::now_ns(Clock::Tai);
    for frame in identified() {
        bench.enter(&frame);
        bench.run("port_leave", 1, 0, &frame);
    }
    bench.records.set(0, Field::LimitBytes, 10);
    let stranger = frame(0x86dd, &[0xff; 40], 60);
    bench.enter(&stranger);
    ring.read(&mut next, &mut events);
    let after = clock::now_ns(Clock::Tai);
    assert_eq!((events.all.len(), events.lost), (7, 0));
    let mut last = before;
    for (at, event) in events.all.iter().enumerate() {
        assert!(
            (last..=after).contains(&event.time_ns),
            "the clock is TAI's"
        );
        last = event.time_ns;
        let expected = [Kind::Entered, Kind::Left];
        let (kind, identity, bytes) = match at {
            // It has no key: the node that it goes to, and a mix of its headers.
            6 => {
                let node = u64::from(u16::from_be_bytes([stranger[4], stranger[5]]));
                assert_eq!((event.has_key, event.identity & 0xffff), (false, node));
                (Kind::Dropped, event.identity, 84)
            }
            2 | 3 => (expected[at % 2], 7 << 32 | 9, 88),
            _ => (expected[at % 2], 7 << 32 | 9, 84),
        };
        let found = (event.kind, event.identity, event.wire_bytes, event.port);
        assert_eq!(found, (kind, identity, bytes, 0), "record {at}");
        assert_eq!(event.class, if at == 6 { 0 } else { 3 }, "record {at}");
    }
}

/// Frames of unmodified programs are told apart by their headers, which stay as they are from port to port.
#[test]
fn frames_without_a_key_have_what_tells_them_apart() {
    let bench = Bench::new("strangers");
    let ring = EventRing::new(
        bench.program.map_array("events", EVENT_WORDS).unwrap(),
        bench.program.map_array("events_written", 1).unwrap(),
    );
    // TCP segments that differ in their sequence number.
    let segment = |number: u32| {
        let mut ip = vec![0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 6, 0, 0];
        ip.extend([10, 77, 0, 1, 10, 77, 0, 5]);
        ip.extend([0x9c, 0x40, 0x14, 0x51]);
        ip.extend(number.to_be_bytes());
        frame(0x0800, &ip, 80)
    };
    // The kernel keeps a tag in the frame or beside it: it is the same frame.
    let plain = segment(5_000);
    let mut tagged = plain[..12].to_vec();
    tagged.extend([0x81, 0, 0x60, 10]);
    tagged.extend_from_slice(&plain[12..]);
    bench.enter(&plain);
    bench.run("port_leave", 1, 0, &tagged);
    for number in 0..5_000 {
        bench.enter(&segment(number));
        bench.run("port_leave", 1, 0, &segment(number));
    }
    let (mut next, mut events) = (0, Events::default());
    ring.read(&mut next, &mut events);
    let mut seen = std::collections::BTreeSet::new();
    for pair in events.all.chunks(2) {
        assert_eq!(pair[0].identity, pair[1].identity, "the same at both ends");
        seen.insert(pair[0].identity);
    }
    assert_eq!(events.all.len(), 10_002);
    assert_eq!(
        seen.len(),
        5_001,
        "frames in one queue are never taken for each other"
    );
}

#[test]
fn records_that_were_overwritten_are_counted() {
    let bench = Bench::new("overwritten");
    let ring = EventRing::new(
        bench.program.map_array("events", EVENT_WORDS).unwrap(),
        bench.program.map_array("events_written", 1).unwrap(),
    );
    let (mut next, mut events) = (0, Events::default());
    // The program has written a whole ring and one record more since the last reading.
    let places = bench
        .program
        .map_array("events", EVENT_WORDS)
        .unwrap()
        .len() as u64;
    let written = bench.program.map_array("events_written", 1).unwrap();
    let count = written.word(0, 0).unwrap();
    count.store(places, std::sync::atomic::Ordering::Relaxed);
    bench.enter(&frame(0x88b5, &[], 60));
    ring.read(&mut next, &mut events);
    assert!(events.lost > 0);
}

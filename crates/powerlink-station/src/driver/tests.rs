//! The program, run on frames of every kind (`BPF_PROG_TEST_RUN`).

use super::layout::{ANSWERED, CHAINED, Chain, LONGEST_WAIT_NS, RING};
use super::offload::Driver;
use super::requests::Requests;

use super::*;
use rtwire_link::frame_ring::{FrameRing, Taken};
use rtwire_link::run::Offload as _;
use rtwire_powerlink::prepared;
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::{allocations, require};
use rtwire_wire::{Action, Arm, Cue, Slot};

pub(super) const DROP: u32 = 1;
pub(super) const PASS: u32 = 2;
pub(super) const TX: u32 = 3;
/// Longer than any of these tests.
const CHAIN_NS: u64 = 1_000_000_000_000;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];

pub(super) struct Bench {
    object: BpfObject,
    pub(super) driver: Driver,
    reader: FrameRing,
    out: Vec<u8>,
    cycle: u64,
}

impl Bench {
    pub(super) fn new(role: Role, node: u8) -> Self {
        Self::with(role, node, 8)
    }

    fn with(role: Role, node: u8, most_requests: usize) -> Self {
        let interface = Interface {
            name: "test".to_owned(),
            index: 1,
            mac: OWN,
            mtu: 1500,
            up: true,
        };
        let wanted: Vec<u8> = (1..=240).collect();
        let (object, program) = Program::load(&interface, role, node, &wanted, 1_000_000)
            .expect("these tests need root");
        Self {
            object,
            driver: Driver {
                program,
                role,
                requests: Requests::new(most_requests, CHAIN_NS),
                answered: false,
                cycle: 0,
            },
            reader: FrameRing::new(),
            out: Vec::new(),
            cycle: 0,
        }
    }

    pub(super) fn run(&mut self, frame: &[u8]) -> u32 {
        let run = self
            .object
            .test_run_xdp(PROGRAM, frame, &mut self.out, 1)
            .unwrap();
        run.verdict
    }

    pub(super) fn program(&self) -> &Program {
        &self.driver.program
    }

    pub(super) fn counters(&self) -> DriverCounters {
        self.program().counters(self.reader.overrun())
    }

    pub(super) fn take(&mut self) -> Option<(Taken, Vec<u8>)> {
        let head = self.program().get(Control::Head);
        let taken = self.reader.take(&self.driver.program.ring, head)?;
        Some((taken, self.reader.octets()[..taken.length].to_vec()))
    }

    fn act(&mut self, action: Action<'_>) -> bool {
        self.driver.act(action)
    }

    pub(super) fn arm_reply(&mut self, cue: Cue, after_ns: u64) {
        let slot = prepared::RESPONSE;
        self.act(Action::Arm(Arm {
            slot,
            cue,
            after_ns,
            behind: None,
        }));
    }

    /// Prepares the PRes, and arms it on PReqs.
    pub(super) fn prepare_response(&mut self, frame: &[u8]) {
        let slot = prepared::RESPONSE;
        self.act(Action::Prepare { slot, frame });
        self.arm_reply(prepared::PREQ, 0);
    }

    fn disarm_response(&mut self) {
        let slot = prepared::RESPONSE;
        self.act(Action::Disarm { slot });
    }

    fn slot(&self, place: usize) -> Slot {
        prepared::request(self.cycle, place).unwrap()
    }

    /// Prepares and arms a cycle's requests, as the managing node does before its SoC.
    fn prepare_requests(&mut self, requests: &[(u8, Vec<u8>)]) {
        self.cycle += 1;
        for (place, (_, frame)) in requests.iter().enumerate() {
            let slot = self.slot(place);
            self.act(Action::Prepare { slot, frame });
            if let Some(before) = place.checked_sub(1) {
                self.act(Action::Arm(Arm {
                    slot,
                    cue: prepared::pres(requests[before].0),
                    after_ns: 0,
                    behind: Some(self.slot(before)),
                }));
            }
        }
    }

    pub(super) fn prepare_nodes(&mut self, nodes: &[u8]) {
        let requests: Vec<_> = nodes.iter().map(|node| (*node, preq(*node))).collect();
        self.prepare_requests(&requests);
    }

    /// Makes the request at this place due. Returns true where it has left; else sends it as the loop does.
    pub(super) fn due(&mut self, place: usize) -> bool {
        let slot = self.slot(place);
        let left = self.act(Action::Due {
            slot,
            frame: &[],
            launch_ns: None,
        });
        if !left {
            self.driver.leaves(slot);
        }
        left
    }

    fn turn(&self) -> u64 {
        let word = self.program().chain.word(0, Chain::Turn as usize);
        word.unwrap().load(Ordering::Relaxed)
    }
}

fn frame(message: u8, destination: u8, source: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![
        1, 0x11, 0x1e, 0, 0, message, 2, 0, 0, 0, 0, source, 0x88, 0xab,
    ];
    frame.extend([message, destination, source]);
    frame.extend(content);
    frame.resize(frame.len().max(60), 0);
    frame
}

pub(super) fn soc() -> Vec<u8> {
    frame(1, 255, 240, &[])
}

pub(super) fn preq(node: u8) -> Vec<u8> {
    frame(3, node, 240, &[0, 1, 2, 3, node])
}

pub(super) fn pres(node: u8) -> Vec<u8> {
    frame(4, 255, node, &[0xfd, node])
}

#[test]
fn a_poll_request_is_answered_with_what_was_prepared_and_shown() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    assert_eq!(bench.run(&preq(7)), PASS, "nothing is prepared yet");
    let (taken, octets) = bench.take().unwrap();
    assert_eq!((taken.did, octets), (0, preq(7)));
    for length in [60, 61, 64, 100, 999, 1500, 1514] {
        let mut response = pres(7);
        response.resize(length, length as u8);
        bench.prepare_response(&response);
        assert_eq!(bench.run(&preq(7)), TX, "{length}");
        assert_eq!(bench.out, response);
        let (taken, octets) = bench.take().unwrap();
        assert_eq!((taken.did, octets), (ANSWERED, preq(7)));
    }
    // A longer request is made shorter.
    let mut long = preq(7);
    long.resize(700, 9);
    bench.prepare_response(&pres(7));
    assert_eq!(bench.run(&long), TX);
    assert_eq!(bench.out, pres(7));
    assert_eq!(bench.take().unwrap().1, long);
    let counters = bench.counters();
    assert_eq!((counters.answered, counters.unanswered), (8, 1));
    bench.disarm_response();
    assert_eq!(bench.run(&preq(7)), PASS, "not armed");
    // A frame alone does not arm; and the loop that ends disarms.
    let slot = prepared::RESPONSE;
    let frame = &pres(7);
    bench.act(Action::Prepare { slot, frame });
    assert_eq!(bench.run(&preq(7)), PASS, "prepared only");
    bench.arm_reply(prepared::PREQ, 0);
    assert_eq!(bench.run(&preq(7)), TX);
    bench.driver.stop();
    assert_eq!(bench.run(&preq(7)), PASS, "stopped");
}

#[test]
fn in_a_chain_the_managing_nodes_response_is_answered_at_its_time() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    bench.prepare_response(&pres(7));
    assert_eq!(bench.run(&pres(240)), DROP, "no chain: read later");
    assert_eq!(bench.take().unwrap().0.did, 0);
    for after_ns in [0, 1_000, 30_000, LONGEST_WAIT_NS] {
        bench.arm_reply(prepared::pres(240), after_ns);
        assert_eq!(bench.run(&pres(240)), TX, "{after_ns}");
        let left_ns = clock::now_ns(Clock::Monotonic);
        assert_eq!(bench.out, pres(7));
        let (taken, octets) = bench.take().unwrap();
        assert_eq!((taken.did, octets), (ANSWERED, pres(240)));
        assert!(left_ns >= taken.arrival_ns + after_ns, "{after_ns}");
        assert_eq!(bench.run(&pres(6)), DROP, "those of others are none");
        assert_eq!(bench.take().unwrap().0.did, 0);
    }
    let before = bench.counters().unanswered;
    bench.arm_reply(prepared::pres(240), LONGEST_WAIT_NS + 1);
    assert_eq!(bench.run(&pres(240)), PASS, "too long to wait for");
    assert_eq!(bench.counters().unanswered, before + 1);
    bench.arm_reply(prepared::pres(240), 0);
    bench.disarm_response();
    assert_eq!(bench.run(&pres(240)), DROP, "not armed: read later");
    bench.arm_reply(prepared::PREQ, 0);
    assert_eq!(bench.run(&pres(240)), DROP, "armed on requests alone");
    // Armed in the chain, but not on requests: nothing is prepared for it.
    bench.disarm_response();
    bench.arm_reply(prepared::pres(240), 0);
    assert_eq!(bench.run(&pres(240)), PASS, "not armed");
    assert_eq!(bench.counters().unanswered, before + 2);
    // The managing node does not answer itself.
    let mut bench = Bench::new(Role::Managing, 240);
    bench.program().set(Control::ChainedIn, 1);
    assert_eq!(bench.run(&pres(240)), PASS);
}

#[test]
fn what_is_for_others_is_not_shown() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    bench.prepare_response(&pres(7));
    assert_eq!(bench.run(&preq(8)), DROP, "flooded by a switch");
    assert_eq!(bench.run(&pres(250)), DROP, "not wanted");
    assert!(bench.take().is_none());
    assert_eq!(bench.counters().unwanted, 1);
    let mut bench = Bench::new(Role::Managing, 240);
    assert_eq!(bench.run(&preq(240)), DROP, "a managing node is not polled");
    assert!(bench.take().is_none());
}

#[test]
fn every_frame_is_shown_in_order_with_its_time() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    bench.prepare_response(&pres(7));
    let frames = [
        (soc(), DROP),
        (preq(7), TX),
        (pres(3), DROP),
        (frame(5, 255, 240, &[0xfd]), PASS),
        (frame(6, 7, 240, &[4]), PASS),
        (frame(13, 255, 240, &[]), PASS),
    ];
    for (frame, verdict) in &frames {
        assert_eq!(bench.run(frame), *verdict);
    }
    let mut last_ns = 0;
    for (frame, _) in &frames {
        let (taken, octets) = bench.take().unwrap();
        assert_eq!(octets, *frame);
        assert!(taken.arrival_ns > last_ns);
        last_ns = taken.arrival_ns;
    }
    assert!(bench.take().is_none() && !bench.reader.is_ready(&bench.program().ring));
}

#[test]
fn what_is_not_powerlink_or_faulty_goes_to_linux_as_it_came() {
    require!(root);
    for role in [Role::Controlled, Role::Managing] {
        let mut bench = Bench::new(role, 7);
        bench.prepare_response(&pres(7));
        let mut arp = soc();
        arp[12..14].copy_from_slice(&[8, 6]);
        let mut tagged = soc();
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        for other in [arp, tagged, soc()[..14].to_vec(), soc()[..16].to_vec()] {
            assert_eq!(bench.run(&other), PASS);
            assert_eq!(bench.out, other);
        }
        let mut long = soc();
        long.resize(1530, 0);
        assert_eq!(bench.run(&long), PASS);
        assert!(bench.take().is_none());
        assert_eq!(bench.counters().malformed, 3);
    }
}

#[test]
fn a_reader_that_is_too_slow_knows_what_it_missed() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    for round in 0..3 {
        for number in 0..(RING as u64 + 44) {
            let content = number.to_be_bytes();
            bench.run(&frame(1, 255, 240, &content));
        }
        let mut count = 0;
        let mut last = None;
        while let Some((_, octets)) = bench.take() {
            count += 1;
            last = Some(u64::from_be_bytes(octets[17..25].try_into().unwrap()));
        }
        assert_eq!(last, Some(RING as u64 + 43), "the newest is there");
        assert_eq!(
            count + bench.reader.overrun() - round * 45,
            RING as u64 + 44,
            "round {round}"
        );
    }
}

/// Goes through a cycle as the node does, after its requests were prepared. Returns the places that had to be sent.
fn cycle(bench: &mut Bench, places: &[usize], answers: &[u8]) -> Vec<usize> {
    let mut sent = Vec::new();
    for place in places {
        if !bench.due(*place) {
            sent.push(*place);
        }
        // The responses come while the node is asleep: all that the driver can make come.
        if sent.len() == 1 && *place == places[0] {
            for answer in answers {
                bench.run(&pres(*answer));
            }
        }
    }
    while bench.take().is_some() {}
    sent
}

#[test]
fn each_response_sends_the_next_request() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    for _ in 0..5 {
        bench.prepare_nodes(&[1, 2, 3]);
        assert!(!bench.due(0));
        assert_eq!(bench.run(&pres(3)), PASS, "not its turn");
        assert_eq!(bench.run(&pres(1)), TX);
        assert_eq!(bench.out, preq(2));
        assert_eq!(bench.run(&pres(1)), PASS, "twice");
        let mut long = pres(2);
        long.resize(400, 7);
        assert_eq!(bench.run(&long), TX);
        assert_eq!(bench.out, preq(3));
        assert_eq!(bench.run(&pres(3)), PASS, "the last one wakes the node");
        let did: Vec<u64> = std::iter::from_fn(|| bench.take())
            .map(|(taken, _)| taken.did)
            .collect();
        assert_eq!(did, [0, CHAINED, 0, CHAINED, 0]);
        // The node, awake at last, says what is due.
        assert!(bench.driver.has_left(bench.slot(2)));
        assert!(bench.due(1));
        assert!(bench.due(2));
    }
    assert_eq!(bench.counters().chained, 10);
}

#[test]
fn no_request_leaves_before_the_first_or_after_disarm() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    for _ in 0..3 {
        bench.prepare_nodes(&[1, 2, 3]);
        assert_eq!(bench.run(&pres(1)), PASS, "the SoC has not left");
        // Due, but still in the queue, behind the SoC.
        let slot = bench.slot(0);
        let frame = &preq(1);
        let launch_ns = None;
        assert!(!bench.act(Action::Due {
            slot,
            frame,
            launch_ns
        }));
        assert_eq!(bench.run(&pres(1)), PASS, "the first has not left");
        assert!(!bench.driver.has_left(slot));
        bench.driver.leaves(slot);
        assert_eq!(bench.run(&pres(1)), TX);
        assert!(bench.driver.has_left(bench.slot(1)) && !bench.driver.has_left(bench.slot(2)));
        bench.act(Action::Disarm { slot });
        assert_eq!(bench.run(&pres(2)), PASS, "disarmed");
        assert_eq!(bench.turn() as u32, u32::MAX);
    }
    // A new cycle, and the end of the loop, disarm as well.
    bench.prepare_nodes(&[1, 2]);
    bench.due(0);
    bench.prepare_nodes(&[1, 2]);
    assert_eq!(bench.run(&pres(1)), PASS, "another cycle is prepared");
    bench.due(0);
    bench.driver.stop();
    assert_eq!(bench.run(&pres(1)), PASS, "stopped");
}

#[test]
fn what_leaves_is_what_was_prepared_for_the_cycle() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    for number in 0..4_u8 {
        let fresh = |node, number| frame(3, node, 240, &[number]);
        bench.prepare_requests(&[(1, fresh(1, number)), (2, fresh(2, 99))]);
        // What is prepared last holds.
        let slot = bench.slot(1);
        let frame = &fresh(2, number);
        bench.act(Action::Prepare { slot, frame });
        // What is prepared for another cycle does not touch this one.
        let slot = prepared::request(bench.cycle + 1, 1).unwrap();
        let frame = &fresh(2, 99);
        bench.act(Action::Prepare { slot, frame });
        assert!(!bench.due(0));
        assert_eq!(bench.run(&pres(1)), TX);
        assert_eq!(bench.out[17], number);
        assert!(bench.due(1));
    }
}

#[test]
fn a_missing_response_hands_the_turn_to_user_space_and_back() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    bench.prepare_nodes(&[1, 2, 3, 4]);
    assert!(!bench.due(0));
    assert_eq!(bench.run(&pres(1)), TX);
    assert!(bench.due(1));
    // Node 2 does not answer: after its timeout request 3 is due.
    assert!(!bench.due(2));
    assert_eq!(bench.run(&pres(2)), PASS, "too late to ask 3 once more");
    assert_eq!(bench.run(&pres(3)), TX, "and the driver goes on");
    assert_eq!(bench.out, preq(4));
    assert!(bench.due(3));
}

#[test]
fn a_cycle_that_leaves_a_request_out_has_no_chain_from_there() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    // Nothing was prepared.
    bench.cycle += 1;
    assert_eq!(cycle(&mut bench, &[0, 1], &[1]), [0, 1]);
    // Node 2 is left out; the driver has not gone beyond node 1 yet.
    bench.prepare_nodes(&[1, 2, 3]);
    assert_eq!(cycle(&mut bench, &[0, 2], &[]), [0, 2]);
    assert_eq!(bench.run(&pres(1)), PASS, "broken off");
    // The first one is left out.
    bench.prepare_nodes(&[5, 1, 3]);
    assert_eq!(cycle(&mut bench, &[1, 2], &[5, 1]), [1, 2]);
    assert_eq!(bench.turn() as u32, u32::MAX);
    // In full, each time other nodes, as with multiplexed slots; none at all.
    for nodes in [&[1, 2][..], &[1, 3], &[5, 1, 3], &[], &[5], &[1, 2]] {
        bench.prepare_nodes(nodes);
        let places: Vec<usize> = (0..nodes.len()).collect();
        let first = places.get(..1).unwrap_or_default();
        assert_eq!(cycle(&mut bench, &places, nodes), first);
    }
}

#[test]
fn more_requests_than_there_is_room_for_are_sent_by_user_space() {
    require!(root);
    let mut bench = Bench::with(Role::Managing, 240, 2);
    bench.prepare_nodes(&[1, 2, 3]);
    assert_eq!(cycle(&mut bench, &[0, 1, 2], &[1, 2]), [0, 2]);
}

#[test]
fn actions_allocate_nothing() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    let requests: Vec<_> = (1..=8).map(|node| (node, preq(node))).collect();
    let before = allocations();
    for _ in 0..100 {
        bench.prepare_requests(&requests);
        for place in 0..requests.len() {
            bench.due(place);
        }
        let slot = bench.slot(0);
        bench.act(Action::Disarm { slot });
    }
    assert_eq!(allocations(), before, "of a managing node");
    let mut bench = Bench::new(Role::Controlled, 7);
    let frame = pres(7);
    let before = allocations();
    for _ in 0..100 {
        bench.prepare_response(&frame);
        bench.disarm_response();
    }
    assert_eq!(allocations(), before, "of a controlled node");
}

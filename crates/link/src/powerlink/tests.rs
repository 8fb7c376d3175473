//! The program, run on frames of every kind (`BPF_PROG_TEST_RUN`).

use super::layout::{
    ANSWERED, BUFFERS, CHAINED, Chain, LONGEST_WAIT_NS, PREPARED_WORDS, RING, Response,
};
use super::polls::{Fate, Polls};
use super::ring::{Reader, Taken};
use super::*;
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::require;

const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];

struct Bench {
    object: BpfObject,
    program: Program,
    reader: Reader,
    out: Vec<u8>,
}

impl Bench {
    fn new(role: Role, node: u8) -> Self {
        let interface = Interface {
            name: "test".to_owned(),
            index: 1,
            mac: OWN,
            mtu: 1500,
            up: true,
        };
        let wanted: Vec<u8> = (1..=240).collect();
        let (object, program) =
            Program::load(&interface, role, node, &wanted).expect("these tests need root");
        Self {
            object,
            program,
            reader: Reader::new(),
            out: Vec::new(),
        }
    }

    fn run(&mut self, frame: &[u8]) -> u32 {
        let run = self
            .object
            .test_run_xdp(PROGRAM, frame, &mut self.out, 1)
            .unwrap();
        run.verdict
    }

    fn take(&mut self) -> Option<(Taken, Vec<u8>)> {
        let head = self.program.get(Control::Head);
        let taken = self.reader.take(&self.program.ring, head)?;
        Some((taken, self.reader.octets()[..taken.length].to_vec()))
    }

    /// As the port does it.
    fn prepare_response(&self, frame: &[u8]) {
        let word = |at: usize| self.program.response.word(0, at).unwrap();
        let version = word(Response::Version as usize);
        let next = version.load(Ordering::Relaxed) + 1;
        let at = Response::Prepared as usize + (next % BUFFERS) as usize * PREPARED_WORDS;
        prepare(&self.program.response, 0, at, 0, frame);
        version.store(next, Ordering::Release);
        word(Response::Armed as usize).store(1, Ordering::Release);
    }

    fn turn(&self) -> u64 {
        let word = self.program.chain.word(0, Chain::Turn as usize);
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

fn soc() -> Vec<u8> {
    frame(1, 255, 240, &[])
}

fn preq(node: u8) -> Vec<u8> {
    frame(3, node, 240, &[0, 1, 2, 3, node])
}

fn pres(node: u8) -> Vec<u8> {
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
    let counters = bench.program.counters(bench.reader.overrun());
    assert_eq!((counters.answered, counters.unanswered), (8, 1));
    let armed = bench.program.response.word(0, Response::Armed as usize);
    armed.unwrap().store(0, Ordering::Relaxed);
    assert_eq!(bench.run(&preq(7)), PASS, "not armed");
}

#[test]
fn in_a_chain_the_managing_nodes_response_is_answered_at_its_time() {
    require!(root);
    let mut bench = Bench::new(Role::Controlled, 7);
    bench.prepare_response(&pres(7));
    assert_eq!(bench.run(&pres(240)), DROP, "no chain: read later");
    assert_eq!(bench.take().unwrap().0.did, 0);
    for after_ns in [0, 1_000, 30_000, LONGEST_WAIT_NS] {
        bench.program.set(Control::ChainedIn, 1);
        bench.program.set(Control::AfterNs, after_ns);
        assert_eq!(bench.run(&pres(240)), TX, "{after_ns}");
        let left_ns = clock::now_ns(Clock::Monotonic);
        assert_eq!(bench.out, pres(7));
        let (taken, octets) = bench.take().unwrap();
        assert_eq!((taken.did, octets), (ANSWERED, pres(240)));
        assert!(left_ns >= taken.arrival_ns + after_ns, "{after_ns}");
        assert_eq!(bench.run(&pres(6)), DROP, "those of others are none");
        assert_eq!(bench.take().unwrap().0.did, 0);
    }
    let before = bench.program.counters(0).unanswered;
    bench.program.set(Control::AfterNs, LONGEST_WAIT_NS + 1);
    assert_eq!(bench.run(&pres(240)), PASS, "too long to wait for");
    bench.program.set(Control::AfterNs, 0);
    let armed = bench.program.response.word(0, Response::Armed as usize);
    armed.unwrap().store(0, Ordering::Relaxed);
    assert_eq!(bench.run(&pres(240)), PASS, "not armed");
    assert_eq!(bench.program.counters(0).unanswered, before + 2);
    // The managing node does not answer itself.
    let mut bench = Bench::new(Role::Managing, 240);
    bench.program.set(Control::ChainedIn, 1);
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
    assert_eq!(bench.program.counters(0).unwanted, 1);
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
    assert!(bench.take().is_none() && !bench.reader.is_ready(&bench.program.ring));
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
        assert_eq!(bench.program.counters(0).malformed, 3);
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

fn announce(bench: &Bench, polls: &mut Polls, nodes: &[u8]) {
    let frames: Vec<_> = nodes.iter().map(|node| (*node, preq(*node))).collect();
    let announced = frames.iter().map(|(node, frame)| (*node, &frame[..]));
    polls.announce(&bench.program, announced);
    polls.cycle(&bench.program);
}

/// A cycle as the node says it, after it was announced: gives what had to be sent.
fn cycle(bench: &mut Bench, polls: &mut Polls, nodes: &[u8], answers: &[u8]) -> Vec<u8> {
    let mut sent = Vec::new();
    for node in nodes {
        if polls.poll(&bench.program, *node) == Fate::Send {
            sent.push(*node);
        }
        // The responses come while the node is asleep: all that the driver can make come.
        if sent.len() == 1 && *node == nodes[0] {
            for answer in answers {
                bench.run(&pres(*answer));
            }
        }
    }
    while bench.take().is_some() {}
    sent
}

#[test]
fn each_response_sends_the_next_poll() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    let mut polls = Polls::new(8);
    for _ in 0..5 {
        announce(&bench, &mut polls, &[1, 2, 3]);
        assert_eq!(polls.poll(&bench.program, 1), Fate::Send);
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
        // The node, awake at last, says what it would have polled.
        assert_eq!(polls.poll(&bench.program, 2), Fate::Sent);
        assert_eq!(polls.poll(&bench.program, 3), Fate::Sent);
    }
    assert_eq!(bench.program.counters(0).chained, 10);
}

#[test]
fn what_leaves_is_what_was_announced_for_the_cycle() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    let mut polls = Polls::new(8);
    for number in 0..4_u8 {
        let fresh = |node, number| frame(3, node, 240, &[number]);
        let (one, two, stale) = (fresh(1, number), fresh(2, number), fresh(2, 99));
        // What is said last holds.
        polls.announce(&bench.program, [(1, &one[..]), (2, &stale[..])]);
        polls.announce(&bench.program, [(1, &one[..]), (2, &two[..])]);
        polls.cycle(&bench.program);
        // What is said for the next cycle does not touch this one.
        polls.announce(&bench.program, [(1, &one[..]), (2, &stale[..])]);
        assert_eq!(polls.poll(&bench.program, 1), Fate::Send);
        assert_eq!(bench.run(&pres(1)), TX);
        assert_eq!(bench.out[17], number);
        assert_eq!(polls.poll(&bench.program, 2), Fate::Sent);
    }
}

#[test]
fn a_missing_response_hands_the_turn_to_user_space_and_back() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    let mut polls = Polls::new(8);
    announce(&bench, &mut polls, &[1, 2, 3, 4]);
    assert_eq!(polls.poll(&bench.program, 1), Fate::Send);
    assert_eq!(bench.run(&pres(1)), TX);
    assert_eq!(polls.poll(&bench.program, 2), Fate::Sent);
    // Node 2 does not answer: the node's timeout polls 3.
    assert_eq!(polls.poll(&bench.program, 3), Fate::Send);
    assert_eq!(bench.run(&pres(2)), PASS, "too late to poll 3 once more");
    assert_eq!(bench.run(&pres(3)), TX, "and the driver goes on");
    assert_eq!(bench.out, preq(4));
    assert_eq!(polls.poll(&bench.program, 4), Fate::Sent);
}

#[test]
fn a_cycle_that_polls_otherwise_than_announced_has_no_chain() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    let mut polls = Polls::new(8);
    // Nothing was announced.
    polls.cycle(&bench.program);
    assert_eq!(cycle(&mut bench, &mut polls, &[1, 2], &[1]), [1, 2]);
    // Node 2 is left out; the driver has not gone beyond node 1 yet.
    announce(&bench, &mut polls, &[1, 2, 3]);
    assert_eq!(cycle(&mut bench, &mut polls, &[1, 3], &[]), [1, 3]);
    assert_eq!(bench.run(&pres(1)), PASS, "broken off");
    // Another first node.
    announce(&bench, &mut polls, &[1, 3]);
    assert_eq!(cycle(&mut bench, &mut polls, &[5, 1, 3], &[5]), [5, 1, 3]);
    assert_eq!(bench.turn() as u32, u32::MAX);
    // As announced, each time other nodes, as with multiplexed slots; none at all.
    for nodes in [&[1, 2][..], &[1, 3], &[5, 1, 3], &[], &[5], &[1, 2]] {
        announce(&bench, &mut polls, nodes);
        let first = nodes.get(..1).unwrap_or_default();
        assert_eq!(cycle(&mut bench, &mut polls, nodes, nodes), first);
    }
}

#[test]
fn more_polls_than_there_is_room_for_are_sent_by_user_space() {
    require!(root);
    let mut bench = Bench::new(Role::Managing, 240);
    let mut polls = Polls::new(2);
    announce(&bench, &mut polls, &[1, 2, 3]);
    assert_eq!(cycle(&mut bench, &mut polls, &[1, 2, 3], &[1, 2]), [1, 3]);
}

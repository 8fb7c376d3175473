//! Tests that something does not happen behind a stop: old requests answered into other nodes' slots, old data shown as valid.

use crate::harness::*;
use rtwire_powerlink::cn::{ControlledConfig, Limits};
use rtwire_powerlink::{ControlledNode, ErrorCode, Event};
use rtwire_wire::powerlink::{MessageType, NmtState, View};
use rtwire_wire::{Node, Outbox};

/// Keeps what is sent.
#[derive(Default)]
pub struct Sent(pub Vec<Vec<u8>>);

impl Outbox for Sent {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        self.0.push(frame.to_vec());
    }
}

pub fn kind(frame: &[u8]) -> Option<MessageType> {
    View::new(frame).message_type()
}

fn of_type(frames: &[Vec<u8>], wanted: MessageType) -> impl Iterator<Item = &Vec<u8>> {
    frames
        .iter()
        .filter(move |frame| kind(frame) == Some(wanted))
}

/// Returns an operational node 1 of a cycle of 2 ms, and the next frames that the managing node sends, with their arrival.
pub fn operational_node(cycles: u64) -> (ControlledNode, Vec<(u64, Vec<u8>)>) {
    next_frames(&mut network(2_000, &[1], |_| ()), cycles * 2 * MS)
}

/// The same of node 1 of a network, for so long.
pub fn next_frames(network: &mut Network, for_ns: u64) -> (ControlledNode, Vec<(u64, Vec<u8>)>) {
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.run(20 * MS);
    let node = network.cn(1).clone();
    network.record = Some(Vec::new());
    network.run(for_ns);
    let all = network.record.take().unwrap();
    let of_mn = all.into_iter().filter(|(_, frame)| frame[16] == 240);
    (
        node,
        of_mn
            .map(|(at_ns, frame)| (at_ns + 7 * US, frame))
            .collect(),
    )
}

#[test]
fn what_lay_unread_for_50_ms_is_not_answered_into_other_slots() {
    let (mut node, frames) = operational_node(26);
    let requests = frames
        .iter()
        .filter(|(_, f)| kind(f) == Some(MessageType::PREQ));
    assert!(requests.count() >= 25);
    // Read in time, each is answered.
    let mut twin = node.clone();
    let mut sent = Sent::default();
    for (at_ns, frame) in &frames {
        twin.reads_at(at_ns + 100 * US);
        twin.frame(*at_ns, frame, &mut sent);
    }
    assert!(sent.0.len() >= 25);
    assert_eq!(twin.statistics().stale_requests, 0);
    // Read together, 300 us behind the last of them: only what belongs to the cycle that still runs.
    let mut sent = Sent::default();
    let read_ns = frames.last().unwrap().0 + 300 * US;
    for (at_ns, frame) in &frames {
        node.reads_at(read_ns);
        node.frame(*at_ns, frame, &mut sent);
    }
    let answers = sent.0.iter().filter(|f| kind(f) == Some(MessageType::PRES));
    assert!(answers.count() <= 1, "{}", sent.0.len());
    assert!(node.statistics().stale_requests >= 24);
    // None of it counts as a loss of the network, and the node goes on.
    assert_eq!(node.state(), NmtState::OPERATIONAL);
    assert_eq!(node.statistics().lost_soa, 0);
}

#[test]
fn a_limit_of_its_own_makes_a_request_late_within_its_cycle() {
    let (_, frames) = operational_node(3);
    for (limit_ns, age_ns, answered) in [
        (None, 900 * US, true),
        (Some(250 * US), 240 * US, true),
        (Some(250 * US), 260 * US, false),
    ] {
        let mut config = ControlledConfig {
            node: 1,
            address: address(1),
            dictionary: cn_dictionary(),
            limits: Limits {
                silence_ns: 0,
                ..Limits::default()
            },
        };
        config.limits.answer_within_ns = limit_ns;
        let mut other = ControlledNode::new(config).unwrap();
        let mut sent = Sent::default();
        other.start(frames[0].0 - MS, &mut sent);
        for (at_ns, frame) in &frames {
            other.reads_at(at_ns + age_ns);
            other.frame(*at_ns, frame, &mut sent);
        }
        let answers = sent
            .0
            .iter()
            .filter(|f| kind(f) == Some(MessageType::PRES))
            .count();
        assert_eq!(answers > 0, answered, "{limit_ns:?} {age_ns}");
        assert_eq!(other.statistics().stale_requests == 0, answered);
    }
}

#[test]
fn behind_a_stop_the_data_are_not_valid_until_the_application_had_its_turn() {
    // An application that reports its turn, and one that does not.
    for reports in [true, false] {
        let (mut node, frames) = operational_node(60);
        let resumed_ns = frames[0].0 + 80 * MS;
        let (mut answers, mut in_time) = (Vec::new(), 0);
        for (at_ns, frame) in &frames {
            let read_ns = resumed_ns.max(at_ns + 10 * US);
            node.reads_at(read_ns);
            let mut sent = Sent::default();
            node.frame(*at_ns, frame, &mut sent);
            for answer in of_type(&sent.0, MessageType::PRES) {
                assert!(at_ns + 2 * MS > resumed_ns, "an old request is answered");
                answers.push((in_time, View::new(answer).ready().unwrap()));
            }
            if kind(frame) == Some(MessageType::SOC) {
                in_time += u32::from(read_ns - at_ns <= 2 * MS);
                if reports {
                    node.commit();
                }
            }
        }
        let turns = if reports { 1 } else { 2 };
        for (in_time, ready) in &answers {
            assert_eq!(*ready, *in_time >= turns, "{answers:?}");
        }
        assert!(answers.len() > 10 && answers.iter().any(|(_, ready)| *ready));
        assert!(reports || answers.iter().any(|(_, ready)| !ready));
        assert_eq!(node.statistics().lapses, 1);
        let code = ErrorCode::PROGRAM_STOOD_STILL;
        let events: Vec<_> = std::iter::from_fn(|| node.next_event()).collect();
        let told = events
            .iter()
            .filter(|event| **event == Event::Error { node: 1, code });
        assert_eq!(told.count(), 1);
    }
}

#[test]
fn outputs_from_before_a_stop_stay_invalid_however_often_they_are_handed_over() {
    let (mut node, frames) = operational_node(80);
    let before = node.statistics().cycles;
    let resumed_ns = frames[0].0 + 80 * MS;
    let mut turn = before;
    let (mut first_in_time, mut answers) = (None, [0; 3]);
    for (at_ns, frame) in &frames {
        let read_ns = resumed_ns.max(at_ns + 10 * US);
        node.reads_at(read_ns);
        let mut sent = Sent::default();
        node.frame(*at_ns, frame, &mut sent);
        for answer in of_type(&sent.0, MessageType::PRES) {
            let seen = first_in_time.is_some_and(|first| turn >= first);
            assert_eq!(View::new(answer).ready().unwrap(), seen, "{turn}");
            answers[usize::from(first_in_time.is_some()) + usize::from(seen)] += 1;
        }
        if kind(frame) == Some(MessageType::SOC) {
            let cycle = node.statistics().cycles;
            if read_ns - at_ns <= 2 * MS {
                // Its program runs again. For ten cycles it has seen none, then the last of the old ones, then a new one.
                let first = *first_in_time.get_or_insert(cycle);
                turn = match cycle - first {
                    0..10 => before,
                    10..20 => first - 1,
                    _ => first,
                };
            }
            node.commit_of(turn);
        }
    }
    assert!(answers[1] >= 19 && answers[2] >= 10, "{answers:?}");
}

#[test]
fn a_managing_node_calls_no_outputs_valid_that_its_program_has_set_before_a_stop() {
    // The nodes wait for their SoC as long.
    let mut network = network(2_000, &[1, 2], |cdc| {
        cdc.push(0x1c14, 0, 500_000_000, 4);
        let mut own = cn_cdc(2_000);
        own.push(0x1c14, 0, 500_000_000, 4);
        cdc.push_data(0x1f22, 1, own.emit());
        cdc.push_data(0x1f22, 2, own.emit());
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.run(20 * MS);
    let before = network.mn().statistics().cycles;
    network.mn().commit_of(before);
    network.stalled_ns[0] = network.now_ns + 60 * MS;
    while network.mn().statistics().cycles == before {
        network.run(US);
    }
    // The program has set outputs before the stop, and sees the first cycle behind it a while later.
    let first = network.mn().statistics().cycles;
    network.mn().commit_of(before);
    let mut requests = |turn: u64, cycles: u64| {
        network.record = Some(Vec::new());
        for _ in 0..cycles {
            let next_ns = network.mn().next_soc_ns();
            network.run_until(next_ns + US);
            network.mn().commit_of(turn);
            // To behind the last request.
            network.run(MS);
        }
        let frames = network.record.take().unwrap();
        let ready = of_type_timed(&frames, MessageType::PREQ)
            .map(|request| View::new(request).ready().unwrap())
            .collect::<Vec<_>>();
        assert!(ready.len() as u64 >= cycles, "{}", ready.len());
        ready
    };
    assert!(!requests(before, 10).contains(&true));
    assert!(!requests(first - 1, 10).contains(&true));
    // Its turn ends in this cycle: the next one carries what it has set.
    assert!(!requests(first, 1).contains(&true));
    assert!(!requests(first, 10).contains(&false));
}

fn of_type_timed(frames: &[(u64, Vec<u8>)], wanted: MessageType) -> impl Iterator<Item = &Vec<u8>> {
    let all = frames.iter().map(|(_, frame)| frame);
    all.filter(move |frame| kind(frame) == Some(wanted))
}

#[test]
fn the_watchdog_follows_the_cycle_time_that_the_managing_node_has_written() {
    let limits = Limits {
        silence_ns: 0,
        watchdog_cycles: 5,
        watchdog_least_ns: 20 * MS,
        answer_within_ns: None,
    };
    let (given, none) = (
        Limits {
            watchdog_least_ns: 0,
            ..limits
        },
        Limits {
            watchdog_cycles: 0,
            ..limits
        },
    );
    for (limits, [own, written]) in [(limits, [20, 5]), (given, [5, 5]), (none, [0, 0])] {
        let mut dictionary = cn_dictionary();
        dictionary.set_number(0x1006, 0, 1_000);
        let config = ControlledConfig {
            node: 1,
            address: address(1),
            dictionary,
            limits,
        };
        let node = ControlledNode::new(config).unwrap();
        let cdc = mn_cdc(50_000, &[1], |_| ());
        let stations = vec![Station::Mn(Box::new(mn(&cdc))), Station::Cn(Box::new(node))];
        let mut network = Network::new(stations);
        assert_eq!(network.cn(1).watchdog_cycles(), own);
        network.run_till(20 * SECOND, "operational", Network::operational);
        assert_eq!(network.cn(1).watchdog_cycles(), written);
        // Its program stands still for 4 cycles, and for 12.
        for (stop_ms, lapses) in [(200, 0), (600, u64::from(written > 0))] {
            let mut node = network.cn(1).clone();
            network.record = Some(Vec::new());
            network.run(stop_ms * MS);
            let frames = network.record.take().unwrap();
            let read_ns = network.now_ns;
            for (at_ns, frame) in frames.iter().filter(|(_, frame)| frame[16] == 240) {
                node.reads_at(read_ns);
                node.frame(at_ns + 7 * US, frame, &mut Sent::default());
            }
            assert_eq!(node.statistics().lapses, lapses, "{stop_ms} ms");
        }
    }
}

#[test]
fn a_managing_node_that_stood_still_sends_no_old_data_as_valid() {
    for stop_us in [0, 300, 1_000] {
        let mut network = network(2_000, &[1, 2, 3], |cdc| {
            cdc.push(0x1c14, 0, 500_000_000, 4);
        });
        network.run_till(5 * SECOND, "operational", Network::operational);
        network.run(20 * MS + stop_us * US);
        let stop_ns = network.now_ns;
        network.stalled_ns[0] = stop_ns + 60 * MS;
        network.record = Some(Vec::new());
        network.run(120 * MS);
        let frames = network.record.take().unwrap();
        let behind = frames
            .iter()
            .filter(|(at_ns, _)| *at_ns > stop_ns + 20 * MS);
        let (mut socs, mut requests) = (0, [0; 3]);
        for (_, frame) in behind {
            match kind(frame) {
                Some(MessageType::SOC) => socs += 1,
                Some(MessageType::PREQ) => {
                    let ready = View::new(frame).ready().unwrap();
                    // The first cycle behind the stop has what was set before it.
                    assert_eq!(ready, socs > 1, "{stop_us} us: {socs}");
                    requests[usize::from(socs > 0) + usize::from(socs > 1)] += 1;
                }
                _ => {}
            }
        }
        assert_eq!(
            requests[0], 0,
            "requests of the cycle in which it was stopped"
        );
        assert!(requests[1] > 0 && requests[2] > 0, "{requests:?}");
        assert!(network.mn().statistics().lapses == 1);
    }
}

#[test]
fn a_managing_node_that_was_stopped_between_two_requests_leaves_the_rest_out() {
    let mut network = network(2_000, &[1, 2, 3], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.run(20 * MS);
    let soc_ns = network.mn().next_soc_ns();
    network.run_until(soc_ns + 2 * US);
    // It has asked node 1, and waits. The response comes in time, and is read at once, or behind a stop.
    let waiting = network.mn().clone();
    network.record = Some(Vec::new());
    network.run(100 * US);
    let frames = network.record.take().unwrap();
    let (at_ns, response) = frames
        .iter()
        .find(|(_, f)| kind(f) == Some(MessageType::PRES))
        .unwrap();
    assert_eq!(response[16], 1);
    for (stop_ns, requests) in [(0, 1), (10 * MS, 1), (60 * MS, 0)] {
        let mut node = waiting.clone();
        let mut sent = Sent::default();
        node.reads_at(at_ns + 7 * US + stop_ns);
        node.frame(at_ns + 7 * US, response, &mut sent);
        let count = of_type(&sent.0, MessageType::PREQ).count();
        assert_eq!(count, requests, "stopped for {stop_ns} ns");
        assert_eq!(node.statistics().lapses, u64::from(requests == 0));
    }
}

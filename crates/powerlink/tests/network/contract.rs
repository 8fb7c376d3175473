//! The contract between the nodes and a port that sends for them: the order of their actions. Also a whole network of
//! ports that carry them out.

use crate::harness::*;
use crate::port::Asked;
use rtwire_powerlink::{LinkErrors, prepared};
use rtwire_wire::powerlink::{MessageType, NmtCommandId, NmtState, View, node};
use rtwire_wire::{Arm, Cue, Node};
use std::collections::BTreeMap;

const SOC: u8 = 1;
const SOA: u8 = 5;

fn answers(state: NmtState) -> bool {
    matches!(
        state,
        NmtState::PRE_OPERATIONAL_2 | NmtState::READY_TO_OPERATE | NmtState::OPERATIONAL
    )
}

const fn reply(cue: Cue, after_ns: u64) -> Asked {
    Asked::Arm(Arm {
        slot: prepared::RESPONSE,
        cue,
        after_ns,
        behind: None,
    })
}

/// Returns the actions of a station since the last call.
fn asked(network: &mut Network, at: usize) -> Vec<Asked> {
    let record = network.ports[at].record.replace(Vec::new());
    record.unwrap_or_default()
}

/// Returns the most PReqs or PRes of one node between two SoC.
fn most_in_a_cycle(record: &[(u64, Vec<u8>)]) -> u32 {
    let (mut most, mut counts) = (0, BTreeMap::new());
    for (_, frame) in record {
        let view = View::new(frame);
        let of = match view.message_type() {
            Some(MessageType::SOC) => {
                counts.clear();
                continue;
            }
            Some(MessageType::PREQ) => (MessageType::PREQ, view.destination()),
            Some(MessageType::PRES) => (MessageType::PRES, view.source()),
            _ => continue,
        };
        let count = counts.entry(format!("{of:?}")).or_insert(0);
        *count += 1;
        most = most.max(*count);
    }
    most
}

#[test]
fn a_controlled_node_arms_its_response_while_its_state_answers() {
    let mut network = network_with(true, 1000, &[1], |_| ());
    network.ports[1].record = Some(Vec::new());
    let slot = prepared::RESPONSE;
    let (mut seen, mut all) = (Vec::new(), Vec::new());
    let mut step = |network: &mut Network| {
        let before = network.states()[1];
        // So little that the state changes at most once.
        network.run(10 * US);
        let now = asked(network, 1);
        let state = network.states()[1];
        assert_eq!(network.ports[1].is_armed(), answers(state), "{state:?}");
        if answers(before) && !answers(state) {
            // In the very call that leaves the state; nothing is due behind it.
            let disarmed = now.iter().position(|asked| *asked == Asked::Disarm(slot));
            let behind = &now[disarmed.expect("it has left its state and not disarmed")..];
            assert_eq!(behind.len(), 1, "{behind:?}");
        }
        if seen.last() != Some(&state) {
            seen.push(state);
        }
        all.extend(now);
        state
    };
    while step(&mut network) != NmtState::OPERATIONAL {}
    for _ in 0..2000 {
        step(&mut network);
    }
    let now_ns = network.now_ns;
    network.mn().nmt(now_ns, NmtCommandId::RESET_NODE, 1);
    while step(&mut network) != NmtState::NOT_ACTIVE {}
    while step(&mut network) != NmtState::OPERATIONAL {}
    let cyclic = [
        NmtState::PRE_OPERATIONAL_1,
        NmtState::PRE_OPERATIONAL_2,
        NmtState::READY_TO_OPERATE,
        NmtState::OPERATIONAL,
    ];
    let from = [&[NmtState::NOT_ACTIVE][..], &cyclic].concat();
    assert!(seen.windows(4).any(|four| four == cyclic), "{seen:?}");
    assert!(seen.ends_with(&from), "{seen:?}");
    // A frame before it is armed; a reply that is due has left; no other frame is a PRes.
    assert_eq!(
        all.iter()
            .filter(|asked| matches!(asked, Asked::Prepare(_) | Asked::Arm(_)))
            .take(2)
            .collect::<Vec<_>>(),
        [&Asked::Prepare(slot), &reply(prepared::PREQ, 0)]
    );
    let due = |left| {
        all.iter()
            .filter(|asked| **asked == Asked::Due(slot, left))
            .count()
    };
    assert!(
        due(true) > 30 && due(false) == 0,
        "{} {}",
        due(true),
        due(false)
    );
    assert!(!all.contains(&Asked::Send(4)));
}

#[test]
fn an_armed_response_is_renewed_in_each_cycle() {
    let mut network = network_with(true, 1000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.ports[1].record = Some(Vec::new());
    network.run(50 * MS);
    let arms = asked(&mut network, 1);
    let arms = arms
        .iter()
        .filter(|asked| **asked == reply(prepared::PREQ, 0));
    let arms = arms.count();
    assert!((49..=51).contains(&arms), "{arms} in 50 cycles");
}

#[test]
fn what_the_application_changes_is_told_when_it_had_its_turn() {
    let mut network = network_with(true, 1000, &[1], |cdc| {
        // The first wrong check sequence is one too many.
        let mut own = cn_cdc(1000);
        own.push(0x1c0f, 3, 1, 4);
        cdc.push_data(0x1f22, 1, own.emit());
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    let slot = prepared::RESPONSE;
    let now_ns = network.now_ns;
    let Station::Cn(cn) = &mut network.stations[1] else {
        panic!()
    };
    let port = &mut network.ports[1];
    port.record = Some(Vec::new());
    cn.settle(port);
    assert_eq!(
        port.record.replace(Vec::new()).unwrap(),
        [],
        "nothing is new"
    );
    cn.image_mut().outputs[0] = 0x55;
    cn.commit();
    cn.settle(port);
    assert_eq!(
        port.record.replace(Vec::new()).unwrap(),
        [Asked::Prepare(slot)]
    );
    cn.commit();
    cn.settle(port);
    assert_eq!(
        port.record.replace(Vec::new()).unwrap(),
        [],
        "the same frame"
    );
    let seen = LinkErrors {
        crc: 8,
        ..LinkErrors::default()
    };
    cn.observe(now_ns, &seen);
    assert_eq!(cn.state(), NmtState::PRE_OPERATIONAL_1);
    cn.settle(port);
    assert_eq!(
        port.record.replace(Vec::new()).unwrap(),
        [Asked::Disarm(slot)]
    );
}

#[test]
fn requests_are_armed_before_their_soc_and_disarmed_behind_the_last_response() {
    let nodes = [1, 2, 3];
    let mut network = network_with(true, 1000, &nodes, |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    let soc_ns = network.mn().next_soc_ns();
    network.run_until(soc_ns - 100 * US);
    for cycle in 0..20 {
        assert!(!network.ports[0].is_armed(), "the phase is over");
        network.ports[0].record = Some(Vec::new());
        let until_ns = network.mn().next_soc_ns() + 900 * US;
        network.run_until(until_ns);
        let number = network.mn().statistics().cycles;
        let slot = |place: usize| prepared::request(number, place).unwrap();
        let mut expected = Vec::new();
        for (place, _) in nodes.iter().enumerate() {
            expected.push(Asked::Prepare(slot(place)));
            if place > 0 {
                expected.push(Asked::Arm(Arm {
                    slot: slot(place),
                    cue: prepared::pres(nodes[place - 1]),
                    after_ns: 0,
                    behind: Some(slot(place - 1)),
                }));
            }
        }
        expected.push(Asked::Send(SOC));
        expected.push(Asked::Due(slot(0), false));
        expected.push(Asked::Due(slot(1), true));
        expected.push(Asked::Due(slot(2), true));
        expected.push(Asked::Send(SOA));
        expected.push(Asked::Disarm(slot(0)));
        let all = asked(&mut network, 0);
        let all: Vec<_> = all.into_iter().take(expected.len()).collect();
        assert_eq!(all, expected, "cycle {cycle}");
    }
    // Two cycles in a row have other slots.
    let number = network.mn().statistics().cycles;
    assert_ne!(
        prepared::request(number, 0),
        prepared::request(number + 1, 0)
    );
    assert_eq!(prepared::request(number, prepared::REQUESTS), None);
    let all = (0..2).flat_map(|set| (0..prepared::REQUESTS).map(move |place| (set, place)));
    for (set, place) in all {
        let slot = prepared::request(set, place).unwrap();
        assert_eq!(prepared::place(slot), (set, place));
    }
}

#[test]
fn a_managing_node_that_resets_disarms_its_requests() {
    let mut network = network_with(true, 1000, &[1, 2, 3], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    // The first response is on its way.
    let soc_ns = network.mn().next_soc_ns();
    network.run_until(soc_ns + 5 * US);
    assert!(network.ports[0].is_armed());
    let (now_ns, number) = (network.now_ns, network.mn().statistics().cycles);
    network.mn().nmt(now_ns, NmtCommandId::RESET_NODE, node::MN);
    let Station::Mn(mn) = &mut network.stations[0] else {
        panic!()
    };
    let port = &mut network.ports[0];
    port.record = Some(Vec::new());
    mn.settle(port);
    let slot = prepared::request(number, 0).unwrap();
    assert_eq!(port.record.take().unwrap(), [Asked::Disarm(slot)]);
    let before = port.count;
    network.run(10 * MS);
    assert_eq!(network.ports[0].count, before);
}

#[test]
fn a_network_whose_ports_send_by_themselves_runs_as_any_other() {
    for sends in [false, true] {
        let mut network = network_with(sends, 1000, &[1, 2, 3], |_| ());
        network.run_till(5 * SECOND, "operational", Network::operational);
        network.record = Some(Vec::new());
        let before = network.mn().statistics();
        // Some responses are lost, some come late: what then is due leaves once all the same.
        let mut number = 0;
        network.judge = Some(Box::new(move |_, _, frame| {
            let view = View::new(frame);
            if view.message_type() != Some(MessageType::PRES) {
                return Fate::Deliver;
            }
            number += 1;
            match number % 101 {
                13 => Fate::Drop,
                57 => Fate::Delay(150 * US),
                _ => Fate::Deliver,
            }
        }));
        network.run(2 * SECOND);
        let record = network.record.take().unwrap();
        assert_eq!(most_in_a_cycle(&record), 1, "{sends}");
        let after = network.mn().statistics();
        let cycles = after.cycles - before.cycles;
        assert!((1999..=2001).contains(&cycles), "{sends}: {cycles}");
        assert_eq!(after.requests - before.requests, 3 * cycles, "{sends}");
        let lost = after.lost_responses - before.lost_responses;
        assert!((50..200).contains(&lost), "{sends}: {lost}");
        assert!(network.operational(), "{sends}");
        let by_ports: Vec<u64> = network.ports.iter().map(|port| port.count).collect();
        assert!(
            by_ports.iter().all(|count| (*count > 1500) == sends),
            "{by_ports:?}"
        );
    }
}

#[test]
fn a_chained_node_is_armed_on_the_managing_nodes_response() {
    let mut network = network_with(true, 1000, &[1, 2], |cdc| {
        for node in [1, 2] {
            cdc.push(0x1f81, node, 0x8000_400f, 4);
        }
    });
    network.ports[2].record = Some(Vec::new());
    network.run_till(5 * SECOND, "operational", Network::operational);
    let all = asked(&mut network, 2);
    let after_ns = all.iter().find_map(|asked| match asked {
        Asked::Arm(arm) if arm.cue == prepared::pres(node::MN) => Some(arm.after_ns),
        _ => None,
    });
    assert!(after_ns.is_some_and(|ns| ns > 10_000), "{after_ns:?}");
    let due = |left| Asked::Due(prepared::RESPONSE, left);
    assert!(all.contains(&due(true)));
    assert!(!all.contains(&due(false)));
    network.record = Some(Vec::new());
    let before = network.mn().statistics();
    network.run(100 * MS);
    assert_eq!(most_in_a_cycle(&network.record.take().unwrap()), 1);
    let after = network.mn().statistics();
    assert_eq!(after.lost_responses, before.lost_responses);
    assert!(after.responses - before.responses > 190);
}

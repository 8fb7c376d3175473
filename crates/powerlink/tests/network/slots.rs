//! Several asynchronous slots in a cycle: SoA and AInv (302-B). The frames on the medium are the referee.

use crate::harness::*;
use rtwire_powerlink::ControlledNode;
use rtwire_powerlink::cn::{ControlledConfig, Limits};
use rtwire_wire::powerlink::{Message, MessageType, Packet, RequestedService, View};

const NODES: [u8; 6] = [1, 2, 3, 4, 5, 6];
/// This one does not know AInv.
const SIMPLE: u8 = 6;

fn with_slots(cycle_us: u64, slots: u64) -> Network {
    let cdc = mn_cdc(cycle_us, &NODES, |cdc| cdc.push(0x1f8a, 3, slots, 1));
    let mut stations = vec![Station::Mn(Box::new(mn(&cdc)))];
    for node in NODES {
        let mut dictionary = cn_dictionary();
        let able = dictionary.number(0x1f82, 0);
        assert_ne!(able & 0x1_0000, 0);
        if node == SIMPLE {
            dictionary.set_number(0x1f82, 0, able & !0x1_0000);
        }
        let config = ControlledConfig {
            node,
            address: address(node),
            dictionary,
            limits: Limits {
                silence_ns: 0,
                ..Limits::default()
            },
        };
        stations.push(Station::Cn(Box::new(ControlledNode::new(config).unwrap())));
    }
    Network::new(stations)
}

/// The slots in the asynchronous phases of a recording.
#[derive(Default, Debug)]
struct Seen {
    most_in_cycle: u32,
    by_ainv: u32,
    to_others: u32,
    own: u32,
}

/// Checks each frame of a recording by the rules of the cycle.
fn examine(record: &[(u64, Vec<u8>)], cycle_ns: u64) -> Seen {
    let mut frames: Vec<&(u64, Vec<u8>)> = record.iter().collect();
    frames.sort_by_key(|(at_ns, _)| *at_ns);
    let mut seen = Seen::default();
    let (mut soc_ns, mut slots, mut open) = (0, 0, None);
    for (at_ns, frame) in frames {
        let view = View::new(frame);
        let end_ns = at_ns + (frame.len().max(60) as u64 + 24) * 80;
        match view.message_type() {
            Some(MessageType::SOC) => (soc_ns, slots, open) = (*at_ns, 0, None),
            Some(MessageType::SOA | MessageType::AINV) => {
                let Ok(packet) = Packet::parse(frame) else {
                    panic!("{frame:?}");
                };
                let (Message::Soa(soa) | Message::AInv(soa)) = packet.message else {
                    panic!("{packet:?}");
                };
                assert_eq!(open, None, "the slot of a node that has not answered");
                if view.message_type() == Some(MessageType::AINV) {
                    assert!(slots > 0 && soc_ns > 0, "an AInv follows a SoA of a cycle");
                    assert_ne!(soa.target, SIMPLE, "it does not know AInv");
                    let services = [
                        RequestedService::STATUS_REQUEST,
                        RequestedService::NMT_REQUEST_INVITE,
                        RequestedService::UNSPECIFIED_INVITE,
                    ];
                    assert!(services.contains(&soa.service), "{soa:?}");
                    seen.by_ainv += 1;
                    seen.own += u32::from(soa.target == 240);
                    seen.to_others += u32::from(soa.target != 240);
                }
                slots += 1;
                seen.most_in_cycle = seen.most_in_cycle.max(slots);
                let waits = soa.service != RequestedService::NO_SERVICE && soa.target != 240;
                open = waits.then_some(soa.target);
            }
            Some(MessageType::ASND) => {
                if view.source() != Some(240) {
                    assert_eq!(open.take(), view.source(), "only who is invited sends");
                }
                if soc_ns > 0 && slots > 1 {
                    assert!(
                        end_ns <= soc_ns + cycle_ns,
                        "it reaches into the next cycle"
                    );
                }
            }
            _ => {}
        }
    }
    seen
}

fn boot(slots: u64) -> (u64, Seen) {
    let mut network = with_slots(2000, slots);
    network.record = Some(Vec::new());
    let took_ns = network.run_till(20 * SECOND, "operational", Network::operational);
    let record = network.record.take().unwrap();
    // The reduced cycle has no SoC yet; its SoA follow each other anyway.
    let first = record
        .iter()
        .position(|(_, frame)| View::new(frame).message_type() == Some(MessageType::SOC));
    let reduced = &record[..first.unwrap()];
    let ainv =
        |(_, frame): &(u64, Vec<u8>)| View::new(frame).message_type() == Some(MessageType::AINV);
    assert!(!reduced.iter().any(ainv));
    let statistics = network.mn().statistics();
    assert_eq!(
        (statistics.lost_responses, statistics.skipped_cycles),
        (0, 0)
    );
    (took_ns, examine(&record[first.unwrap()..], 2 * MS))
}

#[test]
fn a_cycle_has_as_many_slots_as_are_set_and_a_boot_is_shorter_by_them() {
    let (one_ns, one) = boot(1);
    assert_eq!((one.most_in_cycle, one.by_ainv), (1, 0));
    let (four_ns, four) = boot(4);
    println!(
        "booted in {} ms, with four slots {} ms: {four:?}",
        one_ns / MS,
        four_ns / MS
    );
    assert_eq!(four.most_in_cycle, 4);
    assert!(four.own > 0 && four.to_others > 0);
    assert!(four_ns < one_ns);
}

/// Runs service data with all nodes for a while.
fn busy(network: &mut Network, cycle_ns: u64) -> Seen {
    network.record = Some(Vec::new());
    for _ in 0..20 {
        for node in NODES {
            let now_ns = network.now_ns;
            let job = rtwire_powerlink::sdo::SdoJob::Read(0x1008, 0);
            network.mn().submit(now_ns, node, job).unwrap();
        }
        network.run(10 * MS);
    }
    let record = network.record.take().unwrap();
    let first = record
        .iter()
        .position(|(_, frame)| View::new(frame).message_type() == Some(MessageType::SOC));
    examine(&record[first.unwrap()..], cycle_ns)
}

#[test]
fn no_slot_reaches_into_the_next_cycle() {
    // The isochronous phase takes some 110 µs here, and a slot up to 84 µs where the cycle has 200 µs.
    let most = [200, 400, 5000].map(|cycle_us| {
        let mut network = with_slots(cycle_us, 200);
        network.run_till(20 * SECOND, "operational", Network::operational);
        let seen = busy(&mut network, cycle_us * US);
        assert_eq!(network.mn().statistics().skipped_cycles, 0);
        seen.most_in_cycle
    });
    println!("most slots of a cycle of 200, 400 and 5000 µs: {most:?}");
    assert_eq!(most[0], 1);
    assert!(most[1] > 1 && most[2] > most[1], "{most:?}");
}

#[test]
fn a_slot_without_an_answer_is_the_last_of_its_cycle() {
    let mut network = with_slots(2000, 8);
    network.run_till(20 * SECOND, "operational", Network::operational);
    // One node's asynchronous frames are lost; `examine` finds an invitation behind them.
    network.judge = Some(Box::new(|_, from, frame| {
        if from == 2 && View::new(frame).message_type() == Some(MessageType::ASND) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    }));
    let seen = busy(&mut network, 2 * MS);
    assert!(seen.by_ainv > 0, "{seen:?}");
}

//! Faults and their effects.

use crate::harness::*;
use crate::port::Port;
use rtwire_powerlink::{ErrorCode, Event, LostReason, NodeEvent};
use rtwire_wire::powerlink::{
    Message, MessageType, NmtState, Packet, RequestedService, Soa, VERSION, View, multicast, node,
};
use rtwire_wire::{MacAddress, Node};

fn is(frame: &[u8], kind: MessageType) -> bool {
    View::new(frame).message_type() == Some(kind)
}

/// Sets the fate of every frame of this kind from now on.
fn every(network: &mut Network, kind: MessageType, fate: impl Fn() -> Fate + 'static) {
    network.judge = Some(Box::new(move |_, _, frame| {
        if is(frame, kind) {
            fate()
        } else {
            Fate::Deliver
        }
    }));
}

fn running(cycle_us: u64, nodes: &[u8]) -> Network {
    let mut network = network(cycle_us, nodes, |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.events.clear();
    network
}

fn lost(node: u8, reason: LostReason) -> impl Fn(usize, &Event) -> bool {
    move |_, event| {
        *event
            == Event::Node {
                node,
                what: NodeEvent::Lost(reason),
            }
    }
}

fn error(code: ErrorCode) -> impl Fn(usize, &Event) -> bool {
    move |_, event| matches!(event, Event::Error { code: found, .. } if *found == code)
}

#[test]
fn a_node_is_lost_and_comes_back() {
    let mut network = running(1000, &[1, 2]);
    network.cut_ns[1] = network.now_ns + 200 * MS;
    network.run(50 * MS);
    assert!(network.happened(lost(1, LostReason::Responses)).is_some());
    assert!(network.happened(error(ErrorCode::LOSS_OF_PRES)).is_some());
    // The other one is not touched.
    assert_eq!(network.states()[2], NmtState::OPERATIONAL);
    assert_eq!(network.states()[0], NmtState::OPERATIONAL);
    network.run_till(5 * SECOND, "back", Network::operational);
}

#[test]
fn single_losses_are_counted_and_forgiven() {
    let mut network = running(1000, &[1]);
    let mut responses = 0;
    network.judge = Some(Box::new(move |_, _, frame| {
        responses += u32::from(is(frame, MessageType::PRES));
        if is(frame, MessageType::PRES) && responses % 20 == 0 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    }));
    network.run(SECOND);
    let statistics = network.mn().statistics();
    assert!(
        (45..=55).contains(&statistics.lost_responses),
        "{statistics:?}"
    );
    assert!(network.operational());
    // Two close together are too much for the default threshold of 15.
    let mut left = 2;
    network.judge = Some(Box::new(move |_, _, frame| {
        if left > 0 && is(frame, MessageType::PRES) {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    }));
    network.run(20 * MS);
    assert!(network.happened(lost(1, LostReason::Responses)).is_some());
    network.run_till(5 * SECOND, "back", Network::operational);
}

#[test]
fn late_responses_are_told_from_lost_ones() {
    let mut network = running(1000, &[1]);
    let mut responses = 0;
    network.judge = Some(Box::new(move |_, _, frame| {
        responses += u32::from(is(frame, MessageType::PRES));
        let late = is(frame, MessageType::PRES) && responses % 20 == 0;
        if late {
            Fate::Delay(150 * US)
        } else {
            Fate::Deliver
        }
    }));
    network.run(SECOND);
    let statistics = network.mn().statistics();
    assert!(
        (45..=55).contains(&statistics.late_responses),
        "{statistics:?}"
    );
    assert!(network.operational());
}

#[test]
fn corrupt_responses_do_no_harm() {
    let mut network = running(1000, &[1]);
    let mut responses = 0_u32;
    network.judge = Some(Box::new(move |_, _, frame| {
        if is(frame, MessageType::PRES) {
            responses += 1;
            if responses % 30 == 0 {
                // A size that cannot be right; a state of no meaning; a frame cut short.
                match responses / 30 % 3 {
                    0 => frame[23] = 0xff,
                    1 => frame[17] = 0x77,
                    _ => frame.truncate(19),
                }
            }
        }
        Fate::Deliver
    }));
    network.run(2 * SECOND);
    assert!(network.mn().statistics().invalid_frames > 30);
    assert!(network.operational());
}

#[test]
fn lost_soc_bring_a_node_back_to_pre_operational_1() {
    let mut network = network(1000, &[1], |cdc| {
        // Strict: half a cycle of tolerance.
        let mut strict = cn_cdc(1000);
        strict.push(0x1c14, 0, 500_000, 4);
        cdc.push_data(0x1f22, 1, strict.emit());
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    // One loss is forgiven.
    let mut left = 1;
    network.judge = Some(Box::new(move |_, _, frame| {
        let soc = is(frame, MessageType::SOC);
        if soc && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    }));
    network.run(50 * MS);
    assert!(network.operational());
    assert_eq!(network.cn(1).statistics().lost_soc, 1);
    let mut left = 3;
    network.judge = Some(Box::new(move |_, _, frame| {
        let soc = is(frame, MessageType::SOC);
        if soc && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    }));
    network.run(10 * MS);
    assert!(network.happened(error(ErrorCode::LOSS_OF_SOC)).is_some());
    network.run_till(5 * SECOND, "back", Network::operational);
    // The managing node was told why.
    let told = |_: usize, event: &Event| match event {
        Event::Node {
            what: NodeEvent::Errors(errors),
            ..
        } => errors
            .iter()
            .any(|entry| entry.code == ErrorCode::LOSS_OF_SOC.0),
        _ => false,
    };
    network.run(100 * MS);
    assert!(network.happened(told).is_some());
}

#[test]
fn lost_soa_and_preq_are_counted_too() {
    for kind in [MessageType::SOA, MessageType::PREQ] {
        // The managing node is more patient than the node, which so is the first to complain.
        let mut network = network(1000, &[1], |cdc| cdc.push(0x1c09, 1, 40, 4));
        network.run_till(5 * SECOND, "operational", Network::operational);
        network.events.clear();
        let mut left = 2;
        network.judge = Some(Box::new(move |_, _, frame| {
            if left > 0 && is(frame, kind) {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Deliver
        }));
        network.run(20 * MS);
        let code = match kind {
            MessageType::SOA => ErrorCode::LOSS_OF_SOA,
            _ => ErrorCode::LOSS_OF_PREQ,
        };
        assert!(network.happened(error(code)).is_some(), "{kind}");
        network.run_till(5 * SECOND, "back", Network::operational);
    }
}

#[test]
fn two_nodes_of_one_number_are_noticed() {
    let cdc = mn_cdc(1000, &[1], |_| ());
    let mut twin = rtwire_powerlink::cn::ControlledConfig {
        node: 1,
        address: MacAddress([2, 0, 0, 0, 9, 9]),
        dictionary: cn_dictionary(),
        limits: rtwire_powerlink::cn::Limits {
            silence_ns: 0,
            ..rtwire_powerlink::cn::Limits::default()
        },
    };
    twin.dictionary.set_number(0x1018, 1, 0x42);
    let stations = vec![
        Station::Mn(Box::new(mn(&cdc))),
        Station::Cn(Box::new(cn(1))),
        Station::Cn(Box::new(
            rtwire_powerlink::ControlledNode::new(twin).unwrap(),
        )),
    ];
    let mut network = Network::new(stations);
    network.run(3 * SECOND);
    let duplicate = |_: usize, event: &Event| {
        matches!(
            event,
            Event::Node {
                node: 1,
                what: NodeEvent::Duplicate { .. }
            }
        )
    };
    assert!(network.happened(duplicate).is_some());
    assert!(
        network
            .happened(error(ErrorCode::ADDRESS_CONFLICT))
            .is_some()
    );
}

#[test]
fn a_wrong_identity_is_refused_and_told() {
    let mut network = network(1000, &[1], |cdc| cdc.push(0x1f85, 1, 0x43, 4));
    network.run(4 * SECOND);
    let wrong = |_: usize, event: &Event| {
        *event
            == Event::Node {
                node: 1,
                what: NodeEvent::WrongIdentity {
                    code: ErrorCode::WRONG_VENDOR,
                    expected: 0x43,
                    found: 0x42,
                },
            }
    };
    assert!(network.happened(wrong).is_some());
    assert_eq!(network.states()[0], NmtState::PRE_OPERATIONAL_1);
}

#[test]
fn the_cable_is_pulled_in_each_state() {
    // The moments are spread over the boot and beyond.
    for tenth in 9..40 {
        let mut network = network(1000, &[1, 2], |_| ());
        network.run_until(tenth * 50 * MS);
        network.cut_ns[1] = network.now_ns + 300 * MS;
        network.run(310 * MS);
        network.run_till(10 * SECOND, "operational after all", Network::operational);
        network.run(100 * MS);
        assert!(network.operational(), "pulled at {} ms", tenth * 50);
    }
}

#[test]
fn a_stall_of_two_milliseconds_is_survived_at_250_us() {
    let mut network = running(250, &[1]);
    let before = network.mn().statistics();
    for _ in 0..20 {
        // The whole machine: nobody is woken, nothing is sent.
        let until_ns = network.now_ns + 2 * MS;
        network.stalled_ns = vec![until_ns; 2];
        network.run(50 * MS);
        assert!(network.operational());
    }
    let after = network.mn().statistics();
    assert_eq!(after.own_stalls - before.own_stalls, 20);
    // 2 ms are eight cycles: they are skipped and counted, never sent in a burst.
    assert!(
        (140..=180).contains(&(after.skipped_cycles - before.skipped_cycles)),
        "{after:?}"
    );
}

#[test]
fn stalls_of_two_milliseconds_one_behind_the_other_are_survived() {
    // Between them the machine is awake for more than a cycle, or for less.
    for awake_us in [300, 150, 60] {
        let mut network = running(250, &[1]);
        for _ in 0..50 {
            let until_ns = network.now_ns + 2 * MS;
            network.stalled_ns = vec![until_ns; 2];
            network.run(2 * MS + awake_us * US);
            // Each at another place of the cycle.
            network.run(7 * US);
        }
        assert!(network.operational(), "{:?}", network.events);
        assert_eq!(
            network.happened(error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN)),
            None
        );
        // The managing node alone: its nodes wait for it.
        for _ in 0..50 {
            network.stalled_ns[0] = network.now_ns + 2 * MS;
            network.run(2 * MS + awake_us * US + 7 * US);
        }
        network.run(50 * MS);
        assert!(network.operational(), "{:?}", network.events);
        assert!(network.mn().statistics().own_stalls >= 100);
    }
}

#[test]
fn a_managing_node_that_wakes_late_does_not_blame_the_cycle() {
    // Nothing is held against the node whose responses are dropped here.
    let mut network = network(250, &[1], |cdc| {
        cdc.push(0x1c09, 1, 0, 4);
        cdc.push(0x1f92, 1, 200_000, 4);
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.events.clear();
    let skipped = network.mn().statistics().skipped_cycles;
    for _ in 0..30 {
        every(&mut network, MessageType::PRES, || Fate::Drop);
        // No response, and the managing node wakes from its timeout behind the next SoC's time: less late than what
        // counts as a stall.
        let soc_ns = network.mn().next_soc_ns();
        network.run_until(soc_ns + 50 * US);
        network.stalled_ns[0] = soc_ns + 255 * US;
        network.run_until(soc_ns + 300 * US);
        network.judge = None;
        network.run_until(soc_ns + 480 * US);
    }
    let statistics = network.mn().statistics();
    assert!(
        statistics.skipped_cycles >= skipped + 20,
        "the cycle was exceeded: {statistics:?}"
    );
    let exceeded = error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN);
    assert_eq!(network.happened(exceeded), None);
    // And the node misses no SoA.
    assert!(network.operational(), "{:?}", network.events);
    let Station::Cn(node) = &network.stations[1] else {
        panic!("a controlled node");
    };
    assert_eq!(node.statistics().lost_soa, 0);
}

#[test]
fn a_response_that_gets_another_chance_and_does_not_come_does_not_blame_the_cycle() {
    // Nothing is held against the node whose responses are dropped here.
    let mut network = network(250, &[1], |cdc| {
        cdc.push(0x1c09, 1, 0, 4);
        cdc.push(0x1f92, 1, 190_000, 4);
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.events.clear();
    let before = network.mn().statistics();
    // The managing node wakes so late that it looks once more for the response, and that look takes longer than what it was
    // late by.
    for woken_us in 330..370 {
        every(&mut network, MessageType::PRES, || Fate::Drop);
        let soc_ns = network.mn().next_soc_ns();
        network.run_until(soc_ns + 20 * US);
        network.stalled_ns[0] = soc_ns + woken_us * US;
        network.run_until(soc_ns + 600 * US);
        network.judge = None;
        network.run_until(soc_ns + 730 * US);
    }
    let after = network.mn().statistics();
    assert!(
        after.skipped_cycles >= before.skipped_cycles + 30,
        "{after:?}"
    );
    assert!(after.own_stalls >= before.own_stalls + 30, "{after:?}");
    let exceeded = error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN);
    assert_eq!(network.happened(exceeded), None);
    assert!(network.operational(), "{:?}", network.events);
}

#[test]
fn a_response_read_behind_a_deadline_that_was_slept_over_does_not_blame_the_cycle() {
    let mut network = running(250, &[1]);
    let before = network.mn().statistics();
    // The response is held up, too, as where both stand on one machine. Had the managing node been awake at the deadline, it
    // would have gone on without it.
    for late_us in 240..440 {
        let late = move || Fate::Delay(late_us * US);
        every(&mut network, MessageType::PRES, late);
        let soc_ns = network.mn().next_soc_ns();
        network.run_until(soc_ns + 20 * US);
        network.judge = None;
        network.stalled_ns[0] = soc_ns + 490 * US;
        network.run_until(soc_ns + 730 * US);
    }
    let after = network.mn().statistics();
    assert!(
        after.skipped_cycles >= before.skipped_cycles + 190,
        "{after:?}"
    );
    assert_eq!(after.lost_responses, before.lost_responses);
    let exceeded = error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN);
    assert_eq!(network.happened(exceeded), None);
    assert!(network.operational(), "{:?}", network.events);
}

#[test]
fn a_soc_that_leaves_almost_a_cycle_late_does_not_blame_the_cycle() {
    // So late that the responses are behind the next SoC's time.
    for (nodes, late_us) in [(&[1][..], 486..499), (&[1, 2, 3, 4, 5, 6, 7, 8], 370..470)] {
        let mut network = running(500, nodes);
        let before = network.mn().statistics();
        for late_us in late_us.clone().chain(late_us) {
            let soc_ns = network.mn().next_soc_ns();
            network.run_until(soc_ns - 10 * US);
            network.stalled_ns[0] = soc_ns + late_us * US;
            network.run_until(soc_ns + 1_100 * US);
        }
        let after = network.mn().statistics();
        assert!(
            after.skipped_cycles > before.skipped_cycles + 20,
            "{after:?}"
        );
        let exceeded = network.happened(error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN));
        assert_eq!(exceeded, None);
        assert!(network.operational(), "{:?}", network.events);
    }
}

#[test]
fn a_managing_node_that_is_stalled_while_it_sends_does_not_blame_the_cycle() {
    // Also by less than a cycle, where that is far beyond what sending usually takes.
    for (told, late_ns) in [(true, 400 * US), (true, 230 * US), (false, 400 * US)] {
        let mut network = running(250, &[1]);
        let before = network.mn().statistics();
        for _ in 0..30 {
            // Most of the time it takes what it usually takes.
            for _ in 0..20 {
                let soc_ns = network.mn().next_soc_ns();
                network.run_until(soc_ns + 10 * US);
                network.mn().sending_took(8 * US);
            }
            network.run(100 * US);
            // Its requests leave late, and so the responses come late; it is not woken late.
            every(&mut network, MessageType::PREQ, move || {
                Fate::Delay(late_ns)
            });
            let soc_ns = network.mn().next_soc_ns();
            network.run_until(soc_ns + 10 * US);
            if told {
                network.mn().sending_took(late_ns);
            }
            network.run_until(soc_ns + 480 * US);
            network.judge = None;
        }
        let after = network.mn().statistics();
        let exceeded = network.happened(error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN));
        if told {
            assert_eq!(exceeded, None);
            assert_eq!(after.late_responses, before.late_responses);
            assert_eq!(after.lost_responses, before.lost_responses);
            assert!(after.own_stalls >= before.own_stalls + 30);
            assert!(network.operational(), "{:?}", network.events);
        } else {
            // Nothing tells that it was stalled: it is the network that is too slow.
            assert!(after.lost_responses + after.late_responses > before.lost_responses);
        }
    }
}

#[test]
fn requests_that_each_leave_a_little_late_do_not_blame_the_cycle() {
    // Each by less than what counts as a stall; together they are behind the next SoC's time.
    const LATE_NS: u64 = 40 * US;
    for told in [true, false] {
        let mut network = network(450, &[1, 2, 3, 4, 5, 6, 7, 8], |cdc| {
            for node in 1..=8 {
                cdc.push(0x1f92, node, 100_000, 4);
            }
        });
        network.run_till(5 * SECOND, "operational", Network::operational);
        network.events.clear();
        let before = network.mn().statistics();
        for round in 0..30 {
            // Most of the time it takes what it usually takes.
            for _ in 0..if round == 0 { 200 } else { 4 } {
                let soc_ns = network.mn().next_soc_ns();
                network.run_until(soc_ns + 10 * US);
                network.mn().sending_took(8 * US);
            }
            network.run(300 * US);
            every(&mut network, MessageType::PREQ, || Fate::Delay(LATE_NS));
            let soc_ns = network.mn().next_soc_ns();
            for request in 0..8 {
                network.run_until(soc_ns + request * 60 * US + 30 * US);
                if told {
                    network.mn().sending_took(8 * US + LATE_NS);
                }
            }
            network.run_until(soc_ns + 880 * US);
            network.judge = None;
        }
        let after = network.mn().statistics();
        let exceeded = network.happened(error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN));
        if told {
            assert!(
                after.skipped_cycles >= before.skipped_cycles + 30,
                "{after:?}"
            );
            assert_eq!(after.own_stalls, before.own_stalls);
            assert_eq!(exceeded, None);
            assert!(network.operational(), "{:?}", network.events);
        } else {
            assert!(exceeded.is_some(), "{after:?}");
        }
    }
}

#[test]
fn sending_that_is_slow_at_all_times_is_no_stall() {
    let mut network = running(250, &[1]);
    let stalls = |network: &mut Network| network.mn().statistics().own_stalls;
    for _ in 0..1000 {
        network.mn().sending_took(200 * US);
    }
    let learnt = stalls(&mut network);
    for _ in 0..1000 {
        network.mn().sending_took(200 * US);
    }
    assert_eq!(stalls(&mut network), learnt);
    assert!(learnt < 100, "{learnt}");
}

#[test]
fn too_many_long_stalls_bring_the_managing_node_back() {
    let mut network = running(250, &[1]);
    for _ in 0..4 {
        let until_ns = network.now_ns + 4 * MS;
        network.stalled_ns = vec![until_ns; 2];
        network.run(4 * MS + 300 * US);
    }
    assert!(
        network
            .happened(error(ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN))
            .is_some()
    );
    network.run_till(5 * SECOND, "back", Network::operational);
}

#[test]
fn a_silent_managing_node_leaves_nodes_in_pre_operational_1() {
    let mut network = running(1000, &[1]);
    network.cut_ns[0] = u64::MAX;
    network.run(SECOND);
    assert_eq!(network.states()[1], NmtState::PRE_OPERATIONAL_1);
}

/// An invitation to send, as a SoA or between two of them (AInv).
fn invitation(is_soa: bool, source: u8, target: u8) -> Vec<u8> {
    let soa = Soa {
        state: NmtState::PRE_OPERATIONAL_1,
        exception_acknowledge: false,
        exception_reset: false,
        service: RequestedService::IDENT_REQUEST,
        target,
        version: VERSION,
        redundancy: 0,
        sync: None,
    };
    let packet = Packet {
        destination_address: if is_soa {
            multicast::SOA
        } else {
            multicast::ASND
        },
        source_address: address(source),
        destination: node::BROADCAST,
        source,
        message: if is_soa {
            Message::Soa(soa)
        } else {
            Message::AInv(soa)
        },
    };
    let mut frame = [0; 64];
    let octets = packet.emit(&mut frame).unwrap();
    frame[..octets.max(60)].to_vec()
}

/// Two nodes that answer at once would collide.
#[test]
fn only_who_is_invited_by_the_managing_node_sends() {
    for is_soa in [true, false] {
        for (source, target, answers) in [
            (240, 1, 1),
            (240, 2, 0),
            (240, 0, 0),
            (240, node::BROADCAST, 0),
            (2, 1, 0),
        ] {
            let (mut station, mut port) = (cn(1), Port::default());
            station.start(MS, &mut port);
            // It knows of the managing node, and nobody is invited.
            station.frame(2 * MS, &invitation(true, 240, 0), &mut port);
            assert_eq!(station.state(), NmtState::PRE_OPERATIONAL_1);
            port.frames.clear();
            station.frame(3 * MS, &invitation(is_soa, source, target), &mut port);
            assert_eq!(
                port.frames.len(),
                answers,
                "SoA {is_soa}, from {source}, for {target}"
            );
        }
    }
}

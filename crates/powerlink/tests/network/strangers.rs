//! Strangers: their requests are refused, and of two managing nodes one is left. Also the silence behind a reset.

use crate::harness::*;
use crate::safety::{Sent, kind, next_frames, operational_node};
use rtwire_powerlink::cn::{ControlledConfig, Limits};
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_powerlink::{ControlledNode, ErrorCode, Event, ManagingNode};
use rtwire_wire::powerlink::{AsndService, MessageType, NmtState, View};
use rtwire_wire::{MacAddress, Node};

#[test]
fn requests_of_strangers_are_refused_and_counted() {
    let (mut node, frames) = operational_node(40);
    let (mut right, mut forged, mut answers) = (0, 0, 0);
    for (at_ns, frame) in &frames {
        let mut sent = Sent::default();
        if kind(frame) == Some(MessageType::PREQ) {
            // From another address, from another number, and both; with other data.
            for (mac, source) in [(9, 240), (240, 9), (9, 9)] {
                let mut copy = frame.clone();
                (copy[11], copy[16]) = (mac, source);
                copy[24] = 0x5a;
                node.frame(*at_ns, &copy, &mut sent);
                forged += 1;
            }
            assert!(sent.0.is_empty(), "a forged request is answered");
            assert_ne!(node.image().inputs[0], 0x5a);
            right += 1;
        }
        // A forged reset, and the SoC of a stranger, do nothing either.
        if kind(frame) == Some(MessageType::SOC) {
            let mut soc = frame.clone();
            soc[11] = 9;
            node.frame(*at_ns, &soc, &mut sent);
            forged += 1;
        }
        node.frame(*at_ns, frame, &mut sent);
        answers += sent
            .0
            .iter()
            .filter(|f| kind(f) == Some(MessageType::PRES))
            .count();
    }
    assert_eq!(answers, right);
    assert_eq!(node.statistics().foreign_requests, forged);
    assert_eq!(node.state(), NmtState::OPERATIONAL);
    // Where the managing node was replaced, its successor is heard once the old one is silent.
    let later_ns = frames.last().unwrap().0 + 100 * MS;
    for (at_ns, frame) in frames
        .iter()
        .filter(|(_, f)| kind(f) == Some(MessageType::SOC))
    {
        let mut soc = frame.clone();
        soc[11] = 9;
        node.frame(later_ns + at_ns - frames[0].0, &soc, &mut Sent::default());
    }
    let mut successor = address(240);
    successor.0[5] = 9;
    assert_eq!(node.managing_address(), Some(successor));
}

#[test]
fn a_response_of_a_stranger_as_node_240_is_neither_answered_nor_taken() {
    // PollResponse chaining: the managing node's response asks all, and has data for node 1.
    let mut network = network(2_000, &[1, 2], |cdc| {
        for node in [1, 2] {
            cdc.push(0x1f81, node, 0x8000_400f, 4);
        }
        cdc.push(0x1802, 1, 0, 1);
        cdc.push(0x1a02, 1, mapping(0xa402, 0, 1), 8);
        cdc.push(0x1a02, 0, 1, 1);
        let mut own = cn_cdc(2_000);
        own.push(0x1401, 1, 240, 1);
        own.push(0x1601, 1, mapping(0x6000, 0, 1), 8);
        own.push(0x1601, 0, 1, 1);
        // Node 240 is watched, for 20 ms.
        own.push(0x1016, 1, 0x00f0_0014, 4);
        cdc.push_data(0x1f22, 1, own.emit());
    });
    let (mut node, frames) = next_frames(&mut network, 40 * MS);
    let channel = node.image().receive_of(240).unwrap();
    let at = node.image().receive[channel].at;
    let (mut right, mut forged) = (0, 0);
    for (at_ns, frame) in &frames {
        if kind(frame) == Some(MessageType::PRES) {
            let mut sent = Sent::default();
            let mut copy = frame.clone();
            copy[11] = 9;
            copy[24] = 0x5a;
            node.frame(*at_ns, &copy, &mut sent);
            assert!(sent.0.is_empty(), "a forged response is answered");
            assert_ne!(node.image().inputs[at], 0x5a);
            forged += 1;
            node.frame(*at_ns, frame, &mut sent);
            assert_eq!(sent.0.len(), 1);
            assert!(node.image().validity(channel).age_cycles == Some(0));
            right += 1;
        } else {
            node.frame(*at_ns, frame, &mut Sent::default());
        }
    }
    assert!(right >= 19, "{right}");
    assert_eq!(node.statistics().foreign_requests, forged);
    // The managing node falls silent. A stranger does not keep its heartbeat alive.
    while node.next_event().is_some() {}
    let (last_ns, _) = *frames.last().unwrap();
    let mut copy = frames
        .iter()
        .find(|(_, frame)| kind(frame) == Some(MessageType::PRES))
        .unwrap()
        .1
        .clone();
    copy[11] = 9;
    for passed_ms in 1..=25 {
        let now_ns = last_ns + passed_ms * MS;
        node.frame(now_ns, &copy, &mut Sent::default());
        node.moment(now_ns, &mut Sent::default());
    }
    let silent = Event::Heartbeat {
        node: 240,
        silent: true,
    };
    let events: Vec<_> = std::iter::from_fn(|| node.next_event()).collect();
    assert!(events.contains(&silent), "{events:?}");
}

#[test]
fn a_node_is_silent_behind_each_reset() {
    let cdc = mn_cdc(10_000, &[1], |_| ());
    let config = ControlledConfig {
        node: 1,
        address: address(1),
        dictionary: cn_dictionary(),
        limits: Limits::default(),
    };
    let node = ControlledNode::new(config).unwrap();
    let stations = vec![Station::Mn(Box::new(mn(&cdc))), Station::Cn(Box::new(node))];
    let mut network = Network::new(stations);
    network.record = Some(Vec::new());
    network.run_till(8 * SECOND, "operational", Network::operational);
    let frames = network.record.take().unwrap();
    let mut reset_ns = MS;
    let (mut resets, mut words) = (0, 0);
    for (at_ns, frame) in &frames {
        let view = View::new(frame);
        let command = view.asnd_service() == Some(AsndService::NMT_COMMAND);
        if command && matches!(frame[18], 0x28..=0x2b) {
            (reset_ns, resets) = (*at_ns, resets + 1);
        } else if view.source() == Some(1) {
            assert!(
                at_ns - reset_ns >= 600 * MS,
                "{} ms",
                (at_ns - reset_ns) / MS
            );
            words += 1;
        }
    }
    assert!(resets >= 2 && words > 10, "{resets} {words}");
}

/// An NMT command for a list of nodes, to all.
fn command_for(list: u8, command: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&[1, 0x11, 0x1e, 0, 0, 4]);
    frame[6..12].copy_from_slice(&address(240).0);
    frame[12..18].copy_from_slice(&[0x88, 0xab, 6, 255, 240, 4]);
    frame[18] = command;
    frame[20 + usize::from(list / 8)] |= 1 << (list % 8);
    frame
}

#[test]
fn a_reset_of_a_list_of_nodes_is_obeyed_in_the_silence_too() {
    let silent_ns = 600 * MS;
    for (list, command, obeyed) in [
        (1, 0x4a, true),
        (1, 0x4b, true),
        (1, 0x48, true),
        (1, 0x49, true),
        (2, 0x4a, false),
        // Start node, with a list: no reset.
        (1, 0x41, false),
    ] {
        let config = ControlledConfig {
            node: 1,
            address: address(1),
            dictionary: cn_dictionary(),
            limits: Limits::default(),
        };
        let mut node = ControlledNode::new(config).unwrap();
        node.start(MS, &mut Sent::default());
        while node.next_event().is_some() {}
        let reset_ns = 400 * MS;
        let frame = command_for(list, command);
        node.frame(reset_ns, &frame, &mut Sent::default());
        assert_eq!(node.next_event().is_some(), obeyed, "{list} {command:x}h");
        // A SoA brings it to PreOperational1 once the silence is over.
        let mut soa = vec![0; 60];
        soa[..6].copy_from_slice(&[1, 0x11, 0x1e, 0, 0, 3]);
        soa[6..12].copy_from_slice(&address(240).0);
        soa[12..18].copy_from_slice(&[0x88, 0xab, 5, 255, 240, 0x1d]);
        let between_ns = MS + silent_ns + 100 * MS;
        node.frame(between_ns, &soa, &mut Sent::default());
        assert_eq!(node.state() == NmtState::NOT_ACTIVE, obeyed);
        node.frame(reset_ns + silent_ns + MS, &soa, &mut Sent::default());
        assert_eq!(node.state(), NmtState::PRE_OPERATIONAL_1);
    }
}

fn with_address(cdc: &rtwire_powerlink::Cdc, last: u8) -> ManagingNode {
    let own = MacAddress([2, 0, 0, 0, 0xff, last]);
    ManagingNode::new(ManagingConfig::from_cdc(own, cdc).unwrap()).unwrap()
}

/// Two networks, each with an operational managing node, that are joined after 6 s.
fn joined(cycles_us: [u64; 2]) -> Network {
    let alone =
        |node: u8| move |cdc: &mut rtwire_powerlink::Cdc| cdc.push(0x1f81, node, 0x8000_0007, 4);
    let cdcs = [1, 2].map(|node| mn_cdc(cycles_us[usize::from(node) - 1], &[node], alone(node)));
    let stations = vec![
        Station::Mn(Box::new(with_address(&cdcs[0], 1))),
        Station::Mn(Box::new(with_address(&cdcs[1], 2))),
        Station::Cn(Box::new(cn(1))),
    ];
    let mut network = Network::new(stations);
    network.cut_ns[1] = 6 * SECOND;
    network.run_until(6 * SECOND - MS);
    assert!(network.operational() || network.states()[1] == NmtState::OPERATIONAL);
    assert_eq!(network.states()[..2], [NmtState::OPERATIONAL; 2]);
    network
}

#[test]
fn of_two_managing_nodes_one_is_left_and_says_so() {
    for cycles_us in [[2_000, 2_000], [2_000, 10_000], [50_000, 2_000]] {
        let mut network = joined(cycles_us);
        network.run_until(8 * SECOND);
        assert_eq!(network.states()[0], NmtState::OPERATIONAL, "{cycles_us:?}");
        assert_eq!(
            network.states()[1],
            NmtState::NOT_ACTIVE,
            "the higher address yields"
        );
        let code = ErrorCode::YIELDED;
        let told = Event::Error { node: 240, code };
        assert!(
            network
                .happened(|at, event| at == 1 && *event == told)
                .is_some()
        );
        network.run_until(20 * SECOND);
        // It sends nothing while the other one is there, and takes over when it is gone.
        network.record = Some(Vec::new());
        network.run(SECOND);
        let frames = network.record.take().unwrap();
        assert!(
            frames.iter().all(|(_, frame)| frame[11] != 2),
            "{cycles_us:?}"
        );
        assert_eq!(network.states()[0], NmtState::OPERATIONAL);
        network.cut_ns[0] = u64::MAX;
        network.run(8 * SECOND);
        assert_eq!(network.states()[1], NmtState::OPERATIONAL, "{cycles_us:?}");
    }
}

#[test]
fn a_rival_that_never_yields_is_yielded_to() {
    // A recording of another managing node, with a higher address, that goes on whatever it hears.
    let mut network = joined([2_000, 10_000]);
    let soc = {
        let mut one = network_of_one();
        one[11] = 9;
        one
    };
    network.cut_ns[1] = u64::MAX;
    let begun_ns = network.now_ns;
    let mut yielded = None;
    while network.now_ns < begun_ns + 5 * SECOND && yielded.is_none() {
        network.run(2 * MS);
        let now_ns = network.now_ns;
        network.mn().frame(now_ns, &soc, &mut Sent::default());
        if network.states()[0] == NmtState::NOT_ACTIVE {
            yielded = Some(now_ns - begun_ns);
        }
    }
    let after_ns = yielded.expect("never");
    assert!((900 * MS..1200 * MS).contains(&after_ns), "{after_ns}");
    // A stray frame or two stop nobody, whatever address they have.
    for last in [0, 9] {
        let mut soc = soc.clone();
        soc[11] = last;
        let mut network = joined([2_000, 10_000]);
        network.cut_ns[1] = u64::MAX;
        for _ in 0..20 {
            for _ in 0..2 {
                let now_ns = network.now_ns;
                network.mn().frame(now_ns, &soc, &mut Sent::default());
            }
            network.run(600 * MS);
        }
        assert_eq!(network.states()[0], NmtState::OPERATIONAL, "{last}");
    }
}

#[test]
fn rivals_that_take_turns_are_heard_together() {
    let soc = network_of_one();
    // Addresses of the rivals, each heard every 200 ms, one behind the other; the time until this node yields.
    for (rivals, yields_ms) in [([8, 9], 900..1_300), ([0, 9], 200..250), ([9, 0], 200..250)] {
        let mut network = joined([2_000, 10_000]);
        network.cut_ns[1] = u64::MAX;
        let begun_ns = network.now_ns;
        let mut yielded = None;
        for last in rivals.into_iter().cycle().take(50) {
            let now_ns = network.now_ns;
            let mut soc = soc.clone();
            soc[11] = last;
            network.mn().frame(now_ns, &soc, &mut Sent::default());
            if network.states()[0] == NmtState::NOT_ACTIVE {
                yielded = Some((now_ns - begun_ns) / MS);
                break;
            }
            network.run(100 * MS);
        }
        let after_ms = yielded.expect("never");
        assert!(yields_ms.contains(&after_ms), "{rivals:?}: {after_ms} ms");
    }
}

#[test]
fn who_has_yielded_calls_no_node_its_own_and_no_input_live() {
    // The first one manages node 1, and yields to the second one, which is there from 6 s on.
    let cdc = mn_cdc(2_000, &[1], |_| ());
    let stations = vec![
        Station::Mn(Box::new(with_address(&cdc, 2))),
        Station::Mn(Box::new(with_address(&cdc, 1))),
        Station::Cn(Box::new(cn(1))),
    ];
    let mut network = Network::new(stations);
    network.cut_ns[1] = 6 * SECOND;
    network.run_until(6 * SECOND - MS);
    assert_eq!(network.states()[0], NmtState::OPERATIONAL);
    let own = |network: &mut Network| {
        let node = network.mn();
        let known = node.nodes().next().unwrap();
        (
            known.operational,
            known.state,
            node.image().validity(0).live,
        )
    };
    assert_eq!(own(&mut network), (true, NmtState::OPERATIONAL, true));
    network.run_till(3 * SECOND, "yields", |network| {
        network.states()[0] == NmtState::NOT_ACTIVE
    });
    let mut taken_over = false;
    for _ in 0..2_000 {
        assert_eq!(own(&mut network), (false, NmtState::NOT_ACTIVE, false));
        network.run(5 * MS);
        taken_over |= network.states()[1..] == [NmtState::OPERATIONAL; 2];
    }
    assert!(taken_over, "{:?}", network.states());
}

/// A SoC of node 240 with an address above all others here.
fn network_of_one() -> Vec<u8> {
    let (_, frames) = operational_node(2);
    let mut soc = frames
        .into_iter()
        .find(|(_, f)| kind(f) == Some(MessageType::SOC))
        .unwrap()
        .1;
    soc[6..12].copy_from_slice(&[2, 0, 0, 0, 0xff, 9]);
    soc
}

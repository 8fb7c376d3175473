//! From power-on to process data.

use crate::harness::*;
use rtwire_powerlink::sdo::{SdoJob, SdoOutcome};
use rtwire_powerlink::{Event, NodeEvent};
use rtwire_wire::powerlink::{
    MessageType, NmtCommandId, NmtState, RequestedService, View, node_list_contains,
};

#[test]
fn three_nodes_become_operational_and_exchange_data() {
    let mut network = network(1000, &[1, 32, 110], |_| ());
    network.record = Some(Vec::new());
    let took_ns = network.run_till(5 * SECOND, "operational", Network::operational);
    // Most of it is the second in which the managing node listens.
    assert!(took_ns < 2 * SECOND, "{took_ns}");
    let configured = |node| move |_: usize, event: &Event| matches!(event, Event::Node { node: n, what: NodeEvent::Configured } if *n == node);
    for node in [1, 32, 110] {
        assert!(network.happened(configured(node)).is_some());
    }
    // Outputs of the managing node arrive at the nodes, their inputs at the managing node.
    for (n, at) in [1, 2, 3].into_iter().enumerate() {
        let image = network.mn().image_mut();
        image.outputs[n] = 0x10 + n as u8;
        network.cn(at).image_mut().outputs[0] = 0x20 + n as u8;
    }
    network.run(50 * MS);
    assert_eq!(network.mn().image().inputs, [0x20, 0x21, 0x22]);
    for (n, at) in [1, 2, 3].into_iter().enumerate() {
        assert_eq!(network.cn(at).image().inputs, [0x10 + n as u8]);
    }
    // A SoC each millisecond, on the grid to the nanosecond.
    let record = network.record.take().unwrap();
    let socs: Vec<u64> = record
        .iter()
        .filter(|(_, frame)| View::new(frame).message_type() == Some(MessageType::SOC))
        .map(|(ns, _)| *ns)
        .collect();
    assert!(socs.len() > 20);
    assert!(socs.windows(2).all(|pair| pair[1] - pair[0] == MS));
    let statistics = network.mn().statistics();
    assert_eq!(
        (statistics.lost_responses, statistics.skipped_cycles),
        (0, 0)
    );
}

#[test]
fn the_next_request_follows_the_response_at_once() {
    let mut network = network(1000, &[1, 2], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.record = Some(Vec::new());
    network.run(3 * MS);
    let record = network.record.take().unwrap();
    let kinds: Vec<_> = record
        .iter()
        .map(|(ns, frame)| (*ns, View::new(frame).message_type().unwrap_or_default()))
        .collect();
    let soc = kinds
        .iter()
        .position(|(_, kind)| *kind == MessageType::SOC)
        .unwrap();
    let cycle: Vec<_> = kinds[soc..soc + 6].iter().map(|(_, kind)| *kind).collect();
    let expected = [
        MessageType::SOC,
        MessageType::PREQ,
        MessageType::PRES,
        MessageType::PREQ,
        MessageType::PRES,
        MessageType::SOA,
    ];
    assert_eq!(cycle, expected);
    // 84 octets of medium and 0.5 µs of way for each frame, 2 µs of reaction at each end: no timeouts between.
    let took_ns = kinds[soc + 5].0 - kinds[soc].0;
    assert!(took_ns < 60_000, "{took_ns}");
}

#[test]
fn a_node_with_the_right_configuration_is_not_configured_again() {
    let mut network = network(1000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    let objects = |network: &Network| -> Vec<usize> {
        let of = |(_, _, event): &(u64, usize, Event)| match event {
            Event::Node {
                what: NodeEvent::Configuring { objects },
                ..
            } => Some(*objects),
            _ => None,
        };
        network.events.iter().filter_map(of).collect()
    };
    assert_eq!(objects(&network), [9]);
    // The cable is pulled: the node keeps its configuration, and only the cycle time is written again.
    network.events.clear();
    network.cut_ns[1] = network.now_ns + 100 * MS;
    network.run(100 * MS);
    assert_ne!(network.states()[1], NmtState::OPERATIONAL);
    network.run_till(5 * SECOND, "back", Network::operational);
    assert_eq!(objects(&network), [1]);
}

#[test]
fn an_optional_node_may_come_late() {
    let optional = |cdc: &mut rtwire_powerlink::Cdc| cdc.push(0x1f81, 2, 0x8000_0007, 4);
    let mut network = network(1000, &[1, 2], optional);
    network.cut_ns[2] = 3 * SECOND;
    network.run_till(2500 * MS, "operational without it", |n| {
        n.states()[0] == NmtState::OPERATIONAL && n.states()[1] == NmtState::OPERATIONAL
    });
    assert!(network.now_ns < 3 * SECOND);
    network.run_till(5 * SECOND, "operational with it", Network::operational);
    assert_eq!(network.mn().statistics().lost_responses, 0);
}

#[test]
fn a_mandatory_node_is_waited_for() {
    let mut network = network(1000, &[1, 2], |_| ());
    network.cut_ns[2] = 4 * SECOND;
    network.run_until(4 * SECOND);
    assert_eq!(network.states()[0], NmtState::PRE_OPERATIONAL_1);
    let missing =
        |_: usize, event: &Event| matches!(event, Event::Error { code, .. } if code.0 == 0x8420);
    assert!(network.happened(missing).is_some());
    network.run_till(3 * SECOND, "operational", Network::operational);
}

#[test]
fn a_second_managing_node_waits() {
    let cdc = mn_cdc(1000, &[1], |_| ());
    let mut second = mn(&cdc);
    let mut network = network(1000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    // The second hears what is on the medium, and says nothing.
    struct None;
    impl rtwire_wire::Outbox for None {
        fn send(&mut self, _: &[u8], _: Option<u64>) {
            panic!("a second managing node has spoken");
        }
    }
    use rtwire_wire::Node;
    network.record = Some(Vec::new());
    second.start(network.now_ns, &mut None);
    network.run(2 * SECOND);
    for (ns, frame) in network.record.take().unwrap() {
        let mut frame = frame;
        // As if the first had another address.
        frame[11] ^= 1;
        second.frame(ns, &frame, &mut None);
        if second.wake_at_ns().is_some_and(|at| at <= ns) {
            second.moment(ns, &mut None);
        }
    }
    assert_eq!(second.state(), NmtState::NOT_ACTIVE);
    let mut events = std::iter::from_fn(|| second.next_event());
    assert!(events.any(|event| matches!(event, Event::Error { code, .. } if code.0 == 0x8410)));
}

#[test]
fn multiplexed_nodes_take_turns() {
    let mut network = network(1000, &[1, 2, 3], |cdc| {
        cdc.push(0x1f98, 7, 2, 1);
        for (node, slot) in [(2, 1), (3, 2)] {
            cdc.push(0x1f81, node, 0x8000_020f, 4);
            cdc.push(0x1f9b, node, slot, 1);
            // The nodes know of it, too.
            let mut own = cn_cdc(1000);
            own.push(0x1f98, 7, 2, 1);
            own.push(0x1f9b, node, slot, 1);
            cdc.push_data(0x1f22, node, own.emit());
        }
    });
    network.run_till(8 * SECOND, "operational", Network::operational);
    network.record = Some(Vec::new());
    network.run(20 * MS);
    let record = network.record.take().unwrap();
    let polled = |node| {
        let of = |frame: &[u8]| {
            let view = View::new(frame);
            view.message_type() == Some(MessageType::PREQ) && view.destination() == Some(node)
        };
        record.iter().filter(|(_, frame)| of(frame)).count()
    };
    assert_eq!((polled(1), polled(2), polled(3)), (20, 10, 10));
    let multiplexed = record
        .iter()
        .find(|(_, frame)| View::new(frame).destination() == Some(2));
    assert_eq!(View::new(&multiplexed.unwrap().1).multiplexed(), Some(true));
    assert_eq!(network.mn().statistics().lost_responses, 0);
}

#[test]
fn chained_nodes_answer_the_managing_nodes_response() {
    let mut network = network(1000, &[1, 2, 3], |cdc| {
        for node in [1, 2, 3] {
            cdc.push(0x1f81, node, 0x8000_400f, 4);
        }
    });
    network.run_till(8 * SECOND, "operational", Network::operational);
    network.record = Some(Vec::new());
    network.run(10 * MS);
    let record = network.record.take().unwrap();
    let kind = |kind| {
        let of = |(_, frame): &&(u64, Vec<u8>)| View::new(frame).message_type() == Some(kind);
        record.iter().filter(of).count()
    };
    assert_eq!(kind(MessageType::PREQ), 0);
    // Three nodes and the managing node itself.
    assert_eq!(kind(MessageType::PRES), 40);
    assert_eq!(network.mn().statistics().lost_responses, 0);
    network.cn(2).image_mut().outputs[0] = 7;
    network.run(5 * MS);
    assert_eq!(network.mn().image().inputs, [0, 7, 0]);
}

#[test]
fn an_async_only_node_is_never_polled() {
    let mut network = network(1000, &[1, 2], |cdc| cdc.push(0x1f81, 2, 0x8000_010f, 4));
    network.run_till(8 * SECOND, "operational", Network::operational);
    network.record = Some(Vec::new());
    let now_ns = network.now_ns;
    let id = network
        .mn()
        .submit(now_ns, 2, SdoJob::Read(0x1000, 0))
        .unwrap();
    network.run(100 * MS);
    let record = network.record.take().unwrap();
    let polled = |(_, frame): &(u64, Vec<u8>)| {
        let view = View::new(frame);
        view.message_type() == Some(MessageType::PREQ) && view.destination() == Some(2)
    };
    assert!(!record.iter().any(polled));
    let read = |_: usize, event: &Event| {
        *event
            == Event::Sdo {
                node: 2,
                id,
                outcome: SdoOutcome::Done(vec![0x91, 0x01, 0x0f, 0]),
            }
    };
    assert!(network.happened(read).is_some());
}

#[test]
fn a_node_may_ask_for_a_command() {
    let mut network = network(1000, &[1, 2], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.record = Some(Vec::new());
    let stop = NmtCommandId::STOP_NODE;
    assert!(network.cn(1).request_command(stop, 2, &[]));
    network.run(50 * MS);
    assert_eq!(network.states()[2], NmtState::STOPPED);
    assert_eq!(network.mn().statistics().lost_responses, 0);
    let record = network.record.take().unwrap();
    let invited = |(_, frame): &(u64, Vec<u8>)| {
        View::new(frame).requested() == Some((RequestedService::NMT_REQUEST_INVITE, 1))
    };
    assert!(record.iter().any(invited));
    // And it goes on from there.
    let now_ns = network.now_ns;
    let again = NmtCommandId::ENTER_PRE_OPERATIONAL_2;
    network.mn().nmt(now_ns, again, 2);
    network.run_till(SECOND, "operational again", Network::operational);
}

#[test]
fn lists_of_nodes_are_published_to_all_by_the_application_or_on_request() {
    let mut network = network(1000, &[1, 2, 40], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    let now_ns = network.now_ns;
    network.mn().nmt(now_ns, NmtCommandId::STOP_NODE, 2);
    network.run(50 * MS);
    for (command, nodes) in [
        (NmtCommandId::PUBLISH_CONFIGURED_NODES, &[1, 2, 40][..]),
        (NmtCommandId::PUBLISH_ACTIVE_NODES, &[1, 2, 40]),
        (NmtCommandId::PUBLISH_PRE_OPERATIONAL_1, &[]),
        (NmtCommandId::PUBLISH_PRE_OPERATIONAL_2, &[]),
        (NmtCommandId::PUBLISH_READY_TO_OPERATE, &[]),
        (NmtCommandId::PUBLISH_OPERATIONAL, &[1, 40]),
        (NmtCommandId::PUBLISH_STOPPED, &[2]),
    ] {
        let told = |at: usize, event: &Event| match event {
            Event::Command { command: c, data } if (at, *c) == (3, command) => {
                (0..=255).all(|node| node_list_contains(data, node) == nodes.contains(&node))
            }
            _ => false,
        };
        for on_request in [false, true] {
            network.events.clear();
            if on_request {
                assert!(network.cn(1).request_command(command, 255, &[]));
            } else {
                assert!(network.mn().publish(command));
            }
            network.run(50 * MS);
            assert!(network.happened(told).is_some(), "{command} {on_request}");
        }
    }
    // What is not known is refused.
    network.events.clear();
    let unknown = NmtCommandId::PUBLISH_NODE_STATES;
    assert!(network.cn(1).request_command(unknown, 1, &[]));
    network.run(50 * MS);
    let refused = |at: usize, event: &Event| matches!(event, Event::Command { command: NmtCommandId::INVALID_SERVICE, .. } if at == 1);
    assert!(network.happened(refused).is_some());
}

#[test]
fn a_managing_node_that_begins_anew_configures_its_nodes_again() {
    let mut network = network(1000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    let reset = NmtCommandId::RESET_NODE;
    assert!(network.cn(1).request_command(reset, 240, &[]));
    network.run_till(SECOND, "reset", |network| {
        network.states()[0] == NmtState::NOT_ACTIVE
    });
    network.run_till(8 * SECOND, "back", Network::operational);
    // Its reset has taken the mapping from the node.
    assert_eq!(network.cn(1).dictionary().number(0x1a00, 0), 1);
    network.cn(1).image_mut().outputs[0] = 0x5a;
    network.run(5 * MS);
    assert_eq!(network.mn().image().inputs[0], 0x5a);
}

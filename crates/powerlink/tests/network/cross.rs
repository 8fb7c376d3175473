//! Traffic beside the managing node's cycle: data between nodes, heartbeats, service data over UDP, and frames that
//! the driver sends.

use crate::harness::*;
use rtwire_powerlink::prepared;
use rtwire_powerlink::{Event, LostReason, NodeEvent};
use rtwire_wire::powerlink::{
    Connection, NmtState, Packet, Sdo, SdoCommand, SdoCommandId, Sequence, View,
};
use rtwire_wire::{Node, Outbox};

#[test]
fn nodes_read_each_others_responses() {
    let mut network = network(1000, &[1, 2], |cdc| {
        // Node 2 takes node 1's input for a second output.
        let mut own = cn_cdc(1000);
        own.push(0x1401, 1, 1, 1);
        own.push(0x1601, 1, mapping(0x6000, 0, 1), 8);
        own.push(0x1601, 0, 1, 1);
        cdc.push_data(0x1f22, 2, own.emit());
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.cn(1).image_mut().outputs[0] = 0x77;
    network.run(5 * MS);
    let image = network.cn(2).image();
    let channel = image.receive_of(1).unwrap();
    let at = image.receive[channel].at;
    assert_eq!(image.inputs[at], 0x77);
}

#[test]
fn a_silent_node_is_told_by_its_heartbeat() {
    let mut network = network(1000, &[1, 2], |cdc| {
        let mut own = cn_cdc(1000);
        // Node 1, 20 ms.
        own.push(0x1016, 1, 0x0001_0014, 4);
        own.push(0x1401, 1, 1, 1);
        own.push(0x1601, 1, mapping(0x6000, 0, 1), 8);
        own.push(0x1601, 0, 1, 1);
        cdc.push_data(0x1f22, 2, own.emit());
        cdc.push(0x1016, 1, 0x0001_0014, 4);
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.events.clear();
    network.cut_ns[1] = network.now_ns + 500 * MS;
    network.run(490 * MS);
    let heartbeat = |station: usize, silent: bool| {
        move |at: usize, event: &Event| {
            at == station && *event == Event::Heartbeat { node: 1, silent }
        }
    };
    assert!(network.happened(heartbeat(0, true)).is_some());
    assert!(network.happened(heartbeat(2, true)).is_some());
    network.run_till(5 * SECOND, "back", Network::operational);
    assert!(network.happened(heartbeat(0, false)).is_some());
    assert!(network.happened(heartbeat(2, false)).is_some());
}

#[test]
fn an_application_that_is_not_ready_holds_its_node_back() {
    let mut network = network(1000, &[1], |_| ());
    network.cn(1).set_application_ready(false);
    network.run(3 * SECOND);
    assert_eq!(network.states(), [NmtState::PRE_OPERATIONAL_2; 2]);
    network.cn(1).set_application_ready(true);
    network.run_till(5 * SECOND, "operational", Network::operational);
}

#[test]
fn a_node_that_never_gets_ready_is_begun_anew() {
    let mut network = network(1000, &[1], |cdc| cdc.push(0x1f89, 4, 200_000, 4));
    network.cn(1).set_application_ready(false);
    network.run(3 * SECOND);
    let lost = |_: usize, event: &Event| {
        *event
            == Event::Node {
                node: 1,
                what: NodeEvent::Lost(LostReason::Timeout),
            }
    };
    assert!(network.happened(lost).is_some());
}

#[test]
fn objects_are_read_over_udp() {
    let mut node = cn(1);
    struct None;
    impl Outbox for None {
        fn send(&mut self, _: &[u8], _: Option<u64>) {}
    }
    node.start(0, &mut None);
    let from = ([192, 168, 100, 240], 40_000);
    let mut say = |receive, receive_number, send, send_number, command| {
        let sequence = Sequence {
            receive_number,
            receive,
            send_number,
            send,
        };
        let mut out = [0; 64];
        let octets = Sdo { sequence, command }.emit_datagram(&mut out).unwrap();
        node.datagram(0, from, &out[..octets]);
        let mut answer = [0; 300];
        let (octets, address, port) = node.next_datagram(0, &mut answer)?;
        assert_eq!((address, port), from);
        let sdo = Sdo::parse_datagram(&answer[..octets]).unwrap();
        Some((sdo.sequence, sdo.command.map(|c| c.data.to_vec())))
    };
    let (opened, _) = say(
        Connection::None,
        0,
        Connection::Initialisation,
        0,
        Option::None,
    )
    .unwrap();
    assert_eq!(
        (opened.receive, opened.send),
        (Connection::Initialisation, Connection::Initialisation)
    );
    let (open, _) = say(
        Connection::Initialisation,
        0,
        Connection::Valid,
        0,
        Option::None,
    )
    .unwrap();
    assert_eq!(
        (open.receive, open.send),
        (Connection::Valid, Connection::Valid)
    );
    let read = SdoCommand {
        transaction: 3,
        command: SdoCommandId::READ_BY_INDEX,
        data: &[0x00, 0x10, 0, 0],
        ..SdoCommand::default()
    };
    let (_, data) = say(Connection::Valid, 0, Connection::Valid, 1, Some(read)).unwrap();
    assert_eq!(data, Some(vec![0x91, 0x01, 0x0f, 0]));
    node.datagram(0, from, b"nonsense");
    assert_eq!(node.statistics().invalid_frames, 1);
}

/// A driver like the receive program: it answers requests with prepared responses, and sends the next request on a
/// response. The nodes get every frame later.
#[test]
fn the_driver_runs_the_isochronous_phase() {
    let mut network = network_with(true, 1000, &[1, 2, 3], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    // Between two cycles.
    let soc_ns = network.mn().next_soc_ns();
    network.run_until(soc_ns + 700 * US);
    let mut ports = network.ports.into_iter();
    let mut sent = ports.next().unwrap();
    let mut ports: Vec<_> = ports.collect();
    let mut stations = network.stations.into_iter();
    let Some(Station::Mn(mut mn)) = stations.next() else {
        panic!()
    };
    let mut cns: Vec<_> = stations
        .map(|station| match station {
            Station::Cn(cn) => *cn,
            Station::Mn(_) => panic!(),
        })
        .collect();
    let (mut requests, before) = (0, mn.statistics());
    for cycle in 0..100 {
        let mut now_ns = mn.next_soc_ns();
        mn.moment(now_ns, &mut sent);
        let number = mn.statistics().cycles;
        let slot = |place| prepared::request(number, place).unwrap();
        let chain: Vec<_> = (0..3)
            .map(|place| sent.holds(slot(place)).unwrap().to_vec())
            .collect();
        let frames: Vec<_> = sent.frames.drain(..).map(|(frame, _)| frame).collect();
        // SoC and the first request only.
        assert_eq!(frames.len(), 2);
        assert_eq!(frames[1], chain[0]);
        let mut responses = Vec::new();
        for ((cn, port), request) in cns.iter_mut().zip(&mut ports).zip(&chain) {
            cn.frame(now_ns, &frames[0], port);
            assert_eq!(View::new(request).destination(), Some(cn.number()));
            // The response leaves before the node sees the request.
            let mut left = port.cue(prepared::PREQ);
            assert_eq!(left.len(), 1);
            responses.extend(left.pop());
            cn.frame(now_ns + 5_000, request, port);
            port.shown();
            assert!(port.frames.is_empty(), "it has answered beside its driver");
        }
        for (at, (response, _)) in responses.iter().enumerate() {
            requests += 1;
            assert!(Packet::parse(response).is_ok());
            // In one cycle the second node's response gets lost.
            if cycle == 50 && at == 1 {
                // The chain has stopped: the node goes on behind the missing one.
                assert!(mn.wake_at_ns().unwrap() < mn.next_soc_ns());
                now_ns = mn.wake_at_ns().unwrap();
                mn.moment(now_ns, &mut sent);
                assert_eq!(sent.frames.pop().unwrap().0, chain[2]);
                continue;
            }
            let left = sent.cue(prepared::pres(at as u8 + 1));
            let next = chain.get(at + 1);
            assert_eq!(left.first().map(|(frame, _)| frame), next, "{cycle} {at}");
            mn.frame(now_ns + 10_000, response, &mut sent);
        }
        // Then the SoA, to all.
        let soa = sent.frames.remove(0).0;
        assert!(View::new(&soa).requested().is_some());
        for (cn, port) in cns.iter_mut().zip(&mut ports) {
            cn.frame(now_ns + 20_000, &soa, port);
            port.frames.clear();
        }
        sent.frames.clear();
    }
    let after = mn.statistics();
    assert_eq!(requests, 300);
    assert_eq!(after.responses - before.responses, 299);
    assert_eq!(after.lost_responses - before.lost_responses, 1);
    assert_eq!(mn.state(), NmtState::OPERATIONAL);
}

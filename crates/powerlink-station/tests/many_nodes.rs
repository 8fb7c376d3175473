//! A project of a hundred nodes, in virtual time: the stations' own files make the nodes.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, missing_docs)]

#[path = "../../powerlink/tests/network/harness.rs"]
mod harness;
#[path = "../../powerlink/tests/network/port.rs"]
mod port;

use harness::*;
use rtwire_powerlink::{ControlledNode, Event, ManagingNode, NodeEvent};
use rtwire_powerlink_station::Project;
use rtwire_wire::powerlink::{Message, Packet};
use std::fmt::Write as _;
use std::path::Path;

const NODES: u8 = 100;
/// Nodes with 300 objects in each direction: more than one PDO has room for.
const LARGE: u8 = 30;

fn is_large(node: u8) -> bool {
    node > NODES - LARGE
}

/// The objects of a node, as its file and the managing node's list them.
fn objects(node: u8) -> String {
    let list = |first: u32| {
        let count = if is_large(node) { 300 } else { 2 };
        let objects: Vec<String> = (0..count)
            .map(|n| format!("\"{:04X}h/{} u8\"", first + n / 200, 1 + n % 200))
            .collect();
        objects.join(", ")
    };
    format!(
        "receives = [{}]\nsends = [{}]\n",
        list(0x6200),
        list(0x6000)
    )
}

fn project(text: &str) -> Project {
    Project::parse(text, Path::new("cell.toml")).unwrap()
}

fn hundred_nodes() -> Network {
    let mut text =
        "[station]\nnode = 240\ninterface = \"eth0\"\ncycle = \"10 ms\"\nasync-slots = 4\n"
            .to_owned();
    for node in 1..=NODES {
        // Large nodes have their mapping in their own files.
        let _ = write!(
            text,
            "[[node]]\nnumber = {node}\nmandatory = true\nconfigure = {}\n{}",
            !is_large(node),
            objects(node)
        );
    }
    let config = project(&text).managing_config(address(240)).unwrap();
    let mut stations = vec![Station::Mn(Box::new(ManagingNode::new(config).unwrap()))];
    for node in 1..=NODES {
        // Without a cycle: the node observes it.
        let text = format!(
            "[station]\nnode = {node}\ninterface = \"eth0\"\nsilence-after-reset = \"0 ms\"\n{}",
            objects(node)
        );
        let config = project(&text).controlled_config(address(node)).unwrap();
        stations.push(Station::Cn(Box::new(ControlledNode::new(config).unwrap())));
    }
    Network::new(stations)
}

#[test]
fn a_hundred_nodes_with_260_pdos_become_operational_and_exchange_every_byte() {
    let mut network = hundred_nodes();
    let d = network.mn().dictionary().clone();
    let active = |first: u16| {
        (first..first + 0x100)
            .filter(|at| d.number(*at, 0) > 0)
            .count()
    };
    let (sent, received) = (active(0x1a00), active(0x1600));
    assert_eq!(
        (sent, received),
        (130, 130),
        "TPDO and RPDO of the managing node"
    );
    let took_ns = network.run_till(120 * SECOND, "operational", Network::operational);
    println!("100 nodes are operational after {} ms", took_ns / MS);
    let lost = |_: usize, event: &Event| {
        matches!(
            event,
            Event::Node {
                what: NodeEvent::Lost(_),
                ..
            }
        )
    };
    assert_eq!(network.happened(lost), None);
    // Each byte has its own value, both ways.
    let value = |node: u8, n: usize| (n as u8).wrapping_mul(7) ^ node;
    let mn = network.mn();
    for channel in mn.image().transmit.clone() {
        let outputs = &mut mn.image_mut().outputs[channel.range()];
        let values = (0..channel.octets).map(|n| value(channel.node, n));
        outputs.copy_from_slice(&values.collect::<Vec<_>>());
    }
    for node in 1..=NODES {
        let cn = network.cn(node.into());
        assert_eq!(cn.image().transmit.len(), 1, "one PRes");
        for (n, output) in cn.image_mut().outputs.iter_mut().enumerate() {
            *output = !value(node, n);
        }
        cn.commit();
    }
    network.record = Some(Vec::new());
    network.run(30 * MS);
    for node in 1..=NODES {
        let octets = if is_large(node) { 300 } else { 2 };
        let inputs = &network.cn(node.into()).image().inputs;
        let expected: Vec<u8> = (0..octets).map(|n| value(node, n)).collect();
        assert_eq!(inputs, &expected, "node {node} receives");
        let image = network.mn().image();
        let at = image.receive_of(node).unwrap();
        let got = &image.inputs[image.receive[at].range()];
        assert!(got.iter().enumerate().all(|(n, v)| *v == !value(node, n)));
        assert_eq!(got.len(), octets, "node {node} sends");
    }
    // The frames say the same, to one who knows nothing of the mapping.
    let frames = network.record.take().unwrap();
    let payload =
        |request: bool| {
            let found = frames.iter().rev().find_map(|(_, frame)| {
                match Packet::parse(frame).ok()?.message {
                    Message::PReq(of) if request && frame[15] == NODES => {
                        Some(of.poll.payload.to_vec())
                    }
                    Message::PRes(of) if !request && frame[16] == NODES => {
                        Some(of.poll.payload.to_vec())
                    }
                    _ => None,
                }
            });
            found.unwrap()
        };
    assert_eq!(payload(true)[299], value(NODES, 299));
    assert_eq!(payload(false)[299], !value(NODES, 299));
    let statistics = network.mn().statistics();
    assert_eq!(
        (statistics.lost_responses, statistics.skipped_cycles),
        (0, 0)
    );
}

#[test]
fn what_a_frame_or_a_managing_node_has_no_room_for_is_refused() {
    let parse =
        |text: &str| Project::parse(text, Path::new("cell.toml")).map_err(|e| e.to_string());
    let list = |count: usize| {
        let objects: Vec<String> = (0..count)
            .map(|n| format!("\"{:04X}h/{} u8\"", 0x6000 + n / 200, 1 + n % 200))
            .collect();
        objects.join(", ")
    };
    let station = |count| {
        format!(
            "[station]\nnode = 1\ninterface = \"eth0\"\nsends = [{}]\n",
            list(count)
        )
    };
    let whole = parse(&station(1490)).unwrap();
    whole.check().unwrap();
    let config = whole.controlled_config(address(1)).unwrap();
    let node = ControlledNode::new(config).unwrap();
    assert_eq!(node.image().outputs.len(), 1490);
    let refused = parse(&station(1491)).unwrap_err();
    assert!(refused.contains("longer than the 1490 bytes"), "{refused}");
    // 44 nodes of 1400 objects: 6 PDOs each.
    let mut text = "[station]\nnode = 240\ninterface = \"eth0\"\ncycle = \"50 ms\"\n".to_owned();
    for node in 1..=44 {
        let _ = write!(
            text,
            "[[node]]\nnumber = {node}\nsends = [{}]\n",
            list(1400)
        );
    }
    let refused = parse(&text).unwrap_err();
    assert!(refused.contains("264 PDOs"), "{refused}");
}

//! A controlled and a managing node get frames of any bytes at any times: service data, requests, commands. Neither may
//! panic, and what they send must be right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_powerlink::cn::{ControlledConfig, Limits};
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_powerlink::sdo::SdoJob;
use rtwire_powerlink::{Cdc, ControlledNode, ManagingNode, ObjectDictionary};
use rtwire_wire::powerlink::Packet;
use rtwire_wire::{MacAddress, Node, Outbox};

struct Right;

impl Outbox for Right {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        assert!(Packet::parse(frame).is_ok());
    }
}

/// Nodes as they are when nothing has happened: made once, since the dictionary is large.
struct Nodes {
    cn: ControlledNode,
    mn: ManagingNode,
}

fn nodes() -> Nodes {
    let mut dictionary = ObjectDictionary::controlled_node();
    dictionary.set_number(0x1006, 0, 1000);
    let address = |last| MacAddress([2, 0, 0, 0, 0, last]);
    let cn = ControlledNode::new(ControlledConfig {
        node: 1,
        address: address(1),
        dictionary,
        limits: Limits {
            silence_ns: 0,
            ..Limits::default()
        },
    });
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, 1000, 4);
    cdc.push(0x1f89, 1, 1, 4);
    cdc.push(0x1f81, 1, 0x8000_000f, 4);
    cdc.push(0x1f81, 2, 0x8000_4207, 4);
    let mn = ManagingConfig::from_cdc(address(240), &cdc).and_then(ManagingNode::new);
    Nodes {
        cn: cn.expect("a right configuration"),
        mn: mn.expect("a right configuration"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    thread_local!(static NODES: Nodes = nodes());
    let (mut cn, mut mn) = NODES.with(|nodes| (nodes.cn.clone(), nodes.mn.clone()));
    let mut now_ns = 0;
    cn.start(now_ns, &mut Right);
    mn.start(now_ns, &mut Right);
    // Each asks the other, and the controlled node one that is not there: answers of any bytes reach the clients, too.
    for target in [2, 9, 240] {
        assert!(cn.submit(now_ns, target, SdoJob::Read(0x1018, 1)).is_some());
    }
    assert!(mn.submit(now_ns, 1, SdoJob::Read(0x1018, 1)).is_some());
    let mut rest = bytes;
    // Each frame: octets, time since the last in 100 µs, sender, then what follows the EtherType.
    while let [octets, wait, sender, more @ ..] = rest {
        let (body, after) = more.split_at((*octets as usize).min(more.len()));
        rest = after;
        now_ns += u64::from(*wait) * 100_000;
        // Long frames are read late.
        let read_ns = now_ns + u64::from(*octets) * 100_000;
        cn.reads_at(read_ns);
        mn.reads_at(read_ns);
        for node in [&mut cn as &mut dyn Node, &mut mn] {
            for _ in 0..4 {
                if node.wake_at_ns().is_some_and(|at| at <= now_ns) {
                    node.moment(now_ns, &mut Right);
                }
            }
            let mut frame = vec![1, 0x11, 0x1e, 0, 0, 4, 2, 0, 0, 0, 9, *sender, 0x88, 0xab];
            frame.extend_from_slice(body);
            node.frame(now_ns, &frame, &mut Right);
        }
    }
    while cn.next_event().is_some() {}
    while mn.next_event().is_some() {}
});

//! Requests to the real kernel, in namespaces of their own. Needs root.

use std::time::Duration;

use netlink_bindings::tc;
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::interface;
use rtwire_sys::netns;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait};

use super::{BridgePort, Discipline, Forwarding, Netlink, PortQueue, Queue, Tree, VethEnd};
use crate::{HostError, Namespace};

/// A namespace that ends with the test.
struct Scratch(Namespace);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("rtwtest-{}-host-{name}", std::process::id());
        Self(Namespace::create(&name).expect("these tests need root"))
    }

    /// Runs requests inside, on a socket of their own.
    fn ask<R: Send>(&self, work: impl FnOnce(&mut Netlink) -> R + Send) -> R {
        self.0.run(|| work(&mut Netlink::new())).unwrap()
    }

    fn with_pair(self) -> Self {
        let file = netns::open(self.0.name()).unwrap();
        let end = |name: &'static str, ifindex: u32| VethEnd {
            name,
            ifindex,
            mac: [2, 0, 0, 0, 0, u8::try_from(ifindex).unwrap()],
            namespace: &file,
        };
        let (near, far) = (end("near", 10), end("far", 11));
        self.ask(|netlink| netlink.create_veth(near, far)).unwrap();
        self
    }

    /// Returns the interfaces. Files below `/sys/class/net` cannot be read here without mounting; `/proc/net/dev` can.
    fn interfaces(&self) -> String {
        self.0
            .run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap())
            .unwrap()
    }

    /// Returns the kinds of all queueing disciplines of an interface, with their handles.
    fn queues(&self, ifindex: i32) -> Vec<(u32, String)> {
        self.ask(|netlink| {
            let request = tc::Request::new().op_getqdisc_dump(&tc::Tcmsg::default());
            let mut replies = netlink.socket.request(&request).unwrap();
            let mut found = Vec::new();
            while let Some(reply) = replies.recv() {
                let (header, attributes) = reply.unwrap();
                if header.ifindex == ifindex {
                    let kind = attributes.get_kind().unwrap().to_str().unwrap().to_owned();
                    found.push((header.handle, kind));
                }
            }
            found
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.0.delete();
    }
}

const QUEUE: PortQueue = PortQueue {
    ifindex: 10,
    rate_bps: 100_000_000,
    queues: 3,
    overhead_bytes: 24,
    credit_ns: 400_000,
    peak_bps: 120_000_000,
    peak_credit_ns: 60_000,
};

#[test]
fn a_namespace_is_made_listed_and_removed_once() {
    let scratch = Scratch::new("ns");
    let name = scratch.0.name().to_owned();
    assert_eq!(netns::list(&name).unwrap(), [name.as_str()]);
    let again = Namespace::create(&name).unwrap_err();
    assert!(again.to_string().contains(&name), "{again}");
    assert!(matches!(again, HostError::Namespace { .. }));
    scratch.0.delete().unwrap();
    assert_eq!(netns::list(&name).unwrap(), Vec::<String>::new());
    scratch.0.delete().unwrap();
    let gone = scratch.0.run(|| ()).unwrap_err();
    assert!(gone.to_string().contains(&name), "{gone}");
}

#[test]
fn a_pair_has_the_names_and_indices_asked_for() {
    let scratch = Scratch::new("pair").with_pair();
    let interfaces = scratch.interfaces();
    assert!(
        interfaces.contains("near:") && interfaces.contains("far:"),
        "{interfaces}"
    );
    scratch.ask(|netlink| netlink.set_up("near")).unwrap();
    scratch.ask(|netlink| netlink.offloads_off("near")).unwrap();
    scratch.ask(|netlink| netlink.delete_link("near")).unwrap();
    assert!(
        !scratch.interfaces().contains("far:"),
        "the other end goes with it"
    );
}

#[test]
fn a_port_queue_has_a_leaf_for_each_class_and_can_be_replaced() {
    let scratch = Scratch::new("queue").with_pair();
    for queues in [3, 1, 8] {
        scratch
            .ask(|netlink| netlink.set_port_queue(&PortQueue { queues, ..QUEUE }))
            .unwrap();
        let mut expected = vec![(0x1_0000, "htb".to_owned())];
        expected
            .extend((0..u32::from(queues)).map(|class| ((0x10 + class) << 16, "pfifo".to_owned())));
        let mut found = scratch.queues(10);
        found.sort();
        assert_eq!(found, expected, "{queues} classes");
    }
}

/// A port that catches up must not send a less urgent frame meanwhile.
#[test]
fn no_frame_leaves_a_port_before_a_more_urgent_one_that_waits() {
    const ETHER_TYPE: u16 = 0x88b5;
    const ORDINARY: u8 = 0x10;
    const URGENT: u8 = 0x12;
    /// Frames of each class in a round.
    const FRAMES: usize = 8;
    const ROUNDS: usize = 5;
    // A frame takes 7 ms at the peak rate, far longer than a sender needs for the next one. There is always something to
    // catch up.
    let slow = PortQueue {
        rate_bps: 1_000_000,
        credit_ns: 500_000_000,
        peak_bps: 1_200_000,
        ..QUEUE
    };
    let scratch = Scratch::new("order").with_pair();
    scratch
        .ask(|netlink| {
            netlink.set_port_queue(&slow)?;
            netlink.set_up_without_arp("near")?;
            netlink.set_up_without_arp("far")
        })
        .unwrap();
    let received = scratch.0.run(|| {
        let far = interface::by_name("far").unwrap();
        let near = interface::by_name("near").unwrap();
        let all = Filter::new(&[Instruction::Accept]).unwrap();
        let (listener, ()) = PacketSocket::receiver(&far, ETHER_TYPE, &all, |_| Ok(())).unwrap();
        let [ordinary, urgent] = [ORDINARY, URGENT].map(|class| {
            let sender = PacketSocket::sender(&near).unwrap();
            sender.set_priority(0x1_0000 | u32::from(class)).unwrap();
            move |frames: usize| {
                let mut frame = [0_u8; 1_000];
                frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
                frame[14] = class;
                (0..frames).for_each(|_| sender.send(&frame).unwrap());
            }
        });
        let mut batch = Batch::new(1, 2_000);
        // A new cable drops frames without a word until the kernel has noticed that it is whole. The first frame of each class
        // needs no loan, and goes at once.
        let within = |seconds| Some(Duration::from_secs(seconds));
        listener.set_receive_timeout(within(1)).unwrap();
        let passes = (0..30).any(|_| {
            ordinary(1);
            listener.receive(&mut batch, Wait::One, 1).is_ok()
        });
        assert!(passes, "no frame passes");
        listener.set_receive_timeout(within(5)).unwrap();
        let mut received = |count: usize| -> Vec<u8> {
            let next = |_| {
                listener.receive(&mut batch, Wait::One, 1).unwrap();
                batch.get(0).unwrap().data[14]
            };
            (0..count).map(next).collect()
        };
        urgent(1);
        received(1);
        let round = |_| {
            ordinary(FRAMES);
            urgent(FRAMES);
            received(2 * FRAMES)
        };
        (0..ROUNDS).map(round).collect::<Vec<_>>()
    });
    let received = received.unwrap();
    let overtaking = |classes: &Vec<u8>| {
        let first = classes.iter().position(|&class| class == URGENT).unwrap();
        let last = classes.iter().rposition(|&class| class == URGENT).unwrap();
        let busy = classes[first..=last].iter();
        busy.filter(|&&class| class == ORDINARY).count()
    };
    // A machine that stalls for longer than a frame takes holds up the sender, too.
    let all: usize = received.iter().map(overtaking).sum();
    assert!(all <= 2, "{all} frames: {received:x?}");
}

#[test]
fn a_bridge_takes_ports_and_groups() {
    let scratch = Scratch::new("bridge").with_pair();
    scratch
        .ask(|netlink| {
            netlink.create_bridge("bridge", 5, Forwarding::ByEntry)?;
            netlink.set_up_without_arp("bridge")?;
            netlink.set_up_without_arp("near")?;
            netlink.set_up_without_arp("far")?;
            netlink.add_bridge_port(BridgePort {
                ifindex: 10,
                bridge: 5,
                forwarding: Forwarding::ByEntry,
            })?;
            netlink.add_forwarding(10, [2, 0, 0, 0, 0, 99])?;
            netlink.add_multicast(5, 10, [3, 0, 0, 0, 0, 1])
        })
        .unwrap();
}

#[test]
fn a_feature_that_the_kernel_lacks_is_named() {
    let scratch = Scratch::new("lacks").with_pair();
    let error = scratch
        .ask(|netlink| {
            let mut request = tc::Request::new().set_create().op_newqdisc_do(&tc::Tcmsg {
                ifindex: 10,
                parent: u32::MAX,
                ..Default::default()
            });
            request.encode().push_kind(c"rtwire-none");
            netlink.acknowledge(&request, || "set the queue rtwire-none".to_owned())
        })
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("rtwire-none") && message.contains("the kernel lacks"),
        "{message}"
    );
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let scratch = Scratch::new("wrong").with_pair();
    for name in ["", "a/b", "with space", "sixteen-octets-xx"] {
        let error = scratch.ask(|netlink| netlink.set_up(name)).unwrap_err();
        assert!(
            matches!(error, HostError::InterfaceName(_)),
            "{name}: {error}"
        );
    }
    let error = scratch
        .ask(|netlink| netlink.set_up("nowhere"))
        .unwrap_err();
    assert!(error.to_string().contains("`nowhere`"), "{error}");
    let error = scratch
        .ask(|netlink| netlink.create_bridge("near", 12, Forwarding::ByEntry))
        .unwrap_err();
    assert!(error.to_string().contains("`near`"), "{error}");
    let error = scratch
        .ask(|netlink| {
            netlink.set_port_queue(&PortQueue {
                ifindex: 99,
                ..QUEUE
            })
        })
        .unwrap_err();
    assert!(error.to_string().contains("interface 99"), "{error}");
}

#[test]
fn what_a_queue_counts_for_each_frame_is_set_and_read_back() {
    let scratch = Scratch::new("table").with_pair();
    let tree = |overhead_bytes| Tree {
        queues: vec![Queue {
            handle: 0x7_0000,
            parent: u32::MAX,
            class: false,
            discipline: Discipline::Pfifo { frames: 77 },
            overhead_bytes,
            raw: None,
        }],
        ..Tree::default()
    };
    for overhead in [24, 0, 9] {
        let there = scratch.ask(|netlink| {
            netlink.set_tree(10, &tree(overhead)).unwrap();
            netlink.tree(10).unwrap()
        });
        assert_eq!(there, tree(overhead));
        // A tree that is put back restores its overhead.
        let again = scratch.ask(|netlink| {
            netlink.set_tree(10, &tree(1)).unwrap();
            netlink.set_tree(10, &there).unwrap();
            netlink.tree(10).unwrap()
        });
        assert_eq!(again, there);
    }
    assert_ne!(tree(24), tree(0));
}

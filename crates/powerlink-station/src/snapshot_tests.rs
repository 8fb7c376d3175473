//! A question for the state: what the loop does for it, and what the asking thread makes of it.

use super::*;
use crate::configure;
use crate::project::Project;
use rtwire_powerlink::ManagingNode;
use rtwire_testkit::allocations;
use rtwire_wire::MacAddress;

const NODES: u8 = 100;

/// A managing node with many nodes, the second one with a name.
fn managing() -> Kind {
    let mut text = "[station]\nnode = 240\ninterface = \"eth0\"\ncycle = \"50 ms\"\n".to_owned();
    for number in 1..=NODES {
        text += &format!("[[node]]\nnumber = {number}\n");
        if number == 2 {
            text += "name = \"press\"\n";
        }
    }
    let project = Project::parse(&text, "cell.toml".as_ref()).unwrap();
    let config = configure::managing(&project, MacAddress([2, 0, 0, 0, 0, 1]), 0).unwrap();
    Kind::Managing(Box::new(ManagingNode::new(config).unwrap()))
}

fn texts() -> Texts {
    Texts {
        interface: "eth0".to_owned(),
        path: "user space".to_owned(),
        names: vec![(2, "press".to_owned())],
    }
}

#[test]
fn the_loop_allocates_nothing_for_a_question() {
    let (kind, run) = (managing(), RunStatistics::default());
    let events: VecDeque<Noted> = (0..EVENTS as u64)
        .map(|at_ns| (at_ns, "node 1: is lost: its responses did not come".into()))
        .collect();
    let mut snapshot = Snapshot::empty();
    let before = allocations();
    for _ in 0..3 {
        snapshot.take(&kind, &run, None, &[0; 256]);
        snapshot.take_events(&events);
    }
    assert_eq!(allocations(), before);
    // The words are made from it, and they do cost memory.
    let status = snapshot.status(&texts());
    assert!(allocations() > before);
    assert_eq!(status.events.len(), EVENTS);
}

#[test]
fn the_words_name_nodes_and_counters() {
    let run = RunStatistics {
        received: 7,
        unsent: 2,
        overflowed: 1,
        waits: 10,
        sent: 5,
        ..RunStatistics::default()
    };
    let mut times_lost = [0; 256];
    times_lost[2] = 4;
    let mut snapshot = Snapshot::empty();
    snapshot.take(&managing(), &run, None, &times_lost);
    snapshot.tells = Some([true, false, true]);
    let status = snapshot.status(&texts());
    assert_eq!((status.node, status.cycle_ns), (240, 50_000_000));
    assert_eq!((status.frames_received, status.frames_unsent), (7, 3));
    assert_eq!(status.system_calls, 15);
    assert_eq!(status.nodes.len(), usize::from(NODES));
    assert_eq!(status.nodes[0].name, "node 1");
    assert_eq!(status.nodes[1].name, "press");
    assert_eq!(status.nodes[1].times_lost, 4);
    assert_eq!(
        (status.crc_errors, status.collisions, status.link_losses),
        (Some(0), None, Some(0))
    );
    assert_eq!(status.sent_by_driver, None);
}

//! The validity of inputs: live with each cycle that brings them, marked within two cycles where one does not.

use crate::harness::*;
use rtwire_powerlink::Validity;
use rtwire_wire::powerlink::{NmtCommandId, NmtState};

/// Returns the validity of the input from a node, as the managing node has it at the begin of a cycle.
fn of_node(network: &mut Network, node: u8) -> Validity {
    let image = network.mn().image();
    image.validity(image.receive_of(node).unwrap())
}

/// Runs to just behind the managing node's next SoC, where the application has its turn.
fn next_cycle(network: &mut Network) {
    let next_ns = network.mn().next_soc_ns();
    network.run_until(next_ns + US);
}

#[test]
fn inputs_of_a_lost_node_are_marked_within_two_cycles() {
    let mut network = network(1_000, &[1, 2, 3], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    next_cycle(&mut network);
    for _ in 0..500 {
        next_cycle(&mut network);
        for node in [1, 2, 3] {
            let live = Validity {
                live: true,
                age_cycles: Some(0),
                state: NmtState::OPERATIONAL,
            };
            assert_eq!(of_node(&mut network, node), live);
        }
    }
    // Its cable is pulled right behind its response.
    network.run(900 * US);
    network.cut_ns[2] = u64::MAX;
    next_cycle(&mut network);
    assert!(
        of_node(&mut network, 2).live,
        "it has come in the last cycle"
    );
    for age in 1..=2 {
        next_cycle(&mut network);
        let lost = of_node(&mut network, 2);
        assert_eq!((lost.live, lost.age_cycles), (false, Some(age)));
        assert!(of_node(&mut network, 1).live && of_node(&mut network, 3).live);
    }
    network.run(100 * MS);
    let lost = of_node(&mut network, 2);
    assert_eq!((lost.live, lost.state), (false, NmtState::NOT_ACTIVE));
    assert!(lost.age_cycles > Some(90));
    network.cut_ns[2] = 0;
    network.run_till(5 * SECOND, "back", Network::operational);
    network.run(5 * MS);
    assert!(of_node(&mut network, 2).live);
    // A node that is stopped sends nothing more, though it is there.
    let now_ns = network.now_ns;
    network.mn().nmt(now_ns, NmtCommandId::STOP_NODE, 3);
    network.run(20 * MS);
    assert!(!of_node(&mut network, 3).live && of_node(&mut network, 1).live);
}

#[test]
fn data_that_their_sender_calls_invalid_are_not_live() {
    let mut network = network(1_000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.run(5 * MS);
    assert!(of_node(&mut network, 1).live);
    network.judge = Some(Box::new(|_, from, frame| {
        if from == 1 && frame[14] == 4 {
            frame[18] &= !1;
        }
        Fate::Deliver
    }));
    next_cycle(&mut network);
    next_cycle(&mut network);
    let told = of_node(&mut network, 1);
    assert_eq!((told.live, told.state), (false, NmtState::OPERATIONAL));
}

#[test]
fn inputs_of_multiplexed_nodes_are_live_from_turn_to_turn() {
    let mut network = network(1_000, &[1, 2], |cdc| {
        cdc.push(0x1f98, 7, 4, 1);
        cdc.push(0x1f81, 2, 0x8000_020f, 4);
        cdc.push(0x1f9b, 2, 3, 1);
        let mut own = cn_cdc(1_000);
        own.push(0x1f98, 7, 4, 1);
        own.push(0x1f9b, 2, 3, 1);
        cdc.push_data(0x1f22, 2, own.emit());
    });
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.run(20 * MS);
    let mut ages = Vec::new();
    for _ in 0..40 {
        next_cycle(&mut network);
        let told = of_node(&mut network, 2);
        assert!(told.live, "{told:?}");
        ages.push(told.age_cycles.unwrap());
    }
    assert_eq!(ages.iter().max(), Some(&3));
    network.cut_ns[2] = u64::MAX;
    for _ in 0..5 {
        next_cycle(&mut network);
    }
    assert!(!of_node(&mut network, 2).live);
}

#[test]
fn requests_in_multiplexed_slots_are_live_from_turn_to_turn() {
    // The data of the PReq are mapped as those of node 0, or of node 240.
    for of in [0, 240] {
        let mut network = network(1_000, &[1, 2], |cdc| {
            cdc.push(0x1f98, 7, 4, 1);
            cdc.push(0x1f81, 2, 0x8000_020f, 4);
            cdc.push(0x1f9b, 2, 3, 1);
            let mut own = cn_cdc(1_000);
            own.push(0x1400, 1, of, 1);
            own.push(0x1f98, 7, 4, 1);
            own.push(0x1f9b, 2, 3, 1);
            cdc.push_data(0x1f22, 2, own.emit());
        });
        network.run_till(5 * SECOND, "operational", Network::operational);
        network.run(20 * MS);
        let mut oldest = Some(0);
        for _ in 0..40 {
            next_cycle(&mut network);
            // Its SoC has come, and its PReq has not.
            network.run(8 * US);
            let told = network.cn(2).image().validity(0);
            assert!(told.live, "{of}: {told:?}");
            oldest = oldest.max(told.age_cycles);
        }
        assert_eq!(oldest, Some(3));
    }
}

#[test]
fn a_controlled_node_knows_that_its_inputs_are_old() {
    let mut network = network(1_000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.run(5 * MS);
    let own = |network: &mut Network| network.cn(1).image().validity(0);
    let told = own(&mut network);
    assert_eq!((told.live, told.state), (true, NmtState::OPERATIONAL));
    // No SoC any more: it goes back to PreOperational1.
    network.cut_ns[0] = network.now_ns + 200 * MS;
    network.run(50 * MS);
    assert_eq!(network.states()[1], NmtState::PRE_OPERATIONAL_1);
    let told = own(&mut network);
    assert_eq!((told.live, told.age_cycles), (false, None));
    network.run_till(5 * SECOND, "back", Network::operational);
    network.run(5 * MS);
    assert!(own(&mut network).live);
}

#[test]
fn a_managing_node_that_stood_still_calls_no_old_input_live() {
    let mut network = network(1_000, &[1], |cdc| cdc.push(0x1c14, 0, 500_000_000, 4));
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.run(5 * MS);
    assert!(of_node(&mut network, 1).live);
    network.stalled_ns[0] = network.now_ns + 60 * MS;
    let before = network.mn().statistics().cycles;
    while network.mn().statistics().cycles == before {
        network.run(US);
    }
    // The application's turn in the first cycle behind the stop: no response has come since.
    let told = of_node(&mut network, 1);
    assert_eq!((told.live, told.age_cycles), (false, None));
    // The node has missed its SoC, and boots again.
    network.run(5 * SECOND);
    assert!(of_node(&mut network, 1).live);
}

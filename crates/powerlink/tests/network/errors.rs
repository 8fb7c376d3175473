//! Errors that interfaces report, and the errors that each node keeps.

use crate::harness::*;
use crate::service::{done, done_by};
use rtwire_powerlink::sdo::{SdoJob, SdoOutcome};
use rtwire_powerlink::{ErrorCode, Event, LinkErrors, NodeEvent};
use rtwire_wire::powerlink::{MessageType, NmtCommandId, NmtState, View};

const MN: u8 = 240;

fn running(change: impl FnOnce(&mut rtwire_powerlink::Cdc)) -> Network {
    let mut network = network(1000, &[1, 2], change);
    network.run_till(5 * SECOND, "operational", Network::operational);
    network.events.clear();
    network
}

fn errors(crc: u32, collisions: u32) -> LinkErrors {
    LinkErrors {
        crc,
        collisions,
        losses: 0,
    }
}

const LINK_LOST: LinkErrors = LinkErrors {
    crc: 0,
    collisions: 0,
    losses: 1,
};

fn observe(network: &mut Network, station: usize, seen: &LinkErrors) {
    let now_ns = network.now_ns;
    match &mut network.stations[station] {
        Station::Mn(node) => node.observe(now_ns, seen),
        Station::Cn(node) => node.observe(now_ns, seen),
    }
}

/// Returns the number of times that a station reports an error.
fn told(network: &Network, station: usize, wanted: ErrorCode) -> usize {
    let is = |event: &Event| matches!(event, Event::Error { code, .. } if *code == wanted);
    let all = network.events.iter();
    all.filter(|(_, at, event)| *at == station && is(event))
        .count()
}

/// Returns true if a node has signalled an error to the managing node.
fn signalled(network: &Network, wanted: ErrorCode) -> bool {
    let signalled = |_: usize, event: &Event| match event {
        Event::Node {
            what: NodeEvent::Errors(entries),
            ..
        } => entries.iter().any(|entry| entry.code == wanted.0),
        _ => false,
    };
    network.happened(signalled).is_some()
}

/// Reads an object of a station over the network.
fn read(network: &mut Network, station: usize, index: u16, subindex: u8) -> Vec<u8> {
    let job = SdoJob::Read(index, subindex);
    // The managing node is asked by node 2, the others by it.
    let outcome = match station {
        0 => done_by(network, 2, MN, job, SECOND),
        station => done(network, station as u8, job, SECOND),
    };
    match outcome {
        SdoOutcome::Done(value) => value,
        other => panic!("{index:04X}h/{subindex} of station {station}: {other:?}"),
    }
}

fn number(network: &mut Network, station: usize, index: u16, subindex: u8) -> u32 {
    u32::from_le_bytes(read(network, station, index, subindex).try_into().unwrap())
}

fn write(network: &mut Network, station: usize, index: u16, subindex: u8, value: &[u8]) {
    let job = SdoJob::Write(index, subindex, value.to_vec());
    let outcome = match station {
        0 => done_by(network, 2, MN, job, SECOND),
        station => done(network, station as u8, job, SECOND),
    };
    assert_eq!(outcome, SdoOutcome::Done(vec![]));
}

fn register(network: &Network, station: usize) -> u64 {
    match &network.stations[station] {
        Station::Mn(node) => node.dictionary().number(0x1001, 0),
        Station::Cn(node) => node.dictionary().number(0x1001, 0),
    }
}

/// Drops the next responses of a node.
fn drop_responses(network: &mut Network, node: u8, mut left: u32) {
    network.judge = Some(Box::new(move |_, _, frame| {
        let view = View::new(frame);
        let its = (view.message_type(), view.source()) == (Some(MessageType::PRES), Some(node));
        if its && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    }));
}

#[test]
fn errors_of_the_medium_are_borne_below_the_threshold_and_bring_a_node_back_above() {
    type Of = fn(u32) -> LinkErrors;
    let cases: [(usize, u16, ErrorCode, Of); 4] = [
        (0, 0x1c00, ErrorCode::CRC, |n| errors(n, 0)),
        (0, 0x1c01, ErrorCode::COLLISION, |n| errors(0, n)),
        (1, 0x1c0f, ErrorCode::CRC, |n| errors(n, 0)),
        (1, 0x1c0a, ErrorCode::COLLISION, |n| errors(0, n)),
    ];
    for (station, object, code, of) in cases {
        let mut network = running(|_| ());
        // One by one, a cycle without between each 9 of them: +8, -1 a cycle.
        for _ in 0..20 {
            observe(&mut network, station, &of(1));
            network.run(9 * MS + 500 * US);
        }
        assert!(network.operational(), "{object:04X}h");
        assert_eq!(told(&network, station, code), 0, "{object:04X}h");
        assert_eq!(number(&mut network, station, object, 1), 20);
        assert_eq!(number(&mut network, station, object, 2), 0);
        assert_eq!(number(&mut network, station, object, 3), 15);
        // Two in one cycle are 16.
        observe(&mut network, station, &of(1));
        observe(&mut network, station, &of(1));
        assert_eq!(network.states()[station], NmtState::PRE_OPERATIONAL_1);
        network.run(MS / 2);
        assert_eq!(told(&network, station, code), 1, "{object:04X}h");
        assert_eq!(register(&network, station), 0x11);
        network.run_till(5 * SECOND, "back", Network::operational);
        network.run(100 * MS);
        assert_eq!(register(&network, station), 0);
        // A node that is taken for lost is reset, and its counters with it; its history is not.
        let counted = if station == 0 { 22 } else { 0 };
        assert_eq!(number(&mut network, station, object, 1), counted);
        assert_eq!(read(&mut network, station, 0x1003, 0), [1]);
        let entry = read(&mut network, station, 0x1003, 1);
        assert_eq!(entry[2..4], code.0.to_le_bytes());
        // What a controlled node has seen, the managing node hears.
        assert_eq!(signalled(&network, code), station != 0, "{object:04X}h");
    }
}

/// Delays the next SoC.
fn delay_one_soc(network: &mut Network, delay_ns: u64) {
    let mut is_done = false;
    network.judge = Some(Box::new(move |_, _, frame| {
        let is_soc = View::new(frame).message_type() == Some(MessageType::SOC);
        if is_soc && !is_done {
            is_done = true;
            return Fate::Delay(delay_ns);
        }
        Fate::Deliver
    }));
}

#[test]
fn a_soc_is_jitter_above_its_range_and_an_error_at_the_threshold() {
    // Less than a frame takes: a SoC that is so late still comes before the request behind it.
    const RANGE_NS: u64 = 2 * US;
    let with = |range_ns: u64, threshold: u64| {
        let mut strict = cn_cdc(1000);
        strict.push(0x1c13, 0, range_ns, 4);
        strict.push(0x1c0e, 3, threshold, 4);
        running(|cdc| cdc.push_data(0x1f22, 1, strict.emit()))
    };
    // A late SoC makes an interval too long by its delay, and the next one too short by as much. Each counts 8; the cycle
    // between them takes 1 back.
    for (range_ns, threshold, delay_ns, jitter, is_error) in [
        (RANGE_NS, 15, RANGE_NS, 0, false),
        (RANGE_NS, 15, RANGE_NS + 1, 2, true),
        (RANGE_NS, 16, RANGE_NS + 1, 2, false),
        (1, 15, 1, 0, false),
        (1, 15, 2, 2, true),
        // Without a range nothing is jitter.
        (0, 15, 4 * US, 0, false),
    ] {
        let case = format!("{delay_ns} ns of {range_ns}, threshold {threshold}");
        let mut network = with(range_ns, threshold);
        delay_one_soc(&mut network, delay_ns);
        network.run(20 * MS);
        assert_eq!(
            told(&network, 1, ErrorCode::SOC_JITTER) > 0,
            is_error,
            "{case}"
        );
        // The other node has the usual configuration: it does not look at jitter.
        assert_eq!(told(&network, 2, ErrorCode::SOC_JITTER), 0, "{case}");
        if !is_error {
            assert_eq!(number(&mut network, 1, 0x1c0e, 1), jitter, "{case}");
        }
    }
}

#[test]
fn errors_of_the_medium_are_only_counted_where_the_threshold_is_0() {
    let mut network = running(|cdc| {
        cdc.push(0x1c00, 3, 0, 4);
        cdc.push(0x1c01, 3, 0, 4);
        let mut patient = cn_cdc(1000);
        patient.push(0x1c0a, 3, 0, 4);
        patient.push(0x1c0f, 3, 0, 4);
        cdc.push_data(0x1f22, 1, patient.emit());
    });
    for (station, objects) in [(0, [0x1c00, 0x1c01]), (1, [0x1c0f, 0x1c0a])] {
        observe(&mut network, station, &errors(u32::MAX, 3));
        observe(&mut network, station, &errors(3, 0));
        network.run(20 * MS);
        assert!(network.operational());
        // A counter of 32 bits begins anew.
        assert_eq!(number(&mut network, station, objects[0], 1), 2);
        assert_eq!(number(&mut network, station, objects[1], 1), 3);
        assert_eq!(read(&mut network, station, 0x1003, 0), [0]);
    }
    // A threshold that is written is in force at once.
    write(&mut network, 0, 0x1c00, 3, &8_u32.to_le_bytes());
    observe(&mut network, 0, &errors(1, 0));
    assert_eq!(network.states()[0], NmtState::PRE_OPERATIONAL_1);
}

#[test]
fn a_managing_node_that_is_not_to_go_back_stays_and_tells() {
    let mut network = running(|cdc| cdc.push(0x1f80, 0, 0x1000, 4));
    observe(&mut network, 0, &errors(2, 2));
    assert!(network.operational());
    network.run(50 * MS);
    assert!(network.operational());
    assert_eq!(told(&network, 0, ErrorCode::CRC), 1);
    assert_eq!(told(&network, 0, ErrorCode::COLLISION), 1);
}

#[test]
fn without_a_cycle_errors_are_not_held_against_a_node() {
    let mut network = network(1000, &[1, 2], |_| ());
    assert_eq!(network.states()[0], NmtState::NOT_ACTIVE);
    for station in [0, 1] {
        observe(&mut network, station, &errors(100, 100));
    }
    network.run_till(5 * SECOND, "operational", Network::operational);
    for (station, code) in [(0, ErrorCode::CRC), (1, ErrorCode::COLLISION)] {
        assert_eq!(told(&network, station, code), 0);
    }
    assert_eq!(number(&mut network, 0, 0x1c00, 1), 100);
}

#[test]
fn a_lost_link_is_told_at_once_and_counted() {
    for (station, object) in [(0, 0x1c03), (1, 0x1c10)] {
        let mut network = running(|_| ());
        observe(&mut network, station, &LINK_LOST);
        assert_eq!(register(&network, station), 0x11);
        network.run(50 * MS);
        // Nothing was lost meanwhile: it stays where it is.
        assert!(network.operational());
        assert_eq!(told(&network, station, ErrorCode::LOSS_OF_LINK), 1);
        assert_eq!(signalled(&network, ErrorCode::LOSS_OF_LINK), station != 0);
        assert_eq!(register(&network, station), 0);
        observe(&mut network, station, &LINK_LOST);
        network.run(50 * MS);
        assert_eq!(number(&mut network, station, object, 0), 2);
        assert_eq!(read(&mut network, station, 0x1003, 0), [2]);
        let statistics = match &network.stations[station] {
            Station::Mn(node) => node.statistics(),
            Station::Cn(node) => node.statistics(),
        };
        assert_eq!(statistics.link_losses, 2);
        // It can be begun anew.
        write(&mut network, station, object, 0, &[0; 4]);
        observe(&mut network, station, &LINK_LOST);
        assert_eq!(number(&mut network, station, object, 0), 1);
    }
}

#[test]
fn what_a_node_has_counted_outlives_its_configuration() {
    let mut network = running(|_| ());
    observe(&mut network, 1, &LINK_LOST);
    // The cable is out for so long that the node is looked for anew, and configured.
    network.cut_ns[1] = network.now_ns + 300 * MS;
    network.run(310 * MS);
    network.run_till(5 * SECOND, "back", Network::operational);
    assert_eq!(number(&mut network, 1, 0x1c10, 0), 1);
    // The same without anybody who has asked for it before.
    observe(&mut network, 1, &LINK_LOST);
    let now_ns = network.now_ns;
    let reset = NmtCommandId::RESET_CONFIGURATION;
    network.mn().nmt(now_ns, reset, 1);
    network.run(10 * MS);
    assert_ne!(network.states()[1], NmtState::OPERATIONAL);
    network.run_till(5 * SECOND, "back", Network::operational);
    assert_eq!(number(&mut network, 1, 0x1c10, 0), 2);
}

#[test]
fn the_managing_node_keeps_what_goes_wrong_with_its_nodes() {
    let mut network = running(|_| ());
    assert_eq!(register(&network, 0), 0);
    assert_eq!(read(&mut network, 0, 0x1003, 0), [0]);
    // Lost ones that are forgiven are counted only.
    drop_responses(&mut network, 1, 1);
    network.run(20 * MS);
    assert_eq!(number(&mut network, 0, 0x1c07, 1), 1);
    assert_eq!(number(&mut network, 0, 0x1c07, 2), 0);
    assert_eq!(read(&mut network, 0, 0x1003, 0), [0]);
    drop_responses(&mut network, 1, 2);
    network.run(5 * MS);
    // While the node is gone the register tells of it.
    assert_eq!(register(&network, 0), 0x11);
    assert_eq!(read(&mut network, 0, 0x1001, 0), [0x11]);
    network.run_till(5 * SECOND, "back", Network::operational);
    network.run(100 * MS);
    assert_eq!(register(&network, 0), 0);
    assert_eq!(number(&mut network, 0, 0x1c07, 1), 3);
    assert_eq!(read(&mut network, 0, 0x1003, 0), [1]);
    let entry = read(&mut network, 0, 0x1003, 1);
    assert_eq!(entry[2..4], ErrorCode::LOSS_OF_PRES.0.to_le_bytes());
    assert_eq!(entry[12], 1, "the node that it is about");
    write(&mut network, 0, 0x1003, 0, &[0]);
    assert_eq!(read(&mut network, 0, 0x1003, 0), [0]);
    // Counters of nodes that are not there read as they are in the dictionary.
    assert_eq!(number(&mut network, 0, 0x1c07, 9), 0);
    assert_eq!(number(&mut network, 0, 0x1c09, 9), 15);
    // A reset begins the register anew, and leaves the history.
    drop_responses(&mut network, 1, 2);
    network.run(5 * MS);
    assert_eq!(register(&network, 0), 0x11);
    network.judge = None;
    let reset = NmtCommandId::RESET_NODE;
    assert!(network.cn(2).request_command(reset, MN, &[]));
    network.run_till(SECOND, "reset", |network| {
        network.states()[0] == NmtState::NOT_ACTIVE
    });
    assert_eq!(register(&network, 0), 0);
    network.run_till(8 * SECOND, "back", Network::operational);
    // Jobs of the node that was reset, too, are counted anew.
    network.events.clear();
    assert_eq!(read(&mut network, 0, 0x1003, 0), [1]);
}

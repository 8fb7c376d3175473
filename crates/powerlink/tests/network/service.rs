//! Service data, while process data run.

use crate::harness::*;
use rtwire_powerlink::sdo::{SdoFailure, SdoJob, SdoOutcome};
use rtwire_powerlink::{AbortCode, ErrorCode, Event};
use rtwire_wire::powerlink::{AsndService, MessageType, View};

/// Begins a job of a station with a node. Returns its number.
pub fn begun(network: &mut Network, station: usize, node: u8, job: SdoJob) -> u32 {
    let now_ns = network.now_ns;
    match &mut network.stations[station] {
        Station::Mn(mn) => mn.submit(now_ns, node, job),
        Station::Cn(cn) => cn.submit(now_ns, node, job),
    }
    .unwrap()
}

/// Returns the outcome of a station's job with a node.
pub fn outcome(network: &Network, station: usize, node: u8, id: u32) -> Option<SdoOutcome> {
    network
        .events
        .iter()
        .find_map(|(_, at, event)| match event {
            Event::Sdo {
                node: server,
                id: n,
                outcome,
            } if (*at, *server, *n) == (station, node, id) => Some(outcome.clone()),
            _ => None,
        })
}

/// Does a job of a station with a node. Returns its outcome.
pub fn done_by(
    network: &mut Network,
    station: usize,
    node: u8,
    job: SdoJob,
    limit_ns: u64,
) -> SdoOutcome {
    let id = begun(network, station, node, job);
    network.run_till(limit_ns, "service data", |network| {
        outcome(network, station, node, id).is_some()
    });
    outcome(network, station, node, id).unwrap()
}

/// Does a job of the managing node. Returns its outcome.
pub fn done(network: &mut Network, node: u8, job: SdoJob, limit_ns: u64) -> SdoOutcome {
    done_by(network, 0, node, job, limit_ns)
}

/// A medium that loses one message of service data in five, by chance: a regular pattern could hit the same message again and
/// again.
pub fn lose_one_in_five(network: &mut Network) {
    let mut random = 12345_u32;
    network.judge = Some(Box::new(move |_, _, frame| {
        let sdo = View::new(frame).asnd_service() == Some(AsndService::SDO);
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if sdo && random >> 16 < 0x10000 / 5 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    }));
}

/// A medium that loses the next two SoA.
fn lose_two_soa(network: &mut Network) {
    let mut left = 2;
    network.judge = Some(Box::new(move |_, _, frame| {
        let soa = View::new(frame).message_type() == Some(MessageType::SOA);
        if soa && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    }));
}

fn running(cycle_us: u64) -> Network {
    let mut network = network(cycle_us, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network
}

#[test]
fn objects_are_read_and_written() {
    let mut network = running(1000);
    let mut job = |job| done(&mut network, 1, job, SECOND);
    assert_eq!(
        job(SdoJob::Write(0x1016, 1, vec![9, 0, 0, 0])),
        SdoOutcome::Done(vec![])
    );
    assert_eq!(
        job(SdoJob::Read(0x1016, 1)),
        SdoOutcome::Done(vec![9, 0, 0, 0])
    );
    let refused = |code| SdoOutcome::Failed(SdoFailure::Abort(code));
    assert_eq!(job(SdoJob::Read(0x4444, 0)), refused(AbortCode::NO_OBJECT));
    assert_eq!(
        job(SdoJob::Read(0x1018, 9)),
        refused(AbortCode::NO_SUBINDEX)
    );
    assert_eq!(
        job(SdoJob::Write(0x1000, 0, vec![0; 4])),
        refused(AbortCode::READ_ONLY)
    );
    assert_eq!(
        job(SdoJob::Write(0x1006, 0, vec![0; 5])),
        refused(AbortCode::LENGTH_HIGH)
    );
    assert_eq!(
        job(SdoJob::Write(0x1006, 0, vec![0; 3])),
        refused(AbortCode::LENGTH_LOW)
    );
    // Mapping is not changed while process data run.
    assert_eq!(
        job(SdoJob::Write(0x1600, 0, vec![0])),
        refused(AbortCode::DEVICE_STATE)
    );
}

#[test]
fn the_error_history_is_read_and_cleared() {
    let mut network = running(1000);
    let job = |network: &mut Network, job| done(network, 1, job, SECOND);
    let done = SdoOutcome::Done;
    assert_eq!(job(&mut network, SdoJob::Read(0x1003, 0)), done(vec![0]));
    lose_two_soa(&mut network);
    network.run(50 * MS);
    network.run_till(5 * SECOND, "back", Network::operational);
    // It has outlived the reset that the loss has brought.
    assert_eq!(job(&mut network, SdoJob::Read(0x1003, 0)), done(vec![1]));
    let SdoOutcome::Done(entry) = job(&mut network, SdoJob::Read(0x1003, 1)) else {
        panic!("no entry");
    };
    assert_eq!(entry.len(), 20);
    assert_eq!(entry[2..4], ErrorCode::LOSS_OF_SOA.0.to_le_bytes());
    let refused = SdoOutcome::Failed(SdoFailure::Abort(AbortCode::RANGE));
    let write = |value| SdoJob::Write(0x1003, 0, vec![value]);
    assert_eq!(job(&mut network, write(1)), refused);
    assert_eq!(job(&mut network, write(0)), done(vec![]));
    assert_eq!(job(&mut network, SdoJob::Read(0x1003, 0)), done(vec![0]));
}

#[test]
fn the_error_register_tells_of_errors_as_long_as_they_last() {
    let mut network = running(1000);
    let register = |network: &Network| match &network.stations[1] {
        Station::Cn(node) => node.dictionary().number(0x1001, 0),
        Station::Mn(_) => u64::MAX,
    };
    assert_eq!(register(&network), 0);
    lose_two_soa(&mut network);
    network.run(5 * MS);
    assert_eq!(register(&network), 0x11, "generic, and of communication");
    network.run_till(5 * SECOND, "back", Network::operational);
    network.run(100 * MS);
    assert_eq!(register(&network), 0);
    // What the application tells stays.
    network.cn(1).dictionary_mut().set_number(0x1001, 0, 0x21);
    network.run(100 * MS);
    let read = done(&mut network, 1, SdoJob::Read(0x1001, 0), SECOND);
    assert_eq!(read, SdoOutcome::Done(vec![0x21]));
}

#[test]
fn several_objects_at_once() {
    let mut network = running(1000);
    let reads = vec![(0x1000, 0), (0x4444, 0), (0x1018, 1)];
    let outcome = done(&mut network, 1, SdoJob::ReadMultiple(reads), SECOND);
    let expected = vec![
        (0x1000, 0, Ok(vec![0x91, 1, 0x0f, 0])),
        (0x4444, 0, Err(AbortCode::NO_OBJECT)),
        (0x1018, 1, Ok(vec![0x42, 0, 0, 0])),
    ];
    assert_eq!(outcome, SdoOutcome::Multiple(expected));
    let writes = vec![
        (0x1016, 1, vec![1, 0, 0, 0]),
        (0x1000, 0, vec![0; 4]),
        (0x1f9a, 0, b"press".to_vec()),
    ];
    let outcome = done(&mut network, 1, SdoJob::WriteMultiple(writes), SECOND);
    let expected = vec![
        (0x1016, 1, Ok(vec![])),
        (0x1000, 0, Err(AbortCode::READ_ONLY)),
        (0x1f9a, 0, Ok(vec![])),
    ];
    assert_eq!(outcome, SdoOutcome::Multiple(expected));
    assert_eq!(
        network.cn(1).dictionary().read(0x1f9a, 0),
        Ok(&b"press"[..])
    );
}

#[test]
fn a_megabyte_both_ways_under_cyclic_load() {
    let mut network = running(1000);
    let blob: Vec<u8> = (0..1_000_000_u32)
        .map(|n| (n * 7 + (n >> 8)) as u8)
        .collect();
    let before = network.mn().statistics();
    let outcome = done(
        &mut network,
        1,
        SdoJob::Write(0x2100, 0, blob.clone()),
        120 * SECOND,
    );
    assert_eq!(outcome, SdoOutcome::Done(vec![]));
    assert_eq!(network.cn(1).dictionary().read(0x2100, 0), Ok(&blob[..]));
    let outcome = done(&mut network, 1, SdoJob::Read(0x2100, 0), 120 * SECOND);
    assert_eq!(outcome, SdoOutcome::Done(blob));
    // The cycle has not noticed.
    let after = network.mn().statistics();
    assert_eq!(after.lost_responses, before.lost_responses);
    assert_eq!(after.skipped_cycles, before.skipped_cycles);
    assert!(network.operational());
}

#[test]
fn lost_messages_are_sent_again() {
    let mut network = running(1000);
    lose_one_in_five(&mut network);
    let blob: Vec<u8> = (0..20_000_u32).map(|n| (n * 13) as u8).collect();
    let outcome = done(
        &mut network,
        1,
        SdoJob::Write(0x2100, 0, blob.clone()),
        600 * SECOND,
    );
    assert_eq!(outcome, SdoOutcome::Done(vec![]));
    let outcome = done(&mut network, 1, SdoJob::Read(0x2100, 0), 600 * SECOND);
    assert_eq!(outcome, SdoOutcome::Done(blob));
}

#[test]
fn a_node_that_is_gone_fails_its_jobs() {
    let mut network = running(1000);
    network.cut_ns[1] = u64::MAX;
    let outcome = done(&mut network, 1, SdoJob::Read(0x1000, 0), 60 * SECOND);
    assert_eq!(outcome, SdoOutcome::Failed(SdoFailure::Broken));
}

#[test]
fn process_data_are_read_where_they_are() {
    let mut network = running(1000);
    network.mn().image_mut().outputs[0] = 0x5a;
    network.run(5 * MS);
    let outcome = done(&mut network, 1, SdoJob::Read(0x6200, 0), SECOND);
    assert_eq!(outcome, SdoOutcome::Done(vec![0x5a]));
}

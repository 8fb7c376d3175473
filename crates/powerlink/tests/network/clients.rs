//! Service data that controlled nodes ask for: of each other, and of the managing node.

use crate::harness::*;
use crate::service::{begun, done_by, lose_one_in_five, outcome};
use rtwire_powerlink::AbortCode;
use rtwire_powerlink::sdo::{SdoFailure, SdoJob, SdoOutcome};
use rtwire_wire::powerlink::NmtCommandId;

fn running() -> Network {
    let mut network = network(1000, &[1, 2], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    network
}

fn blob(octets: u32) -> Vec<u8> {
    (0..octets).map(|n| (n * 13 + (n >> 8)) as u8).collect()
}

#[test]
fn a_controlled_node_reads_and_writes_objects_of_any_other_node() {
    let mut network = running();
    let before = network.mn().statistics();
    let mut job = |node, job| done_by(&mut network, 1, node, job, 60 * SECOND);
    assert_eq!(job(2, SdoJob::Read(0x1f93, 1)), SdoOutcome::Done(vec![2]));
    let data = blob(20_000);
    let write = SdoJob::Write(0x2100, 0, data.clone());
    assert_eq!(job(2, write), SdoOutcome::Done(vec![]));
    assert_eq!(job(2, SdoJob::Read(0x2100, 0)), SdoOutcome::Done(data));
    let refused = |code| SdoOutcome::Failed(SdoFailure::Abort(code));
    assert_eq!(
        job(2, SdoJob::Read(0x4444, 0)),
        refused(AbortCode::NO_OBJECT)
    );
    // The managing node has objects, too.
    let cycle = 1000_u32.to_le_bytes().to_vec();
    assert_eq!(job(240, SdoJob::Read(0x1006, 0)), SdoOutcome::Done(cycle));
    // Nobody is there.
    assert_eq!(
        job(7, SdoJob::Read(0x1000, 0)),
        SdoOutcome::Failed(SdoFailure::Broken)
    );
    // The cycle has not noticed.
    let after = network.mn().statistics();
    assert_eq!(after.lost_responses, before.lost_responses);
    assert_eq!(after.skipped_cycles, before.skipped_cycles);
    assert!(network.operational());
}

#[test]
fn a_node_asks_no_number_that_is_no_other_nodes() {
    let mut network = running();
    let now_ns = network.now_ns;
    for node in [0, 1, 255] {
        let job = SdoJob::Read(0x1000, 0);
        assert_eq!(network.cn(1).submit(now_ns, node, job), None);
    }
}

/// Each of two nodes asks the other, and the managing node asks both and is asked by both, while one message in five
/// is lost. Over ASnd nothing tells the links of two nodes apart that ask each other, so they do it one after the
/// other.
#[test]
fn nodes_that_ask_each_other_at_once_get_what_they_asked_for() {
    let mut network = running();
    lose_one_in_five(&mut network);
    let pairs = [(1, 2), (2, 1), (0, 1), (1, 240), (0, 2), (2, 240)];
    for turn in 0..20 {
        let mut jobs = Vec::new();
        for (station, node) in pairs {
            let (write, read) = if node == 240 {
                let name = [b'a' + turn, b'0' + station as u8];
                let object = (0x1f9a, 0);
                (
                    SdoJob::Write(object.0, object.1, name.to_vec()),
                    (SdoJob::Read(0x1f93, 1), vec![240]),
                )
            } else {
                (
                    SdoJob::Write(0x2100, 0, blob(700 + u32::from(turn))),
                    (SdoJob::Read(0x1f93, 1), vec![node]),
                )
            };
            let id = begun(&mut network, station, node, write);
            jobs.push((station, node, id, SdoOutcome::Done(vec![])));
            let id = begun(&mut network, station, node, read.0);
            jobs.push((station, node, id, SdoOutcome::Done(read.1)));
        }
        network.run_till(600 * SECOND, "all answered", |network| {
            let answered = |&(station, node, id, _): &(usize, u8, u32, SdoOutcome)| {
                outcome(network, station, node, id).is_some()
            };
            jobs.iter().all(answered)
        });
        for (station, node, id, expected) in jobs {
            let found = outcome(&network, station, node, id);
            assert_eq!(found, Some(expected), "{turn}: {station} asks {node}");
        }
    }
    for node in [1, 2] {
        let written = network.cn(node).dictionary().read(0x2100, 0);
        assert_eq!(written, Ok(&blob(719)[..]));
    }
}

#[test]
fn a_node_that_is_reset_gives_up_what_it_asked_for() {
    let mut network = running();
    let id = begun(&mut network, 1, 2, SdoJob::Write(0x2100, 0, blob(20_000)));
    network.run(20 * MS);
    assert_eq!(outcome(&network, 1, 2, id), None);
    let now_ns = network.now_ns;
    network
        .mn()
        .nmt(now_ns, NmtCommandId::RESET_COMMUNICATION, 1);
    network.run(20 * MS);
    let broken = SdoOutcome::Failed(SdoFailure::Broken);
    assert_eq!(outcome(&network, 1, 2, id), Some(broken));
    network.run_till(60 * SECOND, "back", Network::operational);
    // Its next job has another number.
    let next = begun(&mut network, 1, 2, SdoJob::Read(0x1f93, 1));
    assert_ne!(next, id);
    network.run(2 * SECOND);
    let read = SdoOutcome::Done(vec![2]);
    assert_eq!(outcome(&network, 1, 2, next), Some(read));
}

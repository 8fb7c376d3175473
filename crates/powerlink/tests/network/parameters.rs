//! Parameters that a node stores and restores on command (1010h, 1011h). The signatures are the numbers of DS 301.

use crate::harness::*;
use crate::service::{begun, done, outcome};
use rtwire_powerlink::sdo::{SdoFailure, SdoJob, SdoOutcome};
use rtwire_powerlink::{AbortCode, ControlledNode, ObjectDictionary};
use rtwire_wire::powerlink::NmtCommandId;

const SAVE: u32 = 0x6576_6173;
const LOAD: u32 = 0x6461_6f6c;

fn keeping(node: u8, stored: Option<&[u8]>) -> (ControlledNode, Result<usize, String>) {
    let mut cn = cn(node);
    let taken = cn
        .keep_parameters(stored)
        .map_err(|error| error.to_string());
    (cn, taken)
}

fn running(stored: Option<&[u8]>) -> Network {
    let (node, taken) = keeping(1, stored);
    assert!(taken.is_ok(), "{taken:?}");
    let stations = vec![
        Station::Mn(Box::new(mn(&mn_cdc(1000, &[1], |_| ())))),
        Station::Cn(Box::new(node)),
    ];
    let mut network = Network::new(stations);
    network.run_till(5 * SECOND, "operational", Network::operational);
    network
}

fn write(network: &mut Network, index: u16, subindex: u8, data: &[u8]) -> SdoOutcome {
    done(
        network,
        1,
        SdoJob::Write(index, subindex, data.to_vec()),
        SECOND,
    )
}

/// Commands the node to store or restore, and plays its application. Returns the bytes of the file.
fn command(network: &mut Network, index: u16, group: u8, works: bool) -> (SdoOutcome, Vec<u8>) {
    let signature = if index == 0x1010 { SAVE } else { LOAD };
    let job = SdoJob::Write(index, group, signature.to_le_bytes().to_vec());
    let id = begun(network, 0, 1, job);
    network.run(200 * MS);
    assert_eq!(outcome(network, 0, 1, id), None, "nothing is stored yet");
    let bytes = network.cn(1).parameters_to_store().unwrap();
    assert_eq!(network.cn(1).parameters_to_store(), None, "handed out once");
    network.cn(1).parameters_stored(works);
    network.run_till(SECOND, "an answer", |network| {
        outcome(network, 0, 1, id).is_some()
    });
    (outcome(network, 0, 1, id).unwrap(), bytes)
}

fn refused(code: AbortCode) -> SdoOutcome {
    SdoOutcome::Failed(SdoFailure::Abort(code))
}

const DONE: SdoOutcome = SdoOutcome::Done(Vec::new());

#[test]
fn what_is_saved_is_there_at_the_next_start() {
    let mut network = running(None);
    assert_eq!(write(&mut network, 0x1020, 3, &[77, 0, 0, 0]), DONE);
    assert_eq!(write(&mut network, 0x2100, 0, b"recipe"), DONE);
    let wrong = write(&mut network, 0x1010, 1, &LOAD.to_le_bytes());
    assert_eq!(wrong, refused(AbortCode::NOT_STORED));
    assert_eq!(network.cn(1).parameters_to_store(), None);
    let (answer, bytes) = command(&mut network, 0x1010, 1, true);
    assert_eq!(answer, DONE);
    // The program ends. Another one starts.
    let (node, taken) = keeping(1, Some(&bytes));
    assert!(taken.is_ok_and(|count| count >= 2));
    let d = node.dictionary();
    assert_eq!(d.number(0x1020, 3), 77);
    assert_eq!(d.entry(0x2100, 0).unwrap().value, b"recipe");
    // What its managing node has written is among it: the configuration need not be written again.
    assert_eq!((d.number(0x1006, 0), d.number(0x1020, 1)), (1000, 14_000));
    assert_eq!(node.image().outputs.len(), 1, "the mapping, too");
    let network = running(Some(&bytes));
    let writes = |_: usize, event: &rtwire_powerlink::Event| {
        matches!(
            event,
            rtwire_powerlink::Event::Written { index: 0x1a00, .. }
        )
    };
    assert_eq!(network.happened(writes), None);
}

#[test]
fn process_data_counters_and_commands_are_no_parameters() {
    let mut network = running(None);
    network.cn(1).image_mut().outputs[0] = 5;
    assert_eq!(write(&mut network, 0x1c0b, 1, &[9, 0, 0, 0]), DONE);
    assert_eq!(write(&mut network, 0x1c0b, 3, &[20, 0, 0, 0]), DONE);
    let (_, bytes) = command(&mut network, 0x1010, 1, true);
    let (node, _) = keeping(1, Some(&bytes));
    assert_eq!(node.image().outputs, [0]);
    assert_eq!(node.dictionary().number(0x1c0b, 1), 0);
    assert_eq!(node.dictionary().number(0x1c0b, 3), 20);
}

#[test]
fn groups_are_stored_and_restored_apart_and_defaults_return_with_a_reset() {
    let mut network = running(None);
    write(&mut network, 0x1020, 3, &[77, 0, 0, 0]);
    write(&mut network, 0x2100, 0, b"recipe");
    let (answer, bytes) = command(&mut network, 0x1010, 4, true);
    assert_eq!(answer, DONE);
    let d = |bytes: &[u8]| keeping(1, Some(bytes)).0.dictionary().clone();
    let recipe = |d: &ObjectDictionary| d.entry(0x2100, 0).unwrap().value.clone();
    assert_eq!(
        (d(&bytes).number(0x1020, 3), recipe(&d(&bytes))),
        (0, b"recipe".to_vec())
    );
    let (_, bytes) = command(&mut network, 0x1010, 2, true);
    assert_eq!(
        (d(&bytes).number(0x1020, 3), recipe(&d(&bytes))),
        (77, b"recipe".to_vec())
    );
    let (answer, bytes) = command(&mut network, 0x1011, 2, true);
    assert_eq!(answer, DONE);
    assert_eq!(
        (d(&bytes).number(0x1020, 3), recipe(&d(&bytes))),
        (0, b"recipe".to_vec())
    );
    // In force from the reset on.
    assert_eq!(network.cn(1).dictionary().number(0x1020, 3), 77);
    let now_ns = network.now_ns;
    network.mn().nmt(now_ns, NmtCommandId::RESET_NODE, 1);
    network.run(50 * MS);
    assert_eq!(network.cn(1).dictionary().number(0x1020, 3), 0);
    assert_eq!(recipe(network.cn(1).dictionary()), b"recipe");
}

#[test]
fn what_could_not_be_stored_is_refused_and_what_was_stored_stays() {
    let mut network = running(None);
    write(&mut network, 0x2100, 0, b"first");
    command(&mut network, 0x1010, 1, true);
    write(&mut network, 0x2100, 0, b"second");
    let (answer, _) = command(&mut network, 0x1010, 1, false);
    assert_eq!(answer, refused(AbortCode::HARDWARE));
    let now_ns = network.now_ns;
    network.mn().nmt(now_ns, NmtCommandId::RESET_NODE, 1);
    network.run(50 * MS);
    let value = &network.cn(1).dictionary().entry(0x2100, 0).unwrap().value;
    assert_eq!(value, b"first");
}

#[test]
fn a_node_without_a_place_for_them_stores_nothing_and_says_so() {
    let mut network = network(1000, &[1], |_| ());
    network.run_till(5 * SECOND, "operational", Network::operational);
    let answer = write(&mut network, 0x1010, 1, &SAVE.to_le_bytes());
    assert_eq!(answer, refused(AbortCode::NO_OBJECT));
}

#[test]
fn damaged_old_and_foreign_files_are_told_apart_and_leave_the_defaults() {
    let mut network = running(None);
    write(&mut network, 0x1020, 3, &[77, 0, 0, 0]);
    let (_, bytes) = command(&mut network, 0x1010, 1, true);
    let fault = |node: u8, bytes: &[u8]| {
        let (cn, taken) = keeping(node, Some(bytes));
        let d = cn.dictionary();
        assert_eq!(
            (d.number(0x1020, 3), d.number(0x1006, 0)),
            (0, 0),
            "defaults"
        );
        assert_eq!(d.number(0x1010, 1), 1, "it stores as well");
        taken.unwrap_err()
    };
    // No octet of it may differ, and none may be missing.
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fault(1, &changed);
        fault(1, &bytes[..at]);
    }
    assert!(fault(1, b"[station]\n").contains("no file of stored parameters"));
    assert!(fault(1, &bytes[..bytes.len() - 1]).contains("damaged"));
    let mut newer = bytes.clone();
    newer[18] = 2;
    assert!(fault(1, &newer).contains("format 2; this program reads format 1"));
    assert!(fault(2, &bytes).contains("of node 1, not of node 2"));
    let other = |change: &dyn Fn(&mut ObjectDictionary)| {
        let mut dictionary = cn_dictionary();
        change(&mut dictionary);
        let config = rtwire_powerlink::cn::ControlledConfig {
            node: 1,
            address: address(1),
            dictionary,
            limits: rtwire_powerlink::cn::Limits::default(),
        };
        let mut node = ControlledNode::new(config).unwrap();
        node.keep_parameters(Some(&bytes)).unwrap_err().to_string()
    };
    assert!(other(&|d| d.set_number(0x1018, 1, 0x43)).contains("another device"));
    let grown =
        other(&|d| d.insert_variable(0x2101, "new", rtwire_powerlink::od::DataType::Unsigned(1)));
    assert!(grown.contains("older configuration"), "{grown}");
}

//! Discovery in virtual time: bytes of the standard, one answer for several probes, foreign and damaged messages.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::Sent;
use rtwire_pubsub::Publisher;
use rtwire_pubsub::discovery::{Announcer, Description, DiscoveryFault, Learned, learn, probe};
use rtwire_pubsub::uabinary::{Item, Record};
use rtwire_wire::Node;
use rtwire_wire::uadp::{Information, WriterIds};

const MS: u64 = 1_000_000;
const OURS: Publisher = Publisher::UInt16(2234);

fn meta(name: &str) -> Record {
    let field = Record::named("FieldMetaData").unwrap();
    let field = field
        .with("Name", "x")
        .with("BuiltInType", 6_u8)
        .with("ValueRank", -1_i32);
    let version = Record::named("ConfigurationVersionDataType").unwrap();
    let version = version
        .with("MajorVersion", 3_u32)
        .with("MinorVersion", 4_u32);
    Record::named("DataSetMetaDataType")
        .unwrap()
        .with("Name", name)
        .with("Fields", Item::records(vec![field]))
        .with("ConfigurationVersion", version)
}

fn group() -> Record {
    let group = Record::named("WriterGroupDataType").unwrap();
    group.with("Name", "g").with("WriterGroupId", 100_u16)
}

fn announcer() -> Announcer {
    let all = [
        Description::Group {
            group: 100,
            writers: vec![7, 8],
            configuration: group(),
        },
        Description::MetaData {
            writer: 7,
            meta: meta("a"),
        },
        Description::MetaData {
            writer: 8,
            meta: meta("b"),
        },
    ];
    Announcer::new(OURS, &[], 0, &all, 5).unwrap()
}

/// Returns what is sent up to a time, and that time's next wake.
fn until(announcer: &mut Announcer, end_ns: u64) -> Vec<Vec<u8>> {
    let mut sent = Sent::default();
    while let Some(at) = announcer.wake_at_ns().filter(|at| *at <= end_ns) {
        announcer.moment(at, &mut sent);
    }
    sent.0
}

fn ask(announcer: &mut Announcer, now_ns: u64, information: Information<'_>) {
    let mut bytes = probe(&OURS, information).unwrap();
    // As in a frame of the least length.
    bytes.resize(bytes.len().max(46), 0);
    announcer.frame(now_ns, &bytes, &mut Sent::default());
}

#[test]
fn the_bytes_of_probe_and_announcement_are_the_standard_s() {
    // OPC 10000-14, 7.2.4.6: flags, security header (flags, token, no nonce), ProbeType 1, InformationType 2, the writers.
    let bytes = probe(&OURS, Information::MetaData(WriterIds::of(&[7]))).unwrap();
    let wanted = [
        &[0x91, 0x91, 0x04, 0xba, 0x08][..],
        &[0; 6],
        &[1, 2, 1, 0, 0, 0, 7, 0],
    ];
    assert_eq!(bytes, wanted.concat());
    let mut announcer = announcer();
    ask(
        &mut announcer,
        0,
        Information::MetaData(WriterIds::of(&[7])),
    );
    let sent = until(&mut announcer, 500 * MS);
    let mut wanted = vec![0x91, 0x91, 0x08, 0xba, 0x08];
    wanted.extend([0; 6]);
    wanted.extend([2, 0, 0, 7, 0]);
    // Namespaces, three lists of data types: null. Name, no description, one field.
    wanted.extend([0xff; 16]);
    wanted.extend([1, 0, 0, 0, b'a', 0, 1, 0, 0, 0]);
    // Its name, no description, flags, built-in type, data type, rank, no dimensions, no length of texts, id, no properties.
    wanted.extend([1, 0, 0, 0, b'x', 0, 0, 0, 6, 0, 0]);
    wanted.extend([0xff; 8]);
    wanted.extend([0; 4 + 16]);
    wanted.extend([0xff; 4]);
    // The class of the data set, the version, the status.
    wanted.extend([0; 16]);
    wanted.extend([3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(sent, [wanted]);
}

/// Publishers and subscribers that leave the security header out are understood.
#[test]
fn discovery_without_a_security_header_is_read() {
    let without = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[1] &= !0x10;
        bytes.drain(5..11);
        bytes
    };
    let mut announcer = announcer();
    let all = Information::MetaData(WriterIds::of(&[7]));
    let bytes = without(&probe(&OURS, all).unwrap());
    announcer.frame(0, &bytes, &mut Sent::default());
    let sent = until(&mut announcer, 500 * MS).remove(0);
    let learned = learn(&OURS, &sent).unwrap();
    assert!(matches!(learned, Some(Learned::MetaData { writer: 7, .. })));
    assert_eq!(learn(&OURS, &without(&sent)).unwrap(), learned);
}

#[test]
fn an_answer_waits_for_100_to_500_ms_and_no_later_probe_delays_it() {
    for seed in 0..300 {
        let all = [Description::MetaData {
            writer: 7,
            meta: meta("a"),
        }];
        let mut announcer = Announcer::new(OURS, &[], 0, &all, seed).unwrap();
        ask(&mut announcer, 0, Information::MetaData(WriterIds::of(&[])));
        let first = announcer.wake_at_ns().unwrap();
        assert!(
            (100 * MS..=500 * MS).contains(&first),
            "seed {seed}: {first}"
        );
        ask(
            &mut announcer,
            90 * MS,
            Information::MetaData(WriterIds::of(&[7])),
        );
        assert!(announcer.wake_at_ns().unwrap() <= first, "seed {seed}");
    }
}

#[test]
fn several_probes_have_one_answer_after_a_while() {
    let mut announcer = announcer();
    for now in 0..50 {
        ask(
            &mut announcer,
            now,
            Information::MetaData(WriterIds::of(&[8])),
        );
    }
    assert_eq!(until(&mut announcer, 99 * MS), [[0_u8; 0]; 0], "too early");
    let sent = until(&mut announcer, 500 * MS);
    assert_eq!(sent.len(), 1);
    let learned = learn(&OURS, &sent[0]).unwrap().unwrap();
    assert_eq!(
        learned,
        Learned::MetaData {
            writer: 8,
            meta: meta("b")
        }
    );
    // An empty list asks for all; a group by its number or by its writers.
    ask(&mut announcer, 0, Information::MetaData(WriterIds::of(&[])));
    assert_eq!(until(&mut announcer, 500 * MS).len(), 2);
    ask(
        &mut announcer,
        0,
        Information::WriterConfiguration(WriterIds::of(&[8])),
    );
    let sent = until(&mut announcer, 500 * MS);
    let configuration = Learned::Group {
        writers: vec![7, 8],
        configuration: group(),
    };
    assert_eq!(learn(&OURS, &sent[0]).unwrap(), Some(configuration));
    let by_number = |writer_group_id| Information::WriterGroup {
        writer_group_id,
        include_writers: true,
    };
    ask(&mut announcer, 0, by_number(101));
    assert_eq!(announcer.wake_at_ns(), None);
    ask(&mut announcer, 0, by_number(100));
    assert_eq!(until(&mut announcer, 500 * MS).len(), 1);
    assert_eq!(announcer.counters().announcements, 5);
}

#[test]
fn foreign_and_damaged_messages_are_no_questions_and_no_answers() {
    let mut announcer = announcer();
    let all = Information::MetaData(WriterIds::of(&[]));
    for other in [Publisher::UInt16(2235), Publisher::UInt32(2234)] {
        let bytes = probe(&other, all).unwrap();
        announcer.frame(0, &bytes, &mut Sent::default());
    }
    ask(
        &mut announcer,
        0,
        Information::MetaData(WriterIds::of(&[9])),
    );
    ask(&mut announcer, 0, Information::Endpoints);
    let bytes = probe(&OURS, all).unwrap();
    for length in 0..bytes.len() {
        announcer.frame(0, &bytes[..length], &mut Sent::default());
    }
    assert_eq!(announcer.wake_at_ns(), None);
    assert_eq!(announcer.counters().foreign, 2);
    ask(&mut announcer, 0, all);
    let answer = until(&mut announcer, 500 * MS).remove(0);
    assert_eq!(learn(&Publisher::UInt16(1), &answer).unwrap(), None);
    for length in 0..answer.len() - 4 {
        let found = learn(&OURS, &answer[..length]);
        assert!(!matches!(found, Ok(Some(_))), "{length} bytes");
    }
    // A bad status: the publisher does not have it.
    let mut refused = answer.clone();
    let end = refused.len();
    refused[end - 1] = 0x80;
    assert!(matches!(
        learn(&OURS, &refused),
        Ok(Some(Learned::Refused { .. }))
    ));
    // A frame of ours is no answer to ourselves.
    announcer.frame(0, &answer, &mut Sent::default());
    assert_eq!(announcer.wake_at_ns(), None);
}

#[test]
fn a_description_beyond_a_frame_is_refused_when_it_is_made() {
    let long = Description::MetaData {
        writer: 7,
        meta: meta(&"x".repeat(1500)),
    };
    let fault = Announcer::new(OURS, &[], 0, &[long], 1).unwrap_err();
    assert!(matches!(fault, DiscoveryFault::TooLong { .. }), "{fault}");
}

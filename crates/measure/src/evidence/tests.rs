use proptest::prelude::*;

use super::*;
use crate::noise::{NoiseRecord, Stall, StallSource};
use crate::report::Machine;

pub(super) fn header() -> Header {
    Header {
        format: FORMAT,
        run: "one".to_owned(),
        network: "two hosts".to_owned(),
        plan_id: "abc".to_owned(),
        epoch: 1,
        host: "A".to_owned(),
        interface: "eth0".to_owned(),
        open_ns: 1_000,
        start_ns: 2_000,
        planned_ns: None,
        talkers: vec![TalkerEntry {
            stream: "there".to_owned(),
            path: "qdisc".to_owned(),
            stamps: StampKind::Kernel,
            paced: true,
        }],
        listeners: vec![ListenerEntry {
            stream: "back".to_owned(),
            path: "packet".to_owned(),
        }],
        clock: ClockBasis::Stated {
            uncertainty_ns: 500,
        },
        stamps: None,
        boot_id: "boot".to_owned(),
        machine: Machine::default(),
    }
}

fn whole() -> HostEvidence {
    let mut whole = HostEvidence::new(header());
    for sequence in 0..5 {
        let at = 2_000 + u64::from(sequence) * 1_000;
        whole.sent[0].push(SentRecord {
            sequence,
            late_ns: 7,
            called_ns: at,
            returned_ns: at + 40,
            launch_ns: 0,
        });
        whole.stamps[0].push(StampRecord {
            sequence,
            stamp_ns: at + 20,
        });
        whole.arrivals[0].push(ArrivalRecord {
            sequence,
            stamp_ns: at + 60,
            sender_ns: at + 10,
            read_ns: at + 90,
        });
    }
    whole.account.marks.push(Mark {
        at_ns: 5_000,
        card_error_ns: None,
        clock: Some(ClockLook {
            offset_ns: Some(-3),
            uncertainty_ns: Some(800),
            state: String::new(),
            set: Vec::new(),
        }),
    });
    whole.account.talkers.push(TalkerTotals {
        stream: "there".to_owned(),
        frames_sent: 5,
        ..TalkerTotals::default()
    });
    whole.account.listeners.push(ListenerTotals {
        stream: "back".to_owned(),
        frames_received: 5,
        ..ListenerTotals::default()
    });
    whole.account.noise = Some(NoiseRecord {
        stalls: vec![Stall {
            source: StallSource::Core(1),
            alive_ns: 1,
            due_ns: 2,
            woke_ns: 3,
        }],
        ..NoiseRecord::default()
    });
    whole.account.end = Some(End {
        sent_to_ns: 7_000,
        heard_to_ns: 8_000,
        interrupted: false,
        records: [5, 5, 5],
    });
    whole
}

#[test]
fn what_is_written_is_read_back() {
    assert_eq!(read(&whole().to_bytes()).unwrap(), whole());
}

/// Wherever it is cut, what is left is a truncated beginning of the whole, never a complete one.
#[test]
fn a_file_that_is_cut_anywhere_says_so() {
    let (whole, bytes) = (whole(), whole().to_bytes());
    let mut lengths = std::collections::BTreeSet::new();
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Err(error) => assert_eq!(error, EvidenceError::NoHeader, "cut at {length}"),
            Ok(part) => {
                assert!(part.account.is_truncated(), "cut at {length}");
                assert!(whole.sent[0].starts_with(&part.sent[0]), "cut at {length}");
                lengths.insert((part.sent[0].len(), part.account.talkers.len()));
            }
        }
        // A file system may leave zeros where the data did not reach the disk.
        let mut padded = bytes[..length].to_vec();
        padded.resize(length + 64, 0);
        let zeros = read(&padded);
        assert!(
            zeros
                .as_ref()
                .map_or(true, |part: &HostEvidence| part.account.is_truncated()),
            "zeros from {length}"
        );
    }
    assert_eq!(lengths.len(), 3, "cut before and behind each part");
}

#[test]
fn blocks_that_are_left_out_doubled_or_moved_are_found() {
    let mut encoder = Encoder::default();
    let blocks = [
        encoder.header(&header()),
        encoder.mark(&Mark {
            at_ns: 1,
            card_error_ns: None,
            clock: None,
        }),
        encoder.mark(&Mark {
            at_ns: 2,
            card_error_ns: None,
            clock: None,
        }),
        encoder.mark(&Mark {
            at_ns: 3,
            card_error_ns: None,
            clock: None,
        }),
    ];
    for order in [&[0, 2, 3][..], &[0, 1, 1, 2, 3], &[0, 2, 1, 3], &[0, 3]] {
        let file: Vec<u8> = order.iter().flat_map(|&at| blocks[at].clone()).collect();
        let error = read(&file).unwrap_err();
        assert!(
            matches!(error, EvidenceError::Damaged { .. }),
            "{order:?}: {error}"
        );
    }
    let mut more = whole().to_bytes();
    more.extend(b"and more");
    assert!(matches!(read(&more), Err(EvidenceError::Damaged { .. })));
}

#[test]
fn a_right_check_does_not_make_a_wrong_content_right() {
    let mut encoder = Encoder::default();
    let mut file = encoder.header(&header());
    file.extend(encoder.sent(9, &[SentRecord::default()]));
    let error = read(&file).unwrap_err().to_string();
    assert!(error.contains("does not have"), "{error}");
    // An end that comes before the totals.
    let mut encoder = Encoder::default();
    let mut file = encoder.header(&header());
    file.extend(encoder.end(End::default()));
    let error = read(&file).unwrap_err().to_string();
    assert!(error.contains("other streams"), "{error}");
    let mut encoder = Encoder::default();
    let later = Header {
        format: 7,
        ..header()
    };
    let error = read(&encoder.header(&later)).unwrap_err();
    assert_eq!(error, EvidenceError::Version { found: 7 });
    assert_eq!(read(b"[network]").unwrap_err(), EvidenceError::NotEvidence);
}

#[test]
fn a_clock_is_known_only_if_every_look_was_well() {
    let mut evidence = whole();
    assert_eq!(evidence.account.clock_uncertainty_ns(), Some(500), "stated");
    evidence.account.header.clock = ClockBasis::Ptp {
        uncertainty_ns: 700,
    };
    assert_eq!(
        evidence.account.clock_uncertainty_ns(),
        Some(800),
        "the worst look"
    );
    evidence.account.marks.push(Mark {
        at_ns: 6_000,
        card_error_ns: None,
        clock: Some(ClockLook {
            offset_ns: None,
            uncertainty_ns: None,
            state: "LISTENING".to_owned(),
            set: Vec::new(),
        }),
    });
    assert_eq!(evidence.account.clock_uncertainty_ns(), None);
    evidence.account.header.clock = ClockBasis::Unknown;
    assert_eq!(evidence.account.clock_uncertainty_ns(), None);
}

proptest! {
    /// A changed byte is found, or it leaves a file that ends too early: never a whole one.
    #[test]
    fn a_changed_byte_never_leaves_a_whole_file(at in 0_usize..4_000, bits in 1_u8..=255) {
        let mut bytes = whole().to_bytes();
        let at = at % bytes.len();
        bytes[at] ^= bits;
        let read = read(&bytes);
        prop_assert!(read.is_err(), "byte {at}: {read:?}");
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
        let mut file = Encoder::default().header(&header());
        file.extend(bytes);
        let _ = read(&file);
    }
}

/// Right checks around a stall that ends before it begins: nothing in it can be judged.
#[test]
fn a_stall_that_ends_before_it_begins_is_refused() {
    for (alive_ns, due_ns, woke_ns) in [(1, 3, 2), (3, 2, 4), (u64::MAX, u64::MAX, 0)] {
        let mut whole = whole();
        let noise = whole.account.noise.as_mut().unwrap();
        noise.stalls.push(Stall {
            source: StallSource::Core(1),
            alive_ns,
            due_ns,
            woke_ns,
        });
        let refused = read(&whole.to_bytes()).unwrap_err().to_string();
        assert!(refused.contains("ends before it begins"), "{refused}");
    }
}

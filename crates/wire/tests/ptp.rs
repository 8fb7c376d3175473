//! PTP management messages: our questions, `ptp4l`'s answers, and arbitrary bytes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use rtwire_wire::ptp::{self, Action, Data, Message, PortState, PtpError, id};

/// Returns an answer's octets: a question's, with the action and the data of the answer.
fn answer(identifier: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ptp::QUESTION_OCTETS];
    ptp::question(identifier, 0, 0, 9, 1, &mut bytes).unwrap();
    bytes[46] = 2;
    bytes[50..52].copy_from_slice(&u16::try_from(2 + data.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

#[test]
fn answers_are_read() {
    let mut status = vec![0; 50];
    status[..8].copy_from_slice(&(-123_i64).to_be_bytes());
    status[38..42].copy_from_slice(&1_i32.to_be_bytes());
    status[42..50].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let bytes = answer(id::TIME_STATUS_NP, &status);
    let message = Message::parse(&bytes).unwrap();
    assert_eq!((message.sequence, message.action), (9, Action::Response));
    let Data::TimeStatus {
        offset_ns,
        grandmaster_present,
        grandmaster,
        ..
    } = message.data
    else {
        panic!("{message:?}");
    };
    assert_eq!((offset_ns, grandmaster_present), (-123, true));
    assert_eq!(grandmaster.to_string(), "010203.0405.060708");

    let mut port = vec![0; 26];
    port[9] = 3;
    port[10] = 9;
    let bytes = answer(id::PORT_DATA_SET, &port);
    assert!(matches!(
        Message::parse(&bytes).unwrap().data,
        Data::Port {
            number: 3,
            state: PortState::Slave,
            ..
        }
    ));
    let bytes = answer(id::TIME_PROPERTIES_DATA_SET, &[0, 37, 0x0c, 0xa0]);
    assert_eq!(
        Message::parse(&bytes).unwrap().data,
        Data::TimeProperties {
            utc_offset_s: 37,
            utc_offset_valid: true,
            ptp_timescale: true,
            traceable: false
        }
    );
    // Too short for its identifier.
    let bytes = answer(id::TIME_STATUS_NP, &[1, 2]);
    assert!(matches!(
        Message::parse(&bytes).unwrap().data,
        Data::Other { octets: [1, 2], .. }
    ));
}

#[test]
fn what_is_no_answer_is_named() {
    let bytes = answer(id::PORT_DATA_SET, &[0; 26]);
    for cut in 0..bytes.len() {
        assert!(
            matches!(
                Message::parse(&bytes[..cut]),
                Err(PtpError::Truncated { .. })
            ),
            "{cut}"
        );
    }
    let mut sync = bytes.clone();
    sync[0] = 0;
    assert_eq!(
        Message::parse(&sync),
        Err(PtpError::NoManagement { found: 0 })
    );
    let mut old = bytes.clone();
    old[1] = 1;
    assert_eq!(Message::parse(&old), Err(PtpError::Version { found: 1 }));
    let mut short = [0; 10];
    assert!(ptp::question(id::PORT_DATA_SET, 0, 0, 0, 0, &mut short).is_err());
}

proptest! {
    #[test]
    fn a_question_is_read_as_it_was_asked(
        identifier in any::<u16>(), domain in any::<u8>(), specific in 0_u8..16, sequence in any::<u16>(),
    ) {
        let mut bytes = [0; ptp::QUESTION_OCTETS];
        let length = ptp::question(identifier, domain, specific, sequence, 1, &mut bytes).unwrap();
        let message = Message::parse(&bytes[..length]).unwrap();
        prop_assert_eq!(
            (message.domain, message.transport_specific, message.sequence, message.action, message.data),
            (domain, specific, sequence, Action::Get, Data::Empty { id: identifier })
        );
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..160), known in any::<bool>()) {
        if known && bytes.len() > 54 {
            bytes[0] = 0xd;
            bytes[1] = 2;
            bytes[48..50].copy_from_slice(&[0, 1]);
            bytes[50] = 0;
        }
        let _ = Message::parse(&bytes);
    }
}

//! Every message survives its bytes, golden bytes stay, and no other bytes are a message.

use proptest::prelude::*;

use crate::*;

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-zA-Z0-9._-]{0,63}"
}

prop_compose! {
    fn an_ask()(
        listener in name(), udp: bool, pcp in 0_u8..8, vlan in prop::option::of(1_u16..4095),
        frame_bytes: u16, rate_bytes_per_ms: u32, burst_bytes: u32,
        deadline_ns in prop::option::of(1_u64..), interval_ns in prop::option::of(1_u64..), source_port: u16, port: u16,
    ) -> Ask {
        let carrier = if udp { Carrier::Udp } else { Carrier::Rtdip };
        Ask { listener, carrier, pcp, vlan, frame_bytes, rate_bytes_per_ms, burst_bytes, deadline_ns, interval_ns, source_port, port }
    }
}

prop_compose! {
    fn a_grant()(
        connection: u64, epoch: u64, talker in name(), ask in an_ask(), promise_ns: u64, offset: u64,
        number: u32, key: u32,
    ) -> Granted {
        let launch_offset_ns = ask.interval_ns.map(|interval_ns| offset % interval_ns);
        Granted { connection, epoch, talker, ask, promise_ns, launch_offset_ns, number, key }
    }
}

prop_compose! {
    fn a_header()(host in name(), epoch: u64, session: u64, sequence: u64) -> Header {
        Header { host, epoch, session, sequence }
    }
}

fn a_question() -> impl Strategy<Value = Question> {
    prop_oneof![
        any::<u128>().prop_map(|nonce| Question::Hello { nonce }),
        (any::<u128>(), any::<bool>(), an_ask()).prop_map(|(request, only_ask, ask)| {
            Question::Reserve {
                request,
                only_ask,
                ask,
            }
        }),
        (any::<u128>(), any::<u64>()).prop_map(|(request, connection)| Question::Release {
            request,
            connection
        }),
        (any::<u128>(), any::<u64>())
            .prop_map(|(request, after)| Question::List { request, after }),
        (any::<u128>(), any::<u64>()).prop_map(|(request, connection)| Question::Explain {
            request,
            connection
        }),
        (any::<u128>(), name(), any::<u32>()).prop_map(|(request, listener, wanted)| {
            Question::Share {
                request,
                listener,
                wanted_bytes_per_ms: wanted,
            }
        }),
    ]
}

prop_compose! {
    fn a_hop()(node in name(), to in name(), class: u8, budget_ns: u64, cable_ns: u64) -> Hop {
        Hop { node, to, class, budget_ns, cable_ns }
    }
}

fn an_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        any::<u128>().prop_map(|nonce| Answer::Welcome { nonce }),
        Just(Answer::NoSession),
        a_grant().prop_map(Answer::Granted),
        (0..Reason::ALL.len(), any::<u32>(), ".{0,60}").prop_map(|(at, retry_after_us, text)| {
            Answer::Refused(Refused {
                reason: Reason::ALL[at],
                retry_after_us,
                text,
            })
        }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(connection, epoch)| Answer::Released { connection, epoch }),
        (prop::collection::vec(a_grant(), 0..5), any::<bool>())
            .prop_map(|(connections, more)| Answer::Listing { connections, more }),
        (a_grant(), prop::collection::vec(a_hop(), 0..7))
            .prop_map(|(granted, hops)| Answer::Explained { granted, hops }),
        (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(rate, burst, life)| {
            Answer::Shared(Share {
                rate_bytes_per_ms: rate,
                burst_bytes: burst,
                lifetime_us: life,
            })
        }),
    ]
}

proptest! {
    #[test]
    fn questions_survive_their_bytes(header in a_header(), question in a_question()) {
        let bytes = question.to_bytes(&header);
        prop_assert!(bytes.len() + 32 <= LARGEST_MESSAGE);
        prop_assert_eq!(Question::from_bytes(&bytes), Ok((header.clone(), question)));
        prop_assert_eq!(host_of(&bytes), Ok(header.host.as_str()));
        prop_assert!(Answer::from_bytes(&bytes).is_err());
        for end in 0..bytes.len() {
            prop_assert!(Question::from_bytes(&bytes[..end]).is_err());
        }
        let mut longer = bytes;
        longer.push(0);
        prop_assert!(Question::from_bytes(&longer).is_err());
    }

    #[test]
    fn answers_survive_their_bytes(header in a_header(), request: u128, answer in an_answer()) {
        let bytes = answer.to_bytes(&header, request);
        prop_assert!(bytes.len() + 32 <= LARGEST_MESSAGE);
        prop_assert_eq!(Answer::from_bytes(&bytes), Ok((header, request, answer)));
        prop_assert!(Question::from_bytes(&bytes).is_err());
        for end in 0..bytes.len() {
            prop_assert!(Answer::from_bytes(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn a_long_listing_is_cut_and_says_so(header in a_header(), one in a_grant(), count in 12_usize..40) {
        let all = vec![one; count];
        let answer = Answer::Listing { connections: all, more: false };
        let bytes = answer.to_bytes(&header, 1);
        prop_assert!(bytes.len() + 32 <= LARGEST_MESSAGE);
        let (_, _, Answer::Listing { connections, more }) = Answer::from_bytes(&bytes).unwrap() else {
            panic!("another answer");
        };
        prop_assert!(!connections.is_empty());
        prop_assert_eq!(more, connections.len() < count);
    }

    #[test]
    fn records_and_budgets_survive_their_bytes(request: u128, granted in a_grant(), ns: u64) {
        let stored = Stored { request, granted };
        let bytes = stored.to_bytes();
        prop_assert_eq!(Stored::from_bytes(&bytes), Ok(stored));
        prop_assert!(Stored::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        let (_, mut budgets) = super::plan();
        budgets.at_ports.insert(("n".to_owned(), "p".to_owned(), 3), ns);
        let bytes = budgets_to_bytes(&budgets);
        prop_assert_eq!(budgets_from_bytes(&bytes), Ok(budgets));
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut with_magic = b"RTWM\x02".to_vec();
        with_magic.extend_from_slice(&bytes);
        for bytes in [bytes, with_magic] {
            if let Ok((header, question)) = Question::from_bytes(&bytes) {
                prop_assert_eq!(question.to_bytes(&header), bytes.clone());
            }
            let _ = (Answer::from_bytes(&bytes), Stored::from_bytes(&bytes), host_of(&bytes));
        }
    }

    #[test]
    fn one_changed_bit_breaks_the_mac(message in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, bit in 0_u32..8) {
        let key = Key::new(&[9; 32]);
        let mut sealed = key.seal(message.clone());
        prop_assert_eq!(key.open(&sealed), Some(message.as_slice()));
        let at = at.index(sealed.len());
        sealed[at] ^= 1 << bit;
        prop_assert_eq!(key.open(&sealed), None);
    }

    #[test]
    fn the_window_takes_each_number_once(numbers in prop::collection::vec(0_u64..200, 0..300)) {
        let mut window = Window::default();
        let (mut seen, mut highest) = (std::collections::HashSet::new(), 0);
        for number in numbers {
            let new = number > 0 && number + 64 > highest && seen.insert(number);
            prop_assert_eq!(window.take(number), new, "{}", number);
            if new { highest = highest.max(number); }
        }
    }
}

/// The MAC of RFC 4231, test case 1, cut to our form: another program's HMAC with the same key must agree.
#[test]
fn the_mac_is_that_of_the_standard() {
    // RFC 4231 4.2 uses a key of 20 bytes 0x0b; HMAC fills it with zeros, so does this key of 32 bytes.
    let mut bytes = [0; 32];
    bytes[..20].fill(0x0b);
    let sealed = Key::new(&bytes).seal(b"Hi There".to_vec());
    let mac: String = sealed[8..]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        mac,
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    );
}

/// The bytes on the wire do not change by accident.
#[test]
fn golden_bytes() {
    let header = Header {
        host: "plc".to_owned(),
        epoch: 0x0102_0304_0506_0708,
        session: 9,
        sequence: 10,
    };
    let question = Question::Reserve {
        request: 11,
        only_ask: false,
        ask: Ask {
            vlan: Some(12),
            deadline_ns: Some(1_000_000),
            interval_ns: Some(250_000),
            port: 4000,
            ..super::ask("drive", 125)
        },
    };
    let text: String = question
        .to_bytes(&header)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let expected = concat!(
        "5254574d",
        "02",
        "02",
        "0102030405060708",
        "0000000000000009",
        "000000000000000a",
        "03706c63",
        "0000000000000000000000000000000b",
        "00",
        "056472697665",
        "01",
        "05",
        "000c",
        "01f4",
        "0000007d",
        "00000418",
        "00000000000f4240",
        "000000000003d090",
        "0000",
        "0fa0"
    );
    assert_eq!(text, expected);
}

/// A record of a store of before there were cyclic connections.
#[test]
fn a_record_of_version_1_is_still_read() {
    let hex = concat!(
        "01",
        "0000000000000000000000000000000b",
        "0000000000000007",
        "0000000000000008",
        "03706c63",
        "056472697665",
        "01",
        "05",
        "000c",
        "01f4",
        "0000007d",
        "00000418",
        "00000000000f4240",
        "c000",
        "0fa0",
        "0000000000030d40",
        "00000009",
        "0000000a"
    );
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let stored = Stored::from_bytes(&bytes).unwrap();
    let granted = Granted {
        connection: 7,
        epoch: 8,
        talker: "plc".to_owned(),
        ask: Ask {
            vlan: Some(12),
            deadline_ns: Some(1_000_000),
            port: 4000,
            source_port: 49_152,
            ..super::ask("drive", 125)
        },
        promise_ns: 200_000,
        launch_offset_ns: None,
        number: 9,
        key: 10,
    };
    assert_eq!(
        stored,
        Stored {
            request: 11,
            granted
        }
    );
    // And written in today's form, with the same meaning.
    assert_eq!(Stored::from_bytes(&stored.to_bytes()).unwrap(), stored);
}

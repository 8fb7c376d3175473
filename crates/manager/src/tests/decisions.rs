//! Single decisions: who may do what, and the words of each refusal.

use super::*;
use crate::*;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn reserve(request: u128, ask: Ask) -> Question {
    Question::Reserve {
        request,
        only_ask: false,
        ask,
    }
}

fn granted(answer: Answer) -> Granted {
    match answer {
        Answer::Granted(granted) => granted,
        other => panic!("not granted: {other:?}"),
    }
}

fn refusal(answer: Answer) -> Refused {
    match answer {
        Answer::Refused(refused) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_connection_comes_and_goes_and_each_epoch_verifies() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let base = manager.epoch();
    let one = granted(a.asks(&mut manager, SECOND, &reserve(1, ask("x", 1000))));
    let two = granted(a.asks(&mut manager, SECOND, &reserve(2, ask("x", 500))));
    assert_eq!((one.connection, one.epoch), (1, base + 1));
    assert_eq!((two.connection, two.epoch), (2, base + 2));
    assert_ne!(one.ask.port, two.ask.port);
    assert_ne!(one.ask.source_port, two.ask.source_port);
    assert_ne!(one.key, two.key);

    let plan = manager.snapshot().plan().unwrap();
    assert_eq!(plan.epoch, base + 2);
    assert_eq!(rtwire_plan::verify(&plan), []);
    for granted in [&one, &two] {
        let name = format!("connection-{}", granted.connection);
        let stream = plan
            .streams
            .iter()
            .find(|stream| stream.name == name)
            .unwrap();
        assert!(stream.promises[0].delay_ns.unwrap() <= granted.promise_ns);
        assert_eq!(stream.identity.number, granted.number);
        assert_eq!(stream.identity.port, granted.ask.port);
        assert_eq!(
            stream.shaper.rate_bps.ceil(),
            i128::from(granted.ask.rate_bytes_per_ms) * 8_000
        );
    }

    let release = Question::Release {
        request: 3,
        connection: 1,
    };
    let answer = a.asks(&mut manager, SECOND, &release);
    let released = Answer::Released {
        connection: 1,
        epoch: base + 3,
    };
    assert_eq!(answer, released);
    let plan = manager.snapshot().plan().unwrap();
    assert_eq!((plan.epoch, plan.streams.len()), (base + 3, 2));
    assert_eq!(rtwire_plan::verify(&plan), []);
    // Once more by another request: it is released, and nothing changes.
    let again = Question::Release {
        request: 4,
        connection: 1,
    };
    let outcome = a.says(&mut manager, SECOND, &again);
    assert_eq!(outcome.change, None);
    let never = Question::Release {
        request: 5,
        connection: 99,
    };
    assert_eq!(
        refusal(a.asks(&mut manager, SECOND, &never)).reason,
        Reason::Unknown
    );
}

#[test]
fn a_repeated_request_gets_the_same_answer_and_reserves_once() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let question = reserve(1, ask("x", 1000));
    let first = granted(a.asks(&mut manager, SECOND, &question));
    // By another session, too: the program was started again.
    let mut other = Hand::open(&mut manager, SECOND, "a");
    for hand in [&mut a, &mut other] {
        let outcome = hand.says(&mut manager, SECOND, &question);
        assert_eq!(outcome.change, None);
        let again = granted(hand.asks(&mut manager, SECOND, &question));
        assert_eq!(again, first);
    }
    assert_eq!(manager.connections(), 1);
    // A refusal is repeated, too, although there would be room now.
    let full = reserve(2, ask("x", 11_500));
    let no = refusal(a.asks(&mut manager, SECOND, &full));
    assert_eq!(no.reason, Reason::Capacity, "{no:?}");
    let release = Question::Release {
        request: 3,
        connection: first.connection,
    };
    a.asks(&mut manager, SECOND, &release);
    assert_eq!(refusal(a.asks(&mut manager, SECOND, &full)), no);
}

#[test]
fn asking_only_reserves_nothing() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let question = Question::Reserve {
        request: 1,
        only_ask: true,
        ask: ask("x", 1000),
    };
    let outcome = a.says(&mut manager, SECOND, &question);
    assert_eq!(outcome.change, None);
    assert_eq!(manager.connections(), 0);
    let left = manager.link("s1", "s2").unwrap();
    let only = granted(a.asks(&mut manager, SECOND, &question));
    assert_eq!(only.connection, 0);
    assert_eq!(manager.link("s1", "s2").unwrap(), left);
}

#[test]
fn refusals_name_their_reason() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let mut request = 0;
    let mut no = |manager: &mut Manager, ask: Ask| {
        request += 1;
        refusal(a.asks(manager, SECOND, &reserve(request, ask)))
    };
    for (ask, reason, words) in [
        (ask("nobody", 1), Reason::Faulty, "no host \"nobody\""),
        (ask("a", 1), Reason::Faulty, "one host"),
        (ask("x", 0), Reason::Faulty, "at least 1 byte"),
        (ask("x", 12_500), Reason::Capacity, "a>s1"),
        (
            Ask {
                burst_bytes: 523,
                ..ask("x", 1)
            },
            Reason::Faulty,
            "one frame on the wire, 524 bytes",
        ),
        (
            // With a tag, the shortest frame has 64 bytes.
            Ask {
                vlan: Some(5),
                frame_bytes: 60,
                burst_bytes: 87,
                ..ask("x", 1)
            },
            Reason::Faulty,
            "one frame on the wire, 88 bytes",
        ),
        (
            Ask {
                frame_bytes: 9_000,
                burst_bytes: 9_100,
                ..ask("x", 1)
            },
            Reason::Faulty,
            "larger than",
        ),
        (
            Ask {
                carrier: Carrier::Rtdip,
                frame_bytes: 37,
                ..ask("x", 1)
            },
            Reason::Faulty,
            "less than its headers",
        ),
        (
            Ask {
                deadline_ns: Some(1_000),
                ..ask("x", 1)
            },
            Reason::Deadline,
            "more than its deadline",
        ),
    ] {
        let refused = no(&mut manager, ask);
        assert_eq!(refused.reason, reason, "{refused:?}");
        assert!(refused.text.contains(words), "{refused:?}");
    }
    let with_port = Ask {
        port: 4_000,
        ..ask("x", 1)
    };
    granted(a.asks(&mut manager, SECOND, &reserve(100, with_port.clone())));
    let mut b = Hand::open(&mut manager, SECOND, "b");
    let refused = refusal(b.asks(&mut manager, SECOND, &reserve(1, with_port)));
    assert_eq!(refused.reason, Reason::PortTaken);
    assert!(refused.text.contains("4000"), "{refused:?}");
}

#[test]
fn a_host_has_power_over_its_own_connections_only() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let one = granted(a.asks(&mut manager, SECOND, &reserve(1, ask("x", 1000))));
    for host in ["b", "x"] {
        let mut other = Hand::open(&mut manager, SECOND, host);
        let release = Question::Release {
            request: 1,
            connection: one.connection,
        };
        let no = refusal(other.asks(&mut manager, SECOND, &release));
        assert_eq!(no.reason, Reason::Foreign);
        let list = Question::List {
            request: 2,
            after: 0,
        };
        let Answer::Listing { connections, .. } = other.asks(&mut manager, SECOND, &list) else {
            panic!("no listing");
        };
        // The listener sees what it will hear, nobody else does.
        assert_eq!(connections.len(), usize::from(host == "x"));
    }
    assert_eq!(manager.connections(), 1);
    assert_eq!(manager.counts().refused[&Reason::Foreign], 2);
}

#[test]
fn forged_replayed_stale_and_foreign_messages_are_counted_with_their_source() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let good = a.sealed(&reserve(1, ask("x", 1000)));
    let count = |manager: &Manager, source: &str, why| {
        let key = (source.to_owned(), why);
        manager.counts().distrusted.get(&key).copied().unwrap_or(0)
    };
    // Forged: b's key under a's name; a's message with one bit changed.
    let header = Header {
        sequence: 40,
        ..a.header.clone()
    };
    let forged = key("b").seal(reserve(2, ask("x", 1)).to_bytes(&header));
    let mut changed = good.clone();
    changed[60] ^= 1;
    for bytes in [forged, changed] {
        let outcome = manager.datagram(SECOND, "192.0.2.1:9", &bytes);
        assert_eq!((outcome.answer, outcome.change), (None, None));
    }
    assert_eq!(count(&manager, "192.0.2.1:9", Distrust::Forged), 2);
    // The forged number 40 has not moved the window: number 1 is still new.
    assert!(manager.datagram(SECOND, "hand", &good).change.is_some());
    // Replayed.
    let outcome = manager.datagram(SECOND, "192.0.2.2:9", &good);
    assert_eq!((outcome.answer, outcome.change), (None, None));
    assert_eq!(count(&manager, "192.0.2.2:9", Distrust::Replayed), 1);
    // Malformed, unknown.
    let _ = manager.datagram(SECOND, "192.0.2.3:9", b"hello");
    assert_eq!(count(&manager, "192.0.2.3:9", Distrust::Malformed), 1);
    let header = Header {
        host: "mallory".to_owned(),
        ..a.header.clone()
    };
    let unknown = key("a").seal(reserve(2, ask("x", 1)).to_bytes(&header));
    let _ = manager.datagram(SECOND, "192.0.2.4:9", &unknown);
    assert_eq!(count(&manager, "192.0.2.4:9", Distrust::UnknownHost), 1);
    // Stale: recorded before the manager's restart.
    let mut later = super::manager(Settings {
        epoch: 2,
        ..Settings::default()
    });
    let outcome = later.datagram(SECOND, "192.0.2.5:9", &good);
    assert_eq!(outcome.change, None);
    assert_eq!(count(&later, "192.0.2.5:9", Distrust::Stale), 1);
    assert_eq!(later.connections(), 0);
}

#[test]
fn quotas_and_rates_hold_for_each_host_alone() {
    let quotas = Quotas {
        connections: 2,
        rate_bytes_per_ms: 1_000,
        requests_per_second: 10,
        requests_at_once: 4,
    };
    let mut manager = manager(Settings {
        quotas,
        ..Settings::default()
    });
    let mut a = Hand::open(&mut manager, SECOND, "a");
    granted(a.asks(&mut manager, SECOND, &reserve(1, ask("x", 1))));
    granted(a.asks(&mut manager, SECOND, &reserve(2, ask("x", 1))));
    assert_eq!(manager.connections(), 2);
    let no = refusal(a.asks(&mut manager, SECOND, &reserve(3, ask("x", 1))));
    assert_eq!(no.reason, Reason::Quota);
    assert!(matches!(
        a.asks(
            &mut manager,
            SECOND,
            &Question::List {
                request: 9,
                after: 0
            }
        ),
        Answer::Listing { .. }
    ));
    let no = refusal(a.asks(&mut manager, SECOND, &reserve(4, ask("x", 1))));
    assert_eq!(no.reason, Reason::TooOften);
    assert!((90_000..=110_000).contains(&no.retry_after_us), "{no:?}");
    // Another host is not held up, and after the time that was named the first one is heard again.
    let mut b = Hand::open(&mut manager, SECOND, "b");
    granted(b.asks(&mut manager, SECOND, &reserve(1, ask("x", 1))));
    let later = SECOND + u64::from(no.retry_after_us) * 1_000;
    let no = refusal(a.asks(&mut manager, later, &reserve(4, ask("x", 1))));
    assert_eq!(no.reason, Reason::Quota);
}

#[test]
fn shares_are_divided_end_by_themselves_and_make_room_for_connections() {
    let rules = ShareRules::default();
    let mut manager = manager(Settings {
        shares: rules,
        ..Settings::default()
    });
    let lifetime = u64::from(rules.lifetime_us) * 1_000;
    let mut hands = ["a", "b", "c"].map(|host| Hand::open(&mut manager, SECOND, host));
    let share = |request| Question::Share {
        request,
        listener: "y".to_owned(),
        wanted_bytes_per_ms: 12_500,
    };
    let rate = |answer: Answer| match answer {
        Answer::Shared(share) => share.rate_bytes_per_ms,
        other => panic!("{other:?}"),
    };
    // The first one gets nearly all.
    let first = rate(hands[0].asks(&mut manager, SECOND, &share(1)));
    assert!(first > 11_500, "{first}");
    // Within the lifetime of that, no other has anything, and afterwards all have the same.
    let no = refusal(hands[1].asks(&mut manager, SECOND + 1, &share(1)));
    assert_eq!(no.reason, Reason::Busy);
    let mut now = SECOND;
    for round in 0..6_u32 {
        now += lifetime * 6 / 10;
        for hand in &mut hands {
            let _ = hand.says(&mut manager, now, &share(u128::from(100 + round)));
        }
    }
    now += lifetime * 6 / 10;
    let rates = hands
        .each_mut()
        .map(|hand| rate(hand.asks(&mut manager, now, &share(999))));
    let (least, most) = (rates.iter().min().unwrap(), rates.iter().max().unwrap());
    assert!(most - least <= most / 50, "{rates:?}");
    let sum: u32 = rates.iter().sum();
    assert!(sum > 11_800, "{rates:?}");
    // A connection that fits without them is told to wait, and is granted then, whatever others ask meanwhile.
    let mut a = Hand::open(&mut manager, now, "a");
    let no = refusal(a.asks(&mut manager, now, &reserve(5, ask("y", 4_000))));
    assert_eq!(no.reason, Reason::Busy, "{no:?}");
    let then = now + u64::from(no.retry_after_us) * 1_000;
    let _ = hands[1].says(&mut manager, then - 1, &share(1_000));
    granted(a.asks(&mut manager, then, &reserve(6, ask("y", 4_000))));
    // All of it ends by itself.
    let over = then + 2 * lifetime;
    let _ = hands[0].says(&mut manager, over, &share(2_000));
    let zero = Question::Share {
        request: 2_001,
        listener: "y".to_owned(),
        wanted_bytes_per_ms: 0,
    };
    assert_eq!(rate(hands[0].asks(&mut manager, over, &zero)), 0);
    // Its last frames arrive first.
    let _ = hands[0].says(&mut manager, over + lifetime / 2, &reserve(7, ask("x", 1)));
    let (left, reserved) = manager.link("s1", "s2").unwrap();
    assert_eq!(reserved, 0);
    assert!(left > 60_000_000, "{left}");
}

#[test]
fn a_manager_that_starts_grants_nothing_while_older_reservations_may_be_in_use() {
    let settings = Settings {
        now_ns: SECOND,
        ..Settings::default()
    };
    let mut manager = manager(settings);
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let no = refusal(a.asks(&mut manager, SECOND + 1_000, &reserve(1, ask("x", 1))));
    assert_eq!(no.reason, Reason::Busy);
    let then = SECOND + 1_000 + u64::from(no.retry_after_us) * 1_000;
    // A late transmission of the refused request reserves nothing.
    assert_eq!(
        refusal(a.asks(&mut manager, then, &reserve(1, ask("x", 1)))),
        no
    );
    granted(a.asks(&mut manager, then, &reserve(2, ask("x", 1))));
}

#[test]
fn the_terms_of_a_promise_add_up_to_it() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let one = granted(a.asks(&mut manager, SECOND, &reserve(1, ask("x", 1000))));
    let explain = Question::Explain {
        request: 2,
        connection: one.connection,
    };
    let Answer::Explained { granted, hops } = a.asks(&mut manager, SECOND, &explain) else {
        panic!("not explained");
    };
    assert_eq!(granted, one);
    let nodes: Vec<&str> = hops.iter().map(|hop| hop.node.as_str()).collect();
    assert_eq!(nodes, ["a", "s1", "s2"]);
    let sum: u64 = hops.iter().map(|hop| hop.budget_ns + hop.cable_ns).sum();
    assert_eq!(sum, one.promise_ns);
}

#[test]
fn networks_and_keys_that_cannot_be_managed_are_refused_by_name() {
    let (plan, budgets) = plan();
    let keys = HashMap::from([("nobody".to_owned(), key("a"))]);
    let start = |plan, keys| {
        Manager::new(
            plan,
            &budgets,
            Restored::default(),
            keys,
            Settings::default(),
        )
        .map(|_| ())
    };
    let error = start(Arc::clone(&plan), keys).unwrap_err();
    assert!(error.to_string().contains("nobody"), "{error}");
    let text = super::NETWORK.replace("name = \"control\"", "name = \"connection-1\"");
    let network = rtwire_plan::read(&text, "n.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    let error = start(Arc::new(plan), super::keys()).unwrap_err();
    assert!(error.to_string().contains("rename it"), "{error}");
    let text = include_str!("../../../../examples/scheduled-cell.toml");
    let network = rtwire_plan::read(text, "s.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    let error = budgets_of(&plan, &[5_000_000; 8]).unwrap_err();
    assert!(error.to_string().contains("gates"), "{error}");
}

#[test]
fn the_rates_of_a_host_have_a_quota_of_their_own() {
    let quotas = Quotas {
        rate_bytes_per_ms: 1_000,
        ..Quotas::default()
    };
    let mut manager = manager(Settings {
        quotas,
        ..Settings::default()
    });
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let one = granted(a.asks(&mut manager, SECOND, &reserve(1, ask("x", 700))));
    let no = refusal(a.asks(&mut manager, SECOND, &reserve(2, ask("x", 301))));
    assert_eq!(no.reason, Reason::Quota, "{no:?}");
    granted(a.asks(&mut manager, SECOND, &reserve(3, ask("x", 300))));
    let release = Question::Release {
        request: 4,
        connection: one.connection,
    };
    a.asks(&mut manager, SECOND, &release);
    // Its last frames may be under way: they count.
    let no = refusal(a.asks(&mut manager, SECOND, &reserve(5, ask("x", 700))));
    assert_eq!(no.reason, Reason::Busy, "{no:?}");
    let then = SECOND + u64::from(no.retry_after_us) * 1_000;
    granted(a.asks(&mut manager, then, &reserve(6, ask("x", 700))));
}

#[test]
fn who_asks_and_does_not_take_cannot_hold_up_the_reservations_of_others() {
    let mut manager = manager(Settings::default());
    let lifetime = u64::from(ShareRules::default().lifetime_us) * 1_000;
    let mut b = Hand::open(&mut manager, SECOND, "b");
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let (mut got, mut busy) = (0, 0);
    for round in 0..200_u64 {
        let now = SECOND + round * lifetime / 2;
        let share = Question::Share {
            request: u128::from(round),
            listener: "y".to_owned(),
            wanted_bytes_per_ms: 12_500,
        };
        got += usize::from(matches!(
            b.asks(&mut manager, now, &share),
            Answer::Shared(_)
        ));
        let answer = a.asks(
            &mut manager,
            now,
            &reserve(u128::from(round), ask("y", 4_000)),
        );
        match answer {
            Answer::Refused(_) => busy += 1,
            // It is given back at once, and asked for again.
            Answer::Granted(granted) => {
                let release = Question::Release {
                    request: u128::from(round) + 1_000_000,
                    connection: granted.connection,
                };
                a.asks(&mut manager, now, &release);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(busy > 100, "{busy}");
    assert!(got > 160, "{got} of 200");
}

#[test]
fn a_smaller_reservation_frees_nothing_before_the_larger_one_has_ended() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let mut b = Hand::open(&mut manager, SECOND, "b");
    let share = |request| Question::Share {
        request,
        listener: "y".to_owned(),
        wanted_bytes_per_ms: 12_500,
    };
    let ms = 1_000_000;
    let _ = a.asks(&mut manager, SECOND, &share(1));
    // b wants a part, so a's next reservation is smaller. Its answer may be lost: a goes on with the first one.
    refusal(b.asks(&mut manager, SECOND + 60 * ms, &share(1)));
    let Answer::Shared(second) = a.asks(&mut manager, SECOND + 60 * ms, &share(2)) else {
        panic!("no second reservation");
    };
    assert!(second.rate_bytes_per_ms < 7_000, "{second:?}");
    refusal(b.asks(&mut manager, SECOND + 61 * ms, &share(2)));
    // Its last frames may be under way after its end, for one promise: less than 12 ms here.
    refusal(b.asks(&mut manager, SECOND + 101 * ms, &share(3)));
    let answer = b.asks(&mut manager, SECOND + 112 * ms, &share(4));
    assert!(matches!(answer, Answer::Shared(_)), "{answer:?}");
}

#[test]
fn what_a_released_connection_held_is_free_when_its_last_frames_have_arrived() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let mut b = Hand::open(&mut manager, SECOND, "b");
    let big = |request| reserve(request, ask("x", 9_000));
    let first = granted(a.asks(&mut manager, SECOND, &big(1)));
    let no = refusal(b.asks(&mut manager, SECOND, &big(1)));
    assert_eq!(no.reason, Reason::Capacity, "{no:?}");
    let release = Question::Release {
        request: 2,
        connection: first.connection,
    };
    a.asks(&mut manager, SECOND, &release);
    assert_eq!(manager.connections(), 0);
    let no = refusal(b.asks(&mut manager, SECOND, &big(2)));
    assert_eq!(no.reason, Reason::Busy, "{no:?}");
    assert_eq!(
        u64::from(no.retry_after_us),
        first.promise_ns / 1_000 + 1,
        "{no:?}"
    );
    // What does not fit without it either is refused for good.
    let no = refusal(b.asks(&mut manager, SECOND, &reserve(3, ask("x", 12_500))));
    assert_eq!(no.reason, Reason::Capacity, "{no:?}");
    let early = SECOND + first.promise_ns - 1;
    let no = refusal(b.asks(&mut manager, early, &big(4)));
    assert_eq!(no.reason, Reason::Busy, "{no:?}");
    granted(b.asks(&mut manager, early + 1, &big(5)));
}

#[test]
fn a_recorded_hello_takes_no_request_from_its_host() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let hello = Question::Hello { nonce: 77 };
    let header = Header {
        host: "a".to_owned(),
        epoch: 0,
        session: 0,
        sequence: 1,
    };
    let recorded = key("a").seal(hello.to_bytes(&header));
    // From here on its session is in use, and no new one takes its place.
    granted(a.asks(&mut manager, SECOND, &reserve(1, ask("x", 1))));
    for _ in 0..1_000 {
        let _ = manager.datagram(SECOND, "192.0.2.1:9", &recorded);
    }
    assert!(manager.counts().refused[&Reason::TooOften] > 0);
    granted(a.asks(&mut manager, SECOND, &reserve(2, ask("x", 1))));
}

#[test]
fn a_start_waits_for_the_longest_lifetime_of_before() {
    let (plan, budgets) = plan();
    let restored = Restored {
        longest_lifetime_us: 1_000_000,
        ..Restored::default()
    };
    let settings = Settings::default();
    let mut manager = Manager::new(plan, &budgets, restored, keys(), settings).unwrap();
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let no = refusal(a.asks(&mut manager, SECOND, &reserve(1, ask("x", 1))));
    assert_eq!(no.reason, Reason::Busy, "{no:?}");
    // The last frames of a reservation of before may be under way for one promise more.
    let then = SECOND + u64::from(no.retry_after_us) * 1_000;
    let one = granted(a.asks(&mut manager, then, &reserve(2, ask("x", 1))));
    assert!(then - SECOND >= one.promise_ns, "{one:?}");
}

#[test]
fn a_return_that_was_delayed_frees_nothing_that_was_granted_since() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let share = |request, wanted_bytes_per_ms| Question::Share {
        request,
        listener: "y".to_owned(),
        wanted_bytes_per_ms,
    };
    let _ = a.asks(&mut manager, SECOND, &share(1, 5_000));
    let late = a.sealed(&share(2, 0));
    let answer = a.asks(&mut manager, SECOND, &share(3, 5_000));
    assert!(matches!(answer, Answer::Shared(_)), "{answer:?}");
    let reserved = |manager: &mut Manager| manager.link("s1", "s2").unwrap().1;
    let before = reserved(&mut manager);
    assert!(before >= 5_000);
    let ms = 1_000_000;
    // The return is taken, and what it might have freed is looked at after the last frames.
    let _ = manager.datagram(SECOND + ms, "hand", &late);
    let mut b = Hand::open(&mut manager, SECOND, "b");
    let _ = b.asks(&mut manager, SECOND + 50 * ms, &reserve(1, ask("x", 1)));
    assert_eq!(reserved(&mut manager), before);
    // A return in its order frees it.
    let _ = a.asks(&mut manager, SECOND + 50 * ms, &share(4, 0));
    assert_eq!(reserved(&mut manager), before);
    let _ = b.asks(&mut manager, SECOND + 62 * ms, &reserve(2, ask("x", 1)));
    assert_eq!(reserved(&mut manager), 0);
}

/// A cyclic connection of the network above: 524 B on the wire take 41.92 us at 100 Mbit/s, and a launch may be 50 us late.
fn cyclic(listener: &str, interval_ns: u64) -> Ask {
    Ask {
        interval_ns: Some(interval_ns),
        burst_bytes: 0,
        ..ask(listener, 0)
    }
}

#[test]
fn cyclic_connections_have_launch_offsets_that_keep_them_apart() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let mut request = 0;
    let mut asks = |manager: &mut Manager, hand: &mut Hand, ask: Ask| {
        request += 1;
        hand.asks(manager, 3 * SECOND, &reserve(request, ask))
    };
    let all: Vec<Granted> = (0..10)
        .map(|_| granted(asks(&mut manager, &mut a, cyclic("x", MS))))
        .collect();
    let offsets: Vec<u64> = all
        .iter()
        .map(|one| one.launch_offset_ns.unwrap())
        .collect();
    let expected: Vec<u64> = (0..10).map(|nth| nth * 91_920).collect();
    assert_eq!(offsets, expected);
    // 524 B in each ms; a frame may be 50 us late and the next one in time: 524 B and 26.2 B more.
    assert!(
        all.iter()
            .all(|one| one.ask.rate_bytes_per_ms == 524 && one.ask.burst_bytes == 551)
    );
    // The eleventh would need 1011.12 us of each ms.
    let no = refusal(asks(&mut manager, &mut a, cyclic("x", MS)));
    assert_eq!(no.reason, Reason::LaunchOffset);
    assert!(no.text.contains("91920 ns"), "{}", no.text);
    // A connection without a cycle needs no slot, and another host has slots of its own.
    let free = granted(asks(&mut manager, &mut a, ask("x", 100)));
    assert_eq!(free.launch_offset_ns, None);
    let mut b = Hand::open(&mut manager, SECOND, "b");
    let other = granted(asks(&mut manager, &mut b, cyclic("x", MS)));
    assert_eq!(other.launch_offset_ns, Some(0));
    // What is released is free at once: the talker has stopped before it says so.
    let release = Question::Release {
        request: 100,
        connection: all[3].connection,
    };
    a.asks(&mut manager, 3 * SECOND, &release);
    let again = granted(asks(&mut manager, &mut a, cyclic("y", 2 * MS)));
    assert_eq!(again.launch_offset_ns, Some(3 * 91_920));
    assert_eq!(again.ask.rate_bytes_per_ms, 262);
    // It uses every second of these slots only.
    let between = granted(asks(&mut manager, &mut a, cyclic("y", 2 * MS)));
    assert_eq!(between.launch_offset_ns, Some(MS + 3 * 91_920));
    let plan = manager.snapshot().plan().unwrap();
    assert_eq!(rtwire_plan::verify(&plan), []);
}

#[test]
fn intervals_that_drift_through_each_other_are_refused_by_name() {
    let mut manager = manager(Settings::default());
    let mut a = Hand::open(&mut manager, SECOND, "a");
    granted(a.asks(&mut manager, 3 * SECOND, &reserve(1, cyclic("x", MS))));
    let no = refusal(a.asks(&mut manager, 3 * SECOND, &reserve(2, cyclic("x", MS - 1))));
    assert_eq!(no.reason, Reason::LaunchOffset);
    assert_eq!(
        no.text,
        "no launch offset is free at \"a\": frames each 999999 ns and each 1000000 ns of connection 1 meet in time, as their largest \
         common divisor is 1 ns; ask for an interval that is a multiple or a part of the other"
    );
    // An interval shorter than its slot.
    let no = refusal(a.asks(&mut manager, 3 * SECOND, &reserve(3, cyclic("x", 91_919))));
    assert_eq!(no.reason, Reason::LaunchOffset);
    // And one that no rate reaches.
    let no = refusal(a.asks(&mut manager, 3 * SECOND, &reserve(4, cyclic("x", 0))));
    assert_eq!(no.reason, Reason::Faulty);
}

#[test]
fn the_rate_of_a_cycle_counts_against_the_quota() {
    let quotas = Quotas {
        rate_bytes_per_ms: 600,
        ..Quotas::default()
    };
    let settings = Settings {
        quotas,
        ..Settings::default()
    };
    let mut manager = manager(settings);
    let mut a = Hand::open(&mut manager, SECOND, "a");
    granted(a.asks(&mut manager, 3 * SECOND, &reserve(1, cyclic("x", MS))));
    let no = refusal(a.asks(&mut manager, 3 * SECOND, &reserve(2, cyclic("x", MS))));
    assert_eq!(no.reason, Reason::Quota);
}

#[test]
fn a_cycle_keeps_out_of_the_way_of_a_time_triggered_stream() {
    const CABLE: &str = r#"
[network]
name = "cable"
[defaults]
link-rate = "100 Mbit/s"
tick-error = "50 us"
[[host]]
name = "a"
[[host]]
name = "x"
[[link]]
ends = ["a", "x"]
[[stream]]
name = "first"
talker = "a"
listeners = ["x"]
frame = "100 B"
interval = "1 ms"
schedule = "time-triggered"
tick-error = "10 us"
"#;
    let network = rtwire_plan::read(CABLE, "cable.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    assert_eq!(plan.streams[0].launch.as_ref().unwrap().offset_ns, 0);
    let budgets = crate::budgets_of(&plan, &[2 * MS; 8]).unwrap();
    let keys = ["a", "x"].map(|host| (host.to_owned(), key(host)));
    let mut manager = Manager::new(
        Arc::new(plan),
        &budgets,
        Restored::default(),
        HashMap::from(keys),
        Settings::default(),
    )
    .unwrap();
    let mut a = Hand::open(&mut manager, SECOND, "a");
    let one = granted(a.asks(&mut manager, 3 * SECOND, &reserve(1, cyclic("x", 2 * MS))));
    // 124 B on the wire take 9.92 us, and the launch may be 10 us late.
    assert_eq!(one.launch_offset_ns, Some(19_920));
}

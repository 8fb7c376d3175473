//! Two schedules beside one service, in virtual time: whatever the delays, a publisher's key is in a subscriber's file.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::super::service::{KeyAnswer, KeyAnswerFault};
use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
/// The first token: tokens wrap within a run.
const FIRST: u32 = u32::MAX - 3;

/// Returns the token of a key by its number. 0 stands for no key.
fn token(number: u64) -> u32 {
    let at = u64::from(FIRST) + number;
    let tokens = u64::from(u32::MAX);
    u32::try_from((at - 1) % tokens + 1).unwrap()
}

fn answer(first: u64, count: u64, to_next_ns: u64, lifetime_ns: u64) -> KeyAnswer {
    KeyAnswer {
        policy: "http://opcfoundation.org/UA/SecurityPolicy#PubSub-Aes128-CTR".to_owned(),
        first_token: token(first),
        keys: (first..first + count)
            .map(|number| vec![number as u8; 52])
            .collect(),
        time_to_next_key_ms: to_next_ns as f64 / 1e6,
        key_lifetime_ms: lifetime_ns as f64 / 1e6,
    }
}

/// A service that changes keys at whole lifetimes of its clock.
#[derive(Clone, Copy, Debug)]
struct Service {
    lifetime_ns: u64,
    /// Keys in an answer.
    count: u64,
    /// It does not answer from the first to the second time.
    silent: (u64, u64),
}

impl Service {
    fn ask(self, now_ns: u64) -> Option<ServedKeys> {
        if (self.silent.0..self.silent.1).contains(&now_ns) {
            return None;
        }
        let first = now_ns / self.lifetime_ns;
        let to_next = self.lifetime_ns - now_ns % self.lifetime_ns;
        let answer = answer(first, self.count, to_next, self.lifetime_ns);
        Some(answer.check().unwrap())
    }
}

/// The content of a file from a time on.
#[derive(Clone, Debug)]
struct File {
    from_ns: u64,
    tokens: Vec<u32>,
    current: u32,
}

/// Runs a schedule, and returns what its file held.
fn files(service: Service, begin_ns: u64, delay_ns: u64, end_ns: u64) -> Vec<File> {
    let mut schedule = KeySchedule::new(Vec::new(), None);
    let (mut now, mut files) = (begin_ns, Vec::new());
    for _ in 0..100_000 {
        match schedule.step(now) {
            KeyStep::Write => {
                schedule.written();
                files.push(File {
                    from_ns: now,
                    tokens: schedule.keys().iter().map(KeyMaterial::token).collect(),
                    current: schedule.current().unwrap(),
                });
            }
            KeyStep::Ask => {
                let asked = service.ask(now);
                now += delay_ns;
                match asked {
                    Some(served) => {
                        let _ = schedule.served(now, &served);
                    }
                    None => {
                        schedule.unanswered(now);
                    }
                }
            }
            KeyStep::Wait(until) => {
                assert!(until > now, "a wait that is none");
                now = until;
            }
        }
        if now > end_ns {
            return files;
        }
    }
    panic!("it never waits");
}

fn at(files: &[File], now_ns: u64) -> Option<&File> {
    files.iter().rev().find(|file| file.from_ns <= now_ns)
}

proptest! {
    /// The key that a publisher uses is in each subscriber's file: from before its first use until after its last.
    #[test]
    fn a_publisher_s_key_is_in_each_subscriber_s_file(
        lifetime_ms in 2_000_u64..100_000,
        count in 2_u64..10,
        begins in (0.0..3.0_f64, 0.0..3.0_f64),
        delays in (0.0..0.1_f64, 0.0..0.1_f64),
        silence in (3.5..20.0_f64, 0.0..1.0_f64),
    ) {
        let lifetime = lifetime_ms * MS;
        let of = |lifetimes: f64| (lifetimes * lifetime as f64) as u64;
        // As long as the keys to come reach, when they are fewest: half of them, and a part of one lifetime is the pause and delay.
        let to_come = (count - 1).min(MOST_TO_COME as u64);
        let longest = (to_come / 2) as f64 * silence.1 + 0.2 * silence.1;
        let silent = (of(silence.0), of(silence.0 + longest));
        let service = Service { lifetime_ns: lifetime, count, silent };
        let end = 30 * lifetime;
        let publisher = files(service, of(begins.0), of(delays.0), end);
        let subscriber = files(service, of(begins.1), of(delays.1), end);
        prop_assert!(publisher.len() >= 20, "{}", publisher.len());
        let both = of(begins.0.max(begins.1) + 0.2).max(2 * SETTLE_NS);
        // The station notices a change of its file after 20 ms at most, and its frame is on its way.
        let notice = 50 * MS;
        let changes = publisher.iter().chain(&subscriber).map(|file| file.from_ns);
        for now in changes.filter(|now| *now > both) {
            let known = &at(&subscriber, now).unwrap().tokens;
            for used in [now - notice, now].map(|when| at(&publisher, when).unwrap().current) {
                prop_assert!(known.contains(&used), "{used} at {now} ns: {known:?}");
            }
            // Long before and long behind: a quarter of a lifetime.
            for other in [now - lifetime / 4, now + lifetime / 4] {
                let Some(file) = at(&subscriber, other) else { continue };
                let used = at(&publisher, now).unwrap().current;
                prop_assert!(other < both || file.tokens.contains(&used), "{used} at {now} ns, {other} ns: {file:?}");
            }
        }
    }

    /// Any answers in any order neither panic nor leave a current key that the file does not hold.
    #[test]
    fn any_answers_leave_a_current_key_and_room(
        answers in prop::collection::vec((0_u64..20, 1_u64..12, 0_u64..5_000, 500_u64..5_000, any::<bool>()), 1..40),
    ) {
        let mut schedule = KeySchedule::new(Vec::new(), None);
        let mut now = 0;
        for (first, count, to_next, lifetime, other) in answers {
            let mut answer = answer(first, count, to_next * MS, lifetime * MS);
            if other {
                answer.keys[0][0] ^= 0x80;
            }
            for _ in 0..100 {
                match schedule.step(now) {
                    KeyStep::Write => schedule.written(),
                    KeyStep::Wait(until) => now = until,
                    KeyStep::Ask => break,
                }
            }
            let _ = schedule.served(now, &answer.check().unwrap());
            let tokens: Vec<u32> = schedule.keys().iter().map(KeyMaterial::token).collect();
            prop_assert!(tokens.len() <= MOST_KEYS, "{tokens:?}");
            prop_assert!(tokens.contains(&schedule.current().unwrap()), "{tokens:?}");
            let distinct: std::collections::BTreeSet<&u32> = tokens.iter().collect();
            prop_assert_eq!(distinct.len(), tokens.len());
        }
    }
}

#[test]
fn answers_that_cannot_be_used_are_refused() {
    let good = answer(0, 3, 100 * MS, 1_000 * MS);
    assert!(good.check().is_ok());
    let with = |change: &dyn Fn(&mut KeyAnswer)| {
        let mut answer = good.clone();
        change(&mut answer);
        answer.check().unwrap_err()
    };
    let policy = with(&|a| a.policy = "http://opcfoundation.org/UA/SecurityPolicy#None".to_owned());
    assert!(matches!(policy, KeyAnswerFault::Policy { .. }));
    assert!(matches!(with(&|a| a.keys.clear()), KeyAnswerFault::Empty));
    let short = with(&|a| a.keys[1].truncate(51));
    assert!(
        matches!(short, KeyAnswerFault::Key { place: 2, .. }),
        "{short}"
    );
    let none = with(&|a| a.first_token = 0);
    assert!(
        matches!(none, KeyAnswerFault::Key { place: 1, .. }),
        "{none}"
    );
    for ms in [0.0, -1.0, 499.0, f64::NAN, f64::NEG_INFINITY] {
        let fault = with(&|a| a.key_lifetime_ms = ms);
        assert!(matches!(fault, KeyAnswerFault::Lifetime { .. }), "{fault}");
    }
    for ms in [-0.1, f64::NAN, f64::NEG_INFINITY] {
        let fault = with(&|a| a.time_to_next_key_ms = ms);
        assert!(
            matches!(fault, KeyAnswerFault::TimeToNext { .. }),
            "{fault}"
        );
    }
    let mut endless = good;
    endless.key_lifetime_ms = f64::INFINITY;
    assert!(endless.check().is_ok());
}

/// The same token with another key: the service began anew.
#[test]
fn another_key_of_a_known_token_is_taken_and_told() {
    let mut schedule = KeySchedule::new(Vec::new(), None);
    let first = answer(0, 3, 1_000 * MS, 1_000 * MS);
    assert_eq!(schedule.served(0, &first.check().unwrap()).replaced, None);
    let mut other = first;
    other.keys[1][5] ^= 1;
    let served = schedule.served(10 * MS, &other.check().unwrap());
    assert_eq!(
        served,
        Served {
            to_come: 2,
            replaced: Some(token(1))
        }
    );
    assert_eq!(schedule.current(), Some(token(0)));
    assert_eq!(schedule.keys(), other.check().unwrap().keys);
}

/// A service that sends its current key only: the new one is in the file before it is used.
#[test]
fn a_key_that_was_not_sent_before_settles_first() {
    let lifetime = 10_000 * MS;
    let service = Service {
        lifetime_ns: lifetime,
        count: 1,
        silent: (0, 0),
    };
    let files = files(service, MS, 0, 3 * lifetime);
    let told: Vec<(Vec<u32>, u32)> = files.into_iter().map(|f| (f.tokens, f.current)).collect();
    let (a, b) = (token(0), token(1));
    assert_eq!(told[..3], [(vec![a], a), (vec![a, b], a), (vec![a, b], b)]);
}

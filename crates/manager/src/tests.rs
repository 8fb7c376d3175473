//! The whole protocol in virtual time: lost, doubled, delayed and forged messages, crashes, other clocks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed unwrap is a failed test"
)]

mod codec;
mod decisions;
mod routes;
mod world;

use std::collections::HashMap;
use std::sync::Arc;

use rtwire_plan::Plan;
use rtwire_plan::admission::Budgets;

use crate::{Answer, Ask, Carrier, Header, Key, Manager, Outcome, Question, Restored, Settings};

/// Two switches in a row; all traffic from left to right shares the link between them.
pub(crate) const NETWORK: &str = r#"
[network]
name = "two rooms"
[defaults]
link-rate = "100 Mbit/s"
tick-error = "50 us"
[[switch]]
name = "s1"
latency = "5 us"
buffer = "256 KiB"
queues = 4
[[switch]]
name = "s2"
latency = "5 us"
buffer = "256 KiB"
queues = 4
[[host]]
name = "a"
queues = 4
[[host]]
name = "b"
queues = 4
[[host]]
name = "c"
queues = 4
[[host]]
name = "x"
queues = 4
[[host]]
name = "y"
queues = 4
[[link]]
ends = ["a", "s1"]
[[link]]
ends = ["b", "s1"]
[[link]]
ends = ["c", "s1"]
[[link]]
ends = ["s1", "s2"]
[[link]]
ends = ["x", "s2"]
[[link]]
ends = ["y", "s2"]
[[stream]]
name = "control"
talker = "a"
listeners = ["x"]
frame = "200 B"
interval = "1 ms"
priority = 6
deadline = "3 ms"
"#;

pub(crate) const HOSTS: [&str; 5] = ["a", "b", "c", "x", "y"];

pub(crate) fn plan() -> (Arc<Plan>, Budgets) {
    let network = rtwire_plan::read(NETWORK, "two-rooms.toml", &[]).unwrap();
    let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap();
    let ms = 1_000_000;
    let widest = [5, 5, 4, 4, 4, 4, 2, 2].map(|budget| budget * ms);
    let budgets = crate::budgets_of(&plan, &widest).unwrap();
    (Arc::new(plan), budgets)
}

pub(crate) fn key(host: &str) -> Key {
    let mut bytes = [0x5a; 32];
    bytes[..host.len()].copy_from_slice(host.as_bytes());
    Key::new(&bytes)
}

pub(crate) fn keys() -> HashMap<String, Key> {
    let all = HOSTS.iter().map(|host| ((*host).to_owned(), key(host)));
    all.collect()
}

pub(crate) fn ask(listener: &str, rate_bytes_per_ms: u32) -> Ask {
    Ask {
        listener: listener.to_owned(),
        carrier: Carrier::Udp,
        pcp: 5,
        vlan: None,
        frame_bytes: 500,
        rate_bytes_per_ms,
        burst_bytes: 1_048,
        deadline_ns: None,
        interval_ns: None,
        source_port: 0,
        port: 0,
    }
}

pub(crate) fn manager(settings: Settings) -> Manager {
    let (plan, budgets) = plan();
    Manager::new(plan, &budgets, Restored::default(), keys(), settings).unwrap()
}

/// A host that speaks the protocol by hand, over a line without faults.
pub(crate) struct Hand {
    pub(crate) host: &'static str,
    pub(crate) header: Header,
}

impl Hand {
    /// Opens a session at this moment.
    pub(crate) fn open(manager: &mut Manager, now_ns: u64, host: &'static str) -> Hand {
        let header = Header {
            host: host.to_owned(),
            epoch: 0,
            session: 0,
            sequence: 1,
        };
        let hello = Question::Hello { nonce: 77 };
        let sealed = key(host).seal(hello.to_bytes(&header));
        let answer = manager.datagram(now_ns, "hand", &sealed).answer.unwrap();
        let (header, _, answer) = Answer::from_bytes(key(host).open(&answer).unwrap()).unwrap();
        assert_eq!(answer, Answer::Welcome { nonce: 77 });
        Hand {
            host,
            header: Header {
                sequence: 0,
                ..header
            },
        }
    }

    pub(crate) fn sealed(&mut self, question: &Question) -> Vec<u8> {
        self.header.sequence += 1;
        key(self.host).seal(question.to_bytes(&self.header))
    }

    pub(crate) fn says(
        &mut self,
        manager: &mut Manager,
        now_ns: u64,
        question: &Question,
    ) -> Outcome {
        let sealed = self.sealed(question);
        manager.datagram(now_ns, "hand", &sealed)
    }

    pub(crate) fn asks(
        &mut self,
        manager: &mut Manager,
        now_ns: u64,
        question: &Question,
    ) -> Answer {
        let answer = self.says(manager, now_ns, question).answer.unwrap();
        let (header, request, answer) =
            Answer::from_bytes(key(self.host).open(&answer).unwrap()).unwrap();
        assert_eq!((header, request), (self.header.clone(), question.request()));
        answer
    }
}

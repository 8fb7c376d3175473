//! The sessions of one host: which messages are new, how often it may ask, and the answers it may ask for again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::connection::Stored;
use crate::message::{Answer, Header, granted_to_bytes};
use crate::seal::Window;

/// The sessions of a host that are in use at most; the one that was quiet longest makes room.
const MOST_SESSIONS: usize = 16;
/// The sessions of a host that were opened and not used yet, at most.
const MOST_UNUSED: usize = 16;
/// The answers that a host may ask for again. They are more than all windows of its sessions can hold, so that a request
/// that comes late finds the answer to its earlier transmission.
const MOST_ANSWERS: usize = 64 * MOST_SESSIONS + 64;

#[derive(Clone, Copy, Debug)]
struct Session {
    id: u64,
    window: Window,
    used_ns: u64,
}

/// The state of one host.
#[derive(Debug, Default)]
pub(crate) struct HostState {
    sessions: Vec<Session>,
    unused: VecDeque<u64>,
    answers: HashMap<u128, Reply>,
    /// Their requests, the oldest first.
    answered: VecDeque<u128>,
    /// Credit for requests.
    pub(crate) requests: Credit,
    /// Credit for hellos. It is not that of requests: a recorded hello may be sent again by anybody.
    pub(crate) hellos: Credit,
}

/// An answer as it is kept: a connection is shared with the ledger. A million copies would be hundreds of MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The answer that grants this connection.
    Granted(Arc<Stored>),
    /// Any other one.
    Other(Answer),
}

impl Reply {
    /// Returns the message to `header.host` about this request, without its MAC.
    pub(crate) fn to_bytes(&self, header: &Header, request: u128) -> Vec<u8> {
        match self {
            Reply::Granted(stored) => granted_to_bytes(&stored.granted, header, request),
            Reply::Other(answer) => answer.to_bytes(header, request),
        }
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Other(answer)
    }
}

/// A credit that fills up over time.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    /// In thousandths of a message.
    credit: u64,
    credit_at_ns: u64,
    started: bool,
}

/// The place of a message in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    New,
    Replayed,
    NoSession,
}

impl Credit {
    /// Takes one message from the credit. `Err` is the time until there is one, microseconds.
    pub(crate) fn spend(&mut self, now_ns: u64, per_second: u32, burst: u32) -> Result<(), u32> {
        let most = u64::from(burst.max(1)) * 1_000;
        if !self.started {
            (self.started, self.credit, self.credit_at_ns) = (true, most, now_ns);
        }
        // A thousandth each 10^6 / per_second ns.
        let passed = now_ns.saturating_sub(self.credit_at_ns);
        let earned = u128::from(passed) * u128::from(per_second) / 1_000_000;
        if earned > 0 {
            let credit = u128::from(self.credit).saturating_add(earned);
            self.credit = u64::try_from(credit).unwrap_or(u64::MAX).min(most);
            self.credit_at_ns = now_ns;
        }
        if self.credit >= 1_000 {
            self.credit -= 1_000;
            return Ok(());
        }
        let missing_us = (1_000 - self.credit) * 1_000 / u64::from(per_second.max(1)) + 1;
        Err(u32::try_from(missing_us).unwrap_or(u32::MAX))
    }
}

impl HostState {
    /// Opens a session. It takes the place of none in use.
    pub(crate) fn open(&mut self, id: u64) {
        if self.unused.len() >= MOST_UNUSED {
            self.unused.pop_front();
        }
        self.unused.push_back(id);
    }

    /// Takes a message whose MAC is right.
    pub(crate) fn take(&mut self, id: u64, sequence: u64, now_ns: u64) -> Freshness {
        if let Some(at) = self.unused.iter().position(|unused| *unused == id) {
            self.unused.remove(at);
            if self.sessions.len() >= MOST_SESSIONS {
                let oldest = (0..self.sessions.len()).min_by_key(|at| self.sessions[*at].used_ns);
                oldest.map(|oldest| self.sessions.swap_remove(oldest));
            }
            self.sessions.push(Session {
                id,
                window: Window::default(),
                used_ns: now_ns,
            });
        }
        let Some(session) = self.sessions.iter_mut().find(|one| one.id == id) else {
            return Freshness::NoSession;
        };
        if !session.window.take(sequence) {
            return Freshness::Replayed;
        }
        session.used_ns = now_ns;
        Freshness::New
    }

    /// Returns the answer that this request had.
    pub(crate) fn answered(&self, request: u128) -> Option<&Reply> {
        self.answers.get(&request)
    }

    /// Keeps an answer for repetitions of its request.
    pub(crate) fn keep(&mut self, request: u128, answer: Reply) {
        if self.answers.insert(request, answer).is_none() {
            self.answered.push_back(request);
        }
        if self.answered.len() > MOST_ANSWERS {
            let oldest = self.answered.pop_front();
            oldest.map(|oldest| self.answers.remove(&oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_answers_are_kept_and_no_more() {
        let mut state = HostState::default();
        let answer = |connection| {
            Reply::Other(Answer::Released {
                connection,
                epoch: 1,
            })
        };
        let most = MOST_ANSWERS as u64;
        for number in 0..most + 10 {
            state.keep(number.into(), answer(number));
        }
        for number in 0..most + 10 {
            let expected = (number >= 10).then(|| answer(number));
            assert_eq!(state.answered(number.into()), expected.as_ref(), "{number}");
        }
        assert_eq!(state.answers.len(), state.answered.len());
    }
}

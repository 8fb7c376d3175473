//! A host's side as a state machine: one request at a time, repeated until it is answered or too late.
//!
//! ```text
//! ask(question) -> Hello ... Welcome -> question ... answer
//!                    ^                     | NoSession: the manager has started anew
//!                    '---------------------'
//! ```

use crate::message::{Answer, Header, Question, Reason};
use crate::seal::Key;

/// The time until a message is repeated for the first time, ns. It doubles each time up to [`LONGEST_WAIT_NS`].
const FIRST_WAIT_NS: u64 = 20_000_000;
const LONGEST_WAIT_NS: u64 = 500_000_000;
/// The same for questions that are of no use a moment later, ns.
const FIRST_HASTY_NS: u64 = 2_000_000;
const LONGEST_HASTY_NS: u64 = 8_000_000;

/// A host that asks the manager.
#[derive(Debug)]
pub struct Client {
    host: String,
    key: Key,
    session: Option<(u64, u64)>,
    sequence: u64,
    pending: Option<Pending>,
    /// The time until a message is repeated for the first time, and the longest one, ns.
    waits_ns: (u64, u64),
}

#[derive(Debug)]
struct Pending {
    question: Question,
    /// The nonce of the open hello.
    nonce: u128,
    /// The sequence of the first transmission of the question in this session; older answers are not for it.
    first_sequence: u64,
    asked_ns: u64,
    until_ns: u64,
    again_ns: u64,
    wait_ns: u64,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Send this datagram to the manager.
    Send(Vec<u8>),
    /// Nothing is to be done before this moment, ns.
    Wait(u64),
    /// The manager has answered. After [`Reason::Busy`] another try is another request.
    Done(Answer),
    /// No answer came in time. The manager may have decided: ask again with the same request.
    TooLate,
    /// There is no request.
    Idle,
}

impl Client {
    /// Returns the client of a host.
    #[must_use]
    pub fn new(host: &str, key: Key) -> Client {
        Client {
            host: host.to_owned(),
            key,
            session: None,
            sequence: 0,
            pending: None,
            waits_ns: (FIRST_WAIT_NS, LONGEST_WAIT_NS),
        }
    }

    /// Returns the client of a host whose questions are of no use a moment later. It repeats them after 2 ms, and then at
    /// least every 8 ms: with half of the messages lost, one of two questions is answered within 12 ms.
    #[must_use]
    pub fn hasty(host: &str, key: Key) -> Client {
        Client {
            waits_ns: (FIRST_HASTY_NS, LONGEST_HASTY_NS),
            ..Client::new(host, key)
        }
    }

    /// Begins a request, which ends at `until_ns`. It takes the place of an earlier one. `nonce` is random and new.
    pub fn ask(&mut self, now_ns: u64, until_ns: u64, question: Question, nonce: u128) {
        self.pending = Some(Pending {
            question,
            nonce,
            first_sequence: self.sequence + 1,
            asked_ns: now_ns,
            until_ns,
            again_ns: now_ns,
            wait_ns: self.waits_ns.0,
        });
    }

    /// Returns the moment at which the present request was asked first, ns.
    #[must_use]
    pub fn asked_ns(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.asked_ns)
    }

    /// Returns what is to be done now.
    pub fn poll(&mut self, now_ns: u64) -> Step {
        let Some(pending) = &mut self.pending else {
            return Step::Idle;
        };
        if now_ns >= pending.until_ns {
            self.pending = None;
            return Step::TooLate;
        }
        if now_ns < pending.again_ns {
            return Step::Wait(pending.again_ns.min(pending.until_ns));
        }
        pending.again_ns = now_ns + pending.wait_ns;
        pending.wait_ns = (pending.wait_ns * 2).min(self.waits_ns.1);
        let (epoch, session) = self.session.unwrap_or((0, 0));
        let hello = Question::Hello {
            nonce: pending.nonce,
        };
        let question = if session == 0 {
            &hello
        } else {
            &pending.question
        };
        self.sequence += 1;
        let header = Header {
            host: self.host.clone(),
            epoch,
            session,
            sequence: self.sequence,
        };
        Step::Send(self.key.seal(question.to_bytes(&header)))
    }

    /// Has the present request sent again at once: the last transmission reached nobody.
    pub fn repeat(&mut self, now_ns: u64) {
        if let Some(pending) = &mut self.pending {
            pending.again_ns = now_ns;
        }
    }

    /// Takes a datagram. What is not an answer to the present request changes nothing.
    pub fn datagram(&mut self, now_ns: u64, sealed: &[u8]) -> Step {
        if let Some(answer) = self.take(now_ns, sealed) {
            self.pending = None;
            return Step::Done(answer);
        }
        self.poll(now_ns)
    }

    fn take(&mut self, now_ns: u64, sealed: &[u8]) -> Option<Answer> {
        let message = self.key.open(sealed)?;
        let (header, request, answer) = Answer::from_bytes(message).ok()?;
        let pending = self.pending.as_mut()?;
        if header.host != self.host {
            return None;
        }
        if let Answer::Welcome { nonce } = answer {
            if self.session.is_none() && nonce == pending.nonce {
                self.session = Some((header.epoch, header.session));
                self.sequence = 0;
                pending.first_sequence = 1;
                pending.again_ns = now_ns;
                pending.wait_ns = self.waits_ns.0;
            }
            return None;
        }
        let own = self.session == Some((header.epoch, header.session))
            && header.sequence >= pending.first_sequence
            && header.sequence <= self.sequence
            && request == pending.question.request();
        if !own {
            return None;
        }
        if answer == Answer::NoSession {
            self.session = None;
            self.sequence = 0;
            // A hello of before must not open the new session twice: the answer repeats what is asked now.
            pending.nonce = pending.nonce.wrapping_add(1);
            pending.again_ns = now_ns;
            return None;
        }
        if let Answer::Refused(no) = &answer {
            if no.reason == Reason::TooOften {
                // Nothing is decided: the same request again, later.
                pending.again_ns = now_ns + u64::from(no.retry_after_us) * 1_000;
                return None;
            }
        }
        Some(answer)
    }
}

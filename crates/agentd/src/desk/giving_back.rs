//! The way back of what a program no longer uses: when it ends, when it asks for that, when the manager's list says so.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rtwire_manager::{Answer, Granted, Question, Reason};
use rtwire_managerd::{Asker, ManagerdError};

use super::{ANSWER, Desk, Held, HeldEnd, Program, lock};
use crate::AgentError;
use crate::service::Told;

impl Desk {
    /// Takes the rights of a connection away on this host.
    pub(super) fn take_away(&self, connection: u64) {
        let removed = lock(&self.held).remove(&(connection, true));
        let Some(HeldEnd::Sends { class, cookie }) = removed.map(|held| held.end) else {
            return;
        };
        let done = self.place.gate.forget(cookie).map_err(AgentError::from);
        let index = self.place.interface.index;
        let done = done.and(
            lock(&self.place.netlink)
                .remove_class(index, class)
                .map_err(AgentError::from),
        );
        if let Err(error) = done {
            (self.tell)(Told::Trouble(error.to_string()));
        }
    }

    /// Ends a listener of a connection on this host.
    fn hear_no_more(&self, one: &Held) {
        lock(&self.held).remove(&one.key());
        let (gate, port) = (&self.place.gate, one.granted.ask.port);
        let done = match &one.end {
            HeldEnd::HearsFrames(frames) => gate.forget_frames(port, frames.to),
            HeldEnd::Hears | HeldEnd::Sends { .. } => gate.forget_listener(port),
        };
        if let Err(error) = done {
            (self.tell)(Told::Trouble(error.to_string()));
        }
    }

    pub(super) fn return_to(asker: &mut Asker, connection: u64) -> Result<(), ManagerdError> {
        let question = Question::Release {
            request: Asker::request()?,
            connection,
        };
        asker.ask(&question, ANSWER).map(|_| ())
    }

    /// Frees channels and listeners. What the manager does not hear is released at the next look at its list.
    pub(super) fn free(&self, all: &[Held]) {
        for one in all {
            let connection = one.granted.connection;
            if !one.is_talker() {
                self.hear_no_more(one);
                continue;
            }
            let mut asker = lock(&self.asker);
            self.take_away(connection);
            // Nobody waits for a manager that is silent: it is asked again at the next look.
            if self.is_silent.load(Ordering::Relaxed) {
                continue;
            }
            match Self::return_to(&mut asker, connection) {
                Ok(()) => (self.tell)(Told::Released { connection }),
                Err(error) => {
                    self.is_silent.store(true, Ordering::Relaxed);
                    (self.tell)(Told::Trouble(format!(
                        "connection {connection} is no longer used, and the manager does not know it yet: {error}"
                    )));
                }
            }
        }
    }

    /// Frees all that a program has.
    pub(crate) fn program_ended(&self, program: Program) {
        self.close_all_streams(program);
        let all: Vec<Held> = lock(&self.held)
            .values()
            .filter(|one| one.of.id == program.id)
            .cloned()
            .collect();
        self.free(&all);
    }

    /// Compares what the manager has with what is held here. What nobody holds is released: it is from an earlier agent,
    /// or its answer was lost. What the manager no longer has is taken away. Returns the programs that lost something.
    pub(crate) fn reconcile(&self) -> Result<Vec<u64>, ManagerdError> {
        let lost = self.compared();
        self.is_silent.store(lost.is_err(), Ordering::Relaxed);
        lost
    }

    fn compared(&self) -> Result<Vec<u64>, ManagerdError> {
        let mut asker = lock(&self.asker);
        let mut known: BTreeMap<u64, Granted> = BTreeMap::new();
        loop {
            let question = Question::List {
                request: Asker::request()?,
                after: known.keys().next_back().copied().unwrap_or(0),
            };
            match asker.ask(&question, ANSWER)? {
                Answer::Listing { connections, more } => {
                    let is_empty = connections.is_empty();
                    known.extend(connections.into_iter().map(|one| (one.connection, one)));
                    if !more || is_empty {
                        break;
                    }
                }
                Answer::Refused(no) if no.reason == Reason::TooOften => {
                    std::thread::sleep(Duration::from_micros(no.retry_after_us.into()));
                }
                _ => return Ok(Vec::new()),
            }
        }
        let held: Vec<Held> = lock(&self.held).values().cloned().collect();
        let sent: Vec<u64> = held
            .iter()
            .filter(|one| one.is_talker())
            .map(|one| one.granted.connection)
            .collect();
        let own = |granted: &&Granted| granted.talker == self.place.allowance.host;
        for granted in known.values().filter(own) {
            if !sent.contains(&granted.connection) {
                Self::return_to(&mut asker, granted.connection)?;
                (self.tell)(Told::Released {
                    connection: granted.connection,
                });
            }
        }
        let mut lost = Vec::new();
        for one in held {
            let connection = one.granted.connection;
            if known.get(&connection) == Some(&one.granted) {
                continue;
            }
            lost.push(one.of.id);
            (self.tell)(Told::Lost { connection });
            if one.is_talker() {
                self.take_away(connection);
            } else {
                self.hear_no_more(&one);
            }
        }
        Ok(lost)
    }
}

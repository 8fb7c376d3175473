//! The client's state machine: bytes come, actions go.
//!
//! ```text
//! check: hello [library] running                                                    close
//! show:  hello [library] names running                                              close
//! count: hello counters                                                             close
//! push:  hello [library] names lock running edit candidate commit running confirm unlock close
//!                                                |                '- cancel, running: is it put back?
//!                                                '- discard
//! ```

use crate::capabilities::Capabilities;
use crate::compare::{Difference, differences};
use crate::counters;
use crate::data::{self, IDENTIFICATION};
use crate::edit::{adapt, edit};
use crate::element::Element;
use crate::error::NetconfError;
use crate::framing::{Decoder, Framing, encode};
use crate::reply::{Reply, RpcError};
use crate::report::{Left, Outcome, Report};
use crate::request::{Request, Store, hello};
use crate::stage::Stage;

/// The job of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Compares, and changes nothing.
    Check,
    /// Compares as a push would, and changes nothing: the switch needs all that a push needs.
    Show,
    /// Changes what differs.
    Push,
    /// Reads what the switch counted at its ports, and changes nothing. It needs no planned data.
    Count,
}

impl Job {
    /// True if the switch needs all that a push needs.
    const fn is_push(self) -> bool {
        matches!(self, Job::Show | Job::Push)
    }
}

/// The settings of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time in s after which the switch undoes a commit that nobody has confirmed; at least 1.
    pub confirm_within_s: u32,
    /// Leave out the data of modules that the switch does not have.
    pub limited: bool,
    /// Make interfaces that the switch does not have.
    pub new_interfaces: bool,
    /// Copy the settings to those that a restart begins with, where the switch has both.
    pub keep_for_restart: bool,
    /// The bridge's address was stated; otherwise the switch keeps its own.
    pub address_stated: bool,
    /// Refuse a switch whose commit cannot wait for a confirmation.
    pub must_confirm: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            confirm_within_s: 60,
            limited: false,
            new_interfaces: false,
            keep_for_restart: false,
            address_stated: false,
            must_confirm: false,
        }
    }
}

/// An action for the caller.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Wait for more bytes.
    Wait,
    /// The switch has the settings until the time for the confirmation is over: call [`Client::confirm`],
    /// [`Client::cancel`] or [`Client::look_again`].
    Decide,
    /// The job is over: close the stream.
    Done(Box<Report>),
}

/// The client's side of one session.
#[derive(Debug)]
pub struct Client {
    job: Job,
    settings: Settings,
    planned: Vec<Element>,
    decoder: Decoder,
    framing: Framing,
    stage: Stage,
    /// The number of the last request.
    number: u64,
    has: Capabilities,
    before: Vec<Element>,
    changes: Vec<Difference>,
    locked: bool,
    edited: bool,
    /// A commit waits for its confirmation.
    pending: bool,
    left: Left,
    outcome: Option<Outcome>,
    left_out: Vec<String>,
    notes: Vec<String>,
}

impl Client {
    /// Returns a client for a job with planned data (from [`data::elements`]).
    #[must_use]
    pub fn new(job: Job, planned: Vec<Element>, settings: Settings) -> Self {
        Self {
            job,
            settings,
            planned,
            decoder: Decoder::new(),
            framing: Framing::EndOfMessage,
            stage: Stage::Hello,
            number: 0,
            has: Capabilities::default(),
            before: Vec::new(),
            changes: Vec::new(),
            locked: false,
            edited: false,
            pending: false,
            left: Left::Unchanged,
            outcome: None,
            left_out: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Begins the session.
    pub fn start(&mut self) -> Action {
        Action::Send(encode(Framing::EndOfMessage, &hello()))
    }

    /// Returns the request that is under way, as a verb phrase.
    #[must_use]
    pub fn waits_for(&self) -> &'static str {
        self.stage.request()
    }

    /// Returns the first characters that have come and are no whole message.
    #[must_use]
    pub fn rest(&self) -> String {
        self.decoder.rest()
    }

    /// Returns the settings that the switch is left with if the session ends here.
    #[must_use]
    pub fn left(&self) -> Left {
        match (self.stage, self.pending) {
            // The session's end undoes it, or else the time.
            (Stage::Confirm, true) => Left::Unknown,
            (_, true) => self.puts_back(),
            (Stage::Commit, false) => Left::Unknown,
            (_, false) => self.left,
        }
    }

    fn puts_back(&self) -> Left {
        Left::PutsBack {
            within_s: self.settings.confirm_within_s,
        }
    }

    /// Takes bytes of the switch. With an [`Action::Wait`], all of them are used.
    ///
    /// # Errors
    /// The switch does not follow the protocol: the session cannot go on. [`Client::left`] says what it is left with.
    pub fn received(&mut self, bytes: &[u8]) -> Result<Action, NetconfError> {
        self.decoder.push(bytes);
        while let Some(message) = self.decoder.next_message()? {
            if self.stage == Stage::Hello {
                return self.hello(&message);
            }
            let Some(reply) = Reply::read(&message)? else {
                continue;
            };
            if reply.id.as_deref() != Some(&self.number.to_string()) {
                let errors: Vec<String> = reply.errors.iter().map(RpcError::to_string).collect();
                return Err(NetconfError::Protocol(format!(
                    "a reply does not belong to request {} ({}){}",
                    self.number,
                    self.stage.request(),
                    errors
                        .iter()
                        .map(|one| format!(": {one}"))
                        .collect::<String>()
                )));
            }
            if matches!(self.stage, Stage::Decision | Stage::Over) {
                return Err(NetconfError::Protocol(
                    "a reply comes without a request".to_owned(),
                ));
            }
            return Ok(self.reply(reply));
        }
        Ok(Action::Wait)
    }

    /// Confirms the settings, behind an [`Action::Decide`].
    pub fn confirm(&mut self) -> Action {
        self.send(Stage::Confirm, &Request::Commit)
    }

    /// Has the switch show its settings once more, behind an [`Action::Decide`]. Another one follows if they are as planned.
    pub fn look_again(&mut self) -> Action {
        self.show(Stage::InForce, Store::Running)
    }

    /// Has the switch put its settings back, behind an [`Action::Decide`].
    pub fn cancel(&mut self) -> Action {
        let left = self.left;
        self.fail(Outcome::Cancelled { left })
    }

    fn send(&mut self, stage: Stage, request: &Request) -> Action {
        self.stage = stage;
        self.number += 1;
        Action::Send(encode(self.framing, &request.write(self.number)))
    }

    fn hello(&mut self, message: &[u8]) -> Result<Action, NetconfError> {
        self.has = Capabilities::of_hello(message)?;
        if self.has.chunked {
            self.framing = Framing::Chunked;
            self.decoder.set_framing(Framing::Chunked);
        }
        if self.job.is_push() && !self.has.candidate {
            return Ok(self.fail(Outcome::NoCandidate));
        }
        if self.job.is_push() && self.settings.must_confirm && !self.has.confirmed_commit {
            return Ok(self.fail(Outcome::NoConfirmation));
        }
        if self.has.library && !self.lacks().is_empty() {
            let filter = data::module_names();
            return Ok(self.send(Stage::Library, &Request::Get { filter }));
        }
        Ok(self.begin())
    }

    /// Returns the modules of the data that the switch does not have.
    fn lacks(&self) -> Vec<String> {
        let needed = data::modules(&self.planned).into_iter();
        let lacking = needed.filter(|name| !self.has.modules.contains(*name));
        lacking.map(str::to_owned).collect()
    }

    fn begin(&mut self) -> Action {
        let lacks = self.lacks();
        if !lacks.is_empty() {
            let kept = data::limited(&self.planned, &self.has.modules);
            if !self.settings.limited || kept.is_empty() {
                return self.fail(Outcome::NoModules(lacks));
            }
            self.planned = kept;
            self.left_out = lacks;
        }
        if self.job == Job::Check {
            return self.show(Stage::Before, Store::Running);
        }
        if self.job == Job::Count {
            let filter = counters::filter();
            return self.send(Stage::Counters, &Request::Get { filter });
        }
        let filter = data::interface_leaves(&["name"]);
        self.send(Stage::Names, &Request::Get { filter })
    }

    fn show(&mut self, stage: Stage, from: Store) -> Action {
        let request = Request::GetConfig {
            from,
            filter: data::filter(&self.planned, self.has.modules.contains(IDENTIFICATION)),
            all_values: self.has.all_values,
        };
        self.send(stage, &request)
    }

    /// Goes on with the reply to the last request.
    fn reply(&mut self, reply: Reply) -> Action {
        let (warnings, errors): (Vec<_>, Vec<_>) =
            reply.errors.into_iter().partition(|one| one.is_warning);
        for warning in warnings {
            self.notes.push(format!("warning: {warning}"));
        }
        if !reply.is_done {
            return self.refused(errors);
        }
        let data = reply.data;
        match self.stage {
            Stage::Library => {
                self.has.add_library(&data);
                self.begin()
            }
            Stage::Names => self.names(&data),
            Stage::Counters => self.fail(Outcome::Counted(counters::counters(&data))),
            Stage::Lock => {
                self.locked = true;
                self.show(Stage::Before, Store::Running)
            }
            Stage::Before => self.compared(data),
            // No `validate`: the commit validates (RFC 6241, section 8.3.4.1), and netconfd 2.13 commits nothing behind one.
            Stage::Edit => self.show(Stage::Taken, Store::Candidate),
            Stage::Taken => {
                let differences = differences(&self.planned, &data);
                if !differences.is_empty() {
                    let left = Left::Unchanged;
                    return self.fail(Outcome::NotTaken { differences, left });
                }
                let request = if self.has.confirmed_commit {
                    Request::CommitUntil {
                        seconds: self.settings.confirm_within_s.max(1),
                    }
                } else {
                    Request::Commit
                };
                self.send(Stage::Commit, &request)
            }
            Stage::Commit => {
                self.edited = false;
                self.pending = self.has.confirmed_commit;
                self.left = Left::Changed;
                self.show(Stage::InForce, Store::Running)
            }
            Stage::InForce => {
                let differences = differences(&self.planned, &data);
                if !differences.is_empty() {
                    let left = self.left;
                    return self.fail(Outcome::NotTaken { differences, left });
                }
                if self.pending {
                    self.stage = Stage::Decision;
                    return Action::Decide;
                }
                self.pushed()
            }
            Stage::Confirm => {
                self.pending = false;
                self.pushed()
            }
            Stage::Cancel => {
                self.pending = false;
                // Until it shows them.
                self.left = Left::Unknown;
                self.show(Stage::Restored, Store::Running)
            }
            Stage::Restored => {
                // As before, apart from the order of entries.
                let same = differences(&self.before, &data).is_empty()
                    && differences(&data, &self.before).is_empty();
                self.left = if same { Left::PutBack } else { Left::Unknown };
                self.unwind()
            }
            Stage::Discard => {
                self.edited = false;
                self.unwind()
            }
            Stage::Restart | Stage::Unlock => self.unwind(),
            Stage::Close => self.over(),
            Stage::Hello | Stage::Decision | Stage::Over => Action::Wait,
        }
    }

    fn names(&mut self, data: &[Element]) -> Action {
        let known = data::interfaces(data);
        let wanted = data::interfaces(&self.planned);
        let missing: Vec<String> = wanted.difference(&known).cloned().collect();
        if !missing.is_empty() && !self.settings.new_interfaces {
            let known = known.into_iter().collect();
            return self.fail(Outcome::NoInterfaces { missing, known });
        }
        if self.job == Job::Show {
            return self.show(Stage::Before, Store::Running);
        }
        // Not those in force: netconfd 2.13 cannot put settings back that the session that ends has locked.
        self.send(Stage::Lock, &Request::Lock)
    }

    fn compared(&mut self, data: Vec<Element>) -> Action {
        adapt(&mut self.planned, &data, self.settings.address_stated);
        self.changes = differences(&self.planned, &data);
        if self.changes.is_empty() {
            return self.fail(Outcome::Same);
        }
        if self.job != Job::Push {
            let changes = std::mem::take(&mut self.changes);
            return self.fail(Outcome::Differs(changes));
        }
        let edit = edit(&self.planned, &data);
        self.before = data;
        self.edited = true;
        self.send(Stage::Edit, &Request::Edit(edit))
    }

    fn pushed(&mut self) -> Action {
        self.outcome = Some(Outcome::Pushed {
            changes: std::mem::take(&mut self.changes),
            confirmed: self.has.confirmed_commit,
        });
        if self.has.startup {
            if self.settings.keep_for_restart {
                return self.send(Stage::Restart, &Request::KeepForRestart);
            }
            self.notes.push(
                "its settings for a restart are the old ones: add --keep to have them replaced, too".to_owned(),
            );
        }
        self.unwind()
    }

    /// A request was refused.
    fn refused(&mut self, errors: Vec<RpcError>) -> Action {
        let words = || {
            let all: Vec<String> = errors.iter().map(RpcError::to_string).collect();
            all.join("; ")
        };
        match self.stage {
            // Beside the job: noted, and the way to the end goes on.
            Stage::Library | Stage::Discard | Stage::Unlock => {
                let note = format!("it refused {}: {}", self.stage.request(), words());
                self.notes.push(note);
                match self.stage {
                    Stage::Library => self.begin(),
                    _ => self.unwind(),
                }
            }
            Stage::Close => self.over(),
            Stage::Cancel | Stage::Restored => {
                let note = format!("it refused {}: {}", self.stage.request(), words());
                self.notes.push(note);
                // The end of the session undoes a commit that waits.
                self.left = if self.pending {
                    self.puts_back()
                } else {
                    Left::Unknown
                };
                self.pending = false;
                self.unwind()
            }
            stage => {
                let left = self.left;
                self.outcome = None;
                self.fail(Outcome::Refused {
                    request: stage.request(),
                    errors,
                    left,
                })
            }
        }
    }

    /// Ends the job with this outcome, after all is undone that has to be.
    fn fail(&mut self, outcome: Outcome) -> Action {
        self.outcome.get_or_insert(outcome);
        if !self.pending {
            return self.unwind();
        }
        if self.has.cancel_commit {
            return self.send(Stage::Cancel, &Request::CancelCommit);
        }
        // NETCONF's first confirmed commit is undone when its session ends.
        self.left = self.puts_back();
        self.pending = false;
        self.unwind()
    }

    fn unwind(&mut self) -> Action {
        if std::mem::take(&mut self.edited) {
            return self.send(Stage::Discard, &Request::Discard);
        }
        if std::mem::take(&mut self.locked) {
            return self.send(Stage::Unlock, &Request::Unlock);
        }
        self.send(Stage::Close, &Request::Close)
    }

    fn over(&mut self) -> Action {
        self.stage = Stage::Over;
        let mut outcome = self
            .outcome
            .take()
            .unwrap_or(Outcome::Cancelled { left: self.left });
        if let Outcome::Refused { left, .. }
        | Outcome::NotTaken { left, .. }
        | Outcome::Cancelled { left } = &mut outcome
        {
            *left = self.left;
        }
        Action::Done(Box::new(Report {
            outcome,
            left_out: std::mem::take(&mut self.left_out),
            notes: std::mem::take(&mut self.notes),
        }))
    }

    /// The stream has ended. Behind the end of the job that is as good as a reply.
    ///
    /// # Errors
    /// [`NetconfError::Ended`]: the job is not done. [`Client::left`] says what the switch is left with.
    pub fn ended(&mut self) -> Result<Action, NetconfError> {
        if self.stage == Stage::Close {
            return Ok(self.over());
        }
        Err(NetconfError::Ended {
            request: self.stage.request(),
        })
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod client_tests;
#[cfg(test)]
#[path = "foreign_tests.rs"]
mod foreign_tests;

//! The SDO client: jobs one after the other, each a command and its response.

use super::link::{Brought, Command, Link};
use super::multiple::{self, MultipleRead, MultipleResult, MultipleWrite};
use super::{MAXIMUM_TRANSFER_OCTETS, segment_octets};
use crate::AbortCode;
use rtwire_wire::powerlink::{Sdo, SdoCommand, SdoCommandId, Segmentation};
use std::collections::VecDeque;

/// A job of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdoJob {
    /// Read an object.
    Read(u16, u8),
    /// Write an object.
    Write(u16, u8, Vec<u8>),
    /// Read several objects with one command.
    ReadMultiple(Vec<MultipleRead>),
    /// Write several objects with one command.
    WriteMultiple(Vec<MultipleWrite>),
}

/// Reason why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SdoFailure {
    /// The server refused, or the client gave up.
    #[error("{0}")]
    Abort(AbortCode),
    /// The link could not be opened, or broke.
    #[error("the node does not answer")]
    Broken,
}

/// Result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdoOutcome {
    /// The job is done; the data read, or no data after writing.
    Done(Vec<u8>),
    /// Results of several objects; empty data for a written object.
    Multiple(Vec<MultipleResult>),
    /// The job failed.
    Failed(SdoFailure),
}

#[derive(Clone, Debug)]
struct Transfer {
    id: u32,
    job: SdoJob,
    command: SdoCommandId,
    /// The request's data. `handed` bytes of it have been passed to the link.
    request: Vec<u8>,
    handed: usize,
    /// The response's data. `expected` is its announced length.
    response: Vec<u8>,
    expected: Option<usize>,
}

/// A client of one server.
#[derive(Clone, Debug)]
pub struct SdoClient {
    link: Link,
    jobs: VecDeque<(u32, SdoJob)>,
    current: Option<Transfer>,
    transaction: u8,
    next_id: u32,
    segment_octets: usize,
    outcomes: VecDeque<(u32, SdoOutcome)>,
    timeout_ns: u64,
    deadline_ns: Option<u64>,
}

impl SdoClient {
    /// Creates a client whose frames have at most `mtu` bytes behind the Ethernet header. It stops waiting after
    /// `timeout_ns` without a response.
    #[must_use]
    pub fn new(mtu: usize, timeout_ns: u64) -> Self {
        Self {
            link: Link::new(true, timeout_ns),
            jobs: VecDeque::new(),
            current: None,
            // The first command gets the number 0.
            transaction: u8::MAX,
            next_id: 0,
            segment_octets: segment_octets(mtu),
            outcomes: VecDeque::new(),
            timeout_ns,
            deadline_ns: None,
        }
    }

    /// Appends a job; returns the number that identifies its outcome.
    pub fn submit(&mut self, now_ns: u64, job: SdoJob) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.jobs.push_back((self.next_id, job));
        self.proceed(now_ns);
        self.next_id
    }

    /// Returns the next outcome with its job's number.
    pub fn outcome(&mut self) -> Option<(u32, SdoOutcome)> {
        self.outcomes.pop_front()
    }

    /// Returns `true` if no job is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.current.is_none() && self.jobs.is_empty()
    }

    /// Returns `true` while it is opening its link.
    pub(crate) fn is_opening(&self) -> bool {
        self.link.is_opening()
    }

    /// Starts the time for a response again, because the client's requests are held back.
    pub(crate) fn postpone(&mut self, now_ns: u64) {
        self.link.postpone(now_ns);
        if self.current.is_some() {
            self.deadline_ns = Some(now_ns + 2 * self.timeout_ns);
        }
    }

    /// Sets other limits, which apply from the next [`reset`](Self::reset) on.
    pub(crate) const fn set_limits(&mut self, mtu: usize, timeout_ns: u64) {
        self.segment_octets = segment_octets(mtu);
        self.timeout_ns = timeout_ns;
    }

    /// Fails all jobs without a message to the server, which has been reset.
    pub fn reset(&mut self) {
        self.fail_all(SdoFailure::Broken);
        self.link = Link::new(true, self.timeout_ns);
        self.deadline_ns = None;
    }

    /// Returns the number of frames that wait to be sent.
    #[must_use]
    pub fn frames_waiting(&self) -> usize {
        self.link.frames_waiting()
    }

    /// Passes the next frame to `write`; returns `true` if there was one.
    pub fn next_frame(&mut self, now_ns: u64, write: &mut dyn FnMut(&Sdo<'_>)) -> bool {
        let sent = self.link.next(now_ns, write);
        self.hand_down();
        sent
    }

    /// Returns the time at which [`moment`](Self::moment) must be called, in ns; `None` for none.
    #[must_use]
    pub fn wake_at_ns(&self) -> Option<u64> {
        let link = self.link.deadline_ns();
        link.into_iter().chain(self.deadline_ns).min()
    }

    /// Repeats unanswered commands, and abandons a job that has waited too long.
    pub fn moment(&mut self, now_ns: u64) {
        if self.link.expire(now_ns) == Brought::Broken {
            self.fail_all(SdoFailure::Broken);
        }
        if self.deadline_ns.is_some_and(|deadline| now_ns >= deadline) {
            self.give_up(AbortCode::TIMEOUT);
            self.proceed(now_ns);
        }
    }

    /// Processes a message from the server.
    pub fn receive(&mut self, now_ns: u64, sdo: &Sdo<'_>) {
        match self.link.receive(now_ns, sdo) {
            Brought::Nothing => self.hand_down(),
            Brought::Broken => self.fail_all(SdoFailure::Broken),
            Brought::Command => {
                if let Some(command) = sdo.command {
                    self.deadline_ns = Some(now_ns + self.timeout_ns);
                    self.respond(&command);
                }
            }
        }
        self.proceed(now_ns);
    }

    fn fail_all(&mut self, failure: SdoFailure) {
        let current = self.current.take().map(|transfer| transfer.id);
        let waiting = self.jobs.drain(..).map(|(id, _)| id);
        let outcomes = current.into_iter().chain(waiting);
        self.outcomes
            .extend(outcomes.map(|id| (id, SdoOutcome::Failed(failure))));
        self.deadline_ns = None;
    }

    fn finish(&mut self, outcome: SdoOutcome) {
        if let Some(transfer) = self.current.take() {
            self.outcomes.push_back((transfer.id, outcome));
        }
        self.deadline_ns = None;
    }

    fn give_up(&mut self, code: AbortCode) {
        if let Some(transfer) = &self.current {
            let abort = Command::abort(self.transaction, false, transfer.command, code);
            self.link.send(abort);
        }
        self.finish(SdoOutcome::Failed(SdoFailure::Abort(code)));
    }

    /// Begins the next job; closes the link after the last one.
    fn proceed(&mut self, now_ns: u64) {
        if self.current.is_some() {
            return;
        }
        let Some((id, job)) = self.jobs.pop_front() else {
            if self.link.is_settled() {
                self.link.close();
            }
            return;
        };
        self.link.open(now_ns);
        self.transaction = self.transaction.wrapping_add(1);
        let object = |index: u16, subindex| {
            let [low, high] = index.to_le_bytes();
            vec![low, high, subindex, 0]
        };
        let (command, request) = match &job {
            SdoJob::Read(index, subindex) => {
                (SdoCommandId::READ_BY_INDEX, object(*index, *subindex))
            }
            SdoJob::Write(index, subindex, data) => {
                let mut request = object(*index, *subindex);
                request.extend(data);
                (SdoCommandId::WRITE_BY_INDEX, request)
            }
            SdoJob::ReadMultiple(reads) => (
                SdoCommandId::READ_MULTIPLE_BY_INDEX,
                multiple::emit_reads(reads),
            ),
            SdoJob::WriteMultiple(writes) => {
                let each = |(i, s, data): &MultipleWrite| (*i, *s, Ok(data.clone()));
                let chain: Vec<_> = writes.iter().map(each).collect();
                (
                    SdoCommandId::WRITE_MULTIPLE_BY_INDEX,
                    multiple::emit_chain(&chain),
                )
            }
        };
        self.current = Some(Transfer {
            id,
            job,
            command,
            request,
            handed: 0,
            response: Vec::new(),
            expected: None,
        });
        self.deadline_ns = Some(now_ns + 2 * self.timeout_ns);
        self.hand_down();
    }

    /// Passes segments of the request to the link, as far as it has room.
    fn hand_down(&mut self) {
        let Some(transfer) = &mut self.current else {
            return;
        };
        let whole = transfer.request.len();
        while transfer.handed < whole && self.link.room() > 0 {
            let rest = transfer.request.get(transfer.handed..).unwrap_or_default();
            let take = rest.len().min(self.segment_octets);
            let segmentation = match (transfer.handed, rest.len() - take) {
                (0, 0) => Segmentation::Expedited,
                (0, _) => Segmentation::Initiate {
                    total_octets: u32::try_from(whole + 4).unwrap_or(u32::MAX),
                },
                (_, 0) => Segmentation::Complete,
                _ => Segmentation::Segment,
            };
            self.link.send(Command {
                transaction: self.transaction,
                segmentation,
                command: transfer.command,
                data: rest.get(..take).unwrap_or_default().to_vec(),
                ..Command::default()
            });
            transfer.handed += take;
        }
    }

    /// Processes a response of the server.
    fn respond(&mut self, command: &SdoCommand<'_>) {
        let Some(transfer) = &mut self.current else {
            return;
        };
        if command.transaction != self.transaction || !command.response {
            return;
        }
        if command.abort {
            let code = AbortCode(command.abort_code().unwrap_or(AbortCode::GENERAL.0));
            self.finish(SdoOutcome::Failed(SdoFailure::Abort(code)));
            return;
        }
        if let Segmentation::Initiate { total_octets } = command.segmentation {
            let expected = (total_octets as usize).saturating_sub(4);
            if expected > MAXIMUM_TRANSFER_OCTETS {
                self.give_up(AbortCode::OUT_OF_MEMORY);
                return;
            }
            transfer.expected = Some(expected);
            transfer.response.reserve(expected);
        }
        transfer.response.extend(command.data);
        if transfer.response.len() > MAXIMUM_TRANSFER_OCTETS {
            self.give_up(AbortCode::OUT_OF_MEMORY);
            return;
        }
        let complete = matches!(
            command.segmentation,
            Segmentation::Expedited | Segmentation::Complete
        );
        if !complete {
            return;
        }
        let data = core::mem::take(&mut transfer.response);
        let wrong = transfer
            .expected
            .is_some_and(|expected| expected != data.len());
        if wrong {
            self.give_up(AbortCode::LENGTH);
            return;
        }
        let outcome = match &transfer.job {
            SdoJob::Read(..) | SdoJob::Write(..) => SdoOutcome::Done(data),
            SdoJob::ReadMultiple(_) => match multiple::parse_chain(&data) {
                Ok(results) => SdoOutcome::Multiple(results),
                Err(code) => SdoOutcome::Failed(SdoFailure::Abort(code)),
            },
            SdoJob::WriteMultiple(writes) => {
                let refusals = multiple::parse_refusals(&data);
                let each = |(index, subindex, _): &MultipleWrite| {
                    let same = |r: &&(u16, u8, AbortCode)| (r.0, r.1) == (*index, *subindex);
                    let refused = refusals.iter().find(same);
                    let result = refused.map_or(Ok(Vec::new()), |refusal| Err(refusal.2));
                    (*index, *subindex, result)
                };
                SdoOutcome::Multiple(writes.iter().map(each).collect())
            }
        };
        self.finish(outcome);
    }
}

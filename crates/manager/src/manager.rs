//! The manager as a state machine: a datagram and a moment go in, an answer and a change come out.
//!
//! The answer must not be sent before the change is durable. A change that cannot be stored ends the manager: its
//! memory is ahead of its store.

use std::collections::HashMap;
use std::sync::Arc;

use rtwire_plan::Plan;
use rtwire_plan::admission::Budgets;

use crate::ManagerError;
use crate::connection::{Ask, Granted, Stored};
use crate::counts::{Counts, Distrust};
use crate::ledger::{Ledger, refused};
use crate::message::{Answer, Header, LARGEST_MESSAGE, Question, Reason, Refused, host_of};
use crate::seal::Key;
use crate::sessions::{Freshness, HostState, Reply};
use crate::shares::{ShareRules, Shares};
use crate::snapshot::Snapshot;

/// The limits of each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// The largest number of connections that a host sends.
    pub connections: u32,
    /// The largest sum of their rates, bytes on the wire per millisecond.
    pub rate_bytes_per_ms: u64,
    /// The requests of a host in a second, over time.
    pub requests_per_second: u32,
    /// The requests of a host at once.
    pub requests_at_once: u32,
}

impl Default for Quotas {
    /// Returns 256 connections of any rate, 200 requests a second, 100 at once.
    fn default() -> Quotas {
        Quotas {
            connections: 256,
            rate_bytes_per_ms: u64::MAX,
            requests_per_second: 200,
            requests_at_once: 100,
        }
    }
}

/// A change that must be durable before an answer is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A connection is in force.
    Admitted(Arc<Stored>),
    /// A connection is no longer in force.
    Released {
        /// The connection.
        connection: u64,
        /// The epoch without it.
        epoch: u64,
    },
}

/// The result of a datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// The datagram to send back.
    pub answer: Option<Vec<u8>>,
    /// To be stored first.
    pub change: Option<Change>,
    /// The reason why the datagram was not believed, for the log.
    pub distrust: Option<Distrust>,
}

/// The content of a store, from which a manager starts.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The connections, in the order of their ids.
    pub connections: Vec<Stored>,
    /// The largest id that was ever assigned.
    pub last_connection: u64,
    /// The epoch.
    pub epoch: u64,
    /// The longest lifetime of one-shot reservations of any earlier start, microseconds.
    pub longest_lifetime_us: u32,
}

/// The settings of a manager.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The limits of each host.
    pub quotas: Quotas,
    /// The rules of one-shot reservations.
    pub shares: ShareRules,
    /// A random number of this start, never 0.
    pub epoch: u64,
    /// The moment of the start, ns of the clock of all later moments.
    pub now_ns: u64,
}

/// The manager of a network.
#[derive(Debug)]
pub struct Manager {
    ledger: Ledger,
    shares: Shares,
    keys: HashMap<String, Key>,
    hosts: HashMap<String, HostState>,
    settings: Settings,
    /// The moment from which on connections and reservations are granted, ns.
    grants_from_ns: u64,
    sessions: u64,
    counts: Counts,
}

impl Manager {
    /// Starts a manager from a plan, its budgets, the hosts' keys and the content of its store.
    ///
    /// Nothing is granted until the longest lifetime of one-shot reservations has passed: some of an earlier start may still
    /// be in use. The longest time that a frame is under way is added, for the last frames of released connections.
    ///
    /// # Errors
    /// [`ManagerError`] if the plan's streams or the stored connections do not fit, or a key belongs to no host.
    pub fn new(
        plan: Arc<Plan>,
        budgets: &Budgets,
        restored: Restored,
        keys: HashMap<String, Key>,
        settings: Settings,
    ) -> Result<Manager, ManagerError> {
        let Restored {
            connections,
            last_connection,
            epoch,
            longest_lifetime_us,
        } = restored;
        let ledger = Ledger::new(plan, budgets, connections, last_connection, epoch)?;
        if let Some(name) = keys.keys().find(|name| !ledger.knows(name)) {
            return Err(ManagerError::KeyOfNobody { name: name.clone() });
        }
        let lifetime_us = longest_lifetime_us.max(settings.shares.lifetime_us);
        let wait_ns = (u64::from(lifetime_us) * 1_000).saturating_add(ledger.longest_promise_ns());
        Ok(Manager {
            ledger,
            grants_from_ns: settings.now_ns.saturating_add(wait_ns),
            shares: Shares::new(settings.shares),
            keys,
            hosts: HashMap::new(),
            settings,
            sessions: 0,
            counts: Counts::default(),
        })
    }

    /// Returns the counts since the start.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the number of connections in force.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.ledger.len()
    }

    /// Returns the epoch of the plan in force.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.ledger.epoch()
    }

    /// Returns a connection in force.
    #[must_use]
    pub fn granted(&self, connection: u64) -> Option<&Granted> {
        self.ledger.granted(connection)
    }

    /// Returns the connections in force, ready to be planned anew. Afterwards [`Snapshot::follow`] keeps it up with the manager.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.ledger.snapshot()
    }

    /// Returns the rate that is left of the link from `from` to `to`, bit/s, and the one that one-shot reservations
    /// hold, bytes per millisecond.
    pub fn link(&mut self, from: &str, to: &str) -> Option<(u64, u64)> {
        let left = self.ledger.admission().rate_left_bps(from, to)?;
        Some((left, self.shares.reserved_on(from, to)))
    }

    /// Replaces the hosts' keys. Sessions opened with an old key stay, and need the new one.
    ///
    /// # Errors
    /// [`ManagerError::KeyOfNobody`]; then the old keys stay.
    pub fn rekey(&mut self, keys: HashMap<String, Key>) -> Result<(), ManagerError> {
        if let Some(name) = keys.keys().find(|name| !self.ledger.knows(name)) {
            return Err(ManagerError::KeyOfNobody { name: name.clone() });
        }
        self.keys = keys;
        Ok(())
    }

    /// Takes a datagram from `source`, an address for the counts.
    pub fn datagram(&mut self, now_ns: u64, source: &str, sealed: &[u8]) -> Outcome {
        match self.believed(now_ns, sealed) {
            Ok((header, question)) => self.question(now_ns, &header, &question),
            Err((why, answer)) => {
                self.counts.distrust(source, why);
                Outcome {
                    answer,
                    change: None,
                    distrust: Some(why),
                }
            }
        }
    }

    /// Checks a datagram. Only what holds a right MAC changes anything, or has an answer.
    fn believed(&mut self, now_ns: u64, sealed: &[u8]) -> Result<(Header, Question), Unbelieved> {
        let no = |why: Distrust| (why, None);
        if sealed.len() > LARGEST_MESSAGE {
            return Err(no(Distrust::Malformed));
        }
        let host = host_of(sealed).map_err(|_| no(Distrust::Malformed))?;
        let key = self.keys.get(host).ok_or(no(Distrust::UnknownHost))?;
        let message = key.open(sealed).ok_or(no(Distrust::Forged))?;
        let (header, question) =
            Question::from_bytes(message).map_err(|_| no(Distrust::Malformed))?;
        if matches!(question, Question::Hello { .. }) {
            return Ok((header, question));
        }
        let state = self.hosts.get_mut(&header.host);
        let fresh = state
            .filter(|_| header.epoch == self.settings.epoch)
            .map_or(Freshness::NoSession, |state| {
                state.take(header.session, header.sequence, now_ns)
            });
        match fresh {
            Freshness::New => Ok((header, question)),
            Freshness::Replayed => Err(no(Distrust::Replayed)),
            Freshness::NoSession => {
                let answer = Answer::NoSession.to_bytes(&header, question.request());
                Err((Distrust::Stale, Some(key.seal(answer))))
            }
        }
    }

    fn question(&mut self, now_ns: u64, header: &Header, question: &Question) -> Outcome {
        let quotas = self.settings.quotas;
        let (per_second, at_once) = (quotas.requests_per_second, quotas.requests_at_once);
        if let Question::Hello { nonce } = question {
            let state = self.hosts.entry(header.host.clone()).or_default();
            if state.hellos.spend(now_ns, per_second, at_once).is_err() {
                self.counts.refuse(Reason::TooOften);
                return Outcome::default();
            }
            self.sessions += 1;
            state.open(self.sessions);
            let header = Header {
                epoch: self.settings.epoch,
                session: self.sessions,
                ..header.clone()
            };
            let answer = Answer::Welcome { nonce: *nonce };
            return self.sealed(&header, *nonce, &answer.into(), None);
        }
        // Only a host with a session is believed, and so it is there.
        let Some(state) = self.hosts.get_mut(&header.host) else {
            return Outcome::default();
        };
        let spent = state.requests.spend(now_ns, per_second, at_once);
        let request = question.request();
        if let Some(answer) = state.answered(request).cloned() {
            self.counts.repeated += 1;
            return self.sealed(header, request, &answer, None);
        }
        let (answer, change) = match spent {
            Ok(()) => self.decide(now_ns, header, question),
            Err(retry_after_us) => {
                let quota = quotas.requests_per_second;
                let text = format!("more than {quota} requests a second");
                let refused = Refused {
                    retry_after_us,
                    ..refused(Reason::TooOften, text)
                };
                (Answer::Refused(refused).into(), None)
            }
        };
        match &answer {
            Reply::Granted(stored) if stored.granted.connection > 0 => self.counts.granted += 1,
            Reply::Other(Answer::Refused(no)) => self.counts.refuse(no.reason),
            Reply::Other(Answer::Released { .. }) => self.counts.released += 1,
            Reply::Other(Answer::Shared(_)) => self.counts.shared += 1,
            _ => {}
        }
        // "Too often" decides nothing: the host goes on with the same request. Every other answer is final, so that a late
        // transmission of the request cannot bring about what its sender no longer waits for.
        let later =
            matches!(&answer, Reply::Other(Answer::Refused(no)) if no.reason == Reason::TooOften);
        let asks = matches!(question, Question::List { .. } | Question::Explain { .. });
        let outcome = self.sealed(header, request, &answer, change);
        if let Some(state) = self.hosts.get_mut(&header.host).filter(|_| !later && !asks) {
            state.keep(request, answer);
        }
        outcome
    }

    fn sealed(
        &self,
        header: &Header,
        request: u128,
        answer: &Reply,
        change: Option<Change>,
    ) -> Outcome {
        let key = self.keys.get(&header.host);
        Outcome {
            answer: key.map(|key| key.seal(answer.to_bytes(header, request))),
            change,
            distrust: None,
        }
    }

    fn decide(
        &mut self,
        now_ns: u64,
        header: &Header,
        question: &Question,
    ) -> (Reply, Option<Change>) {
        self.ledger.settle(now_ns);
        let host = header.host.as_str();
        let decided = match question {
            Question::Hello { .. } => Err(refused(Reason::Faulty, "already said")),
            Question::Reserve {
                request,
                only_ask,
                ask,
            } => self.reserve(now_ns, host, *request, ask, *only_ask),
            Question::Release { connection, .. } => self.release(now_ns, host, *connection),
            Question::List { after, .. } => {
                let (connections, more) = self.ledger.list(host, *after, MOST_LISTED);
                Ok((Answer::Listing { connections, more }.into(), None))
            }
            Question::Explain { connection, .. } => self.explain(host, *connection),
            Question::Share {
                listener,
                wanted_bytes_per_ms,
                ..
            } => self.share(now_ns, header, listener, *wanted_bytes_per_ms),
        };
        decided.unwrap_or_else(|no| (Answer::Refused(no).into(), None))
    }

    /// Returns a refusal while reservations of an earlier start may be in use.
    fn waits(&self, now_ns: u64) -> Result<(), Refused> {
        let left_us = self.grants_from_ns.saturating_sub(now_ns).div_ceil(1_000);
        if left_us == 0 {
            return Ok(());
        }
        Err(Refused {
            retry_after_us: u32::try_from(left_us).unwrap_or(u32::MAX),
            ..refused(
                Reason::Busy,
                "the manager has just started: reservations of before may be in use",
            )
        })
    }

    /// Returns a refusal if a connection would exceed its host's quotas: "busy" if only its released connections, whose
    /// last frames may be under way, are too much.
    fn within_quotas(
        &self,
        now_ns: u64,
        host: &str,
        ask: &Ask,
        only_ask: bool,
    ) -> Result<(), Refused> {
        let quotas = &self.settings.quotas;
        let (quota, most) = (quotas.connections as usize, quotas.rate_bytes_per_ms);
        let (count, sum) = (self.ledger.sent_by(host), self.ledger.rate_of(host));
        let with_it = sum.saturating_add(ask.rate_bytes_per_ms.into());
        if !only_ask && count >= quota {
            return Err(refused(
                Reason::Quota,
                format!("\"{host}\" sends {quota} connections already, its quota"),
            ));
        }
        if with_it > most {
            return Err(refused(
                Reason::Quota,
                format!("\"{host}\" sends {sum} B/ms already; its quota is {most} B/ms"),
            ));
        }
        let (leaving, leaving_rate) = self.ledger.leaving_of(host);
        let full = !only_ask && count + leaving >= quota;
        if leaving > 0 && (full || with_it.saturating_add(leaving_rate) > most) {
            let until_ns = self.ledger.leaving_until_ns().unwrap_or(now_ns);
            return Err(busy(
                until_ns.saturating_sub(now_ns),
                format!("released connections of \"{host}\" count until their last frames arrive"),
            ));
        }
        Ok(())
    }

    fn reserve(
        &mut self,
        now_ns: u64,
        host: &str,
        request: u128,
        ask: &Ask,
        only_ask: bool,
    ) -> Result<(Reply, Option<Change>), Refused> {
        if let Some(stored) = self.ledger.made_by(host, request) {
            return Ok((Reply::Granted(stored), None));
        }
        self.waits(now_ns)?;
        let ask = &*self.ledger.raised(ask)?;
        self.within_quotas(now_ns, host, ask, only_ask)?;
        self.shares.expire(now_ns, &mut self.ledger);
        match self.ledger.reserve(host, request, ask, only_ask) {
            Ok(stored) => {
                let change = (!only_ask).then(|| Change::Admitted(Arc::clone(&stored)));
                Ok((Reply::Granted(stored), change))
            }
            Err(no) if no.reason == Reason::Capacity => {
                Err(self.busy(now_ns, host, ask, no, only_ask))
            }
            Err(no) => Err(no),
        }
    }

    /// Returns the refusal of a connection: "busy" if only one-shot reservations, which then end, and the last frames of
    /// released connections are in its way.
    fn busy(&mut self, now_ns: u64, host: &str, ask: &Ask, no: Refused, only_ask: bool) -> Refused {
        let fits = |ledger: &mut Ledger| ledger.reserve(host, 0, ask, true).is_ok();
        let leaving_until_ns = self.ledger.leaving_until_ns();
        if let Some(until_ns) = leaving_until_ns {
            if self.ledger.without_leaving(fits) {
                return busy(
                    until_ns.saturating_sub(now_ns),
                    format!(
                        "the last frames of released connections arrive first ({})",
                        no.text
                    ),
                );
            }
        }
        let Ok(way) = self.ledger.way(host, &ask.listener) else {
            return no;
        };
        let Some(until_ns) = self.shares.in_the_way_until_ns(&way) else {
            return no;
        };
        let fit = self
            .shares
            .without(&mut self.ledger, |ledger| ledger.without_leaving(fits));
        if !fit {
            return no;
        }
        let until_ns = until_ns.max(leaving_until_ns.unwrap_or(0));
        let wait_ns = until_ns.saturating_sub(now_ns);
        let until_ns = until_ns.saturating_add(wait_ns);
        if !only_ask {
            self.shares.claim(now_ns, host, &way, until_ns);
        }
        busy(
            wait_ns,
            format!("one-shot reservations end first ({})", no.text),
        )
    }

    fn owned(&self, host: &str, connection: u64) -> Result<Option<&Granted>, Refused> {
        match self.ledger.granted(connection) {
            Some(granted) if granted.talker != host => Err(refused(
                Reason::Foreign,
                format!("connection {connection} is not one of \"{host}\""),
            )),
            Some(granted) => Ok(Some(granted)),
            None => Ok(None),
        }
    }

    fn release(
        &mut self,
        now_ns: u64,
        host: &str,
        connection: u64,
    ) -> Result<(Reply, Option<Change>), Refused> {
        let is_there = self.owned(host, connection)?.is_some();
        if !is_there {
            // An id is never used again: what was there once was released.
            if connection == 0 || connection > self.ledger.last_connection() {
                return Err(refused(
                    Reason::Unknown,
                    format!("there is no connection {connection}"),
                ));
            }
            let epoch = self.ledger.epoch();
            return Ok((Answer::Released { connection, epoch }.into(), None));
        }
        self.ledger.release(now_ns, connection);
        let epoch = self.ledger.epoch();
        let change = Change::Released { connection, epoch };
        Ok((Answer::Released { connection, epoch }.into(), Some(change)))
    }

    fn explain(&mut self, host: &str, connection: u64) -> Result<(Reply, Option<Change>), Refused> {
        let granted = self.ledger.granted(connection).cloned();
        let granted = granted
            .filter(|granted| granted.talker == host || granted.ask.listener == host)
            .ok_or_else(|| {
                refused(
                    Reason::Unknown,
                    format!("\"{host}\" sends and hears no connection {connection}"),
                )
            })?;
        let hops = self.ledger.explain(&granted)?;
        Ok((Answer::Explained { granted, hops }.into(), None))
    }

    fn share(
        &mut self,
        now_ns: u64,
        header: &Header,
        listener: &str,
        wanted: u32,
    ) -> Result<(Reply, Option<Change>), Refused> {
        self.waits(now_ns)?;
        let asked_by = (header.session, header.sequence);
        let host = &header.host;
        let share = self
            .shares
            .ask(now_ns, asked_by, host, listener, wanted, &mut self.ledger)?;
        Ok((Answer::Shared(share).into(), None))
    }
}

/// Returns a refusal for so long, ns.
fn busy(wait_ns: u64, text: String) -> Refused {
    Refused {
        retry_after_us: u32::try_from(wait_ns / 1_000 + 1).unwrap_or(u32::MAX),
        ..refused(Reason::Busy, text)
    }
}

/// The reason why a message is not believed, and the answer that it has all the same.
type Unbelieved = (Distrust, Option<Vec<u8>>);

/// The connections in one listing, at most.
const MOST_LISTED: usize = 16;

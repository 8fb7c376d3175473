//! The store of a manager that leads.
//!
//! Every write is one transaction that compares two keys: the leader's, which is of this leadership and lives as long as its
//! lease, and the number of writes so far. So nothing is written once another manager leads, and a write whose answer was lost
//! can be sent again: it takes effect once, also if the first one arrives late.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rtwire_manager::{Change, Stored};
use serde_json::{Value, json};

use super::gateway::{Answer, Entry, Gateway, base64, delete, put, range};
use super::lease::Lease;
use crate::ManagerdError;
use crate::store::{Store, faulty, newest};

/// The changes in one transaction, at most. etcd takes 128 operations.
const MOST_AT_ONCE: usize = 100;
/// The connections in one answer, at most.
const PAGE: usize = 1_000;
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The keys of one network.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Keys {
        Keys {
            prefix: prefix.to_owned(),
        }
    }

    /// Returns the key that the leader holds.
    pub(super) fn leader(&self) -> String {
        format!("{}/leader", self.prefix)
    }

    /// Returns the key of the number of writes.
    fn writes(&self) -> String {
        format!("{}/writes", self.prefix)
    }

    fn value(&self, name: &str) -> String {
        format!("{}/values/{name}", self.prefix)
    }

    fn connections(&self) -> String {
        format!("{}/connections/", self.prefix)
    }

    /// Returns the key of a connection. Keys are in the order of ids.
    fn connection(&self, id: u64) -> String {
        format!("{}{id:016x}", self.connections())
    }
}

/// The store of a manager that leads, in an etcd.
#[derive(Debug)]
pub struct EtcdStore {
    place: PathBuf,
    gateway: Arc<Gateway>,
    keys: Keys,
    lease: Lease,
    /// The revision at which the leader's key was made: no other leadership has it.
    revision: String,
    /// The number of writes so far; `None` before the first.
    writes: Option<u64>,
}

impl EtcdStore {
    /// Returns the store of a leadership, whose lease is held and whose key was made at `revision`.
    pub(super) fn new(
        place: &Path,
        gateway: Arc<Gateway>,
        keys: Keys,
        lease: Lease,
        revision: String,
    ) -> Result<EtcdStore, ManagerdError> {
        let mut store = EtcdStore {
            place: place.to_owned(),
            gateway,
            keys,
            lease,
            revision,
            writes: None,
        };
        let entry = store
            .read(&json!({"key": base64(store.keys.writes())}))?
            .kvs;
        store.writes = entry.first().map(|entry| store.number(entry)).transpose()?;
        Ok(store)
    }

    fn no_longer(&self, why: &str) -> ManagerdError {
        ManagerdError::NoLongerLeads {
            place: self.place.clone(),
            why: why.to_owned(),
        }
    }

    fn unreadable(&self, why: String) -> ManagerdError {
        ManagerdError::Etcd {
            place: self.place.clone(),
            why,
        }
    }

    fn number(&self, entry: &Entry) -> Result<u64, ManagerdError> {
        let bytes = entry.value().map_err(|why| self.unreadable(why))?;
        let number = String::from_utf8_lossy(&bytes).parse();
        number.map_err(|_| self.unreadable("the number of writes is none".to_owned()))
    }

    /// Asks until a member answers or the lease is over.
    fn ask(&self, path: &str, question: &Value) -> Result<Answer, ManagerdError> {
        let mut last = String::new();
        loop {
            let Some(left) = self.lease.left() else {
                let why = [last, self.lease.trouble()]
                    .into_iter()
                    .find(|why| !why.is_empty());
                return Err(self.no_longer(&why.unwrap_or_else(|| OVERDUE.to_owned())));
            };
            match self.gateway.ask(path, question, left) {
                Ok(answer) => return Ok(answer),
                Err(why) => last = why,
            }
            thread::sleep(PAUSE);
        }
    }

    fn read(&self, question: &Value) -> Result<Answer, ManagerdError> {
        self.ask("kv/range", question)
    }

    /// Carries out operations as one, exactly once, if this manager leads.
    fn commit(&mut self, mut operations: Vec<Value>) -> Result<(), ManagerdError> {
        let (leader, writes) = (self.keys.leader(), self.keys.writes());
        let next = self.writes.map_or(1, |writes| writes + 1);
        operations.push(put(&writes, next.to_string().as_bytes()));
        let as_before = match self.writes {
            Some(number) => json!({
                "key": base64(&writes), "target": "VALUE", "result": "EQUAL",
                "value": base64(number.to_string()),
            }),
            None => json!({
                "key": base64(&writes), "target": "CREATE", "result": "EQUAL", "create_revision": "0",
            }),
        };
        let question = json!({
            "compare": [
                {
                    "key": base64(&leader), "target": "CREATE", "result": "EQUAL",
                    "create_revision": self.revision,
                },
                as_before,
            ],
            "success": operations,
            "failure": [range(&leader), range(&writes)],
        });
        let answer = self.ask("kv/txn", &question)?;
        if !answer.succeeded {
            let found = |at: usize| {
                let response = answer.responses.get(at)?;
                response.response_range.as_ref()?.kvs.first()
            };
            let own = found(0).filter(|entry| entry.create_revision == self.revision);
            if own.is_none() {
                return Err(self.no_longer("another manager leads, or did since"));
            }
            // An earlier try took effect, and its answer was lost. Only this leadership writes.
            if found(1).map(|entry| self.number(entry)).transpose()? != Some(next) {
                return Err(self.unreadable("another program has changed its keys".to_owned()));
            }
        }
        self.writes = Some(next);
        Ok(())
    }
}

/// The reason where no try failed, for instance after the process was paused.
const OVERDUE: &str = "its lease was not renewed in time";

impl Store for EtcdStore {
    fn place(&self) -> &Path {
        &self.place
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, ManagerdError> {
        let key = base64(self.keys.value(name));
        let answer = self.read(&json!({"key": key}))?;
        let value = answer.kvs.first().map(Entry::value).transpose();
        value.map_err(|why| self.unreadable(why))
    }

    fn set(&mut self, values: &[(&str, &[u8])]) -> Result<(), ManagerdError> {
        let values = values.iter();
        let operations = values.map(|(name, value)| put(&self.keys.value(name), value));
        let operations = operations.collect();
        self.commit(operations)
    }

    fn connections(&self) -> Result<Vec<Stored>, ManagerdError> {
        let all = self.keys.connections();
        // `0` follows `/`.
        let end = base64(format!("{}0", all.trim_end_matches('/')));
        let mut from = all.into_bytes();
        let mut connections = Vec::new();
        loop {
            let question = json!({
                "key": base64(&from), "range_end": end, "limit": PAGE.to_string(),
            });
            let entries = self.read(&question)?.kvs;
            for entry in &entries {
                let bytes = entry.value().map_err(|why| self.unreadable(why))?;
                let stored = Stored::from_bytes(&bytes);
                connections.push(stored.map_err(|error| faulty(&self.place, error))?);
            }
            match entries.last() {
                Some(last) if entries.len() >= PAGE => {
                    from = last.key().map_err(|why| self.unreadable(why))?;
                    // The least key that follows.
                    from.push(0);
                }
                _ => return Ok(connections),
            }
        }
    }

    /// Writes changes in groups, each of them as one.
    fn write(&mut self, changes: &[Change]) -> Result<(), ManagerdError> {
        for group in changes.chunks(MOST_AT_ONCE) {
            // A transaction may name each key once.
            let mut last: BTreeMap<u64, Option<&Stored>> = BTreeMap::new();
            for change in group {
                match change {
                    Change::Admitted(stored) => {
                        last.insert(stored.granted.connection, Some(stored))
                    }
                    Change::Released { connection, .. } => last.insert(*connection, None),
                };
            }
            let mut operations: Vec<Value> = last
                .into_iter()
                .map(|(id, stored)| {
                    let key = self.keys.connection(id);
                    stored.map_or_else(|| delete(&key), |stored| put(&key, &stored.to_bytes()))
                })
                .collect();
            for (name, value) in newest(group) {
                operations.push(put(&self.keys.value(name), &value));
            }
            self.commit(operations)?;
        }
        Ok(())
    }

    fn leads(&self) -> Result<(), ManagerdError> {
        if self.lease.left().is_some() {
            return Ok(());
        }
        let trouble = self.lease.trouble();
        let why = if trouble.is_empty() {
            OVERDUE
        } else {
            trouble.as_str()
        };
        Err(self.no_longer(why))
    }
}

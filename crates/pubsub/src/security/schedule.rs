//! The keys of a security group over time: when to ask the key service, what the key file holds, which key is current.
//!
//! ```text
//!            TimeToNextKey     KeyLifetime       KeyLifetime
//!  answer ──────────────────┬─────────────────┬─────────────────┬──► time
//!   current: key 7          │ key 8           │ key 9           │ key 10 …
//!   file: 7 8 9 10 11       │ 7 8 9 10 11     │ 8 9 10 11       │
//!                                               └─► asks again: half of the keys to come are used
//! ```
//!
//! A key is in the files of all stations long before a publisher uses it, and stays there for one lifetime longer: frames may
//! still be on their way.

use super::key::KeyMaterial;
use super::open::MOST_KEYS;
use super::service::ServedKeys;

/// Keys to come that fit into the file, beside the current one and the last one.
pub const MOST_TO_COME: usize = MOST_KEYS - 2;
/// The longest time without a question, ns: a service may have called its keys invalid.
const LONGEST_SILENCE_NS: u64 = 600_000_000_000;
/// The first and the longest pause behind a question without an answer, ns.
const PAUSE_NS: u64 = 1_000_000_000;
const LONGEST_PAUSE_NS: u64 = 60_000_000_000;
/// The time from a key's arrival to its first use, ns, where the service did not send it before: other stations ask, too.
const SETTLE_NS: u64 = 1_000_000_000;

/// The next step of whoever follows the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum KeyStep {
    /// Write the key file, then call [`KeySchedule::written`].
    Write,
    /// Ask the service, then call [`KeySchedule::served`] or [`KeySchedule::unanswered`].
    Ask,
    /// Wait until this time, ns.
    Wait(u64),
}

/// The change that an answer of the service has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Served {
    /// The keys to come that are held now. Without one, other stations may know a new key too late.
    pub to_come: usize,
    /// A known token has another key now: the service began anew, and stations that have not asked since are out.
    pub replaced: Option<u32>,
}

/// The keys of one security group.
#[derive(Clone, Debug)]
pub struct KeySchedule {
    /// The last key, the current one, and those to come.
    keys: Vec<KeyMaterial>,
    current: Option<u32>,
    /// The change to the key behind the current one, and each one's lifetime; `None` before the first answer.
    times: Option<Times>,
    /// A key that becomes current later, since other stations may not have it yet.
    settling: Option<(u32, u64)>,
    ask_ns: u64,
    failed: u32,
    /// A write failed: the time of the next try.
    write_ns: u64,
    dirty: bool,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    change_ns: u64,
    lifetime_ns: u64,
}

impl KeySchedule {
    /// Begins with the keys of a file that an earlier run has left, or with none. The service is asked at once.
    #[must_use]
    pub fn new(keys: Vec<KeyMaterial>, current: Option<u32>) -> Self {
        Self {
            keys,
            current,
            times: None,
            settling: None,
            ask_ns: 0,
            failed: 0,
            write_ns: 0,
            dirty: false,
        }
    }

    /// The keys that the file has to hold, oldest first.
    #[must_use]
    pub fn keys(&self) -> &[KeyMaterial] {
        &self.keys
    }

    /// The token of the key that publishers use; `None` before the first key.
    #[must_use]
    pub const fn current(&self) -> Option<u32> {
        self.current
    }

    /// Returns the time of the next change of keys, ns; `None` where no key to come is held.
    #[must_use]
    pub fn next_change_ns(&self) -> Option<u64> {
        let change = self.times.map(|times| times.change_ns);
        change.filter(|_| self.to_come() > 0 && self.settling.is_none())
    }

    /// Returns the number of keys behind the service's current one.
    #[must_use]
    pub fn to_come(&self) -> usize {
        let settling = self.settling.map(|(token, _)| token);
        let current = self.place(settling.or(self.current));
        current.map_or(0, |at| self.keys.len() - at - 1)
    }

    fn place(&self, token: Option<u32>) -> Option<usize> {
        self.keys.iter().position(|key| Some(key.token()) == token)
    }

    /// Returns what is to be done at `now_ns`, a time that never goes back.
    pub fn step(&mut self, now_ns: u64) -> KeyStep {
        self.change(now_ns);
        if self.dirty && now_ns >= self.write_ns {
            return KeyStep::Write;
        }
        if now_ns >= self.ask_ns {
            return KeyStep::Ask;
        }
        let settled = self.settling.map(|(_, at)| at);
        let retry = self.dirty.then_some(self.write_ns);
        let times = [self.next_change_ns(), settled, retry];
        let wait = times.into_iter().flatten().fold(self.ask_ns, u64::min);
        KeyStep::Wait(wait)
    }

    /// Makes keys current whose time has come.
    fn change(&mut self, now_ns: u64) {
        if let Some((token, at)) = self.settling {
            if now_ns < at {
                return;
            }
            self.settling = None;
            self.make_current(token);
        }
        while let Some(times) = self.times.filter(|times| now_ns >= times.change_ns) {
            let next = self.place(self.current).map(|at| at + 1);
            let Some(next) = next.and_then(|at| self.keys.get(at)) else {
                return;
            };
            self.make_current(next.token());
            let change_ns = times.change_ns.saturating_add(times.lifetime_ns);
            self.times = Some(Times { change_ns, ..times });
        }
    }

    /// Makes a held key current, and forgets all before the last one.
    fn make_current(&mut self, token: u32) {
        if let Some(at) = self.place(Some(token)) {
            self.keys.drain(..at.saturating_sub(1));
            self.dirty |= self.current != Some(token);
            self.current = Some(token);
        }
    }

    /// Notes that the file was written.
    pub fn written(&mut self) {
        self.dirty = false;
        self.write_ns = 0;
    }

    /// Notes that the file could not be written; it is tried again.
    pub fn not_written(&mut self, now_ns: u64) {
        self.write_ns = now_ns.saturating_add(PAUSE_NS);
    }

    /// Notes that the service gave no answer, or none that can be used. The keys stay, and the pauses between questions grow.
    /// Returns the time of the next question, ns.
    pub fn unanswered(&mut self, now_ns: u64) -> u64 {
        let lifetime = self.times.map_or(u64::MAX, |times| times.lifetime_ns);
        let longest = LONGEST_PAUSE_NS.min(lifetime / 4);
        let pause = PAUSE_NS << self.failed.min(6);
        self.failed = self.failed.saturating_add(1);
        self.ask_ns = now_ns.saturating_add(pause.min(longest));
        self.ask_ns
    }

    /// Takes an answer of the service that came at `now_ns`.
    pub fn served(&mut self, now_ns: u64, served: &ServedKeys) -> Served {
        let known = |key: &KeyMaterial| self.keys.iter().find(|old| old.token() == key.token());
        let replaced = served
            .keys
            .iter()
            .find(|key| known(key).is_some_and(|old| old != *key));
        let replaced = replaced.map(KeyMaterial::token);
        let before = self.keys.clone();
        if replaced.is_some() {
            self.keys.clear();
            self.current = None;
            self.settling = None;
        }
        let ours = |at: &KeyMaterial| Some(at.token()) == self.current;
        let ahead = served.keys.iter().position(ours);
        let first = served.keys.first().map(KeyMaterial::token);
        let mut change_ns = now_ns.saturating_add(served.to_next_ns);
        match ahead {
            // The service has the same current key, or this schedule is a little ahead: it never goes back.
            Some(ahead) => {
                let later = served.lifetime_ns.saturating_mul(ahead as u64);
                change_ns = change_ns.saturating_add(later);
                self.append(&served.keys[ahead..]);
            }
            None => {
                let held = self.place(first).is_some();
                let begins = self.current.is_none();
                self.append(&served.keys);
                if let Some(first) = first {
                    if held || begins {
                        self.settling = None;
                        self.make_current(first);
                    } else {
                        let settle = SETTLE_NS.min(served.lifetime_ns / 4);
                        self.settling = Some((first, now_ns.saturating_add(settle)));
                    }
                }
            }
        }
        self.times = Some(Times {
            change_ns,
            lifetime_ns: served.lifetime_ns,
        });
        self.dirty |= self.keys != before;
        self.failed = 0;
        let to_come = self.to_come();
        self.ask_ns = self.next_question(now_ns, change_ns, served.lifetime_ns);
        Served { to_come, replaced }
    }

    /// Takes the keys of an answer in place of those from its first one on. Keys before it stay, so far as there is room.
    fn append(&mut self, keys: &[KeyMaterial]) {
        let first = keys.first().map(KeyMaterial::token);
        match self.place(first) {
            Some(at) => self.keys.truncate(at),
            // Only the current one: keys to come that the service does not know any more are none.
            None => self.keys.retain(|key| Some(key.token()) == self.current),
        }
        let keys = &keys[..keys.len().min(MOST_TO_COME + 1)];
        let again = |old: &KeyMaterial| keys.iter().any(|key| key.token() == old.token());
        self.keys.retain(|old| !again(old));
        self.keys.extend_from_slice(keys);
        let over = self.keys.len().saturating_sub(MOST_KEYS);
        self.keys.drain(..over);
    }

    /// Returns the time of the next question: when half of the keys to come are used, and a while behind a change, as the
    /// service's clock is another one.
    fn next_question(&self, now_ns: u64, change_ns: u64, lifetime_ns: u64) -> u64 {
        let to_come = self.to_come() as u64;
        let changes = (to_come - to_come / 2).saturating_sub(1);
        let at = change_ns.saturating_add(lifetime_ns.saturating_mul(changes));
        let behind = match to_come {
            0 => (lifetime_ns / 16).min(PAUSE_NS),
            _ => lifetime_ns / 8,
        };
        let at = at.saturating_add(behind);
        at.min(now_ns.saturating_add(LONGEST_SILENCE_NS))
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;

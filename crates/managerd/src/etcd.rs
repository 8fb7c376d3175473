//! A store in etcd: one manager leads by a lease, others stand by.
//!
//! ```text
//! PREFIX/leader             the leader's address; it lives as long as the leader's lease
//! PREFIX/writes             the number of writes, so that each takes effect once
//! PREFIX/values/NAME        plan_id, budgets, epoch, last_connection, longest_lifetime_us
//! PREFIX/connections/ID     a connection, by its id in hexadecimal digits
//! ```

mod gateway;
mod lease;
mod store;

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;

use self::gateway::{Entry, Gateway, base64, put};
use self::lease::Lease;
pub use self::store::EtcdStore;
use self::store::Keys;
use crate::ManagerdError;
use crate::service::Told;

/// The time between two looks of a manager that stands by.
const LOOK: Duration = Duration::from_millis(100);
/// The prefix of the keys, where the address has none.
const PREFIX: &str = "rtwire";
/// The port of a member, where the address has none.
const PORT: u16 = 2379;
/// The beginning of an address.
const SCHEME: &str = "etcd://";

/// The address of a store in etcd: `etcd://HOST:PORT,HOST:PORT/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAddress {
    members: Vec<String>,
    prefix: String,
}

impl Display for EtcdAddress {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{SCHEME}{}/{}", self.members.join(","), self.prefix)
    }
}

impl FromStr for EtcdAddress {
    type Err = String;

    /// Reads an address. The port is 2379 and the prefix `rtwire` where they are missing.
    fn from_str(text: &str) -> Result<EtcdAddress, String> {
        let form = "a store is `etcd://HOST:PORT,HOST:PORT`, perhaps with `/PREFIX`";
        let rest = text.strip_prefix(SCHEME).ok_or(form)?;
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, PREFIX));
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        let member = |text: &str| -> Result<String, String> {
            if text.is_empty() || !text.bytes().all(fits) {
                return Err(format!("`{text}` is no member: {form}"));
            }
            // The colons of an IPv6 address are in brackets.
            let after = text.rsplit(']').next().unwrap_or(text);
            match after.split_once(':') {
                None => Ok(format!("{text}:{PORT}")),
                Some((_, port)) => match port.parse::<u16>() {
                    Ok(1..) => Ok(text.to_owned()),
                    _ => Err(format!("`{port}` is no port: {form}")),
                },
            }
        };
        let prefix = prefix.trim_end_matches('/');
        let is_prefix = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        if prefix.is_empty() || !prefix.bytes().all(is_prefix) {
            return Err("a prefix has letters, digits, `-`, `_`, `.` and `/`".to_owned());
        }
        Ok(EtcdAddress {
            members: members.split(',').map(member).collect::<Result<_, _>>()?,
            prefix: prefix.to_owned(),
        })
    }
}

impl EtcdAddress {
    /// Waits until this process leads, and returns its store. `None` if `keep_going` returned false first.
    ///
    /// `who` is told to others as the leader's address. `seconds` is the lease: how long the others wait after the leader has
    /// died. With its own settings, etcd grants no less than 2.
    ///
    /// # Errors
    /// The store cannot be read although this process leads.
    pub fn lead(
        &self,
        who: &str,
        seconds: u32,
        keep_going: &mut dyn FnMut() -> bool,
        tell: &mut dyn FnMut(Told),
    ) -> Result<Option<EtcdStore>, ManagerdError> {
        let patience = Duration::from_secs(seconds.into()) / 5;
        let gateway = Arc::new(Gateway::new(&self.members, patience));
        let place = PathBuf::from(self.to_string());
        let mut campaign = Campaign {
            keys: Keys::new(&self.prefix),
            gateway,
            who,
            seconds,
            lease: None,
        };
        let mut said = None;
        let mut failures = 0;
        while keep_going() {
            let told = match campaign.step() {
                Ok(Step::Leads(revision)) => {
                    let Some(mut lease) = campaign.lease.take() else {
                        continue;
                    };
                    // A lease that could not be renewed ends; then another one is tried.
                    if lease.hold(patience).is_err() {
                        drop(lease);
                        thread::sleep(LOOK);
                        continue;
                    }
                    let Campaign { gateway, keys, .. } = campaign;
                    return EtcdStore::new(&place, gateway, keys, lease, revision).map(Some);
                }
                Ok(Step::Again) => continue,
                Ok(Step::StandsBy(leader)) => {
                    failures = 0;
                    Some(Told::StandsBy { leader })
                }
                Err(why) => {
                    failures += 1;
                    // Each member had its chance.
                    (failures == campaign.gateway.members()).then(|| {
                        let place = place.clone();
                        Told::Trouble(ManagerdError::Etcd { place, why }.to_string())
                    })
                }
            };
            if let Some(told) = told {
                if said.as_ref() != Some(&told) {
                    tell(told.clone());
                    said = Some(told);
                }
            }
            thread::sleep(LOOK);
        }
        Ok(None)
    }
}

/// The result of a look at the leader's key.
enum Step {
    /// This process leads: its key was made at this revision.
    Leads(String),
    StandsBy(String),
    Again,
}

/// The way to leadership.
struct Campaign<'a> {
    keys: Keys,
    gateway: Arc<Gateway>,
    who: &'a str,
    seconds: u32,
    lease: Option<Lease>,
}

impl Campaign<'_> {
    fn step(&mut self) -> Result<Step, String> {
        // One whose time is over is of no use any more.
        self.lease.take_if(|lease| lease.left().is_none());
        let key = self.keys.leader();
        let ask = |path: &str, question| self.gateway.ask(path, &question, Duration::MAX);
        let answer = ask("kv/range", json!({"key": base64(&key)}))?;
        if let Some(leader) = answer.kvs.first() {
            return Ok(self.seen(leader));
        }
        let lease = match &self.lease {
            Some(lease) => lease,
            None => {
                let lease = Lease::grant(&self.gateway, self.seconds.into())?;
                self.lease.insert(lease)
            }
        };
        let mut operation = put(&key, self.who.as_bytes());
        operation["request_put"]["lease"] = lease.id().into();
        // Who comes second changes nothing. The next look says who it was, also if this answer is lost.
        let question = json!({
            "compare": [
                {"key": base64(&key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"},
            ],
            "success": [operation],
        });
        ask("kv/txn", question)?;
        Ok(Step::Again)
    }

    fn seen(&mut self, leader: &Entry) -> Step {
        if self
            .lease
            .as_ref()
            .is_some_and(|own| own.id() == leader.lease)
        {
            return Step::Leads(leader.create_revision.clone());
        }
        // Revoked: another one was first.
        self.lease = None;
        let name = leader.value().unwrap_or_default();
        Step::StandsBy(String::from_utf8_lossy(&name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_members_and_a_prefix() {
        let read = |text: &str| {
            text.parse::<EtcdAddress>()
                .map(|address| address.to_string())
        };
        assert_eq!(
            read("etcd://a,10.0.0.1:1,[::1]:2,[::1]"),
            Ok("etcd://a:2379,10.0.0.1:1,[::1]:2,[::1]:2379/rtwire".to_owned())
        );
        assert_eq!(
            read("etcd://a/hall/3/"),
            Ok("etcd://a:2379/hall/3".to_owned())
        );
        for wrong in [
            "http://a",
            "etcd://",
            "etcd://a,",
            "etcd://a:0",
            "etcd://a:x",
            "etcd://a:70000",
            "etcd://a/",
            "etcd://a/ä",
            "etcd://a b",
            "etcd://user@a",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

//! The lease of the manager that leads, and the moment until which it may believe in it.
//!
//! etcd counts a lease's time from the moment at which it has a renewal. The holder counts from the earlier moment at
//! which it *sent* the renewal, and four fifths of the time only. So its belief ends first, however long messages take.
//! It also ends where no majority of members is left that could end the lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use super::gateway::Gateway;

/// Returns the time since the machine was started, ns. It goes on while the machine is suspended, and nobody can set it.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The state that the thread that renews shares with the manager.
#[derive(Debug)]
struct Shared {
    id: String,
    /// The end of the belief, ns of [`now_ns`].
    until_ns: AtomicU64,
    is_gone: AtomicBool,
    trouble: Mutex<String>,
}

impl Shared {
    /// Renews the lease once.
    fn renew(&self, gateway: &Gateway, most: Duration) -> Result<(), String> {
        let sent_ns = now_ns();
        let answer = gateway.ask("lease/keepalive", &json!({"ID": self.id}), most)?;
        match answer.ttl.parse::<u64>() {
            Ok(seconds) if seconds > 0 => {
                let until_ns = sent_ns + believed_ns(seconds);
                self.until_ns.fetch_max(until_ns, Ordering::Release);
                Ok(())
            }
            _ => {
                self.is_gone.store(true, Ordering::Release);
                Err("etcd has ended the lease".to_owned())
            }
        }
    }
}

fn believed_ns(seconds: u64) -> u64 {
    seconds.saturating_mul(800_000_000)
}

/// A lease that a thread of its own renews.
#[derive(Debug)]
pub(super) struct Lease {
    shared: Arc<Shared>,
    gateway: Arc<Gateway>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Lease {
    /// Asks for a lease. Nothing renews it before [`Lease::hold`].
    pub(super) fn grant(gateway: &Arc<Gateway>, seconds: u64) -> Result<Lease, String> {
        let sent_ns = now_ns();
        let question = json!({"TTL": seconds.to_string()});
        let answer = gateway.ask("lease/grant", &question, Duration::MAX)?;
        let given: u64 = answer.ttl.parse().unwrap_or(0);
        if answer.id.is_empty() || given == 0 {
            return Err("etcd grants no lease".to_owned());
        }
        let shared = Shared {
            id: answer.id,
            until_ns: AtomicU64::new(sent_ns + believed_ns(given)),
            is_gone: AtomicBool::new(false),
            trouble: Mutex::default(),
        };
        Ok(Lease {
            shared: Arc::new(shared),
            gateway: Arc::clone(gateway),
            thread: None,
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.shared.id
    }

    /// Has it renewed from now on, as long as the value lives.
    pub(super) fn hold(&mut self, every: Duration) -> Result<(), String> {
        self.shared.renew(&self.gateway, Duration::MAX)?;
        let (stop, stopped) = channel();
        let (shared, gateway) = (Arc::clone(&self.shared), Arc::clone(&self.gateway));
        let thread = thread::spawn(move || {
            let mut wait = every;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
                let done = shared.renew(&gateway, Duration::MAX);
                // The next member at once, and then not more often than a small part of the time.
                wait = if done.is_ok() { every } else { every / 8 };
                let mut trouble = shared
                    .trouble
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *trouble = done.err().unwrap_or_default();
                if shared.is_gone.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        self.thread = Some((stop, thread));
        Ok(())
    }

    /// Returns the time until the belief ends. `None` if it has ended.
    pub(super) fn left(&self) -> Option<Duration> {
        if self.shared.is_gone.load(Ordering::Acquire) {
            return None;
        }
        let until_ns = self.shared.until_ns.load(Ordering::Acquire);
        let left_ns = until_ns.checked_sub(now_ns()).filter(|left| *left > 0)?;
        Some(Duration::from_nanos(left_ns))
    }

    /// Returns the reason why the newest renewal failed; empty if it did not.
    pub(super) fn trouble(&self) -> String {
        let trouble = self.shared.trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
        if self.left().is_none() {
            return;
        }
        // Another manager need not wait for the end of the lease. What is not revoked ends by itself.
        let question = json!({"ID": self.shared.id});
        for _ in 0..self.gateway.members() {
            let asked = self.gateway.ask("lease/revoke", &question, Duration::MAX);
            if asked.is_ok() {
                break;
            }
        }
    }
}

//! Who may send what, now?
//!
//! The manager of a running network admits and releases connections against the proven bounds of all of them at once.
//! It divides what is free among best-effort senders for a short time. This crate has the messages and the state
//! machines of both sides: datagrams and moments go in, datagrams and changes come out. It has no socket, clock or file.
//!
//! ```text
//! host                                         manager
//! Client --Hello/Reserve/Release/Share, MAC--> Manager -> Ledger -> rtwire_plan::admission
//!        <--Granted/Refused/Released, MAC-----    |-> Change (made durable first)
//!                                                 '-> Snapshot -> Plan (its next epoch)
//! ```
//!
//! ```
//! use std::{collections::HashMap, sync::Arc};
//! use rtwire_manager::{Answer, Ask, Carrier, Client, Key, Manager, Question, Settings, Step, budgets_of};
//!
//! let network = rtwire_plan::read(include_str!("../../../examples/reservations.toml"), "reservations.toml", &[])?;
//! let plan = Arc::new(rtwire_plan::plan(&network, &Default::default())?);
//! let budgets = budgets_of(&plan, &[8_000_000; 8])?;
//! let key = Key::new(&[7; 32]);
//! let settings = Settings { epoch: 1, ..Settings::default() };
//! let keys = HashMap::from([("press".to_owned(), key.clone())]);
//! let mut manager = Manager::new(plan, &budgets, Default::default(), keys, settings)?;
//!
//! let ask = Ask {
//!     listener: "office".to_owned(), carrier: Carrier::Udp, pcp: 3, vlan: None, frame_bytes: 500,
//!     rate_bytes_per_ms: 100, burst_bytes: 600, deadline_ns: None, interval_ns: None, source_port: 0, port: 0,
//! };
//! let now_ns = 1_000_000_000;
//! let mut client = Client::new("press", key);
//! client.ask(now_ns, now_ns + 1_000_000_000, Question::Reserve { request: 1, only_ask: false, ask }, 2);
//! let mut step = client.poll(now_ns);
//! while let Step::Send(datagram) = step {
//!     let outcome = manager.datagram(now_ns, "10.0.0.1:1", &datagram);
//!     step = client.datagram(now_ns, &outcome.answer.unwrap());
//! }
//! let Step::Done(Answer::Granted(granted)) = step else { panic!("{step:?}") };
//! assert!(granted.promise_ns > 0);
//! assert!(rtwire_plan::verify(&manager.snapshot().plan()?).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: unidirectional connections to one listener, on networks of FIFO and strict priority. A network with gates,
//! credit shapers or regulators is refused by name. A cyclic connection has a launch offset at its talker, but no windows at
//! the ports behind: its promise does not count on the offset.

mod budgets;
mod client;
mod codec;
mod connection;
mod counts;
mod division;
mod launches;
mod ledger;
mod manager;
mod message;
mod ports;
mod seal;
mod sessions;
mod shares;
mod snapshot;
#[cfg(test)]
mod tests;
mod ways;

pub use budgets::{budgets_from_bytes, budgets_of, budgets_to_bytes};
pub use client::{Client, Step};
pub use codec::{CodecError, is_name};
pub use connection::{Ask, Carrier, Granted, Stored};
pub use counts::{Counts, Distrust};
pub use division::{Demand, max_min};
pub use manager::{Change, Manager, Outcome, Quotas, Restored, Settings};
pub use message::{
    Answer, Header, Hop, LARGEST_MESSAGE, Question, Reason, Refused, Share, host_of,
};
pub use seal::{Key, Window};
pub use shares::ShareRules;
pub use snapshot::Snapshot;

use rtwire_plan::admission::AdmissionError;

/// The reason why a manager cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// The plan's own streams do not fit the budgets, or admission does not cover its network.
    #[error("the plan cannot be managed: {0}")]
    Plan(#[from] AdmissionError),
    /// A stream of the description has a name that connections have.
    #[error(
        "stream \"{name}\" of the plan: names that begin with `connection-` belong to connections; rename it and plan again"
    )]
    NameTaken {
        /// The stream.
        name: String,
    },
    /// A stored connection does not fit.
    #[error(
        "connection {connection} of the store does not fit the plan: {why}; start with the plan and the budgets of before"
    )]
    Restore {
        /// The connection.
        connection: u64,
        /// The reason, in words.
        why: String,
    },
    /// A key belongs to no host of the plan.
    #[error(
        "the key of \"{name}\" belongs to no host of the plan: remove its file or correct its name"
    )]
    KeyOfNobody {
        /// The name of the key.
        name: String,
    },
}

impl Default for Settings {
    /// Returns the default limits. Set `epoch` to a random number and `now_ns` to the present moment.
    fn default() -> Settings {
        Settings {
            quotas: Quotas::default(),
            shares: ShareRules::default(),
            epoch: 1,
            now_ns: 0,
        }
    }
}

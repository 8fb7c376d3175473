//! How does a switch take its share of a plan?
//!
//! A NETCONF client (RFC 6241 and 6242). It reads a switch's settings back, and compares them with the data of
//! `rtwire export --yang`. It changes them with a commit that the switch undoes by itself unless it is confirmed.
//! Bytes go in, actions come out: the crate has no socket, clock or process.
//!
//! ```text
//! JSON (RFC 7951) -> data::elements -> Client --Action::Send--> switch
//!                                        |    <--received()----
//!                                        '-> Action::Done(Report)
//! ```
//!
//! ```
//! use rtwire_netconf::{Action, Client, Job, Settings, data};
//!
//! let wanted = serde_json::json!({ "ietf-interfaces:interfaces": { "interface": [ { "name": "swp1" } ] } });
//! let mut client = Client::new(Job::Check, data::elements(&wanted)?, Settings::default());
//! let Action::Send(hello) = client.start() else { panic!() };
//! assert!(hello.ends_with(b"]]>]]>"));
//! # Ok::<(), rtwire_netconf::NetconfError>(())
//! ```
//!
//! Limits: data of the modules in [`data::MODULES`]; subtree filters; no notifications; one request at a time.

mod capabilities;
mod client;
mod compare;
mod counters;
pub mod data;
mod edit;
mod element;
mod error;
mod framing;
mod reply;
mod report;
mod request;
mod stage;

pub use client::{Action, Client, Job, Settings};
pub use compare::{Difference, differences};
pub use counters::PortCounters;
pub use element::{Content, Element, Operation};
pub use error::NetconfError;
pub use framing::{Decoder, Framing, encode};
pub use reply::{Reply, RpcError};
pub use report::{Left, Outcome, Report};

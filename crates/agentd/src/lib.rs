//! The trusted part of a host: what may its programs send, now?
//!
//! The agent alone sets the host's queues up. A program asks it for a connection, and gets a socket that can send
//! nothing else: the kernel chooses each frame's class by the socket that sent it. All other traffic is best effort,
//! with a small permanent rate and what the manager grants for a tenth of a second at a time.
//!
//! ```text
//! program --UNIX socket--> Agent: desk --MAC--> manager        plan.json: streams, best effort
//!    ^                       |                                      |
//!    '--- socket (fd) -------+-- gate (eBPF at the interface) <-----+
//!                            '-- queues (a class of HTB for each part)
//! ```
//!
//! The program's side is the crate `rtwire-agent`.
//!
//! Limits: one interface for each agent; channels of UDP and IPv4. A host's planned streams are known by their ports while no
//! program has opened them here: a program that sends to such a port shares that stream's rate, and takes none of anybody else's.

mod allowance;
mod best_effort;
mod desk;
mod error;
mod gate;
mod granted;
mod queues;
mod service;
mod shares;
mod status;
mod streams;

pub use error::AgentError;
pub use service::{Agent, AgentSettings, Told, group_number, remove};
pub use status::{AgentStatus, EndStatus, status_schema};

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
//! ```no_run
//! use std::path::Path;
//! use rtwire_agentd::{AgentClient, DEFAULT_SOCKET, Wish};
//!
//! let mut agent = AgentClient::connect(Path::new(DEFAULT_SOCKET))?;
//! let (channel, socket) = agent.reserve(Wish::Reserve {
//!     to: "office".to_owned(), priority: 5, frame_bytes: 500,
//!     rate_bytes_per_ms: 1000, burst_bytes: 2000, deadline_ns: None, port: 0, source_port: 0,
//! })?;
//! println!("connection {}: at most {} ns", channel.connection, channel.promise_ns);
//! socket.send(b"a value").map_err(|error| rtwire_agentd::AgentError::System {
//!     what: "send".to_owned(), error,
//! })?;
//! # Ok::<(), rtwire_agentd::AgentError>(())
//! ```
//!
//! Limits: one interface for each agent; channels of UDP and IPv4; a host's planned streams are known by their ports, so a
//! program that sends to such a port shares that stream's rate, and takes none of anybody else's.

mod allowance;
mod best_effort;
mod client;
mod desk;
mod error;
mod gate;
mod message;
mod pass;
mod queues;
mod service;
mod shares;
mod status;

pub use client::{AgentClient, DEFAULT_SOCKET};
pub use error::AgentError;
pub use message::{Channel, LARGEST_MESSAGE, Question, Reply, VERSION, Wish, question};
pub use service::{Agent, AgentSettings, Told, group_number, remove};
pub use status::{AgentStatus, status_schema};

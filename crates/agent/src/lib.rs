//! How does a program ask its host's agent? Messages, descriptors, and the program's side.
//!
//! The agent (`rtwire agent`) is the trusted part of a host. A program without any privilege asks it over a UNIX socket, and
//! gets sockets that can send nothing but what was admitted or planned.
//!
//! ```text
//! program: AgentClient --Question--> agent          one packet each, in turn
//!                      <--Reply-----                with a socket's descriptor (SCM_RIGHTS), if it opens something
//! ```
//!
//! ```no_run
//! use std::path::Path;
//! use rtwire_agent::{AgentClient, DEFAULT_SOCKET, ReserveWish};
//!
//! let mut agent = AgentClient::connect(Path::new(DEFAULT_SOCKET))?;
//! let (channel, socket) = agent.reserve(ReserveWish {
//!     to: "office".to_owned(), priority: 5, frame_bytes: 500,
//!     rate_bytes_per_ms: 1000, burst_bytes: 2000, ..ReserveWish::default()
//! })?;
//! println!("connection {}: at most {} ns", channel.connection, channel.promise_ns);
//! let _ = socket.send(b"a value");
//! # Ok::<(), rtwire_agent::ClientError>(())
//! ```
//!
//! Limits: Linux; one question at a time on each connection to the agent.

mod client;
mod error;
mod message;
pub mod pass;

pub use client::{AgentClient, DEFAULT_SOCKET, EndWatch, socket_of};
pub use error::ClientError;
pub use message::{
    Carrier, Channel, End, HostFacts, LARGEST_MESSAGE, Opened, Question, Reply, ReserveWish,
    StreamCounts, StreamWish, VERSION, Wish, question, refused,
};

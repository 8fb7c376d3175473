//! Deterministic Ethernet from ordinary Linux machines: plan it, run it, prove it.
//!
//! This crate is the front door: what a program needs, in one place, with one error type. The book has three parts.
//!
//! # Plan it
//! [`plan`] turns a network description (TOML) into a [`Plan`](plan::Plan) or a refusal that says why. Nothing is sent, and no
//! privilege is needed. The plan file is what flows to every host and program.
//!
//! ```
//! use rtwire::plan::{Options, plan, read};
//!
//! let text = r#"
//! [network]
//! name = "two hosts"
//!
//! [defaults]
//! link-rate = "100 Mbit/s"
//!
//! [[host]]
//! name = "A"
//!
//! [[host]]
//! name = "B"
//!
//! [[switch]]
//! name = "s1"
//! latency = "5 us"
//! buffer = "64 KiB"
//!
//! [[link]]
//! ends = ["A", "s1"]
//!
//! [[link]]
//! ends = ["s1", "B"]
//!
//! [[stream]]
//! name = "A-to-B"
//! talker = "A"
//! listeners = ["B"]
//! frame = "128 B"
//! interval = "1 ms"
//! deadline = "500 us"
//! "#;
//! let network = read(text, "two-hosts.toml", &[])?;
//! let plan = plan(&network, &Options::default())?;
//! assert!(plan.streams[0].promises[0].delay_ns < Some(500_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Run it
//! [`session`] opens a host's streams by their names. Address, key, priority, contract, launch time and receive path come
//! from the plan.
//!
//! ```no_run
//! use rtwire::prelude::*;
//! use std::time::Duration;
//!
//! fn talk() -> Result<(), rtwire::Error> {
//!     let plan = rtwire::read_plan("plan.json")?;
//!     let session = Session::open(&plan, "A", "eth0")?;
//!     let mut talker = session.talker("A-to-B")?.cyclic()?;
//!     session.become_real_time()?;
//!     for position in 0_u64..1_000 {
//!         talker.wait()?;
//!         talker.send(&position.to_be_bytes())?;
//!     }
//!     Ok(())
//! }
//!
//! fn listen() -> Result<(), rtwire::Error> {
//!     let plan = rtwire::read_plan("plan.json")?;
//!     let session = Session::open(&plan, "B", "eth0")?;
//!     let mut listener = session.listener("A-to-B")?;
//!     while let Some(value) = listener.recv(Some(Duration::from_secs(1)))? {
//!         println!("{:?} at {} ns", value.data, value.arrival_ns);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Below it, [`channel`] has talkers and listeners without a plan. [`powerlink`] runs POWERLINK stations from project files, and
//! [`pubsub`] publishers and subscribers of OPC UA PubSub: `image.set` and `image.newest`.
//!
//! # Prove it
//! The `rtwire` command measures and judges: `rtwire lab`, `rtwire run`, `rtwire verify`.
//!
//! # Features
//! `tokio`: `AsyncListener`, a stream's listener that is awaited. Without it a listener's descriptor goes into `epoll`
//! ([`StreamListener::arm`](session::StreamListener::arm)).
//!
//! # Limits
//! Linux only; sending and receiving need CAP_NET_RAW and more (each item says what).

use std::path::Path;

pub use rtwire_channel as channel;
pub use rtwire_plan as plan;
pub use rtwire_powerlink_station as powerlink;
pub use rtwire_pubsub_station as pubsub;
pub use rtwire_session as session;

/// Everything that goes wrong in this library, each kind with its own message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("`{file}`: {source}")]
    File {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A network description has faults.
    #[error(transparent)]
    Description(#[from] plan::Faults),
    /// A network cannot be planned.
    #[error(transparent)]
    Refused(Box<plan::Refusal>),
    /// A plan file cannot be used.
    #[error(transparent)]
    PlanFile(Box<plan::plan_file::PlanFileError>),
    /// A stream cannot be opened or used.
    #[error(transparent)]
    Session(Box<session::SessionError>),
    /// A channel cannot be opened or used.
    #[error(transparent)]
    Channel(Box<channel::ChannelError>),
    /// A POWERLINK station cannot be opened or run.
    #[error(transparent)]
    Powerlink(Box<powerlink::StationError>),
    /// A PubSub station cannot be opened or run.
    #[error(transparent)]
    PubSub(Box<pubsub::StationError>),
    /// An async runtime does not take a listener.
    #[cfg(feature = "tokio")]
    #[error("tokio: {0}")]
    Runtime(std::io::Error),
}

impl From<plan::Refusal> for Error {
    fn from(error: plan::Refusal) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<plan::plan_file::PlanFileError> for Error {
    fn from(error: plan::plan_file::PlanFileError) -> Self {
        Self::PlanFile(Box::new(error))
    }
}

impl From<session::SessionError> for Error {
    fn from(error: session::SessionError) -> Self {
        Self::Session(Box::new(error))
    }
}

impl From<channel::ChannelError> for Error {
    fn from(error: channel::ChannelError) -> Self {
        Self::Channel(Box::new(error))
    }
}

impl From<powerlink::StationError> for Error {
    fn from(error: powerlink::StationError) -> Self {
        Self::Powerlink(Box::new(error))
    }
}

impl From<pubsub::StationError> for Error {
    fn from(error: pubsub::StationError) -> Self {
        Self::PubSub(Box::new(error))
    }
}

/// Reads a plan file that `rtwire plan --output` wrote.
///
/// # Errors
/// The file cannot be read; it is no plan, of another version, or was changed after it was planned.
pub fn read_plan(path: impl AsRef<Path>) -> Result<plan::Plan, Error> {
    let path = path.as_ref();
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|source| Error::File {
        file: file.clone(),
        source,
    })?;
    Ok(plan::plan_file::read(&bytes, &file)?)
}

#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(feature = "tokio")]
pub use asynchronous::AsyncListener;

/// The items that most programs use.
pub mod prelude {
    #[cfg(feature = "tokio")]
    pub use crate::AsyncListener;
    pub use rtwire_plan::Plan;
    pub use rtwire_session::{
        CyclicTalker, Sent, Session, SessionOptions, StreamListener, StreamTalker, TalkerCycle,
        Value,
    };
}

//! What did the user write?
//!
//! Reads a description of a network in TOML. Returns a checked [`Network`], or all [`Faults`] of the file at once,
//! each with its line and column. Other planners' networks are converted to descriptions. Nothing here does I/O or
//! uses floating point.
//!
//! ```text
//! TOML -> read() -> Network        CSV, JSON of others -> import -> TOML
//!             \-> Faults
//! ```
//!
//! ```
//! let text = r#"
//!     [network]
//!     name = "two hosts"
//!     [defaults]
//!     link-rate = "100 Mbit/s"
//!     [[host]]
//!     name = "A"
//!     [[host]]
//!     name = "B"
//!     [[link]]
//!     ends = ["A", "B"]
//!     [[stream]]
//!     name = "A-to-B"
//!     talker = "A"
//!     listeners = ["B"]
//!     payload = "64 B"
//!     interval = "1 ms"
//! "#;
//! let network = rtwire_describe::read(text, "two.toml", &[])?;
//! assert_eq!(network.streams[0].routes[0], ["A", "B"]);
//!
//! let faults = rtwire_describe::read(&text.replace("64 B", "64"), "two.toml", &[]).unwrap_err();
//! assert_eq!(faults.faults[0].line, 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: a description is one file of at most 16 MiB. This crate does not check that the network can keep any
//! deadline.

mod description;
pub mod edit;
pub mod foreign;
pub mod hash;
pub mod import;
mod nearest;
pub mod network;
pub mod profile;
pub mod project_file;
pub mod ratio;
pub mod route;
pub mod schema;
pub mod units;

pub use description::{Fault, Faults, read, read_bytes};
pub use network::{
    BestEffort, Buffer, Contract, ContractKind, CutThrough, Defaults, Host, LatencyLimits,
    LatencyRange, Link, Network, PortLatency, PortPreemption, PortShaper, Preemption, Release,
    Semantics, ShaperKind, Stream, Switch, SwitchPort, Transfer, Transport,
};
pub use profile::{GateProfile, Isolation, ScheduleRules};
pub use ratio::{Overflow, Ratio};
pub use schema::json_schema;

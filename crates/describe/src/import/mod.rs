//! Networks in the formats that other planners read, as descriptions of ours.
//!
//! ```text
//! tsnkit    streams and topology as CSV: schedules for gates (C. Xue and others, "Real-Time Scheduling for
//!           802.1Qbv Time-Sensitive Networking: A Systematic Review and Experimental Study", RTAS 2024)
//! saihu     an output-port network as JSON, which Saihu hands to panco, DNC and xTFA (C.-T. Tsai and others,
//!           "Saihu: A Common Interface of Worst-Case Delay Analysis Tools for Time-Sensitive Networks", 2023)
//! ```
//!
//! What a format says and a description cannot is told, line by line; nothing is dropped in silence.

mod draft;
mod fault;
mod ports;
mod quantities;
mod saihu;
mod tsnkit;

pub use fault::ImportFault;
pub use saihu::saihu;
pub use tsnkit::tsnkit;

/// A network that was read from another format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The description, TOML.
    pub description: String,
    /// What could not be carried over as it was, and what stands in its place.
    pub notes: Vec<String>,
}

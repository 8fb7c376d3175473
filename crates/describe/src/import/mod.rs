//! Converts networks in other planners' formats to descriptions.
//!
//! ```text
//! tsnkit    streams and topology as CSV: schedules for gates (C. Xue and others, "Real-Time Scheduling for
//!           802.1Qbv Time-Sensitive Networking: A Systematic Review and Experimental Study", RTAS 2024)
//! saihu     an output-port network as JSON, which Saihu hands to panco, DNC and xTFA (C.-T. Tsai and others,
//!           "Saihu: A Common Interface of Worst-Case Delay Analysis Tools for Time-Sensitive Networks", 2023)
//! ```
//!
//! Content that a description cannot express is reported line by line. Nothing is dropped in silence.

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
    /// Content that could not be carried over unchanged, and its replacement.
    pub notes: Vec<String>,
}

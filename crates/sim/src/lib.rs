//! The referee of a plan: does it hold, frame by frame?
//!
//! A network is simulated in virtual time, frame by frame, in whole picoseconds. Sources keep to their contracts in
//! the worst permitted ways. Hosts, links and switches are simulated with their queues and their memory.
//!
//! Nothing here computes a bound. Only the data types of `rtwire-plan` are used, so an error there cannot hide here.
//!
//! ```text
//! Network -> Model ----> Simulator -> seen delays, backlog, loss -> Report
//! Pattern -> Scenario -/     ^ \                                      ^
//!                            search: tries to break each promise    Plan
//! recorded departures -> Replay -> the exact delay of each frame
//! ```
//!
//! Limits: frame preemption and cut-through switches are not modelled; see `docs/simulator.md`.

// The networks of the integration tests name this crate as their users do.
#[cfg(test)]
extern crate self as rtwire_sim;

mod babble;
pub mod clock;
pub mod error;
mod fixed;
mod gates;
mod histogram;
pub mod model;
pub mod queue;
pub mod random;
mod recovery;
pub mod replay;
pub mod report;
mod report_recovered;
pub mod scenario;
pub mod search;
mod shaping;
pub mod simulator;
mod source;

pub use clock::Clock;
pub use error::SimulationError;
pub use model::Model;
pub use recovery::RecoverySeen;
pub use replay::{Departure, Replay};
pub use report::{
    BrokenLink, MeterReport, Outcome, RecoveredReport, Report, Witness, report_schema,
};
pub use scenario::{Behaviour, Break, Lateness, Pattern, PatternChoice, Scenario};
pub use search::{SearchOptions, search};
pub use simulator::{ListenerSeen, MeterSeen, PortSeen, Simulator};

//! What does a program open for POWERLINK? A managing or a controlled node on a real interface, described by one file.
//!
//! ```text
//!  project file (TOML) ──► Project ──► Station ── run ──► link::run::Runner ──► interface (user space, or `driver`)
//!  CDC of a configurator ──┘             │  └── node of rtwire-powerlink
//!                                        ├── once a cycle: the application's control loop, on the process image
//!                                        │   (or a program that waits: RunningStation)
//!                                        ├── watch: what the kernel counts of the interface, for the node's error counters
//!                                        ├── store: the file of a controlled node's stored parameters
//!                                        ├── Handle: state of the network, NMT commands, SDO, from any thread
//!                                        └── plk0: ordinary IP traffic through the asynchronous phase, and SDO over UDP
//! ```
//!
//! A control loop:
//!
//! ```no_run
//! use rtwire_powerlink_station::{Project, Station};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let project = Project::read("cell.toml".as_ref())?;
//! let mut station = Station::managing(&project)?;
//! let level = station.input(1, 0x6000, 1)?;
//! let valve = station.output(2, 0x6200, 1)?;
//! let stop = rtwire_sys::signal::install_stop_flag()?;
//! station.run(stop, |cell| {
//!     let full = cell.get(level) > 200;
//!     cell.set(valve, u64::from(full));
//! })?;
//! # Ok(()) }
//! ```
//!
//! The loop runs on the calling thread, which [`Station::run`] makes real-time as the file says. The closure is part
//! of the real-time loop: it must not block. Its outputs are sent in the next cycle.
//!
//! Or in a thread of its own, which waits for the cycles, and may be late without harm to the network:
//!
//! ```no_run
//! use rtwire_powerlink_station::{Project, Station};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let project = Project::read("cell.toml".as_ref())?;
//! let mut station = Station::managing(&project)?;
//! let level = station.input(1, 0x6000, 1)?;
//! let valve = station.output(2, 0x6200, 1)?;
//! let mut cell = station.start()?;
//! while let Some(io) = cell.wait(Duration::from_secs(1))? {
//!     let full = io.get(level) > 200;
//!     io.set(valve, u64::from(full));
//! }
//! # Ok(()) }
//! ```
//!
//! Inputs are those of one cycle, and outputs are taken all together. [`RunningStation::wait`] says what a late program gets.
//!
//! # Limits
//! Objects in PDOs are whole bytes; those of more than 8 bytes have no number. One station on an interface.

mod configure;
pub mod control;
mod datagrams;
pub mod driver;
mod error;
mod ethernet;
mod exchange;
mod handle;
mod io;
mod kind;
mod launch;
mod project;
#[cfg(test)]
mod project_tests;
mod running;
mod snapshot;
mod station;
mod status;
mod store;
mod triple;
mod watch;
mod work;

pub use error::StationError;
pub use exchange::CycleImage;
pub use handle::{Handle, SdoReply};
pub use io::{Io, Point};
pub use project::{Direction, MappedObject, NodeEntry, Project, SocSending, place};
pub use rtwire_powerlink as powerlink;
pub use rtwire_powerlink::Validity;
pub use running::RunningStation;
pub use station::Station;
pub use status::{NodeStatus, SocLaunchStatus, StationEvent, StationStatus};

/// Returns the JSON Schema of a station's state, as it is committed in `schema/powerlink.schema.json`.
#[must_use]
pub fn json_schema() -> schemars::Schema {
    schemars::schema_for!(StationStatus)
}

//! What if I have one machine? A description brought up in namespaces, run, measured and judged.
//!
//! ```text
//!  Network ─► Layout ─► Fabric: a namespace a node, a veth pair a link, a bridge a switch,
//!                          │    HTB for the rate, crates/bpf/programs/switch.bpf.c
//!                          ├─► calibrate: the lab's own latency, on the unloaded network
//!                          ├─► Processes: one a host, talkers and listeners in real time
//!                          ├─► Monitor: backlog, drops         NoiseRecorder: the machine's stalls
//!                          └─► EventReader: each frame at each port ─► Passages     │
//!            transmit stamps ─► sim::replay: exact delays ─┐            │           │
//!                                                          └► Evidence ─► verdict ─► Report
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = std::fs::read_to_string("examples/five-nodes.toml")?;
//! let network = rtwire_plan::read(&text, "five-nodes.toml", &[]).map_err(|e| e.to_string())?;
//! let plan = rtwire_plan::plan(&network, &rtwire_plan::Options::default()).map_err(|e| e.to_string())?;
//! let outcome = rtwire_lab::run(rtwire_lab::Options {
//!     plan,
//!     file: "five-nodes.toml".to_owned(),
//!     at_most: std::time::Duration::from_secs(60),
//!     duration: Duration::from_secs(10),
//!     calibration: Duration::from_secs(3),
//!     receive_path: rtwire_lab::ReceivePath::Auto,
//!     transmit_path: rtwire_lab::TxPath::Qdisc,
//!     spin: Duration::ZERO,
//!     police: None,
//!     keep: false,
//!     command: "an example".to_owned(),
//!     rtwire_version: "0.1.0".to_owned(),
//!     show_progress: false,
//! })?;
//! println!("{}", outcome.report.print_text());
//! # Ok(()) }
//! ```
//!
//! Limits: the hosts' processes are this program again (`rtwire lab-worker`), so only the `rtwire` command can run a lab.
//! An emulated link hands a frame over when its transmission begins, a wire when it ends. Cables have no length.

mod awake;
mod blueprint;
mod calibrate;
mod error;
mod events;
mod evidence;
mod fabric;
mod held_back;
mod lasting;
mod limit;
mod load;
mod managed;
mod monitor;
mod offered;
mod passages;
mod phases;
mod ports;
mod privilege;
mod processes;
pub mod registry;
mod replayed;
mod report;
mod run;
mod run_clock;
mod sharing;
mod softirqs;
#[cfg(test)]
mod switch_tests;
mod tasks;
mod transmit;
mod worker;

pub use error::LabError;
pub use managed::serve_main;
pub use rtwire_session::{ReceivePath, TxPath};
pub use run::{Options, Outcome, run};
pub use worker::worker_main;

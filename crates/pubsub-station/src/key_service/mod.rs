//! Keeps a key file current from a security key service (OPC 10000-14, 8.3), in a process beside the stations.
//!
//! ```text
//!  security key service ◄─ OPC UA ─► rtwire-get-security-keys ◄─ JSON ─► KeyService::keep ─► key file ─► stations
//! ```
//!
//! A secure channel has no place beside a real-time loop, nor in the process that holds the schedule: a small program asks once
//! and ends. Any other program that reads and writes the same JSON does as well.

mod ask;
mod keep;
mod settings;

pub use ask::{Asked, Question};
pub use keep::KeyEvent;
pub use settings::KeyService;

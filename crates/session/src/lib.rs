//! What does a program open? A host's streams by their names, from the plan.
//!
//! ```text
//!  plan.json ─► Session::open(&plan, "host", "eth0")
//!                  ├─ talker("A-to-B")   ─► StreamTalker: try_send, send      (contract's token bucket)
//!                  │                          └─ cyclic() ─► CyclicTalker: wait, send | run(closure)   (launch offset)
//!                  └─ listener("A-to-B") ─► StreamListener: recv | newest     (contract watched, foreign plans refused)
//! ```
//!
//! Destination, port, channel key, VLAN tag, priority, contract, launch time and receive path come from the plan, so both
//! ends agree by construction. Ends with different plans cannot take each other's frames: the key differs.
//!
//! ```no_run
//! use rtwire_session::Session;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plan = rtwire_plan::plan_file::read(&std::fs::read("plan.json")?, "plan.json")?;
//! let session = Session::open(&plan, "A", "eth0")?;
//! let mut talker = session.talker("A-to-B")?.cyclic()?;
//! session.become_real_time()?;
//! for position in 0_u64.. {
//!     talker.wait()?;
//!     talker.send(&position.to_be_bytes())?;
//! }
//! # Ok(()) }
//! ```
//!
//! # Hot path
//! `try_send`, `wait`, `send`, `recv` and `newest` allocate nothing, take no lock, and make at most one system call for a
//! frame. Call the functions that open, and `statistics`, before or after the loop.
//!
//! # Privileges
//! Where the host's agent runs (`rtwire agent`), it opens the streams of programs without any privilege
//! ([`AgentUse`], [`Session::opened_by`]); else the program needs those of [`Session`].
//!
//! # Limits
//! A session does not set up the host: `rtwire apply` does. UDP streams with one listener need that host's address.

mod agent;
mod channels;
mod contract;
mod cyclic;
mod error;
pub mod evidence;
mod filler;
mod hold;
pub mod image;
pub mod judge;
mod late_cycles;
mod listener;
pub mod margin;
mod missing;
mod options;
pub mod outcome;
pub mod pace;
pub mod picture;
mod queues;
mod real_time;
pub mod run;
pub mod samples;
mod session;
pub mod streams;
mod talker;
pub mod task;
mod transmit;
mod values;
mod waiting;
mod work;

pub use agent::OpenedBy;
pub use cyclic::{CyclicTalker, TalkerCycle};
pub use error::SessionError;
pub use listener::{StreamListener, StreamStatistics, Value};
pub use missing::Missing;
pub use options::{AgentUse, PeerAddress, SessionOptions};
pub use rtwire_channel::{ArrivalNote, CardFollower, CardTime, ReceivePath, StampPlace, TxPath};
pub use session::Session;
pub use talker::{Sent, StreamTalker};
pub use values::{ValueEnd, ValueFormat};
pub use work::{Schedule, Work};

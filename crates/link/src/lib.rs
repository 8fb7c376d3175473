//! How do frames move? One interface: transmit paths, receive paths, timestamps, the cycle.
//!
//! ```text
//!  Sender::frames    ──► qdisc | direct | launch | xdp | uman ──► interface ──► kernel stamps ──► TxStamps (any thread)
//!  Sender::datagrams ──► qdisc | launch
//!  Receiver::frames    ◄── ring shared with the kernel | recvmmsg ◄── filter ◄── interface
//!  Receiver::frames_by_uman ◄── filter ◄── ring of the kernel module `uman` ◄── interface
//!  Receiver::datagrams ◄── recvmmsg
//!  Cycle               the timer of a cyclic sender or reader
//!  run::Runner         the loop that drives a protocol's node (`rtwire_wire::Node`) on an interface
//! ```
//!
//! ```no_run
//! use rtwire_link::{Sender, SenderConfig, TxPath};
//!
//! # fn main() -> Result<(), rtwire_link::LinkError> {
//! let config = SenderConfig { path: TxPath::Direct, ..SenderConfig::new("eth0") };
//! let mut sender = Sender::frames(&config)?;
//! sender.send(&[0; 60])?;
//! # Ok(()) }
//! ```
//!
//! # How a receiver waits, and why
//!
//! | wake-up | frames | datagrams | why |
//! |---|---|---|---|
//! | `Spin` | ring | `recvmmsg`, not waiting | the ring costs no system call: the fastest path without XDP |
//! | `SpinThenBlock` | ring, then `ppoll` | not waiting, then waiting | as fast as spinning while the answer comes within the budget |
//! | `Block` | `recvmmsg`; `recv` if one by one | the same | one call waits and receives; a ring and `ppoll` took 0.7 µs more for a round trip |
//!
//! A wake-up on another core costs far more than any of these calls. A block ring (TPACKET_V3) is not used: it hands
//! frames over only on a timer of milliseconds.
//!
//! # Limits
//! The kernel removes a VLAN tag before a packet socket sees the frame; a receiver shows it beside the frame if it was asked
//! to. Frames have at most 1518 bytes. Timestamps are the kernel's, or
//! the card's where they are asked for ([`card_time`]).

pub mod card_time;
mod cycle;
mod error;
pub mod frame_ring;
pub mod launch;
mod path;
pub mod program;
mod receive;
pub mod responder;
pub mod run;
mod send;
mod slices;
mod source;
mod stamps;
mod strays;
pub mod uman;
pub mod xdp;

pub use cycle::{Cycle, CycleConfig, Tick};
pub use error::LinkError;
pub use launch::{LaunchMode, LaunchQueue};
pub use path::{PathInUse, ReceivePath, TxPathInUse};
pub use receive::{Frame, Receiver, ReceiverConfig, WakeUp};
pub use rtwire_sys::launch::{LaunchFailure, LaunchFault};
pub use rtwire_sys::stamps::{TxStampKind, TxStamping};
pub use send::{Sender, SenderConfig, TxPath, ZeroCopy, shared_memory_queue};
pub use stamps::{TxReport, TxStamp, TxStamps};
pub use strays::{StrayCounter, Strays};

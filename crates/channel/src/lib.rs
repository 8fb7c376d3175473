//! What does a program open? Real-time channels: sent under a contract, received most urgent first or newest only, counted.
//!
//! ```text
//!  Shaper ─ when may it go? ─► Talker ──► RTDiP frame | RTDiP in UDP ──► link
//!                                                                        │ one filter a channel, in the kernel
//!  Endpoint ─ who has which port, what belonged to nobody ◄──────────────┤
//!     ├─► QueueListener   every value, most urgent first, FIFO within one priority
//!     └─► NewestListener  the newest value, its age, how many were skipped
//! ```
//!
//! ```no_run
//! use rtwire_channel::{Endpoint, ListenerConfig, Talker, TalkerConfig, Transport};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), rtwire_channel::ChannelError> {
//! let endpoint = Endpoint::open("eth0")?;
//! let mut listener = endpoint.queue_listener(&ListenerConfig::new(1001))?;
//!
//! let peer = Transport::rtdip("02:00:00:00:00:0b".parse().unwrap());
//! let mut talker = Talker::open(&TalkerConfig::new("eth0", peer, 1001))?;
//! talker.send(b"hello")?;
//!
//! if let Some(received) = listener.recv(Some(Duration::from_millis(10)))? {
//!     println!("{} octets, number {}", received.data.len(), received.sequence);
//! }
//! # Ok(()) }
//! ```
//!
//! # Hot path
//! [`Talker::send`] and the listeners' receive calls do not allocate, lock, log or format, and make at most one system call
//! for a frame. Opening and `statistics` are for before and after.
//!
//! # Receive paths
//! An endpoint uses packet sockets, or, if it is asked to ([`EndpointConfig::path`]), the receive program: then a queue has a
//! ring for each priority in memory of its own, and a newest value is read from memory without a system call.
//!
//! # Limits
//! With packet sockets newest values are kept by the reader: one that sleeps longer than its queue holds misses newer values
//! than it sees, and is told so; and all priorities of one channel share its memory.

mod config;
mod endpoint;
mod error;
mod feed;
mod inbox;
mod newest;
mod path;
mod pool;
mod queue;
pub mod sequence;
pub mod shaper;
mod statistics;
mod strays;
mod talker;

pub use config::{ListenerConfig, ListenerTransport, Order, TalkerConfig, Transport};
pub use endpoint::Endpoint;
pub use error::ChannelError;
pub use inbox::{Received, SourceAddress};
pub use newest::{Newest, NewestListener};
pub use path::{EndpointConfig, ListenerPath, PathInUse, ReceivePath};
pub use queue::QueueListener;
pub use rtwire_link::launch::card_queue;
pub use rtwire_link::program::{Police, ProgramError};
pub use rtwire_link::{
    LaunchMode, LaunchQueue, LinkError, TxPath, TxStamp, TxStampKind, TxStamping, TxStamps, WakeUp,
    shared_memory_queue,
};
pub use rtwire_wire::rtdip::Semantics;
pub use shaper::{Shaper, ShaperConfig};
pub use statistics::{EndpointStatistics, ListenerStatistics, Refusals, TalkerStatistics};
pub use talker::Talker;

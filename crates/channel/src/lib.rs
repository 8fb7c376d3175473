//! What does a program open? Real-time channels. They send under a contract, receive every value (most urgent first) or
//! only the newest, and count every error.
//!
//! ```text
//!  Shaper ─ time to send ────► Talker ──► RTDiP frame | RTDiP in UDP ──► link
//!                                                                        │ one filter per channel, in the kernel
//!  Endpoint ─ owners of ports, frames without a listener ◄───────────────┤
//!     ├─► QueueListener   every value, most urgent first, FIFO within one priority
//!     └─► NewestListener  the newest value, its age, the number of skipped values
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
//!     println!("{} bytes, number {}", received.data.len(), received.sequence);
//! }
//! # Ok(()) }
//! ```
//!
//! # Hot path
//! [`Talker::send`] and the listeners' receive calls do not allocate, lock, log or format. They make at most one
//! system call for a frame. Opening and `statistics` belong before and after a real-time loop.
//!
//! # Receive paths
//! An endpoint attaches the receive program where it may, and uses it for the listeners for which it is the better path;
//! the others have packet sockets ([`EndpointConfig::path`] asks for one path). Each listener tells its own
//! ([`QueueListener::path_in_use`]). With the receive program a queue has a ring of its own memory for each priority. A
//! newest value is then read from memory without a system call.
//!
//! # Waiting elsewhere
//! A listener has a descriptor for `epoll` and async runtimes: [`QueueListener::arm`], [`NewestListener::arm`].
//!
//! # Limits
//! With packet sockets the reader keeps the newest value. A reader that sleeps longer than its queue holds misses
//! newer values than it sees; [`Newest::overrun`] reports that. All priorities of one channel share the memory of its
//! socket.

mod config;
mod endpoint;
mod error;
mod feed;
mod inbox;
mod newest;
mod path;
mod pool;
mod queue;
mod registration;
pub mod sequence;
pub mod shaper;
mod stamp;
mod statistics;
mod strays;
mod talker;

pub use config::{ListenerConfig, ListenerTransport, Order, TalkerConfig, Transport};
pub use endpoint::Endpoint;
pub use error::ChannelError;
pub use inbox::{Received, SourceAddress};
pub use newest::{ArrivalNote, Newest, NewestListener};
pub use path::{EndpointConfig, ListenerPath};
pub use queue::QueueListener;
pub use rtwire_link::card_time::{CardFollower, CardTime};
pub use rtwire_link::launch::card_queue;
pub use rtwire_link::program::{Police, ProgramError};
pub use rtwire_link::{
    LaunchMode, LaunchQueue, LinkError, TxPath, TxPathInUse, TxStamp, TxStampKind, TxStamping,
    TxStamps, WakeUp, shared_memory_queue,
};
pub use rtwire_link::{PathInUse, ReceivePath};
pub use rtwire_wire::rtdip::Semantics;
pub use shaper::{Shaper, ShaperConfig};
pub use stamp::StampPlace;
pub use statistics::{EndpointStatistics, ListenerStatistics, Refusals, TalkerStatistics};
pub use talker::Talker;

//! How is the kernel asked? Safe wrappers around Linux; all unsafe code lives here.
//!
//! ```text
//!  clock, sched, memory, signal,   the process itself
//!  futex
//!  interface, port_lock, netns     the network namespace it is in
//!  packet + filter + ring, udp     frames and datagrams in and out; `InterfaceSocket` is what both share
//!  xsk                             frames out by shared memory
//!  launch, qdisc, netdev           launch times, which queues an interface has, what its driver does for AF_XDP
//!  bpf                             programs in the kernel
//! ```
//!
//! Two kinds of errors: calls that set something up give an [`Error`] that names call, object, reason and remedy; calls of
//! the hot path give a bare [`Errno`], which costs nothing.
//!
//! Limits: Linux of 64-bit time and little or big endian; IPv4 only.

pub mod bpf;
pub mod clock;
#[cfg(feature = "counting-allocator")]
pub mod counting;
mod error;
pub mod filter;
pub mod futex;
pub mod interface;
mod interface_socket;
#[cfg(feature = "lacking-kernel")]
pub mod lacking;
pub mod launch;
pub mod memory;
mod messages;
pub mod netdev;
mod netlink;
pub mod netns;
pub mod packet;
pub mod port_lock;
pub mod qdisc;
pub mod ring;
pub mod sched;
pub mod shared_file;
pub mod signal;
mod socket;
pub mod stamps;
pub mod tap;
pub mod udp;
pub mod xsk;

pub use error::{Errno, Error, ErrorKind, Result};
pub use interface_socket::InterfaceSocket;
pub use messages::{Batch, Message, Wait};
pub use socket::Ready;

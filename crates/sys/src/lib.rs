//! How is the kernel asked? Safe wrappers around Linux; all unsafe code lives here.
//!
//! ```text
//! clock, wait, sched, memory,     the process itself
//! signal, futex
//! interface, carrier, port_lock,  its network namespace
//! netns
//! packet + filter + ring, udp     frames and datagrams in and out; `InterfaceSocket` is their common part
//! xsk                             frames out through shared memory
//! uman                            the kernel module of that name: frames in and out, automatic replies
//! stamps, card_stamps, phc         timestamps of the kernel and of a card, and the card's clock
//! launch, qdisc, netdev           launch times, an interface's queues, its driver's abilities for AF_XDP
//! bpf                             programs in the kernel
//! ```
//!
//! There are two kinds of errors. Set-up calls return an [`Error`], which names call, object, reason and remedy.
//! Calls of the hot path return a bare [`Errno`], which costs nothing.
//!
//! Limits: Linux with 64-bit time, little or big endian; IPv4 only.

pub mod bpf;
pub mod card_stamps;
pub mod carrier;
pub mod clock;
#[cfg(feature = "counting-allocator")]
pub mod counting;
mod error;
pub mod filter;
pub mod futex;
#[cfg(any(test, feature = "fuzzed-parsers"))]
pub mod fuzzed;
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
pub mod phc;
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
pub mod uman;
pub mod wait;
mod words;
pub mod xsk;

pub use error::{Errno, Error, ErrorKind, Result};
pub use interface_socket::InterfaceSocket;
pub use messages::{Batch, Message, Wait};
pub use socket::Ready;

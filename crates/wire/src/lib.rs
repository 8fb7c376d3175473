//! What do the bytes mean? The frames that rtwire sends and receives, without any I/O.
//!
//! ```text
//!  bytes ──► ethernet::Frame (lenient view) ──► rtdip::Packet (lenient view) ──► rtdip::Header (strict value)
//!  bytes ◄── ethernet::Header::emit         ◄── rtdip::Header::emit
//!  bytes ◄─► ptp::question, ptp::Message (management: what a PTP daemon is asked, and answers)
//!  bytes ──► powerlink::View (lenient view)     powerlink::Packet (strict value) ◄──► bytes
//!  bytes ──► uadp::View (lenient view)          uadp::NetworkMessage (strict value) ◄──► bytes
//! ```
//!
//! A *lenient view* shows every field of any bytes that are long enough and judges nothing; a *strict value* holds only
//! what is right. `parse(emit(x)) = x` for every strict value, and no input makes anything here panic.
//!
//! ```
//! use rtwire_wire::{Pcp, rtdip};
//!
//! let header = rtdip::Header {
//!     semantics: rtdip::Semantics::Queue,
//!     priority: Pcp::new(5).unwrap(),
//!     destination_port: 1001,
//!     source_port: 2001,
//!     sequence: 7,
//!     key: 0,
//!     time_ns: Some(1_700_000_000_000_000_000),
//! };
//! let mut bytes = [0; 64];
//! let length = header.emit(b"hello", &mut bytes).unwrap();
//! let (parsed, data) = rtdip::Header::parse(&bytes[..length]).unwrap();
//! assert_eq!((parsed, data), (header, &b"hello"[..]));
//! ```
//!
//! Limits: no IP options, no fragments, one VLAN tag at most.
#![no_std]

pub mod action;
pub mod ethernet;
mod mac;
mod node;
pub mod powerlink;
mod priority;
pub mod ptp;
pub mod rtdip;
mod size;
pub mod uadp;

pub use action::{Action, Arm, Cue, Slot};
pub use ethernet::{EtherType, VlanTag};
pub use mac::{MacAddress, MacParseError};
pub use node::{Node, Outbox};
pub use priority::Pcp;
pub use size::{
    FRAME_OVERHEAD_OCTETS, MAXIMUM_FRAME_OCTETS, MINIMUM_FRAME_OCTETS, VLAN_TAG_OCTETS,
    rtdip_frame_octets, udp_frame_octets, wire_octets,
};

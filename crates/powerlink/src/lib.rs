//! POWERLINK (EPSG DS 301): managing node and controlled node, without any I/O.
//!
//! ```text
//!  ObjectDictionary ◄── Cdc, Xdd            frames, moments ──► ManagingNode    ──► frames (Outbox)
//!        │                                                      ControlledNode  ──► events, process image
//!        └── pdo (what lies where) ── SdoClient, SdoServer
//! ```
//!
//! Both nodes are [`rtwire_wire::Node`]s: the driver hands in frames with their time of arrival and wakes them at
//! [`wake_at_ns`](rtwire_wire::Node::wake_at_ns); they put what is to be sent into the outbox. After each call the driver
//! takes [`Event`]s with `next_event`, and an application reads and writes the process image.
//!
//! # What a driver needs to know
//!
//! **Times.** All moments are ns of one clock. [`ManagingNode`] sends its SoC on a grid of whole cycles from its start: it
//! asks to be woken at the grid point less [`lead_ns`](mn::ManagingConfig::lead_ns), and gives the grid point as launch
//! time. It goes on to the next request when a response arrives; only a missing one costs its timeout. `frame` should be
//! called with the time of *arrival* (the kernel's stamp): a response that arrived in time is in time, however late it is
//! read. Where `moment` comes late, the node itself was stalled: it gives what may lie unread one more chance, before it
//! counts a loss, and counts the stall by itself (`own_stalls`).
//!
//! **Process image.** `image().inputs` holds what was received, `image_mut().outputs` what is to be sent. At each SoC both nodes
//! take the outputs over into their prepared frames, the managing node into the requests of that whole cycle; a controlled node
//! also does when told to ([`ControlledNode::commit`]). `image().place(index, subindex)` tells where an object lies; the layout
//! changes only with [`Event::Image`].
//!
//! **Frames run by the driver.** A receive program can do the isochronous phase:
//! * controlled node: [`ControlledNode::prepared_pres`] is the frame that answers the PReq (whole and padded), new whenever
//!   [`ControlledNode::pres_generation`] changes; with [`ControlledNode::set_responder`] the node leaves the sending to the
//!   driver. The PReq is handed to `frame` all the same, as often and as late as is convenient.
//! * managing node: [`ManagingNode::polls`] is the list of requests of the cycle that is running, each with its node, frame
//!   and timeout, written anew with each SoC. With [`ManagingNode::set_chain`] the node sends SoC and the first request only; the driver sends the next request when a response arrives, and hands the
//!   responses to `frame`. Where one is missing, the node goes on with the request behind it, and the chain from there.
//!
//! **The interface.** Frames with a wrong check sequence, collisions and losses of the link are what only a driver knows: it
//! tells them with `observe`, as soon as it learns of them.
//!
//! **Ordinary Ethernet.** `send_ethernet` queues a frame for the asynchronous phase; frames that are not POWERLINK are for
//! the driver's TAP device, the nodes do not look at them.
//!
//! # Limits
//! Process data are mapped in whole octets. No redundancy of managing nodes or rings, no SDO embedded in PDOs, no routing.

pub mod cdc;
pub mod cn;
mod counter;
mod error;
mod event;
pub mod explain;
mod history;
pub mod mn;
pub mod od;
pub mod pdo;
mod queue;
pub mod sdo;
pub mod xdd;

pub use cdc::{Cdc, CdcEntry};
pub use cn::ControlledNode;
pub use counter::{Counter, LinkErrors, Statistics};
pub use error::{AbortCode, Error};
pub use event::{ErrorCode, Event, LostReason, NodeEvent};
pub use mn::ManagingNode;
pub use od::ObjectDictionary;
pub use pdo::ProcessImage;
pub use xdd::Description;

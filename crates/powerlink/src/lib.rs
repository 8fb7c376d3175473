//! POWERLINK (EPSG DS 301): managing node and controlled node, without any I/O.
//!
//! ```text
//!  ObjectDictionary ◄── Cdc, Xdd            frames, moments ──► ManagingNode    ──► frames (Outbox)
//!        │                                                      ControlledNode  ──► events, process image
//!        └── pdo (what lies where) ── SdoClient, SdoServer
//! ```
//!
//! Both nodes are [`rtwire_wire::Node`]s. The loop that drives them hands in frames with their time of arrival, and wakes them
//! at [`wake_at_ns`](rtwire_wire::Node::wake_at_ns). They put frames to send into the outbox. After each call the loop takes
//! [`Event`]s with `next_event`, and an application reads and writes the process image.
//!
//! # What the loop needs to know
//!
//! **Times.** All moments are ns of one clock. [`ManagingNode`] sends its SoC on a grid of whole cycles from its
//! start. It asks to be woken at the grid point less [`lead_ns`](mn::ManagingConfig::lead_ns), and uses the grid
//! point as launch time. The next request follows when a response arrives; only a missing one costs its timeout. Call
//! `frame` with the time of *arrival* (the kernel's timestamp): a response that arrived in time is in time, however
//! late it is read. Where `moment` comes late, the node itself was stalled. It then looks once more for an unread
//! response before it counts a loss, and counts the stall (`own_stalls`). Tell with `reads_at` when a frame is read. A node answers
//! no request whose slot is over, and calls no data valid that were set before a long stop.
//!
//! **Process image.** `image().inputs` has the received values, `image_mut().outputs` those to send. At each SoC both nodes
//! take the outputs over into their prepared frames; the managing node into the requests of that whole cycle. A controlled node
//! also does so on [`ControlledNode::commit`]. `image().place(index, subindex)` returns the place of an object, and
//! `image().validity(channel)` the age of its data. The layout changes only with [`Event::Image`].
//!
//! **Frames that leave from the driver.** A receive program can do the isochronous phase. The nodes give it
//! [actions](rtwire_wire::action), with the slots and cues of [`prepared`]:
//! * A controlled node prepares its PRes whenever it changes, and arms it while its state is one that answers. It disarms it in
//!   the call in which the state becomes another one.
//! * A managing node prepares and arms the requests of a cycle before its SoC. It disarms them when the last response
//!   has come or is missing. Where a response in between is missing, the request behind it is due, and the chain goes
//!   on from there.
//!
//! Each PRes and each PReq is due all the same. An outbox that carries out no actions sends them, and the nodes do not notice.
//! The driver must show every frame to `frame`, in order, as late as is convenient.
//!
//! **The interface.** Only the interface knows of frames with a wrong check sequence, collisions and losses of the
//! link. Report them with `observe` as soon as they are known.
//!
//! **Stored parameters.** A controlled node that was given its stored parameters ([`ControlledNode::keep_parameters`]) hands out
//! those that it is told to store, with `parameters_to_store`. The loop has them written elsewhere and reports the outcome.
//!
//! **Ordinary Ethernet.** `send_ethernet` queues a frame for the asynchronous phase. The nodes ignore frames that are not
//! POWERLINK.
//!
//! # Limits
//! Process data are mapped in whole bytes. No redundancy of managing nodes or rings, no SDO embedded in PDOs, no routing.

pub mod cdc;
pub mod cn;
mod counter;
mod error;
mod event;
pub mod explain;
mod freshness;
mod history;
pub mod mn;
pub mod od;
pub mod pdo;
pub mod prepared;
mod queue;
pub mod sdo;
mod validity;
pub mod xdd;

pub use cdc::{Cdc, CdcEntry};
pub use cn::ControlledNode;
pub use counter::{Counter, LinkErrors, Statistics};
pub use error::{AbortCode, Error};
pub use event::{ErrorCode, Event, LostReason, NodeEvent};
pub use mn::ManagingNode;
pub use od::ObjectDictionary;
pub use pdo::ProcessImage;
pub use validity::Validity;
pub use xdd::Description;

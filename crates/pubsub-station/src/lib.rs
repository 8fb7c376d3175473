//! What does a program open for OPC UA PubSub? A publisher or a subscriber on a real interface, described by one file.
//!
//! ```text
//!  project file (TOML), the same at both ends
//!    ├─► PublisherStation ── run ──► sample (generators, memory-mapped image, program) ─► node ─► Sender
//!    │     └── keeper: nonces on the disk, changes of the key file
//!    │     └── answers: the driver sends the newest message upon each question (XDP)
//!    └─► SubscriberStation ─ run ──► Receiver ─► node ─► NewestImage (any thread), counters, latency
//!          └── metadata watch: asks the publisher when its metadata have changed
//! ```
//!
//! A publisher whose values come from a program:
//!
//! ```no_run
//! use rtwire_pubsub_station::{Limit, Project, PublisherStation, Scalar};
//! use rtwire_wire::uadp::BuiltIn;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let project = Project::read("axes.toml".as_ref())?;
//! let mut publisher = PublisherStation::open(&project, None)?;
//! let position = publisher.point("axes", "axis 1", "position")?;
//! let stop = rtwire_sys::signal::install_stop_flag()?;
//! publisher.run(stop, Limit::default(), |image| {
//!     image.set(position, Scalar::of_number(BuiltIn::Int32, 42));
//! })?;
//! # Ok(()) }
//! ```
//!
//! A control loop that reads the newest values, while another thread receives:
//!
//! ```no_run
//! use rtwire_pubsub_station::{Goes, Project, SubscriberStation};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let project = Project::read("axes.toml".as_ref())?;
//! let mut subscriber = SubscriberStation::open(&project, None)?;
//! let mut axis = subscriber.image("axes", "axis 1")?;
//! let stop = rtwire_sys::signal::install_stop_flag()?;
//! std::thread::spawn(move || subscriber.run(stop, None, |_| Goes::On));
//! if let Some(stamp) = axis.newest() {
//!     println!("{} at {}", axis.values()[0], stamp.time_ns);
//! }
//! # Ok(()) }
//! ```
//!
//! A control loop that answers each message at once, on one thread (`examples/pubsub-tsn/echo.rs`):
//!
//! ```no_run
//! use rtwire_pubsub_station::{Goes, Project, PublisherStation, SubscriberStation};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut subscriber = SubscriberStation::open(&Project::read("setpoints.toml".as_ref())?, None)?;
//! let mut publisher = PublisherStation::open(&Project::read("positions.toml".as_ref())?, None)?;
//! let position = publisher.point("axes", "axis 1", "position")?;
//! subscriber.become_real_time()?;
//! loop {
//!     let mut newest = None;
//!     subscriber.receive(Duration::from_millis(10), |update| {
//!         newest = update.reader.values().map(|values| values[0]);
//!         Goes::On
//!     })?;
//!     // Also `poll`, which does not wait.
//!     if let Some(setpoint) = newest {
//!         publisher.set(position, setpoint);
//!         publisher.publish_now()?;
//!     }
//! }
//! # }
//! ```
//!
//! # Limits
//! One thread serves all groups of a connection. Datagrams are IPv4. Keys come from a file, which [`key_service`] keeps current
//! in a process of its own. A group that is a stream of a plan is an Ethernet stream; all groups of a file have one priority.

mod answering;
mod common;
mod discovery;
mod driver;
mod error;
pub mod exchange;
mod keeper;
pub mod key_service;
mod key_watch;
mod keys;
mod memory;
mod metadata_watch;
mod nonces;
mod outgoing;
mod private_file;
mod project;
mod publisher;
mod report;
mod stamps;
mod subscriber;
mod watched;

pub use discovery::discover;
pub use driver::AnswerCounters;
pub use error::StationError;
pub use keys::KeyFile;
pub use memory::{Stamp, ValueMemory};
pub use metadata_watch::MetadataNews;
pub use nonces::NonceFile;
pub use project::{
    AnswerEntry, Connection, FieldSource, GroupEntry, PlanPlace, Project, RealTime, SecurityFiles,
    StreamEnd, Transport,
};
pub use publisher::{Limit, Point, PublishImage, PublisherStation, Sent};
pub use report::{
    AnswersReport, FieldReport, PublishReport, ReaderGroupReport, ReaderReport, SubscribeReport,
    Times, WriterGroupReport,
};
pub use rtwire_link::{TxStamp, TxStamps};
pub use rtwire_pubsub as pubsub;
pub use rtwire_pubsub::{FieldValue, Scalar, ScalarArray};
pub use rtwire_wire::uadp;
pub use subscriber::{Goes, SubscriberStation, Update};
pub use watched::NewestImage;

/// Returns the JSON Schema of a publisher's report, as it is committed in `schema/publish.schema.json`.
#[must_use]
pub fn publish_schema() -> schemars::Schema {
    schemars::schema_for!(PublishReport)
}

/// Returns the JSON Schema of a subscriber's report, as it is committed in `schema/subscribe.schema.json`.
#[must_use]
pub fn subscribe_schema() -> schemars::Schema {
    schemars::schema_for!(SubscribeReport)
}

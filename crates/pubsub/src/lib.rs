//! What does an OPC UA PubSub publisher or subscriber do? Writer groups, reader groups and message security, without I/O.
//!
//! ```text
//!  instants ─► PublisherNode ─► WriterGroup ─► template, or emitted message ─► Sealer ─► frame
//!                                  ▲ set(writer, field, value)
//!  frames ──► SubscriberNode ─► ReaderGroup ─► Opener ─► Reader ─► values, state, counters
//!  instants ─►                     filters      replays    sequence, version, types, timeout
//! ```
//!
//! Both sides are nodes ([`rtwire_wire::Node`]): no socket, no clock, no thread. `rtwire-pubsub-station` runs them on an
//! interface. Times are ns of one clock, and UTC where a message tells them.
//!
//! ```
//! use rtwire_pubsub::{DataSet, Extent, Field, Group, Profile, Publisher, Scalar};
//! use rtwire_pubsub::publish::{PublisherNode, WriterGroup};
//! use rtwire_pubsub::subscribe::{ReaderGroup, SubscriberNode};
//! use rtwire_wire::uadp::{BuiltIn, FieldEncoding};
//! use rtwire_wire::{Node, Outbox};
//!
//! let group = Group {
//!     name: "axes".to_owned(),
//!     publisher: Publisher::UInt16(2234),
//!     id: 100,
//!     version: 1,
//!     profile: Profile::Fixed,
//!     interval_ns: 1_000_000,
//!     offset_ns: 0,
//!     keep_alive_ns: 1_000_000_000,
//!     receive_timeout_ns: 10_000_000,
//!     security: Default::default(),
//!     data_sets: vec![DataSet {
//!         writer: 1,
//!         name: "axis".to_owned(),
//!         encoding: FieldEncoding::RawData,
//!         key_frame_count: 1,
//!         major_version: 1,
//!         minor_version: 1,
//!         event: false,
//!         zeros_are_data: false,
//!         fields: vec![Field {
//!             name: "position".to_owned(),
//!             kind: BuiltIn::Int32,
//!             extent: Extent::Scalar,
//!         }],
//!     }],
//! };
//! struct Sent(Vec<Vec<u8>>);
//! impl Outbox for Sent {
//!     fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
//!         self.0.push(frame.to_vec());
//!     }
//! }
//! let mut sent = Sent(Vec::new());
//! let writers = WriterGroup::new(group.clone(), &[], None, 0)?;
//! let mut publisher = PublisherNode::new(vec![writers], Vec::new(), false);
//! publisher.start(0, &mut sent);
//! publisher.groups_mut()[0].set(0, 0, Scalar::of_number(BuiltIn::Int32, -7));
//! publisher.moment(0, &mut sent);
//!
//! let mut subscriber = SubscriberNode::new(vec![ReaderGroup::new(group, None)?], 0);
//! subscriber.start(0, &mut sent);
//! let frame = sent.0.remove(0);
//! subscriber.frame(50_000, &frame, &mut sent);
//! let reader = &subscriber.groups()[0].readers()[0];
//! assert_eq!(reader.values().map(|values| values[0].number()), Some(-7));
//! # Ok::<(), rtwire_pubsub::ConfigFault>(())
//! ```
//!
//! # Limits
//! Fields are scalars of at most 8 bytes, texts, bytes, and arrays of scalars; each has a longest value. Null is read as empty. One data set in each group of the fixed profile.

mod config;
pub mod discovery;
mod extent;
mod field;
mod fixed;
pub mod publish;
pub mod security;
mod sequence;
mod state;
pub mod subscribe;
pub mod uabinary;
mod values;

pub use config::{
    ConfigFault, DataSet, Field, Group, MOST_DATA_SETS, Profile, Publisher, publisher_number,
};
pub use extent::{Extent, ExtentFault, MOST_FIELD_BYTES, is_bytes};
pub use field::{Scalar, scalar_bytes};
pub use fixed::layout as fixed_layout;
pub use sequence::{Order, Sequence};
pub use state::{Component, State};
pub use values::{FieldValue, ScalarArray, Values};

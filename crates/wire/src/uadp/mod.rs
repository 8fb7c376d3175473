//! OPC UA PubSub in its binary form, UADP (OPC 10000-14): the messages of publishers and subscribers.
//!
//! ```text
//!  flags │ publisher │ class │ group header │ writers │ time │ promoted fields │ security header │ payload │ footer │ signature
//!  └──────────────────────────────── Header ──────────────────────────────────────────────────┘   Body     └─ Envelope ──┘
//! ```
//! All numbers are little-endian, nothing is aligned. A message begins behind the Ethernet header (EtherType
//! [`ETHER_TYPE`], possibly tagged) or the UDP header, which tell where it ends; Ethernet pads short ones.
//!
//! - [`View`] shows every field of any bytes with its offset, and the first fault.
//! - [`NetworkMessage`] is a valid message; its parts borrow slices. `parse(emit(x)) = x`.
//! - [`FixedLayout`] is a message whose fields never move: values are set and read in place.
//!
//! Encryption and signatures are not computed here: [`Envelope`] tells what is encrypted and what is signed.
//!
//! ```
//! use rtwire_wire::uadp::{
//!     Body, Content, DataSetMessage, DataSets, Fields, GroupHeader, Header, NetworkMessage, PublisherId, Variant,
//!     WriterIds,
//! };
//!
//! let fields = [Variant::from(20_i32), Variant::from(0.5_f64)];
//! let messages = [DataSetMessage {
//!     sequence: Some(7),
//!     content: Content::KeyFrame(Fields::variants(&fields)),
//!     ..DataSetMessage::default()
//! }];
//! let message = NetworkMessage::new(
//!     Header {
//!         publisher_id: Some(PublisherId::UInt16(2234)),
//!         group: Some(GroupHeader { writer_group_id: Some(100), ..GroupHeader::default() }),
//!         writers: Some(WriterIds::of(&[62541])),
//!         ..Header::default()
//!     },
//!     Body::DataSets(DataSets::of(&messages)),
//! );
//! let mut bytes = [0; 128];
//! let octets = message.emit(&mut bytes).unwrap();
//! assert_eq!(NetworkMessage::parse(&bytes[..octets], 0), Ok(message));
//! ```
//!
//! All functions here may be called in a real-time loop: none allocates, none panics.
//!
//! Limits: no Action messages (1.05.04), no JSON. The structures in discovery announcements stay octets. RawData
//! fields of structured types have to be described by their members.

mod bytes;
mod codes;
mod data_set;
mod data_value;
mod discovery;
mod error;
mod fields;
mod fixed;
mod fixed_build;
mod fixed_error;
mod header;
mod payload;
mod profile;
mod raw;
mod scalar;
mod security;
mod value;
mod variant;
mod view;
mod view_walk;

pub use codes::{BuiltIn, DataSetKind, FieldEncoding, MessageKind};
pub use data_set::{Content, DataSetMessage};
pub use data_value::DataValue;
pub use discovery::{Announcement, AnnouncementContent, Information, Probe};
pub use error::UadpError;
pub use fields::{DeltaFields, Field, Fields};
pub use fixed::{
    FIXED_DATA_SETS, FIXED_FIELDS, FIXED_OCTETS, FieldPlace, FixedDataSet, FixedField, FixedLayout,
    FixedMessage, FixedValue, Moment, PADDED_OCTETS, Padding,
};
pub use fixed_error::FixedError;
pub use header::{GroupHeader, Header, PublisherId, VERSION, WriterIds};
pub use payload::{Body, Chunk, DataSets, NetworkMessage};
pub use profile::{DataSetMask, NetworkMask, Profile};
pub use raw::{RawArray, RawField, RawValue, parse_raw};
pub use scalar::{
    DateTime, ExpandedNodeId, ExtensionBody, ExtensionObject, Guid, LocalizedText, NodeId,
    QualifiedName,
};
pub use security::{Envelope, SecurityHeader};
pub use value::{Encoded, Value};
pub use variant::{Array, Dimensions, Element, Elements, Variant};
pub use view::{Place, SIGNATURE_OCTETS, Seen, View, ViewField, ViewValue};

use crate::EtherType;

/// The EtherType of UADP.
pub const ETHER_TYPE: EtherType = EtherType::UADP;
/// The UDP port of UADP.
pub const UDP_PORT: u16 = 4840;

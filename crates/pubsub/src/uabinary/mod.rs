//! The binary configuration file of OPC UA PubSub: a tree of the standard's structures, read and written by one table.
//!
//! ```text
//!  bytes ─► read ─► Record (UABinaryFileDataType) ─► get("Body") … ─► values, with the standard's field names
//!  bytes ◄─ write ◄─┘                schema.rs: the table of all structures, their fields and types
//! ```
//!
//! The file is a `UABinaryFileDataType` (OPC 10000-5, 12.36) encoded as an ExtensionObject (OPC 10000-6, 5.2); its body is a
//! `PubSubConfiguration2DataType`, or the older `PubSubConfigurationDataType` (OPC 10000-14, 6.2.12). `read(write(x)) = x`.
//!
//! A fault names the field with its path and the offset of its bytes. Lists are bounded by the bytes that are left, the file by
//! [`MOST_OCTETS`], and what it contains by [`MOST_ITEMS`].
//!
//! # Limits
//! Structures behind identifiers that the table does not have, and the values of Variants, are checked as far as their length says
//! and stay bytes.

mod fault;
mod item;
mod read;
mod schema;
mod write;

pub use fault::UabinaryFault;
pub use item::{Item, Object, Record};
pub use read::{read, read_structure};
pub use schema::Structure;
pub use write::{write, write_structure};

/// The most bytes of a file.
pub const MOST_OCTETS: usize = 4 << 20;
/// The most values in a file: fields of structures and elements of lists.
pub const MOST_ITEMS: usize = 250_000;

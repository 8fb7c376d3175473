//! A project as the standard's configuration file, and back.
//!
//! The standard has no place for sources of values, files of keys and settings of threads. They are in properties with names in
//! the namespace [`NAMESPACE`], which other programs pass over.

mod discovered;
mod export;
mod groups;
mod import;
mod parse;
mod text;

pub use discovered::{descriptions, discovered};
pub use export::{Body, export};
pub use import::{Choice, Imported, Side, import};
pub use text::text;

use rtwire_pubsub::uabinary::{Item, Record};
use rtwire_wire::uadp::{Value, Variant};

/// The namespace of properties that only rtwire knows.
pub const NAMESPACE: &str = "urn:rtwire:pubsub";
/// Its number in files that are written: the first behind the standard's.
const NAMESPACE_INDEX: u16 = 1;
const ETHERNET: &str = "http://opcfoundation.org/UA-Profile/Transport/pubsub-eth-uadp";
const UDP: &str = "http://opcfoundation.org/UA-Profile/Transport/pubsub-udp-uadp";
/// The attribute Value.
const VALUE_ATTRIBUTE: u32 = 13;
/// DataSetFieldContentMask: RawData.
const RAW: u32 = 0x20;
/// DataSetFieldContentMask: SourceTimestamp, which the encoding `data-value` sends.
const SOURCE_TIME: u32 = 2;

/// Properties of one structure.
#[derive(Default)]
struct Properties(Vec<Record>);

impl Properties {
    fn add(&mut self, name: &str, value: Value<'_>) {
        let record = Record::named("KeyValuePair").map(|record| {
            record
                .with(
                    "Key",
                    Item::QualifiedName(NAMESPACE_INDEX, Some(name.to_owned())),
                )
                .with("Value", Item::variant(value))
        });
        self.0.extend(record);
    }

    fn into_item(self) -> Item {
        Item::records(self.0)
    }
}

/// Finds a property of rtwire's namespace, whose number is `namespace` in this file.
fn property<'r>(
    record: &'r Record,
    list: &str,
    namespace: Option<u16>,
    name: &str,
) -> Option<Value<'r>> {
    let namespace = namespace?;
    let found = record.records(list).find(|pair| {
        matches!(pair.get("Key"), Some(Item::QualifiedName(number, Some(key))) if *number == namespace && key == name)
    })?;
    match found.variant("Value")? {
        Variant::Scalar(value) => Some(value),
        _ => None,
    }
}

//! The type of a key and of a table of keys. [`tables`] lists them all; parser, JSON Schema and manual are made from
//! it.

mod tables;

pub(crate) use tables::TABLES;

/// The names of the maps of priorities to queues.
pub(crate) const PRIORITY_TABLES: [&str; 3] = ["default", "802.1q", "802.1q-avb"];

use crate::units::Dimension;

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A name: letters, digits, `-`, `_`, `.`; at most 64.
    Name,
    /// A list of names.
    Names,
    /// Two names.
    Ends,
    /// A whole number.
    Integer {
        /// The least value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// A quantity with a unit.
    Quantity {
        /// The dimension of the quantity.
        dimension: Dimension,
        /// True if zero is allowed.
        zero: bool,
    },
    /// A duration from zero to its value, or one between `{ min, max }`.
    Latency,
    /// A size, also as `count x size`.
    Buffer,
    /// A queue for each of the eight priorities, or the name of a table.
    PriorityMap,
    /// A list of priorities.
    Priorities,
    /// A table from DSCP to a number from 0 to `most`.
    Codes {
        /// The largest number.
        most: u8,
    },
    /// One of a few words.
    Choice(&'static [&'static str]),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) default: Option<&'static str>,
    pub(crate) doc: &'static str,
}

/// One table of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// True if it is written `[[name]]`, any number of times.
    pub(crate) many: bool,
    pub(crate) required: bool,
    pub(crate) doc: &'static str,
    /// Sets of keys; a table has exactly one key of each set.
    pub(crate) one_of: &'static [&'static [&'static str]],
    pub(crate) keys: &'static [Key],
}

impl Table {
    /// Returns the heading as it is written in a file.
    pub(crate) fn heading(&self) -> String {
        if self.many {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }

    /// Returns the table's key of this name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

//! What a key is, and a table of them; [`tables`] has all there are. Parser, JSON Schema and manual are read from there.

mod tables;

pub(crate) use tables::TABLES;

use crate::units::Dimension;

/// What a key may hold.
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
        /// Least.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A quantity with a unit.
    Quantity {
        /// What it measures.
        dimension: Dimension,
        /// Whether zero has a meaning.
        zero: bool,
    },
    /// A size, also as `count x size`.
    Buffer,
    /// One of few words.
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
    /// Written `[[name]]`, any number of times.
    pub(crate) many: bool,
    pub(crate) required: bool,
    pub(crate) doc: &'static str,
    /// Sets of keys of which exactly one is given.
    pub(crate) one_of: &'static [&'static [&'static str]],
    pub(crate) keys: &'static [Key],
}

impl Table {
    /// How it is written in a file.
    pub(crate) fn heading(&self) -> String {
        if self.many {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }

    /// Its key of this name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

//! The error history (object 1003h): what went wrong, the newest first.

use crate::ObjectDictionary;
use rtwire_wire::powerlink::{ERROR_ENTRY_OCTETS, ErrorEntry};
use std::collections::VecDeque;

/// ERR_History_ADOM.
pub(super) const OBJECT: u16 = 0x1003;
/// Errors that are kept.
const ENTRIES: usize = 32;

/// The errors of this node since its power-on; resets do not touch them (DS 301, 6.5.10).
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    entries: VecDeque<[u8; ERROR_ENTRY_OCTETS]>,
}

impl History {
    pub(super) fn push(&mut self, entry: &ErrorEntry) {
        self.entries.truncate(ENTRIES - 1);
        self.entries.push_front(entry.to_bytes());
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes it into the dictionary, for whoever reads it.
    pub(super) fn show(&self, dictionary: &mut ObjectDictionary) {
        dictionary.set_number(OBJECT, 0, self.entries.len() as u64);
        for (subindex, entry) in (1..).zip(&self.entries) {
            dictionary.set_value(OBJECT, subindex, entry);
        }
    }
}

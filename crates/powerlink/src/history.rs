//! Errors of a node: the error register (object 1001h), and the error history (object 1003h), newest first.

use crate::ObjectDictionary;
use rtwire_wire::powerlink::{ERROR_ENTRY_OCTETS, ErrorEntry};
use std::collections::VecDeque;

/// ERR_ErrorRegister_U8, with its bits (DS 301, 6.5.9).
pub(crate) const REGISTER: u16 = 0x1001;
const GENERIC_ERROR: u64 = 0x01;
const COMMUNICATION_ERROR: u64 = 0x10;

/// Sets the bit for communication errors in the register.
pub(crate) fn set_register(dictionary: &mut ObjectDictionary) {
    let register = dictionary.number(REGISTER, 0) | GENERIC_ERROR | COMMUNICATION_ERROR;
    dictionary.set_number(REGISTER, 0, register);
}

/// Clears the bit for communication errors; the application's bits stay.
pub(crate) fn clear_register(dictionary: &mut ObjectDictionary) {
    let others = dictionary.number(REGISTER, 0) & !(GENERIC_ERROR | COMMUNICATION_ERROR);
    let generic = if others == 0 { 0 } else { GENERIC_ERROR };
    dictionary.set_number(REGISTER, 0, others | generic);
}

/// ERR_History_ADOM.
pub(crate) const OBJECT: u16 = 0x1003;
/// Number of errors that are kept.
const ENTRIES: usize = 32;

/// The errors of this node since its power-on; resets do not clear them (DS 301, 6.5.10).
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    entries: VecDeque<[u8; ERROR_ENTRY_OCTETS]>,
}

impl History {
    pub(crate) fn push(&mut self, entry: &ErrorEntry) {
        self.entries.truncate(ENTRIES - 1);
        self.entries.push_front(entry.to_bytes());
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the history into the dictionary, where it can be read.
    pub(crate) fn show(&self, dictionary: &mut ObjectDictionary) {
        dictionary.set_number(OBJECT, 0, self.entries.len() as u64);
        for (subindex, entry) in (1..).zip(&self.entries) {
            dictionary.set_value(OBJECT, subindex, entry);
        }
    }
}

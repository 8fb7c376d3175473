//! Error signalling: new errors wait until the managing node has read the ones before (DS 301, 6.5).

use rtwire_wire::powerlink::{ERROR_ENTRY_OCTETS, ErrorEntry};
use std::collections::VecDeque;

/// The most entries of one StatusResponse (DS 301, 6.5.8).
const ENTRIES: usize = 13;
/// The most errors that wait; the oldest makes room for a new one.
const WAITING: usize = 64;

/// The state of error signalling.
#[derive(Clone, Debug, Default)]
pub(super) struct Signalling {
    /// EN: toggles when there are new entries.
    pub(super) new: bool,
    /// EC: follows the managing node's ER.
    pub(super) clear: bool,
    started: bool,
    waiting: VecDeque<ErrorEntry>,
    shown: Vec<u8>,
}

impl Signalling {
    /// Queues an error.
    pub(super) fn push(&mut self, entry: ErrorEntry) {
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(entry);
        self.show();
    }

    /// Takes the managing node's ER.
    pub(super) fn reset(&mut self, reset: bool) {
        if reset {
            self.new = false;
            self.clear = true;
            self.started = false;
            self.shown.clear();
        } else if self.clear {
            self.clear = false;
            self.started = true;
            self.show();
        }
    }

    /// Takes the managing node's EA. Where EA equals EN, the shown entries have been read.
    pub(super) fn acknowledge(&mut self, acknowledge: bool) {
        if self.started && acknowledge == self.new && !self.shown.is_empty() {
            self.shown.clear();
            self.show();
        }
    }

    fn show(&mut self) {
        if !self.started || !self.shown.is_empty() || self.waiting.is_empty() {
            return;
        }
        let count = self.waiting.len().min(ENTRIES);
        self.shown.reserve(ENTRIES * ERROR_ENTRY_OCTETS);
        for entry in self.waiting.drain(..count) {
            self.shown.extend(entry.to_bytes());
        }
        self.new = !self.new;
    }

    /// Returns the entries for the StatusResponse.
    pub(super) fn shown(&self) -> &[u8] {
        &self.shown
    }
}

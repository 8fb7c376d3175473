//! What-if: marks a state, and restores it exactly later.

use super::Admission;
use super::types::{AdmissionError, Record, Ticket};

/// A state that can be restored.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a mark that is neither undone nor released makes the journal grow"]
pub struct Mark {
    at: usize,
    depth: usize,
}

/// The data to undo one step.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    /// A stream was added; true if it made a new slot.
    Added(Ticket, bool),
    Removed(Ticket, Record),
    Changed(Ticket, Record),
}

impl Admission {
    pub(super) fn note(&mut self, undo: impl FnOnce() -> Undo) {
        if self.marks > 0 {
            self.journal.push(undo());
        }
    }

    /// Begins a what-if. Marks nest.
    pub fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark {
            at: self.journal.len(),
            depth: self.marks,
        }
    }

    /// Keeps all changes since the mark.
    ///
    /// # Errors
    /// [`AdmissionError::NoMark`] unless it is the last open mark.
    pub fn release(&mut self, mark: Mark) -> Result<(), AdmissionError> {
        if mark.depth != self.marks || mark.at > self.journal.len() {
            return Err(AdmissionError::NoMark);
        }
        self.marks -= 1;
        if self.marks == 0 {
            self.journal.clear();
        }
        Ok(())
    }

    /// Undoes all changes since the mark. Streams, sums and tickets are as before, to the bit.
    ///
    /// # Errors
    /// [`AdmissionError::NoMark`] unless it is the last open mark.
    pub fn undo_to(&mut self, mark: Mark) -> Result<(), AdmissionError> {
        if mark.depth != self.marks || mark.at > self.journal.len() {
            return Err(AdmissionError::NoMark);
        }
        while self.journal.len() > mark.at {
            let Some(step) = self.journal.pop() else {
                break;
            };
            match step {
                Undo::Added(ticket, new_slot) => {
                    self.take_out(ticket)?;
                    if new_slot {
                        self.free.pop();
                        self.streams.pop();
                    }
                }
                Undo::Removed(ticket, record) => {
                    self.apply(&record, true);
                    let slot = ticket.slot as usize;
                    self.streams[slot] = Some(record);
                    // Steps are taken back in order, so that its slot is the last that became free.
                    if self.free.last() == Some(&ticket.slot) {
                        self.free.pop();
                    } else {
                        self.free.retain(|free| *free != ticket.slot);
                    }
                    self.admitted += 1;
                }
                Undo::Changed(ticket, old) => {
                    let slot = ticket.slot as usize;
                    if let Some(new) = self.streams[slot].take() {
                        self.apply(&new, false);
                    }
                    self.apply(&old, true);
                    self.streams[slot] = Some(old);
                }
            }
        }
        self.marks -= 1;
        Ok(())
    }
}

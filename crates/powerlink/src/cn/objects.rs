//! The controlled node's objects, as its server reads and writes them.

use super::ControlledNode;
use super::errors::LOSSES_OF_LINK;
use super::parameters::{Keeping, RESTORE, STORE};
use crate::history;
use crate::pdo::{self, ProcessImage};
use crate::queue::Events;
use crate::sdo::{ObjectAccess, SdoServer};
use crate::{AbortCode, Event, ObjectDictionary};
use rtwire_wire::powerlink::{NmtCommandId, NmtState};

/// The dictionary, with process data where they lie in the image.
pub(crate) struct Objects<'a> {
    pub(crate) dictionary: &'a mut ObjectDictionary,
    pub(crate) image: &'a mut ProcessImage,
    pub(crate) events: &'a mut Events,
    /// True where process data are exchanged; the mapping cannot be changed then.
    pub(crate) running: bool,
    pub(crate) limits: [usize; 2],
    /// The stored parameters, where the node can store them.
    pub(crate) keeping: Option<&'a mut Keeping>,
}

impl ObjectAccess for Objects<'_> {
    fn read_object(&mut self, index: u16, subindex: u8) -> Result<Vec<u8>, AbortCode> {
        let value = self.dictionary.read(index, subindex)?;
        // A described device may store parameters; this node does so only where it was given a place for them.
        if matches!(index, STORE | RESTORE) && subindex > 0 && self.keeping.is_none() {
            return Ok(vec![0; value.len()]);
        }
        if let Some((output, range)) = self.image.place(index, subindex) {
            let part = if output {
                &self.image.outputs
            } else {
                &self.image.inputs
            };
            return Ok(part.get(range).unwrap_or(value).to_vec());
        }
        Ok(value.to_vec())
    }

    fn write_object(&mut self, index: u16, subindex: u8, data: &[u8]) -> Result<(), AbortCode> {
        // The history can only be cleared.
        if index == history::OBJECT && subindex == 0 && data != [0] {
            return Err(AbortCode::RANGE);
        }
        if matches!(index, STORE | RESTORE) {
            self.dictionary.entry(index, subindex)?;
            let keeping = self.keeping.as_mut().ok_or(AbortCode::NOT_STORED)?;
            return keeping.write(index, subindex, data, self.dictionary, self.image);
        }
        if matches!(index, 0x1600..=0x16ff | 0x1a00..=0x1aff) {
            self.check_mapping(index, subindex, data)?;
        }
        self.dictionary.write(index, subindex, data)?;
        if let Some((true, range)) = self.image.place(index, subindex) {
            if let Some(place) = self.image.outputs.get_mut(range) {
                if place.len() == data.len() {
                    place.copy_from_slice(data);
                }
            }
        }
        self.events.push(Event::Written { index, subindex });
        Ok(())
    }

    fn is_pending(&self) -> bool {
        self.keeping
            .as_ref()
            .is_some_and(|keeping| keeping.is_pending())
    }
}

impl Objects<'_> {
    fn check_mapping(&self, index: u16, subindex: u8, data: &[u8]) -> Result<(), AbortCode> {
        if self.running {
            return Err(AbortCode::DEVICE_STATE);
        }
        if subindex > 0 {
            // Entries are changed only while the PDO is switched off.
            let off = self.dictionary.number(index, 0) == 0;
            return if off {
                Ok(())
            } else {
                Err(AbortCode::UNSUPPORTED_ACCESS)
            };
        }
        let count = *data.first().ok_or(AbortCode::LENGTH_LOW)?;
        let [receive, transmit] = self.limits;
        let limit = if index >= pdo::TRANSMIT {
            transmit
        } else {
            receive
        };
        pdo::check(self.dictionary, index, count, limit, pdo::Check::Objects).map(|_| ())
    }
}

impl ControlledNode {
    pub(super) fn with_server(&mut self, work: impl FnOnce(&mut SdoServer, &mut dyn ObjectAccess)) {
        self.show_counters();
        self.history.show(&mut self.dictionary);
        let limit = |subindex| self.dictionary.number(0x1f98, subindex) as usize;
        let limits = [limit(4), limit(5)];
        let mut objects = Objects {
            dictionary: &mut self.dictionary,
            image: &mut self.image,
            events: &mut self.events,
            running: matches!(
                self.state,
                NmtState::READY_TO_OPERATE | NmtState::OPERATIONAL
            ),
            limits,
            keeping: self.keeping.as_deref_mut(),
        };
        work(&mut self.server, &mut objects);
    }

    /// Writes the counters into the dictionary, to be read there.
    pub(super) fn show_counters(&mut self) {
        let losses = u64::from(self.counters.link_losses);
        self.dictionary.set_number(LOSSES_OF_LINK, 0, losses);
        for (index, counter) in self.counters.all() {
            self.dictionary
                .set_number(index, 1, u64::from(counter.cumulative));
            self.dictionary
                .set_number(index, 2, u64::from(counter.count));
        }
    }

    /// Applies what was written: the history's clearing, a reset command, counters and thresholds.
    pub(super) fn after_writes(&mut self, now_ns: u64) {
        if !self.history.is_empty() && self.dictionary.number(history::OBJECT, 0) == 0 {
            self.history.clear();
        }
        let command = self.dictionary.number(0x1f9e, 0) as u8;
        if command != 0xff {
            self.dictionary.set_number(0x1f9e, 0, 0xff);
            let resets = [
                NmtCommandId::SW_RESET,
                NmtCommandId::RESET_NODE,
                NmtCommandId::RESET_COMMUNICATION,
                NmtCommandId::RESET_CONFIGURATION,
            ];
            if resets.contains(&NmtCommandId(command)) {
                self.command(now_ns, NmtCommandId(command));
            }
        }
        let d = &self.dictionary;
        self.counters.link_losses = d.number(LOSSES_OF_LINK, 0) as u32;
        for (index, counter) in self.counters.all() {
            counter.cumulative = d.number(index, 1) as u32;
            counter.threshold = d.number(index, 3) as u32;
        }
    }
}

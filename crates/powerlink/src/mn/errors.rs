//! Errors at the managing node: error register, history, counters, and the interface's errors (DS 301, 4.7 and 6.5).

use super::node::{Boot, Cn};
use super::{ManagingNode, number, start_up};
use crate::cn::Objects;
use crate::counter::{Counter, LinkErrors};
use crate::history::{self, History};
use crate::sdo::ObjectAccess;
use crate::{AbortCode, ErrorCode, Event, ObjectDictionary};
use rtwire_wire::powerlink::{ErrorEntry, NmtState};

/// DLL_MNCRCError_REC.
const CRC: u16 = 0x1c00;
/// DLL_MNCollision_REC.
const COLLISION: u16 = 0x1c01;
/// DLL_MNCycTimeExceed_REC.
const EXCEEDED: u16 = 0x1c02;
/// DLL_MNLossOfLinkCum_U32.
const LOSSES_OF_LINK: u16 = 0x1c03;

/// The counters of the managing node itself and of its interface.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) exceeded: Counter,
    pub(super) crc: Counter,
    pub(super) collision: Counter,
    pub(super) link_losses: u32,
}

impl Counters {
    /// Creates the counters with the thresholds of a dictionary.
    pub(super) fn new(d: &ObjectDictionary) -> Self {
        Self {
            exceeded: Counter::of_record(d, EXCEEDED),
            crc: Counter::of_record(d, CRC),
            collision: Counter::of_record(d, COLLISION),
            link_losses: d.number(LOSSES_OF_LINK, 0) as u32,
        }
    }

    /// Counts a cycle without an error.
    pub(super) const fn good(&mut self) {
        self.exceeded.good();
        self.crc.good();
        self.collision.good();
    }

    const fn are_clear(&self) -> bool {
        self.exceeded.count == 0 && self.crc.count == 0 && self.collision.count == 0
    }
}

impl Cn {
    /// Returns true where the node is running or stopped as intended, and all its counts are 0.
    const fn is_well(&self) -> bool {
        let counted = self.lost.count + self.late.count + self.status_lost.count;
        matches!(self.boot, Boot::Running | Boot::Stopped) && counted == 0
    }
}

impl ManagingNode {
    /// Takes the interface's errors since the last call. May be called in a real-time loop.
    ///
    /// Report errors soon: errors of one report count towards their thresholds together. A loss of the link is an
    /// error at once. By itself it does not change the state; the missing responses do.
    pub fn observe(&mut self, now_ns: u64, seen: &LinkErrors) {
        if *seen == LinkErrors::default() {
            return;
        }
        self.statistics.observe(seen);
        self.cycle_good = false;
        let cyclic = matches!(
            self.state,
            NmtState::PRE_OPERATIONAL_2 | NmtState::READY_TO_OPERATE | NmtState::OPERATIONAL
        );
        let counters = &mut self.counters;
        counters.link_losses = counters.link_losses.wrapping_add(seen.losses);
        let crc = counters.crc.errors(seen.crc, cyclic);
        let collision = counters.collision.errors(seen.collisions, cyclic);
        if seen.losses > 0 {
            self.fault(number::MN, ErrorCode::LOSS_OF_LINK);
        }
        if crc {
            self.cycle_error(now_ns, ErrorCode::CRC);
        }
        if collision {
            self.cycle_error(now_ns, ErrorCode::COLLISION);
        }
    }

    /// Reports an error about `node`: this node's own number where it is about no other.
    pub(super) fn fault(&mut self, node: u8, code: ErrorCode) {
        let mut detail = [0; 8];
        detail[0] = node;
        self.history.push(&ErrorEntry {
            entry_type: ErrorEntry::COMMUNICATION_OCCURRED,
            code: code.0,
            time: self.net_time,
            detail,
        });
        if let Some(cn) = self.cn_mut(node) {
            cn.in_error = true;
        }
        self.in_error = true;
        history::set_register(&mut self.dictionary);
        self.events.push(Event::Error { node, code });
    }

    /// Reports an error, and goes back to PreOperational1 (NMT_MT6), unless object 1F80h says otherwise.
    pub(super) fn cycle_error(&mut self, now_ns: u64, code: ErrorCode) {
        self.fault(number::MN, code);
        if self.timing.start_up & start_up::NO_RETURN_TO_PRE_OPERATIONAL_1 == 0 {
            self.enter_reduced(now_ns);
        }
    }

    /// Ends a cycle without an error. Clears the error register's bit for communication errors once this node is
    /// operational and all its counts are 0. The nodes with errors must be well again, too.
    pub(super) fn recover(&mut self) {
        let operational = self.state == NmtState::OPERATIONAL;
        if !self.in_error || !operational || !self.counters.are_clear() {
            return;
        }
        if self.nodes.iter().all(|cn| !cn.in_error || cn.is_well()) {
            self.forget_errors();
        }
    }

    /// Clears the error register's bit for communication errors, and the nodes' marks.
    pub(super) fn forget_errors(&mut self) {
        self.in_error = false;
        for cn in &mut self.nodes {
            cn.in_error = false;
        }
        history::clear_register(&mut self.dictionary);
    }
}

/// The part of a counter that an object holds.
#[derive(Clone, Copy)]
enum Part {
    Cumulative,
    Count,
    Threshold,
}

const PARTS: [Part; 3] = [Part::Cumulative, Part::Count, Part::Threshold];

/// The managing node's objects, as its server reads and writes them. History and counters have their current values.
pub(super) struct LiveObjects<'a> {
    pub(super) objects: Objects<'a>,
    pub(super) counters: &'a mut Counters,
    pub(super) nodes: &'a mut [Cn],
    pub(super) places: &'a [Option<u8>; 256],
    pub(super) history: &'a mut History,
}

impl LiveObjects<'_> {
    /// Returns the counter to which an object belongs, and the object's part of it.
    fn counter(&mut self, index: u16, subindex: u8) -> Option<(&mut Counter, Part)> {
        let own = match index {
            CRC => Some(&mut self.counters.crc),
            COLLISION => Some(&mut self.counters.collision),
            EXCEEDED => Some(&mut self.counters.exceeded),
            _ => None,
        };
        if let Some(counter) = own {
            let part = PARTS.get(usize::from(subindex).checked_sub(1)?)?;
            return Some((counter, *part));
        }
        // Each node has one, in three arrays.
        let place = (*self.places.get(usize::from(subindex))?)?;
        let cn = self.nodes.get_mut(usize::from(place))?;
        let (counter, first) = match index {
            0x1c04..=0x1c06 => (&mut cn.late, 0x1c04),
            0x1c07..=0x1c09 => (&mut cn.lost, 0x1c07),
            0x1c15..=0x1c17 => (&mut cn.status_lost, 0x1c15),
            _ => return None,
        };
        let part = PARTS.get(usize::from(index - first))?;
        Some((counter, *part))
    }
}

impl ObjectAccess for LiveObjects<'_> {
    fn read_object(&mut self, index: u16, subindex: u8) -> Result<Vec<u8>, AbortCode> {
        if index == history::OBJECT {
            self.history.show(self.objects.dictionary);
        }
        let value = self.objects.read_object(index, subindex)?;
        let number = match self.counter(index, subindex) {
            Some((counter, Part::Cumulative)) => counter.cumulative,
            Some((counter, Part::Count)) => counter.count,
            Some((counter, Part::Threshold)) => counter.threshold,
            None if index == LOSSES_OF_LINK => self.counters.link_losses,
            None => return Ok(value),
        };
        Ok(number.to_le_bytes().to_vec())
    }

    fn write_object(&mut self, index: u16, subindex: u8, data: &[u8]) -> Result<(), AbortCode> {
        self.objects.write_object(index, subindex, data)?;
        if index == history::OBJECT {
            self.history.clear();
        }
        let Some(number) = data.first_chunk().map(|octets| u32::from_le_bytes(*octets)) else {
            return Ok(());
        };
        match self.counter(index, subindex) {
            Some((counter, Part::Cumulative)) => counter.cumulative = number,
            Some((counter, Part::Threshold)) => counter.threshold = number,
            Some((_, Part::Count)) => {}
            None if index == LOSSES_OF_LINK => self.counters.link_losses = number,
            None => {}
        }
        Ok(())
    }
}

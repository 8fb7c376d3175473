//! Errors at the controlled node: those of the interface, their signalling, and their end (DS 301, 4.7 and 6.5).

use super::{ControlledNode, Dll};
use crate::counter::LinkErrors;
use crate::{ErrorCode, Event, history};
use rtwire_wire::powerlink::{ErrorEntry, NmtState};

/// DLL_CNLossOfLinkCum_U32.
pub(super) const LOSSES_OF_LINK: u16 = 0x1c10;

impl ControlledNode {
    /// Takes the interface's errors since the last call. May be called in a real-time loop.
    ///
    /// Report errors soon: errors of one report count towards their thresholds together. A loss of the link is an
    /// error at once. By itself it does not change the state; the missing SoC do.
    pub fn observe(&mut self, now_ns: u64, seen: &LinkErrors) {
        if *seen == LinkErrors::default() {
            return;
        }
        self.statistics.observe(seen);
        self.cycle_good = false;
        let cyclic = self.cyclic();
        let counters = &mut self.counters;
        counters.link_losses = counters.link_losses.wrapping_add(seen.losses);
        let crc = counters.crc.errors(seen.crc, cyclic);
        let collision = counters.collision.errors(seen.collisions, cyclic);
        if seen.losses > 0 {
            self.fault(now_ns, ErrorCode::LOSS_OF_LINK);
        }
        if crc {
            self.cycle_error(now_ns, ErrorCode::CRC);
        }
        if collision {
            self.cycle_error(now_ns, ErrorCode::COLLISION);
        }
        self.prepare_pres();
    }

    /// Reports an error to the managing node and to the application.
    pub(super) fn fault(&mut self, now_ns: u64, code: ErrorCode) {
        let entry = ErrorEntry {
            entry_type: ErrorEntry::COMMUNICATION_OCCURRED,
            code: code.0,
            time: self.net_time,
            detail: now_ns.to_le_bytes(),
        };
        self.history.push(&entry);
        self.signalling.push(entry);
        self.in_error = true;
        history::set_register(&mut self.dictionary);
        self.events.push(Event::Error {
            node: self.node,
            code,
        });
    }

    /// Ends a cycle without an error. Clears the error register's bit for communication errors once the node is
    /// operational and all counts are 0. The application's bits stay.
    pub(super) fn recover(&mut self) {
        let operational = self.state == NmtState::OPERATIONAL;
        let mut all = self.counters.all().into_iter();
        if self.in_error && operational && all.all(|(_, counter)| counter.count == 0) {
            self.in_error = false;
            history::clear_register(&mut self.dictionary);
        }
    }

    /// Reports an error, and goes back to PreOperational1 (NMT_CT11).
    pub(super) fn cycle_error(&mut self, now_ns: u64, code: ErrorCode) {
        self.fault(now_ns, code);
        self.dll = Dll::NonCyclic;
        self.last_soc_ns = 0;
        self.soc_deadline_ns = None;
        self.wants_ready = false;
        self.ever_polled = false;
        self.image.forget_inputs();
        self.enter(NmtState::PRE_OPERATIONAL_1);
    }
}

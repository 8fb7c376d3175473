//! What goes wrong at the controlled node: what the interface tells, how errors are signalled, and when they are over (DS 301,
//! 4.7 and 6.5).

use super::{ControlledNode, Dll};
use crate::counter::LinkErrors;
use crate::{ErrorCode, Event, history};
use rtwire_wire::powerlink::{ErrorEntry, NmtState};

/// DLL_CNLossOfLinkCum_U32.
pub(super) const LOSSES_OF_LINK: u16 = 0x1c10;

impl ControlledNode {
    /// Takes what has gone wrong at the interface since the last call. May be called in a real-time loop.
    ///
    /// Errors that are told together are held against their thresholds together: tell them soon. A loss of the link is an
    /// error at once, and has no effect of its own on the state: the SoC that do not come have.
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

    /// An error that the managing node and the application are told.
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

    /// A cycle without an error has passed. Once the node is operational (again), with nothing held against it any more, the
    /// error register no longer tells of an error of communication; what the application has put there stays.
    pub(super) fn recover(&mut self) {
        let operational = self.state == NmtState::OPERATIONAL;
        let mut all = self.counters.all().into_iter();
        if self.in_error && operational && all.all(|(_, counter)| counter.count == 0) {
            self.in_error = false;
            history::clear_register(&mut self.dictionary);
        }
    }

    /// Back to PreOperational1 (NMT_CT11).
    pub(super) fn cycle_error(&mut self, now_ns: u64, code: ErrorCode) {
        self.fault(now_ns, code);
        self.dll = Dll::NonCyclic;
        self.last_soc_ns = 0;
        self.soc_deadline_ns = None;
        self.wants_ready = false;
        self.ever_polled = false;
        self.enter(NmtState::PRE_OPERATIONAL_1);
    }
}

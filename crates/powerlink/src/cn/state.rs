//! The controlled node's NMT states (DS 301, 7.1.4), and its deadlines.

use super::errors::LOSSES_OF_LINK;
use super::{ControlledNode, Dll, Timing};
use crate::counter::Counter;
use crate::history;
use crate::sdo::SdoServer;
use crate::{ErrorCode, Event};
use rtwire_wire::powerlink::{NmtCommandId, NmtState};

/// The watch over another node's frames (object 1016h).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    pub(crate) node: u8,
    timeout_ns: u64,
    heard_ns: Option<u64>,
    silent: bool,
}

impl Heartbeat {
    /// Reads an entry of object 1016h: ms in bits 0 to 15, node in bits 16 to 23.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        let (milliseconds, node) = (number & 0xffff, (number >> 16) as u8);
        (milliseconds != 0 && node != 0).then_some(Self {
            node,
            timeout_ns: milliseconds * 1_000_000,
            heard_ns: None,
            silent: false,
        })
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let heard = self.heard_ns.filter(|_| !self.silent)?;
        Some(heard + self.timeout_ns)
    }

    /// Notes that the node was heard. Returns true where it had been silent.
    pub(crate) const fn heard(&mut self, now_ns: u64) -> bool {
        self.heard_ns = Some(now_ns);
        core::mem::replace(&mut self.silent, false)
    }

    /// Returns true where the node has just fallen silent.
    pub(crate) fn expire(&mut self, now_ns: u64) -> bool {
        let expired = self
            .deadline_ns()
            .is_some_and(|deadline| now_ns >= deadline);
        self.silent |= expired;
        expired
    }
}

impl ControlledNode {
    pub(super) fn enter(&mut self, state: NmtState) {
        if self.state != state {
            let from = core::mem::replace(&mut self.state, state);
            if state != NmtState::NOT_ACTIVE {
                self.basic_ethernet_ns = None;
            }
            self.dictionary.set_number(0x1f8c, 0, u64::from(state.0));
            self.events.push(Event::State { from, to: state });
        }
        self.prepare_pres();
    }

    /// Goes through the initialisation states from `from` on, to NotActive.
    pub(super) fn reset(&mut self, now_ns: u64, from: NmtState) {
        let states = [
            NmtState::INITIALISING,
            NmtState::RESET_APPLICATION,
            NmtState::RESET_COMMUNICATION,
            NmtState::RESET_CONFIGURATION,
        ];
        // Counts are kept, unless the whole dictionary returns to its initial values.
        self.show_counters();
        let first = states.iter().position(|&state| state == from);
        for &state in states.iter().skip(first.unwrap_or_default()) {
            self.enter(state);
            match state {
                NmtState::RESET_APPLICATION => self.dictionary = self.initial.clone(),
                NmtState::RESET_COMMUNICATION => {
                    self.in_error = false;
                    let application = self.initial.number(history::REGISTER, 0);
                    self.dictionary
                        .set_number(history::REGISTER, 0, application);
                    self.server.reset();
                    self.urgent.clear();
                    self.generic.clear();
                    self.signalling = super::Signalling::default();
                }
                NmtState::RESET_CONFIGURATION => self.take_configuration(),
                _ => {}
            }
        }
        self.dll = Dll::NonCyclic;
        self.soc_deadline_ns = None;
        self.wants_ready = false;
        self.ever_polled = false;
        self.managing_address = None;
        self.image.forget_inputs();
        self.silent_until_ns = now_ns.saturating_add(self.limits.silence_ns);
        self.last_soc_ns = 0;
        self.seen_cycle_ns = 0;
        self.judged_cycle_ns = 0;
        self.reduced_soa = 0;
        self.conflict_told = false;
        self.arm_basic_ethernet(now_ns);
        self.enter(NmtState::NOT_ACTIVE);
    }

    /// Takes settings from the dictionary.
    pub(super) fn take_configuration(&mut self) {
        let d = &self.dictionary;
        let cycle_ns = d.number(0x1006, 0) * 1000;
        self.timing = Timing {
            cycle_ns,
            watchdog_cycles: self.limits.watchdog_of(cycle_ns),
            tolerance_ns: d.number(0x1c14, 0),
            basic_ethernet_ns: d.number(0x1f99, 0) * 1000,
            multiplexed: d.number(0x1f98, 7) > 0 && d.number(0x1f9b, self.node) > 0,
            chained: d.number(0x1f98, 10) == 1,
            chain_ns: d.number(0x1f98, 11),
            mtu: (d.number(0x1f98, 8) as usize).clamp(300, 1500),
        };
        self.counters.link_losses = d.number(LOSSES_OF_LINK, 0) as u32;
        self.counters.jitter_range_ns = d.number(0x1c13, 0);
        for (index, counter) in self.counters.all() {
            *counter = Counter::of_record(d, index);
        }
        let timeout_ns = d.number(0x1300, 0) * 1_000_000;
        let all = (1..=254).map(|subindex| d.number(0x1016, subindex));
        self.heartbeats = all.filter_map(Heartbeat::from_number).collect();
        let timeout_ns = timeout_ns.max(1_000_000);
        self.server = SdoServer::new(self.timing.mtu, timeout_ns);
        self.clients.reset(self.timing.mtu, timeout_ns);
        self.outcomes();
        if self.lay_out().is_err() {
            self.fault(0, ErrorCode::PDO_SHORT);
        }
        self.prepare_pres();
    }

    /// Carries out a command of the managing node or of the application. Returns true where it is a state command.
    pub(super) fn command(&mut self, now_ns: u64, command: NmtCommandId) -> bool {
        match command.plain() {
            NmtCommandId::SW_RESET => self.reset(now_ns, NmtState::INITIALISING),
            NmtCommandId::RESET_NODE => self.reset(now_ns, NmtState::RESET_APPLICATION),
            NmtCommandId::RESET_COMMUNICATION => self.reset(now_ns, NmtState::RESET_COMMUNICATION),
            NmtCommandId::RESET_CONFIGURATION => self.reset(now_ns, NmtState::RESET_CONFIGURATION),
            NmtCommandId::ENABLE_READY_TO_OPERATE => {
                if self.state == NmtState::PRE_OPERATIONAL_2 {
                    self.wants_ready = true;
                    if self.application_ready {
                        self.enter_ready();
                    }
                }
            }
            NmtCommandId::START_NODE => {
                if self.state == NmtState::READY_TO_OPERATE {
                    self.enter(NmtState::OPERATIONAL);
                }
            }
            NmtCommandId::STOP_NODE => {
                if self.answers() {
                    self.enter(NmtState::STOPPED);
                }
            }
            NmtCommandId::ENTER_PRE_OPERATIONAL_2 => {
                let states = [
                    NmtState::READY_TO_OPERATE,
                    NmtState::OPERATIONAL,
                    NmtState::STOPPED,
                ];
                if states.contains(&self.state) {
                    self.wants_ready = false;
                    self.enter(NmtState::PRE_OPERATIONAL_2);
                }
            }
            _ => return false,
        }
        true
    }

    pub(super) fn enter_ready(&mut self) {
        self.wants_ready = false;
        // Mapping that was changed since the reset counts from here on.
        if self.lay_out().is_err() {
            self.fault(0, ErrorCode::PDO_SHORT);
            return;
        }
        self.enter(NmtState::READY_TO_OPERATE);
    }

    /// Returns true where SoC are expected.
    pub(super) fn cyclic(&self) -> bool {
        self.answers() || self.state == NmtState::STOPPED
    }

    pub(super) fn arm_soc(&mut self, from_ns: u64) {
        let cycle_ns = self.watched_cycle_ns();
        // An observed cycle is not known exactly.
        let margin_ns = if self.timing.cycle_ns > 0 {
            0
        } else {
            cycle_ns
        };
        let wait_ns = cycle_ns + margin_ns + self.timing.tolerance_ns;
        self.soc_deadline_ns = (cycle_ns > 0).then_some(from_ns + wait_ns);
    }

    pub(super) fn arm_basic_ethernet(&mut self, now_ns: u64) {
        let wait = self.timing.basic_ethernet_ns;
        let from_ns = now_ns.max(self.silent_until_ns);
        self.basic_ethernet_ns = (wait > 0).then_some(from_ns.saturating_add(wait));
    }

    /// Handles deadlines that have passed: SoC, BasicEthernet, service data and heartbeats.
    pub(super) fn time(&mut self, now_ns: u64) {
        if let Some(deadline) = self.soc_deadline_ns.filter(|&deadline| now_ns >= deadline) {
            let late_ns = now_ns - deadline;
            let cycle_ns = self.watched_cycle_ns().max(1);
            if late_ns > cycle_ns {
                // The node itself was stalled: SoC may lie unread. Watch anew from here.
                self.statistics.own_stalls += 1;
                self.statistics.worst_stall_ns = self.statistics.worst_stall_ns.max(late_ns);
                self.soc_deadline_ns = Some(now_ns + cycle_ns);
            } else if self.cyclic() {
                self.statistics.lost_soc += 1;
                self.cycle_good = false;
                self.soc_deadline_ns = Some(deadline + cycle_ns);
                if self.counters.soc.error() {
                    self.cycle_error(now_ns, ErrorCode::LOSS_OF_SOC);
                }
            } else {
                self.soc_deadline_ns = None;
            }
        }
        if self.basic_ethernet_ns.is_some_and(|at| now_ns >= at) {
            self.basic_ethernet_ns = None;
            if self.state == NmtState::NOT_ACTIVE {
                self.enter(NmtState::BASIC_ETHERNET);
            }
        }
        self.server.moment(now_ns);
        self.clients.moment(now_ns, &self.server);
        self.outcomes();
        for heartbeat in &mut self.heartbeats {
            if heartbeat.expire(now_ns) {
                let node = heartbeat.node;
                self.events.push(Event::Heartbeat { node, silent: true });
            }
        }
    }
}

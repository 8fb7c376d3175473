//! From power-on to Operational: the managing node's own states, and the boot of each controlled node (DS 301, 7.4).

use super::cycle::Phase;
use super::node::{Boot, Cn};
use super::{ManagingNode, start_up};
use crate::{ErrorCode, Event, LostReason, NodeEvent, sdo};
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{Ident, NmtCommandId, NmtState, SendRequest, node as number};

/// The most cycles in which a node must obey a state command (DS 301, C_NMT_STATE_TOLERANCE).
const STATE_TOLERANCE: u32 = 5;
/// The pause after a reset command before the node is asked for its identity, ns; at least `RESET_PAUSE_CYCLES`. Many
/// nodes answer from a prepared frame until the reset reaches them, and are then silent for some 100 ms.
const RESET_PAUSE_NS: u64 = 100_000_000;
const RESET_PAUSE_CYCLES: u64 = 4;
/// The time after which a state command without effect is sent again, ns; at least `REPEAT_CYCLES`. The frame may be
/// lost.
const REPEAT_NS: u64 = 200_000_000;
const REPEAT_CYCLES: u64 = 10;
/// The most commands that wait before others are held back: one leaves in a cycle.
const COMMANDS_WAITING: usize = 16;

impl ManagingNode {
    pub(super) fn enter(&mut self, now_ns: u64, state: NmtState) {
        if self.state != state {
            let from = core::mem::replace(&mut self.state, state);
            self.dictionary.set_number(0x1f8c, 0, u64::from(state.0));
            self.events.push(Event::State { from, to: state });
            self.entered_ns = now_ns;
            self.warned = false;
        }
    }

    /// Goes from power-on to NotActive.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
        self.forget_errors();
        for state in [
            NmtState::INITIALISING,
            NmtState::RESET_APPLICATION,
            NmtState::RESET_COMMUNICATION,
            NmtState::RESET_CONFIGURATION,
        ] {
            self.enter(now_ns, state);
        }
        if self.timing.start_up & start_up::BASIC_ETHERNET != 0 {
            self.enter(now_ns, NmtState::BASIC_ETHERNET);
            self.phase = Phase::Off;
            return;
        }
        self.enter(now_ns, NmtState::NOT_ACTIVE);
        self.listen(now_ns);
    }

    /// Listens for another managing node, before the network starts.
    pub(super) fn listen(&mut self, now_ns: u64) {
        // The nodes may have been running: they begin anew, too, and forget their configuration.
        for cn in &mut self.nodes {
            cn.configured = false;
        }
        self.urgent.clear();
        self.queue_command(NmtCommandId::RESET_NODE, number::BROADCAST, &[]);
        let wait = self.dictionary.number(0x1f89, 1) * 1000;
        self.phase = Phase::Listen {
            until_ns: now_ns + wait,
        };
    }

    /// Enters PreOperational1: everything begins anew.
    pub(super) fn enter_reduced(&mut self, now_ns: u64) {
        self.enter(now_ns, NmtState::PRE_OPERATIONAL_1);
        self.soa_count = 0;
        self.phase = Phase::Reduced { at_ns: now_ns };
        // The frame that waits is the reset of all nodes.
        let pause_ns = if self.urgent.len() > 0 {
            self.reset_pause_ns()
        } else {
            0
        };
        let all: Vec<u8> = self.nodes.iter().map(|cn| cn.number).collect();
        for node in all {
            self.search_again(now_ns, node);
            self.ask_not_before(node, now_ns + pause_ns);
        }
    }

    fn reset_pause_ns(&self) -> u64 {
        RESET_PAUSE_NS.max(RESET_PAUSE_CYCLES * self.timing.cycle_ns)
    }

    fn ask_not_before(&mut self, node: u8, at_ns: u64) {
        if let Some(cn) = self.cn_mut(node) {
            cn.ident_due_ns = at_ns;
        }
    }

    /// Searches again for a node that was just told to reset.
    pub(super) fn search_behind_reset(&mut self, now_ns: u64, node: u8) {
        self.search_again(now_ns, node);
        self.ask_not_before(node, now_ns + self.reset_pause_ns());
    }

    /// Searches again for a node: its identity is unknown from here on.
    pub(super) fn search_again(&mut self, now_ns: u64, node: u8) {
        let place = self.places.get(usize::from(node)).copied().flatten();
        let Some(cn) = place.and_then(|at| self.nodes.get_mut(usize::from(at))) else {
            return;
        };
        cn.boot = Boot::Search;
        cn.state = NmtState::NOT_ACTIVE;
        self.image.set_state(cn.receive_channel, cn.state);
        cn.ident_due_ns = now_ns;
        cn.ident_tries = 0;
        cn.deadline_ns = None;
        cn.polled = false;
        cn.responded = false;
        cn.request = SendRequest::NONE;
        cn.status_wanted = false;
        cn.status_asked = false;
        cn.clear_tries = 0;
        cn.wrong_state = 0;
        cn.client.reset();
        self.server.forget(sdo::Peer::Node(node));
        let configuring = core::mem::take(&mut cn.configuring);
        while let Some((id, outcome)) = cn.client.outcome() {
            if !configuring.iter().any(|job| job.0 == id) {
                self.events.push(Event::Sdo { node, id, outcome });
            }
        }
    }

    /// Resets a node that no longer takes part, and searches for it again.
    pub(super) fn lose(&mut self, now_ns: u64, node: u8, reason: LostReason) {
        let Some(cn) = self.cn_mut(node) else {
            return;
        };
        let mandatory = cn.mandatory && cn.boot >= Boot::Identified;
        cn.configured = false;
        self.search_behind_reset(now_ns, node);
        if reason == LostReason::Configuration {
            // A node that cannot be configured is not asked again soon.
            self.ask_not_before(node, now_ns + 2_000_000_000);
        }
        self.events.push(Event::Node {
            node,
            what: NodeEvent::Lost(reason),
        });
        if reason != LostReason::Reset {
            self.queue_command(NmtCommandId::RESET_NODE, node, &[]);
        }
        if !mandatory {
            return;
        }
        let others: Vec<u8> = self
            .nodes
            .iter()
            .filter(|cn| cn.mandatory && cn.number != node && cn.boot > Boot::Search)
            .map(|cn| cn.number)
            .collect();
        for other in others {
            if self.timing.start_up & start_up::STOP_ALL_MANDATORY != 0 {
                self.command(now_ns, NmtCommandId::STOP_NODE, other, &[]);
            } else if self.timing.start_up & start_up::RESET_ALL_MANDATORY != 0 {
                self.command(now_ns, NmtCommandId::RESET_NODE, other, &[]);
            }
        }
    }

    /// Sends a command, and expects its effect.
    pub(super) fn command(&mut self, now_ns: u64, command: NmtCommandId, target: u8, data: &[u8]) {
        if target == number::MN {
            match command {
                NmtCommandId::SW_RESET
                | NmtCommandId::RESET_NODE
                | NmtCommandId::RESET_COMMUNICATION
                | NmtCommandId::RESET_CONFIGURATION => self.begin(now_ns),
                _ => {}
            }
            return;
        }
        self.queue_command(command, target, data);
        let targets: Vec<u8> = self
            .nodes
            .iter()
            .map(|cn| cn.number)
            .filter(|&node| match command.has_node_list() {
                true => rtwire_wire::powerlink::node_list_contains(data, node),
                false => node == target || target == number::BROADCAST,
            })
            .collect();
        for node in targets {
            let Some(cn) = self.cn_mut(node) else {
                continue;
            };
            match command.plain() {
                NmtCommandId::SW_RESET
                | NmtCommandId::RESET_NODE
                | NmtCommandId::RESET_COMMUNICATION => self.lose(now_ns, node, LostReason::Reset),
                NmtCommandId::RESET_CONFIGURATION => self.search_behind_reset(now_ns, node),
                // A stopped node does not answer requests: its status shows its state.
                NmtCommandId::STOP_NODE if cn.boot >= Boot::Identified => {
                    cn.boot = Boot::Stopped;
                    cn.deadline_ns = None;
                    cn.polled = false;
                    cn.responded = false;
                }
                NmtCommandId::ENTER_PRE_OPERATIONAL_2 if cn.boot >= Boot::Identified => {
                    cn.boot = Boot::Identified;
                    cn.wrong_state = 0;
                    cn.polled = !cn.async_only;
                }
                NmtCommandId::START_NODE if cn.boot == Boot::Ready => cn.boot = Boot::Started,
                _ => {}
            }
        }
    }

    /// Takes a node's identity.
    pub(super) fn identified(&mut self, now_ns: u64, at: usize, ident: &Ident, from: MacAddress) {
        let Some(cn) = self.nodes.get_mut(at) else {
            return;
        };
        let node = cn.number;
        if let Some(known) = cn
            .address
            .filter(|&known| known != from && cn.boot > Boot::Search)
        {
            self.events.push(Event::Node {
                node,
                what: NodeEvent::Duplicate { known, other: from },
            });
            self.fault(node, ErrorCode::ADDRESS_CONFLICT);
            return;
        }
        if cn.boot != Boot::Search {
            return;
        }
        cn.state = ident.state;
        cn.request = ident.request;
        cn.ident = Some(*ident);
        let d = &self.dictionary;
        let checks = [
            (0x1f84, ident.device_type, ErrorCode::WRONG_DEVICE_TYPE),
            (0x1f85, ident.vendor_id, ErrorCode::WRONG_VENDOR),
            (0x1f86, ident.product_code, ErrorCode::WRONG_PRODUCT),
            (0x1f87, ident.revision_number, ErrorCode::WRONG_REVISION),
            (0x1f88, ident.serial_number, ErrorCode::WRONG_SERIAL_NUMBER),
        ];
        for (index, found, code) in checks {
            let expected = d.number(index, node) as u32;
            if expected != 0 && expected != found {
                // Reported once. Where the device is replaced by the right one, it is found all the same.
                cn.ident_due_ns = now_ns + 1_000_000_000;
                if !core::mem::replace(&mut cn.complained, true) {
                    let what = NodeEvent::WrongIdentity {
                        code,
                        expected,
                        found,
                    };
                    self.events.push(Event::Node { node, what });
                    self.fault(node, code);
                }
                return;
            }
        }
        cn.complained = false;
        cn.address = Some(from);
        cn.boot = Boot::Clear;
        cn.status_due_ns = now_ns;
        let timeout = d.number(0x1f89, 4).max(1000) * 1000;
        cn.deadline_ns = Some(now_ns + timeout);
        self.events.push(Event::Node {
            node,
            what: NodeEvent::Found(Box::new(*ident)),
        });
    }

    /// Goes on with a node whose error signalling was reset.
    pub(super) fn cleared(&mut self, now_ns: u64, at: usize) {
        let chained = self.nodes.get(at).is_some_and(|cn| cn.chained);
        if chained {
            self.plan_chain();
            if let Some(cn) = self.nodes.get_mut(at) {
                cn.boot = Boot::Sync;
                cn.status_due_ns = now_ns;
            }
        } else {
            self.join(now_ns, at);
        }
    }

    /// Lets a node join the isochronous phase, and configures it.
    pub(super) fn join(&mut self, now_ns: u64, at: usize) {
        if let Some(cn) = self.nodes.get_mut(at) {
            cn.polled = !cn.async_only;
        }
        self.configure(now_ns, at);
    }

    /// Plans the response time of each chained node: one behind the other, with a gap.
    fn plan_chain(&mut self) {
        let margin = self.config.chain_margin_ns;
        let d = &self.dictionary;
        let mut at_ns = margin;
        for cn in self.nodes.iter_mut().filter(|cn| cn.chained) {
            cn.chain_ns = at_ns;
            let octets = (d.number(0x1f8d, cn.number) + 24).max(60) + 24;
            // 80 ns for an octet at 100 Mbit/s.
            at_ns += octets * 80 + margin;
        }
    }

    /// Takes the state that a node reports, and goes on with its boot.
    pub(super) fn told_state(&mut self, now_ns: u64, at: usize, state: NmtState) {
        let managing = self.state;
        let no_start = self.timing.start_up & start_up::NO_START_NODE != 0;
        let repeat_ns = REPEAT_NS.max(REPEAT_CYCLES * self.timing.cycle_ns);
        let Some(cn) = self.nodes.get_mut(at) else {
            return;
        };
        let node = cn.number;
        self.image.set_state(cn.receive_channel, state);
        if cn.state != state {
            cn.state = state;
            self.dictionary.set_number(0x1f8e, node, u64::from(state.0));
            self.events.push(Event::Node {
                node,
                what: NodeEvent::State(state),
            });
        }
        let cyclic = matches!(
            managing,
            NmtState::PRE_OPERATIONAL_2 | NmtState::READY_TO_OPERATE | NmtState::OPERATIONAL
        );
        let expected = match cn.boot {
            // Commands that wait to be sent do not pile up: the node gets its command when its turn comes.
            Boot::Identified | Boot::Ready if self.urgent.len() >= COMMANDS_WAITING => {
                cn.deadline_ns = cn.deadline_ns.map(|_| now_ns + 1_000_000_000);
                return;
            }
            Boot::Identified if state == NmtState::PRE_OPERATIONAL_2 && cyclic => {
                cn.boot = Boot::Enabled;
                cn.repeat_ns = now_ns + repeat_ns;
                cn.deadline_ns = Some(now_ns + self.dictionary.number(0x1f89, 4).max(1000) * 1000);
                self.queue_command(NmtCommandId::ENABLE_READY_TO_OPERATE, node, &[]);
                return;
            }
            Boot::Enabled if state == NmtState::READY_TO_OPERATE => {
                cn.boot = Boot::Ready;
                cn.deadline_ns = None;
                cn.wrong_state = 0;
                return;
            }
            Boot::Ready if state == NmtState::READY_TO_OPERATE => {
                if managing == NmtState::OPERATIONAL && cn.start && !no_start {
                    cn.boot = Boot::Started;
                    cn.repeat_ns = now_ns + repeat_ns;
                    let wait = self.dictionary.number(0x1f89, 9).max(1000) * 1000;
                    cn.deadline_ns = Some(now_ns + wait);
                    self.queue_command(NmtCommandId::START_NODE, node, &[]);
                }
                return;
            }
            Boot::Started if state == NmtState::OPERATIONAL => {
                cn.boot = Boot::Running;
                cn.deadline_ns = None;
                cn.wrong_state = 0;
                return;
            }
            // The command has no effect yet: it, or the frame that reported its effect, may have been lost.
            Boot::Enabled | Boot::Started if now_ns >= cn.repeat_ns => {
                cn.repeat_ns = now_ns + repeat_ns;
                match (cn.boot, state) {
                    (Boot::Enabled, NmtState::PRE_OPERATIONAL_2) => {
                        self.queue_command(NmtCommandId::ENABLE_READY_TO_OPERATE, node, &[]);
                    }
                    (Boot::Started, NmtState::READY_TO_OPERATE) => {
                        self.queue_command(NmtCommandId::START_NODE, node, &[]);
                    }
                    _ => {}
                }
                return;
            }
            Boot::Ready => NmtState::READY_TO_OPERATE,
            Boot::Running => NmtState::OPERATIONAL,
            _ => return,
        };
        if state == expected {
            cn.wrong_state = 0;
            return;
        }
        cn.wrong_state += 1;
        if cn.wrong_state > STATE_TOLERANCE {
            self.fault(node, ErrorCode::WRONG_STATE);
            self.lose(now_ns, node, LostReason::State);
        }
    }

    /// Checks the nodes' deadlines, and this node's own state. Called once in a cycle.
    pub(super) fn advance(&mut self, now_ns: u64) {
        for at in 0..self.nodes.len() {
            let Some(cn) = self.nodes.get_mut(at) else {
                break;
            };
            let node = cn.number;
            sdo::pass(&mut cn.client, &self.server, node, now_ns);
            // In the reduced cycle a node cannot go beyond being identified.
            let waits = cn.boot == Boot::Identified && self.state == NmtState::PRE_OPERATIONAL_1;
            if waits {
                cn.deadline_ns = cn.deadline_ns.map(|_| now_ns + 1_000_000_000);
            }
            let expired = cn.deadline_ns.is_some_and(|deadline| now_ns >= deadline);
            self.outcomes(now_ns, at);
            if expired {
                self.lose(now_ns, node, LostReason::Timeout);
            }
        }
        if self.server.wake_at_ns().is_some_and(|at| now_ns >= at) {
            self.server.moment(now_ns);
        }
        for heartbeat in &mut self.heartbeats {
            if heartbeat.expire(now_ns) {
                let node = heartbeat.node;
                self.events.push(Event::Heartbeat { node, silent: true });
            }
        }
        self.own_state(now_ns);
    }

    fn own_state(&mut self, now_ns: u64) {
        let since = now_ns.saturating_sub(self.entered_ns);
        let mandatory = |least: Boot| {
            let mut all = self.nodes.iter().filter(|cn| cn.mandatory);
            all.all(|cn: &Cn| cn.boot >= least)
        };
        let may = |bit| self.timing.start_up & bit == 0 || self.released;
        let time = |subindex| self.dictionary.number(0x1f89, subindex) * 1000;
        let (reached, next, patience, code) = match self.state {
            NmtState::PRE_OPERATIONAL_1 => {
                let asked = self
                    .nodes
                    .iter()
                    .all(|cn| cn.ident_tries > 0 || cn.boot > Boot::Search);
                let waited = since >= time(3) && self.soa_count > 10 && asked;
                let reached = mandatory(Boot::Identified)
                    && waited
                    && may(start_up::NO_AUTO_PRE_OPERATIONAL_2);
                (
                    reached,
                    NmtState::PRE_OPERATIONAL_2,
                    time(2),
                    ErrorCode::BOOT_STEP_1,
                )
            }
            NmtState::PRE_OPERATIONAL_2 => {
                let reached = mandatory(Boot::Ready) && may(start_up::NO_AUTO_READY);
                (
                    reached,
                    NmtState::READY_TO_OPERATE,
                    time(4),
                    ErrorCode::BOOT_STEP_2,
                )
            }
            NmtState::READY_TO_OPERATE => {
                let mut all = self
                    .nodes
                    .iter()
                    .filter(|cn| cn.mandatory && !cn.async_only);
                let heard = all.all(|cn| cn.responded && cn.lost.count == 0);
                let reached = heard && mandatory(Boot::Ready) && may(start_up::NO_AUTO_START);
                (
                    reached,
                    NmtState::OPERATIONAL,
                    time(5),
                    ErrorCode::CHECK_COMMUNICATION,
                )
            }
            _ => return,
        };
        if reached {
            self.enter(now_ns, next);
            if next == NmtState::PRE_OPERATIONAL_2 {
                self.next_soc_ns = now_ns + self.timing.cycle_ns;
                self.last_soc_ns = now_ns;
                self.phase = Phase::WaitSoc;
            }
        } else if since > patience && patience > 0 && !self.warned {
            self.warned = true;
            self.fault(number::MN, code);
        }
    }
}

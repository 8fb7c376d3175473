//! The controlled node's part in the cycle: SoC, PReq, PRes, SoA.

use super::{ControlledNode, Dll};
use crate::{ErrorCode, Event};
use rtwire_wire::Outbox;
use rtwire_wire::powerlink::{Asnd, Message, NmtState, Packet, Poll, Request, Soc, View, node};

/// The longest cycle that is learnt by observation, ns.
const LONGEST_CYCLE_NS: u64 = 1_000_000_000;

impl ControlledNode {
    pub(super) fn receive(&mut self, now_ns: u64, frame: &[u8], outbox: &mut dyn Outbox) {
        let view = View::new(frame);
        if !view.is_powerlink() || view.source_address() == Some(self.address) {
            return;
        }
        let packet = match Packet::parse(frame) {
            Ok(packet) => packet,
            Err(_) => {
                self.statistics.invalid_frames += 1;
                return;
            }
        };
        if self.is_silent(now_ns) {
            self.reset_again(now_ns, &packet);
            return;
        }
        if packet.source == self.node && !core::mem::replace(&mut self.conflict_told, true) {
            self.events.push(Event::Error {
                node: self.node,
                code: ErrorCode::ADDRESS_CONFLICT,
            });
        }
        // The frames of a cycle keep a node from BasicEthernet, and bring it back from there (DS 301, 7.1.4.1.1).
        let of_cycle = matches!(
            packet.message,
            Message::Soc(_) | Message::PReq(_) | Message::PRes(_) | Message::Soa(_)
        );
        if of_cycle && self.state == NmtState::BASIC_ETHERNET {
            self.enter(NmtState::PRE_OPERATIONAL_1);
        }
        if of_cycle && self.state == NmtState::NOT_ACTIVE {
            self.arm_basic_ethernet(now_ns);
        }
        let for_me = [self.node, node::BROADCAST].contains(&packet.destination);
        if self.is_foreign(now_ns, &packet) {
            return;
        }
        self.hear(now_ns, packet.source);
        let from_managing = packet.source == node::MN;
        if from_managing {
            self.look_for_stop(now_ns);
        }
        match packet.message {
            Message::Soc(soc) if from_managing => self.soc(now_ns, &soc),
            Message::PReq(request) if packet.destination == self.node => {
                self.preq(now_ns, &request, outbox);
            }
            Message::PRes(response) => {
                let channel = self.image.receive_of(packet.source);
                let channel = channel.filter(|_| packet.source != 0);
                self.image.set_state(channel, response.state);
                self.pres(now_ns, packet.source, &response.poll, outbox);
            }
            Message::Soa(soa) if from_managing => {
                self.image.set_state(self.request_channel, soa.state);
                self.soa(now_ns, &soa, outbox);
            }
            Message::AInv(soa) if from_managing && soa.target == self.node => {
                self.invited(now_ns, &soa, outbox);
            }
            Message::Asnd(Asnd::NmtCommand(command)) if for_me && from_managing => {
                self.nmt_command(now_ns, &command);
            }
            Message::Asnd(Asnd::Sdo(sdo)) if packet.destination == self.node => {
                self.sdo(now_ns, packet.source, &sdo);
            }
            _ => {}
        }
    }

    fn hear(&mut self, now_ns: u64, source: u8) {
        for heartbeat in &mut self.heartbeats {
            if heartbeat.node == source && heartbeat.heard(now_ns) {
                self.events.push(Event::Heartbeat {
                    node: source,
                    silent: false,
                });
            }
        }
    }

    fn soc(&mut self, now_ns: u64, soc: &Soc) {
        self.statistics.cycles += 1;
        self.image.begin_cycle(self.statistics.cycles);
        self.net_time = soc.net_time;
        match self.state {
            NmtState::NOT_ACTIVE => self.enter(NmtState::PRE_OPERATIONAL_1),
            NmtState::PRE_OPERATIONAL_1 => {
                self.dll = Dll::WaitSoc;
                self.cycle_good = true;
                self.enter(NmtState::PRE_OPERATIONAL_2);
            }
            _ => {}
        }
        if !self.cyclic() {
            return;
        }
        match self.dll {
            Dll::WaitPreq => {
                self.miss_preq(now_ns);
                self.miss_soa(now_ns);
            }
            Dll::WaitSoa => self.miss_soa(now_ns),
            Dll::WaitSoc | Dll::NonCyclic => {}
        }
        if !self.cyclic() {
            return;
        }
        let interval_ns = now_ns.saturating_sub(self.last_soc_ns);
        if self.last_soc_ns > 0 {
            // The cycle is not configured: the longest of the last intervals stands for it.
            let fading = self.seen_cycle_ns - self.seen_cycle_ns / 8;
            self.seen_cycle_ns = interval_ns.clamp(fading, LONGEST_CYCLE_NS);
            self.judge_seen_cycle();
        }
        let range_ns = self.counters.jitter_range_ns;
        let off_ns = interval_ns.abs_diff(self.timing.cycle_ns);
        let known = self.timing.cycle_ns > 0 && self.last_soc_ns > 0;
        if range_ns > 0 && known && off_ns > range_ns && self.counters.jitter.error() {
            self.fault(now_ns, ErrorCode::SOC_JITTER);
        }
        if core::mem::replace(&mut self.cycle_good, true) {
            for (_, counter) in self.counters.all() {
                counter.good();
            }
            self.recover();
        }
        self.last_soc_ns = now_ns;
        self.look_for_return(now_ns);
        self.told.renewed = false;
        self.polled = false;
        self.dll = Dll::WaitPreq;
        self.arm_soc(now_ns);
        self.prepare_pres();
    }

    pub(super) fn miss_preq(&mut self, now_ns: u64) {
        // A node of multiplexed or chained slots is not polled in each cycle.
        let expected = self.ever_polled && !self.timing.multiplexed && !self.timing.chained;
        if self.polled || !expected || !self.answers() {
            return;
        }
        self.cycle_good = false;
        if self.counters.preq.error() {
            self.cycle_error(now_ns, ErrorCode::LOSS_OF_PREQ);
        }
    }

    fn miss_soa(&mut self, now_ns: u64) {
        if !self.cyclic() {
            return;
        }
        self.statistics.lost_soa += 1;
        self.cycle_good = false;
        if self.counters.soa.error() {
            self.cycle_error(now_ns, ErrorCode::LOSS_OF_SOA);
        }
    }

    fn preq(&mut self, now_ns: u64, request: &Request<'_>, outbox: &mut dyn Outbox) {
        self.statistics.requests += 1;
        if !self.answers() {
            return;
        }
        if !self.is_late(now_ns, self.limits.answer_within_ns, outbox) {
            self.respond(None, outbox);
            self.statistics.responses += 1;
        }
        self.polled = true;
        self.ever_polled = true;
        self.dll = Dll::WaitSoa;
        self.signalling.acknowledge(request.exception_acknowledge);
        if let Some(channel) = self.request_channel {
            self.take_data(now_ns, channel, &request.poll);
        }
    }

    fn take_data(&mut self, now_ns: u64, channel: usize, poll: &Poll<'_>) {
        let mapped = matches!(
            self.state,
            NmtState::READY_TO_OPERATE | NmtState::OPERATIONAL
        );
        // Data of a request that lay unread for too long are no input of today.
        if !poll.ready || !mapped || self.freshness.is_behind() {
            return;
        }
        if !self.image.take(channel, poll.pdo_version, poll.payload) {
            let known = self.image.receive.get(channel);
            let code = if known.is_some_and(|channel| poll.payload.len() < channel.octets) {
                ErrorCode::PDO_SHORT
            } else {
                ErrorCode::PDO_VERSION
            };
            self.fault(now_ns, code);
        }
    }

    fn pres(&mut self, now_ns: u64, source: u8, poll: &Poll<'_>, outbox: &mut dyn Outbox) {
        if source == node::MN && self.timing.chained && self.answers() {
            // PollResponse chaining: the managing node's response is the request to all.
            let at = (self.timing.chain_ns > 0).then_some(now_ns + self.timing.chain_ns);
            if !self.is_late(now_ns, None, outbox) {
                self.respond(at, outbox);
                self.statistics.responses += 1;
            }
            self.polled = true;
            self.dll = Dll::WaitSoa;
        }
        let from_request =
            source == node::MN && self.image.receive_of(node::MN) == self.request_channel;
        let channel = self.image.receive_of(source);
        if let Some(channel) = channel.filter(|_| source != 0 && !from_request) {
            self.take_data(now_ns, channel, poll);
        }
    }
}

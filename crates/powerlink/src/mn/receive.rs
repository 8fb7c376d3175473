//! Frames from other nodes.

use super::ManagingNode;
use super::cycle::Phase;
use super::node::Boot;
use super::schedule::STATUS_INTERVAL_NS;
use crate::{ErrorCode, Event, NodeEvent};
use rtwire_wire::powerlink::{
    Asnd, Message, NmtRequest, NmtState, Packet, Response, Status, View, node,
};
use rtwire_wire::{MacAddress, Outbox};

/// The number of StatusResponses without EC after which a node is taken for one that never sends EC.
const CLEAR_TRIES: u32 = 10;

impl ManagingNode {
    pub(super) fn receive(&mut self, now_ns: u64, frame: &[u8], outbox: &mut dyn Outbox) {
        let view = View::new(frame);
        if !view.is_powerlink() {
            self.foreign(now_ns, view.source_address(), outbox);
            return;
        }
        if view.source_address() == Some(self.config.address) || self.phase == Phase::Off {
            return;
        }
        let Ok(packet) = Packet::parse(frame) else {
            self.statistics.invalid_frames += 1;
            return;
        };
        let source = packet.source;
        for heartbeat in &mut self.heartbeats {
            if heartbeat.node == source && heartbeat.heard(now_ns) {
                self.events.push(Event::Heartbeat {
                    node: source,
                    silent: false,
                });
            }
        }
        if source == node::MN {
            self.other_managing_node(now_ns, packet.source_address, &packet.message);
            return;
        }
        // The nodes answer another managing node now.
        if matches!(self.phase, Phase::Listen { .. }) {
            return;
        }
        let place = self.places.get(usize::from(source)).copied().flatten();
        let Some(at) = place.map(usize::from) else {
            return;
        };
        match packet.message {
            Message::PRes(response) => self.response(now_ns, at, &response, outbox),
            Message::Asnd(asnd) => {
                let for_me = [node::MN, node::BROADCAST].contains(&packet.destination);
                match asnd {
                    Asnd::Ident(ident) => {
                        self.identified(now_ns, at, &ident, packet.source_address);
                    }
                    Asnd::Status(status) => self.status(now_ns, at, &status),
                    Asnd::SyncResponse(_)
                        if self.nodes.get(at).is_some_and(|cn| cn.boot == Boot::Sync) =>
                    {
                        self.join(now_ns, at);
                    }
                    Asnd::NmtRequest(request) if for_me => self.nmt_request(now_ns, &request),
                    Asnd::Sdo(sdo) if packet.destination == node::MN => {
                        self.sdo(now_ns, at, source, &sdo);
                    }
                    _ => {}
                }
                self.slot_over(now_ns, source, outbox);
            }
            _ => {}
        }
    }

    /// Ends the asynchronous slot of the invited node: an ordinary frame has come.
    fn foreign(&mut self, now_ns: u64, from: Option<MacAddress>, outbox: &mut dyn Outbox) {
        if let Phase::WaitAsync { invited } = self.phase {
            let known = self.cn(invited.target).and_then(|cn| cn.address);
            self.answered(now_ns, known.is_some() && known == from, outbox);
        }
    }

    fn slot_over(&mut self, now_ns: u64, source: u8, outbox: &mut dyn Outbox) {
        let by_invited = self.invited() == Some(source);
        self.answered(now_ns, by_invited, outbox);
        if matches!(self.phase, Phase::Reduced { .. }) {
            self.reduced(now_ns, outbox);
        }
    }

    fn response(
        &mut self,
        now_ns: u64,
        at: usize,
        response: &Response<'_>,
        outbox: &mut dyn Outbox,
    ) {
        let Some(cn) = self.nodes.get_mut(at) else {
            return;
        };
        let number = cn.number;
        if !cn.polled {
            return;
        }
        cn.responses += 1;
        let requested_ns = core::mem::take(&mut cn.requested_ns);
        cn.request = response.request;
        if response.exception_new != cn.acknowledged && cn.boot > Boot::Clear {
            cn.status_wanted = true;
        }
        let awaited = match self.phase {
            Phase::WaitResponse {
                at, deadline_ns, ..
            } => {
                // Only the port can have gone on past a response that the node was not shown. The port reports that.
                let has_left =
                    |n: usize| n == at || self.slot(n).is_some_and(|slot| outbox.has_left(slot));
                let asked = |n: usize| self.polls.get(n).is_some_and(|p| p.node == number);
                let found = (at..self.poll_count).find(|&n| asked(n) && has_left(n));
                found.map(|found| (at, found, deadline_ns))
            }
            _ => None,
        };
        let chained = matches!(self.phase, Phase::WaitChain { .. });
        // The awaited response is read after its deadline, and before the deadline was handled: this node slept.
        let mut stalled = false;
        if let Phase::WaitResponse { deadline_ns, .. } | Phase::WaitChain { deadline_ns } =
            &mut self.phase
        {
            if (awaited.is_some() || chained) && now_ns > *deadline_ns {
                let late_ns = now_ns - core::mem::replace(deadline_ns, now_ns);
                stalled = self.was_stalled(late_ns);
            }
        }
        let (mut in_time, mut follow) = (chained && requested_ns != 0, None);
        if let Some((first, found, deadline_ns)) = awaited {
            // The driver's chain has gone on past those between.
            for missing in first..found {
                self.miss(now_ns, missing);
            }
            // After a stall the deadline was moved: the arrival of the response counts.
            in_time = found > first || stalled || now_ns <= deadline_ns;
            follow = Some(found + 1);
        }
        let Some(cn) = self.nodes.get_mut(at) else {
            return;
        };
        let receive_channel = cn.receive_channel;
        if in_time {
            cn.latency_ns = now_ns.saturating_sub(requested_ns);
            cn.responded = true;
            cn.lost.good();
            cn.late.good();
            self.statistics.responses += 1;
        } else {
            self.statistics.late_responses += 1;
            if cn.late.error() {
                self.fault(number, ErrorCode::LATE_PRES);
            }
        }
        let data = response.poll.ready && response.state == NmtState::OPERATIONAL;
        let channel = receive_channel.filter(|_| data);
        if let Some(channel) = channel {
            let poll = &response.poll;
            if !self.image.take(channel, poll.pdo_version, poll.payload) {
                let known = self.image.receive.get(channel);
                let short = known.is_some_and(|known| poll.payload.len() < known.octets);
                let code = if short {
                    ErrorCode::PDO_SHORT
                } else {
                    ErrorCode::PDO_VERSION
                };
                self.fault(number, code);
            }
        }
        self.told_state(now_ns, at, response.state);
        if let Some(next) = follow {
            self.poll(now_ns, next, outbox);
        } else if chained
            && self
                .nodes
                .iter()
                .all(|cn| !cn.chained || !cn.polled || cn.requested_ns == 0)
        {
            self.finish(now_ns, outbox);
        }
    }

    fn status(&mut self, now_ns: u64, at: usize, status: &Status<'_>) {
        let Some(cn) = self.nodes.get_mut(at) else {
            return;
        };
        let node = cn.number;
        cn.status_lost.good();
        if core::mem::take(&mut cn.status_asked) && !cn.is_slow() {
            cn.status_due_ns = cn.status_due_ns.min(now_ns + STATUS_INTERVAL_NS);
        }
        cn.request = status.request;
        if cn.boot == Boot::Clear {
            cn.acknowledged = status.exception_new;
            cn.clear_tries += 1;
            // A simple node has no error signalling, and never answers with EC.
            if status.exception_clear || cn.clear_tries >= CLEAR_TRIES {
                cn.state = status.state;
                // Asked once more, without ER: then errors are signalled.
                cn.status_wanted = true;
                self.cleared(now_ns, at);
            }
            return;
        }
        cn.status_wanted = false;
        if status.exception_new != cn.acknowledged {
            cn.acknowledged = status.exception_new;
            let errors: Vec<_> = status.errors.iter().collect();
            if !errors.is_empty() {
                self.events.push(Event::Node {
                    node,
                    what: NodeEvent::Errors(errors),
                });
            }
        }
        // While ER is still answered, ask again.
        if let Some(cn) = self.nodes.get_mut(at) {
            cn.status_wanted |= status.exception_clear;
        }
        self.told_state(now_ns, at, status.state);
    }

    fn nmt_request(&mut self, now_ns: u64, request: &NmtRequest<'_>) {
        let (command, target) = (request.command, request.target);
        match command.0 {
            // Another node wants to hear an ident or a status.
            1 => {
                if let Some(cn) = self.cn_mut(target) {
                    cn.status_wanted = true;
                }
            }
            2 => {
                if let Some(cn) = self.cn_mut(target) {
                    cn.status_wanted = true;
                    cn.status_due_ns = now_ns;
                }
            }
            0x20..=0x7f => {
                let data: Vec<u8> = request.data.to_vec();
                let data = if command.has_node_list() || command.0 >= 0x60 {
                    data
                } else {
                    Vec::new()
                };
                self.command(now_ns, command, target, &data);
            }
            _ if self.publish(command) => {}
            _ => {
                let invalid = rtwire_wire::powerlink::NmtCommandId::INVALID_SERVICE;
                self.queue_command(invalid, target, &[]);
            }
        }
    }
}

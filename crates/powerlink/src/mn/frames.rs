//! The frames that the managing node sends.

use super::ManagingNode;
use rtwire_wire::powerlink::{
    Asnd, MINIMUM_OCTETS, Message, NetTime, NmtCommand, NmtCommandId, NmtState, Packet, Poll,
    Request, RequestedService, Response, SendRequest, Soa, Soc, SyncRequest, VERSION, multicast,
    node, pad,
};
use rtwire_wire::{MacAddress, Outbox};

impl ManagingNode {
    fn packet<'a>(&self, to: MacAddress, destination: u8, message: Message<'a>) -> Packet<'a> {
        Packet {
            destination_address: to,
            source_address: self.config.address,
            destination,
            source: node::MN,
            message,
        }
    }

    pub(super) fn send_soc(&mut self, at_ns: u64, outbox: &mut dyn Outbox) {
        let offset = self.config.net_time_offset_ns;
        let since_1970 = offset.map(|offset| at_ns.saturating_add_signed(offset));
        self.net_time = since_1970.map_or(NetTime::default(), NetTime::from_ns);
        let soc = Soc {
            multiplexed_cycle_completed: self.multiplexed_flag,
            prescaled_slot: self.prescaled_flag,
            net_time: self.net_time,
            relative_time_us: at_ns.saturating_sub(self.start_ns) / 1000,
        };
        let packet = self.packet(multicast::SOC, node::BROADCAST, Message::Soc(soc));
        let mut frame = [0; MINIMUM_OCTETS];
        // A SoC has 36 octets: it fits.
        if let Ok(octets) = packet.emit(&mut frame) {
            let octets = pad(&mut frame, octets, MINIMUM_OCTETS);
            let launch = (self.timing.lead_ns > 0).then_some(at_ns);
            outbox.send(frame.get(..octets).unwrap_or_default(), launch);
        }
    }

    pub(super) fn send_soa(
        &mut self,
        service: RequestedService,
        target: u8,
        flags: [bool; 2],
        sync: Option<SyncRequest>,
        outbox: &mut dyn Outbox,
    ) {
        let soa = Message::Soa(self.invitation(service, target, flags, sync));
        self.send_invitation(multicast::SOA, soa, outbox);
    }

    /// Sends an invitation between two SoA.
    pub(super) fn send_ainv(
        &mut self,
        service: RequestedService,
        target: u8,
        flags: [bool; 2],
        outbox: &mut dyn Outbox,
    ) {
        let soa = Message::AInv(self.invitation(service, target, flags, None));
        self.send_invitation(multicast::ASND, soa, outbox);
    }

    const fn invitation(
        &self,
        service: RequestedService,
        target: u8,
        flags: [bool; 2],
        sync: Option<SyncRequest>,
    ) -> Soa {
        Soa {
            state: self.state,
            exception_acknowledge: flags[0],
            exception_reset: flags[1],
            service,
            target,
            version: VERSION,
            redundancy: 0,
            sync,
        }
    }

    fn send_invitation(&mut self, to: MacAddress, message: Message<'_>, outbox: &mut dyn Outbox) {
        let packet = self.packet(to, node::BROADCAST, message);
        let mut frame = [0; MINIMUM_OCTETS];
        if let Ok(octets) = packet.emit(&mut frame) {
            let octets = pad(&mut frame, octets, MINIMUM_OCTETS);
            outbox.send(frame.get(..octets).unwrap_or_default(), None);
        }
        self.soa_count += 1;
    }

    /// Sends the managing node's own PRes.
    pub(super) fn send_response(&mut self, outbox: &mut dyn Outbox) {
        let channel = self.image.transmit_to(0);
        let payload = channel.map_or(&[][..], |channel| self.image.payload(channel));
        let version = channel.and_then(|channel| self.image.transmit.get(channel));
        let response = Response {
            state: self.state,
            exception_new: false,
            request: SendRequest::NONE,
            poll: Poll {
                multiplexed: false,
                ready: self.state == NmtState::OPERATIONAL && self.freshness.is_valid(),
                pdo_version: version.map_or(0, |channel| channel.version),
                payload,
            },
        };
        let packet = self.packet(multicast::PRES, node::BROADCAST, Message::PRes(response));
        let mut frame = [0; super::FRAME_OCTETS];
        if let Ok(octets) = packet.emit(&mut frame) {
            let octets = pad(&mut frame, octets, MINIMUM_OCTETS);
            outbox.send(frame.get(..octets).unwrap_or_default(), None);
        }
    }

    /// Writes the requests of the cycle anew.
    pub(super) fn prepare_polls(&mut self) {
        let mut scratch = core::mem::take(&mut self.scratch);
        let mut count = 0;
        for cn in &self.nodes {
            let turn = cn.slot == 0 || cn.slot == self.multiplexed_slot;
            let (true, true, Some(address)) = (cn.isochronous(), turn, cn.address) else {
                continue;
            };
            let channel = cn.transmit_channel;
            let payload = channel.map_or(&[][..], |channel| self.image.payload(channel));
            let version = channel.and_then(|channel| self.image.transmit.get(channel));
            let request = Request {
                exception_acknowledge: cn.acknowledged,
                links: [false; 2],
                poll: Poll {
                    multiplexed: cn.slot != 0,
                    ready: self.state == NmtState::OPERATIONAL && self.freshness.is_valid(),
                    pdo_version: version.map_or(0, |channel| channel.version),
                    payload,
                },
            };
            let packet = self.packet(address, cn.number, Message::PReq(request));
            let octets = packet.emit(&mut scratch).unwrap_or_default();
            let octets = pad(&mut scratch, octets, MINIMUM_OCTETS);
            let fresh = scratch.get(..octets).unwrap_or_default();
            let Some(poll) = self.polls.get_mut(count) else {
                break;
            };
            poll.node = cn.number;
            poll.timeout_ns = cn.timeout_ns;
            poll.frame.clear();
            poll.frame.extend_from_slice(fresh);
            count += 1;
        }
        self.poll_count = count;
        self.scratch = scratch;
    }

    /// Queues an NMT command.
    pub(super) fn queue_command(&mut self, command: NmtCommandId, target: u8, data: &[u8]) {
        let asnd = Asnd::NmtCommand(NmtCommand { command, data });
        let packet = self.packet(multicast::ASND, target, Message::Asnd(asnd));
        let mut frame = [0; 512];
        if let Ok(octets) = packet.emit(&mut frame) {
            let octets = pad(&mut frame, octets, MINIMUM_OCTETS);
            self.urgent.push(frame.get(..octets).unwrap_or_default());
        }
    }
}

//! The controlled node's part in the asynchronous phase: its identity, its status, and frames that wait.

use super::{ControlledNode, Dll};
use crate::Event;
use rtwire_wire::Outbox;
use rtwire_wire::powerlink::{
    Asnd, ErrorList, IDENT_RESPONSE_OCTETS, Ident, MINIMUM_OCTETS, Message, NmtCommand,
    NmtCommandId, NmtRequest, NmtState, Packet, RequestedService, STATUS_RESPONSE_OCTETS, Soa,
    Status, SyncRequest, SyncResponse, VERSION, multicast, node, node_list_contains, pad,
};

/// The number of SoA in a row, without a SoC between them, from which a node takes the cycle for the reduced one.
const REDUCED_SOA: u8 = 3;

impl ControlledNode {
    pub(super) fn soa(&mut self, now_ns: u64, soa: &Soa, outbox: &mut dyn Outbox) {
        match self.state {
            NmtState::NOT_ACTIVE => self.enter(NmtState::PRE_OPERATIONAL_1),
            _ if self.cyclic() && self.dll != Dll::NonCyclic => {
                if self.dll == Dll::WaitPreq {
                    self.miss_preq(now_ns);
                }
                // The managing node is in its reduced cycle again: no SoC will come. One SoA alone is no proof: a SoC
                // may be lost, and some managing nodes always report the same state.
                let reduced = self.dll == Dll::WaitSoc && soa.state == NmtState::PRE_OPERATIONAL_1;
                self.reduced_soa = if reduced { self.reduced_soa + 1 } else { 0 };
                self.dll = Dll::WaitSoc;
                if self.reduced_soa >= REDUCED_SOA {
                    self.reduced_soa = 0;
                    self.dll = Dll::NonCyclic;
                    self.soc_deadline_ns = None;
                    self.ever_polled = false;
                    self.enter(NmtState::PRE_OPERATIONAL_1);
                }
            }
            _ => {}
        }
        if soa.target != self.node {
            return;
        }
        match soa.sync {
            Some(sync) => self.sync(&sync, outbox),
            None => self.invited(now_ns, soa, outbox),
        }
    }

    /// Answers an invitation: a SoA, or an AInv behind it.
    pub(super) fn invited(&mut self, now_ns: u64, soa: &Soa, outbox: &mut dyn Outbox) {
        let service = soa.service;
        if service == RequestedService::STATUS_REQUEST {
            self.signalling.reset(soa.exception_reset);
            self.signalling.acknowledge(soa.exception_acknowledge);
        }
        // The slot of another node by now.
        if service != RequestedService::NO_SERVICE && self.is_late(now_ns, None, outbox) {
            return;
        }
        let sent = match service {
            RequestedService::IDENT_REQUEST => {
                let ident = self.ident();
                self.answer(Asnd::Ident(ident), IDENT_RESPONSE_OCTETS, outbox);
                true
            }
            RequestedService::STATUS_REQUEST => {
                self.status(outbox);
                true
            }
            RequestedService::NMT_REQUEST_INVITE => {
                self.urgent.pop(|frame| outbox.send(frame, None))
            }
            RequestedService::UNSPECIFIED_INVITE => self.send_waiting(now_ns, outbox),
            _ => return,
        };
        if sent {
            self.statistics.asynchronous_sent += 1;
        } else {
            self.statistics.invitations_unused += 1;
        }
        self.prepare_pres();
    }

    fn answer(&mut self, asnd: Asnd<'_>, minimum: usize, outbox: &mut dyn Outbox) {
        let packet = self.packet(node::BROADCAST, asnd);
        let mut frame = [0; 512];
        if let Ok(octets) = packet.emit(&mut frame) {
            let octets = pad(&mut frame, octets, minimum);
            outbox.send(frame.get(..octets).unwrap_or_default(), None);
        }
    }

    fn packet<'a>(&self, destination: u8, asnd: Asnd<'a>) -> Packet<'a> {
        Packet {
            destination_address: multicast::ASND,
            source_address: self.address,
            destination,
            source: self.node,
            message: Message::Asnd(asnd),
        }
    }

    fn ident(&self) -> Ident {
        let d = &self.dictionary;
        let number = |index, subindex| d.number(index, subindex) as u32;
        let ip = |subindex| number(0x1e40, subindex).to_be_bytes();
        let mut host_name = [0; 32];
        let default = format!("{:02x}-{:08x}", self.node, number(0x1018, 1));
        let name = match d.entry(0x1f9a, 0) {
            Ok(entry) if !entry.value.is_empty() => entry.value.as_slice(),
            _ => default.as_bytes(),
        };
        for (to, from) in host_name.iter_mut().zip(name) {
            *to = *from;
        }
        Ident {
            exception_new: self.signalling.new,
            exception_clear: self.signalling.clear,
            request: self.send_request(),
            state: self.state,
            flags: 0,
            version: VERSION,
            feature_flags: number(0x1f82, 0),
            mtu: self.timing.mtu as u16,
            poll_in_octets: number(0x1f98, 4) as u16,
            poll_out_octets: number(0x1f98, 5) as u16,
            response_time_ns: number(0x1f98, 3),
            device_type: number(0x1000, 0),
            vendor_id: number(0x1018, 1),
            product_code: number(0x1018, 2),
            revision_number: number(0x1018, 3),
            serial_number: number(0x1018, 4),
            vendor_extension_1: 0,
            configuration_date: number(0x1020, 1),
            configuration_time: number(0x1020, 2),
            application_date: number(0x1f52, 1),
            application_time: number(0x1f52, 2),
            ip_address: ip(2),
            subnet_mask: ip(3),
            default_gateway: ip(5),
            host_name,
            vendor_extension_2: [0; 48],
        }
    }

    fn status(&mut self, outbox: &mut dyn Outbox) {
        let errors = ErrorList::new(self.signalling.shown());
        let register = self.dictionary.number(crate::history::REGISTER, 0) as u8;
        let status = Status {
            exception_new: self.signalling.new,
            exception_clear: self.signalling.clear,
            request: self.send_request(),
            state: self.state,
            static_errors: [register, 0, 0, 0, 0, 0, 0, 0],
            errors,
        };
        let packet = self.packet(node::BROADCAST, Asnd::Status(status));
        let mut frame = [0; 512];
        if let Ok(octets) = packet.emit(&mut frame) {
            let octets = pad(&mut frame, octets, STATUS_RESPONSE_OCTETS);
            outbox.send(frame.get(..octets).unwrap_or_default(), None);
        }
    }

    fn sync(&mut self, sync: &SyncRequest, outbox: &mut dyn Outbox) {
        let set = |flag| sync.control & flag != 0;
        if set(SyncRequest::ADDRESS) && sync.address != self.address {
            return;
        }
        if set(SyncRequest::RESPONSE_TIME_FIRST) {
            self.timing.chain_ns = u64::from(sync.response_time_first_ns);
            self.dictionary.set_number(0x1f98, 11, self.timing.chain_ns);
        }
        if set(SyncRequest::DELAY_FIRST) {
            let delay = u64::from(sync.delay_first_ns);
            self.dictionary.set_number(0x1f98, 13, delay);
        }
        if set(SyncRequest::MODE_SET) || set(SyncRequest::MODE_RESET) {
            self.timing.chained = set(SyncRequest::MODE_SET);
            self.dictionary
                .set_number(0x1f98, 10, u64::from(self.timing.chained));
        }
        let mode = if self.timing.chained {
            SyncResponse::MODE
        } else {
            0
        };
        let response = SyncResponse {
            status: mode | u32::from(self.timing.chain_ns > 0),
            latency_ns: 0,
            delay_node: 0,
            delay_ns: 0,
            response_time_first_ns: self.timing.chain_ns as u32,
            response_time_second_ns: 0,
        };
        self.statistics.asynchronous_sent += 1;
        self.answer(Asnd::SyncResponse(response), MINIMUM_OCTETS, outbox);
    }

    /// Returns true where a command has no list of nodes, or this node is in it.
    pub(super) fn is_addressed(&self, command: &NmtCommand<'_>) -> bool {
        !command.command.has_node_list() || node_list_contains(command.data, self.node)
    }

    pub(super) fn nmt_command(&mut self, now_ns: u64, command: &NmtCommand<'_>) {
        let id = command.command;
        if !self.is_addressed(command) {
            return;
        }
        if !self.command(now_ns, id) {
            if id == NmtCommandId::NET_HOST_NAME_SET {
                let name = command.data.iter().take(32).copied();
                let name: Vec<u8> = name.take_while(|&octet| octet != 0).collect();
                self.dictionary.set_value(0x1f9a, 0, &name);
            }
            self.events.push(Event::Command {
                command: id,
                data: command.data.to_vec(),
            });
        }
    }

    /// Asks the managing node for an NMT command for `target` (DS 301, 7.3.6). Returns true where there was room.
    pub fn request_command(&mut self, command: NmtCommandId, target: u8, data: &[u8]) -> bool {
        let request = NmtRequest {
            command,
            target,
            data,
        };
        let mut frame = [0; 512];
        let packet = self.packet(node::MN, Asnd::NmtRequest(request));
        let Ok(octets) = packet.emit(&mut frame) else {
            return false;
        };
        let octets = pad(&mut frame, octets, MINIMUM_OCTETS);
        let room = self.urgent.push(frame.get(..octets).unwrap_or_default());
        self.prepare_pres();
        room
    }
}

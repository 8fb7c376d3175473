//! Our managing node in the place of the recorded one: the recorded nodes answer with what they have answered then.
//!
//! Ours asks in another order and faster, so each request takes the next recorded answer of its kind. IdentResponses,
//! StatusResponses, answers of service data and responses follow in their recorded order. Only two fields are written
//! anew: RS (what waits), and EC (the recorded nodes follow ER one request late).

use crate::capture;
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_powerlink::{Cdc, ManagingNode};
use rtwire_wire::powerlink::{
    Asnd, AsndService, Connection, Message, MessageType, NmtCommandId, NmtState, Packet,
    RequestedService, SdoCommandId, View,
};
use rtwire_wire::{MacAddress, Node, Outbox};
use std::collections::VecDeque;

const NODES: [u8; 3] = [1, 32, 110];

struct Recorded {
    number: u8,
    idents: VecDeque<Vec<u8>>,
    statuses: VecDeque<Vec<u8>>,
    service: VecDeque<Vec<u8>>,
    /// Responses of each state: PreOperational2, the same with its configuration, ReadyToOperate, Operational.
    responses: [Vec<u8>; 4],
    state: usize,
    alive: bool,
    waiting: u8,
    late_reset: bool,
    last_number: u8,
}

impl Recorded {
    fn new(number: u8, frames: &[(u64, Vec<u8>)]) -> Self {
        let own = || {
            frames
                .iter()
                .map(|(_, f)| f)
                .filter(move |f| View::new(f).source() == Some(number))
        };
        let of = |service| {
            own()
                .filter(move |f| View::new(f).asnd_service() == Some(service))
                .cloned()
                .collect()
        };
        let response = |state, octets: usize| {
            let wanted = |f: &&Vec<u8>| {
                let view = View::new(f);
                view.message_type() == Some(MessageType::PRES)
                    && view.state() == Some(state)
                    && view.payload_octets() == Some(octets)
            };
            own().find(wanted).unwrap().clone()
        };
        Self {
            number,
            idents: of(AsndService::IDENT_RESPONSE),
            statuses: of(AsndService::STATUS_RESPONSE),
            service: of(AsndService::SDO),
            responses: [
                response(NmtState::PRE_OPERATIONAL_2, 0),
                response(NmtState::PRE_OPERATIONAL_2, 1),
                response(NmtState::READY_TO_OPERATE, 1),
                response(NmtState::OPERATIONAL, 1),
            ],
            state: 0,
            alive: false,
            waiting: 0,
            late_reset: false,
            last_number: 0,
        }
    }

    fn patched(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let priority = if self.waiting > 0 { 3 } else { 0 };
        frame[19] = priority << 3 | self.waiting;
        frame
    }

    /// Returns the node's answer to a frame of the managing node.
    fn answer(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let packet = Packet::parse(frame).unwrap();
        match packet.message {
            Message::PReq(_) if packet.destination == self.number && self.alive => {
                Some(self.patched(self.responses[self.state].clone()))
            }
            Message::Soa(soa) if soa.target == self.number => match soa.service {
                RequestedService::IDENT_REQUEST => {
                    self.alive = true;
                    self.idents.pop_front().map(|frame| self.patched(frame))
                }
                RequestedService::STATUS_REQUEST => {
                    let mut frame = self.statuses[0].clone();
                    if self.statuses.len() > 1 {
                        self.statuses.pop_front();
                    }
                    let clear = std::mem::replace(&mut self.late_reset, soa.exception_reset);
                    frame[18] = u8::from(clear) << 3;
                    frame[20] = self.responses[self.state][17];
                    Some(self.patched(frame))
                }
                RequestedService::UNSPECIFIED_INVITE => {
                    assert!(self.waiting > 0, "invited without having asked");
                    self.waiting -= 1;
                    self.service.pop_front()
                }
                _ => None,
            },
            Message::Asnd(Asnd::NmtCommand(command)) if packet.destination == self.number => {
                match command.command {
                    NmtCommandId::RESET_CONFIGURATION => {
                        self.alive = false;
                        self.state = 1;
                        self.waiting = 0;
                    }
                    NmtCommandId::ENABLE_READY_TO_OPERATE => self.state = 2,
                    NmtCommandId::START_NODE => self.state = 3,
                    other => panic!("{other}"),
                }
                None
            }
            Message::Asnd(Asnd::Sdo(sdo)) if packet.destination == self.number => {
                let s = sdo.sequence;
                let opens = s.receive != Connection::Valid && s.send != Connection::None;
                let fresh = sdo.command.is_some() && s.send_number != self.last_number;
                if fresh {
                    self.last_number = s.send_number;
                }
                self.waiting += u8::from(opens || fresh);
                None
            }
            _ => None,
        }
    }
}

struct Sent(Vec<Vec<u8>>);

impl Outbox for Sent {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        self.0.push(frame.to_vec());
    }
}

type Command = (SdoCommandId, u8, Vec<u8>);

/// The commands of service data that the managing node has sent to a node, each once, and its NMT commands.
fn sent_to<'a>(
    number: u8,
    frames: impl Iterator<Item = &'a Vec<u8>>,
) -> (Vec<Command>, Vec<NmtCommandId>) {
    let (mut service, mut commands) = (Vec::<Command>::new(), Vec::new());
    for frame in frames {
        let packet = Packet::parse(frame).unwrap();
        if (packet.source, packet.destination) != (240, number) {
            continue;
        }
        match packet.message {
            Message::Asnd(Asnd::Sdo(sdo)) => {
                if let Some(c) = sdo.command {
                    let command = (c.command, c.transaction, c.data.to_vec());
                    if service.last() != Some(&command) {
                        service.push(command);
                    }
                }
            }
            Message::Asnd(Asnd::NmtCommand(command)) => commands.push(command.command),
            _ => {}
        }
    }
    (service, commands)
}

#[test]
fn recorded_nodes_are_brought_to_operational() {
    let frames = capture::frames();
    let recorded_sent = || frames.iter().map(|(_, frame)| frame);
    // The configuration: what the recorded managing node has written to each node.
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, 50_000, 4);
    cdc.push(0x1f8a, 2, 500_000, 4);
    for (n, node) in NODES.into_iter().enumerate() {
        let mut own = Cdc::default();
        for (command, _, data) in sent_to(node, recorded_sent()).0 {
            assert_eq!(command, SdoCommandId::WRITE_BY_INDEX);
            let index = u16::from_le_bytes([data[0], data[1]]);
            own.push_data(index, data[2], data[4..].to_vec());
        }
        let date = own
            .entries
            .iter()
            .find(|e| (e.index, e.subindex) == (0x1020, 1))
            .unwrap();
        let time = own
            .entries
            .iter()
            .find(|e| (e.index, e.subindex) == (0x1020, 2))
            .unwrap();
        cdc.push(0x1f81, node, 0x8000_0007, 4);
        cdc.push_data(0x1f26, node, date.data.clone());
        cdc.push_data(0x1f27, node, time.data.clone());
        cdc.push_data(0x1f22, node, own.emit());
        let n = n as u16;
        cdc.push(0x1800 + n, 1, u64::from(node), 1);
        cdc.push(0x1a00 + n, 1, 0x0008_0000_0001_a4c0, 8);
        cdc.push(0x1a00 + n, 0, 1, 1);
        cdc.push(0x1400 + n, 1, u64::from(node), 1);
        cdc.push(0x1600 + n, 1, 0x0008_0000_0001_a040, 8);
        cdc.push(0x1600 + n, 0, 1, 1);
    }
    let address = MacAddress([2, 0, 0, 0, 0x0e, 0xf0]);
    let mut mn = ManagingNode::new(ManagingConfig::from_cdc(address, &cdc).unwrap()).unwrap();
    let mut nodes = NODES.map(|node| Recorded::new(node, &frames));
    let mut sent = Sent(Vec::new());
    let mut all = Vec::new();
    let mut now_ns = 0;
    mn.start(now_ns, &mut sent);
    let mut coming: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    while now_ns < 30_000_000_000 && !mn.nodes().all(|node| node.operational) {
        for frame in std::mem::take(&mut sent.0) {
            for node in &mut nodes {
                if let Some(answer) = node.answer(&frame) {
                    coming.push_back((now_ns + 10_000, answer));
                }
            }
            all.push(frame);
        }
        let wake_ns = mn.wake_at_ns().unwrap();
        match coming.front() {
            Some((at, _)) if *at <= wake_ns => {
                let (at, frame) = coming.pop_front().unwrap();
                now_ns = now_ns.max(at);
                mn.frame(now_ns, &frame, &mut sent);
            }
            _ => {
                now_ns = now_ns.max(wake_ns);
                mn.moment(now_ns, &mut sent);
            }
        }
    }
    let events: Vec<_> = std::iter::from_fn(|| mn.next_event()).collect();
    assert!(mn.nodes().all(|node| node.operational), "{events:#?}");
    assert_eq!(mn.state(), NmtState::OPERATIONAL);
    for node in NODES {
        let (ours, our_commands) = sent_to(node, all.iter());
        let (theirs, their_commands) = sent_to(node, recorded_sent());
        // The same objects with the same values, numbered in the same way, in the same order; the same commands.
        assert_eq!(ours, theirs, "node {node}");
        assert_eq!(our_commands, their_commands, "node {node}");
        // Requests are the same in all but the application's data.
        let request = |frame: &&Vec<u8>| {
            let view = View::new(frame);
            view.message_type() == Some(MessageType::PREQ)
                && view.destination() == Some(node)
                && view.ready() == Some(true)
        };
        let last = all.iter().rfind(request).unwrap();
        let theirs = recorded_sent().rfind(request).unwrap();
        let differences = capture::differences(last, theirs);
        assert!(
            differences.iter().all(|d| d.starts_with("epl.pdo")),
            "{differences:?}"
        );
    }
    // SoC and SoA are the same but for their times; ours are padded to 60 octets.
    let of = |kind| move |frame: &&Vec<u8>| View::new(frame).message_type() == Some(kind);
    for (kind, allowed) in [
        (
            MessageType::SOC,
            &[
                "epl.soc.nettime",
                "epl.soc.flags",
                "epl.soc.mc",
                "epl.soc.ps",
                "epl.soc.relativetime",
                "octets",
            ][..],
        ),
        (
            MessageType::SOA,
            &["epl.soa.svid", "epl.soa.svtg", "octets"],
        ),
    ] {
        let ours = all.iter().rfind(of(kind)).unwrap();
        let theirs = recorded_sent().rfind(of(kind)).unwrap();
        let differences = capture::differences(ours, theirs);
        let expected = |d: &String| allowed.iter().any(|name| d.starts_with(name));
        assert!(differences.iter().all(expected), "{differences:?}");
    }
    // The recorded boot took 11.7 s to 14.6 s; a transfer a cycle would take less, and this is what ours takes.
    println!(
        "operational after {} ms, {} frames",
        now_ns / 1_000_000,
        all.len()
    );
}

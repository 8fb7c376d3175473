//! Service data and NMT commands without a managing node: this command takes its place for a moment.
//!
//! It sends no SoC, only SoA, as in the reduced cycle. Nodes go to PreOperational1 at most, are not reset, and stay
//! there afterwards. If a managing node is active, the command says so and sends nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rtwire_link::run::{PacketPort, PortConfig, RunConfig, Runner};
use rtwire_powerlink_station::powerlink::sdo::{SdoClient, SdoJob, SdoOutcome};
use rtwire_wire::powerlink::{
    Asnd, MINIMUM_OCTETS, Message, NmtCommand, NmtCommandId, NmtState, Packet, RequestedService,
    SendRequest, Soa, VERSION, multicast, node, pad,
};
use rtwire_wire::{EtherType, MacAddress, Node, Outbox};

use super::listen::{LISTEN_NS, groups, shows_managing_node};
use super::{Failure, LACKING, REFUSED};

/// The duration of one slot, ns: an SoA and its answer.
const SLOT_NS: u64 = 2_000_000;
/// The bytes behind the Ethernet header that every node accepts.
const MTU: usize = 300;

/// A managing node of the smallest kind, for one node.
struct Moment {
    address: MacAddress,
    target: u8,
    client: SdoClient,
    job: Option<SdoJob>,
    /// NMT commands to send, as whole frames.
    commands: VecDeque<Vec<u8>>,
    at_ns: u64,
    /// True if the target has identified itself.
    there: bool,
    request: SendRequest,
    foreign: bool,
    /// True if it has asked any node yet.
    asked: bool,
    done: bool,
    outcome: Option<SdoOutcome>,
}

impl Moment {
    fn new(target: u8, timeout: Duration) -> Self {
        Self {
            address: MacAddress::default(),
            target,
            client: SdoClient::new(
                MTU,
                u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 4),
            ),
            job: None,
            commands: VecDeque::new(),
            at_ns: 0,
            there: false,
            request: SendRequest::NONE,
            foreign: false,
            asked: false,
            done: false,
            outcome: None,
        }
    }

    fn send(&self, to: MacAddress, destination: u8, message: Message<'_>, outbox: &mut dyn Outbox) {
        let packet = Packet {
            destination_address: to,
            source_address: self.address,
            destination,
            source: node::MN,
            message,
        };
        let mut frame = [0; 1514];
        if let Ok(octets) = packet.emit(&mut frame) {
            let octets = pad(&mut frame, octets, MINIMUM_OCTETS);
            outbox.send(&frame[..octets], None);
        }
    }

    fn soa(&self, service: RequestedService, target: u8, outbox: &mut dyn Outbox) {
        let soa = Soa {
            state: NmtState::PRE_OPERATIONAL_1,
            service,
            target,
            version: VERSION,
            ..Soa::default()
        };
        self.send(multicast::SOA, node::BROADCAST, Message::Soa(soa), outbox);
    }

    fn slot(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        if let Some(command) = self.commands.pop_front() {
            self.soa(RequestedService::NMT_REQUEST_INVITE, node::MN, outbox);
            outbox.send(&command, None);
            return;
        }
        if self.client.is_idle() {
            self.done = true;
            return;
        }
        self.client.moment(now_ns);
        if !self.there {
            self.soa(RequestedService::IDENT_REQUEST, self.target, outbox);
        } else if self.client.frames_waiting() > 0 {
            self.soa(RequestedService::UNSPECIFIED_INVITE, node::MN, outbox);
            let mut frame = None;
            self.client.next_frame(now_ns, &mut |sdo| {
                let packet = Packet {
                    destination_address: multicast::ASND,
                    source_address: self.address,
                    destination: self.target,
                    source: node::MN,
                    message: Message::Asnd(Asnd::Sdo(*sdo)),
                };
                let mut octets = [0; 1514];
                if let Ok(length) = packet.emit(&mut octets) {
                    let length = pad(&mut octets, length, MINIMUM_OCTETS);
                    frame = Some(octets[..length].to_vec());
                }
            });
            if let Some(frame) = frame {
                outbox.send(&frame, None);
            }
        } else if self.request.pending > 0 {
            self.request.pending -= 1;
            self.soa(RequestedService::UNSPECIFIED_INVITE, self.target, outbox);
        } else {
            self.soa(RequestedService::STATUS_REQUEST, self.target, outbox);
        }
    }
}

impl Node for Moment {
    fn start(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
        self.at_ns = now_ns + LISTEN_NS;
        if let Some(job) = self.job.take() {
            self.client.submit(self.at_ns, job);
        }
    }

    fn frame(&mut self, now_ns: u64, frame: &[u8], _outbox: &mut dyn Outbox) {
        let Ok(packet) = Packet::parse(frame) else {
            return;
        };
        self.foreign |= shows_managing_node(&packet.message, self.asked);
        match packet.message {
            Message::Asnd(Asnd::Ident(ident)) if packet.source == self.target => {
                self.there = true;
                self.request = ident.request;
            }
            Message::Asnd(Asnd::Status(status)) if packet.source == self.target => {
                self.request = status.request;
            }
            Message::Asnd(Asnd::Sdo(sdo)) if packet.source == self.target => {
                self.client.receive(now_ns, &sdo);
            }
            _ => {}
        }
        while let Some((_, outcome)) = self.client.outcome() {
            self.outcome = Some(outcome);
        }
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        if self.foreign {
            self.done = true;
            return;
        }
        self.asked = true;
        self.slot(now_ns, outbox);
        self.at_ns = now_ns + SLOT_NS;
    }

    fn wake_at_ns(&self) -> Option<u64> {
        Some(self.at_ns)
    }
}

/// Runs the node until it is done, or for the time limit.
fn run(of: &str, mut moment: Moment, limit: Duration) -> Result<Moment, Failure> {
    let lacking = |error: rtwire_link::LinkError| (LACKING, error.to_string());
    let config = PortConfig {
        groups: groups(),
        ..PortConfig::new(of, EtherType::POWERLINK.0)
    };
    let port = PacketPort::open(&config).map_err(lacking)?;
    moment.address = MacAddress(port.interface().mac);
    let stop = AtomicBool::new(false);
    let begun = std::time::Instant::now();
    let limit = limit + Duration::from_nanos(LISTEN_NS);
    Runner::new(port, &RunConfig::default())
        .run(&mut moment, &stop, |moment, _, _| {
            if moment.done || begun.elapsed() > limit {
                stop.store(true, Ordering::Relaxed);
            }
        })
        .map_err(lacking)?;
    if moment.foreign {
        return Err((
            REFUSED,
            format!(
                "a managing node is active elsewhere on the network of `{of}`, and only it may let others send: run the \
                 command on its host; NMT commands can also be requested from here once a controlled node runs on \
                 `{of}` (`rtwire powerlink cn FILE`)"
            ),
        ));
    }
    Ok(moment)
}

/// Does one service data job with a node.
pub(super) fn sdo(
    of: &str,
    target: u8,
    job: SdoJob,
    timeout: Duration,
) -> Result<SdoOutcome, Failure> {
    let mut moment = Moment::new(target, timeout);
    moment.job = Some(job);
    let moment = run(of, moment, timeout)?;
    match moment.outcome {
        Some(outcome) => Ok(outcome),
        None if moment.there => Err((REFUSED, format!("node {target} does not answer in time"))),
        None => Err((
            REFUSED,
            format!(
                "no managing node runs on `{of}`, and no node {target} answers there; `rtwire powerlink scan {of}` \
                 lists the nodes that answer"
            ),
        )),
    }
}

/// Sends an NMT command.
pub(super) fn nmt(of: &str, command: NmtCommandId, target: u8) -> Result<(), Failure> {
    let mut moment = Moment::new(target, Duration::from_secs(1));
    let address = MacAddress(
        rtwire_sys::interface::by_name(of)
            .map_err(|error| (LACKING, error.to_string()))?
            .mac,
    );
    let data = NmtCommand { command, data: &[] };
    let packet = Packet {
        destination_address: multicast::ASND,
        source_address: address,
        destination: target,
        source: node::MN,
        message: Message::Asnd(Asnd::NmtCommand(data)),
    };
    let mut frame = [0; MINIMUM_OCTETS];
    let octets = packet
        .emit(&mut frame)
        .map_err(|error| (REFUSED, error.to_string()))?;
    let octets = pad(&mut frame, octets, MINIMUM_OCTETS);
    moment.commands.push_back(frame[..octets].to_vec());
    run(of, moment, Duration::from_secs(2)).map(drop)
}

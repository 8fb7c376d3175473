//! The controlled node.

mod answering;
mod asynchronous;
mod cycle;
mod errors;
mod limits;
mod objects;
mod parameters;
mod service;
mod signalling;
mod state;
pub use limits::Limits;
pub(crate) use objects::Objects;
pub(crate) use state::Heartbeat;

use crate::counter::{Counter, Statistics};
use crate::freshness::Freshness;
use crate::history::History;
use crate::pdo::{self, ProcessImage};
use crate::queue::{Events, Frames};
use crate::sdo::{SdoClients, SdoServer};
use crate::{Error, Event, ObjectDictionary};
use answering::Told;
use rtwire_wire::powerlink::{
    MINIMUM_OCTETS, Message, NetTime, NmtState, Packet, Response, SendRequest, multicast, node, pad,
};
use rtwire_wire::{MacAddress, Node, Outbox};
use signalling::Signalling;

/// The longest frame, without FCS.
pub(crate) const FRAME_OCTETS: usize = 1514;

/// The configuration of a controlled node.
#[derive(Clone, Debug)]
pub struct ControlledConfig {
    /// The node number, 1 to 239.
    pub node: u8,
    /// The interface's MAC address.
    pub address: MacAddress,
    /// The objects: those of [`ObjectDictionary::controlled_node`] or of a device description, with changes.
    pub dictionary: ObjectDictionary,
    /// Time limits that no object holds.
    pub limits: Limits,
}

/// The state of the cycle (DS 301, 4.2.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dll {
    NonCyclic,
    WaitSoc,
    WaitPreq,
    WaitSoa,
}

/// Settings of the dictionary that the cycle needs.
#[derive(Clone, Copy, Debug, Default)]
struct Timing {
    cycle_ns: u64,
    tolerance_ns: u64,
    basic_ethernet_ns: u64,
    multiplexed: bool,
    chained: bool,
    chain_ns: u64,
    mtu: usize,
    /// The cycles for which a program that stands still counts as running; 0: no limit.
    watchdog_cycles: u32,
}

/// The errors that a controlled node counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    collision: Counter,
    soc: Counter,
    soa: Counter,
    preq: Counter,
    jitter: Counter,
    crc: Counter,
    link_losses: u32,
    jitter_range_ns: u64,
}

impl Counters {
    /// Returns the counters with a threshold, each with its object.
    const fn all(&mut self) -> [(u16, &mut Counter); 6] {
        [
            (0x1c0a, &mut self.collision),
            (0x1c0b, &mut self.soc),
            (0x1c0c, &mut self.soa),
            (0x1c0d, &mut self.preq),
            (0x1c0e, &mut self.jitter),
            (0x1c0f, &mut self.crc),
        ]
    }
}

/// A controlled node.
#[derive(Clone, Debug)]
pub struct ControlledNode {
    node: u8,
    address: MacAddress,
    dictionary: ObjectDictionary,
    initial: ObjectDictionary,
    state: NmtState,
    dll: Dll,
    timing: Timing,
    counters: Counters,
    image: ProcessImage,
    request_channel: Option<usize>,
    pres: Vec<u8>,
    /// The actions on the PRes that the port was given.
    told: Told,
    /// The stored parameters, where the node can store them.
    keeping: Option<Box<parameters::Keeping>>,
    server: SdoServer,
    clients: SdoClients,
    /// True where a frame of the clients goes before one of the server: they take turns.
    clients_first: bool,
    urgent: Frames,
    generic: Frames,
    signalling: Signalling,
    history: History,
    events: Events,
    statistics: Statistics,
    limits: Limits,
    /// The time at which the frame that is shown was read, ns; what was read before has an earlier one.
    read_ns: u64,
    freshness: Freshness,
    /// The time until which the node is silent after a reset, ns.
    silent_until_ns: u64,
    managing_address: Option<MacAddress>,
    /// The time at which that address was last heard, ns.
    managing_heard_ns: u64,
    application_ready: bool,
    wants_ready: bool,
    polled: bool,
    ever_polled: bool,
    last_soc_ns: u64,
    soc_deadline_ns: Option<u64>,
    basic_ethernet_ns: Option<u64>,
    net_time: NetTime,
    heartbeats: Vec<state::Heartbeat>,
    cycle_good: bool,
    /// True where the error register reports an error of communication.
    in_error: bool,
    /// The number of SoA of the reduced cycle in a row, without a SoC.
    reduced_soa: u8,
    /// The observed cycle, ns, used where object 1006h has none.
    seen_cycle_ns: u64,
    /// The observed cycle that the watchdog goes by, ns.
    judged_cycle_ns: u64,
    /// True once a second node of the same number has been reported.
    conflict_told: bool,
    scratch: Vec<u8>,
}

impl ControlledNode {
    /// Makes a controlled node that is switched off. [`Node::start`] switches it on.
    ///
    /// # Errors
    /// The number is not 1 to 239, or the dictionary maps a missing object.
    pub fn new(config: ControlledConfig) -> Result<Self, Error> {
        if !(1..=node::LAST_CN).contains(&config.node) {
            return Err(Error::Configuration {
                what: format!(
                    "{} is not a number of a controlled node; take one from 1 to 239",
                    config.node
                ),
            });
        }
        let mut dictionary = config.dictionary;
        dictionary.set_number(0x1f93, 1, u64::from(config.node));
        dictionary.set_value(0x1030, 5, &config.address.0);
        if dictionary.number(0x1e40, 2) == 0 {
            // DS 301, 5.1.2: the address of a node is 192.168.100.number, router 254.
            let ip = |last| u64::from(u32::from_be_bytes([192, 168, 100, last]));
            dictionary.set_number(0x1e40, 2, ip(config.node));
            dictionary.set_number(0x1e40, 3, 0xffff_ff00);
            dictionary.set_number(0x1e40, 5, ip(254));
        }
        let mut this = Self {
            node: config.node,
            address: config.address,
            initial: dictionary.clone(),
            dictionary,
            state: NmtState::OFF,
            dll: Dll::NonCyclic,
            timing: Timing::default(),
            counters: Counters::default(),
            image: ProcessImage::default(),
            request_channel: None,
            pres: vec![0; FRAME_OCTETS],
            told: Told::default(),
            keeping: None,
            server: SdoServer::new(300, 15_000_000_000),
            clients: SdoClients::new(300, 15_000_000_000),
            clients_first: false,
            urgent: Frames::default(),
            generic: Frames::default(),
            signalling: Signalling::default(),
            history: History::default(),
            events: Events::default(),
            statistics: Statistics::default(),
            limits: config.limits,
            read_ns: 0,
            freshness: Freshness::default(),
            silent_until_ns: 0,
            managing_address: None,
            managing_heard_ns: 0,
            application_ready: true,
            wants_ready: false,
            polled: false,
            ever_polled: false,
            last_soc_ns: 0,
            soc_deadline_ns: None,
            basic_ethernet_ns: None,
            net_time: NetTime::default(),
            heartbeats: Vec::new(),
            cycle_good: true,
            in_error: false,
            reduced_soa: 0,
            seen_cycle_ns: 0,
            judged_cycle_ns: 0,
            conflict_told: false,
            scratch: vec![0; FRAME_OCTETS],
        };
        this.lay_out()?;
        Ok(this)
    }

    /// Returns the node number.
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.node
    }

    /// Returns the NMT state.
    #[must_use]
    pub const fn state(&self) -> NmtState {
        self.state
    }

    /// Takes the next event; `None` where nothing has happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Returns the node's counters.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            events_lost: self.events.lost,
            ..self.statistics
        }
    }

    /// Returns the objects. Error counters are updated when they are read over the network.
    #[must_use]
    pub const fn dictionary(&self) -> &ObjectDictionary {
        &self.dictionary
    }

    /// Returns the objects, for the application to change. Settings of the cycle take effect at the next reset.
    pub const fn dictionary_mut(&mut self) -> &mut ObjectDictionary {
        &mut self.dictionary
    }

    /// Returns the process image.
    #[must_use]
    pub const fn image(&self) -> &ProcessImage {
        &self.image
    }

    /// Returns the process image, to write outputs.
    pub const fn image_mut(&mut self) -> &mut ProcessImage {
        &mut self.image
    }

    /// Takes the outputs over into the prepared PRes. May be called in a real-time loop; [`Node::settle`] hands the
    /// new frame to the port.
    pub fn commit(&mut self) {
        self.commit_of(self.statistics.cycles);
    }

    /// Takes the outputs over, as [`commit`](Self::commit). `cycle` is the one whose inputs the application has seen for them, by
    /// [`Statistics::cycles`]. Outputs from before a stop stay invalid (RD = 0).
    pub fn commit_of(&mut self, cycle: u64) {
        self.freshness.commit(cycle);
        self.prepare_pres();
    }

    /// Returns the time in the last SoC.
    #[must_use]
    pub const fn net_time(&self) -> NetTime {
        self.net_time
    }

    /// Sets whether the application is ready to operate; true at first. Until it is, the node stays in PreOperational2.
    pub fn set_application_ready(&mut self, ready: bool) {
        self.application_ready = ready;
        if ready && self.wants_ready && self.state == NmtState::PRE_OPERATIONAL_2 {
            self.enter_ready();
        }
    }

    /// Queues an ordinary Ethernet frame for the asynchronous phase. Returns true where there was room. In NotActive and
    /// BasicEthernet the caller may send the frame itself.
    pub fn send_ethernet(&mut self, frame: &[u8]) -> bool {
        let room = frame.len() <= FRAME_OCTETS && self.generic.push(frame);
        self.prepare_pres();
        room
    }

    /// Returns the cycle by which a missing SoC is noticed, ns: object 1006h, else the observed one; 0 where neither is known.
    const fn watched_cycle_ns(&self) -> u64 {
        if self.timing.cycle_ns > 0 {
            self.timing.cycle_ns
        } else {
            self.seen_cycle_ns
        }
    }

    /// Returns true where the node answers PReqs in its state.
    const fn answers(&self) -> bool {
        matches!(
            self.state,
            NmtState::PRE_OPERATIONAL_2 | NmtState::READY_TO_OPERATE | NmtState::OPERATIONAL
        )
    }

    /// Reads the mapping from the dictionary.
    fn lay_out(&mut self) -> Result<(), Error> {
        let limit = |subindex| {
            let limit = self.dictionary.number(0x1f98, subindex) as usize;
            move |_: u8| limit
        };
        // Other nodes' data are limited by the size of a frame; the own node's data by its own limits.
        let (preq, pres) = (limit(4), limit(5));
        let received = |node| if node == 0 { preq(0) } else { 1490 };
        let receive = pdo::channels(
            &self.dictionary,
            pdo::RECEIVE,
            received,
            pdo::Check::Objects,
        )?;
        let transmit = pdo::channels(&self.dictionary, pdo::TRANSMIT, pres, pdo::Check::Objects)?;
        let image = ProcessImage::new(receive, transmit);
        if (&image.receive, &image.transmit) != (&self.image.receive, &self.image.transmit) {
            self.image = image;
            self.events.push(Event::Image);
        }
        // Nodes of multiplexed slots have a turn in some cycles only.
        let (d, own) = (&self.dictionary, self.node);
        // A PReq comes in the node's own turn, also where its data are mapped as those of node 240.
        let by_request = self.image.receive_of(0).is_none();
        let period = |of: u8| {
            let of = if of == 0 || of == node::MN && by_request {
                own
            } else {
                of
            };
            if d.number(0x1f9b, of) > 0 {
                d.number(0x1f98, 7)
            } else {
                1
            }
        };
        self.image.set_periods(period);
        self.request_channel = self
            .image
            .receive_of(0)
            .or_else(|| self.image.receive_of(node::MN));
        Ok(())
    }

    fn send_request(&self) -> SendRequest {
        let sdo = self.server.frames_waiting(true) + self.clients.frames_waiting(&self.server);
        let (priority, pending) = match self.urgent.len() {
            0 => (3, self.generic.len() + sdo),
            urgent => (7, urgent),
        };
        SendRequest {
            priority: if pending == 0 { 0 } else { priority },
            pending: pending.min(7) as u8,
            links: [false; 2],
        }
    }

    /// Writes the PRes anew.
    fn prepare_pres(&mut self) {
        let ready = self.state == NmtState::OPERATIONAL && self.freshness.is_valid();
        // The mapping is in force from the reset on; RD says whether the data are valid.
        let payload = self.image.payload(0);
        let version = self
            .image
            .transmit
            .first()
            .map_or(0, |channel| channel.version);
        let packet = Packet {
            destination_address: multicast::PRES,
            source_address: self.address,
            destination: node::BROADCAST,
            source: self.node,
            message: Message::PRes(Response {
                state: self.state,
                exception_new: self.signalling.new,
                request: self.send_request(),
                poll: rtwire_wire::powerlink::Poll {
                    multiplexed: self.timing.multiplexed,
                    ready,
                    pdo_version: version,
                    payload,
                },
            }),
        };
        self.scratch.resize(FRAME_OCTETS, 0);
        let Ok(octets) = packet.emit(&mut self.scratch) else {
            return;
        };
        let octets = pad(&mut self.scratch, octets, MINIMUM_OCTETS);
        let fresh = self.scratch.get(..octets).unwrap_or_default();
        if self.pres != fresh {
            self.pres.clear();
            self.pres.extend_from_slice(fresh);
            self.told.frame = false;
        }
    }
}

impl Node for ControlledNode {
    fn start(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.reset(now_ns, NmtState::INITIALISING);
        self.tell_answering(outbox);
    }

    fn frame(&mut self, now_ns: u64, frame: &[u8], outbox: &mut dyn Outbox) {
        self.receive(now_ns, frame, outbox);
        self.tell_answering(outbox);
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.time(now_ns);
        self.tell_answering(outbox);
    }

    fn settle(&mut self, outbox: &mut dyn Outbox) {
        self.tell_answering(outbox);
    }

    fn wake_at_ns(&self) -> Option<u64> {
        let silent = self
            .heartbeats
            .iter()
            .filter_map(state::Heartbeat::deadline_ns)
            .min();
        [
            self.soc_deadline_ns,
            self.basic_ethernet_ns,
            self.server.wake_at_ns(),
            self.clients.wake_at_ns(),
            silent,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

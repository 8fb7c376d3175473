//! The managing node.

mod boot;
mod configure;
mod cycle;
mod errors;
mod frames;
mod node;
mod publish;
mod receive;
mod requests;
mod rival;
mod schedule;
mod service;

use crate::cn::FRAME_OCTETS;
use crate::cn::Heartbeat;
use crate::counter::Statistics;
use crate::freshness::Freshness;
use crate::history::History;
use crate::pdo::{self, Check, ProcessImage};
use crate::queue::{Events, Frames};
use crate::sdo::{SdoJob, SdoServer};
use crate::{Cdc, Error, Event, ObjectDictionary};
use cycle::Phase;
use errors::Counters;
use node::Cn;
pub use node::NodeStatus;
use rival::Rival;
use rtwire_wire::powerlink::{NetTime, NmtCommandId, NmtState, node as number};
use rtwire_wire::{MacAddress, Node, Outbox};

/// Bits of object 1F80h that this node knows.
mod start_up {
    pub(super) const NO_AUTO_START: u64 = 0x4;
    pub(super) const NO_START_NODE: u64 = 0x8;
    pub(super) const RESET_ALL_MANDATORY: u64 = 0x10;
    pub(super) const STOP_ALL_MANDATORY: u64 = 0x40;
    pub(super) const NO_AUTO_PRE_OPERATIONAL_2: u64 = 0x80;
    pub(super) const NO_AUTO_READY: u64 = 0x100;
    pub(super) const NO_RETURN_TO_PRE_OPERATIONAL_1: u64 = 0x1000;
    pub(super) const BASIC_ETHERNET: u64 = 0x2000;
}

/// The configuration of a managing node.
#[derive(Clone, Debug)]
pub struct ManagingConfig {
    /// The interface's MAC address.
    pub address: MacAddress,
    /// The objects with the network's configuration: those of [`ObjectDictionary::managing_node`] or of a device description,
    /// with a [`Cdc`] applied.
    pub dictionary: ObjectDictionary,
    /// The time before a SoC's instant at which the node is woken for it, ns, at most half a cycle. 0 where the outbox does not
    /// hold frames back until their launch time. The first request is then sent 10 µs behind the instant, where no longer
    /// pause is set (object 1F8Ah/1).
    pub lead_ns: u64,
    /// The offset in ns that turns the loop's clock into time since 1970, for the time in the SoC. `None`: the SoC
    /// has no time.
    pub net_time_offset_ns: Option<i64>,
    /// The gap between two responses of PollResponse chaining, ns.
    pub chain_margin_ns: u64,
    /// The cycles for which a program that stands still counts as running. The requests behind a longer stall carry data that are
    /// not valid (RD = 0): what was set before it. 0: no limit.
    pub watchdog_cycles: u32,
}

impl ManagingConfig {
    /// Makes a configuration from a configurator's concise device configuration alone. Adds the application's objects in it as
    /// octet strings.
    ///
    /// # Errors
    /// An entry does not fit its object.
    pub fn from_cdc(address: MacAddress, cdc: &Cdc) -> Result<Self, Error> {
        let mut dictionary = ObjectDictionary::managing_node();
        for entry in &cdc.entries {
            if dictionary.object(entry.index).is_none() && entry.index >= 0x2000 {
                dictionary.insert_variable(entry.index, "", crate::od::DataType::OctetString);
            }
        }
        // Objects that this node has no use for, such as the place where parameters are stored, are left out.
        let known = Cdc {
            entries: cdc
                .entries
                .iter()
                .filter(|entry| dictionary.entry(entry.index, entry.subindex).is_ok())
                .cloned()
                .collect(),
        };
        known.apply(&mut dictionary)?;
        Ok(Self {
            address,
            dictionary,
            lead_ns: 0,
            net_time_offset_ns: None,
            chain_margin_ns: 10_000,
            watchdog_cycles: 10,
        })
    }
}

/// A request of a cycle.
#[derive(Clone, Debug, Default)]
struct PreparedPoll {
    /// The node that is asked.
    node: u8,
    /// The whole frame, padded.
    frame: Vec<u8>,
    /// The longest that the response may take, ns.
    timeout_ns: u64,
}

/// Settings of the dictionary that the cycle needs.
#[derive(Clone, Copy, Debug, Default)]
struct Timing {
    cycle_ns: u64,
    lead_ns: u64,
    wait_preq_ns: u64,
    async_timeout_ns: u64,
    /// The most asynchronous slots of a cycle.
    async_slots: u8,
    multiplexed_cycles: u8,
    prescaler: u16,
    mtu: usize,
    start_up: u64,
    /// The time beyond the cycle for which the nodes wait for a SoC: a stall of this node up to it is no error.
    bearable_ns: u64,
    /// The longest stall behind which the process data are still valid, ns; 0: no limit.
    watchdog_ns: u64,
}

/// A managing node.
#[derive(Clone, Debug)]
pub struct ManagingNode {
    config: ManagingConfig,
    dictionary: ObjectDictionary,
    state: NmtState,
    phase: Phase,
    timing: Timing,
    nodes: Vec<Cn>,
    /// The index in `nodes` of each node number.
    places: Box<[Option<u8>; 256]>,
    image: ProcessImage,
    polls: Vec<PreparedPoll>,
    poll_count: usize,
    /// The cycle whose requests the port may send by itself.
    armed: Option<u64>,
    urgent: Frames,
    generic: Frames,
    server: SdoServer,
    events: Events,
    statistics: Statistics,
    counters: Counters,
    history: History,
    /// True where the error register reports an error of communication.
    in_error: bool,
    net_time: NetTime,
    heartbeats: Vec<Heartbeat>,
    start_ns: u64,
    next_soc_ns: u64,
    /// The time at which the last SoC left, ns.
    last_soc_ns: u64,
    entered_ns: u64,
    warned: bool,
    /// The invitations so far: SoA and AInv.
    soa_count: u64,
    /// The asynchronous slots that the running cycle has left.
    slots_left: u8,
    multiplexed_slot: u8,
    multiplexed_flag: bool,
    prescaled: u16,
    prescaled_flag: bool,
    turn: usize,
    round: usize,
    cycle_good: bool,
    /// The time by which this node was woken too late within the cycle, ns.
    stalled_ns: u64,
    /// The usual time to hand frames over, ns: the second of requests, the first of all others.
    usual_sending_ns: [u64; 2],
    released: bool,
    scratch: Vec<u8>,
    own_response: bool,
    /// The validity of the process data behind a stall that the watchdog does not allow.
    freshness: Freshness,
    /// True from such a stall until the next cycle.
    lapsed: bool,
    /// The time at which the frame that is shown was read, ns.
    read_ns: u64,
    /// Another managing node that is heard.
    rival: Option<Rival>,
}

impl ManagingNode {
    /// Makes a managing node that is switched off. [`Node::start`] switches it on.
    ///
    /// # Errors
    /// No cycle time, no controlled node, or a mapping that does not fit.
    pub fn new(config: ManagingConfig) -> Result<Self, Error> {
        let mut this = Self {
            dictionary: config.dictionary.clone(),
            config,
            state: NmtState::OFF,
            phase: Phase::Off,
            timing: Timing::default(),
            nodes: Vec::new(),
            places: Box::new([None; 256]),
            image: ProcessImage::default(),
            polls: Vec::new(),
            poll_count: 0,
            armed: None,
            urgent: Frames::default(),
            generic: Frames::default(),
            server: SdoServer::new(300, 15_000_000_000),
            events: Events::default(),
            statistics: Statistics::default(),
            counters: Counters::default(),
            history: History::default(),
            in_error: false,
            net_time: NetTime::default(),
            heartbeats: Vec::new(),
            start_ns: 0,
            next_soc_ns: 0,
            last_soc_ns: 0,
            entered_ns: 0,
            warned: false,
            soa_count: 0,
            slots_left: 0,
            multiplexed_slot: 1,
            multiplexed_flag: false,
            prescaled: 0,
            prescaled_flag: false,
            turn: 0,
            round: 0,
            cycle_good: true,
            stalled_ns: 0,
            usual_sending_ns: [0; 2],
            released: false,
            scratch: vec![0; FRAME_OCTETS],
            own_response: false,
            freshness: Freshness::default(),
            lapsed: false,
            read_ns: 0,
            rival: None,
        };
        this.take_configuration()?;
        Ok(this)
    }

    /// Reads settings, nodes and mapping from the dictionary.
    fn take_configuration(&mut self) -> Result<(), Error> {
        let d = &self.dictionary;
        let wrong = |what: &str| Error::Configuration { what: what.into() };
        let cycle_ns = d.number(0x1006, 0) * 1000;
        self.timing = Timing {
            cycle_ns,
            lead_ns: self.config.lead_ns.min(cycle_ns / 2),
            wait_preq_ns: d.number(0x1f8a, 1),
            async_timeout_ns: d.number(0x1f8a, 2).max(1000),
            async_slots: d.number(0x1f8a, 3).clamp(1, cycle::MOST_SLOTS) as u8,
            multiplexed_cycles: d.number(0x1f98, 7) as u8,
            prescaler: d.number(0x1f98, 9) as u16,
            mtu: (d.number(0x1f98, 8) as usize).clamp(300, 1500),
            start_up: d.number(0x1f80, 0),
            bearable_ns: d.number(0x1c14, 0),
            watchdog_ns: cycle_ns.saturating_mul(self.config.watchdog_cycles.into()),
        };
        if self.timing.cycle_ns == 0 {
            return Err(wrong("object 1006h is 0: it holds the cycle time in µs"));
        }
        self.counters = Counters::new(d);
        let limits = |first: u16| move |node: u8| d.number(first, node) as usize;
        let (preq, pres) = (limits(0x1f8b), limits(0x1f8d));
        let own = d.number(0x1f98, 5) as usize;
        let sent = |node: u8| if node == 0 { own } else { preq(node) };
        let receive = pdo::channels(d, pdo::RECEIVE, pres, Check::Places)?;
        let transmit = pdo::channels(d, pdo::TRANSMIT, sent, Check::Places)?;
        let mut nodes = Vec::new();
        let mut places = [None; 256];
        for node in 1..=number::LAST_CN {
            let assignment = d.number(0x1f81, node);
            if assignment & 3 == 3 {
                places[usize::from(node)] = Some(nodes.len() as u8);
                nodes.push(Cn::new(d, node, assignment, self.timing.mtu));
            }
        }
        if nodes.is_empty() {
            return Err(wrong(
                "object 1F81h names no controlled node: bits 0 and 1 of its entry are set for each",
            ));
        }
        let image = ProcessImage::new(receive, transmit);
        for cn in &mut nodes {
            cn.receive_channel = image.receive_of(cn.number);
            cn.transmit_channel = image.transmit_to(cn.number);
        }
        if (&image.receive, &image.transmit) != (&self.image.receive, &self.image.transmit) {
            self.image = image;
            self.events.push(Event::Image);
        }
        let period = |of: u8| {
            let turn = nodes.iter().find(|cn| cn.number == of);
            if turn.is_some_and(|cn| cn.slot > 0) {
                d.number(0x1f98, 7)
            } else {
                1
            }
        };
        self.image.set_periods(period);
        self.nodes = nodes;
        *self.places = places;
        self.own_response = d.number(0x1f81, number::MN) & node::MN_RESPONDS != 0
            || self.nodes.iter().any(|cn| cn.chained);
        let all = (1..=254).map(|subindex| d.number(0x1016, subindex));
        self.heartbeats = all.filter_map(Heartbeat::from_number).collect();
        let timeout_ns = (d.number(0x1300, 0) * 1_000_000).max(1_000_000);
        self.server = SdoServer::new(self.timing.mtu, timeout_ns);
        self.polls
            .resize_with(self.nodes.len(), PreparedPoll::default);
        Ok(())
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

    /// Returns the state of each controlled node.
    pub fn nodes(&self) -> impl Iterator<Item = NodeStatus> {
        self.nodes.iter().map(Cn::status)
    }

    /// Returns the objects.
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

    /// Returns the process image, to write outputs. All requests of the next cycle carry them.
    pub const fn image_mut(&mut self) -> &mut ProcessImage {
        &mut self.image
    }

    /// Notes the application's turn. `cycle` is the one whose inputs it has seen for its outputs, by [`Statistics::cycles`]. Behind
    /// a stall longer than the watchdog, requests are valid (RD = 1) only from the cycle behind such a turn on. An application that
    /// never calls it is taken to have its turn in each cycle. May be called in a real-time loop.
    pub const fn commit_of(&mut self, cycle: u64) {
        self.freshness.commit(cycle);
    }

    /// Returns the length of a cycle, ns.
    #[must_use]
    pub const fn cycle_ns(&self) -> u64 {
        self.timing.cycle_ns
    }

    /// Returns the time of the next SoC, ns.
    #[must_use]
    pub const fn next_soc_ns(&self) -> u64 {
        self.next_soc_ns
    }

    /// Queues an ordinary Ethernet frame for the asynchronous phase. Returns true where there was room.
    pub fn send_ethernet(&mut self, frame: &[u8]) -> bool {
        frame.len() <= FRAME_OCTETS && self.generic.push(frame)
    }

    /// Begins a job of service data with a node. Returns the number that its event will have; `None` where the node is not
    /// configured.
    pub fn submit(&mut self, now_ns: u64, node: u8, job: SdoJob) -> Option<u32> {
        let cn = self.cn_mut(node)?;
        Some(cn.client.submit(now_ns, job))
    }

    /// Sends an NMT command to a node ([`number::BROADCAST`] for all). The node's expected state follows resets, stops and
    /// starts. A [published](Self::publish) list goes to all.
    pub fn nmt(&mut self, now_ns: u64, command: NmtCommandId, node: u8) {
        if !self.publish(command) {
            self.command(now_ns, command, node, &[]);
        }
    }

    /// Lets the node go on to PreOperational2, ReadyToOperate and Operational, where object 1F80h makes it wait for the
    /// application.
    pub const fn release(&mut self) {
        self.released = true;
    }

    fn cn(&self, node: u8) -> Option<&Cn> {
        let place = (*self.places.get(usize::from(node))?)?;
        self.nodes.get(usize::from(place))
    }

    fn cn_mut(&mut self, node: u8) -> Option<&mut Cn> {
        let place = (*self.places.get(usize::from(node))?)?;
        self.nodes.get_mut(usize::from(place))
    }
}

impl Node for ManagingNode {
    fn start(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.begin(now_ns);
        self.disarm_if_over(outbox);
    }

    fn frame(&mut self, now_ns: u64, frame: &[u8], outbox: &mut dyn Outbox) {
        self.receive(now_ns, frame, outbox);
        self.disarm_if_over(outbox);
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.time(now_ns, outbox);
        self.disarm_if_over(outbox);
    }

    fn settle(&mut self, outbox: &mut dyn Outbox) {
        self.disarm_if_over(outbox);
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.phase_deadline_ns()
    }

    fn sending_took(&mut self, took_ns: u64) {
        self.stalled_in_sending(took_ns);
    }
}

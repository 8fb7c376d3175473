//! A station that runs.

use crate::configure;
use crate::error::StationError;
use crate::ethernet::Ethernet;
use crate::handle::{self, Handle, Inner, Request, SdoReply};
use crate::project::Project;
use crate::status::{StationStatus, words};
use core::ops::Range;
use rtwire_link::powerlink::{DriverConfig, Role, StationPort};
use rtwire_link::run::{Port as _, PortConfig, RealTime, RunConfig, RunStatistics, Runner};
use rtwire_powerlink::{ControlledNode, Event, LostReason, ManagingNode, NodeEvent, ProcessImage};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::interface;
use rtwire_sys::sched::AwakeProcessors;
use rtwire_wire::powerlink::{NmtState, multicast};
use rtwire_wire::{EtherType, MacAddress, Node, Outbox};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events that are kept for whoever asks.
const EVENTS: usize = 20;

#[derive(Debug)]
enum Kind {
    Managing(Box<ManagingNode>),
    Controlled(Box<ControlledNode>),
}

/// A managing or controlled node on an interface.
#[derive(Debug)]
pub struct Station {
    kind: Kind,
    runner: Runner<StationPort>,
    real_time: RealTime,
    said: String,
    names: Vec<(u8, String)>,
    interface: String,
    handle: Handle,
    inner: Option<Inner>,
    ethernet: Option<Ethernet>,
    points: Vec<(Key, Range<usize>)>,
}

/// What a point stands for, so that it is found again where the image is laid out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    node: u8,
    index: u16,
    subindex: u8,
    output: bool,
}

/// One object in the process image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(usize);

impl Kind {
    fn image(&self) -> &ProcessImage {
        match self {
            Self::Managing(node) => node.image(),
            Self::Controlled(node) => node.image(),
        }
    }

    fn image_mut(&mut self) -> &mut ProcessImage {
        match self {
            Self::Managing(node) => node.image_mut(),
            Self::Controlled(node) => node.image_mut(),
        }
    }

    fn commit(&mut self) {
        match self {
            Self::Managing(node) => node.commit(),
            Self::Controlled(node) => node.commit(),
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        match self {
            Self::Managing(node) => node.next_event(),
            Self::Controlled(node) => node.next_event(),
        }
    }

    fn cycles(&self) -> u64 {
        match self {
            Self::Managing(node) => node.statistics().cycles,
            Self::Controlled(node) => node.statistics().cycles,
        }
    }

    fn send_ethernet(&mut self, frame: &[u8]) -> bool {
        match self {
            Self::Managing(node) => node.send_ethernet(frame),
            Self::Controlled(node) => node.send_ethernet(frame),
        }
    }

    fn find(&self, key: Key) -> Option<Range<usize>> {
        let image = self.image();
        let channels = if key.output {
            &image.transmit
        } else {
            &image.receive
        };
        // Of a controlled node's own PDOs there is one kind each; their node is 0.
        let of_node = matches!(self, Self::Managing(_));
        channels
            .iter()
            .filter(|channel| !of_node || channel.node == key.node)
            .find_map(|channel| {
                let same = |m: &&rtwire_powerlink::pdo::Mapped| {
                    (m.index, m.subindex) == (key.index, key.subindex)
                };
                let mapped = channel.mapped.iter().find(same)?;
                let begin = channel.at + mapped.offset_octets;
                Some(begin..begin + mapped.octets)
            })
    }
}

impl Node for Kind {
    fn start(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        match self {
            Self::Managing(node) => node.start(now_ns, outbox),
            Self::Controlled(node) => node.start(now_ns, outbox),
        }
    }

    fn frame(&mut self, now_ns: u64, frame: &[u8], outbox: &mut dyn Outbox) {
        match self {
            Self::Managing(node) => node.frame(now_ns, frame, outbox),
            Self::Controlled(node) => node.frame(now_ns, frame, outbox),
        }
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        match self {
            Self::Managing(node) => node.moment(now_ns, outbox),
            Self::Controlled(node) => node.moment(now_ns, outbox),
        }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        match self {
            Self::Managing(node) => node.wake_at_ns(),
            Self::Controlled(node) => node.wake_at_ns(),
        }
    }
}

/// The process image of one cycle, as the control loop sees it.
#[derive(Debug)]
pub struct Io<'a> {
    image: &'a mut ProcessImage,
    points: &'a [(Key, Range<usize>)],
    /// The cycle's number since the station began.
    pub cycle: u64,
    /// When the loop was called, ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
}

impl Io<'_> {
    /// The value of a point, inputs and outputs alike; little-endian, without sign.
    #[must_use]
    pub fn get(&self, point: Point) -> u64 {
        let Some((key, range)) = self.points.get(point.0) else {
            return 0;
        };
        let from = if key.output {
            &self.image.outputs
        } else {
            &self.image.inputs
        };
        let mut wide = [0; 8];
        if let Some(octets) = from.get(range.clone()).filter(|octets| octets.len() <= 8) {
            wide[..octets.len()].copy_from_slice(octets);
        }
        u64::from_le_bytes(wide)
    }

    /// Sets an output, to be sent in the next cycle; nothing happens with an input.
    pub fn set(&mut self, point: Point, value: u64) {
        let Some((key, range)) = self.points.get(point.0) else {
            return;
        };
        if let Some(octets) = self.image.outputs.get_mut(range.clone()) {
            if key.output && octets.len() <= 8 {
                let length = octets.len();
                octets.copy_from_slice(&value.to_le_bytes()[..length]);
            }
        }
    }

    /// The whole process image.
    #[must_use]
    pub fn image(&mut self) -> &mut ProcessImage {
        self.image
    }
}

impl Station {
    /// Opens the managing node that a project describes.
    ///
    /// # Errors
    /// The project describes a controlled node or does not fit; no such interface; no privilege.
    pub fn managing(project: &Project) -> Result<Self, StationError> {
        if project.node != rtwire_wire::powerlink::node::MN {
            return Err(StationError::Role {
                path: project.path.clone(),
                found: "a controlled node",
                wanted: "a managing node",
                help: "start it with `rtwire powerlink cn`, or set `node = 240`",
            });
        }
        let address = MacAddress(interface::by_name(&project.interface)?.mac);
        let offset_ns =
            clock::now_ns(Clock::Realtime) as i64 - clock::now_ns(Clock::Monotonic) as i64;
        let config = configure::managing(project, address, offset_ns)?;
        let wanted: Vec<u8> = (1..=239)
            .filter(|node| config.dictionary.number(0x1f81, *node) & 1 != 0)
            .collect();
        let rounds = config.dictionary.number(0x1f98, 7).max(1) as usize;
        let node = ManagingNode::new(config).map_err(|source| StationError::Configuration {
            path: project.path.clone(),
            source,
        })?;
        Self::open(
            project,
            Kind::Managing(Box::new(node)),
            Role::Managing,
            wanted,
            rounds,
        )
    }

    /// Opens the controlled node that a project describes.
    ///
    /// # Errors
    /// The project describes a managing node or does not fit; no such interface; no privilege.
    pub fn controlled(project: &Project) -> Result<Self, StationError> {
        if project.node == rtwire_wire::powerlink::node::MN {
            return Err(StationError::Role {
                path: project.path.clone(),
                found: "a managing node",
                wanted: "a controlled node",
                help: "start it with `rtwire powerlink mn`, or set `node` to 1 to 239",
            });
        }
        let address = MacAddress(interface::by_name(&project.interface)?.mac);
        let config = configure::controlled(project, address)?;
        let node = ControlledNode::new(config).map_err(|source| StationError::Configuration {
            path: project.path.clone(),
            source,
        })?;
        let mut wanted: Vec<u8> = node.image().receive.iter().map(|c| c.node).collect();
        wanted.push(rtwire_wire::powerlink::node::MN);
        Self::open(
            project,
            Kind::Controlled(Box::new(node)),
            Role::Controlled,
            wanted,
            1,
        )
    }

    fn open(
        project: &Project,
        kind: Kind,
        role: Role,
        wanted: Vec<u8>,
        rounds: usize,
    ) -> Result<Self, StationError> {
        let groups = vec![
            multicast::SOC,
            multicast::PRES,
            multicast::SOA,
            multicast::ASND,
        ];
        let port = PortConfig {
            groups,
            ..PortConfig::new(&project.interface, EtherType::POWERLINK.0)
        };
        let config = DriverConfig {
            wanted: Some(wanted),
            multiplex_cycles: rounds,
            most_polls: 240,
            ..DriverConfig::new(port, role, project.node)
        };
        let (port, said) = StationPort::open(&config, project.station_path)?;
        let ethernet = match project.ethernet {
            Some(address) => Some(Ethernet::open(
                &project.interface,
                &project.ethernet_device,
                port.interface().mac,
                address,
            )?),
            None => None,
        };
        let (handle, inner) = handle::pair();
        let run = RunConfig {
            spin_ns: project.spin_ns,
            linger_ns: project.linger_ns,
            queue_frames: 300,
        };
        Ok(Self {
            kind,
            runner: Runner::new(port, &run),
            real_time: RealTime {
                fifo_priority: project.priority,
                cpu: project.cpu,
            },
            said,
            names: project
                .nodes
                .iter()
                .map(|node| (node.number, node.name.clone()))
                .collect(),
            interface: project.interface.clone(),
            handle,
            inner: Some(inner),
            ethernet,
            points: Vec::new(),
        })
    }

    /// Where the isochronous phase runs, in words.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.said
    }

    /// What other threads reach the station by, once it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// What the loop has done so far.
    #[must_use]
    pub fn run_statistics(&self) -> RunStatistics {
        self.runner.statistics()
    }

    /// An object that `node` sends (at a managing node), or that this controlled node receives; `node` does not matter there.
    ///
    /// # Errors
    /// No such object is in the process image.
    pub fn input(&mut self, node: u8, index: u16, subindex: u8) -> Result<Point, StationError> {
        self.point(node, index, subindex, false)
    }

    /// An object that is sent to `node` (at a managing node), or that this controlled node sends.
    ///
    /// # Errors
    /// No such object is in the process image.
    pub fn output(&mut self, node: u8, index: u16, subindex: u8) -> Result<Point, StationError> {
        self.point(node, index, subindex, true)
    }

    fn point(
        &mut self,
        node: u8,
        index: u16,
        subindex: u8,
        output: bool,
    ) -> Result<Point, StationError> {
        let key = Key {
            node,
            index,
            subindex,
            output,
        };
        let Some(range) = self.kind.find(key) else {
            let image = self.kind.image();
            let channels = if output {
                &image.transmit
            } else {
                &image.receive
            };
            let there: Vec<String> = channels
                .iter()
                .flat_map(|c| c.mapped.iter().map(|m| (c.node, m.index, m.subindex)))
                .take(12)
                .map(|(node, index, subindex)| format!("{index:04X}h/{subindex} of node {node}"))
                .collect();
            return Err(StationError::NoObject {
                node,
                index,
                subindex,
                direction: if output { "output" } else { "input" },
                there: if there.is_empty() {
                    "nothing".to_owned()
                } else {
                    there.join(", ")
                },
            });
        };
        self.points.push((key, range));
        Ok(Point(self.points.len() - 1))
    }

    /// Runs the station on the calling thread until `stop` is set; `control` is called once a cycle, and is part of the
    /// real-time loop. The thread becomes what the project says (SCHED_FIFO, core), and the processors are kept awake.
    ///
    /// # Errors
    /// The thread may not become real-time; the interface is gone.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        mut control: impl FnMut(&mut Io<'_>),
    ) -> Result<(), StationError> {
        // Not everywhere there is such a device; then processors sleep as they like.
        let _awake = AwakeProcessors::hold(0).ok();
        let Some(inner) = self.inner.take() else {
            return Ok(());
        };
        self.real_time.apply()?;
        let mut work = Work {
            inner,
            cycles: 0,
            pres_generation: 0,
            events: VecDeque::with_capacity(EVENTS),
            status: StationStatus::base(&self.interface, &self.said),
            names: &self.names,
            points: &mut self.points,
            ethernet: self.ethernet.as_mut(),
            times_lost: Box::new([0; 256]),
        };
        let ended = self
            .runner
            .run_with(&mut self.kind, stop, |kind, port, run, now_ns| {
                work.after(kind, port, run, now_ns, &mut control);
            });
        self.inner = Some(work.inner);
        ended.map_err(StationError::from)
    }
}

/// What is done after each call of the node.
struct Work<'a> {
    inner: Inner,
    cycles: u64,
    pres_generation: u64,
    events: VecDeque<String>,
    status: StationStatus,
    names: &'a [(u8, String)],
    points: &'a mut Vec<(Key, Range<usize>)>,
    ethernet: Option<&'a mut Ethernet>,
    /// How often each node was taken for lost.
    times_lost: Box<[u64; 256]>,
}

impl Work<'_> {
    fn after(
        &mut self,
        kind: &mut Kind,
        port: &mut StationPort,
        run: &RunStatistics,
        now_ns: u64,
        control: &mut impl FnMut(&mut Io<'_>),
    ) {
        while let Some(event) = kind.next_event() {
            self.event(kind, event);
        }
        let cycles = kind.cycles();
        if cycles != self.cycles {
            self.cycles = cycles;
            control(&mut Io {
                image: kind.image_mut(),
                points: self.points,
                cycle: cycles,
                now_ns,
            });
            kind.commit();
            self.requests(kind, now_ns);
            if let Some(ethernet) = &mut self.ethernet {
                ethernet.hand_over(|frame| kind.send_ethernet(frame));
            }
        } else if !matches!(kind, Kind::Managing(node) if node.statistics().cycles > 0) {
            // Before there is a cycle, or where it has stopped, requests are taken all the same.
            self.requests(kind, now_ns);
        }
        self.basic_ethernet(kind, port);
        if let (Kind::Controlled(node), Some(driver)) = (&*kind, port.driver_mut()) {
            let generation = node.pres_generation();
            if generation != self.pres_generation {
                self.pres_generation = generation;
                driver.respond_with(node.prepared_pres());
            }
        }
        if self.inner.wanted.swap(false, Ordering::Relaxed) {
            self.tell(kind, port, run);
        }
    }

    /// In BasicEthernet nobody shares out the medium: ordinary frames leave at once.
    fn basic_ethernet(&mut self, kind: &Kind, port: &mut StationPort) {
        let (Kind::Controlled(node), Some(ethernet)) = (kind, &mut self.ethernet) else {
            return;
        };
        if node.state() == NmtState::BASIC_ETHERNET {
            // A frame that the interface does not take is lost, as on any Ethernet.
            ethernet.hand_over(|frame| {
                let _ = port.send(frame);
                true
            });
        }
    }

    fn event(&mut self, kind: &Kind, event: Event) {
        match event {
            Event::State { from, .. } if from == NmtState::OPERATIONAL => {
                self.status.left_operational += 1;
            }
            Event::Node {
                node,
                what: NodeEvent::Lost(reason),
            } if reason != LostReason::Reset => self.times_lost[usize::from(node)] += 1,
            Event::Image => {
                for (key, range) in self.points.iter_mut() {
                    *range = kind.find(*key).unwrap_or(0..0);
                }
            }
            Event::Sdo { outcome, .. } => {
                let _ = self.inner.outcomes.try_send(SdoReply::Outcome(outcome));
                return;
            }
            _ => {}
        }
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(words(&event));
    }

    fn requests(&mut self, kind: &mut Kind, now_ns: u64) {
        while let Ok(request) = self.inner.requests.try_recv() {
            match (&mut *kind, request) {
                (Kind::Controlled(node), Request::Nmt(command, target)) => {
                    // Where there is no room, many have been asked for already.
                    let _ = node.request_command(command, target, &[]);
                }
                (Kind::Controlled(_), Request::Sdo(..)) => {
                    let _ = self.inner.outcomes.try_send(SdoReply::NotManaging);
                }
                (Kind::Managing(node), Request::Nmt(command, target)) => {
                    node.nmt(now_ns, command, target);
                }
                (Kind::Managing(node), Request::Sdo(target, job)) => {
                    if node.submit(now_ns, target, job).is_none() {
                        let _ = self.inner.outcomes.try_send(SdoReply::NoSuchNode);
                    }
                }
            }
        }
    }

    /// Only where somebody asks: this allocates.
    #[cold]
    fn tell(&mut self, kind: &Kind, port: &StationPort, run: &RunStatistics) {
        let mut status = self.status.clone();
        match kind {
            Kind::Managing(node) => status.take_managing(node, self.names, &self.times_lost),
            Kind::Controlled(node) => status.take_controlled(node),
        }
        status.take_run(run, port.driver().map(|driver| driver.counters()));
        status.events = self.events.iter().cloned().collect();
        let _ = self.inner.states.try_send(status);
    }
}

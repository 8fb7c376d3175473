//! A station that runs.

use crate::configure;
use crate::datagrams::Datagrams;
use crate::driver::{DriverConfig, Role, StationPath, StationPort};
use crate::error::StationError;
use crate::ethernet::Ethernet;
use crate::handle::{self, Handle, Inner};
use crate::io::{Io, Point, octets_of};
use crate::kind::{Key, Kind};
use crate::launch::{self, Over, SocWay};
use crate::project::Project;
use crate::running::RunningStation;
use crate::snapshot::Texts;
use crate::store::{Store, restore};
use crate::watch::{self, Watch};
use crate::work::{Beside, Work};
use core::ops::Range;
use rtwire_link::TxStamps;
use rtwire_link::run::{PortConfig, RealTime, RunConfig, RunStatistics, Runner};
use rtwire_powerlink::{ControlledNode, ManagingNode};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::interface;
use rtwire_sys::sched::AwakeProcessors;
use rtwire_wire::powerlink::multicast;
use rtwire_wire::{EtherType, MacAddress};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

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
    datagrams: Option<Datagrams>,
    /// The launch queue's reports on SoC.
    reports: Option<TxStamps>,
    watch: Option<Watch>,
    store: Option<Store>,
    points: Vec<(Key, Range<usize>)>,
}

/// Returns the address that the station's frames have.
fn address_of(project: &Project) -> Result<MacAddress, StationError> {
    let interface = match project.station_path {
        StationPath::Uman => rtwire_link::uman::device_of(&project.interface)?,
        _ => interface::by_name(&project.interface)?,
    };
    Ok(MacAddress(interface.mac))
}

impl Station {
    /// Opens the managing node that a project describes.
    ///
    /// # Errors
    /// The project describes a controlled node or does not fit; the interface or a privilege is missing.
    pub fn managing(project: &Project) -> Result<Self, StationError> {
        if project.node != rtwire_wire::powerlink::node::MN {
            return Err(StationError::Role {
                path: project.path.clone(),
                found: "a controlled node",
                wanted: "a managing node",
                help: "start it with `rtwire powerlink cn`, or set `node = 240`",
            });
        }
        let address = address_of(project)?;
        let offset_ns =
            clock::now_ns(Clock::Realtime) as i64 - clock::now_ns(Clock::Monotonic) as i64;
        let mut config = configure::managing(project, address, offset_ns)?;
        let cycle_ns = config.dictionary.number(0x1006, 0) * 1_000;
        let soc = launch::way(project, cycle_ns)?;
        if let Some(launches) = &soc.launches {
            config.lead_ns = launches.window().earliest_ns;
        } else if let Some(window) = soc.by_module {
            config.lead_ns = window.earliest_ns;
        }
        let wanted: Vec<u8> = (1..=239)
            .filter(|node| config.dictionary.number(0x1f81, *node) & 1 != 0)
            .collect();
        let node = ManagingNode::new(config).map_err(|source| StationError::Configuration {
            path: project.path.clone(),
            source,
        })?;
        Self::open(
            project,
            Kind::Managing(Box::new(node)),
            Role::Managing,
            wanted,
            cycle_ns,
            Some(soc),
        )
    }

    /// Opens the controlled node that a project describes.
    ///
    /// # Errors
    /// The project describes a managing node or does not fit; the interface or a privilege is missing.
    pub fn controlled(project: &Project) -> Result<Self, StationError> {
        if project.node == rtwire_wire::powerlink::node::MN {
            return Err(StationError::Role {
                path: project.path.clone(),
                found: "a managing node",
                wanted: "a controlled node",
                help: "start it with `rtwire powerlink mn`, or set `node` to 1 to 239",
            });
        }
        let address = address_of(project)?;
        let config = configure::controlled(project, address)?;
        let cycle_ns = config.dictionary.number(0x1006, 0) * 1_000;
        let mut node =
            ControlledNode::new(config).map_err(|source| StationError::Configuration {
                path: project.path.clone(),
                source,
            })?;
        let stored = project.parameters.as_deref();
        let stored = stored.map(|path| (path, restore(&mut node, path)));
        let mut wanted: Vec<u8> = node.image().receive.iter().map(|c| c.node).collect();
        wanted.push(rtwire_wire::powerlink::node::MN);
        let mut station = Self::open(
            project,
            Kind::Controlled(Box::new(node)),
            Role::Controlled,
            wanted,
            cycle_ns,
            None,
        )?;
        if let Some((path, restored)) = stored {
            station.said = format!("{}; {restored}", station.said);
            let opened = Store::open(path);
            station.store = Some(opened.map_err(|source| StationError::Thread { source })?);
        }
        Ok(station)
    }

    fn open(
        project: &Project,
        kind: Kind,
        role: Role,
        wanted: Vec<u8>,
        cycle_ns: u64,
        soc: Option<SocWay>,
    ) -> Result<Self, StationError> {
        let groups = vec![
            multicast::SOC,
            multicast::PRES,
            multicast::SOA,
            multicast::ASND,
        ];
        let port = PortConfig {
            groups,
            // An ordinary frame ends the asynchronous slot of the node that was invited.
            all_types: role == Role::Managing && project.ethernet.is_some(),
            ..PortConfig::new(&project.interface, EtherType::POWERLINK.0)
        };
        let watchdog_cycles = project.watchdog_cycles(cycle_ns);
        let config = DriverConfig {
            wanted: Some(wanted),
            most_requests: 240,
            watchdog_cycles,
            chain_ns: DriverConfig::chain_of(cycle_ns, watchdog_cycles),
            ..DriverConfig::new(port, role, project.node)
        };
        let (mut port, mut said) = StationPort::open(&config, project.station_path)?;
        let least_ms = project.limits().watchdog_least_ns / 1_000_000;
        let mut reports = None;
        if let Some(soc) = soc {
            said = format!("{said}; {}", soc.said);
            if let Some(window) = soc.by_module {
                port.keep_by_module(cycle_ns, window);
            }
            if let Some(mut launches) = soc.launches {
                reports = launches.take_reports()?;
                port.launch_by(launches);
            }
        }
        said = match role {
            // Its managing node may write another cycle time.
            Role::Controlled if least_ms > 0 => {
                let cycles = project.limits().watchdog_cycles;
                format!("{said}; watchdog {cycles} cycles, {least_ms} ms at least")
            }
            _ => format!("{said}; watchdog {watchdog_cycles} cycles"),
        };
        let ethernet = match project.ethernet {
            Some(address) => Some(Ethernet::open(
                &project.interface,
                &project.ethernet_device,
                port.interface().mac,
                address,
            )?),
            None => None,
        };
        // Its own service data go by UDP, too, where there is an address to reach it at.
        let datagrams = match project.ethernet {
            Some((address, _)) => Some(Datagrams::open(address)?),
            None => None,
        };
        let interface = port.interface();
        let watch = Watch::open(Path::new(watch::KERNEL), &interface.name, interface.index)
            .map_err(|source| StationError::Thread { source })?;
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
            datagrams,
            reports,
            watch,
            store: None,
            points: Vec::new(),
        })
    }

    /// Returns the path of the isochronous phase in words, and how a managing node's SoC leave.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.said
    }

    /// Returns a handle by which other threads reach the running station.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the loop's counters.
    #[must_use]
    pub fn run_statistics(&self) -> RunStatistics {
        self.runner.statistics()
    }

    /// Finds an input: an object that `node` sends to this managing node, or that this controlled node receives (`node` does not
    /// matter then).
    ///
    /// # Errors
    /// The process image has no such object.
    pub fn input(&mut self, node: u8, index: u16, subindex: u8) -> Result<Point, StationError> {
        self.point(node, index, subindex, false)
    }

    /// Finds an output: an object that this managing node sends to `node`, or that this controlled node sends.
    ///
    /// # Errors
    /// The process image has no such object.
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

    /// Reads the kernel's counters of the interface from `folder` instead of `/sys/class/net`. Needed where `/sys` is that of
    /// another network namespace.
    ///
    /// # Errors
    /// The thread that reads them was not started.
    pub fn set_statistics_folder(&mut self, folder: &Path) -> Result<(), StationError> {
        let interface = self.runner.port().interface();
        self.watch = Watch::open(folder, &interface.name, interface.index)
            .map_err(|source| StationError::Thread { source })?;
        Ok(())
    }

    /// Runs the station on a thread of its own, with the project's priority (SCHED_FIFO) and core. The program then waits for
    /// its cycles. Find inputs and outputs before.
    ///
    /// # Errors
    /// The thread was not started. An error that ends the loop is returned by the next wait.
    pub fn start(self) -> Result<RunningStation, StationError> {
        RunningStation::start(self)
    }

    /// Returns the points, each with true for an output, and its bytes.
    pub(crate) fn values(&self) -> impl Iterator<Item = (bool, &[u8])> {
        let image = self.kind.image();
        let points = self.points.iter();
        points.map(|place| (place.0.output, octets_of(image, place)))
    }

    /// Runs the station on the calling thread until `stop` is set. `control` is called once a cycle and is part of the real-time
    /// loop. The thread gets the project's priority (SCHED_FIFO) and core; the processors are kept awake.
    ///
    /// # Errors
    /// The privilege for real-time priority is missing; the interface is gone.
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
        let (over, dropped) = (&AtomicBool::new(false), &AtomicU64::new(0));
        let reports = self.reports.as_mut();
        let ended = thread::scope(|scope| {
            let _over = Over(over);
            let launched = reports.is_some() || self.runner.port().soc_lost().is_some();
            if let Some(reports) = reports {
                // Before this thread becomes real-time: what it starts later would be so, too.
                scope.spawn(move || launch::count_dropped(reports, dropped, over));
            }
            self.real_time.apply()?;
            let mut work = Work::new(
                inner,
                Texts {
                    interface: self.interface.clone(),
                    path: self.said.clone(),
                    names: self.names.clone(),
                },
                &mut self.points,
                Beside {
                    ethernet: self.ethernet.as_mut(),
                    datagrams: self.datagrams.as_mut(),
                    watch: self.watch.as_mut(),
                    store: self.store.as_mut(),
                },
            );
            if launched {
                work.launches(dropped);
            }
            let ended = self
                .runner
                .run_with(&mut self.kind, stop, |kind, port, run, now_ns| {
                    work.after(kind, port, run, now_ns, &mut control);
                });
            self.inner = Some(work.inner);
            ended
        });
        ended.map_err(StationError::from)
    }
}

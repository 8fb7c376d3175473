//! The network as data: the content of a description that has been checked.
//!
//! Every value from [`crate::read`] is final and consistent: names resolve, routes exist, quantities are in range.

mod check;
mod classes;
mod contract;
mod cut_through;
mod cyclic;
mod latency;
mod meters;
mod preemption;
mod routers;
mod ways;

pub use classes::{PriorityMap, class_by, class_of, fitting, recommended, reserved};
pub use contract::{Contract, ContractKind};
pub use cut_through::CutThrough;
pub use cyclic::{CyclicFault, CyclicSubject};
pub use latency::{LatencyLimits, LatencyRange, PortLatency, SwitchPort};
pub use meters::{FlowMeters, MeterFault, SMALLEST_FRAME_BYTES};
pub use preemption::{PortPreemption, Preemption, PreemptionFault};
pub(crate) use routers::kept;
pub use routers::{LARGEST_DSCP, Marks, Routers, Routing};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hash::Fingerprint;
use crate::profile::{GateProfile, ScheduleRules};
use crate::ratio::{Overflow, Ratio};

/// A checked network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// The purpose of the network.
    pub description: Option<String>,
    /// Fingerprint of the description, of `--set`, and of latencies set later.
    pub input_hash: String,
    /// The end points. They forward nothing.
    pub hosts: Vec<Host>,
    /// The switches, and the routers behind them.
    pub switches: Vec<Switch>,
    /// The cables.
    pub links: Vec<Link>,
    /// The streams with a contract.
    pub streams: Vec<Stream>,
    /// Traffic without a promise, but with a limit.
    pub best_effort: Vec<BestEffort>,
    /// The values used where the description states none.
    pub defaults: Defaults,
    /// Latencies of single ports, which replace the latency of their node.
    pub port_latencies: Vec<PortLatency>,
    /// Shapers of single classes at ports.
    #[serde(default)]
    pub shapers: Vec<PortShaper>,
    /// The rules for scheduling time-triggered streams.
    #[serde(default)]
    pub schedule: ScheduleRules,
    /// The host on which the manager of connections runs, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager_host: Option<String>,
    /// Long transfers by TCP that share what is free.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Transfer>,
}

/// The values of `[defaults]`, after `--set`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Shaping interval T_s, nanoseconds.
    pub shaping_interval_ns: u64,
    /// Tick error J, nanoseconds.
    pub tick_error_ns: u64,
    /// Bytes that a frame costs on the wire in addition to header and payload.
    pub frame_overhead_bytes: u64,
    /// Rate of links that state none, bit/s.
    pub link_rate_bps: Option<u64>,
    /// The largest difference between a clock and the network's time, nanoseconds.
    #[serde(default)]
    pub clock_error_ns: u64,
    /// The largest excess of a talker's clock rate, parts per 10^9.
    #[serde(default)]
    pub clock_drift_ppb: u64,
}

/// An end point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Queues of its interface (strict priority), 1 to 8.
    pub queues: u8,
    /// The queue of each priority, where it is not `floor(priority queues / 8)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_map: Option<PriorityMap>,
    /// The largest delay of its sending, nanoseconds.
    pub latency_ns: u64,
    /// The gates of its interface, if it has gates.
    #[serde(default)]
    pub gates: Option<GateProfile>,
    /// The frame preemption of its interface, if it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
}

/// A store-and-forward switch, or a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// The largest latency t_mux of a frame: from its last bit on the input to its queue, nanoseconds.
    pub latency_ns: u64,
    /// The least latency of a frame, nanoseconds. Each frame has its own latency in between.
    #[serde(default)]
    pub latency_min_ns: u64,
    /// The memory in which frames wait.
    pub buffer: Buffer,
    /// Queues of each port (strict priority), 1 to 8; 1 is FIFO.
    pub queues: u8,
    /// The queue of each priority, where it is not `floor(priority queues / 8)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_map: Option<PriorityMap>,
    /// The gates of its ports, if it has gates.
    #[serde(default)]
    pub gates: Option<GateProfile>,
    /// True if its ports forward a frame before its end has come, or may do so.
    #[serde(default, skip_serializing_if = "CutThrough::is_off")]
    pub cut_through: CutThrough,
    /// The frame preemption of its ports, if it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
    /// The flow meters at its ports towards hosts, if it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_meters: Option<FlowMeters>,
    /// Values of single ports and inputs, in place of the switch's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<SwitchPort>,
    /// Its tables, if it is a router: the priority of each frame follows from the type of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
}

/// Memory for waiting frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Its size in bytes.
    pub bytes: u64,
    /// The largest number of frames, however small they are. Set if the size is stated as `n x size`.
    pub frames: Option<u64>,
    /// True if all ports of the switch share one pool; else each port has this size.
    pub shared: bool,
    /// The moment at which a frame's memory is free again.
    #[serde(default)]
    pub release: Release,
}

/// The moment at which the memory of a frame that is being sent is free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// All of it with the frame's last bit.
    #[default]
    Frame,
    /// Each bit as it leaves.
    Bit,
}

/// A shaper of one class, at one port or at all ports of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortShaper {
    /// The node that sends.
    pub node: String,
    /// The neighbour whose port is shaped; all ports if absent.
    pub to: Option<String>,
    /// A priority that belongs to the class.
    pub pcp: u8,
    /// The kind of shaper.
    pub kind: ShaperKind,
}

/// The kind of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ShaperKind {
    /// Credit-based (802.1Qav).
    Credit {
        /// Rate of the class on the wire, bit/s.
        idle_slope: Ratio,
    },
    /// A regulator for each input and class (802.1Qcr).
    Asynchronous,
}

/// A full-duplex cable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two nodes that it joins.
    pub ends: [String; 2],
    /// Its rate in each direction, bit/s.
    pub rate_bps: u64,
    /// Its propagation delay, nanoseconds.
    pub cable_delay_ns: u64,
}

/// The way in which a listener takes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Semantics {
    /// Every frame, in order.
    Queue,
    /// The newest value only.
    Newest,
}

/// The protocol that carries a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// RTDiP directly on Ethernet.
    Rtdip,
    /// RTDiP in UDP and IPv4.
    Udp,
}

impl Transport {
    /// Returns the bytes of a frame that are not user data: Ethernet header, VLAN tag, the transport's headers, RTDiP
    /// header with its timestamp.
    #[must_use]
    pub const fn header_bytes(self, tagged: bool) -> u64 {
        let ethernet = 14 + if tagged { 4 } else { 0 };
        let rtdip = 16 + 8;
        ethernet
            + rtdip
            + match self {
                Transport::Rtdip => 0,
                Transport::Udp => 20 + 8,
            }
    }
}

/// A stream with a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The host that sends.
    pub talker: String,
    /// Index of the talker in [`Network::hosts`].
    pub talker_index: usize,
    /// The hosts that receive.
    pub listeners: Vec<String>,
    /// Indices of the listeners in [`Network::hosts`].
    pub listener_indices: Vec<usize>,
    /// Header and payload without FCS, bytes.
    pub frame_bytes: u64,
    /// The user data that fits a frame, bytes.
    pub payload_bytes: u64,
    /// The frame's size on the wire, bytes: `frame_bytes` + frame overhead.
    pub wire_bytes: u64,
    /// The arrival contract that the talker keeps.
    pub contract: Contract,
    /// True if the talker shapes the stream.
    pub shaped: bool,
    /// Priority code point, 0 to 7, 7 most urgent: that of its talker, and up to the first router.
    pub pcp: u8,
    /// Differentiated services code point, 0 to 63, if it is stated (see [`Stream::marks`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Latest useful delay, nanoseconds.
    pub deadline_ns: Option<u64>,
    /// Highest delay in published measurements of this experiment, nanoseconds. Nothing is computed from it.
    pub published_delay_ns: Option<u64>,
    /// The way in which listeners take values.
    pub semantics: Semantics,
    /// The protocol that carries it.
    pub transport: Transport,
    /// Destination port; 0 if the description states none and the network has not been planned yet.
    pub port: u16,
    /// VLAN id, if its frames carry a tag.
    pub vlan: Option<u16>,
    /// The nodes from talker to listener, for each listener.
    pub routes: Vec<Vec<String>>,
    /// Its smallest frame if sizes vary: header and payload without FCS, bytes.
    #[serde(default)]
    pub smallest_frame_bytes: Option<u64>,
    /// True if it is launched at an offset and passes through windows of its own.
    #[serde(default)]
    pub time_triggered: bool,
    /// True if switches forward it by cyclic queueing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cyclic: bool,
    /// Largest useful difference between the delays of its frames, nanoseconds.
    #[serde(default)]
    pub jitter_ns: Option<u64>,
    /// For the second copy of a redundant stream: the stream whose frames it repeats. Its route shares no link between
    /// switches with that stream's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
}

impl Stream {
    /// Returns the stream's name in the file. Both copies of a redundant stream have the same one.
    #[must_use]
    pub fn stated_name(&self) -> &str {
        self.copy_of.as_ref().unwrap_or(&self.name)
    }

    /// Returns the frame's size on the wire, bits.
    #[must_use]
    pub fn wire_bits(&self) -> Ratio {
        Ratio::whole(i128::from(self.wire_bytes) * 8)
    }

    /// Returns the smallest frame's size on the wire, bits.
    #[must_use]
    pub fn smallest_wire_bits(&self) -> Ratio {
        let overhead = self.wire_bytes.saturating_sub(self.frame_bytes);
        let smallest = self.smallest_frame_bytes.unwrap_or(self.frame_bytes);
        Ratio::whole(i128::from(smallest + overhead) * 8)
    }

    /// Computes the contract again with another shaping interval, nanoseconds.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn set_shaping_interval(&mut self, shaping_interval_ns: u64) -> Result<(), Overflow> {
        let old = &self.contract;
        self.contract = Contract::new(
            old.rate,
            self.wire_bytes,
            shaping_interval_ns,
            old.tick_error_ns,
            old.kind,
            old.burst,
        )?;
        Ok(())
    }

    /// Computes the contract again with another rate on the wire, bit/s.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn set_rate(&mut self, rate: Ratio) -> Result<(), Overflow> {
        let old = &self.contract;
        self.contract = Contract::new(
            rate,
            self.wire_bytes,
            old.shaping_interval_ns,
            old.tick_error_ns,
            old.kind,
            old.burst,
        )?;
        Ok(())
    }
}

/// A long transfer by TCP. Nothing is promised to it, and nothing is planned for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
}

/// Traffic that gets no promise and must not exceed an allowance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BestEffort {
    /// Its name.
    pub name: String,
    /// The host that sends.
    pub host: String,
    /// The hosts that receive.
    pub to: Vec<String>,
    /// Rate as stated, counted in frame bytes, bit/s.
    pub rate_bps: Ratio,
    /// Exact rate on the wire, bit/s.
    pub rate: Ratio,
    /// Exact burst on the wire, bits.
    pub burst: Ratio,
    /// Largest frame: header and payload without FCS, bytes.
    pub frame_bytes: u64,
    /// Largest frame on the wire, bytes.
    pub wire_bytes: u64,
    /// The nodes from host to receiver, for each receiver.
    pub routes: Vec<Vec<String>>,
}

impl Network {
    /// Sets the worst-case latency of the port of `from` towards its neighbour `to`, nanoseconds.
    ///
    /// It replaces the latency of the node for this port. The port counts as late, then catching up: behind it, frames
    /// are as close together as the latency allows. A pair of nodes without a link has no effect.
    pub fn set_port_latency(&mut self, from: &str, to: &str, latency_ns: u64) {
        self.port_latencies
            .retain(|port| port.from != from || port.to != to);
        self.port_latencies.push(PortLatency {
            from: from.to_owned(),
            to: to.to_owned(),
            latency_ns,
        });
        self.input_hash = Fingerprint::new()
            .with(&self.input_hash)
            .with(from)
            .with(to)
            .with(&latency_ns.to_string())
            .text();
    }

    /// Checks that no stream has a second copy, for callers that can plan redundancy but not run it.
    ///
    /// # Errors
    /// The message for the user, with the name of the first such stream.
    pub fn without_redundancy(&self) -> Result<(), String> {
        match self
            .streams
            .iter()
            .find_map(|stream| stream.copy_of.as_ref())
        {
            None => Ok(()),
            Some(name) => Err(format!(
                "stream \"{name}\" has `redundancy`: both copies are planned and simulated, but rtwire cannot send and merge them yet (802.1CB)\n      | remove `redundancy`, or state two streams with a `route` each"
            )),
        }
    }

    /// Returns the link between two neighbours.
    #[must_use]
    pub fn link(&self, a: &str, b: &str) -> Option<&Link> {
        self.links.iter().find(|link| {
            (link.ends[0] == a && link.ends[1] == b) || (link.ends[0] == b && link.ends[1] == a)
        })
    }

    /// Returns the switch of this name.
    #[must_use]
    pub fn switch(&self, name: &str) -> Option<&Switch> {
        self.switches.iter().find(|switch| switch.name == name)
    }

    /// Returns the host of this name.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// Returns the gates of a node's ports, if it has gates.
    #[must_use]
    pub fn gates(&self, name: &str) -> Option<&GateProfile> {
        match self.switch(name) {
            Some(switch) => switch.gates.as_ref(),
            None => self.host(name).and_then(|host| host.gates.as_ref()),
        }
    }

    /// Returns the shaper of a class at the port of `from` towards `to`.
    #[must_use]
    pub fn shaper(&self, from: &str, to: &str, class: u8) -> Option<ShaperKind> {
        let found = self.shapers.iter().find(|shaper| {
            shaper.node == from
                && shaper.to.as_deref().is_none_or(|only| only == to)
                && self.class(from, shaper.pcp) == class
        });
        found.map(|shaper| shaper.kind)
    }

    /// Returns the number of queues of a node; 1 is FIFO.
    #[must_use]
    pub fn queues(&self, name: &str) -> u8 {
        self.switch(name)
            .map(|switch| switch.queues)
            .or_else(|| self.host(name).map(|host| host.queues))
            .unwrap_or(1)
    }
}

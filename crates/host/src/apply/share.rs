//! One host's share of a plan: the duties of its interface. Pure.

use std::collections::HashMap;

use rtwire_plan::network::{Network, PriorityMap, ShaperKind, class_by};
use rtwire_plan::{GateList, Launch, Plan, StreamPlan, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::ClockQuestion;

/// The share of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The host.
    pub host: String,
    /// Its neighbour in the network.
    pub neighbour: String,
    /// The fingerprint of the network that it was planned from.
    pub input_hash: String,
    /// The rate that the plan counts on, bit/s.
    pub link_rate_bps: u64,
    /// Queues, 1 to 8; the highest number is the most urgent.
    pub classes: u8,
    /// The class of each priority, where it is not `floor(priority classes / 8)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_map: Option<PriorityMap>,
    /// The bytes of a frame on the wire beyond header and payload.
    pub overhead_bytes: u64,
    /// The streams that it sends.
    pub sends: Vec<SharedStream>,
    /// The streams that it receives.
    pub receives: Vec<SharedStream>,
    /// The limit on all traffic outside streams; none where the plan allows no other traffic.
    pub best_effort: Option<Limit>,
    /// Classes that a credit shapes, the most urgent first.
    pub credits: Vec<Credit>,
    /// The gates' opening times.
    pub gates: Option<GateList>,
    /// The largest planned offset of this host's clock from the network's time, ns; 0 where the plan has none.
    pub clock_error_ns: u64,
}

/// One stream, as far as an interface needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedStream {
    /// Its name.
    pub name: String,
    /// Its PCP, 0 to 7.
    pub pcp: u8,
    /// Its class at this host.
    pub class: u8,
    /// Its VLAN.
    pub vlan: Option<u16>,
    /// True if it uses UDP.
    pub udp: bool,
    /// Its RTDiP or UDP port.
    pub port: u16,
    /// Header and payload without FCS, bytes.
    pub frame_bytes: u64,
    /// Its launch time, if the plan has one.
    pub launch: Option<Launch>,
}

/// A class with a credit (802.1Qav).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Credit {
    /// The class.
    pub class: u8,
    /// Its part of the link, on the wire, bit/s, rounded down.
    pub idle_slope_bps: u64,
    /// Its largest frame, on the wire, bytes.
    pub frame_wire_bytes: u64,
    /// The largest frame of the classes below, on the wire, bytes.
    pub lower_wire_bytes: u64,
}

/// The limit on best effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// The rate on the wire, bit/s, rounded down.
    pub rate_bps: u64,
    /// The burst on the wire, bits, rounded down.
    pub burst_bits: u64,
    /// The largest frame, header and payload without FCS, bytes.
    pub frame_bytes: u64,
}

impl Share {
    /// Returns the class of a priority; of 0, that of best effort.
    #[must_use]
    pub fn class(&self, pcp: u8) -> u8 {
        class_by(self.priority_map.as_ref(), pcp, self.classes.max(1))
    }

    /// Returns whether this host's sending depends on the network's time: gates, or launch times.
    #[must_use]
    pub fn needs_common_time(&self) -> bool {
        self.gates.is_some() || self.sends.iter().any(|stream| stream.launch.is_some())
    }

    /// Returns the largest allowed offset of this host's clock from the network's time, ns: the plan's, otherwise the
    /// default of `rtwire clock`.
    #[must_use]
    pub fn clock_limit_ns(&self) -> u64 {
        match self.clock_error_ns {
            0 => ClockQuestion::default().limit_ns,
            planned => planned,
        }
    }
}

/// The reason why a plan has no share for a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The port of the host preempts frames.
    #[error("{message}")]
    Preemption {
        /// The port, the reason, and what would be right.
        message: String,
    },
    /// The network has a router.
    #[error("{message}")]
    Routers {
        /// The router, the reason, and what would be right.
        message: String,
    },
    /// The host has several links.
    #[error("{message}")]
    SeveralLinks {
        /// The host, its links, and what would be right.
        message: String,
    },
    /// The plan has no such host.
    #[error("the plan has no host \"{host}\"; its hosts are {}", .hosts.join(", "))]
    NoHost {
        /// The name.
        host: String,
        /// The hosts of the plan.
        hosts: Vec<String>,
    },
    /// The gate durations do not add up to the cycle.
    #[error(
        "the gate list of \"{host}\" is {sum_ns} ns long, but its cycle {cycle_ns} ns: both must be equal to the \
         nanosecond"
    )]
    Gates {
        /// The host.
        host: String,
        /// The sum of the durations.
        sum_ns: u64,
        /// The cycle.
        cycle_ns: u64,
    },
}

/// Returns the share of `host` in a plan that was made from `network`.
///
/// # Errors
/// The plan has no such host or has a router, the host has several links, its port preempts frames, or its gate list does not fill its cycle exactly.
pub fn share(network: &Network, plan: &Plan, host: &str) -> Result<Share, ShareError> {
    let Some(own) = network.host(host) else {
        return Err(ShareError::NoHost {
            host: host.to_owned(),
            hosts: network.hosts.iter().map(|one| one.name.clone()).collect(),
        });
    };
    network
        .without_routers("rtwire sets up hosts of one layer-2 network")
        .map_err(|message| ShareError::Routers { message })?;
    let why = "rtwire sets up one interface of a host";
    network
        .without_several_links(Some(host), why)
        .map_err(|message| ShareError::SeveralLinks { message })?;
    network
        .without_preemption(Some(host), "rtwire sets up no interface for it")
        .map_err(|message| ShareError::Preemption { message })?;
    let port = plan.ports.iter().find(|port| port.node == host);
    let gates = port.and_then(|port| port.gates.clone());
    if let Some(list) = &gates {
        let sum_ns: u64 = list.entries.iter().map(|entry| entry.duration_ns).sum();
        if sum_ns != list.cycle_ns {
            return Err(ShareError::Gates {
                host: host.to_owned(),
                sum_ns,
                cycle_ns: list.cycle_ns,
            });
        }
    }
    let planned: HashMap<&str, &StreamPlan> = plan
        .streams
        .iter()
        .map(|stream| (stream.name.as_str(), stream))
        .collect();
    let streams = |mine: &dyn Fn(&rtwire_plan::Stream) -> bool| {
        let all = network.streams.iter().filter(|stream| mine(stream));
        all.map(|stream| (stream, planned.get(stream.name.as_str())))
            .map(|(stream, planned)| SharedStream {
                name: stream.name.clone(),
                pcp: stream.pcp,
                class: network.class(host, stream.pcp),
                vlan: stream.vlan,
                udp: stream.transport == Transport::Udp,
                port: planned.map_or(stream.port, |planned| planned.identity.port),
                frame_bytes: stream.frame_bytes,
                launch: planned.and_then(|planned| planned.launch.clone()),
            })
            .collect()
    };
    Ok(Share {
        host: host.to_owned(),
        neighbour: port.map_or_else(String::new, |port| port.port.clone()),
        input_hash: network.input_hash.clone(),
        link_rate_bps: port.map_or(0, |port| port.link_rate_bps),
        classes: own.queues,
        priority_map: own.priority_map,
        overhead_bytes: network.defaults.frame_overhead_bytes,
        sends: streams(&|stream| stream.talker == host),
        receives: streams(&|stream| stream.listeners.iter().any(|one| one == host)),
        credits: credits(network, host),
        best_effort: limit(network, host),
        gates,
        clock_error_ns: network.defaults.clock_error_ns,
    })
}

/// Returns the credits of a host's port. A slope is rounded down: a limit may be too strict, never too loose.
fn credits(network: &Network, host: &str) -> Vec<Credit> {
    // Header and payload are padded to 60 bytes.
    let wire = |bytes: u64| bytes.max(60) + network.defaults.frame_overhead_bytes;
    let streams = network.streams.iter().filter(|one| one.talker == host);
    let streams = streams.map(|one| (network.class(host, one.pcp), wire(one.frame_bytes)));
    let others = network.best_effort.iter().filter(|one| one.host == host);
    let others = others.map(|one| (network.class(host, 0), wire(one.frame_bytes)));
    let frames: Vec<(u8, u64)> = streams.chain(others).collect();
    let largest = |of: &dyn Fn(u8) -> bool| {
        let frames = frames.iter().filter(|(class, _)| of(*class));
        frames.map(|(_, bytes)| *bytes).max().unwrap_or(0)
    };
    let mut found: Vec<Credit> = network
        .shapers
        .iter()
        .filter(|shaper| shaper.node == host)
        .filter_map(|shaper| {
            let ShaperKind::Credit { idle_slope } = shaper.kind else {
                return None;
            };
            let class = network.class(host, shaper.pcp);
            Some(Credit {
                class,
                idle_slope_bps: u64::try_from(idle_slope.floor()).unwrap_or(0),
                frame_wire_bytes: largest(&|other| other == class),
                lower_wire_bytes: largest(&|other| other < class),
            })
        })
        .collect();
    found.sort_by_key(|credit| std::cmp::Reverse(credit.class));
    found
}

/// Returns all allowances of a host together. Rates are rounded down: a limit may be too strict, never too loose.
fn limit(network: &Network, host: &str) -> Option<Limit> {
    let own: Vec<_> = network
        .best_effort
        .iter()
        .filter(|one| one.host == host)
        .collect();
    let largest = own.iter().map(|one| one.frame_bytes).max()?;
    let sum = |part: &dyn Fn(&rtwire_plan::BestEffort) -> i128| {
        let sum: i128 = own.iter().map(|one| part(one)).sum();
        u64::try_from(sum).unwrap_or(0)
    };
    Some(Limit {
        rate_bps: sum(&|one| one.rate.floor()),
        burst_bits: sum(&|one| one.burst.floor()),
        frame_bytes: largest,
    })
}

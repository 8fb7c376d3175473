//! The facts on which promises rest, written into a plan so that `rtwire-proof` can check each of them by itself.
//!
//! ```text
//! analysis ──► for each port: lateness of each flow, service, delay of each class ─┐
//!                                                                                   ├──► Certificate in the plan
//! promises ──► for each: the pieces of its sum, in picoseconds ─────────────────────┘
//! ```
//!
//! The planner's analysis ends where nothing changes any more. So its values confirm each other, and a checker needs
//! to ask each of them once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::fixed::time_up;
use crate::bound::segments::Segments;
use crate::mapping::{Mapped, is_schedule};
use crate::network::Network;
use rtwire_describe::ratio::{Overflow, Ratio};

/// The version of the certificate's form.
pub const CERTIFICATE_VERSION: u32 = 1;

/// The facts on which the promises of a plan rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`CERTIFICATE_VERSION`].
    pub version: u32,
    /// Every port that a frame passes.
    pub ports: Vec<PortFacts>,
    /// The pieces of each promise, in the order of the plan.
    pub promises: Vec<PromiseFacts>,
}

/// The facts about one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortFacts {
    /// The port as `node>neighbour`.
    pub port: String,
    /// Its rate, bit/s.
    pub rate_bps: u64,
    /// The least latency of a frame, nanoseconds.
    pub latency_min_ns: u64,
    /// The largest latency of a frame, nanoseconds.
    pub latency_ns: u64,
    /// True if the latency is behind the queue, and the port catches up.
    pub catches_up: bool,
    /// The arrivals of each flow here.
    pub arrivals: Vec<ArrivalFact>,
    /// The service of each class in use.
    pub classes: Vec<ClassFact>,
}

/// The arrivals of one flow at one port: its contract, in a window that is longer by `late_ps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrivalFact {
    /// The stream; for an allowance `best-effort` and its name.
    pub flow: String,
    /// The largest lateness of its frames that the ports before add, picoseconds; absent if nothing bounds it.
    pub late_ps: Option<u64>,
}

/// One class at one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassFact {
    /// Its number; larger is more urgent.
    pub class: u8,
    /// The largest frame of a lower class, bits.
    pub blocking_bits: u64,
    /// The largest delay of its frames here, picoseconds; absent if nothing bounds it.
    pub delay_ps: Option<u64>,
}

/// The pieces of one promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromiseFacts {
    /// The stream.
    pub stream: String,
    /// The listener.
    pub listener: String,
    /// The pieces of its route, in order.
    pub pieces: Vec<Piece>,
    /// The worst schedule that a search found, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attained: Option<Attained>,
}

/// A schedule and the delay that it causes: no promise may be below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attained {
    /// The largest delay of the stream's frames in it, picoseconds.
    pub delay_ps: u64,
    /// The schedule.
    pub schedule: Schedule,
}

/// A behaviour that the network may show: releases of frames, and latencies of switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The flow and the release of each frame, picoseconds.
    pub frames: Vec<(String, u64)>,
    /// Ports where frames have the latency with which they enter the queue as near to this time as they can,
    /// picoseconds. Elsewhere, and for the stream itself, it is the largest.
    pub meets: Vec<(String, u64)>,
}

/// One port of a route, or several in a row as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// The ports as `node>neighbour`.
    pub ports: Vec<String>,
    /// The largest delay of the stream's frames there, picoseconds.
    pub delay_ps: u64,
}

/// Returns a time in picoseconds, rounded up.
pub(crate) fn picoseconds(time: Ratio) -> Result<u64, Overflow> {
    u64::try_from(time_up(time)?).map_err(|_| Overflow)
}

/// Collects the facts about all ports.
pub(crate) fn ports(
    network: &Network,
    mapped: &Mapped,
    segments: &Segments<'_>,
) -> Result<Vec<PortFacts>, Overflow> {
    let mut facts = Vec::new();
    for (number, port) in mapped.ports.iter().enumerate() {
        let server = &mapped.graph.servers[number];
        let bound = &segments.ports()[number];
        let mut arrivals = Vec::new();
        let mut used = [false; 9];
        for &(flow, hop) in &mapped.passing[number] {
            let name = &mapped.flow_names[flow];
            if is_schedule(name) {
                continue;
            }
            let class = usize::from(mapped.graph.flows[flow].hops[hop].class);
            if let Some(used) = used.get_mut(class) {
                *used = true;
            }
            let late = segments.lateness(flow, hop);
            arrivals.push(ArrivalFact {
                flow: if flow < network.streams.len() {
                    name.clone()
                } else {
                    format!("best-effort {name}")
                },
                late_ps: late.map(u64::try_from).transpose().map_err(|_| Overflow)?,
            });
        }
        if arrivals.is_empty() {
            continue;
        }
        let mut classes = Vec::new();
        for (class, bound) in (0_u8..).zip(&bound.classes) {
            if !used.get(usize::from(class)).is_some_and(|used| *used) {
                continue;
            }
            classes.push(ClassFact {
                class,
                blocking_bits: u64::try_from(bound.blocking.ceil()).map_err(|_| Overflow)?,
                delay_ps: bound.delay.map(picoseconds).transpose()?,
            });
        }
        let to_ns = |time: Ratio| time.ceil_ns();
        facts.push(PortFacts {
            port: format!("{}>{}", port.node, port.to),
            rate_bps: port.rate_bps,
            latency_min_ns: to_ns(server.latency_min)?,
            latency_ns: to_ns(server.latency)?,
            catches_up: server.catches_up,
            arrivals,
            classes,
        });
    }
    Ok(facts)
}

//! The flow meters of a plan: what each switch lets through of each talker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::segments::Segments;
use crate::mapping::Mapped;
use crate::network::Network;
use rtwire_describe::ratio::Overflow;

/// One flow meter: a bucket of tokens that a frame must find full enough (one rate, no excess, IEEE Std 802.1Q, 8.6.5.5).
///
/// It is placed where the talker's link ends. What exceeds it is discarded, as is a longer frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowMeter {
    /// The switch.
    pub switch: String,
    /// The talker, at the port where its frames come.
    pub from: String,
    /// The stream or best-effort allowance.
    pub flow: String,
    /// True for a best-effort allowance.
    pub best_effort: bool,
    /// The priority (PCP) of the flow's frames. Those that say another one are discarded, or taken as of this one.
    pub priority: u8,
    /// The longest frame that passes: header and payload, bytes.
    pub longest_frame_bytes: u64,
    /// The bytes that it counts of each frame beyond header and payload.
    pub overhead_bytes: u64,
    /// CIR, the rate at which its bucket fills, bit/s.
    pub committed_rate_bps: u64,
    /// CBS, the depth of its bucket, bytes.
    pub committed_burst_bytes: u64,
}

/// Returns the meters of all switches. There is none for a flow whose talker's port has no bound.
pub(crate) fn meters(
    network: &Network,
    mapped: &Mapped,
    segments: &Segments<'_>,
) -> Result<Vec<FlowMeter>, Overflow> {
    let mut meters: Vec<FlowMeter> = Vec::new();
    let streams = network.streams.iter().map(|it| it.frame_bytes);
    let allowances = network.best_effort.iter().map(|it| it.frame_bytes);
    for (flow, longest_frame_bytes) in streams.chain(allowances).enumerate() {
        let hops = &mapped.graph.flows[flow].hops;
        let mut known = Vec::new();
        for (at, hop) in hops.iter().enumerate() {
            let Some(before) = hop.before.map(|before| hops[before].server) else {
                continue;
            };
            // Several ports may follow one meter.
            let (false, Some((committed_rate_bps, committed_burst_bytes))) =
                (known.contains(&before), segments.meter(flow, at)?)
            else {
                continue;
            };
            known.push(before);
            let port = &mapped.ports[before];
            let Some(stated) = network.flow_meters(&port.node, &port.to) else {
                continue;
            };
            meters.push(FlowMeter {
                switch: port.to.clone(),
                from: port.node.clone(),
                flow: mapped.flow_names[flow].clone(),
                best_effort: flow >= network.streams.len(),
                priority: network.streams.get(flow).map_or(0, |it| it.pcp),
                longest_frame_bytes,
                overhead_bytes: stated.overhead_bytes,
                committed_rate_bps,
                committed_burst_bytes,
            });
        }
    }
    Ok(meters)
}

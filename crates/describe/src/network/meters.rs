//! Flow meters at switches (IEEE Std 802.1Q, 8.6.5.2, per-stream filtering and policing; first published as 802.1Qci).
//!
//! A switch with meters lets each talker send no more than its contract. So the promises of all others hold even if the
//! talker goes wrong.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;

/// The smallest Ethernet frame: header and payload without FCS, bytes.
pub const SMALLEST_FRAME_BYTES: u64 = 60;

/// The flow meters of a switch: one for each stream and allowance that comes from a host at one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowMeters {
    /// The bytes that a meter counts of each frame beyond header and payload: 4 is the FCS, `frame-overhead` all that the
    /// frame takes of the link.
    pub overhead_bytes: u64,
}

/// A reason why a network has no bound with its flow meters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterFault {
    /// The switch.
    pub switch: String,
    /// The key of the switch that is wrong.
    pub key: &'static str,
    /// The reason.
    pub message: String,
    /// The change that would be right.
    pub help: String,
}

impl Network {
    /// True if any switch has flow meters.
    #[must_use]
    pub fn has_flow_meters(&self) -> bool {
        self.switches.iter().any(|one| one.flow_meters.is_some())
    }

    /// Returns the flow meters that frames of `host` pass when they arrive at `next`.
    #[must_use]
    pub fn flow_meters(&self, host: &str, next: &str) -> Option<FlowMeters> {
        self.host(host)?;
        self.switch(next)?.flow_meters
    }

    /// Returns the reasons why the network has no bound with its flow meters.
    #[must_use]
    pub fn meter_faults(&self) -> Vec<MeterFault> {
        let mut faults = Vec::new();
        for switch in &self.switches {
            let Some(meters) = switch.flow_meters else {
                continue;
            };
            let name = &switch.name;
            let overhead = self.defaults.frame_overhead_bytes;
            if meters.overhead_bytes > overhead {
                faults.push(MeterFault {
                    switch: name.clone(),
                    key: "meter-overhead",
                    message: format!(
                        "switch \"{name}\": `meter-overhead` of {} B is more than a frame has on the wire beyond header and payload, {overhead} B",
                        meters.overhead_bytes
                    ),
                    help: format!("at most \"{overhead} B\", the `frame-overhead`"),
                });
            }
            let others = self.switches.iter().filter_map(|it| it.flow_meters);
            if let Some(other) = others.into_iter().find(|it| *it != meters) {
                faults.push(MeterFault {
                    switch: name.clone(),
                    key: "meter-overhead",
                    message: format!(
                        "switch \"{name}\": its meters count {} B of each frame beyond header and payload, those of another one {} B",
                        meters.overhead_bytes, other.overhead_bytes
                    ),
                    help: "one `meter-overhead` for all switches".to_owned(),
                });
            }
            let hosts = self.hosts.iter().map(|it| it.gates.is_some());
            let switches = self.switches.iter().map(|it| it.gates.is_some());
            let beside = if hosts.chain(switches).any(|gated| gated) {
                "gates"
            } else if self.streams.iter().any(|it| it.time_triggered) {
                "time-triggered streams"
            } else if !self.shapers.is_empty() {
                "shapers"
            } else if self.preempting_port().is_some() {
                "frame preemption"
            } else if self.switches.iter().any(|it| it.routing.is_some()) {
                "routers"
            } else if switch.cuts_through() {
                "cut-through"
            } else {
                continue;
            };
            faults.push(MeterFault {
                switch: name.clone(),
                key: "flow-meters",
                message: format!(
                    "switch \"{name}\" has flow meters: together with {beside} there is no bound here"
                ),
                help: format!("take {beside} away, or state flow-meters = \"off\""),
            });
        }
        faults
    }

    /// Checks that no switch has flow meters, for a caller without them.
    ///
    /// # Errors
    /// The message for the user, with the name of the first such switch and `why` the caller has none.
    pub fn without_flow_meters(&self, why: &str) -> Result<(), String> {
        let metered = self.switches.iter().find(|it| it.flow_meters.is_some());
        match metered {
            None => Ok(()),
            Some(switch) => Err(format!(
                "switch \"{}\" has `flow-meters = \"on\"`: they are planned, simulated and exported, but {why}\n      | state \"off\": talkers that keep their contracts are as well off without",
                switch.name
            )),
        }
    }
}

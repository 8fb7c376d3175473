//! Cut-through: forwarding that begins before the frame's end has come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Network, Switch};

/// The bytes of a preamble and a destination address. No switch knows where a frame goes before it has them.
const PREAMBLE_BYTES: u64 = 8;
const ADDRESS_BYTES: u64 = 6;

/// The readiness of a switch to forward a frame before its end has come.
///
/// It does so only if the links of input and port have the same rate, the port is idle, and nothing waits there. Else it
/// stores the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutThrough {
    /// It stores each frame.
    #[default]
    Off,
    /// It may do either, with each frame.
    Possible,
    /// It does so wherever it can.
    On,
}

impl CutThrough {
    /// True for a switch that stores each frame.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    pub fn is_off(&self) -> bool {
        *self == CutThrough::Off
    }

    /// Returns what a switch does with frames from one neighbour to another, if the rates of both links are equal.
    #[must_use]
    pub fn of_pair(switch: &Switch, before: &str, to: &str) -> CutThrough {
        let stated = switch.ports.iter().filter_map(|port| {
            let rank = port.rank(before, to)?;
            port.cut_through.map(|cut_through| (rank, cut_through))
        });
        let stated = stated.max_by_key(|(rank, _)| *rank);
        stated.map_or(switch.cut_through, |(_, cut_through)| cut_through)
    }
}

impl Switch {
    /// True if any of its ports forwards a frame before its end has come, or may do so.
    #[must_use]
    pub fn cuts_through(&self) -> bool {
        let ports = self.ports.iter().filter_map(|port| port.cut_through);
        ports.chain([self.cut_through]).any(|cut| !cut.is_off())
    }
}

impl Network {
    /// Returns what `node` does with frames that come over the link from `before` and leave to `to`.
    ///
    /// It stores frames between links of different rates, and where [`Network::set_port_latency`] has set the port's latency.
    #[must_use]
    pub fn cut_through(&self, before: &str, node: &str, to: &str) -> CutThrough {
        let Some(switch) = self.switch(node).filter(|switch| switch.cuts_through()) else {
            return CutThrough::Off;
        };
        self.cut_through_of(before, switch, to)
    }

    /// Returns [`Network::cut_through`] for a caller that has found the switch already.
    #[must_use]
    pub fn cut_through_of(&self, before: &str, switch: &Switch, to: &str) -> CutThrough {
        let cut_through = CutThrough::of_pair(switch, before, to);
        let mut measured = self.port_latencies.iter();
        let measured = measured.any(|port| port.from == switch.name && port.to == to);
        if cut_through.is_off() || measured {
            return CutThrough::Off;
        }
        let rate = |other: &str| self.link(&switch.name, other).map(|link| link.rate_bps);
        if rate(before) == rate(to) {
            cut_through
        } else {
            CutThrough::Off
        }
    }

    /// Returns the bytes of a frame on the wire that a switch must have before it may forward it: preamble and destination
    /// address. Of the preamble as much as `frame-overhead` counts.
    #[must_use]
    pub fn header_bytes(&self) -> u64 {
        self.defaults.frame_overhead_bytes.min(PREAMBLE_BYTES) + ADDRESS_BYTES
    }

    /// Checks that no switch always cuts through, for a caller whose switches store each frame.
    ///
    /// # Errors
    /// The message for the user, with the name of the first such switch.
    pub fn without_cut_through(&self) -> Result<(), String> {
        let on = |switch: &&Switch| {
            let ports = switch.ports.iter().filter_map(|port| port.cut_through);
            let mut all = ports.chain([switch.cut_through]);
            all.any(|cut| cut == CutThrough::On)
        };
        match self.switches.iter().find(on) {
            None => Ok(()),
            Some(switch) => Err(format!(
                "switch \"{}\" has `cut-through = \"on\"`: it is planned and simulated, but the lab's switches store each frame\n      | state \"possible\": its promises hold for both",
                switch.name
            )),
        }
    }
}

//! Frame preemption (IEEE Std 802.1Q, 6.7.2; IEEE Std 802.3, clause 99): which frames are express, and where.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;

/// The bytes of a frame on the wire beyond header and payload: preamble 8, FCS 4, gap 12. Fragments are counted with them.
const FRAME_OVERHEAD_BYTES: u64 = 24;
/// The largest addFragSize.
const MOST_ADDITIONAL: u8 = 3;

/// The frame preemption of a node.
///
/// A link has it in both directions if both of its ends have it. On any other link every frame is sent whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Preemption {
    /// The priorities whose frames may be preempted (framePreemptionStatusTable), ascending. All others are express.
    pub preemptable: Vec<u8>,
    /// addFragSize, 0 to 3: each fragment that the node receives, but for a frame's last one, must have at least
    /// 64 (1 + addFragSize) bytes, mCRC included.
    #[serde(default)]
    pub additional_fragment_size: u8,
}

/// The frame preemption of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPreemption {
    /// The lowest express class. The classes below it are preemptable.
    pub first_express: u8,
    /// addFragSize of the receiving end.
    pub additional_fragment_size: u8,
}

/// A reason why the preemption that a node states cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionFault {
    /// The node.
    pub node: String,
    /// The neighbour, if the value of a single port is the reason.
    pub to: Option<String>,
    /// The reason.
    pub message: String,
    /// The change that would be right.
    pub help: Option<String>,
}

impl fmt::Display for PreemptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

/// Priorities as a list in a description.
fn list(priorities: impl Iterator<Item = u8>) -> String {
    format!("{:?}", priorities.collect::<Vec<u8>>())
}

impl Network {
    /// Returns the preemption of a node, if it has preemption.
    #[must_use]
    pub fn node_preemption(&self, node: &str) -> Option<&Preemption> {
        match self.switch(node) {
            Some(switch) => switch.preemption.as_ref(),
            None => self.host(node).and_then(|host| host.preemption.as_ref()),
        }
    }

    /// Returns the priorities whose frames the port of `node` towards `to` may interrupt, and true if the port states
    /// them itself. `None` if the node has no preemption.
    fn preemptable(&self, node: &str, to: &str) -> Option<(&[u8], bool)> {
        let of_node = &self.node_preemption(node)?.preemptable;
        let mut ports = self.switch(node).into_iter().flat_map(|it| &it.ports);
        let of_port = ports.find_map(|port| {
            let here = port.from.is_none() && port.to.as_deref() == Some(to);
            port.preemptable.as_ref().filter(|_| here)
        });
        Some(match of_port {
            Some(priorities) => (priorities, true),
            None => (of_node, false),
        })
    }

    /// Returns the preemption of the port of `from` towards `to`. `None` where every frame is sent whole: one end of the
    /// link has no preemption, or all classes of the port are express, or all are preemptable.
    #[must_use]
    pub fn preemption(&self, from: &str, to: &str) -> Option<PortPreemption> {
        let (preemptable, _) = self.preemptable(from, to)?;
        let additional_fragment_size = self.node_preemption(to)?.additional_fragment_size;
        let of = |wanted: bool| {
            let priorities = (0..8).filter(move |pcp| preemptable.contains(pcp) == wanted);
            priorities.map(|pcp| self.class(from, pcp))
        };
        let first_express = of(false).min()?;
        // Express is above all others, which `preemption_faults` checks.
        of(true).max()?;
        Some(PortPreemption {
            first_express,
            additional_fragment_size,
        })
    }

    /// True if any node has preemption.
    #[must_use]
    pub fn has_preemption(&self) -> bool {
        self.switches.iter().any(|it| it.preemption.is_some())
            || self.hosts.iter().any(|it| it.preemption.is_some())
    }

    /// Returns the ports at which frames may be preempted, as sender and receiver.
    fn preempting_ports(&self) -> impl Iterator<Item = (&str, &str)> {
        let links = if self.has_preemption() {
            &self.links[..]
        } else {
            &[]
        };
        let ports = links.iter().flat_map(|link| {
            let [a, b] = &link.ends;
            [(a.as_str(), b.as_str()), (b.as_str(), a.as_str())]
        });
        ports.filter(|(from, to)| self.preemption(from, to).is_some())
    }

    /// Returns the first port at which frames may be preempted, as sender and receiver.
    #[must_use]
    pub fn preempting_port(&self) -> Option<(&str, &str)> {
        self.preempting_ports().next()
    }

    /// Checks that no port preempts, for a caller that cannot do it; only the ports of one node, if `at` is one. `why` says
    /// who cannot, for instance "the lab's ports send each frame whole".
    ///
    /// # Errors
    /// The message for the user, with the name of the first such port.
    pub fn without_preemption(&self, at: Option<&str>, why: &str) -> Result<(), String> {
        let mut ports = self.preempting_ports();
        match ports.find(|(from, _)| at.is_none_or(|at| at == *from)) {
            None => Ok(()),
            Some((from, to)) => Err(format!(
                "port {from}>{to} preempts frames (802.1Qbu): it is planned and simulated, but {why}\n      | leave `preemptable` of \"{from}\" away: then every frame is sent whole, and promises count that"
            )),
        }
    }

    /// Returns why the preemption that nodes and ports state cannot be; nothing if it can.
    #[must_use]
    pub fn preemption_faults(&self) -> Vec<PreemptionFault> {
        let mut faults = Vec::new();
        let switches = self.switches.iter().map(|it| (&it.name, &it.preemption));
        let hosts = self.hosts.iter().map(|it| (&it.name, &it.preemption));
        for (node, stated) in switches.chain(hosts) {
            let ports = self.switch(node).into_iter().flat_map(|it| &it.ports);
            let port = ports.into_iter().find(|port| port.preemptable.is_some());
            let Some(stated) = stated else {
                if let Some(port) = port {
                    faults.push(PreemptionFault {
                        node: node.clone(),
                        to: port.to.clone(),
                        message: format!("port of \"{node}\": `preemptable` is stated, but the switch has no preemption"),
                        help: Some(format!("preemptable = [] at the switch \"{node}\": then the other ports have it, and interrupt nothing")),
                    });
                }
                continue;
            };
            if let Some(fault) = self.preemption_fault(node, stated) {
                faults.push(fault);
            }
        }
        faults
    }

    /// Returns the first reason why a node cannot have the preemption that it states.
    fn preemption_fault(&self, node: &str, stated: &Preemption) -> Option<PreemptionFault> {
        let fault = |to: Option<&str>, message: String, help: String| {
            Some(PreemptionFault {
                node: node.to_owned(),
                to: to.map(str::to_owned),
                message,
                help: Some(help),
            })
        };
        if stated.additional_fragment_size > MOST_ADDITIONAL {
            let message = format!(
                "`additional-fragment-size` of \"{node}\" is {}, but must be 0 to {MOST_ADDITIONAL}",
                stated.additional_fragment_size
            );
            return fault(None, message, "0 on most devices".to_owned());
        }
        let overhead = self.defaults.frame_overhead_bytes;
        if overhead != FRAME_OVERHEAD_BYTES {
            let message = format!(
                "\"{node}\" has preemption, but `frame-overhead` is {overhead} B: fragments have preamble 8, CRC 4 and gap 12"
            );
            let help = format!("frame-overhead = \"{FRAME_OVERHEAD_BYTES} B\", or no preemption");
            return fault(None, message, help);
        }
        if !self
            .neighbours(node)
            .any(|to| self.node_preemption(to).is_some())
        {
            let near = self.neighbours(node).next().unwrap_or(node);
            let message = format!(
                "\"{node}\" has preemption, but no neighbour has: a link needs it at both ends"
            );
            let help = format!("preemptable = {:?} at \"{near}\", too", stated.preemptable);
            return fault(None, message, help);
        }
        for to in self.neighbours(node) {
            let Some((preemptable, own)) = self.preemptable(node, to) else {
                continue;
            };
            let at = own.then_some(to);
            if let Some(pcp) = preemptable.iter().find(|pcp| **pcp > 7) {
                let message = format!("`preemptable` of \"{node}\" has priority {pcp}");
                return fault(at, message, "priorities are 0 to 7".to_owned());
            }
            if let Some((message, help)) = self.order_fault(node, preemptable) {
                return fault(at, message, help);
            }
            if own && !preemptable.is_empty() && self.node_preemption(to).is_none() {
                let message = format!(
                    "port \"{node}\" to \"{to}\" has `preemptable`, but \"{to}\" has no preemption: a link needs it at both ends"
                );
                return fault(at, message, format!("preemptable = [] at \"{to}\", too"));
            }
            if self.preemption(node, to).is_none() && self.preemption(to, node).is_none() {
                continue;
            }
            let beside = |what: &str, help: String| {
                let message = format!(
                    "the link from \"{node}\" to \"{to}\" has preemption, and \"{node}\" has {what}: together they have no bound here"
                );
                fault(None, message, help)
            };
            if self.gates(node).is_some() {
                return beside(
                    "gates",
                    format!("leave `gates` or `preemptable` of \"{node}\" away"),
                );
            }
            if self.shapers.iter().any(|shaper| shaper.node == node) {
                let help = format!("leave [[shaper]] or `preemptable` of \"{node}\" away");
                return beside("a shaper", help);
            }
            if self
                .switch(node)
                .is_some_and(|switch| switch.cuts_through())
            {
                let help = format!("cut-through = \"off\" at \"{node}\"");
                return beside("cut-through", help);
            }
            let mut streams = self.streams.iter();
            let launched = streams.find(|it| it.time_triggered && it.talker == node);
            if let Some(stream) = launched {
                let what = format!("the time-triggered stream \"{}\"", stream.name);
                return beside(&what, format!("leave `preemptable` of \"{node}\" away"));
            }
        }
        None
    }

    /// Returns message and help if the priorities of one queue differ, or an express queue is below a preemptable one.
    fn order_fault(&self, node: &str, preemptable: &[u8]) -> Option<(String, String)> {
        let is_preemptable = |pcp: &u8| preemptable.contains(pcp);
        let class = |pcp: u8| self.class(node, pcp);
        let express = (0..8_u8).filter(|pcp| !is_preemptable(pcp));
        let lowest = express.min_by_key(|pcp| class(*pcp))?;
        let highest = preemptable.iter().copied().max_by_key(|pcp| class(*pcp))?;
        if class(highest) < class(lowest) {
            return None;
        }
        let fits = list((0..8).filter(|pcp| class(*pcp) < class(lowest)));
        let message = if class(highest) == class(lowest) {
            format!(
                "`preemptable` of \"{node}\": priorities {lowest} (express) and {highest} (preemptable) share queue {}",
                class(lowest)
            )
        } else {
            format!(
                "`preemptable` of \"{node}\": priority {lowest} is express, in queue {} below the preemptable priority {highest} in queue {}",
                class(lowest),
                class(highest)
            )
        };
        let wider = list((0..8).filter(|pcp| class(*pcp) <= class(highest)));
        let help = if self.queues(node) == 1 {
            format!(
                "queues = 2 of \"{node}\" or more: frames of one queue do not interrupt each other"
            )
        } else {
            format!("preemptable = {fits} or {wider}: express queues are above all others")
        };
        Some((message, help))
    }
}

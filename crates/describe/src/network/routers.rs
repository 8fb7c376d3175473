//! Routers: the priority that a frame has behind each, read from its type of service.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BestEffort, Network, Stream, Switch};

/// The largest differentiated services code point (RFC 2474): six bits.
pub const LARGEST_DSCP: u8 = 63;

/// A router's tables of differentiated services code points (DSCP, RFC 2474).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// The priority of frames that come with a DSCP. All others have that of their class selector, the DSCP's upper three
    /// bits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub priorities: BTreeMap<u8, u8>,
    /// The DSCP with which frames go on that come with another one. All others keep theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remark: BTreeMap<u8, u8>,
}

/// A frame's priority and DSCP, between two routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Priority, 0 to 7: the queue at hosts and switches follows from it.
    pub pcp: u8,
    /// Differentiated services code point, 0 to 63: the next router reads it.
    pub dscp: u8,
}

impl Marks {
    /// The marks of best effort: priority 0, DSCP 0.
    pub const BEST_EFFORT: Marks = Marks { pcp: 0, dscp: 0 };
}

impl Routing {
    /// Returns the marks behind the router of a frame that came with `marks`. The priority follows from the DSCP with which
    /// it came, and the priority with which it came has no part.
    #[must_use]
    pub fn behind(&self, marks: Marks) -> Marks {
        let selector = marks.dscp >> 3;
        Marks {
            pcp: self.priorities.get(&marks.dscp).map_or(selector, |it| *it),
            dscp: self.remark.get(&marks.dscp).map_or(marks.dscp, |it| *it),
        }
    }
}

impl Stream {
    /// Returns the marks with which its talker sends. A DSCP that is not stated is the class selector of the priority.
    #[must_use]
    pub fn marks(&self) -> Marks {
        Marks {
            pcp: self.pcp,
            dscp: self.dscp.unwrap_or((self.pcp & 7) << 3),
        }
    }
}

impl BestEffort {
    /// Returns the marks with which its host sends.
    #[must_use]
    pub const fn marks(&self) -> Marks {
        Marks::BEST_EFFORT
    }
}

impl Switch {
    /// Returns the word for it in messages: "router" or "switch".
    #[must_use]
    pub const fn kind_word(&self) -> &'static str {
        if self.routing.is_some() {
            "router"
        } else {
            "switch"
        }
    }
}

/// The routers of a network by name.
#[derive(Clone, Debug, Default)]
pub struct Routers<'a>(HashMap<&'a str, &'a Routing>);

impl<'a> Routers<'a> {
    /// True for a network without a router.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tables of a router; `None` for any other node.
    #[must_use]
    pub fn get(&self, node: &str) -> Option<&'a Routing> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(node).copied()
    }

    /// Returns the first router of a route.
    #[must_use]
    pub fn first<'r>(&self, route: &'r [String]) -> Option<&'r str> {
        let mut nodes = route.iter().map(String::as_str);
        nodes.find(|node| self.get(node).is_some())
    }

    /// Returns each port of a route, as sender and neighbour, with the priority of a frame there that the talker sends with
    /// `marks`.
    pub fn hops<'r>(
        &self,
        route: &'r [String],
        marks: Marks,
    ) -> impl Iterator<Item = (&'r str, &'r str, u8)> {
        let mut marks = marks;
        route.windows(2).enumerate().map(move |(at, pair)| {
            // The talker is a host. What it sends is read by others.
            if let Some(routing) = self.get(&pair[0]).filter(|_| at > 0) {
                marks = routing.behind(marks);
            }
            (pair[0].as_str(), pair[1].as_str(), marks.pcp)
        })
    }

    /// Returns [`Routers::hops`] of several routes, one after the other.
    pub fn hops_of_all<'r>(
        &self,
        routes: &'r [Vec<String>],
        marks: Marks,
    ) -> impl Iterator<Item = (&'r str, &'r str, u8)> {
        routes.iter().flat_map(move |route| self.hops(route, marks))
    }

    /// Returns the priority at each port of a route; empty if no router is on it.
    #[must_use]
    pub fn priorities(&self, route: &[String], marks: Marks) -> Vec<u8> {
        if self.first(route).is_none() {
            return Vec::new();
        }
        self.hops(route, marks).map(|(_, _, pcp)| pcp).collect()
    }
}

impl Network {
    /// Returns the network's routers.
    #[must_use]
    pub fn routers(&self) -> Routers<'_> {
        let routers = self.switches.iter().filter_map(|switch| {
            let routing = switch.routing.as_ref()?;
            Some((switch.name.as_str(), routing))
        });
        Routers(routers.collect())
    }

    /// Checks that there is no router, for a caller that knows switches only.
    ///
    /// # Errors
    /// The message for the user, with the name of the first router. `why` says what is missing.
    pub fn without_routers(&self, why: &str) -> Result<(), String> {
        match self.switches.iter().find(|it| it.routing.is_some()) {
            None => Ok(()),
            Some(router) => Err(format!(
                "\"{}\" is a router: it is planned and simulated, but {why}\n      | describe each layer-2 domain as a network of its own",
                router.name
            )),
        }
    }

    /// Checks the routers, and that only UDP streams in any form that a router forwards pass one.
    pub(super) fn check_routers(&self) -> Result<(), String> {
        for switch in &self.switches {
            let Some(routing) = &switch.routing else {
                continue;
            };
            let what = format!("router \"{}\"", switch.name);
            if switch.cuts_through() {
                return Err(format!("{what} has cut-through, but stores each frame"));
            }
            let codes = routing.priorities.keys().chain(routing.remark.keys());
            if let Some(code) = codes
                .chain(routing.remark.values())
                .find(|it| **it > LARGEST_DSCP)
            {
                return Err(format!("{what}: DSCP {code} is above {LARGEST_DSCP}"));
            }
            if let Some(pcp) = routing.priorities.values().find(|pcp| **pcp > 7) {
                return Err(format!("{what}: priority {pcp} is above 7"));
            }
        }
        let routers = self.routers();
        for stream in &self.streams {
            let what = format!("stream \"{}\"", stream.name);
            if stream.dscp.is_some_and(|dscp| dscp > LARGEST_DSCP) {
                return Err(format!("{what}: `dscp` is above {LARGEST_DSCP}"));
            }
            if stream.dscp.is_some() && stream.transport != super::Transport::Udp {
                return Err(format!("{what} has a `dscp`, but no IPv4 header"));
            }
            let redundant = self.is_redundant(stream);
            let passed = stream.routes.iter().find_map(|route| routers.first(route));
            if let (Some(router), Some(why)) = (passed, stream.kept_from_routers(redundant)) {
                return Err(format!("{what} passes router \"{router}\", but {why}"));
            }
        }
        Ok(())
    }

    /// True for both copies of a redundant stream.
    fn is_redundant(&self, stream: &Stream) -> bool {
        let name = Some(&stream.name);
        stream.copy_of.is_some() || self.streams.iter().any(|one| one.copy_of.as_ref() == name)
    }
}

/// The reasons for which a stream passes no router, as a message ends with them.
pub(crate) mod kept {
    pub(crate) const LAYER_2: &str = "RTDiP upon Ethernet is layer 2: routers forward UDP only";
    pub(crate) const REDUNDANT: &str =
        "redundancy (802.1CB) is layer 2: no router forwards its sequence numbers";
    pub(crate) const TIME_TRIGGERED: &str =
        "it is time-triggered: routers have no gates (802.1Qbv) for its windows";
}

impl Stream {
    /// Returns the reason for which no router forwards its frames. `None` if each router does.
    #[must_use]
    pub fn kept_from_routers(&self, redundant: bool) -> Option<&'static str> {
        if redundant {
            Some(kept::REDUNDANT)
        } else if self.time_triggered {
            Some(kept::TIME_TRIGGERED)
        } else if self.transport != super::Transport::Udp {
            Some(kept::LAYER_2)
        } else {
            None
        }
    }
}

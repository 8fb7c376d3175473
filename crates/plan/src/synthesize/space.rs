//! The values that each stream may have.

use std::collections::{BTreeMap, BTreeSet};

use super::MayChange;
use super::routes::Neighbours;
use crate::network::{ContractKind, Marks, Network, Stream};
use rtwire_describe::network::class_by;

/// The shortest shaping interval that is chosen, nanoseconds. A talker wakes this often.
const LEAST_SHAPING_NS: u64 = 50_000;
/// The largest number of shaping intervals of one stream, with the stated one.
const MOST_INTERVALS: usize = 7;

/// One stream of the file, with the values that it may have. The first of each list is the stated one.
pub(super) struct Entry {
    /// The stream's name in the file.
    pub(super) name: String,
    /// Its places in [`Network::streams`]: one, or those of both copies.
    pub(super) members: Vec<usize>,
    pub(super) priorities: Vec<u8>,
    /// For each priority, a number of the queues that it has on all routes. Equal numbers lead to equal plans.
    pub(super) classes: Vec<u8>,
    /// Its routes; empty for a stream whose routes stay.
    pub(super) routes: Vec<Vec<String>>,
    /// The fewest links of such a route.
    pub(super) fewest_links: usize,
    pub(super) intervals_ns: Vec<u64>,
    /// True for `schedule = "time-triggered"`.
    pub(super) scheduled: Vec<bool>,
}

/// The chosen value of each list of an [`Entry`], by its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Pick {
    pub(super) priority: u8,
    pub(super) route: u8,
    pub(super) interval: u8,
    pub(super) scheduled: u8,
}

/// All values of all streams.
pub(super) struct Space {
    pub(super) entries: Vec<Entry>,
    /// Streams that state the usual tick error, which a time-triggered stream would not have.
    pub(super) stated_tick_errors: BTreeSet<String>,
}

fn place(at: usize) -> u8 {
    // No list has more than eight values.
    u8::try_from(at).unwrap_or(0)
}

impl Entry {
    pub(super) fn priority(&self, pick: Pick) -> u8 {
        value(&self.priorities, pick.priority)
    }

    pub(super) fn class(&self, pick: Pick) -> u8 {
        value(&self.classes, pick.priority)
    }

    pub(super) fn route(&self, pick: Pick) -> Option<&Vec<String>> {
        self.routes.get(usize::from(pick.route))
    }

    pub(super) fn interval_ns(&self, pick: Pick) -> u64 {
        value(&self.intervals_ns, pick.interval)
    }

    pub(super) fn is_scheduled(&self, pick: Pick) -> bool {
        value(&self.scheduled, pick.scheduled)
    }

    /// Returns every combination of values, the stated ones first.
    pub(super) fn picks(&self) -> Vec<Pick> {
        let mut picks = Vec::new();
        for scheduled in 0..self.scheduled.len() {
            for interval in 0..self.intervals_ns.len() {
                for route in 0..self.routes.len().max(1) {
                    for priority in 0..self.priorities.len() {
                        picks.push(Pick {
                            priority: place(priority),
                            route: place(route),
                            interval: place(interval),
                            scheduled: place(scheduled),
                        });
                    }
                }
            }
        }
        picks
    }

    /// Returns the places of the values other than the chosen ones, each as one change.
    pub(super) fn others(&self, pick: Pick) -> Vec<Pick> {
        let other = |count: usize, now: u8| (0..count).map(place).filter(move |at| *at != now);
        let mut all = Vec::new();
        all.extend(
            other(self.priorities.len(), pick.priority).map(|priority| Pick { priority, ..pick }),
        );
        all.extend(other(self.routes.len(), pick.route).map(|route| Pick { route, ..pick }));
        all.extend(
            other(self.intervals_ns.len(), pick.interval).map(|interval| Pick { interval, ..pick }),
        );
        all.extend(
            other(self.scheduled.len(), pick.scheduled).map(|scheduled| Pick { scheduled, ..pick }),
        );
        all
    }

    /// Returns the pick with the place of this priority, if it has it.
    pub(super) fn with_priority(&self, pick: Pick, pcp: u8) -> Option<Pick> {
        let at = self.priorities.iter().position(|one| *one == pcp)?;
        Some(Pick {
            priority: place(at),
            ..pick
        })
    }

    /// Returns the pick with the shortest shaping interval.
    pub(super) fn with_least_interval(&self, pick: Pick) -> Pick {
        Pick {
            interval: place(self.intervals_ns.len().saturating_sub(1)),
            ..pick
        }
    }

    /// Returns the pick as a time-triggered stream, if it may be one.
    pub(super) fn as_scheduled(&self, pick: Pick) -> Option<Pick> {
        let at = self.scheduled.iter().position(|scheduled| *scheduled)?;
        Some(Pick {
            scheduled: place(at),
            ..pick
        })
    }
}

fn value<T: Copy + Default>(list: &[T], at: u8) -> T {
    list.get(usize::from(at)).copied().unwrap_or_default()
}

impl Space {
    pub(super) fn new(
        network: &Network,
        may: MayChange,
        all_priorities: bool,
        stated_tick_errors: &BTreeSet<String>,
    ) -> Space {
        let near = [false, true].map(|passes_routers| Neighbours::new(network, passes_routers));
        let queues = queues(network);
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        let mut entries: Vec<Entry> = Vec::new();
        for (index, stream) in network.streams.iter().enumerate() {
            if let Some(at) = by_name.get(stream.stated_name()) {
                entries[*at].members.push(index);
                continue;
            }
            by_name.insert(stream.stated_name(), entries.len());
            entries.push(Entry {
                name: stream.stated_name().to_owned(),
                members: vec![index],
                priorities: vec![stream.pcp],
                classes: vec![0],
                routes: Vec::new(),
                fewest_links: 0,
                intervals_ns: vec![stream.contract.shaping_interval_ns],
                scheduled: vec![stream.time_triggered],
            });
        }
        for entry in &mut entries {
            let stream = &network.streams[entry.members[0]];
            let redundant = entry.members.len() > 1;
            let near = &near[usize::from(stream.kept_from_routers(redundant).is_none())];
            let alone = entry.members.len() == 1 && stream.listeners.len() == 1;
            if let (true, [route]) = (alone, stream.routes.as_slice()) {
                entry.routes = if may.routes {
                    near.routes(route)
                } else {
                    vec![route.clone()]
                };
                entry.fewest_links = near.fewest(route);
            }
            if may.priorities {
                priorities(network, &queues, entry, all_priorities);
            }
            if may.shaping_intervals && stream.contract.kind == ContractKind::Rate {
                let stated_ns = stream.contract.shaping_interval_ns;
                entry.intervals_ns.extend(shorter(stated_ns));
            }
            if may.gates && may_be_scheduled(network, stream) {
                entry.scheduled.push(true);
            }
        }
        Space {
            entries,
            stated_tick_errors: stated_tick_errors.clone(),
        }
    }
}

/// The queue of each priority at each node.
type Queues<'a> = BTreeMap<&'a str, [u8; 8]>;

fn queues(network: &Network) -> Queues<'_> {
    let hosts = network.hosts.iter();
    let hosts = hosts.map(|it| (it.name.as_str(), it.priority_map.as_ref(), it.queues));
    let switches = network.switches.iter();
    let switches = switches.map(|it| (it.name.as_str(), it.priority_map.as_ref(), it.queues));
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    hosts
        .chain(switches)
        .map(|(name, map, queues)| (name, all.map(|pcp| class_by(map, pcp, queues))))
        .collect()
}

/// Enters the priorities that a stream may have. Unless `all`, of those with the same queues the nearest one.
fn priorities(network: &Network, queues: &Queues<'_>, entry: &mut Entry, all: bool) {
    let stated = entry.priorities[0];
    let mut nodes: BTreeSet<&str> = BTreeSet::new();
    let members = entry.members.iter();
    let stated_routes = members.flat_map(|index| &network.streams[*index].routes);
    for route in stated_routes.chain(&entry.routes) {
        nodes.extend(
            route
                .iter()
                .take(route.len().saturating_sub(1))
                .map(String::as_str),
        );
    }
    let routers = network.routers();
    let behind = |node: &&str| routers.get(node).is_some();
    let routed = nodes.iter().any(behind);
    let nodes: Vec<&[u8; 8]> = nodes.iter().filter_map(|node| queues.get(node)).collect();
    let at_nodes = |pcp: u8| -> Vec<u8> {
        let pcp = usize::from(pcp & 7);
        nodes.iter().map(|queues| queues[pcp]).collect()
    };
    // Behind a router the priority is the router's: along each route, then.
    let members = || entry.members.iter().map(|index| &network.streams[*index]);
    let routes = || members().flat_map(|it| &it.routes).chain(&entry.routes);
    let along = |pcp: u8| -> Vec<u8> {
        let marks = members().next().map(|stream| Stream {
            pcp,
            ..stream.clone()
        });
        let marks = marks.map_or(Marks::BEST_EFFORT, |stream| stream.marks());
        let hops = routes().flat_map(|route| routers.hops(route, marks));
        hops.filter_map(|(node, _, pcp)| Some(queues.get(node)?[usize::from(pcp & 7)]))
            .collect()
    };
    let queues = |pcp: u8| if routed { along(pcp) } else { at_nodes(pcp) };
    let mut known: Vec<Vec<u8>> = vec![queues(stated)];
    let mut others: Vec<u8> = (0..8).filter(|pcp| *pcp != stated).collect();
    // Of two that are as near, the higher one.
    others.sort_by_key(|pcp| (pcp.abs_diff(stated), core::cmp::Reverse(*pcp)));
    for pcp in others {
        let own = queues(pcp);
        let class = match known.iter().position(|one| *one == own) {
            Some(_) if !all => continue,
            Some(class) => class,
            None => {
                known.push(own);
                known.len() - 1
            }
        };
        entry.priorities.push(pcp);
        entry.classes.push(place(class));
    }
}

/// Returns the shaping intervals of 1, 2 and 5 times a power of ten below the stated one, the longest first.
fn shorter(stated_ns: u64) -> Vec<u64> {
    let mut found = Vec::new();
    let mut decade_ns = LEAST_SHAPING_NS / 5;
    while decade_ns < stated_ns {
        let rungs = [1, 2, 5].map(|times| decade_ns.saturating_mul(times));
        found.extend(
            rungs
                .into_iter()
                .filter(|ns| (LEAST_SHAPING_NS..stated_ns).contains(ns)),
        );
        decade_ns = decade_ns.saturating_mul(10);
    }
    found.reverse();
    found.truncate(MOST_INTERVALS - 1);
    found
}

fn may_be_scheduled(network: &Network, stream: &Stream) -> bool {
    let one_frame = matches!(
        stream.contract.kind,
        ContractKind::Interval { frames: 1, .. }
    );
    let passed = stream
        .routes
        .iter()
        .flat_map(|route| route.iter().take(route.len().saturating_sub(1)));
    let routed = |node: &&String| network.switch(node).is_some_and(|it| it.routing.is_some());
    if passed.clone().any(|node| routed(&node)) {
        return false;
    }
    let gated = passed.into_iter().any(|node| network.gates(node).is_some());
    !stream.time_triggered && !network.has_cyclic_streams() && one_frame && stream.shaped && gated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shaping_intervals_are_round_and_never_longer() {
        assert_eq!(shorter(1_000_000), [500_000, 200_000, 100_000, 50_000]);
        assert_eq!(shorter(60_000), [50_000]);
        assert_eq!(shorter(50_000), [0; 0]);
        let long = shorter(1_000_000_000_000);
        assert_eq!(long.len(), MOST_INTERVALS - 1);
        assert_eq!(long[0], 500_000_000_000);
    }

    #[test]
    fn priorities_of_the_same_queues_are_one() {
        let text = include_str!("../../../../examples/ring.toml");
        let network = crate::read(text, "ring.toml", &[]).unwrap();
        let none = BTreeSet::new();
        let space = Space::new(&network, MayChange::ALL, false, &none);
        // Hosts have eight queues, and so each priority is its own there.
        assert_eq!(space.entries[0].priorities, [6, 7, 5, 4, 3, 2, 1, 0]);
        let mut four = network.clone();
        for host in &mut four.hosts {
            host.queues = 4;
        }
        let space = Space::new(&four, MayChange::ALL, false, &none);
        assert_eq!(space.entries[0].priorities, [6, 5, 3, 1]);
        assert_eq!(space.entries[0].classes, [0, 1, 2, 3]);
        let space = Space::new(&four, MayChange::ALL, true, &none);
        assert_eq!(space.entries[0].classes, [0, 0, 1, 1, 2, 2, 3, 3]);
    }
}

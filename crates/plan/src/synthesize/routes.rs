//! The routes that a stream may take: simple ones with few links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::network::Network;

/// The largest number of routes of one stream, with the stated one.
pub(super) const MOST_ROUTES: usize = 4;
/// The largest number of links beyond the fewest.
const MOST_LONGER: usize = 2;
/// The largest number of steps of one search for routes.
const MOST_STEPS: usize = 20_000;

/// The neighbours of each node.
pub(super) struct Neighbours<'a> {
    of: BTreeMap<&'a str, Vec<&'a str>>,
    /// Switches, and routers where they forward the streams that are looked at.
    through: BTreeSet<&'a str>,
    /// False if there is one way between any two nodes.
    has_loops: bool,
}

impl<'a> Neighbours<'a> {
    /// Prepares a network, for streams that pass routers or for those that pass none.
    pub(super) fn new(network: &'a Network, passes_routers: bool) -> Neighbours<'a> {
        let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for link in &network.links {
            let [a, b] = &link.ends;
            of.entry(a).or_default().push(b);
            of.entry(b).or_default().push(a);
        }
        let switches = network.switches.iter();
        Neighbours {
            of,
            through: switches
                .filter(|switch| passes_routers || switch.routing.is_none())
                .map(|switch| switch.name.as_str())
                .collect(),
            has_loops: network.has_loops(),
        }
    }

    fn near(&self, node: &str) -> &[&'a str] {
        self.of.get(node).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of links from each node to `to`, through switches only.
    fn distances(&self, to: &'a str) -> BTreeMap<&'a str, usize> {
        let mut far = BTreeMap::from([(to, 0)]);
        let mut waiting = VecDeque::from([to]);
        while let Some(node) = waiting.pop_front() {
            let here = far.get(node).copied().unwrap_or(0);
            if node != to && !self.through.contains(node) {
                continue;
            }
            for next in self.near(node) {
                if !far.contains_key(next) {
                    far.insert(next, here + 1);
                    waiting.push_back(next);
                }
            }
        }
        far
    }

    /// Returns the routes from `stated` on: it first, then others by their number of links, and in the order of links.
    pub(super) fn routes(&self, stated: &'a [String]) -> Vec<Vec<String>> {
        let mut found = vec![stated.to_vec()];
        if !self.has_loops {
            return found;
        }
        let (Some(from), Some(to)) = (stated.first(), stated.last()) else {
            return found;
        };
        let far = self.distances(to);
        let Some(&fewest) = far.get(from.as_str()) else {
            return found;
        };
        let mut walk = Walk {
            near: self,
            far: &far,
            to,
            way: vec![from],
            steps: 0,
            found: &mut found,
        };
        for links in fewest..=fewest + MOST_LONGER {
            walk.on(links);
        }
        found
    }

    /// Returns the fewest links of a route with these ends.
    pub(super) fn fewest(&self, route: &'a [String]) -> usize {
        if !self.has_loops {
            return route.len().saturating_sub(1);
        }
        let far = route.last().map(|to| self.distances(to));
        let fewest = far.and_then(|far| far.get(route.first()?.as_str()).copied());
        fewest.unwrap_or(0)
    }
}

/// A search for routes of one length.
struct Walk<'a, 'b> {
    near: &'b Neighbours<'a>,
    far: &'b BTreeMap<&'a str, usize>,
    to: &'a str,
    way: Vec<&'a str>,
    steps: usize,
    found: &'b mut Vec<Vec<String>>,
}

impl Walk<'_, '_> {
    /// Takes every way of exactly `links` more links.
    fn on(&mut self, links: usize) {
        self.steps += 1;
        if self.found.len() >= MOST_ROUTES || self.steps > MOST_STEPS {
            return;
        }
        let Some(&here) = self.way.last() else { return };
        if links == 0 {
            let way: Vec<String> = self.way.iter().map(|node| (*node).to_owned()).collect();
            if here == self.to && !self.found.contains(&way) {
                self.found.push(way);
            }
            return;
        }
        let near = self.near;
        for &next in near.near(here) {
            let reaches = self.far.get(next).is_some_and(|far| *far < links);
            let through = next == self.to || near.through.contains(next);
            if reaches && through && !self.way.contains(&next) {
                self.way.push(next);
                self.on(links - 1);
                self.way.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way through a router is one for UDP only.
    #[test]
    fn a_layer_2_stream_has_no_way_through_a_router() {
        let text = include_str!("../../../../examples/ring.toml");
        let mut network = crate::read(text, "ring.toml", &[]).unwrap();
        let router = network.switches.iter_mut().find(|it| it.name == "s4");
        router.unwrap().routing = Some(crate::network::Routing::default());
        let stream = network.streams.iter().find(|one| one.name == "1-to-3");
        let stated = &stream.unwrap().routes[0];
        assert_eq!(Neighbours::new(&network, false).routes(stated).len(), 1);
        assert_eq!(Neighbours::new(&network, true).routes(stated).len(), 2);
    }

    #[test]
    fn a_ring_has_two_ways() {
        let text = include_str!("../../../../examples/ring.toml");
        let network = crate::read(text, "ring.toml", &[]).unwrap();
        let near = Neighbours::new(&network, false);
        let routes = |name: &str| {
            let stream = network.streams.iter().find(|one| one.name == name).unwrap();
            near.routes(&stream.routes[0])
        };
        assert_eq!(
            routes("1-to-3"),
            [
                ["cell1", "s1", "s2", "s3", "cell3"],
                ["cell1", "s1", "s4", "s3", "cell3"]
            ]
        );
        let other = routes("2-to-1");
        assert_eq!(other.len(), 2);
        assert_eq!(other[1], ["cell2", "s2", "s1", "cell1"]);
        assert_eq!(near.fewest(&other[0]), 3);
    }
}

//! The way of a frame through the network.

use std::collections::{BTreeMap, VecDeque};

/// Which nodes are joined; hosts never forward.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    /// Neighbours in the order of the file.
    neighbours: BTreeMap<String, Vec<String>>,
    switches: Vec<String>,
}

impl Topology {
    pub(crate) fn new(switches: Vec<String>) -> Topology {
        Topology {
            neighbours: BTreeMap::new(),
            switches,
        }
    }

    /// Join two nodes; false where they are joined already.
    pub(crate) fn join(&mut self, a: &str, b: &str) -> bool {
        if self.joined(a, b) {
            return false;
        }
        self.neighbours
            .entry(a.to_owned())
            .or_default()
            .push(b.to_owned());
        self.neighbours
            .entry(b.to_owned())
            .or_default()
            .push(a.to_owned());
        true
    }

    pub(crate) fn joined(&self, a: &str, b: &str) -> bool {
        self.neighbours(a).iter().any(|node| node == b)
    }

    pub(crate) fn neighbours(&self, node: &str) -> &[String] {
        self.neighbours.get(node).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_switch(&self, node: &str) -> bool {
        self.switches.iter().any(|switch| switch == node)
    }

    /// The shortest way, through switches only; of two equal ones the one whose links come first in the file.
    pub(crate) fn shortest(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut waiting = VecDeque::from([from]);
        while let Some(node) = waiting.pop_front() {
            if node == to {
                let mut way = vec![to.to_owned()];
                let mut at = to;
                while let Some(previous) = before.get(at) {
                    way.push((*previous).to_owned());
                    at = previous;
                }
                way.reverse();
                return Some(way);
            }
            if node != from && !self.is_switch(node) {
                continue;
            }
            for next in self.neighbours(node) {
                if next != from && !before.contains_key(next.as_str()) {
                    before.insert(next, node);
                    waiting.push_back(next);
                }
            }
        }
        None
    }

    /// A closed way that begins with the link `a`-`b`, if the other links join the two as well.
    pub(crate) fn loop_through(&self, a: &str, b: &str) -> Option<Vec<String>> {
        let mut without = self.clone();
        for (node, other) in [(a, b), (b, a)] {
            if let Some(list) = without.neighbours.get_mut(node) {
                list.retain(|neighbour| neighbour != other);
            }
        }
        without.shortest(b, a)
    }
}

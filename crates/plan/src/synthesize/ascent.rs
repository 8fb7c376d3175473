//! All choices in the order of their cost, one at a time. The first that fits is the least.
//!
//! Streams are chosen one after the other. A part of a choice costs no more than the whole, so that parts wait in one
//! heap by their cost (best-first branch and bound).

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cost::{Cost, Objective, Sums};
use super::space::{Pick, Space};

/// The largest number of parts that are kept: some 200 MB.
const MOST_NODES: usize = 2_000_000;

/// A part of a choice: the streams up to one of them.
struct Node {
    /// The sums with this stream.
    sums: Sums,
    /// The part without this stream; none for the first.
    parent: Option<u32>,
    /// The place of the stream among the free ones.
    depth: u32,
    /// The chain, and the place in it.
    chain: u8,
    at: u16,
}

/// All choices in ascending order.
pub(super) struct Ascent<'a> {
    space: &'a Space,
    objective: Objective,
    /// The streams that may change, as places in the space.
    free: Vec<usize>,
    /// For each free stream: its picks in chains. Within a chain, each costs no less than the one before.
    chains: Vec<Vec<Vec<Pick>>>,
    /// The sums of all other streams.
    base: Sums,
    nodes: Vec<Node>,
    heap: BinaryHeap<Reverse<(Cost, Reverse<u32>, u32)>>,
    /// The cost of the part that was taken last.
    last: Cost,
    /// True if some parts found no room.
    cut: bool,
}

impl<'a> Ascent<'a> {
    /// Begins with the choices of the streams that `free` marks; all others keep their stated values.
    pub(super) fn new(space: &'a Space, objective: Objective, free: &[bool]) -> Ascent<'a> {
        let all = space.entries.iter().enumerate();
        let stated = all.filter(|(at, _)| !free[*at]);
        let base = stated.fold(Sums::default(), |sums, (_, entry)| {
            sums.with(entry, Pick::default())
        });
        let free: Vec<usize> = (0..space.entries.len()).filter(|at| free[*at]).collect();
        let chains = free.iter().map(|at| chains(space, *at, objective));
        let mut ascent = Ascent {
            space,
            objective,
            chains: chains.collect(),
            free,
            base,
            nodes: Vec::new(),
            heap: BinaryHeap::new(),
            last: Cost::default(),
            cut: false,
        };
        ascent.open(None, 0, None);
        ascent
    }

    /// Returns the least cost that a choice not yet returned may have; `None` if none is left.
    pub(super) fn bound(&self) -> Option<Cost> {
        if self.cut {
            // What found no room costs as much at least.
            return Some(self.last);
        }
        self.heap.peek().map(|Reverse((cost, _, _))| *cost)
    }

    /// Returns true if a choice may have been left out because memory ended.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the next choice that costs less than `below`.
    pub(super) fn next(&mut self, below: Option<Cost>) -> Option<(Cost, Vec<Pick>)> {
        while let Some(Reverse((cost, _, index))) = self.heap.peek().copied() {
            if self.cut || below.is_some_and(|below| cost >= below) {
                return None;
            }
            self.heap.pop();
            self.last = cost;
            let node = self.node(index)?;
            let (parent, depth, chain, at) = (node.parent, node.depth, node.chain, node.at);
            self.push(parent, depth, (chain, at + 1), below);
            if depth as usize + 1 == self.free.len() {
                return Some((cost, self.picks(index)));
            }
            self.open(Some(index), depth + 1, below);
        }
        None
    }

    fn node(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    fn open(&mut self, parent: Option<u32>, depth: u32, below: Option<Cost>) {
        let count = self.chains.get(depth as usize).map_or(0, Vec::len);
        for chain in 0..count {
            self.push(parent, depth, (u8::try_from(chain).unwrap_or(0), 0), below);
        }
    }

    fn push(
        &mut self,
        parent: Option<u32>,
        depth: u32,
        (chain, at): (u8, u16),
        below: Option<Cost>,
    ) {
        let of_stream = self.chains.get(depth as usize);
        let picks = of_stream.and_then(|chains| chains.get(usize::from(chain)));
        let Some(pick) = picks.and_then(|picks| picks.get(usize::from(at))) else {
            return;
        };
        let before = parent.and_then(|parent| self.node(parent));
        let before = before.map_or(self.base, |node| node.sums);
        let entry = &self.space.entries[self.free[depth as usize]];
        let sums = before.with(entry, *pick);
        let cost = sums.cost(self.objective);
        if below.is_some_and(|below| cost >= below) {
            return;
        }
        let Ok(index) = u32::try_from(self.nodes.len()) else {
            return;
        };
        if self.nodes.len() >= MOST_NODES {
            self.cut = true;
            return;
        }
        self.nodes.push(Node {
            sums,
            parent,
            depth,
            chain,
            at,
        });
        self.heap.push(Reverse((cost, Reverse(depth), index)));
    }

    fn picks(&self, index: u32) -> Vec<Pick> {
        let mut picks = vec![Pick::default(); self.space.entries.len()];
        let mut next = Some(index);
        while let Some(node) = next.and_then(|index| self.node(index)) {
            let depth = node.depth as usize;
            picks[self.free[depth]] =
                self.chains[depth][usize::from(node.chain)][usize::from(node.at)];
            next = node.parent;
        }
        picks
    }
}

/// Returns the picks of a stream in chains. By `Simple`, the cost of a priority depends on the streams before: each
/// priority is a chain of its own.
fn chains(space: &Space, at: usize, objective: Objective) -> Vec<Vec<Pick>> {
    let entry = &space.entries[at];
    let mut chains: Vec<Vec<Pick>> = match objective {
        Objective::Changes => vec![entry.picks()],
        Objective::Simple => {
            let mut by_priority = vec![Vec::new(); entry.priorities.len()];
            for pick in entry.picks() {
                by_priority[usize::from(pick.priority)].push(pick);
            }
            by_priority
        }
    };
    for chain in &mut chains {
        chain.sort_by_key(|pick| Sums::default().with(entry, *pick).cost(objective));
    }
    chains
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::super::MayChange;
    use super::*;

    /// Tests that every choice comes once, in ascending order, and none that costs as much as the limit.
    #[test]
    fn each_choice_comes_once_and_in_order() {
        let text = include_str!("../../../../examples/ring.toml");
        let network = crate::read(text, "ring.toml", &[]).unwrap();
        for objective in [Objective::Changes, Objective::Simple] {
            let none = BTreeSet::new();
            let mut space = Space::new(&network, MayChange::ALL, true, &none);
            for entry in &mut space.entries {
                entry.priorities.truncate(3);
                entry.classes.truncate(3);
            }
            let free = [true, true, false, true];
            let count: usize = [0, 1, 3]
                .map(|at: usize| space.entries[at].picks().len())
                .iter()
                .product();
            let mut ascent = Ascent::new(&space, objective, &free);
            let (mut seen, mut costs) = (HashSet::new(), Vec::new());
            while let Some((cost, picks)) = ascent.next(None) {
                let pairs = space.entries.iter().zip(&picks);
                let sums = pairs.fold(Sums::default(), |sums, (entry, pick)| {
                    sums.with(entry, *pick)
                });
                assert_eq!(sums.cost(objective), cost);
                assert_eq!(picks[2], Pick::default());
                assert!(costs.last().is_none_or(|last| *last <= cost));
                costs.push(cost);
                assert!(seen.insert(picks));
            }
            assert_eq!(seen.len(), count);
            assert!(!ascent.is_cut() && ascent.bound().is_none());
            let limit = costs[count / 2];
            let mut ascent = Ascent::new(&space, objective, &free);
            let below = core::iter::from_fn(|| ascent.next(Some(limit))).count();
            assert_eq!(below, costs.iter().filter(|cost| **cost < limit).count());
        }
    }
}

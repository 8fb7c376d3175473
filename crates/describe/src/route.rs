//! The routes of frames through a network: the shortest one, and two that share no link.
//!
//! Of equally short routes, the last link in which they differ decides. The route without that link is chosen; "last"
//! is by the order of the description.
//!
//! This is an order by a sum in which link `i` weighs `2^i`. So no two routes are equal, a part of a chosen route is
//! chosen itself, and the route back uses the same links. All routes from a node form a tree, which serves multicast.
//! All routes to a node form a tree too, which switches use to forward by address.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::network::Network;

/// The rule that chooses among routes, as plans state it.
const RULE: &str = "where a stream states none: fewest links; of equally short ways the one without the link that comes later in the description";

/// Returns the rule that chooses among routes in a network, as its plan states it.
#[must_use]
pub fn rule(network: &Network) -> String {
    let routed = network.switches.iter().any(|it| it.routing.is_some());
    let routers = if routed {
        "; only UDP streams and best effort pass routers"
    } else {
        ""
    };
    format!("{RULE}{routers}")
}

/// The links between nodes, by number. Numbers below `hosts` are hosts, which forward nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    hosts: usize,
    /// Neighbour and link, in the order of the description.
    neighbours: Vec<Vec<(usize, usize)>>,
    links: usize,
    searches: RefCell<BTreeMap<usize, Search>>,
}

/// The shortest routes from one node, as far as they were asked for.
#[derive(Clone, Debug, Default)]
struct Search {
    /// For each node: the distance, the node before, and the link from it.
    found: HashMap<usize, (usize, usize, usize)>,
    waiting: VecDeque<usize>,
}

impl Joined {
    pub(crate) fn new(hosts: usize, nodes: usize) -> Joined {
        Joined {
            hosts,
            neighbours: vec![Vec::new(); nodes],
            ..Joined::default()
        }
    }

    pub(crate) fn join(&mut self, a: usize, b: usize) {
        self.neighbours[a].push((b, self.links));
        self.neighbours[b].push((a, self.links));
        self.links += 1;
    }

    /// Returns the neighbours of a node in the order of the description.
    pub(crate) fn neighbours(&self, node: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.neighbours[node].iter().map(|(near, _)| *near)
    }

    /// Returns the shortest route from one node to another, both included, through switches only.
    pub(crate) fn shortest(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut searches = self.searches.borrow_mut();
        let search = searches.entry(from).or_insert_with(|| Search::new(from));
        search.until(self, Some(to));
        search.way(to)
    }

    /// Returns the next node towards `to`, for each switch that reaches it.
    pub(crate) fn towards(&self, to: usize) -> BTreeMap<usize, usize> {
        let mut search = Search::new(to);
        search.until(self, None);
        let found = search.found.into_iter();
        found
            .filter(|(node, _)| *node != to && *node >= self.hosts)
            .map(|(node, (_, next, _))| (node, next))
            .collect()
    }

    /// Returns two routes that share no link and have the fewest links together, the shorter one first.
    ///
    /// J. W. Suurballe's method in R. Bhandari's form. The links of the shortest route may be taken backwards only,
    /// and each of them then reduces the length by one. Links that both routes use are left out.
    pub(crate) fn disjoint(&self, from: usize, to: usize) -> Option<[Vec<usize>; 2]> {
        let first = self.shortest(from, to)?;
        let taken: BTreeSet<(usize, usize)> = pairs(&first).collect();
        let second = self.through_what_is_left(from, to, &taken)?;
        let mut steps: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let back: BTreeSet<(usize, usize)> = pairs(&second).map(|(a, b)| (b, a)).collect();
        let kept = taken.iter().filter(|step| !back.contains(step)).copied();
        let added = pairs(&second).filter(|(a, b)| !taken.contains(&(*b, *a)));
        for (a, b) in kept.chain(added) {
            steps.entry(a).or_default().insert(b);
        }
        let mut walk = || {
            let mut way = vec![from];
            let mut at = from;
            while at != to {
                at = steps.get_mut(&at)?.pop_first()?;
                way.push(at);
            }
            Some(way)
        };
        let (one, other) = (walk()?, walk()?);
        Some(if other.len() < one.len() {
            [other, one]
        } else {
            [one, other]
        })
    }

    /// Returns the shortest route in which the steps of `taken` are not taken again. Taking one backwards reduces the
    /// length.
    fn through_what_is_left(
        &self,
        from: usize,
        to: usize,
        taken: &BTreeSet<(usize, usize)>,
    ) -> Option<Vec<usize>> {
        let mut far: HashMap<usize, (i64, usize)> = HashMap::from([(from, (0, from))]);
        let mut waiting = VecDeque::from([from]);
        let mut queued = BTreeSet::from([from]);
        while let Some(node) = waiting.pop_front() {
            queued.remove(&node);
            if node < self.hosts && node != from {
                continue;
            }
            let here = far.get(&node)?.0;
            for near in self.neighbours(node) {
                if taken.contains(&(node, near)) || near == from {
                    continue;
                }
                let step = if taken.contains(&(near, node)) { -1 } else { 1 };
                let better = far.get(&near).is_none_or(|(best, _)| here + step < *best);
                if better {
                    far.insert(near, (here + step, node));
                    if queued.insert(near) {
                        waiting.push_back(near);
                    }
                }
            }
        }
        let mut way = vec![to];
        let mut at = to;
        while at != from {
            at = far.get(&at)?.1;
            way.push(at);
        }
        way.reverse();
        Some(way)
    }
}

fn pairs(way: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    way.windows(2).map(|pair| (pair[0], pair[1]))
}

impl Search {
    fn new(from: usize) -> Search {
        Search {
            found: HashMap::from([(from, (0, from, usize::MAX))]),
            waiting: VecDeque::from([from]),
        }
    }

    /// Continues until the route to `to` is final; searches everywhere if `to` is `None`.
    fn until(&mut self, joined: &Joined, to: Option<usize>) {
        while let Some(&node) = self.waiting.front() {
            let far = self.found.get(&node).map_or(0, |found| found.0);
            let done = to.and_then(|to| self.found.get(&to));
            if done.is_some_and(|found| found.0 <= far) {
                return;
            }
            self.waiting.pop_front();
            if node < joined.hosts && far > 0 {
                continue;
            }
            for &(near, link) in &joined.neighbours[node] {
                match self.found.get(&near) {
                    None => {
                        self.found.insert(near, (far + 1, node, link));
                        self.waiting.push_back(near);
                    }
                    Some(&(other, before, by)) if other == far + 1 => {
                        if self.is_better((node, link), (before, by)) {
                            self.found.insert(near, (far + 1, node, link));
                        }
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Compares two last steps from equally distant nodes. True if the first one belongs to the chosen route.
    fn is_better(&self, one: (usize, usize), other: (usize, usize)) -> bool {
        let ((mut a, mut last_a), (mut b, mut last_b)) = (one, other);
        while a != b {
            let (Some(&(_, up_a, by_a)), Some(&(_, up_b, by_b))) =
                (self.found.get(&a), self.found.get(&b))
            else {
                return false;
            };
            (a, b) = (up_a, up_b);
            last_a = last_a.max(by_a);
            last_b = last_b.max(by_b);
        }
        last_a < last_b
    }

    fn way(&self, to: usize) -> Option<Vec<usize>> {
        let mut way = vec![to];
        let mut at = to;
        loop {
            let &(far, before, _) = self.found.get(&at)?;
            if far == 0 {
                way.reverse();
                return Some(way);
            }
            at = before;
            way.push(at);
        }
    }
}

impl Network {
    /// True if some nodes are joined by more than one path.
    #[must_use]
    pub fn has_loops(&self) -> bool {
        let mut groups: HashMap<&str, &str> = HashMap::new();
        fn top<'a>(groups: &mut HashMap<&'a str, &'a str>, mut node: &'a str) -> &'a str {
            while let Some(&above) = groups.get(node) {
                if let Some(&higher) = groups.get(above) {
                    groups.insert(node, higher);
                }
                node = above;
            }
            node
        }
        self.links.iter().any(|link| {
            let a = top(&mut groups, &link.ends[0]);
            let b = top(&mut groups, &link.ends[1]);
            if a != b {
                groups.insert(a, b);
            }
            a == b
        })
    }

    /// Returns, for each switch that reaches `host`, the neighbour towards it on routes that are not stated.
    #[must_use]
    pub fn towards(&self, host: &str) -> BTreeMap<&str, &str> {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        let switches = self.switches.iter().map(|switch| switch.name.as_str());
        let names: Vec<&str> = hosts.chain(switches).collect();
        let numbers: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(number, name)| (*name, number))
            .collect();
        let mut joined = Joined::new(self.hosts.len(), names.len());
        for link in &self.links {
            let [a, b] = &link.ends;
            if let (Some(a), Some(b)) = (numbers.get(a.as_str()), numbers.get(b.as_str())) {
                joined.join(*a, *b);
            }
        }
        let Some(to) = numbers.get(host) else {
            return BTreeMap::new();
        };
        let towards = joined.towards(*to).into_iter();
        towards
            .map(|(node, next)| (names[node], names[next]))
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::Joined;

    /// Returns every simple path from one node to another, with its links.
    fn all(
        joined: &Joined,
        to: usize,
        way: &mut Vec<usize>,
        links: &mut Vec<usize>,
        found: &mut Vec<(Vec<usize>, Vec<usize>)>,
    ) {
        let at = *way.last().unwrap();
        if at == to {
            found.push((way.clone(), links.clone()));
            return;
        }
        if at < joined.hosts && way.len() > 1 {
            return;
        }
        for &(near, link) in &joined.neighbours[at] {
            if !way.contains(&near) {
                way.push(near);
                links.push(link);
                all(joined, to, way, links, found);
                way.pop();
                links.pop();
            }
        }
    }

    fn ways(joined: &Joined, from: usize, to: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut found = Vec::new();
        all(joined, to, &mut vec![from], &mut Vec::new(), &mut found);
        found
    }

    fn below(state: &mut u64, limit: u64) -> usize {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from((*state >> 33) % limit).unwrap()
    }

    /// Returns one or two hosts and up to six switches, joined at random.
    fn random(state: &mut u64) -> Joined {
        let switches = 2 + below(state, 5);
        let mut joined = Joined::new(2, 2 + switches);
        let mut known = Vec::new();
        for _ in 0..switches + below(state, 6) {
            let (a, b) = (below(state, switches as u64), below(state, switches as u64));
            if a != b && !known.contains(&(a.min(b), a.max(b))) {
                known.push((a.min(b), a.max(b)));
                joined.join(2 + a, 2 + b);
            }
        }
        joined.join(0, 2);
        joined.join(1, 1 + switches);
        joined
    }

    #[test]
    fn the_shortest_way_is_that_of_trying_all() {
        let mut state = 7;
        for _ in 0..500 {
            let joined = random(&mut state);
            for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
                let expected = ways(&joined, from, to)
                    .into_iter()
                    .min_by_key(|(way, links)| {
                        (
                            way.len(),
                            links.iter().map(|link| 1_u64 << link).sum::<u64>(),
                        )
                    });
                let way = joined.shortest(from, to);
                assert_eq!(way, expected.map(|(way, _)| way), "{joined:?}");
                if let (Some(way), true) = (way, from >= 2 && to >= 2) {
                    // The same in the tables that switches forward by.
                    let towards = joined.towards(to);
                    let mut walked = vec![from];
                    while *walked.last().unwrap() != to {
                        walked.push(towards[walked.last().unwrap()]);
                    }
                    assert_eq!(walked, way);
                }
            }
        }
    }

    #[test]
    fn two_ways_share_no_link_and_no_others_are_shorter() {
        let (mut state, mut pairs) = (11, 0);
        for _ in 0..500 {
            let joined = random(&mut state);
            let (from, to) = (2, joined.neighbours.len() - 1);
            let all = ways(&joined, from, to);
            let mut least = None;
            for (at, one) in all.iter().enumerate() {
                for other in &all[at + 1..] {
                    if one.1.iter().all(|link| !other.1.contains(link)) {
                        let sum = one.1.len() + other.1.len();
                        least = Some(least.unwrap_or(sum).min(sum));
                    }
                }
            }
            let found = joined.disjoint(from, to);
            assert_eq!(
                found
                    .as_ref()
                    .map(|[one, other]| one.len() + other.len() - 2),
                least,
                "{joined:?}"
            );
            if let Some([one, other]) = found {
                pairs += 1;
                let known: Vec<&Vec<usize>> = all.iter().map(|(way, _)| way).collect();
                assert!(known.contains(&&one) && known.contains(&&other));
                assert!(one.len() <= other.len());
            }
        }
        assert!(pairs > 100, "{pairs}");
    }
}

//! The nodes of a description by name, and the route between any two hosts.
//!
//! The cost of a question grows with the length of its answer, not with the file. Names are looked up in an index.
//! Without loops the switches form a forest, and a route is found by climbing its trees. With loops the searches are
//! kept for the next question, and go no further than they must.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::network::{Host, Switch, kept};
use crate::route::Joined;

/// The place of a switch in the spanning forest.
#[derive(Clone, Copy)]
struct Place {
    /// The switch above; for a root, the switch itself.
    above: usize,
    depth: usize,
    root: usize,
}

/// Hosts, routers and switches under one numbering: hosts first, then routers, then switches.
pub(super) struct Nodes<'a> {
    numbers: BTreeMap<&'a str, usize>,
    names: Vec<&'a str>,
    host_count: usize,
    /// The number of the first switch.
    first_switch: usize,
    /// Layer 2: switches forward, routers do not.
    graph: Joined,
    /// Switches and routers forward. Absent without routers: then it would be the same.
    routed: Option<Joined>,
    joined: BTreeSet<(usize, usize)>,
    forest: Vec<Option<Place>>,
    /// True if some switches are joined by more than one path.
    loops: bool,
}

impl<'a> Nodes<'a> {
    pub(super) fn new(hosts: &'a [Host], switches: &'a [Switch]) -> Nodes<'a> {
        let of_kind = |routes: bool| {
            let all = switches.iter();
            let all = all.filter(move |it| it.routing.is_some() == routes);
            all.map(|it| it.name.as_str())
        };
        let mut names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        names.extend(of_kind(true));
        let first_switch = names.len();
        names.extend(of_kind(false));
        let numbers = names
            .iter()
            .enumerate()
            .map(|(number, name)| (*name, number))
            .collect();
        Nodes {
            numbers,
            host_count: hosts.len(),
            first_switch,
            graph: Joined::new(first_switch, names.len()),
            routed: (first_switch > hosts.len()).then(|| Joined::new(hosts.len(), names.len())),
            joined: BTreeSet::new(),
            forest: vec![None; names.len()],
            loops: false,
            names,
        }
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub(super) fn name(&self, number: usize) -> &'a str {
        self.names[number]
    }

    /// Returns all names, hosts first.
    pub(super) fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// Returns the names of the hosts.
    pub(super) fn host_names(&self) -> &[&'a str] {
        &self.names[..self.host_count]
    }

    /// Returns the index of a host.
    pub(super) fn host(&self, name: &str) -> Option<usize> {
        self.number(name).filter(|number| *number < self.host_count)
    }

    /// Returns what the node is, in a word.
    pub(super) fn kind_word(&self, name: &str) -> Option<&'static str> {
        let number = self.number(name)?;
        Some(match number {
            _ if number < self.host_count => "host",
            _ if number < self.first_switch => "router",
            _ => "switch",
        })
    }

    pub(super) fn has_routers(&self) -> bool {
        self.routed.is_some()
    }

    /// Returns the kinds of nodes of the description, for a message about a name that is none of them.
    pub(super) fn kinds(&self) -> &'static str {
        if self.has_routers() {
            "host, switch or router"
        } else {
            "host or switch"
        }
    }

    /// True for a switch or a router. Hosts never forward.
    pub(super) fn forwards(&self, number: usize) -> bool {
        number >= self.host_count
    }

    /// Returns the neighbours in the order of the file.
    pub(super) fn neighbours(&self, number: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.graph.neighbours(number)
    }

    pub(super) fn has_link(&self, name: &str) -> bool {
        self.number(name)
            .is_some_and(|number| self.neighbours(number).len() > 0)
    }

    pub(super) fn joined(&self, a: usize, b: usize) -> bool {
        self.joined.contains(&(a.min(b), a.max(b)))
    }

    /// Joins two nodes. Returns false if they are joined already.
    pub(super) fn join(&mut self, a: usize, b: usize) -> bool {
        if !self.joined.insert((a.min(b), a.max(b))) {
            return false;
        }
        self.graph.join(a, b);
        if let Some(routed) = &mut self.routed {
            routed.join(a, b);
        }
        true
    }

    /// Builds the spanning forest over the switches, once all links are known.
    pub(super) fn settle(&mut self) {
        for root in self.first_switch..self.names.len() {
            if self.forest[root].is_some() {
                continue;
            }
            self.forest[root] = Some(Place {
                above: root,
                depth: 0,
                root,
            });
            let mut waiting = VecDeque::from([(root, 0)]);
            while let Some((node, depth)) = waiting.pop_front() {
                for next in self.graph.neighbours(node) {
                    if next >= self.first_switch && self.forest[next].is_none() {
                        self.forest[next] = Some(Place {
                            above: node,
                            depth: depth + 1,
                            root,
                        });
                        waiting.push_back((next, depth + 1));
                    }
                }
            }
        }
        let between = |(a, _): &&(usize, usize)| *a >= self.first_switch;
        let links = self.joined.iter().filter(between).count();
        let hanging = self.forest.iter().flatten().filter(|it| it.depth > 0);
        self.loops = links > hanging.count();
    }

    /// Returns two routes between hosts that share no link between switches, the shorter one first. At a host with several
    /// links they use different ones, if there are such routes.
    ///
    /// # Errors
    /// The reason in words. `None` if there is no route at all, which another check reports.
    pub(super) fn disjoint(
        &self,
        from: &str,
        to: &str,
    ) -> Result<[Vec<String>; 2], Option<String>> {
        let way = self.way(from, to).ok_or(None)?;
        let number = |name: &str| self.number(name).ok_or(None);
        let (a, b) = (number(from)?, number(to)?);
        let (first, last) = (number(&way[1])?, number(&way[way.len() - 2])?);
        // At a host with several links each copy has one of its own where there are such ways, else both have the same.
        for start in self.ends_of_copies(a, first) {
            for end in self.ends_of_copies(b, last) {
                let ways = (start != end).then(|| self.graph.disjoint(start, end));
                let Some(ways) = ways.flatten() else {
                    continue;
                };
                return Ok(ways.map(|way| {
                    let before = Some(a).filter(|host| *host != start);
                    let behind = Some(b).filter(|host| *host != end);
                    let whole: Vec<usize> = before.into_iter().chain(way).chain(behind).collect();
                    self.named(&whole)
                }));
            }
        }
        Err(Some(if way.len() < 4 {
            format!(
                "\"{from}\" and \"{to}\" have no link between switches on their way: there are no two ways"
            )
        } else {
            let through = self.two_through_a_router(first, last);
            let through = through.map_or_else(String::new, |router| {
                format!(
                    "; two ways would pass router \"{router}\", but {}",
                    kept::REDUNDANT
                )
            });
            format!(
                "there are no two ways from \"{from}\" to \"{to}\" that share no link between switches{through}"
            )
        }))
    }

    /// Returns the first router on two ways between two switches that share no link, if there are such ways.
    fn two_through_a_router(&self, from: usize, to: usize) -> Option<&'a str> {
        let routed = self.routed.as_ref().filter(|_| from != to)?;
        let ways = routed.disjoint(from, to)?;
        let mut nodes = ways.iter().flatten();
        let router = nodes.find(|node| **node < self.first_switch)?;
        Some(self.names[*router])
    }

    /// Returns where the ways of two copies may part: at the host if it has several links, and at its switch.
    fn ends_of_copies(&self, host: usize, switch: usize) -> impl Iterator<Item = usize> {
        let at_host = self.has_several_links(host).then_some(host);
        let at_switch = self.forwards(switch).then_some(switch);
        at_host.into_iter().chain(at_switch)
    }

    /// True for a host that can send over more than one link.
    fn has_several_links(&self, node: usize) -> bool {
        !self.forwards(node) && self.neighbours(node).len() > 1
    }

    /// Returns the shortest route between two hosts through switches and routers, by the order of [`crate::route`].
    pub(super) fn routed_way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let Some(routed) = &self.routed else {
            return self.way(from, to);
        };
        let way = routed.shortest(self.number(from)?, self.number(to)?)?;
        Some(self.named(&way))
    }

    /// Returns the shortest route between two hosts, through switches only, by the order of [`crate::route`].
    pub(super) fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let (from, to) = (self.number(from)?, self.number(to)?);
        if self.joined(from, to) {
            return Some(self.named(&[from, to]));
        }
        if self.has_several_links(from) || self.has_several_links(to) {
            return Some(self.named(&self.graph.shortest(from, to)?));
        }
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for near in self.neighbours(to) {
            if let Some(place) = self.forest[near] {
                last.entry(place.root).or_insert(near);
            }
        }
        let (first, last) = self.neighbours(from).find_map(|near| {
            let place = self.forest[near]?;
            Some((near, *last.get(&place.root)?))
        })?;
        let mut way = vec![from];
        way.extend(if self.loops {
            self.graph.shortest(first, last)?
        } else {
            self.climb(first, last)?
        });
        way.push(to);
        Some(self.named(&way))
    }

    /// Returns the switches from one to another in the same tree, both included.
    fn climb(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let (mut up, mut down) = (vec![from], vec![to]);
        let (mut a, mut b) = (from, to);
        while a != b {
            let (of_a, of_b) = (self.forest[a]?, self.forest[b]?);
            if of_a.depth >= of_b.depth {
                a = of_a.above;
                up.push(a);
            } else {
                b = of_b.above;
                down.push(b);
            }
        }
        // The node where they meet is the last of both.
        down.pop();
        up.extend(down.into_iter().rev());
        Some(up)
    }

    fn named(&self, way: &[usize]) -> Vec<String> {
        way.iter()
            .map(|node| self.names[*node].to_owned())
            .collect()
    }
}

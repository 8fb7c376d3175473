//! Routes between hosts.

use std::collections::{HashMap, HashSet};

use rtwire_plan::{Link, Network};

use crate::ledger::refused;
use crate::message::{Reason, Refused};

/// The shortest ways between the hosts of a network.
#[derive(Debug)]
pub(crate) struct Ways {
    /// The only neighbour of each host; empty for one without a cable.
    neighbours: HashMap<String, String>,
    /// For each switch whose hosts were asked for: the next node towards it. Hosts of one switch share its tree.
    trees: HashMap<String, HashMap<String, String>>,
    /// The switches and the links between them. Hosts forward nothing, so that a tree is found without them.
    switches: Network,
}

/// Returns the switches of a network and the links between them, in the description's order: it decides among equal routes.
fn only_switches(network: &Network) -> Network {
    let names: HashSet<&str> = network.switches.iter().map(|at| at.name.as_str()).collect();
    let between = |link: &&Link| link.ends.iter().all(|end| names.contains(end.as_str()));
    Network {
        switches: network.switches.clone(),
        links: network.links.iter().filter(between).cloned().collect(),
        ..Network::default()
    }
}

impl Ways {
    pub(crate) fn new(network: &Network) -> Ways {
        let mut neighbours: HashMap<String, String> = HashMap::new();
        for host in &network.hosts {
            neighbours.insert(host.name.clone(), String::new());
        }
        for link in &network.links {
            let [a, b] = &link.ends;
            for (host, other) in [(a, b), (b, a)] {
                // The first link counts.
                if let Some(neighbour) = neighbours.get_mut(host).filter(|one| one.is_empty()) {
                    neighbour.clone_from(other);
                }
            }
        }
        Ways {
            neighbours,
            trees: HashMap::new(),
            switches: only_switches(network),
        }
    }

    /// Returns the nodes from one host to another.
    pub(crate) fn between(&mut self, talker: &str, listener: &str) -> Result<Vec<String>, Refused> {
        let unknown = |what: &str| refused(Reason::Faulty, format!("there is no host \"{what}\""));
        let Some(first) = self.neighbours.get(talker) else {
            return Err(unknown(talker));
        };
        // The last switch; or the talker, where one cable joins both hosts.
        let Some(last) = self.neighbours.get(listener) else {
            return Err(unknown(listener));
        };
        if talker == listener {
            return Err(refused(
                Reason::Faulty,
                "talker and listener are one host: nothing crosses the network",
            ));
        }
        if last == talker {
            return Ok(vec![talker.to_owned(), listener.to_owned()]);
        }
        if !self.trees.contains_key(last) {
            let towards = self.switches.towards(last).into_iter();
            let owned = towards.map(|(node, next)| (node.to_owned(), next.to_owned()));
            self.trees.insert(last.clone(), owned.collect());
        }
        let tree = &self.trees[last];
        let mut way = vec![talker.to_owned(), first.clone()];
        // A host without a cable has no neighbour.
        while let Some(at) = way.last().filter(|at| *at != last || last.is_empty()) {
            // A tree without circles: each step is closer to the last switch.
            let Some(next) = tree.get(at) else {
                return Err(refused(
                    Reason::Faulty,
                    format!("there is no way from \"{talker}\" to \"{listener}\""),
                ));
            };
            way.push(next.clone());
        }
        way.push(listener.to_owned());
        Ok(way)
    }
}

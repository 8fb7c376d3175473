//! Routes through the network, and what they take at most.

use std::sync::Arc;

use rtwire_plan::admission::Route;

use super::{Ledger, refused};
use crate::message::{Reason, Refused};

impl Ledger {
    /// Returns the nodes from one host to another.
    pub(crate) fn way(&mut self, talker: &str, listener: &str) -> Result<Vec<String>, Refused> {
        let unknown = |what: &str| refused(Reason::Faulty, format!("there is no host \"{what}\""));
        let Some(from) = self.places.get(talker) else {
            return Err(unknown(talker));
        };
        let Some(to) = self.places.get(listener) else {
            return Err(unknown(listener));
        };
        if talker == listener {
            return Err(refused(
                Reason::Faulty,
                "talker and listener are one host: nothing crosses the network",
            ));
        }
        // The last switch; or the talker, where one cable joins both hosts.
        let last = to.neighbour.as_str();
        if last == talker {
            return Ok(vec![talker.to_owned(), listener.to_owned()]);
        }
        let tree = self.trees.entry(last.to_owned()).or_insert_with(|| {
            let towards = self.switches.towards(last).into_iter();
            towards
                .map(|(node, next)| (node.to_owned(), next.to_owned()))
                .collect()
        });
        let mut way = vec![talker.to_owned(), from.neighbour.clone()];
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

    pub(crate) fn route(&mut self, talker: &str, listener: &str) -> Result<Arc<Route>, Refused> {
        let way = self.way(talker, listener)?;
        self.admission
            .route(&[way])
            .map_err(|error| refused(Reason::Faulty, error.to_string()))
    }

    /// Returns a time that no promise exceeds, ns: that of the route with the most ports, if each of them takes the longest
    /// budget and cable.
    pub(crate) fn longest_promise_ns(&self) -> u64 {
        let network = &self.base.network;
        let Some(root) = network.hosts.first() else {
            return 0;
        };
        // No way is longer than those of two switches to one host together: each of these ends with a host's link.
        let towards = network.towards(&root.name);
        let mut farthest = 0_u64;
        for switch in towards.keys() {
            let mut at = *switch;
            let mut count = 0;
            while let Some(next) = towards.get(at) {
                (at, count) = (next, count + 1);
            }
            farthest = farthest.max(count);
        }
        let ports = network.links.iter().flat_map(|link| {
            let [a, b] = &link.ends;
            [(a, b, link.cable_delay_ns), (b, a, link.cable_delay_ns)]
        });
        let times = ports.flat_map(|(from, to, cable_ns)| {
            (0..8).filter_map(move |class| {
                let budget_ns = self.admission.budget_ns(from, to, class)?;
                Some(budget_ns.saturating_add(cable_ns))
            })
        });
        let longest_ns = times.max().unwrap_or(0);
        longest_ns.saturating_mul((2 * farthest).max(1))
    }
}

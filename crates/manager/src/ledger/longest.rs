//! The longest promise of any route.

use super::Ledger;

impl Ledger {
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

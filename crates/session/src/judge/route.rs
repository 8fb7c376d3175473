//! The ports on a stream's route, and what the contracts there allow.

use rtwire_measure::verdict::{PortId, hold_ns};
use rtwire_plan::{Plan, PortPlan, Ratio};

/// The part of a route that the verdict needs.
pub(super) struct Way {
    pub(super) ports: Vec<PortId>,
    pub(super) link_rate_bps: u64,
    pub(super) utilization_ppm: u32,
    pub(super) hold_ns: u64,
}

pub(super) fn ports(route: &[String]) -> Vec<PortId> {
    let hops = route.windows(2);
    hops.map(|hop| PortId::new(&hop[0], &hop[1])).collect()
}

impl Way {
    pub(super) fn of(plan: &Plan, route: &[String]) -> Self {
        let ports = ports(route);
        let plans: Vec<&PortPlan> = ports.iter().filter_map(|id| port(plan, id)).collect();
        let rates = plans.iter().map(|port| port.link_rate_bps);
        let used = plans.iter().map(|port| ppm(port.utilization));
        Self {
            link_rate_bps: rates.min().unwrap_or(0),
            utilization_ppm: used.max().unwrap_or(0),
            hold_ns: ports.iter().map(|id| hold(plan, id)).max().unwrap_or(0),
            ports,
        }
    }
}

fn port<'a>(plan: &'a Plan, id: &PortId) -> Option<&'a PortPlan> {
    let mut ports = plan.ports.iter();
    ports.find(|port| port.node == id.node && port.port == id.port)
}

/// Returns the longest time for which one contract through this port may send at the link's rate, ns.
fn hold(plan: &Plan, id: &PortId) -> u64 {
    let Some(rate) = port(plan, id).map(|port| port.link_rate_bps) else {
        return 0;
    };
    let passes = |routes: &[Vec<String>]| routes.iter().any(|route| ports(route).contains(id));
    let streams = plan.network.streams.iter();
    let others = plan.network.best_effort.iter();
    let streams = streams
        .filter(|stream| passes(&stream.routes))
        .map(|stream| {
            let contract = &stream.contract;
            (contract.burst_bits, whole(contract.rate.ceil()))
        });
    let others = others
        .filter(|other| passes(&other.routes))
        .map(|other| (whole(other.burst.ceil()), whole(other.rate.ceil())));
    hold_ns(rate, streams.chain(others))
}

pub(super) fn whole(value: i128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn ppm(ratio: Ratio) -> u32 {
    let num = u128::try_from(ratio.num()).unwrap_or(u128::MAX);
    let den = u128::try_from(ratio.den()).unwrap_or(1).max(1);
    u32::try_from(num.saturating_mul(1_000_000).div_ceil(den)).unwrap_or(u32::MAX)
}

//! The frames of a run, held back until each talker keeps its contract.
//!
//! A talker that a stall held up sends the next frames too close together, often by some bits only. Are they the cause of a
//! delay beyond the promise? The run is replayed once more with them at the times of a talker that keeps its contract. That
//! traffic conforms, so every promise must hold for it. A delay that is beyond its promise there, too, has another cause.
//!
//! A bound on what the excess can do would not serve here: later ports, gates and the frames of others, which it moves
//! together, may multiply it.

use std::collections::BTreeMap;

use rtwire_plan::{Launch, Network, Plan, Ratio};

/// A contract: a burst and a rate on the wire.
#[derive(Clone, Copy, Debug)]
struct Contract {
    /// bit/s, as a ratio.
    num: u128,
    den: u128,
    /// Bits times [`Self::den`] times 10^9, rounded down.
    burst: u128,
}

impl Contract {
    fn new(rate: Ratio, burst: Ratio) -> Self {
        let part = |value: i128| u128::try_from(value).unwrap_or(0);
        let den = part(rate.den()).max(1).saturating_mul(1_000_000_000);
        Self {
            num: part(rate.num()).max(1),
            den,
            burst: part(burst.floor()).saturating_mul(den),
        }
    }

    /// Returns the earliest times, no sooner than those of `frames`, at which frames with their numbers of bits conform. They stay in
    /// order.
    fn held_back(self, frames: impl IntoIterator<Item = (u64, u64)>) -> Vec<u64> {
        let (mut level, mut last_ns) = (0_u128, 0_u64);
        let mut times = Vec::new();
        for (at_ns, bits) in frames {
            let bits = u128::from(bits) * self.den;
            let leaked = |level: u128, to_ns: u64, from_ns: u64| {
                level.saturating_sub(u128::from(to_ns - from_ns) * self.num)
            };
            let came_ns = at_ns.max(last_ns);
            let there = leaked(level, came_ns, last_ns);
            // A frame beyond the whole burst never conforms. It waits until the bucket is empty.
            let over = (there + bits).saturating_sub(self.burst).min(there);
            let wait_ns = u64::try_from(over.div_ceil(self.num)).unwrap_or(u64::MAX / 4);
            last_ns = came_ns.saturating_add(wait_ns);
            level = leaked(there, last_ns, came_ns) + bits;
            times.push(last_ns);
        }
        times
    }
}

/// Returns the launches nearest to frames, with at most `each` frames for one launch. `times` must be sorted; the result is.
fn launched(times: &[u64], launch: &Launch, each: u32) -> Vec<u64> {
    let (period_ns, offset_ns) = (launch.period_ns.max(1), launch.offset_ns);
    let nearest = |at_ns: u64| (at_ns.saturating_sub(offset_ns) + period_ns / 2) / period_ns;
    let (mut turn, mut used) = (0, 0);
    let mut at_launch = Vec::new();
    for &at_ns in times {
        let own = nearest(at_ns);
        if own > turn {
            (turn, used) = (own, 0);
        } else if used >= each.max(1) {
            (turn, used) = (turn + 1, 0);
        }
        used += 1;
        at_launch.push(turn * period_ns + offset_ns);
    }
    at_launch
}

/// Returns the times of a run's frames, held back. `entered` has a time for each flow and sequence number, ns; 0: none.
///
/// Streams without a shaper, and best effort that a manager divides, have no contract and are left alone.
pub(crate) fn held_back(network: &Network, plan: &Plan, entered: &[Vec<u64>]) -> Vec<Vec<u64>> {
    let mut held = entered.to_vec();
    for (flow, stream) in network.streams.iter().enumerate() {
        if !stream.shaped {
            continue;
        }
        let mut planned = plan.streams.iter();
        let planned = planned.find(|one| one.name == stream.name);
        let launch = planned.and_then(|one| one.launch.as_ref());
        let contract = Contract::new(stream.contract.rate, stream.contract.burst);
        hold(&mut held, &[flow], |times| match launch {
            Some(launch) => launched(times, launch, stream.contract.kind.frames()),
            None => {
                let bits = stream.wire_bytes * 8;
                contract.held_back(times.iter().map(|&at_ns| (at_ns, bits)))
            }
        });
    }
    if network.manager_host.is_some() {
        return held;
    }
    for (name, flows) in receivers(network, plan) {
        let mut allowances = network.best_effort.iter();
        let Some(allowance) = allowances.find(|one| one.name == name) else {
            continue;
        };
        let contract = Contract::new(allowance.rate, allowance.burst);
        let bits = allowance.wire_bytes * 8;
        hold(&mut held, &flows, |times| {
            contract.held_back(times.iter().map(|&at_ns| (at_ns, bits)))
        });
    }
    held
}

/// Returns the flows of each best-effort allowance: one for each receiver, and all of them keep one contract together.
pub(crate) fn receivers<'a>(network: &Network, plan: &'a Plan) -> BTreeMap<&'a str, Vec<usize>> {
    let mut flows: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (flow, planned) in (network.streams.len()..).zip(&plan.best_effort) {
        flows.entry(&planned.name).or_default().push(flow);
    }
    flows
}

/// Moves the frames of some flows, which are one sequence of frames.
fn hold(held: &mut [Vec<u64>], flows: &[usize], moved: impl Fn(&[u64]) -> Vec<u64>) {
    let mut frames = Vec::new();
    for &flow in flows {
        let times = held.get(flow).map_or(&[][..], Vec::as_slice);
        let sent = times.iter().enumerate().filter(|(_, at_ns)| **at_ns != 0);
        frames.extend(sent.map(|(seq, &at_ns)| (at_ns, flow, seq)));
    }
    frames.sort_unstable();
    let times: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
    for ((_, flow, seq), at_ns) in frames.into_iter().zip(moved(&times)) {
        held[flow][seq] = at_ns;
    }
}

#[cfg(test)]
mod tests {
    use rtwire_measure::verdict::excess_bits;

    use super::*;

    /// A frame of 1 000 bits each ms, and two at once.
    fn contract() -> Contract {
        Contract::new(Ratio::whole(1_000_000), Ratio::whole(2_000))
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn frames_wait_until_they_conform_and_no_longer() {
        let held = |times: &[u64]| contract().held_back(times.iter().map(|&at| (at, 1_000)));
        let right = [MS, MS, 2 * MS, 3 * MS, 9 * MS, 9 * MS];
        assert_eq!(
            held(&right),
            right,
            "a talker that keeps its contract is left alone"
        );
        assert_eq!(
            held(&[MS, MS, 2 * MS - 1, 3 * MS - 1, 8 * MS]),
            [MS, MS, 2 * MS, 3 * MS, 8 * MS],
            "a bit too much"
        );
        assert_eq!(held(&[MS; 4]), [MS, MS, 2 * MS, 3 * MS]);
        // Times with a rate that is no whole number of ns for a frame.
        let odd = Contract::new(Ratio::new(1_000_000_007, 997).unwrap(), Ratio::whole(1_500));
        let times: Vec<u64> = (0..500_u64).map(|k| MS + k * k * 7 % 300_000_000).collect();
        let mut sorted = times;
        sorted.sort_unstable();
        let moved = odd.held_back(sorted.iter().map(|&at| (at, 1_000)));
        let frames = moved.iter().map(|&at| (at, 1_000));
        assert_eq!(excess_bits(frames, 1_000_000_007, 997, 1_500), 0);
        assert!(moved.iter().zip(&sorted).all(|(held, at)| held >= at));
    }

    #[test]
    fn the_receivers_of_an_allowance_are_held_back_together() {
        // Three turns at once: none of the receivers has too much, all together have.
        let mut flows = vec![vec![0, MS], vec![MS], vec![], vec![MS]];
        hold(&mut flows, &[0, 1, 3], |times| {
            contract().held_back(times.iter().map(|&at| (at, 1_000)))
        });
        assert_eq!(flows, [vec![0, MS], vec![MS], vec![], vec![2 * MS]]);
    }

    #[test]
    fn frames_beside_their_launch_times_are_put_there() {
        let launch = Launch {
            offset_ns: 100,
            period_ns: 1_000,
            windows: Vec::new(),
        };
        assert_eq!(
            launched(&[1_099, 2_150, 4_700], &launch, 1),
            [1_100, 2_100, 5_100]
        );
        assert_eq!(
            launched(&[1_100, 1_200, 3_100], &launch, 1),
            [1_100, 2_100, 3_100]
        );
        assert_eq!(
            launched(&[1_100, 1_200, 3_100], &launch, 2),
            [1_100, 1_100, 3_100]
        );
    }
}

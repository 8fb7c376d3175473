//! The reasons against a schedule: cycles, load, intervals that collide, missing places, limits of the hardware.

use std::collections::BTreeMap;

use super::circle::{gcd, lcm};
use super::lists::Draft;
use super::model::{Asking, Port, Step};
use crate::network::Network;
use crate::refusal::Reason;

/// The largest number of windows in one cycle of one port. No hardware holds more.
const MOST_WINDOWS: u64 = 100_000;

fn period(asking: &Asking, passing: (usize, usize)) -> u64 {
    asking.requests[passing.0].period_ns
}

fn length(asking: &Asking, passing: (usize, usize)) -> u64 {
    asking.requests[passing.0].hops[passing.1].length_ns
}

fn name(network: &Network, asking: &Asking, passing: (usize, usize)) -> String {
    network.streams[asking.asked[passing.0].stream].name.clone()
}

/// Returns the cycle of a port, and notes the reasons against it. 0 if there is none.
pub(super) fn cycle(
    network: &Network,
    asking: &Asking,
    port: &Port,
    reasons: &mut Vec<Reason>,
) -> u64 {
    let (node, to) = (port.node.clone(), port.to.clone());
    let all = port.passing.iter().map(|passing| period(asking, *passing));
    let cycle = all.clone().try_fold(1, lcm);
    let longest_ns = port
        .gates
        .as_ref()
        .map_or(u64::MAX / 4, |gates| gates.longest_cycle_ns);
    let windows = cycle.and_then(|cycle| {
        all.map(|period| cycle / period)
            .try_fold(0_u64, u64::checked_add)
    });
    let (Some(cycle), Some(windows)) = (cycle, windows) else {
        reasons.push(Reason::ScheduleCycle {
            node,
            port: to,
            cycle_ns: None,
            longest_ns,
            windows: None,
        });
        return 0;
    };
    if cycle > longest_ns || windows > MOST_WINDOWS {
        reasons.push(Reason::ScheduleCycle {
            node,
            port: to,
            cycle_ns: Some(cycle),
            longest_ns,
            windows: Some(windows),
        });
        return 0;
    }
    let needed = port.passing.iter().try_fold(0_u64, |total, passing| {
        total.checked_add(length(asking, *passing).checked_mul(cycle / period(asking, *passing))?)
    });
    let percent = if port.gates.is_some() {
        network.schedule.best_effort_percent
    } else {
        0
    };
    let reserved = (u128::from(cycle) * u128::from(percent)).div_ceil(100);
    let available_ns = cycle.saturating_sub(u64::try_from(reserved).unwrap_or(u64::MAX));
    let needed_ns = needed.unwrap_or(u64::MAX);
    if needed_ns > available_ns {
        reasons.push(Reason::ScheduleLoad {
            node,
            port: to,
            needed_ns,
            available_ns,
            cycle_ns: cycle,
            excess_ns: needed_ns - available_ns,
            streams: port
                .passing
                .iter()
                .map(|passing| name(network, asking, *passing))
                .collect(),
        });
        return cycle;
    }
    apart(network, asking, port, reasons);
    cycle
}

/// Checks that no two frames collide at any offset because their periods share too small a divisor.
fn apart(network: &Network, asking: &Asking, port: &Port, reasons: &mut Vec<Reason>) {
    // By period the longest frame.
    let mut longest: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for passing in &port.passing {
        let known = longest.entry(period(asking, *passing)).or_insert(*passing);
        if length(asking, *passing) > length(asking, *known) {
            *known = *passing;
        }
    }
    let list: Vec<(u64, (usize, usize))> = longest.into_iter().collect();
    for (at, (a, one)) in list.iter().enumerate() {
        for (b, other) in &list[at + 1..] {
            let common_ns = gcd(*a, *b);
            let needed_ns = length(asking, *one).saturating_add(length(asking, *other));
            if needed_ns > common_ns {
                reasons.push(Reason::SchedulePeriods {
                    node: port.node.clone(),
                    port: port.to.clone(),
                    streams: [name(network, asking, *one), name(network, asking, *other)],
                    common_ns,
                    needed_ns,
                    excess_ns: needed_ns - common_ns,
                });
                return;
            }
        }
    }
}

/// Returns the reason for a stream without a place: the busiest port on its route.
pub(super) fn no_place(
    network: &Network,
    asking: &Asking,
    request: usize,
    cycles: &[u64],
    rounds: u32,
) -> Reason {
    let asked = &asking.asked[request];
    let load = |step: &Step| {
        let cycle = u128::from(cycles[step.port].max(1));
        let taken: u128 = asking.ports[step.port]
            .passing
            .iter()
            .map(|passing| {
                u128::from(length(asking, *passing)) * cycle / u128::from(period(asking, *passing))
            })
            .sum();
        u64::try_from((taken * 1000).div_ceil(cycle)).unwrap_or(u64::MAX)
    };
    let busiest = asked.steps.iter().max_by_key(|step| load(step));
    let port = busiest.map(|step| &asking.ports[step.port]);
    Reason::SchedulePlace {
        stream: network.streams[asked.stream].name.clone(),
        node: port.map_or_else(String::new, |port| port.node.clone()),
        port: port.map_or_else(String::new, |port| port.to.clone()),
        load_permille: busiest.map_or(0, load),
        rounds,
    }
}

/// Returns the hardware limit that a port's list exceeds.
pub(super) fn limits(network: &Network, port: &Port, draft: &Draft) -> Option<Reason> {
    let gates = port.gates.as_ref()?;
    let (node, to) = (port.node.clone(), port.to.clone());
    let list = &draft.list;
    let percent = u128::from(network.schedule.best_effort_percent);
    let needed = (u128::from(list.cycle_ns) * percent).div_ceil(100);
    let needed_ns = u64::try_from(needed).unwrap_or(u64::MAX);
    // Where limits closed so many gaps that too little is left, the limits are what is in the way.
    let (entries, openings) = match draft.unlimited {
        Some(unlimited) if list.unscheduled_open_ns < needed_ns => unlimited,
        _ => (list.entries.len() as u64, draft.openings),
    };
    if let Some(limit) = gates
        .entries
        .map(u64::from)
        .filter(|limit| entries > *limit)
    {
        Some(Reason::ScheduleEntries {
            node,
            port: to,
            entries,
            available: limit,
            excess: entries - limit,
        })
    } else if let Some(limit) = gates
        .openings
        .map(u64::from)
        .filter(|limit| openings > *limit)
    {
        Some(Reason::ScheduleOpenings {
            node,
            port: to,
            openings,
            possible: limit,
            excess: openings - limit,
        })
    } else if let Some(window_ns) = draft.too_short {
        let minimum_ns = gates.minimum_window_ns;
        Some(Reason::ScheduleWindow {
            node,
            port: to,
            window_ns,
            minimum_ns,
            short_ns: minimum_ns - window_ns,
        })
    } else if list.unscheduled_open_ns < needed_ns {
        Some(Reason::ScheduleShare {
            node,
            port: to,
            open_ns: list.unscheduled_open_ns,
            needed_ns,
            cycle_ns: list.cycle_ns,
            short_ns: needed_ns - list.unscheduled_open_ns,
        })
    } else {
        None
    }
}

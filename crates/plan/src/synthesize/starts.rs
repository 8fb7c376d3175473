//! Beginnings of a search: whole choices that often fit.

use core::cmp::Reverse;

use super::relevant::named;
use super::space::{Entry, Pick, Space};
use crate::network::Network;
use crate::refusal::Reason;

/// Returns choices to begin with, the simplest first.
///
/// Priorities by deadline (deadline-monotonic), shaping intervals as short as may be, and more and more time-triggered
/// streams: those that are late first, then by deadline.
pub(super) fn starts(network: &Network, space: &Space, reasons: &[Reason]) -> Vec<Vec<Pick>> {
    let stated = vec![Pick::default(); space.entries.len()];
    let late: Vec<usize> = (0..space.entries.len())
        .filter(|at| is_late(network, &space.entries[*at], reasons))
        .collect();
    let mut raised = stated.clone();
    for at in &late {
        let entry = &space.entries[*at];
        let highest = entry.with_priority(raised[*at], 7);
        raised[*at] = highest
            .or_else(|| entry.with_priority(raised[*at], 6))
            .unwrap_or(raised[*at]);
    }
    let ordered = by_deadline(network, space, 1, 7);
    let mut all = vec![
        raised,
        ordered.clone(),
        shortest(space, &stated),
        shortest(space, &ordered),
    ];
    // Below the queue of time-triggered streams, where some are or may be.
    let mut able: Vec<usize> = (0..space.entries.len())
        .filter(|at| space.entries[*at].scheduled.contains(&true))
        .collect();
    if able.is_empty() {
        return all;
    }
    able.sort_by_key(|at| {
        let stream = &network.streams[space.entries[*at].members[0]];
        let late = late.contains(at);
        (!late, stream.deadline_ns.unwrap_or(u64::MAX), *at)
    });
    let top = highest_below(network, space);
    let below = by_deadline(network, space, 1, top);
    let mut counts = vec![late.iter().filter(|at| able.contains(at)).count()];
    let mut count = 1;
    while count < able.len() {
        counts.push(count);
        count *= 2;
    }
    counts.push(able.len());
    counts.sort_unstable();
    counts.dedup();
    for ordered in [stated, below] {
        for count in &counts {
            let mut picks = shortest(space, &ordered);
            for at in &able[..*count] {
                let entry = &space.entries[*at];
                let scheduled = entry.as_scheduled(picks[*at]).unwrap_or(picks[*at]);
                picks[*at] = entry.with_priority(scheduled, 7).unwrap_or(scheduled);
            }
            // No other stream may have their queues.
            for (entry, pick) in space.entries.iter().zip(&mut picks) {
                if !entry.is_scheduled(*pick) && entry.priority(*pick) > top {
                    *pick = entry.with_priority(*pick, top).unwrap_or(*pick);
                }
            }
            all.push(picks);
        }
    }
    all
}

fn is_late(network: &Network, entry: &Entry, reasons: &[Reason]) -> bool {
    let mut names = reasons.iter().flat_map(|reason| named(reason).0);
    names.any(|name| {
        let mut members = entry.members.iter();
        name == entry.name || members.any(|index| network.streams[*index].name == name)
    })
}

/// Returns the highest priority whose queue is below that of priority 7 at every node with gates.
fn highest_below(network: &Network, space: &Space) -> u8 {
    let nodes = || {
        let streams = space.entries.iter().flat_map(|entry| &entry.members);
        let routes = streams.flat_map(|index| &network.streams[*index].routes);
        let nodes = routes.flatten().map(String::as_str);
        nodes.filter(|node| network.gates(node).is_some())
    };
    let mut gated: Vec<&str> = nodes().collect();
    gated.sort_unstable();
    gated.dedup();
    let below = |pcp: u8| {
        let mut gated = gated.iter();
        gated.all(|node| network.class(node, pcp) < network.class(node, 7))
    };
    (0..7).rev().find(|pcp| below(*pcp)).unwrap_or(0)
}

/// Returns priorities by deadline: the earliest has the highest, those without a deadline the lowest.
fn by_deadline(network: &Network, space: &Space, low: u8, high: u8) -> Vec<Pick> {
    let deadline = |entry: &Entry| network.streams[entry.members[0]].deadline_ns;
    let entries = space.entries.iter();
    let mut ranks: Vec<u64> = entries.clone().filter_map(deadline).collect();
    ranks.sort_unstable_by_key(|ns| Reverse(*ns));
    ranks.dedup();
    let levels = usize::from(high.saturating_sub(low)) + 1;
    let choose = |entry: &Entry| {
        let wanted = match deadline(entry) {
            None => 0,
            Some(ns) => {
                let rank = ranks.iter().position(|one| *one == ns).unwrap_or(0);
                // From the latest at the bottom to the earliest on top.
                let level = match ranks.len() {
                    0 | 1 => levels - 1,
                    count if count <= levels => levels - count + rank,
                    count => rank * (levels - 1) / (count - 1),
                };
                low.saturating_add(u8::try_from(level).unwrap_or(0))
            }
        };
        // The nearest of those that it may have.
        let near = entry
            .priorities
            .iter()
            .min_by_key(|pcp| pcp.abs_diff(wanted));
        let pick = near.and_then(|pcp| entry.with_priority(Pick::default(), *pcp));
        pick.unwrap_or_default()
    };
    entries.map(choose).collect()
}

/// Returns the choice with shaping intervals as short as may be.
fn shortest(space: &Space, picks: &[Pick]) -> Vec<Pick> {
    let pairs = space.entries.iter().zip(picks);
    pairs
        .map(|(entry, pick)| entry.with_least_interval(*pick))
        .collect()
}

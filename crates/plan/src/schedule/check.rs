//! Checks a plan's schedule against the network again, by other means than made it: windows, lists, clocks, one by
//! one.

use std::collections::BTreeMap;

use super::gates::{GateList, Launch, Window};
use crate::network::Network;
use crate::plan::Plan;

/// One frame at one port, as the plan states it.
struct Seen<'a> {
    stream: &'a str,
    window: &'a Window,
    period_ns: u64,
    /// Earliest arrival in the queue, relative to the start of the launch's period; may be negative.
    arrival_ns: i128,
    /// From the latest arrival to the start of the window, picoseconds.
    lead_ps: i128,
}

/// Returns all faults in the schedule of `plan` for `network`. The list is empty for a correct schedule.
///
/// It computes each window's earliest and latest arrival from the network alone. Then it walks each gate list and
/// checks that:
///
/// - the entries add up to the cycle;
/// - each window is open for its queue and no other for as long as its frame needs;
/// - nothing unscheduled can still be in transmission;
/// - no frame can leave before its window.
#[must_use]
pub fn faults(network: &Network, plan: &Plan) -> Vec<String> {
    let mut faults = Vec::new();
    let mut ports: BTreeMap<(&str, &str), Vec<Seen<'_>>> = BTreeMap::new();
    for (stream, planned) in network.streams.iter().zip(&plan.streams) {
        let Some(launch) = &planned.launch else {
            if stream.time_triggered {
                faults.push(format!("\"{}\" has no launch", stream.name));
            }
            continue;
        };
        for route in &stream.routes {
            walk(
                network,
                &stream.name,
                stream.wire_bytes,
                stream.contract.tick_error_ns,
                launch,
                route,
                &mut ports,
                &mut faults,
            );
        }
    }
    for ((node, to), seen) in &ports {
        let list = plan
            .ports
            .iter()
            .find(|port| port.node == *node && port.port == *to)
            .and_then(|port| port.gates.as_ref());
        match (network.gates(node), list) {
            (Some(_), Some(list)) => one_list(network, node, to, list, seen, &mut faults),
            (Some(_), None) => faults.push(format!("{node}>{to} has no gate list")),
            (None, _) => {}
        }
        apart(node, to, seen, &mut faults);
    }
    faults
}

/// Returns the time of a frame on a link in picoseconds, rounded up.
fn sending_ps(bytes: u64, rate_bps: u64) -> u64 {
    let ps = (u128::from(bytes) * 8 * 1_000_000_000_000).div_ceil(u128::from(rate_bps.max(1)));
    u64::try_from(ps).unwrap_or(u64::MAX)
}

/// Returns the longest time for which a talker without gates may hold a scheduled frame for its unscheduled traffic,
/// picoseconds.
///
/// The queue is simulated until all that arrived in that time has been sent.
fn held_ps(
    network: &Network,
    name: &str,
    wire_bytes: u64,
    (talker, to): (&str, &str),
    rate_bps: u64,
) -> i128 {
    let class = |pcp: u8| network.class(talker, pcp);
    let scheduled = network.streams.iter().find(|stream| stream.name == name);
    let own = scheduled.map_or(0, |stream| class(stream.pcp));
    let streams = network.streams.iter();
    let streams = streams.filter(|stream| !stream.time_triggered && stream.talker == talker);
    let streams = streams.map(|stream| {
        let contract = &stream.contract;
        let line = (contract.burst_bits, contract.rate);
        (class(stream.pcp), stream.wire_bytes, line)
    });
    let others = network.best_effort.iter();
    let others = others.filter(|other| other.host == talker).map(|other| {
        let burst = u64::try_from(other.burst.ceil()).unwrap_or(u64::MAX);
        (class(0), other.wire_bytes, (burst, other.rate))
    });
    let (mut under_way, mut waiting_bits, mut rate) = (0, 0_i128, 0_i128);
    for (class, bytes, (burst, bps)) in streams.chain(others) {
        if class < own {
            under_way = bytes.max(under_way);
        } else {
            waiting_bits += i128::from(burst);
            rate += bps.ceil();
        }
    }
    let ps = |bits: i128| (bits * 1_000_000_000_000) / i128::from(rate_bps.max(1));
    let first = ps(waiting_bits + i128::from(under_way + wire_bytes) * 8)
        + i128::from(network.port_latency(talker, to).max_ns) * 1000;
    let mut end = first;
    for _ in 0..1000 {
        // What comes until then goes first, too.
        let later = first + ps(rate * end / 1_000_000_000_000);
        if later <= end {
            break;
        }
        end = later;
    }
    end - i128::from(sending_ps(wire_bytes, rate_bps))
        - i128::from(network.port_latency(talker, to).max_ns) * 1000
}

#[allow(
    clippy::too_many_arguments,
    reason = "one walk, read from top to bottom"
)]
fn walk<'a>(
    network: &'a Network,
    name: &'a str,
    wire_bytes: u64,
    launch_error_ns: u64,
    launch: &'a Launch,
    route: &'a [String],
    ports: &mut BTreeMap<(&'a str, &'a str), Vec<Seen<'a>>>,
    faults: &mut Vec<String>,
) {
    let error = i128::from(network.schedule.clock_error_ns);
    // Earliest and latest arrival at the node, on the network's time less the launch's.
    let (mut earliest, mut latest) = (
        i128::from(launch.offset_ns) * 1000,
        i128::from(launch.offset_ns) * 1000,
    );
    for (at, pair) in route.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        let Some(window) = launch
            .windows
            .iter()
            .find(|window| window.node == *from && window.port == *to)
        else {
            faults.push(format!("\"{name}\" has no window at {from}>{to}"));
            return;
        };
        let Some(link) = network.link(from, to) else {
            return;
        };
        let sending = i128::from(sending_ps(wire_bytes, link.rate_bps));
        let start = i128::from(window.start_ns) * 1000;
        // A clock that is not exact may gain 200 ppm on the link.
        let gains = if error > 0 { sending / 5_000 } else { 0 };
        if i128::from(window.duration_ns) * 1000 < sending + gains {
            faults.push(format!(
                "the window of \"{name}\" at {from}>{to} is too short"
            ));
        }
        let (mut first, mut last);
        if network.gates(from).is_some() {
            // On the node's own clock; a talker's launch is on the same clock.
            let margin = if at == 0 { 0 } else { error * 1000 };
            let due = latest
                + margin
                + if at == 0 {
                    i128::from(launch_error_ns) * 1000
                } else {
                    0
                };
            if due > start {
                faults.push(format!(
                    "\"{name}\" may come to {from}>{to} {} ps after its window begins",
                    due - start
                ));
            }
            (first, last) = (start - error * 1000, start + error * 1000);
        } else {
            if at == 0 && window.start_ns != launch.offset_ns {
                faults.push(format!("\"{name}\" is not launched where its window is"));
            }
            let blocked = held_ps(network, name, wire_bytes, (from, to), link.rate_bps);
            let late = i128::from(launch_error_ns) * 1000 + blocked;
            (first, last) = (start - error * 1000, start + error * 1000 + late);
        }
        let margin = if at == 0 {
            i128::from(launch_error_ns)
        } else {
            error
        } * 1000;
        let seen = Seen {
            lead_ps: start - latest - margin,
            stream: name,
            window,
            period_ns: launch.period_ns.max(1),
            arrival_ns: if at == 0 {
                i128::from(launch.offset_ns)
            } else {
                (earliest - error * 1000).div_euclid(1000)
            },
        };
        let list = ports.entry((from.as_str(), to.as_str())).or_default();
        if !list.iter().any(|other| std::ptr::eq(other.window, window)) {
            list.push(seen);
        }
        let (host_latency, next_latency) = (
            if network.host(from).is_some() {
                network.port_latency(from, to).max_ns
            } else {
                0
            },
            route
                .get(at + 2)
                .map_or(0, |next| network.input_latency(from, to, next).max_ns),
        );
        first += sending + i128::from(link.cable_delay_ns) * 1000;
        last += sending + i128::from(link.cable_delay_ns + host_latency + next_latency) * 1000;
        (earliest, latest) = (first, last);
    }
}

fn one_list(
    network: &Network,
    node: &str,
    to: &str,
    list: &GateList,
    seen: &[Seen<'_>],
    faults: &mut Vec<String>,
) {
    let sum: u128 = list
        .entries
        .iter()
        .map(|entry| u128::from(entry.duration_ns))
        .sum();
    if sum != u128::from(list.cycle_ns) || list.cycle_ns == 0 {
        faults.push(format!(
            "{node}>{to}: entries of {sum} ns, but a cycle of {} ns",
            list.cycle_ns
        ));
        return;
    }
    if let Some(gates) = network.gates(node) {
        if gates
            .entries
            .is_some_and(|limit| list.entries.len() > limit as usize)
        {
            faults.push(format!("{node}>{to}: {} entries", list.entries.len()));
        }
        if list
            .entries
            .iter()
            .any(|entry| entry.duration_ns < gates.minimum_window_ns)
        {
            faults.push(format!("{node}>{to}: an entry is too short"));
        }
        if list.cycle_ns > gates.longest_cycle_ns {
            faults.push(format!("{node}>{to}: the cycle is too long"));
        }
    }
    let holds_back = network.gates(node).is_some_and(|gates| gates.holds_back);
    let rate = network.link(node, to).map_or(1, |link| link.rate_bps);
    let guard = if holds_back {
        0
    } else {
        sending_ps(network.schedule.guard_wire_bytes, rate).div_ceil(1000)
    };
    let all = seen
        .iter()
        .fold(0_u8, |mask, frame| mask | 1 << frame.window.queue);
    for frame in seen {
        if list.cycle_ns % frame.period_ns != 0 {
            faults.push(format!(
                "{node}>{to}: the cycle is no multiple of the interval of \"{}\"",
                frame.stream
            ));
            continue;
        }
        let own = 1_u8 << frame.window.queue;
        for copy in 0..list.cycle_ns / frame.period_ns {
            // A cycle later, so that what comes before the window is not before all time.
            let start = frame.window.start_ns + copy * frame.period_ns + list.cycle_ns;
            let what = format!(
                "{node}>{to}: the window of \"{}\" at {start} ns",
                frame.stream
            );
            if !during(list, start, frame.window.duration_ns, |gates| gates == own) {
                faults.push(format!("{what} is not open for it alone"));
            }
            let ahead = guard.min(start);
            if !during(list, start - ahead, ahead, |gates| gates & !all == 0) {
                faults.push(format!("{what} has too short a guard band"));
            }
            // Where its queue opens while it may be waiting, another frame must be going.
            let base = i128::from(copy * frame.period_ns + list.cycle_ns);
            let arrival = u64::try_from((frame.arrival_ns + base).max(0)).unwrap_or(0);
            if arrival < start && !covered(list, arrival, start, frame, seen) {
                faults.push(format!("{what} could be left early"));
            }
        }
    }
}

/// True if the gates are as wanted for the whole time.
fn during(list: &GateList, from: u64, length: u64, wanted: impl Fn(u8) -> bool) -> bool {
    let mut at = from;
    while at < from + length {
        match list.at(at) {
            Some((gates, until)) if wanted(gates) && until > at => at = until,
            _ => return false,
        }
    }
    true
}

/// True if the queue of `frame` is closed from `from` to `to`, except for windows of frames that came before it.
fn covered(list: &GateList, from: u64, to: u64, frame: &Seen<'_>, seen: &[Seen<'_>]) -> bool {
    let own = 1_u8 << frame.window.queue;
    let mut at = from;
    while at < to {
        let Some((gates, until)) = list.at(at) else {
            return false;
        };
        if gates & own == 0 {
            at = until;
            continue;
        }
        let busy = seen
            .iter()
            .filter(|other| other.window.queue == frame.window.queue)
            .find_map(|other| {
                let period = other.period_ns;
                let into = (at + period - other.window.start_ns % period) % period;
                // It must have come before this one can.
                let came_ps = i128::from(at - into.min(at)) * 1000 - other.lead_ps;
                (into < other.window.duration_ns && came_ps <= i128::from(from) * 1000)
                    .then(|| at + other.window.duration_ns - into)
            });
        match busy {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}

/// Checks that no two windows of a port overlap.
fn apart(node: &str, to: &str, seen: &[Seen<'_>], faults: &mut Vec<String>) {
    for (at, one) in seen.iter().enumerate() {
        for other in &seen[at + 1..] {
            let common = super::circle::gcd(one.period_ns, other.period_ns).max(1);
            let behind =
                (one.window.start_ns % common + common - other.window.start_ns % common) % common;
            let meet =
                behind < other.window.duration_ns || common - behind < one.window.duration_ns;
            if meet {
                faults.push(format!(
                    "{node}>{to}: \"{}\" and \"{}\" meet",
                    one.stream, other.stream
                ));
            }
        }
    }
}

//! The unscheduled traffic that shares a port with scheduled streams, and the time for which it may hold them without
//! gates.

use super::model::{Numbers, Port, sending_ns};
use crate::network::Network;
use rtwire_describe::ratio::{Overflow, Ratio};

/// The unscheduled traffic of one class at a port: never more than `burst_bits + rate_bps t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unscheduled {
    pub(crate) burst_bits: u64,
    pub(crate) rate_bps: u64,
    /// Its longest frame, bits.
    pub(crate) frame_bits: u64,
}

/// Finds the unscheduled traffic at each port.
///
/// Its bursts are those at its talkers: correct at the port where it enters, the talker's own.
pub(super) fn unscheduled(
    network: &Network,
    numbers: &Numbers,
    ports: &mut [Port],
) -> Result<(), Overflow> {
    let streams = network
        .streams
        .iter()
        .filter(|stream| !stream.time_triggered)
        .map(|stream| {
            let contract = &stream.contract;
            let line = (contract.burst, contract.rate);
            (&stream.routes, stream.marks(), stream.wire_bytes, line)
        });
    let others = network.best_effort.iter().map(|allowance| {
        let line = (allowance.burst, allowance.rate);
        (
            &allowance.routes,
            allowance.marks(),
            allowance.wire_bytes,
            line,
        )
    });
    let ppb = i128::from(network.defaults.clock_drift_ppb);
    let drift = Ratio::new(1_000_000_000 + ppb, 1_000_000_000)?;
    let whole = |value: Ratio| u64::try_from(value.ceil()).map_err(|_| Overflow);
    let routers = network.routers();
    for (routes, marks, bytes, (burst, rate)) in streams.chain(others) {
        let mut told: Vec<usize> = Vec::new();
        for (from, to, pcp) in routers.hops_of_all(routes, marks) {
            let Some(&at) = numbers.get(&(from.to_owned(), to.to_owned())) else {
                continue;
            };
            if told.contains(&at) {
                continue;
            }
            told.push(at);
            let port = &mut ports[at];
            let (_, ns) = sending_ns(bytes, port.rate_bps)?;
            port.frame_ns = port.frame_ns.max(ns);
            let queue = port.class(pcp);
            let class = &mut port.unscheduled[usize::from(queue & 7)];
            let add = |a: u64, b: u64| a.checked_add(b).ok_or(Overflow);
            class.burst_bits = add(class.burst_bits, whole(burst)?)?;
            class.rate_bps = add(class.rate_bps, whole(rate.times(drift)?)?)?;
            class.frame_bits = class.frame_bits.max(bytes.checked_mul(8).ok_or(Overflow)?);
        }
    }
    Ok(())
}

/// A time longer than any cycle, nanoseconds. A frame whose wait is unbounded finds no place.
const NEVER_NS: u64 = 1_000_000_000_000;

/// Returns the longest time for which a frame waits at a port without gates for unscheduled traffic, nanoseconds.
///
/// The frame has `wire_bytes` and class `queue`. It waits for one frame of a lower class, and for all of its own and
/// of higher classes until it has left.
///
/// L, b and r are the values of these frames, M is the frame, T the latency. The frame has left after
/// (L + b + M + C T) / (C - r). Its place on the link has that length. So such frames in a row leave a backlog
/// that the next one has counted already (`docs/schedules.md`).
pub(super) fn blocking_ns(
    port: &Port,
    queue: u8,
    wire_bytes: u64,
    sending_ns: u64,
) -> Result<u64, Overflow> {
    let (lower, same_or_higher) = port.unscheduled.split_at(usize::from(queue & 7));
    let low = lower.iter().map(|class| class.frame_bits).max();
    let low = i128::from(low.unwrap_or(0));
    let rate = i128::from(port.rate_bps.max(1));
    let all = |of: fn(&Unscheduled) -> u64| same_or_higher.iter().map(of).map(i128::from).sum();
    let (burst, taken): (i128, i128) = (all(|class| class.burst_bits), all(|class| class.rate_bps));
    if burst == 0 && taken == 0 {
        return Ratio::new(low, rate)?.ceil_ns();
    }
    let left = rate - taken;
    if left <= 0 {
        return Ok(NEVER_NS);
    }
    let latency = Ratio::from_ns(port.latency_ns).times(Ratio::whole(rate))?;
    let bits = low + burst + i128::from(wire_bytes) * 8 + latency.ceil();
    let until = Ratio::new(bits, left)?.ceil_ns()?;
    Ok(until
        .saturating_sub(sending_ns)
        .saturating_sub(port.latency_ns)
        .min(NEVER_NS))
}

//! The record of the machine's stalls during a run.

use rtwire_measure::noise::NoiseOptions;

/// Wake-ups of the recording threads that are late by this much count as stalls, ns.
const THRESHOLD_NS: u64 = 50_000;
/// The shortest period of the recording threads, ns: with a shorter one they would disturb the senders more than a stall.
const SHORTEST_NS: u64 = 450_000;
const LONGEST_NS: u64 = 1_000_000;

/// Returns the lateness that makes `rtwire run` skip a cycle, ns, as `senders` declares it.
fn skipped_from_ns(cycle_ns: u64) -> u64 {
    cycle_ns / 2
}

fn period_ns(cycle_ns: u64) -> u64 {
    let needed = skipped_from_ns(cycle_ns).saturating_sub(THRESHOLD_NS);
    needed.clamp(SHORTEST_NS, LONGEST_NS)
}

/// Returns true if no stall that costs a cycle can hide between two wake-ups of a recording thread.
pub(crate) fn sees_all_stalls(cycle_ns: u64) -> bool {
    period_ns(cycle_ns) + THRESHOLD_NS <= skipped_from_ns(cycle_ns)
}

/// Returns the options of a record for senders with this cycle.
pub(crate) fn watching(cycle_ns: u64) -> NoiseOptions {
    NoiseOptions {
        period_ns: period_ns(cycle_ns),
        stall_threshold_ns: THRESHOLD_NS,
        ..NoiseOptions::default()
    }
}

//! The distance of a refused network from one that fits.

use crate::refusal::Reason;

/// The distance: zero for a network that fits.
pub(super) type Score = u64;

/// The weight of one reason, beside what it exceeds in parts per million.
const ONE: u64 = 1_000_000;
/// The largest excess that counts: beyond it, no step is smaller than another.
const MOST: u64 = 1_000 * ONE;

/// Returns the sum over all reasons of their relative excess and a weight.
pub(super) fn score(reasons: &[Reason]) -> Score {
    reasons
        .iter()
        .fold(0, |sum: u64, reason| sum.saturating_add(of(reason)))
}

fn part(excess: u64, limit: u64) -> u64 {
    let ppm = u128::from(excess) * u128::from(ONE) / u128::from(limit.max(1));
    ONE + u64::try_from(ppm).unwrap_or(MOST).min(MOST)
}

fn of(reason: &Reason) -> u64 {
    match reason {
        Reason::Deadline {
            excess_ns,
            deadline_ns,
            ..
        } => part(*excess_ns, *deadline_ns),
        Reason::Jitter {
            excess_ns,
            limit_ns,
            ..
        } => part(*excess_ns, *limit_ns),
        Reason::Recovered {
            excess_ns,
            limit_ns,
            ..
        } => part(*excess_ns, *limit_ns),
        Reason::RecoveryNumbers {
            frames,
            most_frames,
            ..
        } => part(frames.saturating_sub(*most_frames), *most_frames),
        Reason::Buffer {
            excess_bytes,
            buffer_bytes,
            ..
        }
        | Reason::SharedBuffer {
            excess_bytes,
            buffer_bytes,
            ..
        } => part(*excess_bytes, *buffer_bytes),
        Reason::BufferFrames {
            excess_frames,
            buffer_frames,
            ..
        }
        | Reason::SharedBufferFrames {
            excess_frames,
            buffer_frames,
            ..
        } => part(*excess_frames, *buffer_frames),
        Reason::ScheduleLoad {
            excess_ns,
            available_ns,
            ..
        } => 5 * ONE + part(*excess_ns, *available_ns),
        Reason::Cycle {
            excess_ns,
            cycle_ns,
            ..
        } => 5 * ONE + part(*excess_ns, *cycle_ns),
        Reason::ScheduleEntries {
            excess, available, ..
        } => 2 * ONE + part(*excess, *available),
        Reason::ScheduleOpenings {
            excess, possible, ..
        } => 2 * ONE + part(*excess, *possible),
        Reason::ScheduleWindow {
            short_ns,
            minimum_ns,
            ..
        } => 2 * ONE + part(*short_ns, *minimum_ns),
        Reason::ScheduleShare {
            short_ns,
            needed_ns,
            ..
        } => 2 * ONE + part(*short_ns, *needed_ns),
        Reason::SchedulePlace { .. }
        | Reason::SchedulePeriods { .. }
        | Reason::ScheduleCycle { .. } => 5 * ONE,
        Reason::Rate {
            rate_bps,
            link_rate_bps,
            ..
        }
        | Reason::Meters {
            rate_bps,
            link_rate_bps,
            ..
        } => MOST.saturating_add(part(
            rate_bps.saturating_sub(*link_rate_bps),
            *link_rate_bps,
        )),
        Reason::Credit {
            rate_bps,
            idle_slope_bps,
            ..
        } => MOST.saturating_add(part(
            rate_bps.saturating_sub(*idle_slope_bps),
            *idle_slope_bps,
        )),
        Reason::Unbounded { .. } => MOST,
        Reason::Unshaped { .. } | Reason::Identities { .. } | Reason::Overflow { .. } => {
            MOST.saturating_mul(1_000)
        }
    }
}

//! The judgement on one run of one sender, from the outside receiver's timestamps.

use rtwire_measure::noise::NoiseRecord;
use rtwire_measure::summary::Summary;

/// One run of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// The time from the first frame to the last over the number of cycles sent, ns. A cycle that is missing counts as sent if
    /// a stall explains it and no burst made up for it.
    pub(crate) mean_ns: f64,
    /// The distance of the time between frames of neighbouring cycles from the cycle, ns.
    pub(crate) period: Summary,
    /// The time from each frame's instant to the frame, ns.
    pub(crate) off_grid: Summary,
    /// The cycles from the first frame to the last in which none came.
    pub(crate) missing: u64,
    /// Those at which no stall of the machine was recorded.
    pub(crate) unexplained: u64,
    /// The frames beyond the first of their cycle: bursts.
    pub(crate) crowded: u64,
}

/// Judges receive timestamps in order. Without a `known` grid (whole multiples of the cycle) the best-fitting phase counts.
pub(crate) fn judge(
    stamps: &[u64],
    interval_ns: u64,
    known: bool,
    noise: &NoiseRecord,
) -> Option<Judged> {
    let (first, last) = (stamps.first()?, stamps.last()?);
    let phase_ns = if known {
        0
    } else {
        best_phase(stamps, interval_ns)
    };
    let behind = |stamp: u64, phase: u64| (stamp % interval_ns + interval_ns - phase) % interval_ns;
    let into = |stamp: u64| behind(stamp, phase_ns);
    // A cycle begins at its instant; around a phase that was found, half a cycle before it.
    let border_ns = if known {
        0
    } else {
        (phase_ns + interval_ns / 2) % interval_ns
    };
    let origin = first - behind(*first, border_ns);
    let cycles: Vec<u64> = stamps
        .iter()
        .map(|stamp| stamp.saturating_sub(origin) / interval_ns)
        .collect();
    let off_grid: Vec<u64> = if known {
        stamps.iter().map(|&stamp| into(stamp)).collect()
    } else {
        let both = |into: u64| into.min(interval_ns - into);
        stamps.iter().map(|&stamp| both(into(stamp))).collect()
    };
    let mut periods = Vec::new();
    let (mut missing, mut unexplained, mut crowded) = (0, 0, 0);
    for (stamps, cycles) in stamps.windows(2).zip(cycles.windows(2)) {
        match cycles[1].saturating_sub(cycles[0]) {
            0 => crowded += 1,
            1 => {
                let period_ns = stamps[1].saturating_sub(stamps[0]);
                periods.push(period_ns.abs_diff(interval_ns));
            }
            _ => {
                for cycle in cycles[0] + 1..cycles[1] {
                    missing += 1;
                    let due_ns = origin + cycle * interval_ns;
                    unexplained += u64::from(!stalled(noise, due_ns, due_ns + 2 * interval_ns));
                }
            }
        }
    }
    let explained: u64 = missing - unexplained;
    let sent = stamps.len() as u64 - 1 + explained.saturating_sub(crowded);
    Some(Judged {
        mean_ns: (last - first) as f64 / sent.max(1) as f64,
        period: Summary::of(periods)?,
        off_grid: Summary::of(off_grid)?,
        missing,
        unexplained,
        crowded,
    })
}

/// Returns the phase with the least median distance: the middle of the fullest stretch.
fn best_phase(stamps: &[u64], interval_ns: u64) -> u64 {
    let mut phases: Vec<u64> = stamps.iter().map(|stamp| stamp % interval_ns).collect();
    phases.sort_unstable();
    let half = phases.len().div_ceil(2);
    // The shortest arc that holds half of all phases.
    let arc = |from: usize| {
        let to = phases[(from + half - 1) % phases.len()];
        (to + interval_ns - phases[from]) % interval_ns
    };
    let from = (0..phases.len()).min_by_key(|&from| arc(from)).unwrap_or(0);
    (phases[from] + arc(from) / 2) % interval_ns
}

/// Returns true if a stall of a core was recorded at a time between the two.
fn stalled(noise: &NoiseRecord, from_ns: u64, to_ns: u64) -> bool {
    noise
        .stalls
        .iter()
        .any(|stall| stall.alive_ns < to_ns && stall.woke_ns > from_ns)
}

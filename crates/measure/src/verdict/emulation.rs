//! The emulation's own error: each frame at each port and on the way to it, from the ports' records.

use std::collections::BTreeMap;

use super::allowance::StallLine;
use super::service::{FrameId, PortFrame, lateness, order};

/// The evidence on one emulated port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmulatedPort {
    /// The accepted frames, sorted by `left_ns`; those that never left come last.
    pub frames: Vec<PortFrame>,
    /// The lateness up to which the port counts as an exact one, ns: calibrated before the run.
    pub latency_ns: u64,
    /// The highest backlog of the port in the described network, bytes; `None` if it was not replayed.
    pub exact_backlog_bytes: Option<u64>,
    /// Number of frames that found no room at the port of the described network.
    pub exact_dropped: u64,
    /// Number of frames that left without a record of their entry.
    pub unmatched: u64,
}

/// The evidence on one stream at one listener of an emulated network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmulatedStream {
    /// The stream's number, as in [`FrameId`].
    pub flow: u32,
    /// The transmission time on all links of the route, ns. An emulated link hands a frame over when its transmission
    /// begins, so the samples' receive stamps have this time added.
    pub transmission_ns: u64,
    /// Each frame that entered the network, sorted by sequence number.
    pub frames: Vec<ReplayedFrame>,
}

/// One frame in the described network and in the emulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedFrame {
    /// The sequence number.
    pub seq: u32,
    /// The delay in the described network, ns, as its talkers really sent; `None` if the frame is lost there.
    pub exact_ns: Option<u64>,
    /// The time at which it left the last emulated port, ns of CLOCK_TAI; `None` if it never did.
    pub left_ns: Option<u64>,
}

/// The evidence on an emulation as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    /// The time from one port to the next, from a talker to its port, and from the last port to a listener, up to which
    /// it counts as none, ns: calibrated before the run.
    pub handover_ns: u64,
    /// Number of port records that were lost. Without them nothing is judged.
    pub records_lost: u64,
}

/// The error of one frame at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FrameError {
    /// Later than the calibrated latency, and a stall explains it.
    Explained,
    /// Later than the calibrated latency, and no stall explains it.
    Unexplained,
}

/// The errors of one port.
#[derive(Clone, Debug, Default)]
pub(super) struct PortErrors {
    /// The frames with an error. Those of no flow are only counted.
    pub(super) of: BTreeMap<FrameId, FrameError>,
    pub(super) explained: u64,
    pub(super) unexplained: u64,
    /// The highest lateness that no stall explains, ns.
    pub(super) worst_ns: u64,
    /// Number of frames that left before one that should have gone first.
    pub(super) out_of_order: u64,
    /// Parts in a million by which the port is slower than its rate, where it is seen.
    pub(super) slower_ppm: Option<u64>,
}

/// Shortest part of a busy period whose slope says something about the rate, ns.
const SLOPE_OVER_NS: u64 = 500_000;
/// Least number of such parts.
const SLOPES_LEAST: usize = 20;
/// The share of the rate that must be missing, in millionths.
const SLOPE_LEAST_PPM: i64 = 10_000;

/// Finds the errors of a port.
pub(super) fn errors_of(
    port: &EmulatedPort,
    rate_bps: u64,
    handover_ns: u64,
    stalls: &StallLine,
) -> PortErrors {
    let mut errors = PortErrors::default();
    let plain = lateness(&port.frames, rate_bps, &StallLine::default());
    let with_stalls = lateness(&port.frames, rate_bps, stalls);
    for ((frame, late_ns), left_late_ns) in port.frames.iter().zip(plain).zip(&with_stalls) {
        let way = handover(frame.came_ns, Some(frame.entered_ns), handover_ns, stalls);
        errors.worst_ns = errors.worst_ns.max(*left_late_ns);
        let at_port = match () {
            () if *left_late_ns > port.latency_ns => Some(FrameError::Unexplained),
            () if late_ns > port.latency_ns => Some(FrameError::Explained),
            () => None,
        };
        let Some(error) = at_port.max(way) else {
            continue;
        };
        match error {
            FrameError::Explained => errors.explained += 1,
            FrameError::Unexplained => errors.unexplained += 1,
        }
        if let Some(id) = frame.frame {
            let worst = errors.of.entry(id).or_insert(error);
            *worst = error.max(*worst);
        }
    }
    errors.out_of_order = order(&port.frames, port.latency_ns, handover_ns, stalls).len() as u64;
    errors.slower_ppm = slower_ppm(&port.frames, rate_bps, stalls);
    errors
}

/// Returns the error on a way that should take no time.
pub(super) fn handover(
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    handover_ns: u64,
    stalls: &StallLine,
) -> Option<FrameError> {
    let (from_ns, to_ns) = (from_ns?, to_ns?);
    let took_ns = to_ns.saturating_sub(from_ns);
    if took_ns <= handover_ns {
        return None;
    }
    match took_ns - stalls.stalled_between(from_ns, to_ns) > handover_ns {
        true => Some(FrameError::Unexplained),
        false => Some(FrameError::Explained),
    }
}

/// Returns the parts in a million by which the port is slower than its rate: the time that a part of a busy period took
/// beyond the work in it, the median of all parts. A port that is only late now and then has a median near 0.
///
/// Only parts without a stall count. An ideal port that stands still during stalls would not serve here: the stalls of all
/// cores together may be longer than what this port lost, and the difference would hide a slow port.
fn slower_ppm(frames: &[PortFrame], rate_bps: u64, stalls: &StallLine) -> Option<u64> {
    let bits_to_ns = |bits: u64| i128::from(bits) * 1_000_000_000 / i128::from(rate_bps.max(1));
    let mut slopes = Vec::new();
    let mut busy_until_ns = 0;
    // The beginning of the part, and the work in it so far.
    let (mut began_ns, mut work_bits) = (0, 0);
    for frame in frames {
        let Some(left_ns) = frame.left_ns else {
            continue;
        };
        let idle = frame.entered_ns > busy_until_ns;
        if idle || stalls.stalled_between(began_ns, left_ns) > 0 {
            (began_ns, work_bits) = (left_ns, 0);
        }
        let over_ns = left_ns - began_ns;
        if over_ns >= SLOPE_OVER_NS {
            let lost_ns = i128::from(over_ns) - bits_to_ns(work_bits);
            let ppm = lost_ns * 1_000_000 / i128::from(over_ns);
            slopes.push(i64::try_from(ppm).unwrap_or(i64::MAX));
            (began_ns, work_bits) = (left_ns, 0);
        }
        let wire_bits = u64::from(frame.wire_bits);
        work_bits += wire_bits;
        busy_until_ns = left_ns + wire_bits * 1_000_000_000 / rate_bps.max(1);
    }
    if slopes.len() < SLOPES_LEAST {
        return None;
    }
    let middle = slopes.len() / 2;
    let (_, median, _) = slopes.select_nth_unstable(middle);
    u64::try_from(*median)
        .ok()
        .filter(|_| *median >= SLOPE_LEAST_PPM)
}

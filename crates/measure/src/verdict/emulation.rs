//! The emulation's own error: each frame at each port and on the way to it, from the ports' records.

use std::collections::{BTreeMap, HashMap};

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
    /// The highest backlog in the described network with all frames [held back](HeldBack), bytes; `None` if it is not known.
    pub held_back_backlog_bytes: Option<u64>,
    /// Number of frames that left without a record of their entry.
    pub unmatched: u64,
    /// The frames that found no room at the emulated port.
    pub drops: Vec<PortDrop>,
}

/// A frame that found no room at an emulated port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortDrop {
    /// The frame; `None` for one that belongs to no flow of the plan.
    pub frame: Option<FrameId>,
    /// The time at which it was dropped, ns of CLOCK_TAI.
    pub at_ns: u64,
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
    /// The same frames once more, all talkers' frames held back. `None` if that is not known.
    pub held_back: Option<HeldBack>,
}

/// The delays of a stream in the described network if each talker's frames enter it no sooner than its contract permits, and
/// at its launch times.
///
/// That traffic conforms. So a delay beyond the promise is no matter of a talker that was held up, however little or much it
/// exceeded its contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// The highest delay, ns.
    pub slowest_ns: u64,
    /// Number of frames that are lost there.
    pub lost: u64,
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
    /// True if the plan's promises did not hold yet when it entered: the schedule needs frames before it. Its exact delay is
    /// not judged.
    pub unsettled: bool,
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
    /// The frames of flows that have a record of their departure, sorted.
    pub(super) passed: Vec<FrameId>,
    /// The places of the frames that a stall held up at the port or on the way to it, in the order of the evidence.
    held_up: Vec<usize>,
    /// Number of dropped frames that a stall explains, for each flow. Those of no flow are below `None`.
    pub(super) drops_explained: BTreeMap<Option<u32>, u64>,
}

impl PortErrors {
    /// Returns the number of dropped frames of a flow that a stall explains.
    pub(super) fn drops_explained_of(&self, flow: u32) -> u64 {
        self.drops_explained.get(&Some(flow)).copied().unwrap_or(0)
    }
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
    let frames = port.frames.iter().enumerate();
    for (((at, frame), late_ns), left_late_ns) in frames.zip(plain).zip(&with_stalls) {
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
            FrameError::Explained => {
                errors.explained += 1;
                errors.held_up.push(at);
            }
            FrameError::Unexplained => errors.unexplained += 1,
        }
        if let Some(id) = frame.frame {
            let worst = errors.of.entry(id).or_insert(error);
            *worst = error.max(*worst);
        }
    }
    errors.out_of_order = order(&port.frames, port.latency_ns, handover_ns, stalls).len() as u64;
    errors.slower_ppm = slower_ppm(&port.frames, rate_bps, stalls);
    let left = port.frames.iter().filter(|frame| frame.left_ns.is_some());
    errors.passed = left.filter_map(|frame| frame.frame).collect();
    errors.passed.sort_unstable();
    errors
}

/// Finds the dropped frames that stalls explain, for all ports of an emulated network with their rates in bit/s.
///
/// A stall fills a buffer only as long as the port is busy with what it held up. So a drop is explained if a stall held up
/// a frame, at this port or before it, that entered in the same busy period and before the drop.
pub(super) fn explain_drops(ports: &[(Option<&EmulatedPort>, u64)], errors: &mut [PortErrors]) {
    let any = |(port, _): &(Option<&EmulatedPort>, u64)| port.is_some_and(|p| !p.drops.is_empty());
    if !ports.iter().any(any) {
        return;
    }
    // Each frame that was held up, and the time at which it left the first port that shows it.
    let mut held_up: HashMap<FrameId, u64> = HashMap::new();
    for ((port, _), of_port) in ports.iter().zip(&*errors) {
        let Some(port) = port else { continue };
        for frame in of_port.held_up.iter().filter_map(|&at| port.frames.get(at)) {
            if let (Some(id), Some(left_ns)) = (frame.frame, frame.left_ns) {
                let first = held_up.entry(id).or_insert(left_ns);
                *first = left_ns.min(*first);
            }
        }
    }
    for ((port, rate_bps), of_port) in ports.iter().zip(errors) {
        let Some(port) = port.filter(|port| !port.drops.is_empty()) else {
            continue;
        };
        let held_here = |at: usize, frame: &PortFrame| {
            let before = frame.frame.and_then(|id| held_up.get(&id));
            of_port.held_up.binary_search(&at).is_ok()
                || before.is_some_and(|&ns| frame.left_ns.is_some_and(|left_ns| ns <= left_ns))
        };
        let busy = busy_periods(&port.frames, *rate_bps, held_here);
        for drop in &port.drops {
            let behind = busy.partition_point(|one| one.from_ns <= drop.at_ns);
            let period = behind.checked_sub(1).and_then(|at| busy.get(at));
            let explained = period.is_some_and(|one| {
                drop.at_ns <= one.to_ns && one.held_up_ns.is_some_and(|ns| ns <= drop.at_ns)
            });
            if explained {
                let flow = drop.frame.map(|id| id.flow);
                *of_port.drops_explained.entry(flow).or_default() += 1;
            }
        }
    }
}

/// A time in which a port always had a frame.
struct BusyPeriod {
    from_ns: u64,
    to_ns: u64,
    /// The time at which the first frame entered that a stall had held up; `None` if there is none.
    held_up_ns: Option<u64>,
}

/// Returns the busy periods of a port, in order.
fn busy_periods(
    frames: &[PortFrame],
    rate_bps: u64,
    held_up: impl Fn(usize, &PortFrame) -> bool,
) -> Vec<BusyPeriod> {
    let mut entering: Vec<usize> = (0..frames.len())
        .filter(|&at| frames[at].left_ns.is_some())
        .collect();
    entering.sort_by_key(|&at| frames[at].entered_ns);
    let mut periods: Vec<BusyPeriod> = Vec::new();
    for at in entering {
        let frame = &frames[at];
        let took_ns = u64::from(frame.wire_bits) * 1_000_000_000 / rate_bps.max(1);
        let to_ns = frame.left_ns.unwrap_or(frame.entered_ns) + took_ns;
        let held_up_ns = held_up(at, frame).then_some(frame.entered_ns);
        match periods.last_mut() {
            Some(last) if frame.entered_ns <= last.to_ns => {
                last.to_ns = last.to_ns.max(to_ns);
                last.held_up_ns = last.held_up_ns.or(held_up_ns);
            }
            _ => periods.push(BusyPeriod {
                from_ns: frame.entered_ns,
                to_ns,
                held_up_ns,
            }),
        }
    }
    periods
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

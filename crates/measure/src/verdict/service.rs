//! The lateness of each frame at one emulated port, from the records of the port itself.
//!
//! The port is compared with an ideal one that serves the *same frames in the same order* without a pause:
//!
//! ```text
//!   start(k)  = max(entered(k), finish(k - 1))
//!   finish(k) = start(k) + bits(k) / rate
//!   lateness  = left(k) - start(k)
//! ```
//!
//! An emulated port hands a frame over when its transmission begins. The order itself is checked apart ([`order`]): a
//! port that is a microsecond ahead of the ideal one may take another frame first, and neither is wrong.
//!
//! With stalls, the ideal port stands still while the machine stalled, and lateness has no stalled time. What is late only
//! without them is explained, and by no more than what that port lost in its own busy period: there is no window in which
//! anything is excused.

use std::collections::BTreeSet;

use super::allowance::StallLine;

/// A frame of a flow: the flow's number, and the sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId {
    /// Number of the stream or best-effort flow.
    pub flow: u32,
    /// Sequence number.
    pub seq: u32,
}

/// One frame at one port. All times are CLOCK_TAI in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFrame {
    /// The frame; `None` for a frame that belongs to no flow of the plan.
    pub frame: Option<FrameId>,
    /// The time at which it left the port before, or its talker; `None` if unknown.
    pub came_ns: Option<u64>,
    /// The time at which the port accepted it.
    pub entered_ns: u64,
    /// The time at which its transmission began; `None` if it never did.
    pub left_ns: Option<u64>,
    /// Its priority class; the highest number is served first.
    pub class: u8,
    /// Its size on the wire, bits.
    pub wire_bits: u32,
}

/// Returns the lateness of each frame that left, ns, in the order of `frames`, which must be sorted by `left_ns`.
/// Frames that never left are skipped by the port and have lateness 0.
#[must_use]
pub fn lateness(frames: &[PortFrame], rate_bps: u64, stalls: &StallLine) -> Vec<u64> {
    let Some(zero_ns) = frames.iter().map(|frame| frame.entered_ns).min() else {
        return Vec::new();
    };
    // Picoseconds since the first frame: a rate that is no whole number of ns for a frame must not drift.
    let mut finish_ps: u128 = 0;
    let ideal = |frame: &PortFrame| {
        let Some(left_ns) = frame.left_ns else {
            return 0;
        };
        let entered_ps = u128::from(frame.entered_ns - zero_ns) * 1_000;
        let start_ps = entered_ps.max(finish_ps);
        let start_ns = zero_ns + u64::try_from(start_ps / 1_000).unwrap_or(u64::MAX / 4);
        let resumed_ns = stalls.resume(start_ns);
        let start_ps = match resumed_ns > start_ns {
            true => u128::from(resumed_ns - zero_ns) * 1_000,
            false => start_ps,
        };
        let work_ps = u128::from(frame.wire_bits) * 1_000_000_000_000 / u128::from(rate_bps.max(1));
        finish_ps = stalls.finish_ps(zero_ns, start_ps, work_ps);
        left_ns
            .saturating_sub(resumed_ns)
            .saturating_sub(stalls.stalled_between(resumed_ns, left_ns))
    };
    frames.iter().map(ideal).collect()
}

/// Returns the places, in `frames`, of those that left although another one should have left before: one of a more
/// urgent class, or an earlier one of the same class. `frames` must be sorted by `left_ns`.
///
/// The other one must have waited for longer than `latency_ns` by then, and left later by more than `handover_ns`, both
/// without the stalls of the machine. The record of a frame is made at the other end of the link: of two cores that carry a
/// frame there, one may be held up behind the queue.
#[must_use]
pub fn order(
    frames: &[PortFrame],
    latency_ns: u64,
    handover_ns: u64,
    stalls: &StallLine,
) -> Vec<usize> {
    let unstalled = |from_ns: u64, to_ns: u64| {
        let took_ns = to_ns.saturating_sub(from_ns);
        took_ns.saturating_sub(stalls.stalled_between(from_ns, to_ns))
    };
    let mut waiting: Vec<BTreeSet<(u64, usize)>> = vec![BTreeSet::new(); 256];
    let mut entering: Vec<usize> = (0..frames.len())
        .filter(|&at| frames[at].left_ns.is_some())
        .collect();
    entering.sort_by_key(|&at| frames[at].entered_ns);
    let mut entering = entering.into_iter().peekable();
    let mut wrong = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        let Some(left_ns) = frame.left_ns else {
            continue;
        };
        while let Some(next) = entering.next_if(|&next| frames[next].entered_ns <= left_ns) {
            waiting[usize::from(frames[next].class)].insert((frames[next].entered_ns, next));
        }
        let class = usize::from(frame.class);
        waiting[class].remove(&(frame.entered_ns, at));
        let passed_over = |&(entered_ns, other): &(u64, usize)| {
            let other_left_ns = frames[other].left_ns.unwrap_or(left_ns);
            unstalled(entered_ns, left_ns) > latency_ns
                && unstalled(left_ns, other_left_ns) > handover_ns
        };
        // The one that waited for longest need not be the one that left much later.
        let more_urgent = waiting[class + 1..].iter().flatten();
        let earlier = waiting[class]
            .iter()
            .take_while(|(entered_ns, _)| entered_ns.saturating_add(latency_ns) < frame.entered_ns);
        if more_urgent.chain(earlier).any(passed_over) {
            wrong.push(at);
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(entered_ns: u64, left_ns: u64, class: u8) -> PortFrame {
        PortFrame {
            frame: None,
            came_ns: None,
            entered_ns,
            left_ns: Some(left_ns),
            class,
            wire_bits: 1_000,
        }
    }

    /// 1 000 bits at 1 Gbit/s: 1 000 ns.
    const RATE: u64 = 1_000_000_000;

    #[test]
    fn an_ideal_port_is_never_late() {
        let frames = [
            frame(100, 100, 0),
            frame(100, 1_100, 0),
            frame(5_000, 5_000, 0),
        ];
        assert_eq!(lateness(&frames, RATE, &StallLine::default()), [0, 0, 0]);
    }

    #[test]
    fn a_pause_is_lateness_until_the_port_is_idle_again() {
        let frames = [
            frame(100, 400, 0),
            frame(100, 1_400, 0),
            frame(3_000, 3_000, 0),
        ];
        assert_eq!(
            lateness(&frames, RATE, &StallLine::default()),
            [300, 300, 0]
        );
    }

    #[test]
    fn a_stall_explains_its_own_length_in_its_own_busy_period() {
        let stalls = StallLine::new([(100, 400)]);
        let frames = [
            frame(100, 400, 0),
            frame(100, 1_400, 0),
            frame(3_000, 3_300, 0),
        ];
        assert_eq!(lateness(&frames, RATE, &stalls), [0, 0, 300]);
        // It began before the frame left, after the frame should have.
        let soon = StallLine::new([(110, 400)]);
        assert_eq!(lateness(&frames, RATE, &soon), [10, 10, 300]);
        // The transmission itself stands still, too.
        let within = StallLine::new([(500, 700)]);
        let frames = [frame(0, 0, 0), frame(0, 1_200, 0), frame(0, 2_201, 0)];
        assert_eq!(lateness(&frames, RATE, &within), [0, 0, 1]);
    }

    #[test]
    fn a_slow_port_is_later_with_each_frame() {
        let frames: Vec<_> = (0..10).map(|k| frame(0, k * 1_100, 0)).collect();
        let late = lateness(&frames, RATE, &StallLine::default());
        assert_eq!(late, (0..10).map(|k| k * 100).collect::<Vec<_>>());
    }

    #[test]
    fn the_urgent_class_goes_first_and_a_class_keeps_its_order() {
        let none = StallLine::default();
        let right = [frame(0, 0, 0), frame(500, 1_000, 7), frame(100, 2_000, 0)];
        assert!(order(&right, 50, 100, &none).is_empty());
        let swapped = [frame(0, 0, 0), frame(100, 1_000, 0), frame(500, 2_000, 7)];
        assert_eq!(order(&swapped, 50, 100, &none), [1]);
        // It came at the last moment: either order is right.
        assert!(order(&swapped, 500, 100, &none).is_empty());
        let stalled = StallLine::new([(480, 1_000)]);
        assert!(order(&swapped, 50, 100, &stalled).is_empty());
        let overtaken = [frame(0, 0, 3), frame(500, 1_000, 3), frame(100, 2_000, 3)];
        assert_eq!(order(&overtaken, 50, 100, &none), [1]);
        // It left at the same moment, on another core.
        assert!(order(&overtaken, 50, 1_000, &none).is_empty());
    }
}

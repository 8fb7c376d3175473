//! Converts windows to a list of gate states: guard bands, short gaps, limits of the hardware.

use super::gates::{GateEntry, GateList};

/// One frame's window at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    /// The start, below the cycle.
    pub(crate) start: u64,
    pub(crate) duration: u64,
    pub(crate) queue: u8,
    /// The longest time for which the frame may be in the queue before its window.
    pub(crate) spread: u64,
}

/// The requirements of a port for its list. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) cycle: u64,
    /// The number of queues.
    pub(crate) queues: u8,
    /// The closed time ahead of a window; 0 if frames that do not fit are held back.
    pub(crate) guard: u64,
    /// The shortest entry.
    pub(crate) minimum: u64,
    /// The largest number of entries.
    pub(crate) entries: Option<u32>,
    /// The largest number of openings of a queue.
    pub(crate) openings: Option<u32>,
    /// The shortest time in which something unscheduled can be sent.
    pub(crate) useful: u64,
}

/// A list, and the hardware limits that it exceeds.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) list: GateList,
    /// Its shortest entry, if that is below the least.
    pub(crate) too_short: Option<u64>,
    /// The largest number of openings of one queue in a cycle.
    pub(crate) openings: u64,
    /// The entries and openings without limits, if gaps had to be closed for the limits.
    pub(crate) unlimited: Option<(u64, u64)>,
}

/// Returns the list for windows that do not overlap. Gaps are closed only as far as the limits require.
///
/// `slots` must not be empty; it is sorted by time on return.
pub(crate) fn list(slots: &mut [Slot], port: &Port) -> Draft {
    slots.sort_unstable();
    let draft = draw(slots, port, port.useful);
    let good = |draft: &Draft| {
        let count = draft.list.entries.len() as u64;
        draft.too_short.is_none()
            && port.entries.is_none_or(|limit| count <= u64::from(limit))
            && port
                .openings
                .is_none_or(|limit| draft.openings <= u64::from(limit))
    };
    if good(&draft) {
        return draft;
    }
    // Close short gaps to unscheduled traffic, the shortest first, until the limits hold.
    let mut gaps: Vec<u64> = (0..slots.len())
        .map(|at| gap(slots, at, port.cycle).saturating_sub(port.guard))
        .filter(|open| *open >= port.useful)
        .collect();
    gaps.sort_unstable();
    gaps.dedup();
    // The longest stays: a port that nothing else may use is nobody's wish.
    gaps.pop();
    let (mut from, mut to) = (0, gaps.len());
    let mut found = None;
    while from < to {
        let middle = from + (to - from) / 2;
        let trial = draw(slots, port, gaps[middle] + 1);
        if good(&trial) {
            to = middle;
            found = Some(trial);
        } else {
            from = middle + 1;
        }
    }
    match found {
        Some(mut found) => {
            found.unlimited = Some((draft.list.entries.len() as u64, draft.openings));
            found
        }
        None => draft,
    }
}

/// Returns the time from the end of a slot to the start of the next one.
fn gap(slots: &[Slot], at: usize, cycle: u64) -> u64 {
    let end = slots[at].start + slots[at].duration;
    let next = match slots.get(at + 1) {
        Some(next) => next.start,
        None => slots[0].start + cycle,
    };
    next.saturating_sub(end)
}

/// Returns for each slot the time after its end in which no frame can be in its queue.
fn quiet(slots: &[Slot], cycle: u64) -> Vec<u64> {
    let mut quiet = vec![0; slots.len()];
    // The next slot of each queue, going backwards through two cycles.
    let mut next: [Option<u64>; 8] = [None; 8];
    for at in (0..2 * slots.len()).rev() {
        let slot = slots[at % slots.len()];
        let start = slot.start + if at >= slots.len() { cycle } else { 0 };
        let end = start + slot.duration;
        let queue = usize::from(slot.queue & 7);
        if at < slots.len() {
            quiet[at] = next[queue].map_or(cycle, |arrival| arrival.saturating_sub(end));
        }
        next[queue] = Some(start.saturating_sub(slot.spread));
    }
    quiet
}

fn draw(slots: &[Slot], port: &Port, useful: u64) -> Draft {
    let all = u8::try_from((1_u16 << port.queues.clamp(1, 8)) - 1).unwrap_or(u8::MAX);
    let scheduled = slots
        .iter()
        .fold(0_u8, |mask, slot| mask | 1 << (slot.queue & 7));
    let others = all & !scheduled;
    let quiet = quiet(slots, port.cycle);
    let guard = if port.guard == 0 {
        0
    } else {
        port.guard.max(port.minimum)
    };
    let mut entries: Vec<GateEntry> = Vec::with_capacity(slots.len() * 3);
    let mut push = |gates: u8, duration_ns: u64| {
        if duration_ns == 0 {
            return;
        }
        match entries.last_mut() {
            Some(last) if last.gates == gates => last.duration_ns += duration_ns,
            _ => entries.push(GateEntry { gates, duration_ns }),
        }
    };
    for (at, slot) in slots.iter().enumerate() {
        let own = 1 << (slot.queue & 7);
        push(own, slot.duration);
        let mut left = gap(slots, at, port.cycle);
        let mut still = quiet[at];
        // A window shorter than the hardware can make stays open longer, where nobody waits to slip through.
        let more = port.minimum.saturating_sub(slot.duration).min(left);
        if more > 0 && more <= still {
            push(own, more);
            left -= more;
            still -= more;
        }
        if left == 0 {
            continue;
        }
        let open = left.saturating_sub(guard);
        if open >= useful.max(port.minimum).max(1) {
            push(others, open);
            push(0, guard);
        } else if left <= still {
            push(own, left);
        } else {
            push(0, left);
        }
    }
    let short = entries.iter().map(|entry| entry.duration_ns).min();
    let open = entries.iter().filter(|entry| entry.gates == others);
    let unscheduled_open_ns = if others == 0 {
        0
    } else {
        open.map(|entry| entry.duration_ns).sum()
    };
    let openings = (0..8).map(|queue| openings(&entries, queue)).max();
    Draft {
        too_short: short.filter(|short| *short < port.minimum),
        openings: openings.unwrap_or(0),
        unlimited: None,
        list: GateList {
            cycle_ns: port.cycle,
            base_offset_ns: slots.first().map_or(0, |slot| slot.start),
            entries,
            scheduled_queues: scheduled,
            unscheduled_open_ns,
            guard_band_ns: guard,
        },
    }
}

/// Returns the number of openings of a queue in a cycle.
fn openings(entries: &[GateEntry], queue: u8) -> u64 {
    let open = |entry: &GateEntry| entry.gates & 1 << queue != 0;
    let Some(mut before) = entries.last().map(open) else {
        return 0;
    };
    let mut count = 0;
    for entry in entries {
        let now = open(entry);
        count += u64::from(now && !before);
        before = now;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{Port, Slot, list};

    const PORT: Port = Port {
        cycle: 1000,
        queues: 8,
        guard: 50,
        minimum: 1,
        entries: None,
        openings: None,
        useful: 20,
    };

    fn slot(start: u64, duration: u64, spread: u64) -> Slot {
        Slot {
            start,
            duration,
            queue: 7,
            spread,
        }
    }

    fn drawn(slots: &mut [Slot], port: &Port) -> Vec<(u8, u64)> {
        let draft = list(slots, port);
        let entries: Vec<_> = draft
            .list
            .entries
            .iter()
            .map(|entry| (entry.gates, entry.duration_ns))
            .collect();
        assert_eq!(entries.iter().map(|entry| entry.1).sum::<u64>(), port.cycle);
        entries
    }

    #[test]
    fn guard_bands_come_ahead_of_windows() {
        let mut slots = [slot(600, 100, 0), slot(100, 100, 0)];
        assert_eq!(
            drawn(&mut slots, &PORT),
            [
                (0x80, 100),
                (0x7f, 350),
                (0, 50),
                (0x80, 100),
                (0x7f, 350),
                (0, 50)
            ]
        );
        let held = Port { guard: 0, ..PORT };
        assert_eq!(
            drawn(&mut slots, &held),
            [(0x80, 100), (0x7f, 400), (0x80, 100), (0x7f, 400)]
        );
    }

    #[test]
    fn a_gap_too_short_for_others_is_closed_and_nobody_slips_through_it() {
        let mut slots = [slot(100, 100, 0), slot(260, 100, 0)];
        assert_eq!(
            drawn(&mut slots, &PORT),
            [(0x80, 260), (0x7f, 690), (0, 50)]
        );
        let mut early = [slot(100, 100, 0), slot(260, 100, 30)];
        assert_eq!(
            drawn(&mut early, &PORT),
            [(0x80, 100), (0, 60), (0x80, 100), (0x7f, 690), (0, 50)]
        );
    }

    #[test]
    fn limits_close_the_shortest_gaps() {
        let mut slots = [slot(0, 100, 0), slot(250, 100, 0), slot(600, 100, 0)];
        assert_eq!(drawn(&mut slots, &PORT).len(), 9);
        let few = Port {
            entries: Some(6),
            ..PORT
        };
        assert_eq!(
            drawn(&mut slots, &few),
            [
                (0x80, 350),
                (0x7f, 200),
                (0, 50),
                (0x80, 100),
                (0x7f, 250),
                (0, 50)
            ]
        );
        let once = Port {
            openings: Some(1),
            ..PORT
        };
        assert_eq!(
            drawn(&mut slots, &once),
            [(0x80, 700), (0x7f, 250), (0, 50)]
        );
        let never = Port {
            entries: Some(2),
            ..PORT
        };
        assert!(list(&mut slots, &never).list.entries.len() > 2);
    }

    #[test]
    fn short_windows_are_widened() {
        let wide = Port {
            minimum: 120,
            ..PORT
        };
        let mut slots = [slot(100, 100, 0)];
        assert_eq!(
            drawn(&mut slots, &wide),
            [(0x80, 120), (0x7f, 760), (0, 120)]
        );
        assert_eq!(list(&mut slots, &wide).too_short, None);
        let mut waiting = [slot(100, 100, 890)];
        assert_eq!(list(&mut waiting, &wide).too_short, Some(100));
    }
}

//! The gates of a port: the queues that may send at a given time of its clock, and the next change.

use rtwire_plan::{GateList, Isolation, Network, Plan};

use crate::error::SimulationError;

/// Returns the time from which new frames are checked against a plan's schedule, ns.
///
/// With `isolation = "streams"` it is 0. With `"frames"` each frame needs the frames before it in its queues. At the
/// start some of those are missing, so a frame may find an empty place and leave in it. This lasts until the latest
/// window has had its first frame, plus the same time again for all frames still in the network.
pub(crate) fn settled_ns(network: &Network, plan: &Plan) -> u64 {
    if network.schedule.isolation == Isolation::Streams {
        return 0;
    }
    let launches = plan.streams.iter().filter_map(|it| it.launch.as_ref());
    let windows = launches.flat_map(|launch| &launch.windows);
    let ends = windows.map(|window| window.start_ns.saturating_add(window.duration_ns));
    ends.max().unwrap_or(0).saturating_mul(2)
}

/// A gate list, repeated without end.
#[derive(Clone, Debug)]
pub(crate) struct Gates {
    cycle_ps: u64,
    base_ps: u64,
    /// End of each state, ps after the start of the list.
    ends_ps: Vec<u64>,
    masks: Vec<u8>,
    /// True if a frame is held back when its transmission would not end before its gate closes.
    pub(crate) holds_back: bool,
    /// The node whose clock the gates follow.
    pub(crate) node: u32,
}

/// The decision of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Send the first frame of this queue.
    Send(u8),
    /// Send nothing before the clock shows this time, ps.
    Wait(i64),
    /// Never send.
    Never,
}

/// Returns the time since the last start of something periodic, ps. The clock may show negative values.
pub(crate) fn since(shown_ps: i64, began_ps: u64, period_ps: u64) -> u64 {
    let ago = i128::from(shown_ps) - i128::from(began_ps);
    // The value is less than the period, which has 64 bits.
    u64::try_from(ago.rem_euclid(i128::from(period_ps.max(1)))).unwrap_or(0)
}

/// Returns the start of something periodic on a clock that counts from `origin_ns` on instead of from its epoch, ps.
pub(crate) fn rebased(began_ps: u64, origin_ns: u64, period_ps: u64) -> u64 {
    let began = i128::from(began_ps) - i128::from(origin_ns) * 1000;
    // The value is below the period, which has 64 bits.
    u64::try_from(began.rem_euclid(i128::from(period_ps.max(1)))).unwrap_or(0)
}

impl Gates {
    pub(crate) fn new(
        list: &GateList,
        holds_back: bool,
        node: u32,
        what: &str,
    ) -> Result<Gates, SimulationError> {
        let range = || SimulationError::Range {
            what: format!("the gate list of {what}"),
        };
        let ps = |ns: u64| ns.checked_mul(1000).ok_or_else(range);
        let mut ends_ps = Vec::with_capacity(list.entries.len());
        let mut end = 0_u64;
        for entry in list.entries.iter().filter(|entry| entry.duration_ns > 0) {
            end = end.checked_add(ps(entry.duration_ns)?).ok_or_else(range)?;
            ends_ps.push(end);
        }
        if end == 0 {
            return Err(SimulationError::Inconsistent {
                what: format!("the gate list of {what} is empty"),
            });
        }
        let entries = list.entries.iter().filter(|entry| entry.duration_ns > 0);
        Ok(Gates {
            // Hardware repeats a list after its cycle, whatever the sum of its entries. A shorter sum keeps the last
            // state; a longer one is cut.
            cycle_ps: ps(list.cycle_ns)?.max(1),
            base_ps: ps(list.base_offset_ns)?,
            ends_ps,
            masks: entries.map(|entry| entry.gates).collect(),
            holds_back,
            node,
        })
    }

    /// Counts the clock from `origin_ns` on instead of from its epoch. Every list has its own cycle, so this is exact
    /// for every origin.
    pub(crate) fn rebase(&mut self, origin_ns: u64) {
        self.base_ps = rebased(self.base_ps, origin_ns, self.cycle_ps);
    }

    /// Returns the state at a time of the clock and its remaining duration, ps.
    fn state(&self, shown_ps: i64) -> (usize, u64) {
        let into = since(shown_ps, self.base_ps, self.cycle_ps);
        let last = self.ends_ps.len() - 1;
        let index = self.ends_ps.partition_point(|end| *end <= into).min(last);
        let end = if index == last {
            self.cycle_ps
        } else {
            self.ends_ps[index].min(self.cycle_ps)
        };
        (index, end - into)
    }

    fn next(&self, index: usize) -> (usize, u64) {
        let (mut next, mut start) = (index + 1, self.ends_ps[index]);
        if next >= self.ends_ps.len() || start >= self.cycle_ps {
            (next, start) = (0, 0);
        }
        let end = if next + 1 == self.ends_ps.len() {
            self.cycle_ps
        } else {
            self.ends_ps[next].min(self.cycle_ps)
        };
        (next, end - start)
    }

    /// Returns the decision at a time of the clock, with frames in the queues of `filled`. `took_ps` returns the
    /// transmission time of a queue's first frame, ps.
    pub(crate) fn turn(&self, shown_ps: i64, filled: u8, took_ps: impl Fn(u8) -> u64) -> Turn {
        let (mut index, mut left) = self.state(shown_ps);
        let mut ahead = 0_u64;
        // One round, and again the first state, of which a part is already over.
        for _ in 0..=self.ends_ps.len() {
            let open = self.masks[index] & filled;
            let mut ready = open;
            while let Some(queue) = ready.checked_ilog2() {
                let queue = queue as u8;
                if !self.holds_back || self.open_for(index, left, queue, took_ps(queue)) {
                    return if ahead == 0 {
                        Turn::Send(queue)
                    } else {
                        Turn::Wait(shown_ps.saturating_add_unsigned(ahead))
                    };
                }
                ready &= !(1 << queue);
            }
            ahead = ahead.saturating_add(left);
            (index, left) = self.next(index);
        }
        Turn::Never
    }

    /// Returns true if a queue stays open for `wanted_ps`.
    fn open_for(&self, index: usize, left_ps: u64, queue: u8, wanted_ps: u64) -> bool {
        let (mut index, mut sum) = (index, left_ps);
        for _ in 0..=self.ends_ps.len() {
            if sum >= wanted_ps {
                return true;
            }
            let (next, more) = self.next(index);
            if self.masks[next] & 1 << queue == 0 {
                return false;
            }
            index = next;
            sum = sum.saturating_add(more);
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use rtwire_plan::{GateEntry, GateList};

    use super::{Gates, Turn};

    fn gates(holds_back: bool) -> Gates {
        let entry = |gates, duration_ns| GateEntry { gates, duration_ns };
        let list = GateList {
            cycle_ns: 100,
            base_offset_ns: 10,
            entries: vec![entry(0x80, 20), entry(0x7f, 50), entry(0, 30)],
            scheduled_queues: 0x80,
            unscheduled_open_ns: 50,
            guard_band_ns: 30,
        };
        Gates::new(&list, holds_back, 0, "a port").unwrap()
    }

    #[test]
    fn queues_take_turns() {
        let took = |_: u8| 15_000;
        for holds_back in [false, true] {
            let gates = gates(holds_back);
            assert_eq!(gates.turn(10_000, 0x81, took), Turn::Send(7));
            assert_eq!(gates.turn(10_000, 0x01, took), Turn::Wait(30_000));
            assert_eq!(gates.turn(30_000, 0x81, took), Turn::Send(0));
            assert_eq!(gates.turn(80_000, 0x01, took), Turn::Wait(130_000));
            assert_eq!(gates.turn(9_999, 0x80, took), Turn::Wait(10_000));
            // The list ran before the epoch: all gates are closed from -20 to 10 ns.
            assert_eq!(gates.turn(-40_000, 0x01, took), Turn::Send(0));
            assert_eq!(gates.turn(-5_000, 0x81, took), Turn::Wait(10_000));
        }
        assert_eq!(gates(false).turn(79_999, 0x01, took), Turn::Send(0));
        assert_eq!(gates(true).turn(65_000, 0x01, took), Turn::Send(0));
        assert_eq!(gates(true).turn(65_001, 0x01, took), Turn::Wait(130_000));
        assert_eq!(gates(true).turn(65_001, 0x01, |_| 50_001), Turn::Never);
    }
}

//! Cyclic queueing: what came in a cycle of a switch leaves in the next one. There are no queues and no lists of gates here,
//! only the cycle in which each frame came.

use std::collections::BTreeMap;

use rtwire_plan::{CyclicQueueing, Network};

use super::{Dice, Frame, PS};

/// The cycles of all switches. Each begins as early or late as the clocks permit, whatever the one before did.
pub(super) struct Cycles<'a> {
    plan: &'a CyclicQueueing,
    cycle_ps: u128,
    error_ps: u128,
    flows: Vec<bool>,
    /// The start of each cycle that was looked at, ps, by switch and number.
    begins: BTreeMap<(String, u128), u128>,
}

impl<'a> Cycles<'a> {
    pub(super) fn new(network: &Network, plan: &'a CyclicQueueing) -> Cycles<'a> {
        Cycles {
            plan,
            cycle_ps: u128::from(plan.cycle_ns) * 1_000,
            error_ps: u128::from(network.schedule.clock_error_ns) * 1_000,
            flows: network.streams.iter().map(|it| it.cyclic).collect(),
            begins: BTreeMap::new(),
        }
    }

    /// True if a flow is cyclic at a node.
    pub(super) fn is_of(&self, flow: usize, node: &str) -> bool {
        let cyclic = self.flows.get(flow).copied().unwrap_or(false);
        cyclic && self.plan.switches.iter().any(|it| it.switch == *node)
    }

    fn begin_ps(&mut self, node: &str, number: u128, dice: &mut Dice) -> u128 {
        let (cycle_ps, error_ps) = (self.cycle_ps, self.error_ps);
        let begin = self.begins.entry((node.to_owned(), number));
        *begin.or_insert_with(|| {
            let error = u64::try_from(2 * error_ps).unwrap();
            let moved = match dice.below(4) {
                0 => 0,
                1 => error,
                _ => dice.below(error + 1),
            };
            (number * cycle_ps + u128::from(moved)).saturating_sub(error_ps)
        })
    }

    /// Returns the number of a switch's cycle at an instant.
    pub(super) fn number(&mut self, node: &str, now: u128, dice: &mut Dice) -> u128 {
        let mut number = (now / self.cycle_ps).saturating_sub(2);
        while self.begin_ps(node, number + 1, dice) <= now {
            number += 1;
        }
        number
    }

    /// Returns the instant from which frames that came in a cycle may leave a port.
    pub(super) fn opens(&mut self, (node, to): (&str, &str), came: u128, dice: &mut Dice) -> u128 {
        let mut ports = self.plan.ports.iter();
        let port = ports.find(|it| it.node == *node && it.port == *to);
        // What has no bound is in no plan.
        let closed_ns = port.map_or(0, |it| it.closed_ns);
        self.begin_ps(node, came + 1, dice) + u128::from(closed_ns) * 1_000
    }
}

/// The choice of a port with cyclic frames.
pub(super) enum Turn {
    /// This one goes now; true if its cycle is over before it has left.
    Sends(Frame, bool),
    /// None may go before this instant.
    Waits(u128),
    /// None is there.
    Empty,
}

/// Chooses among the frames of a port, each with the cycle in which it came, in order of arrival.
pub(super) fn turn(
    waiting: &mut Vec<(u128, Frame)>,
    cycles: &mut Cycles<'_>,
    (ends, rate): ((&str, &str), u128),
    now: u128,
    dice: &mut Dice,
) -> Turn {
    let mut first = None;
    for at in 0..waiting.len() {
        let came = waiting[at].0;
        let opens = cycles.opens(ends, came, dice);
        if opens <= now {
            let frame = waiting.remove(at).1;
            // Its queue must not close before its end.
            let closes = cycles.begin_ps(ends.0, came + 2, dice);
            return Turn::Sends(frame, now + frame.bits * PS / rate > closes);
        }
        first = Some(first.map_or(opens, |known: u128| known.min(opens)));
    }
    first.map_or(Turn::Empty, Turn::Waits)
}

//! Schedules that attain a promise: played with a small event loop of its own, frame by frame.
//!
//! A schedule proves a lower bound, so every doubt is decided against it. The talkers' clocks are exact, and hosts are
//! prompt. Links where a frame does not take whole picoseconds are refused.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::file::Schedule;
use crate::model::Model;
use crate::number::{BIT, BPS, NS, Num};

/// The largest number of frames in a schedule.
const MOST_FRAMES: usize = 20_000;

/// A frame on its way: its flow, its release, and 1 if it is the examined stream's, which comes last at equal times.
type Frame = (usize, i128);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The frame's last bit is at this hop of its flow.
    Arrives(usize, Frame),
    /// The frame enters the queue of this hop.
    Queued(usize, Frame),
    /// The link of this port is free again.
    Free(usize),
}

#[derive(Clone, Default)]
struct Port {
    queues: [VecDeque<(usize, Frame)>; 8],
    busy_until: i128,
    /// For each link and class before the queue: the time at which the last frame left the latency, and true if it or
    /// one before it at that time comes last.
    lanes: HashMap<(Option<usize>, u8), (i128, bool)>,
}

impl Model {
    /// Returns the largest delay of a stream's frames at a listener's port, ps. `None` if the schedule is not one that the
    /// network may show.
    ///
    /// The model is that of docs/bounds.md, "The model of a switch". Each frame has the full latency, but at the stated
    /// ports the one with which it enters the queue as near to the stated time as it can. Frames of the examined stream
    /// always have the full one.
    pub(crate) fn attained(&self, schedule: &Schedule, stream: usize, last: usize) -> Option<i128> {
        let mut releases: HashMap<usize, Vec<i128>> = HashMap::new();
        let mut events: BinaryHeap<Reverse<(i128, bool, usize, Event)>> = BinaryHeap::new();
        for (order, (name, at)) in schedule.frames.iter().enumerate() {
            let flow = *self.names.get(name)?;
            let at = i128::from(at.0);
            releases.entry(flow).or_default().push(at);
            for (hop, first) in self.flows[flow].hops.iter().enumerate() {
                if first.before.is_none() {
                    let event = Event::Arrives(hop, (flow, at));
                    events.push(Reverse((at, flow == stream, order, event)));
                }
            }
        }
        releases.values_mut().for_each(|times| times.sort_unstable());
        let conform = || releases.iter().all(|(flow, times)| self.conforms(*flow, times));
        // A talker hands over both copies of a frame together.
        let times = |flow: usize| releases.get(&flow);
        let pairs =
            self.flows.iter().enumerate().map(|(at, flow)| (at, flow.copy_of.unwrap_or(at)));
        let together = || pairs.into_iter().all(|(copy, first)| times(copy) == times(first));
        (schedule.frames.len() <= MOST_FRAMES && conform() && together()).then_some(())?;
        let mut meets: HashMap<usize, i128> = HashMap::new();
        for (port, at) in &schedule.meets {
            meets.insert(*self.numbers.get(port)?, i128::from(at.0));
        }
        let mut ports = vec![Port::default(); self.ports.len()];
        let (mut worst, mut order) = (None, schedule.frames.len());
        let mut choosing: Vec<usize> = Vec::new();
        loop {
            // All that happens at one time, then the ports that are free choose.
            let Some(now) = events.peek().map(|Reverse(event)| event.0) else {
                return worst;
            };
            while let Some(Reverse((_, own, _, event))) =
                events.peek().copied().filter(|event| event.0.0 == now)
            {
                events.pop();
                match event {
                    Event::Arrives(hop, frame) => {
                        let here = &self.flows[frame.0].hops[hop];
                        let port = &self.ports[here.port];
                        let (least, most) = (port.latency_min.0?, port.latency.0?);
                        let meet = meets.get(&here.port).filter(|_| frame.0 != stream);
                        let late = meet.map_or(most, |meet| (meet - now).clamp(least, most));
                        let late = if port.catches_up { 0 } else { late };
                        // Frames of one input and class stay in order, also at equal times.
                        let from = here.before.map(|before| self.flows[frame.0].hops[before].port);
                        let lane = ports[here.port].lanes.entry((from, here.class)).or_default();
                        let last = own || (lane.1 && lane.0 >= now + late);
                        *lane = (lane.0.max(now + late), last);
                        order += 1;
                        events.push(Reverse((lane.0, last, order, Event::Queued(hop, frame))));
                    }
                    Event::Queued(hop, frame) => {
                        let here = &self.flows[frame.0].hops[hop];
                        ports[here.port].queues[usize::from(here.class)].push_back((hop, frame));
                        choosing.push(here.port);
                    }
                    Event::Free(port) => choosing.push(port),
                }
            }
            for number in choosing.drain(..) {
                let (port, model) = (&mut ports[number], &self.ports[number]);
                if port.busy_until > now {
                    continue;
                }
                let next = port.queues.iter_mut().rev().find_map(VecDeque::pop_front);
                let Some((hop, frame)) = next else { continue };
                let flow = &self.flows[frame.0];
                let (bits, rate) = (flow.largest.0? / BIT, model.rate.0? / BPS);
                let takes = bits.checked_mul(BIT / BPS)?;
                if takes % rate != 0 {
                    return None;
                }
                port.busy_until = now + takes / rate;
                events.push(Reverse((port.busy_until, false, 0, Event::Free(number))));
                let there = port.busy_until + i128::from(model.cable_ns) * NS;
                if frame.0 == stream && hop == last {
                    worst = worst.max(Some(there - frame.1));
                }
                for (next, behind) in flow.hops.iter().enumerate() {
                    if behind.before == Some(hop) {
                        order += 1;
                        let event = Event::Arrives(next, frame);
                        events.push(Reverse((there, frame.0 == stream, order, event)));
                    }
                }
            }
        }
    }

    /// True if a talker may release its frames at these times, in order: each window of frames keeps the contract.
    fn conforms(&self, flow: usize, times: &[i128]) -> bool {
        let flow = &self.flows[flow];
        let num = |value: i128| Num::from(value);
        let Some(origin) = times.first().copied() else { return true };
        // The largest `step (k - i) - rate (t_k - t_i)` of all frames i and frames k behind them, in one pass.
        let most = |step: Num, rate: Num| {
            let (mut least, mut most) = (Num::ZERO, Num::ZERO);
            for (number, at) in times.iter().enumerate() {
                let here = step * num(number as i128) - rate * num(at - origin);
                (least, most) = (least.min(here), most.max(here - least.min(here)));
            }
            most
        };
        if let Some((period, tick)) = flow.ticks {
            // Frame number k - i behind the first comes at most one tick error early.
            return most(period, num(1)) <= tick;
        }
        let (Some((rate, burst)), Some(data)) = (flow.exact, flow.largest.0) else { return false };
        // All with both denominators.
        let (r, b) = (num(rate.over) * num(burst.under), num(burst.over) * num(rate.under));
        let frame = num(data / BIT) * num(rate.under) * num(burst.under);
        let second = num(BIT / BPS);
        most(frame * second, r) + frame * second <= b * second
    }
}

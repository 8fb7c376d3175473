//! The events at a port: frames arrive, wait, are chosen and leave.

use super::{Event, Frame, LAST, Simulator, Waiting};
use crate::gates::{Turn, since};
use crate::model::{Binding, NONE};
use crate::scenario::Lateness;

impl Simulator<'_> {
    /// Lets a frame arrive at a port.
    pub(super) fn enter(&mut self, frame: Frame) {
        if !self.takes_memory(frame, self.now_ps) {
            return;
        }
        let edge = &self.model.edges[frame.edge as usize];
        let (index, regulator) = (edge.port, edge.regulator);
        let in_front = edge.latency_ps > 0;
        let waiting = Waiting {
            frame,
            came_ps: self.now_ps,
        };
        if in_front || regulator != NONE {
            let late_ps = if in_front {
                self.late_ps(index, frame.edge)
            } else {
                0
            };
            self.pass(waiting, late_ps);
            return;
        }
        self.queue(index, waiting);
    }

    /// Takes memory of its port for a frame. Returns false if there is none left. `came_ps` is when its last bit comes.
    pub(super) fn takes_memory(&mut self, frame: Frame, came_ps: u64) -> bool {
        let edge = &self.model.edges[frame.edge as usize];
        let index = edge.port;
        let port_model = &self.model.ports[index as usize];
        let bits = u64::from(frame.bits);
        if !self.has_room(port_model.pool, bits) {
            self.ports[index as usize].seen.dropped += 1;
            self.dropped += 1;
            self.copies -= 1;
            self.leaves_lane(frame);
            if let Some(tape) = &mut self.tape {
                tape.dropped(self.model, frame.number, frame.edge);
            }
            return false;
        }
        let now_ps = self.now_ps;
        let begun = self.begun(index);
        let came = &mut self.came[edge.even as usize];
        came.first_ps = came_ps.min(came.first_ps);
        if came.left > 0 {
            came.left -= 1;
            came.burst_ps = came_ps;
        }
        if edge.flow == self.last_at_ties {
            self.trace.push((frame.born_ps, edge.even, came_ps));
        }
        let port = &mut self.ports[index as usize];
        port.waiting_bits += bits;
        port.waiting_frames += 1;
        if port.waiting_bits + begun.bits > port.seen.backlog_bits {
            let left = if self.model.pools[port_model.pool as usize].whole_frames {
                begun.bits
            } else {
                port.left_bits(port_model, now_ps).min(begun.bits)
            };
            port.seen.backlog_bits = port.seen.backlog_bits.max(port.waiting_bits + left);
        }
        let frames = port.waiting_frames + begun.frames;
        port.seen.backlog_frames = port.seen.backlog_frames.max(frames);
        true
    }

    /// Returns the latency of a frame that arrives now at a port of a switch.
    pub(super) fn late_ps(&mut self, index: u32, edge: u32) -> u64 {
        let port = &self.model.ports[index as usize];
        let edge = &self.model.edges[edge as usize];
        let (flow, least, most) = (edge.flow, edge.latency_min_ps, edge.latency_ps);
        match self.lateness[index as usize] {
            Lateness::Prompt => least,
            Lateness::Pipeline => most,
            // The rest of it is at the start of a busy period, where a port has a late start.
            Lateness::BusyStart if port.late_start_ps.is_some() => least,
            Lateness::BusyStart => most,
            Lateness::Random => least + self.random.up_to(most - least),
            Lateness::Gather { .. } if flow == self.last_at_ties => most,
            Lateness::Gather { at_ps } => at_ps.saturating_sub(self.now_ps).clamp(least, most),
        }
    }

    /// Lets a frame pass its latency and its regulator, in the order of its lane.
    pub(super) fn pass(&mut self, waiting: Waiting, late_ps: u64) {
        let Waiting { frame, came_ps } = waiting;
        let edge = &self.model.edges[frame.edge as usize];
        let mut tie = self.tie(edge.flow);
        let lane = &mut self.lanes[edge.lane as usize];
        let mut at = self.now_ps.saturating_add(late_ps).max(lane.0);
        let mut held_ps = 0;
        if edge.regulator != NONE {
            let passed = self
                .regulators
                .pass_ps(self.model, frame.edge, at, frame.bits);
            let Some(passed) = passed else {
                // It keeps its memory for ever: a frame larger than its stream's burst violates the contract.
                return;
            };
            held_ps = passed - at;
            *lane = (at, 0);
            at = passed;
        } else {
            if at == lane.0 {
                tie = tie.max(lane.1);
            }
            *lane = (at, tie);
        }
        let came_ps = came_ps.saturating_add(held_ps);
        self.events
            .push(at, tie, Event::Eligible { frame, came_ps });
    }

    /// Returns true if a pool has room for `bits` more. The part of a frame that is already on the wire needs no
    /// memory if each bit is freed as it leaves.
    pub(super) fn has_room(&self, pool: u32, bits: u64) -> bool {
        let pool = &self.model.pools[pool as usize];
        if pool.limit_bits == u64::MAX && pool.limit_frames == u64::MAX {
            return true;
        }
        let (mut waiting, mut sending, mut frames) = (bits, 0_u64, 1_u64);
        for index in &pool.ports {
            let port = &self.ports[*index as usize];
            waiting += port.waiting_bits;
            let begun = self.begun(*index);
            frames += port.waiting_frames + begun.frames;
            sending += begun.bits;
        }
        if frames > pool.limit_frames || waiting > pool.limit_bits {
            return false;
        }
        if waiting + sending <= pool.limit_bits {
            return true;
        }
        if pool.whole_frames {
            return false;
        }
        let left: u64 = pool
            .ports
            .iter()
            .map(|index| {
                let model = &self.model.ports[*index as usize];
                self.ports[*index as usize].left_bits(model, self.now_ps)
            })
            .sum();
        waiting + left <= pool.limit_bits
    }

    /// Puts a frame into its queue, from where it may be chosen.
    pub(super) fn queue(&mut self, index: u32, waiting: Waiting) {
        let class = self.model.edges[waiting.frame.edge as usize].class;
        self.leaves_lane(waiting.frame);
        let port = &mut self.ports[index as usize];
        if let Some(Some(credit)) = port.credits.get_mut(usize::from(class)) {
            credit.look(self.now_ps, port.filled & (1 << class) != 0);
        }
        port.queues[usize::from(class)].push_back(waiting);
        port.filled |= 1 << class;
        if let Some(preemption) = self.model.ports[index as usize].preemption {
            if port.pieces.is_sending() {
                if class >= preemption.first_express {
                    self.interrupt(index);
                }
                return;
            }
        }
        if self.model.ports[index as usize].gates.is_some() {
            // Whatever the port waits for, this frame may go first.
            if self.now_ps >= port.busy_until_ps {
                port.wake_ps = self.now_ps;
                self.choosing.push(index);
            } else if port.wake_ps != port.busy_until_ps {
                port.wake_ps = port.busy_until_ps;
                self.events.push(port.busy_until_ps, 0, Event::Wakes(index));
            }
            return;
        }
        if !port.credits.is_empty() {
            // The port may be idle although frames wait, so each new frame may be the next.
            if self.now_ps >= port.busy_until_ps {
                self.choosing.push(index);
            } else {
                let at = port.busy_until_ps;
                self.events.push(at, 0, Event::Wakes(index));
            }
            return;
        }
        if port.woken {
            return;
        }
        port.woken = true;
        if self.now_ps < port.busy_until_ps {
            let at = port.busy_until_ps;
            self.events.push(at, 0, Event::Wakes(index));
            return;
        }
        // The port was idle: a busy period begins. A switch begins it as late as its latency permits.
        let port_model = &self.model.ports[index as usize];
        let late_ps = match self.lateness[index as usize] {
            Lateness::BusyStart => port_model.late_start_ps.unwrap_or(0),
            _ => 0,
        };
        if late_ps == 0 {
            self.choosing.push(index);
        } else {
            self.events
                .push(self.now_ps + late_ps, 0, Event::Wakes(index));
        }
    }

    /// Takes the next frame from the port's most urgent queue.
    pub(super) fn choose(&mut self, index: u32) {
        let now_ps = self.now_ps;
        let port_model = &self.model.ports[index as usize];
        if port_model.preemption.is_some() {
            self.choose_piece(index);
            return;
        }
        let port = &mut self.ports[index as usize];
        port.woken = false;
        let mut chosen = port.filled.checked_ilog2();
        if let (Some(gates), Some(_)) = (&port_model.gates, chosen) {
            // Two frames that arrive at the same time both ask.
            if now_ps < port.busy_until_ps {
                return;
            }
            let clock = self
                .clocks
                .get(gates.node as usize)
                .copied()
                .unwrap_or_default();
            let shown_ps = clock.shows_ps(now_ps);
            let fraction = if now_ps > port.busy_until_ps {
                0
            } else {
                port.fraction
            };
            let took = |queue: u8| {
                let first = port.queues[usize::from(queue)].front();
                first.map_or(0, |first| {
                    port_model.line.transmit(first.frame.bits, fraction).0
                })
            };
            chosen = match gates.turn(shown_ps, port.filled, took) {
                Turn::Send(queue) => Some(u32::from(queue)),
                Turn::Wait(until_ps) => {
                    let at = clock.when_ps(until_ps).max(now_ps + 1);
                    if port.wake_ps != at {
                        port.wake_ps = at;
                        self.events.push(at, 0, Event::Wakes(index));
                    }
                    return;
                }
                Turn::Never => return,
            };
            if let Some(first) = chosen.and_then(|class| port.queues[class as usize].front()) {
                let edge = &self.model.edges[first.frame.edge as usize];
                let judged = first.frame.born_ps >= self.model.flows[edge.flow as usize].judged_ps;
                if let Some((start, period)) = edge.window_ps.filter(|_| judged) {
                    // The time was rounded up to a whole picosecond.
                    let off = since(shown_ps, start, period);
                    port.seen.off_window += u64::from(off > 1);
                }
            }
        }
        if !port.credits.is_empty() {
            if now_ps < port.busy_until_ps {
                return;
            }
            chosen = match port.with_credit(now_ps) {
                Ok(class) => class,
                Err(ready_ps) => {
                    self.events.push(ready_ps, 0, Event::Wakes(index));
                    return;
                }
            };
        }
        let Some(class) = chosen else {
            return;
        };
        let queue = &mut port.queues[class as usize];
        let Some(Waiting { frame, came_ps }) = queue.pop_front() else {
            return;
        };
        if queue.is_empty() {
            port.filled &= !(1 << class);
        }
        let fresh = now_ps > port.busy_until_ps || port.busy_until_ps == 0;
        let fraction = if fresh { 0 } else { port.fraction };
        let (took_ps, fraction) = port_model.line.transmit(frame.bits, fraction);
        let end_ps = now_ps.saturating_add(took_ps);
        if let Some(Some(credit)) = port.credits.get_mut(class as usize) {
            credit.send(took_ps, end_ps);
        }
        port.fraction = fraction;
        port.busy_until_ps = end_ps;
        port.sending_bits = frame.bits;
        port.waiting_bits -= u64::from(frame.bits);
        port.waiting_frames -= 1;
        let waiting = Waiting { frame, came_ps };
        let (release_ps, tie) = self.release(index, waiting, class as usize, end_ps, fresh);
        let port = &mut self.ports[index as usize];
        if port.filled != 0 {
            port.woken = true;
            port.wake_ps = end_ps;
            self.events.push(end_ps, 0, Event::Wakes(index));
        }
        self.frame_hops += 1;
        let at = release_ps.saturating_add(port_model.cable_ps);
        if !self.is_cut(index, frame, now_ps, at) {
            self.events.push(at, tie, Event::Arrives(frame));
            self.send_heads(frame, at, took_ps, tie);
        }
        self.sends_again(frame);
    }

    /// Returns when a frame that has been sent until `end_ps` is handed over, and its tie number then. `fresh`: the port was
    /// idle before it.
    pub(super) fn release(
        &mut self,
        index: u32,
        waiting: Waiting,
        class: usize,
        end_ps: u64,
        fresh: bool,
    ) -> (u64, u16) {
        let port_model = &self.model.ports[index as usize];
        let port = &mut self.ports[index as usize];
        let flow = self.model.edges[waiting.frame.edge as usize].flow;
        let mut tie = if flow == self.last_at_ties { LAST } else { 0 };
        let mut release_ps = end_ps;
        if port_model.catches_up && port_model.latency_ps > 0 {
            let latency_ps = port_model.latency_ps;
            if fresh {
                port.hold_until_ps = end_ps.saturating_add(latency_ps);
            }
            let late = match self.lateness[index as usize] {
                Lateness::Prompt => end_ps,
                Lateness::BusyStart | Lateness::Gather { .. } => end_ps.max(port.hold_until_ps),
                Lateness::Pipeline => end_ps.saturating_add(latency_ps),
                Lateness::Random => end_ps.saturating_add(self.random.up_to(latency_ps)),
            };
            release_ps = late.max(port.last_release_ps);
            if release_ps == port.last_release_ps {
                tie = tie.max(port.last_tie);
            }
            port.last_release_ps = release_ps;
            port.last_tie = tie;
        }
        let delay = &mut port.seen.class_delay_ps[class];
        *delay = (*delay).max(release_ps.saturating_sub(waiting.came_ps));
        (release_ps, tie)
    }

    /// Lets a source without a shaper send again when its own host has begun a frame of it.
    pub(super) fn sends_again(&mut self, frame: Frame) {
        let flow = self.model.edges[frame.edge as usize].flow;
        if self.model.flows[flow as usize].binding == Binding::Unshaped {
            // Only at its own host: behind it nothing makes the source continue.
            let (first, end) = self.model.flows[flow as usize].branches;
            let own = (first..end).any(|at| self.model.branches[at as usize] == frame.edge);
            if own {
                self.send_at(flow, self.now_ps, frame.bits);
            }
        }
    }
}

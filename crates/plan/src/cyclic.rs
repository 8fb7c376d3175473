//! Cyclic queueing and forwarding (IEEE Std 802.1Q, Annex T): what a switch receives in a cycle it sends in the next.
//!
//! ```text
//! V      variation of the talker's port                       delay - least delay
//! n      frames of a stream that come in a cycle, at most     T + 2 e long, with V more jitter than the contract
//! B      bits of a port that come in a cycle                  sum of n M
//! F      after the start of a cycle all of it is out          e + max(g, L) + (M_low + B) / C
//! holds if                                                    F + cable + e < T before a switch, F + e <= T before a host
//! delay  behind the talker's link, h switches                 h T + e + F + cable
//! ```
//!
//! T is the cycle, e the clock error, g the time for which both queues are closed at the start of a cycle, L the latency,
//! M a frame, C the rate. Derivation: docs/bounds.md, "Cyclic queueing and forwarding".

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::graph::{Flow, Graph, Method};
use crate::bound::segments::Segments;
use crate::mapping::{CYCLIC_STREAMS, Mapped, map};
use crate::network::Network;
use crate::plan::{NodeKind, Plan, Promise, Term, TermKind};
use crate::refusal::Reason;
use crate::schedule::Closing;
use crate::schedule::closings::Closed;
use crate::schedule::gates::{GateEntry, GateList};
use rtwire_describe::ratio::{Overflow, Ratio};

/// Cyclic queueing in a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CyclicQueueing {
    /// The cycle, nanoseconds. Cycles begin at whole numbers of it since the epoch of each switch's clock.
    pub cycle_ns: u64,
    /// The priority of all cyclic streams, and of nothing else.
    pub priority: u8,
    /// The stream gates of the switches on their routes.
    pub switches: Vec<StreamGate>,
    /// The ports of these switches that they pass.
    pub ports: Vec<CyclicPort>,
}

/// The stream gate of a switch (802.1Q, 8.6.5.4): always open, it tells each frame of cyclic streams its queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamGate {
    /// The switch. Each of its inputs has the same gate.
    pub switch: String,
    /// The queue for frames whose last bit comes in a cycle with an even number.
    pub even_queue: u8,
    /// The queue for frames whose last bit comes in a cycle with an odd number.
    pub odd_queue: u8,
}

/// The frames that pass a port in each cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CyclicPort {
    /// The switch that sends.
    pub node: String,
    /// The neighbour.
    pub port: String,
    /// The cyclic streams.
    pub streams: Vec<String>,
    /// The bytes on the wire that come in a cycle, at most.
    pub cycle_bytes: u64,
    /// The frames that come in a cycle, at most.
    pub cycle_frames: u64,
    /// The time for which both queues are closed at the start of a cycle, nanoseconds. It keeps frames from the cycle before
    /// at the next switch.
    pub closed_ns: u64,
    /// After the start of a cycle, all that came in the one before is out within this time, nanoseconds.
    pub out_ns: u64,
}

/// The numbers of one port.
struct Cycled {
    plan: CyclicPort,
    /// The bits of a cycle.
    bits: Ratio,
    /// The sum of the streams' rates, bit/s.
    needed: Ratio,
    /// The burst, bits, and the rate, bit/s, that other traffic meets at most.
    taken: (Ratio, Ratio),
    rate: Ratio,
    /// The largest frame of cyclic streams, bits.
    largest: Ratio,
    /// The largest frame of other traffic, bits.
    blocking: Ratio,
    latency_ns: u64,
    latency_min_ns: u64,
    /// True if the latency is behind the queue.
    catches_up: bool,
    cable_ns: u64,
    /// True if the gate list also holds for other traffic, which is in the bounds of the port.
    shares: bool,
}

impl Cycled {
    /// Returns the time from the start of a cycle until all frames may be sent, but for the clocks' error, nanoseconds.
    fn waits_ns(&self) -> u64 {
        if self.catches_up {
            self.plan.closed_ns.saturating_add(self.latency_ns)
        } else {
            self.plan.closed_ns.max(self.latency_ns)
        }
    }
}

/// Cyclic queueing for all cyclic streams of a network.
pub(crate) struct Cyclic {
    cycle_ns: u64,
    clock_ns: u64,
    ports: BTreeMap<(String, String), Cycled>,
    /// The time that cyclic streams take from others.
    pub(crate) closings: Vec<Closing>,
    /// The least delay of each stream to the end of its talker's link, by stream and first node; nanoseconds.
    least: BTreeMap<(usize, String), u64>,
    /// True if something comes to a switch for which there is no bound.
    is_unbounded: bool,
}

/// The frames of a stream in a cycle, at most.
#[derive(Clone, Copy)]
struct Share {
    bits: Ratio,
    frames: u64,
    /// The longest time in which the frames of one cycle are handed over, without their contract's jitter, seconds.
    window: Ratio,
}

/// The gap behind each frame (802.3, 4.4.2), bytes.
const GAP_BYTES: u64 = 12;

fn ns(time: u64) -> Ratio {
    Ratio::from_ns(time)
}

/// Bounds what comes to each port in a cycle. `None` if no stream is cyclic.
pub(crate) fn queue(network: &Network, method: Method) -> Result<Option<Cyclic>, Overflow> {
    let cycle_ns = network.schedule.cycle_ns;
    let Some(cycle_ns) = cycle_ns.filter(|it| *it > 0 && network.has_cyclic_streams()) else {
        return Ok(None);
    };
    let mapped = map(network, &[])?;
    // What comes from a host depends on the streams of this host only.
    let mut talkers = mapped.graph.clone();
    for flow in &mut talkers.flows {
        flow.hops
            .retain(|hop| mapped.ports[hop.server].kind == NodeKind::Host);
    }
    let segments = Segments::new(&talkers, method, 0)?;
    let mut cyclic = Cyclic {
        cycle_ns,
        clock_ns: network.schedule.clock_error_ns,
        ports: BTreeMap::new(),
        closings: Vec::new(),
        least: BTreeMap::new(),
        is_unbounded: false,
    };
    let window = ns(cycle_ns)
        .plus(ns(cyclic.clock_ns))?
        .plus(ns(cyclic.clock_ns))?;
    for (number, stream) in network.streams.iter().enumerate() {
        if !stream.cyclic {
            continue;
        }
        let mut passed: BTreeMap<(&str, &str), Share> = BTreeMap::new();
        for route in &stream.routes {
            let [talker, first, ..] = &route[..] else {
                continue;
            };
            let found = share(
                &mapped,
                &segments,
                &talkers,
                (number, talker, first),
                window,
            )?;
            // Without a bound at the talker nothing bounds what comes: the port is a reason already.
            let Some((share, least_ns)) = found else {
                cyclic.is_unbounded = true;
                continue;
            };
            cyclic.least.insert((number, first.clone()), least_ns);
            for pair in route[1..].windows(2) {
                let [from, to] = pair else { continue };
                let known = passed.entry((from, to)).or_insert(share);
                known.bits = known.bits.max(share.bits);
                known.frames = known.frames.max(share.frames);
                known.window = known.window.max(share.window);
            }
        }
        for ((from, to), share) in passed {
            cyclic.pass(network, &mapped, number, (from, to), share)?;
        }
    }
    cyclic.finish()?;
    Ok(Some(cyclic))
}

/// Returns what comes of a stream to its first switch in a window of time, and its least delay until then, nanoseconds.
fn share(
    mapped: &Mapped,
    segments: &Segments<'_>,
    talkers: &Graph,
    (number, talker, first): (usize, &str, &str),
    window: Ratio,
) -> Result<Option<(Share, u64)>, Overflow> {
    let flow = &talkers.flows[number];
    let Some(server) = mapped.port(talker, first) else {
        return Ok(None);
    };
    let Some(hop) = flow.hops.iter().find(|hop| hop.server == server) else {
        return Ok(None);
    };
    let classes = &segments.ports()[server].classes;
    let delay = classes
        .get(usize::from(hop.class))
        .and_then(|class| class.delay);
    let Some(delay) = delay else {
        return Ok(None);
    };
    let port = &talkers.servers[server];
    // A host that was late hands frames over as fast as it likes.
    let least = if port.catches_up {
        Ratio::ZERO
    } else {
        port.latency_min.plus(flow.frame_min.over(port.rate)?)?
    };
    let share = arrivals(flow, window, delay.minus(least)?)?;
    let cable_ns = mapped.ports[server].cable_ns;
    Ok(Some((share, least.floor_ns()?.saturating_add(cable_ns))))
}

fn forget(promise: &mut Promise) {
    promise.delay_ns = None;
    promise.jitter_ns = None;
    promise.terms.clear();
}

/// Returns what a contract permits within a window, its end excluded, where frames are late by `variation` more.
fn arrivals(flow: &Flow, window: Ratio, variation: Ratio) -> Result<Share, Overflow> {
    let window = window.plus(variation)?;
    let whole = |count: i128| u64::try_from(count).map_err(|_| Overflow);
    if let Some(period) = flow.period {
        // A frame is in the window if its period begins in it, or before it by no more than its lateness.
        let frames = window.plus(flow.jitter)?.over(period)?.ceil().max(1);
        return Ok(Share {
            bits: flow.frame_max.times(Ratio::whole(frames))?,
            frames: whole(frames)?,
            window,
        });
    }
    let bits = flow.burst.plus(flow.rate.times(window)?)?;
    let frames = bits.over(flow.frame_min)?.floor();
    let bits = if flow.frame_min == flow.frame_max {
        flow.frame_max.times(Ratio::whole(frames))?
    } else {
        Ratio::whole(bits.floor())
    };
    Ok(Share {
        bits,
        frames: whole(frames)?,
        window,
    })
}

/// Returns the burst, bits, and the rate, bit/s, of what a port sends of a flow at most. In any window of t it sends frames of
/// t / T + 2 cycles: as many as may come in one, or as many as the contract permits in all of them.
fn taken(flow: &Flow, share: Share, cycle: Ratio) -> Result<(Ratio, Ratio), Overflow> {
    let two = share.bits.plus(share.bits)?;
    let contract = flow
        .burst
        .plus(flow.rate.times(share.window.plus(cycle)?)?)?;
    Ok(if contract <= two {
        (contract, flow.rate)
    } else {
        (two, share.bits.over(cycle)?)
    })
}

impl Cyclic {
    /// Adds a stream's share to a port.
    fn pass(
        &mut self,
        network: &Network,
        mapped: &Mapped,
        number: usize,
        (from, to): (&str, &str),
        share: Share,
    ) -> Result<(), Overflow> {
        let Some(server) = mapped.port(from, to) else {
            return Ok(());
        };
        let stream = &network.streams[number];
        let graph = &mapped.graph;
        let key = (from.to_owned(), to.to_owned());
        let port = self.ports.entry(key).or_insert_with(|| Cycled {
            plan: CyclicPort {
                node: from.to_owned(),
                port: to.to_owned(),
                streams: Vec::new(),
                cycle_bytes: 0,
                cycle_frames: 0,
                closed_ns: 0,
                out_ns: 0,
            },
            bits: Ratio::ZERO,
            needed: Ratio::ZERO,
            taken: (Ratio::ZERO, Ratio::ZERO),
            rate: graph.servers[server].rate,
            largest: Ratio::ZERO,
            blocking: Ratio::ZERO,
            latency_ns: 0,
            latency_min_ns: u64::MAX,
            catches_up: false,
            cable_ns: mapped.ports[server].cable_ns,
            shares: false,
        });
        port.bits = port.bits.plus(share.bits)?;
        let needed = port.needed.plus(graph.flows[number].rate)?;
        port.needed = needed.tidied_up(1_000_000_000)?;
        let taken = taken(&graph.flows[number], share, ns(self.cycle_ns))?;
        // Whole bits: sums of odd fractions would leave 128 bits.
        let up = |sum: Ratio, more: Ratio| Ok(Ratio::whole(sum.plus(more)?.ceil()));
        port.taken = (up(port.taken.0, taken.0)?, up(port.taken.1, taken.1)?);
        port.largest = port.largest.max(stream.wire_bits());
        port.plan.cycle_frames = port.plan.cycle_frames.saturating_add(share.frames);
        port.plan.streams.push(stream.name.clone());
        for other in &mapped.passing[server] {
            port.shares = true;
            port.blocking = port.blocking.max(graph.flows[other.0].frame_max);
        }
        let inputs = stream.routes.iter().filter_map(|route| {
            let at = route
                .windows(2)
                .position(|pair| pair[0] == from && pair[1] == to)?;
            route.get(at.checked_sub(1)?)
        });
        for input in inputs {
            let latency = network.input_latency(input, from, to);
            port.latency_ns = port.latency_ns.max(latency.max_ns);
            port.latency_min_ns = port.latency_min_ns.min(latency.min_ns);
            port.catches_up |= latency.catches_up && latency.max_ns > 0;
        }
        // The first frame of a cycle must not come before the next switch has begun it.
        if network.switch(to).is_some() {
            // Its last bit comes ahead of the gap that counts as a part of it.
            let gap = network.defaults.frame_overhead_bytes.min(GAP_BYTES);
            let gap = Ratio::whole(i128::from(gap) * 8);
            let frame = stream.smallest_wire_bits().minus(gap)?.over(port.rate)?;
            let apart_ns = self.clock_ns.checked_mul(2).ok_or(Overflow)?;
            let missing_ns = apart_ns
                .saturating_sub(frame.floor_ns()?)
                .saturating_sub(port.cable_ns);
            let shortest_ns = network
                .gates(from)
                .map_or(1, |gates| gates.minimum_window_ns);
            if missing_ns > 0 {
                let closed_ns = missing_ns.max(shortest_ns);
                port.plan.closed_ns = port.plan.closed_ns.max(closed_ns);
            }
        }
        Ok(())
    }

    /// Computes the sums of all ports.
    fn finish(&mut self) -> Result<(), Overflow> {
        for port in self.ports.values_mut() {
            let sent = port.bits.plus(port.blocking)?.over(port.rate)?;
            let waits_ns = port.waits_ns();
            port.plan.out_ns = ns(self.clock_ns)
                .plus(ns(waits_ns))?
                .plus(sent)?
                .ceil_ns()?;
            port.plan.cycle_bytes = bytes(port.bits)?;
            if !port.shares {
                continue;
            }
            let (burst, rate) = port.taken;
            self.closings.push(Closing {
                name: CYCLIC_STREAMS,
                node: port.plan.node.clone(),
                to: port.plan.port.clone(),
                closed: Closed {
                    burst: burst.over(port.rate)?,
                    rate: rate.over(port.rate)?,
                },
                frame_ns: port.largest.over(port.rate)?.ceil_ns()?,
            });
        }
        Ok(())
    }

    /// Enters cycles into a plan whose bounds have been computed with the closings, and returns the reasons against it.
    pub(crate) fn enter(
        &self,
        network: &Network,
        plan: &mut Plan,
    ) -> Result<Vec<Reason>, Overflow> {
        let mut reasons = Vec::new();
        for port in self.ports.values() {
            self.judge(network, port, &mut reasons)?;
        }
        for port in &mut plan.ports {
            let key = (port.node.clone(), port.port.clone());
            let Some(cycled) = self.ports.get(&key) else {
                continue;
            };
            port.gates = self.gates(network, cycled);
            // The frames of one cycle wait while those of the one before leave.
            let more = |value: Option<u64>, add: u64| value?.checked_add(add.checked_mul(2)?);
            port.backlog_bytes = more(port.backlog_bytes, cycled.plan.cycle_bytes);
            port.backlog_frames = more(port.backlog_frames, cycled.plan.cycle_frames);
            if !cycled.shares {
                let share = cycled.needed.over(cycled.rate)?;
                port.utilization = share;
                let permille = share.times(Ratio::whole(1000))?.ceil();
                port.utilization_permille = u64::try_from(permille).map_err(|_| Overflow)?;
            }
        }
        for (number, stream) in network.streams.iter().enumerate() {
            if !stream.cyclic {
                continue;
            }
            for promise in &mut plan.streams[number].promises {
                let Some(at_switch_ns) = promise.delay_ns else {
                    continue;
                };
                let Some((terms, least_ns)) = self.way(number, &promise.route, network)? else {
                    forget(promise);
                    continue;
                };
                promise.terms.extend(terms);
                let mut sums = promise.terms.iter().map(|term| term.ns);
                let delay_ns = sums.try_fold(0_u64, u64::checked_add).ok_or(Overflow)?;
                debug_assert!(delay_ns >= at_switch_ns);
                promise.delay_ns = Some(delay_ns);
                let jitter_ns = delay_ns.saturating_sub(least_ns);
                promise.jitter_ns = Some(jitter_ns);
                if let Some(limit_ns) = stream.jitter_ns.filter(|limit| jitter_ns > *limit) {
                    reasons.push(Reason::Jitter {
                        stream: stream.name.clone(),
                        listener: promise.listener.clone(),
                        jitter_ns,
                        limit_ns,
                        excess_ns: jitter_ns - limit_ns,
                    });
                }
            }
        }
        plan.cyclic = Some(self.plan(network));
        Ok(reasons)
    }

    /// Takes back all promises of a plan if any frame may miss its cycle: then nothing is known of what comes to later ports, and of
    /// what is left for other traffic. Limits are compared with promises, so only the reasons that need none remain.
    pub(crate) fn judge_all(&self, plan: &mut Plan, reasons: &mut Vec<Reason>) {
        let missed = reasons.iter().any(|it| matches!(it, Reason::Cycle { .. }));
        if !missed && !self.is_unbounded {
            return;
        }
        for stream in &mut plan.streams {
            stream.promises.iter_mut().for_each(forget);
        }
        for port in &mut plan.ports {
            (port.backlog_bytes, port.backlog_frames) = (None, None);
            for class in &mut port.classes {
                class.delay_ns = None;
            }
        }
        reasons.retain(|reason| {
            !matches!(
                reason,
                Reason::Deadline { .. }
                    | Reason::Jitter { .. }
                    | Reason::Buffer { .. }
                    | Reason::BufferFrames { .. }
                    | Reason::SharedBuffer { .. }
                    | Reason::SharedBufferFrames { .. }
            )
        });
    }

    fn plan(&self, network: &Network) -> CyclicQueueing {
        let first = network.streams.iter().find(|stream| stream.cyclic);
        let mut switches: Vec<StreamGate> = Vec::new();
        for (node, _) in self.ports.keys() {
            let Some([even_queue, odd_queue]) = network.cyclic_queues(node) else {
                continue;
            };
            if switches.last().is_none_or(|last| last.switch != *node) {
                switches.push(StreamGate {
                    switch: node.clone(),
                    even_queue,
                    odd_queue,
                });
            }
        }
        CyclicQueueing {
            cycle_ns: self.cycle_ns,
            priority: first.map_or(0, |stream| stream.pcp),
            switches,
            ports: self.ports.values().map(|port| port.plan.clone()).collect(),
        }
    }

    /// Returns the terms of a route behind its talker's link, and the least delay of the whole route, nanoseconds. `None`
    /// if a port of it has no bound.
    fn way(
        &self,
        number: usize,
        route: &[String],
        network: &Network,
    ) -> Result<Option<(Vec<Term>, u64)>, Overflow> {
        let stream = &network.streams[number];
        let (Some(first), Some(behind)) = (route.get(1), route.get(1..)) else {
            return Ok(None);
        };
        let mut terms = Vec::new();
        let mut last = None;
        for pair in behind.windows(2) {
            let Some(port) = self.ports.get(&(pair[0].clone(), pair[1].clone())) else {
                return Ok(None);
            };
            last = Some(port);
            terms.push(Term {
                what: TermKind::Cycle,
                at: format!("{}>{}", pair[0], pair[1]),
                ns: self.cycle_ns,
            });
        }
        let Some(&least_ns) = self.least.get(&(number, first.clone())) else {
            return Ok(None);
        };
        let Some(port) = last else {
            // Two hosts at one link: there is no cycle.
            return Ok(Some((terms, least_ns)));
        };
        let frame = stream.wire_bits();
        let time = |bits: Ratio| bits.over(port.rate)?.ceil_ns();
        let waits_ns = port.waits_ns();
        let apart_ns = self.clock_ns.checked_mul(2).ok_or(Overflow)?;
        for (what, ns) in [
            (TermKind::Clock, apart_ns),
            (TermKind::Latency, waits_ns),
            (TermKind::Blocking, time(port.blocking)?),
            (TermKind::Queueing, time(port.bits.minus(frame)?)?),
            (TermKind::Transmission, time(frame)?),
            (TermKind::Cable, port.cable_ns),
        ] {
            if ns > 0 {
                let at = format!("{}>{}", port.plan.node, port.plan.port);
                terms.push(Term { what, at, ns });
            }
        }
        let switches = u64::try_from(behind.len()).map_err(|_| Overflow)? - 1;
        let full_ns = (switches - 1).checked_mul(self.cycle_ns).ok_or(Overflow)?;
        // It comes at the end of a cycle, and leaves first in a later one.
        let waited_ns = full_ns
            .saturating_add(port.plan.closed_ns)
            .saturating_sub(apart_ns);
        let sent = stream.smallest_wire_bits().over(port.rate)?;
        let least_ns = least_ns
            .saturating_add(waited_ns.max(port.latency_min_ns))
            .saturating_add(sent.floor_ns()?)
            .saturating_add(port.cable_ns);
        Ok(Some((terms, least_ns)))
    }

    /// Notes the reasons against a port.
    fn judge(
        &self,
        network: &Network,
        port: &Cycled,
        reasons: &mut Vec<Reason>,
    ) -> Result<(), Overflow> {
        let (node, to) = (port.plan.node.clone(), port.plan.port.clone());
        let sending_ns = port.bits.over(port.rate)?.ceil_ns()?;
        // At the next switch the frame must be there before the cycle ends, not with its end. A listener has no cycles.
        let before_ns = if network.switch(&to).is_some() {
            port.cable_ns.saturating_add(1)
        } else {
            0
        };
        let needed_ns = port
            .plan
            .out_ns
            .saturating_add(before_ns)
            .saturating_add(self.clock_ns);
        if needed_ns > self.cycle_ns {
            reasons.push(Reason::Cycle {
                node: node.clone(),
                port: to.clone(),
                needed_ns,
                sending_ns,
                cycle_ns: self.cycle_ns,
                excess_ns: needed_ns - self.cycle_ns,
                streams: port.plan.streams.clone(),
            });
            return Ok(());
        }
        let open_ns = self.cycle_ns - sending_ns;
        let percent = u128::from(network.schedule.best_effort_percent);
        let share_ns = (u128::from(self.cycle_ns) * percent).div_ceil(100);
        let share_ns = u64::try_from(share_ns).map_err(|_| Overflow)?;
        if open_ns < share_ns {
            reasons.push(Reason::ScheduleShare {
                node: node.clone(),
                port: to.clone(),
                open_ns,
                needed_ns: share_ns,
                cycle_ns: self.cycle_ns,
                short_ns: share_ns - open_ns,
            });
        }
        let (Some(gates), Some(list)) = (network.gates(&node), self.gates(network, port)) else {
            return Ok(());
        };
        let entries = list.entries.len() as u64;
        if let Some(available) = gates.entries.map(u64::from).filter(|it| entries > *it) {
            reasons.push(Reason::ScheduleEntries {
                node: node.clone(),
                port: to.clone(),
                entries,
                available,
                excess: entries - available,
            });
        }
        let shortest = list.entries.iter().map(|entry| entry.duration_ns).min();
        let minimum_ns = gates.minimum_window_ns;
        if let Some(window_ns) = shortest.filter(|it| *it < minimum_ns) {
            reasons.push(Reason::ScheduleWindow {
                node,
                port: to,
                window_ns,
                minimum_ns,
                short_ns: minimum_ns - window_ns,
            });
        }
        Ok(())
    }

    /// Returns the gates of a port: the queue that filled in the cycle before is open. All other traffic may always go.
    fn gates(&self, network: &Network, port: &Cycled) -> Option<GateList> {
        let [even, odd] = network.cyclic_queues(&port.plan.node)?;
        let (even, odd) = (1_u8 << even, 1_u8 << odd);
        let cyclic = even | odd;
        let others = odd - 1;
        let closed_ns = port.plan.closed_ns;
        let open_ns = self.cycle_ns.checked_sub(closed_ns).filter(|it| *it > 0)?;
        let mut entries = Vec::new();
        // In even cycles what came in odd ones is sent.
        for queue in [odd, even] {
            if closed_ns > 0 {
                entries.push(GateEntry {
                    gates: others,
                    duration_ns: closed_ns,
                });
            }
            entries.push(GateEntry {
                gates: others | queue,
                duration_ns: open_ns,
            });
        }
        let both_ns = self.cycle_ns.checked_mul(2)?;
        Some(GateList {
            cycle_ns: both_ns,
            base_offset_ns: 0,
            entries,
            scheduled_queues: cyclic,
            unscheduled_open_ns: both_ns,
            guard_band_ns: 0,
        })
    }
}

fn bytes(bits: Ratio) -> Result<u64, Overflow> {
    u64::try_from(bits.over(Ratio::whole(8))?.ceil()).map_err(|_| Overflow)
}

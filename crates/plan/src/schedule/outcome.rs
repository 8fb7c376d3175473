//! Computes promises, gate lists and launches.

use std::collections::BTreeMap;

use super::Scheduling;
use super::board::Placement;
use super::closings::{Closed, closed};
use super::gates::{GateList, Launch, Window};
use super::lists::{self, Slot};
use super::model::{Asked, Asking, Port, ask, tail_ns};
use super::refused::{cycle, limits, no_place};
use super::solve::{Effort, solve};
use crate::bound::mutation::{self, counted};
use crate::mapping::CLOSED_GATES;
use crate::network::Network;
use crate::plan::{Plan, Term, TermKind};
use crate::refusal::Reason;
use rtwire_describe::ratio::Overflow;

/// The time that gates take from the unscheduled traffic of a port.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    /// The name of the flow that stands for it.
    pub(crate) name: &'static str,
    pub(crate) node: String,
    pub(crate) to: String,
    pub(crate) closed: Closed,
    /// The time of the longest unscheduled frame, nanoseconds.
    pub(crate) frame_ns: u64,
}

struct Promised {
    delay_ns: u64,
    jitter_ns: u64,
    terms: Vec<Term>,
}

/// A schedule for all time-triggered streams of a network, as far as one was found.
#[derive(Default)]
pub(crate) struct Schedule {
    /// The launch of each stream of the network.
    launches: BTreeMap<usize, Launch>,
    /// The promises of each stream by listener.
    promised: BTreeMap<usize, Vec<Promised>>,
    lists: BTreeMap<(String, String), GateList>,
    pub(crate) closings: Vec<Closing>,
    /// The memory for scheduled frames at each port: bytes and frames.
    memory: BTreeMap<(String, String), (u64, u64)>,
    pub(crate) reasons: Vec<Reason>,
    warnings: Vec<String>,
}

/// Schedules a network's time-triggered streams. `None` if it has none.
pub(crate) fn synthesize(
    network: &Network,
    scheduling: &mut Scheduling<'_>,
) -> Result<Option<Schedule>, Overflow> {
    let asking = ask(network)?;
    if asking.asked.is_empty() {
        return Ok(None);
    }
    let mut schedule = Schedule::default();
    let mut cycles = Vec::new();
    for port in &asking.ports {
        cycles.push(cycle(network, &asking, port, &mut schedule.reasons));
    }
    if !schedule.reasons.is_empty() {
        return Ok(Some(schedule));
    }
    let old: Vec<Option<Placement>> = asking
        .asked
        .iter()
        .zip(&asking.requests)
        .map(|(asked, request)| {
            let launch = scheduling.kept.get(&network.streams[asked.stream].name)?;
            placement(launch, asked, &asking).filter(|_| launch.period_ns == request.period_ns)
        })
        .collect();
    let count = u32::try_from(asking.asked.len()).unwrap_or(u32::MAX);
    let mut effort = Effort {
        rounds: scheduling.work / count.max(1),
        seed: scheduling.seed,
        keep_going: scheduling.keep_going,
    };
    let mut found = placed(network, &asking, &cycles, &old, &old, &mut effort)?;
    let stays = old.iter().any(Option::is_some);
    if scheduling.moves && stays && !found.reasons.is_empty() {
        // Where what stays leaves no place, or needs more than the hardware has.
        let moved = placed(network, &asking, &cycles, &[], &old, &mut effort)?;
        if moved.reasons.len() < found.reasons.len() {
            found = moved;
        }
    }
    Ok(Some(found))
}

/// Places all streams and keeps `kept` in place. `old` is the state before, to report the streams that have moved.
fn placed(
    network: &Network,
    asking: &Asking,
    cycles: &[u64],
    kept: &[Option<Placement>],
    old: &[Option<Placement>],
    effort: &mut Effort<'_>,
) -> Result<Schedule, Overflow> {
    let mut schedule = Schedule::default();
    let solution = solve(&asking.requests, asking.circles, kept, effort);
    for ((asked, before), now) in asking.asked.iter().zip(old).zip(&solution.placements) {
        if before.is_some() && now.is_some() && before != now {
            schedule.warnings.push(format!(
                "time-triggered stream \"{}\" has moved: its place in the kept plan is not good any more",
                network.streams[asked.stream].name
            ));
        }
    }
    for &request in &solution.missing() {
        let reason = no_place(network, asking, request, cycles, solution.rounds);
        schedule.reasons.push(reason);
    }
    // Those that found a place are shown with their windows all the same.
    let placements = solution.placements;
    for (port, cycle) in asking.ports.iter().zip(cycles) {
        schedule.port(network, asking, port, *cycle, &placements)?;
    }
    for (number, asked) in asking.asked.iter().enumerate() {
        if let Some(placement) = &placements[number] {
            schedule.stream(network, asking, number, asked, placement)?;
        }
    }
    Ok(schedule)
}

/// Returns the placement of another plan's launch, if its windows are on this stream's route.
fn placement(launch: &Launch, asked: &Asked, asking: &Asking) -> Option<Placement> {
    let starts = asked.steps.iter().map(|step| {
        let port = &asking.ports[step.port];
        let window = launch
            .windows
            .iter()
            .find(|window| window.node == port.node && window.port == port.to)?;
        Some(window.start_ns)
    });
    Some(Placement {
        launch_ns: launch.offset_ns,
        starts_ns: starts.collect::<Option<_>>()?,
    })
}

impl Schedule {
    /// Returns the list of one port, and the time that it takes from other traffic.
    fn port(
        &mut self,
        network: &Network,
        asking: &Asking,
        port: &Port,
        cycle: u64,
        placements: &[Option<Placement>],
    ) -> Result<(), Overflow> {
        let Some(gates) = &port.gates else {
            return Ok(());
        };
        let key = (port.node.clone(), port.to.clone());
        let mut slots = Vec::new();
        // By queue the largest frame: one of each may wait, and one be under way.
        let mut largest = [0_u64; 8];
        for &(number, hop) in &port.passing {
            let step = &asking.asked[number].steps[hop];
            let wire = network.streams[asking.asked[number].stream].wire_bytes;
            let queue = usize::from(step.queue & 7);
            largest[queue] = largest[queue].max(wire);
            let period = asking.requests[number].period_ns;
            let Some(placement) = &placements[number] else {
                continue;
            };
            let start = placement.starts_ns[hop];
            let spread = spread(asking, number, hop, placement);
            for copy in 0..cycle / period {
                slots.push(Slot {
                    start: start % period + copy * period,
                    duration: step.window_ns,
                    queue: step.queue,
                    spread,
                });
            }
        }
        if slots.is_empty() {
            return Ok(());
        }
        let waiting = largest.iter().filter(|bytes| **bytes > 0);
        let bytes: u64 = waiting.clone().sum();
        let most = largest.iter().max().copied().unwrap_or(0);
        self.memory
            .insert(key.clone(), (bytes + most, waiting.count() as u64 + 1));
        let draft = lists::list(
            &mut slots,
            &lists::Port {
                cycle,
                queues: port.queues,
                guard: port.guard_ns,
                minimum: gates.minimum_window_ns.max(1),
                entries: gates.entries,
                openings: gates.openings,
                useful: port.useful_ns,
            },
        );
        self.reasons.extend(limits(network, port, &draft));
        // Nobody else: nobody waits for gates.
        if port.frame_ns > 0 {
            let closed = closed(&draft.list, port.frame_ns, network.schedule.clock_error_ns)?;
            self.closings.push(Closing {
                name: CLOSED_GATES,
                node: port.node.clone(),
                to: port.to.clone(),
                closed,
                frame_ns: port.frame_ns,
            });
        }
        self.lists.insert(key, draft.list);
        Ok(())
    }

    fn stream(
        &mut self,
        network: &Network,
        asking: &Asking,
        number: usize,
        asked: &Asked,
        placement: &Placement,
    ) -> Result<(), Overflow> {
        let request = &asking.requests[number];
        let mut windows = Vec::new();
        for (step, start) in asked.steps.iter().zip(&placement.starts_ns) {
            let port = &asking.ports[step.port];
            windows.push(Window {
                node: port.node.clone(),
                port: port.to.clone(),
                queue: step.queue,
                start_ns: *start,
                duration_ns: step.window_ns,
            });
        }
        self.launches.insert(
            asked.stream,
            Launch {
                offset_ns: placement.launch_ns,
                period_ns: request.period_ns,
                windows,
            },
        );
        let stream = &network.streams[asked.stream];
        let mut promised = Vec::new();
        for (listener, &leaf) in stream.listeners.iter().zip(&asked.leaves) {
            let promise = promise(network, asking, number, leaf, placement)?;
            if let Some(limit_ns) = stream.jitter_ns.filter(|limit| promise.jitter_ns > *limit) {
                self.reasons.push(Reason::Jitter {
                    stream: stream.name.clone(),
                    listener: listener.clone(),
                    jitter_ns: promise.jitter_ns,
                    limit_ns,
                    excess_ns: promise.jitter_ns - limit_ns,
                });
            }
            promised.push(promise);
        }
        self.promised.insert(asked.stream, promised);
        Ok(())
    }

    /// Enters the schedule into a plan whose bounds have been computed with [`Schedule::closings`].
    pub(crate) fn enter(&self, plan: &mut Plan) -> Result<(), Overflow> {
        for port in &mut plan.ports {
            let key = (port.node.clone(), port.port.clone());
            port.gates = self.lists.get(&key).cloned();
            if let Some((bytes, frames)) = self.memory.get(&key) {
                let more =
                    |value: Option<u64>, add: u64| value.map(|value| value.saturating_add(add));
                port.backlog_bytes = more(port.backlog_bytes, *bytes);
                port.backlog_frames = more(port.backlog_frames, *frames);
            }
        }
        for (index, stream) in plan.streams.iter_mut().enumerate() {
            stream.launch = self.launches.get(&index).cloned();
            let Some(list) = self.promised.get(&index) else {
                continue;
            };
            for (promise, found) in stream.promises.iter_mut().zip(list) {
                promise.delay_ns = Some(found.delay_ns);
                promise.jitter_ns = Some(found.jitter_ns);
                promise.terms.clone_from(&found.terms);
            }
        }
        plan.warnings.extend(self.warnings.iter().cloned());
        Ok(())
    }
}

/// Returns the longest time for which a frame may be in the queue of a hop before its window.
fn spread(asking: &Asking, number: usize, hop: usize, placement: &Placement) -> u64 {
    let asked = &asking.requests[number].hops[hop];
    let from = match asked.before {
        Some(before) => placement.starts_ns[before],
        None => placement.launch_ns,
    };
    let arrival = i128::from(from) + i128::from(asked.early_ns);
    u64::try_from(i128::from(placement.starts_ns[hop]) - arrival).unwrap_or(0)
}

fn promise(
    network: &Network,
    asking: &Asking,
    number: usize,
    leaf: usize,
    placement: &Placement,
) -> Result<Promised, Overflow> {
    let (request, asked) = (&asking.requests[number], &asking.asked[number]);
    let apart = network
        .schedule
        .clock_error_ns
        .checked_mul(2)
        .ok_or(Overflow)?;
    let mut way = vec![leaf];
    while let Some(before) = way.last().and_then(|hop| request.hops[*hop].before) {
        way.push(before);
    }
    way.reverse();
    let mut terms = Vec::new();
    for &at in &way {
        let (hop, step) = (&request.hops[at], &asked.steps[at]);
        let port = &asking.ports[step.port];
        let mut term = |what: TermKind, ns: u64| {
            if ns > 0 {
                let at = format!("{}>{}", port.node, port.to);
                terms.push(Term { what, at, ns });
            }
        };
        let own = |latency: u64| latency.checked_add(step.launch_error_ns).ok_or(Overflow);
        match hop.before {
            None => {
                term(TermKind::Latency, own(port.latency_ns)?);
                term(TermKind::Blocking, step.blocking_ns);
                let gated = if port.gates.is_some() {
                    step.launch_error_ns
                } else {
                    0
                };
                let waited = placement.starts_ns[at] - placement.launch_ns;
                term(TermKind::Window, waited.saturating_sub(gated));
            }
            Some(before) => {
                term(TermKind::Latency, step.latency_ns);
                term(TermKind::Clock, apart);
                let since = placement.starts_ns[at] - placement.starts_ns[before];
                term(TermKind::Window, since.saturating_sub(hop.late_ns));
            }
        }
        term(TermKind::Transmission, step.sending_ns);
        term(TermKind::Cable, port.cable_ns);
        if at == leaf && hop.before.is_some() {
            term(TermKind::Clock, counted(mutation::Term::DelayClock, apart));
        }
    }
    let delay_ns = terms
        .iter()
        .try_fold(0_u64, |total, term| total.checked_add(term.ns))
        .ok_or(Overflow)?;
    let step = &asked.steps[leaf];
    let port = &asking.ports[step.port];
    let first = request.hops[leaf].before.is_none();
    // A test that leaves a term out of a window leaves it in here, and the two differ.
    debug_assert!(
        cfg!(test)
            || delay_ns
                == placement.starts_ns[leaf] - placement.launch_ns
                    + tail_ns(step, port, first, apart)?
    );
    let root = &asked.steps[way[0]];
    let launch = counted(mutation::Term::JitterLaunch, root.launch_error_ns);
    let varies = if first {
        let blocking = counted(mutation::Term::JitterBlocking, root.blocking_ns);
        [launch, blocking, port.latency_ns]
    } else {
        // The launch may be late, the clocks of both ends apart, each way.
        let clocks = counted(mutation::Term::JitterClock, apart);
        [launch, clocks, clocks]
    };
    let jitter_ns = varies
        .iter()
        .try_fold(u64::from(!step.whole), |total, ns| total.checked_add(*ns))
        .ok_or(Overflow)?;
    Ok(Promised {
        delay_ns,
        jitter_ns,
        terms,
    })
}

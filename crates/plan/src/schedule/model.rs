//! Converts a network to requests for time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::board::{Hop, Request};
use super::unscheduled::{Unscheduled, blocking_ns, unscheduled};
use crate::bound::mutation::{Term, counted};
use crate::network::{ContractKind, Network, PriorityMap, Stream, class_by};
use rtwire_describe::ratio::{Overflow, Ratio};
use rtwire_describe::{GateProfile, Isolation};

/// Size of the smallest frame on the wire, bytes.
const SMALLEST_WIRE_BYTES: u64 = 84;

/// A port that time-triggered streams pass.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) node: String,
    pub(crate) to: String,
    pub(crate) gates: Option<GateProfile>,
    pub(crate) queues: u8,
    pub(crate) priority_map: Option<PriorityMap>,
    pub(crate) rate_bps: u64,
    pub(crate) cable_ns: u64,
    /// Latency of the node, nanoseconds: of a switch before the queue, of a host after sending.
    pub(crate) latency_ns: u64,
    /// The time of the longest unscheduled frame in the description here, nanoseconds.
    pub(crate) frame_ns: u64,
    /// The unscheduled traffic in the description here, by class.
    pub(crate) unscheduled: [Unscheduled; 8],
    /// The closed time ahead of windows, nanoseconds; 0 if the hardware holds frames back.
    pub(crate) guard_ns: u64,
    pub(crate) useful_ns: u64,
    /// The time-triggered streams here: stream and hop.
    pub(crate) passing: Vec<(usize, usize)>,
}

impl Port {
    /// Returns the queue of a priority.
    pub(crate) fn class(&self, pcp: u8) -> u8 {
        class_by(self.priority_map.as_ref(), pcp, self.queues)
    }
}

/// One hop of a stream: the values that the request does not have.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) port: usize,
    pub(crate) queue: u8,
    /// The time of sending, nanoseconds, rounded up.
    pub(crate) sending_ns: u64,
    /// True if sending takes whole nanoseconds.
    pub(crate) whole: bool,
    /// The largest latency from its input to this port, nanoseconds; of a talker, that of its port.
    pub(crate) latency_ns: u64,
    /// The window, nanoseconds: the time of sending, and the time that a clock may gain on the link meanwhile.
    pub(crate) window_ns: u64,
    /// The largest lateness of the talker, nanoseconds: its timer, and its unscheduled traffic if it has no gates.
    pub(crate) launch_error_ns: u64,
    pub(crate) blocking_ns: u64,
}

/// A time-triggered stream as a request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its index in the network's streams.
    pub(crate) stream: usize,
    pub(crate) steps: Vec<Step>,
    /// The last hop towards each listener.
    pub(crate) leaves: Vec<usize>,
}

/// All requests for a schedule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking {
    pub(crate) ports: Vec<Port>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) requests: Vec<Request>,
    pub(crate) circles: usize,
}

/// Returns the time that `bytes` take at a rate, nanoseconds: rounded down, and rounded up.
pub(crate) fn sending_ns(bytes: u64, rate_bps: u64) -> Result<(u64, u64), Overflow> {
    let exact =
        Ratio::whole(i128::from(bytes) * 8).over(Ratio::whole(i128::from(rate_bps.max(1))))?;
    Ok((exact.floor_ns()?, exact.ceil_ns()?))
}

/// Returns the time that a clock may gain in `ns`, or the link lose: 200 ppm, and the cost of rounding.
pub(crate) const fn clock_gain_ns(ns: u64) -> u64 {
    ns.div_ceil(5_000) + 1
}

pub(super) type Numbers = BTreeMap<(String, String), usize>;

/// Returns the requests of a network's time-triggered streams; empty if it has none.
pub(crate) fn ask(network: &Network) -> Result<Asking, Overflow> {
    let mut asking = Asking::default();
    let mut numbers = Numbers::new();
    for stream in network
        .streams
        .iter()
        .filter(|stream| stream.time_triggered)
    {
        for route in &stream.routes {
            for pair in route.windows(2) {
                let [from, to] = pair else { continue };
                let key = (from.clone(), to.clone());
                if let Entry::Vacant(free) = numbers.entry(key) {
                    free.insert(asking.ports.len());
                    asking.ports.push(port(network, from, to)?);
                }
            }
        }
    }
    if asking.ports.is_empty() {
        return Ok(asking);
    }
    unscheduled(network, &numbers, &mut asking.ports)?;
    for port in &mut asking.ports {
        let (_, largest) = sending_ns(network.schedule.guard_wire_bytes, port.rate_bps)?;
        port.guard_ns = match &port.gates {
            Some(gates) if !gates.holds_back => {
                counted(Term::WindowGuard, largest.max(port.frame_ns))
            }
            _ => 0,
        };
    }
    // Sending first, then the queues of each port.
    asking.circles = asking.ports.len() * 9;
    for (index, stream) in network.streams.iter().enumerate() {
        if stream.time_triggered {
            request(network, &numbers, &mut asking, index, stream)?;
        }
    }
    Ok(asking)
}

fn port(network: &Network, from: &str, to: &str) -> Result<Port, Overflow> {
    let link = network.link(from, to);
    let rate_bps = link.map_or(1, |link| link.rate_bps);
    Ok(Port {
        node: from.to_owned(),
        to: to.to_owned(),
        gates: network.gates(from).cloned(),
        queues: network.queues(from),
        priority_map: network.priority_map(from).copied(),
        rate_bps,
        cable_ns: link.map_or(0, |link| link.cable_delay_ns),
        latency_ns: network.port_latency(from, to).max_ns,
        frame_ns: 0,
        unscheduled: [Unscheduled::default(); 8],
        guard_ns: 0,
        useful_ns: sending_ns(SMALLEST_WIRE_BYTES, rate_bps)?.1,
        passing: Vec::new(),
    })
}

fn request(
    network: &Network,
    numbers: &Numbers,
    asking: &mut Asking,
    index: usize,
    stream: &Stream,
) -> Result<(), Overflow> {
    let ContractKind::Interval { interval_ns, .. } = stream.contract.kind else {
        return Ok(());
    };
    let number = asking.asked.len();
    let apart = network
        .schedule
        .clock_error_ns
        .checked_mul(2)
        .ok_or(Overflow)?;
    let (mut hops, mut steps, mut leaves) = (Vec::<Hop>::new(), Vec::<Step>::new(), Vec::new());
    for route in &stream.routes {
        let mut before: Option<usize> = None;
        for (place, pair) in route.windows(2).enumerate() {
            let [from, to] = pair else { continue };
            let Some(&at) = numbers.get(&(from.clone(), to.clone())) else {
                continue;
            };
            if let Some(known) = steps.iter().position(|step| step.port == at) {
                before = Some(known);
                continue;
            }
            let mut made = step(network, stream, &asking.ports[at], at, before.is_none())?;
            if let Some(input) = place.checked_sub(1).map(|at| &route[at]) {
                made.latency_ns = network.input_latency(input, from, to).max_ns;
            }
            let hop = hop(
                network,
                asking,
                &made,
                before.map(|before| (before, &steps[before])),
                apart,
            )?;
            asking.ports[at].passing.push((number, hops.len()));
            hops.push(hop);
            steps.push(made);
            before = Some(hops.len() - 1);
        }
        leaves.push(before.unwrap_or(0));
    }
    let mut request = Request {
        period_ns: interval_ns.max(1),
        hops,
        waits: network.schedule.queueing,
    };
    deadlines(&mut request, &steps, &leaves, asking, stream, apart)?;
    asking.asked.push(Asked {
        stream: index,
        steps,
        leaves,
    });
    asking.requests.push(request);
    Ok(())
}

fn step(
    network: &Network,
    stream: &Stream,
    port: &Port,
    at: usize,
    first: bool,
) -> Result<Step, Overflow> {
    let (least, sending) = sending_ns(stream.wire_bytes, port.rate_bps)?;
    let exact = network.schedule.clock_error_ns == 0;
    let gains = if exact {
        0
    } else {
        counted(Term::WindowGain, clock_gain_ns(sending))
    };
    let queue = port.class(stream.pcp);
    Ok(Step {
        window_ns: sending.checked_add(gains).ok_or(Overflow)?,
        port: at,
        queue,
        sending_ns: sending,
        whole: least == sending,
        latency_ns: port.latency_ns,
        launch_error_ns: if first {
            counted(Term::LaunchError, stream.contract.tick_error_ns)
        } else {
            0
        },
        blocking_ns: if first && port.gates.is_none() {
            let blocking = blocking_ns(port, queue, stream.wire_bytes, sending)?;
            counted(Term::LaunchBlocking, blocking)
        } else {
            0
        },
    })
}

fn hop(
    network: &Network,
    asking: &Asking,
    step: &Step,
    before: Option<(usize, &Step)>,
    apart: u64,
) -> Result<Hop, Overflow> {
    let port = &asking.ports[step.port];
    let add = |a: u64, b: u64| a.checked_add(b).ok_or(Overflow);
    let queue = asking.ports.len() + step.port * 8 + usize::from(step.queue & 7);
    let streams = network.schedule.isolation == Isolation::Streams;
    let holds_back = port.gates.as_ref().is_some_and(|gates| gates.holds_back);
    // Where a sliver of a window may stay open behind its frame, nobody may be waiting for it.
    let exact = step.whole && step.window_ns == step.sending_ns;
    let hold_ns = if streams || !holds_back || !exact {
        step.window_ns
    } else {
        0
    };
    let Some((number, parent)) = before else {
        let gated = port.gates.is_some();
        // Gates hold a frame that is there in time; without them it goes when it comes.
        let (late_ns, length_ns) = if gated {
            (step.launch_error_ns, step.window_ns)
        } else {
            let late = add(step.launch_error_ns, step.blocking_ns)?;
            (0, add(late, step.window_ns)?)
        };
        return Ok(Hop {
            before: None,
            link: step.port,
            queue: gated.then_some(queue),
            early_ns: 0,
            late_ns,
            length_ns,
            hold_ns,
            latest_ns: None,
        });
    };
    let from = &asking.ports[parent.port];
    let after_host = network.host(&from.node).is_some();
    let mut late_ns = add(
        add(
            counted(Term::WindowSending, parent.sending_ns),
            counted(Term::WindowCable, from.cable_ns),
        )?,
        add(
            counted(Term::WindowLatency, step.latency_ns),
            counted(Term::WindowClock, apart),
        )?,
    )?;
    if after_host {
        late_ns = add(late_ns, counted(Term::WindowHostLatency, from.latency_ns))?;
        if from.gates.is_none() {
            late_ns = add(late_ns, add(parent.launch_error_ns, parent.blocking_ns)?)?;
        }
    }
    let least = parent.sending_ns - u64::from(!parent.whole && parent.sending_ns > 0);
    let wander = counted(Term::WindowEarly, apart);
    let early = i128::from(least) + i128::from(from.cable_ns) - i128::from(wander);
    Ok(Hop {
        before: Some(number),
        link: step.port,
        queue: Some(queue),
        early_ns: i64::try_from(early).map_err(|_| Overflow)?,
        late_ns,
        length_ns: step.window_ns,
        hold_ns,
        latest_ns: None,
    })
}

/// Returns the time from the start of a leaf's window to the last bit at the listener, clocks included.
pub(crate) fn tail_ns(step: &Step, port: &Port, first: bool, apart: u64) -> Result<u64, Overflow> {
    let add = |a: u64, b: u64| a.checked_add(b).ok_or(Overflow);
    let way = add(step.sending_ns, port.cable_ns)?;
    if !first {
        return add(way, counted(Term::DelayClock, apart));
    }
    let late = if port.gates.is_some() {
        0
    } else {
        add(step.launch_error_ns, step.blocking_ns)?
    };
    add(way, add(late, port.latency_ns)?)
}

/// Sets the latest start of the last window from each deadline. A deadline that nothing can keep is not set, but
/// reported afterwards.
fn deadlines(
    request: &mut Request,
    steps: &[Step],
    leaves: &[usize],
    asking: &Asking,
    stream: &Stream,
    apart: u64,
) -> Result<(), Overflow> {
    let Some(deadline) = stream.deadline_ns else {
        return Ok(());
    };
    let prompt = request.without_waiting(0).ok_or(Overflow)?;
    for &leaf in leaves {
        let Some(step) = steps.get(leaf) else {
            continue;
        };
        let first = request.hops[leaf].before.is_none();
        let tail = tail_ns(step, &asking.ports[step.port], first, apart)?;
        let latest = deadline.saturating_sub(tail).max(prompt.starts_ns[leaf]);
        request.hops[leaf].latest_ns = Some(latest);
    }
    Ok(())
}

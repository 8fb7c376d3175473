//! Why a network is refused.

use core::fmt;
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::graph::ClassShaper;
use crate::bound::rational::{Overflow, Ratio};
use crate::mapping::Mapped;
use crate::network::Network;
use crate::plan::{NodeKind, Plan, PortPlan};
use crate::suggest::Suggestion;

/// One limit that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Reason {
    /// A sender does not shape.
    Unshaped {
        /// The stream.
        stream: String,
    },
    /// The rates at a port reach the link's rate.
    Rate {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Sum of the rates on the wire, bit/s, rounded up.
        rate_bps: u64,
        /// Rate of the link, bit/s.
        link_rate_bps: u64,
        /// Who sends there.
        flows: Vec<String>,
    },
    /// The rates of a class reach the idle slope of its credit.
    Credit {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The class.
        class: u8,
        /// Sum of its rates on the wire, bit/s, rounded up.
        rate_bps: u64,
        /// Its idle slope, bit/s, rounded down.
        idle_slope_bps: u64,
    },
    /// A port has no bound although its rates fit: something before it has none, or a loop does not settle.
    Unbounded {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
    },
    /// A promise is later than the deadline.
    Deadline {
        /// The stream.
        stream: String,
        /// The listener.
        listener: String,
        /// The promise, nanoseconds.
        delay_ns: u64,
        /// The deadline, nanoseconds.
        deadline_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
    },
    /// A port needs more bytes than it has.
    Buffer {
        /// The switch.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed, bytes.
        needed_bytes: u64,
        /// There are, bytes.
        buffer_bytes: u64,
        /// The difference, bytes.
        excess_bytes: u64,
    },
    /// A port needs more frames than its buffer is counted in.
    BufferFrames {
        /// The switch.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed, frames.
        needed_frames: u64,
        /// There are, frames.
        buffer_frames: u64,
        /// The difference, frames.
        excess_frames: u64,
    },
    /// The ports of a switch together need more than its pool.
    SharedBuffer {
        /// The switch.
        node: String,
        /// Needed by all ports, bytes.
        needed_bytes: u64,
        /// There are, bytes.
        buffer_bytes: u64,
        /// The difference, bytes.
        excess_bytes: u64,
    },
    /// The ports of a switch together need more frames than its pool is counted in.
    SharedBufferFrames {
        /// The switch.
        node: String,
        /// Needed by all ports, frames.
        needed_frames: u64,
        /// There are, frames.
        buffer_frames: u64,
        /// The difference, frames.
        excess_frames: u64,
    },
    /// Two frames of a time-triggered stream differ more in their delay than is of use.
    Jitter {
        /// The stream.
        stream: String,
        /// The listener.
        listener: String,
        /// Largest difference, nanoseconds.
        jitter_ns: u64,
        /// What is of use, nanoseconds.
        limit_ns: u64,
        /// The difference of both, nanoseconds.
        excess_ns: u64,
    },
    /// The time-triggered frames of a port need more time than there is.
    ScheduleLoad {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// What they need of each cycle, nanoseconds.
        needed_ns: u64,
        /// What the share for others leaves of each cycle, nanoseconds.
        available_ns: u64,
        /// The cycle, nanoseconds.
        cycle_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
        /// Who sends there.
        streams: Vec<String>,
    },
    /// The cycle of a port, least common multiple of all intervals, is too long, or has too many windows.
    ScheduleCycle {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The cycle, nanoseconds; none beyond 64 bits.
        cycle_ns: Option<u64>,
        /// Longest that the gates can do, nanoseconds.
        longest_ns: u64,
        /// Windows in it; none beyond 64 bits.
        windows: Option<u64>,
    },
    /// Two streams meet wherever they are put: the common divisor of their intervals is too small.
    SchedulePeriods {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The two.
        streams: [String; 2],
        /// Greatest common divisor of their intervals, nanoseconds.
        common_ns: u64,
        /// What both frames need, nanoseconds.
        needed_ns: u64,
        /// The difference, nanoseconds.
        excess_ns: u64,
    },
    /// No place was found for a time-triggered stream.
    SchedulePlace {
        /// The stream.
        stream: String,
        /// The busiest port on its way.
        node: String,
        /// The neighbour.
        port: String,
        /// How much of that port all time-triggered streams need, in thousandths, rounded up.
        load_permille: u64,
        /// Rounds of search.
        rounds: u32,
    },
    /// A gate list has more entries than its hardware holds.
    ScheduleEntries {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed.
        entries: u64,
        /// There are.
        available: u64,
        /// The difference.
        excess: u64,
    },
    /// A queue opens more often in a cycle than its hardware can do.
    ScheduleOpenings {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Needed.
        openings: u64,
        /// Possible.
        possible: u64,
        /// The difference.
        excess: u64,
    },
    /// A gate list has a state that is shorter than its hardware can do.
    ScheduleWindow {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// The state, nanoseconds.
        window_ns: u64,
        /// The shortest possible, nanoseconds.
        minimum_ns: u64,
        /// The difference, nanoseconds.
        short_ns: u64,
    },
    /// Windows and guard bands leave less to others than they were to have.
    ScheduleShare {
        /// The node that sends.
        node: String,
        /// The neighbour.
        port: String,
        /// Left of each cycle, nanoseconds.
        open_ns: u64,
        /// Asked for, nanoseconds.
        needed_ns: u64,
        /// The cycle, nanoseconds.
        cycle_ns: u64,
        /// The difference, nanoseconds.
        short_ns: u64,
    },
    /// Exact arithmetic ran out.
    Overflow {
        /// What happened.
        what: String,
    },
}

impl Reason {
    /// Whether nothing bounds it (as opposed to a bound beyond a limit).
    #[must_use]
    pub const fn is_unbounded(&self) -> bool {
        matches!(
            self,
            Reason::Unshaped { .. }
                | Reason::Rate { .. }
                | Reason::Credit { .. }
                | Reason::Unbounded { .. }
                | Reason::Overflow { .. }
        )
    }
}

/// Nanoseconds as people read them: exact, in the largest unit that keeps the digits few.
#[must_use]
pub fn show_ns(ns: u64) -> String {
    let (scale, unit) = match ns {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => return format!("{ns} ns"),
    };
    let width = scale.to_string().len() - 1;
    let text = format!("{}.{:0width$}", ns / scale, ns % scale);
    format!(
        "{} {unit}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unshaped { stream } => write!(
                f,
                "stream \"{stream}\": its shaper is off, so that it may send as fast as its link takes: its contract is unbounded"
            ),
            Reason::Rate {
                node,
                port,
                rate_bps,
                link_rate_bps,
                flows,
            } => {
                write!(
                    f,
                    "port {node}>{port}: the rates add up to {rate_bps} bit/s on the wire ({}), but must stay below the link's {link_rate_bps} bit/s: ",
                    flows.join(", ")
                )?;
                match rate_bps.saturating_sub(*link_rate_bps) {
                    0 => f.write_str("they reach it"),
                    excess => write!(f, "exceeded by {excess} bit/s"),
                }
            }
            Reason::Credit {
                node,
                port,
                class,
                rate_bps,
                idle_slope_bps,
            } => write!(
                f,
                "port {node}>{port}: the rates of class {class} add up to {rate_bps} bit/s on the wire, but must stay below its idle slope of {idle_slope_bps} bit/s"
            ),
            Reason::Unbounded { node, port } => {
                write!(
                    f,
                    "port {node}>{port}: no bound, because a port before it has none, a loop of ports does not settle, or regulators stand behind a port without them"
                )
            }
            Reason::Deadline {
                stream,
                listener,
                delay_ns,
                deadline_ns,
                excess_ns,
            } => write!(
                f,
                "stream \"{stream}\" to {listener}: worst-case delay {} exceeds the deadline {} by {}",
                show_ns(*delay_ns),
                show_ns(*deadline_ns),
                show_ns(*excess_ns)
            ),
            Reason::Buffer {
                node,
                port,
                needed_bytes,
                buffer_bytes,
                excess_bytes,
            } => write!(
                f,
                "port {node}>{port}: needs {needed_bytes} B of buffer but has {buffer_bytes} B: {excess_bytes} B too few"
            ),
            Reason::BufferFrames {
                node,
                port,
                needed_frames,
                buffer_frames,
                excess_frames,
            } => write!(
                f,
                "port {node}>{port}: up to {needed_frames} frames wait but the buffer holds {buffer_frames}: {excess_frames} too few"
            ),
            Reason::SharedBuffer {
                node,
                needed_bytes,
                buffer_bytes,
                excess_bytes,
            } => write!(
                f,
                "switch {node}: its ports together need {needed_bytes} B but share {buffer_bytes} B: {excess_bytes} B too few"
            ),
            Reason::SharedBufferFrames {
                node,
                needed_frames,
                buffer_frames,
                excess_frames,
            } => write!(
                f,
                "switch {node}: up to {needed_frames} frames wait in all but the pool holds {buffer_frames}: {excess_frames} too few"
            ),
            Reason::Overflow { what } => f.write_str(what),
            Reason::Jitter {
                stream,
                listener,
                jitter_ns,
                limit_ns,
                excess_ns,
            } => write!(
                f,
                "stream \"{stream}\" to {listener}: its frames differ by up to {}, but {} is of use: {} too much",
                show_ns(*jitter_ns),
                show_ns(*limit_ns),
                show_ns(*excess_ns)
            ),
            Reason::ScheduleLoad {
                node,
                port,
                needed_ns,
                available_ns,
                cycle_ns,
                excess_ns,
                streams,
            } => write!(
                f,
                "port {node}>{port}: time-triggered frames ({}) need {} of each {}, but only {} may be theirs: {} too much",
                few(streams),
                show_ns(*needed_ns),
                show_ns(*cycle_ns),
                show_ns(*available_ns),
                show_ns(*excess_ns)
            ),
            Reason::ScheduleCycle {
                node,
                port,
                cycle_ns,
                longest_ns,
                windows,
            } => {
                write!(
                    f,
                    "port {node}>{port}: the least common multiple of all intervals is "
                )?;
                let (Some(cycle_ns), Some(windows)) = (cycle_ns, windows) else {
                    return f.write_str("beyond any clock");
                };
                write!(f, "{} with {windows} windows, ", show_ns(*cycle_ns))?;
                match cycle_ns.saturating_sub(*longest_ns) {
                    0 => f.write_str("more windows than any list holds"),
                    excess => write!(
                        f,
                        "but the longest cycle is {}: {} too long",
                        show_ns(*longest_ns),
                        show_ns(excess)
                    ),
                }
            }
            Reason::SchedulePeriods {
                node,
                port,
                streams: [one, other],
                common_ns,
                needed_ns,
                excess_ns,
            } => write!(
                f,
                "port {node}>{port}: \"{one}\" and \"{other}\" meet wherever they are put: the common divisor of their intervals is {}, but both frames need {}: {} too little",
                show_ns(*common_ns),
                show_ns(*needed_ns),
                show_ns(*excess_ns)
            ),
            Reason::SchedulePlace {
                stream,
                node,
                port,
                load_permille,
                rounds,
            } => write!(
                f,
                "stream \"{stream}\": no place was found in the schedule ({rounds} rounds of search); at the busiest port of its way, {node}>{port}, time-triggered frames need {}.{} % of the time",
                load_permille / 10,
                load_permille % 10
            ),
            Reason::ScheduleEntries {
                node,
                port,
                entries,
                available,
                excess,
            } => write!(
                f,
                "port {node}>{port}: its gate list needs {entries} entries but holds {available}: {excess} too many"
            ),
            Reason::ScheduleOpenings {
                node,
                port,
                openings,
                possible,
                excess,
            } => write!(
                f,
                "port {node}>{port}: a queue opens {openings} times in a cycle but can {possible}: {excess} too many"
            ),
            Reason::ScheduleWindow {
                node,
                port,
                window_ns,
                minimum_ns,
                short_ns,
            } => write!(
                f,
                "port {node}>{port}: its gate list has a state of {} but the shortest possible is {}: {} too short",
                show_ns(*window_ns),
                show_ns(*minimum_ns),
                show_ns(*short_ns)
            ),
            Reason::ScheduleShare {
                node,
                port,
                open_ns,
                needed_ns,
                cycle_ns,
                short_ns,
            } => write!(
                f,
                "port {node}>{port}: windows and guard bands leave others {} of each {}, but they are to have {}: {} too little",
                show_ns(*open_ns),
                show_ns(*cycle_ns),
                show_ns(*needed_ns),
                show_ns(*short_ns)
            ),
        }
    }
}

/// Some names, and how many more there are.
fn few(names: &[String]) -> String {
    const MOST: usize = 8;
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A network that cannot be promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
pub struct Refusal {
    /// What does not hold: at least one.
    pub reasons: Vec<Reason>,
    /// Changes that were planned again and fit.
    pub suggestions: Vec<Suggestion>,
    /// What could be computed.
    pub plan: Option<Box<Plan>>,
}

impl Refusal {
    pub(crate) fn overflow(network: &Network, overflow: Overflow) -> Refusal {
        let what = format!("network \"{}\": {overflow}", network.name);
        Refusal {
            reasons: vec![Reason::Overflow { what }],
            suggestions: Vec::new(),
            plan: None,
        }
    }

    /// Whether a stream or port has no bound at all.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.reasons.iter().any(Reason::is_unbounded)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused:")?;
        for reason in &self.reasons {
            write!(f, "\n  {reason}")?;
        }
        if self.suggestions.is_empty() {
            return write!(f, "\nno single change was found that fits");
        }
        write!(f, "\nany one of these would fit:")?;
        for suggestion in &self.suggestions {
            write!(f, "\n  {suggestion}")?;
        }
        Ok(())
    }
}

/// Everything that speaks against a plan.
pub(crate) fn reasons(
    network: &Network,
    mapped: &Mapped,
    plan: &Plan,
) -> Result<Vec<Reason>, Overflow> {
    let mut reasons = Vec::new();
    for stream in network.streams.iter().filter(|stream| !stream.shaped) {
        reasons.push(Reason::Unshaped {
            stream: stream.name.clone(),
        });
    }
    for (index, port) in plan.ports.iter().enumerate() {
        let (node, to) = (port.node.clone(), port.port.clone());
        if port.utilization >= Ratio::ONE {
            let link = Ratio::whole(i128::from(port.link_rate_bps));
            let rate_bps =
                u64::try_from(port.utilization.times(link)?.ceil()).map_err(|_| Overflow)?;
            let flows = mapped.passing[index]
                .iter()
                .map(|(flow, _)| mapped.flow_names[*flow].clone())
                .collect();
            reasons.push(Reason::Rate {
                node,
                port: to,
                rate_bps,
                link_rate_bps: port.link_rate_bps,
                flows,
            });
            continue;
        }
        let Some(needed_bytes) = port.backlog_bytes else {
            let credits = credits(mapped, index, &port.node, &port.port)?;
            if credits.is_empty() {
                reasons.push(Reason::Unbounded { node, port: to });
            }
            reasons.extend(credits);
            continue;
        };
        if port.shared || port.node_kind == NodeKind::Host {
            continue;
        }
        if let Some(buffer_bytes) = port.buffer_bytes.filter(|limit| needed_bytes > *limit) {
            reasons.push(Reason::Buffer {
                node,
                port: to,
                needed_bytes,
                buffer_bytes,
                excess_bytes: needed_bytes - buffer_bytes,
            });
        } else if let (Some(needed_frames), Some(buffer_frames)) =
            (port.backlog_frames, port.buffer_frames)
        {
            if needed_frames > buffer_frames {
                let excess_frames = needed_frames - buffer_frames;
                reasons.push(Reason::BufferFrames {
                    node,
                    port: to,
                    needed_frames,
                    buffer_frames,
                    excess_frames,
                });
            }
        }
    }
    pools(network, plan, &mut reasons);
    for stream in &plan.streams {
        for promise in &stream.promises {
            if let (Some(delay_ns), Some(deadline_ns)) = (promise.delay_ns, promise.deadline_ns) {
                if delay_ns > deadline_ns {
                    reasons.push(Reason::Deadline {
                        stream: stream.name.clone(),
                        listener: promise.listener.clone(),
                        delay_ns,
                        deadline_ns,
                        excess_ns: delay_ns - deadline_ns,
                    });
                }
            }
        }
    }
    Ok(reasons)
}

/// The classes of a port whose rates reach their credits.
fn credits(mapped: &Mapped, index: usize, node: &str, port: &str) -> Result<Vec<Reason>, Overflow> {
    let mut found = Vec::new();
    for (class, shaper) in (0..).zip(&mapped.graph.servers[index].shapers) {
        let ClassShaper::Credit { idle_slope } = shaper else {
            continue;
        };
        let mut total = Ratio::ZERO;
        for (flow, hop) in &mapped.passing[index] {
            let flow = &mapped.graph.flows[*flow];
            if flow.hops[*hop].class == class {
                total = total.plus(flow.rate)?.tidied_up(1_000_000_000)?;
            }
        }
        if total >= *idle_slope {
            found.push(Reason::Credit {
                node: node.to_owned(),
                port: port.to_owned(),
                class,
                rate_bps: u64::try_from(total.ceil()).map_err(|_| Overflow)?,
                idle_slope_bps: u64::try_from(idle_slope.floor()).map_err(|_| Overflow)?,
            });
        }
    }
    Ok(found)
}

/// A pool serves all ports at once.
fn pools(network: &Network, plan: &Plan, reasons: &mut Vec<Reason>) {
    let mut by_switch: HashMap<&str, Vec<&PortPlan>> = HashMap::new();
    for port in plan.ports.iter().filter(|port| port.shared) {
        by_switch.entry(&port.node).or_default().push(port);
    }
    for switch in network
        .switches
        .iter()
        .filter(|switch| switch.buffer.shared)
    {
        let ports = || by_switch.get(switch.name.as_str()).into_iter().flatten();
        // An unbounded port has been named already.
        let bytes = ports().map(|port| port.backlog_bytes).sum::<Option<u64>>();
        let frames = ports().map(|port| port.backlog_frames).sum::<Option<u64>>();
        if let Some(needed_bytes) = bytes.filter(|needed| *needed > switch.buffer.bytes) {
            reasons.push(Reason::SharedBuffer {
                node: switch.name.clone(),
                needed_bytes,
                buffer_bytes: switch.buffer.bytes,
                excess_bytes: needed_bytes - switch.buffer.bytes,
            });
        } else if let (Some(needed_frames), Some(buffer_frames)) = (frames, switch.buffer.frames) {
            if needed_frames > buffer_frames {
                reasons.push(Reason::SharedBufferFrames {
                    node: switch.name.clone(),
                    needed_frames,
                    buffer_frames,
                    excess_frames: needed_frames - buffer_frames,
                });
            }
        }
    }
}

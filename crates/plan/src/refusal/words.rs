//! The text of a reason.

use core::fmt;

use super::{Reason, RecoveredLimit};
use crate::show::{grouped, show_ns};

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unshaped { stream } => write!(
                f,
                "stream \"{stream}\": its shaper is off, so it may send at the full rate of its link: its contract is unbounded"
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
                    "port {node}>{port}: the rates add up to {} bit/s on the wire ({}), but must stay below the link's {} bit/s: ",
                    grouped(rate_bps),
                    flows.join(", "),
                    grouped(link_rate_bps)
                )?;
                match rate_bps.saturating_sub(*link_rate_bps) {
                    0 => f.write_str("they reach it"),
                    excess => write!(f, "exceeded by {} bit/s", grouped(excess)),
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
                "port {node}>{port}: the rates of class {class} add up to {} bit/s on the wire, but must stay below its idle slope of {} bit/s",
                grouped(rate_bps),
                grouped(idle_slope_bps)
            ),
            Reason::Meters {
                node,
                port,
                rate_bps,
                link_rate_bps,
            } => write!(
                f,
                "port {node}>{port}: flow meters let through {} bit/s on the wire in the smallest frames, which must stay below the link's {} bit/s; meters that count more of each frame (`meter-overhead`) let through less",
                grouped(rate_bps),
                grouped(link_rate_bps)
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
                "port {node}>{port}: needs {} B of buffer but has {} B: {} B too few",
                grouped(needed_bytes),
                grouped(buffer_bytes),
                grouped(excess_bytes)
            ),
            Reason::BufferFrames {
                node,
                port,
                needed_frames,
                buffer_frames,
                excess_frames,
            } => write!(
                f,
                "port {node}>{port}: up to {} frames wait but the buffer holds {}: {} too few",
                grouped(needed_frames),
                grouped(buffer_frames),
                grouped(excess_frames)
            ),
            Reason::SharedBuffer {
                node,
                needed_bytes,
                buffer_bytes,
                excess_bytes,
            } => write!(
                f,
                "all ports of {node} together need {} B but share {} B: {} B too few",
                grouped(needed_bytes),
                grouped(buffer_bytes),
                grouped(excess_bytes)
            ),
            Reason::SharedBufferFrames {
                node,
                needed_frames,
                buffer_frames,
                excess_frames,
            } => write!(
                f,
                "all ports of {node}: up to {} frames wait but the pool holds {}: {} too few",
                grouped(needed_frames),
                grouped(buffer_frames),
                grouped(excess_frames)
            ),
            Reason::Identities { what } | Reason::Overflow { what } => f.write_str(what),
            Reason::Jitter {
                stream,
                listener,
                jitter_ns,
                limit_ns,
                excess_ns,
            } => write!(
                f,
                "stream \"{stream}\" to {listener}: its frames' delays differ by up to {}, but the `jitter` limit is {}: {} too much",
                show_ns(*jitter_ns),
                show_ns(*limit_ns),
                show_ns(*excess_ns)
            ),
            Reason::Recovered {
                stream,
                listener,
                what,
                value_ns,
                limit_ns,
                excess_ns,
            } => {
                let (value, limit) = (show_ns(*value_ns), show_ns(*limit_ns));
                let excess = show_ns(*excess_ns);
                write!(
                    f,
                    "stream \"{stream}\" to {listener}, recovered from both copies: "
                )?;
                match what {
                    RecoveredLimit::Deadline => write!(
                        f,
                        "worst-case delay {value} exceeds the deadline {limit} by {excess}, because the copies are launched apart"
                    ),
                    RecoveredLimit::Jitter => write!(
                        f,
                        "when a way breaks, its frames' delays differ by up to {value}, but the `jitter` limit is {limit}: {excess} too much"
                    ),
                }
            }
            Reason::RecoveryNumbers {
                stream,
                listener,
                lag_ns,
                frames,
                most_frames,
            } => write!(
                f,
                "stream \"{stream}\" to {listener}: a copy by one way may be {} later than one by the other; {} frames may be sent within that, but sequence numbers (802.1CB) tell at most {} apart",
                show_ns(*lag_ns),
                grouped(frames),
                grouped(most_frames)
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
                "port {node}>{port}: time-triggered frames ({}) need {} of each cycle of {}, but only {} is available: {} too much",
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
                    return f.write_str("too large for 64 bits");
                };
                write!(
                    f,
                    "{} with {} windows, ",
                    show_ns(*cycle_ns),
                    grouped(windows)
                )?;
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
                "port {node}>{port}: \"{one}\" and \"{other}\" collide at any offset: the common divisor of their intervals is {}, but both frames need {}: {} too little",
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
                "stream \"{stream}\": no place was found in the schedule ({} rounds of search); at the busiest port of its route, {node}>{port}, time-triggered frames need {}.{} % of the time",
                grouped(rounds),
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
                "port {node}>{port}: its gate list needs {} entries but holds {}: {} too many",
                grouped(entries),
                grouped(available),
                grouped(excess)
            ),
            Reason::ScheduleOpenings {
                node,
                port,
                openings,
                possible,
                excess,
            } => write!(
                f,
                "port {node}>{port}: a queue opens {openings} times in a cycle but the hardware supports {possible}: {excess} too many"
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
            Reason::Cycle {
                node,
                port,
                needed_ns,
                sending_ns,
                cycle_ns,
                excess_ns,
                streams,
            } => write!(
                f,
                "port {node}>{port}: what comes in a cycle ({}) needs {} until it is out, {} of it to be sent, but the cycle is {}: {} too much",
                few(streams),
                show_ns(*needed_ns),
                show_ns(*sending_ns),
                show_ns(*cycle_ns),
                show_ns(*excess_ns)
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
                "port {node}>{port}: scheduled frames and guard bands leave other traffic {} of each cycle of {}, but its share is {}: {} too little",
                show_ns(*open_ns),
                show_ns(*cycle_ns),
                show_ns(*needed_ns),
                show_ns(*short_ns)
            ),
        }
    }
}

/// Returns some of the names, and the number of the others.
fn few(names: &[String]) -> String {
    const MOST: usize = 8;
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

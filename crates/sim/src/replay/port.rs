//! One port alone: when would it have sent each frame, had it kept its rate and its priorities exactly?

use std::collections::VecDeque;

use super::{LONGEST_NS, bits_of};
use crate::error::SimulationError;
use crate::fixed::LineClock;

/// A frame that entered a port's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time at which it entered, ns of any clock.
    pub at_ns: u64,
    /// Its class: 0 is the least urgent.
    pub class: u8,
    /// Its size on the wire, bytes.
    pub wire_bytes: u32,
}

/// The ideal departure of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its place in the order of departure, from 0.
    pub place: u32,
    /// Time from its entry until its transmission begins, ps.
    pub begins_ps: u64,
    /// Time from its entry until its transmission ends, ps.
    pub ends_ps: u64,
}

/// Replays one port with strict priority, without gates or shapers: it sends whenever a frame waits, the most urgent
/// class first, without preemption. Within a class frames leave in order of entry; at equal times, in order of the
/// input. Returns one [`Exit`] for each entry, in the order of the input.
///
/// Times are exact: the fraction of a ps that a frame takes is carried on within a busy period. It handles several
/// million frames per second.
///
/// # Errors
/// [`SimulationError::Range`] for a rate of 0, for entries more than 13 days apart, or if the queue needs longer than
/// 106 days. [`SimulationError::UnknownClass`] for a class beyond `classes` and for more than 8 classes;
/// [`SimulationError::FrameSize`] for a size of 0 or above 64 KiB.
pub fn port(rate_bps: u64, classes: u8, entries: &[Entry]) -> Result<Vec<Exit>, SimulationError> {
    let range = |what: &str| SimulationError::Range {
        what: what.to_owned(),
    };
    if rate_bps == 0 {
        return Err(range("a port's rate of 0"));
    }
    let count = u32::try_from(entries.len()).map_err(|_| range("the number of recorded frames"))?;
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_by_key(|at| entries[*at as usize].at_ns);
    let origin_ns = order.first().map_or(0, |at| entries[*at as usize].at_ns);
    let mut queues: [VecDeque<(u32, u64, u32)>; 8] = std::array::from_fn(|_| VecDeque::new());
    let mut exits = vec![Exit::default(); entries.len()];
    let mut next = order.into_iter().peekable();
    let line = LineClock::new(rate_bps);
    let (mut now_ps, mut fraction, mut place, mut filled) = (0_u64, 0_u64, 0_u32, 0_u8);
    loop {
        while let Some(at) = next.peek().copied() {
            let entry = &entries[at as usize];
            let came_ns = entry.at_ns - origin_ns;
            if came_ns > LONGEST_NS {
                return Err(range("the time between the first and the last entry"));
            }
            let came_ps = came_ns * 1000;
            if came_ps > now_ps {
                if filled != 0 {
                    break;
                }
                // The port is idle until this frame comes.
                (now_ps, fraction) = (came_ps, 0);
            }
            if entry.class >= classes.min(8) || classes > 8 {
                return Err(SimulationError::UnknownClass {
                    class: entry.class,
                    classes,
                });
            }
            let queue = &mut queues[usize::from(entry.class)];
            queue.push_back((at, came_ps, bits_of(entry.wire_bytes)?));
            filled |= 1 << entry.class;
            next.next();
        }
        let Some(class) = filled.checked_ilog2() else {
            return Ok(exits);
        };
        let queue = &mut queues[class as usize];
        let Some((at, came_ps, bits)) = queue.pop_front() else {
            return Ok(exits);
        };
        if queue.is_empty() {
            filled &= !(1 << class);
        }
        let (took_ps, rest) = line.transmit(bits, fraction);
        let end_ps = now_ps.checked_add(took_ps).filter(|end| *end <= 1 << 63);
        let end_ps = end_ps.ok_or_else(|| range("the time that the recorded frames need"))?;
        exits[at as usize] = Exit {
            place,
            begins_ps: now_ps - came_ps,
            ends_ps: end_ps - came_ps,
        };
        place += 1;
        (now_ps, fraction) = (end_ps, rest);
    }
}

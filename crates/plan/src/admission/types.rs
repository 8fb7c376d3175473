//! Offers, answers, and the units in which they are counted.

use std::collections::HashMap;
use std::sync::Arc;

use crate::network::{Contract, Stream};
use crate::plan::Plan;
use rtwire_describe::ratio::{Overflow, Ratio};

use super::Admission;

/// The unit of time: 2^-40 s, a little less than a picosecond.
pub(super) const TIME_BITS: u32 = 40;
/// The unit of rates: 2^-10 bit/s.
pub(super) const RATE_BITS: u32 = 10;
/// The unit of a rate times a time: 2^-50 bit.
pub(super) const PRODUCT_BITS: u32 = TIME_BITS + RATE_BITS;
/// The additional bits of precision for the time of one bit.
pub(super) const LEAST_BITS: u32 = 16;
/// The value for no hop or no pool.
pub(super) const NONE: u16 = u16::MAX;
/// The longest burst, highest rate and longest budget. Larger ones are refused, so that their sums stay within their
/// types.
const MOST_BURST_BITS: u64 = 1 << 40;
const MOST_RATE: u64 = 1_000_000_000_000 << RATE_BITS;
/// The largest number of ports on a route.
const MOST_HOPS: usize = 1_000;

/// The time that each class may take at each port, and the sizes of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// The time through a port for priority 0 to 7, nanoseconds. Priorities that share a queue share the least of
    /// theirs.
    pub delay_ns: [u64; 8],
    /// The largest frame of any stream, bytes on the wire (1542 with a VLAN tag).
    pub largest_wire_bytes: u64,
    /// The largest frame of traffic below all classes, bytes on the wire; 0 without such traffic.
    pub foreign_wire_bytes: u64,
    /// The smallest frame, bytes on the wire. A buffer counted in frames may be full of such frames.
    pub smallest_wire_bytes: u64,
    /// Values that replace `delay_ns` for a node, neighbour and class, nanoseconds. A value is raised to the time that
    /// the port needs for one frame if another has just begun.
    pub at_ports: HashMap<(String, String, u8), u64>,
}

impl Budgets {
    /// Returns budgets from a plan, each bound times `permille` / 1000; other classes have the default.
    ///
    /// Later streams use what this leaves free, so pass more than 1000.
    #[must_use]
    pub fn around(plan: &Plan, permille: u64) -> Budgets {
        let mut budgets = Budgets::default();
        for port in &plan.ports {
            for class in &port.classes {
                if let Some(delay_ns) = class.delay_ns {
                    let key = (port.node.clone(), port.port.clone(), class.class);
                    let wider = delay_ns.saturating_mul(permille).div_ceil(1000);
                    budgets.at_ports.insert(key, wider);
                }
            }
        }
        budgets
    }
}

impl Default for Budgets {
    /// Returns 250 us for priorities 6 and 7, and 500 us, 1 ms and 2 ms for the pairs below.
    fn default() -> Budgets {
        let (a, b, c, d) = (2_000_000, 1_000_000, 500_000, 250_000);
        Budgets {
            delay_ns: [a, a, b, b, c, c, d, d],
            largest_wire_bytes: 1542,
            foreign_wire_bytes: 1542,
            smallest_wire_bytes: 84,
            at_ports: HashMap::new(),
        }
    }
}

/// A stream's contract `burst + rate t` in the units of the sums, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// Its largest frame on the wire, bits.
    pub frame_bits: u32,
    /// Its smallest frame on the wire, bits; the jitter behind a port grows by the delay less the time of this frame.
    pub smallest_bits: u32,
    /// Its burst, bits.
    pub burst_bits: u64,
    /// Its rate, 1/1024 bit/s.
    pub rate_1024: u64,
    /// Priority code point.
    pub pcp: u8,
    /// Latest useful delay, nanoseconds.
    pub deadline_ns: Option<u64>,
}

impl Offer {
    /// Returns the contract of a stream.
    ///
    /// # Errors
    /// [`AdmissionError::Range`] if a number is above 1000 Gbit/s or 128 GiB.
    pub fn of(stream: &Stream) -> Result<Offer, AdmissionError> {
        let mut offer = Offer::new(&stream.contract, stream.wire_bytes, stream.pcp)?;
        offer.deadline_ns = stream.deadline_ns;
        let overhead = stream.wire_bytes.saturating_sub(stream.frame_bytes);
        let smallest = stream.smallest_frame_bytes.unwrap_or(stream.frame_bytes);
        Ok(offer.with_smallest(smallest.saturating_add(overhead)))
    }

    /// Returns the offer with a smallest frame of `wire_bytes` on the wire, at most its largest frame.
    #[must_use]
    pub fn with_smallest(mut self, wire_bytes: u64) -> Offer {
        let bits = wire_bytes.saturating_mul(8).min(self.frame_bits.into());
        self.smallest_bits = u32::try_from(bits).unwrap_or(self.frame_bits);
        self
    }

    /// Returns a contract in frames of `wire_bytes`, all of this size, without a deadline. For frames of different
    /// sizes see [`Offer::with_smallest`].
    ///
    /// # Errors
    /// As [`Offer::of`].
    pub fn new(contract: &Contract, wire_bytes: u64, pcp: u8) -> Result<Offer, AdmissionError> {
        Offer::from_parts(contract.rate, contract.burst, wire_bytes, pcp)
    }

    pub(super) fn from_parts(
        rate: Ratio,
        burst: Ratio,
        wire_bytes: u64,
        pcp: u8,
    ) -> Result<Offer, AdmissionError> {
        let range = |_| AdmissionError::Range {
            what: "the contract".to_owned(),
        };
        let scaled = rate
            .times(Ratio::whole(1 << RATE_BITS))
            .map_err(|_: Overflow| AdmissionError::Range {
                what: "the rate".to_owned(),
            })?;
        let frame_bits = u32::try_from(wire_bytes.saturating_mul(8)).map_err(range)?;
        let offer = Offer {
            frame_bits,
            smallest_bits: frame_bits,
            burst_bits: u64::try_from(burst.ceil()).map_err(range)?,
            rate_1024: u64::try_from(scaled.ceil()).map_err(range)?,
            pcp,
            deadline_ns: None,
        };
        offer.check()?;
        Ok(offer)
    }

    pub(super) fn check(&self) -> Result<(), AdmissionError> {
        let range = |what: &str| AdmissionError::Range {
            what: what.to_owned(),
        };
        if self.rate_1024 > MOST_RATE {
            return Err(range("the rate"));
        }
        if self.burst_bits > MOST_BURST_BITS
            || self.burst_bits < u64::from(self.frame_bits)
            || self.frame_bits == 0
        {
            return Err(range("the burst (at least a frame)"));
        }
        if self.smallest_bits > self.frame_bits {
            return Err(range("the smallest frame (at most the largest)"));
        }
        if self.pcp > 7 {
            return Err(range("the priority (0 to 7)"));
        }
        Ok(())
    }
}

/// One port on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteHop {
    pub(super) port: u32,
    /// The first cell of the input over which the stream arrives.
    pub(super) cell: u32,
    /// The hop before; [`NONE`] at the talker.
    pub(super) before: u16,
}

/// A route through the network, made by [`Admission::route`]; streams share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub(super) hops: Box<[RouteHop]>,
    /// The last hop towards each listener.
    pub(super) ends: Box<[u16]>,
}

impl Route {
    pub(super) fn new(
        admission: &Admission,
        mut hops: Vec<RouteHop>,
        ends: Vec<u16>,
    ) -> Result<Route, AdmissionError> {
        if hops.len() > MOST_HOPS || ends.contains(&NONE) {
            return Err(AdmissionError::NoRoute {
                what: format!("a way has 1 to {MOST_HOPS} links"),
            });
        }
        for at in 0..hops.len() {
            let hop = hops[at];
            let port = &admission.ports[hop.port as usize];
            let slot = if hop.before == NONE {
                0
            } else {
                let before = hops[usize::from(hop.before)].port;
                admission.ports[before as usize].slot_behind
            };
            hops[at].cell = port.first_cell + slot * u32::from(port.classes);
        }
        Ok(Route {
            hops: hops.into_boxed_slice(),
            ends: ends.into_boxed_slice(),
        })
    }

    /// Returns the number of ports on the route.
    #[must_use]
    pub fn hop_count(&self) -> usize {
        self.hops.len()
    }
}

pub(super) fn short(at: usize) -> Result<u16, AdmissionError> {
    u16::try_from(at).map_err(|_| AdmissionError::NoRoute {
        what: format!("a way has 1 to {MOST_HOPS} links"),
    })
}

/// The name of an admitted stream. It is never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) generation: u64,
}

/// An admitted stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) offer: Offer,
    pub(super) route: Arc<Route>,
    pub(super) generation: u64,
}

/// Memory that ports of one switch share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) node: String,
    /// The bits that may wait in all, less the ports' latencies' share.
    pub(super) room_bits: u64,
    pub(super) used_bits: u64,
}

/// The reason why a stream is not admitted. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The contract is out of range.
    #[error(transparent)]
    Faulty(#[from] AdmissionError),
    /// Its frames are larger than the frame for which the budgets were made.
    #[error(
        "its frame of {frame_bits} bit on the wire is larger than {largest_bits} bit, for which the budgets were made"
    )]
    FrameTooLarge {
        /// The stream's frame, bits.
        frame_bits: u64,
        /// The largest frame of the budgets, bits.
        largest_bits: u64,
    },
    /// The budgets along the route add up to more than its deadline.
    #[error("the budgets of its route add up to {promise_ns} ns, {} ns more than its deadline of {deadline_ns} ns; a higher priority has shorter ones", promise_ns - deadline_ns)]
    Deadline {
        /// The delay that could be promised, nanoseconds.
        promise_ns: u64,
        /// The deadline, nanoseconds.
        deadline_ns: u64,
    },
    /// The rates at a port would reach the link's rate.
    #[error("port {port}: the rates would reach that of the link")]
    Rate {
        /// The port as `node>neighbour`.
        port: String,
    },
    /// A class would exceed its budget at a port.
    #[error("port {port}: class {class} would exceed its budget of {budget_ns} ns")]
    Budget {
        /// The port as `node>neighbour`.
        port: String,
        /// The class whose budget does not suffice: the stream's own or one below it.
        class: u8,
        /// The budget, nanoseconds.
        budget_ns: u64,
    },
    /// A port's memory would not suffice.
    #[error("port {port}: its buffer would not suffice")]
    Buffer {
        /// The port as `node>neighbour`.
        port: String,
    },
    /// The memory that ports of a switch share would not suffice.
    #[error("switch {node}: its shared buffer would not suffice")]
    SharedBuffer {
        /// The switch.
        node: String,
    },
}

/// A question or description that admission cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// A number is beyond the range of the sums.
    #[error("{what} is out of range: at most 1000 Gbit/s, 2^40 bit, 1000 s")]
    Range {
        /// The number, in words.
        what: String,
    },
    /// The route does not exist.
    #[error("no such route: {what}")]
    NoRoute {
        /// The reason, in words.
        what: String,
    },
    /// The ticket's stream is not admitted, or no longer.
    #[error("no admitted stream has this ticket: it was removed, or never admitted here")]
    NoTicket,
    /// The mark is not the last open one, or was undone or released already.
    #[error("this mark is not the last open one, or was released or undone already")]
    NoMark,
    /// The port is of a kind that budgets do not cover.
    #[error(
        "port {port}: admission by budgets is for FIFO and strict priority; this port has {what}"
    )]
    Unsupported {
        /// The port as `node>neighbour`.
        port: String,
        /// The mechanism that is not covered.
        what: String,
    },
    /// A best-effort allowance, or a stream of the description, exceeds the budgets by itself.
    #[error("\"{name}\" of the description does not fit the budgets: {why}")]
    Description {
        /// The name of the stream or allowance.
        name: String,
        /// The reason.
        why: Box<Denied>,
    },
}

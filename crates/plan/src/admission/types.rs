//! What is offered, what is answered, and the units in which it is counted.

use std::collections::HashMap;
use std::sync::Arc;

use crate::network::{Contract, Stream};
use crate::plan::Plan;
use rtwire_describe::ratio::{Overflow, Ratio};

use super::Admission;

/// Fractions of a second: 2^-40 s, a little less than a picosecond.
pub(super) const TIME_BITS: u32 = 40;
/// Fractions of a bit/s.
pub(super) const RATE_BITS: u32 = 10;
/// A rate times a time, in fractions of a bit.
pub(super) const PRODUCT_BITS: u32 = TIME_BITS + RATE_BITS;
/// What the time of one bit is finer by than other times.
pub(super) const LEAST_BITS: u32 = 16;
/// No hop, no pool.
pub(super) const NONE: u16 = u16::MAX;
/// Longer bursts, higher rates and longer budgets are refused: sums of them must not leave their types.
const MOST_BURST_BITS: u64 = 1 << 40;
const MOST_RATE: u64 = 1_000_000_000_000 << RATE_BITS;
/// Longest way, ports.
const MOST_HOPS: usize = 1_000;

/// What each class may take at each port, and which frames there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// For priority 0 to 7: the time through a port, nanoseconds. Priorities that share a queue share the least of theirs.
    pub delay_ns: [u64; 8],
    /// The largest frame of any stream, bytes on the wire (1542 with a VLAN tag).
    pub largest_wire_bytes: u64,
    /// The largest frame of traffic below all classes, bytes on the wire; 0 where there is none.
    pub foreign_wire_bytes: u64,
    /// The smallest frame, bytes on the wire: so many fit a buffer that is counted in frames.
    pub smallest_wire_bytes: u64,
    /// By node, neighbour and class: what replaces `delay_ns` there, nanoseconds. Taken as at least what a port needs
    /// for one frame when another has just begun.
    pub at_ports: HashMap<(String, String, u8), u64>,
}

impl Budgets {
    /// As in a plan, each bound times `permille` / 1000; other classes as by default.
    ///
    /// Streams that come later take what this leaves, so give more than 1000.
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
    /// 250 us for priorities 6 and 7, 500 us, 1 ms and 2 ms for the pairs below.
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

/// A stream's contract in the units that are added up: `burst + rate t`, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// Its frame on the wire, bits.
    pub frame_bits: u32,
    /// Bits at once.
    pub burst_bits: u64,
    /// 1/1024 bit/s.
    pub rate_1024: u64,
    /// Priority code point.
    pub pcp: u8,
    /// Latest delay that is of use, nanoseconds.
    pub deadline_ns: Option<u64>,
}

impl Offer {
    /// The contract of a stream.
    ///
    /// # Errors
    /// [`AdmissionError::Range`] where a number is beyond 1000 Gbit/s or 128 GiB.
    pub fn of(stream: &Stream) -> Result<Offer, AdmissionError> {
        let mut offer = Offer::new(&stream.contract, stream.wire_bytes, stream.pcp)?;
        offer.deadline_ns = stream.deadline_ns;
        Ok(offer)
    }

    /// A contract in frames of `wire_bytes`, without a deadline.
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
        let offer = Offer {
            frame_bits: u32::try_from(wire_bytes.saturating_mul(8)).map_err(range)?,
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
        if self.pcp > 7 {
            return Err(range("the priority (0 to 7)"));
        }
        Ok(())
    }
}

/// One port on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteHop {
    pub(super) port: u32,
    /// The first cell of the input over which it comes.
    pub(super) cell: u32,
    /// The hop before, [`NONE`] at the talker.
    pub(super) before: u16,
}

/// A way through the network, made by [`Admission::route`]; streams share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub(super) hops: Box<[RouteHop]>,
    /// The last hop of each listener's way.
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

    /// How many ports it passes.
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

/// Names an admitted stream. It is never given again to another one.
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
    /// Bits that may wait in all, less what the ports' latencies take.
    pub(super) room_bits: u64,
    pub(super) used_bits: u64,
}

/// Why a stream is not admitted. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The contract is out of range.
    #[error(transparent)]
    Faulty(#[from] AdmissionError),
    /// Its frames are larger than the budgets allow for.
    #[error(
        "its frame of {frame_bits} bit on the wire is larger than {largest_bits} bit, for which the budgets were made"
    )]
    FrameTooLarge {
        /// The frame.
        frame_bits: u64,
        /// The largest.
        largest_bits: u64,
    },
    /// The budgets along the way are later than its deadline.
    #[error("the budgets of its way add up to {promise_ns} ns, {} ns more than its deadline of {deadline_ns} ns; a higher priority has shorter ones", promise_ns - deadline_ns)]
    Deadline {
        /// What could be promised.
        promise_ns: u64,
        /// The deadline.
        deadline_ns: u64,
    },
    /// The rates at a port would reach the link's rate.
    #[error("port {port}: the rates would reach that of the link")]
    Rate {
        /// `node>neighbour`.
        port: String,
    },
    /// A class would exceed its budget at a port.
    #[error("port {port}: class {class} would exceed its budget of {budget_ns} ns")]
    Budget {
        /// `node>neighbour`.
        port: String,
        /// The class whose budget does not suffice: its own or one below it.
        class: u8,
        /// The budget.
        budget_ns: u64,
    },
    /// A port's memory would not suffice.
    #[error("port {port}: its buffer would not suffice")]
    Buffer {
        /// `node>neighbour`.
        port: String,
    },
    /// The memory that ports of a switch share would not suffice.
    #[error("switch {node}: its shared buffer would not suffice")]
    SharedBuffer {
        /// The switch.
        node: String,
    },
}

/// What cannot be answered at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// A number is beyond what sums hold.
    #[error("{what} is out of range: at most 1000 Gbit/s, 2^40 bit, 1000 s")]
    Range {
        /// Which.
        what: String,
    },
    /// A way that does not exist.
    #[error("no such way: {what}")]
    NoRoute {
        /// Why.
        what: String,
    },
    /// A ticket of a stream that is not admitted (any more).
    #[error("no stream has this ticket (any more)")]
    NoTicket,
    /// A mark that was undone, or released, already.
    #[error("this mark is not valid any more")]
    NoMark,
    /// A port that budgets say nothing about.
    #[error(
        "port {port}: admission by budgets is for FIFO and strict priority; this port has {what}"
    )]
    Unsupported {
        /// `node>neighbour`.
        port: String,
        /// What it has.
        what: String,
    },
    /// A best-effort allowance, or a stream of the description, exceeds the budgets by itself.
    #[error("\"{name}\" of the description does not fit the budgets: {why}")]
    Description {
        /// Which.
        name: String,
        /// Why.
        why: Box<Denied>,
    },
}

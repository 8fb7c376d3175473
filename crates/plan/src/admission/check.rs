//! Checks in whole numbers that a port keeps its budgets.
//!
//! For class `c` of budget `d` at a port of rate `C` and latency `T`, for every `s`:
//!
//! ```text
//! sum over inputs of min(b_c + r_c s, L + C_i s) + b_h + r_h (s + d)   (line: + b_h + r_h d)
//!     + L_low <= C (s + d - T)
//! ```
//!
//! Here `h` are the classes above. A latency that varies by `V` adds `r V` to each burst and `C_i V` to each line: frames may be
//! closer together in the queue than on the link.
//!
//! The left side less `C s` is concave; its largest value is where the slope turns negative. Corners are rounded down. A falling straight line that is read too early is too high, never too low.

use crate::network::{PriorityMap, class_by};

use super::types::{NONE, PRODUCT_BITS};
use super::{Admission, Denied};

/// The sum of the bursts and of the rates of some flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sum {
    /// The sum of the bursts, bits.
    pub(super) burst: u64,
    /// The sum of the rates, 1/1024 bit/s.
    pub(super) rate: u64,
}

/// A class of a port: its traffic over all inputs, and its budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortClass {
    pub(super) total: Sum,
    /// C (d - T) - L_low in bits, rounded down.
    pub(super) room_bits: u64,
    /// The budget d in 2^-40 s, rounded up where it increases the flows' jitter.
    pub(super) budget: u64,
    pub(super) budget_ns: u64,
    pub(super) known: Known,
}

/// The result of the latest search over all inputs of a class, increased by later streams. Most decisions need no
/// other search.
///
/// Behind its largest value at `at`, the excess falls by `slack`. A new stream of `burst + rate t` raises it by at
/// most `burst + rate at`, if it rises slower than that fall. Removed streams do not raise it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// An upper bound of the excess, bits.
    pub(super) bits: u64,
    at: u64,
    slack: u64,
}

impl Known {
    pub(super) const NOTHING: Known = Known {
        bits: u64::MAX,
        at: 0,
        slack: 0,
    };

    /// Returns the result with one more stream.
    pub(super) fn with(self, sum: Sum) -> Known {
        let slack = self.slack.checked_sub(sum.rate);
        let more = sum.burst.saturating_add(bits_up(sum.rate, self.at));
        match (slack, self.bits.checked_add(more)) {
            (Some(slack), Some(bits)) if slack > 0 => Known {
                bits,
                at: self.at,
                slack,
            },
            _ => Known::NOTHING,
        }
    }
}

/// The largest difference from rounding between two searches over the same sums, bits.
const ROUNDING_BITS: u64 = 8;

/// The constant data of a port.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// The link's rate, 1/1024 bit/s.
    pub(super) rate: u64,
    /// The time of one bit in 2^-56 s, rounded down; 0 if the port catches up.
    pub(super) least_per_bit: u64,
    pub(super) first_class: u32,
    pub(super) first_cell: u32,
    /// The number of inputs.
    pub(super) slots: u32,
    pub(super) classes: u8,
    pub(super) priority_map: Option<PriorityMap>,
    /// True if the inputs are links (a switch), false if the only input is the host itself.
    pub(super) lines: bool,
    pub(super) pool: u16,
    /// The number of this link among the inputs of the node that it leads to.
    pub(super) slot_behind: u32,
    /// The bits that the memory holds, less the latency's share and the frame that is being sent.
    pub(super) memory_bits: u64,
    /// The rate and `L + C L_late` of each input link, if `lines` is true.
    pub(super) inputs: std::sync::Arc<[Sum]>,
    /// The latency T in 2^-40 s, rounded up.
    pub(super) latency: u64,
    /// The time by which the latency before the queue differs between frames, 2^-40 s, rounded up.
    pub(super) variation: u64,
}

/// The data that no decision needs.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// The port as `node>neighbour`.
    pub(super) name: Box<str>,
    pub(super) cable_ns: u64,
}

impl Port {
    pub(super) fn class(&self, pcp: u8) -> u8 {
        class_by(self.priority_map.as_ref(), pcp, self.classes)
    }
}

/// The traffic that a stream adds at one hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    pub(super) port: u32,
    pub(super) class: u8,
    pub(super) cell: u32,
    pub(super) sum: Sum,
    /// The stream's jitter at this hop, added since its source, 2^-40 s.
    pub(super) jitter: u64,
    /// One bit for each class; it is set if the class's [`Known`] contains this stream already.
    pub(super) known: u8,
}

/// The point where an input changes from its line to its contracts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    at: u64,
    burst: u64,
    slope: u64,
}

/// The values from which a smaller delay is computed.
pub(super) struct Given<'a> {
    pub(super) cells: &'a [Sum],
    /// The rate of the classes above, 1/1024 bit/s.
    pub(super) above_rate: u64,
    /// A bound on the delay of every frame of the class, 2^-40 s.
    pub(super) within: u64,
}

/// The reason why a port denies a stream.
pub(super) enum No {
    Rate,
    Budget(u8),
    Buffer,
    Pool,
}

/// The classes that count: one class and those above it apart, or all as one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Class(u8),
    All,
}

/// Multiplies `rate` in 1/1024 bit/s by `time` in 2^-40 s. Returns bits, rounded up.
pub(super) fn bits_up(rate: u64, time: u64) -> u64 {
    let fine = u128::from(rate) * u128::from(time);
    let bits = (fine + ((1 << PRODUCT_BITS) - 1)) >> PRODUCT_BITS;
    u64::try_from(bits).unwrap_or(u64::MAX)
}

fn bits_down(rate: u64, time: u64) -> u64 {
    u64::try_from((u128::from(rate) * u128::from(time)) >> PRODUCT_BITS).unwrap_or(u64::MAX)
}

/// Divides `bits` by `rate`. Returns the time in 2^-40 s, rounded down.
fn time_down(bits: u64, rate: u64) -> u64 {
    u64::try_from((u128::from(bits) << PRODUCT_BITS) / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

impl Admission {
    /// Checks that a port keeps all its budgets with `delta` added.
    pub(super) fn check(&mut self, number: usize, delta: &mut Delta) -> Result<(), No> {
        let port = &self.ports[number];
        let first = port.first_class as usize;
        let classes = &mut self.classes[first..first + usize::from(port.classes)];
        let (mut above, mut from_top) = (Sum::default(), usize::from(port.classes));
        let mut memory = Sum::default();
        while from_top > 0 {
            from_top -= 1;
            let class = from_top as u8;
            let here = &mut classes[from_top];
            let mut own = here.total;
            if class == delta.class {
                own.burst = own.burst.checked_add(delta.sum.burst).ok_or(No::Rate)?;
                own.rate += delta.sum.rate;
            }
            let rate = above.rate + own.rate;
            let burst = above.burst.checked_add(own.burst).ok_or(No::Rate)?;
            if class <= delta.class && own.burst > 0 {
                if rate >= port.rate {
                    return Err(No::Rate);
                }
                let later = bits_up(above.rate, here.budget);
                // Without the help of links; else with it, which takes longer to find out.
                let fast = burst.checked_add(later);
                if fast.is_none_or(|bits| bits > here.room_bits) {
                    let known = here.known.with(delta.sum).bits;
                    let enough = later.saturating_add(ROUNDING_BITS);
                    if known
                        .checked_add(enough)
                        .is_none_or(|bits| bits > here.room_bits)
                    {
                        let which = Which::Class(class);
                        let found =
                            look(port, &self.cells, &mut self.crossings, which, Some(delta));
                        let fits = found.is_some_and(|found| found.fits(later, here.room_bits));
                        let Some(found) = found.filter(|_| fits) else {
                            return Err(No::Budget(class));
                        };
                        // With this stream: no less than without it, should it not come after all.
                        here.known = found.known();
                        delta.known |= 1 << class;
                    }
                }
            }
            above = Sum { burst, rate };
            memory = above;
        }
        if memory.burst > port.memory_bits {
            let found = look(
                port,
                &self.cells,
                &mut self.crossings,
                Which::All,
                Some(delta),
            );
            if found.is_none_or(|found| !found.fits(0, port.memory_bits)) {
                return Err(No::Buffer);
            }
        }
        if port.pool != NONE {
            let pool = &self.pools[usize::from(port.pool)];
            // Branches of the stream at the same switch come together.
            let others = self.scratch_pools(port.pool);
            let used = pool.used_bits.saturating_add(others);
            if used.saturating_add(delta.sum.burst) > pool.room_bits {
                return Err(No::Pool);
            }
        }
        Ok(())
    }

    /// Returns the bits of a pool that the hops checked so far use.
    fn scratch_pools(&self, pool: u16) -> u64 {
        let of_pool = |delta: &&Delta| self.ports[delta.port as usize].pool == pool;
        let same = self.scratch.iter().filter(of_pool);
        same.fold(0_u64, |sum, delta| sum.saturating_add(delta.sum.burst))
    }

    pub(super) fn denied(&self, number: usize, no: &No) -> Denied {
        let port = &self.ports[number];
        let name = self.labels[number].name.to_string();
        match no {
            No::Rate => Denied::Rate { port: name },
            No::Budget(class) => Denied::Budget {
                port: name,
                class: *class,
                budget_ns: self.class(port, *class).budget_ns,
            },
            No::Buffer => Denied::Buffer { port: name },
            No::Pool => Denied::SharedBuffer {
                node: self.pools[usize::from(port.pool)].node.clone(),
            },
        }
    }

    /// Returns the least delay of a class that follows from the cells' sums and the values in `given`, in 2^-40 s,
    /// rounded up.
    pub(super) fn needed(
        &self,
        number: usize,
        class: u8,
        given: &Given<'_>,
        crossings: &mut Vec<Crossing>,
    ) -> u64 {
        let Given {
            cells,
            above_rate,
            within,
        } = *given;
        let low_bits = self.low_bits(class);
        let port = &self.ports[number];
        let later = bits_up(above_rate, within);
        let found = look(port, cells, crossings, Which::Class(class), None);
        let Some(found) = found else { return within };
        let bits = found.fine + (u128::from(later + low_bits) << PRODUCT_BITS);
        let time = u64::try_from(bits.div_ceil(u128::from(port.rate))).unwrap_or(u64::MAX);
        time.saturating_add(port.latency).min(within)
    }
}

/// The largest excess of arrivals over service.
#[derive(Clone, Copy)]
struct Found {
    /// The excess, 2^-50 bit.
    fine: u128,
    at: u64,
    slack: u64,
}

impl Found {
    fn fits(&self, later: u64, room_bits: u64) -> bool {
        room_bits
            .checked_sub(later)
            .is_some_and(|room| self.fine <= u128::from(room) << PRODUCT_BITS)
    }

    fn known(&self) -> Known {
        let up = (self.fine >> PRODUCT_BITS) + 1;
        Known {
            bits: u64::try_from(up).unwrap_or(u64::MAX),
            at: self.at,
            slack: self.slack,
        }
    }
}

/// Searches all inputs for the largest excess of arrivals over service. `None` if it never falls.
fn look(
    port: &Port,
    cells: &[Sum],
    crossings: &mut Vec<Crossing>,
    which: Which,
    delta: Option<&Delta>,
) -> Option<Found> {
    crossings.clear();
    let classes = usize::from(port.classes);
    let (mut value, mut arriving) = (0_u64, 0_u64);
    for slot in 0..port.slots as usize {
        let first = port.first_cell as usize + slot * classes;
        let (mut equal, mut above) = (Sum::default(), Sum::default());
        let lowest = match which {
            Which::Class(class) => usize::from(class),
            Which::All => 0,
        };
        for class in lowest..classes {
            let mut cell = cells[first + class];
            if let Some(delta) = delta {
                if delta.cell as usize == first && usize::from(delta.class) == class {
                    cell.burst = cell.burst.checked_add(delta.sum.burst)?;
                    cell.rate += delta.sum.rate;
                }
            }
            let into = if which == Which::All || class == lowest {
                &mut equal
            } else {
                &mut above
            };
            into.burst = into.burst.checked_add(cell.burst)?;
            into.rate += cell.rate;
        }
        let contracts = equal.rate + above.rate;
        value = value.checked_add(above.burst)?;
        let line = port.inputs.get(slot).filter(|_| port.lines);
        // A latency that varies lets frames follow each other closer than on the link.
        let line = line.map(|line| Sum {
            burst: line
                .burst
                .saturating_add(bits_up(line.rate, port.variation)),
            ..*line
        });
        match line.filter(|line| equal.burst > line.burst) {
            Some(line) => {
                // The line until it meets the contracts; where it never does, to the end.
                value = value.checked_add(line.burst)?;
                arriving += line.rate;
                if contracts < line.rate {
                    let (burst, slope) = (equal.burst - line.burst, line.rate - contracts);
                    crossings.push(Crossing {
                        at: time_down(burst, slope),
                        burst,
                        slope,
                    });
                }
            }
            None => {
                value = value.checked_add(equal.burst)?;
                arriving += contracts;
            }
        }
    }
    if arriving < port.rate {
        return Some(Found {
            fine: u128::from(value) << PRODUCT_BITS,
            at: 0,
            slack: port.rate - arriving,
        });
    }
    crossings.sort_unstable_by_key(|crossing| (crossing.at, crossing.burst, crossing.slope));
    for crossing in crossings.iter() {
        value = value.checked_add(crossing.burst)?;
        arriving -= crossing.slope;
        if arriving < port.rate {
            let falls = u128::from(port.rate - arriving) * u128::from(crossing.at);
            return Some(Found {
                fine: (u128::from(value) << PRODUCT_BITS).saturating_sub(falls),
                // Rounded up: what comes later counts up to the corner itself.
                at: crossing.at + 1,
                slack: port.rate - arriving,
            });
        }
    }
    None
}

/// Returns C (d - T) - L_low in bits, rounded down. `None` if the budget is below latency plus blocking.
pub(super) fn room_bits(rate: u64, budget: u64, latency: u64, low_bits: u64) -> Option<u64> {
    bits_down(rate, budget.checked_sub(latency)?).checked_sub(low_bits)
}

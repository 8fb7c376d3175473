//! Queueing disciplines as values: written to the kernel, and read back into the same values.
//!
//! The kernel fills in missing fields and reports in its own units. So requests and settings in force are compared as
//! these values, never as bytes. Layouts after `linux/pkt_sched.h`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attributes::{Writer, each, find, find_path, i32_at, number, u16_at, u32_at, u64_at};
use super::burst::{htb_bytes, htb_ticks, tbf_bytes, tbf_ticks};

/// The quantum of an HTB class, bytes: what it sends before another of the same priority has its turn. One full frame.
pub(crate) const HTB_QUANTUM_BYTES: u32 = 1_600;
const LINKLAYER_ETHERNET: u8 = 1;
/// `struct tc_mqprio_qopt`: number of classes, map of 16 priorities, hardware, 16 counts, 16 offsets.
const MQPRIO_BYTES: usize = 82;
const CLOCK_TAI: i32 = 11;
const FULL_OFFLOAD: u32 = 2;

/// The class of each socket priority, and the transmit queues of each class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Classes {
    /// By socket priority, 0 to 15.
    pub map: [u8; 16],
    /// By class: its first transmit queue, and its number of queues.
    pub queues: Vec<(u16, u16)>,
}

/// One state of the gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Bit n: class n may send.
    pub gates: u32,
    /// Its duration, ns.
    pub duration_ns: u32,
}

/// A queueing discipline, or a class of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Discipline {
    /// A transmit queue for each class.
    Mqprio {
        /// The classes.
        classes: Classes,
    },
    /// Time-aware gates.
    Taprio {
        /// The classes.
        classes: Classes,
        /// The start of a cycle, ns of CLOCK_TAI; may be long ago.
        base_time_ns: i64,
        /// The cycle, ns.
        cycle_ns: u64,
        /// The states; their durations add up to the cycle exactly.
        entries: Vec<Gate>,
        /// 0 in software, 1 with the help of ETF, 2 in hardware.
        flags: u32,
        /// With flag 1: the time from handing over to launch, ns.
        txtime_delay_ns: u32,
    },
    /// Launch times: a frame leaves at the time that its sender set.
    Etf {
        /// The time from handing a frame to the driver to its launch, ns.
        delta_ns: u32,
        /// True if the time is a latest one rather than an exact one.
        deadline: bool,
        /// True if the hardware keeps the time.
        offload: bool,
        /// True if frames with a time from TAPRIO are accepted too.
        skip_socket_check: bool,
    },
    /// Credit-based shaping.
    Cbs {
        /// kbit/s.
        idle_slope_kbps: i32,
        /// kbit/s, negative.
        send_slope_kbps: i32,
        /// Bytes.
        high_credit_bytes: i32,
        /// Bytes, negative.
        low_credit_bytes: i32,
        /// True if the hardware shapes.
        offload: bool,
    },
    /// One rate for all.
    Tbf {
        /// Bytes a second, on the wire.
        rate_bytes: u32,
        /// The burst, bytes besides the overhead.
        burst_bytes: u32,
        /// The backlog's limit, bytes.
        limit_bytes: u32,
        /// The bytes of a frame beyond header and payload.
        overhead_bytes: u8,
    },
    /// Classes that share a rate.
    Htb {
        /// The class of frames that no filter matches.
        default_class: u32,
    },
    /// A class of HTB.
    HtbClass {
        /// Own rate, bytes a second.
        rate_bytes: u32,
        /// Highest rate, bytes a second.
        ceil_bytes: u32,
        /// The priority; 0 is served first.
        priority: u32,
        /// The burst at the own rate, bytes.
        burst_bytes: u32,
        /// The burst at the highest rate, bytes.
        ceil_burst_bytes: u32,
        /// The bytes of a frame beyond header and payload.
        overhead_bytes: u8,
    },
    /// First in, first out.
    Pfifo {
        /// The backlog's limit, frames; 0 drops all.
        frames: u32,
    },
    /// Another discipline, which is only put back.
    Foreign {
        /// Its kind.
        name: String,
    },
}

/// Returns the fewest bytes that a frame counts as: header and payload are padded to 60.
pub(crate) fn smallest_bytes(overhead: u8) -> u16 {
    match overhead {
        0 => 0,
        bytes => 60 + u16::from(bytes),
    }
}

/// `struct tc_ratespec`.
fn rate(bytes_per_second: u32, overhead: u8) -> [u8; 12] {
    let mut bytes = [0; 12];
    if bytes_per_second > 0 {
        bytes[1] = LINKLAYER_ETHERNET;
    }
    bytes[2..4].copy_from_slice(&u16::from(overhead).to_ne_bytes());
    bytes[6..8].copy_from_slice(&smallest_bytes(overhead).to_ne_bytes());
    bytes[8..12].copy_from_slice(&bytes_per_second.to_ne_bytes());
    bytes
}

impl Classes {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; MQPRIO_BYTES];
        bytes[0] = u8::try_from(self.queues.len()).unwrap_or(u8::MAX);
        bytes[1..17].copy_from_slice(&self.map);
        for (class, (offset, count)) in self.queues.iter().enumerate().take(16) {
            let at = 18 + 2 * class;
            bytes[at..at + 2].copy_from_slice(&count.to_ne_bytes());
            bytes[at + 32..at + 34].copy_from_slice(&offset.to_ne_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = usize::from(*bytes.first()?);
        let map = bytes.get(1..17)?.try_into().ok()?;
        let queues = (0..number.min(16))
            .map(|class| {
                let at = 18 + 2 * class;
                Some((u16_at(bytes, at + 32)?, u16_at(bytes, at)?))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self { map, queues })
    }
}

impl Discipline {
    /// Returns the kernel's name of the kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Mqprio { .. } => "mqprio",
            Self::Taprio { .. } => "taprio",
            Self::Etf { .. } => "etf",
            Self::Cbs { .. } => "cbs",
            Self::Tbf { .. } => "tbf",
            Self::Htb { .. } | Self::HtbClass { .. } => "htb",
            Self::Pfifo { .. } => "pfifo",
            Self::Foreign { name } => name,
        }
    }

    /// Encodes the value of `TCA_OPTIONS`.
    pub(super) fn encode(&self) -> Vec<u8> {
        let words = |words: &[[u8; 4]]| words.concat();
        match self {
            Self::Mqprio { classes } => classes.encode(),
            Self::Taprio {
                classes,
                base_time_ns,
                cycle_ns,
                entries,
                flags,
                txtime_delay_ns,
            } => {
                let mut list = Writer::default();
                for (index, entry) in entries.iter().enumerate() {
                    const SET_GATES: u8 = 0;
                    let one = Writer::default()
                        .u32(1, u32::try_from(index).unwrap_or(u32::MAX))
                        .u8(2, SET_GATES)
                        .u32(3, entry.gates)
                        .u32(4, entry.duration_ns);
                    list = list.nested(1, one);
                }
                let mut whole = Writer::default()
                    .bytes(1, &classes.encode())
                    .bytes(3, &base_time_ns.to_ne_bytes())
                    .nested(2, list)
                    .bytes(8, &cycle_ns.to_ne_bytes());
                if *flags != 0 {
                    whole = whole.u32(10, *flags);
                }
                // In hardware the interface's own clock applies, and none may be named.
                if *flags & FULL_OFFLOAD == 0 {
                    whole = whole.bytes(5, &CLOCK_TAI.to_ne_bytes());
                }
                if *txtime_delay_ns > 0 {
                    whole = whole.u32(11, *txtime_delay_ns);
                }
                whole.finish()
            }
            Self::Etf {
                delta_ns,
                deadline,
                offload,
                skip_socket_check,
            } => {
                let flags = u32::from(*deadline)
                    | u32::from(*offload) << 1
                    | u32::from(*skip_socket_check) << 2;
                let body = words(&[
                    delta_ns.to_ne_bytes(),
                    CLOCK_TAI.to_ne_bytes(),
                    flags.to_ne_bytes(),
                ]);
                Writer::default().bytes(1, &body).finish()
            }
            Self::Cbs {
                idle_slope_kbps,
                send_slope_kbps,
                high_credit_bytes,
                low_credit_bytes,
                offload,
            } => {
                let body = words(&[
                    [u8::from(*offload), 0, 0, 0],
                    high_credit_bytes.to_ne_bytes(),
                    low_credit_bytes.to_ne_bytes(),
                    idle_slope_kbps.to_ne_bytes(),
                    send_slope_kbps.to_ne_bytes(),
                ]);
                Writer::default().bytes(1, &body).finish()
            }
            Self::Tbf {
                rate_bytes,
                burst_bytes,
                limit_bytes,
                overhead_bytes,
            } => {
                const BURST: u16 = 6;
                let mut body = rate(*rate_bytes, *overhead_bytes).to_vec();
                body.extend_from_slice(&[0; 12]);
                body.extend(words(&[
                    limit_bytes.to_ne_bytes(),
                    tbf_ticks(*burst_bytes, *rate_bytes, *overhead_bytes).to_ne_bytes(),
                    0_u32.to_ne_bytes(),
                ]));
                Writer::default()
                    .bytes(1, &body)
                    .u32(BURST, *burst_bytes)
                    .finish()
            }
            Self::Htb { default_class } => {
                let body = words(&[
                    3_u32.to_ne_bytes(),
                    10_u32.to_ne_bytes(),
                    default_class.to_ne_bytes(),
                    [0; 4],
                    [0; 4],
                ]);
                Writer::default().bytes(2, &body).finish()
            }
            Self::HtbClass {
                rate_bytes,
                ceil_bytes,
                priority,
                burst_bytes,
                ceil_burst_bytes,
                overhead_bytes,
            } => {
                let mut body = rate(*rate_bytes, *overhead_bytes).to_vec();
                body.extend_from_slice(&rate(*ceil_bytes, *overhead_bytes));
                body.extend(words(&[
                    htb_ticks(*burst_bytes, *rate_bytes).to_ne_bytes(),
                    htb_ticks(*ceil_burst_bytes, *ceil_bytes).to_ne_bytes(),
                    HTB_QUANTUM_BYTES.to_ne_bytes(),
                    [0; 4],
                    priority.to_ne_bytes(),
                ]));
                Writer::default().bytes(1, &body).finish()
            }
            Self::Pfifo { frames } => frames.to_ne_bytes().to_vec(),
            Self::Foreign { .. } => Vec::new(),
        }
    }

    /// Decodes the kernel's report; [`Discipline::Foreign`] for other kinds.
    pub(super) fn decode(kind: &str, class: bool, options: &[u8]) -> Self {
        let known = match (kind, class) {
            ("mqprio", false) => Classes::decode(options).map(|classes| Self::Mqprio { classes }),
            ("taprio", false) => taprio(options),
            ("etf", false) => etf(options),
            ("cbs", false) => cbs(options),
            ("tbf", false) => tbf(options),
            ("htb", false) => find(options, 2).and_then(|init| {
                Some(Self::Htb {
                    default_class: u32_at(init, 8)?,
                })
            }),
            ("htb", true) => htb_class(options),
            ("pfifo", false) => u32_at(options, 0).map(|frames| Self::Pfifo { frames }),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Foreign {
            name: kind.to_owned(),
        })
    }
}

fn taprio(options: &[u8]) -> Option<Discipline> {
    let flags = find(options, 10).and_then(number).unwrap_or(0);
    // A schedule that has not begun yet is the one asked for last.
    let schedule = find(options, 7).unwrap_or(options);
    let entries = each(find(schedule, 2)?)
        .map(|(_, entry)| {
            Some(Gate {
                gates: u32_at(find(entry, 3)?, 0)?,
                duration_ns: u32_at(find(entry, 4)?, 0)?,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Discipline::Taprio {
        classes: Classes::decode(find(options, 1)?)?,
        base_time_ns: i64::from_ne_bytes(find(schedule, 3)?.try_into().ok()?),
        cycle_ns: u64_at(find(schedule, 8)?, 0)?,
        entries,
        flags: u32::try_from(flags).ok()?,
        txtime_delay_ns: find(options, 11)
            .and_then(|value| u32_at(value, 0))
            .unwrap_or(0),
    })
}

fn etf(options: &[u8]) -> Option<Discipline> {
    let body = find(options, 1)?;
    let flags = u32_at(body, 8)?;
    if i32_at(body, 4)? != CLOCK_TAI {
        return None;
    }
    Some(Discipline::Etf {
        delta_ns: u32_at(body, 0)?,
        deadline: flags & 1 != 0,
        offload: flags & 2 != 0,
        skip_socket_check: flags & 4 != 0,
    })
}

fn cbs(options: &[u8]) -> Option<Discipline> {
    let body = find(options, 1)?;
    Some(Discipline::Cbs {
        offload: *body.first()? != 0,
        high_credit_bytes: i32_at(body, 4)?,
        low_credit_bytes: i32_at(body, 8)?,
        idle_slope_kbps: i32_at(body, 12)?,
        send_slope_kbps: i32_at(body, 16)?,
    })
}

fn tbf(options: &[u8]) -> Option<Discipline> {
    let body = find(options, 1)?;
    let rate_bytes = u32_at(body, 8)?;
    let overhead_bytes = u8::try_from(u16_at(body, 2)?).ok()?;
    Some(Discipline::Tbf {
        rate_bytes,
        burst_bytes: tbf_bytes(u32_at(body, 28)?, rate_bytes, overhead_bytes),
        limit_bytes: u32_at(body, 24)?,
        overhead_bytes,
    })
}

fn htb_class(options: &[u8]) -> Option<Discipline> {
    let body = find_path(options, &[1])?;
    let (rate_bytes, ceil_bytes) = (u32_at(body, 8)?, u32_at(body, 20)?);
    Some(Discipline::HtbClass {
        rate_bytes,
        overhead_bytes: u8::try_from(u16_at(body, 2)?).ok()?,
        ceil_bytes,
        burst_bytes: htb_bytes(u32_at(body, 24)?, rate_bytes),
        ceil_burst_bytes: htb_bytes(u32_at(body, 28)?, ceil_bytes),
        priority: u32_at(body, 40)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::burst::tbf_whole;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers in prop::array::uniform8(0..u32::MAX / 64),
            entries in prop::collection::vec((any::<u32>(), any::<u32>()), 0..20),
            base in any::<i64>(),
            bits in any::<u8>(),
        ) {
            let [a, b, c, d, e, f, ..] = numbers;
            let classes = Classes { map: [bits & 7; 16], queues: vec![(1, 2), (0, 1)] };
            let small = |n: u32| i32::try_from(n).unwrap();
            // Rates at which ticks are not whole.
            let (rate, ceil) = (a.max(1_000), b.max(1_000));
            let (burst, ceil_burst) = (1 + c % 100_000, 1 + d % 100_000);
            for one in [
                Discipline::Mqprio { classes: classes.clone() },
                Discipline::Taprio {
                    classes,
                    base_time_ns: base,
                    cycle_ns: u64::from(a),
                    entries: entries.into_iter().map(|(gates, duration_ns)| Gate { gates, duration_ns }).collect(),
                    flags: u32::from(bits % 3),
                    txtime_delay_ns: b,
                },
                Discipline::Etf { delta_ns: a, deadline: bits & 1 != 0, offload: bits & 2 != 0, skip_socket_check: bits & 4 != 0 },
                Discipline::Cbs {
                    idle_slope_kbps: small(a), send_slope_kbps: -small(b),
                    high_credit_bytes: small(c), low_credit_bytes: -small(d), offload: bits & 1 != 0,
                },
                Discipline::Tbf { rate_bytes: rate, burst_bytes: tbf_whole(burst, rate, bits), limit_bytes: c, overhead_bytes: bits },
                Discipline::Htb { default_class: a },
                Discipline::Pfifo { frames: a },
            ] {
                prop_assert_eq!(Discipline::decode(one.kind(), false, &one.encode()), one);
            }
            let class = Discipline::HtbClass {
                rate_bytes: rate, ceil_bytes: ceil, priority: e,
                burst_bytes: htb_bytes(htb_ticks(burst, rate), rate), ceil_burst_bytes: htb_bytes(htb_ticks(ceil_burst, ceil), ceil),
                overhead_bytes: u8::try_from(f % 255).unwrap(),
            };
            prop_assert_eq!(Discipline::decode("htb", true, &class.encode()), class);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            for kind in ["mqprio", "taprio", "etf", "cbs", "tbf", "htb", "pfifo", "other"] {
                let _ = Discipline::decode(kind, false, &bytes);
                let _ = Discipline::decode(kind, true, &bytes);
            }
        }
    }
}

//! The recovery of a redundant stream at its listener (IEEE Std 802.1CB-2017, 7.4.3): promise, history, timer, buffer.
//!
//! ```text
//! lag      = largest latest arrival by one way - earliest arrival by the other     of frames sent together
//! N        = most frames that the contract lets out within the lag
//! history  = N + 1         reset > lag         frames that wait for an earlier one: N - 1
//! ```
//!
//! Derivation and proof: docs/bounds.md, "Recovery of redundant streams".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::graph::Flow;
use crate::mapping::Mapped;
use crate::network::{ContractKind, Network, Stream};
use crate::plan::Plan;
use crate::refusal::{Reason, RecoveredLimit};
use rtwire_describe::ratio::{Overflow, Ratio};

/// The largest distance between two sequence numbers of 16 bits whose order is clear.
pub const MOST_APART: u64 = (1 << 15) - 1;
/// The shortest history that the vector recovery algorithm can work with: the number that came last and the next one.
const LEAST_HISTORY: u32 = 2;
/// The longest tick of the recovery function's timer, milliseconds: a hundred in each second.
pub const TICK_MS: u64 = 10;

/// The sequence recovery function that a redundant stream's listener needs, and the promise behind it.
///
/// All of it holds as long as each frame arrives by at least one of the two ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// The listener.
    pub listener: String,
    /// The delays by each way: of the stream itself, and of its second copy.
    pub ways: [RecoveryWay; 2],
    /// The promise of the recovered stream, whichever way is broken, nanoseconds.
    pub delay_ns: u64,
    /// The largest difference between the delays of two of its frames, one before and one behind a break, nanoseconds.
    pub jitter_ns: u64,
    /// The deadline that the promise was compared with, nanoseconds.
    pub deadline_ns: Option<u64>,
    /// The largest time from the arrival of one copy by one way to the arrival of a copy of a frame that was sent no later
    /// by the other way, nanoseconds.
    pub lag_ns: u64,
    /// The least history of the vector recovery algorithm (frerSeqRcvyHistoryLength), sequence numbers.
    pub history_length: u32,
    /// The least time without a frame after which the function starts anew (frerSeqRcvyResetMSec), milliseconds.
    pub reset_ms: u64,
    /// The silence of a talker after which no frame of its new sequence numbers is lost, with that reset time, nanoseconds.
    pub restart_silence_ns: u64,
    /// True if the match recovery algorithm, which remembers one number, does as well.
    pub match_suffices: bool,
    /// The most frames that wait for an earlier one where frames are handed over in order. None is later than `delay_ns`.
    pub resequencing_frames: u64,
    /// The most bytes of such frames, header and payload.
    pub resequencing_bytes: u64,
}

/// The delay of frames by one of two ways, from the instant at which the first of both copies is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoveryWay {
    /// The stream of the plan that takes this way.
    pub stream: String,
    /// The largest delay, nanoseconds.
    pub delay_ns: u64,
    /// The least delay, nanoseconds, rounded down.
    pub least_delay_ns: u64,
}

/// The arrivals by one way, on the nominal time at which a frame is sent, nanoseconds.
struct Arrival {
    earliest: i128,
    latest: i128,
}

/// Enters the recovery of each redundant stream into a plan whose promises are known. Returns what speaks against it.
pub(crate) fn enter(
    network: &Network,
    mapped: &Mapped,
    plan: &mut Plan,
) -> Result<Vec<Reason>, Overflow> {
    let mut reasons = Vec::new();
    for second in 0..network.streams.len() {
        let Some(name) = &network.streams[second].copy_of else {
            continue;
        };
        let mut streams = network.streams.iter();
        let Some(first) = streams.position(|stream| stream.name == *name) else {
            continue;
        };
        match recovery(network, mapped, plan, [first, second])? {
            None => {}
            Some(Err(reason)) => reasons.push(reason),
            Some(Ok(recovery)) => {
                reasons.extend(limits(
                    &network.streams[first],
                    plan,
                    &recovery,
                    [first, second],
                ));
                plan.streams[first].recovery = Some(recovery);
            }
        }
    }
    Ok(reasons)
}

/// Returns the recovery of two copies. `None` if a copy has no promise; a reason if numbers of 16 bits do not suffice.
fn recovery(
    network: &Network,
    mapped: &Mapped,
    plan: &Plan,
    copies: [usize; 2],
) -> Result<Option<Result<Recovery, Reason>>, Overflow> {
    let stream = &network.streams[copies[0]];
    let launched = copies.map(|copy| plan.streams[copy].launch.as_ref());
    let errors = [
        network.schedule.clock_error_ns,
        stream.contract.tick_error_ns,
    ];
    let [clock, tick] = errors.map(i128::from);
    let mut ways = Vec::with_capacity(2);
    let mut arrivals = Vec::with_capacity(2);
    for (at, copy) in copies.into_iter().enumerate() {
        let planned = &plan.streams[copy];
        let Some(promise) = planned.promises.first() else {
            return Ok(None);
        };
        let Some(delay_ns) = promise.delay_ns else {
            return Ok(None);
        };
        let mut least_ns = least_delay_ns(mapped, &network.streams[copy], &promise.route)?;
        if let Some(jitter_ns) = promise.jitter_ns {
            least_ns = least_ns.max(delay_ns.saturating_sub(jitter_ns));
        }
        let least_ns = least_ns.min(delay_ns);
        // Copies that are not launched are handed over together, at their release.
        let (mut early, mut late, mut arrival) = (0, 0, [0, 0]);
        if let (Some(own), Some(other)) = (launched[at], launched[1 - at]) {
            let offsets = [own.offset_ns, other.offset_ns].map(i128::from);
            let after = offsets[0] - offsets[1];
            early = (after - 2 * clock - tick).max(0);
            late = (after + 2 * clock + tick).max(0);
            arrival = [offsets[0] - clock, offsets[0] + clock + tick];
        }
        arrivals.push(Arrival {
            earliest: arrival[0] + i128::from(least_ns),
            latest: arrival[1] + i128::from(delay_ns),
        });
        ways.push(RecoveryWay {
            stream: planned.name.clone(),
            delay_ns: whole(late + i128::from(delay_ns))?,
            least_delay_ns: whole(early + i128::from(least_ns))?,
        });
    }
    let ([one, other], Ok(ways)) = (&arrivals[..], <[RecoveryWay; 2]>::try_from(ways)) else {
        return Ok(None);
    };
    // One of the two is not below zero: their sum is that of both ways' spans.
    let lag = (one.latest - other.earliest).max(other.latest - one.earliest);
    let lag_ns = whole(lag)?;
    let flow = &mapped.graph.flows[copies[0]];
    let within = Within::of(stream, flow, launched[0].map(|launch| launch.period_ns))?;
    let frames = within.frames(Ratio::from_ns(lag_ns))?;
    let listener = stream.listeners.first().cloned().unwrap_or_default();
    if frames > MOST_APART {
        return Ok(Some(Err(Reason::RecoveryNumbers {
            stream: stream.name.clone(),
            listener,
            lag_ns,
            frames,
            most_frames: MOST_APART,
        })));
    }
    let delay_ns = ways[0].delay_ns.max(ways[1].delay_ns);
    let least_ns = ways[0].least_delay_ns.min(ways[1].least_delay_ns);
    let waiting = frames - 1;
    // Above the lag, also where that is a whole number of milliseconds.
    let reset_ms = lag_ns / 1_000_000 + 1 + TICK_MS;
    let silence = (reset_ms + TICK_MS)
        .checked_mul(1_000_000)
        .ok_or(Overflow)?;
    Ok(Some(Ok(Recovery {
        listener,
        delay_ns,
        jitter_ns: delay_ns - least_ns,
        deadline_ns: stream.deadline_ns,
        lag_ns,
        // At most 2^15.
        history_length: (u32::try_from(frames).map_err(|_| Overflow)? + 1).max(LEAST_HISTORY),
        reset_ms,
        restart_silence_ns: silence.checked_add(delay_ns - least_ns).ok_or(Overflow)?,
        match_suffices: frames == 1,
        resequencing_frames: waiting,
        resequencing_bytes: within.bytes(Ratio::from_ns(lag_ns), waiting, stream)?,
        ways,
    })))
}

fn whole(ns: i128) -> Result<u64, Overflow> {
    u64::try_from(ns.max(0)).map_err(|_| Overflow)
}

/// The number of frames that a contract lets out within a time.
enum Within {
    /// One frame in each period, late by up to a jitter: seconds.
    Periodic { period: Ratio, jitter: Ratio },
    /// A line of bits, and the bits that a frame takes of it at least.
    Line {
        burst: Ratio,
        rate: Ratio,
        frame: Ratio,
    },
}

impl Within {
    fn of(stream: &Stream, flow: &Flow, launch_period_ns: Option<u64>) -> Result<Within, Overflow> {
        if let Some(period_ns) = launch_period_ns {
            // The errors of its launch are in the arrivals.
            return Ok(Within::Periodic {
                period: Ratio::from_ns(period_ns.max(1)),
                jitter: Ratio::ZERO,
            });
        }
        if let Some(period) = flow.period {
            return Ok(Within::Periodic {
                period,
                jitter: flow.jitter,
            });
        }
        // An interval counts frames, whatever their size; a rate counts bits.
        let frame = match stream.contract.kind {
            ContractKind::Interval { .. } => flow.frame_max,
            ContractKind::Rate | ContractKind::Declared => flow.frame_min,
        };
        Ok(Within::Line {
            burst: flow.burst,
            rate: flow.rate,
            frame,
        })
    }

    /// Returns the most frames within a closed window of `window` seconds, at least 1.
    fn frames(&self, window: Ratio) -> Result<u64, Overflow> {
        let most = match self {
            Within::Periodic { period, jitter } => window
                .plus(*jitter)?
                .over(*period)?
                .floor()
                .saturating_add(1),
            Within::Line { burst, rate, frame } => {
                // Bits are rounded up to a billionth.
                let sent = rate.times(window)?.tidied_up(1_000_000_000)?;
                burst.plus(sent)?.over(*frame)?.floor()
            }
        };
        u64::try_from(most.max(1)).map_err(|_| Overflow)
    }

    /// Returns the most bytes, header and payload, of `waiting` frames that are sent within `window` seconds with one more.
    fn bytes(&self, window: Ratio, waiting: u64, stream: &Stream) -> Result<u64, Overflow> {
        let all = waiting.checked_mul(stream.frame_bytes).ok_or(Overflow)?;
        let Within::Line { burst, rate, frame } = self else {
            return Ok(all);
        };
        // Large frames use up the bits sooner than small ones.
        let sent = rate.times(window)?.tidied_up(1_000_000_000)?;
        let bits = burst.plus(sent)?.minus(*frame)?;
        Ok(all.min(whole(bits.over(Ratio::whole(8))?.floor())?))
    }
}

/// Returns the least delay of a frame on a route, nanoseconds, rounded down: at each port D_min of docs/bounds.md, and the
/// cables.
fn least_delay_ns(mapped: &Mapped, stream: &Stream, route: &[String]) -> Result<u64, Overflow> {
    let frame = stream.smallest_wire_bits();
    let mut least = Ratio::ZERO;
    let mut before = None;
    for pair in route.windows(2) {
        let [from, to] = pair else { continue };
        let Some(index) = mapped.port(from, to) else {
            continue;
        };
        let server = &mapped.graph.servers[index];
        let mut inputs = server.inputs.iter();
        let input = inputs.find(|input| Some(input.from) == before);
        let latency = input.map_or(server.latency_min, |input| input.latency_min);
        let needed = input.and_then(|input| input.header);
        let sent = needed.map_or(frame, |header| header.min(frame));
        // A port that catches up may hand frames over faster than its rate.
        if !server.catches_up {
            let passes = latency.plus(sent.over(server.rate)?)?;
            least = least.plus(passes.tidied_down(1_000_000_000_000)?)?;
        }
        least = least.plus(Ratio::from_ns(mapped.ports[index].cable_ns))?;
        before = Some(index);
    }
    least.floor_ns()
}

/// Returns the limits of a stream that its recovered frames exceed although those of each way do not.
fn limits(stream: &Stream, plan: &Plan, recovery: &Recovery, copies: [usize; 2]) -> Vec<Reason> {
    let over = |what: RecoveredLimit, value_ns: u64, limit_ns: Option<u64>| {
        let limit_ns = limit_ns.filter(|limit| value_ns > *limit)?;
        Some(Reason::Recovered {
            stream: stream.name.clone(),
            listener: recovery.listener.clone(),
            what,
            value_ns,
            limit_ns,
            excess_ns: value_ns - limit_ns,
        })
    };
    let promises = copies.map(|copy| plan.streams[copy].promises.first());
    let late = promises
        .into_iter()
        .flatten()
        .any(|promise| promise.delay_ns > promise.deadline_ns && promise.deadline_ns.is_some());
    let deadline = (!late)
        .then(|| {
            over(
                RecoveredLimit::Deadline,
                recovery.delay_ns,
                recovery.deadline_ns,
            )
        })
        .flatten();
    let jitter = over(RecoveredLimit::Jitter, recovery.jitter_ns, stream.jitter_ns);
    deadline.into_iter().chain(jitter).collect()
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;

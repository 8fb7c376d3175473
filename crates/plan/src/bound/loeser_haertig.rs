//! The closed form for one output port of a switch.
//!
//! Source: J. Löser, H. Härtig, "Low-latency Hard Real-Time Communication over Switched Ethernet" (ECRTS 2004), as
//! restated in `docs/bounds.md`.
//!
//! Each input `k` is a link of the port's own rate `C`. Its streams together obey `b_k + r_k t`, in frames of at most
//! `M`. The port serves `C (t - t_mux)+` in order of arrival. With `g_k = (b_k - M) / (C - r_k)`:
//!
//! ```text
//! D       = sum b_k / C - g_max (1 - sum r_k / C) + t_mux
//! B_paper = sum b_k - g_max (C - sum r_k) + C t_mux
//! B_exact = sum b_k - max(g_max, t_mux) (C - sum r_k) + C t_mux
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use rtwire_describe::ratio::{Overflow, Ratio, sum};

/// The sum of the streams behind one input link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// r_k, bit/s.
    pub rate: Ratio,
    /// b_k, bits.
    pub burst: Ratio,
}

/// The kind of result of the closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Bounded, and within the buffer if one was stated.
    Ok,
    /// Invalid: an input's burst is less than one frame. No such contract exists.
    Invalid,
    /// Unbounded: the rates reach the link's rate.
    Unbounded,
    /// Bounded, but needs a larger buffer.
    Reject,
}

/// The outcome of the closed form. Fractions are exact; times are in seconds, data in bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Flat")]
pub struct ClosedForm {
    /// The kind of result.
    pub status: Status,
    /// The reason if `status` is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The numbers, if bounded.
    #[serde(flatten)]
    pub values: Option<Values>,
}

/// The numbers of [`ClosedForm`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Values {
    /// The time at which the last input leaves its burst, seconds.
    pub g_max_s: Ratio,
    /// Largest delay through the port, seconds.
    pub delay_s: Ratio,
    /// Largest delay through the port in nanoseconds, rounded up.
    pub delay_ns: u64,
    /// Largest backlog by the paper's formula, bits.
    pub buffer_bits_paper: Ratio,
    /// Largest backlog, exact, bits (smaller where g_max < t_mux).
    pub buffer_bits_exact: Ratio,
    /// The paper's backlog in bytes, rounded up; 0 without inputs.
    pub buffer_bytes: u64,
    /// The paper's backlog in frames of 1514 bytes, rounded up.
    pub buffer_frames: u64,
}

/// The outcome of the closed form in its written form: one object, with all of its numbers or none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClosedForm")]
struct Flat {
    /// The kind of result.
    status: Status,
    /// The reason if `status` is not `ok`.
    why: Option<String>,
    /// The time at which the last input leaves its burst, seconds.
    g_max_s: Option<Ratio>,
    /// Largest delay through the port, seconds.
    delay_s: Option<Ratio>,
    /// Largest delay through the port in nanoseconds, rounded up.
    delay_ns: Option<u64>,
    /// Largest backlog by the paper's formula, bits.
    buffer_bits_paper: Option<Ratio>,
    /// Largest backlog, exact, bits.
    buffer_bits_exact: Option<Ratio>,
    /// The paper's backlog in bytes, rounded up.
    buffer_bytes: Option<u64>,
    /// The paper's backlog in frames of 1514 bytes, rounded up.
    buffer_frames: Option<u64>,
}

impl TryFrom<Flat> for ClosedForm {
    type Error = &'static str;

    fn try_from(flat: Flat) -> Result<ClosedForm, &'static str> {
        let values = || {
            Some(Values {
                g_max_s: flat.g_max_s?,
                delay_s: flat.delay_s?,
                delay_ns: flat.delay_ns?,
                buffer_bits_paper: flat.buffer_bits_paper?,
                buffer_bits_exact: flat.buffer_bits_exact?,
                buffer_bytes: flat.buffer_bytes?,
                buffer_frames: flat.buffer_frames?,
            })
        };
        let any = flat.g_max_s.or(flat.delay_s).is_some()
            || flat.buffer_bits_paper.or(flat.buffer_bits_exact).is_some()
            || flat
                .delay_ns
                .or(flat.buffer_bytes)
                .or(flat.buffer_frames)
                .is_some();
        let values = values();
        if any && values.is_none() {
            return Err("the closed form lacks some of its numbers");
        }
        Ok(ClosedForm {
            status: flat.status,
            why: flat.why,
            values,
        })
    }
}

impl Values {
    /// Returns the largest delay in nanoseconds, rounded up, where each frame has its own latency, up to `variation`
    /// seconds less than t_mux. `load` is the sum of the rates over C.
    ///
    /// Input k then brings at most min(M + C (t + V), b_k + r_k (t + V)) to the queue, so that it has spent its burst at
    /// g_k - V or, if that is before zero, at once. Memory is taken from a frame's arrival on and does not change.
    ///
    /// # Errors
    /// [`Overflow`] if the exact fractions leave 128 bits.
    pub fn varying_delay_ns(&self, variation: Ratio, load: Ratio) -> Result<u64, Overflow> {
        let sooner = self.g_max_s.min(variation);
        let more = variation.times(load)?;
        let more = more.plus(sooner.times(Ratio::ONE.minus(load)?)?)?;
        self.delay_s.plus(more)?.ceil_ns()
    }
}

/// Size of the frames in which the buffer is counted, bytes: the largest untagged frame without FCS.
const COUNTING_FRAME_BYTES: u64 = 1514;

/// Evaluates the closed form.
///
/// `rate` is C in bit/s, `frame` is M in bits, `latency` is t_mux in seconds. `buffer_bytes` is the port's limit, if
/// it has one.
///
/// # Errors
/// [`Overflow`] if the exact fractions leave 128 bits.
pub fn closed_form(
    rate: Ratio,
    frame: Ratio,
    latency: Ratio,
    inputs: &[Input],
    buffer_bytes: Option<u64>,
) -> Result<ClosedForm, Overflow> {
    let without_value = |status, why: &str| ClosedForm {
        status,
        why: Some(why.to_owned()),
        values: None,
    };
    if inputs.iter().any(|input| input.burst < frame) {
        return Ok(without_value(Status::Invalid, "b<M"));
    }
    if inputs.iter().any(|input| input.rate >= rate) {
        return Ok(without_value(Status::Unbounded, "r_k>=C"));
    }
    let rates = sum(inputs.iter().map(|input| input.rate))?;
    if rates >= rate {
        return Ok(without_value(Status::Unbounded, "sum r>=C"));
    }
    let bursts = sum(inputs.iter().map(|input| input.burst))?;
    let mut g_max = Ratio::ZERO;
    for input in inputs {
        g_max = g_max.max(input.burst.minus(frame)?.over(rate.minus(input.rate)?)?);
    }
    let left = rate.minus(rates)?;
    let stored = rate.times(latency)?;
    let fluid = bursts.minus(g_max.times(left)?)?;
    let delay_s = fluid.over(rate)?.plus(latency)?;
    let buffer_bits_paper = fluid.plus(stored)?;
    let buffer_bits_exact = if inputs.is_empty() {
        Ratio::ZERO
    } else {
        bursts
            .minus(g_max.max(latency).times(left)?)?
            .plus(stored)?
    };
    let buffer_bytes_needed = if inputs.is_empty() {
        0
    } else {
        u64::try_from(buffer_bits_paper.over(Ratio::whole(8))?.ceil()).map_err(|_| Overflow)?
    };
    let over = buffer_bytes.is_some_and(|limit| buffer_bytes_needed > limit);
    Ok(ClosedForm {
        status: if over { Status::Reject } else { Status::Ok },
        why: over.then(|| "buffer".to_owned()),
        values: Some(Values {
            g_max_s: g_max,
            delay_s,
            delay_ns: delay_s.ceil_ns()?,
            buffer_bits_paper,
            buffer_bits_exact,
            buffer_bytes: buffer_bytes_needed,
            buffer_frames: buffer_bytes_needed.div_ceil(COUNTING_FRAME_BYTES),
        }),
    })
}

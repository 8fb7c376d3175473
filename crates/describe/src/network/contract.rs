//! The limit that a stream's talker keeps: a burst and a rate on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ratio::{Overflow, Ratio};

/// The form of a talker's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ContractKind {
    /// One frame in each interval, or `frames` of them: burst n M + r J at r = n M / interval.
    Interval {
        /// The interval, nanoseconds.
        interval_ns: u64,
        /// The number of frames n in each interval.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        frames: u32,
    },
    /// A rate, shaped in steps: burst r (T_s + J) + M.
    Rate,
    /// A rate and a burst stated as such.
    Declared,
}

const fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_one(frames: &u32) -> bool {
    *frames == 1
}

impl ContractKind {
    /// Returns the kind of a talker that sends one frame in each interval.
    #[must_use]
    pub const fn each(interval_ns: u64) -> ContractKind {
        ContractKind::Interval {
            interval_ns,
            frames: 1,
        }
    }

    /// Returns the number of frames that its talker sends in each interval; 1 without an interval.
    #[must_use]
    pub const fn frames(&self) -> u32 {
        match self {
            ContractKind::Interval { frames, .. } => *frames,
            ContractKind::Rate | ContractKind::Declared => 1,
        }
    }
}

/// The arrival contract `burst + rate t` of a stream, counted on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Exact rate on the wire, bit/s.
    pub rate: Ratio,
    /// Exact burst on the wire, bits.
    pub burst: Ratio,
    /// The burst rounded up to whole bits.
    pub burst_bits: u64,
    /// T_s, nanoseconds.
    pub shaping_interval_ns: u64,
    /// J, nanoseconds.
    pub tick_error_ns: u64,
    /// The origin of burst and rate.
    pub kind: ContractKind,
}

impl Contract {
    /// Returns a contract of `rate` bit/s on the wire in frames of `wire_bytes`. `declared` is used for
    /// [`ContractKind::Declared`] only.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn new(
        rate: Ratio,
        wire_bytes: u64,
        shaping_interval_ns: u64,
        tick_error_ns: u64,
        kind: ContractKind,
        declared: Ratio,
    ) -> Result<Contract, Overflow> {
        let frame = Ratio::whole(i128::from(wire_bytes) * 8);
        let waits = match kind {
            ContractKind::Interval { .. } => Ratio::from_ns(tick_error_ns),
            ContractKind::Rate => {
                Ratio::from_ns(shaping_interval_ns).plus(Ratio::from_ns(tick_error_ns))?
            }
            ContractKind::Declared => Ratio::ZERO,
        };
        let burst = if kind == ContractKind::Declared {
            declared
        } else {
            let together = frame.times(Ratio::whole(kind.frames().into()))?;
            rate.times(waits)?.plus(together)?
        };
        let burst_bits = u64::try_from(burst.ceil()).map_err(|_| Overflow)?;
        Ok(Contract {
            rate,
            burst,
            burst_bits,
            shaping_interval_ns,
            tick_error_ns,
            kind,
        })
    }
}

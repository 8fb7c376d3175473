//! The place that took timestamps, and the clock that they are of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::duration;

/// The place that stamped frames. The nearer to the wire, the less of what delays a program is in the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StampedBy {
    /// The network card, on the wire.
    Card,
    /// The kernel: where it takes a frame over from the driver, or puts it into the queue.
    Kernel,
}

/// Place and clock of timestamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StampOrigin {
    /// The place.
    pub place: StampedBy,
    /// The clock of the place: `CLOCK_REALTIME`, or a card's, such as `PHC 0 (/dev/ptp0)`.
    pub clock: String,
    /// Largest error of converting a time of that clock to the host's, ns; null if it is the host's clock.
    pub conversion_ns: Option<u64>,
    /// Rate of that clock minus the host's, in parts per billion; null if it is the host's clock, or not known.
    pub rate_ppb: Option<i64>,
}

impl StampOrigin {
    /// Returns the origin of the kernel's stamps.
    #[must_use]
    pub fn kernel() -> Self {
        Self {
            place: StampedBy::Kernel,
            clock: "CLOCK_REALTIME".to_owned(),
            conversion_ns: None,
            rate_ppb: None,
        }
    }

    /// Returns the origin of the stamps of a card with the clock `/dev/ptpN`.
    #[must_use]
    pub fn card(clock: u32, conversion_ns: u64, rate_ppb: Option<i64>) -> Self {
        Self {
            place: StampedBy::Card,
            clock: format!("PHC {clock} (/dev/ptp{clock})"),
            conversion_ns: Some(conversion_ns),
            rate_ppb,
        }
    }
}

impl fmt::Display for StampOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            StampedBy::Card => "card",
            StampedBy::Kernel => "kernel",
        };
        write!(f, "by the {place}, clock {}", self.clock)?;
        if let Some(error) = self.conversion_ns {
            write!(f, ", known to {} against this host's", duration(error))?;
        }
        match self.rate_ppb {
            None => Ok(()),
            Some(rate) => write!(
                f,
                ", {}.{:03} ppm {}",
                rate.unsigned_abs() / 1_000,
                rate.unsigned_abs() % 1_000,
                if rate < 0 { "slower" } else { "faster" }
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_place_and_clock() {
        assert_eq!(
            StampOrigin::kernel().to_string(),
            "by the kernel, clock CLOCK_REALTIME"
        );
        assert_eq!(
            StampOrigin::card(2, 350, Some(-12_034)).to_string(),
            "by the card, clock PHC 2 (/dev/ptp2), known to 350 ns against this host's, 12.034 ppm slower"
        );
    }
}

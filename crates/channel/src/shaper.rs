//! Times at which frames may be sent: a token bucket released on the ticks of a timer, in exact integers. It has no
//! I/O and no clock of its own.
//!
//! A sender that keeps to its shaper sends at most `b + r·t` bits on the wire in any interval of length t. Let its
//! ticks come every `T_s` and at most `J` late. With the depth `b = r·(T_s + J) + M` a sender that always has data
//! reaches the full rate `r`. Between two ticks at most `T_s + J` pass, and less than `M` was left over before. So the
//! bucket never overflows and no token is lost. (With `b = r·T_s` some would be lost at every late tick.)
//!
//! ```
//! use rtwire_channel::{Shaper, ShaperConfig};
//!
//! let config = ShaperConfig::contract((30_000_000, 1), 1_000_000, 50_000, 1538 * 8);
//! let mut shaper = Shaper::new(config);
//! let now = 7_000_000;
//! while shaper.take(now, 1538 * 8).is_ok() { /* send a frame */ }
//! let next_tick = shaper.earliest(now, 1538 * 8).unwrap();
//! assert_eq!(next_tick, 8_000_000);
//! ```

/// ns in a second.
const SECOND: u128 = 1_000_000_000;

/// Limits that a shaper enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperConfig {
    /// Rate in bit/s on the wire, as an exact ratio; neither number may be 0.
    pub rate: (u64, u64),
    /// Depth of the bucket in bits on the wire, as an exact ratio with the denominator `rate.1 · 10⁹`.
    pub burst_scaled: u128,
    /// T_s: time between two ticks, in ns; at least 1.
    pub interval_ns: u64,
    /// J: the latest observation of a tick that still counts as this tick, in ns after it.
    pub tick_error_ns: u64,
    /// A time at which a tick falls, in ns of the clock that is used for `now_ns`.
    pub epoch_ns: u64,
}

impl ShaperConfig {
    /// Returns the contract `r·(t + T_s + J) + M`, whose depth is exactly `r·(T_s + J) + M`. `frame_bits` is M, the
    /// length of the longest frame on the wire in bits.
    #[must_use]
    pub const fn contract(
        rate: (u64, u64),
        interval_ns: u64,
        tick_error_ns: u64,
        frame_bits: u64,
    ) -> Self {
        let waited = interval_ns as u128 + tick_error_ns as u128;
        let refill = (rate.0 as u128).saturating_mul(waited);
        let frame = (frame_bits as u128 * SECOND).saturating_mul(rate.1 as u128);
        Self {
            rate,
            burst_scaled: refill.saturating_add(frame),
            interval_ns,
            tick_error_ns,
            epoch_ns: 0,
        }
    }

    /// Returns limits with a bucket of `burst_bits`, which must be at least the longest frame.
    #[must_use]
    pub const fn with_burst(
        rate: (u64, u64),
        burst_bits: u64,
        interval_ns: u64,
        tick_error_ns: u64,
    ) -> Self {
        Self {
            rate,
            burst_scaled: (burst_bits as u128 * SECOND).saturating_mul(rate.1 as u128),
            interval_ns,
            tick_error_ns,
            epoch_ns: 0,
        }
    }
}

/// A frame that may not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotYet {
    /// The tick at which it may be sent; `None` if it is longer than the bucket is deep and may never be sent.
    pub earliest_ns: Option<u64>,
}

/// The token bucket. Times are in ns of any one clock that does not go back. If it does, the sender waits until the clock has
/// caught up, unless [`Shaper::clock_was_set_back`] is called.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// `None` lets every frame through.
    config: Option<ShaperConfig>,
    /// Tokens at `last_ns`, in bits times `rate.1 · 10⁹`: a refill of one ns is then the whole number `rate.0`.
    tokens: u128,
    last_ns: u64,
}

impl Shaper {
    /// Creates a full bucket.
    #[must_use]
    pub const fn new(config: ShaperConfig) -> Self {
        Self {
            config: Some(config),
            tokens: config.burst_scaled,
            last_ns: 0,
        }
    }

    /// Creates a shaper that lets every frame through at once: for streams without a contract, and to show the
    /// effect.
    #[must_use]
    pub const fn unshaped() -> Self {
        Self {
            config: None,
            tokens: 0,
            last_ns: 0,
        }
    }

    fn tokens_at(&self, config: &ShaperConfig, now_ns: u64) -> u128 {
        let passed = u128::from(now_ns.saturating_sub(self.last_ns));
        let refill = passed.saturating_mul(u128::from(config.rate.0));
        self.tokens.saturating_add(refill).min(config.burst_scaled)
    }

    /// Returns the earliest time in ns, at or after `now_ns`, at which a frame of `wire_bits` may be sent. That is
    /// now if there are enough tokens and a tick was at most J ago, else a tick. Returns `None` if the frame is
    /// longer than the bucket is deep.
    #[must_use]
    pub fn earliest(&self, now_ns: u64, wire_bits: u64) -> Option<u64> {
        let Some(config) = &self.config else {
            return Some(now_ns);
        };
        let need = scaled(config, wire_bits);
        if need > config.burst_scaled {
            return None;
        }
        let interval = config.interval_ns.max(1);
        // The ticks extend to times before the epoch as well.
        let phase = config.epoch_ns % interval;
        let since_tick = (now_ns % interval + interval - phase) % interval;
        let missing = need.saturating_sub(self.tokens_at(config, now_ns));
        if missing == 0 && since_tick <= config.tick_error_ns {
            return Some(now_ns);
        }
        let wait = u64::try_from(missing.div_ceil(u128::from(config.rate.0.max(1)))).ok()?;
        // If the clock went back, missing tokens accrue only after `last_ns`.
        let base = if missing == 0 {
            now_ns
        } else {
            now_ns.max(self.last_ns)
        };
        let enough = base.checked_add(wait)?;
        let past = (enough % interval + interval - phase) % interval;
        if past == 0 {
            Some(enough)
        } else {
            enough.checked_add(interval - past)
        }
    }

    /// Tells that the clock was set back, and that it is `now_ns` now. The tokens stay as they were after the newest frame.
    ///
    /// Tokens that came since that frame are lost, so that no frame leaves too early because of the set clock.
    pub fn clock_was_set_back(&mut self, now_ns: u64) {
        self.last_ns = self.last_ns.min(now_ns);
    }

    /// Takes the tokens for a frame of `wire_bits` that is sent at `now_ns`. It checks only the tokens: a sender that
    /// was woken very late may still send what its contract allows by then.
    ///
    /// # Errors
    /// [`NotYet`], with the tick to wait for; no tokens were taken.
    pub fn take(&mut self, now_ns: u64, wire_bits: u64) -> Result<(), NotYet> {
        let Some(config) = &self.config else {
            return Ok(());
        };
        let tokens = self.tokens_at(config, now_ns);
        let need = scaled(config, wire_bits);
        if need > tokens {
            return Err(NotYet {
                earliest_ns: self.earliest(now_ns, wire_bits),
            });
        }
        self.tokens = tokens - need;
        self.last_ns = self.last_ns.max(now_ns);
        Ok(())
    }
}

const fn scaled(config: &ShaperConfig, bits: u64) -> u128 {
    (bits as u128 * SECOND).saturating_mul(config.rate.1 as u128)
}

/// Measures the contract that a stream has kept: the least depth `b` for which all its frames conform to `b + r·t`.
#[derive(Clone, Debug)]
pub struct ContractMeter {
    rate: (u64, u64),
    /// Fill level of a bucket that leaks at the rate, after the newest frame; scaled as in [`Shaper`].
    level: u128,
    worst: u128,
    last_ns: Option<u64>,
}

impl ContractMeter {
    /// Creates a meter for a rate in bit/s on the wire, given as an exact ratio.
    #[must_use]
    pub const fn new(rate: (u64, u64)) -> Self {
        Self {
            rate,
            level: 0,
            worst: 0,
            last_ns: None,
        }
    }

    /// Records a frame of `wire_bits` at `time_ns`. Times must not go back; an earlier one counts as the newest so
    /// far.
    pub fn observe(&mut self, time_ns: u64, wire_bits: u64) {
        let last = self.last_ns.unwrap_or(time_ns);
        let passed = u128::from(time_ns.saturating_sub(last));
        let leaked = passed.saturating_mul(u128::from(self.rate.0));
        let added = (u128::from(wire_bits) * SECOND).saturating_mul(u128::from(self.rate.1));
        self.level = self.level.saturating_sub(leaked).saturating_add(added);
        self.worst = self.worst.max(self.level);
        self.last_ns = Some(last.max(time_ns));
    }

    /// Returns the least depth that all frames so far conform to, in bits, rounded up.
    #[must_use]
    pub fn burst_bits(&self) -> u64 {
        let unit = SECOND * u128::from(self.rate.1.max(1));
        u64::try_from(self.worst.div_ceil(unit)).unwrap_or(u64::MAX)
    }

    /// Returns the time in ns, rounded up, by which the stream's sender was too early at worst. It is the time in which
    /// the rate makes up for the bits beyond `config`'s depth. Returns 0 if all frames conform.
    #[must_use]
    pub fn excess_ns(&self, config: &ShaperConfig) -> u64 {
        let excess = self.worst.saturating_sub(config.burst_scaled);
        u64::try_from(excess.div_ceil(u128::from(self.rate.0.max(1)))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[path = "shaper_tests.rs"]
mod tests;

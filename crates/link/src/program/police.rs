//! Policing: frames beyond their contract are dropped before they cost more.

use super::layout::{Action, Channel};
use super::{ChannelCounters, OpenChannel, ProgramError, ReceiveProgram};
use rtwire_wire::{FRAME_OVERHEAD_OCTETS, MINIMUM_FRAME_OCTETS};

/// A contract, counted on the wire: at most `burst_bits + rate_bps · t` bits in any time t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Police {
    /// Rate in bit/s, at least 1.
    pub rate_bps: u64,
    /// Burst in bits. It must be at least one frame, or no frame of that length will ever pass.
    pub burst_bits: u64,
    /// Bytes that a frame costs on the wire beyond its own.
    pub overhead_octets: u16,
}

impl Police {
    /// Returns a contract for frames that cost 24 bytes more than their own (preamble, check sequence, gap).
    #[must_use]
    pub const fn new(rate_bps: u64, burst_bits: u64) -> Self {
        Self {
            rate_bps,
            burst_bits,
            overhead_octets: FRAME_OVERHEAD_OCTETS as u16,
        }
    }

    const fn impossible(&self) -> ProgramError {
        ProgramError::Contract {
            rate_bps: self.rate_bps,
            burst_bits: self.burst_bits,
        }
    }

    /// Returns the time of one byte in ns times 2^16, rounded down, and the time of the burst in ns times 2^8,
    /// rounded up. Both are rounded in the sender's favour.
    fn terms(&self) -> Option<(u64, u64)> {
        const SECOND_NS: u128 = 1_000_000_000;
        const HOUR: u128 = (3600 * SECOND_NS) << 8;
        let rate = u128::from(self.rate_bps);
        let byte_time = ((8 * SECOND_NS) << 16).checked_div(rate)?;
        let burst = ((u128::from(self.burst_bits) * SECOND_NS) << 8).div_ceil(rate);
        let least = (84 * byte_time) >> 8;
        (byte_time > 0 && burst <= HOUR && burst >= least)
            .then_some((byte_time as u64, burst as u64))
    }
}

/// Policing of a channel without the receive program, with the same arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    byte_time: u64,
    burst: u64,
    overhead: u64,
    /// Time at which the bucket will be full, in ns times 2^8 of the caller's clock.
    until: u128,
}

impl Bucket {
    /// Creates a full bucket.
    ///
    /// # Errors
    /// The contract is not possible.
    pub fn new(police: &Police) -> Result<Self, ProgramError> {
        let (byte_time, burst) = police.terms().ok_or_else(|| police.impossible())?;
        Ok(Self {
            byte_time,
            burst,
            overhead: police.overhead_octets.into(),
            until: 0,
        })
    }

    /// Returns `true` and counts the frame if it is within the contract at `now_ns`. `octets` is its length from the
    /// destination address on, without check sequence. Use any clock that does not go back.
    pub fn conforms(&mut self, octets: usize, now_ns: u64) -> bool {
        let wire = octets.max(MINIMUM_FRAME_OCTETS) as u64 + self.overhead;
        let cost = u128::from((wire * self.byte_time) >> 8);
        let now = u128::from(now_ns) << 8;
        let ahead = self.until.saturating_sub(now);
        let conforms = ahead + cost <= u128::from(self.burst);
        if conforms {
            self.until = now + ahead + cost;
        }
        conforms
    }
}

impl OpenChannel {
    pub(super) fn police(&self, police: Option<&Police>) -> Result<(), ProgramError> {
        let Some(police) = police else {
            self.set(Channel::PoliceByteTime, 0);
            return Ok(());
        };
        let (byte_time, burst) = police.terms().ok_or_else(|| police.impossible())?;
        self.set(Channel::PoliceOverhead, police.overhead_octets.into());
        self.set(Channel::PoliceBurst, burst);
        self.set(Channel::PoliceByteTime, byte_time);
        Ok(())
    }
}

/// A channel that passes its frames to Linux, except those beyond the contract. It closes when it is dropped.
#[derive(Debug)]
pub struct PolicedPort {
    channel: OpenChannel,
}

impl PolicedPort {
    /// Changes the contract.
    ///
    /// # Errors
    /// The contract is not possible.
    pub fn police(&self, police: Option<&Police>) -> Result<(), ProgramError> {
        self.channel.police(police)
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        self.channel.counters()
    }

    /// Returns the time at which the bucket will be full, in ns of the program's clock times 2^8.
    #[cfg(test)]
    pub(super) fn full_at(&self) -> u64 {
        self.channel.get(Channel::PoliceUntil)
    }
}

impl ReceiveProgram {
    /// Polices a port whose frames a packet socket receives (a queue listener, for example), for any key.
    ///
    /// # Errors
    /// The port has a channel of this program, or all channels are in use; the contract is not possible.
    pub fn police(&self, port: u16, police: &Police) -> Result<PolicedPort, ProgramError> {
        let channel = self.open(port, 0, Action::Pass, |_, _| Ok(()))?;
        channel.police(Some(police))?;
        Ok(PolicedPort { channel })
    }
}

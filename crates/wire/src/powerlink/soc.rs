//! Start of cycle.

use super::PowerlinkError;
use super::bytes::{Reader, Writer, bit};

/// A time of the network: seconds and nanoseconds since 1970 (DS 301, 6.1.6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct NetTime {
    /// Whole seconds.
    pub seconds: u32,
    /// Nanoseconds of the second. A sender keeps them below 10⁹; a receiver does not rely on it.
    pub nanoseconds: u32,
}

impl NetTime {
    /// Returns the time `ns` nanoseconds after 1970. Seconds wrap in 2106.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self {
            seconds: (ns / 1_000_000_000) as u32,
            nanoseconds: (ns % 1_000_000_000) as u32,
        }
    }

    /// Returns the nanoseconds since 1970.
    #[must_use]
    pub const fn to_ns(self) -> u64 {
        self.seconds as u64 * 1_000_000_000 + self.nanoseconds as u64
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, PowerlinkError> {
        Ok(Self {
            seconds: reader.u32()?,
            nanoseconds: reader.u32()?,
        })
    }

    pub(super) fn emit(self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        writer.u32(self.seconds)?;
        writer.u32(self.nanoseconds)
    }
}

/// Start of cycle (DS 301, 4.6.1.1.2): 36 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Soc {
    /// MC: the multiplexed cycle has ended; toggles.
    pub multiplexed_cycle_completed: bool,
    /// PS: a prescaled cycle begins; toggles.
    pub prescaled_slot: bool,
    /// The beginning of the cycle by the managing node's clock; 0 if unknown.
    pub net_time: NetTime,
    /// The time since the managing node's start, µs, in whole cycles; 0 if unknown.
    pub relative_time_us: u64,
}

pub(super) const MC: u8 = 0x80;
pub(super) const PS: u8 = 0x40;

impl Soc {
    pub(super) fn parse(mut reader: Reader<'_>) -> Result<Self, PowerlinkError> {
        reader.skip(1)?;
        let flags = reader.u8()?;
        reader.skip(1)?;
        Ok(Self {
            multiplexed_cycle_completed: flags & MC != 0,
            prescaled_slot: flags & PS != 0,
            net_time: NetTime::parse(&mut reader)?,
            relative_time_us: reader.u64()?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), PowerlinkError> {
        let flags = bit(self.multiplexed_cycle_completed, MC) | bit(self.prescaled_slot, PS);
        writer.put(&[0, flags, 0])?;
        self.net_time.emit(writer)?;
        writer.u64(self.relative_time_us)
    }
}

//! The clock of a network card (PHC, `/dev/ptpN`), read beside the system's.
//!
//! ```text
//!   PTP_SYS_OFFSET_PRECISE   card and processor capture one moment (few cards)
//!   PTP_SYS_OFFSET_EXTENDED  system, card, system: only the card's register is between (most)
//!   clock_gettime            system, card, system: the whole system call is between (all)
//! ```

use crate::clock::{self, Clock, time_ns};
use crate::error::{Errno, Error, Result};
use std::fs::File;
use std::os::fd::AsRawFd;

/// Number of readings in one request, of which the best counts.
const SAMPLES: usize = 5;
/// Largest number of readings that the kernel takes in one request (`PTP_MAX_SAMPLES`).
const SAMPLES_MOST: usize = 25;
/// The uncertainty of a precise reading: the steps of both counters, which are at most some 50 ns each.
const PRECISE_NS: u64 = 100;

/// The way in which a card's clock was compared with the system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Card and processor captured the same moment.
    Precise,
    /// The kernel read the system's clock right before and right behind the card's register.
    Extended,
    /// This program read the system's clock before and behind the call that read the card's.
    Plain,
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Precise => "captured at one moment",
            Self::Extended => "between two readings by the kernel",
            Self::Plain => "between two readings by this program",
        })
    }
}

/// One moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time of the card's clock, ns.
    pub card_ns: u64,
    /// The time of CLOCK_REALTIME at that moment, ns.
    pub realtime_ns: u64,
    /// The largest error of `realtime_ns`, ns.
    pub uncertainty_ns: u64,
    /// The way in which both were compared.
    pub by: Comparison,
}

impl Reading {
    /// Returns the reading of the card's clock that is between two of the system's.
    fn between(before_ns: u64, card_ns: u64, after_ns: u64, by: Comparison) -> Option<Self> {
        // The system's clock was set back in between.
        let uncertainty_ns = after_ns.checked_sub(before_ns)?.div_ceil(2);
        Some(Self {
            card_ns,
            realtime_ns: before_ns.saturating_add(uncertainty_ns),
            uncertainty_ns,
            by,
        })
    }
}

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PtpTime {
    seconds: i64,
    nanoseconds: u32,
    reserved: u32,
}

impl PtpTime {
    fn ns(self) -> u64 {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(self.nanoseconds.into())
    }
}

/// `struct ptp_sys_offset_precise`: card, CLOCK_REALTIME, CLOCK_MONOTONIC_RAW.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Precise {
    card: PtpTime,
    realtime: PtpTime,
    monotonic_raw: PtpTime,
    reserved: [u32; 4],
}

/// `struct ptp_sys_offset_extended`: number of readings, clock (0: CLOCK_REALTIME), and for each system, card, system.
#[repr(C)]
#[derive(Clone, Copy)]
struct Extended {
    samples: u32,
    reserved: [u32; 3],
    times: [[PtpTime; 3]; SAMPLES_MOST],
}

/// Returns the number of a request that is written and read (`_IOWR('=', number, T)`).
const fn request<T>(number: u32) -> libc::Ioctl {
    const BOTH_WAYS: u32 = 3 << 30;
    (BOTH_WAYS | ((size_of::<T>() as u32) << 16) | ((b'=' as u32) << 8) | number) as libc::Ioctl
}

/// The clock of a card, opened.
#[derive(Debug)]
pub struct CardClock {
    file: File,
    path: String,
    index: u32,
}

impl CardClock {
    /// Opens `/dev/ptpN`. CAP_SYS_TIME is not needed: the device's permissions count.
    ///
    /// # Errors
    /// The clock is missing, or it may not be read.
    pub fn open(index: u32) -> Result<Self> {
        let path = format!("/dev/ptp{index}");
        let file = File::open(&path).map_err(|error| {
            let errno = Errno(error.raw_os_error().unwrap_or(libc::EIO));
            Error::new("open", path.clone(), errno, None)
        })?;
        Ok(Self { file, path, index })
    }

    /// Returns N of `/dev/ptpN`.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Reads the card's clock beside the system's, in the best way that the card's driver has.
    ///
    /// # Errors
    /// The clock cannot be read, or the system's clock was set back meanwhile.
    pub fn read(&self) -> Result<Reading> {
        match self.precise().or_else(|| self.extended()) {
            Some(reading) => Ok(reading),
            None => self.plain(),
        }
    }

    /// Returns `None` where the driver has no such reading.
    fn precise(&self) -> Option<Reading> {
        let mut both = Precise::default();
        // SAFETY: `both` has the kernel's layout and size, which are in the request's number, and lives across the call.
        let result =
            unsafe { libc::ioctl(self.file.as_raw_fd(), request::<Precise>(8), &raw mut both) };
        (result == 0).then(|| Reading {
            card_ns: both.card.ns(),
            realtime_ns: both.realtime.ns(),
            uncertainty_ns: PRECISE_NS,
            by: Comparison::Precise,
        })
    }

    /// Returns `None` where the driver has no such reading.
    fn extended(&self) -> Option<Reading> {
        let mut all = Extended {
            samples: SAMPLES as u32,
            reserved: [0; 3],
            times: [[PtpTime::default(); 3]; SAMPLES_MOST],
        };
        // SAFETY: as for `precise`.
        let result =
            unsafe { libc::ioctl(self.file.as_raw_fd(), request::<Extended>(9), &raw mut all) };
        if result != 0 {
            return None;
        }
        best(&all.times[..SAMPLES])
    }

    fn plain(&self) -> Result<Reading> {
        // A clock that is a file: its number is made as the kernel's FD_TO_CLOCKID makes it.
        const CLOCKFD: libc::clockid_t = 3;
        let id = (!self.file.as_raw_fd() << 3) | CLOCKFD;
        let mut best: Option<Reading> = None;
        for _ in 0..SAMPLES {
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let before = clock::now_ns(Clock::Realtime);
            // SAFETY: `time` is a valid place for one timespec; an id that names no clock is refused.
            if unsafe { libc::clock_gettime(id, &raw mut time) } != 0 {
                return Err(Error::last("clock_gettime", &self.path, None));
            }
            let after = clock::now_ns(Clock::Realtime);
            best = better(
                best,
                Reading::between(before, time_ns(&time), after, Comparison::Plain),
            );
        }
        best.ok_or_else(|| Error::new("read", &self.path, Errno(libc::EAGAIN), None))
    }
}

/// Returns the reading with the least uncertainty.
fn best(times: &[[PtpTime; 3]]) -> Option<Reading> {
    times.iter().fold(None, |best, [before, card, after]| {
        let reading = Reading::between(before.ns(), card.ns(), after.ns(), Comparison::Extended);
        better(best, reading)
    })
}

fn better(one: Option<Reading>, other: Option<Reading>) -> Option<Reading> {
    match (one, other) {
        (Some(one), Some(other)) if one.uncertainty_ns <= other.uncertainty_ns => Some(one),
        (one, None) => one,
        (_, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_kernel_s_header() {
        // PTP_SYS_OFFSET_PRECISE and PTP_SYS_OFFSET_EXTENDED, as a C program prints them.
        assert_eq!(request::<Precise>(8), 0xc040_3d08);
        assert_eq!(request::<Extended>(9), 0xc4c0_3d09);
    }

    fn times(before: u32, card: u32, after: u32) -> [PtpTime; 3] {
        [before, card, after].map(|nanoseconds| PtpTime {
            seconds: 1,
            nanoseconds,
            reserved: 0,
        })
    }

    #[test]
    fn the_shortest_reading_counts_and_its_half_is_the_error() {
        let all = [
            times(0, 77, 900),
            times(1_000, 1_078, 1_301),
            times(2_000, 2_077, 2_700),
        ];
        let reading = best(&all).unwrap();
        assert_eq!(reading.card_ns, 1_000_001_078);
        assert_eq!(reading.realtime_ns, 1_000_001_151);
        assert_eq!(reading.uncertainty_ns, 151);
        // A clock that was set back between two readings says nothing.
        assert_eq!(best(&[times(10, 5, 9)]), None);
        assert_eq!(
            best(&[times(10, 5, 9), times(0, 7, 900)])
                .unwrap()
                .uncertainty_ns,
            450
        );
    }

    #[test]
    fn a_clock_that_is_not_there_is_refused_by_name() {
        let error = CardClock::open(4_000).unwrap_err().to_string();
        assert!(error.contains("/dev/ptp4000"), "{error}");
    }
}

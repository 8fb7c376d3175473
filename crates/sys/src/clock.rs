//! Clocks, and waiting for a time.

use crate::error::{Errno, Error, Result};
use crate::phc::CardClock;

/// The clock that a time belongs to. All are read without a system call, except `Thread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// International atomic time, for times that several hosts share; no leap seconds. Equals `Realtime` if the
    /// offset is not set.
    Tai,
    /// Time since an arbitrary start, for intervals on one host; slewed, never stepped.
    Monotonic,
    /// Coordinated universal time; the kernel's timestamps are of this clock.
    Realtime,
    /// As `Monotonic`, but it also counts while the host is suspended. It begins with the host's boot.
    Boottime,
    /// The processor time of the calling thread.
    Thread,
}

impl Clock {
    pub(crate) const fn id(self) -> libc::clockid_t {
        match self {
            Self::Tai => libc::CLOCK_TAI,
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Thread => libc::CLOCK_THREAD_CPUTIME_ID,
        }
    }
}

fn read(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec; the clock ids used here exist on every Linux.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time_ns(&time)
}

/// Converts a kernel time to ns; times before the epoch count as 0.
pub(crate) fn time_ns(time: &libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Returns the time now, ns since the clock's epoch. About 20 ns; fit for a real-time loop.
#[must_use]
#[inline]
pub fn now_ns(clock: Clock) -> u64 {
    read(clock.id())
}

/// Returns the processor time that the calling thread has used, ns. One system call.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns CLOCK_TAI minus CLOCK_REALTIME as the kernel has it now, ns; 0 if it was never set.
///
/// # Errors
/// `adjtimex` is not allowed here (some containers filter it).
pub fn tai_offset_ns() -> Result<i64> {
    // SAFETY: timex is plain data, for which all zeroes (no change asked for) is a valid value.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `timex` is a valid place for one struct; with modes 0 the kernel only writes to it.
    if unsafe { libc::adjtimex(&raw mut timex) } < 0 {
        return Err(Error::last("adjtimex", "the TAI offset", None));
    }
    Ok(i64::from(timex.tai) * 1_000_000_000)
}

/// Returns CLOCK_TAI minus CLOCK_MONOTONIC, and the uncertainty of that reading, both in ns. Takes a few readings and no
/// system call; fit for a real-time loop.
///
/// The difference changes whenever a clock is set or steered: read it anew for each time that is converted.
#[must_use]
pub fn tai_minus_monotonic_ns() -> (i64, u64) {
    /// The longest reading, ns, that counts as undisturbed: no interruption is that short.
    const UNDISTURBED_NS: u64 = 500;
    let mut best = (0, u64::MAX);
    for _ in 0..3 {
        let before = now_ns(Clock::Monotonic);
        let tai = now_ns(Clock::Tai);
        let between = now_ns(Clock::Monotonic).saturating_sub(before);
        if between / 2 < best.1 {
            best = (tai as i64 - (before + between / 2) as i64, between / 2);
        }
        if between < UNDISTURBED_NS {
            break;
        }
    }
    best
}

/// The way in which a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// The time has come.
    Reached,
    /// A signal came first.
    Interrupted,
}

/// Sleeps until an absolute time of `clock`; returns at once if it has passed.
///
/// A thread of SCHED_OTHER is woken up to 50 µs late by its timer slack; a real-time thread has none.
///
/// # Errors
/// The kernel refuses the time (never for a `u64` before the year 2262).
pub fn sleep_until(clock: Clock, instant_ns: u64) -> std::result::Result<Sleep, Errno> {
    let time = timespec(instant_ns);
    // SAFETY: `time` is a valid timespec for the whole call; an absolute sleep writes nothing back.
    let result = unsafe {
        libc::clock_nanosleep(
            clock.id(),
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
    match result {
        0 => Ok(Sleep::Reached),
        libc::EINTR => Ok(Sleep::Interrupted),
        other => Err(Errno(other)),
    }
}

/// Converts ns to the kernel's form; values beyond its range become the greatest.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        // Below 10^9, which fits every c_long.
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Returns the clock `/dev/ptpN` minus CLOCK_TAI, and the uncertainty of that reading, both in ns.
///
/// It is read in the best way that its driver has ([`crate::phc::CardClock::read`]).
///
/// # Errors
/// The clock is missing, or it may not be read. CAP_SYS_TIME is not needed; the device's permissions count.
pub fn phc_minus_tai_ns(index: u32) -> Result<(i64, u64)> {
    let tai_offset_ns = tai_offset_ns()?;
    let reading = CardClock::open(index)?.read()?;
    let tai_ns = i128::from(reading.realtime_ns) + i128::from(tai_offset_ns);
    let offset = i64::try_from(i128::from(reading.card_ns) - tai_ns).unwrap_or(i64::MAX);
    Ok((offset, reading.uncertainty_ns))
}

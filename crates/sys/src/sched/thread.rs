//! Scheduling of any thread, by its number: for kernel threads that do our receive work. 0 is the calling thread.
//!
//! Changing another process's thread needs CAP_SYS_NICE. Nothing here is for a real-time loop.

use super::{Policy, Scheduling};
use crate::error::{Errno, Error, Result};

/// The scheduling that a thread is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// SCHED_FIFO of this priority, 1 to 99.
    Fifo(u8),
    /// Time sharing at this nice value, -20 (most time) to 19 (least).
    Other(i8),
}

impl std::fmt::Display for Want {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fifo(priority) => write!(f, "SCHED_FIFO {priority}"),
            Self::Other(nice) => write!(f, "SCHED_OTHER, nice {nice}"),
        }
    }
}

fn object(thread: u32) -> String {
    match thread {
        0 => "this thread".to_owned(),
        thread => format!("thread {thread}"),
    }
}

fn pid(thread: u32) -> libc::pid_t {
    // The kernel's thread numbers are positive i32; a larger one names no thread and is refused there.
    libc::pid_t::try_from(thread).unwrap_or(libc::pid_t::MAX)
}

/// Reads the scheduling in force for a thread.
///
/// # Errors
/// The thread is missing.
pub fn scheduling(thread: u32) -> Result<Scheduling> {
    // SAFETY: the only argument is a number.
    let policy = unsafe { libc::sched_getscheduler(pid(thread)) };
    if policy < 0 {
        return Err(Error::last("sched_getscheduler", object(thread), None));
    }
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameter` is a valid place for one struct.
    if unsafe { libc::sched_getparam(pid(thread), &raw mut parameter) } != 0 {
        return Err(Error::last("sched_getparam", object(thread), None));
    }
    // SCHED_RESET_ON_FORK may be mixed into the policy.
    let policy = match policy & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Policy::Other,
        libc::SCHED_FIFO => Policy::Fifo,
        libc::SCHED_RR => Policy::RoundRobin,
        other => Policy::Unknown(other),
    };
    Ok(Scheduling {
        policy,
        priority: u8::try_from(parameter.sched_priority).unwrap_or(0),
        cpus: cpus(thread)?,
    })
}

/// Returns a thread's nice value; for SCHED_FIFO it has no meaning.
///
/// # Errors
/// The thread is missing.
pub fn nice(thread: u32) -> Result<i8> {
    // -1 is a value as well as the sign of an error: only the error number tells them apart.
    // SAFETY: the location of this thread's error number is valid; the call takes numbers.
    let (value, errno) = unsafe {
        *libc::__errno_location() = 0;
        let value = libc::getpriority(libc::PRIO_PROCESS, thread);
        (value, *libc::__errno_location())
    };
    if errno != 0 {
        return Err(Error::new(
            "getpriority",
            object(thread),
            Errno(errno),
            None,
        ));
    }
    Ok(i8::try_from(value).unwrap_or(0))
}

/// Sets a thread's policy and priority, and reads back the scheduling in force.
///
/// # Errors
/// CAP_SYS_NICE is missing, the priority is out of range (`EINVAL`), or the thread is missing.
pub fn set(thread: u32, want: Want) -> Result<Scheduling> {
    let (policy, priority) = match want {
        Want::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
        Want::Other(_) => (libc::SCHED_OTHER, 0),
    };
    let what = || format!("{want} of {}", object(thread));
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameter` is valid for the whole call; the rest are numbers.
    if unsafe { libc::sched_setscheduler(pid(thread), policy, &raw const parameter) } != 0 {
        return Err(Error::last(
            "sched_setscheduler",
            what(),
            Some("CAP_SYS_NICE"),
        ));
    }
    if let Want::Other(nice) = want {
        // SAFETY: all arguments are numbers.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, nice.into()) } != 0 {
            return Err(Error::last("setpriority", what(), Some("CAP_SYS_NICE")));
        }
    }
    let now = scheduling(thread)?;
    let holds = match want {
        Want::Fifo(priority) => now.policy == Policy::Fifo && now.priority == priority,
        Want::Other(wanted) => now.policy == Policy::Other && nice(thread)? == wanted,
    };
    if holds {
        return Ok(now);
    }
    Err(Error::new(
        "sched_setscheduler",
        format!("{} (accepted, but {now:?} is in force)", what()),
        Errno(libc::EINVAL),
        Some("CAP_SYS_NICE"),
    ))
}

/// Returns the cores that a thread may run on, ascending.
///
/// # Errors
/// The thread is missing.
pub fn cpus(thread: u32) -> Result<Vec<usize>> {
    // SAFETY: cpu_set_t is plain bits, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: `set` is a valid place of the size given.
    if unsafe { libc::sched_getaffinity(pid(thread), size, &raw mut set) } != 0 {
        return Err(Error::last("sched_getaffinity", object(thread), None));
    }
    Ok((0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below CPU_SETSIZE.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// Lets a thread run on these cores only, and reads back the cores in force.
///
/// # Errors
/// A core or the thread is missing, the kernel has bound the thread to its core, or CAP_SYS_NICE is missing.
pub fn set_cpus(thread: u32, wanted: &[usize]) -> Result<()> {
    let fail = |errno| {
        let what = format!("cores {wanted:?} of {}", object(thread));
        Error::new("sched_setaffinity", what, errno, Some("CAP_SYS_NICE"))
    };
    // SAFETY: cpu_set_t is plain bits, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in wanted {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(fail(Errno(libc::EINVAL)));
        }
        // SAFETY: `cpu` is below CPU_SETSIZE (checked above), so the bit lies inside the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: `set` and its size are valid for the whole call.
    if unsafe { libc::sched_setaffinity(pid(thread), size, &raw const set) } != 0 {
        return Err(fail(Errno::last()));
    }
    let mut wanted_in_order = wanted.to_vec();
    wanted_in_order.sort_unstable();
    wanted_in_order.dedup();
    if cpus(thread)? != wanted_in_order {
        return Err(fail(Errno(libc::EINVAL)));
    }
    Ok(())
}

//! Scheduling: policy, priority and core of the calling thread, set and read back.

pub mod thread;

use crate::error::{Errno, Error, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;

/// A scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The usual time sharing (SCHED_OTHER).
    Other,
    /// First in, first out among equal priorities: runs until it waits (SCHED_FIFO). Priority 1 to 99.
    Fifo,
    /// As `Fifo`, with time slices among equal priorities (SCHED_RR).
    RoundRobin,
    /// Any other policy, by the kernel's number.
    Unknown(i32),
}

/// The scheduling that is really in force for a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// The policy.
    pub policy: Policy,
    /// The real-time priority, 1 to 99; 0 for a policy without priorities.
    pub priority: u8,
    /// The cores that the thread may run on, ascending.
    pub cpus: Vec<usize>,
}

/// Reads the scheduling in force for the calling thread.
///
/// # Errors
/// The kernel refuses the request (a sandbox).
pub fn current() -> Result<Scheduling> {
    thread::scheduling(0)
}

/// Makes the calling thread SCHED_FIFO of `priority` (1 to 99), and reads back the scheduling in force.
///
/// # Errors
/// CAP_SYS_NICE is missing, or the priority is out of range (`EINVAL`).
pub fn set_fifo(priority: u8) -> Result<Scheduling> {
    set_policy(libc::SCHED_FIFO, i32::from(priority))?;
    let now = current()?;
    if now.policy != Policy::Fifo || now.priority != priority {
        return Err(Error::new(
            "sched_setscheduler",
            format!("SCHED_FIFO {priority} (accepted, but {now:?} is in force)"),
            Errno(libc::EINVAL),
            Some("CAP_SYS_NICE"),
        ));
    }
    Ok(now)
}

/// Returns the calling thread to time sharing.
///
/// # Errors
/// The kernel refuses (a sandbox).
pub fn set_other() -> Result<Scheduling> {
    set_policy(libc::SCHED_OTHER, 0)?;
    current()
}

/// Makes the calling thread SCHED_IDLE: it runs only if no other thread wants to.
///
/// For threads that keep a processor awake without taking time from others.
///
/// # Errors
/// The kernel refuses (a sandbox).
pub fn set_idle() -> Result<Scheduling> {
    set_policy(libc::SCHED_IDLE, 0)?;
    current()
}

fn set_policy(policy: i32, priority: i32) -> Result<()> {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameter` is valid for the whole call; 0 names the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } != 0 {
        let object = if policy == libc::SCHED_FIFO {
            format!("SCHED_FIFO {priority}")
        } else {
            "SCHED_OTHER".to_owned()
        };
        return Err(Error::last(
            "sched_setscheduler",
            object,
            Some("CAP_SYS_NICE"),
        ));
    }
    Ok(())
}

/// Lets the calling thread run on one core only, and reads back the scheduling in force.
///
/// # Errors
/// The core is missing, or this process may not use it (a cpuset).
pub fn set_cpu(cpu: usize) -> Result<Scheduling> {
    let fail = |errno| Error::new("sched_setaffinity", format!("core {cpu}"), errno, None);
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(fail(Errno(libc::EINVAL)));
    }
    // SAFETY: cpu_set_t is plain bits, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE (checked above), so the bit lies inside the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    if !set_cpus(&set) {
        return Err(fail(Errno::last()));
    }
    let now = current()?;
    if now.cpus != [cpu] {
        return Err(fail(Errno(libc::EINVAL)));
    }
    Ok(now)
}

/// Returns the cores that the calling thread may run on, ascending.
///
/// # Errors
/// The kernel refuses the request (a sandbox).
pub fn affinity() -> Result<Vec<usize>> {
    thread::cpus(0)
}

/// Holds the calling thread on one core for a while, and lets it go to every core that it had before.
///
/// A real-time thread that a more urgent one interrupts for some microseconds is moved to another core, which is asleep
/// and takes far longer to wake up. A thread that waits for an instant is better off where it is.
#[derive(Debug)]
pub struct CoreHold {
    all: libc::cpu_set_t,
    /// False where the thread has but one core, or may not choose.
    useful: bool,
}

impl CoreHold {
    /// Notes the cores that the calling thread may use now. Do not change them while this is in use.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: cpu_set_t is plain bits, for which all zeroes is a valid value.
        let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: `all` and its size are valid for the whole call.
        let got = unsafe { libc::sched_getaffinity(0, size, &raw mut all) };
        // SAFETY: `all` is valid.
        let useful = got == 0 && unsafe { libc::CPU_COUNT(&all) } > 1;
        Self { all, useful }
    }

    /// Holds the thread on the core where it is now. One system call.
    pub fn here(&mut self) {
        if self.useful {
            // SAFETY: cpu_set_t is plain bits, for which all zeroes is a valid value.
            let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            let cpu = cpu().min(libc::CPU_SETSIZE as usize - 1);
            // SAFETY: `cpu` is below CPU_SETSIZE, so the bit lies inside the set.
            unsafe { libc::CPU_SET(cpu, &mut one) };
            self.useful = set_cpus(&one);
        }
    }

    /// Lets the thread go to its other cores again. One system call.
    pub fn release(&mut self) {
        if self.useful {
            self.useful = set_cpus(&self.all);
        }
    }
}

impl Default for CoreHold {
    fn default() -> Self {
        Self::new()
    }
}

/// Sets the cores of the calling thread. Returns false where the kernel refuses it.
fn set_cpus(set: &libc::cpu_set_t) -> bool {
    // SAFETY: `set` and its size are valid for the whole call.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) == 0 }
}

/// Returns the core that the calling thread is on at this moment.
#[must_use]
pub fn cpu() -> usize {
    // SAFETY: no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Ends this process with SIGKILL when the thread that started it ends. For children that must not outlive their
/// parent.
///
/// # Errors
/// The kernel refuses (a sandbox).
pub fn die_with_parent() -> Result<()> {
    // SAFETY: both arguments are numbers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(Error::last("prctl(PR_SET_PDEATHSIG)", "this process", None));
    }
    Ok(())
}

/// A request to the processors to stay awake while this value lives (`/dev/cpu_dma_latency`).
#[derive(Debug)]
pub struct AwakeProcessors {
    _file: File,
}

impl AwakeProcessors {
    /// Requests a wake-up latency of at most `latency_us` µs; 0 keeps idle cores from sleeping at all.
    ///
    /// # Errors
    /// `/dev/cpu_dma_latency` cannot be written: only root may, and virtual machines may have none.
    pub fn hold(latency_us: u32) -> Result<Self> {
        let fail = |call, error: &std::io::Error| {
            let errno = Errno(error.raw_os_error().unwrap_or(libc::EIO));
            Error::new(call, "/dev/cpu_dma_latency", errno, None)
        };
        let mut file = OpenOptions::new()
            .write(true)
            .open("/dev/cpu_dma_latency")
            .map_err(|e| fail("open", &e))?;
        let latency = i32::try_from(latency_us).unwrap_or(i32::MAX);
        file.write_all(&latency.to_ne_bytes())
            .map_err(|e| fail("write", &e))?;
        Ok(Self { _file: file })
    }
}

//! Receive work at a priority of the user's choice.
//!
//! ```text
//!  usual      interrupt ─► soft interrupt, above every task ─► socket
//!  threads    interrupt ─► thread `napi/…` of a policy, priority and core of our choice ─► socket     NapiThreads
//!             thread `napi/…` that polls the driver all the time, without interrupts ─► socket        NapiThreads::poll
//!  polling    reader's own call ─► driver ─► socket; interrupts only if nobody polls for long          NapiDeferral
//! ```
//!
//! All are undone when their guard is dropped. An interface has receive contexts only where its driver makes some. A
//! veth does with a receive program attached, or with GRO on and segmentation off at its peer.

use std::fs;

use rtwire_sys::sched::thread::{self, Want};
use rtwire_sys::{interface, netns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::netlink::{Napi, Netlink};

/// The wanted scheduling of threads that do receive work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NapiPriority {
    /// Policy and priority. Above a real-time task's priority, receive work can disturb that task.
    pub want: Want,
    /// The cores they may run on; empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
}

/// The settings in force for one receive context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NapiThread {
    /// The context's number.
    pub napi: u32,
    /// The number of its thread.
    pub thread: u32,
    /// Policy, priority and cores, read back.
    pub scheduling: rtwire_sys::sched::Scheduling,
}

/// The interface by which settings were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// Each receive context separately, over netlink.
    Netlink,
    /// The whole interface, in `/sys/class/net`.
    Sysfs,
}

/// Receive work in kernel threads of a set priority. Dropping the value returns it to the soft interrupt.
#[derive(Debug)]
pub struct NapiThreads {
    interface: interface::Interface,
    before: Vec<Napi>,
    threads: Vec<NapiThread>,
    means: Means,
    /// The interface's namespace; the guard may be dropped in another.
    home: fs::File,
}

fn none_there(name: &str) -> HostError {
    HostError::NoReceiveContext(name.to_owned())
}

fn system(error: rtwire_sys::Error) -> HostError {
    HostError::System(error)
}

/// Returns the receive contexts of an interface.
fn contexts(interface: &interface::Interface) -> Result<Vec<Napi>, HostError> {
    let found = Netlink::new().napis(interface.index)?;
    if found.is_empty() {
        return Err(none_there(&interface.name));
    }
    Ok(found)
}

fn home() -> Result<fs::File, HostError> {
    netns::own().map_err(|source| HostError::Namespace {
        what: "open this thread's network namespace".to_owned(),
        source,
    })
}

/// Writes a setting of a whole interface below `/sys/class/net`, in the calling thread's namespace.
fn write_setting(interface: &str, setting: &str, value: &str) -> Result<(), HostError> {
    netns::write_interface_setting(interface, setting, value).map_err(|source| HostError::Setting {
        path: format!("/sys/class/net/{interface}/{setting}"),
        value: value.to_owned(),
        source,
    })
}

impl NapiThreads {
    /// Moves the receive work of `interface` (in the calling thread's namespace) to threads, sets their priority and
    /// cores, and reads all of it back.
    ///
    /// # Errors
    /// The interface has no receive context, CAP_NET_ADMIN or CAP_SYS_NICE is missing, or the kernel is older than 6.8.
    /// Then nothing is changed.
    pub fn start(interface: &str, priority: &NapiPriority) -> Result<Self, HostError> {
        let mut guard = Self::of(interface)?;
        guard.means = guard.set(true)?;
        guard.schedule(priority)
    }

    /// As [`start`](Self::start), with threads that poll the driver all the time (threaded busy polling, Linux 6.19). No frame
    /// waits for an interrupt then. Each thread takes all of a core that nothing more urgent wants. Under time sharing,
    /// a real-time reader on the same core goes first.
    ///
    /// # Errors
    /// As [`start`](Self::start). [`HostError::NoPollingThread`]: the kernel has none. Then nothing is changed.
    pub fn poll(interface: &str, priority: &NapiPriority) -> Result<Self, HostError> {
        let mut guard = Self::of(interface)?;
        let (mut netlink, mut changed) = (Netlink::new(), 0);
        let done: Result<(), HostError> = guard.before.iter().try_for_each(|napi| {
            netlink.set_napi_polling(napi.id)?;
            changed += 1;
            Ok(())
        });
        let Err(error) = done else {
            return guard.schedule(priority);
        };
        // Dropping undoes what was changed, and nothing else.
        guard.before.truncate(changed);
        Err(match error {
            error if error.is_permission() => error,
            error => HostError::NoPollingThread {
                name: guard.interface.name.clone(),
                kernel: fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(
                    |_| "unknown".to_owned(),
                    |release| release.trim().to_owned(),
                ),
                reason: error.to_string(),
            },
        })
    }

    /// Notes the present state of an interface, to which dropping returns.
    fn of(interface: &str) -> Result<Self, HostError> {
        let interface = interface::by_name(interface).map_err(system)?;
        Ok(Self {
            before: contexts(&interface)?,
            home: home()?,
            interface,
            threads: Vec::new(),
            means: Means::Netlink,
        })
    }

    /// Sets the threads' priority and cores, and reads them back.
    fn schedule(mut self, priority: &NapiPriority) -> Result<Self, HostError> {
        let guard = &mut self;
        // From here on, dropping the guard undoes the changes.
        for napi in contexts(&guard.interface)? {
            let Some(thread) = napi.thread else {
                return Err(HostError::NotInForce {
                    what: format!(
                        "a thread of its own for receive context {} of interface `{}`",
                        napi.id, guard.interface.name
                    ),
                });
            };
            if !priority.cpus.is_empty() {
                thread::set_cpus(thread, &priority.cpus).map_err(system)?;
            }
            let scheduling = thread::set(thread, priority.want).map_err(system)?;
            guard.threads.push(NapiThread {
                napi: napi.id,
                thread,
                scheduling,
            });
        }
        Ok(self)
    }

    /// Returns the threads, with the settings read back when they were made.
    #[must_use]
    pub fn threads(&self) -> &[NapiThread] {
        &self.threads
    }

    fn set(&self, on: bool) -> Result<Means, HostError> {
        let wanted = |napi: &Napi| on || napi.thread.is_some();
        set_threaded(&self.interface.name, &self.before, wanted, on)
    }
}

impl Drop for NapiThreads {
    fn drop(&mut self) {
        let was_threaded = self.before.iter().any(|napi| napi.thread.is_some());
        if self.means == Means::Sysfs && was_threaded {
            return;
        }
        // An interface that is gone, or that has new contexts, needs no undoing.
        let _ = netns::inside(&self.home, || {
            let mut polled = self.before.iter().filter(|napi| napi.polls);
            let set = self.set(false).map(drop);
            set.and_then(|()| polled.try_for_each(|napi| Netlink::new().set_napi_polling(napi.id)))
        });
    }
}

/// Moves receive contexts to threads or back. Tries one by one first, then (before Linux 6.17) the whole interface.
fn set_threaded(
    interface: &str,
    napis: &[Napi],
    wanted: impl Fn(&Napi) -> bool,
    all: bool,
) -> Result<Means, HostError> {
    by_netlink_or(
        |netlink| {
            napis
                .iter()
                .try_for_each(|napi| netlink.set_napi_threaded(napi.id, wanted(napi)))
        },
        || write_setting(interface, "threaded", if all { "1" } else { "0" }),
    )
}

/// Sets each receive context separately, or the whole interface at once if the kernel cannot. A missing privilege is an
/// error at once: the other way would need it too.
fn by_netlink_or(
    each: impl FnOnce(&mut Netlink) -> Result<(), HostError>,
    whole: impl FnOnce() -> Result<(), HostError>,
) -> Result<Means, HostError> {
    match each(&mut Netlink::new()) {
        Ok(()) => Ok(Means::Netlink),
        Err(error) if error.is_permission() => Err(error),
        Err(_) => whole().map(|()| Means::Sysfs),
    }
}

/// A thread that does receive work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiveThread {
    /// Its SCHED_FIFO priority; 0 for time sharing.
    pub fifo: u8,
    /// Its nice value, used for time sharing.
    pub nice: i8,
    /// The cores it may run on; empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
}

/// Returns the threads that do an interface's receive work, by receive context; empty if the soft interrupt does it.
///
/// # Errors
/// There is no such interface, or the kernel is older than 6.8.
pub(crate) fn receive_threads(interface: &str) -> Result<Vec<ReceiveThread>, HostError> {
    let interface = interface::by_name(interface).map_err(system)?;
    let napis = Netlink::new().napis(interface.index)?;
    let threads = napis.iter().filter_map(|napi| napi.thread);
    threads
        .map(|thread| {
            let now = thread::scheduling(thread).map_err(system)?;
            let real_time = now.policy == rtwire_sys::sched::Policy::Fifo;
            Ok(ReceiveThread {
                fifo: if real_time { now.priority } else { 0 },
                nice: thread::nice(thread).map_err(system)?,
                cpus: now.cpus,
            })
        })
        .collect()
}

/// Moves an interface's receive work to threads, or back to the soft interrupt if `wanted` is empty. One entry applies
/// to all contexts.
///
/// # Errors
/// As [`NapiThreads::start`]. Changes made before the error stay.
pub(crate) fn set_receive_threads(
    interface: &str,
    wanted: &[ReceiveThread],
) -> Result<(), HostError> {
    let interface = interface::by_name(interface).map_err(system)?;
    let on = !wanted.is_empty();
    set_threaded(&interface.name, &contexts(&interface)?, |_| on, on)?;
    for (at, napi) in contexts(&interface)?.iter().enumerate() {
        let Some(want) = wanted.get(at).or(wanted.first()) else {
            break;
        };
        let Some(thread) = napi.thread else {
            continue;
        };
        if !want.cpus.is_empty() {
            thread::set_cpus(thread, &want.cpus).map_err(system)?;
        }
        let scheduling = match want.fifo {
            0 => Want::Other(want.nice),
            priority => Want::Fifo(priority),
        };
        thread::set(thread, scheduling).map_err(system)?;
    }
    Ok(())
}

/// Deferred interrupts of an interface, for a reader that polls. Dropping the value restores them.
#[derive(Debug)]
pub struct NapiDeferral {
    interface: interface::Interface,
    before: Vec<Napi>,
    means: Means,
    home: fs::File,
}

impl NapiDeferral {
    /// Defers interrupts until `empty_polls` polls found nothing. Without polls for `flush_timeout_ns`, the kernel
    /// polls by itself. That time must exceed the longest burst of any real-time task on the core, otherwise the
    /// kernel's timer disturbs the task. Frames that arrive meanwhile must fit the receive ring, otherwise they are
    /// lost.
    ///
    /// # Errors
    /// As [`NapiThreads::start`].
    pub fn hold(
        interface: &str,
        empty_polls: u32,
        flush_timeout_ns: u32,
    ) -> Result<Self, HostError> {
        let interface = interface::by_name(interface).map_err(system)?;
        let before = contexts(&interface)?;
        let mut guard = Self {
            home: home()?,
            interface,
            before,
            means: Means::Netlink,
        };
        guard.means = guard.set(Some((empty_polls, flush_timeout_ns)))?;
        Ok(guard)
    }

    fn set(&self, wanted: Option<(u32, u32)>) -> Result<Means, HostError> {
        let of = |napi: &Napi| (napi.defer_hard_irqs, napi.gro_flush_timeout_ns);
        by_netlink_or(
            |netlink| {
                self.before.iter().try_for_each(|napi| {
                    let (polls, timeout) = wanted.unwrap_or_else(|| of(napi));
                    netlink.set_napi_deferral(napi.id, polls, timeout)
                })
            },
            || {
                let before = self.before.first().map(of);
                let (polls, timeout) = wanted.or(before).unwrap_or_default();
                let name = &self.interface.name;
                write_setting(name, "napi_defer_hard_irqs", &polls.to_string())?;
                write_setting(name, "gro_flush_timeout", &timeout.to_string())
            },
        )
    }
}

impl Drop for NapiDeferral {
    fn drop(&mut self) {
        let _ = netns::inside(&self.home, || self.set(None).map(drop));
    }
}

#[cfg(test)]
#[path = "napi_tests.rs"]
mod tests;

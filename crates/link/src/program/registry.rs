//! Owners of the channels of a program that several processes share.
//!
//! A channel's entry names the port that owns it. The port's lock tells whether its process still exists: it ends with
//! the process. So the channels of a process that ended without closing them are found. The next process that opens a
//! channel finds them, or any other that shares the program, within about a second.

use super::attach::namespace;
use super::layout::{Action, CHANNELS, Channel, Control, Port, Slot};
use super::{Attachment, Errno, ProgramError, Shared, XdpLink};
use rtwire_sys::ErrorKind;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::port_lock::{self, NameLock};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bit in an owner's word for a channel that only polices; its port's listener is elsewhere.
const POLICE: u64 = 1 << 32;
/// Longest wait for another process that is just opening a channel.
const PATIENCE: Duration = Duration::from_secs(2);
const TIDY_NS: u64 = 1_000_000_000;

impl Shared {
    pub(super) fn attachment(&self) -> MutexGuard<'_, Attachment> {
        // The state is consistent between any two statements that could panic.
        self.attachment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_attached(&self) -> Result<bool, Errno> {
        let attachment = self.attachment();
        let link = attachment.link.as_ref();
        link.map_or(Ok(false), XdpLink::is_attached)
    }

    fn name(&self, what: &str) -> String {
        let (ether_type, interface) = (self.ether_type.0, self.interface.index);
        format!("rtwire/{ether_type:04x}/{interface}/{what}")
    }

    /// Returns the name that every listener at a port of this interface holds; a channel that polices the port has
    /// another name.
    fn port_name(&self, owner: u64) -> String {
        let port = (owner - 1) as u16;
        if owner & POLICE == 0 {
            self.name(&port.to_string())
        } else {
            self.name(&format!("{port}/police"))
        }
    }

    /// Takes the lock that every listener at this port of this interface holds, in any process.
    pub(super) fn lock(&self, port: u16, action: Action) -> Result<NameLock, ProgramError> {
        let name = self.port_name(owner(port, action));
        NameLock::take(&name).map_err(|error| match error.kind() {
            ErrorKind::InUse => self.port_in_use(port),
            _ => error.into(),
        })
    }

    /// Takes the lock for changing the owners of channels.
    fn alone(&self) -> Result<NameLock, ProgramError> {
        let name = self.name("channels");
        let start = Instant::now();
        loop {
            match NameLock::take(&name) {
                Err(error) if error.kind() == ErrorKind::InUse && start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_micros(500));
                }
                result => return Ok(result?),
            }
        }
    }

    fn owner(&self, index: usize) -> u64 {
        let word = self.channels.word(index, Channel::Owner as usize);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Finds a channel for a port whose lock the caller holds.
    pub(super) fn take(&self, port: u16, action: Action) -> Result<usize, ProgramError> {
        let _alone = self.alone()?;
        let own = owner(port, action);
        for index in 0..CHANNELS {
            let there = self.owner(index);
            if there == own {
                // The caller holds its lock, so the former owner has ended.
                self.free(index, port);
            } else if there != 0 && (there - 1) as u16 == port && self.is_alive(there) {
                return Err(self.port_in_use(port));
            }
        }
        self.tidy();
        // The channel closed last is reused last: another processor may still be busy with its last frame.
        let next = self.control.word(0, Control::NextChannel as usize);
        let first = next.map_or(0, |next| next.load(Ordering::Relaxed)) as usize;
        let free = (0..CHANNELS)
            .map(|step| (first % CHANNELS + step) % CHANNELS)
            .find(|&index| self.owner(index) == 0)
            .ok_or_else(|| ProgramError::NoChannel {
                interface: self.interface.name.clone(),
            })?;
        if let Some(next) = next {
            next.store((free as u64 + 1) % CHANNELS as u64, Ordering::Relaxed);
        }
        if let Some(word) = self.channels.word(free, Channel::Owner as usize) {
            word.store(own, Ordering::Release);
        }
        Ok(free)
    }

    /// Closes a channel.
    pub(super) fn free(&self, index: usize, port: u16) {
        if let Some(entry) = self.ports.word(port.into(), Port::Channel as usize) {
            // Another channel can have the port by now only if this one was considered abandoned.
            let own = index as u64 + 1;
            let _ = entry.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
        }
        let word = |field: Channel| self.channels.word(index, field as usize);
        let action = word(Channel::Action);
        let queue = action.is_some_and(|action| {
            action.swap(Action::Free as u64, Ordering::Relaxed) == Action::Queue as u64
        });
        if queue {
            // The program no longer uses the memory when this returns. It fails only if there is none.
            let _ = self.queues.remove(index as u32);
        }
        let notes = self.slots.word(index, Slot::Notes as usize);
        if notes.is_some_and(|notes| notes.swap(0, Ordering::Relaxed) != 0) {
            let _ = self.notes.remove(index as u32);
        }
        if let Some(owner) = word(Channel::Owner) {
            owner.store(0, Ordering::Release);
        }
    }

    /// Returns `true` if a channel's process still exists, or if that is unknown.
    fn is_alive(&self, owner: u64) -> bool {
        port_lock::is_held(&self.port_name(owner)).unwrap_or(true)
    }

    /// Closes the channels of ended processes. The caller holds the lock; it works only in the namespace of the
    /// ports' locks.
    fn tidy(&self) {
        if namespace() != self.namespace {
            return;
        }
        for index in 0..CHANNELS {
            let owner = self.owner(index);
            if owner != 0 && !self.is_alive(owner) {
                self.free(index, (owner - 1) as u16);
            }
        }
    }

    /// Closes the channels of ended processes if the last time is at least a second ago.
    pub(super) fn tidy_now_and_then(&self) {
        let now = clock::now_ns(Clock::Monotonic);
        let last = self.tidied_ns.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= TIDY_NS;
        let claim = || {
            self.tidied_ns
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
        };
        if due && claim().is_ok() {
            // If another process is just doing the same, it is not needed here. A reader's thread must not wait for that
            // process: the next second is soon enough.
            if let Ok(_alone) = NameLock::try_take(&self.name("channels")) {
                self.tidy();
            }
        }
    }

    fn port_in_use(&self, port: u16) -> ProgramError {
        ProgramError::PortInUse {
            port,
            interface: self.interface.name.clone(),
        }
    }
}

/// Returns the owner's word in a channel's entry.
fn owner(port: u16, action: Action) -> u64 {
    let police = if action == Action::Pass { POLICE } else { 0 };
    police | (u64::from(port) + 1)
}

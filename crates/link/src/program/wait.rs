//! Waiting for the program's memory. The reader polls the memory, or sleeps at a packet socket until the program lets
//! a frame through to wake it.
//!
//! The socket is one that the kernel serves before all else ([`PacketSocket::first_receiver`]). So nothing on the frame's
//! further way through Linux can keep it from waking the reader: no filter of traffic control, no bridge, no VLAN interface.

use super::{ProgramError, Shared};
use crate::responder::whole_frame_filter;
use crate::slices::{CHECK, Slices, nanoseconds};
use crate::{LinkError, WakeUp};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Errno, Wait};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Bytes of room for the frames that wake a sleeping reader; one frame is enough.
const BELL_OCTETS: usize = 16 * 2304;

/// Memory whose reader may sleep.
pub(super) trait Sleeper {
    /// Returns `true` if there is something to read.
    fn look(&mut self) -> bool;
    /// Requests that the next frame wake this reader. Returns `true` if there is already something to read.
    fn look_or_sleep(&mut self) -> bool;
    /// Withdraws that request.
    fn awake(&mut self);
}

/// Waits in the way chosen at open.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Receives the frame that wakes a sleeping reader. `None` only in tests without an interface.
    bell: Option<Bell>,
    wake_up: WakeUp,
}

#[derive(Debug)]
struct Bell {
    socket: PacketSocket,
    batch: Batch,
    /// The receive timeout in force at the socket.
    timeout: Option<Duration>,
}

impl Bell {
    /// Waits for at most `time`. The frame's data are already in the memory, so the frame is discarded here.
    fn wait(&mut self, time: Duration) -> Result<(), Errno> {
        if self.timeout != Some(time) {
            self.socket.set_receive_timeout(Some(time))?;
            self.timeout = Some(time);
        }
        match self.socket.receive(&mut self.batch, Wait::One, 1) {
            Ok(_) => Ok(()),
            Err(errno) if errno.would_block() || errno.interrupted() => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl Bell {
    /// Discards the frames that are there.
    fn silence(&mut self) -> Result<(), Errno> {
        loop {
            match self.socket.receive(&mut self.batch, Wait::No, 1) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(errno) if errno.would_block() => return Ok(()),
                Err(errno) if errno.interrupted() => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Waiter {
    pub(super) fn new(program: &Shared, port: u16, wake_up: WakeUp) -> Result<Self, ProgramError> {
        // Who never sleeps needs no frame, only the socket's error when the interface goes down.
        let socket = if wake_up == WakeUp::Spin {
            let none = Filter::new(&[Instruction::Reject])?;
            let ether_type = program.ether_type.0;
            PacketSocket::receiver(&program.interface, ether_type, &none, |_| Ok(()))?.0
        } else {
            let filter = whole_frame_filter(program.ether_type.0, port)?;
            let room = |socket: &PacketSocket| socket.set_receive_room(BELL_OCTETS).map(drop);
            PacketSocket::first_receiver(&program.interface, &filter, room)?.0
        };
        Ok(Self {
            bell: Some(Bell {
                socket,
                batch: Batch::new(1, 64).with_only(false, false),
                timeout: None,
            }),
            wake_up,
        })
    }

    #[cfg(test)]
    pub(super) fn without_interface(wake_up: WakeUp) -> Self {
        Self {
            bell: None,
            wake_up,
        }
    }

    #[inline]
    pub(super) fn wait(
        &mut self,
        program: &Shared,
        memory: &mut impl Sleeper,
        timeout: Option<Duration>,
    ) -> Result<bool, LinkError> {
        if memory.look() {
            return Ok(true);
        }
        if timeout == Some(Duration::ZERO) {
            return Ok(false);
        }
        match self.wake_up {
            WakeUp::Block => self.block(program, memory, timeout),
            WakeUp::Spin => self.spin(program, memory, timeout),
            WakeUp::SpinThenBlock(budget) => {
                let spin = timeout.map_or(budget, |timeout| timeout.min(budget));
                if self.spin(program, memory, Some(spin))? {
                    return Ok(true);
                }
                match timeout.map(|timeout| timeout.saturating_sub(budget)) {
                    Some(Duration::ZERO) => Ok(false),
                    rest => self.block(program, memory, rest),
                }
            }
        }
    }

    /// Prepares a wait elsewhere: returns `true` if there is something to read. Otherwise the descriptor becomes readable
    /// when something comes.
    pub(super) fn arm(
        &mut self,
        program: &Shared,
        memory: &mut impl Sleeper,
    ) -> Result<bool, LinkError> {
        if memory.look() {
            return Ok(true);
        }
        self.descriptor()?;
        // What woke the last wait has been read.
        let silenced = self.bell.as_mut().map_or(Ok(()), Bell::silence);
        silenced.map_err(|errno| self.failed(program, errno))?;
        if memory.look_or_sleep() {
            return Ok(true);
        }
        self.check(program)?;
        Ok(false)
    }

    /// Returns the descriptor of a reader that may sleep.
    pub(super) fn descriptor(&self) -> Result<BorrowedFd<'_>, LinkError> {
        match &self.bell {
            Some(bell) if self.wake_up != WakeUp::Spin => Ok(bell.socket.as_fd()),
            _ => Err(LinkError::Unsupported {
                what: "a reader that was opened to spin never sleeps, so nothing wakes it: open it with another way to wait",
            }),
        }
    }

    fn spin(
        &mut self,
        program: &Shared,
        memory: &mut impl Sleeper,
        timeout: Option<Duration>,
    ) -> Result<bool, LinkError> {
        let mut end = None;
        let mut next_check = None;
        loop {
            // Reading the clock costs more than a poll, so it is read only now and then, and not before the first
            // polls.
            for _ in 0..32 {
                if memory.look() {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            let now = clock::now_ns(Clock::Monotonic);
            if let Some(timeout) = timeout {
                let end = *end.get_or_insert_with(|| now.saturating_add(nanoseconds(timeout)));
                if now >= end {
                    return Ok(false);
                }
            }
            let check = now + nanoseconds(CHECK);
            if now >= *next_check.get_or_insert(check) {
                self.check(program)?;
                next_check = Some(check);
            }
        }
    }

    fn block(
        &mut self,
        program: &Shared,
        memory: &mut impl Sleeper,
        timeout: Option<Duration>,
    ) -> Result<bool, LinkError> {
        // A frame that comes within the first slice costs no clock read.
        let mut slices = Slices::new(timeout);
        loop {
            if memory.look_or_sleep() {
                return Ok(true);
            }
            let slice = slices.slice();
            let result = self.bell.as_mut().map_or(Ok(()), |bell| bell.wait(slice));
            memory.awake();
            if memory.look() {
                return Ok(true);
            }
            if let Err(errno) = result {
                return Err(self.failed(program, errno));
            }
            self.check(program)?;
            if !slices.step() {
                return Ok(false);
            }
        }
    }

    /// Checks that interface and program still exist, and that the program has the interface's address. Four system calls.
    #[cold]
    pub(super) fn check(&self, program: &Shared) -> Result<(), LinkError> {
        let Some(bell) = &self.bell else {
            return Ok(());
        };
        self.check_interface(program, bell)?;
        program.tidy_now_and_then();
        // A kernel that does not report it is no reason to stop.
        if program.is_attached() == Ok(false) {
            // If the interface was removed meanwhile, no process has detached the program.
            self.check_interface(program, bell)?;
            return Err(LinkError::ProgramDetached {
                interface: program.interface.name.clone(),
            });
        }
        Ok(())
    }

    fn check_interface(&self, program: &Shared, bell: &Bell) -> Result<(), LinkError> {
        let Some(address) = bell.socket.address() else {
            return Err(LinkError::InterfaceGone {
                interface: program.interface.name.clone(),
            });
        };
        program.set_address(address);
        match bell.socket.take_error() {
            Some(errno) => Err(self.failed(program, errno)),
            None => Ok(()),
        }
    }

    #[cold]
    fn failed(&self, program: &Shared, errno: Errno) -> LinkError {
        let exists = || {
            let bell = self.bell.as_ref();
            bell.is_none_or(|bell| bell.socket.interface_exists())
        };
        LinkError::of("receive", &program.interface.name, errno, 0, exists)
    }
}

//! Queue channels: every frame, most urgent first, in the channel's own memory.

use super::layout::Action;
use super::wait::{Sleeper, Waiter};
use super::{ChannelCounters, CounterReader, OpenChannel, Police, ProgramError, ReceiveProgram};
use crate::{LinkError, WakeUp};
use rtwire_sys::bpf::queue::FrameQueue;
use rtwire_wire::MacAddress;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Configuration of a queue channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Number of frames of each priority that may wait, rounded up to a power of two, at most 16384. Frames beyond it
    /// are dropped and counted. Each takes 1600 bytes of kernel memory.
    pub frames: usize,
    /// Way in which the reader waits.
    pub wake_up: WakeUp,
    /// `true` for a ring for each priority, the most urgent read first; `false` for one ring, read in order of
    /// arrival.
    pub by_priority: bool,
    /// `true` if the program records each frame's arrival time.
    pub stamps: bool,
}

impl Default for QueueConfig {
    /// Returns room for 256 frames of each priority, blocking, most urgent first, with arrival times.
    fn default() -> Self {
        Self {
            frames: 256,
            wake_up: WakeUp::Block,
            by_priority: true,
            stamps: true,
        }
    }
}

/// One frame of a queue channel.
#[derive(Clone, Copy, Debug)]
pub struct QueueFrame<'a> {
    /// The user data, where the program has written them.
    pub data: &'a [u8],
    /// Its sequence number.
    pub sequence: u32,
    /// The talker's address.
    pub source: MacAddress,
    /// The talker's port.
    pub source_port: u16,
    /// Its priority, 0 to 7.
    pub priority: u8,
    /// Arrival time, in ns of CLOCK_TAI, if requested.
    pub arrival_ns: Option<u64>,
    /// Time of sending, in ns of the talker's CLOCK_TAI; `None` if the talker does not write it.
    pub sender_time_ns: Option<u64>,
}

/// Reads the frames of one channel. The channel closes when this is dropped.
#[derive(Debug)]
pub struct QueueChannel {
    pub(super) queue: FrameQueue,
    pub(super) channel: OpenChannel,
    waiter: Waiter,
}

impl Sleeper for FrameQueue {
    fn look(&mut self) -> bool {
        FrameQueue::look(self)
    }

    fn look_or_sleep(&mut self) -> bool {
        FrameQueue::look_or_sleep(self)
    }

    fn awake(&mut self) {
        FrameQueue::awake(self);
    }
}

impl QueueChannel {
    /// Waits for a frame in the way chosen at open; returns `true` if one is there. `None` waits for ever. It makes
    /// no system call if a frame is there or comes while spinning. Else it makes one, and one more if the timeout
    /// differs from the last one. A blocking wait is rounded up to the kernel's tick (1 to 10 ms).
    ///
    /// # Errors
    /// The interface is gone (in every later call, too) or down (reported once; wait again to wait for its return).
    /// Or the program was detached by another process ([`LinkError::ProgramDetached`], until it is attached again).
    #[inline]
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        self.waiter
            .wait(&self.channel.program, &mut self.queue, timeout)
    }

    /// Prepares a wait elsewhere (`epoll`, an async runtime). Returns `true` if a frame is there. Otherwise
    /// [`descriptor`](Self::descriptor) becomes readable when one comes, or when the interface goes down. Two system calls,
    /// one more for each frame that woke the last wait, and the four that check interface and program.
    ///
    /// # Errors
    /// As [`wait`](Self::wait). [`LinkError::Unsupported`]: it was opened to spin.
    pub fn arm(&mut self) -> Result<bool, LinkError> {
        self.waiter.arm(&self.channel.program, &mut self.queue)
    }

    /// Returns the descriptor that `epoll` takes: see [`arm`](Self::arm). Only wait for it, never read from it.
    ///
    /// # Errors
    /// [`LinkError::Unsupported`]: it was opened to spin.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, LinkError> {
        self.waiter.descriptor()
    }

    /// Returns `true` if a frame is there now. No system call; fit for a real-time loop.
    #[inline]
    pub fn look(&mut self) -> bool {
        self.queue.look()
    }

    /// Returns the frame that the last wait or look found: the most urgent at that time, and the oldest of its
    /// priority. It stays until it is released. No system call, no copy.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<QueueFrame<'_>> {
        let frame = self.queue.peek()?;
        let octets = frame.source.to_be_bytes();
        Some(QueueFrame {
            data: frame.data,
            sequence: frame.sequence,
            source: MacAddress([
                octets[0], octets[1], octets[2], octets[3], octets[4], octets[5],
            ]),
            source_port: frame.source as u16,
            priority: frame.priority,
            arrival_ns: Some(frame.arrival_ns).filter(|&ns| ns != 0),
            sender_time_ns: Some(frame.sender_ns).filter(|&ns| ns != 0),
        })
    }

    /// Returns the frame's place to the program. No system call.
    #[inline]
    pub fn release(&mut self) {
        self.queue.release();
    }

    /// Shows up to `limit` waiting frames, most urgent first, and releases them; returns their number. A frame that
    /// comes meanwhile is among them if it is more urgent. No system call.
    #[inline]
    pub fn take(&mut self, limit: usize, mut show: impl FnMut(QueueFrame<'_>)) -> usize {
        let mut taken = 0;
        while taken < limit && self.queue.look() {
            if let Some(frame) = self.peek() {
                show(frame);
            }
            self.queue.release();
            taken += 1;
        }
        taken
    }

    /// Returns the frames dropped because their ring was full. No system call.
    #[must_use]
    pub fn full(&self) -> u64 {
        self.queue.full()
    }

    /// Returns a reader of this channel's counters, valid as long as the channel is open.
    #[must_use]
    pub fn counter_reader(&self) -> CounterReader {
        self.channel.counter_reader()
    }

    /// Returns the counters so far; [`full`](Self::full) returns the frames that a full ring has dropped.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        ChannelCounters {
            accepted: self.queue.accepted(),
            ..self.channel.counters()
        }
    }

    /// Sets a contract: frames beyond it are dropped before they are copied. `None` removes the contract.
    ///
    /// # Errors
    /// The contract is not possible.
    pub fn police(&self, police: Option<&Police>) -> Result<(), ProgramError> {
        self.channel.police(police)
    }
}

impl ReceiveProgram {
    /// Opens a queue channel at a port. Frames with another key or with newest-value semantics are dropped and
    /// counted.
    ///
    /// # Errors
    /// The port is in use; all channels are in use; the memory for that many frames is missing; CAP_NET_RAW is
    /// missing.
    pub fn queue_channel(
        &self,
        port: u16,
        key: u32,
        config: &QueueConfig,
    ) -> Result<QueueChannel, ProgramError> {
        // Created before the channel: the socket that wakes a sleeping reader must exist when the first frame comes.
        let waiter = Waiter::new(&self.shared, port, config.wake_up)?;
        self.queue_with(port, key, config, waiter)
    }

    fn queue_with(
        &self,
        port: u16,
        key: u32,
        config: &QueueConfig,
        waiter: Waiter,
    ) -> Result<QueueChannel, ProgramError> {
        let no_memory = |source: std::io::Error| ProgramError::QueueMemory {
            frames: config.frames,
            source,
        };
        let wakes = config.wake_up != WakeUp::Spin;
        let queue = FrameQueue::new(config.frames, config.by_priority, config.stamps, wakes)
            .map_err(no_memory)?;
        let channel = self.open(port, key, Action::Queue, |program, index| {
            let put = program.queues.put(index as u32, queue.map());
            put.map_err(|errno| no_memory(std::io::Error::from_raw_os_error(errno.0)))
        })?;
        Ok(QueueChannel {
            queue,
            channel,
            waiter,
        })
    }

    #[cfg(test)]
    pub(super) fn queue_without_interface(
        &self,
        port: u16,
        key: u32,
        config: &QueueConfig,
    ) -> Result<QueueChannel, ProgramError> {
        self.queue_with(port, key, config, Waiter::without_interface(config.wake_up))
    }
}

//! The ring of received frames, read by one reader or by several.
//!
//! Each reader has a place of its own and sees every frame. The one that is farthest tells the kernel what it may use again. A
//! reader that falls behind by a whole ring has lost frames, and counts them. So no reader waits for another, or has a lock.

use super::layout::{self, Half, half, halves};
use super::{Errno, Error, Result, UmanDevice};
use crate::clock::timespec;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// A frame that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingFrame {
    /// Its length in bytes.
    pub octets: usize,
    /// The time at which it reached the module, ns of CLOCK_TAI.
    pub stamp_tai_ns: u64,
    /// The VLAN tag (PCP, DEI, VID) that was removed from it.
    pub tag: Option<u16>,
    /// True if the module has answered it by itself.
    pub answered: bool,
}

/// Reads the frames of a device's ring, from its opening on.
#[derive(Debug)]
pub struct RingReader {
    device: Arc<UmanDevice>,
    next: u32,
    overtaken: u64,
    lost_before: u64,
    wake: Option<OwnedFd>,
}

impl RingReader {
    /// Opens a reader; it sees the frames that come from now on. The ring must have been started.
    #[must_use]
    pub fn new(device: Arc<UmanDevice>) -> Self {
        let mut this = Self {
            next: 0,
            overtaken: 0,
            lost_before: device.load(layout::RING_LOST, Ordering::Relaxed),
            wake: None,
            device,
        };
        this.next = this.head();
        // What nobody has read while there was no reader would keep the ring full.
        this.release();
        this
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Arc<UmanDevice> {
        &self.device
    }

    #[inline]
    fn head(&self) -> u32 {
        half(
            self.device.load(layout::RING_HEAD, Ordering::Acquire),
            Half::First,
        )
    }

    /// Returns true if a frame waits. No system call.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.head() != self.next
    }

    /// Copies the next frame to `room`, which has space for [`FRAME_OCTETS`](super::FRAME_OCTETS) bytes; `None` if none
    /// waits. No system call, no wait.
    pub fn take(&mut self, room: &mut [u8]) -> Option<RingFrame> {
        let entries = self.device.layout.ring;
        // Overtaken twice in one call: the frames come faster than they can be copied. The next call goes on.
        for _ in 0..2 {
            let behind = self.head().wrapping_sub(self.next);
            if behind == 0 {
                return None;
            }
            if behind < entries || (behind == entries && self.is_first()) {
                let taken = self.copy(room);
                fence(Ordering::Acquire);
                let behind = self.head().wrapping_sub(self.next);
                if behind < entries || self.is_first() {
                    self.next = self.next.wrapping_add(1);
                    self.release();
                    return Some(taken);
                }
            }
            let skipped = behind.wrapping_sub(entries / 2);
            self.overtaken += u64::from(skipped);
            self.next = self.next.wrapping_add(skipped);
        }
        None
    }

    /// Returns true if no reader is ahead of this one: the kernel has not used its next entry again.
    fn is_first(&self) -> bool {
        let tail = self.device.load(layout::RING_TAIL, Ordering::Relaxed);
        half(tail, Half::First) == self.next
    }

    fn copy(&self, room: &mut [u8]) -> RingFrame {
        let words = self.device.memory.words();
        let at = self.device.layout.ring_word(self.next);
        let load = |at: usize| {
            let word = words.get(at);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let length = load(at + layout::RECEIVED_LENGTH);
        let octets = (half(length, Half::First) as usize).min(super::FRAME_OCTETS);
        let octets = octets.min(room.len());
        let [tag_low, tag_high, flags_low, flags_high] = half(length, Half::Second).to_ne_bytes();
        let tag = u16::from_ne_bytes([tag_low, tag_high]);
        let flags = u16::from_ne_bytes([flags_low, flags_high]);
        for (index, chunk) in room[..octets].chunks_mut(8).enumerate() {
            let octets = load(at + layout::RECEIVED_DATA + index).to_ne_bytes();
            chunk.copy_from_slice(&octets[..chunk.len()]);
        }
        RingFrame {
            octets,
            stamp_tai_ns: load(at),
            tag: (flags & layout::RECEIVED_TAGGED != 0).then_some(tag),
            answered: flags & layout::RECEIVED_ANSWERED != 0,
        }
    }

    /// Lets the kernel use the entries before this reader's next one, unless another reader has done so.
    fn release(&self) {
        let Some(word) = self.device.memory.words().get(layout::RING_TAIL) else {
            return;
        };
        let tail = word.load(Ordering::Relaxed);
        let ahead = self.next.wrapping_sub(half(tail, Half::First));
        if ahead == 0 || ahead > u32::MAX / 2 {
            return;
        }
        let new = halves(self.next, half(tail, Half::Second));
        // Another reader has moved it meanwhile: the next frame moves it on.
        let _ = word.compare_exchange(tail, new, Ordering::Release, Ordering::Relaxed);
    }

    /// Returns the frames that this reader has lost: those that found the ring full, and those by which it was overtaken. No
    /// system call.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let lost = self.device.load(layout::RING_LOST, Ordering::Relaxed);
        lost.wrapping_sub(self.lost_before) + self.overtaken
    }

    /// Waits for a frame that this reader has not seen, at most for `timeout`. Returns where one is there, when the time is up,
    /// and now and then without a reason. One system call; the first call makes two more. Linux 5.11.
    ///
    /// # Errors
    /// The kernel refuses to wait. The device is gone (`ENODEV`).
    pub fn wait(&mut self, timeout: Duration) -> std::result::Result<(), Errno> {
        if !self.device.exists() {
            return Err(Errno(libc::ENODEV));
        }
        if self.wake.is_none() {
            self.wake = Some(self.listen().map_err(|error| error.errno())?);
        }
        if self.is_ready() {
            return Ok(());
        }
        let Some(wake) = &self.wake else {
            return Ok(());
        };
        let time = timespec(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        // SAFETY: epoll_event is plain data, for which all zeroes is a valid value.
        let mut event: libc::epoll_event = unsafe { std::mem::zeroed() };
        // SAFETY: one event and the time are valid for the whole call; no signal mask.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                wake.as_raw_fd(),
                &raw mut event,
                1,
                &raw const time,
                std::ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        if ready < 0 {
            let errno = Errno::last();
            return if errno.interrupted() {
                Ok(())
            } else {
                Err(errno)
            };
        }
        Ok(())
    }

    /// Makes a place where wake-ups are kept until this reader asks for them, whatever other readers do meanwhile. Readiness
    /// itself would not do: it ends when another reader has taken the frame.
    fn listen(&self) -> Result<OwnedFd> {
        // SAFETY: the argument is a number.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last("epoll_create1", "this process", None));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let wake = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut event = libc::epoll_event {
            // The device can always be written to, so each wake-up is delivered.
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32,
            u64: 0,
        };
        let file = self.device.memory.descriptor().as_raw_fd();
        // SAFETY: the event is valid for the whole call, which copies it.
        let added =
            unsafe { libc::epoll_ctl(wake.as_raw_fd(), libc::EPOLL_CTL_ADD, file, &raw mut event) };
        if added != 0 {
            return Err(Error::last("epoll_ctl", super::DEVICE_FILE, None));
        }
        Ok(wake)
    }
}

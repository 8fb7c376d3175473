//! Several frames with one system call, and frames that are written where the kernel reads them.

use super::{NEEDS_TIMES, Sender, Socket};
use crate::error::LinkError;
use rtwire_sys::Errno;

/// Bytes in front of the part that the MTU counts.
const HEADER_AND_TAG: usize = 18;
/// Error number of the kernel when a driver has dropped a frame.
const EBUSY: i32 = 16;

impl Sender {
    /// Returns the memory of the next frame, so that it can be written without a copy. Only the path `xdp` has it,
    /// and only while there is room. No system call.
    #[inline]
    pub fn place(&mut self) -> Option<&mut [u8]> {
        match &mut self.socket {
            Socket::Xdp(socket) if self.launch.is_none() => socket.place(),
            _ => None,
        }
    }

    /// Sends the frame of `octets` bytes that was written to [`place`](Self::place); returns its number. One system
    /// call.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_place(&mut self, octets: usize) -> Result<u64, LinkError> {
        self.push_place(octets)?;
        self.flush()?;
        Ok(self.frames - 1)
    }

    /// Adds the frame that was written to [`place`](Self::place) to those that the next [`flush`](Self::flush) sends.
    /// No system call.
    ///
    /// # Errors
    /// The frame is longer than the interface allows.
    #[inline]
    pub fn push_place(&mut self, octets: usize) -> Result<(), LinkError> {
        if self.launch.is_some() {
            return Err(LinkError::Unsupported { what: NEEDS_TIMES });
        }
        self.push(octets, None)
    }

    /// Copies one frame and sends it, at its launch time if it has one. One system call.
    #[inline]
    pub(super) fn copy_and_send(
        &mut self,
        bytes: &[u8],
        launch_ns: Option<u64>,
    ) -> Result<u64, LinkError> {
        let place = match &mut self.socket {
            Socket::Xdp(socket) => socket.place(),
            _ => None,
        };
        match place {
            Some(place) if bytes.len() <= place.len() => {
                place[..bytes.len()].copy_from_slice(bytes);
            }
            Some(_) => return Err(self.failed(Errno::TOO_LONG, bytes.len())),
            None => return Err(self.failed(Errno::QUEUE_FULL, bytes.len())),
        }
        self.push(bytes.len(), launch_ns)?;
        self.flush()?;
        Ok(self.frames - 1)
    }

    #[inline]
    fn push(&mut self, octets: usize, launch_ns: Option<u64>) -> Result<(), LinkError> {
        let longest = self.interface.mtu as usize + HEADER_AND_TAG;
        let pushed = match &mut self.socket {
            Socket::Xdp(socket) if octets <= longest => match launch_ns {
                None => socket.push(octets),
                Some(launch_ns) => socket.push_at(octets, launch_ns),
            },
            _ => false,
        };
        if !pushed {
            return Err(self.failed(Errno::TOO_LONG, octets));
        }
        self.frames += 1;
        Ok(())
    }

    /// Sends the pushed frames: one system call for 32 frames. Does nothing on other paths.
    ///
    /// # Errors
    /// The interface is down or gone: then the pushed frames have used up no numbers. [`LinkError::QueueFull`]: the
    /// driver has dropped some frames, which have.
    #[inline]
    pub fn flush(&mut self) -> Result<(), LinkError> {
        let Socket::Xdp(socket) = &mut self.socket else {
            return Ok(());
        };
        let waiting = socket.waiting();
        match socket.flush() {
            Ok(()) => Ok(()),
            // Its number was counted when it was pushed.
            Err(Errno(EBUSY)) => Err(LinkError::QueueFull),
            Err(errno) => {
                self.frames -= waiting as u64;
                Err(self.failed(errno, 0))
            }
        }
    }

    /// Sends several frames or datagrams in order, 32 with each system call. Returns the number of them dropped at a
    /// full queue. Each uses up a number, including the dropped ones. No allocation.
    ///
    /// # Errors
    /// As [`send`](Self::send), except for a full queue. The frames before the failed one were sent, as
    /// [`count`](Self::count) reports.
    pub fn send_batch(&mut self, frames: &[&[u8]]) -> Result<usize, LinkError> {
        if self.launch.is_some() {
            return Err(LinkError::Unsupported { what: NEEDS_TIMES });
        }
        let mut dropped = 0;
        let mut left = frames;
        while let Some(first) = left.first() {
            let result = match &mut self.socket {
                Socket::Packet(socket) => socket.send_batch(left),
                Socket::Udp(socket) => socket.send_batch(left),
                Socket::Uman(attachment) => attachment.device().send(first).map(|()| 1),
                Socket::Xdp(_) => {
                    let pushed = self.push_many(left)?;
                    match self.flush() {
                        Err(LinkError::QueueFull) => dropped += 1,
                        result => result?,
                    }
                    left = &left[pushed..];
                    continue;
                }
            };
            match result {
                Ok(sent) => {
                    self.frames += sent as u64;
                    left = &left[sent..];
                }
                Err(errno) if errno.interrupted() => {}
                Err(errno) if self.is_report(errno) => self.refused += 1,
                Err(errno) => match self.failed(errno, first.len()) {
                    LinkError::QueueFull => {
                        // The frames behind it have their numbers already.
                        self.frames += u64::from(errno.would_block());
                        dropped += 1;
                        left = &left[1..];
                    }
                    error => return Err(error),
                },
            }
        }
        Ok(dropped)
    }

    /// Copies as many frames as there is room for, at least one.
    fn push_many(&mut self, frames: &[&[u8]]) -> Result<usize, LinkError> {
        let mut pushed = 0;
        for frame in frames {
            let Some(place) = self.place() else { break };
            let Some(place) = place.get_mut(..frame.len()) else {
                return Err(self.failed(Errno::TOO_LONG, frame.len()));
            };
            place.copy_from_slice(frame);
            self.push_place(frame.len())?;
            pushed += 1;
        }
        if pushed == 0 {
            return Err(self.failed(Errno::QUEUE_FULL, 0));
        }
        Ok(pushed)
    }
}

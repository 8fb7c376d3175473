//! A receive ring shared with the kernel (TPACKET_V2): frames are read without a system call.

use crate::error::{Error, Result};
use crate::packet::PacketSocket;
use crate::socket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes for one frame with its descriptor: 1518 bytes of frame begin at about 66.
const SLOT_OCTETS: usize = 2048;
const SLOTS_PER_BLOCK: usize = 8;

/// The memory of a ring. Created before its socket is bound; read together with it.
#[derive(Debug)]
pub struct Ring {
    memory: *mut u8,
    slots: usize,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and stays where it is when the value moves to another thread; slots
// are handed over with the kernel by acquire and release on their status words.
unsafe impl Send for Ring {}

/// One frame in the ring.
#[derive(Clone, Copy, Debug)]
pub struct RingFrame<'a> {
    /// The frame's bytes, from the destination address on.
    pub data: &'a [u8],
    /// True if the frame was longer than a slot.
    pub truncated: bool,
    /// The time at which the kernel received it, ns of CLOCK_REALTIME; `None` without a timestamp.
    pub stamp_realtime_ns: Option<u64>,
    /// The time at which the card received it, ns of the card's clock; `None` without such a timestamp.
    pub stamp_card_ns: Option<u64>,
    /// The VLAN tag (PCP, DEI, VID) that the kernel or the card removed from the frame. Its TPID is not kept: it may be that of
    /// 802.1Q or 802.1ad.
    pub tag: Option<u16>,
}

impl Ring {
    /// Creates a ring of `frames` slots of 2 KiB for `socket`, rounded up to a power of two. Call it before the
    /// socket is bound.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is not enough memory.
    pub fn new(socket: &PacketSocket, frames: usize) -> Result<Self> {
        let fail =
            |call| move |errno| Error::new(call, socket.object(), errno, Some("CAP_NET_RAW"));
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        socket::set(
            socket.descriptor(),
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            version,
        )
        .map_err(fail("setsockopt(PACKET_VERSION)"))?;
        // A power of two: a slot is then found by a mask, without a division.
        let slots = frames.clamp(SLOTS_PER_BLOCK, 1 << 16).next_power_of_two();
        let blocks = slots / SLOTS_PER_BLOCK;
        let request = libc::tpacket_req {
            tp_block_size: (SLOT_OCTETS * SLOTS_PER_BLOCK) as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: SLOT_OCTETS as u32,
            tp_frame_nr: slots as u32,
        };
        socket::set(
            socket.descriptor(),
            libc::SOL_PACKET,
            libc::PACKET_RX_RING,
            request,
        )
        .map_err(fail("setsockopt(PACKET_RX_RING)"))?;
        // SAFETY: a new mapping of the length that the ring was made with, at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                slots * SLOT_OCTETS,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.descriptor().as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(Error::last(
                "mmap(PACKET_RX_RING)",
                socket.object(),
                Some("CAP_IPC_LOCK"),
            ));
        }
        Ok(Self {
            memory: memory.cast(),
            slots,
            next: 0,
        })
    }

    /// The largest number of frames it holds.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    fn header(&self, ahead: usize) -> *mut libc::tpacket2_hdr {
        let slot = (self.next + ahead) & (self.slots - 1);
        // SAFETY: `slot` is below `slots`, so the slot lies within the mapping.
        unsafe { self.memory.add(slot * SLOT_OCTETS).cast() }
    }

    fn status(&self, ahead: usize) -> &AtomicU32 {
        // SAFETY: the status is the first word of the slot's header, aligned, shared with the kernel and only ever
        // touched atomically; it lives as long as the mapping, which lives as long as `self`.
        unsafe { AtomicU32::from_ptr((&raw mut (*self.header(ahead)).tp_status).cast()) }
    }

    /// True if a frame waits `ahead` slots behind the oldest (0: the oldest itself). No system call.
    #[inline]
    #[must_use]
    pub fn is_ready(&self, ahead: usize) -> bool {
        ahead < self.slots && self.status(ahead).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns the oldest frame, if one waits. No system call.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<RingFrame<'_>> {
        let status = self.status(0).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let header = self.header(0);
        // SAFETY: the status word (read with acquire) says that the slot is ours until `release` returns it. That
        // needs `&mut self`, and so cannot happen while the frame is borrowed.
        let header = unsafe { &*header };
        let start = usize::from(header.tp_mac).min(SLOT_OCTETS);
        let length = (header.tp_snaplen as usize).min(SLOT_OCTETS - start);
        let base: *const u8 = std::ptr::from_ref(header).cast();
        // SAFETY: `start + length` lies within the slot (both cut above), which is ours as said above.
        let data = unsafe { std::slice::from_raw_parts(base.add(start), length) };
        let stamp = |kind: u32| {
            (status & kind != 0)
                .then(|| u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec))
        };
        let tagged = status & libc::TP_STATUS_VLAN_VALID != 0;
        Some(RingFrame {
            data,
            truncated: header.tp_len as usize > length,
            stamp_realtime_ns: stamp(libc::TP_STATUS_TS_SOFTWARE),
            stamp_card_ns: stamp(libc::TP_STATUS_TS_RAW_HARDWARE),
            tag: tagged.then_some(header.tp_vlan_tci),
        })
    }

    /// Returns the oldest frame's slot to the kernel; does nothing if no frame waits.
    #[inline]
    pub fn release(&mut self) {
        // Only this side clears the bit that marks the slot as ours, so reading it needs no order.
        let status = self.status(0);
        if status.load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0 {
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) & (self.slots - 1);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.memory.cast(), self.slots * SLOT_OCTETS) };
    }
}

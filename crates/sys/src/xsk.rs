//! Sending through an AF_XDP socket: frames are built in memory that is shared with the kernel.
//!
//! They bypass the queueing discipline and go to one queue of the driver. Needs CAP_NET_RAW and Linux 5.4.
//!
//! With a copy the kernel makes a packet of each frame; every driver can do it, and reception stays as it is. Without one,
//! the driver also receives into this memory, for the same queue. So there is room for its frames, and the driver takes
//! them from a ring that is filled before the socket is bound ([`ZeroCopy`]).
//!
//! A frame may have a launch time, which stands in front of it ([`XdpSocket::open_for_launches`]). The kernel only
//! passes it to the driver; [`crate::netdev`] reports whether the driver obeys it.

mod metadata;
mod mode;
mod shared;
#[cfg(test)]
mod tests;

use crate::error::{Errno, Error, Result};
use crate::interface::{self, Interface};
use crate::socket;
use metadata::Metadata;
use mode::RECEIVE_PLACES;
use shared::{Ring, map};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

pub use mode::ZeroCopy;

/// Bytes of a frame's place, including its metadata in front of it.
const ROOM: usize = 2048;
/// The number of places, and entries of each ring: a power of two.
const PLACES: u32 = 256;
/// The longest time for which a queue in use is tried again. The kernel frees one some milliseconds after its socket
/// closed.
const PATIENCE: Duration = Duration::from_secs(1);
/// The largest number of calls for frames left in the ring, before they are left to the next flush.
const KICKS: usize = 64;

/// A sender of frames through one queue of an interface.
#[derive(Debug)]
pub struct XdpSocket {
    socket: OwnedFd,
    /// A socket of another family: AF_XDP sockets do not report a missing interface.
    probe: OwnedFd,
    name: String,
    interface: u32,
    queue: u32,
    zero_copy: bool,
    frames: *mut u8,
    /// The memory's length.
    octets: usize,
    /// Bytes in front of each frame: 0, or those of its metadata.
    in_front: usize,
    transmit: Ring,
    completion: Ring,
    /// The places that the driver may receive into.
    fill: Ring,
    /// The numbers of the places that are free.
    free: Vec<u32>,
}

// SAFETY: the mappings belong to this value alone and stay where they are when it moves to another thread. Their
// parts change hands with the kernel by acquire and release on the rings' positions.
unsafe impl Send for XdpSocket {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Registration {
    address: u64,
    octets: u64,
    chunk: u32,
    headroom: u32,
    flags: u32,
    metadata: u32,
}
// SAFETY: six integers without padding; the address is of memory that lives longer than the socket.
unsafe impl socket::Plain for Registration {}

impl XdpSocket {
    /// Opens a sender at one queue. Nothing is received through it.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing. The kernel has no AF_XDP. The interface is gone or has no such queue. Another socket has
    /// the queue ([`crate::ErrorKind::InUse`], after a second of trying again).
    ///
    /// With [`ZeroCopy::Only`]: the driver cannot do it, or not with its present settings, such as without an XDP program in
    /// native mode ([`crate::ErrorKind::Unsupported`], or the driver's own answer).
    pub fn open(interface: &Interface, queue: u32, zero_copy: ZeroCopy) -> Result<Self> {
        Self::open_with(interface, queue, 0, zero_copy)
    }

    /// Opens a sender for frames with launch times ([`push_at`](Self::push_at)). Needs Linux 6.15, and a driver that
    /// keeps them.
    ///
    /// # Errors
    /// As for [`open`](Self::open). Before Linux 6.11 the kernel refuses such memory (`EINVAL`).
    pub fn open_for_launches(
        interface: &Interface,
        queue: u32,
        zero_copy: ZeroCopy,
    ) -> Result<Self> {
        Self::open_with(interface, queue, Metadata::OCTETS, zero_copy)
    }

    fn open_with(
        interface: &Interface,
        queue: u32,
        in_front: usize,
        zero_copy: ZeroCopy,
    ) -> Result<Self> {
        // With copies nothing is ever received here.
        let receive_places = match zero_copy {
            ZeroCopy::Never => 0,
            ZeroCopy::IfPossible | ZeroCopy::Only => RECEIVE_PLACES,
        };
        let octets = (PLACES + receive_places) as usize * ROOM;
        let name = format!("queue {queue} of interface `{}`", interface.name);
        let kind = (libc::AF_XDP, libc::SOCK_RAW, 0);
        let socket = socket::open("socket(AF_XDP)", &name, kind, Some("CAP_NET_RAW"))?;
        let frames =
            map(None, octets, 0).map_err(|errno| Error::new("mmap", &name, errno, None))?;
        let mut this = Self {
            transmit: Ring::NONE,
            completion: Ring::NONE,
            fill: Ring::NONE,
            octets,
            interface: interface.index,
            queue,
            zero_copy: false,
            frames,
            in_front,
            free: (0..PLACES).collect(),
            socket,
            probe: socket::open(
                "socket(AF_INET)",
                &name,
                (libc::AF_INET, libc::SOCK_DGRAM, 0),
                None,
            )?,
            name,
        };
        let registration = Registration {
            address: frames as u64,
            octets: octets as u64,
            chunk: ROOM as u32,
            headroom: 0,
            flags: if in_front == 0 {
                0
            } else {
                libc::XDP_UMEM_TX_METADATA_LEN
            },
            metadata: in_front as u32,
        };
        this.set("XDP_UMEM_REG", libc::XDP_UMEM_REG, registration)?;
        // A socket needs a fill ring even if nothing is received.
        let fill_entries = receive_places.max(PLACES);
        this.set(
            "XDP_UMEM_FILL_RING",
            libc::XDP_UMEM_FILL_RING,
            fill_entries as i32,
        )?;
        this.set(
            "XDP_UMEM_COMPLETION_RING",
            libc::XDP_UMEM_COMPLETION_RING,
            PLACES as i32,
        )?;
        this.set("XDP_TX_RING", libc::XDP_TX_RING, PLACES as i32)?;
        this.map_rings(fill_entries)?;
        this.fill_with(receive_places);
        this.bind(zero_copy)?;
        this.zero_copy = this.is_zero_copy_now();
        Ok(this)
    }

    /// Hands over the places behind those of sent frames to the driver. Once is enough: a frame is never received here, and
    /// the driver uses a place again when it has passed the frame to Linux or to the XDP program.
    fn fill_with(&self, places: u32) {
        let ring = &self.fill;
        for number in 0..places {
            let address = u64::from(PLACES + number) * ROOM as u64;
            // SAFETY: the ring has at least as many entries as there are such places, and the kernel reads none before
            // the position is stored.
            unsafe {
                ring.entries
                    .cast::<u64>()
                    .add(number as usize)
                    .write(address)
            };
        }
        ring.producer().store(places, Ordering::Release);
    }

    fn set<T: socket::Plain>(&self, call: &'static str, option: i32, value: T) -> Result<()> {
        socket::set(&self.socket, libc::SOL_XDP, option, value)
            .map_err(|errno| Error::new(call, &self.name, errno, Some("CAP_NET_RAW")))
    }

    fn map_rings(&mut self, fill_entries: u32) -> Result<()> {
        // SAFETY: xdp_mmap_offsets is plain data, for which all zeroes is a valid value.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&offsets) as libc::socklen_t;
        // SAFETY: `offsets` is a valid place of the size given.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_XDP,
                libc::XDP_MMAP_OFFSETS,
                (&raw mut offsets).cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(Error::last(
                "getsockopt(XDP_MMAP_OFFSETS)",
                &self.name,
                None,
            ));
        }
        let ring = |offset: &libc::xdp_ring_offset, entries: u32, entry: usize, page: u64| {
            let octets = offset.desc as usize + entries as usize * entry;
            let memory = map(Some(&self.socket), octets, page)
                .map_err(|errno| Error::new("mmap(AF_XDP)", &self.name, errno, None))?;
            // SAFETY: the kernel says that positions and entries lie at these offsets of the mapping.
            Ok(unsafe {
                Ring {
                    memory,
                    octets,
                    producer: memory.add(offset.producer as usize).cast(),
                    consumer: memory.add(offset.consumer as usize).cast(),
                    flags: memory.add(offset.flags as usize).cast(),
                    entries: memory.add(offset.desc as usize),
                }
            })
        };
        let (transmit, completion, fill) = (
            ring(
                &offsets.tx,
                PLACES,
                size_of::<libc::xdp_desc>(),
                libc::XDP_PGOFF_TX_RING as u64,
            )?,
            ring(
                &offsets.cr,
                PLACES,
                size_of::<u64>(),
                libc::XDP_UMEM_PGOFF_COMPLETION_RING,
            )?,
            ring(
                &offsets.fr,
                fill_entries,
                size_of::<u64>(),
                libc::XDP_UMEM_PGOFF_FILL_RING,
            )?,
        );
        self.fill = fill;
        self.transmit = transmit;
        self.completion = completion;
        Ok(())
    }

    fn bind(&self, zero_copy: ZeroCopy) -> Result<()> {
        // SAFETY: sockaddr_xdp is plain data, for which all zeroes is a valid value.
        let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP | zero_copy.flags();
        address.sxdp_ifindex = self.interface;
        address.sxdp_queue_id = self.queue;
        let start = Instant::now();
        loop {
            // SAFETY: the address and its size are valid for the whole call.
            let result = unsafe {
                libc::bind(
                    self.socket.as_raw_fd(),
                    (&raw const address).cast(),
                    size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
                )
            };
            if result == 0 {
                return Ok(());
            }
            let call = match zero_copy {
                ZeroCopy::Only => "bind(AF_XDP, zero copy)",
                ZeroCopy::Never | ZeroCopy::IfPossible => "bind(AF_XDP)",
            };
            let error = Error::last(call, &self.name, None);
            if error.errno().0 != libc::EBUSY || start.elapsed() > PATIENCE {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_zero_copy_now(&self) -> bool {
        socket::get_i32(&self.socket, libc::SOL_XDP, libc::XDP_OPTIONS)
            .is_ok_and(|options| options as u32 & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// True if the driver sends from this memory itself, as the kernel reports it; else the kernel makes one copy of each
    /// frame.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Returns the place of the next frame: 2048 bytes, 2024 if frames have launch times. No system call.
    ///
    /// `None` while the kernel has all places.
    #[inline]
    pub fn place(&mut self) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            self.collect();
        }
        let place = *self.free.last()? as usize;
        // SAFETY: the place lies within the mapping, and is only ours until `push` passes it to the kernel. That
        // needs `&mut self`, and so cannot happen while this is borrowed.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                self.frames.add(place * ROOM + self.in_front),
                ROOM - self.in_front,
            )
        })
    }

    /// Queues the frame of `octets` bytes in [`place`](Self::place) for sending. No system call.
    ///
    /// Returns false if there was no place, or the place is shorter.
    #[inline]
    pub fn push(&mut self, octets: usize) -> bool {
        self.give(octets, None)
    }

    /// Queues a frame that is to leave at `launch_ns` of the card's clock. No system call.
    ///
    /// Returns false as [`push`](Self::push) does, and if the socket was not opened for launch times.
    #[inline]
    pub fn push_at(&mut self, octets: usize, launch_ns: u64) -> bool {
        self.give(octets, Some(Metadata::launch_at(launch_ns)))
    }

    #[inline]
    fn give(&mut self, octets: usize, metadata: Option<Metadata>) -> bool {
        if octets > ROOM - self.in_front || (metadata.is_some() && self.in_front == 0) {
            return false;
        }
        let Some(place) = self.free.pop() else {
            return false;
        };
        let begin = place as usize * ROOM;
        let mut options = 0;
        if let Some(metadata) = metadata {
            // SAFETY: the place lies within the mapping and is ours. The room in front of the frame is as long as the
            // metadata, and aligned, since places are pages' halves.
            unsafe { self.frames.add(begin).cast::<Metadata>().write(metadata) };
            options = libc::XDP_TX_METADATA;
        }
        self.describe(libc::xdp_desc {
            addr: (begin + self.in_front) as u64,
            len: octets as u32,
            options,
        });
        true
    }

    /// Writes an entry for the kernel to the ring.
    #[inline]
    fn describe(&mut self, entry: libc::xdp_desc) {
        let ring = &self.transmit;
        let position = ring.producer().load(Ordering::Relaxed);
        // The ring has as many entries as there are places, so there is room for each.
        let at = (position & (PLACES - 1)) as usize;
        // SAFETY: the entry lies within the ring's mapping, and is ours until the position is stored.
        unsafe { ring.entries.cast::<libc::xdp_desc>().add(at).write(entry) };
        ring.producer()
            .store(position.wrapping_add(1), Ordering::Release);
    }

    /// The number of frames that the kernel has not taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let produced = self.transmit.producer().load(Ordering::Relaxed);
        let consumed = self.transmit.consumer().load(Ordering::Acquire);
        produced.wrapping_sub(consumed) as usize
    }

    /// Sends the queued frames: one system call for 32 of them. Frames that the kernel cannot take now stay for the
    /// next call.
    ///
    /// # Errors
    /// The interface is down or gone, or the kernel does not support launch times (`EINVAL`): frames not taken are
    /// withdrawn. The driver dropped a frame (`EBUSY`).
    #[inline]
    pub fn flush(&mut self) -> std::result::Result<(), Errno> {
        let mut dropped = None;
        if self.zero_copy {
            // The position of the newest frame was stored before; the flags are read behind. Without a full barrier the
            // processor may read them first. A driver that then finds no frame, and sets its flag, would never be woken.
            fence(Ordering::SeqCst);
            if self.fill.needs_wakeup() {
                self.wake_receiving();
            }
        }
        for _ in 0..KICKS {
            // Without a copy the driver takes the frames by itself, at once or when it is woken.
            if self.waiting() == 0 || (self.zero_copy && !self.transmit.needs_wakeup()) {
                break;
            }
            // SAFETY: no data and no address: all arguments are numbers.
            let result = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            if result >= 0 {
                continue;
            }
            let errno = Errno::last();
            match errno.0 {
                libc::EAGAIN | libc::EINTR => {}
                libc::EBUSY | libc::ENOBUFS => dropped = Some(errno),
                _ => {
                    self.take_back();
                    return Err(errno);
                }
            }
        }
        self.collect();
        dropped.map_or(Ok(()), Err)
    }

    /// Wakes a driver that waits for places to receive into: it has stopped when it found none, and some are free again.
    #[cold]
    fn wake_receiving(&self) {
        let mut request = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `request` is valid for the whole call, which does not wait.
        unsafe { libc::poll(&raw mut request, 1, 0) };
    }

    /// Withdraws the frames that the kernel has refused. It takes frames only within a call of ours or, without
    /// copies, while the interface is up.
    #[cold]
    fn take_back(&mut self) {
        let ring = &self.transmit;
        let consumed = ring.consumer().load(Ordering::Acquire);
        let produced = ring.producer().load(Ordering::Relaxed);
        for position in 0..produced.wrapping_sub(consumed).min(PLACES) {
            let entry = (consumed.wrapping_add(position) & (PLACES - 1)) as usize;
            // SAFETY: the entry lies within the ring's mapping, and is one that we have written.
            let address = unsafe { (*ring.entries.cast::<libc::xdp_desc>().add(entry)).addr };
            self.free.push((address / ROOM as u64) as u32);
        }
        ring.producer().store(consumed, Ordering::Release);
    }

    /// Collects the places of sent frames.
    #[inline]
    fn collect(&mut self) {
        let ring = &self.completion;
        let produced = ring.producer().load(Ordering::Acquire);
        let mut consumed = ring.consumer().load(Ordering::Relaxed);
        while consumed != produced {
            let entry = (consumed & (PLACES - 1)) as usize;
            // SAFETY: the entry lies within the ring's mapping, and the kernel has written it (its position was read
            // with acquire).
            let address = unsafe { *ring.entries.cast::<u64>().add(entry) };
            let place = (address / ROOM as u64) as u32;
            // The kernel returns the places it was passed; any other would let two frames share a place.
            if place < PLACES && self.free.len() < PLACES as usize {
                self.free.push(place);
            }
            consumed = consumed.wrapping_add(1);
        }
        ring.consumer().store(consumed, Ordering::Release);
    }

    /// True if the interface still exists. One system call.
    #[must_use]
    pub fn interface_exists(&self) -> bool {
        interface::exists(&self.probe, self.interface)
    }
}

impl Drop for XdpSocket {
    fn drop(&mut self) {
        // SAFETY: the very range that `open` mapped; nothing borrows from it any more.
        unsafe { libc::munmap(self.frames.cast(), self.octets) };
    }
}

//! `/dev/uman`: the memory that the kernel module `uman` shares with a program, and the requests to it.
//!
//! ```text
//!  write ───────────────────────────────► a frame leaves now
//!  Outgoing ── publish, renew ──► reply ► a frame leaves when another one arrives
//!                             ──► cyclic ► a frame leaves at each instant of a grid
//!  RingReader ◄── ring in memory ◄─────── frames that arrive at the device
//! ```
//!
//! Layout and requests are those of `kernel/uman/include/uman_abi.h`, version [`ABI_VERSION`]. The kernel lets one program
//! attach to a device at a time. Needs Linux 6.1, the module, and CAP_NET_RAW; the device file belongs to root.
//!
//! All memory is read and written as whole 64-bit words. So a frame that the kernel overwrites meanwhile is found out, and does
//! no harm.

mod layout;
mod ring;
#[cfg(test)]
mod tests;

use crate::error::{Errno, Error, Result};
use crate::interface::Interface;
use crate::netlink::{self, Question, attributes};
use crate::words::MappedWords;
use layout::{Half, half, halves};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

pub use layout::{ABI_VERSION, CYCLIC_MOST, FRAME_OCTETS, LEASE_MOST, REPLIES_MOST, RING_MOST};
pub use ring::{RingFrame, RingReader};

/// The device file.
pub const DEVICE_FILE: &str = "/dev/uman";

/// A network device of kind `uman` in the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UmanLink {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// The index of the device below it; `None` where that is in another namespace.
    pub lower: Option<u32>,
}

/// Returns the devices of kind `uman` in the calling thread's network namespace.
///
/// # Errors
/// The kernel does not list its links.
pub fn devices() -> Result<Vec<UmanLink>> {
    const RTM_NEWLINK: u16 = 16;
    const RTM_GETLINK: u16 = 18;
    let question = Question {
        call: "RTM_GETLINK",
        protocol: libc::NETLINK_ROUTE,
        kind: RTM_GETLINK,
        dump: true,
        // struct ifinfomsg: no family, any device.
        body: &[0; 16],
    };
    let mut found = Vec::new();
    netlink::ask(&question, "the links", |kind, body| {
        if kind == RTM_NEWLINK {
            found.extend(decode(body));
        }
    })?;
    Ok(found)
}

/// Returns the interface below a device of kind `uman`; `None` for any other interface, or where it is in another namespace.
///
/// # Errors
/// The kernel does not list its links.
pub fn below(interface: &Interface) -> Result<Option<Interface>> {
    let device = devices()?
        .into_iter()
        .find(|one| one.index == interface.index);
    let Some(lower) = device.and_then(|device| device.lower) else {
        return Ok(None);
    };
    let name = crate::interface::name_of(lower);
    name.map(|name| crate::interface::by_name(&name))
        .transpose()
}

/// Reads one RTM_NEWLINK; `None` if the link is of another kind.
fn decode(body: &[u8]) -> Option<UmanLink> {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINK: u16 = 5;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_LINK_NETNSID: u16 = 37;
    const IFLA_INFO_KIND: u16 = 1;
    let number = |octets: &[u8]| Some(u32::from_ne_bytes(octets.get(..4)?.try_into().ok()?));
    let text = |octets: &[u8]| {
        let name = octets.split(|&octet| octet == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    };
    let (mut name, mut lower, mut elsewhere, mut is_uman) = (String::new(), None, false, false);
    for (which, value) in attributes(body.get(16..)?) {
        match which {
            IFLA_IFNAME => name = text(value),
            IFLA_LINK => lower = number(value),
            IFLA_LINK_NETNSID => elsewhere = true,
            IFLA_LINKINFO => {
                is_uman = attributes(value)
                    .any(|(which, value)| which == IFLA_INFO_KIND && text(value) == "uman");
            }
            _ => {}
        }
    }
    is_uman.then_some(UmanLink {
        name,
        index: number(body.get(4..)?)?,
        lower: lower.filter(|_| !elsewhere),
    })
}

/// The slots and entries that an attachment is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Cyclic frames, at most [`CYCLIC_MOST`].
    pub cyclic: u32,
    /// Automatic replies, at most [`REPLIES_MOST`].
    pub replies: u32,
    /// Entries of the ring: 0 or a power of two, at most [`RING_MOST`].
    pub ring: u32,
}

/// The frames that a reply answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UmanFilter {
    /// The EtherType.
    pub ether_type: u16,
    /// The destination address; `None` for any.
    pub destination: Option<[u8; 6]>,
    /// The offset in the frame of `value` and `mask`, at most 56. Offsets count without a VLAN tag.
    pub offset: u16,
    /// The bytes that the frame has there.
    pub value: [u8; 8],
    /// The bits of them that count.
    pub mask: [u8; 8],
}

/// An attachment to a device. All that was set up in it ends when it is dropped, or when the process ends.
pub struct UmanDevice {
    memory: MappedWords,
    layout: layout::Attach,
    name: String,
    mtu: u32,
}

impl std::fmt::Debug for UmanDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UmanDevice({})", self.name)
    }
}

const CAPABILITY: Option<&str> = Some("CAP_NET_RAW");

impl UmanDevice {
    /// Attaches to a device of kind `uman` in the calling thread's network namespace.
    ///
    /// # Errors
    /// The module is not loaded (`ENOENT`), it has another version of its interface (`EPROTO`), the device is none of this
    /// kind (`ENODEV`), a program is attached already (`EBUSY`), or a privilege is missing.
    pub fn attach(device: &Interface, wanted: Wanted) -> Result<Self> {
        // SAFETY: the path is a C string that lives for ever; the flags are numbers.
        let fd = unsafe { libc::open(c"/dev/uman".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last("open", DEVICE_FILE, CAPABILITY));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut layout = layout::Attach {
            version: ABI_VERSION,
            ifindex: device.index,
            cyclic: wanted.cyclic,
            reply: wanted.replies,
            ring: wanted.ring,
            ..layout::Attach::default()
        };
        let object = format!("{DEVICE_FILE} for interface `{}`", device.name);
        request(&file, layout::ATTACH, &raw mut layout)
            .map_err(|errno| Error::new("UMAN_IOC_ATTACH", object.as_str(), errno, CAPABILITY))?;
        if !layout.fits() {
            let errno = Errno(libc::EPROTO);
            return Err(Error::new("UMAN_IOC_ATTACH", object, errno, None));
        }
        let memory = MappedWords::map(file, layout.size as usize / size_of::<u64>())
            .map_err(|_| Error::last("mmap", object.as_str(), None))?;
        Ok(Self {
            memory,
            layout,
            name: device.name.clone(),
            mtu: device.mtu,
        })
    }

    /// Returns false once the device is gone. No system call.
    #[must_use]
    pub fn exists(&self) -> bool {
        half(
            self.load(layout::SHARED_STATE, Ordering::Acquire),
            Half::Second,
        ) != layout::DEVICE_GONE
    }

    /// Sends one frame now, by the device's transmit mode. One system call.
    ///
    /// # Errors
    /// The device is gone or down, the lower device dropped the frame, or it is longer than that allows.
    pub fn send(&self, frame: &[u8]) -> std::result::Result<(), Errno> {
        if frame.len() > FRAME_OCTETS.min(self.mtu as usize + 18) {
            return Err(Errno::TOO_LONG);
        }
        let file = self.memory.descriptor().as_raw_fd();
        // SAFETY: the frame and its length are valid for the whole call.
        match unsafe { libc::write(file, frame.as_ptr().cast(), frame.len()) } {
            written if written < 0 => Err(Errno::last()),
            _ => Ok(()),
        }
    }

    /// Has the module answer each frame that meets `filter` with what [`Outgoing`] of this slot has published, `lease`
    /// times without a renewal (1 to [`LEASE_MOST`]). In place of what was set for the slot before. One system call, which
    /// does not wait.
    ///
    /// # Errors
    /// The device is gone; or there is no such slot, or the filter reaches too far (`EINVAL`).
    pub fn set_reply(
        &self,
        slot: u32,
        filter: &UmanFilter,
        lease: u32,
    ) -> std::result::Result<(), Errno> {
        let mut asked = layout::Reply::new(slot, filter, lease);
        request(self.memory.descriptor(), layout::REPLY, &raw mut asked)
    }

    /// Has the module send what [`Outgoing`] of this slot has published at `start_ns`, and each `period_ns` from then on, as
    /// long as it is renewed once in `lease` instants (1 to [`LEASE_MOST`]). Times are of CLOCK_MONOTONIC; a start that is past
    /// is the next instant of its grid. In place of what was set for the slot before. One system call.
    ///
    /// # Errors
    /// The device is gone; or there is no such slot, or the period is not 50 µs to 1 s (`EINVAL`).
    pub fn set_cyclic(
        &self,
        slot: u32,
        (start_ns, period_ns): (u64, u64),
        lease: u32,
    ) -> std::result::Result<(), Errno> {
        let mut asked = layout::Cyclic {
            slot,
            clock: libc::CLOCK_MONOTONIC,
            start_ns,
            period_ns,
            lease,
            flags: 0,
            lead_ns: 0,
            reserved: 0,
        };
        request(self.memory.descriptor(), layout::CYCLIC, &raw mut asked)
    }

    /// Has the module put every frame of the device's EtherTypes into the ring. They go on to Linux all the same. One system
    /// call.
    ///
    /// # Errors
    /// The device is gone, or the attachment has no ring.
    pub fn start_ring(&self) -> std::result::Result<(), Errno> {
        let mut asked = layout::Receive::whole_ring();
        request(self.memory.descriptor(), layout::RECEIVE, &raw mut asked)
    }

    /// Ends that. Waits until no frame is on its way into the ring.
    ///
    /// # Errors
    /// The device is gone.
    pub fn stop_ring(&self) -> std::result::Result<(), Errno> {
        let mut asked = layout::Stop::ring();
        request(self.memory.descriptor(), layout::STOP, &raw mut asked)
    }

    fn load(&self, word: usize, order: Ordering) -> u64 {
        let word = self.memory.words().get(word);
        word.map_or(0, |word| word.load(order))
    }
}

/// Makes a request to the module.
fn request<T: layout::Request>(
    file: &OwnedFd,
    number: libc::c_ulong,
    argument: *mut T,
) -> std::result::Result<(), Errno> {
    // SAFETY: the argument is valid for the whole call, and its type has the layout and the size that the request's number
    // names: the trait is for those types only.
    if unsafe { libc::ioctl(file.as_raw_fd(), number as libc::Ioctl, argument) } != 0 {
        return Err(Errno::last());
    }
    Ok(())
}

/// A frame that the module sends by itself, in the slot of a reply or of a cyclic frame. One value for a slot: it is the only writer.
#[derive(Debug)]
pub struct Outgoing {
    device: Arc<UmanDevice>,
    /// The first word of its `struct uman_outgoing`.
    at: usize,
    generation: u32,
    renewed: u32,
}

impl Outgoing {
    /// Returns the frame of a reply's slot; `None` if the attachment has no such slot. Take it once.
    #[must_use]
    pub fn reply(device: Arc<UmanDevice>, slot: u32) -> Option<Self> {
        let at = device.layout.reply_word(slot)?;
        Some(Self::at(device, at))
    }

    /// Returns a cyclic frame; `None` if the attachment has no such slot. Take it once.
    #[must_use]
    pub fn cyclic(device: Arc<UmanDevice>, slot: u32) -> Option<Self> {
        let at = device.layout.cyclic_word(slot)?;
        Some(Self::at(device, at))
    }

    fn at(device: Arc<UmanDevice>, at: usize) -> Self {
        let first = device.load(at, Ordering::Relaxed);
        Self {
            at,
            generation: half(first, Half::First),
            renewed: half(first, Half::Second),
            device,
        }
    }

    /// Returns true while the module sends the frame: it was set, and its lease has not ended. No system call.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let state = self
            .device
            .load(self.at + layout::OUTGOING_STATE, Ordering::Acquire);
        half(state, Half::First) == layout::ON
    }

    /// Publishes a content: from now on this frame leaves, whole. An empty frame: nothing leaves. One that is longer than
    /// [`FRAME_OCTETS`] counts as empty. No system call.
    pub fn publish(&mut self, frame: &[u8]) {
        let frame = match frame.len() {
            0..=FRAME_OCTETS => frame,
            _ => &[],
        };
        let words = self.device.memory.words();
        let next = self.generation.wrapping_add(1);
        let buffer = self.at + layout::buffer_word(next);
        // What was published last comes before what is overwritten now: a processor that still copies this buffer sees it.
        fence(Ordering::SeqCst);
        let store = |at: usize, value: u64| {
            if let Some(word) = words.get(at) {
                word.store(value, Ordering::Relaxed);
            }
        };
        store(buffer, halves(frame.len() as u32, 0));
        for (index, chunk) in frame.chunks(8).enumerate() {
            let mut octets = [0; 8];
            octets[..chunk.len()].copy_from_slice(chunk);
            store(buffer + 1 + index, u64::from_ne_bytes(octets));
        }
        self.generation = next;
        self.store_first();
    }

    /// Renews the lease. No system call.
    pub fn renew(&mut self) {
        self.renewed = self.renewed.wrapping_add(1);
        self.store_first();
    }

    fn store_first(&self) {
        // Both halves are this writer's.
        if let Some(word) = self.device.memory.words().get(self.at) {
            word.store(halves(self.generation, self.renewed), Ordering::Release);
        }
    }

    /// Returns the frames that have left, those that could not (also for lack of a content), and true if the lease has ended.
    /// No system call.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, bool) {
        let load = |at: usize| self.device.load(self.at + at, Ordering::Relaxed);
        let state = half(load(layout::OUTGOING_STATE), Half::First);
        (
            load(layout::OUTGOING_SENT),
            load(layout::OUTGOING_FAILED),
            state == layout::LEASE_ENDED,
        )
    }
}

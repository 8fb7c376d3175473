//! The receive program: XDP that demultiplexes, keeps the newest value, answers and polices before Linux sees a frame.
//!
//! ```text
//!  frame ──► XDP ── not RTDiP, not for us, faulty, port without channel ──► Linux, as it came
//!             └── port's channel: key, police ─┬─► queue: rings in memory ◄── QueueChannel::wait, peek, release
//!                                              ├─► newest value: a slot in memory ◄── NewestSlot::read, no system call
//!                                              ├─► respond: prepared answer, sent by the driver (XDP_TX)
//!                                              └─► pass: Linux (packet sockets)
//! ```
//!
//! ```no_run
//! use rtwire_link::program::ReceiveProgram;
//!
//! # fn main() -> Result<(), rtwire_link::program::ProgramError> {
//! let program = ReceiveProgram::attach("eth0")?;
//! let mut slot = program.newest_channel(1001, 0)?;
//! let mut value = [0; 64];
//! if let Some(newest) = slot.read(&mut value) {
//!     println!("number {}: {:?}", newest.sequence, &value[..newest.length.min(64)]);
//! }
//! # Ok(()) }
//! ```
//!
//! The whole description is `docs/receive-program.md`.
//!
//! # Limits
//! Needs Linux 6.1, CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW; processes that share an interface also need CAP_SYS_ADMIN.
//! There are 64 channels, and frames of the usual size (user data up to 1484 bytes). An answer may be longer than its
//! question only as far as the driver lets a frame grow. Over veth, do not rely on any growth. A reply over veth
//! needs an XDP program at the peer, too, in native mode.

mod arrivals;
#[cfg(test)]
mod arrivals_tests;
mod attach;
#[cfg(test)]
mod attach_tests;
mod error;
#[cfg(test)]
mod frame_tests;
mod hold;
#[cfg(test)]
mod hold_tests;
mod layout;
#[cfg(test)]
mod layout_tests;
mod newest;
#[cfg(test)]
mod newest_tests;
mod patch;
mod police;
#[cfg(test)]
mod police_tests;
mod queue;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod random_tests;
mod registry;
mod respond;
#[cfg(test)]
mod respond_tests;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod test_bench;
#[cfg(test)]
mod torn_tests;
mod wait;

use layout::{Action, Channel, Control, PORTS, Port};
use rtwire_sys::Errno;
use rtwire_sys::bpf::{MapOfMaps, MappedArray, XdpLink};
use rtwire_sys::interface::{self, AddressWatch, Interface};
use rtwire_sys::port_lock::NameLock;
use rtwire_wire::EtherType;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use crate::xdp::Attach;
pub use arrivals::{ArrivalNote, ArrivalNotes, MOST_NOTES};
pub(crate) use attach::namespace;
pub use error::ProgramError;
pub use hold::{HELD, release};
pub use newest::{Newest, NewestReader, NewestSlot};
pub use patch::{Patch, PatchSource};
pub(crate) use patch::{apply as apply_patches, check as check_patches};
pub use police::{Bucket, Police, PolicedPort};
pub use queue::{QueueChannel, QueueConfig, QueueFrame};
pub use respond::Responder;
pub use rtwire_sys::bpf::XdpMode;

/// Lowest port that a question may come from. Responders have lower ports, so they never answer each other.
pub const FIRST_ASKING_PORT: u16 = layout::FIRST_ASKING_PORT;
/// Largest length of the user data in an answer, in bytes.
pub const MAXIMUM_REPLY_OCTETS: usize = layout::REPLY_OCTETS;

/// Configuration for attaching the receive program.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// The interface's name.
    pub interface: String,
    /// The EtherType of RTDiP frames.
    pub ether_type: EtherType,
    /// Mode in which to attach.
    pub attach: Attach,
}

impl ProgramConfig {
    /// Returns a configuration with RTDiP's usual EtherType and the best available mode.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            ether_type: EtherType::RTDIP,
            attach: Attach::Best,
        }
    }
}

/// Faulty and unclaimed frames that the program has found, by reason. All of them were passed on to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProgramCounters {
    /// Frames shorter than their header.
    pub truncated: u64,
    /// Frames of another version.
    pub wrong_version: u64,
    /// Frames with a reserved flag, or a priority above 7.
    pub malformed: u64,
    /// Frames whose length field exceeds the frame.
    pub wrong_length: u64,
    /// Frames for ports without a channel in the program; packet sockets may have these ports.
    pub other_port: u64,
}

/// Counters of one channel of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChannelCounters {
    /// Frames put into the slot or the queue, answered, or passed on.
    pub accepted: u64,
    /// Dropped: another key.
    pub wrong_key: u64,
    /// Dropped: queue semantics at a newest-value channel, or newest-value semantics at a queue channel.
    pub wrong_semantics: u64,
    /// Dropped: beyond the contract.
    pub policed: u64,
    /// Dropped: more data than a slot or a place of a queue holds.
    pub oversize: u64,
    /// Dropped: not newer than the newest value.
    pub stale: u64,
    /// Dropped: another processor was writing a value of this channel at the same moment.
    pub busy: u64,
    /// Dropped: not from a port at or above [`FIRST_ASKING_PORT`].
    pub no_question: u64,
    /// Dropped: the content was replaced faster than it could be copied.
    pub unanswered: u64,
    /// Dropped: the answer is longer than the question's frame and than the driver lets it grow.
    pub no_room: u64,
    /// The memory of a queue or of arrival notes is inconsistent (this or another process has overwritten it). Frames
    /// of a queue are dropped; values without a note are not.
    pub broken: u64,
}

/// The program on one interface. Several processes share it. It is detached when the last of them has dropped this
/// value and all its channels, or has ended in any way. Clones are cheap and denote the same program.
#[derive(Clone, Debug)]
pub struct ReceiveProgram {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    interface: Interface,
    /// Shows the interface's address, which may change.
    watch: AddressWatch,
    ether_type: EtherType,
    variant: attach::Variant,
    attachment: Mutex<Attachment>,
    program: OwnedFd,
    why_generic: Option<String>,
    control: MappedArray,
    ports: MappedArray,
    channels: MappedArray,
    slots: MappedArray,
    replies: MappedArray,
    /// The memory of each queue channel.
    queues: MapOfMaps,
    /// The arrival notes of each newest-value channel that keeps them.
    notes: MapOfMaps,
    /// The inode of the network namespace that holds the locks of ports.
    namespace: u64,
    /// Time of the last search for channels of ended processes, in ns of CLOCK_MONOTONIC.
    tidied_ns: AtomicU64,
}

/// The link between the program and its interface.
#[derive(Debug)]
struct Attachment {
    /// `None` in tests, where the program is not attached.
    link: Option<XdpLink>,
    /// `true` if another process, or another part of this one, had attached it.
    joined: bool,
}

impl ReceiveProgram {
    /// Attaches the program to an interface: native if possible, else generic. If other processes already share it
    /// there, joins them.
    ///
    /// # Errors
    /// The interface does not exist; a privilege is missing; another XDP program is attached
    /// ([`ProgramError::is_in_use`]); XDP is not available.
    pub fn attach(interface: &str) -> Result<Self, ProgramError> {
        Self::with(&ProgramConfig::new(interface))
    }

    /// Attaches the program as configured.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn with(config: &ProgramConfig) -> Result<Self, ProgramError> {
        let interface = interface::by_name(&config.interface)?;
        Ok(Self {
            shared: Arc::new(attach::open(&interface, config.ether_type, config.attach)?),
        })
    }

    /// Returns `true` if the program was already attached and is shared.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.shared.attachment().joined
    }

    /// Detaches the program for all who share it, as an administrator can from outside (`bpftool link detach`). Their
    /// channels stay and receive nothing until it is attached again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(&self) -> Result<(), Errno> {
        let attachment = self.shared.attachment();
        attachment.link.as_ref().map_or(Ok(()), XdpLink::detach)
    }

    /// Attaches the program again in its former mode after it was detached. Its channels are unchanged; frames
    /// received meanwhile went to Linux. Does nothing if it is attached. Call it from the program's network
    /// namespace.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn reattach(&self) -> Result<(), ProgramError> {
        attach::again(&self.shared)
    }

    /// Returns the mode in which the program runs.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        let attachment = self.shared.attachment();
        let link = attachment.link.as_ref();
        link.map_or(XdpMode::Generic, XdpLink::mode)
    }

    /// Returns the reason why it does not run in native mode; `None` if it does or native mode was not tried.
    #[must_use]
    pub fn why_generic(&self) -> Option<&str> {
        self.shared.why_generic.as_deref()
    }

    /// Returns the interface as it was when the program was attached.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.shared.interface
    }

    /// Returns `true` if the program is still attached; `false` if its interface is gone or another process detached
    /// it. It also tells the program the interface's address, if that has changed: call it a few times a second where
    /// no channel's reader waits. Three system calls. Once a second it makes some more, to close the channels of
    /// processes that ended without doing so.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn is_attached(&self) -> Result<bool, Errno> {
        self.shared.tidy_now_and_then();
        if let Some(address) = self.shared.watch.address() {
            self.shared.set_address(address);
        }
        self.shared.is_attached()
    }

    /// Returns the faulty and unclaimed frames so far. No system call, but it reads all 65536 ports: some 50 µs.
    #[must_use]
    pub fn counters(&self) -> ProgramCounters {
        let get = |field: Control| {
            let word = self.shared.control.word(0, field as usize);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        ProgramCounters {
            truncated: get(Control::Truncated),
            wrong_version: get(Control::WrongVersion),
            malformed: get(Control::Malformed),
            wrong_length: get(Control::WrongLength),
            other_port: self.other_ports().map(|(_, frames)| frames).sum(),
        }
    }

    /// Returns the ports that received frames while they had no channel in the program, with the number of frames. It
    /// reads all 65536 ports, without a system call: some 50 µs.
    pub fn other_ports(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let ports = &self.shared.ports;
        (0..PORTS).filter_map(|port| {
            let word = ports.word(port, Port::Passed as usize)?;
            let frames = word.load(Ordering::Relaxed);
            Some((u16::try_from(port).ok()?, frames)).filter(|_| frames > 0)
        })
    }

    /// Opens a channel; `prepare` initialises its memory before the first frame can come.
    fn open(
        &self,
        port: u16,
        key: u32,
        action: Action,
        prepare: impl FnOnce(&Shared, usize) -> Result<(), ProgramError>,
    ) -> Result<OpenChannel, ProgramError> {
        let shared = &self.shared;
        let lock = shared.lock(port, action)?;
        let index = shared.take(port, action)?;
        let channel = OpenChannel {
            program: Arc::clone(shared),
            index,
            port,
            lock,
        };
        // All fields except the owner, which `take` has written.
        for word in 0..Channel::Owner as usize {
            if let Some(word) = shared.channels.word(index, word) {
                word.store(0, Ordering::Relaxed);
            }
        }
        prepare(shared, index)?;
        channel.set(Channel::Key, key.into());
        channel.set(Channel::Action, action as u64);
        if let Some(entry) = shared.ports.word(port.into(), Port::Channel as usize) {
            entry.store(index as u64 + 1, Ordering::Release);
        }
        Ok(channel)
    }
}

/// An open channel of the program. It keeps the program attached.
#[derive(Debug)]
pub(crate) struct OpenChannel {
    program: Arc<Shared>,
    index: usize,
    port: u16,
    /// Dropped last, so that the next owner finds the port free.
    lock: NameLock,
}

impl OpenChannel {
    fn word(&self, field: Channel) -> Option<&AtomicU64> {
        self.program.channels.word(self.index, field as usize)
    }

    fn get(&self, field: Channel) -> u64 {
        self.word(field)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn set(&self, field: Channel, value: u64) {
        if let Some(word) = self.word(field) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn counter_reader(&self) -> CounterReader {
        CounterReader {
            program: Arc::clone(&self.program),
            index: self.index,
        }
    }

    fn counters(&self) -> ChannelCounters {
        self.counter_reader().counters()
    }
}

/// Reads the counters of one channel from any thread. It keeps the program attached, but not the channel open. Once
/// the channel is closed, the numbers may be those of another channel.
#[derive(Clone, Debug)]
pub struct CounterReader {
    program: Arc<Shared>,
    index: usize,
}

impl CounterReader {
    fn get(&self, field: Channel) -> u64 {
        let word = self.program.channels.word(self.index, field as usize);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns the counters so far, without `accepted` of a slot or a queue. No system call.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        ChannelCounters {
            accepted: self.get(Channel::Accepted),
            wrong_key: self.get(Channel::WrongKey),
            wrong_semantics: self.get(Channel::WrongSemantics),
            policed: self.get(Channel::Policed),
            oversize: self.get(Channel::Oversize),
            stale: self.get(Channel::Stale),
            busy: self.get(Channel::Busy),
            no_question: self.get(Channel::NoQuestion),
            unanswered: self.get(Channel::Unanswered),
            no_room: self.get(Channel::NoRoom),
            broken: self.get(Channel::Broken),
        }
    }
}

impl Drop for OpenChannel {
    fn drop(&mut self) {
        // A forked process has a copy of this, and shares the maps with its parent, whose channel it is.
        if self.lock.is_own() {
            self.program.free(self.index, self.port);
        }
    }
}

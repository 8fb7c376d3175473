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
//! Needs Linux 6.1, CAP_BPF and CAP_NET_ADMIN (root). One program on an interface, of one process; 64 channels; frames of
//! the usual size (user data up to 1484 octets). An answer may
//! be longer than its question only as far as the driver lets a frame grow (over veth, do not rely on any). A reply over
//! veth needs an XDP program at the peer, too, in native mode.

mod error;
mod layout;
#[cfg(test)]
mod layout_tests;
mod newest;
mod police;
mod queue;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod random_tests;
mod respond;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torn_tests;

use layout::{
    Action, CHANNEL_WORDS, CHANNELS, CONTROL_WORDS, Channel, Control, PORTS, REPLY_WORDS,
    SLOT_WORDS,
};
use rtwire_sys::bpf::{BpfError, BpfObject, MapOfMaps, MappedArray, XdpLink};
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::port_lock::NameLock;
use rtwire_sys::{Errno, ErrorKind};
use rtwire_wire::EtherType;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use error::ProgramError;
pub use newest::{Newest, NewestSlot};
pub use police::{Police, PolicedPort};
pub use queue::{QueueChannel, QueueConfig, QueueFrame};
pub use respond::Responder;
pub use rtwire_sys::bpf::XdpMode;

/// The first port that a question may come from: responders have lower ones, so they never answer each other.
pub const FIRST_ASKING_PORT: u16 = layout::FIRST_ASKING_PORT;
/// The most octets of user data in an answer.
pub const MAXIMUM_REPLY_OCTETS: usize = layout::REPLY_OCTETS;

/// The compiled program.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o"));
const PROGRAM: &str = "receive";

/// Which mode to attach in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Attach {
    /// Native; where the driver refuses, generic.
    #[default]
    Best,
    /// This one only.
    Only(XdpMode),
}

/// How the receive program is to be attached.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// The interface's name.
    pub interface: String,
    /// The EtherType of RTDiP frames.
    pub ether_type: EtherType,
    /// Which mode to attach in.
    pub attach: Attach,
}

impl ProgramConfig {
    /// RTDiP's usual EtherType, the best mode there is.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            ether_type: EtherType::RTDIP,
            attach: Attach::Best,
        }
    }
}

/// What the program has found wrong with frames, by reason. All of them have gone on to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProgramCounters {
    /// Shorter than their header.
    pub truncated: u64,
    /// Of another version.
    pub wrong_version: u64,
    /// With a reserved flag, or a priority above 7.
    pub malformed: u64,
    /// A length beyond the end of the frame.
    pub wrong_length: u64,
    /// For a port that has no channel in the program; a packet socket may have it.
    pub other_port: u64,
}

/// What the program has counted in one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChannelCounters {
    /// Put into the slot or the queue, answered, or passed on.
    pub accepted: u64,
    /// Dropped: another key.
    pub wrong_key: u64,
    /// Dropped: queue semantics at a newest-value channel, or the other way round.
    pub wrong_semantics: u64,
    /// Dropped: beyond the contract.
    pub policed: u64,
    /// Dropped: more data than a slot or a queue's place holds.
    pub oversize: u64,
    /// Dropped: not newer than the newest value.
    pub stale: u64,
    /// Dropped: another processor was writing a value of this channel at the same moment.
    pub busy: u64,
    /// Dropped: not from a port to ask from.
    pub no_question: u64,
    /// Dropped: the content was replaced faster than it can be copied.
    pub unanswered: u64,
    /// Dropped: the answer is longer than the question's frame, and than the driver lets it grow.
    pub no_room: u64,
    /// Dropped: the memory of the queue makes no sense (this process, or another, has written where it should not).
    pub broken: u64,
}

/// The program on one interface. It is detached when this and all its channels are dropped, or the process ends. Cheap
/// to clone; clones are the same program.
#[derive(Clone, Debug)]
pub struct ReceiveProgram {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    interface: Interface,
    ether_type: EtherType,
    link: Option<XdpLink>,
    why_generic: Option<String>,
    control: MappedArray,
    ports: MappedArray,
    channels: MappedArray,
    slots: MappedArray,
    replies: MappedArray,
    /// The memory of each queue channel.
    queues: MapOfMaps,
    /// Which channels are taken, and where to look for a free one first: the one closed last is taken last, since another
    /// processor may still be busy with its last frame.
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    /// The port of each channel that is open.
    ports: [Option<u16>; CHANNELS],
    first: usize,
}

impl ReceiveProgram {
    /// Attaches the program to an interface, native where that is possible, else generic.
    ///
    /// # Errors
    /// No such interface; no privilege; another XDP program is there ([`ProgramError::is_in_use`]); no XDP.
    pub fn attach(interface: &str) -> Result<Self, ProgramError> {
        Self::with(&ProgramConfig::new(interface))
    }

    /// Attaches the program as configured.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn with(config: &ProgramConfig) -> Result<Self, ProgramError> {
        let interface = interface::by_name(&config.interface)?;
        let (object, mut shared) = load(interface, config.ether_type)?;
        let (link, why_generic) = attach(&object, shared.interface.index, config.attach)?;
        shared.link = Some(link);
        shared.why_generic = why_generic;
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Where the program runs.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.shared
            .link
            .as_ref()
            .map_or(XdpMode::Generic, XdpLink::mode)
    }

    /// Why it does not run in native mode, where that was tried.
    #[must_use]
    pub fn why_generic(&self) -> Option<&str> {
        self.shared.why_generic.as_deref()
    }

    /// The interface, as it was when the program was attached.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.shared.interface
    }

    /// Whether the program still runs: not where its interface is gone, or somebody has detached it. One system call.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn is_attached(&self) -> Result<bool, Errno> {
        self.shared.is_attached()
    }

    /// What was found wrong with frames so far. No system call.
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
            other_port: get(Control::OtherPort),
        }
    }

    /// Opens a channel; `prepare` makes its memory ready before the first frame can come.
    fn open(
        &self,
        port: u16,
        key: u32,
        action: Action,
        prepare: impl FnOnce(&Shared, usize) -> Result<(), ProgramError>,
    ) -> Result<OpenChannel, ProgramError> {
        let shared = &self.shared;
        // What is only passed on has its listener elsewhere.
        let lock = match action {
            Action::Pass => None,
            _ => Some(shared.lock(port)?),
        };
        let index = shared.take(port)?;
        let channel = OpenChannel {
            program: Arc::clone(shared),
            index,
            port,
            _lock: lock,
        };
        for word in 0..CHANNEL_WORDS {
            if let Some(word) = shared.channels.word(index, word) {
                word.store(0, Ordering::Relaxed);
            }
        }
        prepare(shared, index)?;
        channel.set(Channel::Key, key.into());
        channel.set(Channel::Action, action as u64);
        if let Some(entry) = shared.ports.word(port.into(), 0) {
            entry.store(index as u64 + 1, Ordering::Release);
        }
        Ok(channel)
    }
}

fn load(interface: Interface, ether_type: EtherType) -> Result<(BpfObject, Shared), ProgramError> {
    let object = BpfObject::load(PROGRAM, OBJECT, &[])?;
    let shared = Shared {
        control: object.map_array("control", CONTROL_WORDS)?,
        ports: object.map_array("ports", 1)?,
        channels: object.map_array("channels", CHANNEL_WORDS)?,
        slots: object.map_array("slots", SLOT_WORDS)?,
        replies: object.map_array("replies", REPLY_WORDS)?,
        queues: object.map_of_maps("queues")?,
        interface,
        ether_type,
        link: None,
        why_generic: None,
        taken: Mutex::new(Taken {
            ports: [None; CHANNELS],
            first: 0,
        }),
    };
    debug_assert_eq!(shared.ports.len(), PORTS);
    let mut mac = [0; 8];
    mac[..6].copy_from_slice(&shared.interface.mac);
    let set = |field: Control, value| {
        if let Some(word) = shared.control.word(0, field as usize) {
            word.store(value, Ordering::Relaxed);
        }
    };
    set(Control::EtherType, ether_type.0.into());
    set(Control::Mac, u64::from_ne_bytes(mac));
    Ok((object, shared))
}

fn attach(
    object: &BpfObject,
    ifindex: u32,
    how: Attach,
) -> Result<(XdpLink, Option<String>), ProgramError> {
    let attach = |mode| object.attach_xdp(PROGRAM, ifindex, mode);
    match how {
        Attach::Only(mode) => Ok((attach(mode)?, None)),
        Attach::Best => match attach(XdpMode::Native) {
            Ok(link) => Ok((link, None)),
            Err(error @ BpfError::XdpInUse { .. }) => Err(error.into()),
            Err(native) => match attach(XdpMode::Generic) {
                Ok(link) => Ok((link, Some(native.to_string()))),
                Err(error @ BpfError::XdpInUse { .. }) => Err(error.into()),
                Err(generic) => Err(ProgramError::NoMode {
                    native: Box::new(native),
                    generic: Box::new(generic),
                }),
            },
        },
    }
}

impl Shared {
    fn is_attached(&self) -> Result<bool, Errno> {
        self.link.as_ref().map_or(Ok(false), XdpLink::is_attached)
    }

    fn take(&self, port: u16) -> Result<usize, ProgramError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.ports.contains(&Some(port)) {
            return Err(self.port_in_use(port));
        }
        let free = (0..CHANNELS)
            .map(|step| (taken.first + step) % CHANNELS)
            .find(|&index| taken.ports[index].is_none())
            .ok_or_else(|| ProgramError::NoChannel {
                interface: self.interface.name.clone(),
            })?;
        taken.ports[free] = Some(port);
        taken.first = (free + 1) % CHANNELS;
        Ok(free)
    }

    fn give_back(&self, index: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = taken.ports.get_mut(index) {
            *entry = None;
        }
    }

    /// Takes the lock that every listener of the port on this interface holds, of whatever process.
    fn lock(&self, port: u16) -> Result<NameLock, ProgramError> {
        let name = format!(
            "rtwire/{:04x}/{}/{port}",
            self.ether_type.0, self.interface.index
        );
        NameLock::take(&name).map_err(|error| match error.kind() {
            ErrorKind::InUse => self.port_in_use(port),
            _ => error.into(),
        })
    }

    fn port_in_use(&self, port: u16) -> ProgramError {
        ProgramError::PortInUse {
            port,
            interface: self.interface.name.clone(),
        }
    }
}

/// A channel that is open in the program, which lives as long.
#[derive(Debug)]
pub(crate) struct OpenChannel {
    program: Arc<Shared>,
    index: usize,
    port: u16,
    _lock: Option<NameLock>,
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

    fn counters(&self) -> ChannelCounters {
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
        if let Some(entry) = self.program.ports.word(self.port.into(), 0) {
            entry.store(0, Ordering::Release);
        }
        let queue = self.get(Channel::Action) == Action::Queue as u64;
        self.set(Channel::Action, Action::Free as u64);
        if queue {
            // The program has let go of the memory when this returns. It fails only where there is none.
            let _ = self.program.queues.remove(self.index as u32);
        }
        self.program.give_back(self.index);
    }
}

//! Errors of the receive program.

use super::layout::{
    CHANNELS, FIRST_ASKING_PORT, PATCH_OCTETS, PATCH_QUESTION, PATCHES, REPLY_OCTETS,
};
use crate::LinkError;
use crate::xdp::AttachError;
use rtwire_sys::bpf::{BpfError, XdpMode};

/// Reason why the receive program could not be attached, or one of its channels not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// Reading the interface or taking a port's lock failed.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// A packet socket could not be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The kernel does not accept the program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The program was not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The program is attached in another mode than requested.
    #[error(
        "the receive program is attached to interface `{interface}` in {mode} mode already, by another process; use that mode, or end that process"
    )]
    OtherMode {
        /// The interface.
        interface: String,
        /// The mode in use.
        mode: XdpMode,
    },
    /// The program is attached for another EtherType.
    #[error(
        "the receive program is attached to interface `{interface}` for EtherType {there:#06x} already, by another process; use that EtherType, or end that process"
    )]
    OtherEtherType {
        /// The interface.
        interface: String,
        /// The EtherType in use.
        there: u16,
    },
    /// The program is attached, but its maps are not accessible.
    #[error("cannot share the receive program of interface `{interface}`: {source}")]
    NotJoined {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// Answers from the driver would lose their VLAN tags.
    #[error(
        "the driver `{driver}` of interface `{interface}` takes VLAN tags out of received frames and does not tell them to an XDP program: answers would leave without. Turn that off (`ethtool -K {interface} rx-vlan-offload off`), or answer with a packet socket or in generic mode"
    )]
    HiddenTags {
        /// The interface.
        interface: String,
        /// Its driver.
        driver: String,
    },
    /// The program could not be kept attached, or be released.
    #[error(
        "cannot keep the receive program attached by `{}`: {source} (a file system of type bpf must be mounted at /sys/fs/bpf: `mount -t bpf bpf /sys/fs/bpf`; root, or CAP_BPF and the rights of its folder, are needed)", .path.display()
    )]
    NotHeld {
        /// The name in the file system.
        path: std::path::PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The port is in use on this interface: by a channel of this program, or by a listener of any process.
    #[error(
        "port {port} on interface `{interface}` is in use; end the program that uses it, or use another port"
    )]
    PortInUse {
        /// The port.
        port: u16,
        /// The interface.
        interface: String,
    },
    /// All channels are in use.
    #[error(
        "the receive program of interface `{interface}` has {CHANNELS} channels, all in use; close one"
    )]
    NoChannel {
        /// The interface.
        interface: String,
    },
    /// No memory for a queue channel.
    #[error(
        "no memory for a queue of {frames} frames of each priority: {source} (needs CAP_BPF); request fewer frames"
    )]
    QueueMemory {
        /// Frames of each priority.
        frames: usize,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// No memory for the arrival notes of a newest-value channel.
    #[error("no memory for {notes} arrival notes: {source} (needs CAP_BPF); request fewer")]
    NoteMemory {
        /// The notes requested.
        notes: usize,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The port is not allowed for a responder.
    #[error(
        "port {port} is reserved for asking: choose a port below {FIRST_ASKING_PORT} for a responder, so that responders never answer each other"
    )]
    AskingPort {
        /// The port.
        port: u16,
    },
    /// A reply does not fit in a frame.
    #[error("a reply of {octets} bytes is too long: at most {REPLY_OCTETS} fit in a frame")]
    TooLong {
        /// Length of the reply, in bytes.
        octets: usize,
    },
    /// A patch that is not possible.
    #[error(
        "patch {number} of the answer is not possible: there are at most {PATCHES}, each of 1 to {PATCH_OCTETS} bytes (a number 4, a time 8) from the question's first {PATCH_QUESTION}, to a place within the answer's content"
    )]
    Patch {
        /// Number of the patch, from 0 on.
        number: usize,
    },
    /// A contract that would pass everything, or nothing.
    #[error(
        "a contract of {rate_bps} bit/s with a burst of {burst_bits} bit is not possible: the rate is at least 1 bit/s, the burst at most an hour of it, and at least the longest frame"
    )]
    Contract {
        /// The rate, in bit/s.
        rate_bps: u64,
        /// The burst, in bits.
        burst_bits: u64,
    },
}

impl ProgramError {
    /// Returns `true` if another XDP program is attached, or this one in another way.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Attach(error) => error.is_in_use(),
            Self::Bpf(BpfError::XdpInUse { .. })
            | Self::OtherMode { .. }
            | Self::OtherEtherType { .. } => true,
            _ => false,
        }
    }

    /// Returns `true` if XDP is not available here, so that packet sockets must serve. Returns `false` for other
    /// errors.
    #[must_use]
    pub fn is_lacking(&self) -> bool {
        match self {
            Self::Attach(error) => !error.is_in_use(),
            Self::Bpf(error) => !matches!(error, BpfError::XdpInUse { .. }),
            Self::HiddenTags { .. } => true,
            _ => false,
        }
    }
    /// Returns the missing capability if that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        match self {
            Self::System(error) => error.capability(),
            Self::Link(error) => error.capability(),
            _ => None,
        }
    }
}

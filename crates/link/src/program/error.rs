//! What goes wrong with the receive program.

use super::layout::{
    CHANNELS, FIRST_ASKING_PORT, PATCH_OCTETS, PATCH_QUESTION, PATCHES, REPLY_OCTETS,
};
use crate::LinkError;
use crate::xdp::AttachError;
use rtwire_sys::bpf::{BpfError, XdpMode};

/// Why the receive program could not be attached, or a channel of it not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// Asking for the interface or a port's lock failed.
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
    /// The program is there, in another mode than was asked for.
    #[error(
        "the receive program is attached to interface `{interface}` in {mode} mode already, by another process; take that mode, or end what has attached it"
    )]
    OtherMode {
        /// The interface.
        interface: String,
        /// The mode it is in.
        mode: XdpMode,
    },
    /// The program is there, for another EtherType.
    #[error(
        "the receive program is attached to interface `{interface}` for EtherType {there:#06x} already, by another process; take that EtherType, or end what has attached it"
    )]
    OtherEtherType {
        /// The interface.
        interface: String,
        /// The EtherType it serves.
        there: u16,
    },
    /// The program is there, but its maps are not to be had.
    #[error("cannot share the receive program of interface `{interface}`: {source}")]
    NotJoined {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Somebody has the port on this interface: a channel of this program, or a listener of any process.
    #[error(
        "port {port} on interface `{interface}` is in use; end the program that has it, or take another port"
    )]
    PortInUse {
        /// The port.
        port: u16,
        /// The interface.
        interface: String,
    },
    /// All channels are taken.
    #[error(
        "the receive program of interface `{interface}` has {CHANNELS} channels, all in use; close one"
    )]
    NoChannel {
        /// The interface.
        interface: String,
    },
    /// No memory for a queue channel.
    #[error(
        "no memory for a queue of {frames} frames of each priority: {source} (needs CAP_BPF); ask for fewer"
    )]
    QueueMemory {
        /// Frames of each priority.
        frames: usize,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A responder may not have this port.
    #[error(
        "port {port} is one to ask from: responders have ports below {FIRST_ASKING_PORT}, so that they never answer each other"
    )]
    AskingPort {
        /// The port.
        port: u16,
    },
    /// A reply does not fit a frame.
    #[error("a reply of {octets} octets is too long: at most {REPLY_OCTETS} fit a frame")]
    TooLong {
        /// Its length.
        octets: usize,
    },
    /// A patch that cannot be made.
    #[error(
        "patch {number} of the answer is not possible: there are at most {PATCHES}, each of 1 to {PATCH_OCTETS} octets (a number 4, a time 8) from the question's first {PATCH_QUESTION}, to a place within the answer's content"
    )]
    Patch {
        /// Which, from 0 on.
        number: usize,
    },
    /// A contract that polices nothing, or everything.
    #[error(
        "a police of {rate_bps} bit/s with a burst of {burst_bits} bit is not possible: the rate is at least 1 bit/s, the burst at most an hour of it, and at least the longest frame"
    )]
    Contract {
        /// The rate.
        rate_bps: u64,
        /// The burst.
        burst_bits: u64,
    },
}

impl ProgramError {
    /// Whether it is another XDP program that stands in the way, or this one attached in another way.
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

    /// Whether XDP is not to be had here, so that packet sockets must do; not where something else is wrong.
    #[must_use]
    pub fn is_lacking(&self) -> bool {
        match self {
            Self::Attach(error) => !error.is_in_use(),
            Self::Bpf(error) => !matches!(error, BpfError::XdpInUse { .. }),
            _ => false,
        }
    }
    /// The capability that is missing, where that is the reason.
    #[must_use]
    pub fn capability(&self) -> Option<&'static str> {
        match self {
            Self::System(error) => error.capability(),
            Self::Link(error) => error.capability(),
            _ => None,
        }
    }
}

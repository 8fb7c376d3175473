//! POWERLINK's isochronous phase in the driver, behind a [`Port`](crate::run::Port) like any other.
//!
//! ```text
//!  PReq ──► XDP ── prepared PRes leaves (XDP_TX) ─┐                       controlled node
//!  PRes of 240 ► XDP ─ waits ─ prepared PRes leaves ┤                     controlled node, chained
//!  PRes ──► XDP ── next PReq leaves (XDP_TX) ─────┤                       managing node
//!                                                 └─► ring in memory ──► Node::frame, in order, each with its time
//!  Node's PRes  ──► DriverPort::send ──► prepared for the next PReq
//!  Node's PReq  ──► DriverPort::announce_polls, before the SoC ──► prepared for this cycle
//!               └─► DriverPort::send ──► sent already? then nothing; else sent now
//! ```
//!
//! The state machines know nothing of this: they see every frame that concerns them, and say what they would send. What the
//! driver has sent meanwhile in their place is not sent again. Responses leave from the driver as the node said them one
//! cycle before, as with network controllers that answer by themselves; requests as it said them for this cycle. The first
//! poll of a cycle, SoC and SoA come from user space, and so does every poll after a response that did not come.
//!
//! Where the node polls otherwise than was announced, the chain stops for this cycle and user space goes on.
//!
//! # Limits
//! Needs Linux 6.1, CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW (root), and the interface's place for XDP programs. Over a veth in
//! native mode, frames that the driver sends arrive only where the peer has an XDP program, too. A response may be longer
//! than its request only as far as the driver lets a frame grow; where it does not, user space answers. A node that stops
//! answering (NMT state) has one more response sent by the driver at most. PollResponse chaining: XDP cannot put a frame aside,
//! so the processor that took the managing node's response waits with it until the own one is due, 200 µs at most; stations
//! on one machine that share that processor wait one behind the other. POWERLINK frames are not shown to captures on the interface.

mod layout;
#[cfg(test)]
mod layout_tests;
mod polls;
mod port;
mod ring;
mod station;
#[cfg(test)]
mod tests;

use crate::program::{Attach, ProgramError};
use layout::{
    CHAIN_WORDS, CONTROL_WORDS, Control, POLLS, PREPARED_WORDS, RECORD_WORDS, RESPONSE_WORDS,
};
use rtwire_sys::bpf::{BpfError, BpfObject, MappedArray, XdpLink, XdpMode};
use rtwire_sys::interface::Interface;
use std::sync::atomic::Ordering;

pub use port::{DriverConfig, DriverPort};
pub use station::{StationPath, StationPort};

const PROGRAM: &str = "powerlink";

/// What a station is to do in its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answer poll requests to this node.
    Controlled,
    /// Chain polls.
    Managing,
}

/// What the program has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DriverCounters {
    /// Poll requests that the driver has answered.
    pub answered: u64,
    /// Poll requests that it has left to user space: nothing was prepared, or there was no room.
    pub unanswered: u64,
    /// Polls that it has sent on a response.
    pub chained: u64,
    /// Polls that it has left to user space for want of room.
    pub unchained: u64,
    /// Poll responses of nodes that nobody here wants to hear.
    pub unwanted: u64,
    /// Frames shorter than their header, or too long.
    pub malformed: u64,
    /// Frames that user space was too slow to read.
    pub overrun: u64,
}

/// The program with its memory.
#[derive(Debug)]
struct Program {
    link: Option<XdpLink>,
    why_generic: Option<String>,
    control: MappedArray,
    ring: MappedArray,
    response: MappedArray,
    chain: MappedArray,
    polls: MappedArray,
}

impl Program {
    /// Loads the program for a station; it does not run yet.
    fn load(
        interface: &Interface,
        role: Role,
        node: u8,
        wanted: &[u8],
    ) -> Result<(BpfObject, Self), BpfError> {
        // A controlled node polls nobody: memory for that would be most of what its driver takes.
        let polls = match role {
            Role::Controlled => 1,
            Role::Managing => POLLS * layout::CYCLES,
        };
        let entries = [("polls", polls as u32)];
        let object = BpfObject::load(PROGRAM, rtwire_bpf::POWERLINK.bytes, &entries)?;
        let this = Self {
            link: None,
            why_generic: None,
            control: object.map_array("control", CONTROL_WORDS)?,
            ring: object.map_array("ring", RECORD_WORDS)?,
            response: object.map_array("response", RESPONSE_WORDS)?,
            chain: object.map_array("chain", CHAIN_WORDS)?,
            polls: object.map_array("polls", PREPARED_WORDS)?,
        };
        debug_assert_eq!(this.polls.len(), polls);
        let mut mac = [0; 8];
        mac[..6].copy_from_slice(&interface.mac);
        this.set(Control::Mac, u64::from_ne_bytes(mac));
        this.set(Control::Node, node.into());
        let mut bits = [0_u64; 4];
        for node in wanted {
            bits[usize::from(node >> 6)] |= 1 << (node & 63);
        }
        for (word, bits) in (Control::Wanted as usize..).zip(bits) {
            if let Some(word) = this.control.word(0, word) {
                word.store(bits, Ordering::Relaxed);
            }
        }
        let role = match role {
            Role::Controlled => layout::CONTROLLED,
            Role::Managing => layout::MANAGING,
        };
        this.set(Control::Role, role);
        Ok((object, this))
    }

    fn attach(
        &mut self,
        object: &BpfObject,
        ifindex: u32,
        how: Attach,
    ) -> Result<(), ProgramError> {
        let attach = |mode| object.attach_xdp(PROGRAM, ifindex, mode);
        let (link, why) = match how {
            Attach::Only(mode) => (attach(mode)?, None),
            Attach::Best => match attach(XdpMode::Native) {
                Ok(link) => (link, None),
                Err(error @ BpfError::XdpInUse { .. }) => return Err(error.into()),
                Err(native) => match attach(XdpMode::Generic) {
                    Ok(link) => (link, Some(native.to_string())),
                    Err(generic) => {
                        return Err(ProgramError::NoMode {
                            native: Box::new(native),
                            generic: Box::new(generic),
                        });
                    }
                },
            },
        };
        self.link = Some(link);
        self.why_generic = why;
        Ok(())
    }

    fn set(&self, field: Control, value: u64) {
        if let Some(word) = self.control.word(0, field as usize) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn get(&self, field: Control) -> u64 {
        let word = self.control.word(0, field as usize);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn counters(&self, overrun: u64) -> DriverCounters {
        DriverCounters {
            answered: self.get(Control::Answered),
            unanswered: self.get(Control::Unanswered),
            chained: self.get(Control::Chained),
            unchained: self.get(Control::Unchained),
            unwanted: self.get(Control::Unwanted),
            malformed: self.get(Control::Malformed),
            overrun,
        }
    }
}

/// Writes a frame that is ready to leave: its length, the node, its octets.
fn prepare(array: &MappedArray, value: usize, at: usize, node: u8, frame: &[u8]) {
    let store = |word: usize, octets: u64| {
        if let Some(word) = array.word(value, word) {
            word.store(octets, Ordering::Relaxed);
        }
    };
    let frame = &frame[..frame.len().min(layout::FRAME_OCTETS)];
    store(at + layout::Prepared::Length as usize, frame.len() as u64);
    store(at + layout::Prepared::Node as usize, node.into());
    for (index, chunk) in frame.chunks(8).enumerate() {
        let mut octets = [0; 8];
        octets[..chunk.len()].copy_from_slice(chunk);
        store(
            at + layout::Prepared::Data as usize + index,
            u64::from_ne_bytes(octets),
        );
    }
}

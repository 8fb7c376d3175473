//! POWERLINK's isochronous phase in the driver, behind a [`Port`](rtwire_link::run::Port) like any other.
//!
//! ```text
//!  PReq ──► XDP ── prepared PRes leaves (XDP_TX) ─┐                       controlled node
//!  PRes of 240 ► XDP ─ waits ─ prepared PRes leaves ┤                     controlled node, chained
//!  PRes ──► XDP ── next PReq leaves (XDP_TX) ─────┤                       managing node
//!                                                 └─► ring in memory ──► Node::frame, in order, each with its time
//!  Node's actions ──► Offload
//!      Prepare, Arm ──► memory that XDP sends from: the PRes; the requests of a cycle, before its SoC
//!      Due          ──► sent by XDP already? then nothing; else Port::send
//!      Disarm       ──► XDP sends nothing by itself any more
//! ```
//!
//! The contract is that of [`rtwire_wire::action`], with the slots and cues of [`rtwire_powerlink::prepared`]. The
//! program learns from actions alone what to send and when to stop. The node sees every frame that concerns it, and
//! emits the same actions as over packet sockets.
//!
//! A PRes leaves from the driver as the node prepared it one cycle before, as with network controllers that answer by
//! themselves. Requests are those of this cycle. The first request of a cycle, SoC and SoA come from user space, and so does
//! every request after a response that is missing. A request that the node leaves out stops the chain for this cycle.
//!
//! # The watchdog
//! A program that stands still (SIGSTOP, a debugger, a stall) must not leave a driver behind that answers for it with frozen data.
//! A controlled node renews its PRes in each cycle that it has read. That is one store into mapped memory. The driver counts
//! cycles by their SoC, and answers for [`DriverConfig::watchdog_cycles`] of them without renewal. A managing node's chain ends
//! with its cycle's last request. No request leaves later than [`DriverConfig::chain_ns`] behind the first. What the watchdog
//! ends is left to user space and counted ([`DriverCounters::lapsed`]).
//!
//! # The managing node's address
//! A PReq from another node number than 240 is dropped and counted, and so is one from another address than
//! [`DriverPort::set_managing`] has told.
//!
//! # Limits
//! - Needs Linux 6.1, CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW (root), and an interface without another XDP program.
//! - Over a veth in native mode, frames that the driver sends arrive only where the peer has an XDP program, too.
//! - A response may be longer than its request only as far as the driver lets a frame grow. User space answers otherwise.
//! - A PReq that arrives before the node has disarmed its PRes is still answered. The node disarms it only once it
//!   has read the frame that changes its state.
//! - PollResponse chaining: XDP cannot put a frame aside. The processor that took the managing node's response waits until
//!   the own one is due, 200 µs at most. Stations of one machine that share that processor wait one behind the other.
//! - Captures on the interface do not show POWERLINK frames; [`DriverTap`] does.

mod error;
mod layout;
#[cfg(test)]
mod layout_tests;
mod offload;
mod port;
mod replies;
mod requests;
#[cfg(test)]
mod safety_tests;
mod station;
mod tap;
#[cfg(test)]
mod tests;
mod uman;
pub(crate) mod uman_soc;

use layout::{
    CHAIN_WORDS, CONTROL_WORDS, Control, POLLS, PREPARED_WORDS, RECORD_WORDS, RESPONSE_WORDS,
};
use rtwire_link::xdp::{self, Attach, AttachError};
use rtwire_sys::bpf::{BpfError, BpfObject, MappedArray, XdpLink};
use rtwire_sys::interface::Interface;
use rtwire_wire::MacAddress;
use std::sync::atomic::Ordering;

pub use error::DriverError;
pub use port::{DriverConfig, DriverPort};
pub use station::{StationPath, StationPort};
pub use tap::{DriverTap, TappedFrame};
pub use uman::UmanPort;

const PROGRAM: &str = "powerlink";

/// The role of a station in its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers PReqs to this node.
    Controlled,
    /// Sends the next PReq on a PRes.
    Managing,
}

/// The program's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DriverCounters {
    /// PReqs that the driver has answered.
    pub answered: u64,
    /// PReqs that it has left to user space: nothing was armed, or the frame could not grow.
    pub unanswered: u64,
    /// PReqs that it has sent on a PRes.
    pub chained: u64,
    /// PReqs that it has left to user space: the frame could not grow.
    pub unchained: u64,
    /// PRes of nodes that the station does not map.
    pub unwanted: u64,
    /// Frames shorter than their header, or longer than 1520 bytes.
    pub malformed: u64,
    /// PReqs that were dropped: the managing node has not sent them.
    pub foreign: u64,
    /// Frames that it has left to user space because the watchdog had ended its answers or its chain.
    pub lapsed: u64,
    /// Frames that were overwritten before user space read them.
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
        watchdog_cycles: u32,
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
        this.set(Control::Mac, word_of(MacAddress(interface.mac)));
        this.set(Control::Node, node.into());
        this.set_watchdog(watchdog_cycles);
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

    fn attach(&mut self, object: &BpfObject, ifindex: u32, how: Attach) -> Result<(), AttachError> {
        let attached = xdp::attach(object, PROGRAM, ifindex, how)?;
        self.link = Some(attached.link);
        self.why_generic = attached.why_generic;
        Ok(())
    }

    /// Sets the cycles for which the program answers without renewal; 0: no limit.
    fn set_watchdog(&self, cycles: u32) {
        // The program compares signed numbers.
        let most = match cycles {
            0 => i64::MAX as u64,
            cycles => cycles.into(),
        };
        self.set(Control::Watchdog, most);
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
            foreign: self.get(Control::Foreign),
            lapsed: self.get(Control::Lapsed),
            overrun,
        }
    }
}

/// Returns an address as the program compares it: in the first 6 bytes of a word.
fn word_of(address: MacAddress) -> u64 {
    let mut octets = [0; 8];
    octets[..6].copy_from_slice(&address.0);
    u64::from_ne_bytes(octets)
}

/// Writes a frame that is ready to leave: its length and its bytes.
fn prepare(array: &MappedArray, value: usize, at: usize, frame: &[u8]) {
    let store = |word: usize, octets: u64| {
        if let Some(word) = array.word(value, word) {
            word.store(octets, Ordering::Relaxed);
        }
    };
    let frame = &frame[..frame.len().min(layout::FRAME_OCTETS)];
    store(at + layout::Prepared::Length as usize, frame.len() as u64);
    for (index, chunk) in frame.chunks(8).enumerate() {
        let mut octets = [0; 8];
        octets[..chunk.len()].copy_from_slice(chunk);
        store(
            at + layout::Prepared::Data as usize + index,
            u64::from_ne_bytes(octets),
        );
    }
}

//! A responder over packet sockets: it does the work of [`program`](crate::program) where XDP is missing.
//!
//! It has the same rules and the same counters, but each answer costs a wake-up of this process. An answer has the VLAN tag
//! of its question: the kernel removes it before a packet socket sees the frame, and shows it beside the frame.
//!
//! # Limits
//! The tag's own EtherType (TPID) is not kept: a question with a service tag (802.1ad, 0x88A8) is answered with a customer
//! tag (0x8100). The driver's program leaves such questions to Linux. A responder answers the questions of every VLAN of its
//! interface. On `eth0` it answers those of VLAN 5 also where an interface `eth0.5` exists, and with another responder there
//! a question has two answers.

#[cfg(test)]
mod tests;

use crate::program::{
    ChannelCounters, FIRST_ASKING_PORT, Patch, ProgramError, apply_patches, check_patches,
};
use crate::slices::{CHECK, nanoseconds};
use crate::{LinkError, Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
use rtwire_sys::ErrorKind;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::interface::AddressWatch;
use rtwire_sys::port_lock::NameLock;
use rtwire_wire::rtdip::Header;
use rtwire_wire::{EtherType, MINIMUM_FRAME_OCTETS, MacAddress, VlanTag, ethernet};
use std::time::Duration;

/// Returns a filter for frames, given from behind the EtherType, that have a whole header and this destination port.
///
/// # Errors
/// None for this filter; the type only allows them.
pub fn port_filter(port: u16) -> rtwire_sys::Result<Filter> {
    const LEAST: u32 = (ethernet::HEADER_OCTETS + rtwire_wire::rtdip::HEADER_OCTETS) as u32;
    const PORT: u32 = ethernet::HEADER_OCTETS as u32 + 2;
    let jump = |test, yes, no| Instruction::Jump { test, yes, no };
    Filter::new(&[
        Instruction::LoadLength,
        jump(Test::AtLeast(LEAST), 0, 3),
        Instruction::LoadHalf(PORT),
        jump(Test::Equal(port.into()), 0, 1),
        Instruction::Accept,
        Instruction::Reject,
    ])
}

/// Returns a filter for frames of any EtherType that keeps those with this one and this destination port. The kernel has
/// taken a VLAN tag out before.
///
/// # Errors
/// None for this filter; the type only allows them.
pub fn whole_frame_filter(ether_type: u16, port: u16) -> rtwire_sys::Result<Filter> {
    const ETHER_TYPE_AT: u32 = 12;
    const PORT_AT: u32 = ethernet::HEADER_OCTETS as u32 + 2;
    let jump = |test, yes, no| Instruction::Jump { test, yes, no };
    Filter::new(&[
        Instruction::LoadHalf(ETHER_TYPE_AT),
        jump(Test::Equal(ether_type.into()), 0, 3),
        Instruction::LoadHalf(PORT_AT),
        jump(Test::Equal(port.into()), 0, 1),
        Instruction::Accept,
        Instruction::Reject,
    ])
}

/// Lets something happen at most once in 100 ms.
#[derive(Debug, Default)]
struct Pace {
    /// The moment at which it last happened, in ns of CLOCK_MONOTONIC; `None` before the first.
    last_ns: Option<u64>,
}

impl Pace {
    /// Returns `true` if it may happen now, and notes that it does.
    fn is_due(&mut self, now_ns: u64) -> bool {
        let since = |last_ns| now_ns.saturating_sub(last_ns);
        let due = self
            .last_ns
            .is_none_or(|last_ns| since(last_ns) >= nanoseconds(CHECK));
        if due {
            self.last_ns = Some(now_ns);
        }
        due
    }
}

/// Answers the questions for one port in this process.
///
/// It reads the interface's address where it waits in vain, and when a frame for another address comes, then at most once in
/// 100 ms. So after a change of the address, questions for the new one may stay unanswered for as long.
#[derive(Debug)]
pub struct PacketResponder {
    receiver: Receiver,
    sender: Sender,
    mac: MacAddress,
    /// Shows the interface's address, which may change.
    watch: AddressWatch,
    /// Looks at it because of frames to other addresses.
    looks: Pace,
    port: u16,
    key: u32,
    content: Option<Vec<u8>>,
    patches: Vec<Patch>,
    frame: Box<[u8]>,
    counters: ChannelCounters,
    _lock: NameLock,
}

impl PacketResponder {
    /// Opens a responder that answers with `content`, or with the question's own data.
    ///
    /// # Errors
    /// As [`ReceiveProgram::respond_channel`](crate::program::ReceiveProgram::respond_channel); CAP_NET_RAW is missing.
    pub fn open(
        interface: &str,
        wake_up: WakeUp,
        port: u16,
        key: u32,
        content: Option<&[u8]>,
    ) -> Result<Self, ProgramError> {
        Self::open_with((interface, wake_up), port, key, content, &[])
    }

    /// Opens the same with fields of each question copied into its answer. Without `content` no field is copied.
    ///
    /// # Errors
    /// As [`open`](Self::open); a patch is not possible ([`ProgramError::Patch`]).
    pub fn open_with(
        (interface, wake_up): (&str, WakeUp),
        port: u16,
        key: u32,
        content: Option<&[u8]>,
        patches: &[Patch],
    ) -> Result<Self, ProgramError> {
        if port >= FIRST_ASKING_PORT {
            return Err(ProgramError::AskingPort { port });
        }
        check_patches(content.unwrap_or_default(), patches)?;
        let sender = Sender::frames(&SenderConfig {
            path: TxPath::Direct,
            ..SenderConfig::new(interface)
        })?;
        let index = sender.interface().index;
        let name = format!("rtwire/{:04x}/{index}/{port}", EtherType::RTDIP.0);
        let lock = NameLock::take(&name).map_err(|error| match error.kind() {
            ErrorKind::InUse => ProgramError::PortInUse {
                port,
                interface: interface.to_owned(),
            },
            _ => error.into(),
        })?;
        let config = ReceiverConfig {
            interface: interface.to_owned(),
            wake_up,
            queue_frames: 256,
            stamps: false,
            one_by_one: false,
        };
        Ok(Self {
            receiver: Receiver::frames_with_tags(
                &config,
                &whole_frame_filter(EtherType::RTDIP.0, port)?,
            )?,
            watch: AddressWatch::new(sender.interface())?,
            looks: Pace::default(),
            mac: MacAddress(sender.interface().mac),
            sender,
            port,
            key,
            content: content.map(<[u8]>::to_vec),
            patches: patches.to_vec(),
            frame: vec![0; 1536].into_boxed_slice(),
            counters: ChannelCounters::default(),
            _lock: lock,
        })
    }

    /// Replaces the content of the answers and the fields of each question that are copied into them.
    ///
    /// # Errors
    /// The content does not fit in a frame, or a patch is not possible.
    pub fn replace_with(&mut self, content: &[u8], patches: &[Patch]) -> Result<(), ProgramError> {
        check_patches(content, patches)?;
        self.content = Some(content.to_vec());
        self.patches = patches.to_vec();
        Ok(())
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        self.counters
    }

    /// Waits for a question for at most `timeout` and answers it; returns `true` if a frame came. Two system calls,
    /// no allocation.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn answer_one(&mut self, timeout: Duration) -> Result<bool, LinkError> {
        if !self.receiver.wait(Some(timeout))? {
            self.look_at_address();
            return Ok(false);
        }
        let octets = self.prepare();
        self.receiver.release();
        let Some(octets) = octets else {
            return Ok(true);
        };
        match self.sender.send(&self.frame[..octets]) {
            Ok(_) => self.counters.accepted += 1,
            Err(LinkError::QueueFull) => self.counters.unanswered += 1,
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Reads the interface's address anew. Two system calls.
    #[cold]
    fn look_at_address(&mut self) {
        if let Some(address) = self.watch.address() {
            self.mac = MacAddress(address);
        }
    }

    /// Builds the answer if the oldest frame is a question; returns the answer's length.
    fn prepare(&mut self) -> Option<usize> {
        let destination = ethernet::Frame::new(self.receiver.peek()?.data)
            .ok()?
            .destination();
        let foreign = destination != self.mac && !destination.is_group();
        if foreign && self.looks.is_due(clock::now_ns(Clock::Monotonic)) {
            // A frame for another station, or the address has changed.
            self.look_at_address();
        }
        let frame = self.receiver.peek()?;
        let question = ethernet::Frame::new(frame.data).ok()?;
        // Faulty frames and frames for other stations are no questions.
        let (header, data) = Header::parse(question.payload()).ok()?;
        let to_us = question.destination() == self.mac || question.destination().is_group();
        if header.destination_port != self.port || !to_us {
            return None;
        }
        if header.key != self.key {
            self.counters.wrong_key += 1;
            return None;
        }
        if header.source_port < FIRST_ASKING_PORT || question.source().is_group() {
            self.counters.no_question += 1;
            return None;
        }
        let now_ns = clock::now_ns(Clock::Tai);
        let time_ns = self
            .content
            .is_some()
            .then_some(now_ns)
            .or(header.time_ns.map(|_| now_ns));
        let answer = Header {
            destination_port: header.source_port,
            source_port: header.destination_port,
            time_ns,
            ..header
        };
        let ethernet = ethernet::Header {
            destination: question.source(),
            source: self.mac,
            vlan: frame.tag.map(VlanTag::from_bits),
            ether_type: EtherType::RTDIP,
        };
        let at = ethernet.emit(&mut self.frame).ok()?;
        if let Some(content) = &mut self.content {
            apply_patches(&self.patches, data, header.sequence, now_ns, content);
        }
        let content = self.content.as_deref().unwrap_or(data);
        let Ok(octets) = answer.emit(content, &mut self.frame[at..]) else {
            self.counters.unanswered += 1;
            return None;
        };
        let end = at + octets;
        if end < MINIMUM_FRAME_OCTETS {
            self.frame[end..MINIMUM_FRAME_OCTETS].fill(0);
        }
        Some(end.max(MINIMUM_FRAME_OCTETS))
    }
}

//! The sending end of a channel.

use crate::config::{TalkerConfig, Transport};
use crate::error::ChannelError;
use crate::statistics::TalkerStatistics;
use rtwire_link::card_time::CardTime;
use rtwire_link::{LaunchQueue, LinkError, Sender, SenderConfig, TxPath, TxPathInUse, TxStamps};
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::rtdip;
use rtwire_wire::{MINIMUM_FRAME_OCTETS, MacAddress, VLAN_TAG_OCTETS, ethernet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the IPv4 and UDP headers.
const UDP_OCTETS: usize = 28;

/// Sends the values of one channel. Several talkers of one listener need different source ports.
#[derive(Debug)]
pub struct Talker {
    sender: Sender,
    /// One frame (or datagram) whose Ethernet header is already written.
    frame: Box<[u8]>,
    /// Offset of the RTDiP header.
    start: usize,
    /// Length of the shortest frame to send.
    least: usize,
    /// Largest length of the user data in one frame.
    fit: usize,
    header: rtdip::Header,
    /// Bytes of the frame's headers outside `frame`.
    outside: usize,
    queue_full: u64,
    /// The clock of the card whose stamps were asked for, until they are taken.
    card: Option<Arc<CardTime>>,
    /// Frames that are sent with one call; their Ethernet headers are already written.
    batch: Vec<Box<[u8]>>,
}

/// Largest number of values that one system call sends.
const MOST_AT_ONCE: usize = 32;

fn link_of(config: &TalkerConfig) -> SenderConfig {
    SenderConfig {
        path: config.path,
        priority: config
            .socket_priority
            .unwrap_or(u32::from(config.pcp.get())),
        type_of_service: config.pcp.type_of_service(),
        stamping: config.stamping,
        ..SenderConfig::new(config.interface.as_str())
    }
}

/// Writes the RTDiP header and the data behind the first `start` bytes of a frame and pads it to `least`. Returns its
/// length.
fn fill(
    header: &rtdip::Header,
    data: &[u8],
    (start, least): (usize, usize),
    frame: &mut [u8],
) -> Option<usize> {
    let end = start + header.emit(data, frame.get_mut(start..)?).ok()?;
    if end < least {
        // Without this the padding would show data of an earlier, longer frame.
        frame.get_mut(end..least)?.fill(0);
    }
    Some(end.max(least))
}

impl Talker {
    /// Opens a talker. Allocates all the memory it needs.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing (RTDiP), or CAP_NET_ADMIN for a socket priority above 6. The interface does not exist;
    /// the peer has no route (UDP); or no queue supports launch times.
    pub fn open(config: &TalkerConfig) -> Result<Self, ChannelError> {
        let link = link_of(config);
        let sender = match config.transport {
            Transport::Rtdip { .. } => Sender::frames(&link)?,
            Transport::Udp { destination } => Sender::datagrams(&link, destination)?,
        };
        Ok(Self::new(config, sender, false))
    }

    /// Opens a talker at a connected socket of the host's agent. Destination, tag and priority of its frames are the
    /// agent's; those of the configuration only tell their lengths. Needs no privilege. Allocates all the memory it needs.
    ///
    /// # Errors
    /// The interface does not exist, or the path is not [`TxPath::Qdisc`].
    pub fn of_agent(config: &TalkerConfig, socket: OwnedFd) -> Result<Self, ChannelError> {
        let sender = Sender::of_agent(&link_of(config), socket)?;
        Ok(Self::new(config, sender, true))
    }

    /// `by_agent`: the Ethernet header of RTDiP frames is written behind this process.
    fn new(config: &TalkerConfig, sender: Sender, by_agent: bool) -> Self {
        let mtu = sender.interface().mtu as usize;
        // Writing the header cannot fail: the buffer is longer than any header.
        let mut frame = vec![0; mtu.max(64) + ethernet::HEADER_OCTETS + VLAN_TAG_OCTETS];
        let (start, least, room, outside) = match config.transport {
            Transport::Rtdip { vlan, .. } if by_agent => {
                // The frame is one of at least 60 bytes behind the agent's gate, which takes the headers of IPv4 and UDP away.
                let outside = ethernet::HEADER_OCTETS + vlan.map_or(0, |_| VLAN_TAG_OCTETS);
                let least = MINIMUM_FRAME_OCTETS - ethernet::HEADER_OCTETS;
                (0, least, mtu.saturating_sub(UDP_OCTETS), outside)
            }
            Transport::Rtdip { destination, vlan } => {
                let header = ethernet::Header {
                    destination,
                    source: MacAddress(sender.interface().mac),
                    vlan,
                    ether_type: config.ether_type,
                };
                let start = header.emit(&mut frame).unwrap_or(0);
                let tag = start - ethernet::HEADER_OCTETS;
                (start, MINIMUM_FRAME_OCTETS + tag, mtu, 0)
            }
            Transport::Udp { .. } => {
                let outside = ethernet::HEADER_OCTETS + UDP_OCTETS;
                (0, 0, mtu.saturating_sub(UDP_OCTETS), outside)
            }
        };
        let header = rtdip::Header {
            semantics: config.semantics,
            priority: config.pcp,
            destination_port: config.destination_port,
            source_port: config.source_port,
            sequence: 0,
            key: config.key,
            time_ns: config.sender_time.then_some(0),
        };
        let places = match config.path {
            // On these paths the kernel holds the memory.
            TxPath::Xdp | TxPath::XdpLaunch => 0,
            _ if config.batch <= 1 => 0,
            _ => config.batch.min(MOST_AT_ONCE),
        };
        let frame = frame.into_boxed_slice();
        let batch = vec![frame.clone(); places];
        Self {
            sender,
            frame,
            start,
            least,
            fit: room
                .saturating_sub(header.octets())
                .min(usize::from(u16::MAX)),
            header,
            outside,
            queue_full: 0,
            card: config.card.clone(),
            batch,
        }
    }

    /// Returns the largest length of the user data in one frame, in bytes.
    #[must_use]
    pub fn maximum_data(&self) -> usize {
        self.fit
    }

    /// Returns the length in bytes of the frame that carries `data_octets`: header and padded payload, without check
    /// sequence.
    #[must_use]
    pub fn frame_octets(&self, data_octets: usize) -> usize {
        let inside = self.start + self.header.octets() + data_octets;
        (inside + self.outside)
            .max(self.least + self.outside)
            .max(MINIMUM_FRAME_OCTETS)
    }

    /// Sets how long a send call waits while the socket's send buffer is full. Zero, as a talker begins: it does not wait, and
    /// the value is lost ([`LinkError::QueueFull`]).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_room_wait(&mut self, longest: Duration) -> Result<(), ChannelError> {
        Ok(self.sender.set_room_wait(longest)?)
    }

    /// Sends one value, with the current CLOCK_TAI time in its header unless
    /// [`sender_time`](TalkerConfig::sender_time) is off. Returns its sequence number, which counts 0, 1, 2 … from
    /// opening on and wraps at 2³². It makes one system call and does not allocate: fit for a real-time loop.
    ///
    /// # Errors
    /// The data are too long; the interface is gone or down. [`LinkError::QueueFull`] if the interface's own queue
    /// dropped the frame, which then has used up a sequence number, or if the socket's send buffer is full, and it has not.
    pub fn send(&mut self, data: &[u8]) -> Result<u32, ChannelError> {
        self.give(data, None)
    }

    /// Hands over one value that is to leave at `launch_tai_ns` of CLOCK_TAI; its header carries this time. For the
    /// paths [`TxPath::Launch`](crate::TxPath::Launch) and [`TxPath::XdpLaunch`](crate::TxPath::XdpLaunch). Otherwise
    /// as [`Self::send`].
    ///
    /// # Errors
    /// As of [`Self::send`]; [`LinkError::LaunchRefused`] if the queue dropped the frame at once, which then has used
    /// up a sequence number.
    pub fn send_at(&mut self, data: &[u8], launch_tai_ns: u64) -> Result<u32, ChannelError> {
        self.give(data, Some(launch_tai_ns))
    }

    /// Returns the queue that holds frames until their launch times; `None` on paths without launch times.
    #[must_use]
    pub fn launch_queue(&self) -> Option<LaunchQueue> {
        self.sender.launch_queue()
    }

    /// Returns the transmit path in use, and whether the kernel copies each frame on it.
    #[must_use]
    pub fn path_in_use(&self) -> TxPathInUse {
        self.sender.path_in_use()
    }

    fn give(&mut self, data: &[u8], launch_ns: Option<u64>) -> Result<u32, ChannelError> {
        let too_long = || ChannelError::TooLong {
            octets: data.len(),
            fit: self.fit,
        };
        if data.len() > self.fit {
            return Err(too_long());
        }
        let sequence = self.header.sequence;
        if let Some(time_ns) = &mut self.header.time_ns {
            *time_ns = clock::now_ns(Clock::Tai);
        }
        let shape = (self.start, self.least);
        // A frame with a launch time takes the path that supports it, or is refused.
        let place = self.sender.place().filter(|_| launch_ns.is_none());
        let result = if let Some(place) = place {
            place[..self.start].copy_from_slice(&self.frame[..self.start]);
            let end = fill(&self.header, data, shape, place).ok_or_else(too_long)?;
            self.sender.send_place(end)
        } else {
            let end = fill(&self.header, data, shape, &mut self.frame).ok_or_else(too_long)?;
            let frame = &self.frame[..end];
            match launch_ns {
                None => self.sender.send(frame),
                Some(launch_ns) => self.sender.send_at(frame, launch_ns),
            }
        };
        match result {
            Ok(_) => {
                self.header.sequence = sequence.wrapping_add(1);
                Ok(sequence)
            }
            Err(error) => {
                if matches!(
                    error,
                    LinkError::QueueFull | LinkError::LaunchRefused { .. }
                ) {
                    // Used up or not: as the sender counts.
                    self.header.sequence = self.sender.count() as u32;
                    self.queue_full += 1;
                }
                Err(error.into())
            }
        }
    }

    /// Sends several values in order; returns the number of them that the interface's full queue dropped. A talker
    /// opened with a [`batch`](TalkerConfig::batch) sends as many with one system call, at most 32. All carry the
    /// time of this call. No allocation.
    ///
    /// # Errors
    /// The data of one value are too long: none is sent. The interface is gone or down: the values before were sent,
    /// as [`statistics`](Self::statistics) report.
    pub fn send_batch(&mut self, values: &[&[u8]]) -> Result<usize, ChannelError> {
        if let Some(value) = values.iter().find(|value| value.len() > self.fit) {
            return Err(ChannelError::TooLong {
                octets: value.len(),
                fit: self.fit,
            });
        }
        if let Some(time_ns) = &mut self.header.time_ns {
            *time_ns = clock::now_ns(Clock::Tai);
        }
        let mut dropped = 0;
        let mut result = Ok(());
        for values in values.chunks(self.batch.len().clamp(1, MOST_AT_ONCE)) {
            match self.send_chunk(values) {
                Ok(lost) => dropped += lost,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // While a batch is written, the header's number runs ahead of the values sent.
        self.header.sequence = self.sender.count() as u32;
        self.queue_full += dropped as u64;
        result.map(|()| dropped)
    }

    /// Sends the values that fit in one system call.
    fn send_chunk(&mut self, values: &[&[u8]]) -> Result<usize, ChannelError> {
        let shape = (self.start, self.least);
        let first = self.sender.count() as u32;
        if self.sender.place().is_some() {
            for (at, value) in (0..).zip(values) {
                self.header.sequence = first.wrapping_add(at);
                let Some(place) = self.sender.place() else {
                    break;
                };
                place[..self.start].copy_from_slice(&self.frame[..self.start]);
                let end = fill(&self.header, value, shape, place).unwrap_or(0);
                self.sender.push_place(end)?;
            }
            let left = values.len() - (self.sender.count() as u32).wrapping_sub(first) as usize;
            let dropped = match self.sender.flush() {
                Err(LinkError::QueueFull) => 1,
                result => result.map(|()| 0)?,
            };
            return if left == 0 {
                Ok(dropped)
            } else {
                Ok(dropped + self.send_chunk(&values[values.len() - left..])?)
            };
        }
        if self.batch.is_empty() {
            let mut dropped = 0;
            for value in values {
                self.header.sequence = self.sender.count() as u32;
                let end = fill(&self.header, value, shape, &mut self.frame).unwrap_or(0);
                match self.sender.send(&self.frame[..end]) {
                    Err(LinkError::QueueFull) => dropped += 1,
                    result => result.map(drop)?,
                }
            }
            return Ok(dropped);
        }
        let mut ends = [0; MOST_AT_ONCE];
        for (at, (value, frame)) in values.iter().zip(&mut self.batch).enumerate() {
            self.header.sequence = first.wrapping_add(at as u32);
            ends[at] = fill(&self.header, value, shape, frame).unwrap_or(0);
        }
        let mut frames = [&[][..]; MOST_AT_ONCE];
        for ((to, frame), end) in frames.iter_mut().zip(&self.batch).zip(ends) {
            *to = &frame[..end];
        }
        Ok(self.sender.send_batch(&frames[..values.len()])?)
    }

    /// Splits off the collector of the kernel's transmit timestamps, for another thread. Returns `None` if none were
    /// requested or it was already taken. A stamp's `frame` is the full count whose low 32 bits are the sequence
    /// number.
    ///
    /// # Errors
    /// The offset of CLOCK_TAI cannot be read.
    pub fn take_stamps(&mut self) -> Result<Option<TxStamps>, ChannelError> {
        let mut stamps = self.sender.take_stamps()?;
        if let (Some(stamps), Some(card)) = (&mut stamps, self.card.take()) {
            stamps.stamp_by_card(card);
        }
        Ok(stamps)
    }

    /// Returns `true` if the card's stamps were asked for and not taken yet.
    #[must_use]
    pub fn is_stamped_by_card(&self) -> bool {
        self.card.is_some()
    }

    /// Returns the counters so far. No system call.
    #[must_use]
    pub fn statistics(&self) -> TalkerStatistics {
        TalkerStatistics {
            sent: self.sender.count(),
            queue_full: self.queue_full,
            refused: self.sender.refused(),
        }
    }
}

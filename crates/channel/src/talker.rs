//! The sending end of a channel.

use crate::config::{TalkerConfig, Transport};
use crate::error::ChannelError;
use crate::statistics::TalkerStatistics;
use rtwire_link::{LaunchQueue, LinkError, Sender, SenderConfig, TxStamps};
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::rtdip::{self, RtdipError};
use rtwire_wire::{MINIMUM_FRAME_OCTETS, MacAddress, VLAN_TAG_OCTETS, ethernet};

/// Octets of IPv4 and UDP headers.
const UDP_OCTETS: usize = 28;

/// Sends the values of one channel. Give each talker of a listener its own source port.
#[derive(Debug)]
pub struct Talker {
    sender: Sender,
    /// One frame (or datagram), its Ethernet header written already.
    frame: Box<[u8]>,
    /// Where the RTDiP header begins.
    start: usize,
    /// The shortest frame to send.
    least: usize,
    /// The most user data in one frame.
    fit: usize,
    header: rtdip::Header,
    /// Headers of the frame outside `frame`.
    outside: usize,
    queue_full: u64,
}

impl Talker {
    /// Opens a talker. Allocates all it needs.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing (RTDiP), CAP_NET_ADMIN is missing for a socket priority above 6, there is no such interface,
    /// no way to the peer (UDP), or no queue that keeps launch times.
    pub fn open(config: &TalkerConfig) -> Result<Self, ChannelError> {
        let link = SenderConfig {
            path: config.path,
            priority: config
                .socket_priority
                .unwrap_or(u32::from(config.pcp.get())),
            type_of_service: config.pcp.type_of_service(),
            stamping: config.stamping,
            ..SenderConfig::new(config.interface.as_str())
        };
        let sender = match config.transport {
            Transport::Rtdip { .. } => Sender::frames(&link)?,
            Transport::Udp { destination } => Sender::datagrams(&link, destination)?,
        };
        let mtu = sender.interface().mtu as usize;
        // The header cannot fail: the buffer is longer than any.
        let mut frame = vec![0; mtu.max(64) + ethernet::HEADER_OCTETS + VLAN_TAG_OCTETS];
        let (start, least, room) = match config.transport {
            Transport::Rtdip { destination, vlan } => {
                let header = ethernet::Header {
                    destination,
                    source: MacAddress(sender.interface().mac),
                    vlan,
                    ether_type: config.ether_type,
                };
                let start = header.emit(&mut frame).unwrap_or(0);
                let tag = start - ethernet::HEADER_OCTETS;
                (start, MINIMUM_FRAME_OCTETS + tag, mtu)
            }
            Transport::Udp { .. } => (0, 0, mtu.saturating_sub(UDP_OCTETS)),
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
        Ok(Self {
            sender,
            frame: frame.into_boxed_slice(),
            start,
            least,
            fit: room
                .saturating_sub(header.octets())
                .min(usize::from(u16::MAX)),
            header,
            outside: if start == 0 {
                ethernet::HEADER_OCTETS + UDP_OCTETS
            } else {
                0
            },
            queue_full: 0,
        })
    }

    /// The most octets of user data that one frame takes.
    #[must_use]
    pub fn maximum_data(&self) -> usize {
        self.fit
    }

    /// Octets of the frame (header and payload, padded, without check sequence) that carries `data_octets`.
    #[must_use]
    pub fn frame_octets(&self, data_octets: usize) -> usize {
        let inside = self.start + self.header.octets() + data_octets;
        (inside + self.outside)
            .max(self.least)
            .max(MINIMUM_FRAME_OCTETS)
    }

    /// Sends one value, with the time of CLOCK_TAI at this moment in its header (unless
    /// [`sender_time`](TalkerConfig::sender_time) is off); gives its sequence number: 0, 1, 2 … from opening on, wrapping
    /// at 2³². One system call, no allocation; fit for a real-time loop.
    ///
    /// # Errors
    /// Too much data; the interface gone or down; [`LinkError::QueueFull`] if the interface's own queue has dropped the
    /// frame, which then has used up a sequence number.
    pub fn send(&mut self, data: &[u8]) -> Result<u32, ChannelError> {
        self.give(data, None)
    }

    /// Hands over one value that is to leave at `launch_tai_ns` of CLOCK_TAI, which is the time in its header; path
    /// [`TxPath::Launch`](crate::TxPath::Launch). Otherwise as [`Self::send`].
    ///
    /// # Errors
    /// As of [`Self::send`]; [`LinkError::LaunchRefused`] if the queue dropped the frame at once, which then has used up a
    /// sequence number.
    pub fn send_at(&mut self, data: &[u8], launch_tai_ns: u64) -> Result<u32, ChannelError> {
        self.give(data, Some(launch_tai_ns))
    }

    /// The queue that keeps launch times, with [`TxPath::Launch`](crate::TxPath::Launch).
    #[must_use]
    pub fn launch_queue(&self) -> Option<LaunchQueue> {
        self.sender.launch_queue()
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
        let written = match self.header.emit(data, &mut self.frame[self.start..]) {
            Ok(octets) => octets,
            Err(RtdipError::TooLong { .. }) => return Err(too_long()),
            // Writing has no other error.
            Err(_) => return Err(too_long()),
        };
        let mut end = self.start + written;
        if end < self.least {
            // Else the padding would show what an earlier, longer frame carried.
            self.frame[end..self.least].fill(0);
            end = self.least;
        }
        let frame = &self.frame[..end];
        let given = match launch_ns {
            None => self.sender.send(frame),
            Some(launch_ns) => self.sender.send_at(frame, launch_ns),
        };
        match given {
            Ok(_) => {
                self.header.sequence = sequence.wrapping_add(1);
                Ok(sequence)
            }
            Err(error) => {
                if matches!(
                    error,
                    LinkError::QueueFull | LinkError::LaunchRefused { .. }
                ) {
                    self.header.sequence = sequence.wrapping_add(1);
                    self.queue_full += 1;
                }
                Err(error.into())
            }
        }
    }

    /// Splits off the collector of the kernel's transmit stamps, for another thread; `None` if none were asked for or it
    /// was taken before. The `frame` of a stamp is the full count that the sequence number is the low 32 bits of.
    ///
    /// # Errors
    /// The offset of CLOCK_TAI cannot be read.
    pub fn take_stamps(&mut self) -> Result<Option<TxStamps>, ChannelError> {
        Ok(self.sender.take_stamps()?)
    }

    /// What has been sent so far. No system call.
    #[must_use]
    pub fn statistics(&self) -> TalkerStatistics {
        TalkerStatistics {
            sent: self.sender.count(),
            queue_full: self.queue_full,
            refused: self.sender.refused(),
        }
    }
}

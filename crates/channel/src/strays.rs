//! Frames on an interface that belong to no listener of this process, counted by their fault.
//!
//! ```text
//!  with CAP_BPF:  frame ──► listener's socket: its filter also counts frames without a listener (free for good frames)
//!                 if no listener is open: the same filter at a socket that takes nothing
//!  without:       frame ──► listener's socket
//!                      └──► a socket for frames without a listener, examined later (some 60 ns a frame)
//! ```

use crate::error::ChannelError;
use crate::statistics::{Reason, Refusals, SharedRefusals, reason};
use rtwire_link::StrayCounter;
use rtwire_sys::filter::{FOR_OTHERS, Filter, Instruction, Test};
use rtwire_sys::interface::Interface;
use rtwire_sys::packet::{FilterPlace, PacketSocket};
use rtwire_sys::{Batch, Wait};
use rtwire_wire::{EtherType, ethernet, rtdip};

/// Bytes of room for frames without a listener.
const ROOM: usize = 1 << 20;
/// Largest number of them examined at once.
const LIMIT: usize = 8192;
/// An EtherType that no frame has (reserved by IEEE). A socket for it receives nothing and costs other frames
/// nothing.
const NEVER: u16 = 0xffff;

/// Counts the frames that belong to no listener of one endpoint.
#[derive(Debug)]
pub(crate) struct Strays {
    mac: [u8; 6],
    ether_type: u16,
    /// Open listeners: their port, and the place of their socket's filter.
    listeners: Vec<(u16, FilterPlace)>,
    /// Receives frames without a listener. If a counter exists it accepts none, and while a listener's socket carries
    /// the counter it does not even see them.
    socket: PacketSocket,
    how: How,
}

#[derive(Debug)]
enum How {
    /// The filter of the first listener's socket counts.
    Filter {
        counter: StrayCounter,
        /// Counters already reported.
        told: rtwire_link::Strays,
    },
    /// The socket keeps frames without a listener until they are examined.
    Socket { batch: Batch },
}

/// Frames counted since the last time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) refused: Refusals,
    pub(crate) not_examined: u64,
}

impl Strays {
    pub(crate) fn open(interface: &Interface, ether_type: EtherType) -> Result<Self, ChannelError> {
        let counter = StrayCounter::load(interface.mac).ok();
        let open = |filter: &Filter| {
            PacketSocket::receiver(interface, ether_type.0, filter, |socket| {
                socket.set_receive_room(ROOM)
            })
            .map(|(socket, _)| socket)
        };
        let (socket, how) = match counter {
            Some(counter) => {
                let told = rtwire_link::Strays::default();
                (open(counter.filter())?, How::Filter { counter, told })
            }
            None => {
                let batch = Batch::new(64, 64);
                (
                    open(&stray_filter(&interface.mac, &[])?)?,
                    How::Socket { batch },
                )
            }
        };
        Ok(Self {
            mac: interface.mac,
            ether_type: ether_type.0,
            listeners: Vec::new(),
            socket,
            how,
        })
    }

    /// Marks `port` as owned by a listener whose socket has its filter at `place`.
    pub(crate) fn add(&mut self, port: u16, place: FilterPlace) -> Result<(), ChannelError> {
        self.listeners.push((port, place));
        if let How::Filter { counter, .. } = &self.how {
            counter.take(port);
        }
        let done = self.arrange();
        if done.is_err() {
            self.listeners.pop();
        }
        done
    }

    /// Marks `port` as free again. An error leaves frames uncounted; it does no other harm.
    pub(crate) fn remove(&mut self, port: u16) {
        let Some(at) = self.listeners.iter().position(|(other, _)| *other == port) else {
            return;
        };
        let (_, place) = self.listeners.remove(at);
        if let How::Filter { counter, .. } = &self.how {
            // Its socket is about to close. Until then it must accept nothing more and count nothing twice.
            let _ = reject_all().and_then(|filter| Ok(place.set(&filter)?));
            counter.give_back(port);
        }
        let _ = self.arrange();
    }

    /// Lets the first listener's socket count, or the own socket if there is no listener.
    fn arrange(&mut self) -> Result<(), ChannelError> {
        match &self.how {
            How::Filter { counter, .. } => match self.listeners.first() {
                Some((port, place)) => {
                    self.socket.listen_for(NEVER)?;
                    counter.carry(Some(*port));
                    place.set(counter.filter())?;
                }
                None => {
                    counter.carry(None);
                    self.socket.listen_for(self.ether_type)?;
                }
            },
            How::Socket { .. } => {
                let ports: Vec<u16> = self.listeners.iter().map(|(port, _)| *port).collect();
                self.socket.set_filter(&stray_filter(&self.mac, &ports)?)?;
            }
        }
        Ok(())
    }

    /// Counts the frames without a listener since the last time. `is_held` tells whether another process has a port.
    pub(crate) fn examine(&mut self, is_held: impl Fn(u16) -> bool) -> Result<Found, ChannelError> {
        match &mut self.how {
            How::Filter { counter, told } => {
                let now = counter.read();
                let found = Found {
                    refused: Refusals {
                        truncated: now.truncated - told.truncated,
                        wrong_version: now.wrong_version - told.wrong_version,
                        unknown_port: unknown(&now, told, is_held),
                        ..Refusals::default()
                    },
                    not_examined: now.crowded - told.crowded,
                };
                *told = now;
                Ok(found)
            }
            How::Socket { batch } => examine_socket(&self.socket, batch, is_held),
        }
    }
}

/// Returns the number of frames since `told` for ports without a listener.
fn unknown(
    now: &rtwire_link::Strays,
    told: &rtwire_link::Strays,
    is_held: impl Fn(u16) -> bool,
) -> u64 {
    let before = |port: u16| {
        let mut known = told.unknown_ports.iter();
        known
            .find(|(other, _)| *other == port)
            .map_or(0, |(_, frames)| *frames)
    };
    now.unknown_ports
        .iter()
        .map(|&(port, frames)| (port, frames - before(port)))
        .filter(|&(port, new)| new > 0 && !is_held(port))
        .map(|(_, new)| new)
        .sum()
}

fn examine_socket(
    socket: &PacketSocket,
    batch: &mut Batch,
    is_held: impl Fn(u16) -> bool,
) -> Result<Found, ChannelError> {
    let found = SharedRefusals::default();
    let mut examined = 0;
    while examined < LIMIT {
        // The queue is empty, or the interface is down or gone: the listeners report that better.
        let Ok(count) = socket.receive(batch, Wait::No, 64) else {
            break;
        };
        for index in 0..count {
            let message = batch.get(index);
            if let Some(reason) = message.and_then(|message| stray_reason(message.data, &is_held)) {
                found.count(reason);
            }
        }
        examined += count;
    }
    Ok(Found {
        refused: found.read(),
        not_examined: socket.statistics()?.dropped,
    })
}

/// Returns the fault of a frame that no listener of this process took. Up to 64 bytes of it are available.
fn stray_reason(frame: &[u8], is_held: impl Fn(u16) -> bool) -> Option<Reason> {
    let Ok(frame) = ethernet::Frame::new(frame) else {
        return Some(Reason::Truncated);
    };
    let packet = match rtdip::Packet::new(frame.payload()) {
        Ok(packet) => packet,
        Err(error) => return Some(reason(error)),
    };
    if packet.version() != rtdip::VERSION {
        return Some(Reason::WrongVersion);
    }
    (!is_held(packet.destination_port())).then_some(Reason::UnknownPort)
}

/// Appends the end of a filter: it accepts frames for this host (`mac`) and for groups, and rejects those for other
/// stations. The kernel may mark a tagged frame for this host as one for others, so the addresses of such frames are
/// compared.
fn accept_if_for_us(program: &mut Vec<Instruction>, mac: &[u8; 6]) {
    let high = u32::from(u16::from_be_bytes([mac[0], mac[1]]));
    let low = u32::from_be_bytes([mac[2], mac[3], mac[4], mac[5]]);
    let jump = |test, yes, no| Instruction::Jump { test, yes, no };
    program.extend([
        Instruction::LoadPacketType,
        jump(Test::Equal(FOR_OTHERS), 0, 6),
        Instruction::LoadWord(2),
        jump(Test::Equal(low), 0, 2),
        Instruction::LoadHalf(0),
        jump(Test::Equal(high), 2, 0),
        Instruction::LoadByte(0),
        jump(Test::AnyBit(1), 0, 1),
        Instruction::Accept,
        Instruction::Reject,
    ]);
}

const HEADERS: u32 = (ethernet::HEADER_OCTETS + rtdip::HEADER_OCTETS) as u32;
/// Offset of the first word of an RTDiP header: version and flags, priority, destination port.
const FIRST_WORD: u32 = ethernet::HEADER_OCTETS as u32;
const VERSION_AND_PORT: u32 = 0xf000_ffff;

fn version_and_port(port: u16) -> u32 {
    u32::from(rtdip::VERSION) << 28 | u32::from(port)
}

/// Returns a filter that takes the complete frames for this host, of our version and for `port`.
pub(crate) fn channel_filter(mac: &[u8; 6], port: u16) -> Result<Filter, ChannelError> {
    let mut program = vec![
        Instruction::LoadLength,
        Instruction::Jump {
            test: Test::AtLeast(HEADERS),
            yes: 1,
            no: 0,
        },
        Instruction::Reject,
        Instruction::LoadWord(FIRST_WORD),
        Instruction::And(VERSION_AND_PORT),
        Instruction::Jump {
            test: Test::Equal(version_and_port(port)),
            yes: 1,
            no: 0,
        },
        Instruction::Reject,
    ];
    accept_if_for_us(&mut program, mac);
    Ok(Filter::new(&program)?)
}

/// Returns a filter that takes the frames for this host that are incomplete, of another version, or for none of
/// `ports`.
fn stray_filter(mac: &[u8; 6], ports: &[u16]) -> Result<Filter, ChannelError> {
    let mut program = vec![
        Instruction::LoadLength,
        Instruction::Jump {
            test: Test::AtLeast(HEADERS),
            yes: 10,
            no: 0,
        },
    ];
    accept_if_for_us(&mut program, mac);
    program.extend([
        Instruction::LoadWord(FIRST_WORD),
        Instruction::And(VERSION_AND_PORT),
    ]);
    for &port in ports {
        program.extend([
            Instruction::Jump {
                test: Test::Equal(version_and_port(port)),
                yes: 0,
                no: 1,
            },
            Instruction::Reject,
        ]);
    }
    accept_if_for_us(&mut program, mac);
    Ok(Filter::new(&program)?)
}

fn reject_all() -> Result<Filter, ChannelError> {
    Ok(Filter::new(&[Instruction::Reject])?)
}

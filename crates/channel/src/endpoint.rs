//! One process's channels on one interface: who has which port, and what belonged to nobody.

use crate::config::{ListenerConfig, ListenerTransport, Order};
use crate::error::ChannelError;
use crate::inbox::{Inbox, reason};
use crate::newest::NewestListener;
use crate::queue::QueueListener;
use crate::statistics::{EndpointStatistics, Reason, Refusals, SharedRefusals};
use rtwire_link::{LinkError, Receiver, ReceiverConfig};
use rtwire_sys::filter::{FOR_OTHERS, Filter, Instruction, Test};
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::port_lock::{self, NameLock};
use rtwire_sys::{Batch, ErrorKind, Wait};
use rtwire_wire::rtdip::{self, Semantics};
use rtwire_wire::{EtherType, ethernet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Octets of room for frames that belong to nobody.
const STRAY_ROOM: usize = 1 << 20;
/// How many of them are examined at once at most.
const STRAY_LIMIT: usize = 8192;
/// How long a port that is in use is tried again.
const PATIENCE: Duration = Duration::from_millis(500);

/// Opens the listeners of one interface. Cheap to clone; clones are the same endpoint.
///
/// It belongs to the network namespace that the calling thread was in when it was opened: open listeners from there, too.
#[derive(Clone, Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    interface: Interface,
    ether_type: EtherType,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Ports of open RTDiP listeners.
    ports: Vec<u16>,
    /// Refusals of open listeners.
    open: Vec<Arc<SharedRefusals>>,
    /// Refusals of closed listeners, and the endpoint's own.
    closed: Refusals,
    not_examined: u64,
    stray: Option<Stray>,
}

#[derive(Debug)]
struct Stray {
    socket: PacketSocket,
    batch: Batch,
}

impl Endpoint {
    /// An endpoint for RTDiP's usual EtherType. Opens nothing yet.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn open(interface: &str) -> Result<Self, ChannelError> {
        Self::with_ether_type(interface, EtherType::RTDIP)
    }

    /// An endpoint for another EtherType.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn with_ether_type(interface: &str, ether_type: EtherType) -> Result<Self, ChannelError> {
        Ok(Self {
            shared: Arc::new(Shared {
                interface: interface::by_name(interface)?,
                ether_type,
                state: Mutex::default(),
            }),
        })
    }

    /// Opens a listener that gets every value, most urgent first.
    ///
    /// # Errors
    /// [`ChannelError::PortInUse`]; CAP_NET_RAW is missing (RTDiP); the interface is gone.
    pub fn queue_listener(&self, config: &ListenerConfig) -> Result<QueueListener, ChannelError> {
        let inbox = self.listen(config, Semantics::Queue)?;
        Ok(QueueListener::new(inbox, config.order, config.queue_frames))
    }

    /// Opens a listener that gets the newest value.
    ///
    /// # Errors
    /// As [`queue_listener`](Self::queue_listener).
    pub fn newest_listener(&self, config: &ListenerConfig) -> Result<NewestListener, ChannelError> {
        let inbox = self.listen(config, Semantics::Newest)?;
        Ok(NewestListener::new(inbox, config.queue_frames))
    }

    fn listen(&self, config: &ListenerConfig, semantics: Semantics) -> Result<Inbox, ChannelError> {
        let shared = &self.shared;
        let in_use = |error: ChannelError| {
            if is_in_use(&error) {
                ChannelError::PortInUse {
                    port: config.port,
                    interface: shared.interface.name.clone(),
                }
            } else {
                error
            }
        };
        let link = ReceiverConfig {
            interface: shared.interface.name.clone(),
            wake_up: config.wake_up,
            queue_frames: config.queue_frames,
            stamps: config.stamps,
            one_by_one: config.order == Order::Arrival && semantics == Semantics::Queue,
        };
        let refusals = Arc::<SharedRefusals>::default();
        let (receiver, lock) = match config.transport {
            ListenerTransport::Rtdip => {
                let name = shared.lock_name(config.port);
                let lock = patiently(|| Ok(NameLock::take(&name)?)).map_err(in_use)?;
                let filter = channel_filter(&shared.interface.mac, config.port)?;
                // The receiver first, the socket for strays behind it: the kernel asks the newest first, and the last
                // it asks, here the only listener of most, needs no copy of its own.
                let receiver = Receiver::frames(&link, shared.ether_type.0, &filter)?;
                shared.add_port(config.port)?;
                (receiver, Some(lock))
            }
            ListenerTransport::Udp(local) => {
                let receiver = patiently(|| Ok(Receiver::datagrams(&link, local)?));
                (receiver.map_err(in_use)?, None)
            }
        };
        shared.state().open.push(Arc::clone(&refusals));
        let registration = Registration {
            shared: Arc::clone(shared),
            port: config.port,
            refusals,
            lock,
        };
        Ok(Inbox::new(receiver, *config, semantics, registration))
    }

    /// What belonged to nobody and what listeners refused, so far. Examines what has come since the last call: not for a
    /// real-time loop. Frames for ports of other processes on this interface are not counted.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn statistics(&self) -> Result<EndpointStatistics, ChannelError> {
        let mut state = self.shared.state();
        self.shared.examine(&mut state)?;
        let refused = state
            .open
            .iter()
            .fold(state.closed, |total, open| total.plus(open.read()));
        Ok(EndpointStatistics {
            refused,
            not_examined: state.not_examined,
        })
    }
}

fn is_in_use(error: &ChannelError) -> bool {
    matches!(error, ChannelError::Link(LinkError::System(error)) if error.kind() == ErrorKind::InUse)
}

/// Tries again for a moment what somebody else has: a process that is just being started holds copies of its parent's
/// sockets until it becomes another program, and so a port that its parent has closed.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, ChannelError>) -> Result<T, ChannelError> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_in_use(&error) && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            result => return result,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_name(&self, port: u16) -> String {
        let kind = self.ether_type.0;
        format!("rtwire/{kind:04x}/{}/{port}", self.interface.index)
    }

    /// From now on frames for `port` are somebody's.
    fn add_port(&self, port: u16) -> Result<(), ChannelError> {
        let mut state = self.state();
        // What has come up to now was nobody's.
        self.examine(&mut state)?;
        state.ports.push(port);
        let filter = stray_filter(&self.interface.mac, &state.ports)?;
        if let Some(stray) = &state.stray {
            stray.socket.set_filter(&filter)?;
        } else {
            let opened =
                PacketSocket::receiver(&self.interface, self.ether_type.0, &filter, |socket| {
                    socket.set_receive_room(STRAY_ROOM)
                });
            match opened {
                Ok((socket, _)) => {
                    let batch = Batch::new(64, 64);
                    state.stray = Some(Stray { socket, batch });
                }
                Err(error) => {
                    state.ports.retain(|&other| other != port);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn remove_port(&self, port: u16) {
        let mut state = self.state();
        state.ports.retain(|&other| other != port);
        if let (Some(stray), Ok(filter)) = (
            &state.stray,
            stray_filter(&self.interface.mac, &state.ports),
        ) {
            // A filter that cannot be set leaves the old one: frames for this port are then not counted, no more.
            let _ = stray.socket.set_filter(&filter);
        }
    }

    /// Counts what has come to nobody since the last time.
    fn examine(&self, state: &mut State) -> Result<(), ChannelError> {
        let Some(stray) = &mut state.stray else {
            return Ok(());
        };
        let found = SharedRefusals::default();
        let mut examined = 0;
        while examined < STRAY_LIMIT {
            // An empty queue, or an interface that is down or gone: the listeners tell that better.
            let Ok(count) = stray.socket.receive(&mut stray.batch, Wait::No, 64) else {
                break;
            };
            for index in 0..count {
                if let Some(message) = stray.batch.get(index) {
                    if let Some(reason) = self.stray_reason(message.data) {
                        found.count(reason);
                    }
                }
            }
            examined += count;
        }
        state.not_examined += stray.socket.statistics()?.dropped;
        state.closed = state.closed.plus(found.read());
        Ok(())
    }

    /// What is wrong with a frame that no listener of ours took, of which up to 64 octets are at hand.
    fn stray_reason(&self, frame: &[u8]) -> Option<Reason> {
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
        let name = self.lock_name(packet.destination_port());
        match port_lock::is_held(&name) {
            Ok(true) => None,
            Ok(false) | Err(_) => Some(Reason::UnknownPort),
        }
    }
}

/// A listener's entry in its endpoint, which ends with it.
#[derive(Debug)]
pub(crate) struct Registration {
    shared: Arc<Shared>,
    port: u16,
    refusals: Arc<SharedRefusals>,
    lock: Option<NameLock>,
}

impl Registration {
    pub(crate) fn refusals(&self) -> &SharedRefusals {
        &self.refusals
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.lock.is_some() {
            self.shared.remove_port(self.port);
        }
        let mut state = self.shared.state();
        state.open.retain(|open| !Arc::ptr_eq(open, &self.refusals));
        state.closed = state.closed.plus(self.refusals.read());
    }
}

/// The end of a filter: accepts frames for us (`mac`) and for groups, rejects those for other stations. A tagged frame
/// for us may seem to be for others, so those are looked at more closely.
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
/// The first word of an RTDiP header: version and flags, priority, destination port.
const FIRST_WORD: u32 = ethernet::HEADER_OCTETS as u32;
const VERSION_AND_PORT: u32 = 0xf000_ffff;

fn version_and_port(port: u16) -> u32 {
    u32::from(rtdip::VERSION) << 28 | u32::from(port)
}

/// Takes the frames for us that are whole, of our version and for `port`.
fn channel_filter(mac: &[u8; 6], port: u16) -> Result<Filter, ChannelError> {
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

/// Takes the frames for us that are not whole, or not of our version, or for none of `ports`.
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

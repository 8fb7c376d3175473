//! The channels of one process on one interface: the owner of each port, and the count of frames that belong to no
//! listener.

use crate::config::{ListenerConfig, ListenerTransport, Order};
use crate::error::ChannelError;
use crate::feed::Feed;
use crate::inbox::Inbox;
use crate::newest::NewestListener;
use crate::path::{Chosen, EndpointConfig, ListenerPath, ProgramStrays};
use crate::queue::QueueListener;
use crate::registration::{Open, Registration, Shared, State};
use crate::statistics::EndpointStatistics;
use crate::strays::channel_filter;
use rtwire_link::card_time::CardTime;
use rtwire_link::program::{
    CounterReader, NewestReader, ProgramError, QueueChannel, QueueConfig, ReceiveProgram,
};
use rtwire_link::{LinkError, PathInUse, ReceivePath, Receiver, ReceiverConfig};
use rtwire_sys::ErrorKind;
use rtwire_sys::interface;
use rtwire_sys::port_lock::NameLock;
use rtwire_wire::EtherType;
use rtwire_wire::rtdip::Semantics;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time for which an occupied port is tried again.
const PATIENCE: Duration = Duration::from_millis(500);

/// Opens the listeners of one interface. Clones are cheap and denote the same endpoint.
///
/// It belongs to the network namespace of the thread that opened it. Open its listeners, drop them and read its
/// statistics in that namespace, too.
#[derive(Clone, Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Creates an endpoint for RTDiP's usual EtherType, with the best receive path there is: [`EndpointConfig::new`].
    /// Each listener says which one it has ([`QueueListener::path_in_use`]).
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn open(interface: &str) -> Result<Self, ChannelError> {
        Self::with_ether_type(interface, EtherType::RTDIP)
    }

    /// Creates an endpoint for another EtherType.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn with_ether_type(interface: &str, ether_type: EtherType) -> Result<Self, ChannelError> {
        Self::with(&EndpointConfig {
            ether_type,
            ..EndpointConfig::new(interface)
        })
    }

    /// Creates an endpoint as configured. Attaches the receive program if the configuration asks for it.
    ///
    /// # Errors
    /// The interface does not exist; or the receive program is required and not available.
    pub fn with(config: &EndpointConfig) -> Result<Self, ChannelError> {
        Self::stamped(config, None)
    }

    /// As [`with`](Self::with), with the card's stamps of arrivals in place of the kernel's
    /// ([`rtwire_link::card_time::CardFollower`] switches them on). All listeners have packet sockets then:
    /// [`ReceivePath::Auto`] is [`ReceivePath::Packet`].
    ///
    /// # Errors
    /// As [`with`](Self::with); another receive path is required ([`LinkError::Unsupported`]).
    pub fn with_card(config: &EndpointConfig, card: Arc<CardTime>) -> Result<Self, ChannelError> {
        let path = match config.path {
            ReceivePath::Auto | ReceivePath::Packet => ReceivePath::Packet,
            _ => {
                let what = "stamps of the card reach packet sockets only: use the receive path `packet` or `auto`";
                return Err(LinkError::Unsupported { what }.into());
            }
        };
        let config = EndpointConfig {
            path,
            ..config.clone()
        };
        Self::stamped(&config, Some(card))
    }

    fn stamped(config: &EndpointConfig, card: Option<Arc<CardTime>>) -> Result<Self, ChannelError> {
        let mut chosen = Chosen::open(config)?;
        if card.is_some() {
            chosen.why = Some("the card's stamps reach packet sockets only".to_owned());
        }
        let state = State {
            program_strays: chosen.program.as_ref().map(ProgramStrays::new),
            ..State::default()
        };
        let interface = match &chosen.uman {
            Some(attachment) => attachment.interface().clone(),
            None => interface::by_name(&config.interface)?,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                interface,
                ether_type: config.ether_type,
                path: config.path,
                chosen,
                card,
                state: Mutex::new(state),
            }),
        })
    }

    /// Returns the receive path of this endpoint. With [`ReceivePath::Auto`] it holds for the listeners for which it
    /// is the better one; each listener reports its own path.
    #[must_use]
    pub fn path_in_use(&self) -> PathInUse {
        self.shared.chosen.in_use()
    }

    /// Returns the reason why the path in use is not the one that is tried first.
    #[must_use]
    pub fn why_not_better(&self) -> Option<&str> {
        self.shared.chosen.why.as_deref()
    }

    /// Returns the receive program if it is attached.
    #[must_use]
    pub fn program(&self) -> Option<&ReceiveProgram> {
        self.shared.chosen.program.as_ref()
    }

    /// Opens a listener that receives every value, most urgent first.
    ///
    /// # Errors
    /// [`ChannelError::PortInUse`]; CAP_NET_RAW is missing (RTDiP); the interface is gone.
    pub fn queue_listener(&self, config: &ListenerConfig) -> Result<QueueListener, ChannelError> {
        let inbox = self.listen(config, Semantics::Queue)?;
        Ok(QueueListener::new(inbox, config.order, config.queue_frames))
    }

    /// Opens a queue listener at a bound socket of the host's agent. Its datagrams are packets of RTDiP, whatever the transport
    /// on the wire. Needs no privilege.
    ///
    /// # Errors
    /// The interface is gone, or the kernel refuses timestamps.
    pub fn queue_listener_of_agent(
        &self,
        config: &ListenerConfig,
        socket: OwnedFd,
    ) -> Result<QueueListener, ChannelError> {
        let inbox = self.listen_by_agent(config, Semantics::Queue, socket)?;
        Ok(QueueListener::new(inbox, config.order, config.queue_frames))
    }

    /// Opens a newest-value listener as [`queue_listener_of_agent`](Self::queue_listener_of_agent).
    ///
    /// # Errors
    /// As [`queue_listener_of_agent`](Self::queue_listener_of_agent).
    pub fn newest_listener_of_agent(
        &self,
        config: &ListenerConfig,
        socket: OwnedFd,
    ) -> Result<NewestListener, ChannelError> {
        let inbox = self.listen_by_agent(config, Semantics::Newest, socket)?;
        Ok(NewestListener::new(inbox, config))
    }

    fn listen_by_agent(
        &self,
        config: &ListenerConfig,
        semantics: Semantics,
        socket: OwnedFd,
    ) -> Result<Inbox, ChannelError> {
        let receiver = Receiver::of_agent(&self.link(config, semantics), socket)?;
        let path = ListenerPath {
            path: PathInUse::Agent,
            why: None,
        };
        let registration = self.register(config, None, None, path);
        let feed = Feed::Link(Box::new(receiver));
        Inbox::new(feed, *config, semantics, registration)
    }

    fn link(&self, config: &ListenerConfig, semantics: Semantics) -> ReceiverConfig {
        ReceiverConfig {
            interface: self.shared.interface.name.clone(),
            wake_up: config.wake_up,
            queue_frames: config.queue_frames,
            stamps: config.stamps,
            one_by_one: config.order == Order::Arrival && semantics == Semantics::Queue,
        }
    }

    /// Opens a listener that receives the newest value.
    ///
    /// # Errors
    /// As [`queue_listener`](Self::queue_listener).
    pub fn newest_listener(&self, config: &ListenerConfig) -> Result<NewestListener, ChannelError> {
        if let Some(program) = self.program_for(config, Semantics::Newest) {
            let (port, key, notes) = (config.port, config.key, config.arrivals);
            let open = || Ok(program.newest_channel_with_notes(port, key, notes)?);
            let slot = patiently(open).map_err(|error| self.in_use(config, error))?;
            self.shared.examine_before(config.port)?;
            slot.police(config.police.as_ref())?;
            let counters = slot.counter_reader();
            let reader: NewestReader = slot.reader(config.wake_up)?;
            let registration =
                self.register(config, None, Some(counters), self.path_of(config, true));
            return Ok(NewestListener::in_program(reader, registration));
        }
        let inbox = self.listen(config, Semantics::Newest)?;
        Ok(NewestListener::new(inbox, config))
    }

    /// Returns the receive program if it can serve this listener and, with [`ReceivePath::Auto`], costs less than a
    /// packet socket.
    fn program_for(
        &self,
        config: &ListenerConfig,
        semantics: Semantics,
    ) -> Option<&ReceiveProgram> {
        let suits = self.shared.path != ReceivePath::Auto || config.suits_program(semantics);
        self.program()
            .filter(|_| suits && config.transport == ListenerTransport::Rtdip)
    }

    /// Returns the receive path of a listener, and the reason why it is not another.
    fn path_of(&self, config: &ListenerConfig, in_program: bool) -> ListenerPath {
        if config.transport != ListenerTransport::Rtdip {
            return ListenerPath {
                path: PathInUse::Datagrams,
                why: None,
            };
        }
        if self.program().is_some() && !in_program {
            return ListenerPath::packet_by_choice();
        }
        ListenerPath {
            path: self.path_in_use(),
            why: self.why_not_better().map(str::to_owned),
        }
    }

    fn in_use(&self, config: &ListenerConfig, error: ChannelError) -> ChannelError {
        if is_in_use(&error) {
            ChannelError::PortInUse {
                port: config.port,
                interface: self.shared.interface.name.clone(),
            }
        } else {
            error
        }
    }

    fn register(
        &self,
        config: &ListenerConfig,
        lock: Option<NameLock>,
        program: Option<CounterReader>,
        path: ListenerPath,
    ) -> Registration {
        let open = Open {
            refusals: Arc::default(),
            program,
            counted: self.program().is_some() && config.transport == ListenerTransport::Rtdip,
        };
        self.shared.state().open.push(open.clone());
        Registration {
            shared: Arc::clone(&self.shared),
            port: config.port,
            open,
            lock,
            path,
        }
    }

    /// Opens a queue channel of the receive program.
    fn listen_in_program(
        &self,
        program: &ReceiveProgram,
        config: &ListenerConfig,
    ) -> Result<Inbox, ChannelError> {
        let queue = QueueConfig {
            frames: config.queue_frames,
            wake_up: config.wake_up,
            by_priority: config.order == Order::MostUrgentFirst,
            stamps: config.stamps,
        };
        let open = || Ok(program.queue_channel(config.port, config.key, &queue)?);
        let channel: QueueChannel = patiently(open).map_err(|error| self.in_use(config, error))?;
        self.shared.examine_before(config.port)?;
        channel.police(config.police.as_ref())?;
        let registration = self.register(
            config,
            None,
            Some(channel.counter_reader()),
            self.path_of(config, true),
        );
        let feed = Feed::Program(Box::new(channel));
        Inbox::new(feed, *config, Semantics::Queue, registration)
    }

    fn listen(&self, config: &ListenerConfig, semantics: Semantics) -> Result<Inbox, ChannelError> {
        if let Some(program) = self.program_for(config, semantics) {
            return self.listen_in_program(program, config);
        }
        let shared = &self.shared;
        let in_use = |error| self.in_use(config, error);
        let link = self.link(config, semantics);
        let (mut receiver, lock) = match config.transport {
            ListenerTransport::Rtdip => {
                let name = shared.lock_name(config.port);
                let lock = patiently(|| Ok(NameLock::take(&name)?)).map_err(in_use)?;
                let filter = channel_filter(&shared.interface.mac, config.port)?;
                let receiver = match shared.chosen.uman {
                    Some(_) => Receiver::frames_by_uman(&link, shared.ether_type.0, &filter),
                    None => Receiver::frames(&link, shared.ether_type.0, &filter),
                }?;
                if self.program().is_some() {
                    shared.examine_before(config.port)?;
                } else if let Some(place) = receiver.filter_place() {
                    shared.add_port(config.port, place)?;
                }
                (receiver, Some(lock))
            }
            ListenerTransport::Udp(local) => {
                let receiver = patiently(|| Ok(Receiver::datagrams(&link, local)?));
                (receiver.map_err(in_use)?, None)
            }
        };
        if let Some(card) = shared.card.as_ref().filter(|_| config.stamps) {
            receiver.stamp_by_card(Arc::clone(card))?;
        }
        let registration = self.register(config, lock, None, self.path_of(config, false));
        let feed = Feed::Link(Box::new(receiver));
        Inbox::new(feed, *config, semantics, registration)
    }

    /// Returns the frames refused so far: those that belong to no listener, and those that listeners refused. It
    /// examines the frames since the last call, so it is not for a real-time loop. Frames for ports of other
    /// processes on this interface are not counted. On the path [`ReceivePath::Uman`] those that belong to no listener are
    /// not counted.
    ///
    /// # Errors
    /// The kernel does not report its counters.
    pub fn statistics(&self) -> Result<EndpointStatistics, ChannelError> {
        let mut state = self.shared.state();
        self.shared.examine(&mut state, None)?;
        Ok(EndpointStatistics {
            refused: state
                .open
                .iter()
                .fold(state.closed, |total, open| total.plus(open.read_once())),
            not_examined: state.not_examined,
        })
    }
}

fn is_in_use(error: &ChannelError) -> bool {
    match error {
        ChannelError::Link(LinkError::System(error)) => error.kind() == ErrorKind::InUse,
        ChannelError::Program(error) => matches!(error, ProgramError::PortInUse { .. }),
        _ => false,
    }
}

/// Retries for [`PATIENCE`] while a port is occupied. A process that is just being started holds copies of its
/// parent's sockets until it executes another program. Until then a port that its parent has closed stays occupied.
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

//! One process's channels on one interface: who has which port, and what belonged to nobody.

use crate::config::{ListenerConfig, ListenerTransport, Order};
use crate::error::ChannelError;
use crate::inbox::Inbox;
use crate::newest::NewestListener;
use crate::queue::QueueListener;
use crate::statistics::{EndpointStatistics, Refusals, SharedRefusals};
use crate::strays::{Strays, channel_filter};
use rtwire_link::{LinkError, Receiver, ReceiverConfig};
use rtwire_sys::ErrorKind;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::packet::FilterPlace;
use rtwire_sys::port_lock::{self, NameLock};
use rtwire_wire::EtherType;
use rtwire_wire::rtdip::Semantics;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a port that is in use is tried again.
const PATIENCE: Duration = Duration::from_millis(500);

/// Opens the listeners of one interface. Cheap to clone; clones are the same endpoint.
///
/// It belongs to the network namespace that the calling thread was in when it was opened: open its listeners, drop them and
/// ask for its statistics from there, too.
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
    /// Refusals of open listeners.
    open: Vec<Arc<SharedRefusals>>,
    /// Refusals of closed listeners, and the endpoint's own.
    closed: Refusals,
    not_examined: u64,
    /// From the first RTDiP listener on.
    strays: Option<Strays>,
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
                let receiver = Receiver::frames(&link, shared.ether_type.0, &filter)?;
                if let (None, Some(place)) = (std::env::var_os("V_NONE"), receiver.filter_place()) {
                    shared.add_port(config.port, place)?;
                }
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

    /// From now on frames for `port` are somebody's, whose socket has its filter at `place`.
    fn add_port(&self, port: u16, place: FilterPlace) -> Result<(), ChannelError> {
        let mut state = self.state();
        // What has come up to now was nobody's.
        self.examine(&mut state)?;
        if state.strays.is_none() {
            state.strays = Some(Strays::open(&self.interface, self.ether_type)?);
        }
        let strays = state.strays.as_mut();
        strays.map_or(Ok(()), |strays| strays.add(port, place))
    }

    fn remove_port(&self, port: u16) {
        let mut state = self.state();
        // What cannot be told is not counted, no more.
        let _ = self.examine(&mut state);
        if let Some(strays) = &mut state.strays {
            strays.remove(port);
        }
    }

    /// Counts what has come to nobody since the last time.
    fn examine(&self, state: &mut State) -> Result<(), ChannelError> {
        let Some(strays) = &mut state.strays else {
            return Ok(());
        };
        let found = strays.examine(|port| {
            let name = self.lock_name(port);
            port_lock::is_held(&name).unwrap_or(false)
        })?;
        state.closed = state.closed.plus(found.refused);
        state.not_examined += found.not_examined;
        Ok(())
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

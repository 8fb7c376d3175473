//! The entries of an endpoint's listeners: their ports, their counters, and the frames that belong to none of them.

use crate::error::ChannelError;
use crate::path::{Chosen, ListenerPath, ProgramStrays, refused};
use crate::statistics::{Refusals, SharedRefusals};
use crate::strays::Strays;
use rtwire_link::ReceivePath;
use rtwire_link::card_time::CardTime;
use rtwire_link::program::CounterReader;
use rtwire_sys::interface::Interface;
use rtwire_sys::packet::FilterPlace;
use rtwire_sys::port_lock::{self, NameLock};
use rtwire_wire::EtherType;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) interface: Interface,
    pub(crate) ether_type: EtherType,
    pub(crate) path: ReceivePath,
    pub(crate) chosen: Chosen,
    /// The card whose stamps are taken in place of the kernel's.
    pub(crate) card: Option<Arc<CardTime>>,
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Counters of open listeners.
    pub(crate) open: Vec<Open>,
    /// Refusals of closed listeners, and the endpoint's own.
    pub(crate) closed: Refusals,
    pub(crate) not_examined: u64,
    /// Used without the receive program, from the first RTDiP listener on.
    pub(crate) strays: Option<Strays>,
    /// Used with the receive program, which sees and counts all frames.
    pub(crate) program_strays: Option<ProgramStrays>,
}

/// Counters of one open listener.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) refusals: Arc<SharedRefusals>,
    /// The receive program's counters for this listener.
    pub(crate) program: Option<CounterReader>,
    /// `true` if the receive program sees all frames of this listener and has counted the faulty ones.
    pub(crate) counted: bool,
}

impl Open {
    fn read(&self) -> Refusals {
        self.refusals.read().plus(self.by_program())
    }

    fn by_program(&self) -> Refusals {
        let program = self.program.as_ref();
        let program = program.map(|program| refused(&program.counters()));
        program.unwrap_or_default()
    }

    /// Returns the refusals that are not counted elsewhere.
    pub(crate) fn read_once(&self) -> Refusals {
        let own = self.refusals.read();
        let own = match self.counted {
            true => Refusals {
                truncated: 0,
                wrong_version: 0,
                wrong_length: 0,
                malformed: 0,
                ..own
            },
            false => own,
        };
        own.plus(self.by_program())
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_name(&self, port: u16) -> String {
        let kind = self.ether_type.0;
        format!("rtwire/{kind:04x}/{}/{port}", self.interface.index)
    }

    /// Marks `port` as owned by a listener whose socket has its filter at `place`.
    pub(crate) fn add_port(&self, port: u16, place: FilterPlace) -> Result<(), ChannelError> {
        let mut state = self.state();
        // Frames up to now belonged to no listener.
        self.examine(&mut state, Some(port))?;
        if state.strays.is_none() {
            state.strays = Some(Strays::open(&self.interface, self.ether_type)?);
        }
        let strays = state.strays.as_mut();
        strays.map_or(Ok(()), |strays| strays.add(port, place))
    }

    fn remove_port(&self, port: u16) {
        let mut state = self.state();
        // Frames that cannot be examined stay uncounted; that does no other harm.
        let _ = self.examine(&mut state, None);
        if let Some(strays) = &mut state.strays {
            strays.remove(port);
        }
    }

    /// Counts the frames without a listener up to now, when a listener of `port` has just been opened.
    pub(crate) fn examine_before(&self, port: u16) -> Result<(), ChannelError> {
        self.examine(&mut self.state(), Some(port))
    }

    /// Counts the frames without a listener since the last time; `new` is a port that has just got its listener.
    pub(crate) fn examine(&self, state: &mut State, new: Option<u16>) -> Result<(), ChannelError> {
        let is_held = |port| {
            let name = self.lock_name(port);
            Some(port) != new && port_lock::is_held(&name).unwrap_or(false)
        };
        if let (Some(strays), Some(program)) = (&mut state.program_strays, &self.chosen.program) {
            let refused = strays.examine(program, is_held);
            state.closed = state.closed.plus(refused);
            return Ok(());
        }
        let Some(strays) = &mut state.strays else {
            return Ok(());
        };
        let found = strays.examine(is_held)?;
        state.closed = state.closed.plus(found.refused);
        state.not_examined += found.not_examined;
        Ok(())
    }
}

/// A listener's entry in its endpoint; dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) shared: Arc<Shared>,
    pub(crate) port: u16,
    pub(crate) open: Open,
    pub(crate) lock: Option<NameLock>,
    pub(crate) path: ListenerPath,
}

impl Registration {
    pub(crate) fn path(&self) -> &ListenerPath {
        &self.path
    }

    pub(crate) fn refusals(&self) -> &SharedRefusals {
        &self.open.refusals
    }

    /// Returns all refusals so far, including those by the receive program.
    pub(crate) fn refused(&self) -> Refusals {
        self.open.read()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.lock.is_some() {
            self.shared.remove_port(self.port);
        }
        let mut state = self.shared.state();
        let own = &self.open.refusals;
        state.open.retain(|open| !Arc::ptr_eq(&open.refusals, own));
        state.closed = state.closed.plus(self.open.read_once());
    }
}

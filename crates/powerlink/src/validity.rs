//! The validity of inputs: in which cycle they came, and the state of the node that sent them.

use crate::pdo::{Channel, ProcessImage};
use rtwire_wire::powerlink::NmtState;

/// The validity of an input, as the application sees it at the begin of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// True where the value came with the last cycle, or, in multiplexed slots, in the node's last turn.
    pub live: bool,
    /// The cycles that have passed without a new value since the one in which it came. `None`: none has come, or this program
    /// stood still since.
    pub age_cycles: Option<u64>,
    /// The sender's last known state.
    pub state: NmtState,
}

/// The origin of a received PDO's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The cycle in which data was taken last.
    taken: Option<u64>,
    /// The cycles from one turn of the sender to the next.
    period: u64,
    state: NmtState,
}

impl ProcessImage {
    /// Begins a cycle: data that come from here on belong to it.
    pub(crate) const fn begin_cycle(&mut self, cycle: u64) {
        self.cycle = cycle;
    }

    /// Sets the origins of all received PDOs anew. `period` returns the cycles from one turn of a node to the next.
    pub(crate) fn set_periods(&mut self, period: impl Fn(u8) -> u64) {
        let origin = |channel: &Channel| Origin {
            period: period(channel.node),
            ..Origin::default()
        };
        self.origins = self.receive.iter().map(origin).collect();
    }

    /// Notes that data of a PDO came in this cycle.
    pub(crate) fn came(&mut self, channel: usize) {
        if let Some(origin) = self.origins.get_mut(channel) {
            origin.taken = Some(self.cycle);
        }
    }

    /// Notes the state of a PDO's sender.
    pub(crate) fn set_state(&mut self, channel: Option<usize>, state: NmtState) {
        if let Some(origin) = channel.and_then(|channel| self.origins.get_mut(channel)) {
            origin.state = state;
        }
    }

    /// Makes all inputs old: nobody knows how old.
    pub(crate) fn forget_inputs(&mut self) {
        for origin in &mut self.origins {
            origin.taken = None;
        }
    }

    /// Returns the validity of a received PDO by its position in `receive`. No allocation.
    #[must_use]
    pub fn validity(&self, channel: usize) -> Validity {
        let Some(origin) = self.origins.get(channel) else {
            return Validity::default();
        };
        let passed = |taken: u64| self.cycle.saturating_sub(taken).saturating_sub(1);
        let age_cycles = origin.taken.map(passed);
        Validity {
            live: age_cycles.is_some_and(|age| age < origin.period.max(1)),
            age_cycles,
            state: origin.state,
        }
    }

    /// Returns the position in `receive` of the PDO that has this byte of the inputs.
    #[must_use]
    pub fn receive_at(&self, octet: usize) -> Option<usize> {
        let behind = self.receive.partition_point(|channel| channel.at <= octet);
        let channel = behind.checked_sub(1)?;
        let range = self.receive.get(channel)?.range();
        range.contains(&octet).then_some(channel)
    }
}

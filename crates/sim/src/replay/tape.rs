//! The record of one replay inside the simulator: departures in order of time, and a slot for each frame at each
//! listener.

use crate::model::Model;

/// A departure on the simulator's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Time after the first departure, ps.
    pub(crate) at_ps: u64,
    pub(crate) flow: u32,
    pub(crate) bits: u32,
}

/// The result of one frame at one listener, over all plays so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) least_ps: u64,
    pub(crate) most_ps: u64,
    /// Number of plays in which the frame arrived.
    pub(crate) arrivals: u8,
    /// True if a full buffer dropped it in any play.
    pub(crate) dropped: bool,
}

impl Slot {
    const EMPTY: Slot = Slot {
        least_ps: u64::MAX,
        most_ps: 0,
        arrivals: 0,
        dropped: false,
    };
}

/// Departures, and what becomes of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    entries: Vec<Entry>,
    /// The first slot of each departure. Its slots are in the order of its flow's listeners.
    starts: Vec<u32>,
    slots: Vec<Slot>,
}

impl Tape {
    /// Creates the tape of departures in order of time; `None` if the frames at all listeners are more than 2^32.
    pub(crate) fn new(model: &Model, entries: Vec<Entry>) -> Option<Tape> {
        let mut starts = Vec::with_capacity(entries.len());
        let mut next = 0_u32;
        for entry in &entries {
            starts.push(next);
            let (first, end) = model.flows[entry.flow as usize].listeners;
            next = next.checked_add(end - first)?;
        }
        let slots = vec![Slot::EMPTY; next as usize];
        Some(Tape {
            entries,
            starts,
            slots,
        })
    }

    /// Adds a frame that a source sends. Returns its number.
    pub(crate) fn sent(&mut self, model: &Model, flow: u32, at_ps: u64, bits: u32) -> u32 {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (first, end) = model.flows[flow as usize].listeners;
        self.starts.push(number(self.slots.len()));
        let slots = self.slots.len() + (end - first) as usize;
        self.slots.resize(slots, Slot::EMPTY);
        self.entries.push(Entry { at_ps, flow, bits });
        number(self.entries.len() - 1)
    }

    /// Returns the flow of each departure, and its time.
    pub(crate) fn releases(&self) -> impl Iterator<Item = (usize, u64)> {
        let entries = self.entries.iter();
        entries.map(|entry| (entry.flow as usize, entry.at_ps))
    }

    pub(crate) fn entry(&self, number: u32) -> Option<Entry> {
        self.entries.get(number as usize).copied()
    }

    /// Returns the result of a departure at a listener of its flow, which counts from 0.
    pub(crate) fn slot(&self, number: u32, way: u32) -> Slot {
        self.slots[(self.starts[number as usize] + way) as usize]
    }

    /// Notes that a frame has arrived at one of the model's listeners.
    pub(crate) fn arrived(&mut self, model: &Model, number: u32, listener: u32, delay_ps: u64) {
        let flow = model.listeners[listener as usize].flow;
        let way = listener - model.flows[flow as usize].listeners.0;
        let slot = &mut self.slots[(self.starts[number as usize] + way) as usize];
        slot.least_ps = slot.least_ps.min(delay_ps);
        slot.most_ps = slot.most_ps.max(delay_ps);
        slot.arrivals += 1;
    }

    /// Notes that a copy of a frame was dropped before an edge: no listener behind the edge gets it.
    pub(crate) fn dropped(&mut self, model: &Model, number: u32, edge: u32) {
        let edge = &model.edges[edge as usize];
        let (first, end) = model.flows[edge.flow as usize].listeners;
        for listener in first..end {
            if model.listeners[listener as usize].path.contains(&edge.even) {
                let at = self.starts[number as usize] + listener - first;
                self.slots[at as usize].dropped = true;
            }
        }
    }
}

//! The subscribing side: reader groups with their readers, as a node without I/O.

mod announced;
mod group;
mod joint;
mod reader;

pub use announced::Unsuitable;
pub use group::{Outcome, ReaderGroup, ReaderGroupCounters};
pub use reader::{Reader, ReaderCounters};

use crate::state::{Component, State};
use reader::Padding;
use rtwire_wire::{Node, Outbox};

/// A connection that subscribes: its reader groups.
#[derive(Debug)]
pub struct SubscriberNode {
    connection: Component,
    groups: Vec<ReaderGroup>,
    /// Bytes in front of a message in a frame; frames are padded where there are any.
    header_bytes: usize,
}

impl SubscriberNode {
    /// Takes the groups. `header_bytes` is the length of what stands before a message: 14 on Ethernet, 0 with UDP.
    #[must_use]
    pub fn new(groups: Vec<ReaderGroup>, header_bytes: usize) -> Self {
        Self {
            connection: Component::new(State::Operational),
            groups,
            header_bytes,
        }
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[ReaderGroup] {
        &self.groups
    }

    /// The groups, to switch them and to add keys.
    pub fn groups_mut(&mut self) -> &mut [ReaderGroup] {
        &mut self.groups
    }

    /// The connection's state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.connection.state()
    }

    /// Switches the connection on or off.
    pub fn switch(&mut self, enabled: bool, now_ns: u64) {
        self.connection
            .switch(enabled, State::Operational, State::Operational);
        let state = self.connection.state();
        self.groups
            .iter_mut()
            .for_each(|group| group.settle(state, now_ns));
    }

    /// Takes a message that arrived at `now_ns`. Returns what the first group that it concerns made of it.
    pub fn receive(&mut self, now_ns: u64, frame: &[u8]) -> Outcome {
        let Some(message) = frame.get(self.header_bytes..) else {
            return Outcome::Malformed;
        };
        let padding = Padding::of(self.header_bytes > 0, message.len());
        let mut best = Outcome::Foreign;
        for group in &mut self.groups {
            let outcome = group.receive(now_ns, message, padding);
            if outcome != Outcome::Foreign {
                best = outcome;
                if outcome == Outcome::Taken {
                    break;
                }
            }
        }
        best
    }

    /// Lets readers fail whose time is over at `now_ns`.
    pub fn look(&mut self, now_ns: u64) {
        self.groups.iter_mut().for_each(|group| group.look(now_ns));
    }
}

impl Node for SubscriberNode {
    fn start(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
        self.switch(true, now_ns);
    }

    fn frame(&mut self, now_ns: u64, frame: &[u8], _outbox: &mut dyn Outbox) {
        self.receive(now_ns, frame);
    }

    fn moment(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
        self.look(now_ns);
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.groups
            .iter()
            .filter_map(ReaderGroup::deadline_ns)
            .min()
    }
}

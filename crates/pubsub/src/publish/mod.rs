//! The publishing side: a connection with its writer groups, as a node without I/O.

mod group;
mod message;

pub use group::{WriterCounters, WriterGroup, longest_message_bytes};
pub use message::PublishFault;

use crate::security::Sealer;
use crate::state::{Component, State};
use rtwire_wire::{Node, Outbox};

/// A frame that a group has made.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The place of its group.
    pub group: usize,
    /// The frame.
    pub frame: &'a [u8],
    /// Its launch time, ns; `None`: at once.
    pub launch_ns: Option<u64>,
}

/// A connection that publishes: its groups, each on its own grid of instants.
#[derive(Debug)]
pub struct PublisherNode {
    connection: Component,
    groups: Vec<WriterGroup>,
    sealers: Vec<Sealer>,
    launch: bool,
}

impl PublisherNode {
    /// Takes the groups, and the sealers that they name by their place ([`WriterGroup::new`]).
    ///
    /// With `launch` each frame has its instant as launch time; the driver calls [`Node::moment`] that much earlier.
    #[must_use]
    pub fn new(groups: Vec<WriterGroup>, sealers: Vec<Sealer>, launch: bool) -> Self {
        Self {
            connection: Component::new(State::Operational),
            groups,
            sealers,
            launch,
        }
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[WriterGroup] {
        &self.groups
    }

    /// The groups, to set values.
    pub fn groups_mut(&mut self) -> &mut [WriterGroup] {
        &mut self.groups
    }

    /// The sealers, to reserve nonces and to change keys.
    pub fn sealers_mut(&mut self) -> &mut [Sealer] {
        &mut self.sealers
    }

    /// The connection's state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.connection.state()
    }

    /// Switches the connection, and with it all groups, on or off.
    pub fn switch(&mut self, enabled: bool) {
        self.connection
            .switch(enabled, State::Operational, State::Operational);
        let state = self.connection.state();
        self.groups.iter_mut().for_each(|group| group.settle(state));
    }

    /// Moves the instants of all groups to those from `now_ns` on.
    pub fn begin_at(&mut self, now_ns: u64) {
        self.switch(true);
        self.groups
            .iter_mut()
            .for_each(|group| group.begin_at(now_ns));
    }

    /// Makes the messages of all groups that are due at `now_ns`.
    pub fn publish(&mut self, now_ns: u64, send: &mut dyn FnMut(Made<'_>)) {
        for (place, group) in self.groups.iter_mut().enumerate() {
            let due_ns = group.due_ns();
            if due_ns > now_ns {
                continue;
            }
            let launch_ns = self.launch.then_some(due_ns);
            group.publish(now_ns, &mut self.sealers, &mut |frame| {
                send(Made {
                    group: place,
                    frame,
                    launch_ns,
                });
            });
        }
    }

    /// Makes a message of each group at once, between its instants. Their grids stay as they are.
    pub fn publish_now(&mut self, now_ns: u64, send: &mut dyn FnMut(Made<'_>)) {
        for (place, group) in self.groups.iter_mut().enumerate() {
            group.publish_now(now_ns, &mut self.sealers, &mut |frame| {
                send(Made {
                    group: place,
                    frame,
                    launch_ns: None,
                });
            });
        }
    }

    /// The next instant of any group, ns.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.groups.iter().map(WriterGroup::due_ns).min()
    }
}

impl Node for PublisherNode {
    fn start(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
        self.begin_at(now_ns);
    }

    fn frame(&mut self, _now_ns: u64, _frame: &[u8], _outbox: &mut dyn Outbox) {}

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.publish(now_ns, &mut |made| outbox.send(made.frame, made.launch_ns));
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.due_ns()
    }
}

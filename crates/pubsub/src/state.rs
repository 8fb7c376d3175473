//! The states of PubSub components (Part 14, 9.1.10): each depends on its own switch and on the component above it.

/// The state of a connection, group, writer or reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// Switched off.
    #[default]
    Disabled,
    /// Switched on, but the component above it does not work.
    Paused,
    /// It waits: for its first message, or for a key.
    PreOperational,
    /// It works.
    Operational,
    /// It failed, for instance by a receive timeout. It recovers by itself when the cause is gone.
    Error,
}

impl State {
    /// Returns the standard's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "Disabled",
            Self::Paused => "Paused",
            Self::PreOperational => "PreOperational",
            Self::Operational => "Operational",
            Self::Error => "Error",
        }
    }

    /// Returns true where the components below may work.
    #[must_use]
    pub const fn carries(self) -> bool {
        matches!(self, Self::PreOperational | Self::Operational)
    }
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// One component: its switch, and what it does where all above it work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    enabled: bool,
    own: State,
    state: State,
    changes: u64,
}

impl Component {
    /// Returns a component that is switched on, and works or waits as `own` says.
    #[must_use]
    pub const fn new(own: State) -> Self {
        Self {
            enabled: true,
            own,
            state: State::Paused,
            changes: 0,
        }
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The number of changes so far.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Switches the component on or off. One that is switched on begins as `own` says.
    pub fn switch(&mut self, enabled: bool, own: State, above: State) {
        self.enabled = enabled;
        self.own = own;
        self.settle(above);
    }

    /// Says that the component works, waits, or failed.
    pub fn set(&mut self, own: State, above: State) {
        self.own = own;
        self.settle(above);
    }

    /// Takes over the state of the component above.
    pub fn settle(&mut self, above: State) {
        let state = match (self.enabled, above.carries()) {
            (false, _) => State::Disabled,
            (true, false) => State::Paused,
            (true, true) => self.own,
        };
        if state != self.state {
            self.state = state;
            self.changes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Component, State};

    #[test]
    fn a_component_follows_its_switch_and_the_one_above() {
        let mut reader = Component::new(State::PreOperational);
        assert_eq!(reader.state(), State::Paused);
        reader.settle(State::Operational);
        assert_eq!(reader.state(), State::PreOperational);
        reader.set(State::Operational, State::Operational);
        reader.settle(State::Error);
        assert_eq!(reader.state(), State::Paused);
        reader.settle(State::Operational);
        assert_eq!(
            reader.state(),
            State::Operational,
            "it goes on where it was"
        );
        reader.set(State::Error, State::Operational);
        assert_eq!(reader.state(), State::Error);
        reader.set(State::Operational, State::Operational);
        assert_eq!(reader.state(), State::Operational, "it recovers by itself");
        reader.switch(false, State::PreOperational, State::Operational);
        assert_eq!((reader.state(), reader.changes()), (State::Disabled, 7));
    }
}

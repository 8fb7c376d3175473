//! Errors of the simulator.

/// A network that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// A number exceeds the range of the simulated clock.
    #[error(
        "{what} does not fit the simulated clock of 64-bit picoseconds (213 days): use a smaller value"
    )]
    Range {
        /// The name of the number.
        what: String,
    },
    /// The network is not consistent: it does not come from `rtwire_plan::read`.
    #[error("{what}: the network description is not consistent")]
    Inconsistent {
        /// The inconsistency.
        what: String,
    },
}

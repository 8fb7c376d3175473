//! What cannot be simulated.

/// Why a network cannot be played out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// A number leaves the range of the simulated clock.
    #[error(
        "{what} does not fit the simulated clock of 64-bit picoseconds (213 days): use a smaller value"
    )]
    Range {
        /// What does not fit.
        what: String,
    },
    /// The network is not consistent: it does not come from `rtwire_plan::read`.
    #[error("{what}: the network description is not consistent")]
    Inconsistent {
        /// What is wrong.
        what: String,
    },
}

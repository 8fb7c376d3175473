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
    /// A recorded frame is of a flow that the network does not have.
    #[error(
        "a recorded frame is of flow {flow}, but the network has only {flows} flows: use the plan of the run that was recorded"
    )]
    UnknownFlow {
        /// The number of the flow.
        flow: usize,
        /// The number of flows.
        flows: usize,
    },
    /// The record has two departures of one frame.
    #[error(
        "frame {frame} of flow {flow} departs twice: number the frames of a flow in the order of their departure"
    )]
    Repeated {
        /// The number of the flow.
        flow: usize,
        /// The number of the frame.
        frame: u64,
    },
    /// A recorded frame is empty, or larger than any frame on Ethernet.
    #[error("a recorded frame has {bytes} B on the wire: state 1 to {most} B")]
    FrameSize {
        /// The recorded size on the wire, bytes.
        bytes: u64,
        /// The largest permitted size, bytes.
        most: u64,
    },
    /// A recorded frame waits in a class that its port does not have.
    #[error(
        "a recorded frame is of class {class}, but its port has {classes} classes: state 1 to 8 classes and number them from 0"
    )]
    UnknownClass {
        /// The class.
        class: u8,
        /// The number of classes.
        classes: u8,
    },
}

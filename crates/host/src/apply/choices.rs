//! The choices that a person has: data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which discipline keeps the classes apart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The best that the host has and the plan asks for.
    #[default]
    Auto,
    /// Gates in the interface.
    TaprioHardware,
    /// Gates by launch times, with ETF.
    TaprioAssist,
    /// Gates in the kernel.
    Taprio,
    /// Launch times: mqprio, with ETF at the classes that have some.
    Etf,
    /// A transmit queue for each class.
    Mqprio,
    /// Classes on one queue.
    Htb,
    /// No discipline is set.
    None,
}

/// How other traffic is kept off the interface.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// No addresses, no IPv6, no ARP; IPv4 stays where streams go in UDP.
    #[default]
    Addresses,
    /// The interface goes into a network namespace of its own, where nothing else runs; IPv4 addresses go with it where
    /// streams go in UDP.
    Namespace,
    /// Nothing is done.
    None,
}

/// What a person chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The discipline.
    pub mechanism: Mechanism,
    /// Isolation.
    pub isolation: Isolation,
    /// Whether launch times are kept by hardware.
    pub etf_offload: bool,
    /// How long before its time ETF hands a frame on, ns.
    pub etf_delta_ns: u32,
    /// Go on with less where the host lacks something.
    pub fall_back: bool,
    /// The core that the interface's interrupts, and threads that do its receive work, go to.
    pub irq_cpu: Option<u32>,
    /// The priority under SCHED_FIFO of receive work: of its interrupts' threads, and of threads for its polling.
    pub receive_priority: Option<u8>,
}

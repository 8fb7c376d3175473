//! The choices that a person has: data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The queueing discipline that keeps the classes apart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The best that the plan asks for and the host has.
    #[default]
    Auto,
    /// Gates kept by the interface.
    TaprioHardware,
    /// Gates kept by launch times, with ETF.
    TaprioAssist,
    /// Gates kept by the kernel.
    Taprio,
    /// Launch times: mqprio, with ETF at the classes that have launch times.
    Etf,
    /// A transmit queue for each class.
    Mqprio,
    /// Classes on one queue.
    Htb,
    /// No discipline is set.
    None,
}

/// The isolation of the interface from other traffic.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// The interface loses its addresses, IPv6 and ARP; IPv4 and ARP stay where streams use UDP.
    #[default]
    Addresses,
    /// The interface moves into a network namespace of its own, where nothing else runs. Its IPv4 addresses move with
    /// it where streams use UDP.
    Namespace,
    /// The interface stays open to other traffic.
    None,
}

/// The choices that a user makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The queueing discipline.
    pub mechanism: Mechanism,
    /// The isolation.
    pub isolation: Isolation,
    /// True if the interface keeps the launch times.
    pub etf_offload: bool,
    /// The time from ETF's release of a frame to its launch, ns.
    pub etf_delta_ns: u32,
    /// True to continue with less if the host lacks something.
    pub fall_back: bool,
    /// The core for the interface's interrupts and for the threads that do its receive work.
    pub irq_cpu: Option<u32>,
    /// The SCHED_FIFO priority of receive work: the interrupts' threads and the polling threads.
    pub receive_priority: Option<u8>,
}

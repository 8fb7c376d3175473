//! Can this host keep a deadline? Every fact that decides it: what was found, why it matters, what changes it.
//!
//! ```text
//!   Files (/proc, /sys) ─┐
//!   netlink ─────────────┼─► Facts ──► checks (pure) ──► Finding … ──► table, JSON, `--fix`
//!   processes ───────────┘
//! ```
//!
//! Facts are gathered first, then each check looks at them and nothing else, so a check is tested with facts that
//! were planted. A finding says how sure it is: read from the kernel, tried out, or concluded from other facts.

mod clock;
mod cpu;
mod driver;
mod facts;
mod finding;
mod fix;
mod groups;
mod interface;
mod interrupts;
mod kernel;
mod limits;
mod measurement;
mod module;
mod native;
mod neighbour;
mod noise;
mod queues;
mod stamps;
mod steering;
mod streams;
mod talkers;
#[cfg(test)]
mod tests;

pub use facts::{Facts, InterfaceFacts, Process, Task};
pub use finding::{Area, Certainty, Finding, Level, Remedy};
pub use fix::FixError;
pub use measurement::{Measurement, Noise, Right, Stalled, Verification};
pub use native::ProgramThere;
pub use streams::{VlanLink, follow, vlan_links};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one examination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire doctor")]
pub struct Examination {
    /// 1.
    pub version: u32,
    /// The interface that was examined, if any.
    pub interface: Option<String>,
    /// True if no finding can break a deadline.
    pub ready: bool,
    /// Every fact, in the order of the areas.
    pub findings: Vec<Finding>,
    /// The measurements, if `--measure` asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,
    /// The settings asked of the kernel for the measurement, and those really in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<Verification>,
}

/// A check: facts in, findings out.
type Check = fn(&Facts) -> Vec<Finding>;

const CHECKS: [Check; 64] = [
    kernel::preemption,
    kernel::throttling,
    kernel::threaded_interrupts,
    kernel::clock_source,
    kernel::virtual_machine,
    kernel::swap,
    noise::tracing,
    noise::serial_console,
    noise::watchdog,
    noise::huge_pages,
    cpu::isolated,
    cpu::tickless,
    cpu::idle_states,
    cpu::governor,
    cpu::siblings,
    groups::quota,
    groups::cpuset,
    groups::affinity,
    limits::capabilities,
    limits::locked_memory,
    limits::priority,
    limits::rivals,
    steering::backlog,
    steering::socket_buffers,
    interrupts::balancer,
    interrupts::placement,
    interrupts::thread_priority,
    interrupts::polling,
    interrupts::polling_priority,
    steering::receive,
    interface::state,
    interface::duplex,
    interface::master,
    interface::losses,
    native::program,
    interface::mtu,
    interface::promiscuous,
    interface::queue_length,
    interface::vlan_priorities,
    neighbour::partner_mtu,
    neighbour::duplicate_address,
    driver::coalescing,
    driver::energy_saving,
    driver::pause,
    driver::merging,
    driver::splitting,
    driver::rings_and_queues,
    steering::short_ring,
    steering::by_filter,
    driver::order,
    driver::vlan_filter,
    driver::xdp,
    native::hidden_tags,
    native::long_frames,
    driver::launch_time,
    stamps::time_stamps,
    module::uman,
    queues::abilities,
    queues::in_force,
    steering::transmit,
    talkers::addresses,
    talkers::listeners,
    talkers::firewall,
    clock::synchronisation,
];

/// Examines the facts. Pure.
#[must_use]
pub fn examine(facts: &Facts) -> Examination {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(facts)).collect();
    findings.sort_by_key(|finding| finding.area);
    Examination {
        version: 1,
        interface: facts.interface.as_ref().map(|it| it.link.name.clone()),
        ready: !findings.iter().any(Finding::endangers),
        findings,
        measurements: Vec::new(),
        verified: Vec::new(),
    }
}

/// Returns the JSON Schema of an examination.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Examination).to_value()
}

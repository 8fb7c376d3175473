//! Will every deadline hold?
//!
//! Plans a network that a TOML file describes. The plan has a promise for each stream and the memory that each port
//! needs. A refusal says what is in the way and which changes would fit. Nothing here does I/O, and no floating point
//! decides.
//!
//! ```text
//! text -> read() -> Network -> plan() -> Plan
//!            \-> Faults            \-> Refusal
//! ```
//!
//! ```
//! use rtwire_plan::{Options, plan, read};
//!
//! let text = include_str!("../../../examples/five-nodes.toml");
//! let set = [("shaping-interval".to_owned(), "10 ms".to_owned())];
//! let network = read(text, "five-nodes.toml", &set)?;
//! let plan = plan(&network, &Options::default())?;
//! let promise = &plan.streams[0].promises[0];
//! assert!(promise.delay_ns < promise.deadline_ns);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: trees and lines, and loops that settle if every stream has a route. FIFO, strict priority, credits,
//! regulators and gates. Promises do not cover traffic that the description does not name.

pub mod admission;
pub mod answer;
pub mod bound;
pub mod certificate;
mod csv;
pub mod cyclic;
pub mod diff;
mod evaluate;
mod fingerprint;
pub mod identity;
mod mapping;
pub mod meters;
pub mod plan;
pub mod plan_file;
mod planner;
pub mod recovery;
pub mod refusal;
pub mod schedule;
pub mod schema;
pub mod show;
mod suggest;
mod suggestion;
pub mod synthesize;
mod verify;

pub use cyclic::{CyclicPort, CyclicQueueing, StreamGate};
pub use identity::{BestEffortPlan, Destination, Identity};
pub use meters::FlowMeter;
pub use plan::{
    Analysis, NodeKind, Options, PLAN_VERSION, Plan, PlanOptions, PortPlan, Promise, Shaper,
    StreamPlan, Term, TermKind,
};
pub use planner::{certify, plan, plan_with};
pub use recovery::{Recovery, RecoveryWay};
pub use refusal::{Reason, RecoveredLimit, Refusal};
pub use schedule::gates::{GateEntry, GateList, Launch, Window};
pub use schema::json_schema;
pub use suggestion::{ChangeKind, Suggestion};
pub use verify::{Finding, verify};

pub use rtwire_describe::{
    BestEffort, Buffer, Contract, ContractKind, CutThrough, Defaults, Fault, Faults, GateProfile,
    Host, Isolation, LatencyLimits, LatencyRange, Link, Network, Overflow, PortLatency, PortShaper,
    Preemption, Ratio, Release, ScheduleRules, Semantics, ShaperKind, Stream, Switch, SwitchPort,
    Transfer, Transport, edit, foreign, import, network, read, read_bytes, units,
};

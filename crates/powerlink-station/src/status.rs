//! The state of a station and of its network, as plain data.

use rtwire_powerlink::sdo::SdoOutcome;
use rtwire_powerlink::{Event, LostReason, NodeEvent};
use rtwire_wire::powerlink::{node, node_list_contains};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A station's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire powerlink station")]
pub struct StationStatus {
    /// The node number.
    pub node: u8,
    /// The NMT state, as DS 301 names it.
    pub state: String,
    /// The interface's name.
    pub interface: String,
    /// The path of the isochronous phase, in words.
    pub path: String,
    /// The length of a cycle, ns; 0 where it is not known.
    pub cycle_ns: u64,
    /// The number of times that it has left Operational.
    pub left_operational: u64,
    /// SoC sent or received.
    pub cycles: u64,
    /// Cycles that were skipped since their time had passed.
    pub skipped_cycles: u64,
    /// Stalls of this station: it was stopped for more than half a cycle.
    pub own_stalls: u64,
    /// The longest of those stalls, ns.
    pub worst_stall_ns: u64,
    /// SoC that are missing at a controlled node.
    pub soc_lost: u64,
    /// Frames that the state machine has received.
    pub frames_received: u64,
    /// POWERLINK frames that are invalid.
    pub frames_invalid: u64,
    /// Frames that could not be sent.
    pub frames_unsent: u64,
    /// Requests that were not answered: they were read when their slot was over.
    pub requests_stale: u64,
    /// Requests, SoC and SoA that were refused: they came from another address or number than the managing node's.
    pub requests_foreign: u64,
    /// Times that this program stood still for longer than its watchdog allows.
    pub watchdog_lapses: u64,
    /// Requests that the driver, or the module `uman`, has left to user space since the watchdog had ended; null in user space.
    pub left_by_watchdog: Option<u64>,
    /// PReqs that the driver, or the module `uman`, has answered or sent; null in user space.
    pub sent_by_driver: Option<u64>,
    /// A managing node's SoC that leave by launch time; null without launch times.
    pub soc_launch: Option<SocLaunchStatus>,
    /// System calls for waiting and sending.
    pub system_calls: u64,
    /// The number of times that the interface was found down.
    pub interface_downs: u64,
    /// Losses of the link; null where the kernel does not count them.
    pub link_losses: Option<u64>,
    /// Frames with a wrong check sequence; null where the kernel does not count them.
    pub crc_errors: Option<u64>,
    /// Collisions; null where the kernel does not count them.
    pub collisions: Option<u64>,
    /// A managing node's network, by number.
    pub nodes: Vec<NodeStatus>,
    /// The latest events, oldest first.
    pub events: Vec<StationEvent>,
}

/// SoC that leave by launch time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocLaunchStatus {
    /// Handed to the queue with their launch time.
    pub handed_over: u64,
    /// Sent by the loop at their instant or later: they were not handed over in time, or the queue has refused them.
    pub by_loop: u64,
    /// Handed over and lost: the queue was too late for them.
    pub dropped: u64,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StationEvent {
    /// The time, ns since 1970 by this machine's clock.
    pub time_ns: u64,
    /// The event in words.
    pub what: String,
}

/// One controlled node, as the managing node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeStatus {
    /// The node number.
    pub node: u8,
    /// The name in the project.
    pub name: String,
    /// True where the network does not start without it.
    pub mandatory: bool,
    /// The last state that it has reported.
    pub state: String,
    /// True once it takes part as configured.
    pub operational: bool,
    /// Responses.
    pub responses: u64,
    /// Responses that are missing.
    pub lost: u32,
    /// Responses that came too late.
    pub late: u32,
    /// The number of times that it was taken for lost and searched again.
    pub times_lost: u64,
    /// The time from the last request to its response, ns.
    pub latency_ns: u64,
}

/// Returns an event in words.
pub(crate) fn words(event: &Event) -> String {
    match event {
        Event::State { from, to } => format!("from {from} to {to}"),
        Event::Node { node, what } => format!("node {node}: {}", node_words(what)),
        Event::Error { node, code } => format!("node {node}: {code}"),
        Event::Sdo { node, id, .. } => format!("node {node}: job {id} of service data is over"),
        Event::Written { index, subindex } => {
            format!("object {index:04X}h/{subindex} was written")
        }
        Event::Image => "the process image is laid out anew".to_owned(),
        Event::Heartbeat { node, silent: true } => format!("node {node} has fallen silent"),
        Event::Heartbeat { node, .. } => format!("node {node} is heard again"),
        Event::Command { command, data } if command.publishes_nodes() => {
            let nodes = (1..node::BROADCAST).filter(|&node| node_list_contains(data, node));
            let nodes: Vec<String> = nodes.map(|node| node.to_string()).collect();
            match nodes.as_slice() {
                [] => format!("{command}: no node"),
                _ => format!("{command}: nodes {}", nodes.join(", ")),
            }
        }
        Event::Command { command, .. } => format!("NMT command {command}"),
    }
}

fn node_words(what: &NodeEvent) -> String {
    match what {
        NodeEvent::Found(_) => "is there".to_owned(),
        NodeEvent::State(state) => format!("is {state}"),
        NodeEvent::WrongIdentity {
            code,
            expected,
            found,
        } => format!("{code}: {expected:08X}h expected, {found:08X}h found"),
        NodeEvent::Duplicate { known, other } => {
            format!("answers twice: from {known} and from {other}")
        }
        NodeEvent::Configuring { objects } => format!("{objects} objects are being written"),
        NodeEvent::Configured => "is configured".to_owned(),
        NodeEvent::ConfigurationFailed {
            index,
            subindex,
            outcome,
        } => {
            let why = match outcome {
                SdoOutcome::Failed(failure) => failure.to_string(),
                _ => "not taken".to_owned(),
            };
            format!("refuses object {index:04X}h/{subindex}: {why}")
        }
        NodeEvent::Lost(reason) => {
            let why = match reason {
                LostReason::Responses => "its responses did not come",
                LostReason::Status => "it does not tell its status",
                LostReason::State => "it is in a state that it should not be in",
                LostReason::Timeout => "it did not reach the next state in time",
                LostReason::Configuration => "its configuration failed",
                LostReason::Reset => "it was told to begin anew",
            };
            format!("is lost: {why}")
        }
        NodeEvent::Errors(entries) => format!("signals {} errors", entries.len()),
    }
}

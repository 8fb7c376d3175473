//! Answers to questions about a station's state: the real-time loop copies numbers into memory that is there.
//!
//! The asking thread makes the words of it. A loop that made them itself would stand still for some 250 µs, often between SoC
//! and PReq, since most questions come while it waits for the next cycle.

use crate::driver::DriverCounters;
use crate::kind::Kind;
use crate::status::{NodeStatus, SocLaunchStatus, StationEvent, StationStatus};
use rtwire_link::run::RunStatistics;
use rtwire_powerlink::Statistics;
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::powerlink::{NmtState, node};
use std::collections::VecDeque;
use std::sync::Arc;

/// The newest events that are kept.
pub(crate) const EVENTS: usize = 64;

/// An event: its time, ns of CLOCK_MONOTONIC, and its words.
pub(crate) type Noted = (u64, Arc<str>);

/// The words that are the same as long as a station runs.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) interface: String,
    pub(crate) path: String,
    /// The names of nodes by number.
    pub(crate) names: Vec<(u8, String)>,
}

/// The state of a node that a managing node has, without its name.
#[derive(Clone, Copy, Debug)]
struct NodeNumbers {
    status: rtwire_powerlink::mn::NodeStatus,
    times_lost: u64,
}

/// The state of a station. All of its room is taken when it is made.
#[derive(Debug)]
pub(crate) struct Snapshot {
    node: u8,
    state: NmtState,
    cycle_ns: u64,
    statistics: Statistics,
    run: RunStatistics,
    driver: Option<DriverCounters>,
    nodes: Vec<NodeNumbers>,
    pub(crate) left_operational: u64,
    pub(crate) soc_launch: Option<SocLaunchStatus>,
    /// True for each error of the interface that the kernel counts: wrong check sequences, collisions, losses of the link.
    pub(crate) tells: Option<[bool; 3]>,
    events: Vec<Noted>,
}

impl Snapshot {
    /// Makes an empty one, with room for all nodes and events.
    pub(crate) fn empty() -> Self {
        Self {
            node: 0,
            state: NmtState::OFF,
            cycle_ns: 0,
            statistics: Statistics::default(),
            run: RunStatistics::default(),
            driver: None,
            nodes: Vec::with_capacity(usize::from(node::BROADCAST)),
            left_operational: 0,
            soc_launch: None,
            tells: None,
            events: Vec::with_capacity(EVENTS),
        }
    }

    /// Copies what the node and the loop count. No allocation.
    pub(crate) fn take(
        &mut self,
        kind: &Kind,
        run: &RunStatistics,
        driver: Option<DriverCounters>,
        times_lost: &[u64; 256],
    ) {
        self.statistics = kind.statistics();
        self.run = *run;
        self.driver = driver;
        self.nodes.clear();
        match kind {
            Kind::Managing(managing) => {
                self.node = node::MN;
                self.state = managing.state();
                self.cycle_ns = managing.cycle_ns();
                let with = |status: rtwire_powerlink::mn::NodeStatus| NodeNumbers {
                    times_lost: times_lost[usize::from(status.node)],
                    status,
                };
                self.nodes.extend(managing.nodes().map(with));
            }
            Kind::Controlled(controlled) => {
                self.node = controlled.number();
                self.state = controlled.state();
                self.cycle_ns = controlled.dictionary().number(0x1006, 0) * 1_000;
            }
        }
    }

    /// Shares the words of the newest events. No allocation.
    pub(crate) fn take_events(&mut self, events: &VecDeque<Noted>) {
        self.events.clear();
        self.events.extend(events.iter().cloned());
    }

    /// Returns the state in words. For the asking thread: it allocates.
    pub(crate) fn status(&self, texts: &Texts) -> StationStatus {
        let Self {
            statistics,
            run,
            driver,
            ..
        } = self;
        let since_1970_ns = clock::now_ns(Clock::Realtime);
        let since_1970_ns = since_1970_ns.wrapping_sub(clock::now_ns(Clock::Monotonic));
        let counted = |which: usize, count: u64| {
            let tells = self.tells?;
            tells[which].then_some(count)
        };
        StationStatus {
            node: self.node,
            state: self.state.to_string(),
            interface: texts.interface.clone(),
            path: texts.path.clone(),
            cycle_ns: self.cycle_ns,
            left_operational: self.left_operational,
            cycles: statistics.cycles,
            skipped_cycles: statistics.skipped_cycles,
            own_stalls: statistics.own_stalls,
            worst_stall_ns: statistics.worst_stall_ns,
            soc_lost: statistics.lost_soc,
            frames_received: run.received,
            frames_invalid: statistics.invalid_frames,
            frames_unsent: run.unsent + run.overflowed,
            requests_stale: statistics.stale_requests,
            requests_foreign: statistics.foreign_requests
                + driver.map_or(0, |counters| counters.foreign),
            watchdog_lapses: statistics.lapses,
            left_by_watchdog: driver.map(|counters| counters.lapsed),
            sent_by_driver: driver.map(|counters| counters.answered + counters.chained),
            soc_launch: self.soc_launch.clone(),
            system_calls: run.waits + run.sent,
            interface_downs: run.downs,
            crc_errors: counted(0, statistics.crc_errors),
            collisions: counted(1, statistics.collisions),
            link_losses: counted(2, statistics.link_losses),
            nodes: self.nodes.iter().map(|node| node.named(texts)).collect(),
            events: self
                .events
                .iter()
                .map(|(at_ns, what)| StationEvent {
                    time_ns: at_ns.wrapping_add(since_1970_ns),
                    what: what.to_string(),
                })
                .collect(),
        }
    }
}

impl NodeNumbers {
    fn named(&self, texts: &Texts) -> NodeStatus {
        let Self { status, times_lost } = *self;
        let named = texts
            .names
            .iter()
            .find(|(number, _)| *number == status.node);
        NodeStatus {
            node: status.node,
            name: named.map_or_else(|| format!("node {}", status.node), |(_, name)| name.clone()),
            mandatory: status.mandatory,
            state: status.state.to_string(),
            operational: status.operational,
            responses: status.responses,
            lost: status.lost.cumulative,
            late: status.late.cumulative,
            times_lost,
            latency_ns: status.latency_ns,
        }
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;

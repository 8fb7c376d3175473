//! The streams whose values can matter for what is refused.
//!
//! Two flows are of one group if they may pass the same port, or ports of one pool of memory. The bounds of a group depend
//! on nothing outside of it. All streams that are or may be time-triggered are of one group: one search places them.

use std::collections::HashMap;

use super::space::Space;
use crate::network::Network;
use crate::refusal::Reason;

/// Groups of flows, joined one by one.
struct Groups(Vec<usize>);

impl Groups {
    fn top(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.top(a), self.top(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// Returns true for each stream whose values can matter for one of the reasons.
pub(super) fn relevant(network: &Network, space: &Space, reasons: &[Reason]) -> Vec<bool> {
    let count = space.entries.len();
    let mut groups = Groups((0..count + network.best_effort.len()).collect());
    let mut ports: HashMap<(&str, &str), usize> = HashMap::new();
    let mut pools: HashMap<&str, usize> = HashMap::new();
    let mut scheduled = None;
    for flow in 0..count + network.best_effort.len() {
        let mut routes: Vec<&Vec<String>> = Vec::new();
        if let Some(entry) = space.entries.get(flow) {
            routes.extend(&entry.routes);
            let members = entry.members.iter();
            routes.extend(members.flat_map(|index| &network.streams[*index].routes));
            if entry.scheduled.contains(&true) {
                groups.join(flow, *scheduled.get_or_insert(flow));
            }
        } else {
            routes.extend(&network.best_effort[flow - count].routes);
        }
        for pair in routes.into_iter().flat_map(|route| route.windows(2)) {
            let (from, to) = (pair[0].as_str(), pair[1].as_str());
            groups.join(flow, *ports.entry((from, to)).or_insert(flow));
            if network
                .switch(from)
                .is_some_and(|switch| switch.buffer.shared)
            {
                groups.join(flow, *pools.entry(from).or_insert(flow));
            }
        }
    }
    let mut hit: Vec<usize> = Vec::new();
    for reason in reasons {
        let before = hit.len();
        let (streams, node) = named(reason);
        for (at, entry) in space.entries.iter().enumerate() {
            let copy = |name: &&str| {
                let mut members = entry.members.iter();
                **name == entry.name || members.any(|index| network.streams[*index].name == **name)
            };
            if streams.iter().any(copy) {
                hit.push(groups.top(at));
            }
        }
        let at_node = ports.iter().filter(|((from, _), _)| Some(*from) == node);
        hit.extend(at_node.map(|(_, flow)| *flow));
        if hit.len() == before {
            return vec![true; count];
        }
    }
    let hit: Vec<usize> = hit.into_iter().map(|flow| groups.top(flow)).collect();
    (0..count).map(|at| hit.contains(&groups.top(at))).collect()
}

/// Returns the streams that a reason names, and the node.
pub(super) fn named(reason: &Reason) -> (Vec<&str>, Option<&str>) {
    match reason {
        Reason::Unshaped { stream }
        | Reason::Deadline { stream, .. }
        | Reason::Jitter { stream, .. }
        | Reason::Recovered { stream, .. }
        | Reason::RecoveryNumbers { stream, .. } => (vec![stream], None),
        Reason::SchedulePlace { stream, node, .. } => (vec![stream], Some(node)),
        Reason::SchedulePeriods { streams, node, .. } => {
            (streams.iter().map(String::as_str).collect(), Some(node))
        }
        Reason::ScheduleLoad { streams, node, .. } | Reason::Cycle { streams, node, .. } => {
            (streams.iter().map(String::as_str).collect(), Some(node))
        }
        Reason::Rate { node, .. }
        | Reason::Credit { node, .. }
        | Reason::Meters { node, .. }
        | Reason::Unbounded { node, .. }
        | Reason::Buffer { node, .. }
        | Reason::BufferFrames { node, .. }
        | Reason::SharedBuffer { node, .. }
        | Reason::SharedBufferFrames { node, .. }
        | Reason::ScheduleCycle { node, .. }
        | Reason::ScheduleEntries { node, .. }
        | Reason::ScheduleOpenings { node, .. }
        | Reason::ScheduleWindow { node, .. }
        | Reason::ScheduleShare { node, .. } => (Vec::new(), Some(node)),
        Reason::Identities { .. } | Reason::Overflow { .. } => (Vec::new(), None),
    }
}

//! The queue of each priority at a node's ports: the default map, the tables of IEEE Std 802.1Q, and maps of a user's own.

use super::Network;

/// The queue of each priority 0 to 7.
pub type PriorityMap = [u8; 8];

/// Table 8-5 of IEEE Std 802.1Q-2022: by number of queues, then by priority.
const RECOMMENDED: [PriorityMap; 8] = [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 1, 1, 1],
    [0, 0, 0, 0, 1, 1, 2, 2],
    [0, 0, 1, 1, 2, 2, 3, 3],
    [0, 0, 1, 1, 2, 2, 3, 4],
    [1, 0, 2, 2, 3, 3, 4, 5],
    [1, 0, 2, 3, 4, 4, 5, 6],
    [1, 0, 2, 3, 4, 5, 6, 7],
];

/// Table 34-1 of IEEE Std 802.1Q-2022: priority 3 is stream class A, priority 2 is class B. There is no map for one queue.
const RESERVED: [PriorityMap; 7] = [
    [0, 0, 1, 1, 0, 0, 0, 0],
    [0, 0, 1, 2, 0, 0, 0, 0],
    [0, 0, 2, 3, 1, 1, 1, 1],
    [0, 0, 3, 4, 1, 1, 2, 2],
    [0, 0, 4, 5, 1, 1, 2, 3],
    [0, 0, 5, 6, 1, 2, 3, 4],
    [1, 0, 6, 7, 2, 3, 4, 5],
];

/// Returns the queue of a priority at a port with `queues` queues and the default map: `floor(pcp queues / 8)`. Higher is more
/// urgent.
#[must_use]
pub const fn class_of(pcp: u8, queues: u8) -> u8 {
    // At most 7 * 8 / 8.
    (pcp as u16 * queues as u16 / 8) as u8
}

/// Returns the queue of a priority by a node's own map, or by the default one.
#[must_use]
pub fn class_by(map: Option<&PriorityMap>, pcp: u8, queues: u8) -> u8 {
    match map {
        Some(map) => map[usize::from(pcp & 7)],
        None => class_of(pcp, queues),
    }
}

/// Returns the map `802.1q`: the recommended one for ports with this number of queues.
#[must_use]
pub fn recommended(queues: u8) -> PriorityMap {
    RECOMMENDED[usize::from(queues.clamp(1, 8) - 1)]
}

/// Returns the map `802.1q-avb`: priority 3 has the highest queue, priority 2 the next one. `None` for one queue.
#[must_use]
pub fn reserved(queues: u8) -> Option<PriorityMap> {
    let at = usize::from(queues.clamp(1, 8)).checked_sub(2)?;
    RESERVED.get(at).copied()
}

/// Returns a map with the order of `map` that fits ports with `queues` queues. Where there are too few, neighbours share one.
#[must_use]
pub fn fitting(map: &PriorityMap, queues: u8) -> PriorityMap {
    let mut used: Vec<u8> = map.to_vec();
    used.sort_unstable();
    used.dedup();
    map.map(|class| {
        let rank = used.iter().position(|one| *one == class).unwrap_or(0);
        let place = rank * usize::from(queues.clamp(1, 8)) / used.len().max(1);
        u8::try_from(place.min(rank)).unwrap_or(0)
    })
}

impl Network {
    /// Returns the queue of a priority at the ports of a node, by the node's map. Higher is more urgent.
    #[must_use]
    pub fn class(&self, node: &str, pcp: u8) -> u8 {
        class_by(self.priority_map(node), pcp, self.queues(node))
    }

    /// Returns the node's own map of priorities to queues; `None` for the default map.
    #[must_use]
    pub fn priority_map(&self, node: &str) -> Option<&PriorityMap> {
        match self.switch(node) {
            Some(switch) => switch.priority_map.as_ref(),
            None => self.host(node).and_then(|host| host.priority_map.as_ref()),
        }
    }
}

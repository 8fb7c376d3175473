//! The load that a run has offered until now. A run that has offered too little is extended while that can be made up for.

use rtwire_measure::verdict::Rule;
use rtwire_plan::{BestEffort, Network, Stream};
use rtwire_session::streams::{frames_in, frames_planned};

use crate::blueprint::node_index;
use crate::fabric::{Fabric, PortIndex};
use crate::ports::Field;

/// The share beyond the least one, in millionths, at which a run can end: its last frames count, too.
const SPARE_PPM: u32 = 1_000;

/// The loads of all hosts of a run, counted where their frames leave them.
pub(crate) struct Load<'a> {
    fabric: &'a Fabric,
    /// The least share that a verdict needs, millionths.
    least_ppm: u32,
    hosts: Vec<Sender<'a>>,
}

/// A host, and what it is to send. Its frames are counted together.
struct Sender<'a> {
    port: PortIndex,
    /// The port's count at the beginning.
    before: u64,
    streams: Vec<&'a Stream>,
    allowances: Vec<&'a BestEffort>,
}

impl<'a> Load<'a> {
    /// Begins to count. No talker may have begun.
    pub(crate) fn begin(fabric: &'a Fabric, network: &'a Network, rule: &Rule) -> Self {
        // A manager divides what is free: nobody knows before how much that is.
        let best_effort = match network.manager_host {
            Some(_) => &[],
            None => network.best_effort.as_slice(),
        };
        let hosts = network.hosts.iter().filter_map(|host| {
            let neighbour = network.neighbours(&host.name).next()?;
            let node = |name: &str| node_index(network, name);
            let port = fabric.blueprint.port(node(&host.name)?, node(neighbour)?)?;
            let streams = network.streams.iter();
            Some(Sender {
                port,
                before: fabric.records.get(port, Field::AcceptedFrames),
                streams: streams.filter(|s| s.talker == host.name).collect(),
                allowances: best_effort.iter().filter(|b| b.host == host.name).collect(),
            })
        });
        Self {
            hosts: hosts.collect(),
            fabric,
            least_ppm: rule.min_offered_ppm,
        }
    }

    /// Returns true if a host has offered too little in `lasted_ns`, and none has offered so little that a run of `most_ns`
    /// would not be enough.
    pub(crate) fn can_be_made_up(&self, lasted_ns: u64, most_ns: u64) -> bool {
        let counts = self.hosts.iter().map(|host| {
            let sent = self.fabric.records.get(host.port, Field::AcceptedFrames);
            Count {
                sent: sent.saturating_sub(host.before),
                planned: host.planned(lasted_ns),
                at_most: host.planned(most_ns),
            }
        });
        worth_more(counts, self.least_ppm)
    }
}

impl Sender<'_> {
    /// Returns the number of frames that the host is to send in a time.
    fn planned(&self, time_ns: u64) -> u64 {
        let streams = self.streams.iter().map(|s| frames_planned(s, time_ns));
        let allowances = self.allowances.iter();
        let others = allowances.map(|b| frames_in(b.rate, b.wire_bytes, time_ns));
        streams.chain(others).sum()
    }
}

/// The frames of one host.
#[derive(Clone, Copy)]
struct Count {
    sent: u64,
    /// To be sent until now.
    planned: u64,
    /// To be sent in the longest run.
    at_most: u64,
}

fn worth_more(counts: impl Iterator<Item = Count>, least_ppm: u32) -> bool {
    let reaches = |sent: u64, planned: u64, share_ppm: u32| {
        u128::from(sent) * 1_000_000 >= u128::from(planned) * u128::from(share_ppm)
    };
    let mut missing = false;
    for count in counts {
        let still_to_come = count.at_most.saturating_sub(count.planned);
        let sent_at_most = count.sent.saturating_add(still_to_come);
        if !reaches(sent_at_most, count.at_most, least_ppm) {
            return false;
        }
        missing |= !reaches(count.sent, count.planned, least_ppm + SPARE_PPM);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(sent: u64, planned: u64, at_most: u64) -> Count {
        Count {
            sent,
            planned,
            at_most,
        }
    }

    #[test]
    fn what_can_be_made_up_is_waited_for() {
        let worth = |counts: &[Count]| worth_more(counts.iter().copied(), 990_000);
        assert!(!worth(&[]));
        assert!(!worth(&[count(991, 1_000, 10_000)]), "enough");
        assert!(worth(&[count(990, 1_000, 10_000)]));
        assert!(worth(&[
            count(1_000, 1_000, 10_000),
            count(900, 1_000, 10_000)
        ]));
        assert!(!worth(&[count(899, 1_000, 10_000)]), "never");
        assert!(!worth(&[
            count(980, 1_000, 10_000),
            count(0, 1_000, 10_000)
        ]));
        assert!(!worth(&[count(980, 1_000, 1_000)]), "no time is left");
        // A burst of a shaper counts a little more.
        assert!(!worth(&[count(1_001, 1_000, 10_000)]));
    }
}

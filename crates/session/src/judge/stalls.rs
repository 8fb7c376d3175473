//! The stalls of the machines at both ends of a stream.

use rtwire_measure::evidence::HostAccount;
use rtwire_measure::noise::{Stall, StallRecord, StallSource};

use super::File;

/// Returns the stalls of the machines on which these hosts ran.
pub(super) fn of(files: &[File<'_>], hosts: [&String; 2]) -> StallRecord {
    let machines: Vec<&String> = files
        .iter()
        .map(|file| &file.evidence.header)
        .filter(|header| hosts.contains(&&header.host))
        .map(|header| &header.boot_id)
        .collect();
    let there = files
        .iter()
        .map(|file| file.evidence)
        .filter(|evidence| machines.contains(&&evidence.header.boot_id));
    StallRecord {
        stalls: there.flat_map(of_host).collect(),
    }
}

/// Returns a host's stalls, and those that it may have had without a record.
fn of_host(evidence: &HostAccount) -> impl Iterator<Item = Stall> + '_ {
    let recorded = evidence.stalls();
    let from_ns = if evidence.is_truncated() {
        Some(0)
    } else if is_full(evidence) {
        // They are recorded in order until there is no room.
        Some(
            recorded
                .iter()
                .map(|stall| stall.woke_ns)
                .max()
                .unwrap_or(0),
        )
    } else {
        None
    };
    let unknown = from_ns.map(|from_ns| Stall {
        source: StallSource::Core(u32::MAX),
        alive_ns: from_ns,
        // Nothing of it is certain.
        due_ns: u64::MAX,
        woke_ns: u64::MAX,
    });
    recorded.iter().cloned().chain(unknown)
}

/// Returns true if a host had more stalls than its record had room for.
pub(super) fn is_full(evidence: &HostAccount) -> bool {
    let noise = evidence.noise.iter();
    noise
        .flat_map(|noise| &noise.cores)
        .any(|core| core.dropped_stalls > 0)
}

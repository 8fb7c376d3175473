//! The stalls of the machines at both ends of a stream, and the reasons to doubt them.

use rtwire_measure::evidence::HostAccount;
use rtwire_measure::noise::{NoiseRecord, Stall, StallRecord, StallSource};

use super::File;

/// Returns the accounts of all hosts on the machines of these hosts.
fn there<'a>(
    files: &'a [File<'a>],
    hosts: [&String; 2],
) -> impl Iterator<Item = &'a HostAccount> + 'a {
    let machines: Vec<&String> = files
        .iter()
        .map(|file| &file.evidence.header)
        .filter(|header| hosts.contains(&&header.host))
        .map(|header| &header.boot_id)
        .collect();
    files
        .iter()
        .map(|file| file.evidence)
        .filter(move |evidence| machines.contains(&&evidence.header.boot_id))
}

/// Returns the stalls of the machines on which these hosts ran.
pub(super) fn of(files: &[File<'_>], hosts: [&String; 2]) -> StallRecord {
    StallRecord {
        stalls: there(files, hosts).flat_map(of_host).collect(),
    }
}

/// Returns the stalls of the machine on which a host ran, without those of records that excuse nothing.
pub(super) fn trusted(files: &[File<'_>], host: &String) -> StallRecord {
    let there = there(files, [host, host]).filter(|evidence| !is_doubted(evidence));
    StallRecord {
        stalls: there.flat_map(of_host).collect(),
    }
}

/// Returns the reasons why no stall of these machines excuses anything; empty if they do.
pub(super) fn doubts(files: &[File<'_>], hosts: [&String; 2]) -> Vec<String> {
    there(files, hosts).flat_map(doubts_of).collect()
}

/// Returns the reasons why no stall of a host's record excuses anything.
pub(super) fn doubts_of(evidence: &HostAccount) -> Vec<String> {
    let host = &evidence.header.host;
    let lost = evidence.noise.iter().flat_map(NoiseRecord::lost_scheduling);
    lost.map(|why| format!("Host {host}: {why}")).collect()
}

/// Returns true if no stall of a host's record excuses anything.
pub(super) fn is_doubted(evidence: &HostAccount) -> bool {
    !doubts_of(evidence).is_empty()
}

/// Returns a host's stalls, and those that it may have had without a record.
fn of_host(evidence: &HostAccount) -> impl Iterator<Item = Stall> + '_ {
    let from_ns = match evidence.is_truncated() {
        true => Some(0),
        false => known_to_ns(evidence),
    };
    let unknown = from_ns.map(|from_ns| Stall {
        source: StallSource::Core(u32::MAX),
        alive_ns: from_ns,
        // Nothing of it is certain.
        due_ns: u64::MAX,
        woke_ns: u64::MAX,
    });
    evidence.stalls().iter().cloned().chain(unknown)
}

/// Returns the time up to which every stall is on record. `None` if all are.
///
/// Each core records its stalls in order until it has no more room. So it is the end of the last recorded stall of the core whose record
/// was full first.
fn known_to_ns(evidence: &HostAccount) -> Option<u64> {
    let last_of = |core: u32| {
        let stalls = evidence.stalls().iter();
        let own = stalls.filter(|stall| stall.source == StallSource::Core(core));
        own.map(|stall| stall.woke_ns).max().unwrap_or(0)
    };
    let cores = evidence.noise.iter().flat_map(|noise| &noise.cores);
    let full = cores.filter(|core| core.dropped_stalls > 0);
    full.map(|core| last_of(core.core)).min()
}

/// Returns true if a host had more stalls than its record had room for.
pub(super) fn is_full(evidence: &HostAccount) -> bool {
    known_to_ns(evidence).is_some()
}

//! Finds changes for a refused schedule. Each is planned again, like all others.

use super::{ChangeKind, LINK_RATES, Search, Suggestion};
use crate::network::{Contract, ContractKind, Network};
use crate::refusal::Reason;
use crate::show::show_ns;
use rtwire_describe::ratio::Ratio;

/// Returns each change that makes the schedule fit by itself.
pub(super) fn changes(search: &mut Search<'_>) -> Vec<Suggestion> {
    let reasons = search.reasons;
    let scheduled = reasons.iter().any(|reason| {
        matches!(
            reason,
            Reason::Jitter { .. }
                | Reason::ScheduleLoad { .. }
                | Reason::ScheduleCycle { .. }
                | Reason::SchedulePeriods { .. }
                | Reason::SchedulePlace { .. }
                | Reason::ScheduleEntries { .. }
                | Reason::ScheduleOpenings { .. }
                | Reason::ScheduleShare { .. }
        )
    });
    let mut found = Vec::new();
    found.extend(cycle(search));
    if !scheduled {
        return found;
    }
    found.extend(hardware(search));
    found.extend(share(search));
    found.extend(intervals(search));
    found.extend(faster(search));
    found
}

/// The cycles of cyclic queueing that are tried, nanoseconds.
const CYCLES_NS: [u64; 15] = [
    10_000,
    20_000,
    50_000,
    100_000,
    125_000,
    200_000,
    250_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// Tries another cycle for cyclic streams: the nearest longer one, else the nearest shorter one.
fn cycle(search: &mut Search<'_>) -> Option<Suggestion> {
    let now = search.base.schedule.cycle_ns;
    let now = now.filter(|_| search.base.has_cyclic_streams())?;
    let longer = CYCLES_NS.iter().filter(|one| **one > now);
    let shorter = CYCLES_NS.iter().rev().filter(|one| **one < now);
    let found = longer.chain(shorter).find(|one| {
        let mut trial = search.base.clone();
        trial.schedule.cycle_ns = Some(**one);
        search.fits(&trial)
    })?;
    let change = format!(
        "cycle = \"{}\" in [schedule], in place of {}",
        show_ns(*found),
        show_ns(now)
    );
    Some(search.suggestion(ChangeKind::Schedule, Vec::new(), vec![change]))
}

/// Tries limits as large as required: more entries, more openings, more jitter.
fn hardware(search: &mut Search<'_>) -> Option<Suggestion> {
    let (mut trial, mut words, mut of) = (search.base.clone(), Vec::new(), Vec::new());
    for reason in search.reasons {
        match reason {
            Reason::ScheduleEntries { node, entries, .. } => {
                let gates = gates(&mut trial, node)?;
                let needed = u32::try_from(*entries).ok()?;
                if gates.entries.is_some_and(|limit| limit < needed) {
                    gates.entries = Some(needed);
                }
                words.push(format!("gates with {needed} entries at \"{node}\""));
                of.push(node.clone());
            }
            Reason::ScheduleOpenings { node, openings, .. } => {
                gates(&mut trial, node)?.openings = Some(u32::try_from(*openings).ok()?);
                words.push(format!(
                    "gates with {openings} openings of a queue at \"{node}\""
                ));
                of.push(node.clone());
            }
            Reason::Jitter {
                stream, jitter_ns, ..
            } => {
                let stream = search.stated(stream);
                let copies = trial.streams.iter_mut();
                for copy in copies.filter(|other| other.stated_name() == stream) {
                    copy.jitter_ns = copy.jitter_ns.max(Some(*jitter_ns));
                }
                words.push(format!(
                    "jitter = \"{}\" for \"{stream}\"",
                    show_ns(*jitter_ns)
                ));
                of.push(stream);
            }
            _ => {}
        }
    }
    words.dedup();
    of.dedup();
    let fits = !words.is_empty() && search.fits(&trial);
    fits.then(|| search.suggestion(ChangeKind::Limits, of, words))
}

fn gates<'a>(network: &'a mut Network, node: &str) -> Option<&'a mut rtwire_describe::GateProfile> {
    if let Some(switch) = network
        .switches
        .iter_mut()
        .find(|switch| switch.name == node)
    {
        return switch.gates.as_mut();
    }
    let host = network.hosts.iter_mut().find(|host| host.name == node);
    host.and_then(|host| host.gates.as_mut())
}

/// Tries a smaller share for other traffic: the largest one that fits.
fn share(search: &mut Search<'_>) -> Option<Suggestion> {
    let now = search.base.schedule.best_effort_percent;
    // Counted down, so that the search for the largest finds the least to give up.
    let lost = |network: &mut Network, percent: u64| {
        network.schedule.best_effort_percent = u8::try_from(percent - 1).unwrap_or(0);
        Ok(())
    };
    let found = search.largest(u64::from(now), lost)? - 1;
    let change = format!("best-effort-share = {found}, in place of {now}");
    Some(search.suggestion(ChangeKind::Schedule, Vec::new(), vec![change]))
}

/// Tries one stream at the interval of another, the nearest first, or at half its rate.
fn intervals(search: &mut Search<'_>) -> Option<Suggestion> {
    const MOST: usize = 12;
    let interval = |kind: ContractKind| match kind {
        ContractKind::Interval { interval_ns, .. } => Some(interval_ns),
        _ => None,
    };
    let mut named: Vec<String> = Vec::new();
    for reason in search.reasons {
        match reason {
            Reason::SchedulePlace { stream, .. } => named.push(search.stated(stream)),
            Reason::SchedulePeriods { streams, .. } => {
                named.extend(streams.iter().map(|stream| search.stated(stream)));
            }
            Reason::ScheduleLoad { streams, .. } => {
                named.extend(streams.iter().map(|stream| search.stated(stream)));
            }
            _ => {}
        }
    }
    let cycle = search
        .reasons
        .iter()
        .any(|reason| matches!(reason, Reason::ScheduleCycle { .. }));
    let mut trials: Vec<(u64, usize, u64)> = Vec::new();
    let scheduled: Vec<(usize, u64)> = (0..search.base.streams.len())
        .filter(|index| {
            let stream = &search.base.streams[*index];
            stream.time_triggered && stream.copy_of.is_none()
        })
        .filter_map(|index| Some((index, interval(search.base.streams[index].contract.kind)?)))
        .collect();
    for &(index, own) in &scheduled {
        if !cycle && !named.contains(&search.base.streams[index].name) {
            continue;
        }
        for &(_, other) in &scheduled {
            for wanted in [other, other.saturating_mul(2), own.saturating_mul(2)] {
                // Slower is always possible for the network; faster would ask more of it.
                if wanted > own {
                    trials.push((wanted - own, index, wanted));
                }
            }
        }
    }
    trials.sort_unstable();
    trials.dedup();
    for (_, index, wanted) in trials.into_iter().take(MOST) {
        let mut trial = search.base.clone();
        for copy in search.copies(index) {
            slower(&mut trial, copy, wanted)?;
        }
        if search.fits(&trial) {
            let name = search.base.streams[index].name.clone();
            let change = format!("interval = \"{}\" for \"{name}\"", show_ns(wanted));
            return Some(search.suggestion(ChangeKind::Schedule, vec![name], vec![change]));
        }
    }
    None
}

fn slower(network: &mut Network, index: usize, interval_ns: u64) -> Option<()> {
    let stream = &mut network.streams[index];
    let old = &stream.contract;
    stream.contract = Contract::new(
        stream.wire_bits().over(Ratio::from_ns(interval_ns)).ok()?,
        stream.wire_bytes,
        old.shaping_interval_ns,
        old.tick_error_ns,
        ContractKind::each(interval_ns),
        Ratio::ZERO,
    )
    .ok()?;
    Some(())
}

/// Tries the next faster Ethernet if frames do not fit.
fn faster(search: &mut Search<'_>) -> Option<Suggestion> {
    let (mut trial, mut words, mut of) = (search.base.clone(), Vec::new(), Vec::new());
    for reason in search.reasons {
        let (Reason::ScheduleLoad { node, port, .. }
        | Reason::SchedulePlace { node, port, .. }
        | Reason::SchedulePeriods { node, port, .. }) = reason
        else {
            continue;
        };
        let name = format!("{node}-{port}");
        if of.contains(&name) {
            continue;
        }
        let joins = |ends: &[String; 2]| ends.contains(node) && ends.contains(port);
        let link = trial.links.iter_mut().find(|link| joins(&link.ends))?;
        let rate = LINK_RATES.into_iter().find(|rate| *rate > link.rate_bps)?;
        link.rate_bps = rate;
        let shown = if rate % 1_000_000_000 == 0 {
            format!("{} Gbit/s", rate / 1_000_000_000)
        } else {
            format!("{} Mbit/s", rate / 1_000_000)
        };
        words.push(format!(
            "rate = \"{shown}\" for the link between \"{node}\" and \"{port}\""
        ));
        of.push(name);
    }
    let fits = !words.is_empty() && search.fits(&trial);
    fits.then(|| search.suggestion(ChangeKind::LinkRate, of, words))
}

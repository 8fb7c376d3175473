//! The processors that this process may use, and for how long: control groups and inherited affinity.
//!
//! Both versions of control groups are read. Limits hold for all below, so each group up to the root counts.

use super::cpu::{isolated_list, online};
use super::{Area, Facts, Finding, Level};
use crate::files::cpu_list;

const AREA: Area = Area::Processors;
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Returns the group of this process in the hierarchy of a controller of version 1, or in that of version 2 (an empty name).
fn group(facts: &Facts, controller: &str) -> Option<String> {
    let all = facts.files.read("/proc/thread-self/cgroup")?;
    all.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let own = controllers.split(',').any(|one| one == controller);
        own.then(|| path.trim_end_matches('/').to_owned())
    })
}

/// Returns a group and those above it, without the root.
fn upwards(group: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(group), |group| {
        group.rsplit_once('/').map(|(above, _)| above)
    })
}

/// Returns the group, the time and the period in µs of the first limit from here upwards.
fn limit(facts: &Facts) -> Option<(String, u64, u64)> {
    let own = group(facts, "").unwrap_or_default();
    for group in upwards(&own) {
        for mount in MOUNTS {
            let told = facts.files.mounted(&format!("{mount}{group}/cpu.max"));
            let told = told.unwrap_or_default();
            let mut words = told.split_whitespace().map(str::parse::<u64>);
            if let (Some(Ok(time)), Some(Ok(period))) = (words.next(), words.next()) {
                return Some((format!("{group}/"), time, period));
            }
        }
    }
    let own = group(facts, "cpu")?;
    upwards(&own).find_map(|group| {
        let read = |file: &str| {
            let told = facts
                .files
                .mounted(&format!("/sys/fs/cgroup/cpu{group}/{file}"));
            told?.parse::<u64>().ok()
        };
        // Without a limit the time is -1.
        Some((
            format!("{group}/"),
            read("cpu.cfs_quota_us")?,
            read("cpu.cfs_period_us")?,
        ))
    })
}

pub(super) fn quota(facts: &Facts) -> Vec<Finding> {
    let Some((group, time, period)) = limit(facts) else {
        return Vec::new();
    };
    vec![
        Finding::good(
            AREA,
            "processors.quota",
            format!("control group `{group}` may use {time} µs of processor time in each {period} µs"),
            "when that is used up, its threads without a real-time policy stand still until the period ends, also those that \
             hold a lock or feed a stream",
        )
        .at(Level::Weak)
        .by_hand("for a unit of systemd: CPUQuota= (empty); else: echo max > cpu.max of that group"),
    ]
}

/// Returns the processors that the control group allows, if it says so.
fn allowed_by_group(facts: &Facts) -> Option<Vec<u32>> {
    let of_two = group(facts, "").and_then(|group| {
        upwards(&group).find_map(|group| {
            MOUNTS.iter().find_map(|mount| {
                facts
                    .files
                    .mounted(&format!("{mount}{group}/cpuset.cpus.effective"))
            })
        })
    });
    let told = of_two.or_else(|| {
        let group = group(facts, "cpuset")?;
        facts.files.mounted(&format!(
            "/sys/fs/cgroup/cpuset{group}/cpuset.effective_cpus"
        ))
    });
    told.map(|told| cpu_list(&told))
}

pub(super) fn cpuset(facts: &Facts) -> Vec<Finding> {
    let (Some(allowed), online) = (allowed_by_group(facts), online(facts)) else {
        return Vec::new();
    };
    let isolated = isolated_list(facts);
    let reached = isolated.iter().any(|cpu| allowed.contains(cpu));
    let all = online.iter().all(|cpu| allowed.contains(cpu));
    if all || reached {
        return Vec::new();
    }
    let found = if isolated.is_empty() {
        format!("the control group (cpuset) allows processors {allowed:?} of {online:?}")
    } else {
        format!(
            "the control group (cpuset) allows processors {allowed:?}, none of the isolated {isolated:?}"
        )
    };
    vec![
        Finding::good(
            AREA,
            "processors.cpuset",
            found,
            "a thread cannot be placed outside: a real-time thread shares these processors with all other work of the group",
        )
        .at(Level::Weak)
        .by_hand("for a unit of systemd: AllowedCPUs= (empty); else write the processors to cpuset.cpus of that group"),
    ]
}

pub(super) fn affinity(facts: &Facts) -> Vec<Finding> {
    let status = facts.files.read("/proc/thread-self/status");
    let status = status.unwrap_or_default();
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let Some(own) = own.map(cpu_list).filter(|own| !own.is_empty()) else {
        return Vec::new();
    };
    let isolated = isolated_list(facts);
    let group = allowed_by_group(facts);
    let free = |cpu: &u32| {
        !isolated.contains(cpu) && group.as_ref().is_none_or(|group| group.contains(cpu))
    };
    let missing: Vec<u32> = online(facts)
        .into_iter()
        .filter(|cpu| free(cpu) && !own.contains(cpu))
        .collect();
    // Started on isolated processors only: somebody placed it.
    if missing.is_empty() || own.iter().all(|cpu| isolated.contains(cpu)) {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "processors.affinity",
            format!("this process was started on processors {own:?} only, without {missing:?}"),
            "programs inherit it: real-time threads, their helpers and the load share these processors",
        )
        .at(Level::Weak)
        .by_hand("start it without taskset and CPUAffinity=; for a running shell: taskset -acp 0-1023 $$"),
    ]
}

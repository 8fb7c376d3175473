//! The processors: their other users, sleep states and frequency.

use super::kernel::started_with;
use super::{Area, Certainty, Facts, Finding, Level};
use crate::change::{Subject, Value, Wanted};
use crate::files::cpu_list;

const AREA: Area = Area::Processors;
const CPUS: &str = "/sys/devices/system/cpu";
/// The wake-up time of a sleep state, µs, above which it shows in a cycle of a millisecond.
const DEEP_US: i64 = 10;

/// Returns the processors that run.
pub(super) fn online(facts: &Facts) -> Vec<u32> {
    let list = facts.files.said(&format!("{CPUS}/online"));
    list.as_deref().map(cpu_list).unwrap_or_default()
}

/// Returns the processors that the scheduler keeps free.
pub(super) fn isolated_list(facts: &Facts) -> Vec<u32> {
    let list = facts.files.said(&format!("{CPUS}/isolated"));
    list.as_deref().map(cpu_list).unwrap_or_default()
}

pub(super) fn isolated(facts: &Facts) -> Vec<Finding> {
    let id = "processors.isolated";
    let why = "on a shared processor, other threads and their interrupts delay a real-time thread";
    let found = isolated_list(facts);
    let online = online(facts);
    if !found.is_empty() {
        return vec![Finding::good(AREA, id, format!("isolated: {found:?}"), why)];
    }
    let (level, remedy) = match online.last() {
        Some(last) if online.len() > 1 => (
            Level::Note,
            format!(
                "add `isolcpus={last} nohz_full={last} rcu_nocbs={last}` to the kernel's command line and boot"
            ),
        ),
        _ => (
            Level::Note,
            "use a machine with more processors: one processor alone cannot be isolated".to_owned(),
        ),
    };
    vec![
        Finding::good(AREA, id, "no processor is isolated", why)
            .at(level)
            .by_hand(remedy),
    ]
}

pub(super) fn tickless(facts: &Facts) -> Vec<Finding> {
    let isolated = isolated_list(facts);
    if isolated.is_empty() {
        return Vec::new();
    }
    let id = "processors.nohz_full";
    let why = "the scheduler's tick interrupts a thread hundreds of times a second, a few microseconds each";
    let quiet = facts.files.said(&format!("{CPUS}/nohz_full"));
    let quiet = quiet.as_deref().map(cpu_list).unwrap_or_default();
    if isolated.iter().all(|cpu| quiet.contains(cpu)) {
        return vec![Finding::good(
            AREA,
            id,
            "isolated processors have no tick",
            why,
        )];
    }
    let list: Vec<String> = isolated.iter().map(u32::to_string).collect();
    vec![
        Finding::good(
            AREA,
            id,
            "isolated processors keep the scheduler's tick",
            why,
        )
        .at(Level::Note)
        .by_hand(format!(
            "add `nohz_full={}` to the kernel's command line and boot",
            list.join(",")
        )),
    ]
}

pub(super) fn idle_states(facts: &Facts) -> Vec<Finding> {
    let id = "processors.idle_states";
    let why = "waking from a deep sleep delays the first instruction after each pause by this time";
    let mut deepest: Option<(i64, String)> = None;
    let folder = format!("{CPUS}/cpu0/cpuidle");
    for state in facts.files.list(&folder) {
        let read = |what: &str| facts.files.number(&format!("{folder}/{state}/{what}"));
        let latency = read("latency").unwrap_or(0);
        if state.starts_with("state")
            && read("disable") != Some(1)
            && deepest.as_ref().is_none_or(|(most, _)| latency > *most)
        {
            let name = facts.files.read(&format!("{folder}/{state}/name"));
            deepest = Some((latency, name.unwrap_or(state)));
        }
    }
    let Some((latency_us, name)) = deepest else {
        if facts.files.has(CPUS) {
            return vec![
                Finding::good(AREA, id, "the kernel knows no idle states", why)
                    .sure(Certainty::Concluded),
            ];
        }
        return Vec::new();
    };
    // The device holds the processes' requests as one number of four bytes; without requests it is 2000 s.
    let asked = std::fs::read(facts.files.path("/dev/cpu_dma_latency")).ok();
    let asked = asked
        .and_then(|bytes| <[u8; 4]>::try_from(bytes.get(..4)?).ok())
        .map(i32::from_ne_bytes);
    if latency_us <= DEEP_US {
        return vec![Finding::good(
            AREA,
            id,
            format!("deepest idle state {name}: {latency_us} µs to wake"),
            why,
        )];
    }
    if let Some(asked) = asked.filter(|asked| i64::from(*asked) <= DEEP_US) {
        return vec![Finding::good(
            AREA,
            id,
            format!(
                "deep idle states exist ({name}: {latency_us} µs), but a process holds the machine to {asked} µs"
            ),
            why,
        )];
    }
    vec![
        Finding::good(
            AREA,
            id,
            format!("idle processors sleep down to {name}: {latency_us} µs to wake"),
            why,
        )
        .at(Level::Weak)
        .by_hand(
            "rtwire's own runs hold /dev/cpu_dma_latency at 0; for other programs: cpupower idle-set --disable-by-latency 10",
        ),
    ]
}

pub(super) fn governor(facts: &Facts) -> Vec<Finding> {
    let id = "processors.governor";
    let why = "a slowed-down processor takes longer for the same work until it speeds up again";
    let mut slow = Vec::new();
    let mut seen = false;
    for cpu in online(facts) {
        let path = format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor");
        if let Some(governor) = facts.files.said(&path) {
            seen = true;
            if governor != "performance" {
                slow.push((cpu, governor, path));
            }
        }
    }
    let Some((_, first, _)) = slow.first() else {
        return if seen {
            vec![Finding::good(
                AREA,
                id,
                "frequency governor `performance`",
                why,
            )]
        } else {
            Vec::new()
        };
    };
    let cpus: Vec<u32> = slow.iter().map(|(cpu, _, _)| *cpu).collect();
    vec![
        Finding::good(
            AREA,
            id,
            format!("frequency governor `{first}` on processors {cpus:?}"),
            why,
        )
        .at(Level::Weak)
        .fixed_by(
            slow.iter()
                .map(|(_, _, path)| Wanted {
                    subject: Subject::Setting { path: path.clone() },
                    to: Value::Text("performance".to_owned()),
                })
                .collect(),
        ),
    ]
}

pub(super) fn siblings(facts: &Facts) -> Vec<Finding> {
    if facts.files.number(&format!("{CPUS}/smt/active")) != Some(1) {
        return Vec::new();
    }
    let quiet = started_with(facts, "nosmt").is_some();
    if quiet {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "processors.siblings",
            "two logical processors share one core",
            "work on the sibling takes execution units and cache from a real-time thread",
        )
        .at(Level::Note)
        .by_hand(format!("echo off > {CPUS}/smt/control")),
    ]
}

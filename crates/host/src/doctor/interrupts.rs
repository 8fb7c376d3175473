//! Interrupts and polling: the processors that serve the interface, their priority, and the programs that move
//! interrupts.

use super::kernel::is_real_time;
use super::{Area, Certainty, Facts, Finding, Level};
use crate::files::cpu_list;

const AREA: Area = Area::Interrupts;

pub(super) fn balancer(facts: &Facts) -> Vec<Finding> {
    let id = "interrupts.balancer";
    let why = "irqbalance moves interrupts from core to core every ten seconds, even those placed by hand";
    if !facts
        .processes
        .iter()
        .any(|process| process.name == "irqbalance")
    {
        return Vec::new();
    }
    vec![
        Finding::good(AREA, id, "irqbalance is running", why)
            .at(Level::Weak)
            .by_hand("systemctl disable --now irqbalance"),
    ]
}

/// Returns the interrupts of the interface, from its NAPI instances, its device's list, or the kernel's table.
fn interrupts(facts: &Facts) -> Vec<u32> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let mut found: Vec<u32> = interface.napis.iter().filter_map(|napi| napi.irq).collect();
    let name = &interface.link.name;
    if found.is_empty() {
        let folder = format!("/sys/class/net/{name}/device/msi_irqs");
        found = facts
            .files
            .list(&folder)
            .iter()
            .filter_map(|irq| irq.parse().ok())
            .collect();
    }
    if found.is_empty() {
        let table = facts.files.read("/proc/interrupts").unwrap_or_default();
        found = table
            .lines()
            .filter(|line| {
                line.split_whitespace().any(|word| {
                    word == name
                        || word
                            .strip_prefix(name.as_str())
                            .is_some_and(|rest| rest.starts_with('-'))
                })
            })
            .filter_map(|line| line.trim().split_once(':')?.0.parse().ok())
            .collect();
    }
    found.sort_unstable();
    found.dedup();
    found
}

pub(super) fn placement(facts: &Facts) -> Vec<Finding> {
    let id = "interrupts.placement";
    let why = "an interrupt on the core of a real-time thread stops that thread; on another core it does not";
    let found = interrupts(facts);
    if found.is_empty() {
        return Vec::new();
    }
    let isolated = super::cpu::isolated_list(facts);
    let online = super::cpu::online(facts);
    let mut lines = Vec::new();
    let mut loose = Vec::new();
    for irq in &found {
        let at = facts
            .files
            .said(&format!("/proc/irq/{irq}/effective_affinity_list"))
            .or_else(|| {
                facts
                    .files
                    .said(&format!("/proc/irq/{irq}/smp_affinity_list"))
            });
        let allowed = facts
            .files
            .said(&format!("/proc/irq/{irq}/smp_affinity_list"));
        let allowed = allowed.as_deref().map(cpu_list).unwrap_or_default();
        let at = at.unwrap_or_else(|| "?".to_owned());
        lines.push(format!("{irq} on {at}"));
        if allowed.iter().any(|cpu| isolated.contains(cpu)) {
            loose.push(*irq);
        }
    }
    let finding = Finding::good(AREA, id, format!("interrupts {}", lines.join(", ")), why);
    if loose.is_empty() || online.len() < 2 {
        return vec![finding];
    }
    let house: Vec<String> = online
        .iter()
        .filter(|cpu| !isolated.contains(cpu))
        .map(u32::to_string)
        .collect();
    let house = house.join(",");
    vec![
        finding.at(Level::Weak).fixed_by(
            loose
                .iter()
                .map(|irq| crate::change::Wanted {
                    subject: crate::change::Subject::Setting {
                        path: format!("/proc/irq/{irq}/smp_affinity_list"),
                    },
                    to: crate::change::Value::Text(house.clone()),
                })
                .collect(),
        ),
    ]
}

pub(super) fn thread_priority(facts: &Facts) -> Vec<Finding> {
    let interrupts = interrupts(facts);
    let mut found = Vec::new();
    for task in facts
        .processes
        .iter()
        .flat_map(|process| &process.real_time)
    {
        let number = task
            .name
            .strip_prefix("irq/")
            .and_then(|rest| rest.split('-').next());
        if number
            .and_then(|text| text.parse().ok())
            .is_some_and(|irq| interrupts.contains(&irq))
        {
            found.push((task.tid, task.name.clone(), task.priority));
        }
    }
    let plain = plain_threads(facts, "irq/", &|name| {
        let number = name.split('-').next().and_then(|text| text.parse().ok());
        number.is_some_and(|irq| interrupts.contains(&irq))
    });
    if let Some((pid, _)) = plain.first() {
        let names: Vec<&str> = plain.iter().map(|(_, name)| name.as_str()).collect();
        return vec![
            Finding::good(
                AREA,
                "interrupts.thread_priority",
                format!(
                    "interrupt threads without a real-time policy (SCHED_OTHER): {}",
                    names.join(", ")
                ),
                "every busy program takes turns with the interface's interrupts: frames wait for milliseconds",
            )
            .at(Level::Weak)
            .by_hand(format!("chrt --fifo --pid 85 {pid}")),
        ];
    }
    if found.is_empty() {
        return Vec::new();
    }
    let lines: Vec<String> = found
        .iter()
        .map(|(_, name, priority)| format!("{name} at {priority}"))
        .collect();
    vec![
        Finding::good(
            AREA,
            "interrupts.thread_priority",
            format!("interrupt threads: {}", lines.join(", ")),
            "all interrupt threads start at 50: the network's waits for the disk's, unless its priority is raised",
        )
        .at(Level::Note)
        .by_hand(format!("chrt --fifo --pid 85 {}", found[0].0)),
    ]
}

/// Returns pid and name of the kernel's threads whose name has this beginning and that have no real-time policy.
fn plain_threads(facts: &Facts, start: &str, ours: &dyn Fn(&str) -> bool) -> Vec<(u32, String)> {
    let all = facts.processes.iter().filter(|process| {
        let rest = process.name.strip_prefix(start);
        process.real_time.is_empty() && rest.is_some_and(ours)
    });
    all.map(|process| (process.pid, process.name.clone()))
        .collect()
}

pub(super) fn polling_priority(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let name = &interface.link.name;
    let on = facts
        .files
        .number(&format!("/sys/class/net/{name}/threaded"));
    if on == Some(0) {
        // A thread that is not used any more may still exist.
        return Vec::new();
    }
    let known: Vec<u32> = interface
        .napis
        .iter()
        .filter_map(|napi| napi.thread)
        .collect();
    // Where the kernel does not tell its threads, they are found by their names: `napi/eth0-12`.
    let own = format!("{name}-");
    let mut threads = plain_threads(facts, "napi/", &|rest| rest.starts_with(&own));
    threads.retain(|(pid, _)| interface.napis.is_empty() || known.contains(pid));
    let Some((pid, _)) = threads.first() else {
        return Vec::new();
    };
    let names: Vec<&str> = threads.iter().map(|(_, name)| name.as_str()).collect();
    vec![
        Finding::good(
            AREA,
            "interrupts.polling_priority",
            format!(
                "threads without a real-time policy (SCHED_OTHER) receive the frames: {}",
                names.join(", ")
            ),
            "every busy program takes turns with them: frames wait for milliseconds",
        )
        .at(Level::Weak)
        .by_hand(format!(
            "chrt --fifo --pid 80 {pid}; or rtwire apply --receive-priority; or: echo 0 > /sys/class/net/{name}/threaded"
        )),
    ]
}

pub(super) fn polling(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let id = "interrupts.polling";
    let why = "frames are received in a softirq without a priority of its own, unless a thread does the interface's \
    polling";
    let name = &interface.link.name;
    let threaded = interface.napis.iter().any(|napi| napi.thread.is_some());
    if threaded {
        return vec![Finding::good(AREA, id, "threads do the polling", why)];
    }
    let path = format!("/sys/class/net/{name}/threaded");
    let finding = Finding::good(AREA, id, "softirqs do the polling", why)
        .at(Level::Note)
        .sure(if interface.napis.is_empty() {
            Certainty::Concluded
        } else {
            Certainty::Read
        });
    // On PREEMPT_RT the softirq of a threaded interrupt runs in that thread, and inherits its priority.
    if is_real_time(facts) {
        return vec![finding];
    }
    vec![finding.by_hand(format!(
        "echo 1 > {path}; chrt --fifo --pid 80 \"$(pgrep napi/{name})\""
    ))]
}

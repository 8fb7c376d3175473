//! The kernel's own work beside the network: tracing, messages on a serial line, watchdogs, huge pages.

use super::cpu::isolated_list;
use super::{Area, Facts, Finding, Level};
use crate::files::cpu_list;

const AREA: Area = Area::Kernel;

pub(super) fn tracing(facts: &Facts) -> Vec<Finding> {
    let read = |file: &str| {
        let new = facts.files.mounted(&format!("/sys/kernel/tracing/{file}"));
        new.or_else(|| {
            facts
                .files
                .mounted(&format!("/sys/kernel/debug/tracing/{file}"))
        })
    };
    let mut found = Vec::new();
    let mut remedy = Vec::new();
    if let Some(tracer) = read("current_tracer").filter(|tracer| tracer != "nop") {
        found.push(format!("tracer `{tracer}`"));
        remedy.push("echo nop > /sys/kernel/tracing/current_tracer");
    }
    // 0: none, 1: all, X: some.
    if read("events/enable").is_some_and(|on| on.starts_with(['1', 'X'])) {
        found.push("events".to_owned());
        remedy.push("echo 0 > /sys/kernel/tracing/events/enable");
    }
    if found.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "kernel.tracing",
            format!("the kernel records: {}", found.join(", ")),
            "each traced function or event costs time in every thread and interrupt; some tracers switch interrupts off",
        )
        .at(Level::Weak)
        .by_hand(remedy.join("; ")),
    ]
}

pub(super) fn serial_console(facts: &Facts) -> Vec<Finding> {
    /// Messages of lower levels are shown: with 5, warnings and worse.
    const QUIET: u32 = 4;
    let consoles = facts.files.read("/proc/consoles").unwrap_or_default();
    let serial = consoles.lines().find_map(|line| {
        let name = line.split_whitespace().next()?;
        let kind = name.strip_prefix("tty")?;
        let enabled = line
            .split_once('(')
            .is_some_and(|(_, flags)| flags.starts_with('E'));
        // tty0 is the screen.
        (enabled && kind.starts_with(|c: char| c.is_ascii_alphabetic())).then(|| name.to_owned())
    });
    let printk = facts.files.read("/proc/sys/kernel/printk");
    let level: Option<u32> = printk.and_then(|text| text.split_whitespace().next()?.parse().ok());
    let (Some(name), Some(level)) = (serial, level.filter(|level| *level > QUIET)) else {
        return Vec::new();
    };
    vec![
        Finding::good(
            AREA,
            "kernel.serial_console",
            format!("messages up to level {} go to the serial console {name}", level - 1),
            "a line of 80 characters takes 7 ms at 115200 baud, on many kernels with interrupts off",
        )
        .at(Level::Weak)
        .by_hand("dmesg -n 1; for ever: `quiet loglevel=1` on the kernel's command line"),
    ]
}

pub(super) fn watchdog(facts: &Facts) -> Vec<Finding> {
    let on = |name: &str| facts.files.number(&format!("/proc/sys/kernel/{name}")) == Some(1);
    let mut found = Vec::new();
    if on("nmi_watchdog") {
        found.push("nmi_watchdog");
    }
    if on("watchdog") && on("soft_watchdog") {
        found.push("soft_watchdog");
    }
    let isolated = isolated_list(facts);
    let watched = facts.files.said("/proc/sys/kernel/watchdog_cpumask");
    let watched = watched.as_deref().map(cpu_list).unwrap_or_default();
    let spared = !isolated.is_empty() && !isolated.iter().any(|cpu| watched.contains(cpu));
    if found.is_empty() || spared {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "kernel.watchdog",
            format!("lockup detectors: {}", found.join(", ")),
            "on each processor a timer and a thread above all priorities run every few seconds; the first one also takes a \
             counter and raises interrupts that cannot be masked",
        )
        .at(Level::Weak)
        .by_hand(
            "sysctl -w kernel.watchdog=0; or keep them off isolated processors: sysctl -w kernel.watchdog_cpumask=LIST",
        ),
    ]
}

/// Debian's default is `always`; kernels with PREEMPT_RT have no huge pages of this kind. In the kernel lab `khugepaged`, which has no
/// priority, kept a processor for 5.8 ms, and the threads of a POWERLINK node waited (docs/uman.md).
pub(super) fn huge_pages(facts: &Facts) -> Vec<Finding> {
    let enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
    // The one in force stands in brackets.
    if !facts
        .files
        .read(enabled)
        .is_some_and(|modes| modes.contains("[always]"))
    {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "kernel.huge_pages",
            "every program gets huge pages, now or later (`always`)",
            "`khugepaged` moves 2 MiB at a time, for milliseconds: the program whose they are waits, and on many kernels all else on \
             that processor, whatever its priority",
        )
        .at(Level::Weak)
        .by_hand(format!(
            "echo madvise > {enabled}; for ever: `transparent_hugepage=madvise` on the kernel's command line"
        )),
    ]
}

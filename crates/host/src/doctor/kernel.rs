//! The kernel: preemption, throttling of real-time threads, threaded interrupts, clock source, virtual machine.

use super::{Area, Certainty, Facts, Finding, Level};

const AREA: Area = Area::Kernel;

/// Returns the value of a boot option (`option` or `option=…`), if the kernel was started with it.
pub(super) fn started_with(facts: &Facts, option: &str) -> Option<String> {
    let line = facts.files.read("/proc/cmdline")?;
    // Arguments after `--` belong to the first process.
    let line = line.split(" -- ").next().unwrap_or_default();
    line.split_whitespace().find_map(|word| {
        let rest = word.strip_prefix(option)?;
        if rest.is_empty() {
            Some(String::new())
        } else {
            rest.strip_prefix('=').map(str::to_owned)
        }
    })
}

/// Returns whether this is a PREEMPT_RT kernel.
pub(super) fn is_real_time(facts: &Facts) -> bool {
    let version = facts.files.read("/proc/sys/kernel/version");
    facts.files.number("/sys/kernel/realtime") == Some(1)
        || version.is_some_and(|version| version.contains("PREEMPT_RT"))
}

pub(super) fn preemption(facts: &Facts) -> Vec<Finding> {
    let why = "while the kernel cannot be interrupted, a due thread waits: microseconds on PREEMPT_RT, \
               milliseconds on others under load";
    let id = "kernel.preemption";
    if is_real_time(facts) {
        return vec![Finding::good(AREA, id, "PREEMPT_RT", why)];
    }
    let version = facts.files.read("/proc/sys/kernel/version");
    let version = version.unwrap_or_default();
    let mode = facts.files.read("/sys/kernel/debug/sched/preempt");
    let mode = mode
        .as_deref()
        .and_then(|text| text.split_once('('))
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(mode, _)| mode);
    let found = match mode {
        Some(mode) => format!("no PREEMPT_RT; preemption mode `{mode}`"),
        None if version.contains("PREEMPT_DYNAMIC") => {
            "no PREEMPT_RT; PREEMPT_DYNAMIC, mode not shown".to_owned()
        }
        None if version.contains("PREEMPT") => "no PREEMPT_RT; PREEMPT".to_owned(),
        None => "no PREEMPT_RT; no preemption named in the version".to_owned(),
    };
    vec![Finding::good(AREA, id, found, why).at(Level::Weak).by_hand(
        "install a real-time kernel and boot it; on Debian: apt-get install linux-image-rt-amd64",
    )]
}

pub(super) fn throttling(facts: &Facts) -> Vec<Finding> {
    let id = "kernel.rt_throttling";
    let why = "beyond this share of a second the kernel stops real-time threads for the rest of it: a spinning sender \
    falls silent for tens of milliseconds";
    let (Some(runtime), Some(period)) = (
        facts.files.number("/proc/sys/kernel/sched_rt_runtime_us"),
        facts.files.number("/proc/sys/kernel/sched_rt_period_us"),
    ) else {
        return Vec::new();
    };
    if runtime < 0 || runtime >= period {
        return vec![Finding::good(
            AREA,
            id,
            "real-time threads are not throttled",
            why,
        )];
    }
    vec![
        Finding::good(
            AREA,
            id,
            format!("real-time threads may use {runtime} µs of each {period} µs"),
            why,
        )
        .at(Level::Weak)
        // A runaway thread could then occupy a processor for ever: the owner decides.
        .by_hand("sysctl -w kernel.sched_rt_runtime_us=-1"),
    ]
}

pub(super) fn threaded_interrupts(facts: &Facts) -> Vec<Finding> {
    let id = "kernel.threaded_interrupts";
    let why = "an interrupt handler that is not a thread runs before every real-time thread, whatever the priorities";
    if is_real_time(facts) || started_with(facts, "threadirqs").is_some() {
        return vec![Finding::good(
            AREA,
            id,
            "interrupt handlers are threads",
            why,
        )];
    }
    vec![
        Finding::good(AREA, id, "interrupt handlers run before all threads", why)
            .at(Level::Note)
            .by_hand("add `threadirqs` to the kernel's command line and boot"),
    ]
}

pub(super) fn clock_source(facts: &Facts) -> Vec<Finding> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Some(source) = facts.files.said(path) else {
        return Vec::new();
    };
    let id = "kernel.clock_source";
    let why = "every time stamp and timer reads it: a slow one costs microseconds each time";
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"].contains(&source.as_str());
    let finding = Finding::good(AREA, id, format!("clock source {source}"), why);
    if !slow {
        return vec![finding];
    }
    let better = facts
        .files
        .said("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .unwrap_or_default();
    let remedy = if better.split_whitespace().any(|name| name == "tsc") {
        format!("echo tsc > {path}")
    } else {
        "find in the kernel's log the reason why `tsc` was given up: journalctl -k -g clocksource"
            .to_owned()
    };
    vec![finding.at(Level::Weak).by_hand(remedy)]
}

pub(super) fn virtual_machine(facts: &Facts) -> Vec<Finding> {
    let Some(info) = facts.files.read("/proc/cpuinfo") else {
        return Vec::new();
    };
    let flags = info.lines().find(|line| line.starts_with("flags"));
    if !flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor")) {
        return Vec::new();
    }
    let steal: u64 = facts
        .files
        .read("/proc/stat")
        .and_then(|text| {
            let line = text.lines().next()?.to_owned();
            line.split_whitespace().nth(8)?.parse().ok()
        })
        .unwrap_or(0);
    vec![
        Finding::good(
            AREA,
            "kernel.virtual_machine",
            format!("a virtual machine; {steal} ticks were taken from it since it booted"),
            "the hypervisor may stop this machine at any moment for any time; no setting inside prevents it",
        )
        .at(Level::Note)
        .by_hand("on the hypervisor: pin each virtual processor to a core of its own"),
    ]
}

pub(super) fn swap(facts: &Facts) -> Vec<Finding> {
    let Some(swaps) = facts.files.read("/proc/swaps") else {
        return Vec::new();
    };
    let areas = swaps.lines().skip(1).count();
    if areas == 0 {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "kernel.swap",
            format!("{areas} swap area(s) in use"),
            "rtwire locks its own memory, but pages of other programs may be swapped out and delay system calls",
        )
        .at(Level::Note)
        .sure(Certainty::Concluded)
        .by_hand("swapoff -a"),
    ]
}

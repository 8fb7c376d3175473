//! Facts about this machine, read from `/proc` and `/sys`.

use std::fs;

use crate::report::Machine;

impl Machine {
    /// Reads the facts about this machine. A fact that the kernel does not report is `unknown`, empty or 0. Nothing
    /// here fails.
    ///
    /// `rtwire_version` is the version of the calling program.
    #[must_use]
    pub fn this(rtwire_version: &str) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let version = read("/proc/sys/kernel/version");
        Self {
            kernel: format!(
                "{} {} {}",
                read("/proc/sys/kernel/ostype"),
                read("/proc/sys/kernel/osrelease"),
                version
            ),
            architecture: std::env::consts::ARCH.to_owned(),
            model: cpu_field(&cpuinfo, &["model name", "Model", "Hardware"])
                .unwrap_or("unknown")
                .to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            preemption: preemption(&version, &read("/sys/kernel/debug/sched/preempt")),
            clocksource: known(read(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            )),
            virtualized: cpu_field(&cpuinfo, &["flags"])
                .is_some_and(|f| f.split(' ').any(|f| f == "hypervisor")),
            settings: settings(),
            rtwire_version: rtwire_version.to_owned(),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn known(text: String) -> String {
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        text
    }
}

fn cpu_field<'a>(cpuinfo: &'a str, names: &[&str]) -> Option<&'a str> {
    let fields = || cpuinfo.lines().filter_map(|line| line.split_once(':'));
    names.iter().find_map(|name| {
        fields()
            .find(|(key, _)| key.trim() == *name)
            .map(|(_, value)| value.trim())
    })
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|t| t.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Returns the preemption model in force. The version string lists the models that the kernel was built with; debugfs
/// marks the one in force with parentheses.
fn preemption(version: &str, debug_file: &str) -> String {
    if let Some((_, rest)) = debug_file.split_once('(') {
        if let Some((mode, _)) = rest.split_once(')') {
            return mode.to_owned();
        }
    }
    if version.contains("PREEMPT_RT") {
        "rt".to_owned()
    } else if version.contains("PREEMPT_DYNAMIC") {
        "dynamic, mode unknown".to_owned()
    } else if version.contains("PREEMPT") {
        "full".to_owned()
    } else {
        "unknown".to_owned()
    }
}

/// Returns the settings that influence the delay of a real-time thread, each as `name=value`.
fn settings() -> Vec<String> {
    let mut found = Vec::new();
    for (name, path) in [
        (
            "sched_rt_runtime_us",
            "/proc/sys/kernel/sched_rt_runtime_us",
        ),
        ("isolated_cpus", "/sys/devices/system/cpu/isolated"),
        ("nohz_full", "/sys/devices/system/cpu/nohz_full"),
        (
            "governor",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        ),
        ("smt", "/sys/devices/system/cpu/smt/control"),
    ] {
        let value = read(path);
        if !value.is_empty() && value != "(null)" {
            found.push(format!("{name}={value}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        assert_eq!(
            preemption("#1 SMP PREEMPT_DYNAMIC", "(none) voluntary full"),
            "none"
        );
        assert_eq!(preemption("#1 SMP PREEMPT_RT", ""), "rt");
        assert_eq!(
            preemption("#1 SMP PREEMPT_DYNAMIC", ""),
            "dynamic, mode unknown"
        );
        assert_eq!(
            memory_bytes("MemTotal:        2048 kB\nMemFree: 1 kB"),
            2_097_152
        );
        assert_eq!(
            cpu_field("processor\t: 0\nmodel name\t: A CPU\n", &["model name"]),
            Some("A CPU")
        );
        let here = Machine::this("1.2.3");
        assert!(here.kernel.starts_with("Linux "), "{here:?}");
        assert!(here.cpus > 0 && here.memory_bytes > 0);
    }
}

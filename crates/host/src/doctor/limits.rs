//! The privileges of this process, and its more privileged rivals.

use super::{Area, Facts, Finding, Level};

const AREA: Area = Area::Limits;
const SELF: &str = "/proc/thread-self/status";
/// Interrupt threads run at 50 by default, rtwire's at 80.
const OURS: u32 = 80;

fn effective(facts: &Facts) -> Option<u64> {
    let status = facts.files.read(SELF)?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn has(facts: &Facts, capability: u32) -> bool {
    effective(facts).is_none_or(|set| set >> capability & 1 == 1)
}

pub(super) fn capabilities(facts: &Facts) -> Vec<Finding> {
    const NEEDED: [(u32, &str, &str); 5] = [
        (12, "CAP_NET_ADMIN", "set up interfaces and queues"),
        (13, "CAP_NET_RAW", "send and receive frames"),
        (14, "CAP_IPC_LOCK", "lock memory"),
        (23, "CAP_SYS_NICE", "run under SCHED_FIFO"),
        (39, "CAP_BPF", "load the receive program"),
    ];
    if effective(facts).is_none() {
        return Vec::new();
    }
    let missing: Vec<&(u32, &str, &str)> = NEEDED
        .iter()
        .filter(|(bit, _, _)| !has(facts, *bit))
        .collect();
    let id = "limits.capabilities";
    let why = "without them the kernel refuses the system calls that a real-time channel needs";
    if missing.is_empty() {
        return vec![Finding::good(
            AREA,
            id,
            "all capabilities that rtwire needs",
            why,
        )];
    }
    let names: Vec<String> = missing
        .iter()
        .map(|(_, name, what)| format!("{name} ({what})"))
        .collect();
    let list: Vec<String> = missing
        .iter()
        .map(|(_, name, _)| name.to_lowercase())
        .collect();
    vec![
        Finding::good(AREA, id, format!("missing: {}", names.join(", ")), why)
            .at(Level::Fault)
            .by_hand(format!(
                "run as root, or: setcap {}+ep \"$(command -v rtwire)\"",
                list.join(",")
            )),
    ]
}

/// Returns the soft limit in a line of `/proc/…/limits`; `None` for unlimited.
fn limit(facts: &Facts, name: &str) -> Option<u64> {
    let limits = facts.files.read("/proc/thread-self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(super) fn locked_memory(facts: &Facts) -> Vec<Finding> {
    const ENOUGH: u64 = 64 << 20;
    const IPC_LOCK: u32 = 14;
    let id = "limits.locked_memory";
    let why =
        "memory that is not locked may be swapped out; fetching it delays a thread by milliseconds";
    let limit = limit(facts, "Max locked memory");
    match limit.filter(|limit| *limit < ENOUGH) {
        Some(limit) if !has(facts, IPC_LOCK) => vec![
            Finding::good(
                AREA,
                id,
                format!("only {limit} B may be locked, and CAP_IPC_LOCK is missing"),
                why,
            )
            .at(Level::Fault)
            .by_hand(
                "echo '* - memlock unlimited' > /etc/security/limits.d/rtwire.conf; log in anew",
            ),
        ],
        Some(limit) => vec![Finding::good(
            AREA,
            id,
            format!("limit {limit} B, which CAP_IPC_LOCK lifts"),
            why,
        )],
        None => vec![Finding::good(AREA, id, "enough memory may be locked", why)],
    }
}

pub(super) fn priority(facts: &Facts) -> Vec<Finding> {
    const SYS_NICE: u32 = 23;
    let id = "limits.real_time_priority";
    let why = "without a real-time policy any other program may run first";
    if has(facts, SYS_NICE) {
        return vec![Finding::good(
            AREA,
            id,
            "real-time priorities are permitted",
            why,
        )];
    }
    let limit = limit(facts, "Max realtime priority").unwrap_or(0);
    let found = format!("real-time priority up to {limit}, rtwire uses {OURS}");
    if limit >= u64::from(OURS) {
        return vec![Finding::good(AREA, id, found, why)];
    }
    vec![
        Finding::good(AREA, id, found, why)
            .at(Level::Fault)
            .by_hand("echo '* - rtprio 95' > /etc/security/limits.d/rtwire.conf; log in anew"),
    ]
}

pub(super) fn rivals(facts: &Facts) -> Vec<Finding> {
    const DEADLINE: u32 = 6;
    // The kernel's own threads that are meant to run first, and this process's helper.
    const KNOWN: [&str; 6] = [
        "migration/",
        "idle_inject/",
        "irq/",
        "watchdog/",
        "stop",
        "posix_cpu_timers",
    ];
    let own = std::process::id();
    let mut found: Vec<String> = Vec::new();
    for process in facts.processes.iter().filter(|process| process.pid != own) {
        for task in &process.real_time {
            let above = task.policy == DEADLINE || task.priority > OURS;
            if above && !KNOWN.iter().any(|known| task.name.starts_with(known)) {
                let policy = match task.policy {
                    DEADLINE => "SCHED_DEADLINE".to_owned(),
                    1 => format!("SCHED_FIFO {}", task.priority),
                    _ => format!("SCHED_RR {}", task.priority),
                };
                found.push(format!("{} (pid {}, {policy})", task.name, process.pid));
            }
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    found.sort();
    found.dedup();
    let many = found.len();
    found.truncate(4);
    vec![
        Finding::good(
            AREA,
            "limits.rivals",
            format!(
                "{many} thread(s) run before rtwire's ({OURS}): {}",
                found.join(", ")
            ),
            "each of them may stop a sender or receiver for as long as it runs",
        )
        .at(Level::Weak)
        .by_hand("chrt --fifo --pid 70 PID, or move it to another processor: taskset -p MASK PID"),
    ]
}

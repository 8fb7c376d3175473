//! Settings that move frames between processors, or hold them back: RPS, XPS, deferred polling, backlogs, buffers.

use super::{Area, Facts, Finding, InterfaceFacts, Level};
use crate::netlink::Parameters;

const ROOT: u32 = u32::MAX;

/// Returns the queues of one direction (`rx-`, `tx-`) whose file `setting` has a processor in its mask.
fn with_mask(
    facts: &Facts,
    interface: &InterfaceFacts,
    direction: &str,
    setting: &str,
) -> Vec<String> {
    let folder = format!("/sys/class/net/{}/queues", interface.link.name);
    let queues = facts.files.list(&folder).into_iter();
    let set = queues
        .filter(|queue| queue.starts_with(direction))
        .filter(|queue| {
            let mask = facts.files.said(&format!("{folder}/{queue}/{setting}"));
            mask.is_some_and(|mask| mask.chars().any(|digit| digit != '0' && digit != ','))
        });
    set.collect()
}

pub(super) fn receive(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let name = &interface.link.name;
    let mut findings = Vec::new();
    let queues = with_mask(facts, interface, "rx-", "rps_cpus");
    if let Some(first) = queues.first() {
        findings.push(
            Finding::good(
                Area::Interrupts,
                "interrupts.rps",
                format!("receive packet steering (RPS) on {}", queues.join(", ")),
                "each frame wakes another processor by an interrupt and waits in its backlog, which has no priorities",
            )
            .at(Level::Weak)
            .by_hand(format!(
                "for each of these queues: echo 0 > /sys/class/net/{name}/queues/{first}/rps_cpus"
            )),
        );
    }
    let number = |file: &str| facts.files.number(&format!("/sys/class/net/{name}/{file}"));
    let timeout_ns = number("gro_flush_timeout").unwrap_or(0);
    let deferred = number("napi_defer_hard_irqs").unwrap_or(0);
    if timeout_ns > 0 || deferred > 0 {
        findings.push(
            Finding::good(
                Area::Interrupts,
                "interrupts.deferred",
                format!(
                    "interrupts are deferred: gro_flush_timeout {timeout_ns} ns, napi_defer_hard_irqs {deferred}"
                ),
                "received frames wait up to this time for more frames, or for the next poll",
            )
            .at(Level::Weak)
            .by_hand(format!(
                "echo 0 > /sys/class/net/{name}/gro_flush_timeout; echo 0 > /sys/class/net/{name}/napi_defer_hard_irqs"
            )),
        );
    }
    findings
}

pub(super) fn transmit(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let name = &interface.link.name;
    let root = interface.qdiscs.iter().find(|qdisc| qdisc.parent == ROOT);
    // These choose the queue by the frame's class.
    let by_class = root.is_some_and(|root| ["mqprio", "taprio"].contains(&root.kind.as_str()));
    let queues = with_mask(facts, interface, "tx-", "xps_cpus");
    let Some(first) = queues.first().filter(|_| !by_class) else {
        return Vec::new();
    };
    vec![
        Finding::good(
            Area::Queues,
            "queues.xps",
            format!(
                "the sending processor chooses the transmit queue (XPS) on {}",
                queues.join(", ")
            ),
            "frames of one class leave by several queues, which the card serves in turn: urgent ones have no precedence, and \
             frames overtake one another when a thread moves",
        )
        .at(Level::Weak)
        .by_hand(format!(
            "rtwire apply (its classes have queues of their own); or for each of these queues: echo 0 > \
             /sys/class/net/{name}/queues/{first}/xps_cpus"
        )),
    ]
}

/// Checks for filters that direct received frames to a queue, where the card has several.
pub(super) fn by_filter(facts: &Facts) -> Vec<Finding> {
    // The kernel's name of `ntuple-filters`.
    const FILTERS: &str = "rx-ntuple-filter";
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let active = ["rx", "combined"].map(|name| interface.parameter(Parameters::Channels, name));
    let queues: u64 = active.into_iter().flatten().sum();
    // A veth has no hash: its order is a check of its own.
    if queues < 2 || interface.link.kind.is_some() {
        return Vec::new();
    }
    let id = "driver.flow_steering";
    let why = "the card spreads IP flows; frames without IP come to one queue, unless a filter directs them elsewhere";
    let on = interface.offloads.active.contains(FILTERS);
    let name = &interface.link.name;
    let there = |state| format!("{queues} receive queues; filters of flows (ntuple) {state}");
    if on {
        return vec![Finding::good(Area::Driver, id, there("are on"), why)];
    }
    let found = |state| Finding::good(Area::Driver, id, there(state), why).at(Level::Note);
    if interface.offloads.fixed.contains(FILTERS) {
        return vec![found("are missing in this driver")];
    }
    vec![found("are off").by_hand(format!(
        "ethtool -K {name} ntuple on; ethtool -N {name} flow-type ether proto 0x88b5 action 1"
    ))]
}

pub(super) fn short_ring(facts: &Facts) -> Vec<Finding> {
    const LEAST: u64 = 128;
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let ring = interface.parameter(Parameters::Rings, "rx");
    let Some(frames) = ring.filter(|frames| *frames > 0 && *frames < LEAST) else {
        return Vec::new();
    };
    vec![
        Finding::good(
            Area::Driver,
            "driver.short_ring",
            format!("receive ring of {frames} frames"),
            "small frames at 1 Gbit/s fill 64 places in 43 µs: if the processor comes later, frames are lost",
        )
        .at(Level::Weak)
        .by_hand(format!("ethtool -G {} rx 512", interface.link.name)),
    ]
}

pub(super) fn backlog(facts: &Facts) -> Vec<Finding> {
    const LEAST: i64 = 1000;
    let Some(frames) = facts
        .core
        .get("netdev_max_backlog")
        .filter(|frames| **frames < LEAST)
    else {
        return Vec::new();
    };
    vec![
        Finding::good(
            Area::Limits,
            "limits.backlog",
            format!("net.core.netdev_max_backlog is {frames}"),
            "frames of veth links, of RPS and of packet sockets' loops wait in this backlog: beyond it they are dropped",
        )
        .at(Level::Weak)
        .by_hand("sysctl -w net.core.netdev_max_backlog=1000"),
    ]
}

pub(super) fn socket_buffers(facts: &Facts) -> Vec<Finding> {
    const LEAST: i64 = 64 << 10;
    let small = facts
        .core
        .iter()
        .filter(|(name, bytes)| **name != "netdev_max_backlog" && **bytes < LEAST);
    let small: Vec<String> = small
        .map(|(name, bytes)| format!("net.core.{name} is {bytes} B"))
        .collect();
    if small.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::good(
            Area::Limits,
            "limits.socket_buffers",
            small.join(", "),
            "a small frame takes some 800 B of a socket's buffer: while a program is away, a burst is dropped",
        )
        .at(Level::Weak)
        .by_hand("for each of them: sysctl -w net.core.NAME=212992"),
    ]
}

//! Queueing disciplines in words, and as the `tc` lines that a person would type.

use crate::netlink::{Classes, Discipline, Filter, HTB_QUANTUM_BYTES, Queue, Tree, smallest_bytes};

const ROOT: u32 = u32::MAX;

/// Returns the disciplines in words: `mqprio, tbf`.
pub(super) fn show(tree: &Tree) -> String {
    let kinds: Vec<&str> = tree
        .queues
        .iter()
        .filter(|queue| !queue.class)
        .map(|queue| queue.discipline.kind())
        .collect();
    let mut text = kinds.join(", ");
    if let Some(strange) = &tree.strange {
        text += &format!(" ({strange})");
    }
    text
}

fn handle(number: u32) -> String {
    let (major, minor) = (number >> 16, number & 0xffff);
    if minor == 0 {
        format!("{major:x}:")
    } else {
        format!("{major:x}:{minor:x}")
    }
}

/// Returns the lines that make the disciplines, first to last.
pub(super) fn commands(interface: &str, tree: &Tree) -> String {
    if tree.queues.is_empty() {
        return format!("tc qdisc del dev {interface} root");
    }
    let root = tree.queues.first().map_or(0, |queue| queue.handle);
    let queues = tree.steps().map(|queue| line(interface, queue));
    let filters = tree.filters.iter().map(|one| rule(interface, root, one));
    queues.chain(filters).collect::<Vec<_>>().join("\n")
}

fn line(interface: &str, queue: &Queue) -> String {
    let what = if queue.class {
        format!("tc class add dev {interface}")
    } else {
        format!("tc qdisc replace dev {interface}")
    };
    let parent = if queue.parent != ROOT {
        format!("parent {}", handle(queue.parent))
    } else if queue.class {
        format!("parent {}", handle(queue.handle & 0xffff_0000))
    } else {
        "root".to_owned()
    };
    let own = if queue.class { "classid" } else { "handle" };
    let table = match queue.overhead_bytes {
        0 => String::new(),
        bytes => format!("stab overhead {bytes} linklayer ethernet "),
    };
    format!(
        "{what} {parent} {own} {} {table}{} {}",
        handle(queue.handle),
        queue.discipline.kind(),
        parameters(&queue.discipline)
    )
    .trim_end()
    .to_owned()
}

fn map(classes: &Classes) -> String {
    let map: Vec<String> = classes.map.iter().map(u8::to_string).collect();
    let queues: Vec<String> = classes
        .queues
        .iter()
        .map(|(offset, count)| format!("{count}@{offset}"))
        .collect();
    format!(
        "num_tc {} map {} queues {}",
        classes.queues.len(),
        map.join(" "),
        queues.join(" ")
    )
}

fn parameters(discipline: &Discipline) -> String {
    match discipline {
        Discipline::Mqprio { classes } => format!("{} hw 0", map(classes)),
        Discipline::Taprio {
            classes,
            base_time_ns,
            cycle_ns,
            entries,
            flags,
            txtime_delay_ns,
        } => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("sched-entry S {:02x} {}", entry.gates, entry.duration_ns))
                .collect();
            let mut text = format!(
                "{} base-time {base_time_ns} cycle-time {cycle_ns} {}",
                map(classes),
                entries.join(" ")
            );
            if *flags != 0 {
                text += &format!(" flags {flags:#x}");
            }
            if *txtime_delay_ns > 0 {
                text += &format!(" txtime-delay {txtime_delay_ns}");
            }
            if flags & 2 == 0 {
                text += " clockid CLOCK_TAI";
            }
            text
        }
        Discipline::Etf {
            delta_ns,
            deadline,
            offload,
            skip_socket_check,
        } => {
            let mut text = format!("clockid CLOCK_TAI delta {delta_ns}");
            for (on, word) in [
                (*deadline, " deadline_mode"),
                (*offload, " offload"),
                (*skip_socket_check, " skip_sock_check"),
            ] {
                if on {
                    text += word;
                }
            }
            text
        }
        Discipline::Cbs {
            idle_slope_kbps,
            send_slope_kbps,
            high_credit_bytes,
            low_credit_bytes,
            offload,
        } => format!(
            "idleslope {idle_slope_kbps} sendslope {send_slope_kbps} hicredit {high_credit_bytes} \
             locredit {low_credit_bytes} offload {}",
            u8::from(*offload)
        ),
        Discipline::Tbf {
            rate_bytes,
            burst_bytes,
            limit_bytes,
            overhead_bytes,
        } => format!(
            "rate {}bit burst {burst_bytes} limit {limit_bytes} overhead {overhead_bytes} mpu {} linklayer ethernet",
            u64::from(*rate_bytes) * 8,
            smallest_bytes(*overhead_bytes),
        ),
        Discipline::Htb { default_class } => format!("default {default_class:x}"),
        Discipline::HtbClass {
            rate_bytes,
            ceil_bytes,
            priority,
            burst_bytes,
            ceil_burst_bytes,
            overhead_bytes,
        } => format!(
            "rate {}bit burst {burst_bytes} ceil {}bit cburst {ceil_burst_bytes} prio {priority} quantum {HTB_QUANTUM_BYTES} overhead {overhead_bytes} mpu {} linklayer ethernet",
            u64::from(*rate_bytes) * 8,
            u64::from(*ceil_bytes) * 8,
            smallest_bytes(*overhead_bytes),
        ),
        Discipline::Pfifo { frames } => format!("limit {frames}"),
        Discipline::Foreign { .. } => "# as it was before".to_owned(),
    }
}

fn rule(interface: &str, root: u32, filter: &Filter) -> String {
    let words: Vec<String> = filter
        .words
        .iter()
        .map(|(mask, value, offset)| format!("match u32 {value:#x} {mask:#x} at {offset}"))
        .collect();
    format!(
        "tc filter add dev {interface} parent {} protocol {:#06x} prio {} u32 {} flowid {}",
        handle(root),
        filter.protocol,
        filter.priority,
        words.join(" "),
        handle(filter.class)
    )
}

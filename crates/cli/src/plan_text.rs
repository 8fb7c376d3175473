//! A plan printed for people. Its schedule is printed by [`crate::plan_schedule`].

use std::fmt::Write as _;

use rtwire_plan::show::{grouped, show_ns};
use rtwire_plan::{NodeKind, Plan, Promise, StreamPlan, TermKind};

use crate::columns::table;
use crate::plan_schedule;

fn cells(row: &[&str]) -> Vec<String> {
    row.iter().map(|cell| (*cell).to_owned()).collect()
}

fn shown(ns: Option<u64>) -> String {
    ns.map_or_else(|| "none".to_owned(), show_ns)
}

fn total(promise: &Promise, kinds: &[TermKind]) -> String {
    if promise.delay_ns.is_none() {
        return "-".to_owned();
    }
    show_ns(
        promise
            .terms
            .iter()
            .filter(|term| kinds.contains(&term.what))
            .map(|term| term.ns)
            .sum(),
    )
}

/// Returns every promise and the needs of each port.
pub(crate) fn tables(name: &str, plan: &Plan) -> String {
    let mut text = format!(
        "{name}: guaranteed worst case, from the talker's queue to the last bit at the listener\n\n"
    );
    let mut rows = vec![cells(&[
        "stream",
        "listener",
        "promise",
        "deadline",
        "queueing",
        "blocking",
        "transmission",
        "latency",
        "cable",
    ])];
    let launched = plan.streams.iter().any(|stream| stream.launch.is_some());
    let scheduled = launched || plan.cyclic.is_some();
    if scheduled {
        let head = if launched {
            "windows, clocks"
        } else {
            "cycles, clocks"
        };
        rows[0].push(head.to_owned());
    }
    for stream in &plan.streams {
        for promise in &stream.promises {
            rows.push(vec![
                stream.name.clone(),
                promise.listener.clone(),
                shown(promise.delay_ns),
                promise.deadline_ns.map_or_else(|| "-".to_owned(), show_ns),
                total(promise, &[TermKind::Queueing]),
                total(promise, &[TermKind::Blocking]),
                total(promise, &[TermKind::Transmission]),
                total(promise, &[TermKind::Latency]),
                total(promise, &[TermKind::Cable]),
            ]);
            if let (true, Some(row)) = (scheduled, rows.last_mut()) {
                let kinds = [TermKind::Window, TermKind::Cycle, TermKind::Clock];
                row.push(total(promise, &kinds));
            }
        }
    }
    table(&mut text, 2, &rows);
    crate::plan_recovery::table(&mut text, plan);
    crate::plan_meters::table(&mut text, plan);
    crate::plan_cyclic::table(&mut text, plan);
    text.push('\n');
    let mut rows = vec![cells(&[
        "port",
        "needs",
        "buffer",
        "frames",
        "of",
        "utilization",
    ])];
    for port in plan
        .ports
        .iter()
        .filter(|port| port.utilization_permille > 0 || !port.classes.is_empty())
    {
        let buffer = match (port.node_kind, port.buffer_bytes) {
            (NodeKind::Host, _) | (_, None) => "-".to_owned(),
            (_, Some(bytes)) if port.shared => format!("{} B shared", grouped(bytes)),
            (_, Some(bytes)) => format!("{} B", grouped(bytes)),
        };
        rows.push(vec![
            format!("{}>{}", port.node, port.port),
            port.backlog_bytes.map_or_else(
                || "none".to_owned(),
                |bytes| format!("{} B", grouped(bytes)),
            ),
            buffer,
            port.backlog_frames.map_or_else(|| "-".to_owned(), grouped),
            port.buffer_frames.map_or_else(|| "-".to_owned(), grouped),
            format!(
                "{}.{} %",
                port.utilization_permille / 10,
                port.utilization_permille % 10
            ),
        ]);
    }
    table(&mut text, 1, &rows);
    if let Some(routes) = &plan.routes {
        let _ = writeln!(text, "\nroutes, {routes}");
    }
    plan_schedule::summary(&mut text, plan);
    for warning in &plan.warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    text
}

/// Explains the terms of one stream's promises.
pub(crate) fn explanation(plan: &Plan, name: &str) -> String {
    let mut text = String::new();
    for stream in plan.streams.iter().filter(|stream| stream.name == name) {
        let shaper = &stream.shaper;
        let (num, den) = (shaper.rate_bps.num(), shaper.rate_bps.den());
        let rate = if den == 1 {
            grouped(num)
        } else {
            format!("{}/{}", grouped(num), grouped(den))
        };
        let _ = writeln!(
            text,
            "{name}: contract on the wire: burst {} bit, rate {rate} bit/s (interval {}, tick error {})",
            grouped(shaper.burst_bits),
            show_ns(shaper.interval_ns),
            show_ns(shaper.tick_error_ns)
        );
        plan_schedule::launch(&mut text, stream);
        crate::plan_recovery::explanation(&mut text, plan, stream);
        for promise in &stream.promises {
            let _ = writeln!(
                text,
                "\nto {} by {}",
                promise.listener,
                promise.route.join(" > ")
            );
            if !promise.priorities.is_empty() {
                let _ = writeln!(text, "  {}", priorities(plan, stream, promise));
            }
            let mut rows: Vec<Vec<String>> = promise
                .terms
                .iter()
                .map(|term| {
                    vec![
                        term.at.clone(),
                        term.what.word().to_owned(),
                        show_ns(term.ns),
                    ]
                })
                .collect();
            rows.push(vec![
                "promise".to_owned(),
                String::new(),
                shown(promise.delay_ns),
            ]);
            table(&mut text, 2, &rows);
            for pair in promise.route.windows(2) {
                let Some(port) = plan
                    .ports
                    .iter()
                    .find(|port| port.node == pair[0] && port.port == pair[1])
                else {
                    continue;
                };
                for class in port
                    .classes
                    .iter()
                    .filter(|class| class.flows.iter().any(|flow| flow == name))
                {
                    let others: Vec<&str> = class
                        .flows
                        .iter()
                        .map(String::as_str)
                        .filter(|flow| *flow != name)
                        .collect();
                    let others = if others.is_empty() {
                        "nobody".to_owned()
                    } else {
                        others.join(", ")
                    };
                    let _ = writeln!(
                        text,
                        "  at {}>{} it shares its queue with {others}",
                        port.node, port.port
                    );
                }
            }
        }
    }
    text
}

/// Names each router of a route with the priority that frames have behind it.
fn priorities(plan: &Plan, stream: &StreamPlan, promise: &Promise) -> String {
    let routers = plan.network.routers();
    let mut text = format!("priority {}", stream.identity.pcp);
    if let Some(dscp) = stream.identity.dscp {
        let _ = write!(text, ", DSCP {dscp}");
    }
    for (node, priority) in promise.route.iter().zip(&promise.priorities).skip(1) {
        if routers.get(node).is_some() {
            let _ = write!(text, "; from router {node} on priority {priority}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rtwire_measure::units;
    use rtwire_plan::show::{grouped, show_ns};

    #[test]
    fn numbers_are_written_as_reports_of_measurements_write_them() {
        for number in [0, 7, 999, 1_000, 12_345, 130_204, 1_234_567, u64::MAX] {
            assert_eq!(grouped(number), units::grouped(number));
        }
        for ns in [85, 200_000, 714_500, 1_500_000, 50_000_000, 2_000_000_000] {
            assert_eq!(show_ns(ns), units::short_duration(ns));
        }
    }
}

//! The jitter report as text for a terminal of 100 columns.

use std::fmt::Write;

use super::model::JitterReport;
use crate::summary::Summary;
use crate::units::{duration, grouped, rate, trimmed};

impl JitterReport {
    /// Returns the report as tables for a terminal.
    #[must_use]
    pub fn print_text(&self) -> String {
        let mut out = String::new();
        let frames = &self.frames;
        let _ = writeln!(
            out,
            "{}: {} in {} packets over {}\n{} SoC, {} PReq, {} PRes, {} SoA, {} ASnd, {} of other protocols\n",
            self.source,
            self.format,
            grouped(frames.packets),
            duration(self.duration_ns),
            grouped(frames.soc),
            grouped(frames.preq),
            grouped(frames.pres),
            grouped(frames.soa),
            grouped(frames.asnd),
            grouped(frames.not_powerlink),
        );
        if let Some(stamps) = &self.stamps {
            // The line above ends with an empty one.
            out.pop();
            let _ = writeln!(out, "stamps {stamps}\n");
        }
        if let (Some(cycle), Some(soc)) = (&self.cycle, &self.soc) {
            let _ = writeln!(
                out,
                "cycle {} ({}); {} SoC missing, {} restarts",
                duration(cycle.cycle_ns),
                if cycle.stated {
                    "as stated".to_owned()
                } else {
                    format!("closest to the median of {}", duration(cycle.median_ns))
                },
                grouped(soc.missing),
                grouped(soc.restarts),
            );
            let mut rows = vec![head(&["SoC"])];
            rows.push(row(&["interval"], Some(soc.interval_ns)));
            rows.push(row(&["deviation"], Some(soc.deviation_ns)));
            table(&mut out, 1, &rows);
        }
        if !self.nodes.is_empty() {
            let mut rows = vec![head(&["PReq–PRes", "PReq", "late", "lost"])];
            for node in &self.nodes {
                rows.push(row(
                    &[
                        &format!("node {}", node.node),
                        &grouped(node.polled),
                        &grouped(node.late),
                        &grouped(node.lost),
                    ],
                    node.latency_ns,
                ));
            }
            table(&mut out, 1, &rows);
        }
        if let Some(used) = &self.utilization {
            let mut rows = vec![head(&["cycle's use"])];
            rows.push(row(&["isochronous phase"], used.isochronous_ns));
            rows.push(row(&["frames on the wire"], Some(used.wire_ns)));
            table(&mut out, 1, &rows);
            let percent = |value: f64| trimmed((value * 100.0).round() / 100.0);
            let _ = writeln!(
                out,
                "of the cycle: isochronous phase {} % (at most {} %), frames {} % (at most {} %) at {}\n",
                used.isochronous_percent_p50
                    .map_or_else(|| "-".to_owned(), percent),
                used.isochronous_percent_max
                    .map_or_else(|| "-".to_owned(), percent),
                percent(used.wire_percent_p50),
                percent(used.wire_percent_max),
                rate(used.link_rate_bps),
            );
        }
        if !self.asynchronous.is_empty() {
            let mut rows = vec![head(&["SoA–ASnd", "asked", "answered"])];
            for node in &self.asynchronous {
                rows.push(row(
                    &[
                        &format!("node {}", node.node),
                        &grouped(node.asked),
                        &grouped(node.answered),
                    ],
                    node.latency_ns,
                ));
            }
            table(&mut out, 1, &rows);
        }
        if !self.worst.is_empty() {
            out.push_str("worst cases\n");
            for case in &self.worst {
                let _ = writeln!(
                    out,
                    "  {} in packet {}, at {}",
                    case.words,
                    case.number,
                    duration(case.at_ns)
                );
            }
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        for broken in &self.limits.broken {
            let _ = writeln!(out, "LIMIT BROKEN: {broken}");
        }
        out
    }
}

fn head(first: &[&str]) -> Vec<String> {
    let rest = ["min", "p50", "p99", "p99.9", "max", "samples"];
    first.iter().chain(&rest).map(|s| (*s).to_owned()).collect()
}

fn row(first: &[&str], summary: Option<Summary>) -> Vec<String> {
    let mut row: Vec<String> = first.iter().map(|s| (*s).to_owned()).collect();
    match summary {
        Some(s) => {
            row.extend([s.min, s.p50, s.p99, s.p999, s.max].map(duration));
            row.push(grouped(s.samples));
        }
        None => row.extend((0..6).map(|_| "-".to_owned())),
    }
    row
}

/// Writes rows in columns as wide as needed. The first `left` columns are left-aligned words.
fn table(out: &mut String, left: usize, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in rows {
        let mut line = String::new();
        for column in 0..columns {
            let cell = row.get(column).map_or("", String::as_str);
            let space = " ".repeat(width(column) - cell.chars().count());
            let gap = if column > 0 { "  " } else { "" };
            line += &if column < left {
                format!("{gap}{cell}{space}")
            } else {
                format!("{gap}{space}{cell}")
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push('\n');
}

//! The report as tables for a terminal.

use super::html_tables::{judged, used};
use super::model::{HostReport, PortReport, Report, SharingReport, StreamReport};
use crate::noise::NoiseRecord;
use crate::summary::Summary;
use crate::units::{duration, grouped, rate, trimmed};

/// The terminal's width in columns.
const WIDTH: usize = 100;

impl Report {
    /// Returns the report as tables for a terminal of 100 columns, without colours and control characters.
    #[must_use]
    pub fn print_text(&self) -> String {
        let mut out = wrapped(
            "",
            &format!("{}: {}", self.title, self.verdict.as_str().to_uppercase()),
        );
        for reason in &self.reasons {
            out += &wrapped("  ", reason);
        }
        let streams = &self.streams;
        out += &delays(streams);
        out += &frames(streams);
        for (way, names) in ways(streams) {
            out += &wrapped("  ", &format!("{way}: {}", names.join(", ")));
        }
        if !self.ports.is_empty() {
            out += &ports(&self.ports);
        }
        if !self.hosts.is_empty() {
            out += &hosts(&self.hosts);
        }
        if let Some(sharing) = &self.sharing {
            out += &shared(sharing);
        }
        if let Some(noise) = &self.noise {
            out += &noise_table(noise);
        }
        for note in &self.notes {
            out += &wrapped("  ", &format!("note: {note}"));
        }
        out
    }
}

fn delays(streams: &[StreamReport]) -> String {
    let published = streams.iter().any(|s| s.published_max_ns.is_some());
    let mut table = Table::new(&[
        "network delay",
        "deadline",
        "promised",
        "p50",
        "p99",
        "slowest",
        "used",
    ]);
    if published {
        table.head.push("published".to_owned());
    }
    table.head.push("verdict".to_owned());
    table.words_last = true;
    for s in streams {
        let judged = judged(s);
        let mut row = vec![
            format!("{} at {}", s.name, s.listener),
            time(s.deadline_ns),
            time(s.promised_delay_ns),
            time(judged.map(|d| d.p50)),
            time(judged.and_then(|d| d.known_p99())),
            time(judged.map(|d| d.max)),
        ];
        row.push(used(s).map_or_else(|| "-".to_owned(), |p| format!("{p:.0} %")));
        if published {
            row.push(time(s.published_max_ns));
        }
        row.push(s.verdict.to_string());
        table.rows.push(row);
    }
    let mut out = table.print();
    if streams.iter().any(|s| s.exact_delay_ns.is_some()) {
        out += &wrapped(
            "  ",
            "network delay: exact, in the described network, for all frames as they were really sent",
        );
        out += &delivered(streams);
    }
    out
}

/// Returns the delays as an emulated network delivered the frames, and how much of that needed an explanation.
fn delivered(streams: &[StreamReport]) -> String {
    let mut table = Table::new(&[
        "delivered",
        "p50",
        "p99",
        "slowest",
        "explained",
        "not explained",
        "judged on",
    ]);
    for s in streams {
        let delay = s.network_delay_ns;
        table.rows.push(vec![
            format!("{} at {}", s.name, s.listener),
            time(delay.map(|d| d.p50)),
            time(delay.and_then(|d| d.known_p99())),
            time(delay.map(|d| d.max)),
            s.frames_explained.to_string(),
            s.frames_unexplained.to_string(),
            format!("{:.1} %", s.coverage_percent),
        ]);
    }
    table.print()
}

/// Returns each known receive or transmit path, as `received by native`, with the streams that used it.
pub(super) fn ways(streams: &[StreamReport]) -> Vec<(String, Vec<String>)> {
    let mut ways: Vec<(String, Vec<String>)> = Vec::new();
    for stream in streams {
        let name = format!("{} at {}", stream.name, stream.listener);
        let [came, left] = [&stream.receive_path, &stream.transmit_path];
        for (verb, path) in [("received", came), ("sent", left)] {
            let Some(path) = path else {
                continue;
            };
            let way = format!("{verb} by {path}");
            match ways.iter_mut().find(|(other, _)| *other == way) {
                Some((_, names)) => names.push(name.clone()),
                None => ways.push((way, vec![name.clone()])),
            }
        }
    }
    ways
}

fn frames(streams: &[StreamReport]) -> String {
    let mut table = Table::new(&[
        "application delay",
        "min",
        "p50",
        "p99",
        "p99.9",
        "slowest",
        "sent",
        "lost",
        "twice",
        "order",
        "expl.",
    ]);
    for s in streams {
        let mut row = vec![format!("{} at {}", s.name, s.listener)];
        row.extend(five(s.app_delay_ns));
        let counts = [
            s.frames_sent,
            s.frames_lost,
            s.frames_duplicated,
            s.frames_reordered,
            s.frames_explained,
        ];
        row.extend(counts.map(|n| n.to_string()));
        table.rows.push(row);
    }
    table.print()
}

fn ports(ports: &[PortReport]) -> String {
    let mut table = Table::new(&[
        "port", "link", "used", "promised", "highest", "buffer", "dropped", "verdict",
    ]);
    table.words_last = true;
    let bytes = |b: Option<u64>| b.map_or_else(|| "-".to_owned(), |b| format!("{} B", grouped(b)));
    for p in ports {
        table.rows.push(vec![
            format!("{} to {}", p.switch, p.port),
            rate(p.link_rate_bps),
            format!("{:.1} %", p.utilization_percent),
            bytes(p.promised_backlog_bytes),
            bytes(p.max_backlog_bytes),
            bytes(p.buffer_bytes),
            p.frames_dropped.to_string(),
            p.verdict.to_string(),
        ]);
    }
    table.print()
}

fn hosts(hosts: &[HostReport]) -> String {
    let mut table = Table::new(&[
        "host",
        "shaper time",
        "of a core",
        "wake-ups",
        "skipped",
        "tick error",
        "p50",
        "p99",
        "p99.9",
        "latest",
    ]);
    for h in hosts {
        let tick = h.tick_overshoot_ns;
        table.rows.push(vec![
            h.name.clone(),
            time(h.shaper_cpu_ns),
            h.shaper_cpu_percent
                .map_or_else(|| "-".to_owned(), |p| format!("{p:.2} %")),
            h.wakeups.to_string(),
            h.ticks_skipped.to_string(),
            time(h.tick_error_declared_ns),
            time(tick.map(|t| t.p50)),
            time(tick.and_then(|t| t.known_p99())),
            time(tick.and_then(|t| t.known_p999())),
            time(tick.map(|t| t.max)),
        ]);
    }
    table.print()
}

fn shared(sharing: &SharingReport) -> String {
    let mut links = Table::new(&[
        "link",
        "real time",
        "best effort",
        "of what is free",
        "transfers",
        "fairness",
    ]);
    for link in &sharing.links {
        links.rows.push(vec![
            format!("{}>{}", link.node, link.port),
            format!("{:.1} %", link.real_time_percent),
            format!("{:.1} %", link.best_effort_percent),
            format!("{:.1} %", link.of_free_percent),
            link.transfers.to_string(),
            link.fairness
                .map_or_else(|| "-".to_owned(), |fairness| format!("{fairness:.3}")),
        ]);
    }
    let mut transfers = Table::new(&["transfer", "goodput"]);
    for transfer in &sharing.transfers {
        transfers.rows.push(vec![
            format!("{}>{}", transfer.from, transfer.to),
            goodput(transfer.goodput_bps),
        ]);
    }
    let mut hosts = Table::new(&[
        "one-shot reservations",
        "granted",
        "refused",
        "no answer",
        "until usable p50",
        "p99",
        "longest",
    ]);
    for host in &sharing.reservations {
        hosts.rows.push(vec![
            host.host.clone(),
            host.granted.to_string(),
            host.refused.to_string(),
            host.unanswered.to_string(),
            time(host.p50_ns),
            time(host.p99_ns.filter(|_| host.samples >= 100)),
            time(host.max_ns),
        ]);
    }
    links.print() + &transfers.print() + &hosts.print()
}

/// Returns a rate of user data in words.
pub(super) fn goodput(bps: f64) -> String {
    format!("{:.1} Mbit/s", bps / 1e6)
}

fn noise_table(noise: &NoiseRecord) -> String {
    let mut table = Table::new(&[
        "machine noise",
        "in force",
        "wake-ups",
        "p50",
        "p99",
        "p99.9",
        "latest",
        "stalls",
        "stalled",
        "stolen",
    ]);
    for core in &noise.cores {
        let late = core.overshoot_ns;
        table.rows.push(vec![
            format!("core {}", core.core),
            format!(
                "{} {}",
                core.policy.trim_start_matches("SCHED_"),
                core.priority
            ),
            late.map_or(0, |l| l.samples).to_string(),
            time(late.map(|l| l.p50)),
            time(late.and_then(|l| l.known_p99())),
            time(late.and_then(|l| l.known_p999())),
            time(late.map(|l| l.max)),
            core.stalls.to_string(),
            time(Some(core.stalled_ns)),
            time(Some(core.steal_ns)),
        ]);
    }
    let mut out = table.print();
    for core in &noise.cores {
        if let Some(fallback) = &core.fallback {
            out += &wrapped("  ", &format!("core {}: {fallback}", core.core));
        }
        if core.dropped_stalls > 0 {
            out += &wrapped(
                "  ",
                &format!(
                    "core {}: {} stalls did not fit into the record and excuse nothing",
                    core.core, core.dropped_stalls
                ),
            );
        }
    }
    let threshold = trimmed(noise.stall_threshold_ns as f64 / 1e3);
    out + &wrapped(
        "  ",
        &format!("a stall is a wake-up more than {threshold} µs late"),
    )
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

fn five(summary: Option<Summary>) -> [String; 5] {
    [
        summary.map(|s| s.min),
        summary.map(|s| s.p50),
        summary.and_then(|s| s.known_p99()),
        summary.and_then(|s| s.known_p999()),
        summary.map(|s| s.max),
    ]
    .map(time)
}

/// Rows with columns as wide as needed. The first column is cut if the terminal is too narrow.
struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    words_last: bool,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|h| (*h).to_owned()).collect(),
            rows: Vec::new(),
            words_last: false,
        }
    }

    fn print(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let mut widths = vec![0; self.head.len()];
        for line in lines() {
            for (width, text) in widths.iter_mut().zip(line) {
                *width = text.chars().count().max(*width);
            }
        }
        // Columns are two spaces apart, or one if there is too little room.
        let others: usize = widths.iter().skip(1).sum();
        let gap = if widths[0] + others + 2 * (widths.len() - 1) <= WIDTH {
            2
        } else {
            1
        };
        widths[0] = widths[0].min(
            WIDTH
                .saturating_sub(others + gap * (widths.len() - 1))
                .max(6),
        );
        let mut out = "\n".to_owned();
        for line in lines() {
            let mut text = format!(
                "{:<width$}",
                shortened(&line[0], widths[0]),
                width = widths[0]
            );
            for (i, field) in line.iter().enumerate().skip(1) {
                let width = widths[i];
                let words = self.words_last && i == line.len() - 1;
                text += &" ".repeat(gap);
                text += &if words {
                    field.clone()
                } else {
                    format!("{field:>width$}")
                };
            }
            out += text.trim_end();
            out.push('\n');
        }
        out
    }
}

/// Cuts a text to at most `width` columns and marks the cut. Control characters are replaced, because a terminal would
/// obey them.
fn shortened(text: &str, width: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= width {
        return text;
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Breaks a text at spaces into lines of the terminal's width, each behind `indent`.
fn wrapped(indent: &str, text: &str) -> String {
    let mut out = String::new();
    let mut line = indent.to_owned();
    for word in plain(text).split(' ') {
        let blank = line.len() == indent.len();
        if !blank && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out += &line;
            out.push('\n');
            line = indent.to_owned();
        } else if !blank {
            line.push(' ');
        }
        line += word;
    }
    out + &line + "\n"
}

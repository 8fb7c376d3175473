//! The tables of the HTML report.

use std::fmt::Write;

use super::model::{Calibration, HostReport, PortReport, Report, SharingReport, StreamReport};
use super::svg::escape;
use super::text::goodput;
use crate::noise::NoiseRecord;
use crate::summary::Summary;
use crate::units::{duration, grouped, rate, trimmed};
use crate::verdict::Verdict;

/// Returns the delays that are judged: those in the described network, or on a real network the delivered ones.
pub(super) fn judged(stream: &StreamReport) -> Option<Summary> {
    stream.exact_delay_ns.or(stream.network_delay_ns)
}

/// Returns the slowest frame in percent of the promise.
pub(super) fn used(stream: &StreamReport) -> Option<f64> {
    let promise = stream.promised_delay_ns.filter(|p| *p > 0)?;
    Some(judged(stream)?.max as f64 * 100.0 / promise as f64)
}

pub(super) fn badge(verdict: Verdict) -> String {
    let sign = match verdict {
        Verdict::Kept => "✓",
        Verdict::Broken => "✕",
        Verdict::Inconclusive => "?",
    };
    format!("<span class=\"badge {verdict}\">{sign} {verdict}</span>")
}

/// Writes the key figures: each a value and its name.
pub(crate) fn tiles(out: &mut String, tiles: &[(String, String)]) {
    out.push_str("<div class=\"tiles\">");
    for (value, name) in tiles {
        let _ = write!(
            out,
            "<div><b>{}</b><span>{}</span></div>",
            escape(value),
            escape(name)
        );
    }
    out.push_str("</div>");
}

/// Escapes a sentence and keeps units on one line with their numbers.
pub(crate) fn prose(text: &str) -> String {
    let mut out = escape(text);
    for unit in ["%", "s", "ms", "µs", "ns", "B"] {
        for end in [' ', '.', ',', ';', ':', ')'] {
            out = out.replace(&format!(" {unit}{end}"), &format!("\u{a0}{unit}{end}"));
        }
    }
    out
}

/// Returns an entry of a legend with a line as its mark.
pub(crate) fn key(style: &str, text: &str) -> String {
    format!(
        "<span class=\"key\"><i style=\"{style}\"></i>{}</span>",
        escape(text)
    )
}

/// Returns an entry of a legend with a box as its mark.
pub(crate) fn box_key(style: &str, text: &str) -> String {
    format!(
        "<span class=\"key\"><i class=\"box\" style=\"{style}\"></i>{}</span>",
        escape(text)
    )
}

/// A table being written. Each cell carries its column's name, so that a phone can show a row as a card.
pub(crate) struct Table<'a> {
    out: &'a mut String,
    columns: Vec<&'a str>,
    at: usize,
}

impl<'a> Table<'a> {
    /// A leading `<` marks a column of words.
    pub(crate) fn open(out: &'a mut String, columns: Vec<&'a str>) -> Table<'a> {
        out.push_str("<div class=\"scroll\"><table><thead><tr>");
        for column in &columns {
            match column.strip_prefix('<') {
                Some(words) => _ = write!(out, "<th class=\"l\">{words}</th>"),
                None => _ = write!(out, "<th>{column}</th>"),
            }
        }
        out.push_str("</tr></thead><tbody>");
        Table {
            out,
            columns,
            at: 0,
        }
    }

    pub(crate) fn row(&mut self) {
        if self.at > 0 {
            self.out.push_str("</tr>");
        }
        self.out.push_str("<tr>");
        self.at = 0;
    }

    /// Adds a cell of markup.
    fn raw(&mut self, class: &str, html: &str) {
        let column = self.columns.get(self.at).copied().unwrap_or_default();
        let words = column.strip_prefix('<');
        let class = match (words, class) {
            (Some(_), "") => "l".to_owned(),
            (Some(_), class) => format!("l {class}"),
            (None, class) => class.to_owned(),
        };
        let name = words.unwrap_or(column);
        let _ = write!(
            self.out,
            "<td class=\"{class}\" data-column=\"{name}\">{html}</td>"
        );
        self.at += 1;
    }

    pub(crate) fn cell(&mut self, class: &str, text: &str) {
        self.raw(class, &escape(text));
    }

    /// Adds a count that should be 0.
    pub(crate) fn fault(&mut self, count: u64) {
        self.cell(if count > 0 { "bad" } else { "" }, &grouped(count));
    }

    /// Adds three cells: p50, p99 and p99.9.
    fn percentiles(&mut self, summary: Option<Summary>) {
        for ns in [
            summary.map(|s| s.p50),
            summary.and_then(|s| s.known_p99()),
            summary.and_then(|s| s.known_p999()),
        ] {
            self.cell("", &time(ns));
        }
    }

    fn verdict(&mut self, verdict: Verdict) {
        self.raw("verdict", &badge(verdict));
    }

    pub(crate) fn close(self) {
        if self.at > 0 {
            self.out.push_str("</tr>");
        }
        self.out.push_str("</tbody></table></div>");
    }
}

pub(crate) fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "–".to_owned(), |ns| duration(ns).replace(' ', "\u{a0}"))
}

fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), |b| format!("{}\u{a0}B", grouped(b)))
}

fn name_of(stream: &StreamReport) -> String {
    let dot = if stream.description.is_empty() {
        ""
    } else {
        " · "
    };
    format!(
        "<b>{}</b><small>{} to {}{dot}{}</small>",
        escape(&stream.name),
        escape(&stream.talker),
        escape(&stream.listener),
        escape(&stream.description)
    )
}

/// Returns the direction of a link.
fn from_to(from: &str, to: &str) -> String {
    format!("<b>{}</b> to <b>{}</b>", escape(from), escape(to))
}

/// The most important columns come first, so they are visible without scrolling.
pub(super) fn streams(out: &mut String, streams: &[StreamReport]) {
    let published = streams.iter().any(|s| s.published_max_ns.is_some());
    let mut columns = vec![
        "Network delay of stream",
        "<Verdict",
        "Deadline",
        "Promised",
        "Slowest",
        "Promise used",
        "p50",
        "p99",
        "Judged on",
    ];
    if published {
        columns.insert(6, "Slowest published");
    }
    let mut table = Table::open(out, columns);
    for stream in streams {
        table.row();
        table.raw("", &name_of(stream));
        let delay = judged(stream);
        table.verdict(stream.verdict);
        table.cell("", &time(stream.deadline_ns));
        table.cell("strong", &time(stream.promised_delay_ns));
        table.cell("strong", &time(delay.map(|d| d.max)));
        table.raw("", &meter(stream));
        if published {
            table.cell("", &time(stream.published_max_ns));
        }
        table.cell("", &time(delay.map(|d| d.p50)));
        table.cell("", &time(delay.and_then(|d| d.known_p99())));
        table.cell("", &format!("{:.1}\u{a0}%", stream.coverage_percent));
    }
    table.close();
    if streams.iter().any(|stream| stream.exact_delay_ns.is_some()) {
        out.push_str(
            "<p><small>Slowest, p50, p99: the delay in the described network, from a replay of all frames as they were \
             really sent; it is judged. Judged on: the share of the frames whose delivery needed no explanation.</small></p>",
        );
        delivered(out, streams);
    }
}

/// The delay in the emulated network, whose errors need a recorded cause.
fn delivered(out: &mut String, streams: &[StreamReport]) {
    let columns = vec![
        "As the emulation delivered it",
        "Slowest",
        "Min",
        "p50",
        "p99",
        "p99.9",
        "Late by stalls",
        "Late without a cause",
    ];
    let mut table = Table::open(out, columns);
    for stream in streams {
        table.row();
        table.raw("", &at_listener(stream));
        let delay = stream.network_delay_ns;
        table.cell("", &time(delay.map(|d| d.max)));
        table.cell("", &time(delay.map(|d| d.min)));
        table.percentiles(delay);
        table.cell("", &grouped(stream.frames_explained));
        table.fault(stream.frames_unexplained);
    }
    table.close();
}

/// Returns the stream's name and its listener, on one line.
fn at_listener(stream: &StreamReport) -> String {
    format!(
        "<b>{}</b> <small style=\"display:inline\">at {}</small>",
        escape(&stream.name),
        escape(&stream.listener)
    )
}

/// Draws the used share of the promise as a bar with a notch at the median.
fn meter(stream: &StreamReport) -> String {
    let (Some(percent), Some(delay), Some(promise)) =
        (used(stream), judged(stream), stream.promised_delay_ns)
    else {
        return "–".to_owned();
    };
    let notch = (delay.p50 as f64 * 100.0 / promise as f64).min(100.0);
    let class = match stream.verdict {
        Verdict::Broken if percent > 100.0 => "broken",
        _ if percent > 100.0 => "inconclusive",
        _ => "kept",
    };
    format!(
        "<span class=\"meter {class}\"><i style=\"width:{:.1}%\"></i><em style=\"left:{notch:.1}%\"></em></span>{}\u{a0}%",
        percent.min(100.0),
        trimmed(percent.round())
    )
}

pub(super) fn frames(out: &mut String, streams: &[StreamReport]) {
    let columns = vec![
        "Frames, and delay between applications",
        "Sent",
        "Lost",
        "Twice",
        "Out of order",
        "Explained",
        "Unexplained",
        "No stamps",
        "App slowest",
        "App min",
        "App p50",
        "App p99",
        "App p99.9",
    ];
    let mut table = Table::open(out, columns);
    for stream in streams {
        table.row();
        table.raw("", &at_listener(stream));
        table.cell("", &grouped(stream.frames_sent));
        table.fault(stream.frames_lost);
        table.fault(stream.frames_duplicated);
        table.fault(stream.frames_reordered);
        table.cell("", &grouped(stream.frames_explained));
        table.fault(stream.frames_unexplained);
        table.cell("", &grouped(stream.stamps_missing));
        let delay = stream.app_delay_ns;
        table.cell("", &time(delay.map(|d| d.max)));
        table.cell("", &time(delay.map(|d| d.min)));
        table.percentiles(delay);
    }
    table.close();
    for (way, names) in super::text::ways(streams) {
        let (way, names) = (escape(&way), escape(&names.join(", ")));
        out.push_str(&format!("<p><small>Frames {way}: {names}.</small></p>"));
    }
}

pub(super) fn ports(out: &mut String, ports: &[PortReport]) {
    let mut columns = vec![
        "Port",
        "<Verdict",
        "Promised backlog",
        "Highest backlog",
        "Buffer",
        "Dropped",
        "Utilization",
        "Link",
    ];
    let all_kept = ports.iter().all(|p| p.verdict == Verdict::Kept);
    if !all_kept {
        columns.push("<");
    }
    let mut table = Table::open(out, columns);
    for port in ports {
        table.row();
        table.raw("", &from_to(&port.switch, &port.port));
        table.verdict(port.verdict);
        table.cell("strong", &bytes(port.promised_backlog_bytes));
        table.cell("strong", &bytes(port.max_backlog_bytes));
        table.cell("", &bytes(port.buffer_bytes));
        table.fault(port.frames_dropped);
        table.cell("", &format!("{:.1} %", port.utilization_percent));
        table.cell("", &rate(port.link_rate_bps));
        if !all_kept {
            let reasons = if port.verdict == Verdict::Kept {
                String::new()
            } else {
                port.reasons.join(" ")
            };
            table.raw("wrap", &prose(&reasons));
        }
    }
    table.close();
}

pub(super) fn hosts(out: &mut String, hosts: &[HostReport]) {
    let columns = vec![
        "Host",
        "Shaper time",
        "of one core",
        "Wake-ups",
        "Skipped",
        "Tick error declared",
        "Latest tick",
        "p50",
        "p99",
        "p99.9",
    ];
    let mut table = Table::open(out, columns);
    for host in hosts {
        table.row();
        table.raw("", &format!("<b>{}</b>", escape(&host.name)));
        table.cell("", &time(host.shaper_cpu_ns));
        table.cell(
            "",
            &host
                .shaper_cpu_percent
                .map_or_else(|| "–".to_owned(), |p| format!("{p:.2} %")),
        );
        table.cell("", &grouped(host.wakeups));
        table.cell("", &grouped(host.ticks_skipped));
        table.cell("strong", &time(host.tick_error_declared_ns));
        let tick = host.tick_overshoot_ns;
        let latest = tick.map(|t| t.max);
        let beyond = latest
            .zip(host.tick_error_declared_ns)
            .is_some_and(|(max, declared)| max > declared);
        table.cell(if beyond { "bad" } else { "strong" }, &time(latest));
        table.percentiles(tick);
    }
    table.close();
}

pub(super) fn sharing(out: &mut String, sharing: &SharingReport) {
    let percent = |value: f64| format!("{value:.1} %");
    let columns = vec![
        "Link",
        "Rate",
        "Real time",
        "Best effort",
        "of what is free",
        "Transfers",
        "Fairness (Jain)",
    ];
    let mut table = Table::open(out, columns);
    for link in &sharing.links {
        table.row();
        table.raw("", &from_to(&link.node, &link.port));
        table.cell("", &rate(link.link_rate_bps));
        table.cell("", &percent(link.real_time_percent));
        table.cell("", &percent(link.best_effort_percent));
        table.cell("strong", &percent(link.of_free_percent));
        table.cell("", &grouped(link.transfers));
        let fairness = link.fairness.map(|fairness| format!("{fairness:.3}"));
        table.cell("", fairness.as_deref().unwrap_or("–"));
    }
    table.close();
    let mut table = Table::open(out, vec!["Transfer by TCP", "Goodput"]);
    for transfer in &sharing.transfers {
        table.row();
        table.raw("", &from_to(&transfer.from, &transfer.to));
        table.cell("strong", &goodput(transfer.goodput_bps));
    }
    table.close();
    let columns = vec![
        "One-shot reservations of",
        "Granted",
        "Refused",
        "No answer in time",
        "Until usable: p50",
        "p99",
        "Longest",
    ];
    let mut table = Table::open(out, columns);
    for host in &sharing.reservations {
        table.row();
        table.raw("", &format!("<b>{}</b>", escape(&host.host)));
        table.cell("", &grouped(host.granted));
        table.cell("", &grouped(host.refused));
        table.cell("", &grouped(host.unanswered));
        table.cell("", &time(host.p50_ns));
        table.cell("", &time(host.p99_ns.filter(|_| host.samples >= 100)));
        table.cell("", &time(host.max_ns));
    }
    table.close();
}

pub(super) fn calibration(out: &mut String, ports: &[Calibration]) {
    let columns = vec!["Port", "Latency in the plan", "Frames", "p50", "Slowest"];
    let mut table = Table::open(out, columns);
    for port in ports {
        table.row();
        table.raw("", &from_to(&port.node, &port.port));
        table.cell("strong", &time(Some(port.latency_ns)));
        table.cell("", &grouped(port.samples));
        table.cell("", &time(Some(port.p50_ns)));
        table.cell("", &time(Some(port.max_ns)));
    }
    table.close();
}

pub(super) fn noise(out: &mut String, noise: &NoiseRecord) {
    let columns = vec![
        "Core",
        "<In force",
        "Stalls",
        "Stalled",
        "Latest",
        "Stolen",
        "Not recorded",
        "Wake-ups",
        "p50",
        "p99",
        "p99.9",
    ];
    let mut table = Table::open(out, columns);
    for core in &noise.cores {
        table.row();
        table.raw("", &format!("<b>{}</b>", core.core));
        let mut force = format!("{} {}", escape(&core.policy), core.priority);
        if let Some(fallback) = &core.fallback {
            let _ = write!(force, "<small>{}</small>", escape(fallback));
        }
        table.raw("", &force);
        let late = core.overshoot_ns;
        table.cell("strong", &grouped(core.stalls));
        table.cell("", &time(Some(core.stalled_ns)));
        table.cell("", &time(late.map(|l| l.max)));
        table.cell("", &time(Some(core.steal_ns)));
        table.fault(core.dropped_stalls);
        table.cell("", &grouped(late.map_or(0, |l| l.samples)));
        table.percentiles(late);
    }
    table.close();
}

pub(super) fn origin(out: &mut String, report: &Report) {
    let m = &report.machine;
    let kind = if m.virtualized {
        "virtual machine"
    } else {
        "no hypervisor reported"
    };
    let rule = &report.rule;
    let percent = |ppm: u32| trimmed(f64::from(ppm) / 10_000.0);
    let mut facts = vec![
        (
            "Started",
            format!(
                "{}, ran {} s",
                report.started_at,
                trimmed(report.duration_s)
            ),
        ),
        (
            "Machine",
            format!(
                "{}, {} cores, {} MiB, {}, {kind}",
                m.model,
                m.cpus,
                grouped(m.memory_bytes >> 20),
                m.architecture
            ),
        ),
        ("Kernel", m.kernel.clone()),
        ("Preemption", m.preemption.clone()),
        ("Clock source", m.clocksource.clone()),
        ("rtwire", m.rtwire_version.clone()),
        ("Plan", report.plan_hash.clone()),
        (
            "Judged by",
            format!(
                "at least {} frames a stream, at most {} % excluded, at most {} % without stamps, at most {} % excusable, at least {} % of the load offered",
                grouped(rule.min_samples),
                percent(rule.max_excluded_ppm),
                percent(rule.max_missing_ppm),
                percent(rule.max_exposed_ppm),
                percent(rule.min_offered_ppm)
            ),
        ),
    ];
    if !m.settings.is_empty() {
        facts.insert(5, ("Settings", m.settings.join(", ")));
    }
    out.push_str("<dl>");
    for (name, fact) in facts {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&fact));
    }
    out.push_str("</dl>");
}

//! The tables of the HTML report.

use std::fmt::Write;

use super::model::{Calibration, HostReport, PortReport, Report, StreamReport};
use super::svg::escape;
use crate::noise::NoiseRecord;
use crate::summary::Summary;
use crate::units::{duration, grouped, rate, trimmed};
use crate::verdict::Verdict;

/// The slowest frame in percent of the promise.
pub(super) fn used(stream: &StreamReport) -> Option<f64> {
    let promise = stream.promised_delay_ns.filter(|p| *p > 0)?;
    Some(stream.network_delay_ns?.max as f64 * 100.0 / promise as f64)
}

pub(super) fn badge(verdict: Verdict) -> String {
    let sign = match verdict {
        Verdict::Kept => "✓",
        Verdict::Broken => "✕",
        Verdict::Inconclusive => "?",
    };
    format!("<span class=\"badge {verdict}\">{sign} {verdict}</span>")
}

/// A sentence, escaped, whose units stay with their numbers.
pub(super) fn prose(text: &str) -> String {
    let mut out = escape(text);
    for unit in ["%", "s", "ms", "µs", "ns", "B"] {
        for end in [' ', '.', ',', ';', ':', ')'] {
            out = out.replace(&format!(" {unit}{end}"), &format!("\u{a0}{unit}{end}"));
        }
    }
    out
}

/// An entry of a legend with a line as its sign.
pub(super) fn key(style: &str, text: &str) -> String {
    format!(
        "<span class=\"key\"><i style=\"{style}\"></i>{}</span>",
        escape(text)
    )
}

/// An entry of a legend with a box as its sign.
pub(super) fn box_key(style: &str, text: &str) -> String {
    format!(
        "<span class=\"key\"><i class=\"box\" style=\"{style}\"></i>{}</span>",
        escape(text)
    )
}

fn open(out: &mut String, columns: &[&str]) {
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for column in columns {
        // A leading `<` marks a column of words.
        match column.strip_prefix('<') {
            Some(words) => _ = write!(out, "<th class=\"l\">{words}</th>"),
            None => _ = write!(out, "<th>{column}</th>"),
        }
    }
    out.push_str("</tr></thead><tbody>");
}

fn close(out: &mut String) {
    out.push_str("</tbody></table></div>");
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "–".to_owned(), |ns| duration(ns).replace(' ', "\u{a0}"))
}

fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), |b| format!("{}\u{a0}B", grouped(b)))
}

fn cell(out: &mut String, class: &str, text: &str) {
    let _ = write!(out, "<td class=\"{class}\">{}</td>", escape(text));
}

/// A count that should be 0.
fn fault(out: &mut String, count: u64) {
    cell(out, if count > 0 { "bad" } else { "" }, &grouped(count));
}

/// Three cells: p50, p99 and p99.9.
fn percentiles(out: &mut String, summary: Option<Summary>) {
    for ns in [
        summary.map(|s| s.p50),
        summary.map(|s| s.p99),
        summary.map(|s| s.p999),
    ] {
        cell(out, "", &time(ns));
    }
}

fn name_cell(out: &mut String, stream: &StreamReport) {
    let _ = write!(
        out,
        "<td><b>{}</b><small>{} to {}{}{}</small></td>",
        escape(&stream.name),
        escape(&stream.talker),
        escape(&stream.listener),
        if stream.description.is_empty() {
            ""
        } else {
            " · "
        },
        escape(&stream.description)
    );
}

pub(super) fn streams(out: &mut String, streams: &[StreamReport]) {
    let published = streams.iter().any(|s| s.published_max_ns.is_some());
    let mut columns = vec![
        "Network delay of stream",
        "Promised",
        "Min",
        "p50",
        "p99",
        "p99.9",
        "Slowest",
        "Promise used",
    ];
    if published {
        columns.insert(7, "Slowest published");
    }
    columns.push("<Verdict");
    open(out, &columns);
    for stream in streams {
        out.push_str("<tr>");
        name_cell(out, stream);
        let delay = stream.network_delay_ns;
        cell(out, "strong", &time(stream.promised_delay_ns));
        cell(out, "", &time(delay.map(|d| d.min)));
        percentiles(out, delay);
        cell(out, "strong", &time(delay.map(|d| d.max)));
        if published {
            cell(out, "", &time(stream.published_max_ns));
        }
        meter(out, stream);
        let _ = write!(out, "<td class=\"l\">{}</td></tr>", badge(stream.verdict));
    }
    close(out);
}

/// How much of the promise was used, as a bar with a notch at the median.
fn meter(out: &mut String, stream: &StreamReport) {
    let (Some(percent), Some(delay), Some(promise)) = (
        used(stream),
        stream.network_delay_ns,
        stream.promised_delay_ns,
    ) else {
        cell(out, "", "–");
        return;
    };
    let notch = (delay.p50 as f64 * 100.0 / promise as f64).min(100.0);
    let class = match stream.verdict {
        Verdict::Broken if percent > 100.0 => "broken",
        _ if percent > 100.0 => "inconclusive",
        _ => "kept",
    };
    let _ = write!(
        out,
        "<td><span class=\"meter {class}\"><i style=\"width:{:.1}%\"></i><em style=\"left:{notch:.1}%\"></em></span>{} %</td>",
        percent.min(100.0),
        trimmed(percent.round())
    );
}

pub(super) fn frames(out: &mut String, streams: &[StreamReport]) {
    open(
        out,
        &[
            "Frames, and delay between applications",
            "Sent",
            "Lost",
            "Twice",
            "Out of order",
            "Excluded",
            "No stamps",
            "App min",
            "App p50",
            "App p99",
            "App p99.9",
            "App slowest",
        ],
    );
    for stream in streams {
        let _ = write!(
            out,
            "<tr><td><b>{}</b> <small style=\"display:inline\">at {}</small></td>",
            escape(&stream.name),
            escape(&stream.listener)
        );
        cell(out, "", &grouped(stream.frames_sent));
        fault(out, stream.frames_lost);
        fault(out, stream.frames_duplicated);
        fault(out, stream.frames_reordered);
        cell(out, "", &grouped(stream.samples_excluded));
        cell(out, "", &grouped(stream.stamps_missing));
        let delay = stream.app_delay_ns;
        cell(out, "", &time(delay.map(|d| d.min)));
        percentiles(out, delay);
        cell(out, "", &time(delay.map(|d| d.max)));
        out.push_str("</tr>");
    }
    close(out);
}

pub(super) fn ports(out: &mut String, ports: &[PortReport]) {
    let mut columns = vec![
        "Port",
        "Link",
        "Utilization",
        "Promised backlog",
        "Highest backlog",
        "Buffer",
        "Dropped",
        "<Verdict",
    ];
    let all_kept = ports.iter().all(|p| p.verdict == Verdict::Kept);
    if !all_kept {
        columns.push("<");
    }
    open(out, &columns);
    for port in ports {
        let _ = write!(
            out,
            "<tr><td><b>{}</b> to <b>{}</b></td>",
            escape(&port.switch),
            escape(&port.port)
        );
        cell(out, "", &rate(port.link_rate_bps));
        cell(out, "", &format!("{:.1} %", port.utilization_percent));
        cell(out, "strong", &bytes(port.promised_backlog_bytes));
        cell(out, "strong", &bytes(port.max_backlog_bytes));
        cell(out, "", &bytes(port.buffer_bytes));
        fault(out, port.frames_dropped);
        let _ = write!(out, "<td class=\"l\">{}</td>", badge(port.verdict));
        if !all_kept {
            let reasons = if port.verdict == Verdict::Kept {
                String::new()
            } else {
                port.reasons.join(" ")
            };
            let _ = write!(out, "<td class=\"l wrap\">{}</td>", prose(&reasons));
        }
        out.push_str("</tr>");
    }
    close(out);
}

pub(super) fn hosts(out: &mut String, hosts: &[HostReport]) {
    open(
        out,
        &[
            "Host",
            "Shaper time",
            "of one core",
            "Wake-ups",
            "Skipped",
            "Tick error declared",
            "p50",
            "p99",
            "p99.9",
            "Latest tick",
        ],
    );
    for host in hosts {
        let _ = write!(out, "<tr><td><b>{}</b></td>", escape(&host.name));
        cell(out, "", &time(host.shaper_cpu_ns));
        cell(
            out,
            "",
            &host
                .shaper_cpu_percent
                .map_or_else(|| "–".to_owned(), |p| format!("{p:.2} %")),
        );
        cell(out, "", &grouped(host.wakeups));
        cell(out, "", &grouped(host.ticks_skipped));
        cell(out, "strong", &time(host.tick_error_declared_ns));
        let tick = host.tick_overshoot_ns;
        percentiles(out, tick);
        let latest = tick.map(|t| t.max);
        let beyond = latest
            .zip(host.tick_error_declared_ns)
            .is_some_and(|(max, declared)| max > declared);
        cell(out, if beyond { "bad" } else { "strong" }, &time(latest));
        out.push_str("</tr>");
    }
    close(out);
}

pub(super) fn calibration(out: &mut String, ports: &[Calibration]) {
    open(
        out,
        &["Port", "Latency in the plan", "Frames", "p50", "Slowest"],
    );
    for port in ports {
        let _ = write!(
            out,
            "<tr><td><b>{}</b> to <b>{}</b></td>",
            escape(&port.node),
            escape(&port.port)
        );
        cell(out, "strong", &time(Some(port.latency_ns)));
        cell(out, "", &grouped(port.samples));
        cell(out, "", &time(Some(port.p50_ns)));
        cell(out, "", &time(Some(port.max_ns)));
        out.push_str("</tr>");
    }
    close(out);
}

pub(super) fn noise(out: &mut String, noise: &NoiseRecord) {
    open(
        out,
        &[
            "Core",
            "<In force",
            "Wake-ups",
            "p50",
            "p99",
            "p99.9",
            "Latest",
            "Stalls",
            "Stalled",
            "Stolen",
            "Not recorded",
        ],
    );
    for core in &noise.cores {
        let _ = write!(out, "<tr><td><b>{}</b></td>", core.core);
        let _ = write!(
            out,
            "<td class=\"l\">{} {}",
            escape(&core.policy),
            core.priority
        );
        if let Some(fallback) = &core.fallback {
            let _ = write!(out, "<small>{}</small>", escape(fallback));
        }
        out.push_str("</td>");
        let late = core.overshoot_ns;
        cell(out, "", &grouped(late.map_or(0, |l| l.samples)));
        percentiles(out, late);
        cell(out, "", &time(late.map(|l| l.max)));
        cell(out, "strong", &grouped(core.stalls));
        cell(out, "", &time(Some(core.stalled_ns)));
        cell(out, "", &time(Some(core.steal_ns)));
        fault(out, core.dropped_stalls);
        out.push_str("</tr>");
    }
    close(out);
}

pub(super) fn origin(out: &mut String, report: &Report) {
    let m = &report.machine;
    let kind = if m.virtualized {
        "virtual machine"
    } else {
        "no hypervisor seen"
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
                "at least {} frames a stream, at most {} % excluded, at most {} % without stamps, excuses ready for at most {} %, at least {} % of the load offered",
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

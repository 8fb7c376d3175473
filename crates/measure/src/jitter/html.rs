//! The jitter report as one HTML file, in the style of the other reports.

use std::fmt::Write;

use super::charts;
use super::model::{JitterReport, NodeReport};
use crate::report::Machine;
use crate::report::html::STYLE;
use crate::report::html_tables::{Table, box_key, key, prose, tiles, time};
use crate::report::svg::escape;
use crate::summary::Summary;
use crate::units::{duration, grouped, rate, trimmed};

impl JitterReport {
    /// Returns the report as one self-contained HTML file: no network, no script, no font. All texts are escaped.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut out = String::with_capacity(128 * 1024);
        let title = format!("POWERLINK jitter: {}", self.source);
        open_page(&mut out, &title, &self.machine);
        self.head(&mut out, &title);
        self.soc_section(&mut out);
        self.nodes_section(&mut out);
        self.utilization_section(&mut out);
        self.asynchronous_section(&mut out);
        self.worst_section(&mut out);
        self.origin_section(&mut out);
        out.push_str("</main></body></html>\n");
        out
    }

    fn head(&self, out: &mut String, title: &str) {
        let _ = write!(
            out,
            "<div class=\"brand\">rtwire jitter · {} · {}</div><h1>{}</h1>",
            escape(self.first_packet_at.as_deref().unwrap_or("no times")),
            escape(&duration(self.duration_ns)),
            escape(title),
        );
        if self.limits.soc_ns.is_some() || self.limits.pres_ns.is_some() {
            let (class, sentence) = if self.limits.broken.is_empty() {
                ("kept", "✓ Within the limits.")
            } else {
                ("broken", "✕ Not within the limits.")
            };
            let _ = write!(
                out,
                "<div class=\"head {class}\" id=\"verdict\" data-verdict=\"{class}\"><p class=\"word\">{sentence}</p><ul>"
            );
            for reason in &self.limits.broken {
                let _ = write!(out, "<li>{}</li>", prose(reason));
            }
            out.push_str("</ul></div>");
        }
        tiles(out, &self.tiles());
    }

    fn tiles(&self) -> Vec<(String, String)> {
        let mut tiles = Vec::new();
        if let Some(cycle) = &self.cycle {
            let how = if cycle.stated { "stated" } else { "found" };
            tiles.push((duration(cycle.cycle_ns), format!("cycle, {how}")));
        }
        if let Some(soc) = &self.soc {
            tiles.push((
                duration(soc.deviation_ns.p50),
                "SoC deviation, median".to_owned(),
            ));
            tiles.push((
                duration(soc.deviation_ns.max),
                "SoC deviation, greatest".to_owned(),
            ));
        }
        if let Some(latency) = &self.latency_ns {
            tiles.push((duration(latency.p50), "PReq–PRes, median".to_owned()));
            tiles.push((duration(latency.max), "PReq–PRes, longest".to_owned()));
        }
        let sum = |f: fn(&NodeReport) -> u64| grouped(self.nodes.iter().map(f).sum());
        tiles.push((sum(|n| n.lost), "PRes lost".to_owned()));
        tiles.push((sum(|n| n.late), "PRes late".to_owned()));
        tiles
    }

    fn soc_section(&self, out: &mut String) {
        let (Some(soc), Some(cycle)) = (&self.soc, &self.cycle) else {
            return;
        };
        let _ = write!(
            out,
            "<h2>SoC–SoC jitter</h2><p class=\"lead\">{}</p>",
            prose(&format!(
                "Difference between each SoC–SoC interval and the cycle of {}. {} SoC are missing by the length of the intervals; the cycle restarted {} times.",
                duration(cycle.cycle_ns),
                grouped(soc.missing),
                grouped(soc.restarts)
            ))
        );
        let mut table = Table::open(out, summary_columns("<what"));
        for (name, summary) in [
            ("interval", soc.interval_ns),
            ("deviation", soc.deviation_ns),
        ] {
            table.row();
            table.cell("", name);
            summary_cells(&mut table, Some(summary));
        }
        table.close();
        let _ = write!(
            out,
            "<div class=\"pair\"><figure>{}</figure><figure>{}<figcaption>{}{}</figcaption></figure><figure>{}</figure></div>",
            charts::histogram(
                "Histogram of SoC deviations",
                "SoC by their deviation from the cycle",
                &soc.histogram
            ),
            charts::over_time(
                "SoC deviation over time",
                &soc.over_time,
                self.duration_ns,
                self.limits.soc_ns
            ),
            key("background:var(--net)", "median"),
            box_key("background:var(--net-band)", "least to greatest"),
            charts::distribution(
                "Distribution of SoC deviations",
                "SoC that deviated at least this much",
                &[("network", &soc.ccdf)]
            ),
        );
    }

    fn nodes_section(&self, out: &mut String) {
        if self.nodes.is_empty() {
            return;
        }
        out.push_str("<h2>PReq–PRes</h2><p class=\"lead\">From the poll request to the poll response, as the capture’s stamps say. Late: after the managing node’s next PReq, SoA or SoC. Lost: missing before the node’s next poll request.</p>");
        let mut columns = summary_columns("<node");
        columns.splice(1..1, ["<state", "PReq", "PRes", "late", "lost"]);
        let mut table = Table::open(out, columns);
        for node in &self.nodes {
            table.row();
            table.cell("", &node.node.to_string());
            table.cell("", node.last_state.as_deref().unwrap_or("–"));
            table.cell("", &grouped(node.polled));
            table.cell("", &grouped(node.answered + node.unasked));
            table.fault(node.late);
            table.fault(node.lost);
            summary_cells(&mut table, node.latency_ns);
        }
        table.close();
        for node in self.nodes.iter().filter(|n| n.latency_ns.is_some()) {
            let title = format!("PReq–PRes of node {}", node.node);
            let _ = write!(
                out,
                "<section class=\"pair\"><header><h3>Node {}</h3></header><figure>{}</figure><figure>{}</figure></section>",
                node.node,
                charts::histogram(
                    &format!("{title}, histogram"),
                    "PRes by the time they took",
                    &node.histogram
                ),
                charts::over_time(
                    &format!("{title} over time"),
                    &node.over_time,
                    self.duration_ns,
                    self.limits.pres_ns
                ),
            );
        }
    }

    fn utilization_section(&self, out: &mut String) {
        let Some(used) = &self.utilization else {
            return;
        };
        let percent = |value: f64| format!("{} %", trimmed((value * 100.0).round() / 100.0));
        let _ = write!(
            out,
            "<h2>The cycle’s use</h2><p class=\"lead\">{}</p>",
            prose(&format!(
                "The isochronous phase (SoC to SoA) takes {} of the cycle at the median and {} at most; the frames themselves {} and {} at {}.",
                used.isochronous_percent_p50
                    .map_or_else(|| "–".to_owned(), percent),
                used.isochronous_percent_max
                    .map_or_else(|| "–".to_owned(), percent),
                percent(used.wire_percent_p50),
                percent(used.wire_percent_max),
                rate(used.link_rate_bps),
            ))
        );
        let mut table = Table::open(out, summary_columns("<what"));
        table.row();
        table.cell("", "isochronous phase");
        summary_cells(&mut table, used.isochronous_ns);
        table.row();
        table.cell("", "frames on the wire");
        summary_cells(&mut table, Some(used.wire_ns));
        table.close();
    }

    fn asynchronous_section(&self, out: &mut String) {
        if self.asynchronous.is_empty() {
            return;
        }
        out.push_str("<h2>Asynchronous phase</h2><p class=\"lead\">Nodes that a SoA invited, and their ASnd before the next SoA or SoC. An absent node does not answer.</p>");
        let mut columns = summary_columns("<node");
        columns.splice(1..1, ["asked", "answered"]);
        let mut table = Table::open(out, columns);
        for node in &self.asynchronous {
            table.row();
            table.cell("", &node.node.to_string());
            table.cell("", &grouped(node.asked));
            table.cell("", &grouped(node.answered));
            summary_cells(&mut table, node.latency_ns);
        }
        table.close();
    }

    fn origin_section(&self, out: &mut String) {
        let machine = &self.machine;
        let _ = write!(
            out,
            "<h2>Command and machine</h2><pre>{}</pre><dl>",
            escape(&self.command)
        );
        for (name, text) in [
            ("Capture", format!("{}, {}", self.source, self.format)),
            (
                "Analysed on",
                format!("{}, {} cores", machine.model, machine.cpus),
            ),
            ("Kernel", machine.kernel.clone()),
            ("rtwire", machine.rtwire_version.clone()),
        ] {
            let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&text));
        }
        out.push_str("</dl>");
        if !self.notes.is_empty() {
            out.push_str("<h2>Notes</h2>");
            self.notes_list(out);
        }
    }

    /// Adds the notes for the reader.
    pub(super) fn notes_list(&self, out: &mut String) {
        out.push_str("<ul>");
        for note in &self.notes {
            let _ = write!(out, "<li>{}</li>", prose(note));
        }
        out.push_str("</ul>");
    }

    fn worst_section(&self, out: &mut String) {
        if self.worst.is_empty() {
            return;
        }
        out.push_str("<h2>Worst cases</h2>");
        let mut table = Table::open(out, vec!["<what", "packet", "at"]);
        for case in &self.worst {
            table.row();
            table.cell("", &case.words);
            table.cell("", &grouped(case.number));
            table.cell("", &time(Some(case.at_ns)));
        }
        table.close();
    }
}

/// Writes the start of an HTML file, up to its first words. The file must end with `</main></body></html>`.
pub(super) fn open_page(out: &mut String, title: &str, machine: &Machine) {
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"generator\" content=\"rtwire {}\"><title>{}</title><style>{STYLE}</style></head><body><main>",
        escape(&machine.rtwire_version),
        escape(title)
    );
}

pub(super) fn summary_columns(first: &'static str) -> Vec<&'static str> {
    vec![first, "min", "p50", "p99", "p99.9", "max", "samples"]
}

pub(super) fn summary_cells(table: &mut Table<'_>, summary: Option<Summary>) {
    let part = |f: fn(Summary) -> u64| time(summary.map(f));
    for text in [
        part(|s| s.min),
        part(|s| s.p50),
        part(|s| s.p99),
        part(|s| s.p999),
        part(|s| s.max),
    ] {
        table.cell("", &text);
    }
    table.cell("", &grouped(summary.map_or(0, |s| s.samples)));
}

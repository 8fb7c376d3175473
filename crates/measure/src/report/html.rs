//! The report as one HTML file: text, tables and SVG, no script, nothing loaded from elsewhere.

use std::fmt::Write;

use super::html_tables as tables;
use super::model::{Report, StreamReport};
use super::svg::escape;
use super::{chart, drawing, noise_plot};
use crate::units::{duration, grouped, share, trimmed};
use crate::verdict::{StallLine, Verdict};

pub(crate) const STYLE: &str = include_str!("style.css");

impl Report {
    /// Returns the report as one self-contained HTML file: no network, no script, no font. It follows the reader's
    /// light or dark preference, prints in light on A4 and is readable on a phone. All texts are escaped.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut out = String::with_capacity(256 * 1024);
        let stalls = self.network_stalls();
        let title = format!("{}: {}", self.title, self.verdict);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta name=\"generator\" content=\"rtwire {}\"><title>{}</title><style>{STYLE}</style></head><body><main>",
            escape(&self.machine.rtwire_version),
            escape(&title)
        );
        self.head(&mut out);
        self.streams_section(&mut out, &stalls);
        self.ports_section(&mut out, &stalls);
        self.network_section(&mut out);
        self.sharing_section(&mut out);
        self.hosts_section(&mut out);
        self.noise_section(&mut out);
        self.origin_section(&mut out);
        out.push_str("</main></body></html>\n");
        out
    }

    fn duration_ns(&self) -> u64 {
        (self.duration_s.max(0.0) * 1e9) as u64
    }

    /// Returns the merged stalls as (start, end) in ns since the run began. Gaps too short for the plots are closed.
    fn network_stalls(&self) -> Vec<(u64, u64)> {
        let Some(noise) = &self.noise else {
            return Vec::new();
        };
        let since = |t: u64| {
            t.saturating_sub(self.started_tai_ns)
                .min(self.duration_ns())
        };
        let record = noise.stall_record();
        let line = StallLine::new(record.certain().map(|(from, to)| (since(from), since(to))));
        let invisible_ns = self.duration_ns() / 1_000;
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in line.intervals() {
            match merged.last_mut() {
                Some(last) if from - last.1 < invisible_ns => last.1 = to,
                _ => merged.push((from, to)),
            }
        }
        merged
    }

    fn head(&self, out: &mut String) {
        let verdict = self.verdict;
        let sentence = match verdict {
            Verdict::Kept => "✓ Kept: the measurement is within the promises.",
            Verdict::Broken => "✕ Broken: a promise was not kept.",
            Verdict::Inconclusive => "? Inconclusive: this run proves neither.",
        };
        let _ = write!(
            out,
            "<div class=\"brand\">rtwire report · {} · {}</div><h1>{}</h1><div class=\"head {verdict}\" id=\"verdict\" data-verdict=\"{verdict}\"><p class=\"word\">{sentence}</p><ul>",
            escape(&self.started_at),
            escape(&duration(self.duration_ns())),
            escape(&self.title),
        );
        const SHOWN: usize = 8;
        for reason in self.reasons.iter().take(SHOWN) {
            let _ = write!(out, "<li>{}</li>", tables::prose(reason));
        }
        if self.reasons.len() > SHOWN {
            let _ = write!(
                out,
                "<li>and {} more, listed at each stream and port below.</li>",
                self.reasons.len() - SHOWN
            );
        }
        out.push_str("</ul></div>");
        tables::tiles(out, &self.key_figures());
    }

    /// Returns the key figures.
    fn key_figures(&self) -> Vec<(String, String)> {
        let sum = |f: fn(&StreamReport) -> u64| {
            grouped(self.streams.iter().map(f).fold(0, u64::saturating_add))
        };
        let mut figures = vec![(sum(|s| s.frames_received), "frames measured".to_owned())];
        figures.push((sum(|s| s.frames_lost), "frames lost".to_owned()));
        figures.push((
            sum(|s| s.frames_unexplained),
            "frames late without a cause".to_owned(),
        ));
        figures.push((
            sum(|s| s.frames_explained),
            "frames late by recorded stalls".to_owned(),
        ));
        let closest = self
            .streams
            .iter()
            .filter_map(|s| Some((tables::used(s)?, s)))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((share, stream)) = closest {
            figures.push((
                format!("{} %", trimmed((share * 10.0).round() / 10.0)),
                format!("of its promise used by {}, the most", stream.name),
            ));
        }
        if let Some(port) = self
            .ports
            .iter()
            .max_by(|a, b| a.utilization_percent.total_cmp(&b.utilization_percent))
        {
            let percent = trimmed((port.utilization_percent * 10.0).round() / 10.0);
            figures.push((
                format!("{percent} %"),
                format!("of the busiest link, {} to {}", port.switch, port.port),
            ));
        }
        figures
    }

    fn streams_section(&self, out: &mut String, stalls: &[(u64, u64)]) {
        if self.streams.is_empty() {
            return;
        }
        let exact = (self.streams.iter()).any(|stream| !stream.exact_ccdf.is_empty());
        let judged = match exact {
            true => {
                "The judged delay is that of the described network, replayed for all frames as they were really sent. The delay as this \
                 machine delivered them is shown beside it."
            }
            false => {
                "Network delay runs from the kernel’s transmit stamp to its receive stamp; it is promised and judged."
            }
        };
        let _ = write!(
            out,
            "<h2>Streams: promised and measured</h2><p class=\"lead\">{judged} The delay between the applications contains \
             their own scheduling.</p>"
        );
        tables::streams(out, &self.streams);
        tables::frames(out, &self.streams);
        for stream in &self.streams {
            let _ = write!(
                out,
                "<section class=\"pair\" data-stream=\"{}\"><header><h3>{}</h3><span>{}</span>{}<p>{}</p></header>",
                escape(&stream.name),
                escape(&stream.name),
                escape(&format!("{} to {}", stream.talker, stream.listener)),
                tables::badge(stream.verdict),
                stream
                    .reasons
                    .iter()
                    .map(|r| tables::prose(r))
                    .collect::<Vec<_>>()
                    .join("<br>"),
            );
            let (judged, beside) = match stream.exact_delay_ns {
                Some(_) => ("exact, in the described network", "as delivered"),
                None => ("network delay", "between applications"),
            };
            let _ = write!(
                out,
                "<figure>{}<figcaption>{}{}{}</figcaption></figure>",
                chart::distribution(stream),
                tables::key("background:var(--net)", judged),
                tables::key("background:repeating-linear-gradient(90deg,var(--app) 0 5px,transparent 5px 8px)", beside),
                stream.published_max_ns.map_or_else(String::new, |published| {
                    let text = format!("published {}", duration(published));
                    tables::key("background:repeating-linear-gradient(90deg,var(--soft) 0 2px,transparent 2px 5px)", &text)
                }),
            );
            let _ = write!(
                out,
                "<figure>{}<figcaption>{}{}{}</figcaption></figure></section>",
                chart::delay_over_time(stream, self.duration_ns(), stalls),
                tables::key("background:var(--net)", "median"),
                tables::box_key("background:var(--net-band)", "fastest to slowest"),
                if stalls.is_empty() {
                    String::new()
                } else {
                    tables::box_key("background:var(--stall);opacity:.35", "machine stalled")
                },
            );
        }
    }

    fn ports_section(&self, out: &mut String, stalls: &[(u64, u64)]) {
        if self.ports.is_empty() {
            return;
        }
        out.push_str("<h2>Ports: backlog and buffers</h2><p class=\"lead\">The highest backlog of each port, beside the plan’s bound and the buffer’s size.</p>");
        tables::ports(out, &self.ports);
        let drawn: Vec<_> = self
            .ports
            .iter()
            .filter(|p| !p.backlog_over_time.is_empty())
            .collect();
        for two in drawn.chunks(2) {
            out.push_str("<div class=\"pair\">");
            for port in two {
                let _ = write!(
                    out,
                    "<figure><h3>{} to {}</h3>{}</figure>",
                    escape(&port.switch),
                    escape(&port.port),
                    chart::backlog_over_time(port, self.duration_ns(), stalls)
                );
            }
            out.push_str("</div>");
        }
    }

    fn network_section(&self, out: &mut String) {
        if self.network.nodes.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "<h2>The network</h2><p class=\"lead\">Each direction of each link, with the share of its rate that was sent.</p><div class=\"network-scroll\">{}</div><p>",
            drawing::draw(&self.network)
        );
        for (class, text) in [
            ("l0", "nothing"),
            ("l1", "below 25 %"),
            ("l2", "25 to 50 %"),
            ("l3", "50 to 75 %"),
            ("l4", "75 to 90 %"),
            ("l5", "90 % and more"),
        ] {
            out.push_str(&tables::key(
                &format!("background:var(--{class});height:5px"),
                text,
            ));
        }
        out.push_str("</p>");
    }

    fn sharing_section(&self, out: &mut String) {
        let Some(sharing) = &self.sharing else {
            return;
        };
        let _ = write!(
            out,
            "<h2>Best effort: what real time leaves</h2><p class=\"lead\">The manager on <b>{}</b> divides what the planned streams \
             leave of each link, for a tenth of a second at a time. Counted on the wire over {:.1} s. Nothing is promised to a \
             transfer.</p>",
            escape(&sharing.manager),
            sharing.seconds
        );
        tables::sharing(out, sharing);
    }

    fn hosts_section(&self, out: &mut String) {
        if !self.hosts.is_empty() {
            out.push_str("<h2>Hosts: the cost of sending</h2><p class=\"lead\">Processor time of the shapers, and the delays of their ticks by the host’s timer. A tick later than declared can break a contract.</p>");
            tables::hosts(out, &self.hosts);
        }
        if !self.calibration.is_empty() {
            out.push_str("<h2>Latency of the emulated ports</h2><p class=\"lead\">Measured on the unloaded network before the run. They are part of the plan that judges the run, and are never fitted to its result.</p>");
            tables::calibration(out, &self.calibration);
        }
    }

    fn noise_section(&self, out: &mut String) {
        out.push_str("<h2>The machine’s own noise</h2>");
        let Some(noise) = &self.noise else {
            out.push_str("<p class=\"lead\">It was not recorded, so no late frame is excused.</p>");
            return;
        };
        let _ = write!(
            out,
            "<p class=\"lead\">On each core a real-time thread above all workers woke every {}. A wake-up more than {} late is a stall: during it, no thread of the measurement ran on that core.</p>",
            escape(&duration(noise.period_ns)),
            escape(&duration(noise.stall_threshold_ns)),
        );
        tables::noise(out, noise);
        out.push_str("<div class=\"pair\">");
        for core in &noise.cores {
            let _ = write!(
                out,
                "<figure><h3>Core {}</h3>{}</figure>",
                core.core,
                noise_plot::overshoot_histogram(core, noise.stall_threshold_ns)
            );
        }
        // The plot is on the right, below the delays over time, because it shares their time axis.
        let _ = write!(
            out,
            "</div><div class=\"pair\"><div class=\"beside\"><h3>Stalls over time</h3><p>{}</p>{}{}{}</div><figure>{}</figure></div>",
            tables::prose(&self.stalled_in_words()),
            tables::box_key(
                "background:var(--stall)",
                "stall; a longer one is taller, up to 100 ms"
            ),
            tables::box_key(
                "background:var(--stall);opacity:.4",
                "late talker or listener: shown, excuses nothing"
            ),
            tables::key(
                "background:var(--app)",
                "time stolen by the hypervisor: shown, excuses nothing"
            ),
            noise_plot::stall_strip(noise, self.started_tai_ns, self.duration_ns()),
        );
    }

    fn stalled_in_words(&self) -> String {
        let Some(noise) = &self.noise else {
            return String::new();
        };
        let line = StallLine::new(noise.stall_record().certain());
        let (total, count) = (line.total_ns(), line.intervals().count() as u64);
        if count == 0 {
            return "The machine never stalled.".to_owned();
        }
        let longest = line
            .intervals()
            .map(|(from, to)| to - from)
            .max()
            .unwrap_or(0);
        format!(
            "The machine stalled {} times, {} in total ({} of the run), {} at most.",
            grouped(count),
            duration(total),
            share(total, self.duration_ns()),
            duration(longest)
        )
    }

    fn origin_section(&self, out: &mut String) {
        let _ = write!(
            out,
            "<h2>Command and machine</h2><pre>{}</pre>",
            escape(&self.command)
        );
        tables::origin(out, self);
        if !self.notes.is_empty() {
            out.push_str("<h2>Notes</h2><ul>");
            for note in &self.notes {
                let _ = write!(out, "<li>{}</li>", escape(note));
            }
            out.push_str("</ul>");
        }
        let _ = write!(
            out,
            "<footer>rtwire {} · started {} · plan {}</footer>",
            escape(&self.machine.rtwire_version),
            escape(&self.started_at),
            escape(&self.plan_hash)
        );
    }
}

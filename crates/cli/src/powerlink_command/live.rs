//! The live table: redrawn on a terminal, printed once at the end elsewhere; or JSON lines.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use rtwire_measure::units::{duration, grouped};
use rtwire_powerlink_station::StationStatus;

use crate::output::print;

/// The place where states are shown.
pub(super) struct Screen {
    json: bool,
    terminal: bool,
    /// The number of lines to move up before the next table.
    drawn: usize,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            terminal: std::io::stdout().is_terminal(),
            drawn: 0,
        }
    }

    pub(super) fn show(&mut self, status: &StationStatus) {
        if self.json {
            // Plain data always has a JSON form.
            if let Ok(line) = serde_json::to_string(status) {
                print(&(line + "\n"));
            }
        } else if self.terminal {
            self.redraw(&table(status));
        }
    }

    /// Shows the last state, also on a pipe.
    pub(super) fn last(&mut self, status: &StationStatus) {
        if !self.json {
            let text = table(status);
            if self.terminal {
                self.redraw(&text);
            } else {
                print(&text);
            }
        }
    }

    pub(super) fn redraw(&mut self, text: &str) {
        let up = if self.drawn > 0 {
            format!("\x1b[{}A\x1b[J", self.drawn)
        } else {
            String::new()
        };
        self.drawn = text.lines().count();
        print(&(up + text));
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.terminal && !self.json
    }
}

fn table(status: &StationStatus) -> String {
    let mut text = format!(
        "node {} on {}: {}, cycle {}, {} cycles ({} skipped), {} stalls of this station (longest {})\n",
        status.node,
        status.interface,
        status.state,
        duration(status.cycle_ns),
        grouped(status.cycles),
        grouped(status.skipped_cycles),
        grouped(status.own_stalls),
        duration(status.worst_stall_ns),
    );
    let per_cycle = status.system_calls as f64 / status.cycles.max(1) as f64;
    let driver = status.sent_by_driver.map_or_else(String::new, |count| {
        format!(", {} frames sent by the driver", grouped(count))
    });
    let _ = writeln!(
        text,
        "{} frames seen, {} unsent, {per_cycle:.2} system calls a cycle{driver}",
        grouped(status.frames_received),
        grouped(status.frames_unsent),
    );
    if let Some(soc) = &status.soc_launch {
        let _ = writeln!(
            text,
            "{} SoC by launch time ({} lost), {} without",
            grouped(soc.handed_over),
            grouped(soc.dropped),
            grouped(soc.by_loop),
        );
    }
    let told = [
        (status.link_losses, "losses of the link"),
        (status.crc_errors, "frames with a wrong check sequence"),
        (status.collisions, "collisions"),
        (Some(status.requests_stale), "requests read too late"),
        (Some(status.requests_foreign), "frames of strangers refused"),
        (Some(status.watchdog_lapses), "stops beyond the watchdog"),
    ];
    let told = told.iter().filter_map(|(count, what)| {
        let count = count.filter(|count| *count > 0)?;
        Some(format!("{} {what}", grouped(count)))
    });
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        let _ = writeln!(text, "{}", told.join(", "));
    }
    if !status.nodes.is_empty() {
        let head = [
            "node",
            "name",
            "state",
            "PRes",
            "lost",
            "late",
            "last PReq–PRes",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for node in &status.nodes {
            rows.push(vec![
                node.node.to_string(),
                node.name.clone(),
                format!("{}{}", node.state, if node.operational { "" } else { " …" }),
                grouped(node.responses),
                grouped(node.lost.into()),
                grouped(node.late.into()),
                duration(node.latency_ns),
            ]);
        }
        text.push('\n');
        crate::columns::table(&mut text, 3, &rows);
    }
    for event in status
        .events
        .iter()
        .rev()
        .take(5)
        .rev()
        .map(|event| &event.what)
    {
        let _ = writeln!(text, "  {event}");
    }
    text
}

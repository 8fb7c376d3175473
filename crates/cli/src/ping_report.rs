//! The report of `rtwire ping`, for people and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::ping_account::Counts;
use crate::ping_stalls::Found;

/// The figures of a report.
pub(crate) struct PingReport<'a> {
    pub(crate) interface: &'a str,
    pub(crate) responder: String,
    pub(crate) port: u16,
    pub(crate) octets: usize,
    pub(crate) counts: Counts,
    pub(crate) queue_full: u64,
    pub(crate) cycles_skipped: u64,
    pub(crate) deadline_ns: Option<u64>,
    /// The comparison with stalls, if they are recorded.
    pub(crate) found: Option<&'a Found>,
    /// Minimum, p50, p99, p99.9 and maximum, ns.
    pub(crate) round_trips: Option<[u64; 5]>,
    pub(crate) interrupted: bool,
}

impl PingReport<'_> {
    /// Returns the report as JSON.
    pub(crate) fn json(&self) -> Value {
        let counts = &self.counts;
        let trips = self.round_trips.map(|[min, p50, p99, p999, max]| {
            json!({"min": min, "p50": p50, "p99": p99, "p999": p999, "max": max})
        });
        let mut report = json!({
            "interface": self.interface, "responder": self.responder,
            "port": self.port, "octets": self.octets,
            "sent": counts.sent, "answered": counts.answered, "late": counts.late, "lost": counts.lost,
            "waiting": counts.waiting, "duplicate": counts.duplicate, "reordered": counts.reordered,
            "unknown": counts.unknown, "queue_full": self.queue_full, "cycles_skipped": self.cycles_skipped,
            "interrupted": self.interrupted,
            "deadline_ns": self.deadline_ns,
            "over_deadline": self.deadline_ns.map(|_| counts.over_deadline),
            "over_deadline_explained": null, "over_deadline_unexplained": null,
            "round_trip_ns": trips,
        });
        if let Some(found) = self.found {
            report["over_deadline_explained"] = found.explained().into();
            report["over_deadline_unexplained"] = found.unexplained().into();
            report["over_deadline_in_stalls"] = found.in_stalls.into();
            report["in_stalls_by_chance"] = found.by_chance.into();
            report["in_stalls_by_chance_at_most"] = found.chance_at_most().into();
            let stalls: u64 = found.records().map(|(_, record)| record.stalls).sum();
            report["stalls_recorded"] = stalls.into();
            report["cores"] = (found.records())
                .map(|(core, record)| {
                    json!({
                        "core": core, "stalls": record.stalls, "stalls_without_room": record.dropped,
                        "share_of_time": found.share(record),
                    })
                })
                .collect();
            report["misses"] = json!(found.misses);
        }
        report
    }

    /// Returns the report as text.
    pub(crate) fn text(&self) -> String {
        let counts = &self.counts;
        let mut text = format!(
            "sent {}, answered {}, late {}, lost {}, waiting {}; duplicate {}, reordered {}, unknown {}\n",
            counts.sent,
            counts.answered,
            counts.late,
            counts.lost,
            counts.waiting,
            counts.duplicate,
            counts.reordered,
            counts.unknown
        );
        if self.queue_full + self.cycles_skipped > 0 {
            let _ = writeln!(
                text,
                "dropped by our own interface {}, cycles skipped {}",
                self.queue_full, self.cycles_skipped
            );
        }
        if let Some(trips) = self.round_trips {
            let [min, p50, p99, p999, max] = trips.map(|ns| ns as f64 / 1000.0);
            let _ = writeln!(
                text,
                "round trip, µs: min {min:.2}, p50 {p50:.2}, p99 {p99:.2}, p99.9 {p999:.2}, max {max:.2}"
            );
        }
        if let Some(deadline_ns) = self.deadline_ns {
            let deadline = deadline_ns as f64 / 1000.0;
            let over = counts.over_deadline;
            let _ = writeln!(
                text,
                "round trips over the deadline of {deadline} µs: {over}"
            );
            if let Some(found) = self.found.filter(|_| over > 0) {
                explained(&mut text, found);
            }
        }
        text
    }
}

/// Adds what stalls explain, the number that accident puts there, and the share of the time that stalls take.
fn explained(text: &mut String, found: &Found) {
    let at_most = found.chance_at_most();
    let _ = writeln!(
        text,
        "  explained by stalls of a core that they passed {}, not explained {}",
        found.explained(),
        found.unexplained()
    );
    if found.is_accident() {
        let _ = writeln!(
            text,
            "  {} lie in a stall, but accident alone puts {:.1} there (up to {at_most:.1}): no explanation",
            found.in_stalls, found.by_chance
        );
    } else {
        let _ = writeln!(
            text,
            "  in a stall by accident alone: {:.1} (up to {at_most:.1})",
            found.by_chance
        );
    }
    for (core, record) in found.records() {
        let percent = 100.0 * found.share(record);
        let _ = writeln!(
            text,
            "  core {core}: {} stalls recorded, at most {percent:.2} % of the time",
            record.stalls - record.dropped
        );
    }
}

/// Returns the message of a full record.
pub(crate) fn full(cores: &[(u32, u64)]) -> String {
    let cores: Vec<String> = cores
        .iter()
        .map(|(core, dropped)| format!("{dropped} stalls of core {core}"))
        .collect();
    format!(
        "inconclusive: the record of stalls was full, {} are missing in it: what made round trips late cannot be told; \
         ask on a quieter core (--cpu), or in shorter runs",
        cores.join(" and ")
    )
}

//! The text of the report of `rtwire run`.

use std::fmt::Write as _;

use rtwire_measure::units;
use rtwire_session::run::{RunReport, Verdict};

use crate::columns::table;

/// Adds where the frames of cyclic talkers left, beside how late their threads woke and what the spinning cost.
fn grid(text: &mut String, report: &RunReport) {
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), units::short_duration);
    let on_grid = report
        .talkers
        .iter()
        .filter(|row| row.wake_late_ns.is_some());
    let rows: Vec<Vec<String>> = on_grid
        .map(|row| {
            let (off, woke) = (row.off_grid_ns, row.wake_late_ns);
            let share = row.spun_ns as f64 / 1e7 / report.duration_s.max(1e-9);
            vec![
                row.stream.clone(),
                time(off.map(|off| off.p50)),
                time(off.and_then(|off| off.known_p99())),
                time(off.and_then(|off| off.known_p999())),
                time(off.map(|off| off.max)),
                time(woke.map(|woke| woke.p50)),
                time(woke.and_then(|woke| woke.known_p99())),
                time(Some(row.spin_margin_ns)),
                format!("{share:.1} %"),
            ]
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let head = [
        "talker of",
        "off grid p50",
        "p99",
        "p99.9",
        "max",
        "woke late p50",
        "p99",
        "margin",
        "spinning",
    ];
    let mut all = vec![head.map(str::to_owned).to_vec()];
    all.extend(rows);
    text.push('\n');
    table(text, 1, &all);
}

/// Adds where the frames passed the card, by its own stamps.
fn on_wire(text: &mut String, report: &RunReport) {
    for row in &report.talkers {
        let Some(stamped) = row.card_stamps else {
            continue;
        };
        let stamped = units::grouped(stamped);
        let sent = units::grouped(row.frames_sent);
        let _ = write!(
            text,
            "\n{}: the card stamped {stamped} of {sent} frames",
            row.stream
        );
        if let Some(wire) = row.on_wire_ns {
            let time = units::short_duration;
            let _ = write!(
                text,
                "; on the wire {} behind their instants (median), at most {}",
                time(wire.p50),
                time(wire.max)
            );
        }
        text.push('\n');
    }
}

pub(crate) fn shown(report: &RunReport) -> String {
    let mut text = format!(
        "host {} on {} for {:.3} s; receive work: {}\n",
        report.host, report.interface, report.duration_s, report.receive_work
    );
    if let Some(stamps) = &report.stamps {
        let _ = writeln!(text, "stamps {stamps}");
    }
    for missing in &report.missing {
        let _ = writeln!(text, "missing for the plan's promises: {missing}");
    }
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), units::short_duration);
    if !report.talkers.is_empty() {
        let mut rows = vec![words(&[
            "talker of",
            "priority",
            "sent",
            "planned",
            "refused",
            "skipped",
            "late p50",
            "p99",
            "max",
            "declared",
        ])];
        rows.extend(report.talkers.iter().map(|row| {
            let late = row.lateness_ns;
            vec![
                row.stream.clone(),
                format!("{} (FIFO {})", row.priority, row.realtime),
                units::grouped(row.frames_sent),
                row.frames_planned.map_or("-".to_owned(), units::grouped),
                row.frames_refused.to_string(),
                row.ticks_skipped.to_string(),
                time(late.map(|late| late.p50)),
                time(late.and_then(|late| late.known_p99())),
                time(late.map(|late| late.max)),
                time(Some(row.tick_error_ns)),
            ]
        }));
        text.push('\n');
        table(&mut text, 1, &rows);
        grid(&mut text, report);
        on_wire(&mut text, report);
    }
    if !report.listeners.is_empty() {
        let mut rows = vec![words(&[
            "listener of",
            "received",
            "lost",
            "twice",
            "late order",
            "overtaken",
            "delay p50",
            "p99",
            "max",
            "promised",
        ])];
        rows.extend(report.listeners.iter().map(|row| {
            let delay = row.delay_ns;
            vec![
                row.stream.clone(),
                units::grouped(row.frames_received),
                row.frames_lost.to_string(),
                row.frames_duplicated.to_string(),
                row.frames_reordered.to_string(),
                row.frames_overtaken.to_string(),
                time(delay.map(|delay| delay.p50)),
                time(delay.and_then(|delay| delay.known_p99())),
                time(delay.map(|delay| delay.max)),
                time(row.promise_ns),
            ]
        }));
        text.push('\n');
        table(&mut text, 1, &rows);
        for row in &report.listeners {
            let _ = writeln!(text, "{} comes by {}", row.stream, row.receive_path);
        }
        text += "\nDelays are from the talker's own time stamp to the kernel's here: as true as both hosts' clocks agree.\n";
        if report
            .listeners
            .iter()
            .any(|row| row.frames_before_sent > 0)
        {
            text += "They do not agree: frames came before they were sent.\n";
        }
    }
    if let Some(stalls) = report.stalls.filter(|stalls| stalls.count > 0) {
        let longest = units::short_duration(stalls.longest_ns);
        let _ = writeln!(
            text,
            "This machine stalled {} times, for up to {longest}.",
            stalls.count
        );
    }
    if let Some(evidence) = &report.evidence {
        let bytes = units::grouped(evidence.bytes);
        let _ = writeln!(text, "evidence: {} ({bytes} bytes)", evidence.file);
        if evidence.records_missing > 0 {
            let missing = units::grouped(evidence.records_missing);
            let _ = writeln!(
                text,
                "  {missing} records are not in it: `rtwire judge` will be inconclusive"
            );
        }
    }
    for (reason, count) in &report.strays {
        let _ = writeln!(text, "{count} frames belonged to no channel here: {reason}");
    }
    let word = match report.verdict {
        Verdict::Complete => "complete",
        Verdict::Broken => "broken",
        Verdict::Inconclusive => "inconclusive",
    };
    let _ = writeln!(text, "\n{word}");
    for reason in &report.reasons {
        let _ = writeln!(text, "  {reason}");
    }
    text
}

//! The verdict on one host's end of a run: what this end can know, and why it can know no more. Pure.

use rtwire_measure::clock_steps::ClockStep;
use rtwire_measure::units::duration;

use crate::late_cycles::{Account, Record, Shown};

use super::report::{ListenerRow, TalkerRow, Verdict};

/// The facts beside the rows that the verdict depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circumstances<'a> {
    /// The largest difference of the clocks of this host and another, ns; `None` if it is not known.
    pub(super) clocks_ns: Option<u64>,
    /// The time that it ran and the time that was asked for, ns, if it was stopped before its end.
    pub(super) interrupted: Option<(u64, u64)>,
    /// True if stalls of the machine were recorded.
    pub(super) noise: bool,
    /// True if some of them found no room in the record.
    pub(super) noise_full: bool,
    /// The reasons why no recorded stall excuses anything; empty if they do.
    pub(super) noise_doubted: &'a [String],
    /// The steps of this host's clock during the run.
    pub(super) clock_steps: &'a [ClockStep],
}

#[derive(Default)]
struct Findings {
    broken: Vec<String>,
    open: Vec<String>,
}

/// Judges what this end can know. What only both ends together show is not judged.
pub(super) fn judge(
    talkers: &[TalkerRow],
    listeners: &[ListenerRow],
    now: &Circumstances<'_>,
) -> (Verdict, Vec<String>) {
    let mut found = Findings::default();
    for step in now.clock_steps {
        found.open.push(format!(
            "{step} during the run: no time of it can be judged. Let no daemon set the clock while streams run"
        ));
    }
    for why in now.noise_doubted {
        let why = why.trim_end_matches('.');
        found
            .open
            .push(format!("{why}: so no recorded stall excuses anything"));
    }
    for row in talkers {
        talker(row, now, &mut found);
    }
    for row in listeners {
        frames(row, now, &mut found);
        if !row.best_effort && now.clock_steps.is_empty() {
            delays(row, now, &mut found);
        }
    }
    if let Some((ran, asked)) = now.interrupted {
        found.open.push(format!(
            "it was interrupted after {} of {}",
            duration(ran),
            duration(asked)
        ));
    }
    let verdict = match (found.broken.is_empty(), found.open.is_empty()) {
        (false, _) => Verdict::Broken,
        (true, false) => Verdict::Inconclusive,
        (true, true) => Verdict::Complete,
    };
    found.broken.append(&mut found.open);
    (verdict, found.broken)
}

fn talker(row: &TalkerRow, now: &Circumstances<'_>, found: &mut Findings) {
    let stream = &row.stream;
    if let Some(fault) = &row.fault {
        found
            .broken
            .push(format!("talker of `{stream}` ended: {fault}"));
    }
    if row.frames_refused > 0 {
        found.broken.push(format!(
            "{} frames of `{stream}` found no room in this host's queue",
            row.frames_refused
        ));
    }
    let account = Account {
        stream: &format!("`{stream}`"),
        tick_error_ns: row.tick_error_ns,
        worst_ns: row.lateness_ns.map_or(0, |late| late.max),
        late: row.cycles_late,
        unexplained: row.cycles_unexplained,
        untold: row.cycles_untold,
        is_proof: row.cycles_are_proof,
    };
    let record = match (now.noise_full, now.noise) {
        _ if !now.clock_steps.is_empty() => Record::ClockSet,
        (true, _) => Record::Full,
        (_, true) => Record::Whole,
        (_, false) => Record::None,
    };
    match account.finding(record) {
        Some((Shown::Fault, text)) => found.broken.push(text),
        Some((Shown::Machine | Shown::Nothing, text)) => found.open.push(text),
        None => {}
    }
}

fn frames(row: &ListenerRow, now: &Circumstances<'_>, found: &mut Findings) {
    let stream = &row.stream;
    let broken = &mut found.broken;
    if let Some(fault) = &row.fault {
        broken.push(format!("listener of `{stream}` ended: {fault}"));
    }
    if row.frames_policed > 0 {
        broken.push(format!(
            "{} frames of `{stream}` were beyond its contract and dropped here",
            row.frames_policed
        ));
    }
    if row.frames_lost > row.frames_policed && !row.best_effort {
        let here = match row.socket_drops {
            0 => "on the way",
            _ => "here too: the listener was held up",
        };
        broken.push(format!(
            "{} frames of `{stream}` were lost {here}",
            row.frames_lost
        ));
    }
    if row.frames_foreign > 0 {
        broken.push(format!(
            "{} frames at the port of `{stream}` were of a foreign plan: their talker runs another plan, or another version of \
             this one; none was taken. Give all hosts the same plan file",
            row.frames_foreign
        ));
    }
    if row.frames_corrupted > 0 {
        broken.push(format!(
            "{} frames of `{stream}` arrived with an altered payload: their checksum is wrong",
            row.frames_corrupted
        ));
    }
    if row.frames_duplicated > 0 && !row.best_effort {
        broken.push(format!(
            "{} frames of `{stream}` arrived twice",
            row.frames_duplicated
        ));
    }
    if row.frames_reordered > 0 && !row.best_effort {
        broken.push(format!(
            "{} frames of `{stream}` arrived after one that was sent later",
            row.frames_reordered
        ));
    }
    if row.frames_too_long > 0 {
        broken.push(format!(
            "{} frames of `{stream}` were longer than its contract",
            row.frames_too_long
        ));
    }
    // By a clock that was set, frames are closer than they were.
    if row.frames_too_frequent > 0 && now.clock_steps.is_empty() {
        broken.push(format!(
            "{} frames of `{stream}` were more frequent than its contract",
            row.frames_too_frequent
        ));
    }
    if row.frames_received == 0 && row.fault.is_none() && !row.best_effort {
        found.open.push(format!("nothing of `{stream}` came"));
    }
}

/// Judges delays from the sender's time to the kernel's stamp here.
fn delays(row: &ListenerRow, now: &Circumstances<'_>, found: &mut Findings) {
    let stream = &row.stream;
    if row.arrivals_missed > 0 {
        found.open.push(format!(
            "{} arrivals of `{stream}` found no room in the record while the listener was held up: their delays are not known",
            row.arrivals_missed
        ));
    }
    let longest = duration(row.delay_ns.map_or(0, |delay| delay.max));
    let promise = row.promise_ns.map_or(String::new(), duration);
    let Some(clocks_ns) = now.clocks_ns else {
        let way =
            "run ptp4l on both hosts or state --clock-uncertainty, and judge with `rtwire judge`";
        if row.frames_beyond_promise > 0 {
            found.open.push(format!(
                "{} frames of `{stream}` seem to have taken longer than the promised {promise}, up to {longest}, but nobody \
                 knows how far the hosts' clocks differ: {way}",
                row.frames_beyond_promise
            ));
        }
        if row.frames_before_sent > 0 {
            found.open.push(format!(
                "{} frames of `{stream}` seem to have come before they were sent: the hosts' clocks differ, so no delay is \
                 known: {way}",
                row.frames_before_sent
            ));
        }
        return;
    };
    let within = match clocks_ns {
        0 => String::new(),
        ns => format!(" (and the {} by which the clocks may differ)", duration(ns)),
    };
    if row.frames_contradicting > 0 {
        found.open.push(format!(
            "{} frames of `{stream}` came before they were sent{within}: the clocks are not what they claim",
            row.frames_contradicting
        ));
    }
    let deadline = row.deadline_ns.map_or(String::new(), duration);
    if row.frames_late_unexplained > 0 && now.noise_full {
        found.open.push(format!(
            "{} frames of `{stream}` missed the deadline of {deadline}{within}, and there were more stalls than were recorded",
            row.frames_late_unexplained
        ));
    } else if row.frames_late_unexplained > 0 {
        found.broken.push(format!(
            "{} frames of `{stream}` missed the deadline of {deadline}{within}; the slowest took {longest}",
            row.frames_late_unexplained
        ));
    } else if row.frames_beyond_promise > 0 {
        found.open.push(format!(
            "{} frames of `{stream}` took longer than the promised {promise}{within}, up to {longest}. That includes the \
             talker's own call, which the promise does not: `rtwire judge` decides, with the evidence of both hosts (--evidence)",
            row.frames_beyond_promise
        ));
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

//! The recovery of redundant streams in a plan, printed for people.

use std::fmt::Write as _;

use rtwire_plan::recovery::TICK_MS;
use rtwire_plan::show::{grouped, show_ns};
use rtwire_plan::{Plan, Recovery, StreamPlan};

use crate::columns;

fn waiting(recovery: &Recovery) -> String {
    format!(
        "{} ({} B)",
        grouped(recovery.resequencing_frames),
        grouped(recovery.resequencing_bytes)
    )
}

/// Adds a table of the redundant streams, if there are any.
pub(crate) fn table(text: &mut String, plan: &Plan) {
    let recoveries = plan.streams.iter();
    let recoveries: Vec<(&StreamPlan, &Recovery)> = recoveries
        .filter_map(|stream| Some((stream, stream.recovery.as_ref()?)))
        .collect();
    if recoveries.is_empty() {
        return;
    }
    let head = [
        "recovered from both copies",
        "listener",
        "promise",
        "deadline",
        "lag",
        "history",
        "reset",
        "match suffices",
        "frames to put in order",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (stream, recovery) in recoveries {
        rows.push(vec![
            stream.name.clone(),
            recovery.listener.clone(),
            show_ns(recovery.delay_ns),
            recovery.deadline_ns.map_or_else(|| "-".to_owned(), show_ns),
            show_ns(recovery.lag_ns),
            grouped(recovery.history_length),
            format!("{} ms", grouped(recovery.reset_ms)),
            if recovery.match_suffices { "yes" } else { "no" }.to_owned(),
            waiting(recovery),
        ]);
    }
    text.push('\n');
    columns::table(text, 2, &rows);
}

/// Explains the recovery of a stream, or of the stream of which it is a copy.
pub(crate) fn explanation(text: &mut String, plan: &Plan, stream: &StreamPlan) {
    let mut all = plan
        .streams
        .iter()
        .filter_map(|planned| planned.recovery.as_ref());
    let own = all.find(|recovery| recovery.ways.iter().any(|way| way.stream == stream.name));
    let Some(recovery) = own else { return };
    let _ = writeln!(
        text,
        "\nrecovered at {} from both copies (IEEE 802.1CB), as long as each frame arrives by at least one way:",
        recovery.listener
    );
    let mut rows = vec![
        ["way of", "least delay", "largest delay"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for way in &recovery.ways {
        rows.push(vec![
            way.stream.clone(),
            show_ns(way.least_delay_ns),
            show_ns(way.delay_ns),
        ]);
    }
    columns::table(text, 1, &rows);
    let (lag, most) = (
        show_ns(recovery.lag_ns),
        recovery.resequencing_frames.saturating_add(1),
    );
    let _ = writeln!(
        text,
        "  promise {}: the later way, because the other may be broken; delays differ by up to {}",
        show_ns(recovery.delay_ns),
        show_ns(recovery.jitter_ns)
    );
    let _ = writeln!(
        text,
        "  lag {lag}: the largest delay by one way less the least one by the other; at most {} of its frames {} sent within it",
        grouped(most),
        if most == 1 { "is" } else { "are" }
    );
    let _ = writeln!(
        text,
        "  vector algorithm: frerSeqRcvyHistoryLength at least {}, one more than those frames",
        grouped(recovery.history_length)
    );
    let _ = writeln!(
        text,
        "  match algorithm: {}",
        if recovery.match_suffices {
            "does as well: no frame is sent before both copies of the one before have come"
        } else {
            "does not do: frames of both ways mix"
        }
    );
    let _ = writeln!(
        text,
        "  frerSeqRcvyResetMSec at least {}: the lag, and a tick of {TICK_MS} ms",
        grouped(recovery.reset_ms)
    );
    let _ = writeln!(
        text,
        "  a talker that starts its numbers anew must be silent for {} before, else its first frames are discarded; a longer reset adds to it",
        show_ns(recovery.restart_silence_ns)
    );
    let _ = writeln!(
        text,
        "  in order: up to {} wait for an earlier frame; none is later than the promise",
        waiting(recovery)
    );
}

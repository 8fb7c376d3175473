//! The cycles of cyclic queueing, printed for people.

use rtwire_plan::Plan;
use rtwire_plan::show::{grouped, show_ns};

use crate::columns;

/// Adds what passes each port in a cycle, and the jitter of the streams, if any stream is cyclic.
pub(crate) fn table(text: &mut String, plan: &Plan) {
    let Some(cyclic) = &plan.cyclic else {
        return;
    };
    let jitters = plan.streams.iter().filter_map(|stream| {
        let promises = stream.promises.iter();
        let jitter_ns = promises.filter_map(|promise| promise.jitter_ns).max()?;
        Some(vec![stream.name.clone(), show_ns(jitter_ns)])
    });
    let head = vec!["cyclic".to_owned(), "jitter".to_owned()];
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(jitters).collect();
    text.push('\n');
    columns::table(text, 1, &rows);
    let head = [
        "cycle at", "streams", "frames", "bytes", "closed", "all out", "of",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for port in &cyclic.ports {
        rows.push(vec![
            format!("{}>{}", port.node, port.port),
            port.streams.len().to_string(),
            grouped(port.cycle_frames),
            grouped(port.cycle_bytes),
            show_ns(port.closed_ns),
            show_ns(port.out_ns),
            show_ns(cyclic.cycle_ns),
        ]);
    }
    text.push('\n');
    columns::table(text, 1, &rows);
}

//! The schedule of a plan, printed for people: launches, windows, gate lists.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rtwire_plan::plan_file;
use rtwire_plan::show::{grouped, show_ns};
use rtwire_plan::{GateList, Plan, StreamPlan};

use crate::columns::table;
use crate::input;

/// Reads the plan in a file that `rtwire plan` wrote.
pub(crate) fn kept(path: &Path) -> Result<Plan, String> {
    let bytes = input::bytes_of(path).map_err(|message| format!("--keep: {message}"))?;
    plan_file::read(&bytes, &path.display().to_string()).map_err(|fault| format!("--keep: {fault}"))
}

/// The reason why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Ctrl-C.
    Stopped,
    /// `--budget`.
    Budget,
}

/// Returns the callback between rounds of a search. It shows the progress on a terminal. It ends the search on Ctrl-C or
/// when the time is over, and notes the reason.
pub(crate) fn progress<'a>(
    stopped: impl Fn() -> bool + 'a,
    budget: Option<Duration>,
    ended: &'a Cell<Option<Ended>>,
) -> impl FnMut() -> bool + 'a {
    let shown = std::io::stderr().is_terminal();
    let started = Instant::now();
    let (mut rounds, mut last) = (0_u64, started);
    move || {
        rounds += 1;
        if shown && last.elapsed() >= Duration::from_millis(200) {
            last = Instant::now();
            eprint!(
                "\r\x1b[Ksearching a schedule: round {rounds}, {:.0} s, Ctrl-C shows the best so far",
                started.elapsed().as_secs_f64()
            );
        }
        if stopped() {
            ended.set(Some(Ended::Stopped));
        } else if budget.is_some_and(|budget| started.elapsed() >= budget) {
            ended.set(Some(Ended::Budget));
        }
        ended.get().is_none()
    }
}

/// Removes the line of [`progress`].
pub(crate) fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

/// Returns a mask of queues in short form: `7`, `0-6`, `0-2 5`.
fn queues(mask: u8) -> String {
    let mut parts = Vec::new();
    let mut queue = 0;
    while queue < 8 {
        let from = queue;
        while queue < 8 && mask & 1 << queue != 0 {
            queue += 1;
        }
        match queue - from {
            0 => queue += 1,
            1 => parts.push(from.to_string()),
            _ => parts.push(format!("{from}-{}", queue - 1)),
        }
    }
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(" ")
    }
}

fn percent(part: u64, whole: u64) -> String {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} %", permille / 10, permille % 10)
}

/// Adds launches and a line for each gated port; nothing if the plan has no schedule.
pub(crate) fn summary(text: &mut String, plan: &Plan) {
    let mut rows = vec![
        ["time-triggered", "launch", "every", "jitter"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for stream in &plan.streams {
        let Some(launch) = &stream.launch else {
            continue;
        };
        let jitter = stream
            .promises
            .iter()
            .filter_map(|promise| promise.jitter_ns)
            .max();
        rows.push(vec![
            stream.name.clone(),
            show_ns(launch.offset_ns),
            show_ns(launch.period_ns),
            jitter.map_or_else(|| "-".to_owned(), show_ns),
        ]);
    }
    if rows.len() == 1 {
        return;
    }
    text.push('\n');
    table(text, 1, &rows);
    let header = [
        "gates",
        "queues",
        "cycle",
        "entries",
        "open to others",
        "guard band",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for port in &plan.ports {
        let Some(list) = &port.gates else { continue };
        rows.push(vec![
            format!("{}>{}", port.node, port.port),
            queues(list.scheduled_queues),
            show_ns(list.cycle_ns),
            grouped(list.entries.len()),
            percent(list.unscheduled_open_ns, list.cycle_ns),
            show_ns(list.guard_band_ns),
        ]);
    }
    if rows.len() > 1 {
        text.push('\n');
        table(text, 2, &rows);
    }
}

/// Returns every gate list, entry by entry.
pub(crate) fn lists(plan: &Plan) -> String {
    let mut text = String::new();
    for port in &plan.ports {
        if let Some(list) = &port.gates {
            one(&mut text, &format!("{}>{}", port.node, port.port), list);
        }
    }
    if text.is_empty() {
        text.push_str("no port needs a gate list\n");
    }
    text
}

fn one(text: &mut String, port: &str, list: &GateList) {
    let _ = writeln!(
        text,
        "{port}: {} entries in {}, the first begins {} into the cycle",
        grouped(list.entries.len()),
        show_ns(list.cycle_ns),
        show_ns(list.base_offset_ns)
    );
    let mut rows = vec![["from", "for", "open queues"].map(str::to_owned).to_vec()];
    let mut at = list.base_offset_ns;
    for entry in &list.entries {
        rows.push(vec![
            show_ns(at),
            show_ns(entry.duration_ns),
            queues(entry.gates),
        ]);
        at = (at + entry.duration_ns) % list.cycle_ns.max(1);
    }
    table(text, 0, &rows);
    text.push('\n');
}

/// Adds the launch time of a stream and its windows.
pub(crate) fn launch(text: &mut String, stream: &StreamPlan) {
    let Some(launch) = &stream.launch else { return };
    let _ = writeln!(
        text,
        "\nlaunched {} after the start of each {} on its talker's clock; windows on the clocks of their nodes:",
        show_ns(launch.offset_ns),
        show_ns(launch.period_ns)
    );
    let mut rows = vec![["port", "queue", "from", "for"].map(str::to_owned).to_vec()];
    for window in &launch.windows {
        rows.push(vec![
            format!("{}>{}", window.node, window.port),
            window.queue.to_string(),
            show_ns(window.start_ns),
            show_ns(window.duration_ns),
        ]);
    }
    table(text, 1, &rows);
}

#[cfg(test)]
mod tests {
    #[test]
    fn queues_are_written_short() {
        for (mask, text) in [
            (0, "none"),
            (0x80, "7"),
            (0x7f, "0-6"),
            (0xff, "0-7"),
            (0b1010_0111, "0-2 5 7"),
        ] {
            assert_eq!(super::queues(mask), text);
        }
    }
}

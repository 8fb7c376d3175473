//! The table as a page of the book: the measured figures beside those of other tools.

use std::fmt::Write as _;

use rtwire_measure::bench::{BenchTable, Row};
use rtwire_measure::report::Machine;

const HEAD: &str = "# The planner beside others

Written by `make bench-plan`; numbers of time are of the machine and the day below. What other programs give was recorded
with them (`tests/captures/bounds.json`, its note of origin): bounds are the same on any machine, times are not, so of
times only ratios of a hundred and more say something.
";

const PARTS: &[(&str, &str, &str)] = &[
    (
        "Bounds of other programs",
        "bound over the least of other programs",
        "End-to-end bounds of the first stream of each network; a bound below the worst schedule found would be wrong. panco and
DNC compute for fluid servers: a frame's time at each port but the last is added to their latency, since without it their
numbers are below schedules that exist.",
    ),
    (
        "Bounds beside the worst schedules found",
        "bound over worst found",
        "The bound over what a search with the simulator reached: 1 proves both. On large networks the search finds less than
there is.",
    ),
    (
        "Attained",
        "single port",
        "The share of one port's bound that a simulation reaches.",
    ),
    ("Tandems", "tandems", "All of the tandems above."),
    (
        "Gate schedules",
        "gate schedules",
        "The public generator's easy and hard sets, made anew by its description. Recorded peers solve at most 4, 4, 4 of 4 hard
instances (line, ring, tree) with 40 streams, 3, 4, 2 with 60, 2, 2, 0 with 80 and 0, 1, 0 with 120.",
    ),
    (
        "Synthesis",
        "synthesis",
        "To the least cost, on one core.",
    ),
    ("Planning", "planning", "From scratch, on one core."),
    ("Admission", "admission", "While the network runs, on one core."),
    ("Simulation", "simulator", ""),
];

fn number(value: f64) -> String {
    if value >= 1000.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.4}")
    }
}

fn line(text: &mut String, row: &Row, prefix: &str) {
    let figure = row.figure.strip_prefix(prefix).unwrap_or(&row.figure);
    let figure = figure.trim_start_matches([',', ' ']);
    let others: Vec<String> = row
        .against
        .iter()
        .map(|other| format!("{} {}", other.name, number(other.value)))
        .collect();
    let held = match row.held {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    let _ = writeln!(
        text,
        "| {} | {} {} | {} | {held} | {} |",
        if figure.is_empty() {
            &row.figure
        } else {
            figure
        },
        number(row.value),
        row.unit,
        row.reach.as_deref().unwrap_or(""),
        others.join("; ")
    );
}

/// Returns the whole page.
pub(crate) fn page(table: &BenchTable) -> String {
    let mut text = format!(
        "{HEAD}\nCommit {}; {}.\n",
        table.commit,
        described(&table.machine)
    );
    let mut left: Vec<&Row> = table.rows.iter().collect();
    for (title, word, note) in PARTS {
        let (here, others): (Vec<&Row>, Vec<&Row>) =
            left.into_iter().partition(|row| row.figure.contains(word));
        left = others;
        if here.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## {title}\n\n");
        if !note.is_empty() {
            let _ = write!(text, "{note}\n\n");
        }
        text.push_str("| what | measured | to reach | reached | beside |\n|---|---|---|---|---|\n");
        for row in here {
            line(&mut text, row, word);
        }
    }
    if !left.is_empty() {
        text.push_str("\n## Others\n\n| what | measured | to reach | reached | beside |\n|---|---|---|---|---|\n");
        for row in left {
            line(&mut text, row, "");
        }
    }
    text
}

fn described(machine: &Machine) -> String {
    format!("{}, {} cores", machine.model, machine.cpus)
}

//! The table as a page of the book: one line for each sender.

use std::fmt::Write as _;

use rtwire_measure::bench::{BenchTable, Row};
use rtwire_measure::units::significant;

const HEAD: &str = "# Cyclic senders beside each other

Written by `make bench-run`. `rtwire run`, isochron and a bare loop of `clock_nanosleep` and `sendto` in C send frames of
64 bytes over a veth pair. All have SCHED_FIFO 80, and take turns in each round. All are judged by the
kernel's receive timestamps at the other end. Load is a busy thread on each core, and hackbench where it is installed.

- **Mean**: the time from the first frame to the last over the number of cycles. A missing cycle counts as sent if a stall
  explains it.
- **Missing**: cycles without a frame; behind the stroke those at which no stall of the machine was recorded. `rtwire run`
  skips a cycle that it would send more than half a cycle late, the loop in C sends it in a burst with the next one. At
  cycles below 1 ms shorter stalls matter than the recorder sees.
- **Burst**: frames that share a cycle with an earlier one.
- **Off grid**: from an instant of the grid to its frame. The grid is known for all but isochron, which gets its best-fitting
  phase.
- **Period**: the distance of the time between two frames from the cycle.
- **cyclictest** shows how late a thread wakes in the same rounds: what a sender that only sleeps cannot beat.

Percentiles are medians over the rounds, in µs. The machine is shared: only ratios within one table say something.
";

const LINE: &str = "| sender | mean | missing | burst | off grid p50 | p99 | p99.9 | max | period p50 | p99 | p99.9 | max | frames |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
";

/// Returns the whole page.
pub(crate) fn page(table: &BenchTable) -> String {
    let machine = &table.machine;
    let mut text = format!(
        "{HEAD}\nCommit {}; {}, {} cores, {}.\nCommand: `{}`.\n",
        table.commit,
        machine.model,
        machine.cpus,
        machine.kernel,
        command(&table.command)
    );
    if let Some(noise) = &table.noise {
        let stalled_ns: u64 = noise.cores.iter().map(|core| core.stalled_ns).sum();
        let _ = writeln!(
            text,
            "Meanwhile {} stalls of 0.5 ms or more were recorded, {} ms in all.",
            noise.stalls.len(),
            stalled_ns / 1_000_000
        );
    }
    let mut conditions: Vec<&str> = Vec::new();
    for row in &table.rows {
        let condition = part(row, 0);
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    for condition in conditions {
        section(&mut text, table, condition);
    }
    text
}

/// Returns a part of a figure's name: conditions, sender, figure.
fn part(row: &Row, nth: usize) -> &str {
    row.figure.splitn(3, ", ").nth(nth).unwrap_or("")
}

/// Returns the command as a reader would type it: without the folders of this machine.
fn command(line: &str) -> String {
    let mut shown = "cargo bench -p rtwire-benches --bench run --".to_owned();
    let mut words = line.split(' ').skip(1);
    while let Some(word) = words.next() {
        match word {
            "--bench" => {}
            "--page" | "--out" => drop(words.next()),
            word => shown = format!("{shown} {word}"),
        }
    }
    shown.trim_end_matches(" --").to_owned()
}

fn section(text: &mut String, table: &BenchTable, condition: &str) {
    let here: Vec<&Row> = table
        .rows
        .iter()
        .filter(|row| part(row, 0) == condition)
        .collect();
    let _ = write!(text, "\n## {condition}\n\n{LINE}");
    let mut senders: Vec<&str> = Vec::new();
    for row in &here {
        if !senders.contains(&part(row, 1)) {
            senders.push(part(row, 1));
        }
    }
    let of = |sender: &str, figure: &str| {
        let mut rows = here.iter().filter(|row| part(row, 1) == sender);
        rows.find(|row| part(row, 2) == figure).copied()
    };
    let value = |sender: &str, figure: &str| {
        of(sender, figure).map_or("-".to_owned(), |row| significant(row.value))
    };
    let mut notes = Vec::new();
    for sender in senders {
        let Some(mean) = of(sender, "mean period") else {
            notes.extend(of(sender, "frames").and_then(|row| row.why.clone()));
            continue;
        };
        let count = |figure| of(sender, figure).map_or(0.0, |row| row.value);
        let mut cells = vec![
            sender.to_owned(),
            format!("{:.3}", mean.value),
            format!(
                "{} / {}",
                count("cycles missing"),
                count("missing without a stall")
            ),
            count("frames in a burst").to_string(),
        ];
        for kind in ["off grid", "period error"] {
            for figure in ["p50", "p99", "p99.9", "max"] {
                cells.push(value(sender, &format!("{kind} {figure}")));
            }
        }
        cells.push(mean.samples.to_string());
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let waking =
        ["p50", "p99", "p99.9", "max"].map(|name| value("cyclictest", &format!("wake-up {name}")));
    let _ = writeln!(
        text,
        "\ncyclictest: p50 {}, p99 {}, p99.9 {}, largest {} µs. `rtwire run` woke {} µs early at last and spun {} % of the time.",
        waking[0],
        waking[1],
        waking[2],
        waking[3],
        value("rtwire run", "margin"),
        value("rtwire run", "spinning"),
    );
    for note in notes {
        let _ = writeln!(text, "\nNot measured: {note}.");
    }
}

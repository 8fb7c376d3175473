//! tsnkit's pair of tables: streams (`stream,src,dst,size,period,deadline,jitter`; older files say `id`) and topology
//! (`link,q_num,rate,t_proc,t_prop`).
//!
//! Sizes are bytes on the wire, times nanoseconds, rates nanoseconds for each bit. Each direction of a link has a line
//! of its own. A node with one link is an end station, all others are switches (tsnkit 0.3.0, `core/_network.py` and
//! `core/_stream.py`).

use std::collections::{BTreeMap, BTreeSet};

use super::Imported;
use super::draft::{Contract, Draft, LARGEST_ON_WIRE, Link, Stream, Switch};
use super::fault::{ImportFault, shown};
use crate::ratio::Ratio;

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Direction {
    queues: u8,
    ns_per_bit: u64,
    processing_ns: u64,
    propagation_ns: u64,
}

/// A table whose columns are found by their titles.
struct Table {
    file: &'static str,
    columns: Vec<usize>,
    rows: Vec<(u64, csv::StringRecord)>,
}

impl Table {
    /// Reads a table. `titles` lists for each column the names that it may have.
    fn read(file: &'static str, text: &str, titles: &[&[&str]]) -> Result<Table, ImportFault> {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let fault = |line, fault| ImportFault::Line { file, line, fault };
        let wrong = |error: csv::Error| {
            let line = error.position().map_or(1, csv::Position::line);
            fault(line, format!("no table of comma-separated values: {error}"))
        };
        let heads = reader.headers().map_err(wrong)?.clone();
        let mut columns = Vec::new();
        for names in titles {
            let at = heads.iter().position(|head| names.contains(&head));
            columns.push(at.ok_or_else(|| {
                let wanted: Vec<&str> = titles.iter().map(|names| names[0]).collect();
                fault(
                    1,
                    format!(
                        "there is no column \"{}\"; expected are {}",
                        names[0],
                        wanted.join(",")
                    ),
                )
            })?);
        }
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(wrong)?;
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line, record));
        }
        if rows.is_empty() {
            return Err(fault(1, "there is nothing below the titles".to_owned()));
        }
        Ok(Table {
            file,
            columns,
            rows,
        })
    }

    fn text<'a>(&self, row: &'a csv::StringRecord, column: usize) -> &'a str {
        row.get(self.columns[column]).unwrap_or("")
    }

    fn fault(&self, line: u64, fault: String) -> ImportFault {
        ImportFault::Line {
            file: self.file,
            line,
            fault,
        }
    }

    fn number(
        &self,
        line: u64,
        row: &csv::StringRecord,
        column: usize,
        what: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, ImportFault> {
        let text = self.text(row, column);
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| {
            self.fault(
                line,
                format!(
                    "{what} is \"{}\", but expected is a whole number from {} to {}",
                    shown(text),
                    range.start(),
                    range.end()
                ),
            )
        })
    }

    /// Returns the numbers within brackets.
    fn nodes(
        &self,
        line: u64,
        row: &csv::StringRecord,
        column: usize,
        what: &str,
    ) -> Result<Vec<u32>, ImportFault> {
        let text = self.text(row, column);
        let inner = text
            .strip_prefix(['[', '('])
            .and_then(|text| text.strip_suffix([']', ')']));
        let numbers: Option<Vec<u32>> = inner.and_then(|inner| {
            let parts = inner.split(',').map(str::trim);
            let parts = parts.filter(|part| !part.is_empty());
            parts.map(|part| part.parse().ok()).collect()
        });
        numbers.filter(|list| !list.is_empty()).ok_or_else(|| {
            self.fault(
                line,
                format!(
                    "{what} is \"{}\", but expected are numbers of nodes in brackets",
                    shown(text)
                ),
            )
        })
    }
}

/// The longest time that a description accepts, nanoseconds.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Imports tsnkit's tables of streams and topology.
///
/// # Errors
/// [`ImportFault`]: the first line that does not follow the format.
pub fn tsnkit(streams: &str, topology: &str) -> Result<Imported, ImportFault> {
    let mut draft = Draft {
        name: "tsnkit".to_owned(),
        origin: "From the tables of tsnkit: node 7 is n7, stream 3 is f3.".to_owned(),
        scheduled: true,
        ..Draft::default()
    };
    let directions = directions(topology)?;
    nodes(&directions, &mut draft);
    add_links(&directions, &mut draft);
    add_streams(streams, &mut draft)?;
    draft.finish()
}

fn directions(text: &str) -> Result<BTreeMap<(u32, u32), Direction>, ImportFault> {
    let titles: [&[&str]; 5] = [&["link"], &["q_num"], &["rate"], &["t_proc"], &["t_prop"]];
    let table = Table::read("topology", text, &titles)?;
    let mut found = BTreeMap::new();
    for (line, row) in &table.rows {
        let line = *line;
        let ends = table.nodes(line, row, 0, "link")?;
        let &[from, to] = ends.as_slice() else {
            return Err(table.fault(line, "a link has two nodes, as in \"(0, 1)\"".to_owned()));
        };
        if from == to {
            return Err(table.fault(line, format!("the link joins node {from} with itself")));
        }
        let queues = table.number(line, row, 1, "q_num", 1..=8)?;
        let direction = Direction {
            queues: u8::try_from(queues).unwrap_or(8),
            ns_per_bit: table.number(line, row, 2, "rate (ns for each bit)", 1..=1000)?,
            processing_ns: table.number(line, row, 3, "t_proc", 0..=LONGEST_NS)?,
            propagation_ns: table.number(line, row, 4, "t_prop", 0..=LONGEST_NS)?,
        };
        if found.insert((from, to), direction).is_some() {
            return Err(table.fault(line, format!("link ({from}, {to}) is there twice")));
        }
    }
    Ok(found)
}

/// Adds the nodes: a node with one link is an end station, all others are switches. A node's latency is the
/// processing of what it receives: constant, unless its links differ.
fn nodes(directions: &BTreeMap<(u32, u32), Direction>, draft: &mut Draft) {
    let mut neighbours: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for &(from, to) in directions.keys() {
        neighbours.entry(from).or_default().insert(to);
        neighbours.entry(to).or_default().insert(from);
    }
    for (node, others) in &neighbours {
        if others.len() == 1 {
            draft.hosts.push(format!("n{node}"));
            continue;
        }
        let arriving = directions.iter().filter(|((_, to), _)| to == node);
        let times: BTreeSet<u64> = arriving.map(|(_, to)| to.processing_ns).collect();
        let latency_ns = times.last().copied().unwrap_or(0);
        if times.len() > 1 {
            draft.notes.push(format!(
                "t_proc of the links to node {node} differs: each frame takes {} to {latency_ns} ns",
                times.first().copied().unwrap_or(0)
            ));
        }
        let leaving = directions.iter().filter(|((from, _), _)| from == node);
        let queues: BTreeSet<u8> = leaving.map(|(_, port)| port.queues).collect();
        if queues.len() > 1 {
            draft.notes.push(format!(
                "q_num of the links from node {node} differs: all have the least"
            ));
        }
        draft.switches.push(Switch {
            name: format!("n{node}"),
            latency_ns,
            latency_min_ns: times.first().copied().unwrap_or(0),
            queues: queues.first().copied().unwrap_or(1),
        });
    }
}

fn add_links(directions: &BTreeMap<(u32, u32), Direction>, draft: &mut Draft) {
    for (&(from, to), there) in directions {
        let back = directions.get(&(to, from));
        if back.is_some() && from > to {
            continue;
        }
        let back = back.copied().unwrap_or_else(|| {
            draft.notes.push(format!(
                "link ({from}, {to}) has one direction: the other is taken to be the same"
            ));
            *there
        });
        let ns_per_bit = there.ns_per_bit.max(back.ns_per_bit);
        let cable_ns = there.propagation_ns.max(back.propagation_ns);
        if there.ns_per_bit != back.ns_per_bit || there.propagation_ns != back.propagation_ns {
            draft.notes.push(format!(
                "the directions of link ({from}, {to}) differ: both take the slower rate and the longer way"
            ));
        }
        let rate = Ratio::new(1_000_000_000, i128::from(ns_per_bit));
        draft.links.push(Link {
            ends: [format!("n{from}"), format!("n{to}")],
            // The divisor is at least 1: it always is a number.
            rate: rate.unwrap_or(Ratio::ZERO),
            cable_ns,
        });
    }
}

fn add_streams(text: &str, draft: &mut Draft) -> Result<(), ImportFault> {
    let titles: [&[&str]; 7] = [
        &["stream", "id"],
        &["src"],
        &["dst"],
        &["size"],
        &["period"],
        &["deadline"],
        &["jitter"],
    ];
    let table = Table::read("streams", text, &titles)?;
    let mut seen = BTreeSet::new();
    let stations: BTreeSet<String> = draft.hosts.iter().cloned().collect();
    for (line, row) in &table.rows {
        let line = *line;
        let id = table.number(line, row, 0, "stream", 0..=u64::from(u32::MAX))?;
        if !seen.insert(id) {
            return Err(table.fault(line, format!("stream {id} is there twice")));
        }
        let station = |node: u64| {
            let name = format!("n{node}");
            if stations.contains(&name) {
                return Ok(name);
            }
            Err(table.fault(
                line,
                format!("node {node} is no end station of the topology: those have one link"),
            ))
        };
        let talker = station(table.number(line, row, 1, "src", 0..=u64::from(u32::MAX))?)?;
        let listeners = table
            .nodes(line, row, 2, "dst")?
            .into_iter()
            .map(|node| station(node.into()))
            .collect::<Result<_, _>>()?;
        let interval_ns = table.number(line, row, 4, "period", 1..=LONGEST_NS)?;
        let deadline_ns = table.number(line, row, 5, "deadline", 1..=LONGEST_NS)?;
        let jitter_ns = table.number(line, row, 6, "jitter", 0..=LONGEST_NS)?;
        draft.streams.push(Stream {
            name: format!("f{id}"),
            talker,
            listeners,
            bytes: table.number(line, row, 3, "size", 1..=LARGEST_ON_WIRE)?,
            smallest_bytes: None,
            contract: Contract::Launched {
                interval_ns,
                // More than a deadline no jitter can be.
                jitter_ns: (jitter_ns < deadline_ns).then_some(jitter_ns),
            },
            deadline_ns: Some(deadline_ns),
            route: None,
        });
    }
    Ok(())
}

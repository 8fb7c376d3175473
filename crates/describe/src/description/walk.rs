//! Turns TOML into typed records by the table of keys, and notes every fault on the way.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::fault::Findings;
use super::keys::{TABLES, Table};
use super::value::{parse_value, short, wrong_type};
use crate::ratio::Ratio;

pub(crate) type Span = Range<usize>;

/// A value of the correct kind.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Names(Vec<(String, Span)>),
    Integer(i64),
    Quantity(Ratio),
    /// The least and the largest latency.
    Latency(Ratio, Ratio),
    Buffer(Ratio, Option<u64>),
    /// The queue of each priority.
    Classes([u8; 8]),
    /// Priorities in ascending order.
    Priorities(Vec<u8>),
    /// A number for each of some DSCPs.
    Codes(BTreeMap<u8, u8>),
}

/// One table of the file. Values with a fault are absent, but listed in `given`.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) span: Span,
    pub(crate) values: BTreeMap<&'static str, (Value, Span)>,
    /// Every known key of the table in the file, valid or not, with its place.
    pub(crate) given: BTreeMap<&'static str, Span>,
}

impl Record {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// Returns the place to report for a key: its value, or the table if the key is missing.
    pub(crate) fn place(&self, key: &str) -> Span {
        self.values
            .get(key)
            .map(|(_, span)| span)
            .or_else(|| self.given.get(key))
            .unwrap_or(&self.span)
            .clone()
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key) {
            Some((Value::Text(text), _)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn names(&self, key: &str) -> Option<&[(String, Span)]> {
        match self.values.get(key) {
            Some((Value::Names(names), _)) => Some(names),
            _ => None,
        }
    }

    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        match self.values.get(key) {
            Some((Value::Integer(value), _)) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn quantity(&self, key: &str) -> Option<Ratio> {
        match self.values.get(key) {
            Some((Value::Quantity(value), _)) => Some(*value),
            _ => None,
        }
    }

    /// Returns the least and the largest latency.
    pub(crate) fn latency(&self, key: &str) -> Option<(Ratio, Ratio)> {
        match self.values.get(key) {
            Some((Value::Latency(min, max), _)) => Some((*min, *max)),
            _ => None,
        }
    }

    /// Returns the queue of each priority, where it is a list.
    pub(crate) fn classes(&self, key: &str) -> Option<[u8; 8]> {
        match self.values.get(key) {
            Some((Value::Classes(classes), _)) => Some(*classes),
            _ => None,
        }
    }

    pub(crate) fn priorities(&self, key: &str) -> Option<&[u8]> {
        match self.values.get(key) {
            Some((Value::Priorities(priorities), _)) => Some(priorities),
            _ => None,
        }
    }

    /// Returns the number of each stated DSCP.
    pub(crate) fn codes(&self, key: &str) -> Option<&BTreeMap<u8, u8>> {
        match self.values.get(key) {
            Some((Value::Codes(codes), _)) => Some(codes),
            _ => None,
        }
    }

    pub(crate) fn buffer(&self, key: &str) -> Option<(Ratio, Option<u64>)> {
        match self.values.get(key) {
            Some((Value::Buffer(value, frames), _)) => Some((*value, *frames)),
            _ => None,
        }
    }
}

/// The records of each table, in the order of the file.
pub(crate) type Records = BTreeMap<&'static str, Vec<Record>>;

/// Returns the message for a key or table that is well known elsewhere and has another name or form here.
fn unsupported(name: &str) -> Option<(String, String)> {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    let preemption = [
        "preemption",
        "framepreemption",
        "preemptible",
        "express",
        "expresspriorities",
        "preemptablepriorities",
        "8021qbu",
        "qbu",
    ];
    preemption.contains(&plain.as_str()).then(|| {
        (
            format!("`{}`: frame preemption (802.1Qbu) is stated with `preemptable`", short(name)),
            "preemptable = [0] at [[switch]] and [[host]]: the priorities whose frames may be interrupted, all others are express".to_owned(),
        )
    })
}

/// Walks the whole document.
pub(crate) fn walk(document: &DeTable<'_>, findings: &mut Findings<'_>) -> Records {
    let mut records = Records::new();
    for (name, value) in document {
        let mut known = TABLES
            .iter()
            .find(|table| table.name == name.get_ref().as_ref());
        if let Some((message, help)) = unsupported(name.get_ref()) {
            findings.at(&name.span(), message, Some(help));
            continue;
        }
        if known.is_none() {
            let near = findings.nearest(name.get_ref(), TABLES.iter().map(|table| table.name));
            let near = near.and_then(|near| TABLES.iter().find(|table| table.name == near));
            let help = near.map(|table| format!("did you mean `{}`?", table.heading()));
            let sort = if matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_)) {
                "table"
            } else {
                "key"
            };
            findings.at(
                &name.span(),
                format!("unknown {sort} `{}`", short(name.get_ref())),
                help,
            );
            // Read it as what was meant, so that what it names is not missing as well.
            let meant = |table: &&Table| {
                let form = matches!(
                    (value.get_ref(), table.many),
                    (DeValue::Table(_), false) | (DeValue::Array(_), true)
                );
                form && (table.many || !document.contains_key(table.name))
            };
            known = near.filter(meant);
        }
        let Some(table) = known else { continue };
        let list = records.entry(table.name).or_default();
        match (value.get_ref(), table.many) {
            (DeValue::Table(content), false) => {
                list.push(record(table, value.span(), content, findings))
            }
            (DeValue::Array(items), true) => {
                for item in items {
                    match item.get_ref() {
                        DeValue::Table(content) => {
                            list.push(record(table, item.span(), content, findings))
                        }
                        other => wrong_type(findings, &item.span(), table.name, "a table", other),
                    }
                }
            }
            (DeValue::Table(content), true) => {
                let help = Some(format!("write `{}`", table.heading()));
                findings.at(
                    &name.span(),
                    format!("`[{}]` may be given many times", table.name),
                    help,
                );
                list.push(record(table, value.span(), content, findings));
            }
            (DeValue::Array(_), false) => {
                let help = Some(format!("write `{}`", table.heading()));
                findings.at(
                    &name.span(),
                    format!("`{}` is given once", table.name),
                    help,
                );
            }
            (other, _) => wrong_type(findings, &value.span(), table.name, "a table", other),
        }
    }
    for table in TABLES.iter().filter(|table| table.required) {
        if !records.contains_key(table.name) {
            findings.at(
                &(0..0),
                format!("missing table `{}`", table.heading()),
                None,
            );
        }
    }
    records
}

fn record(
    table: &'static Table,
    span: Span,
    content: &DeTable<'_>,
    findings: &mut Findings<'_>,
) -> Record {
    let mut record = Record {
        span,
        values: BTreeMap::new(),
        given: BTreeMap::new(),
    };
    // What unknown keys were meant to be.
    let mut meant: BTreeSet<&'static str> = BTreeSet::new();
    for (name, value) in content {
        let Some(key) = table.key(name.get_ref()) else {
            if let Some((message, help)) = unsupported(name.get_ref()) {
                findings.at(&name.span(), message, Some(help));
                continue;
            }
            let near = findings.nearest(name.get_ref(), table.keys.iter().map(|key| key.name));
            meant.extend(near);
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    let names: Vec<&str> = table.keys.iter().map(|key| key.name).collect();
                    format!("keys are {}", names.join(", "))
                }
            };
            let message = format!(
                "unknown key `{}` in {}",
                short(name.get_ref()),
                table.heading()
            );
            findings.at(&name.span(), message, Some(help));
            continue;
        };
        record.given.insert(key.name, name.span());
        if let Some(parsed) = parse_value(key, value, findings) {
            record.values.insert(key.name, (parsed, value.span()));
        }
    }
    for key in table
        .keys
        .iter()
        .filter(|key| key.required && !record.has(key.name))
    {
        // A misspelt key is one fault, not two: the unknown one tells it.
        if !meant.contains(key.name) {
            findings.at(
                &record.span,
                format!("missing key `{}` in {}", key.name, table.heading()),
                None,
            );
        }
    }
    for set in table.one_of {
        let given: Vec<&str> = set.iter().copied().filter(|key| record.has(key)).collect();
        let choice = set
            .iter()
            .map(|key| format!("`{key}`"))
            .collect::<Vec<_>>()
            .join(" or ");
        let misspelt = set.iter().any(|key| meant.contains(key));
        if given.is_empty() && !misspelt {
            findings.at(
                &record.span,
                format!("missing key {choice} in {}", table.heading()),
                None,
            );
        } else if let [_, second, ..] = given[..] {
            let both = given
                .iter()
                .map(|key| format!("`{key}`"))
                .collect::<Vec<_>>()
                .join(" and ");
            findings.at(
                &record.given[second].clone(),
                format!("both {both} are given"),
                Some(format!("keep {choice}")),
            );
        }
    }
    record
}

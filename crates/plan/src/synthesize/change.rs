//! Changes in the words of a description.

use rtwire_describe::edit::Setting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::space::{Entry, Pick, Space};
use crate::suggest::quoted;

/// One changed value of one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The stream.
    pub stream: String,
    /// The key in its table.
    pub key: String,
    /// The value before, as TOML; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new value, as TOML.
    pub new: String,
}

impl Change {
    /// Returns the change for [`rtwire_describe::edit::set`].
    #[must_use]
    pub fn setting(&self) -> Setting {
        Setting {
            stream: self.stream.clone(),
            key: self.key.clone(),
            value: self.new.clone(),
        }
    }
}

/// Returns the changes of a choice, stream by stream.
pub(super) fn changes(space: &Space, picks: &[Pick]) -> Vec<Change> {
    let pairs = space.entries.iter().zip(picks);
    pairs.flat_map(|(entry, pick)| of(entry, *pick)).collect()
}

fn of(entry: &Entry, pick: Pick) -> Vec<Change> {
    let stated = Pick::default();
    let mut changes = Vec::new();
    let mut change = |key: &str, old: Option<String>, new: String| {
        changes.push(Change {
            stream: entry.name.clone(),
            key: key.to_owned(),
            old,
            new,
        });
    };
    if pick.scheduled != stated.scheduled {
        change("schedule", None, "\"time-triggered\"".to_owned());
    }
    if pick.priority != stated.priority {
        let text = |pick: Pick| entry.priority(pick).to_string();
        change("priority", Some(text(stated)), text(pick));
    }
    if pick.interval != stated.interval {
        let text = |pick: Pick| duration(entry.interval_ns(pick));
        change("shaping-interval", Some(text(stated)), text(pick));
    }
    if let (Some(old), Some(new), true) = (
        entry.route(stated),
        entry.route(pick),
        pick.route != stated.route,
    ) {
        let list = |route: &[String]| format!("[{}]", quoted(route));
        change("route", Some(list(old)), list(new));
    }
    changes
}

/// Returns a duration as a description has it, without loss.
fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units
        .into_iter()
        .find(|(size, _)| ns >= *size && ns % size == 0);
    match unit {
        Some((size, name)) => format!("\"{} {name}\"", ns / size),
        None => format!("\"{ns} ns\""),
    }
}

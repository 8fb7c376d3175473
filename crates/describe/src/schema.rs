//! The JSON Schema of the description and its reference in Markdown, both from the same table of keys.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::description::keys::{Key, Kind, PRIORITY_TABLES, TABLES, Table};
use crate::units::{Dimension, unit_names};

/// Returns the JSON Schema of a network description (its TOML seen as JSON).
#[must_use]
pub fn json_schema() -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for table in TABLES {
        properties.insert(table.name.to_owned(), table_schema(table));
        if table.required {
            required.push(table.name);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rtwire network description",
        "description": "Hosts, switches, routers, links and streams of a network. Quantities are texts with a unit.",
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn table_schema(table: &Table) -> Value {
    let properties: Map<String, Value> = table
        .keys
        .iter()
        .map(|key| (key.name.to_owned(), key_schema(key)))
        .collect();
    let required: Vec<&str> = table
        .keys
        .iter()
        .filter(|key| key.required)
        .map(|key| key.name)
        .collect();
    let mut object = json!({
        "description": table.doc,
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    });
    let sets: Vec<Value> = table
        .one_of
        .iter()
        .map(|set| json!({ "oneOf": set.iter().map(|key| json!({ "required": [key] })).collect::<Vec<_>>() }))
        .collect();
    if !sets.is_empty() {
        object["allOf"] = Value::Array(sets);
    }
    if table.many {
        json!({ "description": table.doc, "type": "array", "items": object })
    } else {
        object
    }
}

fn pattern(dimension: Dimension) -> String {
    let units: Vec<&str> = unit_names(dimension).collect();
    format!("^ *[0-9][0-9_. /]*({}) *$", units.join("|"))
}

fn key_schema(key: &Key) -> Value {
    let name = json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" });
    let mut schema = match key.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Name => name,
        Kind::Names => json!({ "type": "array", "items": name, "minItems": 1 }),
        Kind::Ends => json!({ "type": "array", "items": name, "minItems": 2, "maxItems": 2 }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Quantity { dimension, .. } => {
            json!({ "type": "string", "pattern": pattern(dimension) })
        }
        Kind::Buffer => {
            let data: Vec<&str> = unit_names(Dimension::Data).collect();
            let pattern = format!("^ *([0-9]+ *[x×])? *[0-9][0-9_. /]*({}) *$", data.join("|"));
            json!({ "type": "string", "pattern": pattern })
        }
        Kind::Latency => {
            let time = json!({ "type": "string", "pattern": pattern(Dimension::Time) });
            json!({ "oneOf": [time, {
                "type": "object",
                "additionalProperties": false,
                "required": ["min", "max"],
                "properties": { "min": time, "max": time },
            }] })
        }
        Kind::PriorityMap => json!({ "oneOf": [{ "enum": PRIORITY_TABLES }, {
            "type": "array",
            "items": { "type": "integer", "minimum": 0, "maximum": 7 },
            "minItems": 8,
            "maxItems": 8,
        }] }),
        Kind::Priorities => json!({
            "type": "array",
            "items": { "type": "integer", "minimum": 0, "maximum": 7 },
            "uniqueItems": true,
        }),
        Kind::Codes { most } => json!({
            "type": "object",
            "propertyNames": { "pattern": "^([0-9]|[1-5][0-9]|6[0-3])$" },
            "additionalProperties": { "type": "integer", "minimum": 0, "maximum": most },
        }),
        Kind::Choice(words) => json!({ "enum": words }),
    };
    schema["description"] = json!(key.doc);
    if let Some(default) = key.default {
        schema["default"] = match key.kind {
            Kind::Integer { .. } => default.parse::<i64>().map_or(Value::Null, Value::from),
            _ => json!(default),
        };
    }
    schema
}

/// Returns every table and key as Markdown: the reference part of the manual page.
#[must_use]
pub fn key_reference() -> String {
    let mut text = String::new();
    for table in TABLES {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "### `{}`\n\n{}\n", table.heading(), table.doc);
        let _ = writeln!(
            text,
            "| key | value | default | meaning |\n|---|---|---|---|"
        );
        for key in table.keys {
            let default = match (key.required, key.default) {
                (true, _) => "required".to_owned(),
                (false, Some(default)) => format!("`{default}`"),
                (false, None) => String::new(),
            };
            let _ = writeln!(
                text,
                "| `{}` | {} | {default} | {} |",
                key.name,
                value_form(key.kind),
                key.doc
            );
        }
        for set in table.one_of {
            let names: Vec<String> = set.iter().map(|key| format!("`{key}`")).collect();
            let _ = writeln!(text, "\nExactly one of {} is given.", names.join(" and "));
        }
        text.push('\n');
    }
    text
}

fn value_form(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Name => "name".to_owned(),
        Kind::Names => "list of names".to_owned(),
        Kind::Ends => "two names".to_owned(),
        Kind::Integer { min, max } => format!("{min} to {max}"),
        Kind::Quantity {
            dimension: Dimension::Time,
            ..
        } => "duration".to_owned(),
        Kind::Quantity {
            dimension: Dimension::Rate,
            ..
        } => "rate".to_owned(),
        Kind::Quantity {
            dimension: Dimension::Data,
            ..
        } => "amount of data".to_owned(),
        Kind::Quantity {
            dimension: Dimension::Share,
            ..
        } => "share".to_owned(),
        Kind::PriorityMap => "eight numbers 0 to 7, or a name".to_owned(),
        Kind::Priorities => "list of numbers 0 to 7".to_owned(),
        Kind::Codes { most } => format!("numbers 0 to {most} by DSCP"),
        Kind::Latency => "duration, or `{ min, max }`".to_owned(),
        Kind::Buffer => "amount of data, or `n x size`".to_owned(),
        Kind::Choice(words) => words
            .iter()
            .map(|word| format!("`\"{word}\"`"))
            .collect::<Vec<_>>()
            .join(" or "),
    }
}

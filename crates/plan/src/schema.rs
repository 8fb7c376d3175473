//! The JSON Schema of the result of planning, made from its types.

use serde_json::{Value, json};

use crate::answer::Answer;
pub use rtwire_describe::schema::{json_schema, key_reference};

/// Returns the JSON Schema of the output of `rtwire plan --json`.
#[must_use]
pub fn plan_schema() -> Value {
    let mut schema = schemars::schema_for!(Answer).to_value();
    schema["title"] = json!("rtwire plan");
    exact_integers(&mut schema);
    schema
}

/// Allows decimal text for integers of 64 bits, which are written so above 2^53 - 1 (see [`crate::plan_file`]).
fn exact_integers(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format") == Some(&json!("uint64")) {
                let mut types = match fields.get("type") {
                    Some(Value::Array(types)) => types.clone(),
                    _ => vec![json!("integer")],
                };
                types.push(json!("string"));
                fields.insert("type".to_owned(), Value::Array(types));
                fields.insert("maximum".to_owned(), json!(crate::plan_file::LARGEST_EXACT));
                fields.insert("pattern".to_owned(), json!("^[0-9]{16,20}$"));
            }
            fields.values_mut().for_each(exact_integers);
        }
        Value::Array(items) => items.iter_mut().for_each(exact_integers),
        _ => {}
    }
}

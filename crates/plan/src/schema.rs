//! The JSON Schema of what planning answers, from its types.

use serde_json::{Value, json};

use crate::answer::Answer;
pub use rtwire_describe::schema::{json_schema, key_reference};

/// The JSON Schema of what `rtwire plan --json` prints.
#[must_use]
pub fn plan_schema() -> Value {
    let mut schema = schemars::schema_for!(Answer).to_value();
    schema["title"] = json!("rtwire plan");
    schema
}

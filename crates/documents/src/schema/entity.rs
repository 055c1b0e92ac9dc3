//! The JSON Schema of entity workflows.

use serde_json::{Value, json};

/// Placeholder.
pub fn entity_schema() -> Value {
    json!({})
}

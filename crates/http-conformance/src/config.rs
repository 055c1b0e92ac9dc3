//! Description of the service under test.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;

/// How to reach a service, and which clauses to check. `{{unique}}` in paths, header values and body strings is
/// replaced by a value that is new for each clause and constant within it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// The contract to check.
    #[serde(default)]
    pub profile: Profile,
    /// Form of the key in the header; by default bare for `hapax`, quoted for `ietf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_form: Option<KeyForm>,
    /// A mutating request that succeeds and has one effect.
    pub request: Shape,
    /// A JSON merge patch that turns its body into a different valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_body: Option<Value>,
    /// A JSON merge patch that turns its body into one that the service refuses with 4xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_body: Option<Value>,
    /// Another mutating request (with a different path or method), to send under a key of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_request: Option<Shape>,
    /// A request that takes about a second and has one effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_request: Option<Shape>,
    /// A request that begins and fails with 5xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_request: Option<Shape>,
    /// How to count effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Effects>,
    /// True if `request` requires a key.
    #[serde(default)]
    pub key_required: bool,
    /// Header fields of a second credential; they replace fields of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_credential: BTreeMap<String, String>,
    /// Timeout for one answer, and for an effect to show.
    #[serde(default = "default_max_wait_ms")]
    pub max_wait_ms: u64,
    /// Clauses that do not apply to this service, by id, each with its reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_applicable: BTreeMap<String, String>,
}

fn default_max_wait_ms() -> u64 {
    limits::MAX_WAIT_MS
}

/// A contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Only the rules of draft-ietf-httpapi-idempotency-key-header.
    Ietf,
    /// All rules.
    #[default]
    Hapax,
}

/// Form of a key in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyForm {
    /// `Idempotency-Key: abc`, as Stripe uses it.
    Bare,
    /// `Idempotency-Key: "abc"`, an RFC 8941 string, as the draft specifies.
    Quoted,
}

/// Shape of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shape {
    /// POST by default.
    #[serde(default = "post")]
    pub method: String,
    /// Begins with a slash; may have a query.
    pub path: String,
    /// Header fields: authorization, say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body, sent as JSON; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

fn post() -> String {
    "POST".to_owned()
}

/// A GET request whose answer shows the number of effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Effects {
    /// Begins with a slash; with `{{unique}}` it counts only effects of this clause.
    pub path: String,
    /// Header fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// JSON pointer to a number, or to a list whose length counts. The whole answer by default.
    #[serde(default)]
    pub pointer: String,
}

impl Config {
    /// The form of keys in the header.
    pub fn key_form(&self) -> KeyForm {
        match (self.key_form, self.profile) {
            (Some(form), _) => form,
            (None, Profile::Ietf) => KeyForm::Quoted,
            (None, Profile::Hapax) => KeyForm::Bare,
        }
    }
}

/// The template with its placeholders filled.
pub(crate) fn fill(template: &Value, unique: &str) -> Value {
    match template {
        Value::String(text) => Value::String(fill_text(text, unique)),
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, unique)).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), fill(value, unique))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

pub(crate) fn fill_text(template: &str, unique: &str) -> String {
    template.replace("{{unique}}", unique)
}

/// A JSON merge patch (RFC 7396).
pub(crate) fn merge(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut merged = match target {
        Value::Object(fields) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    for (name, change) in patch {
        match change {
            Value::Null => drop(merged.remove(name)),
            change => {
                let before = merged.get(name).cloned().unwrap_or(Value::Null);
                merged.insert(name.clone(), merge(&before, change));
            }
        }
    }
    Value::Object(merged)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_are_filled_wherever_strings_are() {
        let template = json!({ "a": "x-{{unique}}", "b": ["{{unique}}", 1, null], "c": { "d": true } });
        let filled = json!({ "a": "x-7", "b": ["7", 1, null], "c": { "d": true } });
        assert_eq!(fill(&template, "7"), filled);
    }

    #[test]
    fn patches_merge_as_rfc_7396_has_it() {
        for (target, patch, merged) in [
            (
                json!({ "a": 1, "b": { "c": 2 } }),
                json!({ "b": { "d": 3 } }),
                json!({ "a": 1, "b": { "c": 2, "d": 3 } }),
            ),
            (json!({ "a": 1, "b": 2 }), json!({ "b": null }), json!({ "a": 1 })),
            (json!({ "a": [1] }), json!({ "a": [2] }), json!({ "a": [2] })),
            (json!([1]), json!({ "a": 1 }), json!({ "a": 1 })),
            (json!({ "a": 1 }), json!(5), json!(5)),
            (json!({}), json!({ "a": { "b": { "c": null } } }), json!({ "a": { "b": {} } })),
        ] {
            assert_eq!(merge(&target, &patch), merged);
        }
    }

    #[test]
    fn a_field_nobody_knows_is_refused() {
        let config = json!({ "request": { "path": "/orders" }, "otherbody": {} });
        let problem = serde_json::from_value::<Config>(config).unwrap_err().to_string();
        assert!(problem.contains("otherbody") && problem.contains("otherBody"), "{problem}");
    }

    #[test]
    fn little_needs_to_be_said() {
        let config: Config = serde_json::from_value(json!({ "request": { "path": "/orders" } })).unwrap();
        assert_eq!((config.request.method.as_str(), config.profile), ("POST", Profile::Hapax));
        assert_eq!(config.key_form(), KeyForm::Bare);
        assert_eq!(Config { profile: Profile::Ietf, ..config }.key_form(), KeyForm::Quoted);
    }
}

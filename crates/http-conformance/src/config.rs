//! Description of the service under test.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;

/// How to talk to a service, and which clauses to hold it to. `{{unique}}` in paths, header values and strings of bodies is
/// replaced by a value that is fresh for each clause and the same for all requests within it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Which contract.
    #[serde(default)]
    pub profile: Profile,
    /// How keys are written in the header; by default bare for `hapax`, quoted for `ietf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_form: Option<KeyForm>,
    /// A mutating request that succeeds and has one effect.
    pub request: Shape,
    /// A JSON merge patch that makes its body another valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_body: Option<Value>,
    /// A JSON merge patch that makes its body one that the service refuses with 4xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_body: Option<Value>,
    /// Another mutating request (path or method differ), to be sent under a key of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_request: Option<Shape>,
    /// A request that takes a second or so to be answered, and has one effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_request: Option<Shape>,
    /// A request that begins and ends in 5xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_request: Option<Shape>,
    /// How to count effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Effects>,
    /// Whether `request` requires a key.
    #[serde(default)]
    pub key_required: bool,
    /// Header fields of a second credential, in place of those of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_credential: BTreeMap<String, String>,
    /// How long to wait for one answer, or for an effect to show.
    #[serde(default = "default_max_wait_ms")]
    pub max_wait_ms: u64,
    /// Clauses that do not apply to this service, by id, each with the reason.
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
    /// The rules of draft-ietf-httpapi-idempotency-key-header only.
    Ietf,
    /// Everything.
    #[default]
    Hapax,
}

/// How a key is written in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyForm {
    /// `Idempotency-Key: abc`, as Stripe has it.
    Bare,
    /// `Idempotency-Key: "abc"`, an RFC 8941 string, as the draft has it.
    Quoted,
}

/// How a request looks.
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

/// A GET whose answer tells how many effects there were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Effects {
    /// Begins with a slash; with `{{unique}}` it counts only what this clause did.
    pub path: String,
    /// Header fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// JSON pointer to a number, or to a list whose length counts. The whole answer by default.
    #[serde(default)]
    pub pointer: String,
}

impl Config {
    /// How keys are written in the header.
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

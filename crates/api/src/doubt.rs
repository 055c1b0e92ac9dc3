//! Effects of which nobody knows whether they happened, and what people decide about them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{Failure, RawJson, Role};

/// A person, as the audit log names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Actor {
    /// Who.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// In which role.
    pub role: Role,
    /// Id of the credential used. Two credentials may have the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    /// The person that the request named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The trace of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It happened; needs `output`.
    Happened,
    /// It did not happen; it is run.
    DidNotHappen,
    /// It is undone; needs `output`.
    Compensate,
    /// Nobody will ever know; the step counts as failed.
    Abandon,
}

/// One effect in doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// The run.
    pub run_id: String,
    /// The step.
    pub step_id: String,
    /// What the provider knows the effect by.
    pub effect_key: String,
    /// The run's version; the decision names it.
    pub version: u64,
    /// The workflow's name.
    pub workflow: String,
    /// Since when nobody knows.
    #[schema(format = DateTime)]
    pub since: String,
    /// Why.
    pub failure: Failure,
    /// Attempts begun.
    pub attempts: u32,
    /// What can be decided now.
    pub resolutions: Vec<Resolution>,
}

/// Decides about a doubt. Who decides, and in which role, is taken from the credential: all but `happened` needs the role manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveDoubt {
    /// What is decided.
    pub resolution: Resolution,
    /// What the effect gave; for `happened` and `compensate`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub output: Option<RawJson>,
    /// How you know.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// The run's version you saw.
    pub version: u64,
    /// The person who decides, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// The decision as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedDoubt {
    /// The run.
    pub run_id: String,
    /// The step.
    pub step_id: String,
    /// What was decided.
    pub resolution: Resolution,
    /// Who decided.
    pub actor: Actor,
    /// The run's version after it.
    pub version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_of_null_is_an_output() {
        let body = r#"{"resolution":"happened","reason":"seen at the bank","version":3,"output":null}"#;
        let ruling: ResolveDoubt = serde_json::from_str(body).unwrap();
        assert_eq!(ruling.output.as_ref().map(RawJson::text), Some("null"));
        let body = r#"{"resolution":"abandon","reason":"nobody knows","version":3}"#;
        assert_eq!(serde_json::from_str::<ResolveDoubt>(body).unwrap().output, None);
    }
}

//! Effects with an unknown outcome, and the decisions of people about them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{Failure, RawJson, Role};

/// A person, as the audit log names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Actor {
    /// Name of the person or credential.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Role used.
    pub role: Role,
    /// Id of the credential used. Two credentials may have the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    /// The person: the one that the identity provider vouches for, or else the one that the request named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The identity provider that vouches for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The person at that provider. Names may change; this does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The trace of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Decision about a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It happened; needs `output`.
    Happened,
    /// It did not happen; the step runs again.
    DidNotHappen,
    /// The step is undone; needs `output`.
    Compensate,
    /// The outcome will never be known; the step counts as failed.
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
    /// Idempotency key that the provider received.
    pub effect_key: String,
    /// Version of the run; send it with the decision.
    pub version: u64,
    /// The workflow's name.
    pub workflow: String,
    /// When the doubt began.
    #[schema(format = DateTime)]
    pub since: String,
    /// Why the outcome is unknown.
    pub failure: Failure,
    /// Attempts begun.
    pub attempts: u32,
    /// Decisions that are possible now.
    pub resolutions: Vec<Resolution>,
    /// Do all decisions but `happened` take two people here, managers included?
    #[serde(default)]
    pub takes_two_people: bool,
}

/// Decides a doubt. The credential says who decides and in which role. All resolutions but
/// `happened` need the role manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveDoubt {
    /// The decision.
    pub resolution: Resolution,
    /// Output of the effect; for `happened` and `compensate`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub output: Option<RawJson>,
    /// Evidence for the decision.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// Version of the run that you saw.
    pub version: u64,
    /// The person who decides, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// Confirms a proposed decision, as a second person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfirmRuling {
    /// The proposal, as `proposalId` of the journal names it.
    #[schema(min_length = 1, max_length = 255)]
    pub proposal_id: String,
    /// Your own checks, for the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// Version of the run that you saw.
    pub version: u64,
}

/// A proposed decision, which counts once another person confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedRuling {
    /// The run.
    pub run_id: String,
    /// The step.
    pub step_id: String,
    /// Names the proposal.
    pub proposal_id: String,
    /// The decision.
    pub resolution: Resolution,
    /// Person who proposed it.
    pub actor: Actor,
    /// When.
    #[schema(format = DateTime)]
    pub proposed_at: String,
    /// Version of the run that it is about.
    pub version: u64,
}

/// The decision as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedDoubt {
    /// The run.
    pub run_id: String,
    /// The step.
    pub step_id: String,
    /// The decision.
    pub resolution: Resolution,
    /// Who decided.
    pub actor: Actor,
    /// Version of the run after the decision.
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

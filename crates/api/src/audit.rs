//! The journal of a run and the audit log: what was tried, found out and decided.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{Actor, EntityName, Failure, RawJson, Resolution};

/// Kind of a journal entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JournalKind {
    /// An attempt of a claimed effect was about to be entered.
    Claimed,
    /// An attempt failed, and another was to follow.
    Failed,
    /// Nobody knows whether an attempt happened.
    Doubted,
    /// Something became known of an attempt.
    Attempted,
    /// A retry of the run dropped the record of a step. The step runs again.
    Superseded,
    /// A person allowed an effect that has happened to run again.
    RepeatAllowed,
    /// The provider was asked.
    Probed,
    /// An outcome was refused, because its writer no longer held the run.
    Refused,
    /// A person decided about a doubt.
    Resolved,
    /// A person proposed a ruling that takes a second person; `proposalId` names it.
    RulingProposed,
    /// A person looked at payloads that are hidden from others.
    PayloadsRevealed,
    /// A sign-in was refused; `command` counts them, and `reason` names the caller, the address and the cause.
    SignInsRefused,
    /// A person answered an approval; `command` is the decision.
    ApprovalAnswered,
    /// A person settled a promise; `command` says how.
    PromiseSettled,
    /// A person issued a token that settles a promise.
    SettleTokenIssued,
    /// A person took a step with an entity.
    StepTaken,
    /// A person gave a command on the run as a whole.
    Steered,
    /// A person had an after-effect delivered once more.
    Redelivered,
    /// A person requested another delivery of an after-effect.
    Noted,
    /// A person released an idempotency key.
    KeyReleased,
    /// A credential was issued, rotated or revoked.
    CredentialChanged,
    /// A workspace was made or changed.
    WorkspaceChanged,
    /// A definition was uploaded.
    DefinitionUploaded,
    /// A subscription to webhooks was made or changed.
    SubscriptionChanged,
    /// A push worker was registered or deleted.
    PushWorkerChanged,
    /// A webhook source was made or changed.
    SourceChanged,
    /// A webhook that came in was processed once more.
    WebhookReprocessed,
    /// A webhook that could not be delivered was discarded.
    WebhookDiscarded,
    /// An entity workflow was uploaded or changed.
    EntityWorkflowChanged,
    /// An operation on an entity began.
    Began,
    /// An operation that had been given back was tried again.
    TriedAgain,
    /// A claim whose holder vanished was given back.
    Reverted,
    /// A claim whose holder vanished was left for people to look at.
    Held,
    /// A manager took a step with an override; `target` is the operation that stood in the way, if one did.
    Overridden,
    /// An operation on an entity ended; `status` says how.
    Ended,
}

/// Known outcome of one attempt at an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// It may have happened.
    MayHaveHappened,
    /// It did not happen.
    DidNotHappen,
    /// It happened.
    Happened,
}

/// One entry. Those with `actor` are the audit log, and outlive the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// Id of the entry. Only entries of the audit log have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Kind of the entry.
    pub what: JournalKind,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// The run it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The generation of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The step it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// Other object the entry is about: a credential, a key, a definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The entity it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityName>,
    /// The operation it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Status of the operation or of the entity after the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Last sign of life of a claim's holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub last_heard_at: Option<String>,
    /// Result of an operation.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// The engine that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The person who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The person who agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Actor>,
    /// Which attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Proof about the attempt, if the entry gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
    /// Why an attempt failed or is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Response of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Decision about a doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// The command that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Why, or the text of a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Id of a proposed ruling, to confirm it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<String>,
    /// Version of the doubt that the proposal is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// Asks to see what a run hides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevealRun {
    /// Why; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
}

/// Leaves a note on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddNote {
    /// The note.
    #[schema(min_length = 1, max_length = 4096)]
    pub text: String,
    /// The step it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
}

//! The rules, and nothing else: pure types and functions of state, command and time. No clock, no store, no async.

mod allowed_action;
mod announce;
mod arrival;
mod attention;
mod canonical;
mod catalog_item;
mod command;
mod commit;
mod doubt;
mod effect;
mod effect_key;
mod entity;
mod entity_check;
mod entity_ledger;
mod entity_workflow;
mod event;
mod evidence;
mod failure;
mod family;
mod fingerprint;
mod human_text;
mod ids;
mod inbound_event;
mod journal;
mod key;
mod keyed_start;
mod leaf_digests;
mod ledger;
mod name;
mod operation;
mod operation_evidence;
mod outbox;
mod payload;
mod promise;
mod promise_transition;
mod random;
mod reopen;
mod request;
mod retention;
mod retry;
mod run;
mod run_transition;
mod second_person;
mod served_workflows;
mod settle_time;
mod signal;
mod start;
mod step;
mod step_transition;
mod time;
mod transition;
mod unknown_outcome;
mod workflow_selector;

pub use allowed_action::{AllowedAction, BlockedReason, allowed_actions};
pub use announce::{AnnouncementKind, Subscriber, Subscribers};
pub use arrival::{Arrival, decide_arrival};
pub use attention::{Attention, AttentionReason, attention_for_doubt, attention_for_pause};
pub use canonical::canonical_json;
pub use catalog_item::{CatalogItem, CatalogKind};
pub use command::{CommandResult, Refusal, RunCommand, decide_command};
pub use commit::{CANCEL_TOO_LATE, CommitBuilder, IllegalChange, RunCommit, StepChange};
use doubt::check_authority;
pub use doubt::{
    Actor, DoubtRef, DoubtedAttempt, OnDoubt, Origin, ProbeAnswer, RecordedDecision, Resolution, Role,
    Ruling, RulingError, can_be_carried_out, check_ruling, check_two_people,
};
pub use effect::EffectClass;
pub use effect_key::EffectKey;
pub use entity::{Entity, EntityRef, EntityStorage, TableRef, merge_data};
pub use entity_check::{EntityProblem, EntityRule, check_entity_workflow};
pub use entity_ledger::{EntityEffect, operation_of};
pub use entity_workflow::{
    Action, ClaimTo, EntityStep, EntityWorkflow, Irreversible, PerRequester, Recovery, RetryAnswer,
    RevertRule, StepView, UncoveredClaim,
};
pub use event::{EventKind, RunEvent};
pub use evidence::{
    EffectTally, Evidence, KnownAttempts, Occurrence, RepeatCount, TallyCount, count_repeats,
};
pub use failure::{Failure, FailureClass};
pub use family::{CancelledFamily, ChildrenRefused, Family, decide_add_children};
pub use fingerprint::{Fingerprint, IgnorePaths};
pub use human_text::{HumanText, check_actor_and_reason, is_misleading_name, is_misleading_text};
pub use ids::{
    Fence, Generation, OperationId, OwnerId, PromiseId, RunId, StepId, Version, WorkspaceId, WriteToken,
};
pub use inbound_event::{InboundEvent, InboundEventId, InboundEventStatus};
pub use journal::{AuditSubject, JournalEntry, JournalEvent};
pub use key::{EntityId, IdempotencyKey, KeyKind, KeyRecord, KeyTarget, SignalId, Subject};
pub use keyed_start::{KeyedStart, KeyedStartDecision, KeyedStartOutcome, WriteAnswer, decide_keyed_start};
pub use leaf_digests::LeafDigests;
pub use ledger::{
    ClassCount, LedgerAttempt, LedgerEntity, LedgerEntry, LedgerOutcome, LedgerRuling, build_ledger,
};
pub use name::{Name, WorkflowRef};
pub use operation::{EntityJournalEntry, Operation, OperationEnd, OperationState, OperationStatus};
pub use outbox::{OutboxMessage, OutboxState, OutboxStatus, decide_delivery};
pub use payload::Payload;
pub use promise::{Promise, PromiseKey, PromiseState, PromiseStatus, Settlement};
pub use promise_transition::{
    EarlyDecision, EarlySettlement, OpenedPromise, PromiseRef, SettleDecision, SettleRequest, SettleRule,
    decide_early, decide_open, decide_settle, is_same_creation,
};
pub use random::seed_thread_rng;
use reopen::reopen;
pub use reopen::{PlannedEffect, RepeatPermission, RetryPlan, check_repeat_permission, plan_retry};
pub use request::{
    BeginDecision, BeginOutcome, BeginRequest, FinishDecision, FinishRequest, RequestEnd, RequestId,
    RequestRecord, RequestScope, RequestState, RequestSummary, StoredAnswer, decide_begin_request,
    decide_finish_request,
};
pub use retention::{KeyOnFailure, KeyRetention, decide_key_expiry};
pub use retry::{AttemptsMade, OnExhausted, RetryDecision, RetryPolicy, decide_retry};
pub use run::{
    ClosePolicy, Ending, Lease, Parent, PendingRequest, Priority, RunFacts, RunHead, RunResult, RunState,
    RunStatus, RunningState,
};
pub use run_transition::{RUN_TRANSITIONS, RunTransition, draw_run_lifecycle};
pub use second_person::{ProposedRuling, START_COMMAND, decide_confirmation, find_starter};
pub use served_workflows::{ServedWorkflows, ServedWorkspaces};
pub use settle_time::{Denial, SettleTime, decide_denial};
pub use signal::Signal;
use start::quarantine_note;
pub use start::{ClaimDecision, Grant, NewRun, decide_claim, decide_start};
pub use step::{StepKind, StepRecord, StepState, StepStatus, current_step, step_base_name};
pub use step_transition::{STEP_TRANSITIONS, StepTransition, draw_step_lifecycle};
pub use time::Timestamp;
pub use transition::{
    BeginFacts, BeginOperation, BeginOperationOutcome, DocumentRef, FinishBy, FinishFacts, FinishOperation,
    FinishOperationOutcome, Override, decide_begin_operation, decide_finish_operation,
};
pub use unknown_outcome::{ANSWER_UNUSABLE, AfterFailure, PANICKED, decide_after_failure};
pub use workflow_selector::WorkflowSelector;

/// A value that breaks a rule of the model, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A name is empty, too long, or has a character outside `[A-Za-z0-9._-]`.
    #[error("{what} {given:?} is not a valid name: use 1 to {max} characters of A-Z a-z 0-9 . _ -", max = crate::limits::MAX_NAME_CHARS)]
    Name {
        /// Purpose of the name.
        what: &'static str,
        /// The refused text, cut to a readable length.
        given: String,
    },
    /// A key is empty, too long, or not printable ASCII.
    #[error("{what} is not valid: use 1 to {max} printable ASCII characters", max = crate::limits::MAX_KEY_CHARS)]
    Key {
        /// Which kind of key.
        what: &'static str,
    },
    /// An identifier does not have its form.
    #[error("{given:?} is not a {what}")]
    Id {
        /// The expected form.
        what: &'static str,
        /// The refused text, cut to a readable length.
        given: String,
    },
    /// A payload exceeds a limit or holds what not every store can keep.
    #[error("payload refused: {0}")]
    Payload(String),
    /// A text of a person is blank, too long, or contains NUL.
    #[error("{what} has 1 to {max} characters, without control characters and those that turn the direction of text", what = .0.as_str(), max = .0.max_chars())]
    HumanText(HumanText),
    /// A span of time is beyond what the engine accepts.
    #[error("{what} of {given:?} is out of range: use at most ten years")]
    Span {
        /// Purpose of the span.
        what: &'static str,
        /// The refused span.
        given: std::time::Duration,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    //! Values that the tests of the model share.

    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    pub(super) fn owner(n: u128) -> OwnerId {
        OwnerId::from_u128(n)
    }

    pub(super) fn new_run(grant_to: Option<OwnerId>) -> NewRun {
        let workflow = WorkflowRef { name: Name::new("workflow", "order").unwrap(), version: 1 };
        let serves = Arc::new(ServedWorkflows::from_iter([workflow.clone()]));
        let facts = RunFacts {
            workspace: WorkspaceId::default(),
            id: RunId::from_u128(7),
            workflow,
            key: None,
            fingerprint: None,
            retention: KeyRetention::default(),
            subject: None,
            priority: Priority::Normal,
            deadline_at: None,
            parent: None,
            created_at: Timestamp::EPOCH,
        };
        NewRun {
            facts: Arc::new(facts),
            input: Payload::null(),
            due_at: None,
            grant: grant_to.map(|owner| Grant { owner, lease_for: Duration::from_secs(30), serves }),
        }
    }

    /// A run that waits to be claimed.
    pub(super) fn head() -> RunHead {
        decide_start(&new_run(None), Timestamp::EPOCH).0
    }

    /// A run that owner 1 drives.
    pub(crate) fn leased() -> RunHead {
        decide_start(&new_run(Some(owner(1))), Timestamp::EPOCH).0
    }

    pub(super) fn closed(ending: Ending) -> RunHead {
        RunHead { state: RunState::Closed { at: Timestamp::EPOCH, ending }, ..leased() }
    }

    pub(super) fn step(id: &str, started: u64, completed: bool) -> StepRecord {
        let at = Timestamp::EPOCH;
        let state = match completed {
            true => StepState::Completed { at, output: Payload::null() },
            false => StepState::Failed { at, failure: Failure::permanent("no") },
        };
        StepRecord {
            id: StepId::from_stored(id),
            kind: StepKind::Effect,
            state,
            attempts: 1,
            started_at: at,
            started_version: Version::new(started),
            changed_version: Version::new(started + 1),
            fence: Fence::new(1),
            child: None,
        }
    }
}

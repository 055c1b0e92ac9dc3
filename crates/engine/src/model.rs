//! The rules, and nothing else: pure types and functions of state, command and time. No clock, no store, no async.

mod allowed_action;
mod announce;
mod arrival;
mod attention;
mod canonical;
mod chance;
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
mod item;
mod journal;
mod key;
mod ledger;
mod name;
mod operation;
mod operation_evidence;
mod outbox;
mod outline;
mod payload;
mod promise;
mod reopen;
mod request;
mod retention;
mod retry;
mod run;
mod run_transition;
mod serves;
mod settle_time;
mod settling;
mod signal;
mod start;
mod step;
mod step_transition;
mod time;
mod transition;
mod unknown_outcome;
mod workflow_selector;

pub use allowed_action::{AllowedAction, Hindrance, allowed_actions};
pub use announce::{Announced, Subscriber, Subscribers};
pub use arrival::{Arrival, decide_arrival};
pub use attention::{Attention, AttentionReason, attention_of_doubt, attention_of_pause};
pub use canonical::canonical_json;
pub use chance::seed_chance;
pub use command::{CommandResult, Refusal, RunCommand, decide_command};
pub use commit::{CANCEL_TOO_LATE, CommitBuilder, IllegalChange, RunCommit, StepChange};
use doubt::check_authority;
pub use doubt::{
    Actor, Decided, DoubtRef, DoubtedAttempt, OnDoubt, Origin, Probed, Resolution, Role, Ruling,
    RulingRefused, can_be_carried_out, check_ruling,
};
pub use effect::EffectClass;
pub use effect_key::EffectKey;
pub use entity::{Entity, EntityRef, Home, TableRef, merge_data};
pub use entity_check::{EntityProblem, EntityRule, check_entity_workflow};
pub use entity_ledger::{EntityEffect, operation_of};
pub use entity_workflow::{
    Action, ClaimTo, EntityStep, EntityWorkflow, Irreversible, PerRequester, Recovery, RetryAnswer,
    RevertRule, StepView, UncoveredClaim,
};
pub use event::{EventKind, RunEvent};
pub use evidence::{EffectTally, Evidence, Occurrence, RepeatCount, TallyCount, count_repeats};
pub use failure::{Failure, FailureClass};
pub use family::{CancelledFamily, ChildrenRefused, Family, decide_births};
pub use fingerprint::{Fingerprint, IgnorePaths};
pub use human_text::{HumanText, check_actor_and_reason};
pub use ids::{
    Fence, Generation, OperationId, OwnerId, PromiseId, RunId, StepId, Version, WorkspaceId, WriteToken,
};
pub use inbound_event::{InboundEvent, InboundEventId, InboundEventStatus};
pub use item::{CatalogKind, Item};
pub use journal::{AuditSubject, JournalEntry, JournalEvent};
pub use key::{EntityId, IdempotencyKey, KeyKind, KeyRecord, KeyTarget, SignalId, Subject};
pub use ledger::{
    ClassCount, LedgerAttempt, LedgerEntity, LedgerEntry, LedgerOutcome, LedgerRuling, ledger_of,
};
pub use name::{Name, WorkflowRef};
pub use operation::{EntityNote, Operation, OperationEnd, OperationState, OperationStatus};
pub use outbox::{OutboxMessage, OutboxState, OutboxStatus, decide_delivery};
pub use outline::Outline;
pub use payload::Payload;
pub use promise::{Promise, PromiseKey, PromiseState, PromiseStatus, Settlement};
use reopen::reopen;
pub use reopen::{PlannedEffect, Repeat, RetryPlan, check_repeat, plan_retry};
pub use request::{
    BeginDecision, BeginRequest, Begun, FinishDecision, FinishRequest, RequestEnd, RequestId, RequestRecord,
    RequestScope, RequestState, RequestSummary, StoredAnswer, decide_begin, decide_finish,
};
pub use retention::{KeyOnFailure, KeyRetention, decide_key_expiry};
pub use retry::{AttemptsMade, OnExhausted, RetryDecision, RetryPolicy, decide_retry};
pub use run::{
    ClosePolicy, Drive, Ending, Lease, Parent, PendingRequest, Priority, RunFacts, RunHead, RunResult,
    RunState, RunStatus,
};
pub use run_transition::{RUN_TRANSITIONS, RunTransition, draw_run_lifecycle};
pub use serves::{ServedFor, Serves};
pub use settle_time::{Denial, SettleTime, decide_denial};
pub use settling::{
    EarlyDecision, EarlySettlement, Opening, PromiseRef, SettleDecision, SettleRule, Wish, decide_early,
    decide_open, decide_settle, is_same_creation,
};
pub use signal::Signal;
use start::quarantine_note;
pub use start::{ClaimDecision, Grant, NewRun, decide_claim, decide_start};
pub use step::{StepKind, StepRecord, StepState, StepStatus};
pub use step_transition::{STEP_TRANSITIONS, StepTransition, draw_step_lifecycle};
pub use time::Timestamp;
pub use transition::{
    BeginFacts, BeginOperation, DocumentRef, FinishBy, FinishOperation, Finished, OperationBegun, Override,
    decide_begin_operation, decide_finish_operation,
};
pub use unknown_outcome::{ANSWER_UNUSABLE, AfterFailure, PANICKED, decide_after_failure};
pub use workflow_selector::WorkflowSelector;

/// A value that breaks a rule of the model, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A name is empty, too long, or has a character outside `[A-Za-z0-9._-]`.
    #[error("{what} {given:?} is not a valid name: use 1 to {max} characters of A-Z a-z 0-9 . _ -", max = crate::limits::MAX_NAME_CHARS)]
    Name {
        /// What the name was for.
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
        /// What was expected.
        what: &'static str,
        /// The refused text, cut to a readable length.
        given: String,
    },
    /// A payload exceeds a limit or holds what not every store can keep.
    #[error("payload refused: {0}")]
    Payload(String),
    /// What a person says is blank, too long, or holds NUL.
    #[error("{what} has 1 to {max} characters, none of them NUL", what = .0.as_str(), max = .0.max_chars())]
    HumanText(HumanText),
    /// A span of time is beyond what the engine accepts.
    #[error("{what} of {given:?} is out of range: use at most ten years")]
    Span {
        /// What the span was for.
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
        let serves = Arc::new(Serves::from_iter([workflow.clone()]));
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

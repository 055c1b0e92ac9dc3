//! Operations: one requested transition of an entity, from the claim to the outcome.

use std::time::Duration;

use super::{
    Actor, ClaimTo, EffectKey, EntityRef, EntityStorage, Evidence, Failure, Fence, Fingerprint, Generation,
    IdempotencyKey, JournalEntry, JournalEvent, Name, OperationId, OwnerId, Payload, Recovery, RunId,
    Timestamp, Version, WorkspaceId,
};

/// One requested transition of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Id of the operation.
    pub id: OperationId,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The entity it moves.
    pub entity: EntityRef,
    /// Where the entity is stored.
    pub home: EntityStorage,
    /// The entity workflow.
    pub workflow: Name,
    /// The module whose janitor is responsible for it.
    pub module: Name,
    /// Key of the step.
    pub step: Name,
    /// The requester role it was asked for with.
    pub requester: Option<Name>,
    /// The person or credential that asked.
    pub by: Option<Actor>,
    /// The idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Fingerprint that a request under the key must have.
    pub fingerprint: Fingerprint,
    /// Input of the action.
    pub input: Payload,
    /// Status of the entity before the operation.
    pub from: Name,
    /// Status of the entity after success.
    pub to: Name,
    /// The claim it holds while it is pending or in doubt, if the step has one.
    pub claim: Option<ClaimTo>,
    /// Policy if its holder vanishes.
    pub recovery: Recovery,
    /// True if its effect cannot be undone.
    pub irreversible: bool,
    /// Version of the document it began under. `None` if the workflow is code.
    pub document: Option<Version>,
    /// The operation whose effect key its action carries: its own id, or the id of an earlier operation whose
    /// effect it continues.
    pub effect_of: OperationId,
    /// True if an earlier attempt or operation under the same effect key may have happened.
    pub may_repeat: bool,
    /// True if an earlier operation of the same step on the same entity was done.
    pub done_before: bool,
    /// How long after the last heartbeat its action may still take effect. The janitor leaves it alone until
    /// then.
    pub grace: Duration,
    /// How often its action was entered in the current attempt. 0 if it has no effect outside the store, or
    /// if a run carries it out.
    pub tries: u32,
    /// Number of the last try under its effect key before its own.
    pub tries_before: u32,
    /// The run that carries it out, if one does. The run then decides how the operation ends; heartbeats do
    /// not matter.
    pub run: Option<RunId>,
    /// Version of the entity when the operation began, after the claim.
    pub version: Version,
    /// Number of the attempt: 1 unless it was reverted and tried again. The holder of an older attempt can
    /// write nothing.
    pub attempt: u32,
    /// The engine that began the attempt.
    pub owner: OwnerId,
    /// When the first attempt began.
    pub began_at: Timestamp,
    /// Current state.
    pub state: OperationState,
}

/// State of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationState {
    /// Its action is running.
    Pending {
        /// Last heartbeat of its holder.
        heard_at: Timestamp,
    },
    /// Done. The entity has the new status.
    Done {
        /// When it ended.
        at: Timestamp,
        /// Result of the action.
        result: Payload,
    },
    /// The action rejected the request. The entity is unchanged.
    Rejected {
        /// When it ended.
        at: Timestamp,
        /// The reason.
        failure: Failure,
    },
    /// The action failed. The entity is unchanged.
    Failed {
        /// When it ended.
        at: Timestamp,
        /// The failure.
        failure: Failure,
    },
    /// The claim was reverted, because the holder vanished or because the action is known not to have
    /// happened.
    Reverted {
        /// When it ended.
        at: Timestamp,
        /// True if a probe or a person found out that the action did not happen.
        settled: bool,
    },
    /// The outcome of the action is unknown. The claim is held until a probe or a ruling resolves it.
    InDoubt {
        /// When it came into doubt.
        since: Timestamp,
    },
}

/// Name of an operation's state, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationStatus {
    /// Running.
    Pending,
    /// Done.
    Done,
    /// Rejected by the action.
    Rejected,
    /// Failed.
    Failed,
    /// Reverted.
    Reverted,
    /// In doubt.
    InDoubt,
}

impl OperationStatus {
    /// Every status.
    pub const ALL: [OperationStatus; 6] = [
        OperationStatus::Pending,
        OperationStatus::Done,
        OperationStatus::Rejected,
        OperationStatus::Failed,
        OperationStatus::Reverted,
        OperationStatus::InDoubt,
    ];

    /// The status as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationStatus::Pending => "PENDING",
            OperationStatus::Done => "DONE",
            OperationStatus::Rejected => "REJECTED",
            OperationStatus::Failed => "FAILED",
            OperationStatus::Reverted => "REVERTED",
            OperationStatus::InDoubt => "IN_DOUBT",
        }
    }

    /// The status with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        OperationStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Returns true if the operation has ended.
    pub const fn has_ended(self) -> bool {
        match self {
            OperationStatus::Pending | OperationStatus::InDoubt => false,
            OperationStatus::Done
            | OperationStatus::Rejected
            | OperationStatus::Failed
            | OperationStatus::Reverted => true,
        }
    }
}

impl OperationState {
    /// The state without its data.
    pub const fn status(&self) -> OperationStatus {
        match self {
            OperationState::Pending { .. } => OperationStatus::Pending,
            OperationState::Done { .. } => OperationStatus::Done,
            OperationState::Rejected { .. } => OperationStatus::Rejected,
            OperationState::Failed { .. } => OperationStatus::Failed,
            OperationState::Reverted { .. } => OperationStatus::Reverted,
            OperationState::InDoubt { .. } => OperationStatus::InDoubt,
        }
    }

    /// When it entered this state. For a pending operation, its last heartbeat.
    pub const fn at(&self) -> Timestamp {
        match self {
            OperationState::Pending { heard_at: at }
            | OperationState::Done { at, .. }
            | OperationState::Rejected { at, .. }
            | OperationState::Failed { at, .. }
            | OperationState::Reverted { at, .. }
            | OperationState::InDoubt { since: at } => *at,
        }
    }
}

impl Operation {
    /// Returns true if it holds its entity, so that no other operation may begin.
    pub fn holds_entity(&self) -> bool {
        self.claim.is_some() && !self.state.status().has_ended()
    }

    /// Sort key of the operations on one entity: by when they last began. Ids alone do not suffice, because
    /// two requests may come in the same millisecond or on two machines.
    pub fn begin_order(&self) -> (Version, OperationId) {
        (self.version, self.id)
    }

    /// Returns true if it may be purged: it ended before `ended_before`, its outbox messages are delivered or given
    /// up, and a newer operation of the same step on the same entity exists. The newest operation of a step
    /// is kept forever. It answers retries, and it shows whether an irreversible step may have happened.
    pub fn is_purgeable(
        &self,
        ended_before: Timestamp,
        newest_of_step: (Version, OperationId),
        is_all_told: bool,
    ) -> bool {
        let is_old = self.state.status().has_ended() && self.state.at() < ended_before;
        is_old && is_all_told && self.begin_order() < newest_of_step
    }

    /// Returns true if it is still unknown if an effect under its key happened. A result, a probe or a ruling answers
    /// this for the whole key. A failure or rejection of a later attempt does not: it says nothing about
    /// earlier ones.
    pub fn leaves_doubt(&self) -> bool {
        match &self.state {
            OperationState::Pending { .. } | OperationState::InDoubt { .. } => true,
            OperationState::Reverted { settled, .. } => !settled,
            OperationState::Failed { failure, .. } => {
                let has_effect = self.tries > 0 || self.run.is_some();
                self.has_open_tries() || (has_effect && failure.may_have_happened())
            }
            OperationState::Rejected { .. } => self.has_open_tries(),
            OperationState::Done { .. } => false,
        }
    }

    /// Returns true if an attempt before the last may have happened. The action is entered again only after such an
    /// attempt.
    fn has_open_tries(&self) -> bool {
        self.may_repeat || self.tries > 1
    }

    /// Returns true if the step was done, by this operation or an earlier one.
    pub fn is_done(&self) -> bool {
        self.done_before || matches!(self.state, OperationState::Done { .. })
    }

    /// Returns true if a step that is irreversible `once` needs an override after this operation.
    pub fn needs_override(&self) -> bool {
        self.is_done() || self.leaves_doubt()
    }

    /// Returns true if a new operation with this fingerprint uses its effect key. A claimed step has one effect at a
    /// time, so the next operation continues an effect that may have happened or is known not to have. An
    /// unclaimed step may have many effects at once, so only the same request continues one, and only after
    /// the operation has ended.
    pub fn is_continued_by(&self, is_claimed: bool, fingerprint: &Fingerprint) -> bool {
        let is_open = self.leaves_doubt() || matches!(self.state, OperationState::Reverted { .. });
        let is_same = self.fingerprint == *fingerprint && self.state.status().has_ended();
        is_open && (is_claimed || is_same)
    }

    /// Key that its action sends to the outside world. The same for all attempts, and for operations that
    /// continue its effect.
    pub fn effect_key(&self) -> EffectKey {
        EffectKey::for_operation(self.effect_of, self.step.as_str())
    }
}

/// How an operation ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationEnd {
    /// The action succeeded.
    Done {
        /// Result of the action.
        result: Payload,
        /// Data to merge into the entity. Only for entities in the store's own table.
        data: Option<Payload>,
    },
    /// The action rejected the request.
    Rejected(Failure),
    /// The action failed.
    Failed(Failure),
    /// The holder vanished. The claim is reverted.
    Reverted,
    /// A probe or a person says that it did not happen. The claim is reverted.
    DidNotHappen,
    /// The outcome is unknown. A probe or a ruling must resolve it.
    InDoubt,
    /// The outcome is unknown. The holder is about to enter the action again, under the same effect key.
    TryAgain,
}

/// A journal entry about an entity: something that its operations do not show by themselves. Never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityJournalEntry {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The entity it is about.
    pub entity: EntityRef,
    /// The operation it is about, if any.
    pub operation: Option<OperationId>,
    /// When it was written.
    pub at: Timestamp,
    /// The person who acted, if one did. Such entries are in the audit log too.
    pub by: Option<Actor>,
    /// The event.
    pub what: JournalEvent,
    /// What it shows about one attempt at an effect. It is stored in the journal of the workspace
    /// ([`EntityJournalEntry::to_journal_entry`]). Lists of entries about an entity do not contain it.
    pub evidence: Option<Evidence>,
}

impl EntityJournalEntry {
    /// The entry for the journal of the workspace, if a person acted or if it is evidence. Stores append it
    /// in the same write.
    pub fn to_journal_entry(&self) -> Option<JournalEntry> {
        if self.by.is_none() && self.evidence.is_none() {
            return None;
        }
        Some(JournalEntry { evidence: self.evidence.clone(), ..self.in_journal(self.by.clone()) })
    }

    /// Returns true if it belongs only in the audit log, because the operation itself shows that it began.
    pub fn is_for_audit_only(&self) -> bool {
        matches!(self.what, JournalEvent::Stepped { .. })
    }

    /// The entry for the audit log, if a person acted.
    pub fn to_audit_entry(&self) -> Option<JournalEntry> {
        self.by.is_some().then(|| self.in_journal(self.by.clone()))
    }

    fn in_journal(&self, by: Option<Actor>) -> JournalEntry {
        let what = JournalEvent::OnEntity {
            kind: self.entity.kind.to_string(),
            id: self.entity.id.to_string(),
            operation: self.operation.map(|operation| operation.to_string()),
            did: Box::new(self.what.clone()),
        };
        JournalEntry {
            workspace: self.workspace.clone(),
            run: RunId::NONE,
            generation: Generation::default(),
            step: None,
            at: self.at,
            fence: Fence::default(),
            owner: None,
            by,
            what,
            evidence: None,
        }
    }
}

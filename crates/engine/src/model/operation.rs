//! Operations: each one requested transition of an entity, from the claim to what became of it.

use std::time::Duration;

use super::{
    Actor, ClaimTo, EffectKey, EntityRef, Evidence, Failure, Fence, Fingerprint, Generation, Home,
    IdempotencyKey, JournalEntry, JournalEvent, Name, OperationId, OwnerId, Payload, Recovery, RunId,
    Timestamp, Version, WorkspaceId,
};

/// One requested transition of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Which.
    pub id: OperationId,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What it moves.
    pub entity: EntityRef,
    /// Where that lives.
    pub home: Home,
    /// The entity workflow.
    pub workflow: Name,
    /// The module whose janitor looks after it.
    pub module: Name,
    /// The step.
    pub step: Name,
    /// As whom it was asked for.
    pub requester: Option<Name>,
    /// The person or credential that asked.
    pub by: Option<Actor>,
    /// The key it was asked for under.
    pub key: Option<IdempotencyKey>,
    /// What sameness means under the key.
    pub fingerprint: Fingerprint,
    /// What the action is given.
    pub input: Payload,
    /// The status it began in.
    pub from: Name,
    /// The status it leads to.
    pub to: Name,
    /// The claim it holds while it is pending or in doubt, if the step has one.
    pub claim: Option<ClaimTo>,
    /// What becomes of it if its holder vanishes.
    pub recovery: Recovery,
    /// Can what it does not be taken back?
    pub irreversible: bool,
    /// Version of the document it began under. `None` if its workflow is code.
    pub document: Option<Version>,
    /// The operation whose effect key its action carries: its own, or an earlier one whose effect it continues.
    pub effect_of: OperationId,
    /// An earlier attempt or operation under the same effect key may have happened.
    pub may_repeat: bool,
    /// An earlier operation of the same step on the same entity was done.
    pub done_before: bool,
    /// How long after its holder was last heard of its action may still take effect. No janitor touches it before.
    pub grace: Duration,
    /// How often its action was entered in the current attempt. 0 if it has no effect outside the store, or is carried out by a run.
    pub tries: u32,
    /// Number of the last try under its effect key before its own.
    pub tries_before: u32,
    /// The run that carries it out, if a run does: then it is the run that says how it ends, not whether its holder lives.
    pub run: Option<RunId>,
    /// The version the entity had when it began, after the claim.
    pub version: Version,
    /// How often it was begun: 1 unless it was given back and tried again. Whoever holds an older one can write nothing.
    pub attempt: u32,
    /// The engine that began the attempt.
    pub owner: OwnerId,
    /// When it was first begun.
    pub began_at: Timestamp,
    /// Where it stands.
    pub state: OperationState,
}

/// Where an operation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationState {
    /// Its action is under way.
    Pending {
        /// When its holder was last heard of.
        heard_at: Timestamp,
    },
    /// It is done: the entity has the status it leads to.
    Done {
        /// When.
        at: Timestamp,
        /// What the action gave.
        result: Payload,
    },
    /// The action would not do it; the entity is as before.
    Rejected {
        /// When.
        at: Timestamp,
        /// Why.
        failure: Failure,
    },
    /// The action failed; the entity is as before.
    Failed {
        /// When.
        at: Timestamp,
        /// Why.
        failure: Failure,
    },
    /// What it had claimed was given back, because its holder vanished or because it is known not to have happened.
    Reverted {
        /// When.
        at: Timestamp,
        /// A probe or a person found out that its action did not happen.
        settled: bool,
    },
    /// Nobody knows whether the action happened. The claim is held until a probe or people decide.
    InDoubt {
        /// Since when.
        since: Timestamp,
    },
}

/// The bare name of an operation's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationStatus {
    /// Under way.
    Pending,
    /// Done.
    Done,
    /// Refused by the action.
    Rejected,
    /// Failed.
    Failed,
    /// Given back by the janitor.
    Reverted,
    /// Nobody knows.
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

    /// The status spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        OperationStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Is it over?
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
    /// The bare name.
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

    /// When it came to be so: last heard of, in doubt since, or ended.
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
    /// Does it hold its entity, so that no other may begin?
    pub fn holds_entity(&self) -> bool {
        self.claim.is_some() && !self.state.status().has_ended()
    }

    /// Orders the operations on one entity by when they last began: ids alone do not, where two were asked for in one millisecond or on two machines.
    pub fn seniority(&self) -> (Version, OperationId) {
        (self.version, self.id)
    }

    /// Need it not be kept any more? It ended before, its after-effects are delivered or given up, and another one of its step on its entity came
    /// after it. The newest of a step stays for ever: it is what a retry is told, and what says whether that which cannot be taken back may have happened.
    pub fn is_forgettable(
        &self,
        ended_before: Timestamp,
        newest_of_step: (Version, OperationId),
        is_all_told: bool,
    ) -> bool {
        let is_old = self.state.status().has_ended() && self.state.at() < ended_before;
        is_old && is_all_told && self.seniority() < newest_of_step
    }

    /// Is it still unknown whether an effect under its key happened? A result, a probe or a ruling answers the question for the whole key. A failure or a
    /// rejection of a later try does not: it says nothing about the earlier ones.
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

    /// May a try before its last have happened? Its action is entered again only after a try that may have.
    fn has_open_tries(&self) -> bool {
        self.may_repeat || self.tries > 1
    }

    /// Was the step done, by it or before it?
    pub fn is_done(&self) -> bool {
        self.done_before || matches!(self.state, OperationState::Done { .. })
    }

    /// Must a manager say so before a step that is irreversible `once` is taken after it?
    pub fn needs_override(&self) -> bool {
        self.is_done() || self.leaves_doubt()
    }

    /// Does a new operation with this fingerprint act under its effect key? A claimed step has one effect at a time, so the next operation continues what may
    /// have happened, or what is known not to have. An unclaimed step may have many at once: only the same request continues one that has ended.
    pub fn is_continued_by(&self, is_claimed: bool, fingerprint: &Fingerprint) -> bool {
        let is_open = self.leaves_doubt() || matches!(self.state, OperationState::Reverted { .. });
        let is_same = self.fingerprint == *fingerprint && self.state.status().has_ended();
        is_open && (is_claimed || is_same)
    }

    /// What its action carries to the outside world: the same over its attempts, and over operations that continue its effect.
    pub fn effect_key(&self) -> EffectKey {
        EffectKey::of_operation(self.effect_of, self.step.as_str())
    }
}

/// What becomes of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationEnd {
    /// The action did it.
    Done {
        /// What it gave.
        result: Payload,
        /// What is to be laid over what is known of the entity; only for those in the store's own table.
        data: Option<Payload>,
    },
    /// The action would not do it.
    Rejected(Failure),
    /// The action failed.
    Failed(Failure),
    /// Its holder vanished: what it claimed is given back.
    Reverted,
    /// A probe or a person says that it did not happen: what it claimed is given back.
    DidNotHappen,
    /// Nobody knows whether it happened: it is left for a probe or people to decide.
    InDoubt,
    /// Nobody knows whether it happened: the holder is about to enter the action again, under the same effect key.
    TryAgain,
}

/// Something that was seen, done or said about an entity, beyond what its operations tell by themselves. Never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityNote {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// About what.
    pub entity: EntityRef,
    /// About which operation, if it is about one.
    pub operation: Option<OperationId>,
    /// When.
    pub at: Timestamp,
    /// The person who did it, if one did: such notes are in the audit log as well.
    pub by: Option<Actor>,
    /// What.
    pub what: JournalEvent,
    /// What it proves of one attempt at an effect. It is kept in the journal of the workspace ([`EntityNote::journalled`]), and lists of
    /// notes about an entity do not show it.
    pub evidence: Option<Evidence>,
}

impl EntityNote {
    /// The same as an entry of the journal, if a person did it or if it is evidence. Stores append it in the same write.
    pub fn journalled(&self) -> Option<JournalEntry> {
        if self.by.is_none() && self.evidence.is_none() {
            return None;
        }
        Some(JournalEntry { evidence: self.evidence.clone(), ..self.in_journal(self.by.clone()) })
    }

    /// Is it for the audit log alone? The operation itself tells that it began.
    pub fn is_for_audit_only(&self) -> bool {
        matches!(self.what, JournalEvent::Stepped { .. })
    }

    /// The same as an entry of the audit log, if a person did it.
    pub fn audited(&self) -> Option<JournalEntry> {
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

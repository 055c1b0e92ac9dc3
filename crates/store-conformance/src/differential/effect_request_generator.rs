//! Random requests about the journal, doubts and after-effects.

use std::time::Duration;

use hapax_engine::model::{
    Actor, EffectClass, EffectKey, Evidence, Failure, Fence, Generation, JournalEntry, JournalEvent,
    Occurrence, Origin, OutboxMessage, OutboxState, OutboxStatus, Resolution, Role, RunHead, RunId, StepId,
    StepState, Timestamp, WorkspaceId,
};
use hapax_engine::store::*;

use super::commit_generator::STEPS;
use super::request::Request;
use super::request_generator::{LEASE, RequestGenerator, TARGETS};
use crate::fixture::name;

impl RequestGenerator {
    /// A journal entry about a run.
    pub(super) fn note_about(
        &mut self,
        head: &RunHead,
        generation: Generation,
        now: Timestamp,
    ) -> JournalEntry {
        let by_person = self.chance(30);
        JournalEntry {
            workspace: head.facts.workspace.clone(),
            run: head.id(),
            generation,
            step: self.chance(70).then(|| StepId::from_stored(self.one_of(&STEPS))),
            at: now,
            fence: head.fence,
            owner: (!by_person).then(|| self.owner()),
            by: by_person.then(|| self.person()),
            what: self.noted(),
            evidence: self.chance(50).then(|| self.evidence(head.id(), generation)),
        }
    }

    /// Evidence about one of a few attempts at a few effects, so that entries collide.
    fn evidence(&mut self, run: RunId, generation: Generation) -> Evidence {
        let effect = EffectKey::new(run, generation, &StepId::from_stored(self.one_of(&STEPS)));
        let class = self.one_of(&[EffectClass::Idempotent, EffectClass::Claimed]);
        let attempt = self.rng.u32(1..4);
        let occurrence = self.one_of(&Occurrence::ALL);
        let by_key = class == EffectClass::Claimed && occurrence == Occurrence::Happened && attempt > 1;
        Evidence { effect, class, attempt, by_key, occurrence }
    }

    fn person(&mut self) -> Actor {
        let name = self.one_of(&["meg", "Tom O'Hara"]);
        let origin = self.chance(50).then(|| Origin {
            credential: self.one_of(&["c1", "c2"]).into(),
            role: "admin".into(),
            person: self.chance(50).then(|| "ü".into()),
            ..Origin::default()
        });
        Actor { origin, ..Actor::new(name, self.one_of(&[Role::Operator, Role::Manager])) }
    }

    fn noted(&mut self) -> JournalEvent {
        let attempt = self.rng.u32(1..4);
        let failure = Failure::unknown("no answer").with_code("408");
        let reason = || "so it is".to_owned();
        match self.rng.u32(..8) {
            0 => JournalEvent::Claimed { attempt },
            1 => JournalEvent::Failed { attempt, failure },
            2 => JournalEvent::Doubted { attempt, failure },
            3 => JournalEvent::Probed { answer: "unknown".into() },
            4 => JournalEvent::Refused { attempt, occurrence: None },
            5 => {
                let resolution = match self.rng.u32(..3) {
                    0 => Resolution::Happened { output: serde_json::json!({ "amount": 1.0 }) },
                    1 => Resolution::DidNotHappen,
                    _ => Resolution::Abandon,
                };
                let seconded_by = self.chance(50).then(|| self.person());
                JournalEvent::Resolved { resolution, seconded_by, reason: reason(), request: None }
            }
            6 => JournalEvent::Commanded { command: "cancel".into(), reason: reason() },
            _ => JournalEvent::Redelivered { reason: reason() },
        }
    }

    /// Sometimes a person's note about a run, which may not exist.
    pub(super) fn maybe_note(
        &mut self,
        workspace: &WorkspaceId,
        run: RunId,
        now: Timestamp,
    ) -> Option<JournalEntry> {
        let by = self.chance(60).then(|| self.person())?;
        Some(JournalEntry {
            workspace: workspace.clone(),
            run,
            generation: Generation::default(),
            step: None,
            at: now,
            fence: Fence::default(),
            owner: None,
            by: Some(by),
            what: self.noted(),
            evidence: self.chance(20).then(|| self.evidence(run, Generation::default())),
        })
    }

    pub(super) fn append_journal(&mut self, now: Timestamp) -> Vec<JournalEntry> {
        let mut notes = Vec::new();
        for _ in 0..self.rng.usize(..3) {
            let (workspace, run) = self.run();
            notes.extend(self.maybe_note(&workspace, run, now));
        }
        notes
    }

    /// Remembers claimed deliveries, so that they may be finished, sometimes too late.
    pub(super) fn learn_claims(&mut self, posts: &[OutboxMessage]) {
        self.claimed.extend_from_slice(posts);
        while self.claimed.len() > 12 {
            self.claimed.swap_remove(self.rng.usize(..self.claimed.len()));
        }
    }

    pub(super) fn claim_outbox(&mut self) -> ClaimOutbox {
        let lease_for = self.one_of(&[LEASE, Duration::from_secs(1)]);
        let mut room = Vec::new();
        for target in
            self.one_of(&[&["mail"][..], &["hook"], &["mail", "hook"], &["hook", "fax", "mail"], &[]])
        {
            room.push((name(target), self.rng.usize(..4)));
        }
        ClaimOutbox { owner: self.owner(), lease_for, room }
    }

    pub(super) fn finish_outbox_message(&mut self, now: Timestamp) -> FinishOutboxMessage {
        let (mut workspace, id, mut owner, mut attempt) = match self.rng.choice(&self.claimed).cloned() {
            Some(OutboxMessage {
                workspace,
                id,
                attempts,
                state: OutboxState::Claimed { owner, .. },
                ..
            }) => (workspace, id, owner, attempts),
            _ => (self.workspace(), EffectKey::from_stored("nothing"), self.owner(), 1),
        };
        match self.rng.u32(..20) {
            0 => workspace = self.workspace(),
            1 => owner = self.owner(),
            2 => attempt += 1,
            _ => {}
        }
        let why = Some(Failure::retryable("no answer").with_code("503"));
        let (state, failure) = match self.rng.u32(..4) {
            0 => (OutboxState::Due { at: now.plus(Duration::from_secs(self.rng.u64(..20))) }, why),
            1 => (OutboxState::Dead { at: now }, why),
            _ => (OutboxState::Delivered { at: now }, None),
        };
        FinishOutboxMessage { workspace, id, owner, attempt, state, failure }
    }

    pub(super) async fn redeliver(&mut self, model: &dyn Store) -> Redeliver {
        let (mut workspace, id, run) = match self.any_post(model).await {
            Some(post) => (post.workspace, post.id, post.run),
            None => (self.workspace(), EffectKey::from_stored("nothing"), RunId::from_u128(u128::MAX)),
        };
        if self.chance(10) {
            workspace = self.workspace();
        }
        let note = self.maybe_note(&workspace, run, model.now());
        // After-effects of a run's step stay as long as the record that refers to them.
        let wish = if self.chance(20) && run == RunId::NONE {
            OutboxCommand::Discard
        } else {
            OutboxCommand::Redeliver
        };
        Redeliver { workspace, id, wish, note }
    }

    async fn any_post(&mut self, model: &dyn Store) -> Option<OutboxMessage> {
        let all = ListOutbox { workspace: None, status: None, target: None, after: None, limit: 1000 };
        let posts = model.list_outbox(all).await.unwrap();
        self.rng.choice(&posts).cloned()
    }

    pub(super) async fn read_effects(&mut self, model: &dyn Store) -> Request {
        let (workspace, run) = self.run();
        let limit = self.rng.usize(..5);
        match self.rng.u32(..4) {
            3 => Request::CountTallies(self.chance(60).then_some(workspace)),
            0 => {
                let (run, by_people) = (self.chance(40).then_some(run), self.chance(40));
                let skip = self.rng.usize(..6);
                Request::ListJournal(ListJournal { workspace, run, by_people, after: 0, limit }, skip)
            }
            1 => {
                let after = match self.chance(50) {
                    true => self.any_doubt(model).await,
                    false => None,
                };
                let workspace = self.chance(50).then_some(workspace);
                Request::ListDoubts(ListDoubts { workspace, after, limit })
            }
            _ => {
                let after = match self.chance(50) {
                    true => self.any_post(model).await.map(|post| (post.workspace, post.id)),
                    false => None,
                };
                Request::ListOutbox(ListOutbox {
                    workspace: self.chance(50).then_some(workspace),
                    status: self.chance(50).then(|| self.one_of(&OutboxStatus::ALL)),
                    target: self.chance(30).then(|| name(self.one_of(&TARGETS))),
                    after,
                    limit,
                })
            }
        }
    }

    async fn any_doubt(&mut self, model: &dyn Store) -> Option<DoubtCursor> {
        let all = ListDoubts { workspace: None, after: None, limit: 1000 };
        let doubts = model.list_doubts(all).await.unwrap();
        let doubt = self.rng.choice(&doubts)?;
        match doubt.step.state {
            StepState::InDoubt { since, .. } => {
                Some(DoubtCursor { since, run: doubt.run, step: doubt.step.id.clone() })
            }
            _ => None,
        }
    }
}

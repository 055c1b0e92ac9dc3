//! Random requests about entities and operations: a few entities, steps and keys, so that requests collide.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    BeginOperation, CatalogKind, ClaimTo, DocumentRef, EffectKey, EntityJournalEntry, EntityRef,
    EntityStorage, Failure, Fingerprint, FinishBy, FinishOperation, IdempotencyKey, Irreversible,
    JournalEvent, Operation, OperationEnd, OperationId, OperationState, OperationStatus, OutboxMessage,
    OutboxState, Override, Recovery, RetryAnswer, RunId, TableRef, Timestamp, Version, WorkspaceId,
};
use hapax_engine::store::*;

use super::entity_request::{EntityAnswer, EntityRequest};
use super::request::Request;
use super::request_generator::{DrawnRequest, RequestGenerator, TARGETS};
use crate::UserRow;
use crate::fixture::{INVOICES, entity_in, json, kind_in, manager, name};

/// The document that some operations begin under.
const DOCUMENT: &str = "doc";
const IDS: [&str; 4] = ["e1", "e1", "e2", "e3"];
const STATUSES: [&str; 6] = ["approved", "approved", "overdue", "closing", "paying", "closed"];

/// How a step is configured.
struct Step {
    key: &'static str,
    module: &'static str,
    from: &'static [&'static str],
    to: &'static str,
    claim: Option<(&'static str, &'static str)>,
    retry: RetryAnswer,
    irreversible: Irreversible,
}

const STEPS: [Step; 4] = [
    Step {
        key: "close",
        module: "billing",
        from: &["approved", "overdue"],
        to: "closed",
        claim: Some(("closing", "approved")),
        retry: RetryAnswer::Refused,
        irreversible: Irreversible::No,
    },
    Step {
        key: "pay",
        module: "payments",
        from: &["approved"],
        to: "paid",
        claim: Some(("paying", "approved")),
        retry: RetryAnswer::Returns,
        irreversible: Irreversible::Once,
    },
    Step {
        key: "remind",
        module: "billing",
        from: &["approved", "overdue"],
        to: "overdue",
        claim: None,
        retry: RetryAnswer::Refused,
        irreversible: Irreversible::Once,
    },
    Step {
        key: "reopen",
        module: "billing",
        from: &["closed", "paid", "overdue"],
        to: "approved",
        claim: None,
        retry: RetryAnswer::Returns,
        irreversible: Irreversible::Each,
    },
];

fn claim_of((into, revert_to): (&str, &str)) -> ClaimTo {
    ClaimTo { into: name(into), revert_to: name(revert_to) }
}

fn table() -> TableRef {
    TableRef { data: vec!["total".into()], ..TableRef::new(INVOICES).expect("it is a name") }
}

/// Every place where entities live, with and without tables of the user.
pub(super) fn homes(has_tables: bool) -> Vec<EntityStorage> {
    let mut homes = vec![EntityStorage::BuiltIn];
    homes.extend(has_tables.then(|| EntityStorage::UserTable(table())));
    homes
}

impl RequestGenerator {
    fn home(&mut self) -> EntityStorage {
        match self.has_tables && self.chance(50) {
            true => EntityStorage::UserTable(table()),
            false => EntityStorage::BuiltIn,
        }
    }

    fn entity(&mut self, home: &EntityStorage) -> EntityRef {
        entity_in(home, self.one_of(&IDS))
    }

    fn operation_key(&mut self) -> IdempotencyKey {
        IdempotencyKey::new(self.one_of(&["o1", "o2", "o3", "o4", "o5"])).expect("it is a key")
    }

    pub(super) async fn entity_move(&mut self, model: &dyn Store) -> DrawnRequest {
        let now = model.now();
        let request = match self.rng.u32(..100) {
            0..8 => EntityRequest::Create(NewEntity {
                workspace: self.workspace(),
                entity: self.entity(&EntityStorage::BuiltIn),
                status: name(self.one_of(&["approved", "overdue"])),
                data: json(self.one_of(&["{}", r#"{ "a" : 1.0 }"#])),
            }),
            8..14 if self.has_tables => return DrawnRequest::PutRow(self.row(model, now).await),
            8..40 => EntityRequest::Begin(Box::new(self.begin(model).await)),
            40..68 => match self.finish(model, now).await {
                Some(finish) => EntityRequest::Finish(Box::new(finish)),
                None => EntityRequest::Begin(Box::new(self.begin(model).await)),
            },
            68..74 => self.hear(model).await,
            74..78 => {
                let module = name(self.one_of(&["billing", "payments", "shipping"]));
                EntityRequest::ListStale(module, self.instant(now))
            }
            78..81 if self.has_tables => EntityRequest::RevertStrays(RevertStrays {
                workspace: self.workspace(),
                kind: name(kind_in(&EntityStorage::UserTable(table()))),
                table: table(),
                claim: claim_of(self.one_of(&[("closing", "approved"), ("paying", "approved")])),
                before: self.instant(now),
                limit: 100,
            }),
            78..84 => {
                let home = self.home();
                let (workspace, entity) = (self.workspace(), self.entity(&home));
                EntityRequest::AppendJournal(self.entity_notes(&workspace, &entity, None, now))
            }
            87..89 => EntityRequest::PutDocument(Box::new(PutCatalogItem {
                workspace: WorkspaceId::default(),
                kind: CatalogKind::EntityWorkflow,
                id: name(DOCUMENT),
                name: DOCUMENT.into(),
                body: json("{}"),
                expected: self.chance(70).then(|| Version::new(self.rng.u64(1..4))),
                note: None,
            })),
            84..87 => {
                let after = self.known_operation(model).await.filter(|_| self.chance(30));
                EntityRequest::Purge(PurgeOperations {
                    ended_before: self.instant(now),
                    after: after.map(|it| OperationCursor { workspace: it.workspace, operation: it.id }),
                    limit: self.one_of(&[1, 2, 5, 100, 100, 100]),
                })
            }
            _ => self.read_entities(model).await,
        };
        DrawnRequest::Ask(Box::new(Request::Entity(request)))
    }

    /// Remembers operations in their earlier state, so that their holders may act too late.
    pub(super) fn learn_entities(&mut self, answer: &EntityAnswer) {
        self.operations.extend(answer.operations());
        while self.operations.len() > 16 {
            self.operations.swap_remove(self.rng.usize(..self.operations.len()));
        }
    }

    fn instant(&mut self, now: Timestamp) -> Timestamp {
        Timestamp::from_millis(now.as_millis() - self.one_of(&[-1, 0, 0, 1_000, 31_000]))
    }

    async fn row(&mut self, model: &dyn Store, now: Timestamp) -> UserRow {
        let home = EntityStorage::UserTable(table());
        let entity = self.entity(&home);
        let book = model.entity_store().expect("the model keeps entities");
        let found = book.find_entity(&WorkspaceId::default(), &entity, &home).await.expect("it is read");
        UserRow {
            id: entity.id.to_string(),
            status: self.one_of(&STATUSES).into(),
            version: found.map_or(1, |found| found.version.get() + 1),
            updated_at: now,
            total: self.rng.i64(-9..9),
        }
    }

    async fn begin(&mut self, model: &dyn Store) -> BeginOperation {
        let (mut home, workspace) = (self.home(), self.workspace());
        let mut entity = self.entity(&home);
        let mut step = &STEPS[self.rng.usize(..STEPS.len())];
        let mut requester = self.chance(80).then(|| name("admin"));
        let mut input = json(self.one_of(&["1", "1", "1", "2"]));
        let mut key = self.chance(50).then(|| self.operation_key());
        let book = model.entity_store().expect("the model keeps entities");
        if self.chance(30) {
            // The same request again, word for word, after the operation was reverted.
            let reverted = ListOperations {
                status: Some(OperationStatus::Reverted),
                ..all_operations(workspace.clone())
            };
            let mut reverted = book.list_operations(reverted).await.expect("they are listed");
            reverted.retain(|operation| operation.key.is_some());
            if let Some(again) = self.rng.choice(&reverted) {
                step = STEPS.iter().find(|step| step.key == again.step.as_str()).expect("a step of ours");
                (home, entity) = (again.home.clone(), again.entity.clone());
                (requester, input, key) = (again.requester.clone(), again.input.clone(), again.key.clone());
            }
        }
        let found = book.find_entity(&workspace, &entity, &home).await.expect("it is read");
        let seen = match found {
            Some(found) if self.chance(90) => found.version,
            _ => Version::new(self.rng.u64(1..5)),
        };
        let id = OperationId::from_u128(self.fresh_id().as_u128());
        let word = Override { by: manager(), reason: "so it is".into() };
        BeginOperation {
            id,
            fingerprint: Fingerprint::for_operation(&entity, &name(step.key), requester.as_ref(), &input)
                .expect("the input is JSON"),
            workspace,
            entity,
            home,
            workflow: name("invoices"),
            module: name(step.module),
            step: name(step.key),
            requester,
            by: self.chance(50).then(manager),
            key,
            input,
            from: step.from.iter().map(|status| name(status)).collect(),
            to: name(step.to),
            claim: step.claim.map(claim_of),
            transient: vec![name("closing"), name("paying")],
            recovery: self.one_of(&[Recovery::Revert, Recovery::Hold]),
            retry: step.retry,
            irreversible: step.irreversible,
            has_effect: self.chance(80),
            document: self
                .chance(25)
                .then(|| DocumentRef { item: name(DOCUMENT), version: Version::new(self.rng.u64(1..4)) }),
            grace: std::time::Duration::from_millis(self.one_of(&[0, 0, 0, 1_000, 31_000])),
            overridden: self.chance(30).then_some(word),
            seen,
            run: self.chance(20).then(|| id.as_run()),
            owner: self.owner(),
        }
    }

    /// Usually an open operation, sometimes one in an earlier state, or one that never existed.
    async fn known_operation(&mut self, model: &dyn Store) -> Option<Operation> {
        if self.chance(25) {
            return self.rng.choice(&self.operations).cloned();
        }
        let status =
            self.one_of(&[OperationStatus::Pending, OperationStatus::Pending, OperationStatus::InDoubt]);
        let workspace = self.workspace();
        let open = ListOperations { status: Some(status), ..all_operations(workspace) };
        let book = model.entity_store().expect("the model keeps entities");
        let open = book.list_operations(open).await.expect("they are listed");
        self.rng.choice(&open).cloned()
    }

    async fn finish(&mut self, model: &dyn Store, now: Timestamp) -> Option<FinishOperation> {
        let operation = self.known_operation(model).await?;
        let is_in_doubt = matches!(operation.state, OperationState::InDoubt { .. });
        let by = match self.rng.u32(..100) {
            _ if is_in_doubt && self.chance(70) => {
                self.one_of(&[FinishBy::People, FinishBy::Probe, FinishBy::LateResult])
            }
            0..55 => FinishBy::Holder(operation.owner),
            55..60 => FinishBy::Holder(self.owner()),
            60..88 => FinishBy::Janitor { unheard_since: self.instant(now) },
            88..96 => FinishBy::Run,
            _ => FinishBy::People,
        };
        let end = match (by, self.rng.u32(..10)) {
            (FinishBy::People | FinishBy::Probe, 0..4) | (_, 0) if self.chance(70) => {
                OperationEnd::DidNotHappen
            }
            (FinishBy::Holder(_), 5) => OperationEnd::TryAgain,
            (FinishBy::Janitor { .. }, 0..6) | (_, 0) => OperationEnd::Reverted,
            (FinishBy::Janitor { .. }, _) | (_, 1) => OperationEnd::InDoubt,
            (_, 2) => OperationEnd::Rejected(Failure::permanent("declined").with_code("no")),
            (_, 3) => OperationEnd::Failed(Failure::permanent("no")),
            (_, 4) => OperationEnd::Failed(Failure::unknown("no answer")),
            _ => OperationEnd::Done { result: json(self.one_of(&["1", "2"])), data: self.patch(&operation) },
        };
        let mut posts = Vec::new();
        for _ in 0..self.rng.usize(..2) {
            posts.push(self.post_of_operation(&operation, now));
        }
        let notes = self.entity_notes(&operation.workspace, &operation.entity, Some(operation.id), now);
        let mut request = FinishOperation {
            workspace: operation.workspace,
            operation: operation.id,
            attempt: operation.attempt,
            by,
            end,
            tries: self.chance(30).then(|| self.rng.u32(..4)),
            posts,
            notes,
        };
        match self.rng.u32(..50) {
            0 => request.operation = OperationId::from_u128(u128::MAX),
            1 => request.attempt += 1,
            2 => request.workspace = self.workspace(),
            _ => {}
        }
        Some(request)
    }

    /// Data to merge over the entity in the store's own table; sometimes it is not an object.
    fn patch(&mut self, operation: &Operation) -> Option<hapax_engine::model::Payload> {
        let is_own = operation.home == EntityStorage::BuiltIn;
        (is_own && self.chance(40)).then(|| json(self.one_of(&[r#"{"a":2}"#, r#"{"b":[1.0]}"#, "{}", "[]"])))
    }

    fn post_of_operation(&mut self, operation: &Operation, now: Timestamp) -> OutboxMessage {
        let target = self.one_of(&TARGETS);
        OutboxMessage {
            workspace: operation.workspace.clone(),
            id: EffectKey::for_operation(operation.id, target),
            run: RunId::NONE,
            target: name(target),
            payload: json(self.one_of(&["1", "2"])),
            created_at: now,
            attempts: 0,
            failure: None,
            state: OutboxState::Due { at: now },
        }
    }

    fn entity_notes(
        &mut self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        operation: Option<OperationId>,
        now: Timestamp,
    ) -> Vec<EntityJournalEntry> {
        let mut notes = Vec::new();
        for _ in 0..self.rng.usize(..3) {
            notes.push(EntityJournalEntry {
                workspace: workspace.clone(),
                entity: entity.clone(),
                operation,
                at: now,
                by: self.chance(40).then(manager),
                what: JournalEvent::Remarked { text: self.one_of(&["seen", "\"ü\""]).into() },
                evidence: None,
            });
        }
        notes
    }

    async fn hear(&mut self, model: &dyn Store) -> EntityRequest {
        let (mut owner, mut held) = (self.owner(), Vec::new());
        for _ in 0..self.rng.usize(..4) {
            let Some(operation) = self.known_operation(model).await else { break };
            owner = operation.owner;
            let (workspace, attempt) = (operation.workspace, operation.attempt);
            held.push(HeldOperation { workspace, operation: operation.id, attempt });
        }
        // Name each operation once: which of two heartbeats is reported lost is undefined.
        held.sort_by_key(|held| held.operation);
        held.dedup_by_key(|held| held.operation);
        EntityRequest::Hear(owner, held)
    }

    async fn read_entities(&mut self, model: &dyn Store) -> EntityRequest {
        let (home, workspace) = (self.home(), self.workspace());
        let entity = self.entity(&home);
        let known = self.known_operation(model).await;
        let operation = known.as_ref().map(|operation| operation.id);
        let limit = self.rng.usize(..5);
        match self.rng.u32(..10) {
            9 if known.is_some() => {
                let effect = known.expect("it was just looked at").effect_key();
                let after_try = self.rng.u32(..3);
                EntityRequest::ListEvidence(ListEvidence { workspace, effect, after_try, limit })
            }
            6 => {
                let module = name(STEPS[self.rng.usize(..STEPS.len())].module);
                let after = self.chance(30).then(|| self.rng.choice(&self.operations).cloned()).flatten();
                EntityRequest::ListDoubted(module, after.map(|after| (after.state.at(), after.id)))
            }
            7 => EntityRequest::ListOpenClaims(self.chance(50).then_some(workspace)),
            8 => {
                let steps = STEPS.iter().filter(|_| self.rng.bool()).map(|step| name(step.key)).collect();
                EntityRequest::FindLatestOperations(FindLatestOperations { workspace, entity, steps })
            }
            0 => EntityRequest::FindEntity(workspace, entity, home),
            1 => EntityRequest::ListEntities(ListEntities {
                workspace,
                kind: entity.kind,
                home,
                status: self.chance(40).then(|| name(self.one_of(&STATUSES))),
                after: self.chance(40).then_some(entity.id),
                limit,
            }),
            2 => EntityRequest::FindOperation(
                workspace,
                operation.unwrap_or(OperationId::from_u128(u128::MAX)),
            ),
            3 => EntityRequest::FindKeyed(workspace, self.operation_key()),
            4 => {
                let kind = self.chance(60).then_some(entity.kind);
                EntityRequest::ListOperations(ListOperations {
                    workspace,
                    entity: kind.as_ref().filter(|_| self.chance(60)).map(|_| entity.id),
                    kind,
                    step: self.chance(40).then(|| name(STEPS[self.rng.usize(..STEPS.len())].key)),
                    status: self.chance(40).then(|| self.one_of(&OperationStatus::ALL)),
                    before: operation.filter(|_| self.chance(40)),
                    limit,
                })
            }
            _ => {
                let operation = operation.filter(|_| self.chance(30));
                let request = ListEntityJournal { workspace, entity, operation, after: 0, limit };
                EntityRequest::ListJournal(request, self.rng.usize(..6))
            }
        }
    }
}

/// A page that holds all operations.
pub(super) fn all_operations(workspace: WorkspaceId) -> ListOperations {
    ListOperations {
        workspace,
        kind: None,
        entity: None,
        step: None,
        status: None,
        before: None,
        limit: MAX_PAGE,
    }
}

/// Reads everything about entities.
pub(super) fn read_all(has_tables: bool) -> Vec<EntityRequest> {
    let mut reads = Vec::new();
    for workspace in ["default", "abroad"] {
        let workspace = WorkspaceId::new(workspace).expect("it is a name");
        reads.push(EntityRequest::ListOperations(all_operations(workspace.clone())));
        for home in homes(has_tables) {
            reads.push(EntityRequest::ListEntities(ListEntities {
                workspace: workspace.clone(),
                kind: name(kind_in(&home)),
                home: home.clone(),
                status: None,
                after: None,
                limit: MAX_PAGE,
            }));
            for id in IDS {
                let entity = entity_in(&home, id);
                let all = ListEntityJournal {
                    workspace: workspace.clone(),
                    entity,
                    operation: None,
                    after: 0,
                    limit: MAX_PAGE,
                };
                reads.push(EntityRequest::ListJournal(all, 0));
            }
        }
    }
    reads
}

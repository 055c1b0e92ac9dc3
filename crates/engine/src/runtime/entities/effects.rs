//! Effects of entity operations, for the ledger. Operations that continue one another share an effect key and
//! one entry, which shows the latest of them.

use crate::limits::MAX_PAGE;
use crate::model::{
    EffectKey, EntityEffect, EntityId, EntityJournalEntry, EntityRef, JournalEntry, LedgerEntry, Name,
    Operation, OperationId, RunId, operation_of,
};
use crate::runtime::{Engine, Error};
use crate::store::{ListEntityJournal, ListEvidence, ListJournal, ListOperations, StoredJournalEntry};

impl Engine {
    /// Lists the effects of an entity with every attempt, latest operation first. Deleted operations are not
    /// included; [`Engine::list_effects`] includes them.
    pub async fn ledger_of_entity(&self, kind: &str, id: &str) -> Result<Vec<LedgerEntry>, Error> {
        let (kind, id) = (Name::new("entity type", kind)?, EntityId::new(id)?);
        let (mut entries, mut before) = (Vec::new(), None);
        loop {
            let request = ListOperations {
                kind: Some(kind.clone()),
                entity: Some(id.clone()),
                ..self.all_operations(before, MAX_PAGE)
            };
            let page = self.list_operations(request).await?;
            for operation in &page {
                entries.extend(self.effect_of(operation).await?);
            }
            before = page.last().map(|last| last.id);
            if page.len() < MAX_PAGE {
                return Ok(entries);
            }
        }
    }

    pub(in crate::runtime) fn all_operations(
        &self,
        before: Option<OperationId>,
        limit: usize,
    ) -> ListOperations {
        let workspace = self.workspace.clone();
        ListOperations { workspace, kind: None, entity: None, step: None, status: None, before, limit }
    }

    /// Returns the effect of an operation; `None` if it has none outside the store, or if a later operation
    /// shows it.
    pub(in crate::runtime) async fn effect_of(
        &self,
        operation: &Operation,
    ) -> Result<Option<LedgerEntry>, Error> {
        if operation.last_try() == 0 {
            return Ok(None);
        }
        let evidence = self.evidence_of(&operation.effect_key()).await?;
        for other in operations_in(&evidence) {
            if other == operation.id {
                break;
            }
            // A deleted operation shows nothing.
            if self.is_kept(other).await? {
                return Ok(None);
            }
        }
        let notes = self.notes_about(&operation.entity, &evidence).await?;
        Ok(EntityEffect { operation: Some(operation), evidence: &evidence, notes: &notes }.entry())
    }

    /// Finds the effect of operations with this key, which begins with the id of the first of them.
    pub(in crate::runtime) async fn find_operation_effect(
        &self,
        first: &str,
        key: &EffectKey,
    ) -> Result<Option<LedgerEntry>, Error> {
        let Ok(first) = first.parse::<OperationId>() else { return Ok(None) };
        let Some(store) = self.inner.store.entity_store() else { return Ok(None) };
        let evidence = self.evidence_of(key).await?;
        for id in operations_in(&evidence).into_iter().chain([first]) {
            let found = self.inner.call_store(store.find_operation(&self.workspace, id)).await?;
            if let Some(operation) = found.filter(|operation| operation.effect_key() == *key) {
                return self.effect_of(&operation).await;
            }
        }
        Ok(EntityEffect { operation: None, evidence: &evidence, notes: &[] }.entry())
    }

    /// Returns the effect that this journal entry is the first evidence of, if no stored operation shows it.
    pub(in crate::runtime) async fn effect_without_operation(
        &self,
        placed: &StoredJournalEntry,
    ) -> Result<Option<LedgerEntry>, Error> {
        let (Some(proof), Some(operation)) = (&placed.note.evidence, operation_of(&placed.note)) else {
            return Ok(None);
        };
        if self.is_kept(operation).await? {
            return Ok(None);
        }
        let evidence = self.placed_evidence_of(&proof.effect).await?;
        if evidence.iter().any(|other| other.place < placed.place) {
            return Ok(None);
        }
        let evidence: Vec<JournalEntry> = evidence.into_iter().map(|placed| placed.note).collect();
        for other in operations_in(&evidence) {
            if self.is_kept(other).await? {
                return Ok(None);
            }
        }
        Ok(EntityEffect { operation: None, evidence: &evidence, notes: &[] }.entry())
    }

    /// Lists journal entries without a run. They include all evidence about operations.
    pub(in crate::runtime) async fn list_journal_without_run(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredJournalEntry>, Error> {
        let (workspace, run) = (self.workspace.clone(), Some(RunId::NONE));
        let request = ListJournal { workspace, run, by_people: false, after, limit };
        Ok(self.inner.call_store(self.inner.store.list_journal(request)).await?)
    }

    async fn is_kept(&self, operation: OperationId) -> Result<bool, Error> {
        let store = self.entity_store()?;
        Ok(self.inner.call_store(store.find_operation(&self.workspace, operation)).await?.is_some())
    }

    async fn evidence_of(&self, effect: &EffectKey) -> Result<Vec<JournalEntry>, Error> {
        let placed = self.placed_evidence_of(effect).await?;
        Ok(placed.into_iter().map(|placed| placed.note).collect())
    }

    async fn placed_evidence_of(&self, effect: &EffectKey) -> Result<Vec<StoredJournalEntry>, Error> {
        let (store, mut all, mut after_try) = (self.entity_store()?, Vec::<StoredJournalEntry>::new(), 0);
        loop {
            let (workspace, effect) = (self.workspace.clone(), effect.clone());
            let request = ListEvidence { workspace, effect, after_try, limit: MAX_PAGE };
            let mut page = self.inner.call_store(store.list_evidence(request)).await?;
            let number = |placed: &StoredJournalEntry| match &placed.note.evidence {
                Some(proof) if !proof.by_key => proof.attempt,
                _ => 0,
            };
            let last = page.last().map_or(0, number);
            // A full page may lack entries of its last attempt. Read that attempt again, unless it fills the
            // page alone.
            let is_last = page.len() < MAX_PAGE;
            if !is_last && page.first().map_or(0, number) < last {
                page.retain(|placed| number(placed) < last);
            }
            let (before, last) = (after_try, page.last().map_or(after_try, number));
            all.extend(page);
            after_try = last;
            if is_last || after_try == before {
                return Ok(all);
            }
        }
    }

    /// Lists journal entries about the operations with one effect key.
    async fn notes_about(
        &self,
        entity: &EntityRef,
        evidence: &[JournalEntry],
    ) -> Result<Vec<EntityJournalEntry>, Error> {
        let (store, mut notes) = (self.entity_store()?, Vec::new());
        for operation in operations_in(evidence).into_iter().rev() {
            let mut after = 0;
            loop {
                let request = ListEntityJournal {
                    workspace: self.workspace.clone(),
                    entity: entity.clone(),
                    operation: Some(operation),
                    after,
                    limit: MAX_PAGE,
                };
                let page = self.inner.call_store(store.list_entity_journal(request)).await?;
                after = page.last().map_or(after, |last| last.place);
                let is_last = page.len() < MAX_PAGE;
                notes.extend(page.into_iter().map(|placed| placed.note));
                if is_last {
                    break;
                }
            }
        }
        Ok(notes)
    }
}

/// Operations that made the attempts, latest attempt first.
fn operations_in(evidence: &[JournalEntry]) -> Vec<OperationId> {
    let mut operations: Vec<OperationId> = Vec::new();
    for operation in evidence.iter().rev().filter_map(operation_of) {
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
    operations
}

//! Figures that only the store knows, cached for a while however often they are scraped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    AttentionReason, CatalogKind, EffectClass, OperationState, OperationStatus, RepeatCount, RunStatus,
    StepState, Timestamp, Version, attention_for_doubt, attention_for_pause, count_repeats,
};
use hapax_engine::store::{
    ListCatalogItems, ListDoubts, ListOperations, ListRuns, ListUnprocessedEvents, OutboxDepth, RunView,
    Store, StoreError, StoredDoubt,
};
use tokio::sync::Mutex;

use crate::entities::Entities;
use crate::limits::{
    MAX_PAUSED_MEASURED, MAX_WORKSPACES_MEASURED, STORE_FIGURES_KEPT_FOR, STORE_FIGURES_PATIENCE,
};

#[derive(Debug)]
pub(super) struct Figures {
    store: Arc<dyn Store>,
    last: Mutex<CachedFigures>,
}

#[derive(Debug, Default)]
struct CachedFigures {
    asked_at: Option<Instant>,
    is_up: bool,
    seen: Option<(Instant, StoreFigures)>,
}

/// Contents of the store, over all workspaces.
#[derive(Debug, Clone)]
pub(super) struct StoreFigures {
    pub(super) repeats: BTreeMap<EffectClass, RepeatCount>,
    pub(super) doubts: usize,
    pub(super) oldest_doubt_at: Option<Timestamp>,
    pub(super) needing_attention: BTreeMap<AttentionReason, usize>,
    pub(super) operations_in_doubt: usize,
    pub(super) oldest_operation_in_doubt_at: Option<Timestamp>,
    pub(super) oldest_request_at: Option<Timestamp>,
    pub(super) outbox: OutboxDepth,
    pub(super) longest_due_at: Option<Timestamp>,
    pub(super) oldest_unprocessed_hook_at: Option<Timestamp>,
}

/// Result of reading the store.
#[derive(Debug)]
pub(super) struct StoreReading {
    pub(super) is_up: bool,
    /// The last figures, which may be old if the store is down.
    pub(super) figures: Option<StoreFigures>,
    pub(super) age: Duration,
}

impl Figures {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Figures { store, last: Mutex::default() }
    }

    /// Concurrent scrapes share one read of the store.
    pub(super) async fn read(&self, entities: &Entities) -> StoreReading {
        let mut last = self.last.lock().await;
        if last.asked_at.is_none_or(|at| at.elapsed() >= STORE_FIGURES_KEPT_FOR) {
            last.asked_at = Some(Instant::now());
            match tokio::time::timeout(STORE_FIGURES_PATIENCE, self.look(entities)).await {
                Ok(Ok(figures)) => {
                    last.is_up = true;
                    last.seen = Some((Instant::now(), figures));
                }
                Ok(Err(error)) => {
                    last.is_up = false;
                    tracing::warn!(%error, "the store could not be read for metrics");
                }
                Err(_) => {
                    last.is_up = false;
                    tracing::warn!("the store did not answer in time for metrics");
                }
            }
        }
        let age = last.seen.as_ref().map_or(Duration::ZERO, |(at, _)| at.elapsed());
        let figures = last.seen.as_ref().map(|(_, figures)| figures.clone());
        StoreReading { is_up: last.is_up, figures, age }
    }

    async fn look(&self, entities: &Entities) -> Result<StoreFigures, StoreError> {
        let request = ListDoubts { workspace: None, after: None, limit: MAX_PAGE };
        let doubts = self.store.list_doubts(request).await?;
        let oldest_request_at = match self.store.request_key_store() {
            Some(book) => book.find_oldest_request().await?,
            None => None,
        };
        let (operations_in_doubt, oldest_operation_in_doubt_at) = self.count_in_doubt(entities).await?;
        Ok(StoreFigures {
            repeats: count_repeats(&self.store.count_tallies(None).await?),
            needing_attention: self.count_needing_attention(&doubts).await?,
            operations_in_doubt,
            oldest_operation_in_doubt_at,
            doubts: doubts.len(),
            oldest_doubt_at: doubts.first().and_then(|doubt| match doubt.step.state {
                StepState::InDoubt { since, .. } => Some(since),
                _ => None,
            }),
            oldest_request_at,
            outbox: self.store.measure_outbox().await?,
            longest_due_at: self.store.find_oldest_due_at().await?,
            oldest_unprocessed_hook_at: self.find_oldest_unprocessed_hook().await?,
        })
    }

    /// Runs that need people, by reason: runs with the doubts that were read, and paused runs,
    /// which an index finds in each workspace.
    async fn count_needing_attention(
        &self,
        doubts: &[StoredDoubt],
    ) -> Result<BTreeMap<AttentionReason, usize>, StoreError> {
        let mut counts: BTreeMap<AttentionReason, usize> =
            AttentionReason::ALL.into_iter().map(|reason| (reason, 0)).collect();
        let of_doubts: BTreeSet<_> = doubts
            .iter()
            .map(|doubt| (attention_for_doubt(&doubt.step).reason, &doubt.workspace, doubt.run))
            .collect();
        of_doubts.iter().for_each(|(reason, ..)| *counts.entry(*reason).or_default() += 1);
        let Some(catalog) = self.store.catalog() else { return Ok(counts) };
        let (kind, limit) = (CatalogKind::Workspace, MAX_WORKSPACES_MEASURED);
        let request = ListCatalogItems { workspace: None, kind, changed_since: None, after: None, limit };
        for item in catalog.list_items(request).await? {
            let request = ListRuns {
                workspace: Some(item.workspace),
                statuses: vec![RunStatus::Paused],
                workflow: None,
                filter: Default::default(),
                before: None,
                limit: MAX_PAUSED_MEASURED,
            };
            for RunView { head, .. } in self.store.list_runs(request).await?.runs {
                let before = Version::new(head.version.get().saturating_sub(1));
                let events = self.store.list_events(&head.facts.workspace, head.id(), before).await?;
                if let Some(attention) = attention_for_pause(&head, events.last()) {
                    *counts.entry(attention.reason).or_default() += 1;
                }
            }
        }
        Ok(counts)
    }

    /// Arrival of the oldest accepted webhook that is not processed.
    async fn find_oldest_unprocessed_hook(&self) -> Result<Option<Timestamp>, StoreError> {
        let Some(book) = self.store.webhook_store() else { return Ok(None) };
        let first = ListUnprocessedEvents { before: self.store.now(), after: None, limit: 1 };
        let oldest = book.list_unprocessed_events(first).await?;
        Ok(oldest.first().map(|hook| hook.received_at))
    }

    /// Operations in doubt in the workspaces with entity workflows, and the start of the oldest
    /// doubt.
    async fn count_in_doubt(&self, entities: &Entities) -> Result<(usize, Option<Timestamp>), StoreError> {
        let Some(book) = self.store.entity_store() else { return Ok((0, None)) };
        let (mut count, mut oldest) = (0, None::<Timestamp>);
        for workspace in entities.workspaces().into_iter().take(MAX_WORKSPACES_MEASURED) {
            let request = ListOperations {
                workspace,
                kind: None,
                entity: None,
                step: None,
                status: Some(OperationStatus::InDoubt),
                before: None,
                limit: MAX_PAGE,
            };
            for operation in book.list_operations(request).await? {
                count += 1;
                if let OperationState::InDoubt { since } = operation.state {
                    oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
                }
            }
        }
        Ok((count, oldest))
    }
}

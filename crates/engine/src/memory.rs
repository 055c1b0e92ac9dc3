//! An in-memory store: the reference for all other stores. Its data is lost when the process ends.
//!
//! It favours correctness over speed: one lock, and every operation is one edit under it. It uses only its
//! own clock and spawns no tasks, so a single-threaded simulation can drive it.

mod arrival;
mod catalog;
mod claim_runs;
mod command_run;
mod commit_run;
mod ending;
mod entities;
mod families;
mod journal;
mod outbox;
mod purge;
mod read;
mod request_key_store;
mod settle_promise;
mod start_run;
mod state;
mod webhooks;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;

use crate::clock::Clock;
use crate::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, OwnerId, Promise, PromiseId,
    RunCommit, RunEvent, RunId, TallyCount, Timestamp, Version, WorkspaceId,
};
use crate::store::{
    Catalog, ClaimOutbox, ClaimRuns, ClaimedOutbox, ClaimedRuns, CommandRun, CommitOutcome, EntityStore,
    FamilyStore, FinishOutboxMessage, ListAudit, ListDoubts, ListJournal, ListOutbox, ListRuns, PromiseStore,
    Purge, PurgeOutcome, Redeliver, RedeliverOutcome, RenewLeases, RequestKeyStore, RunCommandOutcome,
    RunLog, RunPage, RunView, SendSignal, SettleOutcome, SettlePromise, SignalOutcome, StartOutcome, Store,
    StoreResult, StoredDoubt, StoredJournalEntry, StoredKey, WebhookStore,
};
use state::State;

/// Keeps everything in memory and discards it when dropped.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store. Leases, timers and deadlines follow `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        MemoryStore { clock, state: Mutex::default() }
    }

    /// Imports a run with its history, ready to be driven. For replays.
    pub(crate) fn adopt(&self, history: RunLog) {
        self.state().adopt(history, self.now());
    }

    /// Ends the leases of an owner that is known to be dead, so that its runs can be claimed at once. Returns
    /// their number.
    pub fn end_leases(&self, owner: OwnerId) -> usize {
        self.state().end_leases(owner, self.now())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no verb panics")
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn request_key_store(&self) -> Option<&dyn RequestKeyStore> {
        Some(self)
    }

    fn catalog(&self) -> Option<&dyn Catalog> {
        Some(self)
    }

    fn promise_store(&self) -> Option<&dyn PromiseStore> {
        Some(self)
    }

    fn family_store(&self) -> Option<&dyn FamilyStore> {
        Some(self)
    }

    fn entity_store(&self) -> Option<&dyn EntityStore> {
        Some(self)
    }

    fn webhook_store(&self) -> Option<&dyn WebhookStore> {
        Some(self)
    }

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        self.state().start_run(&new, self.now())
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        Ok(self.state().claim_runs(&request, self.now()))
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.state().renew_leases(&request, self.now())
    }

    async fn commit_run(&self, commit: RunCommit) -> StoreResult<CommitOutcome> {
        self.state().commit_run(commit, self.now())
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        Ok(self.state().command_run(&request, self.now()))
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        Ok(self.state().send_signal(request, self.now()))
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        Ok(self.state().settle_promise(request, self.now()))
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        Ok(self.state().purge(&request, self.now()))
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        Ok(self.state().find_run(workspace, run))
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        Ok(self.state().find_log(workspace, run))
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        request.check()?;
        Ok(self.state().list_runs(&request))
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        Ok(self.state().list_events(workspace, run, after))
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        Ok(self.state().find_key(workspace, kind, key))
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        Ok(self.state().list_keys(after))
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        Ok(self.state().find_promise(workspace, id, self.now()))
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.state().append_journal(notes);
        Ok(())
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        Ok(self.state().list_journal(&request))
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        Ok(self.state().list_audit(&request))
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        Ok(self.state().count_tallies(workspace))
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        Ok(self.state().list_doubts(&request))
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        Ok(self.state().claim_outbox(&request, self.now()))
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        Ok(self.state().finish_outbox_message(request))
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        Ok(self.state().redeliver(request, self.now()))
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        Ok(self.state().list_outbox(&request))
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

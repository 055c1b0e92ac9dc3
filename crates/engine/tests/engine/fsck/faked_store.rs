//! A truthful store, except for one lie about one run.

use std::sync::Arc;

use async_trait::async_trait;
use hapax_engine::model::{
    Entity, Fingerprint, IdempotencyKey, JournalEntry, KeyKind, KeyRecord, KeyTarget, NewRun, Operation,
    OutboxMessage, Promise, PromiseId, RunCommit, RunEvent, RunHead, RunId, TallyCount, Timestamp, Version,
    WorkspaceId,
};
use hapax_engine::store::*;

/// Lie that the store tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FakedAnswer {
    pub(crate) head: fn(&mut RunHead),
    pub(crate) view: fn(&mut RunView),
    pub(crate) log: fn(&mut RunLog),
    pub(crate) events: fn(&mut Vec<RunEvent>),
    pub(crate) keys: fn(&mut Vec<(StoredKey, KeyRecord)>),
    pub(crate) posts: fn(&mut Vec<OutboxMessage>),
    pub(crate) operations: fn(&mut Vec<Operation>),
    pub(crate) entity: fn(&mut Option<Entity>),
    pub(crate) promise: fn(&mut Option<Promise>),
    pub(crate) early: fn(&mut Vec<StoredEarlySettlement>),
}

impl FakedAnswer {
    pub(crate) const NONE: FakedAnswer = FakedAnswer {
        head: |_| (),
        view: |_| (),
        log: |_| (),
        events: |_| (),
        keys: |_| (),
        posts: |_| (),
        operations: |_| (),
        entity: |_| (),
        promise: |_| (),
        early: |_| (),
    };
}

/// Changes the run or the fingerprint of the test's only key.
pub(crate) fn names(keys: &mut [(StoredKey, KeyRecord)], change: fn(&mut RunId, &mut Fingerprint)) {
    match &mut key_record(keys).target {
        KeyTarget::Run { run, fingerprint } => change(run, fingerprint),
        other => panic!("it names {other:?}"),
    }
}

pub(crate) fn key_record(keys: &mut [(StoredKey, KeyRecord)]) -> &mut KeyRecord {
    &mut keys[0].1
}

#[derive(Debug)]
pub(crate) struct FakedStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) about: RunId,
    pub(crate) lie: FakedAnswer,
}

impl FakedStore {
    fn view(&self, mut view: RunView) -> RunView {
        if view.head.id() == self.about {
            (self.lie.head)(&mut view.head);
            (self.lie.view)(&mut view);
        }
        view
    }
}

#[async_trait]
impl Store for FakedStore {
    fn now(&self) -> Timestamp {
        self.store.now()
    }

    fn promise_store(&self) -> Option<&dyn PromiseStore> {
        Some(self)
    }

    fn family_store(&self) -> Option<&dyn hapax_engine::store::FamilyStore> {
        self.store.family_store()
    }

    fn entity_store(&self) -> Option<&dyn EntityStore> {
        Some(self)
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        Ok(self.store.find_run(workspace, run).await?.map(|view| self.view(view)))
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        let log = self.store.find_log(workspace, run).await?;
        Ok(log.map(|mut log| {
            if run == self.about {
                (self.lie.head)(&mut log.head);
                (self.lie.log)(&mut log);
            }
            log
        }))
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        let page = self.store.list_runs(request).await?;
        Ok(RunPage { runs: page.runs.into_iter().map(|view| self.view(view)).collect(), next: page.next })
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        let mut events = self.store.list_events(workspace, run, Version::default()).await?;
        if run == self.about {
            (self.lie.events)(&mut events);
        }
        events.retain(|event| event.version > after);
        Ok(events)
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        let keys = self.list_keys(None).await?;
        let is_asked =
            |place: &StoredKey| place.workspace == *workspace && place.kind == kind && place.key == *key;
        Ok(keys.into_iter().find(|(place, _)| is_asked(place)).map(|(_, record)| record))
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        let mut keys = self.store.list_keys(None).await?;
        (self.lie.keys)(&mut keys);
        keys.retain(|(place, _)| after.as_ref().is_none_or(|after| place > after));
        Ok(keys)
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        let mut promise = self.store.find_promise(workspace, id).await?;
        (self.lie.promise)(&mut promise);
        Ok(promise)
    }

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        self.store.start_run(new).await
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        self.store.claim_runs(request).await
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.store.renew_leases(request).await
    }

    async fn commit_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome> {
        self.store.commit_run(advance).await
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        self.store.command_run(request).await
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.store.send_signal(request).await
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        self.store.settle_promise(request).await
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        self.store.purge(request).await
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.store.append_journal(notes).await
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        self.store.list_journal(request).await
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        self.store.list_audit(request).await
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        self.store.count_tallies(workspace).await
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        self.store.list_doubts(request).await
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        self.store.claim_outbox(request).await
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        self.store.finish_outbox_message(request).await
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.store.redeliver(request).await
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        let all = ListOutbox { workspace: None, status: None, target: None, after: None, limit: 1000 };
        let mut posts = self.store.list_outbox(all).await?;
        (self.lie.posts)(&mut posts);
        let place = |post: &OutboxMessage| (post.workspace.clone(), post.id.clone());
        posts.sort_by_key(place);
        posts.retain(|post| {
            request.workspace.as_ref().is_none_or(|wanted| *wanted == post.workspace)
                && request.after.as_ref().is_none_or(|after| place(post) > *after)
        });
        posts.truncate(request.limit);
        Ok(posts)
    }

    async fn close(&self) -> StoreResult<()> {
        self.store.close().await
    }
}

//! One call of a store as data, so that it can be sent twice and its answers compared.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, Promise, PromiseId, RunCommit,
    RunEvent, RunHead, RunId, TallyCount, Version, WorkspaceId,
};
use hapax_engine::store::*;

use super::entity_request::{EntityAnswer, EntityRequest};

#[derive(Debug, Clone)]
pub(super) enum Request {
    Start(NewRun),
    Claim(ClaimRuns),
    Renew(RenewLeases),
    RunCommit(Box<RunCommit>),
    RunCommand(CommandRun),
    Signal(SendSignal),
    Settle(SettlePromise),
    Purge(Purge),
    FindRun(WorkspaceId, RunId),
    FindLog(WorkspaceId, RunId),
    ListRuns(ListRuns),
    ListEvents(WorkspaceId, RunId, Version),
    FindKey(WorkspaceId, KeyKind, IdempotencyKey),
    ListKeys(Option<StoredKey>),
    FindPromise(WorkspaceId, PromiseId),
    AppendJournal(Vec<JournalEntry>),
    /// Number of entries to skip: each store has its own positions.
    ListJournal(ListJournal, usize),
    CountTallies(Option<WorkspaceId>),
    ListDoubts(ListDoubts),
    ClaimOutbox(ClaimOutbox),
    FinishOutboxMessage(FinishOutboxMessage),
    Redeliver(Redeliver),
    ListOutbox(ListOutbox),
    CancelFamily(CancelFamily),
    SweepFamily(SweepFamily),
    ListUnsweptFamilies(usize),
    Entity(EntityRequest),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Start(StartOutcome),
    Claim(ClaimedRuns),
    Renew(Vec<RunId>),
    RunCommit(CommitOutcome),
    RunCommand(RunCommandOutcome),
    Signal(SignalOutcome),
    Settle(SettleOutcome),
    Purge(PurgeOutcome),
    FindRun(Option<RunView>),
    FindLog(Option<Box<RunLog>>),
    ListRuns(RunPage),
    ListEvents(Vec<RunEvent>),
    FindKey(Option<KeyRecord>),
    ListKeys(Vec<(StoredKey, KeyRecord)>),
    FindPromise(Option<Promise>),
    AppendJournal,
    ListJournal(Vec<JournalEntry>),
    CountTallies(Vec<TallyCount>),
    ListDoubts(Vec<StoredDoubt>),
    ClaimOutbox(ClaimedOutbox),
    FinishOutboxMessage(bool),
    Redeliver(RedeliverOutcome),
    ListOutbox(Vec<OutboxMessage>),
    CancelFamily(CancelFamilyOutcome),
    SweepFamily(SweepFamilyOutcome),
    ListUnsweptFamilies(Vec<(WorkspaceId, RunId)>),
    Entity(EntityAnswer),
    /// The request was refused. Messages differ between stores.
    Refused,
}

impl Request {
    pub(super) async fn ask(&self, store: &dyn Store) -> Answer {
        match self.clone().send(store).await {
            Ok(answer) => answer,
            Err(StoreError::Refused(_)) => Answer::Refused,
            Err(error) => panic!("{error}, asked for {self:#?}"),
        }
    }

    async fn send(self, store: &dyn Store) -> StoreResult<Answer> {
        Ok(match self {
            Request::Start(new) => Answer::Start(store.start_run(new).await?),
            Request::Claim(request) => Answer::Claim(store.claim_runs(request).await?),
            Request::Renew(request) => Answer::Renew(store.renew_leases(request).await?),
            Request::RunCommit(advance) => Answer::RunCommit(sorted(store.commit_run(*advance).await?)),
            Request::RunCommand(request) => Answer::RunCommand(store.command_run(request).await?),
            Request::Signal(request) => Answer::Signal(store.send_signal(request).await?),
            Request::Settle(request) => Answer::Settle(store.settle_promise(request).await?),
            Request::Purge(request) => Answer::Purge(store.purge(request).await?),
            Request::FindRun(workspace, run) => Answer::FindRun(store.find_run(&workspace, run).await?),
            Request::FindLog(workspace, run) => {
                Answer::FindLog(store.find_log(&workspace, run).await?.map(in_order).map(Box::new))
            }
            Request::ListRuns(request) => Answer::ListRuns(store.list_runs(request).await?),
            Request::ListEvents(workspace, run, after) => {
                Answer::ListEvents(store.list_events(&workspace, run, after).await?)
            }
            Request::FindKey(workspace, kind, key) => {
                Answer::FindKey(store.find_key(&workspace, kind, &key).await?)
            }
            Request::ListKeys(after) => Answer::ListKeys(store.list_keys(after).await?),
            Request::FindPromise(workspace, id) => {
                Answer::FindPromise(store.find_promise(&workspace, &id).await?)
            }
            Request::AppendJournal(notes) => {
                store.append_journal(notes).await?;
                Answer::AppendJournal
            }
            Request::ListJournal(request, skip) => {
                Answer::ListJournal(list_journal(store, request, skip).await?)
            }
            Request::CountTallies(workspace) => {
                Answer::CountTallies(store.count_tallies(workspace.as_ref()).await?)
            }
            Request::ListDoubts(request) => Answer::ListDoubts(store.list_doubts(request).await?),
            Request::ClaimOutbox(request) => Answer::ClaimOutbox(store.claim_outbox(request).await?),
            Request::FinishOutboxMessage(request) => {
                Answer::FinishOutboxMessage(store.finish_outbox_message(request).await?)
            }
            Request::Redeliver(request) => Answer::Redeliver(store.redeliver(request).await?),
            Request::ListOutbox(request) => Answer::ListOutbox(store.list_outbox(request).await?),
            Request::CancelFamily(request) => {
                Answer::CancelFamily(families(store).cancel_family(request).await?)
            }
            Request::SweepFamily(request) => {
                Answer::SweepFamily(families(store).sweep_family(request).await?)
            }
            Request::ListUnsweptFamilies(limit) => {
                Answer::ListUnsweptFamilies(families(store).list_unswept_families(limit).await?)
            }
            Request::Entity(request) => Answer::Entity(request.send(store).await?),
        })
    }

    /// The run that the request is about, if any.
    pub(super) fn run(&self) -> Option<(WorkspaceId, RunId)> {
        match self {
            Request::Start(new) => Some((new.facts.workspace.clone(), new.facts.id)),
            Request::RunCommit(advance) => Some((advance.workspace().clone(), advance.run())),
            Request::RunCommand(request) => Some((request.workspace.clone(), request.run)),
            Request::Signal(request) => Some((request.workspace.clone(), request.run)),
            Request::CancelFamily(request) => Some((request.workspace.clone(), request.root)),
            Request::SweepFamily(request) => Some((request.workspace.clone(), request.root)),
            Request::FindRun(workspace, run)
            | Request::FindLog(workspace, run)
            | Request::ListEvents(workspace, run, _) => Some((workspace.clone(), *run)),
            Request::Claim(_)
            | Request::Renew(_)
            | Request::Settle(_)
            | Request::Purge(_)
            | Request::ListRuns(_)
            | Request::FindKey(..)
            | Request::ListKeys(_)
            | Request::FindPromise(..)
            | Request::AppendJournal(_)
            | Request::ListJournal(..)
            | Request::CountTallies(_)
            | Request::ListDoubts(_)
            | Request::ClaimOutbox(_)
            | Request::FinishOutboxMessage(_)
            | Request::Redeliver(_)
            | Request::ListOutbox(_)
            | Request::ListUnsweptFamilies(_)
            | Request::Entity(_) => None,
        }
    }
}

impl Answer {
    /// The runs that the answer contains, in their current state.
    pub(super) fn heads(&self) -> Vec<RunHead> {
        match self {
            Answer::Start(StartOutcome::Created(head) | StartOutcome::Existing(head))
            | Answer::RunCommit(CommitOutcome::Stale(head))
            | Answer::RunCommand(RunCommandOutcome::Accepted(head) | RunCommandOutcome::Refused(_, head))
            | Answer::Signal(SignalOutcome::Stored { granted: Some(head), .. })
            | Answer::Settle(SettleOutcome::Settled { granted: Some(head), .. }) => vec![head.clone()],
            Answer::Claim(claimed) => claimed.runs.clone(),
            Answer::CancelFamily(CancelFamilyOutcome::Cancelled(root)) => vec![root.clone()],
            Answer::SweepFamily(swept) => swept.steered.clone(),
            Answer::FindRun(Some(view)) => vec![view.head.clone()],
            Answer::FindLog(Some(log)) => vec![log.head.clone()],
            _ => Vec::new(),
        }
    }
}

fn families(store: &dyn Store) -> &dyn FamilyStore {
    store.family_store().expect("the store keeps families")
}

/// The page after the first `skip` matching entries.
async fn list_journal(
    store: &dyn Store,
    request: ListJournal,
    skip: usize,
) -> StoreResult<Vec<JournalEntry>> {
    let all = store.list_journal(ListJournal { after: 0, limit: MAX_PAGE, ..request.clone() }).await?;
    assert!(all.len() < MAX_PAGE && all.is_sorted_by(|a, b| a.place < b.place), "{all:#?}");
    let after = skip.checked_sub(1).and_then(|last| all.get(last)).map_or(0, |placed| placed.place);
    let page = store.list_journal(ListJournal { after, ..request }).await?;
    Ok(page.into_iter().map(|placed| placed.note).collect())
}

/// The order of woken runs is undefined.
fn sorted(outcome: CommitOutcome) -> CommitOutcome {
    match outcome {
        CommitOutcome::Committed { mut woken, mut opened } => {
            woken.sort();
            opened.sort_by(|a, b| a.id.cmp(&b.id));
            CommitOutcome::Committed { woken, opened }
        }
        other => other,
    }
}

/// The order of promises and children is undefined.
fn in_order(mut log: RunLog) -> RunLog {
    log.promises.sort_by(|a, b| a.id.cmp(&b.id));
    log.children.sort_by_key(|(child, _)| *child);
    log
}

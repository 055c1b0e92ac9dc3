//! One call of a store as data, so that it can be made twice and its answers compared.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    Advance, IdempotencyKey, KeyKind, KeyRecord, NewRun, Note, Post, Promise, PromiseId, RunEvent, RunHead,
    RunId, TallyCount, Version, WorkspaceId,
};
use hapax_engine::store::*;

use super::entity_request::{EntityAnswer, EntityRequest};

#[derive(Debug, Clone)]
pub(super) enum Request {
    Start(NewRun),
    Claim(ClaimRuns),
    Renew(RenewLeases),
    Advance(Box<Advance>),
    Steer(SteerRun),
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
    AppendNotes(Vec<Note>),
    /// After so many entries: each store has its own places.
    ListNotes(ListNotes, usize),
    CountTallies(Option<WorkspaceId>),
    ListDoubts(ListDoubts),
    ClaimPosts(ClaimPosts),
    FinishPost(FinishPost),
    Redeliver(Redeliver),
    ListPosts(ListPosts),
    Entity(EntityRequest),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Start(StartOutcome),
    Claim(Claimed),
    Renew(Vec<RunId>),
    Advance(AdvanceOutcome),
    Steer(SteerOutcome),
    Signal(SignalOutcome),
    Settle(SettleOutcome),
    Purge(Purged),
    FindRun(Option<RunView>),
    FindLog(Option<Box<RunLog>>),
    ListRuns(RunPage),
    ListEvents(Vec<RunEvent>),
    FindKey(Option<KeyRecord>),
    ListKeys(Vec<(StoredKey, KeyRecord)>),
    FindPromise(Option<Promise>),
    AppendNotes,
    ListNotes(Vec<Note>),
    CountTallies(Vec<TallyCount>),
    ListDoubts(Vec<StoredDoubt>),
    ClaimPosts(ClaimedPosts),
    FinishPost(bool),
    Redeliver(RedeliverOutcome),
    ListPosts(Vec<Post>),
    Entity(EntityAnswer),
    /// The request was refused; each store has its own words for it.
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
            Request::Advance(advance) => Answer::Advance(sorted(store.advance_run(*advance).await?)),
            Request::Steer(request) => Answer::Steer(store.steer_run(request).await?),
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
            Request::AppendNotes(notes) => {
                store.append_notes(notes).await?;
                Answer::AppendNotes
            }
            Request::ListNotes(request, skip) => Answer::ListNotes(list_notes(store, request, skip).await?),
            Request::CountTallies(workspace) => {
                Answer::CountTallies(store.count_tallies(workspace.as_ref()).await?)
            }
            Request::ListDoubts(request) => Answer::ListDoubts(store.list_doubts(request).await?),
            Request::ClaimPosts(request) => Answer::ClaimPosts(store.claim_posts(request).await?),
            Request::FinishPost(request) => Answer::FinishPost(store.finish_post(request).await?),
            Request::Redeliver(request) => Answer::Redeliver(store.redeliver(request).await?),
            Request::ListPosts(request) => Answer::ListPosts(store.list_posts(request).await?),
            Request::Entity(request) => Answer::Entity(request.send(store).await?),
        })
    }

    /// The run it is about, if it is about one.
    pub(super) fn run(&self) -> Option<(WorkspaceId, RunId)> {
        match self {
            Request::Start(new) => Some((new.facts.workspace.clone(), new.facts.id)),
            Request::Advance(advance) => Some((advance.workspace().clone(), advance.run())),
            Request::Steer(request) => Some((request.workspace.clone(), request.run)),
            Request::Signal(request) => Some((request.workspace.clone(), request.run)),
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
            | Request::AppendNotes(_)
            | Request::ListNotes(..)
            | Request::CountTallies(_)
            | Request::ListDoubts(_)
            | Request::ClaimPosts(_)
            | Request::FinishPost(_)
            | Request::Redeliver(_)
            | Request::ListPosts(_)
            | Request::Entity(_) => None,
        }
    }
}

impl Answer {
    /// The runs it shows as they are.
    pub(super) fn heads(&self) -> Vec<RunHead> {
        match self {
            Answer::Start(StartOutcome::Created(head) | StartOutcome::Existing(head))
            | Answer::Advance(AdvanceOutcome::Stale(head))
            | Answer::Steer(SteerOutcome::Steered(head) | SteerOutcome::Refused(_, head))
            | Answer::Signal(SignalOutcome::Stored { granted: Some(head), .. })
            | Answer::Settle(SettleOutcome::Settled { granted: Some(head), .. }) => vec![head.clone()],
            Answer::Claim(claimed) => claimed.runs.clone(),
            Answer::FindRun(Some(view)) => vec![view.head.clone()],
            Answer::FindLog(Some(log)) => vec![log.head.clone()],
            _ => Vec::new(),
        }
    }
}

/// The page after the first `skip` entries that fit.
async fn list_notes(store: &dyn Store, request: ListNotes, skip: usize) -> StoreResult<Vec<Note>> {
    let all = store.list_notes(ListNotes { after: 0, limit: MAX_PAGE, ..request.clone() }).await?;
    assert!(all.len() < MAX_PAGE && all.is_sorted_by(|a, b| a.place < b.place), "{all:#?}");
    let after = skip.checked_sub(1).and_then(|last| all.get(last)).map_or(0, |placed| placed.place);
    let page = store.list_notes(ListNotes { after, ..request }).await?;
    Ok(page.into_iter().map(|placed| placed.note).collect())
}

/// The order of the woken says nothing.
fn sorted(outcome: AdvanceOutcome) -> AdvanceOutcome {
    match outcome {
        AdvanceOutcome::Advanced { mut woken, mut opened } => {
            woken.sort();
            opened.sort_by(|a, b| a.id.cmp(&b.id));
            AdvanceOutcome::Advanced { woken, opened }
        }
        other => other,
    }
}

/// The order of promises and children says nothing.
fn in_order(mut log: RunLog) -> RunLog {
    log.promises.sort_by(|a, b| a.id.cmp(&b.id));
    log.children.sort_by_key(|(child, _)| *child);
    log
}

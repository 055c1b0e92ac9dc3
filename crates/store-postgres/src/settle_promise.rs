//! Settling a promise: the first commit wins.

use hapax_engine::model::{
    EarlyDecision, IdempotencyKey, Promise, PromiseRef, SettleDecision, decide_early, decide_settle,
};
use hapax_engine::store::{SettleOutcome, SettlePromise};

use crate::arrival::arrive;
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::promise_keys::{self, KnownKey, age_key};
use crate::promises::settled_promise;
use crate::session::Session;

impl Verb for SettlePromise {
    type Outcome = SettleOutcome;

    fn foresee(&self, needs: &mut Needs) {
        match &self.promise {
            PromiseRef::Id(id) => needs.promises.push((self.workspace.clone(), id.clone())),
            PromiseRef::Key(key) => {
                needs.promise_keys.push((self.workspace.clone(), key.clone()));
                if self.keep_for.is_some() {
                    needs.workspaces.push(self.workspace.clone());
                }
            }
        }
        needs.bring(&self.workspace, self.note.as_slice());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<SettleOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(SettleOutcome::NoSuchPromise);
        };
        let id = match &self.promise {
            PromiseRef::Id(id) => id.clone(),
            PromiseRef::Key(key) => {
                let known = promise_keys::find_key(session, workspace, key).await?;
                match known.promise(session.now) {
                    Some(id) => id.clone(),
                    None => return keep_early(session, workspace, key, known, self).await,
                }
            }
        };
        let Some(promise) = session.find_promise(workspace, &id).await? else {
            return Ok(SettleOutcome::NoSuchPromise);
        };
        match decide_settle(&promise, self.wish.clone(), session.now) {
            SettleDecision::TimedOut => {
                Ok(SettleOutcome::TimedOut { promise: Box::new(promise.seen_at(session.now)) })
            }
            SettleDecision::AlreadySettled { same } => {
                Ok(SettleOutcome::AlreadySettled { same, promise: Box::new(promise) })
            }
            SettleDecision::KeyTaken => Ok(SettleOutcome::NoSuchPromise),
            SettleDecision::Settle(promise) => settle(session, workspace, promise, self).await,
        }
    }
}

/// Writes a settled promise, and wakes its waiters.
async fn settle(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    promise: Box<Promise>,
    request: &SettlePromise,
) -> Result<SettleOutcome, Fault> {
    write_promise(session, workspace, (*promise).clone())?;
    age_key(session, workspace, &promise).await?;
    insert_notes(session, request.note_on(&promise).as_slice()).await?;
    if !promise.is_standalone() {
        let arrival = arrive(session, workspace, promise.run, request.grant.as_ref()).await?;
        let granted = arrival.and_then(|arrival| arrival.granted.map(|_| arrival.head));
        return Ok(SettleOutcome::Settled { promise, granted, waiters: Vec::new() });
    }
    let waiters = session.alone.get(&(workspace, promise.id.clone())).cloned().unwrap_or_default();
    for waiter in &waiters {
        arrive(session, workspace, *waiter, None).await?;
    }
    Ok(SettleOutcome::Settled { promise, granted: None, waiters })
}

/// Stores a settlement whose promise does not exist yet.
async fn keep_early(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
    known: KnownKey,
    request: &SettlePromise,
) -> Result<SettleOutcome, Fault> {
    let Some(keep_for) = request.keep_for else { return Ok(SettleOutcome::NoSuchPromise) };
    let (now, kept) = (session.now, known.early.as_ref());
    match decide_early(request.wish.clone(), kept, now, now.plus(keep_for)) {
        EarlyDecision::AlreadyKept { same } => {
            let until = kept.map_or(now, |kept| kept.expires_at);
            Ok(SettleOutcome::AlreadyKept { same, until })
        }
        EarlyDecision::Keep(early) => {
            let until = early.expires_at;
            promise_keys::keep_early(session, workspace, key, early)?;
            insert_notes(session, request.note.as_slice()).await?;
            Ok(SettleOutcome::KeptEarly { until })
        }
    }
}

/// Moves a pending promise to its final state.
pub(crate) fn write_promise(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    promise: Promise,
) -> Result<(), Fault> {
    let settled = settled_promise(workspace, &promise)?;
    session.keep_back(include_str!("../sql/settle_promise.sql"), settled);
    session.note_promise(workspace, promise);
    Ok(())
}

//! Settling a promise: the first commit wins.

use hapax_engine::model::{
    EarlyDecision, IdempotencyKey, KeyRecord, KeyTarget, Promise, PromiseRef, SettleDecision, decide_early,
    decide_settle,
};
use hapax_engine::store::{SettleOutcome, SettlePromise};

use crate::arrival::arrive;
use crate::early::{find_early, put_early};
use crate::fault::Fault;
use crate::find;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::promise_keys::{age_promise_key, put_promise_key};
use crate::promises::{list_waiters, write_settled};
use crate::session::{Session, WorkspaceRowId};

impl Verb for SettlePromise {
    type Outcome = SettleOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<SettleOutcome, Fault> {
        let workspace = session.find_workspace(&self.workspace)?;
        let found = match (workspace, &self.promise) {
            (None, _) => None,
            (Some(workspace), PromiseRef::Id(id)) => find::promise(session.statements(), workspace, id)?,
            (Some(workspace), PromiseRef::Key(key)) => {
                find::promise_by_key(session.statements(), workspace, key, session.now)?
            }
        };
        match (workspace, found, &self.promise) {
            (Some(workspace), Some(promise), _) => settle(session, workspace, self, promise),
            (_, _, PromiseRef::Key(key)) => keep_early(session, self, key),
            (_, _, PromiseRef::Id(_)) => Ok(SettleOutcome::NoSuchPromise),
        }
    }
}

fn settle(
    session: &mut Session<'_, '_>,
    workspace: WorkspaceRowId,
    request: &SettlePromise,
    promise: Promise,
) -> Result<SettleOutcome, Fault> {
    let promise = match decide_settle(&promise, request.wish.clone(), session.now) {
        SettleDecision::TimedOut => {
            return Ok(SettleOutcome::TimedOut { promise: Box::new(promise.seen_at(session.now)) });
        }
        SettleDecision::AlreadySettled { same } => {
            return Ok(SettleOutcome::AlreadySettled { same, promise: Box::new(promise) });
        }
        SettleDecision::KeyTaken => return Ok(SettleOutcome::NoSuchPromise),
        SettleDecision::Settle(promise) => promise,
    };
    write_settled(session, workspace, &promise)?;
    age_promise_key(session, workspace, &promise)?;
    insert_notes(session, request.note_on(&promise).as_slice())?;
    if !promise.is_standalone() {
        let arrival = arrive(session, workspace, promise.run, request.grant.as_ref())?;
        let granted = arrival.and_then(|arrival| arrival.granted.map(|_| arrival.head));
        return Ok(SettleOutcome::Settled { promise, granted, waiters: Vec::new() });
    }
    let waiters = list_waiters(session, workspace, &promise.id)?;
    for waiter in &waiters {
        arrive(session, workspace, *waiter, None)?;
    }
    Ok(SettleOutcome::Settled { promise, granted: None, waiters })
}

/// Keeps a settlement whose promise is still to be made, and claims the key for that.
fn keep_early(
    session: &mut Session<'_, '_>,
    request: &SettlePromise,
    key: &IdempotencyKey,
) -> Result<SettleOutcome, Fault> {
    let Some(keep_for) = request.keep_for else { return Ok(SettleOutcome::NoSuchPromise) };
    let workspace = session.number_workspace(&request.workspace)?;
    let now = session.now;
    let kept = find_early(session, workspace, key)?;
    match decide_early(request.wish.clone(), kept.as_ref(), now, now.plus(keep_for)) {
        EarlyDecision::AlreadyKept { same } => {
            Ok(SettleOutcome::AlreadyKept { same, until: kept.map_or(now, |kept| kept.expires_at) })
        }
        EarlyDecision::Keep(early) => {
            let until = early.expires_at;
            let record =
                KeyRecord { target: KeyTarget::Nothing, first_seen_at: now, expires_at: Some(until) };
            put_promise_key(session, workspace, key, &record)?;
            put_early(session, workspace, key, &early)?;
            insert_notes(session, request.note.as_slice())?;
            Ok(SettleOutcome::KeptEarly { until })
        }
    }
}

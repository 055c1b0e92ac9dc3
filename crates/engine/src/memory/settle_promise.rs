//! Promises: opening, finding by key, settling.

use std::ops::Bound::{Excluded, Unbounded};

use async_trait::async_trait;

use super::MemoryStore;
use super::state::{State, promise_key};
use crate::limits::{MAX_PAGE, MAX_PURGE};
use crate::model::{
    EarlyDecision, EarlySettlement, IdempotencyKey, KeyRecord, KeyTarget, OpenedPromise, Promise, PromiseId,
    PromiseRef, PromiseState, RunId, SettleDecision, Timestamp, WorkspaceId, decide_early, decide_open,
    decide_settle,
};
use crate::store::{
    CreateOutcome, CreatePromise, ListEarlySettlements, ListPromises, PromisePage, PromiseStore,
    PutSettleToken, SettleOutcome, SettlePromise, SettleToken, Store, StoreResult, StoredEarlySettlement,
    TokenDigest,
};

impl State {
    pub(super) fn settle_promise(&mut self, request: SettlePromise, now: Timestamp) -> SettleOutcome {
        let workspace = request.workspace.clone();
        let id = match &request.promise {
            PromiseRef::Id(id) => id.clone(),
            PromiseRef::Key(key) => match self.named_by(&workspace, key, now) {
                Some(id) => id,
                None => return self.keep_early(&workspace, key.clone(), request, now),
            },
        };
        let Some(promise) = self.promise(&workspace, &id).cloned() else {
            return SettleOutcome::NoSuchPromise;
        };
        match decide_settle(&promise, request.wish.clone(), now) {
            SettleDecision::TimedOut => SettleOutcome::TimedOut { promise: Box::new(promise.seen_at(now)) },
            SettleDecision::AlreadySettled { same } => {
                SettleOutcome::AlreadySettled { same, promise: Box::new(promise) }
            }
            SettleDecision::KeyTaken => SettleOutcome::NoSuchPromise,
            SettleDecision::Settle(promise) => {
                self.append_journal(request.note_on(&promise));
                self.put_promise(&workspace, (*promise).clone());
                self.age_key(&workspace, &promise, now);
                let arrival = self.arrive(promise.run, request.grant.as_ref(), now);
                let granted = arrival.and_then(|arrival| arrival.granted.map(|_| arrival.head));
                let waiters = self.waiters(&workspace, &id);
                for waiter in &waiters {
                    self.arrive(*waiter, None, now);
                }
                SettleOutcome::Settled { promise, granted, waiters }
            }
        }
    }

    /// The promise that a live key names.
    fn named_by(&self, workspace: &WorkspaceId, key: &IdempotencyKey, now: Timestamp) -> Option<PromiseId> {
        let record = self.keys().get(&promise_key(workspace, key)).filter(|record| record.is_live(now))?;
        record.promise().cloned()
    }

    /// Keeps an early settlement for a future promise.
    fn keep_early(
        &mut self,
        workspace: &WorkspaceId,
        key: IdempotencyKey,
        request: SettlePromise,
        now: Timestamp,
    ) -> SettleOutcome {
        let Some(keep_for) = request.keep_for else { return SettleOutcome::NoSuchPromise };
        let place = (workspace.clone(), key);
        let kept = self.early.get(&place);
        let known_until = kept.map(|kept| kept.expires_at);
        match decide_early(request.wish, kept, now, now.plus(keep_for)) {
            EarlyDecision::AlreadyKept { same } => {
                SettleOutcome::AlreadyKept { same, until: known_until.unwrap_or(now) }
            }
            EarlyDecision::Keep(early) => {
                let until = early.expires_at;
                let record =
                    KeyRecord { target: KeyTarget::Nothing, first_seen_at: now, expires_at: Some(until) };
                self.give_promise_key(workspace, &place.1, record);
                self.early.insert(place, early);
                self.append_journal(request.note);
                SettleOutcome::KeptEarly { until }
            }
        }
    }

    /// Writes the record of a key. The usage counts of a new key start at zero.
    fn give_promise_key(&mut self, workspace: &WorkspaceId, key: &IdempotencyKey, record: KeyRecord) {
        let place = promise_key(workspace, key);
        let is_known = |known: &KeyRecord| known.first_seen_at == record.first_seen_at;
        if !self.keys().get(&place).is_some_and(is_known) {
            self.uses.remove(&place.clone().into());
        }
        self.put_key(place, record);
    }

    /// Sets the expiry of the key of a promise that has ended.
    fn age_key(&mut self, workspace: &WorkspaceId, promise: &Promise, now: Timestamp) {
        let Some(key) = &promise.key else { return };
        let place = promise_key(workspace, &key.key);
        let own = |record: &&KeyRecord| record.is_live(now) && record.promise() == Some(&promise.id);
        if let Some(record) = self.keys().get(&place).filter(own).cloned() {
            self.put_key(place, KeyRecord { expires_at: promise.key_expires_at(), ..record });
        }
    }

    /// Opens a promise of `run`, or one that it waits for. Returns the promise as it is now.
    pub(super) fn open_promise(
        &mut self,
        workspace: &WorkspaceId,
        run: RunId,
        promise: Promise,
        now: Timestamp,
    ) -> Option<Promise> {
        let id = promise.id.clone();
        let lost_its_key = |known: &Promise| matches!(known.state, PromiseState::KeyTaken { .. });
        if self.promise(workspace, &id).is_none_or(lost_its_key) {
            let opening = self.decide_open(workspace, promise, now);
            self.write_opening(workspace, opening);
        }
        let promise = self.promise(workspace, &id).cloned()?;
        if promise.is_standalone() {
            self.wait_for_promise(workspace, &id, run);
        }
        Some(promise)
    }

    fn decide_open(&self, workspace: &WorkspaceId, promise: Promise, now: Timestamp) -> OpenedPromise {
        let key = promise.key.as_ref().map(|key| key.key.clone());
        let holder = key.as_ref().and_then(|key| self.keys().get(&promise_key(workspace, key)));
        let early = key.and_then(|key| self.early.get(&(workspace.clone(), key))).cloned();
        decide_open(promise, holder, early, now)
    }

    fn write_opening(&mut self, workspace: &WorkspaceId, opening: OpenedPromise) {
        if let (Some(record), Some(key)) = (opening.key, &opening.promise.key) {
            self.early.remove(&(workspace.clone(), key.key.clone()));
            self.give_promise_key(workspace, &key.key, record);
        }
        self.put_promise(workspace, opening.promise);
    }

    fn create_promise(&mut self, request: CreatePromise, now: Timestamp) -> CreateOutcome {
        let CreatePromise { workspace, promise, token } = request;
        let place = (workspace.clone(), promise.id.clone());
        if let Some(known) = self.promise(&workspace, &promise.id) {
            let known = Box::new(known.clone().seen_at(now));
            return match self.makings.get(&place) == Some(&token) {
                true => CreateOutcome::Created(known),
                false => CreateOutcome::Exists(known),
            };
        }
        let opening = self.decide_open(&workspace, promise, now);
        if let PromiseState::KeyTaken { by } = opening.promise.state {
            return CreateOutcome::KeyConflict { existing: by };
        }
        let promise = Box::new(opening.promise.clone().seen_at(now));
        self.write_opening(&workspace, opening);
        self.makings.insert(place, token);
        CreateOutcome::Created(promise)
    }

    /// Returns true if an open run waits for the promise.
    fn is_awaited(&self, workspace: &WorkspaceId, id: &PromiseId) -> bool {
        let is_open = |run: &RunId| self.row(*run).is_some_and(|row| !row.head.status().is_closed());
        self.waiters(workspace, id).iter().any(is_open)
    }
}

#[async_trait]
impl PromiseStore for MemoryStore {
    async fn create_promise(&self, request: CreatePromise) -> StoreResult<CreateOutcome> {
        Ok(self.state().create_promise(request, self.now()))
    }

    async fn find_promise_by_key(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Promise>> {
        let (now, state) = (self.now(), self.state());
        let id = state.named_by(workspace, key, now);
        Ok(id.and_then(|id| state.find_promise(workspace, &id, now)))
    }

    async fn list_promises(&self, request: ListPromises) -> StoreResult<PromisePage> {
        let (now, state) = (self.now(), self.state());
        let ListPromises { workspace, run, status, after, limit } = request;
        let after = after.unwrap_or_else(|| PromiseId::from_stored(""));
        let later = state.promises().range((Excluded((workspace.clone(), after)), Unbounded));
        let own = later.take_while(|((of, _), _)| *of == workspace).map(|(_, promise)| promise);
        let matching = own
            .filter(|promise| !promise.id.is_doubt_promise())
            .filter(|promise| run.is_none_or(|run| promise.run == run))
            .filter(|promise| status.is_none_or(|status| promise.state_at(now).status() == status));
        let limit = limit.clamp(1, MAX_PAGE);
        let found = matching.take(limit).map(|promise| promise.clone().seen_at(now)).collect();
        Ok(PromisePage::new(found, limit, None))
    }

    async fn list_early_settlements(
        &self,
        request: ListEarlySettlements,
    ) -> StoreResult<Vec<StoredEarlySettlement>> {
        let (now, state) = (self.now(), self.state());
        let ListEarlySettlements { workspace, after, limit } = request;
        let matching = state
            .early
            .range((after.map_or(Unbounded, Excluded), Unbounded))
            .filter(|((of, _), _)| workspace.as_ref().is_none_or(|workspace| of == workspace))
            .filter(|(_, early)| now < early.expires_at);
        let kept = |((workspace, key), early): (&(WorkspaceId, IdempotencyKey), &EarlySettlement)| {
            StoredEarlySettlement { workspace: workspace.clone(), key: key.clone(), early: early.clone() }
        };
        Ok(matching.take(limit.clamp(1, MAX_PAGE)).map(kept).collect())
    }

    async fn put_settle_token(&self, request: PutSettleToken) -> StoreResult<bool> {
        let PutSettleToken { token, note } = request;
        let mut state = self.state();
        let known = state.promise(&token.workspace, &token.promise).is_some();
        if known {
            state.append_journal(note);
            state.tokens.insert(token.digest, token);
        }
        Ok(known)
    }

    async fn find_settle_token(&self, digest: &TokenDigest) -> StoreResult<Option<SettleToken>> {
        Ok(self.state().tokens.get(digest).cloned())
    }

    async fn purge_promises(&self, over_before: Timestamp, limit: usize) -> StoreResult<usize> {
        let mut state = self.state();
        let over = state.promises().iter().filter_map(|((workspace, id), promise)| {
            let at = promise.ends_at().filter(|at| promise.is_standalone() && *at < over_before)?;
            (!state.is_awaited(workspace, id)).then(|| (at, workspace.clone(), id.clone()))
        });
        let mut over: Vec<_> = over.collect();
        over.sort();
        over.truncate(limit.clamp(1, MAX_PURGE));
        over.iter().for_each(|(_, workspace, id)| state.remove_promise(workspace, id));
        Ok(over.len())
    }
}

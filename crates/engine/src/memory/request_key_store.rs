//! Request keys.

use async_trait::async_trait;

use super::MemoryStore;
use super::state::{State, promise_key};
use crate::limits::{ABANDONED_REQUEST_FOR, MAX_PURGE};
use crate::model::{
    BeginOutcome, BeginRequest, FinishDecision, FinishRequest, IdempotencyKey, KeyKind, KeyRecord,
    KeyedStart, KeyedStartDecision, KeyedStartOutcome, PromiseState, RequestRecord, RequestScope,
    RequestState, RunId, Timestamp, decide_begin_request, decide_finish_request, decide_keyed_start,
};
use crate::store::{
    KeyRef, KeyUsage, KeyUsageDelta, ReleaseKey, ReleaseOutcome, RequestKeyStore, Store, StoreError,
    StoreResult, StoredKey, check_usage_batch,
};

#[async_trait]
impl RequestKeyStore for MemoryStore {
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<BeginOutcome> {
        let place = (request.scope.clone(), request.key.clone());
        let mut state = self.state();
        let decision = decide_begin_request(state.requests.get(&place), &request, self.now());
        if let Some(record) = decision.write {
            if !state.requests.contains_key(&place) || state.requests[&place].id != record.id {
                state.uses.remove(&KeyRef::Request { scope: place.0.clone(), key: place.1.clone() });
            }
            state.requests.insert(place, record);
        }
        Ok(decision.answer)
    }

    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool> {
        let place = (request.scope.clone(), request.key.clone());
        let mut state = self.state();
        Ok(match decide_finish_request(state.requests.get(&place), &request, self.now()) {
            FinishDecision::Write(record) => {
                state.requests.insert(place, *record);
                true
            }
            FinishDecision::Delete => {
                state.remove_request(place);
                true
            }
            FinishDecision::NotYours => false,
        })
    }

    async fn start_keyed_run(&self, start: KeyedStart) -> StoreResult<KeyedStartOutcome> {
        self.state().start_keyed_run(&start, self.now())
    }

    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>> {
        Ok(self.state().requests.get(&(scope.clone(), key.clone())).cloned())
    }

    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome> {
        Ok(self.state().release_key(request, self.now()))
    }

    async fn add_key_usage(&self, uses: Vec<KeyUsageDelta>) -> StoreResult<()> {
        check_usage_batch(&uses)?;
        let mut state = self.state();
        for KeyUsageDelta { place, uses } in uses {
            if state.has_key(&place) {
                let counted = state.uses.entry(place).or_default();
                counted.replays = counted.replays.saturating_add(uses.replays);
                counted.conflicts = counted.conflicts.saturating_add(uses.conflicts);
            }
        }
        Ok(())
    }

    async fn find_key_usage(&self, place: &KeyRef) -> StoreResult<KeyUsage> {
        Ok(self.state().uses.get(place).copied().unwrap_or_default())
    }

    async fn purge_requests(&self, limit: usize) -> StoreResult<usize> {
        let (now, mut state) = (self.now(), self.state());
        let free = state.requests.iter().filter_map(|(place, record)| match record.state {
            RequestState::Answered { free_at, .. } if free_at <= now => Some((free_at, place.clone())),
            RequestState::InFlight { until, .. } if until.plus(ABANDONED_REQUEST_FOR) <= now => {
                Some((until, place.clone()))
            }
            RequestState::Answered { .. } | RequestState::InFlight { .. } => None,
        });
        let mut free: Vec<_> = free.collect();
        free.sort();
        free.truncate(limit.clamp(1, MAX_PURGE));
        let count = free.len();
        free.into_iter().for_each(|(_, place)| state.remove_request(place));
        Ok(count)
    }

    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>> {
        let now = self.now();
        let state = self.state();
        let live = state.requests.values().filter(|record| !record.is_free(now));
        Ok(live.map(|record| record.first_seen_at).min())
    }
}

impl State {
    fn start_keyed_run(&mut self, start: &KeyedStart, now: Timestamp) -> StoreResult<KeyedStartOutcome> {
        if !start.is_consistent() {
            return Err(StoreError::Refused("a request starts a run of its own id and workspace".into()));
        }
        let place = (start.request.scope.clone(), start.request.key.clone());
        let run = start.new.facts.id;
        match decide_keyed_start(self.requests.get(&place), start, now) {
            KeyedStartDecision::Free => {}
            KeyedStartDecision::Written(answer) => {
                let own = self.row(run).map(|row| row.head.clone());
                return Ok(own
                    .map_or(KeyedStartOutcome::NotFree, |head| KeyedStartOutcome::Started { head, answer }));
            }
            KeyedStartDecision::NotFree => return Ok(KeyedStartOutcome::NotFree),
        }
        if !self.may_start(&start.new.facts, now)? {
            return Ok(KeyedStartOutcome::NotFree);
        }
        let head = self.insert_new(&start.new, now);
        let answer = (start.answer)(&head);
        let record = start.to_record(answer.clone(), now);
        self.uses.remove(&KeyRef::Request { scope: place.0.clone(), key: place.1.clone() });
        self.requests.insert(place, record);
        Ok(KeyedStartOutcome::Started { head, answer })
    }

    fn remove_request(&mut self, place: (RequestScope, IdempotencyKey)) {
        self.requests.remove(&place);
        self.uses.remove(&KeyRef::Request { scope: place.0, key: place.1 });
    }

    fn has_key(&self, place: &KeyRef) -> bool {
        match place {
            KeyRef::Run { workspace, key } => self.keys().contains_key(&run_key(workspace, key)),
            KeyRef::Promise { workspace, key } => self.keys().contains_key(&promise_key(workspace, key)),
            KeyRef::Request { scope, key } => self.requests.contains_key(&(scope.clone(), key.clone())),
        }
    }

    fn release_key(&mut self, request: ReleaseKey, now: Timestamp) -> ReleaseOutcome {
        match request.place {
            KeyRef::Run { workspace, key } => {
                let place = run_key(&workspace, &key);
                let Some(record) = self.keys().get(&place).filter(|record| record.is_live(now)).cloned()
                else {
                    return ReleaseOutcome::NoSuchKey;
                };
                let run = record.run();
                let holder = run.and_then(|run| self.row_in(&workspace, run));
                if holder.is_some_and(|row| !row.head.status().is_closed()) {
                    return ReleaseOutcome::InUse { run };
                }
                self.put_key(place, KeyRecord { expires_at: Some(now), ..record });
            }
            KeyRef::Promise { workspace, key } => {
                let place = promise_key(&workspace, &key);
                let Some(record) = self.keys().get(&place).filter(|record| record.is_live(now)).cloned()
                else {
                    return ReleaseOutcome::NoSuchKey;
                };
                let promise = record.promise().and_then(|id| self.promise(&workspace, id));
                let pending = promise.filter(|promise| promise.state_at(now) == PromiseState::Pending);
                if let Some(promise) = pending {
                    let run = Some(promise.run).filter(|run| *run != RunId::NONE);
                    let holder = run.and_then(|run| self.row_in(&workspace, run));
                    if run.is_none() || holder.is_some_and(|row| !row.head.status().is_closed()) {
                        return ReleaseOutcome::InUse { run };
                    }
                }
                self.early.remove(&(workspace, key));
                self.put_key(place, KeyRecord { expires_at: Some(now), ..record });
            }
            KeyRef::Request { scope, key } => {
                let place = (scope, key);
                match self.requests.get(&place).filter(|record| !record.is_free(now)) {
                    None => return ReleaseOutcome::NoSuchKey,
                    Some(record) if record.is_held(now) => return ReleaseOutcome::InUse { run: None },
                    Some(_) => self.remove_request(place),
                }
            }
        }
        self.append_journal([request.note]);
        ReleaseOutcome::Released
    }
}

fn run_key(workspace: &crate::model::WorkspaceId, key: &IdempotencyKey) -> StoredKey {
    StoredKey { workspace: workspace.clone(), kind: KeyKind::Run, key: key.clone() }
}

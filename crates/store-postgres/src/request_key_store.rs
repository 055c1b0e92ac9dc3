//! The request-key store.

use std::sync::Arc;

use async_trait::async_trait;
use hapax_engine::limits::{ABANDONED_REQUEST_FOR, MAX_PURGE};
use hapax_engine::model::{
    BeginOutcome, BeginRequest, FinishRequest, IdempotencyKey, KeyedStart, KeyedStartOutcome, RequestRecord,
    RequestScope, Timestamp, decide_begin_request,
};
use hapax_engine::store::{
    KeyRef, KeyUsage, KeyUsageDelta, ReleaseKey, ReleaseOutcome, RequestKeyStore, Store, StoreResult,
    check_usage_batch,
};

use crate::add_key_usage::{self, AddKeyUsage};
use crate::codes::millis;
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::release_key::{ReleasePromiseKey, ReleaseRequestKey, ReleaseRunKey};
use crate::requests;
use crate::rows;
use crate::store::PostgresStore;

#[async_trait]
impl RequestKeyStore for PostgresStore {
    /// Reads first: a replay locks no row and costs no commit.
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<BeginOutcome> {
        let found = self.find_request(&request.scope, &request.key).await?;
        let decision = decide_begin_request(found.as_ref(), &request, self.now());
        match decision.write {
            None => Ok(decision.answer),
            // Another request may have come in the meantime, so the write decides again.
            Some(_) => self.write_request(request).await,
        }
    }

    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool> {
        self.write_request(request).await
    }

    async fn start_keyed_run(&self, start: KeyedStart) -> StoreResult<KeyedStartOutcome> {
        self.write_request(start).await
    }

    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>> {
        let (interned_names, scope, key) = (self.interned_names(), scope.clone(), key.clone());
        self.read(|held| find_request(held, interned_names, scope, key)).await
    }

    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome> {
        let note = request.note;
        match request.place {
            KeyRef::Run { workspace, key } => self.consider(ReleaseRunKey { workspace, key, note }).await,
            KeyRef::Promise { workspace, key } => {
                self.consider(ReleasePromiseKey { workspace, key, note }).await
            }
            KeyRef::Request { scope, key } => {
                self.write_request(ReleaseRequestKey { scope, key, note }).await
            }
        }
    }

    async fn add_key_usage(&self, uses: Vec<KeyUsageDelta>) -> StoreResult<()> {
        check_usage_batch(&uses)?;
        self.consider(AddKeyUsage(uses)).await
    }

    async fn find_key_usage(&self, place: &KeyRef) -> StoreResult<KeyUsage> {
        let (interned_names, place) = (self.interned_names(), place.clone());
        self.read(|held| add_key_usage::find_key_usage(held, interned_names, place)).await
    }

    async fn purge_requests(&self, limit: usize) -> StoreResult<usize> {
        let now = self.now();
        self.maintain(|held| purge_requests(held, limit, now)).await
    }

    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>> {
        let now = self.now();
        self.read(|held| find_oldest_request(held, now)).await
    }
}

async fn find_request(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    scope: RequestScope,
    key: IdempotencyKey,
) -> Result<Option<RequestRecord>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &scope.workspace).await? else {
        return Ok(None);
    };
    let sql = include_str!("../sql/find_request.sql");
    let found = query(&held, sql, &[&workspace.0, &scope.caller.as_str(), &key.as_str()]).await?;
    rows::at_most_one(&found, |mut row| requests::request(&scope, &key, &mut row))
}

async fn purge_requests(held: Arc<HeldConnection>, limit: usize, now: Timestamp) -> Result<usize, Fault> {
    let limit = limit.clamp(1, MAX_PURGE) as i64;
    let delete = held.prepare_cached(include_str!("../sql/purge_requests.sql")).await?;
    let deleted = held.execute(&delete, &[&millis(now), &limit]).await?;
    let left = limit - deleted as i64;
    if left <= 0 {
        return Ok(deleted as usize);
    }
    let since = millis(now).saturating_sub(ABANDONED_REQUEST_FOR.as_millis() as i64);
    let delete = held.prepare_cached(include_str!("../sql/purge_abandoned_requests.sql")).await?;
    let abandoned = held.execute(&delete, &[&since, &left]).await?;
    Ok((deleted + abandoned) as usize)
}

async fn find_oldest_request(held: Arc<HeldConnection>, now: Timestamp) -> Result<Option<Timestamp>, Fault> {
    let sql = include_str!("../sql/find_oldest_request.sql");
    let found = query(&held, sql, &[&millis(now), &i64::MIN]).await?;
    rows::at_most_one(&found, |mut row| row.at())
}

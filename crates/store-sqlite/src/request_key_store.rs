//! The key book of the store.

use async_trait::async_trait;
use hapax_engine::model::{
    BeginOutcome, BeginRequest, FinishRequest, IdempotencyKey, KeyedStart, KeyedStartOutcome, RequestRecord,
    RequestScope, Timestamp, decide_begin_request,
};
use hapax_engine::store::{
    KeyRef, KeyUsage, KeyUsageDelta, ReleaseKey, ReleaseOutcome, RequestKeyStore, Store, StoreResult,
    check_usage_batch,
};
use rusqlite::Connection;

use crate::add_key_usage::{self, AddKeyUsage};
use crate::fault::Fault;
use crate::purge_requests::{self, PurgeRequests};
use crate::read::find_workspace;
use crate::requests;
use crate::statements::Statements;
use crate::store::SqliteStore;

#[async_trait]
impl RequestKeyStore for SqliteStore {
    /// Reads first: a replay costs no commit, and does not wait for one.
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<BeginOutcome> {
        let (asked, now) = (request.clone(), self.now());
        let decision = self.readers().find(move |connection| {
            let found = find_request(connection, &asked.scope, &asked.key)?;
            Ok(decide_begin_request(found.as_ref(), &asked, now))
        });
        let decision = decision.await?;
        match decision.write {
            None => Ok(decision.answer),
            // Another request may have come in the meantime, so the write decides again.
            Some(_) => self.write(request).await,
        }
    }

    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool> {
        self.write(request).await
    }

    async fn start_keyed_run(&self, start: KeyedStart) -> StoreResult<KeyedStartOutcome> {
        self.write(start).await
    }

    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>> {
        let (scope, key) = (scope.clone(), key.clone());
        self.readers().find(move |connection| find_request(connection, &scope, &key)).await
    }

    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome> {
        self.write(request).await
    }

    async fn add_key_usage(&self, uses: Vec<KeyUsageDelta>) -> StoreResult<()> {
        check_usage_batch(&uses)?;
        self.write(AddKeyUsage(uses)).await
    }

    async fn find_key_usage(&self, place: &KeyRef) -> StoreResult<KeyUsage> {
        let place = place.clone();
        self.readers().find(move |connection| add_key_usage::find_key_usage(connection, &place)).await
    }

    async fn purge_requests(&self, limit: usize) -> StoreResult<usize> {
        self.write(PurgeRequests { limit }).await
    }

    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>> {
        let now = self.now();
        self.readers().read(move |connection| purge_requests::find_oldest_request(connection, now)).await
    }
}

fn find_request(
    connection: &Connection,
    scope: &RequestScope,
    key: &IdempotencyKey,
) -> Result<Option<RequestRecord>, Fault> {
    let Some(workspace) = find_workspace(connection, &scope.workspace)? else { return Ok(None) };
    let found = requests::find_request(&Statements::new(connection), workspace, scope, key)?;
    Ok(found.map(|found| found.record))
}

//! Promises for callers outside a run: create, find, await and settle.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::inner::Inner;
use super::run_slot::Arrival;
use super::stats::Counters;
use super::{Engine, Error};
use crate::limits::{KEEP_EARLY_SETTLEMENT_FOR, KEEP_PROMISE_KEY_FOR, MAX_KEY_CHARS, MAX_SPAN};
use crate::model::{
    Actor, Failure, IdempotencyKey, Invalid, JournalEntry, JournalEvent, Payload, Promise, PromiseId,
    PromiseKey, PromiseRef, PromiseState, RunHead, RunId, SettleRequest, Settlement, Timestamp, WorkspaceId,
    WriteToken,
};
use crate::store::{
    CreateOutcome, CreatePromise, ListEarlySettlements, ListPromises, PromisePage, PromiseStore,
    PutSettleToken, SettleOutcome, SettlePromise, SettleToken, StoreError, StoredEarlySettlement,
    TokenDigest,
};

/// Result of settling a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettlePromiseOutcome {
    /// This call settled the promise.
    Settled(Box<Promise>),
    /// The promise was already settled in the same way.
    AlreadySettled(Box<Promise>),
    /// No promise has this key yet. The settlement is kept for it.
    KeptEarly {
        /// End of the retention.
        until: Timestamp,
    },
}

/// Request to create a standalone promise, which belongs to no run.
#[derive(Debug, Clone, Default)]
pub struct NewPromise {
    /// Id; generated if absent.
    pub id: Option<String>,
    /// Business key.
    pub key: Option<String>,
    /// How long the key still finds the promise after it was settled or has timed out.
    pub keep_key_for: Option<Duration>,
    /// Time at which the promise times out.
    pub deadline_at: Option<Timestamp>,
    /// Idempotency key of the creation.
    pub create_key: Option<String>,
    /// Description by the creator.
    pub about: Option<Payload>,
}

/// Result of creating a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CreatePromiseOutcome {
    /// The promise was created.
    Created(Box<Promise>),
    /// A promise with this id already exists.
    Exists(Box<Promise>),
}

impl Inner {
    /// Settles a promise and delivers the settlement to the runs that wait for it.
    pub(super) async fn settle_promise(
        self: &Arc<Self>,
        workspace: &WorkspaceId,
        promise: PromiseRef,
        wish: SettleRequest,
        keep_for: Option<Duration>,
        note: Option<JournalEntry>,
    ) -> Result<SettleOutcome, StoreError> {
        let since = self.clock.monotonic();
        let (workspace, grant) = (workspace.clone(), self.offer());
        let settlement = wish.settlement.clone();
        let request = SettlePromise { workspace, promise, wish, keep_for, note, grant };
        let outcome = self.call_store(self.store.settle_promise(request)).await?;
        if let SettleOutcome::Settled { promise, granted, waiters } = &outcome {
            let arrival = |settlement: &Settlement| Arrival::Settled(promise.id.clone(), settlement.clone());
            let run = granted.as_ref().map_or(promise.run, RunHead::id);
            if run != RunId::NONE {
                self.deliver_arrival(run, granted.clone(), arrival(&settlement), since);
            }
            for waiter in waiters {
                self.deliver_arrival(*waiter, None, arrival(&settlement), since);
            }
            self.promise_settled.notify_waiters();
        }
        Ok(outcome)
    }
}

impl Engine {
    /// Resolves a promise by id. The first settlement wins. Settling it again with the same value succeeds.
    pub async fn resolve_promise<T: Serialize + ?Sized>(
        &self,
        id: &str,
        value: &T,
    ) -> Result<SettlePromiseOutcome, Error> {
        let promise = PromiseRef::Id(PromiseId::from_stored(id));
        self.settle(promise, SettleRequest::new(Settlement::Resolved(Payload::of(value)?))).await
    }

    /// Rejects a promise by id. The run that waits for it receives this failure.
    pub async fn reject_promise(&self, id: &str, failure: Failure) -> Result<SettlePromiseOutcome, Error> {
        let promise = PromiseRef::Id(PromiseId::from_stored(id));
        self.settle(promise, SettleRequest::new(Settlement::Rejected(failure))).await
    }

    /// Resolves a promise by business key. If no promise has the key yet, the value is kept for
    /// [`crate::limits::KEEP_EARLY_SETTLEMENT_FOR`].
    pub async fn resolve_by_key<T: Serialize + ?Sized>(
        &self,
        key: &str,
        value: &T,
    ) -> Result<SettlePromiseOutcome, Error> {
        let promise = PromiseRef::Key(IdempotencyKey::new(key)?);
        self.settle(promise, SettleRequest::new(Settlement::Resolved(Payload::of(value)?))).await
    }

    /// Rejects a promise by business key. If no promise has the key yet, the failure is kept in the same way.
    pub async fn reject_by_key(&self, key: &str, failure: Failure) -> Result<SettlePromiseOutcome, Error> {
        let promise = PromiseRef::Key(IdempotencyKey::new(key)?);
        self.settle(promise, SettleRequest::new(Settlement::Rejected(failure))).await
    }

    /// Settles a promise. A settlement by key is kept if its promise does not exist yet.
    pub async fn settle(
        &self,
        promise: PromiseRef,
        wish: SettleRequest,
    ) -> Result<SettlePromiseOutcome, Error> {
        self.settle_by(promise, wish, Some(KEEP_EARLY_SETTLEMENT_FOR), None).await
    }

    /// Like [`Engine::settle`], with the retention of an early settlement and the person to name in the audit
    /// log. `keep_for: None` does not keep an early settlement.
    pub async fn settle_by(
        &self,
        promise: PromiseRef,
        wish: SettleRequest,
        keep_for: Option<Duration>,
        by: Option<Actor>,
    ) -> Result<SettlePromiseOutcome, Error> {
        let missing = || Error::NoSuchPromise(promise.to_string().chars().take(300).collect());
        if let PromiseRef::Id(id) = &promise
            && id.is_doubt_promise()
        {
            // Only a ruling can settle the promise of a doubt: it has an actor, a reason and the required
            // role.
            return Err(missing());
        }
        check_span("keeping of an early settlement", keep_for)?;
        let is_met_by_timeout = wish.is_met_by_timeout();
        let note = by.map(|by| {
            let (id, key) = match &promise {
                PromiseRef::Id(id) => (Some(id.to_string()), None),
                PromiseRef::Key(key) => (None, Some(key.to_string())),
            };
            let settlement = wish.settlement.status().as_str().to_lowercase();
            let what = JournalEvent::Settled { promise: id, key, settlement };
            JournalEntry::on_workspace(self.workspace.clone(), by, self.inner.store.now(), what)
        });
        match self.settle_promise(promise.clone(), wish, keep_for, note).await? {
            SettleOutcome::Settled { promise, .. } => Ok(SettlePromiseOutcome::Settled(promise)),
            SettleOutcome::AlreadySettled { same: true, promise } => {
                Ok(SettlePromiseOutcome::AlreadySettled(promise))
            }
            SettleOutcome::AlreadySettled { same: false, .. }
            | SettleOutcome::AlreadyKept { same: false, .. } => {
                Counters::add(&self.inner.counters.conflicts);
                Err(Error::AlreadySettled)
            }
            SettleOutcome::TimedOut { promise } if is_met_by_timeout => {
                Ok(SettlePromiseOutcome::AlreadySettled(promise))
            }
            SettleOutcome::TimedOut { .. } => Err(Error::PromiseTimedOut),
            SettleOutcome::KeptEarly { until } | SettleOutcome::AlreadyKept { same: true, until } => {
                Ok(SettlePromiseOutcome::KeptEarly { until })
            }
            SettleOutcome::NoSuchPromise => Err(missing()),
        }
    }

    /// Settles a promise and delivers the settlement to the runs that wait for it.
    pub(super) async fn settle_promise(
        &self,
        promise: PromiseRef,
        wish: SettleRequest,
        keep_for: Option<Duration>,
        note: Option<JournalEntry>,
    ) -> Result<SettleOutcome, Error> {
        Ok(self.inner.settle_promise(&self.workspace, promise, wish, keep_for, note).await?)
    }

    /// Creates a standalone promise. Any caller may settle it, and any number of runs and callers may wait
    /// for it.
    pub async fn create_promise(&self, new: NewPromise) -> Result<CreatePromiseOutcome, Error> {
        let now = self.inner.store.now();
        let id = match &new.id {
            Some(id) => PromiseId::standalone(id)?,
            None => PromiseId::fresh(now),
        };
        check_span("keeping of a promise's key", new.keep_key_for)?;
        let key = new.key.as_deref().map(IdempotencyKey::new).transpose()?;
        let keep_for = new.keep_key_for.unwrap_or(KEEP_PROMISE_KEY_FOR);
        let promise = Promise {
            key: key.clone().map(|key| PromiseKey { key, keep_for }),
            create_key: new.create_key.as_deref().map(IdempotencyKey::new).transpose()?,
            about: new.about,
            ..Promise::pending(id, RunId::NONE, now, new.deadline_at)
        };
        let request =
            CreatePromise { workspace: self.workspace.clone(), promise, token: WriteToken::fresh() };
        match self.inner.call_store(self.promise_store()?.create_promise(request)).await? {
            CreateOutcome::Created(promise) => Ok(CreatePromiseOutcome::Created(promise)),
            CreateOutcome::Exists(promise) => Ok(CreatePromiseOutcome::Exists(promise)),
            CreateOutcome::KeyConflict { existing } => {
                Counters::add(&self.inner.counters.conflicts);
                let key = key.map(|key| key.to_string()).unwrap_or_default();
                Err(Error::PromiseKeyConflict { key, existing })
            }
        }
    }

    /// Finds a promise and returns its current state.
    pub async fn find_promise(&self, promise: &PromiseRef) -> Result<Option<Promise>, Error> {
        Ok(match promise {
            PromiseRef::Id(id) if id.is_doubt_promise() => None,
            PromiseRef::Id(id) => {
                self.inner.call_store(self.inner.store.find_promise(&self.workspace, id)).await?
            }
            PromiseRef::Key(key) => {
                self.inner.call_store(self.promise_store()?.find_promise_by_key(&self.workspace, key)).await?
            }
        })
    }

    /// Waits until a promise is no longer pending and returns it. Dropping the wait leaves nothing behind.
    pub async fn wait_for_promise(&self, promise: &PromiseRef) -> Result<Promise, Error> {
        loop {
            let settled = self.inner.promise_settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            let found = self.find_promise(promise).await?;
            let found = found.ok_or_else(|| Error::NoSuchPromise(promise.to_string()))?;
            if found.state != PromiseState::Pending {
                return Ok(found);
            }
            // Another process may settle the promise without notifying this one.
            let look_at = self.inner.store.now().plus(self.inner.options.poll_every);
            let look_at = found.deadline_at.map_or(look_at, |deadline| look_at.min(deadline));
            tokio::select! {
                () = settled => {}
                () = self.inner.sleep_until(look_at) => {}
            }
        }
    }

    /// Lists promises of this workspace in the order of their ids. The workspace in the request is ignored. A
    /// page may be short although more follow; check [`PromisePage::next`].
    pub async fn list_promises(&self, request: ListPromises) -> Result<PromisePage, Error> {
        let request = ListPromises { workspace: self.workspace.clone(), ..request };
        Ok(self.inner.call_store(self.promise_store()?.list_promises(request)).await?)
    }

    /// Lists settlements that wait for a promise that does not exist yet, in the order of their keys, after
    /// `after`.
    pub async fn list_early_settlements(
        &self,
        after: Option<IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<StoredEarlySettlement>, Error> {
        let after = after.map(|key| (self.workspace.clone(), key));
        let request = ListEarlySettlements { workspace: Some(self.workspace.clone()), after, limit };
        Ok(self.inner.call_store(self.promise_store()?.list_early_settlements(request)).await?)
    }

    /// Finds the settlement that waits for a promise with this key.
    pub async fn find_early_settlement(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<StoredEarlySettlement>, Error> {
        let found = self.list_early_settlements(key_before(key), 1).await?;
        Ok(found.into_iter().find(|found| found.key == *key))
    }

    /// Stores a token that allows its bearer to settle a promise until `expires_at`. The audit log names the
    /// issuer, if given.
    pub async fn put_settle_token(
        &self,
        promise: &PromiseId,
        digest: TokenDigest,
        expires_at: Timestamp,
        by: Option<Actor>,
    ) -> Result<(), Error> {
        let missing = || Error::NoSuchPromise(promise.as_str().chars().take(300).collect());
        if promise.is_doubt_promise() {
            return Err(missing());
        }
        let token =
            SettleToken { digest, workspace: self.workspace.clone(), promise: promise.clone(), expires_at };
        let note = by.map(|by| {
            let what = JournalEvent::TokenIssued {
                promise: promise.to_string(),
                expires_at: expires_at.to_string(),
            };
            JournalEntry::on_workspace(self.workspace.clone(), by, self.inner.store.now(), what)
        });
        let request = PutSettleToken { token, note };
        match self.inner.call_store(self.promise_store()?.put_settle_token(request)).await? {
            true => Ok(()),
            false => Err(missing()),
        }
    }

    /// Finds a settle token in any workspace; `None` if it is unknown or has expired.
    pub async fn find_settle_token(&self, digest: &TokenDigest) -> Result<Option<SettleToken>, Error> {
        let token = self.inner.call_store(self.promise_store()?.find_settle_token(digest)).await?;
        Ok(token.filter(|token| self.inner.store.now() < token.expires_at))
    }

    fn promise_store(&self) -> Result<&dyn PromiseStore, Error> {
        let refuse = || {
            StoreError::Refused(
                "this store keeps no promises that stand alone, and no keys of promises".into(),
            )
        };
        Ok(self.inner.store.promise_store().ok_or_else(refuse)?)
    }
}

fn check_span(what: &'static str, span: Option<Duration>) -> Result<(), Invalid> {
    match span.filter(|span| *span > MAX_SPAN) {
        Some(given) => Err(Invalid::Span { what, given }),
        None => Ok(()),
    }
}

/// The greatest key that sorts before `key`; `None` if `key` is the first of all. Keys are printable ASCII, in the order
/// of their bytes.
fn key_before(key: &IdempotencyKey) -> Option<IdempotencyKey> {
    let text = key.as_str();
    let (rest, last) = text.split_at(text.len() - 1);
    let before = match last {
        " " => rest.to_owned(),
        _ => {
            let smaller = char::from(last.as_bytes()[0] - 1);
            format!("{rest}{smaller}{}", "~".repeat(MAX_KEY_CHARS - text.len()))
        }
    };
    IdempotencyKey::new(&before).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_before_another_is_the_greatest_that_is_smaller() {
        let key = |text: &str| IdempotencyKey::new(text).unwrap();
        let before = |text: &str| key_before(&key(text)).map(|key| key.as_str().to_owned());
        assert_eq!(before("b").unwrap(), format!("a{}", "~".repeat(MAX_KEY_CHARS - 1)));
        assert_eq!(before("order 7").unwrap(), format!("order 6{}", "~".repeat(MAX_KEY_CHARS - 7)));
        assert_eq!(before("order ").unwrap(), "order");
        assert_eq!(before(" "), None);
        let longest = "x".repeat(MAX_KEY_CHARS);
        assert_eq!(before(&longest).unwrap(), format!("{}w", "x".repeat(MAX_KEY_CHARS - 1)));
    }
}

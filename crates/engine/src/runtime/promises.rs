//! Promises as outsiders see them: made, found, waited for and settled.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::inner::Inner;
use super::run_slot::NewArrival;
use super::stats::Counters;
use super::{Engine, Error};
use crate::limits::{KEEP_EARLY_SETTLEMENT_FOR, KEEP_PROMISE_KEY_FOR, MAX_SPAN};
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

/// What a settlement came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settling {
    /// It is settled now.
    Done(Box<Promise>),
    /// It was settled so before.
    AlreadySo(Box<Promise>),
    /// Its key names no promise yet; the settlement is kept until then.
    Kept {
        /// Until when.
        until: Timestamp,
    },
}

/// A promise to be made that stands alone.
#[derive(Debug, Clone, Default)]
pub struct NewPromise {
    /// Its id; a fresh one if none is given.
    pub id: Option<String>,
    /// Its business key.
    pub key: Option<String>,
    /// For how long the key still names it once it is over.
    pub keep_key_for: Option<Duration>,
    /// When it times out.
    pub deadline_at: Option<Timestamp>,
    /// What its maker knows the making by.
    pub create_key: Option<String>,
    /// What its maker says about it.
    pub about: Option<Payload>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Made {
    /// It is there now.
    Created(Box<Promise>),
    /// One with that id was there.
    Exists(Box<Promise>),
}

impl Inner {
    /// Settles a promise, and brings it to the runs that wait for it.
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
        let outcome = self.answer(self.store.settle_promise(request)).await?;
        if let SettleOutcome::Settled { promise, granted, waiters } = &outcome {
            let news = |settlement: &Settlement| NewArrival::Settled(promise.id.clone(), settlement.clone());
            let run = granted.as_ref().map_or(promise.run, RunHead::id);
            if run != RunId::NONE {
                self.deliver(run, granted.clone(), news(&settlement), since);
            }
            for waiter in waiters {
                self.deliver(*waiter, None, news(&settlement), since);
            }
            self.settled.notify_waiters();
        }
        Ok(outcome)
    }
}

impl Engine {
    /// Resolves a promise by its id. The first settlement wins; settling with the same value again is fine.
    pub async fn resolve_promise<T: Serialize + ?Sized>(
        &self,
        id: &str,
        value: &T,
    ) -> Result<Settling, Error> {
        let promise = PromiseRef::Id(PromiseId::from_stored(id));
        self.settle(promise, SettleRequest::new(Settlement::Resolved(Payload::of(value)?))).await
    }

    /// Rejects a promise: the run that waits for it sees this failure.
    pub async fn reject_promise(&self, id: &str, failure: Failure) -> Result<Settling, Error> {
        let promise = PromiseRef::Id(PromiseId::from_stored(id));
        self.settle(promise, SettleRequest::new(Settlement::Rejected(failure))).await
    }

    /// Resolves the promise that a business key names. If there is none yet, the value is kept for it, for
    /// [`crate::limits::KEEP_EARLY_SETTLEMENT_FOR`].
    pub async fn resolve_by_key<T: Serialize + ?Sized>(
        &self,
        key: &str,
        value: &T,
    ) -> Result<Settling, Error> {
        let promise = PromiseRef::Key(IdempotencyKey::new(key)?);
        self.settle(promise, SettleRequest::new(Settlement::Resolved(Payload::of(value)?))).await
    }

    /// Rejects the promise that a business key names, in the same way.
    pub async fn reject_by_key(&self, key: &str, failure: Failure) -> Result<Settling, Error> {
        let promise = PromiseRef::Key(IdempotencyKey::new(key)?);
        self.settle(promise, SettleRequest::new(Settlement::Rejected(failure))).await
    }

    /// Settles a promise as a wish asks; by key, it is kept for a promise that is still to be made.
    pub async fn settle(&self, promise: PromiseRef, wish: SettleRequest) -> Result<Settling, Error> {
        self.settle_early(promise, wish, Some(KEEP_EARLY_SETTLEMENT_FOR)).await
    }

    /// The same, with how long a settlement that comes early is kept; `None` does not keep it.
    pub async fn settle_early(
        &self,
        promise: PromiseRef,
        wish: SettleRequest,
        keep_for: Option<Duration>,
    ) -> Result<Settling, Error> {
        self.settle_as(promise, wish, keep_for, None).await
    }

    /// The same for a person, whom the audit log then names.
    pub async fn settle_as(
        &self,
        promise: PromiseRef,
        wish: SettleRequest,
        keep_for: Option<Duration>,
        by: Option<Actor>,
    ) -> Result<Settling, Error> {
        let missing = || Error::NoSuchPromise(promise.to_string().chars().take(300).collect());
        if let PromiseRef::Id(id) = &promise
            && id.is_doubt_promise()
        {
            // Only a ruling settles it: with a name, a reason, and the rank that it takes.
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
            SettleOutcome::Settled { promise, .. } => Ok(Settling::Done(promise)),
            SettleOutcome::AlreadySettled { same: true, promise } => Ok(Settling::AlreadySo(promise)),
            SettleOutcome::AlreadySettled { same: false, .. }
            | SettleOutcome::AlreadyKept { same: false, .. } => {
                Counters::add(&self.inner.counters.conflicts);
                Err(Error::AlreadySettled)
            }
            SettleOutcome::TimedOut { promise } if is_met_by_timeout => Ok(Settling::AlreadySo(promise)),
            SettleOutcome::TimedOut { .. } => Err(Error::PromiseTimedOut),
            SettleOutcome::KeptEarly { until } | SettleOutcome::AlreadyKept { same: true, until } => {
                Ok(Settling::Kept { until })
            }
            SettleOutcome::NoSuchPromise => Err(missing()),
        }
    }

    /// Settles a promise, and brings it to the runs that wait for it.
    pub(super) async fn settle_promise(
        &self,
        promise: PromiseRef,
        wish: SettleRequest,
        keep_for: Option<Duration>,
        note: Option<JournalEntry>,
    ) -> Result<SettleOutcome, Error> {
        Ok(self.inner.settle_promise(&self.workspace, promise, wish, keep_for, note).await?)
    }

    /// Makes a promise that stands alone: anybody may settle it, and any number of runs and callers may wait for it.
    pub async fn make_promise(&self, new: NewPromise) -> Result<Made, Error> {
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
        match self.inner.answer(self.promise_store()?.create_promise(request)).await? {
            CreateOutcome::Created(promise) => Ok(Made::Created(promise)),
            CreateOutcome::Exists(promise) => Ok(Made::Exists(promise)),
            CreateOutcome::KeyConflict { existing } => {
                Counters::add(&self.inner.counters.conflicts);
                let key = key.map(|key| key.to_string()).unwrap_or_default();
                Err(Error::PromiseKeyConflict { key, existing })
            }
        }
    }

    /// One promise, as it stands now.
    pub async fn find_promise(&self, promise: &PromiseRef) -> Result<Option<Promise>, Error> {
        Ok(match promise {
            PromiseRef::Id(id) if id.is_doubt_promise() => None,
            PromiseRef::Id(id) => {
                self.inner.answer(self.inner.store.find_promise(&self.workspace, id)).await?
            }
            PromiseRef::Key(key) => {
                self.inner.answer(self.promise_store()?.find_promise_by_key(&self.workspace, key)).await?
            }
        })
    }

    /// Waits until a promise is no longer pending, and gives it as it is then. Whoever stops waiting leaves no trace.
    pub async fn wait_for_promise(&self, promise: &PromiseRef) -> Result<Promise, Error> {
        loop {
            let settled = self.inner.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            let found = self.find_promise(promise).await?;
            let found = found.ok_or_else(|| Error::NoSuchPromise(promise.to_string()))?;
            if found.state != PromiseState::Pending {
                return Ok(found);
            }
            // Another process may settle it, of which nothing here tells.
            let look_at = self.inner.store.now().plus(self.inner.options.poll_every);
            let look_at = found.deadline_at.map_or(look_at, |deadline| look_at.min(deadline));
            tokio::select! {
                () = settled => {}
                () = self.inner.sleep_until(look_at) => {}
            }
        }
    }

    /// Promises of this workspace in the order of their ids; the workspace in the request is replaced by this one. A page may be short and not the
    /// last; [`PromisePage::next`] says.
    pub async fn list_promises(&self, request: ListPromises) -> Result<PromisePage, Error> {
        let request = ListPromises { workspace: self.workspace.clone(), ..request };
        Ok(self.inner.answer(self.promise_store()?.list_promises(request)).await?)
    }

    /// Settlements that came before their promise and still wait for it, in the order of their keys, after `after`.
    pub async fn list_early_settlements(
        &self,
        after: Option<IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<StoredEarlySettlement>, Error> {
        let after = after.map(|key| (self.workspace.clone(), key));
        let request = ListEarlySettlements { workspace: Some(self.workspace.clone()), after, limit };
        Ok(self.inner.answer(self.promise_store()?.list_early_settlements(request)).await?)
    }

    /// Lets whoever has the token of this digest settle a promise until `expires_at`. The audit log names who issued it, if somebody did.
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
        match self.inner.answer(self.promise_store()?.put_settle_token(request)).await? {
            true => Ok(()),
            false => Err(missing()),
        }
    }

    /// What a token is for, in whatever workspace; `None` if it is unknown or has expired.
    pub async fn find_settle_token(&self, digest: &TokenDigest) -> Result<Option<SettleToken>, Error> {
        let token = self.inner.answer(self.promise_store()?.find_settle_token(digest)).await?;
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

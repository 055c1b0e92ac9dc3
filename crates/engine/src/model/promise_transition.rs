//! Rules for opening and settling promises.

use super::{
    IdempotencyKey, KeyRecord, KeyTarget, Payload, Promise, PromiseId, PromiseState, Settlement, Timestamp,
};

/// Names a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromiseRef {
    /// By its id.
    Id(PromiseId),
    /// By its business key.
    Key(IdempotencyKey),
}

impl std::fmt::Display for PromiseRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PromiseRef::Id(id) => write!(f, "id:{id}"),
            PromiseRef::Key(key) => write!(f, "key:{key}"),
        }
    }
}

/// When a repeated settlement counts as the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SettleRule {
    /// If its value is the same.
    #[default]
    SameValue,
    /// If its idempotency key is the same, as in the public specification of durable promises. An absent key
    /// never matches.
    SameKey {
        /// Idempotency key of the settlement.
        key: Option<IdempotencyKey>,
        /// True if the requested state must also match the state of the promise.
        strict: bool,
    },
}

/// A settlement that came before its promise and is kept for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlySettlement {
    /// The settlement.
    pub settlement: Settlement,
    /// Idempotency key of the settlement.
    pub complete_key: Option<IdempotencyKey>,
    /// The settler's original data.
    pub said: Option<Payload>,
    /// When it came.
    pub at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// A request to settle a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleRequest {
    /// The settlement.
    pub settlement: Settlement,
    /// When another settlement counts as the same.
    pub rule: SettleRule,
    /// The settler's original data, if it should be kept beside the settlement.
    pub said: Option<Payload>,
}

impl SettleRequest {
    /// Settles with this value. The same value again counts as the same request.
    pub fn new(settlement: Settlement) -> Self {
        SettleRequest { settlement, rule: SettleRule::SameValue, said: None }
    }

    fn complete_key(&self) -> Option<&IdempotencyKey> {
        match &self.rule {
            SettleRule::SameValue => None,
            SettleRule::SameKey { key, .. } => key.as_ref(),
        }
    }

    /// Returns true if an existing settlement is the same as this one.
    fn is_met_by(&self, settled: &Settlement, complete_key: Option<&IdempotencyKey>) -> bool {
        match &self.rule {
            SettleRule::SameValue => settled.is_same_as(&self.settlement),
            SettleRule::SameKey { key, strict } => {
                let same_key = key.is_some() && key.as_ref() == complete_key;
                same_key && (!strict || settled.status() == self.settlement.status())
            }
        }
    }

    /// Returns true if a timeout counts as this settlement. In the public specification of durable promises it does,
    /// unless the request is strict.
    pub fn is_met_by_timeout(&self) -> bool {
        matches!(self.rule, SettleRule::SameKey { strict: false, .. })
    }

    /// The early settlement to keep until its promise is created.
    pub fn kept(self, now: Timestamp, expires_at: Timestamp) -> EarlySettlement {
        let complete_key = self.complete_key().cloned();
        EarlySettlement { settlement: self.settlement, complete_key, said: self.said, at: now, expires_at }
    }
}

/// Decision on a request to settle a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleDecision {
    /// Write this promise.
    Settle(Box<Promise>),
    /// It is settled. Nothing changes.
    AlreadySettled {
        /// True if it counts as the same settlement.
        same: bool,
    },
    /// Its deadline has passed.
    TimedOut,
    /// Its key belongs to another promise, so it can never be settled.
    KeyTaken,
}

/// Decides on a request to settle `promise` at `now`.
pub fn decide_settle(promise: &Promise, wish: SettleRequest, now: Timestamp) -> SettleDecision {
    match promise.state_at(now) {
        PromiseState::Pending => {
            let complete_key = wish.complete_key().cloned();
            let state = PromiseState::Settled { at: now, settlement: wish.settlement };
            SettleDecision::Settle(Box::new(Promise {
                state,
                complete_key,
                said: wish.said,
                ..promise.clone()
            }))
        }
        PromiseState::Settled { settlement, .. } => {
            let same = wish.is_met_by(&settlement, promise.complete_key.as_ref());
            SettleDecision::AlreadySettled { same }
        }
        PromiseState::TimedOut => SettleDecision::TimedOut,
        PromiseState::KeyTaken { .. } => SettleDecision::KeyTaken,
    }
}

/// Decision on a settlement whose key names no promise yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlyDecision {
    /// Keep it.
    Keep(EarlySettlement),
    /// Another one is kept. Nothing changes.
    AlreadyKept {
        /// True if it counts as the same settlement.
        same: bool,
    },
}

/// Decides on a settlement under a key that names no promise. `kept` is the one already kept for the key.
pub fn decide_early(
    wish: SettleRequest,
    kept: Option<&EarlySettlement>,
    now: Timestamp,
    expires_at: Timestamp,
) -> EarlyDecision {
    match kept.filter(|kept| now < kept.expires_at) {
        Some(kept) => {
            let same = wish.is_met_by(&kept.settlement, kept.complete_key.as_ref());
            EarlyDecision::AlreadyKept { same }
        }
        None => EarlyDecision::Keep(wish.kept(now, expires_at)),
    }
}

/// A promise to write when it is opened, with the new record of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedPromise {
    /// The promise.
    pub promise: Promise,
    /// Record of the key, if it must be written. An early settlement kept for the key is then consumed.
    pub key: Option<KeyRecord>,
}

/// Decides how a promise is opened at `now`, given the record of its key and the early settlement kept for
/// it.
///
/// A key that names another promise is not reassigned: the promise is opened as [`PromiseState::KeyTaken`],
/// which its creator sees (G4.5). An early settlement settles it at once (G4.1). An expired key is free
/// (S4.27).
pub fn decide_open(
    promise: Promise,
    holder: Option<&KeyRecord>,
    early: Option<EarlySettlement>,
    now: Timestamp,
) -> OpenedPromise {
    if promise.key.is_none() {
        return OpenedPromise { promise, key: None };
    }
    let holder = holder.filter(|record| record.is_live(now));
    let mut promise = promise;
    match holder.map(|record| &record.target) {
        Some(KeyTarget::Promise(id)) if *id != promise.id => {
            promise.state = PromiseState::KeyTaken { by: id.clone() };
            return OpenedPromise { promise, key: None };
        }
        Some(KeyTarget::Promise(_) | KeyTarget::Run { .. } | KeyTarget::Nothing) | None => {}
    }
    if let Some(early) = early.filter(|early| now < early.expires_at) {
        promise.state = PromiseState::Settled { at: now, settlement: early.settlement };
        promise.complete_key = early.complete_key;
        promise.said = early.said;
    }
    let key = KeyRecord {
        target: KeyTarget::Promise(promise.id.clone()),
        first_seen_at: holder.map_or(now, |record| record.first_seen_at),
        expires_at: promise.key_expires_at(),
    };
    OpenedPromise { promise, key: Some(key) }
}

/// Returns true if creating an existing promise again counts as the same creation, by the public specification of
/// durable promises.
pub fn is_same_creation(
    existing: &Promise,
    key: Option<&IdempotencyKey>,
    strict: bool,
    now: Timestamp,
) -> bool {
    let same_key = key.is_some() && key == existing.create_key.as_ref();
    same_key && (!strict || existing.state_at(now) == PromiseState::Pending)
}

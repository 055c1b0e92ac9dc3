//! The rules by which promises are made and settled, once.

use super::{
    IdempotencyKey, KeyRecord, KeyTarget, Payload, Promise, PromiseId, PromiseState, Settlement, Timestamp,
};

/// Who names a promise how.
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

/// When a second settlement counts as the first one sent again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SettleRule {
    /// If it says the same.
    #[default]
    SameValue,
    /// If it comes under the same key, as the public specification of durable promises has it. Absent keys equal nothing.
    SameKey {
        /// The settler's key.
        key: Option<IdempotencyKey>,
        /// Must it ask for the state that the promise has?
        strict: bool,
    },
}

/// A settlement that came before its promise, kept until that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlySettlement {
    /// What it says.
    pub settlement: Settlement,
    /// What its settler knows it by.
    pub complete_key: Option<IdempotencyKey>,
    /// What its settler said word for word.
    pub said: Option<Payload>,
    /// When it came.
    pub at: Timestamp,
    /// Until when it is kept.
    pub expires_at: Timestamp,
}

/// What a settler wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// What to settle with.
    pub settlement: Settlement,
    /// What counts as the same wish.
    pub rule: SettleRule,
    /// What the settler said word for word, if it is to be kept beside the settlement.
    pub said: Option<Payload>,
}

impl Wish {
    /// Settle with this; the same value again is the same wish.
    pub fn new(settlement: Settlement) -> Self {
        Wish { settlement, rule: SettleRule::SameValue, said: None }
    }

    fn complete_key(&self) -> Option<&IdempotencyKey> {
        match &self.rule {
            SettleRule::SameValue => None,
            SettleRule::SameKey { key, .. } => key.as_ref(),
        }
    }

    /// Is a settlement that is there the one this asks for?
    fn is_met_by(&self, settled: &Settlement, complete_key: Option<&IdempotencyKey>) -> bool {
        match &self.rule {
            SettleRule::SameValue => settled.says_same(&self.settlement),
            SettleRule::SameKey { key, strict } => {
                let same_key = key.is_some() && key.as_ref() == complete_key;
                same_key && (!strict || settled.status() == self.settlement.status())
            }
        }
    }

    /// Does a promise that timed out count as settled so? By the public specification of durable promises it does for any completion that is
    /// not strict.
    pub fn is_met_by_timeout(&self) -> bool {
        matches!(self.rule, SettleRule::SameKey { strict: false, .. })
    }

    /// Kept until its promise is made.
    pub fn kept(self, now: Timestamp, expires_at: Timestamp) -> EarlySettlement {
        let complete_key = self.complete_key().cloned();
        EarlySettlement { settlement: self.settlement, complete_key, said: self.said, at: now, expires_at }
    }
}

/// What becomes of a wish to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleDecision {
    /// The promise is to be written so.
    Settle(Box<Promise>),
    /// It was settled before; nothing changes.
    AlreadySettled {
        /// Does it count as the same settlement?
        same: bool,
    },
    /// Its time ran out.
    TimedOut,
    /// It never was one to be settled: its key names another.
    KeyTaken,
}

/// Decides what becomes of a wish to settle `promise` at `now`.
pub fn decide_settle(promise: &Promise, wish: Wish, now: Timestamp) -> SettleDecision {
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

/// What becomes of a settlement whose key names no promise yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlyDecision {
    /// It is to be kept.
    Keep(EarlySettlement),
    /// One is kept already; nothing changes.
    AlreadyKept {
        /// Does it count as the same?
        same: bool,
    },
}

/// Decides what becomes of a settlement under a key that names no promise, given the one that is kept for it.
pub fn decide_early(
    wish: Wish,
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

/// A promise as it is to be written when it is made, with what its key stands for from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The promise.
    pub promise: Promise,
    /// The key's record, if it is to be written; an early settlement that is kept for the key is then used up.
    pub key: Option<KeyRecord>,
}

/// Decides how a promise is opened at `now`, given what its key stands for and the settlement that is kept for it.
///
/// A key that names another promise is not given away: the promise is opened as [`PromiseState::KeyTaken`], which its maker
/// sees (G4.5). A settlement that came early settles it at once (G4.1). An expired key is free (S4.27).
pub fn decide_open(
    promise: Promise,
    holder: Option<&KeyRecord>,
    early: Option<EarlySettlement>,
    now: Timestamp,
) -> Opening {
    if promise.key.is_none() {
        return Opening { promise, key: None };
    }
    let holder = holder.filter(|record| record.is_live(now));
    let mut promise = promise;
    match holder.map(|record| &record.target) {
        Some(KeyTarget::Promise(id)) if *id != promise.id => {
            promise.state = PromiseState::KeyTaken { by: id.clone() };
            return Opening { promise, key: None };
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
    Opening { promise, key: Some(key) }
}

/// Does making a promise that exists count as having made it? By the public specification of durable promises.
pub fn is_same_creation(
    existing: &Promise,
    key: Option<&IdempotencyKey>,
    strict: bool,
    now: Timestamp,
) -> bool {
    let same_key = key.is_some() && key == existing.create_key.as_ref();
    same_key && (!strict || existing.state_at(now) == PromiseState::Pending)
}

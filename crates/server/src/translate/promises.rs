//! Promises and early settlements.

use std::time::Duration;

use hapax_api as api;
use hapax_api::{Code, RawJson};
use hapax_engine::limits::MAX_SPAN;
use hapax_engine::model::{
    Failure, IdempotencyKey, Payload, Promise, PromiseId, PromiseRef, PromiseState, PromiseStatus,
    Settlement, Timestamp,
};
use hapax_engine::store::StoredEarlySettlement;

use super::raw;
use super::steps::failure_to_api;
use crate::answer::Refused;
use crate::errors::problem_of_invalid;
use crate::limits::{MAX_SETTLE_TOKEN_FOR, SETTLE_TOKEN_FOR};

/// The promise in a path: `id:` and its id, or `key:` and its key.
pub(crate) fn parse_promise_ref(text: &str) -> Result<PromiseRef, Refused> {
    if let Some(id) = text.strip_prefix("id:") {
        return Ok(PromiseRef::Id(PromiseId::from_stored(id)));
    }
    if let Some(key) = text.strip_prefix("key:") {
        let key = IdempotencyKey::new(key).map_err(|invalid| problem_of_invalid(&invalid))?;
        return Ok(PromiseRef::Key(key));
    }
    let detail = "A promise is named `id:` and its id, or `key:` and its key, percent-encoded: /promises/id:run_…:payment or \
                  /promises/key:stripe:ch_1.";
    Err(Refused::new(Code::InvalidRequest, detail))
}

/// The status in a filter.
pub(crate) fn parse_promise_status(text: &str) -> Option<PromiseStatus> {
    let is_upper = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    PromiseStatus::from_name(&text.to_ascii_lowercase()).filter(|_| is_upper)
}

/// Deadline of a promise that is created at `now`.
pub(crate) fn deadline_of(asked: &api::CreatePromise, now: Timestamp) -> Result<Option<Timestamp>, Refused> {
    let refuse = |path: &str, detail: &str| {
        Err(Refused::new(Code::InvalidRequest, detail.to_owned()).with("path", path.to_owned()))
    };
    match (asked.timeout, &asked.deadline_at) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => refuse("/deadlineAt", "Send `timeout` or `deadlineAt`, not both."),
        (Some(timeout), None) => match timeout.0 {
            span if span.is_zero() || span > MAX_SPAN => {
                refuse("/timeout", "`timeout` is more than 0 and at most ten years.")
            }
            span => Ok(Some(now.plus(span))),
        },
        (None, Some(text)) => {
            let at = text.parse::<jiff::Timestamp>().map(|at| Timestamp::from_millis(at.as_millisecond()));
            match at {
                Ok(at) if at > now && at.since(now) <= MAX_SPAN => Ok(Some(at)),
                Ok(_) => refuse("/deadlineAt", "`deadlineAt` is in the future, and within ten years."),
                Err(_) => refuse("/deadlineAt", "`deadlineAt` is a time such as 2026-01-31T12:00:00Z."),
            }
        }
    }
}

/// The value in the request; `null` if there is none.
pub(crate) fn value_of(value: Option<&RawJson>) -> Result<Payload, Refused> {
    let text = value.map_or("null", |value| value.text());
    Payload::parse(text).map_err(|invalid| problem_of_invalid(&invalid).into())
}

/// The failure that waiters see after a rejection.
pub(crate) fn rejection(asked: &api::RejectPromise) -> Result<Failure, Refused> {
    if asked.message.trim().is_empty() {
        let detail = "Explain in `message` why there is no value.";
        return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/message"));
    }
    Ok(Failure::permanent(&asked.message).with_code(asked.code.as_deref().unwrap_or("rejected")))
}

/// The settlement in a token's request: a value or a rejection.
pub(crate) fn settlement_by_token(asked: &api::SettleByToken) -> Result<Settlement, Refused> {
    match (&asked.value, &asked.reject) {
        (Some(value), None) => Ok(Settlement::Resolved(value_of(Some(value))?)),
        (None, Some(reject)) => Ok(Settlement::Rejected(rejection(reject)?)),
        (None, None) | (Some(_), Some(_)) => {
            let detail = "Send `value`, or `reject` with a `message`: one of the two.";
            Err(Refused::new(Code::InvalidRequest, detail))
        }
    }
}

/// Lifetime of a token.
pub(crate) fn life_of_token(asked: Option<&api::CreateSettleToken>) -> Result<Duration, Refused> {
    let expires_in = asked.and_then(|asked| asked.expires_in);
    match expires_in.map_or(SETTLE_TOKEN_FOR, |given| given.0) {
        span if span.is_zero() || span > MAX_SETTLE_TOKEN_FOR => {
            let most = api::DurationText(MAX_SETTLE_TOKEN_FOR);
            let detail = format!("`expiresIn` is more than 0 and at most {most}.");
            Err(Refused::new(Code::InvalidRequest, detail).with("path", "/expiresIn"))
        }
        span => Ok(span),
    }
}

/// One promise at `now`.
pub(crate) fn promise_to_api(promise: &Promise, now: Timestamp) -> api::Promise {
    let state = promise.state_at(now);
    let (mut settled_at, mut value, mut failure, mut key_held_by) = (None, None, None, None);
    match &state {
        PromiseState::Settled { at, settlement } => {
            settled_at = Some(at.to_string());
            (value, failure) = settlement_to_api(settlement);
        }
        PromiseState::KeyTaken { by } => key_held_by = Some(by.to_string()),
        PromiseState::Pending | PromiseState::TimedOut => {}
    }
    api::Promise {
        id: promise.id.to_string(),
        status: status(state.status()),
        run_id: (!promise.is_standalone()).then(|| promise.run.to_string()),
        idempotency_key: promise.key.as_ref().map(|key| key.key.to_string()),
        key_expires_at: promise.key_expires_at().map(|at| at.to_string()),
        created_at: promise.created_at.to_string(),
        deadline_at: promise.deadline_at.map(|at| at.to_string()),
        settled_at,
        value,
        failure,
        key_held_by,
        about: promise.about.as_ref().map(raw),
    }
}

/// A settlement that waits for its promise.
pub(crate) fn early_settlement_to_api(kept: &StoredEarlySettlement) -> api::EarlySettlement {
    let (value, failure) = settlement_to_api(&kept.early.settlement);
    api::EarlySettlement {
        idempotency_key: kept.key.to_string(),
        status: status(kept.early.settlement.status()),
        value,
        failure,
        received_at: kept.early.at.to_string(),
        expires_at: kept.early.expires_at.to_string(),
    }
}

fn settlement_to_api(settlement: &Settlement) -> (Option<RawJson>, Option<api::Failure>) {
    match settlement {
        Settlement::Resolved(value) => (Some(raw(value)), None),
        Settlement::Rejected(failure) | Settlement::Cancelled(failure) => {
            (None, Some(failure_to_api(failure)))
        }
    }
}

fn status(status: PromiseStatus) -> api::PromiseStatus {
    match status {
        PromiseStatus::Pending => api::PromiseStatus::Pending,
        PromiseStatus::Resolved => api::PromiseStatus::Resolved,
        PromiseStatus::Rejected => api::PromiseStatus::Rejected,
        PromiseStatus::Cancelled => api::PromiseStatus::Cancelled,
        PromiseStatus::TimedOut => api::PromiseStatus::TimedOut,
        PromiseStatus::KeyTaken => api::PromiseStatus::KeyTaken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S4.29, S4.30: `id:` and `key:`, and the text after them may hold colons.
    #[test]
    fn a_promise_is_named_by_id_or_by_key() {
        let shown = |text: &str| parse_promise_ref(text).map(|promise| promise.to_string());
        for good in ["id:run_1:payment", "key:stripe:ch_abc123", "key:a/b c", "id:key:x"] {
            assert_eq!(shown(good).as_deref(), Ok(good));
        }
        assert_eq!(parse_promise_ref("run_1:payment").unwrap_err().problem().code, Code::InvalidRequest);
        for bad in ["key:", "key:caf\u{e9}"] {
            assert_eq!(
                parse_promise_ref(bad).unwrap_err().problem().code,
                Code::InvalidIdempotencyKey,
                "{bad}"
            );
        }
    }

    #[test]
    fn every_status_has_one_spelling() {
        for status_of in PromiseStatus::ALL {
            let spelled = serde_json::to_value(status(status_of)).unwrap();
            assert_eq!(parse_promise_status(spelled.as_str().unwrap()), Some(status_of));
            assert_eq!(parse_promise_status(status_of.as_str()), None, "as elsewhere, in capitals only");
        }
    }

    #[test]
    fn a_deadline_is_still_to_come() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let at = |ms: Option<u64>, at: Option<&str>| {
            let asked = api::CreatePromise {
                timeout: ms.map(|ms| Duration::from_millis(ms).into()),
                deadline_at: at.map(Into::into),
                ..api::CreatePromise::default()
            };
            deadline_of(&asked, now).map_err(|refused| refused.problem().status)
        };
        assert_eq!(at(None, None), Ok(None));
        assert_eq!(at(Some(5), None), Ok(Some(Timestamp::from_millis(1_700_000_000_005))));
        assert_eq!(
            at(None, Some("2023-11-14T22:13:20.123Z")),
            Ok(Some(Timestamp::from_millis(1_700_000_000_123)))
        );
        for (ms, text) in [
            (Some(0), None),
            (Some(u64::MAX), None),
            (Some(1), Some("2033-01-01T00:00:00Z")),
            (None, Some("2023-11-14T22:13:20Z")),
            (None, Some("9999-01-01T00:00:00Z")),
            (None, Some("tomorrow")),
            (None, Some("")),
        ] {
            assert_eq!(at(ms, text), Err(400), "{ms:?} {text:?}");
        }
    }
}

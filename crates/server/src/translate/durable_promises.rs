//! Promises in the terms of the public specification of durable promises.

use std::collections::BTreeMap;

use hapax_api as api;
use hapax_api::{DurableValue, NO_TIMEOUT, RawJson};
use hapax_engine::model::{
    Failure, IdempotencyKey, Payload, Promise, PromiseState, SettleRequest, SettleRule, Settlement, Timestamp,
};
use hapax_engine::runtime::NewPromise;
use serde::{Deserialize, Serialize};

use super::raw;
use crate::answer::Refused;
use crate::errors::problem_of_invalid;

/// Stored part of a creation, beside the promise itself.
#[derive(Debug, Default, Serialize, Deserialize)]
struct About {
    #[serde(default)]
    param: DurableValue,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

/// The promise to create.
pub(crate) fn new_promise(
    asked: api::CreateDurablePromise,
    key: Option<&IdempotencyKey>,
) -> Result<NewPromise, Refused> {
    let about = About { param: asked.param, tags: asked.tags };
    let about = Payload::of(&about).map_err(|invalid| problem_of_invalid(&invalid))?;
    Ok(NewPromise {
        id: Some(asked.id),
        create_key: key.map(ToString::to_string),
        deadline_at: (asked.timeout < NO_TIMEOUT).then(|| Timestamp::from_millis(asked.timeout)),
        about: Some(about),
        ..NewPromise::default()
    })
}

/// Settlement for a completion.
pub(crate) fn completion(
    asked: &api::CompleteDurablePromise,
    key: Option<IdempotencyKey>,
    strict: bool,
) -> Result<SettleRequest, Refused> {
    let settlement = match asked.state {
        api::DurableCompletion::Resolved => {
            let data = asked.value.data.as_ref().map_or("null", |data| data.text());
            Settlement::Resolved(Payload::parse(data).map_err(|invalid| problem_of_invalid(&invalid))?)
        }
        api::DurableCompletion::Rejected => {
            Settlement::Rejected(Failure::permanent(text_of(asked)).with_code("rejected"))
        }
        api::DurableCompletion::RejectedCanceled => {
            Settlement::Cancelled(Failure::permanent(text_of(asked)).with_code("cancelled"))
        }
    };
    let said = Payload::of(&asked.value).map_err(|invalid| problem_of_invalid(&invalid))?;
    Ok(SettleRequest { settlement, rule: SettleRule::SameKey { key, strict }, said: Some(said) })
}

/// The data for people: a string without its quotes.
fn text_of(asked: &api::CompleteDurablePromise) -> String {
    let data = asked.value.data.as_ref().map_or("", |data| data.text());
    serde_json::from_str(data).unwrap_or_else(|_| data.to_owned())
}

/// One promise at `now`; `None` if its key belongs to another promise.
pub(crate) fn durable_promise_to_api(promise: &Promise, now: Timestamp) -> Option<api::DurablePromise> {
    let (state, completed_at) = match promise.state_at(now) {
        PromiseState::Pending => (api::DurableState::Pending, None),
        PromiseState::TimedOut => (api::DurableState::RejectedTimedout, promise.deadline_at),
        PromiseState::Settled { at, settlement } => {
            let state = match settlement {
                Settlement::Resolved(_) => api::DurableState::Resolved,
                Settlement::Rejected(_) => api::DurableState::Rejected,
                Settlement::Cancelled(_) => api::DurableState::RejectedCanceled,
            };
            (state, Some(at))
        }
        PromiseState::KeyTaken { .. } => return None,
    };
    // A promise that another API created may have any description.
    let about: About = promise.about.as_ref().and_then(|about| about.to().ok()).unwrap_or_default();
    Some(api::DurablePromise {
        id: promise.id.to_string(),
        state,
        timeout: promise.deadline_at.map_or(NO_TIMEOUT, Timestamp::as_millis),
        param: about.param,
        value: value_to_api(promise),
        tags: about.tags,
        idempotency_key_for_create: promise.create_key.as_ref().map(ToString::to_string),
        idempotency_key_for_complete: promise.complete_key.as_ref().map(ToString::to_string),
        created_on: promise.created_at.as_millis(),
        completed_on: completed_at.map(Timestamp::as_millis),
    })
}

/// The value of its completion, word for word; a settlement by another API becomes the data.
fn value_to_api(promise: &Promise) -> DurableValue {
    let PromiseState::Settled { settlement, .. } = &promise.state else { return DurableValue::default() };
    if let Some(said) = promise.said.as_ref().and_then(|said| said.to().ok()) {
        return said;
    }
    let data = match settlement {
        Settlement::Resolved(value) => Some(raw(value)),
        Settlement::Rejected(failure) | Settlement::Cancelled(failure) => {
            RawJson::from_value(failure.message()).ok()
        }
    };
    DurableValue { data, ..DurableValue::default() }
}

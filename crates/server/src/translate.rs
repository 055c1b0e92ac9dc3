//! Conversions between engine types and wire types. They hold no rules.

mod deliveries;
mod doubts;
mod durable_promises;
mod entities;
mod journal;
mod ledger;
mod promises;
mod retry_plan;
mod runs;
mod steps;

pub(crate) use deliveries::{delivery_to_api, parse_delivery_status};
pub(crate) use doubts::{actor_to_api, doubt_to_api, resolution_to_api, ruling};
pub(crate) use durable_promises::{completion, durable_promise_to_api, new_promise};
pub(crate) use entities::{
    entity_entry_to_api, entity_to_api, entity_view_to_api, history_to_api, operation_to_api,
    pending_operation_to_api,
};
pub(crate) use journal::{action_of, journal_entry_to_api};
pub(crate) use ledger::effect_to_api;
pub(crate) use promises::{
    deadline_of, early_settlement_to_api, life_of_token, parse_promise_ref, parse_promise_status,
    promise_to_api, rejection, settlement_by_token, value_of,
};
pub(crate) use retry_plan::retry_plan_to_api;
pub(crate) use runs::{
    attention_to_api, event_to_api, parse_status, result_to_api, run_to_api, run_with_steps_to_api,
};
pub(crate) use steps::{failure_to_api, steps_to_api};

use hapax_api::RawJson;
use hapax_engine::model::Payload;

/// A stored value goes out unchanged.
pub(crate) fn raw(payload: &Payload) -> RawJson {
    RawJson::from_text(payload.as_str().to_owned())
        .expect("a payload is one JSON value, checked when it came in")
}

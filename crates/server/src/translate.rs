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

pub(crate) use deliveries::{delivery_status_named, shown_delivery};
pub(crate) use doubts::{ruling, shown_actor, shown_doubt, shown_resolution};
pub(crate) use durable_promises::{completion, new_promise, shown_durable};
pub(crate) use entities::{
    shown_entity, shown_entity_note, shown_entity_view, shown_history, shown_operation, shown_pending,
};
pub(crate) use journal::{action_of, shown_note};
pub(crate) use ledger::shown_effect;
pub(crate) use promises::{
    deadline_of, life_of_token, promise_named, promise_status_named, rejection, settlement_by_token,
    shown_early, shown_promise, value_of,
};
pub(crate) use retry_plan::shown_retry_plan;
pub(crate) use runs::{
    shown_attention, shown_event, shown_result, shown_run, shown_run_with_steps, status_named,
};
pub(crate) use steps::{shown_failure, shown_steps};

use hapax_api::RawJson;
use hapax_engine::model::Payload;

/// A stored value goes out unchanged.
pub(crate) fn raw(payload: &Payload) -> RawJson {
    RawJson::from_text(payload.as_str().to_owned())
        .expect("a payload is one JSON value, checked when it came in")
}

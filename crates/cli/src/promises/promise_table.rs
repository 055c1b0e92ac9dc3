//! Promises as people are shown them.

use hapax_api::{Promise, RawJson};

use crate::output::tables::{plain, without_commands};
use crate::wire_text::spelled;

/// A promise, one line per field.
pub(super) fn sheet(promise: &Promise) -> String {
    let failure = promise.failure.as_ref().map(|failure| plain(&failure.message));
    let rows = [
        ("promise", Some(plain(&promise.id))),
        ("status", Some(spelled(&promise.status))),
        ("run", promise.run_id.clone()),
        ("key", promise.idempotency_key.as_deref().map(plain)),
        ("key until", promise.key_expires_at.clone()),
        ("key is of", promise.key_held_by.as_deref().map(plain)),
        ("made", Some(promise.created_at.clone())),
        ("times out", promise.deadline_at.clone()),
        ("settled", promise.settled_at.clone()),
        ("value", promise.value.as_ref().map(json)),
        ("failure", failure),
        ("about", promise.about.as_ref().map(json)),
    ];
    let told = rows.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name:<11}{value}\n")));
    told.collect()
}

/// A value on one line.
pub(super) fn json(value: &RawJson) -> String {
    without_commands(value.text()).replace('\n', " ")
}

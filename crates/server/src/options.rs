//! How a server is set up.

use std::time::Duration;

use hapax_api as api;
use hapax_engine::limits::KEEP_PROMISE_KEY_FOR;
use hapax_http_idempotency::{
    IDEMPOTENCY_EXPIRES, IDEMPOTENCY_FIRST_SENT, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, Policy, RELEASING,
};
use hapax_outgoing::Outgoing;

use crate::drain::Draining;
use crate::sealing::SealingKey;

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// What is promised about request keys.
    pub keys: Policy,
    /// Tells when the server is to stop.
    pub draining: Draining,
    /// How long runs in flight may take to come to a boundary when the server stops.
    pub grace: Duration,
    /// Sends webhooks, within the same rules as http steps.
    pub outgoing: Outgoing,
    /// What secrets in the store are sealed with: the first seals, all of them open. If there are none, a key that lies in the store is
    /// used, which keeps secrets from those who see a part of it, not from those who have all of it.
    pub sealing_keys: Vec<SealingKey>,
}

impl ServerOptions {
    /// The contract in force, for whoever asks.
    pub(crate) fn idempotency_policy(&self) -> api::IdempotencyPolicy {
        let key_chars = u32::try_from(hapax_engine::limits::MAX_KEY_CHARS).unwrap_or(u32::MAX);
        api::IdempotencyPolicy {
            request_keys: api::RequestKeyPolicy {
                header: IDEMPOTENCY_KEY.as_str().into(),
                methods: ["POST", "PATCH", "DELETE"].map(Into::into).into(),
                scope: "workspace and credential; rotating the secret of a credential keeps it".into(),
                min_chars: 1,
                max_chars: key_chars,
                retention_seconds: self.keys.keep_for.as_secs(),
                grace_seconds: self.keys.grace.as_secs(),
                wait_seconds: self.keys.max_wait.as_secs(),
                max_wait_seconds: hapax_http_idempotency::limits::MAX_WAIT.as_secs(),
                max_stored_body_bytes: self.keys.max_stored_answer as u64,
                statuses_not_stored: statuses_not_stored(),
                first_sent_header: IDEMPOTENCY_FIRST_SENT.as_str().into(),
                replayed_header: IDEMPOTENCY_REPLAYED.as_str().into(),
                expires_header: IDEMPOTENCY_EXPIRES.as_str().into(),
            },
            business_keys: api::BusinessKeyPolicy {
                field: "idempotencyKey".into(),
                scope: "workspace and kind".into(),
                min_chars: 1,
                max_chars: key_chars,
                retention_seconds: None,
                released_on_failure: false,
            },
            promise_keys: api::PromiseKeyPolicy { ttl_seconds: KEEP_PROMISE_KEY_FOR.as_secs() },
            fingerprint: "SHA-256 over method, path with query, and the body in the canonical form of RFC 8785; for keys in the body, \
                          over the definition's name and the input, less what the definition ignores"
                .into(),
        }
    }
}

/// What the layer does not store of itself, and refusals of ours that say that nothing was done.
fn statuses_not_stored() -> Vec<u16> {
    let mut statuses: Vec<u16> =
        RELEASING.iter().map(|status| status.as_u16()).chain([410, 422, 503]).collect();
    statuses.sort_unstable();
    statuses
}

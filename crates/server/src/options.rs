//! How a server is set up.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use hapax_api as api;
use hapax_engine::limits::{CLAIM_STALE_AFTER, JANITOR_EVERY, KEEP_PROMISE_KEY_FOR};
use hapax_engine::model::WorkspaceId;
use hapax_http_idempotency::{
    IDEMPOTENCY_EXPIRES, IDEMPOTENCY_FIRST_SENT, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, Policy, RELEASING,
};

use crate::drain::Draining;
use crate::egress_policy::EgressPolicy;
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
    pub outgoing: EgressPolicy,
    /// Most requests of one credential in a second, with as many at once; no limit if absent.
    pub requests_per_second: Option<NonZeroU32>,
    /// Most definitions of the installation, over all workspaces.
    pub max_definitions: usize,
    /// Most definitions of one workspace.
    pub max_definitions_per_workspace: usize,
    /// What secrets in the store are sealed with: the first seals, all of them open. If there are none, a key that lies in the store is
    /// used, which keeps secrets from those who see a part of it, not from those who have all of it.
    pub sealing_keys: Vec<SealingKey>,
    /// The modules whose janitors run here; `default` is always among them.
    pub modules: Vec<ModuleOptions>,
    /// The tables that entity workflows may use.
    pub entity_tables: EntityTables,
    /// Are the pages of the console served?
    pub console: bool,
}

/// The module that every server has.
pub const DEFAULT_MODULE: &str = "default";

/// A module, and how its janitor works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleOptions {
    /// Its name.
    pub name: String,
    /// How often its janitor looks.
    pub every: Duration,
    /// For how long nothing is heard of the holder of a claim before it counts as gone.
    pub stale_after: Duration,
}

impl ModuleOptions {
    /// A module whose janitor looks every 2 minutes and counts claims as left behind after 5.
    pub fn new(name: impl Into<String>) -> Self {
        ModuleOptions { name: name.into(), every: JANITOR_EVERY, stale_after: CLAIM_STALE_AFTER }
    }
}

/// Tables of the database that entity workflows may use, by workspace. Nothing is allowed unless it is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityTables(BTreeMap<WorkspaceId, BTreeSet<String>>);

impl EntityTables {
    /// Allows one table for one workspace.
    pub fn allow(&mut self, workspace: WorkspaceId, table: impl Into<String>) {
        self.0.entry(workspace).or_default().insert(table.into());
    }

    /// Is the table allowed for the workspace? Its name is compared as it is written.
    pub fn allows(&self, workspace: &WorkspaceId, table: &str) -> bool {
        self.0.get(workspace).is_some_and(|tables| tables.contains(table))
    }
}

impl ServerOptions {
    /// The modules in force: those that were named, and the one that is always there.
    pub(crate) fn modules_in_force(&self) -> Vec<ModuleOptions> {
        let named = self.modules.iter().any(|module| module.name == DEFAULT_MODULE);
        let default = (!named).then(|| ModuleOptions::new(DEFAULT_MODULE));
        default.into_iter().chain(self.modules.iter().cloned()).collect()
    }

    /// The contract in force, for whoever asks.
    pub(crate) fn idempotency_policy(&self) -> api::IdempotencyPolicy {
        let key_chars = u32::try_from(hapax_engine::limits::MAX_KEY_CHARS).unwrap_or(u32::MAX);
        api::IdempotencyPolicy {
            request_keys: api::RequestKeyPolicy {
                header: IDEMPOTENCY_KEY.as_str().into(),
                methods: ["POST", "PUT", "PATCH", "DELETE"].map(Into::into).into(),
                scope: "workspace and credential; rotating the secret of a credential keeps it".into(),
                min_chars: 1,
                max_chars: key_chars,
                retention: self.keys.keep_for.into(),
                grace: self.keys.grace.into(),
                wait: self.keys.max_wait.into(),
                max_wait: hapax_http_idempotency::limits::MAX_WAIT.into(),
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
                retention: None,
                released_on_failure: false,
            },
            promise_keys: api::PromiseKeyPolicy { ttl: KEEP_PROMISE_KEY_FOR.into() },
            fingerprint: "SHA-256 over method, path with query, and the body in the canonical form of RFC 8785; for keys in the body, \
                          over the definition's name and the input, less what the definition ignores"
                .into(),
        }
    }
}

/// What the layer does not store of itself, refusals of ours that say that nothing was done, and 202, whose key stays with the operation
/// under way.
fn statuses_not_stored() -> Vec<u16> {
    let mut statuses: Vec<u16> =
        RELEASING.iter().map(|status| status.as_u16()).chain([202, 410, 422, 503]).collect();
    statuses.sort_unstable();
    statuses
}

//! Options of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hapax_api as api;
use hapax_engine::limits::{CLAIM_STALE_AFTER, JANITOR_EVERY, KEEP_PROMISE_KEY_FOR};
use hapax_engine::model::{TableRef, WorkspaceId};
use hapax_http_idempotency::{
    IDEMPOTENCY_EXPIRES, IDEMPOTENCY_FIRST_SENT, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, Policy, RELEASING,
};

use crate::cross_origin::ActionOrigins;
use crate::drain::Draining;
use crate::egress_policy::EgressPolicy;
use crate::nodes::NodeUrl;
use crate::people::settings::PeopleOptions;
use crate::quotas::QuotaOptions;
use crate::sealing::SealingKey;
use crate::tls::Tls;

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Policy for request keys.
    pub keys: Policy,
    /// Shutdown signal.
    pub draining: Draining,
    /// Time for runs in flight to reach a boundary at shutdown.
    pub grace: Duration,
    /// Sender of webhooks, under the same egress policy as http steps.
    pub outgoing: EgressPolicy,
    /// Most requests of one credential per second, and the size of a burst; no limit if absent.
    pub requests_per_second: Option<NonZeroU32>,
    /// What each workspace may take of this node.
    pub quotas: QuotaOptions,
    /// Most definitions of the installation, over all workspaces.
    pub max_definitions: usize,
    /// Most definitions of one workspace.
    pub max_definitions_per_workspace: usize,
    /// Keys that seal secrets in the store: the first one seals, all of them open. Without any, a
    /// key in the store itself is used. It protects secrets from an attacker who has a part of the
    /// store, not from one who has all of it.
    pub sealing_keys: Vec<SealingKey>,
    /// The modules whose janitors run here; `default` is always among them.
    pub modules: Vec<ModuleOptions>,
    /// The tables that entity workflows may use.
    pub entity_tables: EntityTables,
    /// How people sign in with an identity provider, if they can.
    pub people: Option<PeopleOptions>,
    /// Longest life of a new credential, if each must end.
    pub longest_credential_life: Option<Duration>,
    /// Where other nodes reach this one; they forward calls of worker sessions to it. If absent, they do not.
    pub advertise_url: Option<NodeUrl>,
    /// TLS of this node, which it also shows to other nodes.
    pub tls: Option<Arc<Tls>>,
    /// Are the pages of the console served?
    pub console: bool,
    /// The settings in force, by name, as people read them. They hold no secrets.
    pub settings: Vec<(String, String)>,
    /// Origins of pages that may use action tokens.
    pub action_origins: ActionOrigins,
}

/// The module that every server has.
pub const DEFAULT_MODULE: &str = "default";

/// A module, and how its janitor works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleOptions {
    /// Its name.
    pub name: String,
    /// Interval at which its janitor runs.
    pub every: Duration,
    /// Time without a sign of life after which the holder of a claim counts as gone.
    pub stale_after: Duration,
}

impl ModuleOptions {
    /// Creates a module whose janitor runs every 2 minutes and treats claims as abandoned after 5.
    pub fn new(name: impl Into<String>) -> Self {
        ModuleOptions { name: name.into(), every: JANITOR_EVERY, stale_after: CLAIM_STALE_AFTER }
    }
}

/// Tables of the database that entity workflows may use, by workspace, and their columns. Only
/// listed tables and columns are allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityTables(BTreeMap<WorkspaceId, BTreeMap<String, BTreeSet<String>>>);

/// Columns of a table that are open if none are named.
const COLUMNS: [&str; 4] = ["id", "status", "version", "updated_at"];

/// Why a workflow may not use a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableClosed {
    /// The table is not listed.
    Table,
    /// This column of it is not.
    Column(String),
}

impl EntityTables {
    /// Allows these columns of one table for one workspace; `id`, `status`, `version` and
    /// `updated_at` if there are none.
    pub fn allow<'c>(
        &mut self,
        workspace: WorkspaceId,
        table: impl Into<String>,
        columns: impl IntoIterator<Item = &'c str>,
    ) {
        let mut columns: BTreeSet<String> = columns.into_iter().map(Into::into).collect();
        if columns.is_empty() {
            columns.extend(COLUMNS.map(String::from));
        }
        self.0.entry(workspace).or_default().entry(table.into()).or_default().extend(columns);
    }

    /// Returns true if the table and all its named columns are allowed for the workspace.
    pub fn allows(&self, workspace: &WorkspaceId, table: &TableRef) -> bool {
        self.check(workspace, table).is_ok()
    }

    /// The same, with what is not allowed. Compares names exactly as written.
    pub(crate) fn check(&self, workspace: &WorkspaceId, table: &TableRef) -> Result<(), TableClosed> {
        let open = self.0.get(workspace).and_then(|tables| tables.get(&table.table));
        let open = open.ok_or(TableClosed::Table)?;
        let TableRef { table: _, id, status, version, updated_at, data } = table;
        match [id, status, version, updated_at].into_iter().chain(data).find(|column| !open.contains(*column))
        {
            Some(column) => Err(TableClosed::Column(column.clone())),
            None => Ok(()),
        }
    }
}

impl ServerOptions {
    /// The active modules: the configured ones and the default one.
    pub(crate) fn modules_in_force(&self) -> Vec<ModuleOptions> {
        let named = self.modules.iter().any(|module| module.name == DEFAULT_MODULE);
        let default = (!named).then(|| ModuleOptions::new(DEFAULT_MODULE));
        default.into_iter().chain(self.modules.iter().cloned()).collect()
    }

    /// The idempotency policy as the API shows it.
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

/// Statuses that the key layer does not store: the server's errors that changed nothing, and 202,
/// whose key stays with the operation in progress.
fn statuses_not_stored() -> Vec<u16> {
    let mut statuses: Vec<u16> =
        RELEASING.iter().map(|status| status.as_u16()).chain([202, 410, 422, 503]).collect();
    statuses.sort_unstable();
    statuses
}

//! Settings of a server. Flags override environment variables, the configuration file and the
//! defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hapax::model::WorkspaceId;
use hapax::{EngineOptions, NodeIdentity};
use hapax_outgoing::{DestinationPattern, Rules};
use hapax_server::body_budget::BodyBudget;
use hapax_server::http_idempotency::Policy;
use hapax_server::http_idempotency::limits::{MAX_HOLD, MIN_HOLD};
use hapax_server::limits::{
    MAX_BODY_BYTES_IN_MEMORY, MAX_DEFINITIONS, MAX_DEFINITIONS_PER_WORKSPACE, MIN_BODY_BYTES_IN_MEMORY,
};
use hapax_server::listen::ListenOptions;
use hapax_server::proxies::Proxies;
use hapax_server::sealing::SealingKey;
use hapax_server::tls::{Tls, TlsFiles};
use hapax_server::{ActionOrigins, EntityTables, ModuleOptions, NodeUrl, PeopleOptions, QuotaOptions};
use serde::Deserialize;

use super::written::{action_origins, entity_tables, modules, sealing_keys, span, workspace_places};
use super::{config_file, identity_providers};

/// Default address of `hapax serve` and `hapax dev`.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:7171";

const EXAMPLES: &str = "\
Examples:
  hapax serve --store sqlite:/var/lib/hapax/hapax.db
  hapax serve --store postgres://hapax@db/hapax --listen 0.0.0.0:7171 --tls-cert chain.pem --tls-key key.pem
  hapax serve --config /etc/hapax/hapax.toml
  hapax serve                                       with hapax.toml in the working directory

Flags go before the environment, the environment before the configuration file (TOML, with the names of the flags as keys), the
file before the defaults. docs/configuration.md lists everything. SIGTERM, SIGHUP or Ctrl-C stops in good order, and it exits with
0; a second one, or one while it starts, stops at once, and it exits with 128 and the number of the signal.";

/// One place for all settings: as flags, as environment variables, and as keys of the configuration file.
#[derive(Debug, Clone, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeOptions {
    /// File for settings that the command line and the environment do not set [default: hapax.toml in the working directory, if it exists].
    #[arg(long, value_name = "FILE", env = "HAPAX_CONFIG")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Store to open: sqlite:PATH or postgres://… .
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Where to listen [default: 127.0.0.1:7171].
    #[arg(long, value_name = "ADDRESS", env = "HAPAX_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Where other nodes of the same PostgreSQL database reach this one, such as http://10.0.0.7:7171. They forward calls of its worker sessions to it, with the credentials of the callers. If absent, each worker must stay with one node.
    #[arg(long, value_name = "URL", env = "HAPAX_ADVERTISE_URL")]
    pub(crate) advertise_url: Option<String>,
    /// Certificate chain for TLS, PEM. A renewed one is used within seconds, without a restart.
    #[arg(long, value_name = "FILE", env = "HAPAX_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, PEM.
    #[arg(long, value_name = "FILE", env = "HAPAX_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificate authorities of clients, PEM. Every client must then show a certificate of one of them, and so does this node to other nodes.
    #[arg(long, value_name = "FILE", env = "HAPAX_TLS_CLIENT_CA")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Listen beyond this machine without TLS, because a proxy in front terminates it; the last
    /// address in its X-Forwarded-For or Forwarded identifies the caller.
    #[arg(long, env = "HAPAX_BEHIND_PROXY", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) behind_proxy: Option<bool>,
    /// Addresses and networks of trusted proxies in front, separated by commas: only their headers
    /// are trusted, and the last address outside them identifies the caller. If absent, every peer
    /// is a trusted proxy with behind-proxy, and none without.
    #[arg(long, value_name = "NETWORKS", env = "HAPAX_TRUSTED_PROXIES", value_delimiter = ',')]
    pub(crate) trusted_proxies: Option<Vec<String>>,
    /// Private destinations that http steps may call: hosts, host:port, addresses, networks; separated by commas.
    #[arg(long, value_name = "PLACES", env = "HAPAX_ALLOW", value_delimiter = ',')]
    pub(crate) allow: Option<Vec<String>>,
    /// Public destinations that http steps may not call, in the same form.
    #[arg(long, value_name = "PLACES", env = "HAPAX_DENY", value_delimiter = ',')]
    pub(crate) deny: Option<Vec<String>>,
    /// Further destinations for the http steps and webhooks of one workspace: WORKSPACE:PLACE; separated by commas.
    #[arg(long, value_name = "PLACES", env = "HAPAX_WORKSPACE_ALLOW", value_delimiter = ',')]
    pub(crate) workspace_allow: Option<Vec<String>>,
    /// Let http steps call only the destinations in `allow`.
    #[arg(long, env = "HAPAX_ONLY_ALLOWED", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) only_allowed: Option<bool>,
    /// Folder with the secrets that documents name as `secret://NAME`: WORKSPACE/NAME in it, or _shared/NAME for all workspaces; environment variables take precedence.
    #[arg(long, value_name = "FOLDER", env = "HAPAX_SECRETS_DIR")]
    pub(crate) secrets_dir: Option<PathBuf>,
    /// Program that prints a secret which neither the environment nor `secrets-dir` has, for a vault or a KMS. Its arguments are the workspace, or _shared, and the name; it exits with 3 if there is no such secret.
    #[arg(long, value_name = "PROGRAM", env = "HAPAX_SECRETS_COMMAND")]
    pub(crate) secrets_command: Option<PathBuf>,
    /// Send a secret nowhere unless it is bound to destinations.
    #[arg(long, env = "HAPAX_BOUND_SECRETS_ONLY", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) bound_secrets_only: Option<bool>,
    /// Files with keys that seal secrets in the store, such as webhook signing secrets; the first
    /// seals, all open.
    #[arg(long, value_name = "FILES", env = "HAPAX_SEALING_KEY_FILE", value_delimiter = ',')]
    pub(crate) sealing_key_file: Option<Vec<PathBuf>>,
    /// How long the response under a request key is repeated, at least a day [default: 24h].
    #[arg(long, value_name = "SPAN", env = "HAPAX_KEY_RETENTION")]
    pub(crate) key_retention: Option<String>,
    /// In place of `key-retention`: standard for a day, money for 7 days.
    #[arg(long, value_name = "NAME", env = "HAPAX_KEY_PRESET")]
    pub(crate) key_preset: Option<KeyPreset>,
    /// Allow a retention of less than a day, which breaks the contract with callers.
    #[arg(long, env = "HAPAX_SHORT_KEY_RETENTION", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) short_key_retention: Option<bool>,
    /// How long an expired request key is rejected before it can be used again [default: 0s].
    #[arg(long, value_name = "SPAN", env = "HAPAX_KEY_GRACE")]
    pub(crate) key_grace: Option<String>,
    /// How long a second request waits for the first one under the same key [default: 10s].
    #[arg(long, value_name = "SPAN", env = "HAPAX_KEY_WAIT")]
    pub(crate) key_wait: Option<String>,
    /// Delete ended runs this long after their end, and operations on entities once a newer one of
    /// the same step replaced them; if absent, they are never deleted. Keys of runs stay.
    #[arg(long, value_name = "SPAN", env = "HAPAX_KEEP_RUNS")]
    pub(crate) keep_runs: Option<String>,
    /// How long a lease on a run, or the hold on a request under a key, lasts without renewal. Other nodes take over the work of a dead node after this time [default: 30s].
    #[arg(long, value_name = "SPAN", env = "HAPAX_LEASE")]
    pub(crate) lease: Option<String>,
    /// File that identifies this node on PostgreSQL, on a local disk. When the node restarts, its lock proves that the earlier process is dead, and the runs of that process go on at once instead of when their leases end. Each node needs its own.
    #[arg(long, value_name = "PATH", env = "HAPAX_IDENTITY_FILE")]
    pub(crate) identity_file: Option<PathBuf>,
    /// How many runs to drive at once [default: 10000].
    #[arg(long, value_name = "COUNT", env = "HAPAX_MAX_ACTIVE")]
    pub(crate) max_active: Option<usize>,
    /// Most runs above a child; a deeper child is rejected with the failure child_too_deep [default: 32].
    #[arg(long, value_name = "COUNT", env = "HAPAX_MAX_CHILD_DEPTH")]
    pub(crate) max_child_depth: Option<u32>,
    /// Most descendants of one run since it began or last continued as new; further ones are rejected with the failure too_many_descendants [default: 10000].
    #[arg(long, value_name = "COUNT", env = "HAPAX_MAX_DESCENDANTS")]
    pub(crate) max_descendants: Option<u64>,
    /// Most children that runs of one workspace start on this node each second. Further children begin later; a child that would wait for more than a minute is rejected with the failure child_rate_exceeded [default: 1000].
    #[arg(long, value_name = "COUNT", env = "HAPAX_CHILDREN_PER_SECOND")]
    pub(crate) children_per_second: Option<u32>,
    /// Most connections at once [default: 4096].
    #[arg(long, value_name = "COUNT", env = "HAPAX_MAX_CONNECTIONS")]
    pub(crate) max_connections: Option<usize>,
    /// Most megabytes of request bodies in memory at once, a quarter of it for one address and half of it for one workspace; beyond it, requests get 503 [default: 128].
    #[arg(long, value_name = "MEGABYTES", env = "HAPAX_BODY_MEMORY")]
    pub(crate) body_memory: Option<usize>,
    /// Most requests of one credential per second, and the size of a burst; further ones get 429. No limit if absent.
    #[arg(long, value_name = "COUNT", env = "HAPAX_REQUESTS_PER_SECOND")]
    pub(crate) requests_per_second: Option<u32>,
    /// Quota of each workspace: requests per second on each node, and the size of a burst; further ones get 429 [default: 100000].
    #[arg(long, value_name = "COUNT", env = "HAPAX_WORKSPACE_REQUESTS_PER_SECOND")]
    pub(crate) workspace_requests_per_second: Option<NonZeroU32>,
    /// Quota of each workspace: requests in progress on each node, including long polls; further ones get 429 [default: 2048].
    #[arg(long, value_name = "COUNT", env = "HAPAX_WORKSPACE_REQUESTS_AT_ONCE")]
    pub(crate) workspace_requests_at_once: Option<NonZeroU32>,
    /// Quota of each workspace: starts of runs per second on each node, and the size of a burst; further ones get 429 [default: 100000].
    #[arg(long, value_name = "COUNT", env = "HAPAX_WORKSPACE_STARTS_PER_SECOND")]
    pub(crate) workspace_starts_per_second: Option<NonZeroU32>,
    /// Quota of each workspace: live streams on each node; further ones get 429 [default: 256].
    #[arg(long, value_name = "COUNT", env = "HAPAX_WORKSPACE_STREAMS")]
    pub(crate) workspace_streams: Option<NonZeroU32>,
    /// Quota of each workspace: runs that have not ended. While it is reached, starts get 429; runs that are open go on, and so do starts by webhooks, entity steps and other runs [default: 1000000].
    #[arg(long, value_name = "COUNT", env = "HAPAX_WORKSPACE_OPEN_RUNS")]
    pub(crate) workspace_open_runs: Option<NonZeroU32>,
    /// Most workflow definitions of the installation, each version counted [default: 2000].
    #[arg(long, value_name = "COUNT", env = "HAPAX_MAX_DEFINITIONS")]
    pub(crate) max_definitions: Option<usize>,
    /// Most workflow definitions of one workspace, each version counted [default: 500].
    #[arg(long, value_name = "COUNT", env = "HAPAX_MAX_DEFINITIONS_PER_WORKSPACE")]
    pub(crate) max_definitions_per_workspace: Option<usize>,
    /// File with the identity providers that people sign in with, and the rules that give them roles.
    #[arg(long, value_name = "FILE", env = "HAPAX_IDENTITY_PROVIDERS")]
    pub(crate) identity_providers: Option<PathBuf>,
    /// Longest life of a new credential; every new one must then have an end. Without it, credentials may have none.
    #[arg(long, value_name = "SPAN", env = "HAPAX_CREDENTIAL_LIFETIME")]
    pub(crate) credential_lifetime: Option<String>,
    /// Require two people, one of them a manager, for every irreversible ruling on a doubt of a run, even if a manager rules.
    #[arg(long, env = "HAPAX_FOUR_EYES", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) four_eyes: Option<bool>,
    /// Serve the console, pages for people, beside the API [default: true].
    #[arg(long, env = "HAPAX_CONSOLE", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) console: Option<bool>,
    /// Origins of pages of yours that may use action tokens, such as https://admin.example.com; separated by commas. None if absent.
    #[arg(long, value_name = "ORIGINS", env = "HAPAX_ACTION_ORIGINS", value_delimiter = ',')]
    pub(crate) action_origins: Option<Vec<String>>,
    /// Also serve Prometheus metrics on this address of this machine, without a key.
    #[arg(long, value_name = "ADDRESS", env = "HAPAX_METRICS_LISTEN")]
    pub(crate) metrics_listen: Option<String>,
    /// Modules whose janitors release claims after a crash: NAME, or NAME:EVERY:STALE-AFTER; separated by commas [every: 2m, stale-after: 5m]. There is always one called default.
    #[arg(
        long,
        visible_alias = "module",
        value_name = "MODULES",
        env = "HAPAX_MODULES",
        value_delimiter = ','
    )]
    pub(crate) modules: Option<Vec<String>>,
    /// Tables of the database that entity workflows may use, each for one workspace, with the columns that they may read and write: WORKSPACE:TABLE, or WORKSPACE:TABLE(COLUMN COLUMN …); separated by commas. Without columns: id, status, version, updated_at. No tables if absent.
    #[arg(long, value_name = "TABLES", env = "HAPAX_ENTITY_TABLES", value_delimiter = ',')]
    pub(crate) entity_tables: Option<Vec<String>>,
    /// Write the key of the first start into this file, readable only by its owner, instead of printing it.
    #[arg(long, value_name = "FILE", env = "HAPAX_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// How long requests and runs in flight may take to end when the server stops [default: 30s].
    #[arg(long, value_name = "SPAN", env = "HAPAX_DRAIN")]
    pub(crate) drain: Option<String>,
}

/// How long request keys live, by what they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyPreset {
    /// A day.
    #[default]
    Standard,
    /// Seven days, for payments.
    Money,
}

impl KeyPreset {
    fn keep_for(self) -> Duration {
        match self {
            KeyPreset::Standard => Policy::default().keep_for,
            KeyPreset::Money => Policy::money().keep_for,
        }
    }
}

/// Files with secrets that were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretFiles {
    pub(crate) config: Option<PathBuf>,
    pub(crate) sealing_keys: Vec<PathBuf>,
    pub(crate) client_secrets: Vec<PathBuf>,
}

/// The settings in force.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) store: Option<String>,
    pub(crate) listen: SocketAddr,
    pub(crate) advertise_url: Option<NodeUrl>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Read from these files before the store is opened.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) behind_proxy: bool,
    pub(crate) proxies: Proxies,
    pub(crate) rules: Rules,
    pub(crate) workspace_allow: BTreeMap<WorkspaceId, Vec<DestinationPattern>>,
    pub(crate) identity_file: Option<PathBuf>,
    /// Taken from `identity_file` before the store is opened.
    pub(crate) identity: Option<&'static NodeIdentity>,
    pub(crate) secrets_dir: Option<PathBuf>,
    pub(crate) secrets_command: Option<PathBuf>,
    pub(crate) bound_secrets_only: bool,
    pub(crate) sealing_keys: Vec<SealingKey>,
    pub(crate) secret_files: SecretFiles,
    pub(crate) keys: Policy,
    pub(crate) modules: Vec<ModuleOptions>,
    pub(crate) entity_tables: EntityTables,
    pub(crate) engine: EngineOptions,
    pub(crate) max_connections: Option<usize>,
    /// In bytes.
    pub(crate) body_memory: usize,
    pub(crate) requests_per_second: Option<NonZeroU32>,
    pub(crate) quotas: QuotaOptions,
    pub(crate) max_definitions: usize,
    pub(crate) max_definitions_per_workspace: usize,
    pub(crate) people: Option<PeopleOptions>,
    pub(crate) longest_credential_life: Option<Duration>,
    pub(crate) console: bool,
    pub(crate) action_origins: ActionOrigins,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) drain: Duration,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) is_dev: bool,
}

impl Settings {
    /// Combines the sources of settings, and rejects impossible ones.
    pub(crate) fn gather(said: ServeOptions) -> Result<Self> {
        let file = match &said.config {
            Some(path) => config_file::read(path)?,
            None => ServeOptions::default(),
        };
        let listen = said.listen.or(file.listen).unwrap_or_else(|| DEFAULT_LISTEN.into());
        let listen = listen
            .parse()
            .with_context(|| format!("listen: {listen:?} is not an address such as 127.0.0.1:7171"))?;
        let advertise_url = said.advertise_url.or(file.advertise_url).map(|url| NodeUrl::new(&url));
        let advertise_url = advertise_url.transpose().context("advertise-url")?;
        let metrics_listen = said.metrics_listen.or(file.metrics_listen);
        let metrics_listen: Option<SocketAddr> = match metrics_listen {
            Some(text) => {
                let address = text.parse();
                Some(address.with_context(|| {
                    format!("metrics-listen: {text:?} is not an address such as 127.0.0.1:9464")
                })?)
            }
            None => None,
        };
        ensure!(
            metrics_listen.is_none_or(|address| address.ip().is_loopback()),
            "metrics-listen takes an address of this machine, because it asks for no key; others read /metrics with a key of the installation"
        );
        let (tls_cert, tls_key) = (said.tls_cert.or(file.tls_cert), said.tls_key.or(file.tls_key));
        ensure!(
            tls_cert.is_some() == tls_key.is_some(),
            "tls-cert and tls-key go together; give both or neither"
        );
        let tls_client_ca = said.tls_client_ca.or(file.tls_client_ca);
        ensure!(
            tls_client_ca.is_none() || tls_cert.is_some(),
            "tls-client-ca asks clients for certificates, so the server needs one too: tls-cert and tls-key"
        );
        let places = |name: &str, texts: Option<Vec<String>>| -> Result<Vec<DestinationPattern>> {
            let read = |text: String| {
                text.parse::<DestinationPattern>().with_context(|| format!("{name}: {text:?}"))
            };
            texts.unwrap_or_default().into_iter().map(read).collect()
        };
        let rules = Rules {
            allow: places("allow", said.allow.or(file.allow))?,
            deny: places("deny", said.deny.or(file.deny))?,
            only_allowed: said.only_allowed.or(file.only_allowed).unwrap_or(false),
            ..Rules::default()
        };
        let retention = span("key-retention", said.key_retention.or(file.key_retention))?;
        let preset = said.key_preset.or(file.key_preset);
        ensure!(
            retention.is_none() || preset.is_none(),
            "key-retention and key-preset set the same value; give one of them"
        );
        let retention = retention.unwrap_or_else(|| preset.unwrap_or_default().keep_for());
        let keys = Policy {
            grace: span("key-grace", said.key_grace.or(file.key_grace))?.unwrap_or_default(),
            max_wait: span("key-wait", said.key_wait.or(file.key_wait))?
                .unwrap_or(Policy::default().max_wait),
            ..Policy::default()
        };
        let keys = match said.short_key_retention.or(file.short_key_retention).unwrap_or(false) {
            true => keys.keeping_less_than_a_day(retention),
            false => Policy { keep_for: retention, ..keys },
        };
        if let Err(error) = keys.check() {
            bail!("{error} (key-retention, key-grace, key-wait; short-key-retention allows less than a day)");
        }
        let defaults = EngineOptions::default();
        let engine = EngineOptions {
            four_eyes: said.four_eyes.or(file.four_eyes).unwrap_or(false),
            keep_runs_for: span("keep-runs", said.keep_runs.or(file.keep_runs))?,
            lease_for: span("lease", said.lease.or(file.lease))?.unwrap_or(defaults.lease_for),
            max_active: said.max_active.or(file.max_active).unwrap_or(defaults.max_active),
            max_child_depth: said
                .max_child_depth
                .or(file.max_child_depth)
                .unwrap_or(defaults.max_child_depth),
            max_descendants: said
                .max_descendants
                .or(file.max_descendants)
                .unwrap_or(defaults.max_descendants),
            children_per_second: said
                .children_per_second
                .or(file.children_per_second)
                .unwrap_or(defaults.children_per_second),
            ..defaults
        };
        engine.check()?;
        // Work of a dead node is taken over together with its runs.
        let keys = Policy { hold_for: engine.lease_for.clamp(MIN_HOLD, MAX_HOLD), ..keys };
        let max_connections = said.max_connections.or(file.max_connections);
        ensure!(max_connections != Some(0), "max-connections is 0, so no caller could ever connect");
        let body_memory = match said.body_memory.or(file.body_memory) {
            Some(megabytes) => megabytes.saturating_mul(1024 * 1024),
            None => MAX_BODY_BYTES_IN_MEMORY,
        };
        ensure!(
            body_memory >= MIN_BODY_BYTES_IN_MEMORY,
            "body-memory: a quarter of it must hold the largest body twice; give it {} at least",
            MIN_BODY_BYTES_IN_MEMORY.div_ceil(1024 * 1024)
        );
        let behind_proxy = said.behind_proxy.or(file.behind_proxy).unwrap_or(false);
        let proxies = match said.trusted_proxies.or(file.trusted_proxies) {
            Some(networks) => Proxies::within(&networks).context("trusted-proxies")?,
            None if behind_proxy => Proxies::WhoeverConnects,
            None => Proxies::None,
        };
        let requests_per_second = said.requests_per_second.or(file.requests_per_second).map(NonZeroU32::new);
        ensure!(
            requests_per_second != Some(None),
            "requests-per-second is 0, so no request could ever succeed"
        );
        let quota = QuotaOptions::default();
        let count = |said: Option<NonZeroU32>, file: Option<NonZeroU32>, default: usize| {
            said.or(file).map_or(default, |count| usize::try_from(count.get()).unwrap_or(usize::MAX))
        };
        let quotas = QuotaOptions {
            requests_per_second: said
                .workspace_requests_per_second
                .or(file.workspace_requests_per_second)
                .unwrap_or(quota.requests_per_second),
            requests_at_once: count(
                said.workspace_requests_at_once,
                file.workspace_requests_at_once,
                quota.requests_at_once,
            ),
            starts_per_second: said
                .workspace_starts_per_second
                .or(file.workspace_starts_per_second)
                .unwrap_or(quota.starts_per_second),
            streams: count(said.workspace_streams, file.workspace_streams, quota.streams),
            open_runs: count(said.workspace_open_runs, file.workspace_open_runs, quota.open_runs),
        };
        let providers_file = said.identity_providers.or(file.identity_providers);
        let people = providers_file.as_deref().map(identity_providers::read).transpose()?;
        let sealing_key_files = said.sealing_key_file.or(file.sealing_key_file).unwrap_or_default();
        Ok(Settings {
            store: said.store.or(file.store),
            listen,
            advertise_url,
            tls_cert,
            tls_key,
            tls_client_ca,
            tls: None,
            behind_proxy,
            proxies,
            rules,
            workspace_allow: workspace_places(
                &said.workspace_allow.or(file.workspace_allow).unwrap_or_default(),
            )?,
            secrets_dir: said.secrets_dir.or(file.secrets_dir),
            secrets_command: said.secrets_command.or(file.secrets_command),
            bound_secrets_only: said.bound_secrets_only.or(file.bound_secrets_only).unwrap_or(false),
            identity_file: said.identity_file.or(file.identity_file),
            identity: None,
            sealing_keys: sealing_keys(&sealing_key_files)?,
            secret_files: SecretFiles {
                config: said.config,
                client_secrets: identity_providers::client_secret_files(
                    providers_file.as_deref(),
                    people.as_ref(),
                ),
                sealing_keys: sealing_key_files,
            },
            keys,
            modules: modules(&said.modules.or(file.modules).unwrap_or_default())?,
            entity_tables: entity_tables(&said.entity_tables.or(file.entity_tables).unwrap_or_default())?,
            engine,
            max_connections,
            body_memory,
            requests_per_second: requests_per_second.flatten(),
            quotas,
            max_definitions: said.max_definitions.or(file.max_definitions).unwrap_or(MAX_DEFINITIONS),
            people,
            longest_credential_life: span(
                "credential-lifetime",
                said.credential_lifetime.or(file.credential_lifetime),
            )?,
            console: said.console.or(file.console).unwrap_or(true),
            action_origins: action_origins(&said.action_origins.or(file.action_origins).unwrap_or_default())?,
            max_definitions_per_workspace: said
                .max_definitions_per_workspace
                .or(file.max_definitions_per_workspace)
                .unwrap_or(MAX_DEFINITIONS_PER_WORKSPACE),
            metrics_listen,
            drain: span("drain", said.drain.or(file.drain))?.unwrap_or(Duration::from_secs(30)),
            key_file: said.key_file.or(file.key_file),
            is_dev: false,
        })
    }

    /// The settings for people, by the names that the configuration has. They hold no secrets: of the store, only its kind.
    pub(crate) fn shown(&self, store: &str) -> Vec<(String, String)> {
        let span = |span: Duration| hapax_api::DurationText(span).to_string();
        let kind = store.split(':').next().unwrap_or_default();
        let modules = self
            .modules
            .iter()
            .map(|module| format!("{}:{}:{}", module.name, span(module.every), span(module.stale_after)));
        let modules = modules.collect::<Vec<_>>().join(", ");
        let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
        let rows = [
            ("store", kind.to_owned()),
            ("listen", self.listen.to_string()),
            ("advertise-url", self.advertise_url.as_ref().map_or("none", NodeUrl::as_str).to_owned()),
            ("tls", if self.tls_cert.is_some() { "yes".to_owned() } else { "no".to_owned() }),
            ("tls-client-ca", if self.tls_client_ca.is_some() { "yes".to_owned() } else { "no".to_owned() }),
            ("behind-proxy", self.behind_proxy.to_string()),
            ("lease", span(self.engine.lease_for)),
            ("max-active", self.engine.max_active.to_string()),
            ("keep-runs", self.engine.keep_runs_for.map_or_else(|| "for ever".to_owned(), span)),
            ("max-child-depth", self.engine.max_child_depth.to_string()),
            ("max-descendants", self.engine.max_descendants.to_string()),
            ("children-per-second", self.engine.children_per_second.to_string()),
            ("key-retention", span(self.keys.keep_for)),
            ("key-grace", span(self.keys.grace)),
            ("modules", or_none(modules)),
            ("max-definitions", self.max_definitions.to_string()),
            ("max-definitions-per-workspace", self.max_definitions_per_workspace.to_string()),
            ("body-memory", format!("{} MB", self.body_memory >> 20)),
            (
                "requests-per-second",
                self.requests_per_second.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string()),
            ),
            ("workspace-requests-per-second", self.quotas.requests_per_second.to_string()),
            ("workspace-requests-at-once", self.quotas.requests_at_once.to_string()),
            ("workspace-starts-per-second", self.quotas.starts_per_second.to_string()),
            ("workspace-streams", self.quotas.streams.to_string()),
            ("workspace-open-runs", self.quotas.open_runs.to_string()),
            ("metrics-listen", self.metrics_listen.map_or_else(|| "none".to_owned(), |at| at.to_string())),
            ("action-origins", or_none(self.action_origins.to_string())),
            ("drain", span(self.drain)),
        ];
        rows.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Rejects modules that would treat a living holder as gone: other nodes send heartbeats only
    /// at their own interval.
    pub(crate) fn check_for_several_nodes(&self) -> Result<()> {
        let least = hapax::limits::HEARTBEAT_EVERY * 3;
        let hasty = self.modules.iter().find(|module| module.stale_after < least);
        match hasty {
            Some(ModuleOptions { name, stale_after, .. }) => bail!(
                "modules: {name} counts a claim as left behind after {stale_after:?}; other nodes may be silent for longer and live: give it {least:?} at least"
            ),
            None => Ok(()),
        }
    }

    /// Reads the certificate, the key and the authorities of clients.
    pub(crate) fn load_tls(&mut self) -> Result<()> {
        if let (Some(chain), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let client_ca = self.tls_client_ca.clone();
            self.tls = Some(Tls::load(TlsFiles { client_ca, ..TlsFiles::new(chain, key) })?);
        }
        Ok(())
    }

    pub(crate) fn listen_options(&self) -> ListenOptions {
        let defaults = ListenOptions::default();
        ListenOptions {
            max_connections: self.max_connections.unwrap_or(defaults.max_connections),
            drain_timeout: self.drain,
            proxies: Arc::new(self.proxies.clone()),
            body_budget: Arc::new(BodyBudget::new(self.body_memory)),
            tls: self.tls.clone(),
            ..defaults
        }
    }
}

#[cfg(test)]
mod tests {
    use hapax::model::TableRef;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn gathered(said: ServeOptions) -> Result<Settings> {
        Settings::gather(said)
    }

    /// Requests under a key were held for a minute by a node that had died, whatever the lease.
    #[test]
    fn what_a_dead_node_worked_on_is_taken_over_when_its_runs_are() {
        let hold = |lease: Option<&str>| {
            gathered(ServeOptions { lease: lease.map(Into::into), ..ServeOptions::default() })
                .unwrap()
                .keys
                .hold_for
        };
        assert_eq!(hold(None), EngineOptions::default().lease_for);
        assert_eq!(hold(Some("5s")), Duration::from_secs(5));
        assert_eq!(hold(Some("2h")), MAX_HOLD);
    }

    fn with_file(text: &str, said: ServeOptions) -> Result<Settings> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.toml");
        std::fs::write(&path, text).unwrap();
        Settings::gather(ServeOptions { config: Some(path), ..said })
    }

    #[test]
    fn what_is_said_goes_before_the_file_and_the_file_before_the_defaults() {
        let file = "listen = \"127.0.0.1:1\"\nkey-retention = \"7d\"\nallow = [\"10.0.0.0/8\"]\n";
        let said = ServeOptions { listen: Some("127.0.0.1:2".into()), ..ServeOptions::default() };
        let settings = with_file(file, said).unwrap();
        assert_eq!(settings.listen.port(), 2);
        assert_eq!(settings.keys.keep_for, 7 * DAY);
        assert_eq!(settings.rules.allow.len(), 1);
        assert_eq!(settings.drain, Duration::from_secs(30));
        assert_eq!(gathered(ServeOptions::default()).unwrap().listen.to_string(), DEFAULT_LISTEN);
    }

    #[test]
    fn forwarding_headers_are_ignored_unless_a_proxy_is_configured() {
        let proxies = |file: &str| with_file(file, ServeOptions::default()).unwrap().proxies;
        assert_eq!(proxies(""), Proxies::None);
        assert_eq!(proxies("behind-proxy = true"), Proxies::WhoeverConnects);
        let ours = Proxies::within(&["10.0.0.0/8"]).unwrap();
        for file in ["", "behind-proxy = true\n"] {
            let file = format!("{file}trusted-proxies = [\"10.0.0.0/8\"]");
            assert_eq!(proxies(&file), ours, "{file}");
            let options = with_file(&file, ServeOptions::default()).unwrap().listen_options();
            assert_eq!(*options.proxies, ours);
        }
    }

    /// S2.11, CONTRACT §4: 24 hours unless told otherwise, 7 days for money.
    #[test]
    fn keys_are_kept_for_a_day_and_for_seven_where_money_moves() {
        let kept = |file: &str| with_file(file, ServeOptions::default()).unwrap().keys.keep_for;
        assert_eq!((kept(""), kept("key-preset = \"standard\"")), (DAY, DAY));
        assert_eq!(kept("key-preset = \"money\""), 7 * DAY);
    }

    /// S1.39, S1.40: every 2 minutes, and stale after 5, unless told otherwise.
    #[test]
    fn modules_and_tables_are_read_from_the_file() {
        let file = "modules = [\"billing\", \"shipping:30s:90s\"]\nentity-tables = [\"acme:billing.invoices\", \"acme:orders(id status version updated_at total)\"]\n";
        let settings = with_file(file, ServeOptions::default()).unwrap();
        let seconds = |module: &ModuleOptions| (module.every.as_secs(), module.stale_after.as_secs());
        let read: Vec<_> =
            settings.modules.iter().map(|module| (module.name.as_str(), seconds(module))).collect();
        assert_eq!(read, [("billing", (120, 300)), ("shipping", (30, 90))]);
        let acme = WorkspaceId::new("acme").unwrap();
        let allows = |workspace: &WorkspaceId, table: &str, data: &[&str]| {
            let data = data.iter().map(|column| (*column).to_owned()).collect();
            let table = TableRef { data, ..TableRef::new(table).unwrap() };
            settings.entity_tables.allows(workspace, &table)
        };
        assert!(allows(&acme, "billing.invoices", &[]));
        assert!(!allows(&acme, "billing.invoices", &["total"]), "only its own four columns");
        assert!(allows(&acme, "orders", &["total"]) && !allows(&acme, "orders", &["iban"]));
        assert!(!allows(&acme, "invoices", &[]));
        assert!(!allows(&WorkspaceId::new("globex").unwrap(), "billing.invoices", &[]));
    }

    /// RELIABILITY, config files: TTL < 3 × heartbeat.
    #[test]
    fn on_a_store_for_several_nodes_a_janitor_waits_for_three_heartbeats() {
        let checked = |modules: &str| {
            let file = format!("modules = [{modules:?}]");
            with_file(&file, ServeOptions::default()).unwrap().check_for_several_nodes()
        };
        assert!(checked("billing").is_ok() && checked("billing:1s:90s").is_ok());
        assert!(checked("billing:1m:89s").unwrap_err().to_string().contains("billing"));
    }

    /// RELIABILITY, config files: what cannot work is refused with the reason.
    #[test]
    fn what_cannot_work_is_refused_with_its_name() {
        let bad = [
            ("listen = \"localhost\"", "listen"),
            ("key-retention = \"1h\"", "24 hours"),
            ("key-retention = \"-1h\"", "key-retention"),
            ("key-retention = \"7d\"\nkey-preset = \"money\"", "one of them"),
            ("key-preset = \"gold\"", "key-preset"),
            ("key-grace = \"99999999999d\"", "key-grace"),
            ("lease = \"0s\"", "lease_for"),
            ("max-active = 0", "max_active"),
            ("max-connections = 0", "max-connections"),
            ("requests-per-second = 0", "requests-per-second"),
            ("workspace-requests-per-second = 0", "workspace-requests-per-second"),
            ("workspace-streams = 0", "workspace-streams"),
            ("tls-cert = \"chain.pem\"", "tls-key"),
            ("tls-client-ca = \"ca.pem\"", "tls-cert"),
            ("allow = [\"exa mple\"]", "allow"),
            ("trusted-proxies = [\"10.0.0.0/8\", \"proxy.internal\"]", "trusted-proxies"),
            ("sealing-key-file = [\"/nowhere/key\"]", "sealing-key-file"),
            ("modules = [\"two words\"]", "modules"),
            ("modules = [\"billing\", \"billing:1m:2m\"]", "twice"),
            ("modules = [\"billing:2m\"]", "NAME:EVERY:STALE-AFTER"),
            ("modules = [\"billing:soon:5m\"]", "modules"),
            ("modules = [\"billing:0s:5m\"]", "modules"),
            ("workspace-allow = [\"10.0.0.1\"]", "workspace-allow"),
            ("workspace-allow = [\"acme:exa mple\"]", "workspace-allow"),
            ("workspace-allow = [\"a b:10.0.0.1\"]", "workspace-allow"),
            ("entity-tables = [\"invoices\"]", "entity-tables"),
            ("entity-tables = [\"acme:invoices; drop\"]", "entity-tables"),
            ("entity-tables = [\"acme:invoices()\"]", "entity-tables"),
            ("entity-tables = [\"acme:invoices(id\"]", "entity-tables"),
            ("entity-tables = [\"acme:invoices(id total;drop)\"]", "entity-tables"),
            ("entity-tables = [\"acme:hapax_runs\"]", "entity-tables"),
        ];
        for (file, named) in bad {
            let error = with_file(file, ServeOptions::default()).unwrap_err();
            assert!(format!("{error:#}").contains(named), "{file}: {error:#}");
        }
        let folder = tempfile::tempdir().unwrap();
        let (short, fine) = (folder.path().join("short"), folder.path().join("fine"));
        std::fs::write(&short, "too short\n").unwrap();
        std::fs::write(&fine, format!("{}\n", "k".repeat(44))).unwrap();
        let sealed_with = |files: &[&PathBuf]| {
            let sealing_key_file = Some(files.iter().map(|path| path.to_path_buf()).collect());
            gathered(ServeOptions { sealing_key_file, ..ServeOptions::default() })
        };
        assert!(format!("{:#}", sealed_with(&[&fine, &short]).unwrap_err()).contains("at least 32 bytes"));
        assert_eq!(sealed_with(&[&fine]).unwrap().sealing_keys.len(), 1);
        let meant = with_file("key-retention = \"1h\"\nshort-key-retention = true", ServeOptions::default());
        assert_eq!(meant.unwrap().keys.keep_for, Duration::from_secs(3600));
    }
}

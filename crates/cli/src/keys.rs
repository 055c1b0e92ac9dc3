//! `hapax keys`: looks up and releases idempotency keys.

use anyhow::Result;
use clap::ValueEnum;
use hapax_api::{KeyRecord, KeyScope, ReleaseKey};

use crate::confirmation::confirm;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::word;
use crate::person::not_blank;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax keys show run process-order-789
  hapax keys show promise stripe:ch_1
  hapax keys show operation close-inv-7
  hapax keys show request 5f3c… --credential cred_1
  hapax keys release run process-order-789 --reason 'it was a test' --yes

A run key is `idempotencyKey` of a run, a promise key that of a promise, an operation key that of a step with an entity; a request key is the header `Idempotency-Key` of one credential.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what a key names, who used it, how often it was repeated, and when it expires.
    #[command(
        after_help = "Examples:\n  hapax keys show run process-order-789\n  hapax keys show run process-order-789 --json | jq .replays"
    )]
    Show(ShowOptions),
    /// Release a key early, so that it can be used again. Its run, promise or request must have ended.
    #[command(
        after_help = "Examples:\n  hapax keys release run process-order-789 --reason 'it was a test' --yes"
    )]
    Release(ReleaseOptions),
}

/// Kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scope {
    /// A run.
    Run,
    /// A promise.
    Promise,
    /// An operation on an entity.
    Operation,
    /// One request of one credential.
    Request,
}

#[derive(Debug, clap::Args)]
struct KeyArgument {
    /// Kind of the key.
    #[arg(value_enum)]
    scope: Scope,
    /// The key.
    #[arg(value_parser = word)]
    key: String,
    /// Credential of a request key; your own if absent.
    #[arg(long, value_name = "ID", value_parser = word)]
    credential: Option<String>,
}

impl KeyArgument {
    fn scope(&self) -> KeyScope {
        match self.scope {
            Scope::Run => KeyScope::Run,
            Scope::Promise => KeyScope::Promise,
            Scope::Operation => KeyScope::Operation,
            Scope::Request => KeyScope::Request,
        }
    }
}

#[derive(Debug, clap::Args)]
struct ShowOptions {
    #[command(flatten)]
    named: KeyArgument,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct ReleaseOptions {
    #[command(flatten)]
    named: KeyArgument,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: String,
    #[command(flatten)]
    request: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Show(ShowOptions { named, shape }) => {
            let client = server.connect()?;
            let found = client.get_key(named.scope(), &named.key, named.credential.as_deref()).await?;
            shape.show(&found, || sheet(&found))
        }
        Command::Release(ReleaseOptions { named, reason, request, shape }) => {
            let what =
                format!("release the key {}, so that the same operation can happen again", plain(&named.key));
            confirm(&what, server).await?;
            let (scope, credential) = (named.scope(), named.credential.as_deref());
            let asked = ReleaseKey { reason };
            let client = server.connect()?;
            let freed = client.release_key(scope, &named.key, credential, &asked, request.options()).await?;
            shape.show(&freed, || format!("{} is released; it named:\n{}", plain(&freed.key), sheet(&freed)))
        }
    }
}

fn sheet(key: &KeyRecord) -> String {
    let count = |many: Option<u64>| many.map_or_else(|| "-".into(), |many| many.to_string());
    let holder = key.holder.as_ref().map(|holder| format!("{} {}", spelled(&holder.kind), holder.id));
    let rows = [
        ("key", plain(&key.key)),
        ("scope", spelled(&key.scope)),
        ("status", spelled(&key.status)),
        ("names", or_dash(holder.as_deref())),
        ("by", or_dash(key.actor.as_ref().map(|by| by.name.as_str()))),
        ("credential", or_dash(key.credential_id.as_deref())),
        ("request", or_dash(key.request.as_deref())),
        ("answered", key.answer_status.map_or_else(|| "-".into(), |status| status.to_string())),
        ("first seen", key.first_seen_at.clone()),
        ("expires", key.expires_at.clone().unwrap_or_else(|| "-".into())),
        ("replays", count(key.replays)),
        ("conflicts", count(key.conflicts)),
        ("fingerprint", or_dash(key.fingerprint.as_deref())),
    ];
    rows.map(|(name, value)| format!("{name:<12}{value}\n")).concat()
}

//! `hapax audit`: actions of people.

use anyhow::{Context, Result, anyhow};
use hapax::limits::MAX_PAGE;
use hapax::model::{AuditSubject, JournalEvent, Timestamp};
use hapax::store::{AuditCursor, AuditFilter};
use hapax::{AuditEntry, Engine};
use hapax_api::client::AuditFilter as ServerFilter;
use hapax_api::{JournalEntry, JournalKind};

use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::listing::each_page;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax audit                                     of the workspace of the API key, from the server
  hapax audit --name ada --since 2026-01-31T00:00:00Z
  hapax audit --entity invoice/INV-7              who did what with this invoice
  hapax audit --action promise_settled --credential cred_01
  hapax audit --store sqlite:orders.db            from the store itself
  hapax audit --store postgres://localhost/orders --json | jq -c 'select(.actor.name == \"ada\")'

Decisions about doubts, answers to approvals, settlements, steps with entities, commands on runs, redeliveries, keys that were
freed and what was set up, the oldest first. They outlive the runs they were about. Several filters narrow each other.";

const COLUMNS: [&str; 10] =
    ["when", "who", "role", "what", "about", "step", "seconded by", "reason", "credential", "address"];
const NOBODY: &str = "there are no entries yet\n";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: StoreOrServer,
    #[command(flatten)]
    filter: FilterOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct FilterOptions {
    /// Only with this credential, by its id.
    #[arg(long, value_name = "ID", value_parser = word)]
    credential: Option<String>,
    /// Only by this person, or with a credential of this name.
    #[arg(long, value_name = "NAME", value_parser = word)]
    name: Option<String>,
    /// Only of this kind, such as resolved, approval_answered, promise_settled, step_taken, key_released.
    #[arg(long, value_name = "KIND", value_parser = word)]
    action: Option<String>,
    /// Only about this run.
    #[arg(long, value_name = "RUN", value_parser = word)]
    run: Option<String>,
    /// Only about this entity.
    #[arg(long, value_name = "TYPE/ID", value_parser = word, conflicts_with_all = ["promise", "key"])]
    entity: Option<String>,
    /// Only about this promise.
    #[arg(long, value_name = "ID", value_parser = word, conflicts_with = "key")]
    promise: Option<String>,
    /// Only about this idempotency key: run/KEY, promise/KEY or request/KEY.
    #[arg(long, value_name = "SCOPE/KEY", value_parser = word)]
    key: Option<String>,
    /// Not before this time.
    #[arg(long, value_name = "TIME", value_parser = word)]
    since: Option<String>,
    /// Before this time.
    #[arg(long, value_name = "TIME", value_parser = word)]
    until: Option<String>,
}

impl FilterOptions {
    fn server_filter(self) -> ServerFilter {
        let FilterOptions { credential, name, action, run, entity, promise, key, since, until } = self;
        ServerFilter { credential, name, action, run, entity, promise, key, since, until }
    }

    fn store_filter(self) -> Result<AuditFilter> {
        let time = |text: Option<String>| -> Result<Option<Timestamp>> {
            let Some(text) = text else { return Ok(None) };
            let at: jiff::Timestamp =
                text.parse().with_context(|| format!("{text} is not a time such as 2026-01-31T12:00:00Z"))?;
            Ok(Some(Timestamp::from_millis(at.as_millisecond())))
        };
        let pair = |text: &str| -> Result<(String, String)> {
            let parts = text.split_once('/').map(|(first, rest)| (first.to_owned(), rest.to_owned()));
            parts.with_context(|| format!("{text} needs a slash between its two parts"))
        };
        let subject = match (self.entity, self.promise, self.key) {
            (Some(entity), _, _) => {
                let (kind, id) = pair(&entity)?;
                Some(AuditSubject::entity(&kind, &id))
            }
            (None, Some(promise), _) => Some(AuditSubject::promise(&promise)),
            (None, None, Some(key)) => {
                let (scope, key) = pair(&key)?;
                Some(AuditSubject::key(&scope, &key))
            }
            (None, None, None) => None,
        };
        Ok(AuditFilter {
            credential: self.credential,
            name: self.name,
            action: self.action.as_deref().map(action_in_store).transpose()?,
            run: self
                .run
                .map(|run| run.parse().with_context(|| format!("{run} is not a run")))
                .transpose()?,
            subject,
            since: time(self.since)?,
            until: time(self.until)?,
        })
    }
}

/// Name of an action in a store. Servers spell some of them differently.
fn action_in_store(text: &str) -> Result<String> {
    let kind: JournalKind =
        serde_json::from_value(text.into()).map_err(|_| anyhow!("{text} is not a kind of entry"))?;
    Ok(match kind {
        JournalKind::ApprovalAnswered => "answered".into(),
        JournalKind::PromiseSettled => "settled".into(),
        JournalKind::SettleTokenIssued => "token_issued".into(),
        JournalKind::StepTaken => "stepped".into(),
        JournalKind::Noted => "remarked".into(),
        JournalKind::CredentialChanged => "set_up:credential".into(),
        JournalKind::WorkspaceChanged => "set_up:workspace".into(),
        JournalKind::DefinitionUploaded => "set_up:definition".into(),
        JournalKind::SubscriptionChanged => "set_up:subscription".into(),
        JournalKind::PushWorkerChanged => "set_up:push_worker".into(),
        JournalKind::SourceChanged => "set_up:source".into(),
        JournalKind::WebhookReprocessed => "set_up:webhook-event".into(),
        JournalKind::WebhookDiscarded => "set_up:announcement".into(),
        JournalKind::EntityWorkflowChanged => "set_up:entity_workflow".into(),
        _ => text.into(),
    })
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.source.store() {
        Some(store) => list_from_store(&store, options.filter.store_filter()?, &options.shape).await,
        None => list_from_server(server, options.filter.server_filter(), &options.shape).await,
    }
}

async fn list_from_store(store: &StoreOptions, filter: AuditFilter, shape: &ShapeOptions) -> Result<()> {
    let engine = store.open_to_read().await?;
    let entries = read(&engine, filter).await?;
    effect_store::close(&engine).await?;
    shape.show_all(&entries, || table(&entries))
}

async fn list_from_server(server: &ServerOptions, filter: ServerFilter, shape: &ShapeOptions) -> Result<()> {
    let client = server.connect()?;
    let mut entries: Vec<JournalEntry> = Vec::new();
    let take = |page| {
        entries.extend::<Vec<_>>(page);
        Ok(())
    };
    each_page(async |paging| client.list_audit(&filter, &paging).await, take).await?;
    shape.show_all(&entries, || table_of_server(&entries))
}

fn table_of_server(entries: &[JournalEntry]) -> String {
    if entries.is_empty() {
        return NOBODY.into();
    }
    let mut table = tables::table(COLUMNS);
    for entry in entries {
        let what = entry.resolution.as_ref().map(spelled).or_else(|| entry.command.clone());
        let entity = entry.entity.as_ref().map(|entity| format!("{} {}", entity.kind, entity.id));
        let about = entry.run_id.as_deref().or(entity.as_deref()).or(entry.target.as_deref());
        table.add_row([
            entry.at.clone(),
            or_dash(entry.actor.as_ref().map(|by| by.name.as_str())),
            entry.actor.as_ref().map_or("-", |by| by.role.as_str()).into(),
            tables::plain(&match what {
                Some(what) => format!("{} ({what})", spelled(&entry.what)),
                None => spelled(&entry.what),
            }),
            or_dash(about),
            or_dash(entry.step_id.as_deref()),
            or_dash(entry.seconded_by.as_ref().map(|second| second.name.as_str())),
            or_dash(entry.reason.as_deref()),
            or_dash(entry.actor.as_ref().and_then(|by| by.credential_id.as_deref())),
            or_dash(entry.actor.as_ref().and_then(|by| by.address.as_deref())),
        ]);
    }
    format!("{table}\n")
}

async fn read(engine: &Engine, filter: AuditFilter) -> Result<Vec<AuditEntry>> {
    let (mut entries, mut after): (Vec<AuditEntry>, Option<AuditCursor>) = (Vec::new(), None);
    loop {
        let page = engine.search_audit(filter.clone(), after, MAX_PAGE).await?;
        after = page.last().map(|last| AuditCursor { at: last.note.at, place: last.place });
        let is_last = page.len() < MAX_PAGE;
        entries.extend(page.into_iter().filter_map(AuditEntry::of));
        if is_last {
            return Ok(entries);
        }
    }
}

fn table(entries: &[AuditEntry]) -> String {
    if entries.is_empty() {
        return NOBODY.into();
    }
    let mut table = tables::table(COLUMNS);
    for entry in entries {
        let (what, second, reason) = describe(&entry.what);
        let about = entry.run.clone().or_else(|| entity(&entry.what)).unwrap_or_default();
        table.add_row([
            entry.at.clone(),
            tables::plain(&entry.by.name),
            entry.by.origin.as_ref().map_or(entry.by.role.as_str(), |origin| origin.role.as_str()).into(),
            tables::plain(&what),
            tables::plain(&about),
            entry.step.clone().unwrap_or_else(|| "-".into()),
            tables::plain(second.unwrap_or("-")),
            tables::plain(reason),
            or_dash(entry.by.credential()),
            or_dash(entry.by.origin.as_ref().and_then(|origin| origin.address.as_deref())),
        ]);
    }
    format!("{table}\n")
}

/// The entity it is about.
fn entity(what: &JournalEvent) -> Option<String> {
    match what {
        JournalEvent::OnEntity { kind, id, .. } => Some(format!("{kind} {id}")),
        _ => None,
    }
}

/// Action, second person and reason of an entry.
fn describe(what: &JournalEvent) -> (String, Option<&str>, &str) {
    match what {
        JournalEvent::Answered { decision, comment, .. } => {
            (format!("answered {decision}"), None, comment.as_deref().unwrap_or(""))
        }
        JournalEvent::RulingProposed { resolution, reason, .. } => {
            (format!("proposed {}", resolution.as_str()), None, reason)
        }
        JournalEvent::PayloadsRevealed { reason } => ("revealed hidden values".into(), None, reason),
        JournalEvent::SignInsRefused { times, examples } => {
            (format!("refused {times} sign-ins"), None, examples.first().map_or("", String::as_str))
        }
        JournalEvent::Settled { promise, key, settlement } => {
            let named = promise.as_ref().or(key.as_ref()).map_or("", String::as_str);
            (format!("{settlement} promise {named}"), None, "")
        }
        JournalEvent::TokenIssued { promise, .. } => {
            (format!("issued a token for promise {promise}"), None, "")
        }
        JournalEvent::Stepped { step, .. } => (format!("took step {step}"), None, ""),
        JournalEvent::Resolved { resolution, seconded_by, reason, .. } => {
            (resolution.as_str().into(), seconded_by.as_ref().map(|second| second.name.as_str()), reason)
        }
        JournalEvent::RepeatAllowed { seconded_by, reason, .. } => (
            "allowed to happen again".into(),
            seconded_by.as_ref().map(|second| second.name.as_str()),
            reason,
        ),
        JournalEvent::Commanded { command, reason } => (command.clone(), None, reason),
        JournalEvent::Redelivered { reason } => ("redelivered".into(), None, reason),
        JournalEvent::KeyReleased { kind, key, reason, .. } => {
            (format!("released {kind} key {key}"), None, reason)
        }
        JournalEvent::SetUp { kind, id, change } => (format!("{change} {kind} {id}"), None, ""),
        JournalEvent::Remarked { text } => ("remarked".into(), None, text),
        JournalEvent::Overridden { operation: Some(operation), reason } => {
            (format!("overrode {operation}"), None, reason)
        }
        JournalEvent::Overridden { operation: None, reason } => ("overrode nothing".into(), None, reason),
        JournalEvent::OnEntity { did, .. } => describe(did),
        // Engines note these, not people.
        JournalEvent::Reverted { .. } | JournalEvent::StrayReverted { .. } => ("reverted".into(), None, ""),
        JournalEvent::Held { .. } => ("held".into(), None, ""),
        JournalEvent::TriedAgain { .. } => ("tried again".into(), None, ""),
        JournalEvent::Claimed { .. } => ("claimed".into(), None, ""),
        JournalEvent::Failed { .. } => ("failed".into(), None, ""),
        JournalEvent::Doubted { .. } => ("doubted".into(), None, ""),
        JournalEvent::Probed { .. } => ("probed".into(), None, ""),
        JournalEvent::Attempted { .. } => ("attempted".into(), None, ""),
        JournalEvent::Superseded { .. } => ("superseded".into(), None, ""),
        JournalEvent::Refused { .. } => ("refused".into(), None, ""),
    }
}

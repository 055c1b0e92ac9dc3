//! `hapax audit`: what people did.

use anyhow::Result;
use hapax::limits::MAX_PAGE;
use hapax::model::Noted;
use hapax::{AuditEntry, Engine};
use hapax_api::JournalEntry;

use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::listing::each_page;
use crate::output::for_people;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::spelling::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax audit                                     of the workspace of the API key, from the server
  hapax audit --store sqlite:orders.db            from the store itself
  hapax audit --store postgres://localhost/orders --json | jq -c 'select(.by.name == \"ada\")'

Decisions about doubts, commands on runs, redeliveries, keys that were freed and what was set up, the oldest first. They
outlive the runs they were about.";

const COLUMNS: [&str; 8] = ["when", "who", "role", "what", "about", "step", "seconded by", "reason"];
const NOBODY: &str = "nobody did anything yet\n";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: StoreOrServer,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.source.store() {
        Some(store) => of_store(&store, &options.shape).await,
        None => of_server(server, &options.shape).await,
    }
}

async fn of_store(store: &StoreOptions, shape: &ShapeOptions) -> Result<()> {
    let engine = store.open_to_read().await?;
    let entries = read(&engine).await?;
    effect_store::close(&engine).await?;
    shape.show_all(&entries, || table(&entries))
}

async fn of_server(server: &ServerOptions, shape: &ShapeOptions) -> Result<()> {
    let client = server.connect()?;
    let mut entries: Vec<JournalEntry> = Vec::new();
    let take = |page| {
        entries.extend::<Vec<_>>(page);
        Ok(())
    };
    each_page(async |paging| client.list_audit(&paging).await, take).await?;
    shape.show_all(&entries, || table_of_server(&entries))
}

fn table_of_server(entries: &[JournalEntry]) -> String {
    if entries.is_empty() {
        return NOBODY.into();
    }
    let mut table = for_people::table(COLUMNS);
    for entry in entries {
        let what = entry.resolution.as_ref().map(spelled).or_else(|| entry.command.clone());
        let entity = entry.entity.as_ref().map(|entity| format!("{} {}", entity.kind, entity.id));
        let about = entry.run_id.as_deref().or(entity.as_deref()).or(entry.target.as_deref());
        table.add_row([
            entry.at.clone(),
            or_dash(entry.by.as_ref().map(|by| by.name.as_str())),
            entry.by.as_ref().map_or("-", |by| by.role.as_str()).into(),
            for_people::plain(&match what {
                Some(what) => format!("{} ({what})", spelled(&entry.what)),
                None => spelled(&entry.what),
            }),
            or_dash(about),
            or_dash(entry.step_id.as_deref()),
            or_dash(entry.seconded_by.as_ref().map(|second| second.name.as_str())),
            or_dash(entry.reason.as_deref()),
        ]);
    }
    format!("{table}\n")
}

async fn read(engine: &Engine) -> Result<Vec<AuditEntry>> {
    let mut entries: Vec<AuditEntry> = Vec::new();
    loop {
        let page = engine.list_audit(entries.last().map_or(0, |last| last.place), MAX_PAGE).await?;
        let is_last = page.len() < MAX_PAGE;
        entries.extend(page);
        if is_last {
            return Ok(entries);
        }
    }
}

fn table(entries: &[AuditEntry]) -> String {
    if entries.is_empty() {
        return NOBODY.into();
    }
    let mut table = for_people::table(COLUMNS);
    for entry in entries {
        let (what, second, reason) = told(&entry.what);
        let about = entry.run.clone().or_else(|| entity(&entry.what)).unwrap_or_default();
        table.add_row([
            entry.at.clone(),
            for_people::plain(&entry.by.name),
            entry.by.role.as_str().into(),
            for_people::plain(&what),
            for_people::plain(&about),
            entry.step.clone().unwrap_or_else(|| "-".into()),
            for_people::plain(second.unwrap_or("-")),
            for_people::plain(reason),
        ]);
    }
    format!("{table}\n")
}

/// The entity it is about.
fn entity(what: &Noted) -> Option<String> {
    match what {
        Noted::OnEntity { kind, id, .. } => Some(format!("{kind} {id}")),
        _ => None,
    }
}

/// What was done, who agreed, and why.
fn told(what: &Noted) -> (String, Option<&str>, &str) {
    match what {
        Noted::Resolved { resolution, seconded_by, reason } => {
            (resolution.as_str().into(), seconded_by.as_ref().map(|second| second.name.as_str()), reason)
        }
        Noted::RepeatAllowed { seconded_by, reason, .. } => (
            "allowed to happen again".into(),
            seconded_by.as_ref().map(|second| second.name.as_str()),
            reason,
        ),
        Noted::Steered { command, reason } => (command.clone(), None, reason),
        Noted::Redelivered { reason } => ("redelivered".into(), None, reason),
        Noted::KeyReleased { kind, key, reason, .. } => (format!("released {kind} key {key}"), None, reason),
        Noted::SetUp { kind, id, change } => (format!("{change} {kind} {id}"), None, ""),
        Noted::Remarked { text } => ("remarked".into(), None, text),
        Noted::Overridden { operation, reason } => (format!("overrode {operation}"), None, reason),
        Noted::OnEntity { did, .. } => told(did),
        // Engines note these, not people.
        Noted::Reverted { .. } | Noted::StrayReverted { .. } => ("reverted".into(), None, ""),
        Noted::Held { .. } => ("held".into(), None, ""),
        Noted::TriedAgain { .. } => ("tried again".into(), None, ""),
        Noted::Claimed { .. } => ("claimed".into(), None, ""),
        Noted::Failed { .. } => ("failed".into(), None, ""),
        Noted::Doubted { .. } => ("doubted".into(), None, ""),
        Noted::Probed { .. } => ("probed".into(), None, ""),
        Noted::Attempted { .. } => ("attempted".into(), None, ""),
        Noted::Superseded { .. } => ("superseded".into(), None, ""),
        Noted::Refused { .. } => ("refused".into(), None, ""),
    }
}

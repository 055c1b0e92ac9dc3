//! `hapax audit`: what people did.

use anyhow::Result;
use hapax::limits::MAX_PAGE;
use hapax::model::Noted;
use hapax::{AuditEntry, Engine};

use crate::effect_store::{self, StoreOptions};
use crate::output::{self, for_people};

const EXAMPLES: &str = "\
Examples:
  hapax audit --store sqlite:orders.db
  hapax audit --store postgres://localhost/orders --json | jq -c 'select(.by.name == \"ada\")'

Decisions about doubts, commands on runs and redeliveries, the oldest first. They outlive the runs they were about.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    store: StoreOptions,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let engine = options.store.open_to_read().await?;
    let entries = read(&engine).await?;
    effect_store::close(&engine).await?;
    match options.json {
        true => entries.iter().try_for_each(output::print_json_line),
        false if entries.is_empty() => output::print("nobody did anything yet\n"),
        false => output::print(&table(&entries)),
    }
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
    let mut table =
        for_people::table(["when", "who", "role", "what", "run", "step", "seconded by", "reason"]);
    for entry in entries {
        let (what, second, reason) = told(&entry.what);
        table.add_row([
            entry.at.clone(),
            for_people::plain(&entry.by.name),
            entry.by.role.as_str().into(),
            for_people::plain(&what),
            entry.run.clone().unwrap_or_default(),
            entry.step.clone().unwrap_or_else(|| "-".into()),
            for_people::plain(second.unwrap_or("-")),
            for_people::plain(reason),
        ]);
    }
    format!("{table}\n")
}

/// What was done, who agreed, and why.
fn told(what: &Noted) -> (String, Option<&str>, &str) {
    match what {
        Noted::Resolved { resolution, seconded_by, reason } => {
            (resolution.as_str().into(), seconded_by.as_ref().map(|second| second.name.as_str()), reason)
        }
        Noted::Steered { command, reason } => (command.clone(), None, reason),
        Noted::Redelivered { reason } => ("redelivered".into(), None, reason),
        Noted::KeyReleased { kind, key, reason, .. } => (format!("released {kind} key {key}"), None, reason),
        Noted::SetUp { kind, id, change } => (format!("{change} {kind} {id}"), None, ""),
        Noted::Remarked { text } => ("remarked".into(), None, text),
        // Engines note these, not people.
        Noted::Claimed { .. } => ("claimed".into(), None, ""),
        Noted::Failed { .. } => ("failed".into(), None, ""),
        Noted::Doubted { .. } => ("doubted".into(), None, ""),
        Noted::Probed { .. } => ("probed".into(), None, ""),
        Noted::Refused { .. } => ("refused".into(), None, ""),
    }
}

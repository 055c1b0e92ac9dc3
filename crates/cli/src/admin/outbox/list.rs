//! `hapax admin outbox list`.

use anyhow::Result;
use clap::ValueEnum;
use hapax::Engine;
use hapax::limits::MAX_PAGE;
use hapax::model::{OutboxMessage, OutboxState, OutboxStatus};
use serde::Serialize;
use serde_json::Value;

use crate::effect_store::{self, StoreOptions};
use crate::output::shape::ShapeOptions;
use crate::output::{self, tables};

const EXAMPLES: &str = "\
Examples:
  hapax admin outbox list --store sqlite:orders.db
  hapax admin outbox list --status dead --store postgres://localhost/orders --json | jq -r .id

A SQLite file is only read, so a program may be using it.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    store: StoreOptions,
    /// Only messages with this status.
    #[arg(long, value_enum)]
    status: Option<Status>,
    #[command(flatten)]
    shape: ShapeOptions,
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

/// Where an after-effect stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Status {
    /// To be delivered.
    Due,
    /// Being delivered.
    Claimed,
    /// The receiver has it.
    Delivered,
    /// Given up.
    Dead,
}

/// An after-effect, as programs read it.
#[derive(Debug, Serialize)]
pub(super) struct OutboxRow<'a> {
    id: &'a str,
    run: String,
    target: &'a str,
    status: &'static str,
    /// Due, claimed until, delivered or given up at.
    at: String,
    attempts: u32,
    created_at: String,
    failure: Option<String>,
    payload: Value,
}

impl From<Status> for OutboxStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Due => OutboxStatus::Due,
            Status::Claimed => OutboxStatus::Claimed,
            Status::Delivered => OutboxStatus::Delivered,
            Status::Dead => OutboxStatus::Dead,
        }
    }
}

pub(super) async fn run(options: Options) -> Result<()> {
    let engine = options.store.open_to_read().await?;
    let limit = options.limit as usize;
    let mut posts = read(&engine, options.status.map(Into::into), limit + 1).await?;
    effect_store::close(&engine).await?;
    let is_all = posts.len() <= limit;
    posts.truncate(limit);
    let all = posts.iter().map(row).collect::<Result<Vec<_>>>()?;
    options.shape.show_all(&all, || table(&posts))?;
    if !is_all {
        output::say(&format!("there are more; show them with a --limit above {limit}"));
    }
    Ok(())
}

async fn read(engine: &Engine, status: Option<OutboxStatus>, limit: usize) -> Result<Vec<OutboxMessage>> {
    let mut posts: Vec<OutboxMessage> = Vec::new();
    while posts.len() < limit {
        let room = MAX_PAGE.min(limit - posts.len());
        let after = posts.last().map(|last| last.id.clone());
        let page = engine.list_after_effects(status, after, room).await?;
        let is_last = page.len() < room;
        posts.extend(page);
        if is_last {
            break;
        }
    }
    Ok(posts)
}

pub(super) fn row(post: &OutboxMessage) -> Result<OutboxRow<'_>> {
    Ok(OutboxRow {
        id: post.id.as_str(),
        run: post.run.to_string(),
        target: post.target.as_str(),
        status: post.state.status().as_str(),
        at: at(post),
        attempts: post.attempts,
        created_at: post.created_at.to_string(),
        failure: post.failure.as_ref().map(ToString::to_string),
        payload: post.payload.to()?,
    })
}

fn at(post: &OutboxMessage) -> String {
    match post.state {
        OutboxState::Due { at } | OutboxState::Delivered { at } | OutboxState::Dead { at } => at.to_string(),
        OutboxState::Claimed { until, .. } => until.to_string(),
    }
}

fn table(posts: &[OutboxMessage]) -> String {
    if posts.is_empty() {
        return "there is no such after-effect\n".into();
    }
    let mut table = tables::table(["id", "target", "status", "at", "attempts", "last failure"]);
    for post in posts {
        let failure = post.failure.as_ref().map_or_else(|| "-".into(), ToString::to_string);
        table.add_row([
            post.id.to_string(),
            post.target.to_string(),
            post.state.status().as_str().into(),
            at(post),
            post.attempts.to_string(),
            tables::plain(&failure),
        ]);
    }
    format!("{table}\n")
}

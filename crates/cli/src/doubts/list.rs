//! `hapax doubts list`.

use anyhow::Result;
use hapax::{Doubt, Engine, Timestamp};
use serde::Serialize;

use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::{self, for_people};
use crate::server_options::ServerOptions;
use crate::spelling::between;

const EXAMPLES: &str = "\
Examples:
  hapax doubts list                               of the workspace of the API key, from the server
  hapax doubts list --store sqlite:orders.db
  hapax doubts list --store postgres://localhost/orders --workspace emea --json | jq -r .run

A SQLite file is only read, so a program may be using it.";

const NONE: &str = "no effect is in doubt\n";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: StoreOrServer,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// A doubt as it is told to programs.
#[derive(Debug, Serialize)]
struct Told<'a> {
    workspace: &'a str,
    run: String,
    step: &'a str,
    key: &'a str,
    attempts: u32,
    owner: Option<&'a str>,
    since: String,
    age_ms: u64,
    code: Option<&'a str>,
    why: &'a str,
    version: u64,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.source.store() {
        Some(store) => of_store(&options, &store).await,
        None => of_server(&options, server).await,
    }
}

async fn of_store(options: &Options, store: &StoreOptions) -> Result<()> {
    let engine = store.open_to_read().await?;
    let (doubts, is_all) = read(&engine, options.limit.get()).await?;
    let now = engine.store().now();
    effect_store::close(&engine).await?;
    let all: Vec<Told> = doubts.iter().map(|doubt| told(doubt, now)).collect();
    options.shape.show_all(&all, || table(&doubts, now))?;
    if !is_all {
        output::say(&format!("there are more; show them with a --limit above {}", options.limit.get()));
    }
    Ok(())
}

async fn of_server(options: &Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let doubts = options.limit.read(async |paging| client.list_doubts(&paging).await).await?;
    options.shape.show_all(&doubts, || table_of_server(&doubts, jiff::Timestamp::now()))
}

fn table_of_server(doubts: &[hapax_api::Doubt], now: jiff::Timestamp) -> String {
    if doubts.is_empty() {
        return NONE.into();
    }
    let mut table = for_people::table(["run", "step", "seen", "attempts", "age", "workflow", "why", "key"]);
    for doubt in doubts {
        table.add_row([
            doubt.run_id.clone(),
            for_people::plain(&doubt.step_id),
            doubt.version.to_string(),
            doubt.attempts.to_string(),
            for_people::span(between(&doubt.since, now)),
            for_people::plain(&doubt.workflow),
            for_people::plain(&doubt.failure.message),
            for_people::plain(&doubt.effect_key),
        ]);
    }
    format!("{table}\n")
}

/// The oldest `limit`, and whether those are all.
async fn read(engine: &Engine, limit: usize) -> Result<(Vec<Doubt>, bool)> {
    let (mut doubts, mut after) = (Vec::new(), None);
    loop {
        // One more than is shown, to know whether there is one.
        let page = engine.list_doubts(after, limit + 1 - doubts.len()).await?;
        doubts.extend(page.doubts);
        if doubts.len() > limit {
            doubts.truncate(limit);
            return Ok((doubts, false));
        }
        after = page.next;
        if after.is_none() {
            return Ok((doubts, true));
        }
    }
}

fn told(doubt: &Doubt, now: Timestamp) -> Told<'_> {
    Told {
        workspace: doubt.workspace.as_str(),
        run: doubt.run.to_string(),
        step: doubt.step.as_str(),
        key: doubt.key.as_str(),
        attempts: doubt.attempts,
        owner: doubt.owner.as_deref(),
        since: doubt.since.to_string(),
        age_ms: u64::try_from(now.since(doubt.since).as_millis()).unwrap_or(u64::MAX),
        code: doubt.failure.code(),
        why: doubt.failure.message(),
        version: doubt.version.get(),
    }
}

fn table(doubts: &[Doubt], now: Timestamp) -> String {
    if doubts.is_empty() {
        return NONE.into();
    }
    let mut table =
        for_people::table(["run", "step", "seen", "attempts", "age", "owner that vanished", "why", "key"]);
    for doubt in doubts {
        table.add_row([
            doubt.run.to_string(),
            doubt.step.to_string(),
            doubt.version.to_string(),
            doubt.attempts.to_string(),
            for_people::span(now.since(doubt.since)),
            doubt.owner.clone().unwrap_or_else(|| "-".into()),
            for_people::plain(&doubt.failure.to_string()),
            doubt.key.to_string(),
        ]);
    }
    format!("{table}\n")
}

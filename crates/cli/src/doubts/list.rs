//! `hapax doubts list`.

use anyhow::Result;
use hapax::store::ListOperations;
use hapax::{Doubt, Engine, Operation, OperationStatus, WorkspaceId};
use hapax_api::client::OperationFilter;

use super::row::{DoubtRow, table};
use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::listing::{LimitOptions, say_more};
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;

pub(super) const EXAMPLES: &str = "\
Examples:
  hapax doubts list                               of the workspace of the API key
  hapax doubts list --store sqlite:orders.db
  hapax doubts list --store postgres://localhost/orders --workspace emea --json | jq -r .id

A SQLite file is only read, so a program may be using it.";

#[derive(Debug, clap::Args)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    source: StoreOrServer,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: ListOptions, server: &ServerOptions) -> Result<()> {
    let (mut rows, is_all) = match options.source.store() {
        Some(store) => read_store(&options, &store).await?,
        None => read_server(&options, server).await?,
    };
    // Each of the two lists is cut to the limit, so the oldest of both are among them.
    rows.sort_by(|one, other| one.since.cmp(&other.since));
    let is_all = is_all && rows.len() <= options.limit.get();
    rows.truncate(options.limit.get());
    options.shape.show_all(&rows, || table(&rows))?;
    if !is_all {
        say_more(options.limit.get());
    }
    Ok(())
}

async fn read_server(options: &ListOptions, server: &ServerOptions) -> Result<(Vec<DoubtRow>, bool)> {
    let client = server.connect()?;
    let now = jiff::Timestamp::now();
    let (steps, all_steps) =
        options.limit.read_some(async |paging| client.list_doubts(&paging).await).await?;
    let filter =
        OperationFilter { status: Some(hapax_api::OperationStatus::InDoubt), ..OperationFilter::default() };
    let (operations, all_operations) =
        options.limit.read_some(async |paging| client.list_operations(&filter, &paging).await).await?;
    let steps = steps.into_iter().map(|doubt| DoubtRow::from_step(doubt, now));
    let operations = operations.into_iter().map(|operation| DoubtRow::from_operation(operation, now));
    Ok((steps.chain(operations).collect(), all_steps && all_operations))
}

async fn read_store(options: &ListOptions, store: &StoreOptions) -> Result<(Vec<DoubtRow>, bool)> {
    let engine = store.open_to_read().await?;
    let (doubts, all_steps) = list_steps(&engine, options.limit.get()).await?;
    let (operations, all_operations) =
        list_operations(&engine, store.workspace(), options.limit.get()).await?;
    let now = engine.store().now();
    effect_store::close(&engine).await?;
    let steps = doubts.iter().map(|doubt| DoubtRow::from_stored_step(doubt, now));
    let operations = operations.iter().map(|operation| DoubtRow::from_stored_operation(operation, now));
    Ok((steps.chain(operations).collect(), all_steps && all_operations))
}

/// The oldest `limit` steps in doubt, and whether those are all.
async fn list_steps(engine: &Engine, limit: usize) -> Result<(Vec<Doubt>, bool)> {
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

/// Up to `limit` operations in doubt, and whether those are all.
async fn list_operations(
    engine: &Engine,
    workspace: &WorkspaceId,
    limit: usize,
) -> Result<(Vec<Operation>, bool)> {
    let (mut operations, mut before) = (Vec::new(), None);
    loop {
        let rest = (limit + 1 - operations.len()).min(hapax::limits::MAX_PAGE);
        let request = ListOperations {
            workspace: workspace.clone(),
            kind: None,
            entity: None,
            step: None,
            status: Some(OperationStatus::InDoubt),
            before,
            limit: rest,
        };
        let page = engine.list_operations(request).await?;
        let is_last = page.len() < rest;
        operations.extend(page);
        before = operations.last().map(|operation| operation.id);
        if operations.len() > limit {
            operations.truncate(limit);
            return Ok((operations, false));
        }
        if is_last {
            return Ok((operations, true));
        }
    }
}

//! `hapax entities list`.

use anyhow::Result;
use hapax_api::{Entity, RawJson};

use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::word;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax entities list invoice
  hapax entities list invoice --status closing
  hapax entities list invoice --limit 1000 --json | jq -r .id";

/// Characters of the data that a table shows.
const SHOWN_CHARS: usize = 60;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The type of the entities.
    #[arg(value_name = "TYPE", value_parser = word)]
    kind: String,
    /// Only entities with this status.
    #[arg(long, value_parser = word)]
    status: Option<String>,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { kind, status, limit, shape } = options;
    let client = server.connect()?;
    let read = async |paging| client.list_entities(&kind, status.as_deref(), &paging).await;
    let found = limit.read(read).await?;
    shape.show_all(&found, || table(&found))
}

fn table(found: &[Entity]) -> String {
    if found.is_empty() {
        return "there are no such entities\n".into();
    }
    let mut table = tables::table(["id", "status", "version", "changed", "data"]);
    for entity in found {
        table.add_row([
            tables::plain(&entity.id),
            tables::plain(&entity.status),
            entity.version.to_string(),
            entity.updated_at.clone(),
            shortened(&entity.data),
        ]);
    }
    format!("{table}\n")
}

fn shortened(data: &RawJson) -> String {
    let text = tables::without_commands(data.text()).replace('\n', " ");
    match text.chars().count() > SHOWN_CHARS {
        true => text.chars().take(SHOWN_CHARS).chain(['…']).collect(),
        false => text,
    }
}

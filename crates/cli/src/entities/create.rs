//! `hapax entities create`.

use anyhow::Result;
use hapax_api::{CreateEntity, JsonObject};

use super::EntityArgument;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::{object_or_file, word};
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax entities create invoice INV-7 --status approved
  hapax entities create invoice INV-7 --status approved --data '{\"total\":120}'
  hapax entities create invoice INV-7 --status approved --data @invoice.json --json

The same again is found; another one under the same id is refused with 6. Entities that live in a table of your own are made by
inserting a row there.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    #[command(flatten)]
    named: EntityArgument,
    /// The status it begins in.
    #[arg(long, value_parser = word)]
    status: String,
    /// Data of the entity, as a JSON object, or @FILE.
    #[arg(long, value_name = "JSON", value_parser = object_or_file)]
    data: Option<JsonObject>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { named, status, data, key, shape } = options;
    let asked = CreateEntity { id: named.id.clone(), status, data: data.unwrap_or_default() };
    let made = server.connect()?.create_entity(&named.kind, &asked, key.options()).await?;
    shape.show(&made, || {
        let entity = &made.entity;
        let (kind, id, status) = (plain(&entity.kind), plain(&entity.id), plain(&entity.status));
        match made.created {
            true => format!("{kind} {id} made; it is {status}\n"),
            false => format!("{kind} {id} was there already; it is {status}\n"),
        }
    })
}

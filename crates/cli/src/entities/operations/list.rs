//! `hapax entities operations list`.

use anyhow::Result;
use hapax_api::client::OperationFilter;
use hapax_api::{Operation, OperationStatus};

use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables::{self, plain};
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax entities operations list
  hapax entities operations list --status IN_DOUBT
  hapax entities operations list --type invoice --entity INV-7
  hapax entities operations list --key payment-41 --json | jq .result";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Only items with this status.
    #[arg(long, value_parser = status)]
    status: Option<OperationStatus>,
    /// Only operations on entities of this type.
    #[arg(long = "type", value_name = "TYPE", value_parser = word)]
    kind: Option<String>,
    /// Only operations on the entity with this id.
    #[arg(long, value_name = "ID", value_parser = word, requires = "kind")]
    entity: Option<String>,
    /// Only operations of this step.
    #[arg(long, value_parser = word)]
    step: Option<String>,
    /// Only the operation with this key.
    #[arg(long, value_parser = word, conflicts_with = "entity")]
    key: Option<String>,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

fn status(text: &str) -> Result<OperationStatus, String> {
    OperationStatus::from_name(&text.to_ascii_uppercase()).ok_or_else(|| {
        let all = OperationStatus::ALL.map(OperationStatus::as_str).join(", ");
        format!("use one of {all}")
    })
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { status, kind, entity, step, key, limit, shape } = options;
    let client = server.connect()?;
    let found = match (&kind, &entity) {
        (Some(kind), Some(entity)) => {
            let is_asked_for = |operation: &Operation| {
                status.is_none_or(|status| operation.status == status)
                    && step.as_ref().is_none_or(|step| operation.step_key == *step)
            };
            let read = async |paging| {
                let mut page = client.list_operations_of(kind, entity, &paging).await?;
                page.items.retain(is_asked_for);
                Ok(page)
            };
            limit.read(read).await?
        }
        _ => {
            let filter = OperationFilter { status, entity_type: kind, step, idempotency_key: key };
            limit.read(async |paging| client.list_operations(&filter, &paging).await).await?
        }
    };
    shape.show_all(&found, || table(&found))
}

fn table(found: &[Operation]) -> String {
    if found.is_empty() {
        return "there are no such operations\n".into();
    }
    let mut table = tables::table(["operation", "entity", "step", "status", "by", "key", "began", "failure"]);
    for operation in found {
        table.add_row([
            operation.id.clone(),
            plain(&format!("{} {}", operation.entity_type, operation.entity_id)),
            plain(&operation.step_key),
            operation.status.as_str().into(),
            or_dash(operation.actor.as_ref().map(|by| by.name.as_str())),
            or_dash(operation.idempotency_key.as_deref()),
            operation.began_at.clone(),
            or_dash(operation.failure.as_ref().map(|failure| failure.message.as_str())),
        ]);
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_known_in_either_case() {
        assert_eq!(status("in_doubt"), Ok(OperationStatus::InDoubt));
        assert!(status("lost").unwrap_err().contains("IN_DOUBT"));
    }
}

//! `hapax entities show`.

use anyhow::Result;
use hapax_api::{AllowedAction, Entity, EntityDetail, PendingOperation};
use std::fmt::Write;

use super::EntityArgument;
use crate::output::shape::ShapeOptions;
use crate::output::tables::{self, plain, without_commands};
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax entities show invoice INV-7
  hapax entities show invoice INV-7 --requester admin
  hapax entities show invoice INV-7 --json | jq '.allowedActions[] | select(.enabled) | .stepKey'";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    #[command(flatten)]
    named: EntityArgument,
    /// Requester, where steps differ by requester.
    #[arg(long, value_parser = word)]
    requester: Option<String>,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { named, requester, shape } = options;
    let found = server.connect()?.get_entity(&named.kind, &named.id, requester.as_deref()).await?;
    shape.show(&found, || sheet(&found))
}

fn sheet(found: &EntityDetail) -> String {
    let Entity { kind, id, status, version, data, updated_at } = &found.entity;
    let data = without_commands(data.text()).replace('\n', " ");
    let mut text = format!(
        "entity    {} {}\nstatus    {}\nversion   {version}\nchanged   {updated_at}\nworkflow  {}\ndata      {data}\n",
        plain(kind),
        plain(id),
        plain(status),
        plain(&found.workflow),
    );
    if let Some(pending) = &found.pending_operation {
        _ = writeln!(text, "pending   {}", told(pending));
    }
    _ = write!(text, "\n{}", table(&found.allowed_actions));
    text
}

/// The operation in the way, with its age.
fn told(pending: &PendingOperation) -> String {
    let PendingOperation { id, step_key: step, status, age, .. } = pending;
    let age = tables::span(age.0);
    format!("{id} ({}, {}) for {age}", plain(step), status.as_str())
}

fn table(actions: &[AllowedAction]) -> String {
    if actions.is_empty() {
        return "there is no step for this requester\n".into();
    }
    let mut table = tables::table(["step", "to", "may be taken", "irreversible", "why not"]);
    for action in actions {
        table.add_row([
            plain(&action.step_key),
            plain(&action.to),
            if action.enabled { "yes" } else { "no" }.into(),
            if action.irreversible { "yes" } else { "-" }.into(),
            or_dash(action.reason.as_deref()),
        ]);
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// S2.3, S2.46: the pending operation and why nothing else may be done are seen at once, and nothing of it is obeyed by a terminal.
    #[test]
    fn a_held_entity_shows_its_operation_with_age_and_reasons() {
        let found: EntityDetail = serde_json::from_value(json!({
            "entity": {"type": "order", "id": "R123", "status": "refunding", "version": 4, "data": {"a": 1},
                "updatedAt": "2026-01-01T00:00:00Z"},
            "workflow": "orders",
            "pendingOperation": {"id": "op_1", "stepKey": "refund", "status": "PENDING", "since": "2026-01-01T00:00:00Z",
                "age": "1h1m40s"},
            "allowedActions": [
                {"stepKey": "refund", "stepNumber": 10, "to": "refunded", "enabled": false, "irreversible": true,
                    "code": "operation_pending", "operationId": "op_1", "reason": "op_1 is in progress\u{1b}[2J"},
                {"stepKey": "ship", "stepNumber": 20, "to": "shipped", "enabled": true, "irreversible": false}
            ]
        }))
        .unwrap();
        let text = sheet(&found);
        assert!(text.contains("pending   op_1 (refund, PENDING) for 1 h 1 min\n"), "{text}");
        assert!(text.contains("op_1 is in progress [2J") && !text.contains('\u{1b}'), "{text}");
        let ship = text.lines().find(|line| line.contains("ship ")).unwrap();
        assert!(ship.contains("yes"), "{text}");
    }
}

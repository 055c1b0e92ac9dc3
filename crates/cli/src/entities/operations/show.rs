//! `hapax entities operations show`.

use std::fmt::Write;

use anyhow::Result;
use hapax_api::{JournalEntry, JournalKind, Operation, OperationDetail, RawJson};

use crate::output::shape::ShapeOptions;
use crate::output::tables::{plain, without_commands};
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::{between, short_span, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax entities operations show op_018f…
  hapax entities operations show op_018f… --json | jq '.history[].what'";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The operation.
    #[arg(value_parser = word)]
    operation: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let found = server.connect()?.get_operation(&options.operation).await?;
    options.shape.show(&found, || sheet(&found))
}

fn sheet(found: &OperationDetail) -> String {
    let mut text = String::new();
    for (name, value) in facts(&found.operation) {
        _ = writeln!(text, "{name:<12}{value}");
    }
    text.push('\n');
    for entry in &found.history {
        _ = writeln!(text, "{}", line(entry, &found.operation.began_at));
    }
    text
}

fn facts(operation: &Operation) -> Vec<(&'static str, String)> {
    let json = |value: &RawJson| without_commands(value.text()).replace('\n', " ");
    let claim = operation.claim_into.as_deref().zip(operation.revert_to.as_deref());
    let by = operation.actor.as_ref().map(|by| format!("{} ({})", plain(&by.name), by.role.as_str()));
    let all = [
        ("operation", Some(operation.id.clone())),
        ("entity", Some(plain(&format!("{} {}", operation.entity_type, operation.entity_id)))),
        ("step", Some(plain(&format!("{} of {}", operation.step_key, operation.workflow)))),
        ("status", Some(operation.status.as_str().into())),
        ("from", Some(plain(&operation.from))),
        ("to", Some(plain(&operation.to))),
        ("claim", claim.map(|(into, back)| plain(&format!("{into}, back to {back}")))),
        ("recovery", Some(plain(&operation.recovery))),
        ("irreversible", operation.irreversible.then(|| " yes".into())),
        ("module", Some(plain(&operation.module))),
        ("requester", operation.requester.as_deref().map(plain)),
        ("by", by),
        ("key", operation.idempotency_key.as_deref().map(plain)),
        ("effect key", Some(plain(&operation.effect_key))),
        ("run", operation.run_id.clone()),
        ("attempts", Some(operation.attempts.to_string())),
        ("began", Some(operation.began_at.clone())),
        ("last heard", operation.heard_at.clone()),
        ("in doubt", operation.in_doubt_since.clone()),
        ("ended", operation.ended_at.clone()),
        ("input", Some(json(&operation.input))),
        ("result", operation.result.as_ref().map(json)),
        ("failure", operation.failure.as_ref().map(|failure| plain(&failure.message))),
    ];
    all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

/// One entry, with how long after the beginning it was.
fn line(entry: &JournalEntry, began_at: &str) -> String {
    let after = entry.at.parse().map(|at| between(began_at, at)).unwrap_or_default();
    let mut text = format!("  {} {:>10}  {}", mark(entry.what), short_span(after), spelled(&entry.what));
    let resolution = entry.resolution.as_ref().map(spelled);
    for said in [entry.status.as_deref(), resolution.as_deref()].into_iter().flatten() {
        _ = write!(text, " {}", plain(said));
    }
    if let Some(attempt) = entry.attempt {
        _ = write!(text, " (attempt {attempt})");
    }
    if let Some(by) = &entry.actor {
        _ = write!(text, " by {} ({})", plain(&by.name), by.role.as_str());
    }
    if let Some(second) = &entry.seconded_by {
        _ = write!(text, ", seconded by {}", plain(&second.name));
    }
    if let Some(heard) = &entry.last_heard_at {
        _ = write!(text, "; its holder was last heard of at {}", plain(heard));
    }
    let failure = entry.failure.as_ref().map(|failure| failure.message.as_str());
    for said in [entry.reason.as_deref(), failure].into_iter().flatten() {
        _ = write!(text, ": {}", plain(said));
    }
    text
}

fn mark(what: JournalKind) -> char {
    match what {
        JournalKind::Began | JournalKind::TriedAgain => '▶',
        JournalKind::Ended => '■',
        JournalKind::Reverted => '↩',
        JournalKind::Held | JournalKind::Doubted => '?',
        JournalKind::Overridden | JournalKind::Resolved => '!',
        _ => '·',
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// S1.34-S1.41: what a crash and the janitor did can be read off the history.
    #[test]
    fn the_history_is_told_line_by_line() {
        let entry = |value| serde_json::from_value::<JournalEntry>(value).unwrap();
        let began = "2026-01-01T00:00:00Z";
        let first =
            entry(json!({"what": "began", "at": began, "actor": {"name": "ada", "role": "operator"}}));
        assert_eq!(line(&first, began), "  ▶       0 ms  began by ada (operator)");
        let reverted = entry(json!({
            "what": "reverted", "at": "2026-01-01T00:06:00Z", "attempt": 1, "status": "approved", "lastHeardAt": began
        }));
        assert_eq!(
            line(&reverted, began),
            "  ↩      6 min  reverted approved (attempt 1); its holder was last heard of at 2026-01-01T00:00:00Z"
        );
        let noted = entry(json!({"what": "noted", "at": began, "reason": "look\u{1b}[2J"}));
        assert_eq!(line(&noted, began), "  ·       0 ms  noted: look [2J");
    }
}

//! `hapax why`: what a run waits for, found by any key, subject or id.

use std::fmt::Write;

use anyhow::Result;
use hapax_api::{Why, WhyMatch, WhyMatchKind, WhyRun};

use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

const EXAMPLES: &str = "\
Examples:
  hapax why ORDER-4711                a subject, or the idempotency key of a run, promise or operation
  hapax why run_018f…
  hapax why key:carrier:ch_19         a promise by its key; id:ID by its id
  hapax why invoice/INV-7             an entity
  hapax why evt_1 --json              a provider's webhook event

Prints what the text names, and the run behind it with its parents and children: what each waits for, since when, until when, and
the command that settles it. A subject is searched among the newest 5,000 runs.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A key, subject, promise, entity (TYPE/ID), operation, run or webhook event.
    #[arg(value_name = "NAME", value_parser = word)]
    query: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let why = server.connect()?.explain(&options.query).await?;
    options.shape.show(&why, || text(&why))
}

fn text(why: &Why) -> String {
    let mut text = String::new();
    for found in &why.matches {
        _ = writeln!(text, "{}", headline(found));
    }
    if !why.runs.is_empty() {
        text.push('\n');
    }
    for run in &why.runs {
        draw(run, &mut text);
    }
    if why.is_cut {
        text.push_str("… more runs of this family are not shown; `hapax why RUN` starts from another one\n");
    }
    text
}

/// One sentence about a match.
fn headline(found: &WhyMatch) -> String {
    let id = plain(&found.id);
    let run = found.run_id.as_deref().map(plain).unwrap_or_default();
    let what = match found.kind {
        WhyMatchKind::Run => format!("run {id}"),
        WhyMatchKind::RunKey => format!("run {run} (key {id})"),
        WhyMatchKind::Subject => format!("run {run} (by its subject)"),
        WhyMatchKind::Promise | WhyMatchKind::PromiseKey => format!("promise {id}"),
        WhyMatchKind::Operation | WhyMatchKind::OperationKey => format!("operation {id}"),
        WhyMatchKind::Entity => format!("entity {id}"),
        WhyMatchKind::WebhookEvent => format!("webhook event {id}"),
    };
    format!("{what} {}", plain(&found.sentence))
}

/// One run of the family, with a line for each thing it waits for.
fn draw(run: &WhyRun, text: &mut String) {
    let indent = "   ".repeat(run.depth as usize);
    let (branch, rest) = match run.depth {
        0 => (String::new(), "   ".to_owned()),
        _ => (format!("{}└─ ", &indent[3..]), format!("{indent}   ")),
    };
    let mark = if run.is_match { " ◀" } else { "" };
    let workflow = plain(&run.workflow);
    _ = writeln!(text, "{branch}{}  {workflow}  {}{mark}", plain(&run.run_id), spelled(&run.status));
    for wait in &run.waits_for {
        _ = writeln!(text, "{rest}{}", plain(&wait.sentence));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_family_is_drawn_as_a_tree_with_a_sentence_for_each_wait() {
        let run = |id: &str, depth: u32, is_match: bool, sentence: &str| {
            json!({
                "runId": id, "depth": depth, "isMatch": is_match, "workflow": "order@2", "status": "WAITING",
                "waitsFor": [{"reason": "promise", "sentence": sentence}]
            })
        };
        let why: Why = serde_json::from_value(json!({
            "query": "ORDER-4711",
            "matches": [{"kind": "run_key", "id": "ORDER-4711", "runId": "run_2", "sentence": "waits for `k`"}],
            "runs": [run("run_1", 0, false, "waits for child run run_2"), run("run_2", 1, true, "waits for `k`\u{1b}[2J")],
            "isCut": false
        }))
        .unwrap();
        assert_eq!(
            text(&why),
            "run run_2 (key ORDER-4711) waits for `k`\n\n\
             run_1  order@2  WAITING\n   waits for child run run_2\n\
             └─ run_2  order@2  WAITING ◀\n      waits for `k` [2J\n"
        );
    }
}

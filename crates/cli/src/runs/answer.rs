//! `hapax runs answer`.

use anyhow::Result;
use hapax_api::{AnswerApproval, JsonObject};

use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::{object, word};
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax runs answer run_018f… refund --approve
  hapax runs answer run_018f… refund --reject --comment 'paid out already'
  hapax runs answer run_018f… refund --edit '{\"amount\":50}'";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    /// Step that asks for the approval.
    #[arg(value_parser = word)]
    step: String,
    #[command(flatten)]
    decision: Decision,
    /// Why.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    comment: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Decision {
    /// Let the run continue.
    #[arg(long)]
    approve: bool,
    /// Reject.
    #[arg(long)]
    reject: bool,
    /// Let the run continue with this value instead.
    #[arg(long, value_name = "JSON", value_parser = object)]
    edit: Option<JsonObject>,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Decision { reject, edit, .. } = options.decision;
    let decision = match (&edit, reject) {
        (Some(_), _) => "edit",
        (None, true) => "reject",
        (None, false) => "approve",
    };
    let value = edit.map(JsonObject::into_json);
    let asked = AnswerApproval { decision: decision.into(), comment: options.comment, value };
    let client = server.connect()?;
    let sent = client.answer_approval(&options.run, &options.step, &asked, options.key.options()).await?;
    options.shape.show(&sent, || {
        let what = if sent.stored { "is kept for" } else { "was given before to" };
        format!("the answer {decision} to {} {what} {}\n", plain(&options.step), sent.run_id)
    })
}

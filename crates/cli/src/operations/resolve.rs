//! `hapax operations resolve`.

use anyhow::Result;
use hapax_api::{OperationResolution, RawJson, ResolveOperation};

use crate::confirmation::confirm;
use crate::output::for_people::plain;
use crate::output::shape::ShapeOptions;
use crate::person::not_blank;
use crate::server_options::ServerOptions;
use crate::terms::KeyOptions;
use crate::words::{json_or_file, word};

const EXAMPLES: &str = "\
Examples:
  hapax operations resolve op_018f… --happened --result '{\"refund\":\"re_1\"}' --reason 'the bank shows it'
  hapax operations resolve op_018f… --did-not-happen --reason 'the bank has no such refund' --yes

If it happened, the entity gets the status the step leads to. If it did not, the claim is given back and the step can be taken
again; that cannot be taken back, so it needs an API key of the role manager.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The operation, as `hapax operations list --status IN_DOUBT` shows it.
    #[arg(value_parser = word)]
    operation: String,
    #[command(flatten)]
    decision: Decision,
    /// Which of its attempts you saw in doubt; the one it is at now if absent.
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// What the action gave, as JSON, or @FILE for a file that holds it.
    #[arg(long, value_name = "JSON", value_parser = json_or_file, conflicts_with = "did_not_happen")]
    result: Option<RawJson>,
    /// How you know.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: String,
    /// Who decides, where several people share an API key.
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    by: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Decision {
    /// The action happened.
    #[arg(long)]
    happened: bool,
    /// It did not happen.
    #[arg(long)]
    did_not_happen: bool,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { operation, decision, attempt, result, reason, by, key, shape } = options;
    let resolution = match decision.did_not_happen {
        true => OperationResolution::DidNotHappen,
        false => OperationResolution::Happened,
    };
    if decision.did_not_happen {
        let what = format!("give {} back, so that its step can be taken again", plain(&operation));
        confirm(&what, server).await?;
    }
    let client = server.connect()?;
    let attempt = match attempt {
        Some(attempt) => attempt,
        None => client.get_operation(&operation).await?.operation.attempts,
    };
    let asked = ResolveOperation { attempt, resolution, result, reason, by };
    let resolved = client.resolve_operation(&operation, &asked, key.terms()).await?;
    shape.show(&resolved, || {
        let (step, kind, id) = (&resolved.step_key, &resolved.entity_type, &resolved.entity_id);
        let status = resolved.status.as_str();
        format!("{} of {} {} is {status} now ({})\n", plain(step), plain(kind), plain(id), resolved.id)
    })
}

//! `hapax entities step` and `hapax entities override`.

use std::time::Duration;

use anyhow::Result;
use hapax_api::{JsonObject, OperationStatus, OverrideStep, TakeStep, TakenStep};

use super::EntityArgument;
use crate::confirmation::confirm;
use crate::exit_codes::NotFinished;
use crate::output::shape::ShapeOptions;
use crate::output::tables::{plain, without_commands};
use crate::parsers::{object_or_file, seconds, wait_time, word};
use crate::person::not_blank;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const STEP_EXAMPLES: &str = "\
Examples:
  hapax entities step invoice INV-7 close --requester admin
  hapax entities step invoice INV-7 pay --input '{\"amount\":120}' --key payment-41
  hapax entities step invoice INV-7 pay --input @payment.json --wait 0s --json

The same step under the same --key is told what is recorded of the first. Exit codes: 6 if the step was not taken, because
another operation is in progress (claim_failed), the status does not allow it, or it was rejected; 1 if its action failed; 4 if it
is irreversible, may have happened, and a manager must say so (`hapax entities override`); 7 if it is under way after --wait.";

const OVERRIDE_EXAMPLES: &str = "\
Examples:
  hapax entities override order R123 refund --reason 'the bank shows no refund'
  hapax entities override order R123 refund --reason 'the bank shows no refund' --key refund-2 --yes

For managers: an irreversible step that may have happened is taken. It may then happen twice, so find out first. The reason is
kept in the audit log (`hapax audit`).";

/// Options of a step.
#[derive(Debug, clap::Args)]
struct StepArguments {
    #[command(flatten)]
    named: EntityArgument,
    /// The step.
    #[arg(value_parser = word)]
    step: String,
    /// Requester, where steps differ by requester.
    #[arg(long, value_parser = word)]
    requester: Option<String>,
    /// Input of the action, as a JSON object, or @FILE.
    #[arg(long, value_name = "JSON", value_parser = object_or_file)]
    input: Option<JsonObject>,
    /// Idempotency key of the operation: the same step again under this key gets the recorded result.
    #[arg(long, value_parser = word)]
    key: Option<String>,
    /// Your name, where several people share an API key.
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    by: Option<String>,
    /// How long to wait for the action [default: 60s].
    #[arg(long, value_name = "DURATION", value_parser = wait_time)]
    wait: Option<Duration>,
    #[command(flatten)]
    request: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = STEP_EXAMPLES)]
pub(super) struct StepOptions {
    #[command(flatten)]
    asked: StepArguments,
}

#[derive(Debug, clap::Args)]
#[command(after_help = OVERRIDE_EXAMPLES)]
pub(super) struct OverrideOptions {
    #[command(flatten)]
    asked: StepArguments,
    /// How you know that it did not happen, or why it must happen again.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: String,
}

pub(super) async fn take(options: StepOptions, server: &ServerOptions) -> Result<()> {
    let StepArguments { named, step, requester, input, key, by, wait, request, shape } = options.asked;
    let asked = TakeStep { requester, input: input.unwrap_or_default(), idempotency_key: key, by };
    // In whole seconds on the wire.
    let wait = wait.map(|wait| Duration::from_secs(seconds(wait)));
    let taken = server.connect()?.take_step(named.pair(), &step, &asked, wait, request.options()).await?;
    show(&taken, &shape)
}

pub(super) async fn take_anyway(options: OverrideOptions, server: &ServerOptions) -> Result<()> {
    let OverrideOptions { asked, reason } = options;
    let StepArguments { named, step, requester, input, key, by, wait, request, shape } = asked;
    let (kind, id) = named.pair();
    let what =
        format!("take {} with {} {}, which may have happened before", plain(&step), plain(kind), plain(id));
    confirm(&what, server).await?;
    let input = input.unwrap_or_default();
    let asked = OverrideStep { reason, requester, input, idempotency_key: key, by };
    // In whole seconds on the wire.
    let wait = wait.map(|wait| Duration::from_secs(seconds(wait)));
    let taken = server.connect()?.override_step((kind, id), &step, &asked, wait, request.options()).await?;
    show(&taken, &shape)
}

fn show(taken: &TakenStep, shape: &ShapeOptions) -> Result<()> {
    shape.show(taken, || told(taken))?;
    match taken.operation.status {
        OperationStatus::Pending => {
            let id = &taken.operation.id;
            Err(NotFinished(format!(
                "{id} is in progress; `hapax entities operations show {id}` shows its status"
            ))
            .into())
        }
        _ => Ok(()),
    }
}

fn told(taken: &TakenStep) -> String {
    let operation = &taken.operation;
    let (id, status) = (&operation.id, operation.status.as_str());
    let (kind, name) = (plain(&operation.entity_type), plain(&operation.entity_id));
    let is = taken.entity.as_ref().map(|entity| format!("; {kind} {name} is {}", plain(&entity.status)));
    let again = if taken.created { "" } else { ", as recorded before" };
    let mut text =
        format!("{} {status}{again} ({id}){}\n", plain(&operation.step_key), is.unwrap_or_default());
    if let Some(result) = &operation.result {
        text.push_str(&format!("result  {}\n", without_commands(result.text()).replace('\n', " ")));
    }
    if let Some(failure) = &operation.failure {
        text.push_str(&format!("failure {}\n", plain(&failure.message)));
    }
    text
}

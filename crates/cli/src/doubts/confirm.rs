//! `hapax doubts confirm`.

use anyhow::Result;
use hapax_api::ConfirmRuling;

use super::id::DoubtId;
use crate::confirmation::confirm_at;
use crate::exit_codes::UsageError;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::word;
use crate::person::not_blank;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax doubts confirm run_018f…/charge --proposal 01J… --seen 7 --reason 'I called the bank as well' --yes

You are the second person: look for yourself first. `hapax doubts resolve … --propose` and the journal of the run show the
proposal. Nobody confirms their own, and one of the two people is a manager.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the doubt: run_…/STEP.
    id: DoubtId,
    /// The proposal to confirm.
    #[arg(long, value_name = "ID", value_parser = word)]
    proposal: String,
    /// The number that `hapax doubts` showed under `seen`.
    #[arg(long, value_name = "N")]
    seen: u64,
    /// Your own checks, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: String,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let DoubtId::Step { run, step } = &options.id else {
        return Err(UsageError("only rulings on steps of runs are proposed and confirmed".into()).into());
    };
    let what = format!("confirm what was proposed about {} of {run}", plain(step.as_str()));
    confirm_at(&server.name()?, &what, server).await?;
    let asked = ConfirmRuling {
        proposal_id: options.proposal.clone(),
        reason: options.reason.clone(),
        version: options.seen,
    };
    let client = server.connect()?;
    let confirmed =
        client.confirm_ruling(&run.to_string(), step.as_str(), &asked, options.key.options()).await?;
    options.shape.show(&confirmed, || {
        format!("step {} of run {run}: confirmed; the run goes on\n", plain(step.as_str()))
    })
}

//! `hapax doubts resolve`.

use anyhow::{Result, anyhow};
use clap::ArgGroup;
use hapax::model::{RulingError, Version};
use hapax::{Actor, DoubtRef, Error, Resolution, Role, Ruling};
use hapax_api::{OperationResolution, RawJson, ResolveDoubt, ResolveOperation};
use serde::Serialize;

use super::id::DoubtId;
use crate::confirmation::confirm_at;
use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::exit_codes::UsageError;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::json_or_file;
use crate::person::{PersonRole, not_blank};
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax doubts resolve run_018f…/charge --seen 7 --happened --result '{\"transfer\":\"tx-41\"}' \\
      --reason 'the bank shows it'
  hapax doubts resolve op_018f… --seen 1 --did-not-happen --reason 'the bank has no such refund' --yes
  hapax doubts resolve run_018f…/charge --seen 7 --did-not-happen --by ada --seconded-by grace \\
      --reason 'the bank has no such transfer' --store sqlite:orders.db --yes
  hapax doubts resolve run_018f…/charge --seen 7 --abandon --by grace --role manager \\
      --reason 'the bank no longer exists' --store postgres://localhost/orders --yes

Only --happened can be taken back. All other decisions need an API key of the role manager; with --store, where no key is
checked, --role manager or a second person. You are asked to confirm unless you give --yes. A decision counts once, for the
doubt as you saw it; anything else fails and changes nothing. While a process owns the SQLite file, stop it, or decide through
its server.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("decision").required(true).multiple(false))]
pub(crate) struct Options {
    /// Id of the doubt, as `hapax doubts` shows it: run_…/STEP or op_… .
    id: DoubtId,
    /// The number that `hapax doubts` showed under `seen`.
    #[arg(long, value_name = "N")]
    seen: u64,
    /// The effect happened; give its result with --result.
    #[arg(long, group = "decision")]
    happened: bool,
    /// The effect did not happen; the step runs, or the claim is given back.
    #[arg(long, group = "decision")]
    did_not_happen: bool,
    /// The effect happened; undo it with the step's compensation. Steps only.
    #[arg(long, group = "decision")]
    compensate: bool,
    /// The outcome will never be known; the step counts as failed. Steps only.
    #[arg(long, group = "decision")]
    abandon: bool,
    /// Result of the effect, as JSON, or @FILE.
    #[arg(long, value_name = "JSON", value_parser = json_or_file, conflicts_with_all = ["did_not_happen", "abandon"])]
    result: Option<RawJson>,
    /// How you know, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: String,
    /// Who decides, for the audit log. Needed with --store, and where several people share an API key.
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    by: Option<String>,
    /// Role of the person who decides; on a server, the API key decides.
    #[arg(long, value_enum, default_value_t = PersonRole::Operator, requires = "store")]
    role: PersonRole,
    /// A second person who agrees; on a server, the role of the API key decides.
    #[arg(long, value_name = "NAME", value_parser = not_blank, requires = "store")]
    seconded_by: Option<String>,
    /// Only propose it: it counts once another person confirms it. For steps, on a server.
    #[arg(long, conflicts_with = "store")]
    propose: bool,
    #[command(flatten)]
    source: StoreOrServer,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// A decision that was recorded, as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordedDecision {
    id: String,
    resolution: &'static str,
    by: Option<hapax_api::Actor>,
    /// Version of the run, or attempt of the operation, that it was decided on.
    seen: u64,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    options.check()?;
    if options.propose {
        return propose(&options, server).await;
    }
    let store = options.source.store();
    if let Some(what) = options.irreversible() {
        let place = store.as_ref().map_or_else(|| server.name(), |store| Ok(store.shown()))?;
        confirm_at(&place, &what, server).await?;
    }
    let by = match store {
        Some(store) => {
            decide_in_store(&options, &store).await?;
            None
        }
        None => decide_on_server(&options, server).await?,
    };
    let resolution = options.decision().as_str();
    let decided = RecordedDecision { id: options.id.to_string(), resolution, by, seen: options.seen };
    options.shape.show(&decided, || match &options.id {
        DoubtId::Step { run, step } => {
            format!("step {} of run {run}: {resolution}; the run goes on\n", plain(step.as_str()))
        }
        DoubtId::Operation(id) => format!("operation {id}: {resolution}\n"),
    })
}

/// Records the caller's proposal, for another person to confirm.
async fn propose(options: &Options, server: &ServerOptions) -> Result<()> {
    let DoubtId::Step { run, step } = &options.id else {
        return Err(UsageError("only rulings on steps of runs are proposed and confirmed".into()).into());
    };
    let asked = options.request();
    let client = server.connect()?;
    let proposed =
        client.propose_ruling(&run.to_string(), step.as_str(), &asked, options.key.options()).await?;
    options.shape.show(&proposed, || {
        format!(
            "step {} of run {run}: proposed as {}; somebody else confirms it with hapax doubts confirm {run}/{} --proposal {} --seen {}\n",
            plain(step.as_str()),
            options.decision().as_str(),
            plain(step.as_str()),
            proposed.proposal_id,
            options.seen,
        )
    })
}

async fn decide_on_server(options: &Options, server: &ServerOptions) -> Result<Option<hapax_api::Actor>> {
    let client = server.connect()?;
    let (reason, by) = (options.reason.clone(), options.by.clone());
    match &options.id {
        DoubtId::Step { run, step } => {
            let request = options.request();
            let resolved = client
                .resolve_doubt(&run.to_string(), step.as_str(), &request, options.key.options())
                .await?;
            Ok(Some(resolved.actor))
        }
        DoubtId::Operation(id) => {
            let resolution = match options.did_not_happen {
                true => OperationResolution::DidNotHappen,
                false => OperationResolution::Happened,
            };
            let (attempt, result) = (options.attempt()?, options.result.clone());
            let request = ResolveOperation { attempt, resolution, result, reason, by };
            client.resolve_operation(&id.to_string(), &request, options.key.options()).await?;
            Ok(None)
        }
    }
}

async fn decide_in_store(options: &Options, store: &StoreOptions) -> Result<()> {
    let output = match &options.result {
        Some(result) => serde_json::from_str(result.text())?,
        None => serde_json::Value::Null,
    };
    let Some(by) = options.by.clone() else {
        return Err(
            UsageError("say who decides with --by NAME; no API key tells it for a store".into()).into()
        );
    };
    let role = match options.role {
        PersonRole::Operator => Role::Operator,
        PersonRole::Manager => Role::Manager,
    };
    let ruling = Ruling {
        resolution: match options.decision() {
            Decision::Happened => Resolution::Happened { output },
            Decision::Compensate => Resolution::Compensate { output },
            Decision::DidNotHappen => Resolution::DidNotHappen,
            Decision::Abandon => Resolution::Abandon,
        },
        by: Actor::new(by, role),
        seconded_by: options.seconded_by.clone().map(|name| Actor::new(name, Role::Operator)),
        reason: options.reason.clone(),
    };
    let engine = store.open_to_write().await?;
    let outcome = match &options.id {
        DoubtId::Step { run, step } => {
            let doubt = DoubtRef { run: *run, step: step.clone(), seen: Version::new(options.seen) };
            engine.resolve_doubt(&doubt, ruling).await
        }
        DoubtId::Operation(id) => engine.resolve_operation(*id, options.attempt()?, ruling).await.map(drop),
    };
    let closed = effect_store::close(&engine).await;
    outcome.map_err(with_remedy).and(closed)
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Happened,
    DidNotHappen,
    Compensate,
    Abandon,
}

impl Decision {
    fn as_str(self) -> &'static str {
        match self {
            Decision::Happened => "happened",
            Decision::DidNotHappen => "did_not_happen",
            Decision::Compensate => "compensate",
            Decision::Abandon => "abandon",
        }
    }
}

impl Options {
    /// The decision about a step, as the server takes it.
    fn request(&self) -> ResolveDoubt {
        ResolveDoubt {
            resolution: match self.decision() {
                Decision::Happened => hapax_api::Resolution::Happened,
                Decision::Compensate => hapax_api::Resolution::Compensate,
                Decision::DidNotHappen => hapax_api::Resolution::DidNotHappen,
                Decision::Abandon => hapax_api::Resolution::Abandon,
            },
            output: self.result.clone(),
            reason: self.reason.clone(),
            version: self.seen,
            by: self.by.clone(),
        }
    }

    fn decision(&self) -> Decision {
        match (self.happened, self.did_not_happen, self.compensate) {
            (true, _, _) => Decision::Happened,
            (_, true, _) => Decision::DidNotHappen,
            (_, _, true) => Decision::Compensate,
            (false, false, false) => Decision::Abandon,
        }
    }

    fn check(&self) -> Result<()> {
        let needs_result = self.happened || self.compensate;
        let refused = match &self.id {
            DoubtId::Step { .. } if needs_result && self.result.is_none() => {
                "say what the step gave with --result JSON; null if it gave nothing"
            }
            DoubtId::Operation(_) if self.compensate || self.abandon => {
                "an operation either happened or did not: give --happened or --did-not-happen"
            }
            _ => return Ok(()),
        };
        Err(UsageError(refused.into()).into())
    }

    /// The attempt of an operation that `--seen` names.
    fn attempt(&self) -> Result<u32> {
        u32::try_from(self.seen).map_err(|_| UsageError(format!("there is no attempt {}", self.seen)).into())
    }

    /// Description of an effect that cannot be undone.
    fn irreversible(&self) -> Option<String> {
        let what = match &self.id {
            DoubtId::Step { run, step } => format!("{} of {run}", plain(step.as_str())),
            DoubtId::Operation(id) => {
                return self
                    .did_not_happen
                    .then(|| format!("give the claim of {id} back, so that its step can be taken again"));
            }
        };
        match self.decision() {
            Decision::DidNotHappen => Some(format!("run {what} again")),
            Decision::Compensate => Some(format!("undo {what}")),
            Decision::Abandon => Some(format!("count {what} as failed, whatever its outcome")),
            Decision::Happened => None,
        }
    }
}

/// The error, with the command to give next where there is one.
fn with_remedy(error: Error) -> anyhow::Error {
    let remedy = match &error {
        Error::NoSuchDoubt { .. } => "`hapax doubts list` shows them as they are now",
        Error::DoubtResolved { .. } => "`hapax audit` shows who decided and why",
        Error::Ruling(RulingError::NeedsManager(_)) => "give --role manager or --seconded-by another NAME",
        Error::RulingNotPossible { .. } => "give --happened --result JSON, or --abandon",
        Error::NoSuchRun(_) => "check the run, the --store and the --workspace",
        _ => return error.into(),
    };
    anyhow!("{error}; {remedy}")
}

//! `hapax doubts resolve`.

use anyhow::{Result, anyhow};
use hapax::model::{RulingError, StepId, Version};
use hapax::{Actor, DoubtRef, Error, Resolution, Role, Ruling, RunId};
use hapax_api::{RawJson, ResolveDoubt};
use serde_json::{Value, json};

use crate::confirmation::confirm_at;
use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::output::for_people::plain;
use crate::output::shape::ShapeOptions;
use crate::person::{Person, not_blank};
use crate::server_options::ServerOptions;
use crate::spelling::spelled;
use crate::terms::KeyOptions;

const EXAMPLES: &str = "\
Examples:
  hapax doubts resolve RUN wire --seen 7 --happened '{\"transfer\":\"tx-41\"}' \\
      --by ada --reason 'the bank shows it'                          on the server
  hapax doubts resolve RUN wire --seen 7 --happened '{\"transfer\":\"tx-41\"}' \\
      --by ada --reason 'the bank shows it' --store sqlite:orders.db
  hapax doubts resolve RUN wire --seen 7 --did-not-happen \\
      --by ada --seconded-by grace --reason 'the bank has no such transfer' --store sqlite:orders.db --yes
  hapax doubts resolve RUN wire --seen 7 --abandon \\
      --by grace --role manager --reason 'the bank no longer exists' --store postgres://localhost/orders --yes

What cannot be taken back (all but --happened) needs an API key of the role manager; with --store, where nobody's key is asked
for, --role manager or a second person. It is asked about unless --yes is given. A decision counts once, for the doubt as it was seen; anything
else is refused with 1 and changes nothing. While a process owns the SQLite file, stop it, or decide in that process.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The run, as `hapax doubts list` shows it.
    run: RunId,
    /// The step, as it shows it.
    #[arg(value_parser = not_blank)]
    step: String,
    /// The version it showed under `seen`.
    #[arg(long, value_name = "VERSION")]
    seen: u64,
    #[command(flatten)]
    decision: Decision,
    #[command(flatten)]
    person: Person,
    /// A second person who agrees; on a server the role of the API key decides.
    #[arg(long, value_name = "NAME", value_parser = not_blank, requires = "store")]
    seconded_by: Option<String>,
    #[command(flatten)]
    source: StoreOrServer,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Decision {
    /// It happened, and gave this.
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    happened: Option<Value>,
    /// It did not happen; it is run.
    #[arg(long)]
    did_not_happen: bool,
    /// It happened, gave this, and is to be undone by the compensation of the step.
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    compensate: Option<Value>,
    /// Nobody will ever know; the step counts as failed.
    #[arg(long)]
    abandon: bool,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let store = options.source.store();
    if let Some(what) = options.irreversible() {
        let place = store.as_ref().map_or_else(|| server.name().to_owned(), StoreOptions::shown);
        confirm_at(&place, &what, server).await?;
    }
    match store {
        Some(store) => in_store(&options, &store).await,
        None => on_server(&options, server).await,
    }
}

async fn on_server(options: &Options, server: &ServerOptions) -> Result<()> {
    let output = options.decision.happened.as_ref().or(options.decision.compensate.as_ref());
    let asked = ResolveDoubt {
        resolution: options.decision.on_wire(),
        output: output.map(RawJson::from_value).transpose()?,
        reason: options.person.reason.clone(),
        version: options.seen,
        by: Some(options.person.actor().name),
    };
    let run = options.run.to_string();
    let resolved = server.connect()?.resolve_doubt(&run, &options.step, &asked, options.key.terms()).await?;
    let decided = spelled(&resolved.resolution);
    options.shape.show(&resolved, || told(&options.step, &run, &decided))
}

fn told(step: &str, run: &str, decided: &str) -> String {
    format!("step {} of run {run}: {decided}; a run that waits for it goes on\n", plain(step))
}

async fn in_store(options: &Options, store: &StoreOptions) -> Result<()> {
    let resolution = options.decision.resolution()?;
    let decided = resolution.as_str();
    let second = options.seconded_by.clone();
    let ruling = Ruling {
        resolution,
        by: options.person.actor(),
        seconded_by: second.map(|name| Actor::new(name, Role::Operator)),
        reason: options.person.reason.clone(),
    };
    let doubt = DoubtRef {
        run: options.run,
        step: StepId::from_stored(&options.step),
        seen: Version::new(options.seen),
    };
    let engine = store.open_to_write().await?;
    let outcome = engine.resolve_doubt(&doubt, ruling).await.map_err(with_remedy);
    let closed = effect_store::close(&engine).await;
    outcome.and(closed)?;
    let (run, step) = (doubt.run.to_string(), doubt.step);
    let value = json!({ "run": run, "step": step.as_str(), "resolution": decided });
    options.shape.show(&value, || told(step.as_str(), &run, decided))
}

impl Options {
    /// What would be done that cannot be taken back.
    fn irreversible(&self) -> Option<String> {
        let (step, run) = (plain(&self.step), self.run);
        match &self.decision {
            Decision { did_not_happen: true, .. } => Some(format!("have {step} of {run} run once more")),
            Decision { compensate: Some(_), .. } => Some(format!("have what {step} of {run} did undone")),
            Decision { abandon: true, .. } => {
                Some(format!("count {step} of {run} as failed, whatever became of it"))
            }
            Decision { happened: _, did_not_happen: false, compensate: None, abandon: false } => None,
        }
    }
}

impl Decision {
    fn on_wire(&self) -> hapax_api::Resolution {
        match (&self.happened, &self.compensate, self.did_not_happen) {
            (Some(_), _, _) => hapax_api::Resolution::Happened,
            (None, Some(_), _) => hapax_api::Resolution::Compensate,
            (None, None, true) => hapax_api::Resolution::DidNotHappen,
            (None, None, false) => hapax_api::Resolution::Abandon,
        }
    }

    fn resolution(&self) -> Result<Resolution> {
        match (&self.happened, &self.compensate) {
            (Some(output), _) => Ok(Resolution::Happened { output: output.clone() }),
            (None, Some(output)) => Ok(Resolution::Compensate { output: output.clone() }),
            (None, None) if self.did_not_happen => Ok(Resolution::DidNotHappen),
            (None, None) if self.abandon => Ok(Resolution::Abandon),
            (None, None) => Err(anyhow!("say what is decided, such as --did-not-happen")),
        }
    }
}

/// The error, with the command to give next where there is one.
fn with_remedy(error: Error) -> anyhow::Error {
    let remedy = match &error {
        Error::NoSuchDoubt { .. } => "`hapax doubts list` shows them as they are now",
        Error::DoubtResolved { .. } => "`hapax audit` tells by whom and why",
        Error::Ruling(RulingError::NeedsManager(_)) => "give --role manager or --seconded-by another NAME",
        Error::RulingNotPossible { .. } => "give --happened JSON or --abandon",
        Error::NoSuchRun(_) => "check the run, the --store and the --workspace",
        _ => return error.into(),
    };
    anyhow!("{error}; {remedy}")
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("it is not JSON ({error}); a text needs quotes of its own: '\"tx-41\"'"))
}

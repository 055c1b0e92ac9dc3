//! `hapax admin outbox redeliver`.

use anyhow::{Result, anyhow};
use hapax::Error;
use hapax::model::EffectKey;

use super::list::row;
use crate::effect_store::{self, StoreOptions};
use crate::output::shape::ShapeOptions;
use crate::person::{Person, not_blank};

const EXAMPLES: &str = "\
Examples:
  hapax admin outbox redeliver run_018f…:mail --by ada --reason 'the receiver is up again' --store sqlite:orders.db

The next program that receives for its target delivers it. The id stays the same, so a receiver that has it already can
tell. While a process owns the SQLite file, stop it, or do it in that process.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The after-effect, as `hapax admin outbox list` shows it.
    #[arg(value_parser = not_blank)]
    id: String,
    #[command(flatten)]
    person: Person,
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options) -> Result<()> {
    let id = EffectKey::from_stored(&options.id);
    let engine = options.store.open_to_write().await?;
    let outcome = engine.redeliver(&id, options.person.actor(), &options.person.reason).await;
    let closed = effect_store::close(&engine).await;
    let post = outcome.map_err(with_remedy)?;
    closed?;
    options
        .shape
        .show(&row(&post)?, || format!("after-effect {} is due again for {}\n", post.id, post.target))
}

/// The error, with the command to give next where there is one.
fn with_remedy(error: Error) -> anyhow::Error {
    match &error {
        Error::NoSuchAfterEffect(_) => anyhow!("{error}; `hapax admin outbox list` shows all messages"),
        _ => error.into(),
    }
}

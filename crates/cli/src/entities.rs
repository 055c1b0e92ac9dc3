//! `hapax entities`: business objects of a server, and the steps that move them.

mod create;
mod list;
mod note;
mod operations;
mod show;
mod step;
mod workflows;

use anyhow::Result;

use crate::parsers::word;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax entities create invoice INV-7 --status approved --data '{\"total\":120}'
  hapax entities show invoice INV-7 --requester admin
  hapax entities step invoice INV-7 close --requester admin --key close-INV-7
  hapax entities note invoice INV-7 'the customer called'
  hapax entities override invoice INV-7 refund --reason 'the bank shows no refund'

An entity workflow (`hapax apply`, `hapax entities workflows`) says which steps move an entity. Each step that somebody takes is an
operation (`hapax entities operations`).";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create an entity.
    Create(create::Options),
    /// List entities of a type.
    List(list::Options),
    /// Show an entity: its status, its current operation, and the steps it can take.
    Show(show::Options),
    /// Take a step with an entity.
    Step(step::StepOptions),
    /// Take an irreversible step that may have happened already. For managers.
    Override(step::OverrideOptions),
    /// Add a note to an entity.
    Note(note::NoteOptions),
    /// List the notes on an entity.
    Notes(note::NotesOptions),
    /// List the steps that were taken, and show the outcome of one.
    Operations(operations::Options),
    /// List entity workflows, show one, or draw it.
    Workflows(workflows::Options),
}

/// An entity by its name.
#[derive(Debug, clap::Args)]
struct EntityArgument {
    /// The type of the entity.
    #[arg(value_name = "TYPE", value_parser = word)]
    kind: String,
    /// Its id.
    #[arg(value_parser = word)]
    id: String,
}

impl EntityArgument {
    fn pair(&self) -> (&str, &str) {
        (&self.kind, &self.id)
    }
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Create(options) => create::run(options, server).await,
        Command::List(options) => list::run(options, server).await,
        Command::Show(options) => show::run(options, server).await,
        Command::Step(options) => step::take(options, server).await,
        Command::Override(options) => step::take_anyway(options, server).await,
        Command::Note(options) => note::add(options, server).await,
        Command::Notes(options) => note::list(options, server).await,
        Command::Operations(options) => operations::run(options, server).await,
        Command::Workflows(options) => workflows::run(options, server).await,
    }
}

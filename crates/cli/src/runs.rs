//! `hapax runs`: start, read, watch and steer runs.

mod answer;
mod history;
mod list;
mod note;
mod result;
mod reveal;
mod show;
mod signal;
mod steer;
mod timeline;
pub(crate) mod watch;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax runs list --subject ORDER-4711
  hapax runs watch run_018f…
  hapax runs list --status FAILED,PAUSED
  hapax runs retry run_018f… --reason 'the provider is up again'
  hapax runs result run_018f… --wait | jq .total";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List runs, the newest first.
    List(list::Options),
    /// Show one run with its steps.
    Show(show::Options),
    /// List the events of a run as a whole, oldest first.
    History(history::Options),
    /// Watch a run as it happens, until it ends.
    Watch(watch::Options),
    /// Cancel a run: it compensates and ends.
    Cancel(steer::CancelOptions),
    /// Pause a run at the next step boundary.
    Pause(steer::Options),
    /// Resume a paused run.
    Resume(steer::Options),
    /// Reopen a failed run.
    Retry(steer::RetryOptions),
    /// Send a run a signal.
    Signal(signal::Options),
    /// Approve, reject or edit what a run asks for.
    Answer(answer::Options),
    /// Print the output of a run.
    Result(result::Options),
    /// Leave a note on a run.
    Note(note::Options),
    /// Show a run with the values that are masked, with a reason. The audit log has an entry of it.
    Reveal(reveal::Options),
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::List(options) => list::run(options, server).await,
        Command::Show(options) => show::run(options, server).await,
        Command::History(options) => history::run(options, server).await,
        Command::Watch(options) => watch::run(options, server).await,
        Command::Cancel(options) => steer::cancel(options, server).await,
        Command::Pause(options) => steer::pause(options, server).await,
        Command::Resume(options) => steer::resume(options, server).await,
        Command::Retry(options) => steer::retry(options, server).await,
        Command::Signal(options) => signal::run(options, server).await,
        Command::Answer(options) => answer::run(options, server).await,
        Command::Result(options) => result::run(options, server).await,
        Command::Note(options) => note::run(options, server).await,
        Command::Reveal(options) => reveal::run(options, server).await,
    }
}

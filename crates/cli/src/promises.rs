//! `hapax promises`: create, read and settle promises, and issue settle tokens.

mod create;
mod early;
mod list;
mod promise_table;
mod settle;
mod show;
mod token;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax promises list --status PENDING
  hapax promises resolve key:stripe:ch_1 --value '{\"paid\":true}'
  hapax promises reject id:run_018f…:payment --message 'the card was declined'
  hapax promises token key:stripe:ch_1 --expires-in-seconds 3600
  hapax promises early

A promise is named id:ID, or key:KEY by its business key.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a promise without a run.
    Create(create::Options),
    /// List promises.
    List(list::Options),
    /// Show one promise.
    Show(show::Options),
    /// Give a promise its value.
    Resolve(settle::ResolveOptions),
    /// Reject a promise.
    Reject(settle::RejectOptions),
    /// Create an address that settles a promise without an API key, and print it once.
    Token(token::Options),
    /// List settlements that came before their promise and wait for it.
    Early(early::Options),
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Create(options) => create::run(options, server).await,
        Command::List(options) => list::run(options, server).await,
        Command::Show(options) => show::run(options, server).await,
        Command::Resolve(options) => settle::resolve(options, server).await,
        Command::Reject(options) => settle::reject(options, server).await,
        Command::Token(options) => token::run(options, server).await,
        Command::Early(options) => early::run(options, server).await,
    }
}

/// The name of a promise: `id:…` or `key:…`.
fn promise(text: &str) -> Result<String, String> {
    let word = crate::parsers::word(text)?;
    match word.starts_with("id:") || word.starts_with("key:") {
        true => Ok(word),
        false => Err("name it id:ID, or key:KEY by its business key".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S4.30: what is behind the prefix may hold colons.
    #[test]
    fn a_promise_is_named_by_id_or_by_key() {
        assert_eq!(promise("key:stripe:ch_1").as_deref(), Ok("key:stripe:ch_1"));
        assert!(promise("id:run_1:paid").is_ok());
        assert!(promise("stripe:ch_1").unwrap_err().contains("key:KEY"));
        assert!(promise("").is_err());
    }
}

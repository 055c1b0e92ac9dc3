//! Asks before an action that cannot be undone.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, bail};

use crate::exit_codes::UsageError;
use crate::output::{is_watched, say};
use crate::server_options::ServerOptions;

/// Continues if `--yes` was given or a person agrees. Fails if there is no person to ask.
pub(crate) async fn confirm(what: &str, server: &ServerOptions) -> Result<()> {
    confirm_at(&server.name()?, what, server).await
}

/// Like `confirm`, for an action elsewhere than on a server, such as in a store.
pub(crate) async fn confirm_at(place: &str, what: &str, server: &ServerOptions) -> Result<()> {
    if server.is_agreed() {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !is_watched() || server.key_is_on_stdin() {
        return Err(UsageError(format!("this would {what}; give --yes to confirm. Nothing was done")).into());
    }
    say(&format!("This will {what}, on {place}. Continue? [y/N]"));
    // In a thread of its own, so that a signal can interrupt it.
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let answer = answer.await.context("the answer was not read")?.context("the answer was not read")?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was done"),
    }
}

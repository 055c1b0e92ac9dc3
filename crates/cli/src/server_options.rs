//! Which server a command talks to, as whom, and how long it keeps trying.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use hapax_api::client::Client;

use crate::api_key;
use crate::exit_codes::Misused;
use crate::output::say;

const DEFAULT_SERVER: &str = "http://127.0.0.1:7171";

/// Options of every command that talks to a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Talking to a server")]
pub(crate) struct ServerOptions {
    /// Which server.
    #[arg(long, global = true, env = "HAPAX_SERVER", default_value = DEFAULT_SERVER, value_name = "URL")]
    server: String,
    /// A file that holds the API key; - is standard input. Without it HAPAX_API_KEY is used.
    #[arg(long, global = true, value_name = "PATH")]
    api_key_file: Option<PathBuf>,
    /// A key here would be seen by all who can list processes, so it is refused.
    #[arg(long, global = true, hide = true, value_name = "KEY", num_args = 0..=1, default_missing_value = "")]
    api_key: Option<String>,
    /// How long to try again when the server is busy or the connection is cut; changes are sent under one key and happen once.
    #[arg(long, global = true, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3_600))]
    retry_for: u64,
    /// Do what cannot be undone without asking.
    #[arg(long, short = 'y', global = true)]
    yes: bool,
}

impl ServerOptions {
    /// Refuses a secret that stands where others can see it.
    pub(crate) fn check(&self) -> Result<()> {
        if self.api_key.is_some() {
            let refused = "an API key on the command line can be seen by all who can list processes, and stays in the history \
                           of the shell; set HAPAX_API_KEY, or name a file with --api-key-file PATH (- is standard input)";
            return Err(Misused(refused.into()).into());
        }
        Ok(())
    }

    /// A client that is ready to talk.
    pub(crate) fn connect(&self) -> Result<Client> {
        let key = api_key::read(self.api_key_file.as_deref())?;
        let client = Client::new(self.name(), &key)?;
        if !is_kept_secret(client.server()) {
            say(
                "hapax: warning: the API key goes over the network in the clear; use https:// for a server on another machine",
            );
        }
        Ok(client.patience(Duration::from_secs(self.retry_for)))
    }

    /// Which server. A variable that is set but empty counts as not set.
    pub(crate) fn name(&self) -> &str {
        match self.server.as_str() {
            "" => DEFAULT_SERVER,
            server => server,
        }
    }

    /// May things be done without asking?
    pub(crate) fn is_agreed(&self) -> bool {
        self.yes
    }

    /// Does standard input hold the key?
    pub(crate) fn key_is_on_stdin(&self) -> bool {
        self.api_key_file.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

fn is_kept_secret(server: &str) -> bool {
    let Some(rest) = server.strip_prefix("http://") else { return true };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_clear_stays_on_this_machine() {
        for safe in ["https://h", "http://127.0.0.1:7171", "http://localhost", "http://[::1]:80/x"] {
            assert!(is_kept_secret(safe), "{safe}");
        }
        for open in
            ["http://h", "http://10.0.0.1:80", "http://localhost.example", "http://127.0.0.1.example:1"]
        {
            assert!(!is_kept_secret(open), "{open}");
        }
    }
}

//! The server that a command talks to, the API key it shows, and how long it retries.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;
use clap::parser::ValueSource;
use hapax_api::client::Client;
use secrecy::SecretString;

use crate::api_key;
use crate::exit_codes::{MissingApiKey, UsageError};
use crate::output::say;
use crate::output::tables::plain;
use crate::parsers::{duration, word};
use crate::profiles::{Profile, Profiles};
use crate::store_url::without_secrets;

pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:7171";

/// Options of every command that talks to a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Talking to a server")]
pub(crate) struct ServerOptions {
    /// Address of the server [default: the profile's server, or http://127.0.0.1:7171].
    #[arg(long, global = true, env = "HAPAX_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Profile to use, as `hapax login` stored it [default: the last one].
    #[arg(long, global = true, env = "HAPAX_PROFILE", value_name = "NAME", value_parser = word)]
    profile: Option<String>,
    /// File that holds the API key; - is standard input [default: HAPAX_API_KEY, or the key of the profile].
    #[arg(long, global = true, value_name = "PATH")]
    api_key_file: Option<PathBuf>,
    /// Rejected: others could see a key on the command line.
    #[arg(long, global = true, hide = true, value_name = "KEY", num_args = 0..=1, default_missing_value = "")]
    api_key: Option<String>,
    /// How long to retry when the server is busy or the connection is cut. A change is sent under one key, so it happens once.
    #[arg(long, global = true, default_value = "10s", value_name = "DURATION", value_parser = retry_time)]
    retry_for: Duration,
    /// Do not ask for confirmation before irreversible actions.
    #[arg(long, short = 'y', global = true)]
    yes: bool,
    /// Was `--server` typed, rather than taken from the environment?
    #[arg(skip)]
    server_is_typed: bool,
}

/// Longest retry time of a command.
const MAX_RETRY_TIME: Duration = Duration::from_secs(3_600);

fn retry_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time > MAX_RETRY_TIME => Err("use at most 1h".into()),
        time => Ok(time),
    }
}

/// Where an address or a key was taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Option(&'static str),
    Variable(&'static str),
    File(PathBuf),
    Profile(String),
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Option(name) | Origin::Variable(name) => f.write_str(name),
            Origin::File(path) if path.as_os_str() == "-" => f.write_str("standard input"),
            Origin::File(path) => write!(f, "the file {}", plain(&path.display().to_string())),
            Origin::Profile(name) => write!(f, "the profile {}", plain(name)),
            Origin::Default => f.write_str("the default"),
        }
    }
}

/// The server that a command talks to, and the stored key for it.
struct Target {
    server: String,
    server_from: Origin,
    /// Profile whose server this is. Its key goes to no other server.
    profile: Option<(String, Profile)>,
    /// The profile was asked for by name, so its key goes before the environment's.
    is_named: bool,
}

impl ServerOptions {
    /// Notes what was typed, because that goes before a profile and the environment does not.
    pub(crate) fn set_sources(&mut self, matches: &ArgMatches) {
        self.server_is_typed = matches.value_source("server") == Some(ValueSource::CommandLine);
    }

    /// Rejects a secret that others can see.
    pub(crate) fn check(&self) -> Result<()> {
        if self.api_key.is_some() {
            let refused = "an API key on the command line can be seen by all who can list processes, and stays in the history \
                           of the shell; set HAPAX_API_KEY, or name a file with --api-key-file PATH (- is standard input)";
            return Err(UsageError(refused.into()).into());
        }
        Ok(())
    }

    /// A client that is ready to talk.
    pub(crate) fn connect(&self) -> Result<Client> {
        let target = self.target()?;
        let (key, _) = self.key(&target)?;
        self.connect_with(&target.server, &key)
    }

    pub(crate) fn connect_with(&self, server: &str, key: &SecretString) -> Result<Client> {
        let client = Client::new(server, key)?;
        if !is_kept_secret(client.server()) {
            say(
                "hapax: warning: the API key goes over the network in the clear; use https:// for a server on another machine",
            );
        }
        Ok(client.patience(self.retry_for))
    }

    /// Address of the server.
    pub(crate) fn name(&self) -> Result<String> {
        Ok(self.target()?.server)
    }

    /// Address of the server and where it was taken from; `None` if the profiles cannot be read.
    pub(crate) fn server_origin(&self) -> Option<(String, Origin)> {
        let target = self.target().ok()?;
        Some((target.server, target.server_from))
    }

    /// Where the API key was taken from, if there is one.
    pub(crate) fn key_origin(&self) -> Option<Origin> {
        let target = self.target().ok()?;
        match &self.api_key_file {
            // Reading it again would wait for more input.
            Some(path) => Some(Origin::File(path.clone())),
            None => self.key(&target).ok().map(|(_, origin)| origin),
        }
    }

    /// Name of the profile that was asked for.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.profile.as_deref().filter(|name| !name.is_empty())
    }

    pub(crate) fn api_key_file(&self) -> Option<&std::path::Path> {
        self.api_key_file.as_deref()
    }

    /// Address that was given by option or environment. An empty variable counts as not set.
    pub(crate) fn given_server(&self) -> Option<&str> {
        self.server.as_deref().filter(|server| !server.is_empty())
    }

    fn target(&self) -> Result<Target> {
        let given = self.given_server();
        let given_from = match self.server_is_typed {
            true => Origin::Option("--server"),
            false => Origin::Variable("HAPAX_SERVER"),
        };
        let profiles = Profiles::read()?;
        let named = self.profile();
        let found = match named {
            Some(name) => Some((name.to_owned(), profiles.get(name)?)),
            None => profiles.current(),
        };
        let is_named = named.is_some();
        Ok(match (given, found) {
            (Some(given), found) if self.server_is_typed || !is_named => {
                let profile = found.filter(|(_, profile)| is_same_server(&profile.server, given));
                Target { server: given.to_owned(), server_from: given_from, profile, is_named }
            }
            (_, Some((name, profile))) => Target {
                server: profile.server.clone(),
                server_from: Origin::Profile(name.clone()),
                profile: Some((name, profile)),
                is_named,
            },
            (_, None) => Target {
                server: DEFAULT_SERVER.into(),
                server_from: Origin::Default,
                profile: None,
                is_named,
            },
        })
    }

    fn key(&self, target: &Target) -> Result<(SecretString, Origin)> {
        if let Some(path) = &self.api_key_file {
            return Ok((api_key::from_file(path)?, Origin::File(path.clone())));
        }
        let stored = target.profile.as_ref().map(|(name, profile)| (name, &profile.api_key));
        if let (true, Some((name, key))) = (target.is_named, stored) {
            return Ok((api_key::check(key)?, Origin::Profile(name.clone())));
        }
        if let Some(key) = api_key::from_environment()? {
            return Ok((key, Origin::Variable(api_key::VARIABLE)));
        }
        match stored {
            Some((name, key)) => Ok((api_key::check(key)?, Origin::Profile(name.clone()))),
            None => Err(MissingApiKey(format!(
                "no API key for {}: set {}, name a file with --api-key-file PATH, or store a key with `hapax login`",
                plain(&without_secrets(&target.server)),
                api_key::VARIABLE
            ))
            .into()),
        }
    }

    /// Was `--yes` given?
    pub(crate) fn is_agreed(&self) -> bool {
        self.yes
    }

    /// Does standard input hold the key?
    pub(crate) fn key_is_on_stdin(&self) -> bool {
        self.api_key_file.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

fn is_same_server(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
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
    fn a_key_is_sent_in_the_clear_only_on_this_machine() {
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

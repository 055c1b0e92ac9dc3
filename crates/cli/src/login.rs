//! `hapax login`: stores the address of a server and an API key as a profile.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use hapax_api::client::Paging;
use secrecy::{ExposeSecret, SecretString};

use crate::api_key;
use crate::exit_codes::MissingApiKey;
use crate::output::tables::plain;
use crate::output::{self, say};
use crate::profiles::{Profile, Profiles};
use crate::server_options::{DEFAULT_SERVER, ServerOptions};

const EXAMPLES: &str = "\
Examples:
  hapax login --server https://hapax.example                         asks for the key
  hapax login --api-key-file .hapax/api-key                          the server of `hapax dev`
  hapax login --profile staging --server https://hapax.staging.example < key

The key comes from --api-key-file, HAPAX_API_KEY or standard input. It is tried on the server before it is stored. The profile is
used from then on where no server and no key are given.";

/// Profile that is stored where none is named.
const DEFAULT_PROFILE: &str = "default";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {}

pub(crate) async fn run(_: Options, options: &ServerOptions) -> Result<()> {
    let mut profiles = Profiles::read()?;
    let name = options.profile().unwrap_or(DEFAULT_PROFILE);
    let known = profiles.get(name).ok().map(|profile| profile.server);
    let server = options.given_server().map(str::to_owned).or(known);
    let server = server.unwrap_or_else(|| DEFAULT_SERVER.into());
    let key = read_key(options, &server).await?;
    let client = options.connect_with(&server, &key)?;
    // Every role may list workflows, so this fails only if the key or the server is wrong.
    client.list_definitions(&Paging { limit: Some(1), cursor: None }).await?;
    let server = client.server().to_owned();
    profiles.put(name, Profile { server: server.clone(), api_key: key.expose_secret().to_owned() });
    let path = profiles.write()?;
    say(&format!("hapax: stored in {}, for you alone", path.display()));
    output::print(&format!("logged in to {} (profile {})\n", plain(&server), plain(name)))
}

async fn read_key(options: &ServerOptions, server: &str) -> Result<SecretString> {
    if let Some(path) = options.api_key_file() {
        return api_key::from_file(path);
    }
    if let Some(key) = api_key::from_environment()? {
        return Ok(key);
    }
    if io::stdin().is_terminal() {
        say(&format!("API key for {} (begins with hpx_; it stays visible on this screen):", plain(server)));
    }
    // In a thread of its own, so that a signal can interrupt it.
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = line.await.context("the key was not read")?.context("the key was not read")?;
    if line.trim().is_empty() {
        let refused =
            "no API key was given; set HAPAX_API_KEY, name a file with --api-key-file PATH, or type it";
        return Err(MissingApiKey(refused.into()).into());
    }
    api_key::check(&line)
}

//! `hapax profiles`: servers and API keys that `hapax login` stored.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::api_key::is_open_to_others;
use crate::bounded_file;
use crate::exit_codes::NotFound;
use crate::limits::MAX_PROFILES_BYTES;
use crate::output::say;
use crate::output::shape::ShapeOptions;
use crate::output::tables::{self, plain};
use crate::parsers::word;

const EXAMPLES: &str = "\
Examples:
  hapax login --profile staging --server https://hapax.staging.example
  hapax profiles list
  hapax profiles remove staging
  hapax runs list --profile staging

Profiles are in hapax/profiles.json under $XDG_CONFIG_HOME (or ~/.config), readable by you alone.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List stored profiles, without their keys.
    #[command(after_help = "Examples:\n  hapax profiles list\n  hapax profiles list --json | jq -r .name")]
    List(ListOptions),
    /// Remove a profile and its key from this machine. The key itself stays valid.
    #[command(
        after_help = "Examples:\n  hapax profiles remove staging\n\n`hapax admin credentials revoke ID` ends a key on the server."
    )]
    Remove(RemoveOptions),
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct RemoveOptions {
    /// Name of the profile.
    #[arg(value_parser = word)]
    name: String,
}

/// One server and the key for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Profile {
    pub(crate) server: String,
    pub(crate) api_key: String,
}

/// All profiles of this user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profiles {
    /// Default profile: the profile of the last login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// One profile in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileRow<'a> {
    name: &'a str,
    server: &'a str,
    is_current: bool,
}

/// File of the profiles; `None` if there is no home folder.
fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(folder.join("hapax").join("profiles.json"))
}

impl Profiles {
    /// Reads the stored profiles; none if nobody ever logged in.
    pub(crate) fn read() -> Result<Self> {
        let Some(path) = path().filter(|path| path.exists()) else { return Ok(Profiles::default()) };
        if is_open_to_others(&path) {
            say(&format!(
                "hapax: warning: others on this machine can read {0}; close it with: chmod 600 {0}",
                path.display()
            ));
        }
        let text = bounded_file::read_text(&path, MAX_PROFILES_BYTES)?;
        serde_json::from_str(&text).with_context(|| {
            format!("{} cannot be read; remove it and log in again with `hapax login`", path.display())
        })
    }

    pub(crate) fn get(&self, name: &str) -> Result<Profile> {
        self.profiles.get(name).cloned().ok_or_else(|| {
            let shown = plain(name);
            NotFound(format!(
                "there is no profile {shown}; `hapax profiles list` shows them, `hapax login --profile {shown}` stores one"
            ))
            .into()
        })
    }

    /// The profile to use where none is named.
    pub(crate) fn current(&self) -> Option<(String, Profile)> {
        let name = self.current.clone()?;
        let profile = self.profiles.get(&name).cloned()?;
        Some((name, profile))
    }

    /// Adds or replaces a profile, and makes it the current one.
    pub(crate) fn put(&mut self, name: &str, profile: Profile) {
        self.profiles.insert(name.to_owned(), profile);
        self.current = Some(name.to_owned());
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.get(name)?;
        self.profiles.remove(name);
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
        Ok(())
    }

    /// Stores the profiles for their owner alone. A crash leaves the old file or the new one.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let path = path().context("there is no folder for profiles; set XDG_CONFIG_HOME or HOME")?;
        let folder = path.parent().unwrap_or(&path);
        let written = || -> Result<()> {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            // Temporary files are made with mode 0600.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            writeln!(file)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        written().with_context(|| format!("the profile cannot be stored in {}", path.display()))?;
        Ok(path)
    }
}

pub(crate) fn run(options: Options) -> Result<()> {
    let mut profiles = Profiles::read()?;
    match options.command {
        Command::List(ListOptions { shape }) => {
            let rows: Vec<ProfileRow> = profiles
                .profiles
                .iter()
                .map(|(name, profile)| ProfileRow {
                    name,
                    server: &profile.server,
                    is_current: profiles.current.as_ref() == Some(name),
                })
                .collect();
            shape.show_all(&rows, || table(&rows))
        }
        Command::Remove(RemoveOptions { name }) => {
            profiles.remove(&name)?;
            profiles.write()?;
            crate::output::print(&format!("profile {} removed\n", plain(&name)))
        }
    }
}

fn table(rows: &[ProfileRow]) -> String {
    if rows.is_empty() {
        return "there are no profiles; `hapax login` stores one\n".into();
    }
    let mut table = tables::table(["profile", "server", "current"]);
    for row in rows {
        let current = if row.is_current { "yes" } else { "" };
        table.add_row([plain(row.name), plain(row.server), current.into()]);
    }
    format!("{table}\n")
}

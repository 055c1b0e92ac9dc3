//! `cargo xtask advisories`: known vulnerabilities in crates that we use. It needs the network, so `verify` leaves it out.

use anyhow::{Result, bail};

use crate::command_line::workspace_root;
use crate::tool::Tool;

/// Programs for the check, each with its arguments, and those for a machine without the network. The first one found is used; both read the list
/// of the RustSec project.
const ASKED: [Program; 2] = [
    Program {
        name: "cargo-deny",
        fetching: &["deny", "check", "advisories"],
        offline: &["deny", "--offline", "check", "advisories"],
    },
    Program {
        name: "cargo-audit",
        fetching: &["audit", "--deny", "unsound"],
        offline: &["audit", "--no-fetch", "--stale", "--deny", "unsound"],
    },
];

struct Program {
    name: &'static str,
    fetching: &'static [&'static str],
    offline: &'static [&'static str],
}

#[derive(clap::Args)]
#[command(long_about = ABOUT)]
pub(crate) struct Options {
    /// Use the list that an earlier check fetched
    #[arg(long)]
    offline: bool,
}

const ABOUT: &str = "\
Check the crates of this project for known vulnerabilities, with cargo-deny or cargo-audit.

It needs the network: the list of the RustSec project is fetched from github.com. `verify` leaves it out for that reason, and checks licences, bans,
second versions and sources without it. On a machine without the network, run it with --offline: it then uses the list that an earlier check left in
~/.cargo/advisory-dbs (cargo-deny) or ~/.cargo/advisory-db (cargo-audit). That folder can be copied from another machine.";

/// What to do where the list cannot be fetched.
const WITHOUT_NETWORK: &str = "\
  did it find no list? It is fetched from github.com/RustSec/advisory-db, so this check needs the network
  without it: copy ~/.cargo/advisory-dbs (cargo-deny) or ~/.cargo/advisory-db (cargo-audit) from a machine that ran the check,
  then: cargo xtask advisories --offline";

pub(crate) fn run(options: &Options) -> Result<()> {
    let Some(program) = ASKED.iter().find(|program| Tool::is_there(program.name)) else {
        bail!(
            "advisories need cargo-deny or cargo-audit, and the network to fetch the list of the RustSec project from github.com\n  \
             get one with: cargo install --locked cargo-deny"
        );
    };
    let arguments = if options.offline { program.offline } else { program.fetching };
    println!("==> advisories, by {}: cargo {}", program.name, arguments.join(" "));
    Tool::new("cargo")
        .args(arguments)
        .within(workspace_root())
        .show()
        .map_err(|error| error.context(format!("the check failed\n{WITHOUT_NETWORK}")))
}

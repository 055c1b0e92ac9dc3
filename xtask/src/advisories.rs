//! `cargo xtask advisories`: known vulnerabilities in crates that we use. It needs the network, so `verify` leaves it out.

use anyhow::{Result, bail};

use crate::command_line::workspace_root;
use crate::tool::Tool;

/// Programs for the check, each with its arguments. The first one found is used; both read the list
/// of the RustSec project.
const ASKED: [(&str, &[&str]); 2] =
    [("cargo-deny", &["deny", "check", "advisories"]), ("cargo-audit", &["audit", "--deny", "unsound"])];

pub(crate) fn run() -> Result<()> {
    let Some((program, arguments)) = ASKED.iter().find(|(program, _)| Tool::is_there(program)) else {
        bail!(
            "advisories need cargo-deny or cargo-audit, and the network to fetch the list of the RustSec project from github.com\n  \
             get one with: cargo install --locked cargo-deny"
        );
    };
    println!("==> advisories, by {program}: cargo {}", arguments.join(" "));
    Tool::new("cargo").args(*arguments).within(workspace_root()).show()
}

//! `hapax completions`: a script for a shell.

use anyhow::Result;
use clap_complete::Shell;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  hapax completions bash > ~/.local/share/bash-completion/completions/hapax
  hapax completions fish > ~/.config/fish/completions/hapax.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Which shell.
    shell: Shell,
}

pub(crate) fn print(options: &Options) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut crate::arguments::command(), "hapax", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

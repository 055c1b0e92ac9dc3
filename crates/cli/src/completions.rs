//! `hapax completions`: a script for a shell.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which shell.
    shell: Shell,
}

pub(crate) fn print(options: &Options) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "hapax", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

//! `cargo xtask storm`: builds the server and the storm, and runs it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::command_line::CommandLine;

#[derive(clap::Args)]
#[command(long_about = ABOUT)]
pub(crate) struct Options {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,
    /// Total time in minutes, including about 50 seconds of healing and checking
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Seed of the plan; random if absent
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Use the programs of the last build, instead of building them
    #[arg(long)]
    as_built: bool,
}

const ABOUT: &str = "\
Start real nodes on a real PostgreSQL, let clients work with them under faults, and check every promise afterwards.

Clients start runs, settle promises, send signed webhooks, pay business objects, replace their document, pause, resume, cancel and retry, and send
everything again under the same keys until it is answered. Meanwhile nodes are killed with kill -9, paused for less and for more than their lease, and restarted; proxies
cut, stall and half-open connections and lose replies, on the way to the database and to the provider; the database crashes, freezes and restarts;
and the provider is slow, charges and then cuts the connection, answers 500 after the effect, or says 404 while it still works. It writes down every
effect. Everything is on the loopback interface.

Then all faults end, people rule on doubts truthfully by the provider's record, and when everything is settled it checks:
  * no acknowledged run, webhook, settlement or operation is lost, and replays are the same byte for byte
  * no effect happened twice, and the ledger agrees with what the provider saw
  * acknowledged commands took effect, and compensation undid every effect of runs that failed or were cancelled
  * `hapax admin fsck` is clean, and nodes come up, stay up, and stop within their grace

A violation ends it with exit code 1. Its story (what clients, nodes, people and the provider did, in order) is in target/storm/seed-SEED, beside the
logs of the nodes. The same seed draws the same plan of faults and work. How processes interleave is up to the machine, so repeat a seed a few times.";

pub(crate) fn run(options: &Options) -> Result<()> {
    let built = std::env::current_exe().context("where this command lies cannot be told")?;
    let profile = built.parent().context("this command lies in no folder")?;
    if !options.as_built {
        let build = CommandLine::new("cargo build -p hapax-cli -p hapax-storm --locked");
        println!("==> the programs: {build}");
        ensure!(build.run()?.success(), "`{build}` failed");
    }
    for program in ["hapax", "hapax-storm"] {
        let is_there = profile.join(program).exists();
        ensure!(is_there, "{program} is not built; leave --as-built away to have it built");
    }
    let folder = profile.parent().context("the target folder is not where it should be")?.join("storm");
    let status = command(options, profile, &folder).status().context("the storm cannot be started")?;
    ensure!(
        status.success(),
        "the storm found violations, or could not blow ({status}); see {}",
        folder.display()
    );
    Ok(())
}

fn command(options: &Options, profile: &Path, folder: &Path) -> Command {
    let mut command = Command::new(profile.join("hapax-storm"));
    command.arg("--program").arg(profile.join("hapax")).arg("--folder").arg(folder);
    command.args(["--nodes", &options.nodes.to_string(), "--minutes", &options.minutes.to_string()]);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    command.stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_handed_on_so_that_a_storm_can_be_repeated() {
        let options = Options { nodes: 3, minutes: 2, seed: Some(17), as_built: true };
        let command = command(&options, Path::new("target/debug"), Path::new("target/storm"));
        let arguments: Vec<_> = command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
        assert!(arguments.ends_with(&["--seed".to_owned(), "17".to_owned()]), "{arguments:?}");
    }
}

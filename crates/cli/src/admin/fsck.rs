//! `hapax admin fsck`: checks the invariants of a store.

use anyhow::{Result, bail};
use hapax::fsck::{Report, Violation};
use serde::Serialize;

use crate::effect_store;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::store_url::without_secrets;

const EXAMPLES: &str = "\
Examples:
  hapax admin fsck --store sqlite:orders.db
  hapax admin fsck --store postgres://localhost/orders --json | jq .violations

It only reads, and may run beside programs that use the store; runs and operations that changed while they were read are counted as moving.
Exits with 1 if an invariant is broken.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Store to open: sqlite:PATH or postgres://… .
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// The report, for programs.
#[derive(Debug, Serialize)]
struct FsckReport {
    store: String,
    runs: usize,
    steps: usize,
    events: usize,
    keys: usize,
    after_effects: usize,
    open_promises: usize,
    open_operations: usize,
    moving: usize,
    violations: Vec<BrokenInvariant>,
    left_off: usize,
}

#[derive(Debug, Serialize)]
struct BrokenInvariant {
    invariant: u8,
    run: Option<String>,
    what: String,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let store = effect_store::open_to_look(&options.store).await?;
    let report = hapax::fsck::fsck(&*store).await?;
    options.shape.show(&report_for_programs(&options.store, &report), || {
        let lines: Vec<String> = report.to_string().lines().map(plain).collect();
        format!("{}\n", lines.join("\n"))
    })?;
    match report.violations.len() + report.left_off {
        0 => Ok(()),
        1 => bail!("1 invariant is broken; keep the store as it is and look at its logs"),
        count => bail!("{count} invariants are broken; keep the store as it is and look at its logs"),
    }
}

fn report_for_programs(store: &str, report: &Report) -> FsckReport {
    let broken = |violation: &Violation| BrokenInvariant {
        invariant: violation.invariant,
        run: violation.run.map(|run| run.to_string()),
        what: violation.what.clone(),
    };
    FsckReport {
        store: without_secrets(store),
        runs: report.runs,
        steps: report.steps,
        events: report.events,
        keys: report.keys,
        after_effects: report.posts,
        open_promises: report.promises,
        open_operations: report.operations,
        moving: report.moving + report.moving_operations,
        violations: report.violations.iter().map(broken).collect(),
        left_off: report.left_off,
    }
}

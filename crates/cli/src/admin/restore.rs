//! `hapax admin restore`: checks a backup, pauses its open runs, and puts it in place of a SQLite store.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::ArgAction;
use hapax::clock::{Clock, SystemClock};
use hapax::model::{PendingRequest, Refusal, RunCommand, RunHead, RunStatus, Timestamp};
use hapax::sqlite::Restoring;
use hapax::store::ListRuns;
use hapax::{Actor, Engine, Error, Role};
use serde::Serialize;

use super::backup::sqlite_path;
use crate::copying::{copy, size};
use crate::effect_store;
use crate::limits::MAX_SHOWN_VIOLATIONS;
use crate::output::tables::plain;
use crate::output::{say, shape::ShapeOptions};

const EXAMPLES: &str = "\
Examples:
  hapax admin restore /backup/hapax-monday.db --to sqlite:/var/lib/hapax/hapax.db
  hapax admin restore /backup/hapax-monday.db --to sqlite:/var/lib/hapax/hapax.db --force
  hapax admin restore orders-backup.db --to sqlite:orders.db --pause-open-runs false

Stop the server first, and run this as the user that serves. The command copies the backup, migrates the copy and checks it like `hapax admin fsck`. It replaces the
store only if the check finds nothing wrong. With --force it keeps the old store under another name and prints that name.

A restore does not undo effects. A run that was open at the backup may have continued since, so the command pauses it: ask your providers what
happened, then resume it with `hapax runs resume`. Runs that started after the backup are gone, with their keys. A caller that asks again starts a new
run with new effect keys. docs/operations.md says what to check before you let callers in.";

/// Name of the actor in the audit log.
const ACTOR: &str = "hapax admin restore";
const REASON: &str = "restored from a backup: the run may have continued after the backup was taken";
const OPEN: [RunStatus; 3] = [RunStatus::Pending, RunStatus::Running, RunStatus::Waiting];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The backup file that `hapax admin backup` wrote.
    #[arg(value_name = "FILE")]
    backup: PathBuf,
    /// The store to restore: sqlite:PATH.
    #[arg(long, value_name = "URL")]
    to: String,
    /// Replace an existing store, and keep it under another name.
    #[arg(long)]
    force: bool,
    /// Pause all open runs, so that they send nothing before you resume them.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pause_open_runs: bool,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Output of the command.
#[derive(Debug, Serialize)]
struct RestoreReport {
    store: PathBuf,
    backup: PathBuf,
    /// Modification time of the backup file.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup_written_at: Option<String>,
    bytes: u64,
    runs: usize,
    open_runs: usize,
    paused_runs: usize,
    /// Runs with a pending cancellation, which are not paused.
    runs_being_undone: usize,
    open_operations: usize,
    open_promises: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<PathBuf>,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let target = sqlite_path(&options.to, "restore")?;
    let (backup, place, force) = (options.backup.clone(), target.clone(), options.force);
    let now = SystemClock::new().now();
    let begun =
        copy("copied", move |progress| Restoring::begin(&backup, &place, force, now, progress)).await?;
    let restoring = begun.map_err(|error| match error {
        hapax::sqlite::BackupError::Exists { .. } => anyhow::anyhow!(
            "{} exists already: give --force to replace it and keep it under another name. Nothing was changed",
            plain(&target.display().to_string())
        ),
        other => other.into(),
    })?;
    let url = format!("sqlite:{}", restoring.path().display());
    let report = check(&url, &options.backup).await?;
    let open = see_to_open_runs(&url, options.pause_open_runs).await?;
    let bytes = restoring.copied().bytes;
    let kept = restoring.finish()?;
    let told = RestoreReport {
        store: target,
        backup_written_at: written_at(&options.backup),
        backup: options.backup.clone(),
        bytes,
        runs: report.runs,
        open_runs: open.all,
        paused_runs: open.paused,
        runs_being_undone: open.being_undone,
        open_operations: report.operations,
        open_promises: report.promises,
        kept,
    };
    options.shape.show(&told, || told.to_text())?;
    say(&told.what_next());
    Ok(())
}

/// Checks the copy like `hapax admin fsck`.
async fn check(url: &str, backup: &Path) -> Result<hapax::fsck::Report> {
    let store = effect_store::open_to_look(url).await?;
    let report = hapax::fsck::fsck(&*store).await;
    store.close().await?;
    let report = report?;
    if report.is_clean() {
        return Ok(report);
    }
    for violation in report.violations.iter().take(MAX_SHOWN_VIOLATIONS) {
        say(&plain(&format!("invariant {}: {}", violation.invariant, violation.what)));
    }
    bail!(
        "{} breaks {} invariants, so it was not restored and nothing was changed: keep it, and restore an older backup",
        plain(&backup.display().to_string()),
        report.violations.len() + report.left_off
    );
}

/// Counts of open runs.
#[derive(Debug, Default)]
struct OpenRuns {
    all: usize,
    paused: usize,
    being_undone: usize,
}

async fn see_to_open_runs(url: &str, pause: bool) -> Result<OpenRuns> {
    let engine = effect_store::open_all_to_write(url).await?;
    let seen = visit_open_runs(&engine, pause).await;
    effect_store::close(&engine).await?;
    seen
}

async fn visit_open_runs(engine: &Engine, pause: bool) -> Result<OpenRuns> {
    let store = engine.store();
    let (mut seen, mut before) = (OpenRuns::default(), None);
    loop {
        let statuses = OPEN.to_vec();
        let limit = hapax::limits::MAX_PAGE;
        let page = store
            .list_runs(ListRuns {
                workspace: None,
                statuses,
                workflow: None,
                filter: Default::default(),
                before,
                limit,
            })
            .await?;
        for run in &page.runs {
            seen.all += 1;
            // A cancellation must finish: a pause would leave half of its effects undone.
            if run.head.asked == PendingRequest::Cancel {
                seen.being_undone += 1;
            } else if pause {
                pause_run(engine, &run.head).await?;
                seen.paused += 1;
            }
        }
        before = page.next;
        if before.is_none() {
            return Ok(seen);
        }
    }
}

/// Pauses one run. A run with a lease stops at its next claim, before it sends anything.
async fn pause_run(engine: &Engine, run: &RunHead) -> Result<()> {
    let here = engine.workspace(run.facts.workspace.clone());
    let by = Actor::new(ACTOR.to_owned(), Role::Operator);
    match here.command_run_by(run.id(), RunCommand::Pause, None, by, REASON).await {
        Ok(_) | Err(Error::Refused { refusal: Refusal::AlreadyRequested, .. }) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("run {} was not paused", run.id())),
    }
}

fn written_at(file: &Path) -> Option<String> {
    let modified = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()?;
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(i64::try_from(since.as_millis()).ok()?).to_string())
}

impl RestoreReport {
    fn to_text(&self) -> String {
        let shown = |path: &Path| plain(&path.display().to_string());
        let written = self.backup_written_at.as_deref().unwrap_or("at an unknown time");
        let mut text = format!(
            "restored  {} ({})\nfrom      {}, written {written}\nchecked   no invariant is broken\nruns      {}, of which {} open, {} of them paused\n",
            shown(&self.store),
            size(self.bytes),
            shown(&self.backup),
            self.runs,
            self.open_runs,
            self.paused_runs,
        );
        if let Some(kept) = &self.kept {
            text.push_str(&format!("kept      {}\n", shown(kept)));
        }
        text
    }

    /// Instructions for what to do next.
    fn what_next(&self) -> String {
        let mut lines = vec![
            "The restore did not undo any effect. Effects after the backup are not recorded in this store:"
                .to_owned(),
        ];
        if self.paused_runs > 0 {
            lines.push(
                "- Paused runs send nothing. List them with `hapax runs list --status PAUSED`, ask your providers about their effect keys (runId:stepId), \
                 then resume each with `hapax runs resume RUN`."
                    .to_owned(),
            );
        } else if self.open_runs > 0 {
            lines.push(
                "- Open runs continue when a server starts. Steps that they finished after the backup run again, under the same effect keys.".to_owned(),
            );
        }
        if self.runs_being_undone > 0 {
            let undone = self.runs_being_undone;
            lines.push(format!("- {undone} runs have a pending cancellation and are not paused: their compensations run again, under the same effect keys."));
        }
        if self.open_operations > 0 {
            let open = self.open_operations;
            lines.push(format!("- {open} entity operations were open. The janitor reverts or holds them; list them with `hapax entities operations list`."));
        }
        lines.push(
            "- Runs and keys created after the backup are gone: a caller that asks again starts a new run with new effect keys. Keys released after the \
             backup name their old run again. Compare with your providers before you let callers in."
                .to_owned(),
        );
        lines.push(
            "- After-effects and webhooks delivered after the backup are delivered again, under the same ids.".to_owned(),
        );
        plain_lines(&lines)
    }
}

fn plain_lines(lines: &[String]) -> String {
    lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n")
}

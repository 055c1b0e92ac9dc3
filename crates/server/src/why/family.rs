//! The family of a run: its ancestors, the run itself and its descendants, each with its waits.

use hapax_api as api;
use hapax_api::Problem;
use hapax_engine::Engine;
use hapax_engine::model::{Actor, Ending, JournalEvent, RunId, RunState, StepState, Timestamp};
use hapax_engine::store::RunLog;

use super::waits::{RunSituation, status};
use crate::app::App;
use crate::errors::problem_of;
use crate::limits::{MAX_WHY_ANCESTORS, MAX_WHY_DEPTH, MAX_WHY_JOURNAL_ENTRIES, MAX_WHY_RUNS, SHOW_TRIES};

/// Runs in tree order.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) runs: Vec<api::WhyRun>,
    pub(super) is_cut: bool,
}

impl Family {
    /// The most urgent sentence of a run.
    pub(super) fn sentence_of(&self, run: &str) -> Option<String> {
        let found = self.runs.iter().find(|found| found.run_id == run)?;
        Some(found.waits_for.first()?.sentence.clone())
    }
}

/// Reads the family of `run`.
pub(super) async fn read(app: &App, engine: &Engine, run: RunId) -> Result<Family, Problem> {
    let mut family = Family::default();
    let ancestors = list_ancestors(engine, run).await?;
    family.is_cut = ancestors.len() >= MAX_WHY_ANCESTORS;
    let mut depth = 0;
    for ancestor in ancestors.into_iter().rev() {
        // An ancestor may be deleted before its child.
        if let Some((shown, _)) = explain_run(app, engine, ancestor, depth, false).await? {
            family.runs.push(shown);
            depth += 1;
        }
    }
    // Depth first, so that each run comes after its parent.
    let own_depth = depth;
    let mut open = vec![(run, own_depth)];
    while let Some((id, depth)) = open.pop() {
        if family.runs.len() >= MAX_WHY_RUNS {
            family.is_cut = true;
            break;
        }
        let Some((shown, log)) = explain_run(app, engine, id, depth, id == run).await? else { continue };
        family.runs.push(shown);
        let children = list_children(&log);
        if depth - own_depth >= MAX_WHY_DEPTH {
            family.is_cut |= !children.is_empty();
            continue;
        }
        open.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    Ok(family)
}

/// Ancestors of a run, nearest first.
async fn list_ancestors(engine: &Engine, run: RunId) -> Result<Vec<RunId>, Problem> {
    let (mut ancestors, mut current) = (Vec::new(), run);
    while ancestors.len() < MAX_WHY_ANCESTORS {
        let parent = match engine.get(current).await {
            Ok(view) => view.head.facts.parent.as_ref().map(|parent| parent.run),
            Err(hapax_engine::Error::NoSuchRun(_)) if current != run => None,
            Err(error) => return Err(problem_of(&error)),
        };
        let Some(parent) = parent else { break };
        ancestors.push(parent);
        current = parent;
    }
    Ok(ancestors)
}

/// Children of the run's steps: open ones first, then ended ones, newest first.
fn list_children(log: &RunLog) -> Vec<RunId> {
    let children = |is_open: bool| {
        log.steps
            .iter()
            .filter(move |step| matches!(step.state, StepState::Waiting { .. }) == is_open)
            .filter_map(|step| step.child)
    };
    children(true).chain(children(false)).take(MAX_WHY_RUNS).collect()
}

async fn explain_run(
    app: &App,
    engine: &Engine,
    id: RunId,
    depth: u32,
    is_match: bool,
) -> Result<Option<(api::WhyRun, RunLog)>, Problem> {
    let absent = |error: hapax_engine::Error| match error {
        hapax_engine::Error::NoSuchRun(_) => Ok(None),
        error => Err(problem_of(&error)),
    };
    let (mut log, mut view) = match (engine.get_log(id).await, engine.get(id).await) {
        (Ok(log), Ok(view)) => (log, view),
        (Err(error), _) | (_, Err(error)) => return absent(error),
    };
    // If the run changes between the two reads, the steps and the status would not match.
    for _ in 0..SHOW_TRIES {
        if view.head.version == log.head.version {
            break;
        }
        (log, view) = match (engine.get_log(id).await, engine.get(id).await) {
            (Ok(log), Ok(view)) => (log, view),
            (Err(error), _) | (_, Err(error)) => return absent(error),
        };
    }
    let facts = &view.head.facts;
    let attention = engine.find_attention(&log).await.map_err(|error| problem_of(&error))?;
    let commanded_by = match view.head.state {
        RunState::Paused => find_command(engine, id, "pause").await?,
        RunState::Closed { ending: Ending::Cancelled, .. } => find_command(engine, id, "cancel").await?,
        _ => None,
    };
    let definition = app.definitions.find_document(&facts.workspace, &facts.workflow);
    let situation = RunSituation {
        view: &view,
        log: &log,
        document: definition.as_deref().map(|definition| definition.document()),
        attention: attention.as_ref(),
        commanded_by,
        lacks_worker: app.workers.is_of_workers(&facts.workspace, &facts.workflow)
            && !app.workers.is_offered(&facts.workspace, &facts.workflow),
        now: app.store.now(),
    };
    let shown = api::WhyRun {
        run_id: id.to_string(),
        depth,
        is_match,
        workflow: format!("{}@{}", facts.workflow.name, facts.workflow.version),
        status: status(&view),
        waits_for: situation.explain(),
    };
    Ok(Some((shown, log)))
}

/// The person who last gave a run this command, with the time and the reason.
async fn find_command(
    engine: &Engine,
    run: RunId,
    name: &str,
) -> Result<Option<(Actor, Timestamp, String)>, Problem> {
    let entries = engine.list_journal(Some(run), true, 0, MAX_WHY_JOURNAL_ENTRIES).await;
    let entries = entries.map_err(|error| problem_of(&error))?;
    Ok(entries.into_iter().rev().find_map(|placed| match (placed.note.what, placed.note.by) {
        (JournalEvent::Commanded { command, reason }, Some(by)) if command == name => {
            Some((by, placed.note.at, reason))
        }
        _ => None,
    }))
}

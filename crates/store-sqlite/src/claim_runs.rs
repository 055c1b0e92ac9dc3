//! Granting leases on due runs.

use std::collections::HashSet;

use hapax_engine::limits::MAX_CLAIM;
use hapax_engine::model::{ClaimDecision, Grant, Priority, RunId, ServedWorkspaces, Timestamp, decide_claim};
use hapax_engine::store::{ClaimRuns, ClaimedRuns};
use rusqlite::params;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::job::Verb;
use crate::rows::Columns;
use crate::session::{Session, WorkflowRowId, WorkspaceRowId};

/// A workflow the caller serves, as this file knows it.
struct Served {
    workflow: WorkflowRowId,
    version: u32,
    /// For these workspaces only; `None` for all.
    only: Option<HashSet<i64>>,
}

impl Served {
    fn covers(&self, workspace: i64) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&workspace))
    }

    fn place(&self) -> (i64, u32) {
        (self.workflow.0, self.version)
    }
}

/// Runs of one served workflow and priority that are due some time.
struct Queue<'s> {
    served: &'s Served,
    priority: i64,
    /// When the first of them is due.
    wake_at: Timestamp,
}

/// A due run; its fields are in the order that sorts runs of one priority.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    wake_at: Timestamp,
    run: RunId,
    workspace: i64,
}

impl Verb for ClaimRuns {
    type Outcome = ClaimedRuns;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<ClaimedRuns, Fault> {
        let grant = &self.grant;
        let served = find_served(session, grant)?;
        let queues = list_queues(session, &served)?;
        let (due, later): (Vec<Queue<'_>>, Vec<Queue<'_>>) =
            queues.into_iter().partition(|queue| queue.wake_at <= session.now);
        let mut runs = Vec::new();
        for due in list_due(session, &due, self.limit.min(MAX_CLAIM))? {
            let workspace = WorkspaceRowId(due.workspace);
            let Some(head) = session.find_head(workspace, due.run)? else {
                return Err(Fault::Broken(format!("{} is due but has no facts", due.run)));
            };
            match decide_claim(&head, grant.owner, grant.lease_for, session.now, false) {
                ClaimDecision::NotDue => {}
                ClaimDecision::Granted(head, event) => {
                    session.write_open_head(workspace, &head)?;
                    session.insert_event(workspace, due.run, &event)?;
                    runs.push(head);
                }
                ClaimDecision::Quarantined(head, event) => {
                    session.write_open_head(workspace, &head)?;
                    session.insert_event(workspace, due.run, &event)?;
                }
            }
        }
        let mut next_wake_at = later.iter().map(|queue| queue.wake_at).min();
        for queue in &due {
            // A run that was granted is due again when its lease ends.
            let first = find_first(session, queue.served, queue.priority)?;
            next_wake_at = next_wake_at.into_iter().chain(first).min();
        }
        Ok(ClaimedRuns { runs, next_wake_at })
    }
}

/// The workflows the caller serves that have runs, in the order of the index of due runs.
fn find_served(session: &mut Session<'_, '_>, grant: &Grant) -> Result<Vec<Served>, Fault> {
    let mut served = Vec::new();
    for (serves, served_for) in grant.serves.iter() {
        // A workflow without a number has no runs.
        let Some(workflow) = session.find_workflow(&serves.name)? else { continue };
        let only = match served_for {
            ServedWorkspaces::All => None,
            ServedWorkspaces::Only(workspaces) => {
                let mut only = HashSet::with_capacity(workspaces.len());
                for workspace in workspaces {
                    only.extend(session.find_workspace(workspace)?.map(|number| number.0));
                }
                Some(only)
            }
        };
        served.push(Served { workflow, version: serves.version, only });
    }
    served.sort_unstable_by_key(Served::place);
    Ok(served)
}

/// Queues of served workflows. Goes through the index from one queue to the next and from one served workflow to the
/// next, whichever is farther, so that neither hundreds of idle workflows nor runs of others cost a look each.
fn list_queues<'s>(session: &Session<'_, '_>, served: &'s [Served]) -> Result<Vec<Queue<'s>>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_next_queue.sql"))?;
    let mut queues = Vec::new();
    let mut left = served;
    let mut priority = 0;
    while let Some(next) = left.first() {
        let from = params![next.workflow.0, next.version, priority];
        let found = find.query(from)?.next()?.map(|row| {
            let mut row = Columns::of(row);
            Ok::<_, Fault>(((row.get()?, row.get()?), row.get::<i64>()?, row.at()?, row.get::<i64>()?))
        });
        let Some((place, found_priority, wake_at, workspace)) = found.transpose()? else { break };
        left = &left[left.partition_point(|served| served.place() < place)..];
        priority = 0;
        if let Some(served) = left.first().filter(|served| served.place() == place) {
            let wake_at = match served.covers(workspace) {
                true => Some(wake_at),
                false => find_first(session, served, found_priority)?,
            };
            queues.extend(wake_at.map(|wake_at| Queue { served, priority: found_priority, wake_at }));
            priority = found_priority + 1;
        }
    }
    Ok(queues)
}

/// Due runs in the order they are served.
fn list_due(session: &Session<'_, '_>, queues: &[Queue<'_>], limit: usize) -> Result<Vec<Due>, Fault> {
    let mut list = session.prepare(include_str!("../sql/list_due_runs.sql"))?;
    let mut all = Vec::new();
    for priority in Priority::FIRST_TO_LAST {
        let room = limit - all.len();
        if room == 0 {
            break;
        }
        let mut due = Vec::new();
        for Queue { served, .. } in queues.iter().filter(|queue| queue.priority == priority.code()) {
            let Served { workflow, version, .. } = served;
            let mut found = list.query(params![workflow.0, version, priority.code(), millis(session.now)])?;
            let mut taken = 0;
            // Runs of workspaces that are not served here are passed over, so that no claim takes what it cannot drive.
            while taken < room
                && let Some(row) = found.next()?
            {
                let mut row = Columns::of(row);
                let run = Due { wake_at: row.at()?, run: row.run()?, workspace: row.get()? };
                if served.covers(run.workspace) {
                    due.push(run);
                    taken += 1;
                }
            }
        }
        due.sort_unstable();
        due.truncate(room);
        all.extend(due);
    }
    Ok(all)
}

/// When the first run of a queue is due.
fn find_first(session: &Session<'_, '_>, served: &Served, priority: i64) -> Result<Option<Timestamp>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_next_wake.sql"))?;
    let mut found = find.query(params![served.workflow.0, served.version, priority])?;
    while let Some(row) = found.next()? {
        if served.covers(row.get(1)?) {
            return Ok(Some(Timestamp::from_millis(row.get(0)?)));
        }
    }
    Ok(None)
}

//! Granting leases on due runs: lock the free ones, decide by the model, write them together.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use hapax_engine::limits::{MAX_CLAIM, MAX_WORKFLOWS_SCANNED};
use hapax_engine::model::{
    ClaimDecision, Grant, RunEvent, RunHead, RunId, ServedWorkspaces, Timestamp, decide_claim,
};
use hapax_engine::store::{ClaimRuns, ClaimedRuns};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::codes::{Code, count, millis, millis_of};
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::limits::{LONG_BACKLOG, LOOK_AGAIN_AFTER, MAX_WORKSPACES_PER_CLAIM};
use crate::pools::HeldConnection;
use crate::rows::{self, Columns, StoredHead, uuid};

/// A due run that is not locked yet.
type DueRun = (WorkspaceRowId, RunId);

/// Position in the rotation of workspaces, when not all can be served at once.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceRotation(AtomicI32);

/// The workflows of the caller, by their numbers in this database.
#[derive(Default)]
struct Served {
    workflows: Vec<i32>,
    versions: Vec<i32>,
    /// True if the workflow is served for all workspaces; otherwise `only` lists them.
    is_for_all: Vec<bool>,
    only: ServedOnly,
}

/// Workflows that are served for some workspaces only, one row each.
#[derive(Default)]
struct ServedOnly {
    workflows: Vec<i32>,
    versions: Vec<i32>,
    workspaces: Vec<i32>,
}

impl Served {
    /// Only the workflows of these queues.
    fn only_in(&self, queues: &[Queue]) -> Served {
        let kept: HashSet<(i32, i32)> = queues.iter().map(|queue| (queue.workflow, queue.version)).collect();
        let mut served = Served::default();
        for (place, workflow) in self.workflows.iter().enumerate() {
            if kept.contains(&(*workflow, self.versions[place])) {
                served.workflows.push(*workflow);
                served.versions.push(self.versions[place]);
                served.is_for_all.push(self.is_for_all[place]);
            }
        }
        for (place, workflow) in self.only.workflows.iter().enumerate() {
            if kept.contains(&(*workflow, self.only.versions[place])) {
                served.only.workflows.push(*workflow);
                served.only.versions.push(self.only.versions[place]);
                served.only.workspaces.push(self.only.workspaces[place]);
            }
        }
        served
    }
}

/// A decision on a run, to be written.
struct Granted {
    workspace: WorkspaceRowId,
    head: RunHead,
    event: RunEvent,
}

/// Claims runs, on a connection of its own.
pub(crate) async fn claim_runs(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    rotation: Arc<WorkspaceRotation>,
    request: ClaimRuns,
    now: Timestamp,
) -> Result<ClaimedRuns, Fault> {
    let served = find_served(&held, &interned_names, &request.grant).await?;
    if served.workflows.is_empty() {
        return Ok(ClaimedRuns::default());
    }
    let limit = request.limit.min(MAX_CLAIM);
    let queues = list_queues(&held, &served).await?;
    let (due, later): (Vec<Queue>, Vec<Queue>) = queues.into_iter().partition(|queue| queue.wake_at <= now);
    if due.is_empty() || limit == 0 {
        return Ok(ClaimedRuns { runs: Vec::new(), next_wake_at: first(&due, &later) });
    }
    // Of hundreds of workflows a few have due runs.
    let served = served.only_in(&due);
    let due = list_due(&held, &served, &rotation, limit, now).await?;
    if due.is_empty() {
        let left = list_queues(&held, &served).await?;
        return Ok(ClaimedRuns { runs: Vec::new(), next_wake_at: first(&left, &later) });
    }
    held.batch_execute("BEGIN").await?;
    let locked = lock(&held, &due, limit, now).await?;
    let (granted, quarantined) = decide(&locked, &request.grant, now);
    write(&held, granted.iter().chain(&quarantined), now).await?;
    let (left, committed) = futures_util::join!(list_queues(&held, &served), held.batch_execute("COMMIT"));
    let next_wake_at = first(&left?, &later);
    committed?;
    let runs: Vec<RunHead> = granted.into_iter().map(|granted| granted.head).collect();
    // Another node will take the locked runs in a moment; looking again at once would only delay
    // it.
    let next_wake_at = match locked.is_empty() {
        true => next_wake_at.map(|at| at.max(now.plus(LOOK_AGAIN_AFTER))),
        false => next_wake_at,
    };
    Ok(ClaimedRuns { runs, next_wake_at })
}

async fn find_served(
    held: &HeldConnection,
    interned_names: &InternedNames,
    grant: &Grant,
) -> Result<Served, Fault> {
    let mut served = Served::default();
    let workspaces = grant.serves.iter().flat_map(|(_, served_for)| served_for.listed());
    interned_names
        .learn(held.link(), grant.serves.iter().map(|(serves, _)| &serves.name), workspaces)
        .await?;
    for (serves, served_for) in grant.serves.iter() {
        // A workflow or workspace without a number has no runs.
        let Some(workflow) = interned_names.known_workflow(&serves.name) else { continue };
        let version = serves.version.cast_signed();
        served.workflows.push(workflow.0);
        served.versions.push(version);
        served.is_for_all.push(matches!(served_for, ServedWorkspaces::All));
        let ServedWorkspaces::Only(workspaces) = served_for else { continue };
        for workspace in workspaces {
            let Some(workspace) = interned_names.known_workspace(workspace) else { continue };
            served.only.workflows.push(workflow.0);
            served.only.versions.push(version);
            served.only.workspaces.push(workspace.0);
        }
    }
    Ok(served)
}

/// Due runs in the order of service; a few more than requested, because others may have locked some
/// of them.
async fn list_due(
    held: &HeldConnection,
    served: &Served,
    rotation: &WorkspaceRotation,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<DueRun>, Fault> {
    let window = (2 * limit).max(LONG_BACKLOG + 1) as i64;
    let statement = held.prepare_cached(include_str!("../sql/list_due_runs.sql")).await?;
    let Served { workflows, versions, is_for_all, only } = served;
    let found = held
        .query(
            &statement,
            &[
                workflows,
                versions,
                &millis(now),
                &window,
                is_for_all,
                &only.workflows,
                &only.versions,
                &only.workspaces,
            ],
        )
        .await?;
    let by_time = rows::collect(&found, |mut row| Ok((WorkspaceRowId(row.get()?), row.run()?)))?;
    if by_time.len() <= LONG_BACKLOG {
        return Ok(by_time);
    }
    let in_turns = list_in_turns(held, served, rotation, limit, now).await?;
    Ok(mix(by_time, in_turns, limit))
}

/// Merges the two lists. With a long backlog every second run comes from the rotation, so neither
/// the oldest runs nor any workspace waits for all runs of another.
fn mix(by_time: Vec<DueRun>, in_turns: Vec<DueRun>, limit: usize) -> Vec<DueRun> {
    let mut seen = HashSet::with_capacity(2 * limit);
    let mut mixed = Vec::with_capacity(2 * limit);
    let (mut by_time, mut in_turns) = (by_time.into_iter(), in_turns.into_iter());
    loop {
        let next = [in_turns.next(), by_time.next()];
        if mixed.len() >= 2 * limit || next == [None, None] {
            mixed.truncate(2 * limit);
            return mixed;
        }
        mixed.extend(next.into_iter().flatten().filter(|place| seen.insert(*place)));
    }
}

/// Due runs of the workspaces in rotation: the first of each, then the second of each, and so on.
async fn list_in_turns(
    held: &HeldConnection,
    served: &Served,
    rotation: &WorkspaceRotation,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<DueRun>, Fault> {
    let statement = held.prepare_cached(include_str!("../sql/list_due_runs_by_workspace.sql")).await?;
    let workspaces = MAX_WORKSPACES_PER_CLAIM.min(limit) as i32;
    let behind = rotation.0.load(Ordering::Relaxed);
    let found = held
        .query(
            &statement,
            &[
                &served.workflows,
                &served.versions,
                &millis(now),
                &behind,
                &workspaces,
                &(limit as i64),
                &served.is_for_all,
                &served.only.workflows,
                &served.only.versions,
                &served.only.workspaces,
            ],
        )
        .await?;
    let mut places = Vec::with_capacity(found.len());
    let mut last_visited = None;
    for row in &found {
        let mut row = Columns::of(row);
        let (priority, workspace, number) = (row.get::<i16>()?, row.get::<i32>()?, row.get::<i32>()?);
        if number == workspaces {
            last_visited = last_visited.into_iter().chain([workspace]).min();
        }
        if let (Some(run), Some(place)) = (row.maybe_run()?, row.get::<Option<i64>>()?) {
            places.push((priority, place, WorkspaceRowId(workspace), run));
        }
    }
    // If all were visited, the next rotation begins with the first.
    rotation.0.store(last_visited.unwrap_or(0), Ordering::Relaxed);
    places.sort_unstable();
    Ok(places.into_iter().map(|(_, _, workspace, run)| (workspace, run)).collect())
}

/// Locks up to the requested number, in their order, and reads them.
async fn lock(
    held: &HeldConnection,
    due: &[DueRun],
    limit: usize,
    now: Timestamp,
) -> Result<Vec<StoredHead>, Fault> {
    let n: Vec<i32> = (0..due.len() as i32).collect();
    let workspaces: Vec<i32> = due.iter().map(|(workspace, _)| workspace.0).collect();
    let ids: Vec<Uuid> = due.iter().map(|(_, run)| uuid(*run)).collect();
    let statement = held.prepare_cached(include_str!("../sql/lock_due_runs.sql")).await?;
    let found = held.query(&statement, &[&n, &workspaces, &ids, &millis(now), &(limit as i64)]).await?;
    let locked = rows::collect(&found, |mut row| row.get::<i32>())?;
    let workspaces: Vec<i32> = locked.iter().map(|n| workspaces[*n as usize]).collect();
    let ids: Vec<Uuid> = locked.iter().map(|n| ids[*n as usize]).collect();
    let statement = held.prepare_cached(include_str!("../sql/find_heads.sql")).await?;
    let found = held.query(&statement, &[&(ids.len() as i64), &workspaces, &ids]).await?;
    read_heads(&found)
}

fn read_heads(found: &[Row]) -> Result<Vec<StoredHead>, Fault> {
    rows::collect(found, |mut row| rows::stored_head(&mut row))
}

/// Decides each claim: granted or quarantined.
fn decide(locked: &[StoredHead], grant: &Grant, now: Timestamp) -> (Vec<Granted>, Vec<Granted>) {
    let (mut granted, mut quarantined) = (Vec::new(), Vec::new());
    for StoredHead { head, workspace, .. } in locked {
        match decide_claim(head, grant.owner, grant.lease_for, now, false) {
            ClaimDecision::NotDue => {}
            ClaimDecision::Granted(head, event) => {
                granted.push(Granted { workspace: *workspace, head, event });
            }
            ClaimDecision::Quarantined(head, event) => {
                quarantined.push(Granted { workspace: *workspace, head, event });
            }
        }
    }
    (granted, quarantined)
}

async fn write(
    held: &HeldConnection,
    granted: impl Iterator<Item = &Granted>,
    now: Timestamp,
) -> Result<(), Fault> {
    let granted: Vec<&Granted> = granted.collect();
    if granted.is_empty() {
        return Ok(());
    }
    macro_rules! column {
        ($value:expr) => {
            granted.iter().map($value).collect::<Vec<_>>()
        };
    }
    let statement = held.prepare_cached(include_str!("../sql/grant_runs.sql")).await?;
    held.execute(
        &statement,
        &[
            &(granted.len() as i64),
            &column!(|it| it.workspace.0),
            &column!(|it| uuid(it.head.id())),
            &column!(|it| count(it.head.version.get())),
            &column!(|it| count(it.head.fence.get())),
            &column!(|it| it.head.status().code()),
            &column!(|it| millis_of(it.head.state.wake_at())),
            &column!(|it| rows::lease_owner(&it.head.state)),
            &column!(|it| it.head.stalls.cast_signed()),
            &column!(|it| millis_of(it.head.started_at)),
            &column!(|it| it.event.kind.code()),
            &column!(|it| it.event.note.as_deref()),
            &millis(now),
        ],
    )
    .await?;
    Ok(())
}

/// Runs of one served workflow and priority that are due some time.
struct Queue {
    workflow: i32,
    version: i32,
    /// When the first of them is due.
    wake_at: Timestamp,
}

async fn list_queues(held: &HeldConnection, served: &Served) -> Result<Vec<Queue>, Fault> {
    let statement = held.prepare_cached(include_str!("../sql/list_queues.sql")).await?;
    let Served { workflows, versions, is_for_all, only } = served;
    let found = held
        .query(
            &statement,
            &[workflows, versions, is_for_all, &only.workflows, &only.versions, &only.workspaces],
        )
        .await?;
    rows::collect(&found, |mut row| {
        Ok(Queue { workflow: row.get()?, version: row.get()?, wake_at: row.at()? })
    })
}

/// When the first run of all these is due.
fn first(some: &[Queue], others: &[Queue]) -> Option<Timestamp> {
    some.iter().chain(others).map(|queue| queue.wake_at).min()
}

/// Due time of the most overdue run.
pub(crate) async fn find_oldest_due_at(
    held: Arc<HeldConnection>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Fault> {
    let statement = held.prepare_cached(include_str!("../sql/find_longest_due.sql")).await?;
    let found = held.query(&statement, &[&(MAX_WORKFLOWS_SCANNED as i64)]).await?;
    let first = rows::at_most_one(&found, |mut row| row.maybe_at())?.flatten();
    Ok(first.filter(|at| *at <= now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(ids: &[u128]) -> Vec<DueRun> {
        ids.iter().map(|id| (WorkspaceRowId(1), RunId::from_u128(*id))).collect()
    }

    #[test]
    fn a_long_backlog_is_served_by_turns_and_by_time() {
        assert_eq!(mix(places(&[1, 2, 3, 4]), places(&[9, 2, 8]), 2), places(&[9, 1, 2, 8]));
        assert_eq!(mix(places(&[1, 2]), Vec::new(), 5), places(&[1, 2]));
        assert_eq!(mix(places(&[1]), places(&[1]), 5), places(&[1]));
    }
}

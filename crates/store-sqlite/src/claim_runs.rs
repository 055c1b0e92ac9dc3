//! Granting leases on due runs.

use std::collections::HashSet;

use hapax_engine::limits::MAX_CLAIM;
use hapax_engine::model::{ClaimDecision, Priority, RunId, ServedWorkspaces, Timestamp, decide_claim};
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
        let mut runs = Vec::new();
        for due in list_due(session, &served, self.limit.min(MAX_CLAIM))? {
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
        Ok(ClaimedRuns { runs, next_wake_at: find_next_wake(session, &served)? })
    }
}

/// Due runs in the order they are served.
fn list_due(session: &Session<'_, '_>, served: &[Served], limit: usize) -> Result<Vec<Due>, Fault> {
    let mut list = session.prepare(include_str!("../sql/list_due_runs.sql"))?;
    let mut all = Vec::new();
    for priority in Priority::FIRST_TO_LAST {
        let room = limit - all.len();
        if room == 0 {
            break;
        }
        let mut due = Vec::new();
        for served in served {
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

fn find_next_wake(session: &Session<'_, '_>, served: &[Served]) -> Result<Option<Timestamp>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_next_wake.sql"))?;
    let mut next = None;
    for served in served {
        let Served { workflow, version, .. } = served;
        for priority in Priority::FIRST_TO_LAST {
            let mut found = find.query(params![workflow.0, version, priority.code()])?;
            while let Some(row) = found.next()? {
                if served.covers(row.get(1)?) {
                    next = next.into_iter().chain([row.get::<_, i64>(0)?]).min();
                    break;
                }
            }
        }
    }
    Ok(next.map(Timestamp::from_millis))
}

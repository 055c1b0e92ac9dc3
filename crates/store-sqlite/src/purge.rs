//! Forgetting what need not be kept.

use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::{KeyKind, RunId, Timestamp};
use hapax_engine::store::{Purge, PurgeOutcome};
use rusqlite::params;

use crate::codes::{Code, millis};
use crate::families::{find_root, forget_family};
use crate::fault::Fault;
use crate::forget_promises::forget_promises_of_run;
use crate::job::Verb;
use crate::rows::{self, bytes};
use crate::session::{Session, WorkspaceRowId};

/// A run that was looked at.
struct ExpiredRun {
    run: RunId,
    workspace: WorkspaceRowId,
    forgettable: bool,
}

/// Every table with rows of a run, but its promises, its key and what people noted.
const DELETE_RUN: [&str; 9] = [
    include_str!("../sql/delete_steps_of_run.sql"),
    include_str!("../sql/delete_events_of_run.sql"),
    include_str!("../sql/delete_signals_of_run.sql"),
    include_str!("../sql/delete_signal_ids_of_run.sql"),
    include_str!("../sql/delete_notes_of_run.sql"),
    include_str!("../sql/delete_posts_of_run.sql"),
    include_str!("../sql/delete_result.sql"),
    include_str!("../sql/delete_run_facts.sql"),
    include_str!("../sql/delete_run.sql"),
];

impl Verb for Purge {
    type Outcome = PurgeOutcome;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<PurgeOutcome, Fault> {
        let limit = self.limit.clamp(1, MAX_PURGE);
        let mut purged = delete_expired_keys(session, limit)?;
        let Some(closed_before) = self.runs_closed_before else { return Ok(purged) };
        let seen = look_at(session, self.after, closed_before, limit + 1)?;
        for seen in seen.iter().take(limit).filter(|seen| seen.forgettable) {
            let root = find_root(session, seen.workspace, seen.run)?;
            forget_promises_of_run(session, seen.workspace, seen.run)?;
            for sql in DELETE_RUN {
                session.prepare(sql)?.execute(params![seen.workspace.0, bytes(seen.run)])?;
            }
            forget_family(session, seen.workspace, root)?;
            purged.runs += 1;
        }
        purged.next = (seen.len() > limit).then(|| seen[limit - 1].run);
        Ok(purged)
    }
}

/// Deletes expired keys, together with early settlements under claimed ones.
fn delete_expired_keys(session: &Session<'_, '_>, limit: usize) -> Result<PurgeOutcome, Fault> {
    let mut list = session.prepare(include_str!("../sql/list_expired_keys.sql"))?;
    let expired: Vec<(i64, i64, String)> =
        rows::collect(list.query(params![millis(session.now), limit as i64])?, |mut row| {
            Ok((row.get()?, row.get()?, row.get()?))
        })?;
    let mut purged = PurgeOutcome { keys: expired.len(), ..PurgeOutcome::default() };
    let mut delete = session.prepare(include_str!("../sql/delete_key.sql"))?;
    for (workspace, kind, key) in &expired {
        delete.execute(params![workspace, kind, key])?;
        if KeyKind::from_code(*kind)? == KeyKind::Promise {
            let mut delete = session.prepare(include_str!("../sql/delete_early.sql"))?;
            purged.early += delete.execute(params![workspace, key])?;
        }
    }
    Ok(purged)
}

fn look_at(
    session: &Session<'_, '_>,
    after: Option<RunId>,
    closed_before: Timestamp,
    limit: usize,
) -> Result<Vec<ExpiredRun>, Fault> {
    // No id is less than the empty one.
    let after = after.map_or(Vec::new(), |run| bytes(run).to_vec());
    let mut list = session.prepare(include_str!("../sql/list_runs_to_purge.sql"))?;
    rows::collect(list.query(params![after, millis(closed_before), limit as i64])?, |mut row| {
        let (run, workspace) = (row.run()?, WorkspaceRowId(row.get()?));
        Ok(ExpiredRun { run, workspace, forgettable: row.get::<Option<bool>>()?.unwrap_or(false) })
    })
}

//! Keeping a signal for a run.

use hapax_engine::limits::MAX_WAITING_SIGNALS;
use hapax_engine::store::{SendSignal, SignalOutcome};
use rusqlite::params;

use crate::arrival::arrive;
use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::rows::bytes;
use crate::session::{Session, WorkspaceRowId};

impl Verb for SendSignal {
    type Outcome = SignalOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<SignalOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace)? else {
            return Ok(SignalOutcome::NoSuchRun);
        };
        let Some(head) = session.find_head(workspace, self.run)? else {
            return Ok(SignalOutcome::NoSuchRun);
        };
        if is_known(session, workspace, self)? {
            return Ok(SignalOutcome::Duplicate);
        }
        if head.status().is_closed() {
            return Ok(SignalOutcome::Ended(head.status()));
        }
        // Each signal is an arrival, so there is nothing to count before there were as many arrivals.
        if head.arrivals >= MAX_WAITING_SIGNALS
            && count_signals(session, workspace, self)? >= MAX_WAITING_SIGNALS
        {
            return Ok(SignalOutcome::TooMany);
        }
        let Some(arrival) = arrive(session, workspace, self.run, self.grant.as_ref())? else {
            return Ok(SignalOutcome::NoSuchRun);
        };
        let seq = arrival.head.arrivals;
        let id = self.id.as_ref().map(|id| id.as_str());
        if let Some(id) = id {
            let mut insert = session.prepare(include_str!("../sql/insert_signal_id.sql"))?;
            insert.execute(params![workspace.0, bytes(self.run), id])?;
        }
        session.prepare(include_str!("../sql/insert_signal.sql"))?.execute(params![
            workspace.0,
            bytes(self.run),
            count(seq),
            self.name.as_str(),
            id,
            self.payload.as_str(),
            millis(session.now),
        ])?;
        insert_notes(session, self.note.as_slice())?;
        Ok(SignalOutcome::Stored { seq, granted: arrival.granted.map(|_| arrival.head) })
    }
}

/// Has the run seen a signal with this id?
fn is_known(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    request: &SendSignal,
) -> Result<bool, Fault> {
    let Some(id) = &request.id else { return Ok(false) };
    let mut find = session.prepare(include_str!("../sql/find_signal_id.sql"))?;
    Ok(find.exists(params![workspace.0, bytes(request.run), id.as_str()])?)
}

fn count_signals(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    request: &SendSignal,
) -> Result<u64, Fault> {
    let mut count = session.prepare(include_str!("../sql/count_signals.sql"))?;
    let waiting: i64 = count.query_row(params![workspace.0, bytes(request.run)], |row| row.get(0))?;
    Ok(waiting.unsigned_abs())
}

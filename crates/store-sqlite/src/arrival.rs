//! Something comes in for a run: counted, and the run woken if it waits.

use hapax_engine::model::{Arrival, Grant, RunId, decide_arrival};
use rusqlite::params;

use crate::codes::{count, millis_of};
use crate::fault::Fault;
use crate::rows::bytes;
use crate::session::{Session, WorkspaceRowId};

/// Counts an arrival and wakes the run; `None` if it is gone.
pub(crate) fn arrive(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    run: RunId,
    grant: Option<&Grant>,
) -> Result<Option<Arrival>, Fault> {
    let Some(head) = session.find_head(workspace, run)? else { return Ok(None) };
    let arrival = decide_arrival(&head, grant, session.now);
    let arrivals = count(arrival.head.arrivals);
    match &arrival.granted {
        Some(event) => {
            session.write_open_head(workspace, &arrival.head)?;
            session.insert_event(workspace, run, event)?;
        }
        None if arrival.woken => {
            let mut wake = session.prepare(include_str!("../sql/wake_run.sql"))?;
            wake.execute(params![
                workspace.0,
                bytes(run),
                arrivals,
                millis_of(arrival.head.state.wake_at()),
            ])?;
        }
        None => {
            let mut count = session.prepare(include_str!("../sql/count_arrival.sql"))?;
            count.execute(params![workspace.0, bytes(run), arrivals])?;
        }
    }
    Ok(Some(arrival))
}

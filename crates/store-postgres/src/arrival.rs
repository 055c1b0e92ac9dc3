//! Something comes in for a run: counted, and the run woken if it waits.

use hapax_engine::model::{Arrival, Grant, RunId, decide_arrival};

use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::rows::StoredHead;
use crate::session::Session;

/// Counts an arrival and wakes the run; `None` if it is gone.
pub(crate) async fn arrive(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    run: RunId,
    grant: Option<&Grant>,
) -> Result<Option<Arrival>, Fault> {
    let Some(stored) = session.find_head(workspace, run).await? else { return Ok(None) };
    let arrival = decide_arrival(&stored.head, grant, session.now);
    session.write_head(StoredHead { head: arrival.head.clone(), ..stored });
    if let Some(event) = &arrival.granted {
        session.insert_event(workspace, run, event);
    }
    session.has_woken |= arrival.woken;
    Ok(Some(arrival))
}

//! Storing a signal for a run.

use hapax_engine::limits::MAX_WAITING_SIGNALS;
use hapax_engine::store::{SendSignal, SignalOutcome};

use crate::arrival::arrive;
use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::rows::{self, uuid};
use crate::session::{Session, params};

impl Verb for SendSignal {
    type Outcome = SignalOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.runs.push((self.workspace.clone(), self.run));
        needs.bring(&self.workspace, self.note.as_slice());
        needs.signal_ids.extend(self.id.iter().map(|id| (self.workspace.clone(), self.run, id.clone())));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<SignalOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(SignalOutcome::NoSuchRun);
        };
        let Some(stored) = session.find_head(workspace, self.run).await? else {
            return Ok(SignalOutcome::NoSuchRun);
        };
        if let Some(id) = &self.id
            && session.has_signal_id(workspace, self.run, id).await?
        {
            return Ok(SignalOutcome::Duplicate);
        }
        if stored.head.status().is_closed() {
            return Ok(SignalOutcome::Ended(stored.head.status()));
        }
        // Each signal is an arrival, so counting is unnecessary while there are fewer arrivals.
        if stored.head.arrivals >= MAX_WAITING_SIGNALS
            && count_signals(session, workspace, self).await? >= MAX_WAITING_SIGNALS
        {
            return Ok(SignalOutcome::TooMany);
        }
        let Some(arrival) = arrive(session, workspace, self.run, self.grant.as_ref()).await? else {
            return Ok(SignalOutcome::NoSuchRun);
        };
        let seq = arrival.head.arrivals;
        if let Some(id) = &self.id {
            session.insert_signal_id(workspace, self.run, id);
        }
        let signal = params![
            workspace.0,
            uuid(self.run),
            count(seq),
            self.name.as_str().to_owned(),
            self.id.as_ref().map(|id| id.as_str().to_owned()),
            self.payload.as_str().to_owned(),
            millis(session.now),
        ];
        session.keep_back(include_str!("../sql/insert_signal.sql"), signal);
        insert_notes(session, self.note.as_slice()).await?;
        Ok(SignalOutcome::Stored { seq, granted: arrival.granted.map(|_| arrival.head) })
    }
}

async fn count_signals(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    request: &SendSignal,
) -> Result<u64, Fault> {
    let of_run = params![workspace.0, uuid(request.run)];
    let found = session.query(include_str!("../sql/count_signals.sql"), of_run).await?;
    let waiting = rows::at_most_one(&found, |mut row| row.count())?;
    Ok(waiting.unwrap_or_default())
}

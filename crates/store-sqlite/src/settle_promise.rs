//! Settling a promise: the first commit wins.

use hapax_engine::model::{PromiseId, PromiseState, Timestamp};
use hapax_engine::store::{SettleOutcome, SettlePromise};
use rusqlite::params;

use crate::arrival::arrive;
use crate::codes::{Code, PromiseStatus, millis_of};
use crate::fault::Fault;
use crate::find;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::rows;
use crate::session::{Session, WorkspaceNo};

impl Verb for SettlePromise {
    type Outcome = SettleOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<SettleOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace)? else {
            return Ok(SettleOutcome::NoSuchPromise);
        };
        let Some(promise) = find::promise(session.connection(), workspace, &self.id)? else {
            return Ok(SettleOutcome::NoSuchPromise);
        };
        match promise.state_at(session.now) {
            PromiseState::TimedOut => Ok(SettleOutcome::TimedOut),
            PromiseState::Settled { settlement, .. } => {
                let same = settlement.says_same(&self.settlement);
                Ok(SettleOutcome::AlreadySettled { same, settlement })
            }
            PromiseState::Pending => {
                let (status, value) = rows::settlement_columns(&self.settlement)?;
                let now = session.now;
                write_promise_state(session, workspace, &self.id, status, Some(now), Some(value))?;
                insert_notes(session, self.note.as_slice())?;
                let arrival = arrive(session, workspace, promise.run, self.grant.as_ref())?;
                let granted = arrival.and_then(|arrival| arrival.granted.map(|_| arrival.head));
                Ok(SettleOutcome::Settled { granted })
            }
        }
    }
}

/// Moves a pending promise to where it stays.
pub(crate) fn write_promise_state(
    session: &Session<'_, '_>,
    workspace: WorkspaceNo,
    id: &PromiseId,
    status: PromiseStatus,
    settled_at: Option<Timestamp>,
    value: Option<String>,
) -> Result<(), Fault> {
    let mut settle = session.prepare(include_str!("../sql/settle_promise.sql"))?;
    settle.execute(params![workspace.0, id.as_str(), status.code(), millis_of(settled_at), value])?;
    Ok(())
}

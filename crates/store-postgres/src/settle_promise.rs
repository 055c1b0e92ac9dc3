//! Settling a promise: the first commit wins.

use hapax_engine::model::{Promise, PromiseState};
use hapax_engine::store::{SettleOutcome, SettlePromise};

use crate::arrival::arrive;
use crate::codes::Code;
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::numbers::WorkspaceNo;
use crate::rows;
use crate::session::{Session, params};

impl Verb for SettlePromise {
    type Outcome = SettleOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.promises.push((self.workspace.clone(), self.id.clone()));
        needs.bring(&self.workspace, self.note.as_slice());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<SettleOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(SettleOutcome::NoSuchPromise);
        };
        let Some(promise) = session.find_promise(workspace, &self.id).await? else {
            return Ok(SettleOutcome::NoSuchPromise);
        };
        match promise.state_at(session.now) {
            PromiseState::TimedOut => Ok(SettleOutcome::TimedOut),
            PromiseState::Settled { settlement, .. } => {
                let same = settlement.says_same(&self.settlement);
                Ok(SettleOutcome::AlreadySettled { same, settlement })
            }
            PromiseState::Pending => {
                let run = promise.run;
                let state = PromiseState::Settled { at: session.now, settlement: self.settlement.clone() };
                write_promise(session, workspace, Promise { state, ..promise })?;
                insert_notes(session, self.note.as_slice()).await?;
                let arrival = arrive(session, workspace, run, self.grant.as_ref()).await?;
                let granted = arrival.and_then(|arrival| arrival.granted.map(|_| arrival.head));
                Ok(SettleOutcome::Settled { granted })
            }
        }
    }
}

/// Moves a pending promise to where it stays.
pub(crate) fn write_promise(
    session: &mut Session<'_>,
    workspace: WorkspaceNo,
    promise: Promise,
) -> Result<(), Fault> {
    let (status, settled_at, value) = rows::promise_columns(&promise.state)?;
    let settled = params![workspace.0, promise.id.as_str().to_owned(), status.code(), settled_at, value];
    session.keep_back(include_str!("../sql/settle_promise.sql"), settled);
    session.note_promise(workspace, promise);
    Ok(())
}

//! User work and its record in one commit.

use std::any::Any;

use hapax_engine::model::{Failure, Payload};
use hapax_engine::store::{CommitOutcome, Transact, TransactOutcome};

use crate::fault::Fault;
use crate::job::Verb;
use crate::session::Session;
use crate::user_work::SqliteWork;

/// The names of savepoints that begin so are out of the user's reach.
const SAVE: &str = "SAVEPOINT hapax_work";
const KEEP: &str = "RELEASE hapax_work";
const TAKE_BACK: &str = "ROLLBACK TO hapax_work";

/// Result of work and its record.
pub(crate) trait WorkResult {
    /// Is the work to be kept?
    fn stands(&self) -> bool;

    /// The work failed.
    fn failed(failure: Failure) -> Self;

    /// The work was done, but its record is refused.
    fn refused(why: String) -> Result<Self, Fault>
    where
        Self: Sized;
}

/// Does the work and records it, or leaves nothing of either.
pub(crate) fn work_and_record<O: WorkResult>(
    session: &mut Session<'_, '_>,
    work: &(dyn Any + Send + Sync),
    record: impl FnOnce(&mut Session<'_, '_>, Payload) -> Result<O, Fault>,
) -> Result<O, Fault> {
    let Some(work) = work.downcast_ref::<SqliteWork>() else {
        return Err(Fault::Refused("work on this store is given as SqliteWork".into()));
    };
    session.prepare(SAVE)?.execute([])?;
    let done = work.run(session.connection());
    // A conflict clause, a trigger or a full disk can end a transaction without any COMMIT or ROLLBACK.
    if session.connection().is_autocommit() {
        let why = done.err().map_or_else(|| "no failure".to_owned(), |failure| failure.to_string());
        return Err(Fault::Ended(format!("the work ended its own transaction: {why}")));
    }
    let outcome = match done.map(|output| record(session, output)) {
        // The work has written, so this is not the refusal before any write that it was for the record alone.
        Ok(Err(Fault::Refused(why))) => O::refused(why),
        Ok(recorded) => Ok(recorded?),
        Err(failure) => Ok(O::failed(failure)),
    };
    if !outcome.as_ref().is_ok_and(O::stands) {
        session.prepare(TAKE_BACK)?.execute([])?;
    }
    session.prepare(KEEP)?.execute([])?;
    outcome
}

impl Verb for Transact {
    type Outcome = TransactOutcome;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<TransactOutcome, Fault> {
        work_and_record(session, &*self.work, |session, output| record(self, session, output))
    }
}

impl WorkResult for TransactOutcome {
    fn stands(&self) -> bool {
        matches!(self, TransactOutcome::Done { .. })
    }

    fn failed(failure: Failure) -> Self {
        TransactOutcome::WorkFailed(failure)
    }

    fn refused(why: String) -> Result<Self, Fault> {
        Ok(TransactOutcome::WorkFailed(Failure::permanent(why).with_code("record_refused")))
    }
}

fn record(
    transact: &Transact,
    session: &mut Session<'_, '_>,
    output: Payload,
) -> Result<TransactOutcome, Fault> {
    let advance = match (transact.record)(output.clone()) {
        Ok(advance) => advance,
        Err(illegal) => {
            return Ok(TransactOutcome::WorkFailed(Failure::permanent(illegal).with_code("illegal_change")));
        }
    };
    Ok(match advance.apply(session)? {
        // A step in a transaction opens no promise, so there is no news.
        CommitOutcome::Committed { woken, opened: _ } => {
            TransactOutcome::Done { output, commit: Box::new(advance), woken }
        }
        CommitOutcome::Stale(head) => TransactOutcome::Stale(Box::new(head)),
        CommitOutcome::ChildrenRefused(refused) => TransactOutcome::WorkFailed(refused.failure()),
        CommitOutcome::LeaseLost => TransactOutcome::LeaseLost,
    })
}

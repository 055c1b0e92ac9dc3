//! User work and its record in one commit.

use hapax_engine::model::{Failure, Payload};
use hapax_engine::store::{AdvanceOutcome, Transact, TransactOutcome};

use crate::fault::Fault;
use crate::job::Verb;
use crate::session::Session;
use crate::user_work::SqliteWork;

/// The names of savepoints that begin so are out of the user's reach.
const SAVE: &str = "SAVEPOINT hapax_work";
const KEEP: &str = "RELEASE hapax_work";
const TAKE_BACK: &str = "ROLLBACK TO hapax_work";

impl Verb for Transact {
    type Outcome = TransactOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<TransactOutcome, Fault> {
        let Some(work) = self.work.downcast_ref::<SqliteWork>() else {
            return Err(Fault::Refused("work on this store is given as SqliteWork".into()));
        };
        session.prepare(SAVE)?.execute([])?;
        let done = work.run(session.connection());
        // A conflict clause, a trigger or a full disk can end a transaction without any COMMIT or ROLLBACK.
        if session.connection().is_autocommit() {
            let why = done.err().map_or_else(|| "no failure".to_owned(), |failure| failure.to_string());
            return Err(Fault::Ended(format!("the work ended its own transaction: {why}")));
        }
        let outcome = match done {
            Ok(output) => record(self, session, output)?,
            Err(failure) => TransactOutcome::WorkFailed(failure),
        };
        if !matches!(outcome, TransactOutcome::Done { .. }) {
            session.prepare(TAKE_BACK)?.execute([])?;
        }
        session.prepare(KEEP)?.execute([])?;
        Ok(outcome)
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
    match advance.apply(session) {
        // A step in a transaction opens no promise, so there is none to tell of.
        Ok(AdvanceOutcome::Advanced { woken, opened: _ }) => {
            Ok(TransactOutcome::Done { output, advance: Box::new(advance), woken })
        }
        Ok(AdvanceOutcome::Stale(head)) => Ok(TransactOutcome::Stale(Box::new(head))),
        Ok(AdvanceOutcome::LeaseLost) => Ok(TransactOutcome::LeaseLost),
        // The work has written, so this is not the refusal before any write that it was for the record alone.
        Err(Fault::Refused(why)) => {
            Ok(TransactOutcome::WorkFailed(Failure::permanent(why).with_code("record_refused")))
        }
        Err(fault) => Err(fault),
    }
}

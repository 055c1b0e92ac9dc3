//! User work and the end of an operation in one commit.

use hapax_engine::model::{Failure, FinishOperationOutcome, Payload};
use hapax_engine::store::{TransactOperation, TransactOperationOutcome};

use crate::fault::Fault;
use crate::job::Verb;
use crate::session::Session;
use crate::transact::{WorkResult, work_and_record};

impl Verb for TransactOperation {
    type Outcome = TransactOperationOutcome;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<TransactOperationOutcome, Fault> {
        work_and_record(session, &*self.work, |session, output| finish(self, session, output))
    }
}

impl WorkResult for TransactOperationOutcome {
    fn stands(&self) -> bool {
        matches!(self, TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { .. }))
    }

    fn failed(failure: Failure) -> Self {
        TransactOperationOutcome::WorkFailed(failure)
    }

    /// It is not the work that is to blame, and nothing of it is there any more.
    fn refused(why: String) -> Result<Self, Fault> {
        Err(Fault::Refused(why))
    }
}

fn finish(
    transact: &TransactOperation,
    session: &mut Session<'_, '_>,
    output: Payload,
) -> Result<TransactOperationOutcome, Fault> {
    match (transact.finish)(output) {
        Ok(finish) => finish.apply(session).map(TransactOperationOutcome::Worked),
        Err(failure) => Ok(TransactOperationOutcome::WorkFailed(failure)),
    }
}

//! Taking in requests, and writing how they ended.

use hapax_engine::model::{
    BeginOutcome, BeginRequest, FinishDecision, FinishRequest, decide_begin_request, decide_finish_request,
};

use crate::fault::Fault;
use crate::job::Verb;
use crate::requests::{answer_request, delete_request, find_request, hold_request};
use crate::session::Session;

impl Verb for BeginRequest {
    type Outcome = BeginOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<BeginOutcome, Fault> {
        let found = match session.find_workspace(&self.scope.workspace)? {
            Some(workspace) => find_request(session.statements(), workspace, &self.scope, &self.key)?,
            None => None,
        };
        let decision = decide_begin_request(found.as_ref().map(|found| &found.record), self, session.now);
        if let Some(record) = &decision.write {
            let workspace = session.number_workspace(&self.scope.workspace)?;
            hold_request(session, workspace, found.as_ref(), record)?;
        }
        Ok(decision.answer)
    }
}

impl Verb for FinishRequest {
    type Outcome = bool;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<bool, Fault> {
        let Some(workspace) = session.find_workspace(&self.scope.workspace)? else { return Ok(false) };
        let Some(found) = find_request(session.statements(), workspace, &self.scope, &self.key)? else {
            return Ok(false);
        };
        match decide_finish_request(Some(&found.record), self, session.now) {
            FinishDecision::Write(record) => answer_request(session, found.number, &record.state)?,
            FinishDecision::Delete => delete_request(session, found.number)?,
            FinishDecision::NotYours => return Ok(false),
        }
        Ok(true)
    }
}

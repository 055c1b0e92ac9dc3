//! Beginning requests, and recording their outcomes.

use hapax_engine::model::{
    BeginOutcome, BeginRequest, FinishDecision, FinishRequest, decide_begin_request, decide_finish_request,
};

use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::requests::{answer_request, delete_request, hold_request};
use crate::session::Session;

impl Verb for BeginRequest {
    type Outcome = BeginOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.scope.workspace.clone());
        needs.begins.push(self.clone());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<BeginOutcome, Fault> {
        let place = (self.scope.clone(), self.key.clone());
        let found = session.requests.get(&place).and_then(Option::as_ref);
        let decision = decide_begin_request(found, self, session.now);
        let is_there = found.is_some();
        // A row that this transaction has just inserted already holds the right values.
        if let Some(record) = decision.write.filter(|record| Some(record) != found) {
            hold_request(session, is_there, record).await?;
        }
        Ok(decision.answer)
    }
}

impl Verb for FinishRequest {
    type Outcome = bool;

    fn foresee(&self, needs: &mut Needs) {
        needs.requests.push((self.scope.clone(), self.key.clone()));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<bool, Fault> {
        let place = (self.scope.clone(), self.key.clone());
        let found = session.requests.get(&place).and_then(Option::as_ref);
        match decide_finish_request(found, self, session.now) {
            FinishDecision::Write(record) => answer_request(session, *record).await?,
            FinishDecision::Delete => delete_request(session, place).await?,
            FinishDecision::NotYours => return Ok(false),
        }
        Ok(true)
    }
}

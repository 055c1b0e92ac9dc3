//! Taking in requests, and writing how they ended.

use hapax_engine::model::{
    BeginOutcome, BeginRequest, FinishDecision, FinishRequest, KeyedStart, KeyedStartDecision,
    KeyedStartOutcome, decide_begin_request, decide_finish_request, decide_keyed_start,
};

use crate::fault::Fault;
use crate::job::Verb;
use crate::requests::{answer_request, delete_request, find_request, hold_request, insert_answered};
use crate::session::Session;
use crate::start_run::{insert_new, may_start};

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

impl Verb for KeyedStart {
    type Outcome = KeyedStartOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<KeyedStartOutcome, Fault> {
        if !self.is_consistent() {
            return Err(Fault::Refused("a request starts a run of its own id and workspace".into()));
        }
        let (request, facts) = (&self.request, &self.new.facts);
        let workspace = session.number_workspace(&request.scope.workspace)?;
        let found = find_request(session.statements(), workspace, &request.scope, &request.key)?;
        match decide_keyed_start(found.as_ref().map(|found| &found.record), self, session.now) {
            KeyedStartDecision::Free => {}
            KeyedStartDecision::Written(answer) => {
                let own = session.find_head(workspace, facts.id)?;
                return Ok(own
                    .map_or(KeyedStartOutcome::NotFree, |head| KeyedStartOutcome::Started { head, answer }));
            }
            KeyedStartDecision::NotFree => return Ok(KeyedStartOutcome::NotFree),
        }
        if !may_start(session, facts)? {
            return Ok(KeyedStartOutcome::NotFree);
        }
        let head = insert_new(session, &self.new)?;
        let answer = (self.answer)(&head);
        let record = self.to_record(answer.clone(), session.now);
        insert_answered(session, workspace, found.as_ref(), &record)?;
        Ok(KeyedStartOutcome::Started { head, answer })
    }
}

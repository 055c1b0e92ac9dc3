//! Beginning requests, and recording their outcomes.

use hapax_engine::model::{
    BeginOutcome, BeginRequest, FinishDecision, FinishRequest, KeyedStart, KeyedStartDecision,
    KeyedStartOutcome, decide_begin_request, decide_finish_request, decide_keyed_start,
};

use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::requests::{answer_request, delete_request, hold_request, keep_answered};
use crate::session::Session;
use crate::start_run::{insert_new, may_start};

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

impl Verb for KeyedStart {
    type Outcome = KeyedStartOutcome;

    fn foresee(&self, needs: &mut Needs) {
        let facts = &self.new.facts;
        needs.names.push((facts.workspace.clone(), facts.workflow.name.clone()));
        needs.requests.push((self.request.scope.clone(), self.request.key.clone()));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<KeyedStartOutcome, Fault> {
        if !self.is_consistent() {
            return Err(Fault::Refused("a request starts a run of its own id and workspace".into()));
        }
        let (request, facts) = (&self.request, &self.new.facts);
        let place = (request.scope.clone(), request.key.clone());
        let found = session.requests.get(&place).and_then(Option::as_ref);
        let is_there = found.is_some();
        let decision = decide_keyed_start(found, self, session.now);
        let workspace = session.get_workspace(&facts.workspace).await?;
        match decision {
            KeyedStartDecision::Free => {}
            KeyedStartDecision::Written(answer) => {
                let own = session.find_head(workspace, facts.id).await?;
                return Ok(own.map_or(KeyedStartOutcome::NotFree, |own| KeyedStartOutcome::Started {
                    head: own.head,
                    answer,
                }));
            }
            KeyedStartDecision::NotFree => return Ok(KeyedStartOutcome::NotFree),
        }
        let workflow = session.get_workflow(&facts.workflow.name).await?;
        if !may_start(session, workspace, workflow, facts).await? {
            return Ok(KeyedStartOutcome::NotFree);
        }
        if is_there {
            delete_request(session, place).await?;
        }
        let head = insert_new(session, workspace, workflow, &self.new).await?.head;
        let answer = (self.answer)(&head);
        keep_answered(session, workspace, self.to_record(answer.clone(), session.now))?;
        Ok(KeyedStartOutcome::Started { head, answer })
    }
}

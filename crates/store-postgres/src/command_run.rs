//! Commands of people on runs.

use hapax_engine::model::{CommandResult, Refusal, RunCommand, StepRecord, decide_command};
use hapax_engine::store::{CommandRun, RunCommandOutcome};

use crate::ending::{announce_ending, follow_ending, insert_result};
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::rows::{self, StoredHead, uuid};
use crate::session::{Session, params};
use crate::start_run::{key_holder, subject_holder, take_key, take_subject};

impl Verb for CommandRun {
    type Outcome = RunCommandOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.runs.push((self.workspace.clone(), self.run));
        needs.bring(&self.workspace, self.note.as_slice());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<RunCommandOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(RunCommandOutcome::NoSuchRun);
        };
        let Some(stored) = session.find_head(workspace, self.run).await? else {
            return Ok(RunCommandOutcome::NoSuchRun);
        };
        if self.expected.is_some_and(|expected| expected != stored.head.version) {
            return Ok(RunCommandOutcome::Refused(Refusal::Stale(stored.head.version), stored.head));
        }
        let is_retry = matches!(self.command, RunCommand::Retry { .. });
        let steps = match is_retry {
            true => list_steps(session, &stored).await?,
            false => Vec::new(),
        };
        let steered = match decide_command(&stored.head, &self.command, &steps, session.now) {
            Ok(steered) => steered,
            Err(refusal) => return Ok(RunCommandOutcome::Refused(refusal, stored.head)),
        };
        if is_retry {
            if let Some(refusal) = stands_against(session, &stored).await? {
                return Ok(RunCommandOutcome::Refused(refusal, stored.head));
            }
            take_back(session, &stored, &steered).await?;
        }
        let written = StoredHead { head: steered.head.clone(), ..stored };
        session.write_head(written.clone());
        session.insert_event(workspace, self.run, &steered.event);
        insert_notes(session, self.note.as_slice()).await?;
        insert_notes(session, &steered.notes).await?;
        session.has_woken |= written.head.state.wake_at().is_some();
        if let Some(result) = &steered.result {
            insert_result(session, workspace, self.run, result)?;
            announce_ending(session, &written.head, &self.announce).await?;
            // The next claim finds the runs that this makes due; a person has no workers to wake.
            follow_ending(session, written, &self.announce, &mut Vec::new()).await?;
        }
        Ok(RunCommandOutcome::Accepted(steered.head))
    }
}

/// The records of a run's current generation, in the order they started.
async fn list_steps(session: &mut Session<'_>, stored: &StoredHead) -> Result<Vec<StepRecord>, Fault> {
    let generation = stored.head.generation.get().cast_signed();
    let of_run = params![stored.workspace.0, uuid(stored.head.id()), generation];
    let found = session.query(include_str!("../sql/list_steps_of_run.sql"), of_run).await?;
    rows::collect(&found, rows::step)
}

/// Reasons why a failed run cannot be retried: its key or its subject names another run.
async fn stands_against(session: &mut Session<'_>, stored: &StoredHead) -> Result<Option<Refusal>, Fault> {
    let facts = &stored.head.facts;
    if let Some(holder) = key_holder(session, stored.workspace, facts).await? {
        return Ok(Some(Refusal::KeyTaken(holder)));
    }
    let workflow = session.get_workflow(&facts.workflow.name).await?;
    let holder = subject_holder(session, stored.workspace, workflow, facts).await?;
    Ok(holder.map(Refusal::SubjectBusy))
}

/// Gives the key and the subject back to the run; deletes its result and the records that run
/// again.
async fn take_back(
    session: &mut Session<'_>,
    stored: &StoredHead,
    steered: &CommandResult,
) -> Result<(), Fault> {
    let (workspace, facts) = (stored.workspace, &stored.head.facts);
    let workflow = session.get_workflow(&facts.workflow.name).await?;
    take_key(session, workspace, facts).await?;
    take_subject(session, workspace, workflow, facts).await?;
    session.keep_back(include_str!("../sql/delete_result.sql"), params![workspace.0, uuid(facts.id)]);
    let generation = steered.head.generation.get().cast_signed();
    for step in &steered.rerun {
        let record = params![workspace.0, uuid(facts.id), generation, step.as_str().to_owned()];
        session.keep_back(include_str!("../sql/delete_step.sql"), record);
    }
    Ok(())
}

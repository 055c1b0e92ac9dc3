//! Commands of people.

use hapax_engine::model::{CommandResult, Refusal, RunCommand, RunHead, decide_command};
use hapax_engine::store::{CommandRun, RunCommandOutcome};
use rusqlite::params;

use crate::ending::{announce_ending, follow_ending, insert_result};
use crate::fault::Fault;
use crate::find;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::rows::bytes;
use crate::session::{Session, WorkspaceRowId};
use crate::start_run::{key_holder, subject_holder, take_key, take_subject};

impl Verb for CommandRun {
    type Outcome = RunCommandOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<RunCommandOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace)? else {
            return Ok(RunCommandOutcome::NoSuchRun);
        };
        let Some(head) = session.find_head(workspace, self.run)? else {
            return Ok(RunCommandOutcome::NoSuchRun);
        };
        if self.expected.is_some_and(|expected| expected != head.version) {
            return Ok(RunCommandOutcome::Refused(Refusal::Stale(head.version), head));
        }
        let is_retry = matches!(self.command, RunCommand::Retry { .. });
        let steps = match is_retry {
            true => find::steps(session.statements(), workspace, &head)?,
            false => Vec::new(),
        };
        let steered = match decide_command(&head, &self.command, &steps, session.now) {
            Ok(steered) => steered,
            Err(refusal) => return Ok(RunCommandOutcome::Refused(refusal, head)),
        };
        if is_retry {
            if let Some(refusal) = stands_against(session, &head)? {
                return Ok(RunCommandOutcome::Refused(refusal, head));
            }
            take_back(session, workspace, &steered)?;
        }
        session.write_head(workspace, &steered.head)?;
        session.insert_event(workspace, self.run, &steered.event)?;
        insert_notes(session, self.note.as_slice())?;
        insert_notes(session, &steered.notes)?;
        if let Some(result) = &steered.result {
            insert_result(session, workspace, self.run, result)?;
            announce_ending(session, &steered.head, &self.announce)?;
            // The runs that this makes due are found by the next claim; a person has no workers to tell.
            follow_ending(session, workspace, steered.head.clone(), &self.announce, &mut Vec::new())?;
        }
        Ok(RunCommandOutcome::Accepted(steered.head))
    }
}

/// Reasons why a failed run cannot be retried: its key or its subject names another run.
fn stands_against(session: &mut Session<'_, '_>, head: &RunHead) -> Result<Option<Refusal>, Fault> {
    if let Some(holder) = key_holder(session, &head.facts)? {
        return Ok(Some(Refusal::KeyTaken(holder)));
    }
    Ok(subject_holder(session, &head.facts)?.map(Refusal::SubjectBusy))
}

/// The key and the subject name the run again; its result and the records that run again go.
fn take_back(
    session: &mut Session<'_, '_>,
    workspace: WorkspaceRowId,
    steered: &CommandResult,
) -> Result<(), Fault> {
    let facts = &steered.head.facts;
    let workflow = session.number_workflow(&facts.workflow.name)?;
    take_key(session, workspace, facts)?;
    take_subject(session, workspace, workflow, facts)?;
    let mut delete = session.prepare(include_str!("../sql/delete_result.sql"))?;
    delete.execute(params![workspace.0, bytes(facts.id)])?;
    let mut delete = session.prepare(include_str!("../sql/delete_step.sql"))?;
    for step in &steered.rerun {
        let generation = steered.head.generation.get();
        delete.execute(params![workspace.0, bytes(facts.id), generation, step.as_str()])?;
    }
    Ok(())
}

//! Making runs exist.

use hapax_engine::model::{
    ClosePolicy, KeyKind, KeyRecord, KeyTarget, NewRun, RunFacts, RunHead, RunId, decide_start,
};
use hapax_engine::store::StartOutcome;
use rusqlite::{OptionalExtension, params};

use crate::codes::{Code, count, millis, millis_of};
use crate::families::count_start;
use crate::fault::Fault;
use crate::job::Verb;
use crate::rows::{self, bytes};
use crate::session::{Session, WorkflowRowId, WorkspaceRowId};

impl Verb for NewRun {
    type Outcome = StartOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<StartOutcome, Fault> {
        let facts = &*self.facts;
        check_key(facts)?;
        if let Some(head) = find_own(session, facts)? {
            return Ok(StartOutcome::Created(head));
        }
        if let Some(outcome) = same_key(session, facts)? {
            return Ok(outcome);
        }
        if let Some(run) = subject_holder(session, facts)? {
            return Ok(StartOutcome::SubjectBusy { run });
        }
        if facts.parent.is_some() {
            let workspace = session.number_workspace(&facts.workspace)?;
            count_start(session, workspace, facts.root())?;
        }
        insert_new(session, self).map(StartOutcome::Created)
    }
}

/// The run with this id, if there is one: it is the caller's own from an earlier try.
pub(crate) fn find_own(session: &mut Session<'_, '_>, facts: &RunFacts) -> Result<Option<RunHead>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_run_workspace.sql"))?;
    let taken_in = find.query_row([bytes(facts.id)], |row| row.get(0)).optional()?.map(WorkspaceRowId);
    match (taken_in, session.find_workspace(&facts.workspace)?) {
        (None, _) => Ok(None),
        (Some(taken), Some(own)) if taken == own => session.find_head(own, facts.id),
        (Some(_), _) => Err(Fault::Refused(format!("{} names a run of another workspace", facts.id))),
    }
}

/// Returns true if the id, the key and the subject of a new run are free.
pub(crate) fn may_start(session: &mut Session<'_, '_>, facts: &RunFacts) -> Result<bool, Fault> {
    check_key(facts)?;
    Ok(find_own(session, facts)?.is_none()
        && same_key(session, facts)?.is_none()
        && subject_holder(session, facts)?.is_none())
}

fn check_key(facts: &RunFacts) -> Result<(), Fault> {
    match facts.key.is_some() == facts.fingerprint.is_some() {
        true => Ok(()),
        false => Err(Fault::Refused("a key and its fingerprint come together".into())),
    }
}

/// The answer of a live key.
fn same_key(session: &mut Session<'_, '_>, facts: &RunFacts) -> Result<Option<StartOutcome>, Fault> {
    let Some((workspace, record)) = key_record(session, facts)? else { return Ok(None) };
    if !record.is_live(session.now) {
        return Ok(None);
    }
    let KeyRecord { target: KeyTarget::Run { run, fingerprint }, first_seen_at, .. } = record else {
        return Ok(None);
    };
    if facts.fingerprint != Some(fingerprint) {
        return Ok(Some(StartOutcome::KeyConflict { run, first_seen_at, fingerprint }));
    }
    Ok(Some(match session.find_head(workspace, run)? {
        Some(head) => StartOutcome::Existing(head),
        None => StartOutcome::Spent { run },
    }))
}

fn key_record(
    session: &mut Session<'_, '_>,
    facts: &RunFacts,
) -> Result<Option<(WorkspaceRowId, KeyRecord)>, Fault> {
    let Some(key) = &facts.key else { return Ok(None) };
    let Some(workspace) = session.find_workspace(&facts.workspace)? else { return Ok(None) };
    let mut find = session.prepare(include_str!("../sql/find_key.sql"))?;
    let found = find.query(params![workspace.0, KeyKind::Run.code(), key.as_str()])?;
    let record = rows::at_most_one(found, |mut row| rows::key_record(&mut row))?;
    Ok(record.map(|record| (workspace, record)))
}

/// Another run that the key of these facts names and still protects.
pub(crate) fn key_holder(session: &mut Session<'_, '_>, facts: &RunFacts) -> Result<Option<RunId>, Fault> {
    let record = key_record(session, facts)?.map(|(_, record)| record);
    let holder = record.filter(|record| record.is_live(session.now)).and_then(|record| record.run());
    Ok(holder.filter(|run| *run != facts.id))
}

/// The open run that holds the subject of these facts.
pub(crate) fn subject_holder(
    session: &mut Session<'_, '_>,
    facts: &RunFacts,
) -> Result<Option<RunId>, Fault> {
    let Some(subject) = &facts.subject else { return Ok(None) };
    let Some(workspace) = session.find_workspace(&facts.workspace)? else { return Ok(None) };
    let Some(workflow) = session.find_workflow(&facts.workflow.name)? else { return Ok(None) };
    let mut find = session.prepare(include_str!("../sql/find_open_subject.sql"))?;
    let found = find.query(params![workspace.0, workflow.0, subject.as_str()])?;
    rows::at_most_one(found, |mut row| row.run())
}

/// Inserts a run that nothing stands against.
pub(crate) fn insert_new(session: &mut Session<'_, '_>, new: &NewRun) -> Result<RunHead, Fault> {
    let facts = &*new.facts;
    let workspace = session.number_workspace(&facts.workspace)?;
    let workflow = session.number_workflow(&facts.workflow.name)?;
    let (head, started) = decide_start(new, session.now);
    session.prepare(include_str!("../sql/insert_run.sql"))?.execute(params![
        workspace.0,
        bytes(facts.id),
        count(head.version.get()),
        millis(head.changed_at),
        head.stalls,
        count(head.fence.get()),
        head.status().code(),
        millis_of(head.state.wake_at()),
        head.state.lease().map(|lease| lease.owner.as_u128().to_be_bytes()),
        count(head.arrivals),
        head.generation.get(),
        head.asked.code(),
        facts.priority.code(),
        workflow.0,
        facts.workflow.version,
        millis_of(head.started_at),
    ])?;
    let (keep_for_ms, release) = rows::retention_columns(facts.retention);
    let parent = facts.parent.as_ref();
    session.prepare(include_str!("../sql/insert_run_facts.sql"))?.execute(params![
        bytes(facts.id),
        workspace.0,
        millis(facts.created_at),
        facts.key.as_ref().map(|key| key.as_str()),
        facts.fingerprint.as_ref().map(|print| print.as_bytes()),
        keep_for_ms,
        release,
        facts.subject.as_ref().map(|subject| subject.as_str()),
        millis_of(facts.deadline_at),
        parent.map(|parent| bytes(parent.run)),
        parent.map(|parent| parent.step.as_str()),
        parent.map(|parent| parent.on_close == ClosePolicy::Cancel),
        new.input.as_str(),
        parent.map(|parent| bytes(parent.root)),
        parent.map(|parent| parent.depth),
    ])?;
    session.insert_event(workspace, facts.id, &started)?;
    take_key(session, workspace, facts)?;
    take_subject(session, workspace, workflow, facts)?;
    Ok(head)
}

/// Makes the key of a run name it for as long as it is open.
pub(crate) fn take_key(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    facts: &RunFacts,
) -> Result<(), Fault> {
    let (Some(key), Some(fingerprint)) = (&facts.key, &facts.fingerprint) else { return Ok(()) };
    session.prepare(include_str!("../sql/give_key.sql"))?.execute(params![
        workspace.0,
        KeyKind::Run.code(),
        key.as_str(),
        bytes(facts.id),
        fingerprint.as_bytes(),
        millis(session.now),
    ])?;
    Ok(())
}

pub(crate) fn take_subject(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    workflow: WorkflowRowId,
    facts: &RunFacts,
) -> Result<(), Fault> {
    let Some(subject) = &facts.subject else { return Ok(()) };
    let mut take = session.prepare(include_str!("../sql/take_subject.sql"))?;
    take.execute(params![workspace.0, workflow.0, subject.as_str(), bytes(facts.id)])?;
    Ok(())
}

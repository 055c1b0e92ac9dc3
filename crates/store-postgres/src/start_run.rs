//! Creating runs one at a time: starts that the hot path leaves because of a possible conflict.

use hapax_engine::model::{
    ClosePolicy, KeyKind, KeyRecord, KeyTarget, NewRun, RunFacts, RunId, decide_start,
};
use hapax_engine::store::StartOutcome;

use crate::codes::{Code, count, millis, millis_of};
use crate::families::count_start;
use crate::fault::Fault;
use crate::interned_names::{WorkflowRowId, WorkspaceRowId};
use crate::job::{Needs, Verb};
use crate::rows::{self, RunKey, StoredHead, uuid};
use crate::session::{Session, params};

impl Verb for NewRun {
    type Outcome = StartOutcome;

    fn foresee(&self, needs: &mut Needs) {
        let facts = &self.facts;
        needs.names.push((facts.workspace.clone(), facts.workflow.name.clone()));
        needs.runs.extend(facts.parent.iter().map(|parent| (facts.workspace.clone(), parent.run)));
        needs.families.extend(facts.parent.iter().map(|parent| (facts.workspace.clone(), parent.root)));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<StartOutcome, Fault> {
        let facts = &*self.facts;
        check_key(facts)?;
        let workspace = session.get_workspace(&facts.workspace).await?;
        match find_taken(session, workspace, facts.id).await? {
            Some(taken) if taken == workspace => {
                let own = session.find_head(workspace, facts.id).await?;
                let own = own.ok_or_else(|| Fault::Broken(format!("{} has facts but no head", facts.id)))?;
                return Ok(StartOutcome::Created(own.head));
            }
            Some(_) => return Err(refuse_id(facts.id)),
            None => {}
        }
        if let Some(outcome) = same_key(session, workspace, facts).await? {
            return Ok(outcome);
        }
        let workflow = session.get_workflow(&facts.workflow.name).await?;
        if let Some(run) = subject_holder(session, workspace, workflow, facts).await? {
            return Ok(StartOutcome::SubjectBusy { run });
        }
        mark_parent(session, workspace, facts).await?;
        if facts.parent.is_some() {
            count_start(session, workspace, facts.root()).await?;
        }
        insert_new(session, workspace, workflow, self).await.map(|stored| StartOutcome::Created(stored.head))
    }
}

/// Checks that need no read.
pub(crate) fn check_key(facts: &RunFacts) -> Result<(), Fault> {
    match facts.key.is_some() == facts.fingerprint.is_some() {
        true => Ok(()),
        false => Err(Fault::Refused("a key and its fingerprint come together".into())),
    }
}

pub(crate) fn refuse_id(run: RunId) -> Fault {
    Fault::Refused(format!("{run} names a run of another workspace"))
}

/// The workspace that already has a run with this id; `own` before any other.
pub(crate) async fn find_taken(
    session: &mut Session<'_>,
    own: WorkspaceRowId,
    run: RunId,
) -> Result<Option<WorkspaceRowId>, Fault> {
    let place = params![uuid(run), own.0];
    let found = session.query(include_str!("../sql/find_run_workspace.sql"), place).await?;
    rows::at_most_one(&found, |mut row| row.get().map(WorkspaceRowId))
}

/// Meaning of a live key for a start.
pub(crate) enum KeyMatch {
    /// It names this run, and the fingerprints agree.
    Same(RunId),
    Otherwise(StartOutcome),
}

/// Compares a live key with a start.
pub(crate) fn ask_key(record: RunKey, facts: &RunFacts) -> KeyMatch {
    let RunKey { run, fingerprint, first_seen_at, .. } = record;
    match facts.fingerprint == Some(fingerprint) {
        true => KeyMatch::Same(run),
        false => KeyMatch::Otherwise(StartOutcome::KeyConflict { run, first_seen_at, fingerprint }),
    }
}

/// Returns true if the key and the subject of a new run are free. If its id is taken, the insert fails.
pub(crate) async fn may_start(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    workflow: WorkflowRowId,
    facts: &RunFacts,
) -> Result<bool, Fault> {
    check_key(facts)?;
    Ok(same_key(session, workspace, facts).await?.is_none()
        && subject_holder(session, workspace, workflow, facts).await?.is_none())
}

async fn same_key(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    facts: &RunFacts,
) -> Result<Option<StartOutcome>, Fault> {
    let Some(record) = key_record(session, workspace, facts).await? else { return Ok(None) };
    if !record.is_live(session.now) {
        return Ok(None);
    }
    Ok(Some(match ask_key(record, facts) {
        KeyMatch::Otherwise(outcome) => outcome,
        KeyMatch::Same(run) => match session.find_head(workspace, run).await? {
            Some(stored) => StartOutcome::Existing(stored.head),
            None => StartOutcome::Spent { run },
        },
    }))
}

async fn key_record(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    facts: &RunFacts,
) -> Result<Option<RunKey>, Fault> {
    let Some(key) = &facts.key else { return Ok(None) };
    let place = params![workspace.0, KeyKind::Run.code(), key.as_str().to_owned()];
    let found = session.query(include_str!("../sql/find_key.sql"), place).await?;
    let record = rows::at_most_one(&found, |mut row| rows::key_record(&mut row))?;
    record.map(run_key).transpose()
}

/// The run key in a record.
pub(crate) fn run_key(record: KeyRecord) -> Result<RunKey, Fault> {
    let KeyRecord { target, first_seen_at, expires_at } = record;
    match target {
        KeyTarget::Run { run, fingerprint } => Ok(RunKey { run, fingerprint, first_seen_at, expires_at }),
        KeyTarget::Promise(_) | KeyTarget::Nothing => Err(rows::broken("the key of a run that names none")),
    }
}

/// Another run that the key names and still protects.
pub(crate) async fn key_holder(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    facts: &RunFacts,
) -> Result<Option<RunId>, Fault> {
    let record = key_record(session, workspace, facts).await?;
    let other = record.filter(|record| record.run != facts.id && record.is_live(session.now));
    Ok(other.map(|record| record.run))
}

/// The open run with this subject.
pub(crate) async fn subject_holder(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    workflow: WorkflowRowId,
    facts: &RunFacts,
) -> Result<Option<RunId>, Fault> {
    let Some(subject) = &facts.subject else { return Ok(None) };
    let place = params![workspace.0, workflow.0, subject.as_str().to_owned()];
    let found = session.query(include_str!("../sql/find_open_subject.sql"), place).await?;
    rows::at_most_one(&found, |mut row| row.run())
}

/// Marks the parent, because the end of a run looks for children only if it is marked.
async fn mark_parent(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    facts: &RunFacts,
) -> Result<(), Fault> {
    let Some(parent) = &facts.parent else { return Ok(()) };
    if let Some(stored) = session.find_head(workspace, parent.run).await?
        && !stored.has_children
    {
        session.write_head(StoredHead { has_children: true, ..stored });
    }
    Ok(())
}

/// Inserts a run without conflicts.
pub(crate) async fn insert_new(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    workflow: WorkflowRowId,
    new: &NewRun,
) -> Result<StoredHead, Fault> {
    let facts = &*new.facts;
    take_key(session, workspace, facts).await?;
    take_subject(session, workspace, workflow, facts).await?;
    let (head, started) = decide_start(new, session.now);
    session.keep_back(
        include_str!("../sql/insert_run.sql"),
        params![
            workspace.0,
            uuid(facts.id),
            count(head.version.get()),
            millis(head.changed_at),
            head.stalls.cast_signed(),
            count(head.fence.get()),
            head.status().code(),
            millis_of(head.state.wake_at()),
            rows::lease_owner(&head.state),
            count(head.arrivals),
            head.generation.get().cast_signed(),
            head.asked.code(),
            facts.priority.code(),
            workflow.0,
            facts.workflow.version.cast_signed(),
            millis_of(head.started_at),
        ],
    );
    let (keep_for_ms, release) = rows::retention_columns(facts.retention);
    let parent = facts.parent.as_ref();
    session.keep_back(
        include_str!("../sql/insert_run_facts.sql"),
        params![
            workspace.0,
            uuid(facts.id),
            millis(facts.created_at),
            facts.key.as_ref().map(|key| key.as_str().to_owned()),
            facts.fingerprint.as_ref().map(|print| print.as_bytes().to_vec()),
            keep_for_ms,
            release,
            facts.subject.as_ref().map(|subject| subject.as_str().to_owned()),
            millis_of(facts.deadline_at),
            parent.map(|parent| uuid(parent.run)),
            parent.map(|parent| parent.step.as_str().to_owned()),
            parent.map(|parent| parent.on_close == ClosePolicy::Cancel),
            new.input.as_str().to_owned(),
            parent.map(|parent| uuid(parent.root)),
            parent.map(|parent| parent.depth.cast_signed()),
        ],
    );
    session.insert_event(workspace, facts.id, &started);
    session.has_woken |= head.state.lease().is_none();
    let stored = StoredHead { head, token: None, has_children: false, workspace };
    session.note_inserted(stored.clone());
    Ok(stored)
}

/// Assigns a key to a run for as long as it is open.
pub(crate) async fn take_key(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    facts: &RunFacts,
) -> Result<(), Fault> {
    let (Some(key), Some(fingerprint)) = (&facts.key, &facts.fingerprint) else { return Ok(()) };
    let given = params![
        workspace.0,
        KeyKind::Run.code(),
        key.as_str().to_owned(),
        uuid(facts.id),
        fingerprint.as_bytes().to_vec(),
        millis(session.now),
    ];
    session.write_before_rivals(include_str!("../sql/give_key.sql"), given).await
}

pub(crate) async fn take_subject(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    workflow: WorkflowRowId,
    facts: &RunFacts,
) -> Result<(), Fault> {
    let Some(subject) = &facts.subject else { return Ok(()) };
    let taken = params![workspace.0, workflow.0, subject.as_str().to_owned(), uuid(facts.id)];
    session.write_before_rivals(include_str!("../sql/take_subject.sql"), taken).await
}

//! The hot path of starts: any number of them in one statement.

use hapax_engine::model::{ClosePolicy, NewRun, RunEvent, RunHead, Timestamp};
use hapax_engine::store::StartOutcome;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::codes::{Code, count, millis, millis_of};
use crate::fault::Fault;
use crate::interned_names::{WorkflowRowId, WorkspaceRowId};
use crate::rows::{self, Columns, uuid};
use crate::start_run::{KeyMatch, ask_key, refuse_id};

/// Returns true if only its own id and key can conflict. Every other start reads first.
pub(crate) fn is_plain(new: &NewRun) -> bool {
    let facts = &new.facts;
    facts.subject.is_none() && facts.parent.is_none() && facts.key.is_some() == facts.fingerprint.is_some()
}

/// A start with its decision.
pub(crate) struct DecidedStart<'a> {
    pub(crate) n: i32,
    pub(crate) workspace: WorkspaceRowId,
    pub(crate) workflow: WorkflowRowId,
    pub(crate) new: &'a NewRun,
    pub(crate) head: RunHead,
    pub(crate) started: RunEvent,
}

/// The columns of `start_runs.sql`, each a list with one entry per start.
#[derive(Debug, Default)]
pub(crate) struct StartColumns<'a> {
    limit: i64,
    now: i64,
    n: Vec<i32>,
    workspace: Vec<i32>,
    id: Vec<Uuid>,
    workflow: Vec<i32>,
    workflow_version: Vec<i32>,
    priority: Vec<i16>,
    status: Vec<i16>,
    fence: Vec<i64>,
    wake_at: Vec<Option<i64>>,
    lease_owner: Vec<Option<Uuid>>,
    started_at: Vec<Option<i64>>,
    created_at: Vec<i64>,
    key: Vec<Option<&'a str>>,
    fingerprint: Vec<Option<&'a [u8]>>,
    keep_key_for_ms: Vec<Option<i64>>,
    release_on_failure: Vec<bool>,
    deadline_at: Vec<Option<i64>>,
    parent: Vec<Option<Uuid>>,
    parent_step: Vec<Option<&'a str>>,
    cancel_with_parent: Vec<Option<bool>>,
    input: Vec<&'a str>,
    note: Vec<Option<&'a str>>,
}

impl<'a> StartColumns<'a> {
    /// The columns of starts with distinct ids and keys, in the order of their keys.
    pub(crate) fn new(starts: &'a [DecidedStart<'a>], now: Timestamp) -> Self {
        let mut columns =
            StartColumns { limit: starts.len() as i64, now: millis(now), ..StartColumns::default() };
        starts.iter().for_each(|start| columns.push(start));
        columns
    }

    fn push(&mut self, start: &'a DecidedStart<'a>) {
        let (facts, head) = (&*start.new.facts, &start.head);
        let (keep_key_for_ms, release_on_failure) = rows::retention_columns(facts.retention);
        let parent = facts.parent.as_ref();
        self.n.push(start.n);
        self.workspace.push(start.workspace.0);
        self.id.push(uuid(facts.id));
        self.workflow.push(start.workflow.0);
        self.workflow_version.push(facts.workflow.version.cast_signed());
        self.priority.push(facts.priority.code());
        self.status.push(head.status().code());
        self.fence.push(count(head.fence.get()));
        self.wake_at.push(millis_of(head.state.wake_at()));
        self.lease_owner.push(rows::lease_owner(&head.state));
        self.started_at.push(millis_of(head.started_at));
        self.created_at.push(millis(facts.created_at));
        self.key.push(facts.key.as_ref().map(|key| key.as_str()));
        self.fingerprint.push(facts.fingerprint.as_ref().map(|print| &print.as_bytes()[..]));
        self.keep_key_for_ms.push(keep_key_for_ms);
        self.release_on_failure.push(release_on_failure);
        self.deadline_at.push(millis_of(facts.deadline_at));
        self.parent.push(parent.map(|parent| uuid(parent.run)));
        self.parent_step.push(parent.map(|parent| parent.step.as_str()));
        self.cancel_with_parent.push(parent.map(|parent| parent.on_close == ClosePolicy::Cancel));
        self.input.push(start.new.input.as_str());
        self.note.push(start.started.note.as_deref());
    }

    /// In the order of the statement.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.limit,
            &self.now,
            &self.n,
            &self.workspace,
            &self.id,
            &self.workflow,
            &self.workflow_version,
            &self.priority,
            &self.status,
            &self.fence,
            &self.wake_at,
            &self.lease_owner,
            &self.started_at,
            &self.created_at,
            &self.key,
            &self.fingerprint,
            &self.keep_key_for_ms,
            &self.release_on_failure,
            &self.deadline_at,
            &self.parent,
            &self.parent_step,
            &self.cancel_with_parent,
            &self.input,
            &self.note,
        ]
    }
}

/// Obstacle to a start, as a row of `find_starts.sql`.
pub(crate) enum StartObstacle {
    /// The answer is known.
    Known(StartOutcome),
    /// The start is rejected.
    Refused(Fault),
    /// The obstacle is gone: read again.
    Gone,
}

pub(crate) fn read_obstacle(
    row: &Row,
    workspace: WorkspaceRowId,
    new: &NewRun,
    now: Timestamp,
) -> Result<StartObstacle, Fault> {
    let mut row = Columns::of(row);
    row.get::<i32>()?;
    let taken_in = row.get::<Option<i32>>()?.map(WorkspaceRowId);
    let record = rows::maybe_run_key(&mut row)?;
    let head = rows::maybe_stored_head(&mut row)?.map(|stored| stored.head);
    Ok(match (taken_in, record) {
        (Some(taken), _) if taken != workspace => StartObstacle::Refused(refuse_id(new.facts.id)),
        (Some(_), _) => {
            head.map_or(StartObstacle::Gone, |own| StartObstacle::Known(StartOutcome::Created(own)))
        }
        (None, Some(record)) if record.is_live(now) => {
            StartObstacle::Known(match ask_key(record, &new.facts) {
                KeyMatch::Otherwise(outcome) => outcome,
                KeyMatch::Same(run) => head.map_or(StartOutcome::Spent { run }, StartOutcome::Existing),
            })
        }
        (None, _) => StartObstacle::Gone,
    })
}

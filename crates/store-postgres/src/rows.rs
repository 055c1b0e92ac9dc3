//! Rows to the model and back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::{
    ClosePolicy, Failure, Fence, Fingerprint, Generation, IdempotencyKey, KeyOnFailure, KeyRecord,
    KeyRetention, KeyTarget, Lease, Name, OwnerId, Parent, Payload, PromiseId, RunEvent, RunFacts, RunHead,
    RunId, RunResult, RunState, RunStatus, RunningState, Signal, SignalId, StepId, StepRecord, StepState,
    StepStatus, Subject, Timestamp, Version, WorkflowRef, WorkspaceId, WriteToken,
};
use hapax_engine::store::RunView;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::codes::{Code, ending_of};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;

/// A run id as stored; it sorts like the id.
pub(crate) fn uuid(run: RunId) -> Uuid {
    Uuid::from_u128(run.as_u128())
}

/// An owner as stored.
pub(crate) fn owner_uuid(owner: OwnerId) -> Uuid {
    Uuid::from_u128(owner.as_u128())
}

/// The owner of a state's lease, as stored.
pub(crate) fn lease_owner(state: &RunState) -> Option<Uuid> {
    state.lease().map(|lease| owner_uuid(lease.owner))
}

/// When the run closed, according to its state.
pub(crate) fn closed_at(state: &RunState) -> Option<Timestamp> {
    match state {
        RunState::Closed { at, .. } => Some(*at),
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } | RunState::Paused => None,
    }
}

/// Reads the columns of a row from left to right.
pub(crate) struct Columns<'r> {
    row: &'r Row,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r Row) -> Self {
        Columns { row, next: 0 }
    }

    pub(crate) fn from_place(row: &'r Row, next: usize) -> Self {
        Columns { row, next }
    }

    pub(crate) fn get<T: FromSql<'r>>(&mut self) -> Result<T, Fault> {
        let place = self.next;
        self.next += 1;
        self.row.try_get(place).map_err(broken)
    }

    pub(crate) fn code<C: Code>(&mut self) -> Result<C, Fault> {
        C::from_code(self.get()?)
    }

    pub(crate) fn at(&mut self) -> Result<Timestamp, Fault> {
        Ok(Timestamp::from_millis(self.get()?))
    }

    pub(crate) fn maybe_at(&mut self) -> Result<Option<Timestamp>, Fault> {
        Ok(self.get::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    pub(crate) fn count(&mut self) -> Result<u64, Fault> {
        let value: i64 = self.get()?;
        u64::try_from(value).map_err(|_| broken(format!("{value} as a count")))
    }

    /// A small count, stored bit by bit in a signed column.
    pub(crate) fn small(&mut self) -> Result<u32, Fault> {
        Ok(self.get::<i32>()?.cast_unsigned())
    }

    pub(crate) fn run(&mut self) -> Result<RunId, Fault> {
        Ok(RunId::from_u128(self.get::<Uuid>()?.as_u128()))
    }

    pub(crate) fn maybe_owner(&mut self) -> Result<Option<OwnerId>, Fault> {
        Ok(self.get::<Option<Uuid>>()?.map(|id| OwnerId::from_u128(id.as_u128())))
    }

    pub(crate) fn maybe_run(&mut self) -> Result<Option<RunId>, Fault> {
        Ok(self.get::<Option<Uuid>>()?.map(|id| RunId::from_u128(id.as_u128())))
    }

    /// Returns true if the next column, an id, is null.
    fn is_empty_here(&self) -> Result<bool, Fault> {
        Ok(self.row.try_get::<_, Option<Uuid>>(self.next).map_err(broken)?.is_none())
    }

    pub(crate) fn text(&mut self) -> Result<&'r str, Fault> {
        self.get()
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<&'r str>, Fault> {
        self.get()
    }

    pub(crate) fn maybe_key(&mut self) -> Result<Option<IdempotencyKey>, Fault> {
        self.maybe_text()?.map(IdempotencyKey::new).transpose().map_err(broken)
    }

    pub(crate) fn maybe_payload(&mut self) -> Result<Option<Payload>, Fault> {
        Ok(self.maybe_text()?.map(Payload::from_stored))
    }

    fn maybe_fingerprint(&mut self) -> Result<Option<Fingerprint>, Fault> {
        self.get::<Option<&[u8]>>()?.map(fingerprint).transpose()
    }
}

fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, Fault> {
    bytes.try_into().map(Fingerprint::from_bytes).map_err(broken)
}

pub(crate) fn broken(what: impl std::fmt::Display) -> Fault {
    Fault::Broken(format!("the database holds a row that cannot be read: {what}"))
}

/// All rows of a result, mapped.
pub(crate) fn collect<T>(
    rows: &[Row],
    mut map: impl FnMut(Columns<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    rows.iter().map(|row| map(Columns::of(row))).collect()
}

/// The only row of a result, if there is one, mapped.
pub(crate) fn at_most_one<T>(
    rows: &[Row],
    map: impl FnOnce(Columns<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    rows.first().map(|row| map(Columns::of(row))).transpose()
}

/// A run as stored: its head, and the store's own columns.
#[derive(Debug, Clone)]
pub(crate) struct StoredHead {
    pub(crate) head: RunHead,
    /// Marks the last write under a lease.
    pub(crate) token: Option<WriteToken>,
    /// Did it ever start children?
    pub(crate) has_children: bool,
    pub(crate) workspace: WorkspaceRowId,
}

/// The last columns of a row, from the view `heads`, all null if there is no run.
pub(crate) fn maybe_stored_head(row: &mut Columns<'_>) -> Result<Option<StoredHead>, Fault> {
    match row.is_empty_here()? {
        true => Ok(None),
        false => stored_head(row).map(Some),
    }
}

/// A row of the view `heads`.
pub(crate) fn stored_head(row: &mut Columns<'_>) -> Result<StoredHead, Fault> {
    Ok(StoredHead {
        head: head(row)?,
        token: row.get::<Option<i64>>()?.map(WriteToken::from_stored),
        has_children: row.get()?,
        workspace: WorkspaceRowId(row.get()?),
    })
}

/// A row of `find_run.sql`.
pub(crate) fn view(mut row: Columns<'_>) -> Result<RunView, Fault> {
    let StoredHead { head, .. } = stored_head(&mut row)?;
    let input = Payload::from_stored(row.text()?);
    let result = match row.get::<Option<i16>>()? {
        Some(status) => Some(result(RunStatus::from_code(status)?, row.text()?)?),
        None => None,
    };
    Ok(RunView { head, input, result })
}

fn head(row: &mut Columns<'_>) -> Result<RunHead, Fault> {
    let id = row.run()?;
    let workspace = WorkspaceId::new(row.text()?).map_err(broken)?;
    let name = Name::new("workflow", row.text()?).map_err(broken)?;
    let workflow = WorkflowRef { name, version: row.small()? };
    let version = Version::new(row.count()?);
    let fence = Fence::new(row.count()?);
    let status: RunStatus = row.code()?;
    let wake_at = row.maybe_at()?;
    let owner = row.maybe_owner()?;
    let arrivals = row.count()?;
    let generation = Generation::new(row.small()?);
    let asked = row.code()?;
    let stalls = row.small()?;
    let priority = row.code()?;
    let started_at = row.maybe_at()?;
    let changed_at = row.at()?;
    let closed_at = row.maybe_at()?;
    let created_at = row.at()?;
    let key = row.maybe_key()?;
    let fingerprint = row.maybe_fingerprint()?;
    let retention = retention(row.get()?, row.get()?);
    let subject = row.maybe_text()?.map(Subject::new).transpose().map_err(broken)?;
    let deadline_at = row.maybe_at()?;
    let parent = parent(row.maybe_run()?, row.maybe_text()?, row.get()?);
    let parent = with_lineage(parent, row.maybe_run()?, row.get()?);
    let state = state(status, wake_at, owner, closed_at)?;
    let facts = RunFacts {
        workspace,
        id,
        workflow,
        key,
        fingerprint,
        retention,
        subject,
        priority,
        deadline_at,
        parent,
        created_at,
    };
    Ok(RunHead {
        facts: Arc::new(facts),
        state,
        version,
        fence,
        generation,
        asked,
        arrivals,
        stalls,
        started_at,
        changed_at,
    })
}

fn state(
    status: RunStatus,
    wake_at: Option<Timestamp>,
    owner: Option<OwnerId>,
    closed_at: Option<Timestamp>,
) -> Result<RunState, Fault> {
    let due = || wake_at.ok_or_else(|| broken("a run that is never due"));
    Ok(match (status, owner) {
        (RunStatus::Pending, None) => RunState::Pending { due_at: due()? },
        (RunStatus::Running, None) => RunState::Running(RunningState::Ready { due_at: due()? }),
        (RunStatus::Running, Some(owner)) => {
            RunState::Running(RunningState::Leased(Lease { owner, until: due()? }))
        }
        (RunStatus::Waiting, None) => RunState::Waiting { wake_at },
        (RunStatus::Paused, None) => RunState::Paused,
        (RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled, None) => {
            let at = closed_at.ok_or_else(|| broken("an ended run without the instant it ended"))?;
            let ending = ending_of(status).ok_or_else(|| broken("an ended run that did not end"))?;
            RunState::Closed { at, ending }
        }
        (_, Some(_)) => return Err(broken("a lease on a run that is not running")),
    })
}

/// Retention of a key, as two columns.
pub(crate) fn retention_columns(retention: KeyRetention) -> (Option<i64>, bool) {
    let keep = retention.keep_for.map(|span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    (keep, retention.on_failure == KeyOnFailure::Release)
}

fn retention(keep_for_ms: Option<i64>, release: bool) -> KeyRetention {
    KeyRetention {
        keep_for: keep_for_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
        on_failure: if release { KeyOnFailure::Release } else { KeyOnFailure::Keep },
    }
}

fn parent(run: Option<RunId>, step: Option<&str>, cancel: Option<bool>) -> Option<Parent> {
    let on_close = if cancel? { ClosePolicy::Cancel } else { ClosePolicy::Abandon };
    let run = run?;
    // Children from before the family counts do not know their root.
    Some(Parent { run, step: StepId::from_stored(step?), on_close, root: run, depth: 1 })
}

fn with_lineage(parent: Option<Parent>, root: Option<RunId>, depth: Option<i32>) -> Option<Parent> {
    let parent = parent?;
    let depth = depth.map_or(parent.depth, i32::cast_unsigned);
    Some(Parent { root: root.unwrap_or(parent.root), depth, ..parent })
}

/// A failure as stored.
pub(crate) fn failure_text(failure: &Failure) -> Result<String, Fault> {
    serde_json::to_string(failure)
        .map_err(|error| Fault::Refused(format!("a failure cannot be kept: {error}")))
}

pub(crate) fn failure(text: &str) -> Result<Failure, Fault> {
    serde_json::from_str(text).map_err(broken)
}

pub(crate) fn result(status: RunStatus, value: &str) -> Result<RunResult, Fault> {
    Ok(match status {
        RunStatus::Completed => RunResult::Completed(Payload::from_stored(value)),
        RunStatus::Failed => RunResult::Failed(failure(value)?),
        RunStatus::Cancelled => RunResult::Cancelled(failure(value)?),
        RunStatus::Pending | RunStatus::Running | RunStatus::Waiting | RunStatus::Paused => {
            return Err(broken("the result of a run that has not ended"));
        }
    })
}

/// A result as two columns.
pub(crate) fn result_columns(result: &RunResult) -> Result<(i16, Cow<'_, str>), Fault> {
    Ok(match result {
        RunResult::Completed(output) => (RunStatus::Completed.code(), output.as_str().into()),
        RunResult::Failed(failure) => (RunStatus::Failed.code(), failure_text(failure)?.into()),
        RunResult::Cancelled(failure) => (RunStatus::Cancelled.code(), failure_text(failure)?.into()),
    })
}

/// A child of a waiting step, with its result.
pub(crate) fn child(mut row: Columns<'_>) -> Result<(RunId, Option<RunResult>), Fault> {
    let child = row.run()?;
    let result = match row.get::<Option<i16>>()? {
        Some(status) => Some(result(RunStatus::from_code(status)?, row.text()?)?),
        None => None,
    };
    Ok((child, result))
}

/// The instant and the value of a step's state.
pub(crate) fn step_columns(state: &StepState) -> Result<(Option<i64>, Option<Cow<'_, str>>), Fault> {
    let (at, value) = match state {
        StepState::Pending { due_at, failure } => (Some(*due_at), Some(failure_text(failure)?.into())),
        StepState::Running => (None, None),
        StepState::Waiting { until } => (*until, None),
        StepState::Completed { at, output } => (Some(*at), Some(output.as_str().into())),
        StepState::Failed { at, failure } => (Some(*at), Some(failure_text(failure)?.into())),
        StepState::Skipped { at } | StepState::Cancelled { at } => (Some(*at), None),
        StepState::InDoubt { since, failure } => (Some(*since), Some(failure_text(failure)?.into())),
    };
    Ok((at.map(Timestamp::as_millis), value))
}

pub(crate) fn step(mut row: Columns<'_>) -> Result<StepRecord, Fault> {
    step_record(&mut row)
}

/// The columns of a step, from the current column on.
pub(crate) fn step_record(row: &mut Columns<'_>) -> Result<StepRecord, Fault> {
    let id = StepId::from_stored(row.text()?);
    let kind = row.code()?;
    let status: StepStatus = row.code()?;
    let attempts = row.small()?;
    let started_at = row.at()?;
    let started_version = Version::new(row.count()?);
    let changed_version = Version::new(row.count()?);
    let fence = Fence::new(row.count()?);
    let at = row.maybe_at()?;
    let value = row.maybe_text()?;
    let child = row.maybe_run()?;
    let state = step_state(status, at, value)?;
    Ok(StepRecord { id, kind, state, attempts, started_at, started_version, changed_version, fence, child })
}

fn step_state(status: StepStatus, at: Option<Timestamp>, value: Option<&str>) -> Result<StepState, Fault> {
    let instant = || at.ok_or_else(|| broken("a step without its instant"));
    let value = || value.ok_or_else(|| broken("a step without its value"));
    Ok(match status {
        StepStatus::Pending => StepState::Pending { due_at: instant()?, failure: failure(value()?)? },
        StepStatus::Running => StepState::Running,
        StepStatus::Waiting => StepState::Waiting { until: at },
        StepStatus::Completed => {
            StepState::Completed { at: instant()?, output: Payload::from_stored(value()?) }
        }
        StepStatus::Failed => StepState::Failed { at: instant()?, failure: failure(value()?)? },
        StepStatus::Skipped => StepState::Skipped { at: instant()? },
        StepStatus::Cancelled => StepState::Cancelled { at: instant()? },
        StepStatus::InDoubt => StepState::InDoubt { since: instant()?, failure: failure(value()?)? },
    })
}

pub(crate) fn event(mut row: Columns<'_>) -> Result<RunEvent, Fault> {
    Ok(RunEvent {
        version: Version::new(row.count()?),
        at: row.at()?,
        fence: Fence::new(row.count()?),
        kind: row.code()?,
        note: row.get()?,
    })
}

pub(crate) fn key_record(row: &mut Columns<'_>) -> Result<KeyRecord, Fault> {
    let (run, fingerprint, promise) = (row.maybe_run()?, row.maybe_fingerprint()?, row.maybe_text()?);
    let target = match (run, fingerprint, promise) {
        (Some(run), Some(fingerprint), None) => KeyTarget::Run { run, fingerprint },
        (None, None, Some(promise)) => KeyTarget::Promise(PromiseId::from_stored(promise)),
        (None, None, None) => KeyTarget::Nothing,
        _ => return Err(broken("a key that names more than one thing")),
    };
    Ok(KeyRecord { target, first_seen_at: row.at()?, expires_at: row.maybe_at()? })
}

/// Run that a key names.
#[derive(Debug, Clone)]
pub(crate) struct RunKey {
    pub(crate) run: RunId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) first_seen_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

impl RunKey {
    /// Returns true if the key still names it at `now`.
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }
}

/// The columns of a run's key, all null if there is none.
pub(crate) fn maybe_run_key(row: &mut Columns<'_>) -> Result<Option<RunKey>, Fault> {
    if row.is_empty_here()? {
        row.next += 4;
        return Ok(None);
    }
    Ok(Some(RunKey {
        run: row.run()?,
        fingerprint: fingerprint(row.get()?)?,
        first_seen_at: row.at()?,
        expires_at: row.maybe_at()?,
    }))
}

pub(crate) fn key_text(row: &mut Columns<'_>) -> Result<IdempotencyKey, Fault> {
    IdempotencyKey::new(row.text()?).map_err(broken)
}

pub(crate) fn workspace_name(row: &mut Columns<'_>) -> Result<WorkspaceId, Fault> {
    WorkspaceId::new(row.text()?).map_err(broken)
}

/// The name of a workspace, if there is one.
pub(crate) fn maybe_workspace_name(row: &mut Columns<'_>) -> Result<Option<WorkspaceId>, Fault> {
    row.maybe_text()?.map(WorkspaceId::new).transpose().map_err(broken)
}

pub(crate) fn signal_id(row: &mut Columns<'_>) -> Result<SignalId, Fault> {
    SignalId::new(row.text()?).map_err(broken)
}

pub(crate) fn signal(mut row: Columns<'_>) -> Result<Signal, Fault> {
    Ok(Signal {
        seq: row.count()?,
        name: Name::new("signal", row.text()?).map_err(broken)?,
        id: row.maybe_text()?.map(SignalId::new).transpose().map_err(broken)?,
        payload: Payload::from_stored(row.text()?),
        at: row.at()?,
        consumed: false,
    })
}

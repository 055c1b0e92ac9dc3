//! Rows to the model and back.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::{
    ClosePolicy, Failure, Fence, Fingerprint, Generation, IdempotencyKey, KeyOnFailure, KeyRecord,
    KeyRetention, KeyTarget, Lease, Name, OwnerId, Parent, Payload, PromiseId, RunEvent, RunFacts, RunHead,
    RunId, RunResult, RunState, RunStatus, RunningState, Signal, SignalId, StepId, StepRecord, StepState,
    StepStatus, Subject, Timestamp, Version, WorkflowRef, WorkspaceId,
};
use hapax_engine::store::RunView;
use rusqlite::Row;
use rusqlite::types::FromSql;

use crate::codes::{Code, ending_of};
use crate::fault::Fault;

/// A run id as it is kept: 16 bytes that sort like the id.
pub(crate) fn bytes(run: RunId) -> [u8; 16] {
    run.as_u128().to_be_bytes()
}

/// When a state says that the run closed.
pub(crate) fn closed_at(state: &RunState) -> Option<Timestamp> {
    match state {
        RunState::Closed { at, .. } => Some(*at),
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } | RunState::Paused => None,
    }
}

/// Reads the columns of a row from left to right.
pub(crate) struct Columns<'r> {
    row: &'r Row<'r>,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r Row<'r>) -> Self {
        Columns { row, next: 0 }
    }

    pub(crate) fn get<T: FromSql>(&mut self) -> Result<T, Fault> {
        let place = self.next;
        self.next += 1;
        Ok(self.row.get(place)?)
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
        u64::try_from(value).map_err(|_| Fault::Broken(format!("the file holds {value} as a count")))
    }

    pub(crate) fn run(&mut self) -> Result<RunId, Fault> {
        Ok(RunId::from_u128(u128::from_be_bytes(self.get()?)))
    }

    pub(crate) fn maybe_run(&mut self) -> Result<Option<RunId>, Fault> {
        Ok(self.get::<Option<[u8; 16]>>()?.map(|bytes| RunId::from_u128(u128::from_be_bytes(bytes))))
    }

    /// A text as it lies in the row, not copied.
    pub(crate) fn text(&mut self) -> Result<&'r str, Fault> {
        self.maybe_text()?.ok_or_else(|| broken("no text where one must be"))
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<&'r str>, Fault> {
        let place = self.next;
        self.next += 1;
        let text = self.row.get_ref(place)?.as_str_or_null();
        text.map_err(broken)
    }

    /// Bytes as they lie in the row, not copied.
    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<&'r [u8]>, Fault> {
        let place = self.next;
        self.next += 1;
        let bytes = self.row.get_ref(place)?.as_blob_or_null();
        bytes.map_err(broken)
    }
}

pub(crate) fn broken(what: impl std::fmt::Display) -> Fault {
    Fault::Broken(format!("the file holds a row that cannot be read: {what}"))
}

/// Every row of a query, mapped.
pub(crate) fn collect<T>(
    mut rows: rusqlite::Rows<'_>,
    mut map: impl FnMut(Columns<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(map(Columns::of(row))?);
    }
    Ok(all)
}

/// The row of a query that has at most one, mapped.
pub(crate) fn at_most_one<T>(
    mut rows: rusqlite::Rows<'_>,
    map: impl FnOnce(Columns<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    match rows.next()? {
        Some(row) => map(Columns::of(row)).map(Some),
        None => Ok(None),
    }
}

/// A row of `find_run.sql`.
pub(crate) fn view(mut row: Columns<'_>) -> Result<RunView, Fault> {
    let head = head(&mut row)?;
    // The two last columns of the view, which are not of the head.
    row.get::<Option<i64>>()?;
    row.get::<i64>()?;
    let input = Payload::from_stored(row.text()?);
    let result = match row.get::<Option<i64>>()? {
        Some(status) => Some(result(RunStatus::from_code(status)?, row.text()?)?),
        None => None,
    };
    Ok(RunView { head, input, result })
}

/// The columns of the view `heads` up to the last one of the facts.
pub(crate) fn head(row: &mut Columns<'_>) -> Result<RunHead, Fault> {
    let id = row.run()?;
    let workspace = WorkspaceId::new(row.text()?).map_err(broken)?;
    let name = Name::new("workflow", row.text()?).map_err(broken)?;
    let workflow = WorkflowRef { name, version: row.get()? };
    let version = Version::new(row.count()?);
    let fence = Fence::new(row.count()?);
    let status: RunStatus = row.code()?;
    let wake_at = row.maybe_at()?;
    let owner: Option<[u8; 16]> = row.get()?;
    let arrivals = row.count()?;
    let generation = Generation::new(row.get()?);
    let asked = row.code()?;
    let stalls = row.get()?;
    let priority = row.code()?;
    let started_at = row.maybe_at()?;
    let changed_at = row.at()?;
    let closed_at = row.maybe_at()?;
    let created_at = row.at()?;
    let key = maybe_key_text(row)?;
    let fingerprint = row.get::<Option<[u8; 32]>>()?.map(Fingerprint::from_bytes);
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
    owner: Option<[u8; 16]>,
    closed_at: Option<Timestamp>,
) -> Result<RunState, Fault> {
    let due = || wake_at.ok_or_else(|| broken("a run that is never due"));
    Ok(match (status, owner) {
        (RunStatus::Pending, None) => RunState::Pending { due_at: due()? },
        (RunStatus::Running, None) => RunState::Running(RunningState::Ready { due_at: due()? }),
        (RunStatus::Running, Some(owner)) => {
            let owner = OwnerId::from_u128(u128::from_be_bytes(owner));
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

/// A span as SQLite keeps it.
pub(crate) fn span_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn span(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// How long a key is kept, as two columns.
pub(crate) fn retention_columns(retention: KeyRetention) -> (Option<i64>, bool) {
    (retention.keep_for.map(span_ms), retention.on_failure == KeyOnFailure::Release)
}

fn retention(keep_for_ms: Option<i64>, release: bool) -> KeyRetention {
    KeyRetention {
        keep_for: keep_for_ms.map(span),
        on_failure: if release { KeyOnFailure::Release } else { KeyOnFailure::Keep },
    }
}

fn parent(run: Option<RunId>, step: Option<&str>, cancel: Option<bool>) -> Option<Parent> {
    let on_close = if cancel? { ClosePolicy::Cancel } else { ClosePolicy::Abandon };
    let run = run?;
    // Children of before families were counted do not know their root.
    Some(Parent { run, step: StepId::from_stored(step?), on_close, root: run, depth: 1 })
}

fn with_lineage(parent: Option<Parent>, root: Option<RunId>, depth: Option<u32>) -> Option<Parent> {
    let parent = parent?;
    Some(Parent { root: root.unwrap_or(parent.root), depth: depth.unwrap_or(parent.depth), ..parent })
}

/// A failure as it is kept.
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

/// A stored result: its status and its value.
pub(crate) fn result_row(mut row: Columns<'_>) -> Result<RunResult, Fault> {
    result(row.code()?, row.text()?)
}

pub(crate) fn step(mut row: Columns<'_>) -> Result<StepRecord, Fault> {
    step_columns(&mut row)
}

/// The columns of a step, from where the row stands.
pub(crate) fn step_columns(row: &mut Columns<'_>) -> Result<StepRecord, Fault> {
    let id = StepId::from_stored(row.text()?);
    let kind = row.code()?;
    let status: StepStatus = row.code()?;
    let attempts = row.get()?;
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
    let (run, promise) = (row.maybe_run()?, row.maybe_text()?);
    let fingerprint = row.get::<Option<[u8; 32]>>()?.map(Fingerprint::from_bytes);
    let target = match (run, promise, fingerprint) {
        (Some(run), None, Some(fingerprint)) => KeyTarget::Run { run, fingerprint },
        (None, Some(promise), None) => KeyTarget::Promise(PromiseId::from_stored(promise)),
        (None, None, None) => KeyTarget::Nothing,
        _ => return Err(broken("a key that names two things, or one without its fingerprint")),
    };
    Ok(KeyRecord { target, first_seen_at: row.at()?, expires_at: row.maybe_at()? })
}

pub(crate) fn key_text(row: &mut Columns<'_>) -> Result<IdempotencyKey, Fault> {
    IdempotencyKey::new(row.text()?).map_err(broken)
}

pub(crate) fn maybe_key_text(row: &mut Columns<'_>) -> Result<Option<IdempotencyKey>, Fault> {
    row.maybe_text()?.map(IdempotencyKey::new).transpose().map_err(broken)
}

pub(crate) fn maybe_payload(row: &mut Columns<'_>) -> Result<Option<Payload>, Fault> {
    Ok(row.maybe_text()?.map(Payload::from_stored))
}

pub(crate) fn workspace_name(row: &mut Columns<'_>) -> Result<WorkspaceId, Fault> {
    WorkspaceId::new(row.text()?).map_err(broken)
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

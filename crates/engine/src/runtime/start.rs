//! Starting a run.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::registry::KeyNeed;
use super::stats::Counters;
use super::{Engine, Error, RunHandle};
use crate::limits::MAX_SPAN;
use crate::model::{
    Fingerprint, IdempotencyKey, Invalid, NewRun, Payload, Priority, RunFacts, RunId, Subject,
    WorkflowSelector,
};
use crate::store::{StartOutcome, Store, StoreError};

/// How often a start whose acknowledgement was lost is sent again; its run id makes that safe.
const START_TRIES: u32 = 5;

/// A run about to be started; await it.
#[must_use = "a start does nothing until it is awaited"]
#[derive(Debug)]
pub struct Start {
    engine: Engine,
    workflow: String,
    version: Option<u32>,
    id: Option<RunId>,
    input: Result<Payload, Invalid>,
    key: Option<String>,
    subject: Option<String>,
    delay: Option<Duration>,
    deadline: Option<Duration>,
    priority: Priority,
}

impl Start {
    pub(crate) fn new(engine: Engine, workflow: &str, input: Result<Payload, Invalid>) -> Self {
        Start {
            engine,
            workflow: workflow.to_string(),
            version: None,
            id: None,
            input,
            key: None,
            subject: None,
            delay: None,
            deadline: None,
            priority: Priority::Normal,
        }
    }

    /// This version of the workflow; the newest unless said. The name may carry it as well: `order@2`.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// The id of the run, for a start that may be sent again after a crash: the second time it finds the run that the first
    /// one made. It must sort at about now, as [`RunId::new`] makes it.
    pub fn run_id(mut self, id: RunId) -> Self {
        self.id = Some(id);
        self
    }

    /// Names the run: a second start with this key and the same input is the same run.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What the run is about; at most one run of the workflow is open on a subject.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Begin this much later.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Fail the run, undoing what can be undone, if it has not ended this long after now.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Its place among due runs.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Checks the start and completes it, without sending it. For the crates of stores that can take a start in a way of their own;
    /// the run is not offered to be driven by this engine.
    pub fn prepare(self) -> Result<PreparedStart, Error> {
        let inner = &self.engine.inner;
        if inner.phase() != super::inner::Phase::Running {
            return Err(Error::ShuttingDown);
        }
        let mut selector: WorkflowSelector = self.workflow.parse()?;
        selector.version = self.version.or(selector.version);
        let workflow = inner.registry.select(&self.engine.workspace, &selector)?;
        let input = self.input?;
        let key = self.key.as_deref().map(IdempotencyKey::new).transpose()?;
        // A run id that the caller chose makes the start safe to repeat, as a key does.
        if key.is_none() && self.id.is_none() && workflow.key_need == KeyNeed::Required {
            return Err(Error::KeyMissing(self.workflow));
        }
        let fingerprint = match key {
            Some(_) => Some(Fingerprint::of_run(&workflow.reference.name, &input, &workflow.ignore)?),
            None => None,
        };
        let subject = self.subject.as_deref().map(Subject::new).transpose()?;
        for (what, span) in [("delay", self.delay), ("deadline", self.deadline)] {
            if let Some(given) = span.filter(|span| *span > MAX_SPAN) {
                return Err(Invalid::Span { what, given }.into());
            }
        }
        let now = inner.store.now();
        let facts = Arc::new(RunFacts {
            workspace: self.engine.workspace.clone(),
            id: self.id.unwrap_or_else(|| RunId::new(now)),
            workflow: workflow.reference.clone(),
            key,
            fingerprint,
            retention: workflow.retention,
            subject,
            priority: self.priority,
            deadline_at: self.deadline.map(|span| now.plus(span)),
            parent: None,
            created_at: now,
        });
        let due_at = self.delay.map(|delay| now.plus(delay));
        let new = NewRun { facts, input, due_at, grant: None };
        Ok(PreparedStart { engine: self.engine, new })
    }

    async fn run(self) -> Result<RunHandle, Error> {
        let mut prepared = self.prepare()?;
        let inner = prepared.engine.inner.clone();
        prepared.new.grant = inner.offer();
        let since = inner.clock.monotonic();
        let outcome = send(&prepared.engine, &prepared.new).await?;
        let outcome = prepared.recognise_other_version(outcome).await?;
        if let StartOutcome::Created(head) = &outcome {
            match head.state.lease() {
                Some(lease) if lease.owner == inner.owner => {
                    inner.drive_new(head.clone(), prepared.new.input.clone(), since);
                }
                _ => head.state.wake_at().into_iter().for_each(|at| inner.look_by(at)),
            }
        }
        prepared.answer(outcome)
    }
}

/// A start that is checked and complete: hand it to the store, and its outcome back.
#[must_use = "a start does nothing until it is handed to the store"]
#[derive(Debug)]
pub struct PreparedStart {
    engine: Engine,
    new: NewRun,
}

impl PreparedStart {
    /// The store it is for.
    pub fn store(&self) -> Arc<dyn Store> {
        self.engine.store()
    }

    /// What the store is to make.
    pub fn new_run(&self) -> &NewRun {
        &self.new
    }

    /// Finds the run that the key names if it only looks like another one: it began with another version of the workflow, which ignores
    /// other fields of the input. So a retry finds its run although a newer version was registered meanwhile.
    async fn recognise_other_version(&self, outcome: StartOutcome) -> Result<StartOutcome, StoreError> {
        let StartOutcome::KeyConflict { run, fingerprint, .. } = &outcome else { return Ok(outcome) };
        let (inner, facts) = (&self.engine.inner, &self.new.facts);
        let Some(found) = inner.answer(inner.store.find_run(&facts.workspace, *run)).await? else {
            return Ok(outcome);
        };
        let pinned = &found.head.facts.workflow;
        if pinned.name != facts.workflow.name || pinned.version == facts.workflow.version {
            return Ok(outcome);
        }
        let Some(workflow) = inner.registry.find(&facts.workspace, pinned) else { return Ok(outcome) };
        match Fingerprint::of_run(&pinned.name, &self.new.input, &workflow.ignore) {
            Ok(under_pinned) if under_pinned == *fingerprint => Ok(StartOutcome::Existing(found.head)),
            _ => Ok(outcome),
        }
    }

    /// What the outcome means to whoever asked.
    pub fn answer(self, outcome: StartOutcome) -> Result<RunHandle, Error> {
        let counters = &self.engine.inner.counters;
        match outcome {
            StartOutcome::Created(head) => {
                Counters::add(&counters.created);
                Ok(RunHandle::started(self.engine, head, true))
            }
            StartOutcome::Existing(head) => {
                Counters::add(&counters.duplicates);
                Ok(RunHandle::started(self.engine, head, false))
            }
            StartOutcome::Spent { run } => {
                Counters::add(&counters.duplicates);
                Err(Error::KeySpent { run })
            }
            StartOutcome::KeyConflict { run, first_seen_at, .. } => {
                Counters::add(&counters.conflicts);
                Err(Error::KeyConflict { run, first_seen_at })
            }
            StartOutcome::SubjectBusy { run } => {
                Counters::add(&counters.conflicts);
                Err(Error::SubjectBusy { run })
            }
        }
    }
}

/// Sends the start; again, if it is not known whether it was written. What one try leaves open, another that was not
/// written does not settle.
async fn send(engine: &Engine, new: &NewRun) -> Result<StartOutcome, StoreError> {
    let inner = &engine.inner;
    let mut wait = Duration::from_millis(5);
    let mut unconfirmed = None;
    for tries_left in (0..START_TRIES).rev() {
        match inner.answer(inner.store.start_run(new.clone())).await {
            Err(error @ StoreError::Unknown(_)) => unconfirmed = Some(error),
            Err(StoreError::Unavailable(_)) if unconfirmed.is_some() => {}
            answer => return answer,
        }
        if tries_left > 0 {
            tracing::warn!(run = %new.facts.id, "start not confirmed; sending it again");
            inner.clock.sleep(wait).await;
            wait *= 2;
        }
    }
    Err(unconfirmed.unwrap_or_else(|| StoreError::Unknown("the start was not confirmed".into())))
}

impl IntoFuture for Start {
    type Output = Result<RunHandle, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

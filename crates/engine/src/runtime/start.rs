//! Starts runs.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::registry::KeyRequirement;
use super::stats::Counters;
use super::{Engine, Error, RunHandle};
use crate::limits::MAX_SPAN;
use crate::model::{
    BeginRequest, Fingerprint, IdempotencyKey, Invalid, KeyKind, KeyRecord, KeyTarget, KeyedStart,
    KeyedStartOutcome, NewRun, Payload, Priority, RunFacts, RunHead, RunId, StoredAnswer, Subject,
    WorkflowSelector, WriteAnswer,
};
use crate::store::{StartOutcome, Store, StoreError};

/// Number of tries for a start whose acknowledgement was lost. The run id makes repeating it safe.
const START_TRIES: u32 = 5;

/// Builder for starting a run. Await it to start the run and get its [`RunHandle`].
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
    /// Set if the run already exists, so its workflow may be archived.
    may_be_archived: bool,
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
            may_be_archived: false,
        }
    }

    /// Sets the version of the workflow; the default is the latest. The name may carry it as well: `order@2`.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the run id, for a start that may be repeated after a crash: the repeated start finds the existing
    /// run. The id must sort near the current time, as [`RunId::new`] creates it.
    pub fn run_id(mut self, id: RunId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the idempotency key: a second start with this key and the same input returns the same run.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the subject of the run, such as an order number. Only one run of the workflow may be open per
    /// subject.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Delays the start.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets a deadline, counted from now. A run that has not ended by then undoes its effects where it can
    /// and fails.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the priority among due runs.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Validates the start without sending it. For store crates that have their own way to start a run. The
    /// run is not offered to this engine for execution.
    pub fn prepare(self) -> Result<PreparedStart, Error> {
        let (prepared, input) = self.complete()?;
        input.map(|()| prepared)
    }

    /// Completes the start, and says apart whether its input may start a run.
    fn complete(self) -> Result<(PreparedStart, Result<(), Error>), Error> {
        let inner = &self.engine.inner;
        if inner.phase() != super::inner::Phase::Running {
            return Err(Error::ShuttingDown);
        }
        let mut selector: WorkflowSelector = self.workflow.parse()?;
        selector.version = self.version.or(selector.version);
        let workflow = inner.registry.select(&self.engine.workspace, &selector)?;
        if !self.may_be_archived && inner.registry.is_archived(&self.engine.workspace, &workflow.reference) {
            return Err(Error::WorkflowArchived(
                WorkflowSelector::from(workflow.reference.clone()).to_string(),
            ));
        }
        let input = self.input?;
        let key = self.key.as_deref().map(IdempotencyKey::new).transpose()?;
        // A run id from the caller makes the start repeatable, like a key.
        if key.is_none() && self.id.is_none() && workflow.key_requirement == KeyRequirement::Required {
            return Err(Error::KeyMissing(self.workflow));
        }
        let fingerprint = match key {
            Some(_) => Some(Fingerprint::for_run(&workflow.reference.name, &input, &workflow.ignore)?),
            None => None,
        };
        let subject = self.subject.as_deref().map(Subject::new).transpose()?;
        let checked = workflow.check_input(&input);
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
        Ok((PreparedStart { engine: self.engine, new }, checked))
    }

    /// Returns whether the start repeats an earlier one: its key or id names a run. Looks only if the workflow is
    /// archived.
    async fn finds_a_run(&self) -> Result<bool, Error> {
        let (inner, workspace) = (&self.engine.inner, &self.engine.workspace);
        let mut selector: WorkflowSelector = self.workflow.parse()?;
        selector.version = self.version.or(selector.version);
        let workflow = inner.registry.select(workspace, &selector)?;
        if !inner.registry.is_archived(workspace, &workflow.reference) {
            return Ok(false);
        }
        if let Some(id) = self.id
            && inner.call_store(inner.store.find_run(workspace, id)).await?.is_some()
        {
            return Ok(true);
        }
        let Some(key) = self.key.as_deref().map(IdempotencyKey::new).transpose()? else { return Ok(false) };
        let found = inner.call_store(inner.store.find_key(workspace, KeyKind::Run, &key)).await?;
        Ok(found.is_some_and(|record| record.is_live(inner.store.now())))
    }

    async fn run(mut self) -> Result<RunHandle, Error> {
        self.may_be_archived = self.finds_a_run().await?;
        let has_own_id = self.id.is_some();
        let (mut prepared, input) = self.complete()?;
        if let Err(refused) = input {
            return prepared.find_existing(has_own_id, refused).await;
        }
        let inner = prepared.engine.inner.clone();
        prepared.new.grant = inner.offer();
        let since = inner.clock.monotonic();
        let outcome = send(&prepared.engine, &prepared.new).await?;
        let outcome = prepared.recognise_other_version(outcome).await?;
        if let StartOutcome::Created(head) = &outcome {
            prepared.take_up(head, since);
        }
        prepared.answer(outcome)
    }
}

/// A request under a key, and how it is answered once its run exists.
#[derive(Clone)]
pub struct AnsweredRequest {
    /// The request. Its id becomes the id of the run.
    pub request: BeginRequest,
    /// Writes the answer. The store calls it, so it must be quick and must not panic.
    pub answer: Arc<WriteAnswer>,
    /// How long the answer is replayed.
    pub keep_for: Duration,
    /// How long the key is refused after that.
    pub grace: Duration,
}

impl fmt::Debug for AnsweredRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnsweredRequest").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Start {
    /// Starts the run, and stores the request that asks for it with its answer, in one write. `None` if
    /// nothing was written, because a key or the subject is in use: then begin the request and start the run
    /// as usual.
    pub async fn answering(
        mut self,
        request: AnsweredRequest,
    ) -> Result<Option<(RunHandle, StoredAnswer)>, Error> {
        let AnsweredRequest { request, answer, keep_for, grace } = request;
        self.id = Some(request.id.as_run());
        let (mut prepared, input) = self.complete()?;
        input?;
        let inner = prepared.engine.inner.clone();
        let Some(store) = inner.store.request_key_store() else { return Ok(None) };
        prepared.new.grant = inner.offer();
        let since = inner.clock.monotonic();
        let start = KeyedStart { request, new: prepared.new.clone(), answer, keep_for, grace };
        let run = start.new.facts.id;
        let outcome = insist(&prepared.engine, run, || store.start_keyed_run(start.clone())).await?;
        let KeyedStartOutcome::Started { head, answer } = outcome else { return Ok(None) };
        prepared.take_up(&head, since);
        Ok(Some((prepared.answer(StartOutcome::Created(head))?, answer)))
    }
}

/// Validated start. Pass it to the store, and the store's outcome to [`PreparedStart::answer`].
#[must_use = "a start does nothing until it is handed to the store"]
#[derive(Debug)]
pub struct PreparedStart {
    engine: Engine,
    new: NewRun,
}

impl PreparedStart {
    /// Store that the start is for.
    pub fn store(&self) -> Arc<dyn Store> {
        self.engine.store()
    }

    /// Run that the store must create.
    pub fn new_run(&self) -> &NewRun {
        &self.new
    }

    /// Finds the run that an earlier start with this key or id created. A newer version of the workflow may refuse the input of a start
    /// that is repeated; the repeated start must still find its run. `refused` is returned if there is none.
    async fn find_existing(self, has_own_id: bool, refused: Error) -> Result<RunHandle, Error> {
        let (inner, facts) = (&self.engine.inner, &self.new.facts);
        if let Some(key) = &facts.key {
            let found = inner.call_store(inner.store.find_key(&facts.workspace, KeyKind::Run, key)).await?;
            let live = found.filter(|record| record.is_live(inner.store.now()));
            if let Some(KeyRecord { target: KeyTarget::Run { run, fingerprint }, first_seen_at, .. }) = live {
                if Some(&fingerprint) != facts.fingerprint.as_ref() {
                    let conflict = StartOutcome::KeyConflict { run, fingerprint, first_seen_at };
                    let recognised = self.recognise_other_version(conflict).await?;
                    return self.answer(recognised);
                }
                return match self.engine.get(run).await {
                    Ok(view) => self.answer(StartOutcome::Existing(view.head)),
                    Err(Error::NoSuchRun(run)) => self.answer(StartOutcome::Spent { run }),
                    Err(error) => Err(error),
                };
            }
        }
        if !has_own_id {
            return Err(refused);
        }
        match self.engine.get(facts.id).await {
            Ok(view) => self.answer(StartOutcome::Existing(view.head)),
            Err(Error::NoSuchRun(_)) => Err(refused),
            Err(error) => Err(error),
        }
    }

    /// Recognises the run of a key whose fingerprint differs only because the run began with another version of
    /// the workflow, which ignores other fields of the input. So a retry finds its run after an upgrade.
    async fn recognise_other_version(&self, outcome: StartOutcome) -> Result<StartOutcome, StoreError> {
        let StartOutcome::KeyConflict { run, fingerprint, .. } = &outcome else { return Ok(outcome) };
        let (inner, facts) = (&self.engine.inner, &self.new.facts);
        let Some(found) = inner.call_store(inner.store.find_run(&facts.workspace, *run)).await? else {
            return Ok(outcome);
        };
        let pinned = &found.head.facts.workflow;
        if pinned.name != facts.workflow.name || pinned.version == facts.workflow.version {
            return Ok(outcome);
        }
        let Some(workflow) = inner.registry.find(&facts.workspace, pinned) else { return Ok(outcome) };
        match Fingerprint::for_run(&pinned.name, &self.new.input, &workflow.ignore) {
            Ok(under_pinned) if under_pinned == *fingerprint => Ok(StartOutcome::Existing(found.head)),
            _ => Ok(outcome),
        }
    }

    /// Drives the new run if this engine has its lease, counted from `since`.
    fn take_up(&self, head: &RunHead, since: Duration) {
        let inner = &self.engine.inner;
        match head.state.lease() {
            Some(lease) if lease.owner == inner.owner => {
                inner.drive_new(head.clone(), self.new.input.clone(), since);
            }
            _ => head.state.wake_at().into_iter().for_each(|at| inner.wake_scheduler_by(at)),
        }
    }

    /// Converts the store's outcome into the result for the caller.
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

/// Sends the start, and repeats it while its outcome is unknown. If one try has an unknown outcome, a later
/// try that was not written does not clarify it.
async fn send(engine: &Engine, new: &NewRun) -> Result<StartOutcome, StoreError> {
    let store = &engine.inner.store;
    insist(engine, new.facts.id, || store.start_run(new.clone())).await
}

async fn insist<T, F>(engine: &Engine, run: RunId, call: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let inner = &engine.inner;
    let mut wait = Duration::from_millis(5);
    let mut unconfirmed = None;
    for tries_left in (0..START_TRIES).rev() {
        match inner.call_store(call()).await {
            Err(error @ StoreError::Unknown(_)) => unconfirmed = Some(error),
            Err(StoreError::Unavailable(_)) if unconfirmed.is_some() => {}
            answer => return answer,
        }
        if tries_left > 0 {
            tracing::warn!(%run, "start not confirmed; sending it again");
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

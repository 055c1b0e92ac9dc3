//! Operations on a server, in the engine's words.

use std::time::Duration;

use hapax_api::client::{Paging, RequestOptions, Settled};
use hapax_api::{
    CancelRun, CreateEntity, CreateRun, DurationText, JsonObject, RawJson, RejectPromise, ResolveDoubt,
    ResolvePromise, RetryRun, SendSignal, SteerRun,
};
use hapax_engine::Error;
use hapax_engine::model::{
    DoubtRef, EffectKey, Entity, EntityId, EntityRef, Failure, IdempotencyKey, Invalid, Name, Payload,
    Priority, Resolution, Ruling, RunId, RunResult, RunStatus, StepId, Timestamp, Version, WorkspaceId,
};
use hapax_engine::runtime::Doubt;

use crate::limits::{AFTER_REFUSAL, RESULT_WAIT};
use crate::worker::Remote;

/// A start of a run on a server.
#[derive(Debug, Clone)]
pub struct RemoteStart {
    /// The workflow, perhaps with a version.
    pub workflow: String,
    /// Its input: a JSON object.
    pub input: Payload,
    /// Its idempotency key.
    pub key: Option<String>,
    /// Its business object.
    pub subject: Option<String>,
    /// Delay before it begins.
    pub delay: Option<Duration>,
    /// Limit of the run.
    pub deadline: Option<Duration>,
    /// Its place among due runs.
    pub priority: Priority,
}

/// A run on a server, and whether this request created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRunRef {
    /// The run.
    pub run: RunId,
    /// True if this request created it.
    pub created: bool,
}

/// Result of settling a promise on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteSettled {
    /// This request settled it.
    Settled,
    /// It was settled before, in the same way.
    AlreadySettled,
    /// No promise has this key yet. The settlement is kept for it.
    KeptEarly {
        /// End of the retention.
        until: Timestamp,
    },
}

impl Remote {
    /// Starts a run.
    pub async fn start(&self, start: RemoteStart) -> Result<RemoteRunRef, Error> {
        self.ready().await?;
        let key = start.key.map(|key| IdempotencyKey::new(&key)).transpose()?;
        let asked = CreateRun {
            workflow: Some(start.workflow.clone()),
            definition_id: None,
            input: object_of(&start.input, "the input of a run")?,
            idempotency_key: key.map(|key| key.to_string()),
            subject: start.subject,
            delay: start.delay.map(DurationText),
            timeout: start.deadline.map(DurationText),
            priority: match start.priority {
                Priority::Low => hapax_api::Priority::Low,
                Priority::Normal => hapax_api::Priority::Normal,
                Priority::High => hapax_api::Priority::High,
            },
        };
        let made = match self.client().create_run(&asked, RequestOptions::default()).await {
            Ok(made) => made,
            Err(error) => {
                let code = error.problem().map(|problem| problem.code);
                return Err(match code {
                    Some(hapax_api::Code::DefinitionNotFound) => Error::UnknownWorkflow(start.workflow),
                    Some(hapax_api::Code::IdempotencyKeyMissing) => Error::KeyMissing(start.workflow),
                    Some(hapax_api::Code::DefinitionArchived) => Error::WorkflowArchived(start.workflow),
                    _ => Remote::error(error),
                });
            }
        };
        Ok(RemoteRunRef { run: made.run.id.parse()?, created: made.created })
    }

    /// Current status of a run.
    pub async fn get_status(&self, run: RunId) -> Result<RunStatus, Error> {
        let found = self.client().get_run(&run.to_string()).await;
        found.map(|detail| status_of(detail.run.status)).map_err(|error| of_run(run, error))
    }

    /// Waits for the end of a run.
    pub async fn wait_for_end(&self, run: RunId) -> Result<RunResult, Error> {
        loop {
            let result = self.client().get_result(&run.to_string(), RESULT_WAIT).await;
            let result = match result {
                Ok(result) => result,
                // The server may be about to come back. Waiting changes nothing.
                Err(hapax_api::client::ClientError::Unreachable { .. }) => {
                    tokio::time::sleep(AFTER_REFUSAL / 4).await;
                    continue;
                }
                Err(error) => return Err(of_run(run, error)),
            };
            let failure =
                || result.failure.as_ref().map_or_else(|| Failure::unknown("no reason"), failure_of);
            match result.status {
                hapax_api::RunStatus::Completed => {
                    return Ok(RunResult::Completed(payload_of(result.output)));
                }
                hapax_api::RunStatus::Failed => return Ok(RunResult::Failed(failure())),
                hapax_api::RunStatus::Cancelled => return Ok(RunResult::Cancelled(failure())),
                hapax_api::RunStatus::Pending
                | hapax_api::RunStatus::Running
                | hapax_api::RunStatus::Waiting
                | hapax_api::RunStatus::Paused => {}
            }
        }
    }

    /// Sends a signal. Returns false if one with this id was sent before.
    pub async fn signal(
        &self,
        run: RunId,
        name: &str,
        value: &Payload,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        let asked = SendSignal {
            name: name.to_owned(),
            value: Some(raw_of(value)),
            signal_id: id.map(str::to_owned),
        };
        let sent = self.client().signal_run(&run.to_string(), &asked, RequestOptions::default()).await;
        sent.map(|sent| sent.stored).map_err(|error| of_run(run, error))
    }

    /// Cancels a run. A run that has ended, or is cancelled already, stays as it is.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<RunStatus, Error> {
        let reason = (!reason.is_empty()).then(|| reason.to_owned());
        let asked = CancelRun { reason, descendants: false };
        let cancelled = self.client().cancel_run(&run.to_string(), &asked, RequestOptions::default()).await;
        let changed = cancelled.map(|run| status_of(run.status)).map_err(|error| of_run(run, error));
        self.unless(run, changed, &["run_ended", "already_asked"]).await
    }

    /// Pauses a run at the next step boundary.
    pub async fn pause(&self, run: RunId) -> Result<RunStatus, Error> {
        let paused =
            self.client().pause_run(&run.to_string(), &SteerRun::default(), RequestOptions::default()).await;
        paused.map(|run| status_of(run.status)).map_err(|error| of_run(run, error))
    }

    /// Resumes a run. One that is not paused stays as it is.
    pub async fn resume(&self, run: RunId) -> Result<RunStatus, Error> {
        let resumed =
            self.client().resume_run(&run.to_string(), &SteerRun::default(), RequestOptions::default()).await;
        let changed = resumed.map(|run| status_of(run.status)).map_err(|error| of_run(run, error));
        self.unless(run, changed, &["run_ended", "run_not_paused"]).await
    }

    /// Reopens a failed run.
    pub async fn retry(&self, run: RunId, from: Option<&str>) -> Result<RunStatus, Error> {
        let asked = RetryRun { from_step: from.map(str::to_owned), ..RetryRun::default() };
        let retried = self.client().retry_run(&run.to_string(), &asked, RequestOptions::default()).await;
        retried.map(|run| status_of(run.status)).map_err(|error| of_run(run, error))
    }

    /// Turns a refusal for lack of work into the status of the run.
    async fn unless(
        &self,
        run: RunId,
        changed: Result<RunStatus, Error>,
        harmless: &[&str],
    ) -> Result<RunStatus, Error> {
        match changed {
            Err(Error::Server { code, .. }) if harmless.contains(&code.as_str()) => {
                self.get_status(run).await
            }
            changed => changed,
        }
    }

    /// Gives a promise its value: `id:…` or `key:…`.
    pub async fn resolve_promise(&self, promise: &str, value: &Payload) -> Result<RemoteSettled, Error> {
        let asked = ResolvePromise { value: Some(raw_of(value)) };
        let settled = self.client().resolve_promise(promise, &asked, RequestOptions::default()).await;
        settled_of(promise, settled)
    }

    /// Says that a promise gets no value: `id:…` or `key:…`.
    pub async fn reject_promise(&self, promise: &str, failure: &Failure) -> Result<RemoteSettled, Error> {
        let message = failure.message().to_owned();
        let asked = RejectPromise { message, code: failure.code().map(str::to_owned) };
        let settled = self.client().reject_promise(promise, &asked, RequestOptions::default()).await;
        settled_of(promise, settled)
    }

    /// Effects in doubt, oldest first.
    pub async fn list_doubts(&self, limit: usize) -> Result<Vec<Doubt>, Error> {
        let mut doubts = Vec::new();
        let mut cursor = None;
        loop {
            let left = limit.saturating_sub(doubts.len());
            let paging = Paging { limit: Some(left.min(hapax_api::MAX_PAGE_ITEMS)), cursor };
            if left == 0 {
                return Ok(doubts);
            }
            let page = self.client().list_doubts(&paging).await.map_err(Remote::error)?;
            for doubt in page.items {
                doubts.push(Doubt {
                    workspace: WorkspaceId::default(),
                    run: doubt.run_id.parse()?,
                    step: StepId::from_stored(&doubt.step_id),
                    key: EffectKey::from_stored(&doubt.effect_key),
                    attempts: doubt.attempts,
                    owner: None,
                    since: instant_of(&doubt.since),
                    failure: failure_of(&doubt.failure),
                    version: Version::new(doubt.version),
                });
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(doubts);
            }
        }
    }

    /// Resolves an effect in doubt. The credential says in which role.
    pub async fn resolve_doubt(&self, doubt: &DoubtRef, ruling: Ruling) -> Result<(), Error> {
        if ruling.seconded_by.is_some() {
            return Err(Error::needs_engine(
                "a second person on a ruling",
                "on a server the role of the credential says who may decide; decide with a manager's",
            ));
        }
        let (resolution, output) = match &ruling.resolution {
            Resolution::Happened { output } => (hapax_api::Resolution::Happened, Some(output)),
            Resolution::DidNotHappen => (hapax_api::Resolution::DidNotHappen, None),
            Resolution::Compensate { output } => (hapax_api::Resolution::Compensate, Some(output)),
            Resolution::Abandon => (hapax_api::Resolution::Abandon, None),
        };
        let output = output.map(RawJson::from_value).transpose();
        let output = output.map_err(|error| Invalid::Payload(error.to_string()))?;
        let asked = ResolveDoubt {
            resolution,
            output,
            reason: ruling.reason,
            version: doubt.seen.get(),
            by: Some(ruling.by.name),
        };
        let (run, step) = (doubt.run.to_string(), doubt.step.to_string());
        self.client()
            .resolve_doubt(&run, &step, &asked, RequestOptions::default())
            .await
            .map_err(Remote::error)?;
        Ok(())
    }

    /// Creates an entity. Returns it, and whether this request created it.
    pub async fn create_entity(
        &self,
        kind: &str,
        id: &str,
        status: &str,
        data: &Payload,
    ) -> Result<(Entity, bool), Error> {
        let data = object_of(data, "the data of an entity")?;
        let asked = CreateEntity { id: id.to_owned(), status: status.to_owned(), data };
        let made = self
            .client()
            .create_entity(kind, &asked, RequestOptions::default())
            .await
            .map_err(Remote::error)?;
        Ok((entity_of(made.entity)?, made.created))
    }

    /// Finds an entity.
    pub async fn get_entity(&self, kind: &str, id: &str) -> Result<Entity, Error> {
        let found = self.client().get_entity(kind, id, None).await.map_err(Remote::error)?;
        entity_of(found.entity)
    }
}

fn of_run(run: RunId, error: hapax_api::client::ClientError) -> Error {
    match error.problem().map(|problem| problem.code) {
        Some(hapax_api::Code::NotFound) => Error::NoSuchRun(run),
        _ => Remote::error(error),
    }
}

fn settled_of(
    promise: &str,
    settled: Result<Settled, hapax_api::client::ClientError>,
) -> Result<RemoteSettled, Error> {
    match settled {
        Ok(Settled::Promise(settled)) if settled.already_settled => Ok(RemoteSettled::AlreadySettled),
        Ok(Settled::Promise(_)) => Ok(RemoteSettled::Settled),
        Ok(Settled::KeptEarly(kept)) => Ok(RemoteSettled::KeptEarly { until: instant_of(&kept.until) }),
        Err(error) => Err(match error.problem().map(|problem| problem.code) {
            Some(hapax_api::Code::NotFound) => Error::NoSuchPromise(promise.to_owned()),
            _ => Remote::error(error),
        }),
    }
}

pub(crate) fn entity_of(entity: hapax_api::Entity) -> Result<Entity, Error> {
    let kind = Name::new("entity type", &entity.kind)?;
    Ok(Entity {
        entity: EntityRef { kind, id: EntityId::new(&entity.id)? },
        status: Name::new("status", &entity.status)?,
        version: Version::new(entity.version),
        data: Payload::from_stored(entity.data.text()),
        updated_at: instant_of(&entity.updated_at),
    })
}

pub(crate) fn failure_of(failure: &hapax_api::Failure) -> Failure {
    let class = match failure.class {
        hapax_api::FailureClass::Retryable => Failure::retryable(&failure.message),
        hapax_api::FailureClass::Permanent => Failure::permanent(&failure.message),
        hapax_api::FailureClass::Unknown => Failure::unknown(&failure.message),
    };
    match &failure.code {
        Some(code) => class.with_code(code),
        None => class,
    }
}

fn status_of(status: hapax_api::RunStatus) -> RunStatus {
    match status {
        hapax_api::RunStatus::Pending => RunStatus::Pending,
        hapax_api::RunStatus::Running => RunStatus::Running,
        hapax_api::RunStatus::Waiting => RunStatus::Waiting,
        hapax_api::RunStatus::Paused => RunStatus::Paused,
        hapax_api::RunStatus::Completed => RunStatus::Completed,
        hapax_api::RunStatus::Failed => RunStatus::Failed,
        hapax_api::RunStatus::Cancelled => RunStatus::Cancelled,
    }
}

pub(crate) fn payload_of(raw: Option<RawJson>) -> Payload {
    raw.map_or_else(Payload::null, |raw| Payload::from_stored(raw.text()))
}

fn raw_of(payload: &Payload) -> RawJson {
    RawJson::from_text(payload.as_str().to_owned()).expect("a payload is JSON")
}

pub(crate) fn object_of(payload: &Payload, what: &str) -> Result<JsonObject, Error> {
    let is_nothing = payload.as_str() == "null";
    let text = if is_nothing { "{}".to_owned() } else { payload.as_str().to_owned() };
    let raw = RawJson::from_text(text).expect("a payload is JSON");
    JsonObject::from_json(raw).ok_or_else(|| {
        Invalid::Payload(format!(
            "on a server {what} is a JSON object: a struct or a map, not a bare value or a list"
        ))
        .into()
    })
}

fn instant_of(text: &str) -> Timestamp {
    let at: Option<jiff::Timestamp> = text.parse().ok();
    at.map_or(Timestamp::EPOCH, |at| Timestamp::from_millis(at.as_millisecond()))
}

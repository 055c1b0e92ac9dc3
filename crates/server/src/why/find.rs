//! Finds what a text names: runs, promises, operations, entities, webhook events.

use hapax_api::{Problem, WhyMatchKind};
use hapax_engine::model::{
    EntityId, IdempotencyKey, InboundEvent, InboundEventId, KeyKind, KeyTarget, Name, Operation,
    OperationState, Promise, PromiseId, PromiseRef, PromiseState, RunId, Settlement, Subject, Timestamp,
};
use hapax_engine::store::{ListRuns, RunFilter};
use hapax_engine::{Engine, Error};
use serde_json::Value;

use super::sentence::{excerpt, instant, since, until};
use crate::app::App;
use crate::errors::{problem_of, problem_of_store};
use crate::identity::Identity;
use crate::limits::{MAX_WHY_MATCHES, MAX_WHY_SOURCES};

/// One object that the text names.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) kind: WhyMatchKind,
    pub(super) id: String,
    /// The run behind it.
    pub(super) run: Option<RunId>,
    /// A sentence about it; for a run, its waits are explained instead.
    pub(super) sentence: Option<String>,
}

/// Everything in the workspace that `text` names, the most specific first.
pub(super) async fn find_matches(
    app: &App,
    engine: &Engine,
    identity: &Identity,
    text: &str,
) -> Result<Vec<Found>, Problem> {
    let lookup = WhyLookup { app, engine, identity, now: app.store.now() };
    let mut found = Vec::new();
    if let Some(key) = text.strip_prefix("key:") {
        found.extend(lookup.promise_by_key(key).await?);
        return Ok(found);
    }
    if let Some(id) = text.strip_prefix("id:") {
        found.extend(lookup.promise_by_id(id).await?);
        return Ok(found);
    }
    found.extend(lookup.run_by_id(text).await?);
    found.extend(lookup.operation_by_id(text).await?);
    found.extend(lookup.run_by_key(text).await?);
    found.extend(lookup.promise_by_key(text).await?);
    found.extend(lookup.promise_by_id(text).await?);
    found.extend(lookup.operation_by_key(text).await?);
    found.extend(lookup.entity(text).await?);
    found.extend(lookup.webhook_events(text).await?);
    found.extend(lookup.runs_by_subject(text).await?);
    if found.is_empty() {
        found.extend(lookup.run_in(text).await?);
    }
    found.truncate(MAX_WHY_MATCHES);
    Ok(found)
}

struct WhyLookup<'a> {
    app: &'a App,
    engine: &'a Engine,
    identity: &'a Identity,
    now: Timestamp,
}

impl WhyLookup<'_> {
    async fn run_by_id(&self, text: &str) -> Result<Option<Found>, Problem> {
        let Ok(id) = text.parse::<RunId>() else { return Ok(None) };
        match self.engine.get(id).await {
            Ok(_) => Ok(Some(run(WhyMatchKind::Run, id.to_string(), id))),
            Err(Error::NoSuchRun(_)) => Ok(None),
            Err(error) => Err(problem_of(&error)),
        }
    }

    /// The run that a step, an effect key or a doubt belongs to: `run_…:charge` or `run_…/charge`.
    async fn run_in(&self, text: &str) -> Result<Option<Found>, Problem> {
        match text.split([':', '/', '.']).next() {
            Some(first) if first.len() < text.len() => self.run_by_id(first).await,
            _ => Ok(None),
        }
    }

    async fn run_by_key(&self, text: &str) -> Result<Option<Found>, Problem> {
        let Ok(key) = IdempotencyKey::new(text) else { return Ok(None) };
        let record = self.app.store.find_key(&self.identity.workspace, KeyKind::Run, &key).await;
        match record.map_err(|error| problem_of_store(&error))?.map(|record| record.target) {
            Some(KeyTarget::Run { run: id, .. }) => Ok(Some(run(WhyMatchKind::RunKey, text.to_owned(), id))),
            Some(KeyTarget::Promise(_) | KeyTarget::Nothing) | None => Ok(None),
        }
    }

    async fn runs_by_subject(&self, text: &str) -> Result<Vec<Found>, Problem> {
        let Ok(subject) = Subject::new(text) else { return Ok(Vec::new()) };
        let request = ListRuns {
            workspace: None,
            statuses: Vec::new(),
            workflow: None,
            filter: RunFilter { subject: Some(subject), ..RunFilter::default() },
            before: None,
            limit: MAX_WHY_MATCHES,
        };
        let page = self.engine.list(request).await.map_err(|error| problem_of(&error))?;
        let ids = page.runs.iter().map(|view| view.head.id());
        Ok(ids.map(|id| run(WhyMatchKind::Subject, id.to_string(), id)).collect())
    }

    async fn promise_by_key(&self, text: &str) -> Result<Option<Found>, Problem> {
        let Ok(key) = IdempotencyKey::new(text) else { return Ok(None) };
        self.promise(WhyMatchKind::PromiseKey, PromiseRef::Key(key)).await
    }

    async fn promise_by_id(&self, text: &str) -> Result<Option<Found>, Problem> {
        let id = PromiseId::from_stored(text);
        if id.run().is_none() && PromiseId::standalone(text).is_err() {
            return Ok(None);
        }
        self.promise(WhyMatchKind::Promise, PromiseRef::Id(id)).await
    }

    async fn promise(&self, kind: WhyMatchKind, reference: PromiseRef) -> Result<Option<Found>, Problem> {
        let found = self.engine.find_promise(&reference).await.map_err(|error| problem_of(&error))?;
        Ok(found.map(|promise| {
            let run = Some(promise.run).filter(|_| !promise.is_standalone());
            let sentence = Some(describe_promise(&promise, &reference, self.now));
            Found { kind, id: promise.id.to_string(), run, sentence }
        }))
    }

    async fn operation_by_id(&self, text: &str) -> Result<Option<Found>, Problem> {
        let Ok(id) = text.parse() else { return Ok(None) };
        match self.engine.get_operation(id).await {
            Ok(operation) => Ok(Some(self.operation(WhyMatchKind::Operation, &operation))),
            Err(Error::NoSuchOperation(_)) => Ok(None),
            Err(error) => Err(problem_of(&error)),
        }
    }

    async fn operation_by_key(&self, text: &str) -> Result<Option<Found>, Problem> {
        let Ok(key) = IdempotencyKey::new(text) else { return Ok(None) };
        let found = self.engine.find_keyed_operation(&key).await.map_err(|error| problem_of(&error))?;
        Ok(found.map(|operation| self.operation(WhyMatchKind::OperationKey, &operation)))
    }

    fn operation(&self, kind: WhyMatchKind, operation: &Operation) -> Found {
        let sentence = Some(describe_operation(operation, self.now));
        Found { kind, id: operation.id.to_string(), run: operation.run, sentence }
    }

    async fn entity(&self, text: &str) -> Result<Option<Found>, Problem> {
        let Some((kind, id)) = text.split_once('/') else { return Ok(None) };
        if Name::new("entity type", kind).is_err() || EntityId::new(id).is_err() {
            return Ok(None);
        }
        let view = match self.engine.get_entity(kind, id, None).await {
            Ok(view) => view,
            Err(Error::NoSuchEntity(_) | Error::UnknownEntityType(_)) => return Ok(None),
            Err(error) => return Err(problem_of(&error)),
        };
        let mut sentence = format!("is `{}`", view.entity.status);
        match &view.holder {
            Some(operation) => {
                let step = describe_operation(operation, self.now);
                sentence = format!("{sentence}; step `{}` ({}) {step}", operation.step, operation.id);
            }
            None => {
                sentence =
                    format!("{sentence}; `hapax entities show {kind} {id}` lists the steps it can take")
            }
        }
        let run = view.holder.as_ref().and_then(|holder| holder.run);
        Ok(Some(Found { kind: WhyMatchKind::Entity, id: text.to_owned(), run, sentence: Some(sentence) }))
    }

    /// Events of all sources with this id: providers number their events independently.
    async fn webhook_events(&self, text: &str) -> Result<Vec<Found>, Problem> {
        let Some(store) = self.app.store.webhook_store() else { return Ok(Vec::new()) };
        let workspace = &self.identity.workspace;
        let (sources, _) = self.app.inbound.list_sources(workspace, None, MAX_WHY_SOURCES).await?;
        let mut found = Vec::new();
        for source in sources {
            let Ok(name) = Name::new("source name", source.name()) else { continue };
            let id = InboundEventId { workspace: workspace.clone(), source: name, event: text.to_owned() };
            let event = store.find_inbound_event(&id).await.map_err(|error| problem_of_store(&error))?;
            if let Some(event) = event {
                found.push(describe_event(&event, self.now));
            }
        }
        Ok(found)
    }
}

fn run(kind: WhyMatchKind, id: String, run: RunId) -> Found {
    Found { kind, id, run: Some(run), sentence: None }
}

fn describe_promise(promise: &Promise, reference: &PromiseRef, now: Timestamp) -> String {
    match &promise.state {
        PromiseState::Pending => format!(
            "is pending{}{}; `hapax promises resolve {reference} …` settles it",
            since(promise.created_at, now),
            until(promise.deadline_at, now)
        ),
        PromiseState::Settled { at, settlement: Settlement::Resolved(value) } => {
            format!("was resolved at {} with {}", instant(*at, now), excerpt(value.as_str()))
        }
        PromiseState::Settled { at, settlement: Settlement::Rejected(why) } => {
            format!("was rejected at {}: {}", instant(*at, now), excerpt(why.message()))
        }
        PromiseState::Settled { at, settlement: Settlement::Cancelled(why) } => {
            format!("was cancelled at {}: {}", instant(*at, now), excerpt(why.message()))
        }
        PromiseState::TimedOut => "timed out before it was settled".into(),
        PromiseState::KeyTaken { by } => {
            format!("can never be settled: its key belongs to the promise `{by}`")
        }
    }
}

fn describe_operation(operation: &Operation, now: Timestamp) -> String {
    let id = operation.id;
    match &operation.state {
        OperationState::Pending { heard_at } => format!(
            "is in progress{}; its worker was last seen {} ago",
            since(operation.began_at, now),
            super::sentence::span(now.since(*heard_at))
        ),
        OperationState::Done { at, result } => {
            format!("was done at {} with {}", instant(*at, now), excerpt(result.as_str()))
        }
        OperationState::Rejected { at, failure } => {
            format!("was rejected at {}: {}", instant(*at, now), excerpt(failure.message()))
        }
        OperationState::Failed { at, failure } => {
            format!("failed at {}: {}", instant(*at, now), excerpt(failure.message()))
        }
        OperationState::Reverted { at, .. } => {
            format!(
                "was reverted at {}; the entity is unchanged, and the step can be taken again",
                instant(*at, now)
            )
        }
        OperationState::InDoubt { since: at } => format!(
            "is in doubt{}; ask the provider, then `hapax doubts resolve {id} --seen {} …` decides it",
            since(*at, now),
            operation.attempt
        ),
    }
}

fn describe_event(event: &InboundEvent, now: Timestamp) -> Found {
    let outcome: Value = event.outcome.as_ref().and_then(|kept| kept.to().ok()).unwrap_or_default();
    let actions = outcome["actions"].as_array().cloned().unwrap_or_default();
    let text = |action: &Value, field: &str| action[field].as_str().map(str::to_owned);
    let run = actions.iter().find_map(|action| {
        let run = text(action, "runId").and_then(|run| run.parse().ok());
        run.or_else(|| PromiseId::from_stored(&text(action, "promiseId")?).run())
    });
    let what = actions.iter().find_map(|action| {
        match (text(action, "promiseId"), text(action, "runId"), text(action, "detail")) {
            (Some(promise), _, _) => Some(format!("it settled the promise `{promise}`")),
            (None, Some(run), _) => Some(format!("it reached run {run}")),
            (None, None, detail) => detail,
        }
    });
    let what = what.or_else(|| text(&outcome, "detail")).map(|what| format!(": {}", excerpt(&what)));
    let source = &event.id.source;
    let sentence = format!(
        "was received from the source `{source}` at {} and is {}{}",
        instant(event.received_at, now),
        event.status.as_str(),
        what.unwrap_or_default()
    );
    let id = format!("{source}/{}", event.id.event);
    Found { kind: WhyMatchKind::WebhookEvent, id, run, sentence: Some(sentence) }
}

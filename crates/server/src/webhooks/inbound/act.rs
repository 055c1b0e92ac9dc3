//! Executes the actions of an event. Every action is named after the event, so repeating it has no
//! second effect.

use std::time::Duration;

use hapax_api::Problem;
use hapax_documents::source::{
    ActionPlan, Event, Filtered, Outcome as Plan, Planned, PlannedSettlement, PlannedTarget,
};
use hapax_engine::limits::KEEP_EARLY_SETTLEMENT_FOR;
use hapax_engine::model::{
    Failure, IdempotencyKey, InboundEvent, InboundEventStatus, KeyKind, KeyTarget, Payload, PromiseRef,
    RunId, SettleRequest, Settlement, Timestamp, WorkspaceId,
};
use hapax_engine::runtime::SettlePromiseOutcome;
use hapax_engine::store::{FinishInboundEvent, StoreError};
use hapax_engine::{Error, RunHandle};
use serde_json::Value;

use super::InboundWebhooks;
use super::outcome::{ActionOutcome, ActionResult, EarlierOutcome, Outcome};
use super::source::StoredSource;
use crate::errors::{problem_of, problem_of_invalid, problem_of_store};
use crate::settling::settle;

impl InboundWebhooks {
    /// Executes the pending actions of `event` and records the outcome. If the store is
    /// unreachable, nothing is recorded: the event stays as it is, and is processed again.
    pub(super) async fn process(
        &self,
        source: &StoredSource,
        hook: &InboundEvent,
        event: Event,
    ) -> Result<InboundEventStatus, Problem> {
        let earlier = Outcome::from_event(hook);
        let outcome = match event.filtered {
            Filtered::Rejected => Outcome::ignored("the filter of the source rejects it"),
            Filtered::Failed { why } => Outcome::failed(format!("the filter of the source failed: {why}")),
            Filtered::Passed => {
                let mut outcome = Outcome::default();
                for plan in event.actions {
                    let action = self.carry_out(&source.workspace, plan, &earlier).await;
                    outcome.actions.push(action.map_err(|error| problem_of(&error))?);
                }
                outcome
            }
        };
        self.finish(hook, &outcome.after(earlier)).await
    }

    /// Records the outcome of an event, unless another node did so first.
    pub(super) async fn finish(
        &self,
        hook: &InboundEvent,
        outcome: &Outcome,
    ) -> Result<InboundEventStatus, Problem> {
        let status = outcome.status();
        let kept = Payload::of(outcome).map_err(|invalid| problem_of_invalid(&invalid))?;
        let request =
            FinishInboundEvent { id: hook.id.clone(), attempts: hook.attempts, status, outcome: Some(kept) };
        let book = self.book()?;
        if book.finish_event(request).await.map_err(|error| problem_of_store(&error))? {
            let (workspace, source) = (&hook.id.workspace, hook.id.source.as_str());
            self.metrics.webhook(workspace, source, status.as_str());
            let event = hook.id.event.as_str();
            tracing::info!(%workspace, source, event, status = status.as_str(), "a webhook was processed");
            return Ok(status);
        }
        let found = book.find_inbound_event(&hook.id).await.map_err(|error| problem_of_store(&error))?;
        Ok(found.map_or(status, |found| found.status))
    }

    async fn carry_out(
        &self,
        workspace: &WorkspaceId,
        plan: ActionPlan,
        earlier: &Outcome,
    ) -> Result<ActionOutcome, Error> {
        let planned = match plan.outcome {
            Plan::Do(planned) => planned,
            Plan::Skipped => return Ok(ActionOutcome::new(plan.kind, ActionResult::Skipped)),
            Plan::Failed { why } => {
                return Ok(ActionOutcome::new(plan.kind, ActionResult::Failed).because(why));
            }
        };
        let name = name_of(&planned);
        let before = earlier.before(plan.kind, &name);
        let done = match (planned, before) {
            (_, EarlierOutcome::Done(done)) => return Ok(done.clone().because("it was done before")),
            (Planned::Settle { key, .. }, EarlierOutcome::KeptEarly { until })
                if self.store.now() < until =>
            {
                self.look_for_kept(workspace, &key, until).await
            }
            (Planned::Settle { key, settlement, keep_for }, before) => {
                let may_keep = matches!(before, EarlierOutcome::Open { may_keep: true });
                let keep_for = may_keep.then(|| keep_for.unwrap_or(KEEP_EARLY_SETTLEMENT_FOR));
                self.settle(workspace, &key, settlement, keep_for).await
            }
            (Planned::Start { workflow, version, key, input }, _) => {
                self.start(workspace, &workflow, version, &key, &input).await
            }
            (Planned::Signal { target, name, id, payload }, _) => {
                self.signal(workspace, target, &name, &id, &payload).await
            }
        };
        let done = match done {
            Err(error) if !is_for_later(&error) => {
                let detail = problem_of(&error).detail;
                ActionOutcome::new(plan.kind, ActionResult::Failed).because(detail)
            }
            done => done?,
        };
        Ok(done.named(name))
    }

    /// Outcome of a settlement that is kept until `until`. It is not sent again: if a promise had
    /// used it and its key had expired, a second settlement would settle the next promise with that
    /// key.
    async fn look_for_kept(
        &self,
        workspace: &WorkspaceId,
        key: &str,
        until: Timestamp,
    ) -> Result<ActionOutcome, Error> {
        let found = self.store.find_key(workspace, KeyKind::Promise, &IdempotencyKey::new(key)?).await?;
        let now = self.store.now();
        let used = ActionOutcome::new("settle", ActionResult::Applied)
            .because("it was kept for its promise, and used when the promise was created");
        Ok(match found.filter(|record| record.is_live(now)).map(|record| record.target) {
            Some(KeyTarget::Nothing) => waits_for(key, until),
            Some(KeyTarget::Promise(promise)) => used.with_promise(promise),
            Some(KeyTarget::Run { .. }) | None => used,
        })
    }

    async fn settle(
        &self,
        workspace: &WorkspaceId,
        key: &str,
        settlement: PlannedSettlement,
        keep_for: Option<Duration>,
    ) -> Result<ActionOutcome, Error> {
        let settlement = match settlement {
            PlannedSettlement::Resolve(value) => Settlement::Resolved(Payload::of(&value)?),
            PlannedSettlement::Reject { message, code } => {
                let failure = Failure::permanent(message);
                Settlement::Rejected(match code {
                    Some(code) => failure.with_code(&code),
                    None => failure,
                })
            }
        };
        let promise = PromiseRef::Key(IdempotencyKey::new(key)?);
        let applied = ActionOutcome::new("settle", ActionResult::Applied);
        let wish = SettleRequest::new(settlement);
        match settle(&self.engine, &self.metrics, workspace, promise, wish, keep_for, None).await {
            Ok(SettlePromiseOutcome::Settled(promise)) => Ok(applied.with_promise(promise.id)),
            Ok(SettlePromiseOutcome::AlreadySettled(promise)) => {
                Ok(applied.with_promise(promise.id).because("it already had this settlement"))
            }
            Ok(SettlePromiseOutcome::KeptEarly { until }) => Ok(waits_for(key, until)),
            Err(Error::NoSuchPromise(_)) => {
                let detail = format!("no promise has the key {key:?}, and an event is kept only once");
                Ok(ActionOutcome::new("settle", ActionResult::Unmatched).because(detail))
            }
            Err(error) => Err(error),
        }
    }

    async fn start(
        &self,
        workspace: &WorkspaceId,
        workflow: &str,
        version: Option<u32>,
        key: &str,
        input: &Value,
    ) -> Result<ActionOutcome, Error> {
        let mut started = self.try_start(workspace, workflow, version, key, input).await;
        if matches!(started, Err(Error::UnknownWorkflow(_))) {
            // Another node may have stored it a moment ago.
            self.definitions.learn_recent().await;
            started = self.try_start(workspace, workflow, version, key, input).await;
        }
        let run = started?;
        let applied = ActionOutcome::new("start", ActionResult::Applied).with_run(run.id());
        Ok(match run.created {
            true => applied,
            false => applied.because("it was started before"),
        })
    }

    async fn try_start(
        &self,
        workspace: &WorkspaceId,
        workflow: &str,
        version: Option<u32>,
        key: &str,
        input: &Value,
    ) -> Result<RunHandle, Error> {
        let engine = self.engine.workspace(workspace.clone());
        let start = engine.start_payload(workflow, Payload::of(input)?).idempotency_key(key);
        match version {
            Some(version) => start.version(version).await,
            None => start.await,
        }
    }

    async fn signal(
        &self,
        workspace: &WorkspaceId,
        target: PlannedTarget,
        name: &str,
        id: &str,
        payload: &Value,
    ) -> Result<ActionOutcome, Error> {
        let unmatched = |why: String| ActionOutcome::new("signal", ActionResult::Unmatched).because(why);
        let run = match &target {
            PlannedTarget::Run(text) => text.parse::<RunId>().ok(),
            PlannedTarget::Key(key) => self.find_run_of(workspace, &IdempotencyKey::new(key)?).await?,
        };
        let Some(run) = run else {
            return Ok(unmatched(match target {
                PlannedTarget::Run(text) => format!("there is no run {text:?}"),
                PlannedTarget::Key(key) => format!("no run has the key {key:?}"),
            }));
        };
        let engine = self.engine.workspace(workspace.clone());
        let applied = ActionOutcome::new("signal", ActionResult::Applied).with_run(run);
        match engine.signal_payload(run, name, Payload::of(payload)?, Some(id)).await {
            Ok(true) => Ok(applied),
            Ok(false) => Ok(applied.because("it was sent before")),
            Err(Error::NoSuchRun(_)) => Ok(unmatched(format!("there is no run {run}"))),
            Err(error) => Err(error),
        }
    }

    async fn find_run_of(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> Result<Option<RunId>, Error> {
        let found = self.store.find_key(workspace, KeyKind::Run, key).await?;
        let now = self.store.now();
        Ok(found.filter(|record| record.is_live(now)).and_then(|record| record.run()))
    }
}

fn waits_for(key: &str, until: Timestamp) -> ActionOutcome {
    let detail = format!("no promise has the key {key:?} yet; kept for it until {until}");
    ActionOutcome::new("settle", ActionResult::Unmatched).because(detail).kept(until)
}

/// Name of an action: the same for the same event, as long as its source is unchanged.
fn name_of(planned: &Planned) -> String {
    match planned {
        Planned::Settle { key, .. } | Planned::Start { key, .. } => key.clone(),
        Planned::Signal { target: PlannedTarget::Run(run), id, .. } => format!("{id} run {run}"),
        Planned::Signal { target: PlannedTarget::Key(key), id, .. } => format!("{id} key {key}"),
    }
}

/// Returns true if the action may succeed once the store or this server has recovered.
fn is_for_later(error: &Error) -> bool {
    match error {
        Error::Store(StoreError::Unavailable(_) | StoreError::Unknown(_) | StoreError::Broken(_))
        | Error::ShuttingDown => true,
        Error::Store(StoreError::Refused(_)) => false,
        _ => false,
    }
}

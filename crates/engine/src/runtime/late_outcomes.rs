//! Records outcomes that became known after the run moved to another engine.
//!
//! They change no step record, but they are evidence. If a late outcome says that the effect happened, it
//! resolves the doubt about it, unless another ruling came first.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::doubts::open_promise;
use super::inner::{Inner, Phase};
use super::pending_change::PendingChange;
use crate::model::{
    Actor, EffectKey, Evidence, Fence, Generation, JournalEntry, JournalEvent, Name, Occurrence, Payload,
    PromiseRef, Resolution, Role, Ruling, RunId, SettleRequest, Settlement, StepId, StepKind, StepRecord,
    StepState, Timestamp, WorkspaceId,
};
use crate::store::StoreError;

/// Number of tries to record a late outcome.
const TRIES: u32 = 10;
/// Wait before the second try. It doubles after each try.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Actor name for a doubt that the returning worker resolves itself.
const ITS_OWN_WORKER: &str = "the worker that made the attempt";

/// Outcome of an attempt, known to its worker after it lost the run.
#[derive(Debug, Clone)]
pub(crate) struct LateOutcome {
    workspace: WorkspaceId,
    run: RunId,
    generation: Generation,
    step: StepId,
    kind: StepKind,
    attempt: u32,
    fence: Fence,
    occurrence: Occurrence,
    output: Option<Payload>,
}

/// Run and lease that late outcomes belong to.
pub(crate) struct LostRun<'a> {
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) run: RunId,
    pub(crate) generation: Generation,
    pub(crate) fence: Fence,
}

impl LostRun<'_> {
    /// Returns the outcomes among changes that can no longer be committed. Only outcomes of attempts count. A
    /// probe or a person may refer to an attempt that another worker has made since.
    pub(crate) fn outcomes<'a>(
        &self,
        changes: impl IntoIterator<Item = &'a PendingChange>,
    ) -> Vec<LateOutcome> {
        let outcome = |change: &PendingChange| {
            let PendingChange::Step { id, kind, transition, state, attempts, .. } = change else {
                return None;
            };
            kind.effect_class()?;
            let occurrence = Occurrence::from_state(state).filter(|_| transition.is_of_attempt())?;
            let output = match state {
                StepState::Completed { output, .. } => Some(output.clone()),
                _ => None,
            };
            Some(LateOutcome {
                workspace: self.workspace.clone(),
                run: self.run,
                generation: self.generation,
                step: id.clone(),
                kind: *kind,
                attempt: *attempts,
                fence: self.fence,
                occurrence,
                output,
            })
        };
        changes.into_iter().filter_map(outcome).collect()
    }
}

impl Engine {
    /// Records that an attempt at an effect succeeded, although its outcome no longer counts for its run. It is evidence: it
    /// counts in the ledger, and settles an open doubt about that attempt. An effect that the workspace does not have, or an
    /// attempt that was never made, is ignored, and so is a run of a workflow for which `is_accepted` is false.
    pub fn record_late_output(
        &self,
        key: &str,
        attempt: u32,
        fence: u64,
        output: &str,
        is_accepted: impl Fn(&Name) -> bool + Send + Sync + 'static,
    ) {
        let (engine, workspace, key) = (self.inner.clone(), self.workspace.clone(), key.to_string());
        let Ok(output) = Payload::parse(output) else { return };
        if !engine.options.ledger || engine.phase() == Phase::Killed {
            return;
        }
        tokio::spawn(async move {
            let late = engine.find_late_outcome(&workspace, &key, attempt, fence, output).await;
            match late {
                Ok(Some((workflow, late))) if is_accepted(&workflow) => {
                    engine.record_late_outcome(&late).await
                }
                Ok(Some(_)) => {
                    tracing::warn!(%key, "evidence about a run was refused: the credential is bound to other workflows")
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%key, %error, "a late outcome could not be told"),
            }
        });
    }
}

impl Inner {
    /// Finds the attempt that a late outcome is about.
    async fn find_late_outcome(
        &self,
        workspace: &WorkspaceId,
        key: &str,
        attempt: u32,
        fence: u64,
        output: Payload,
    ) -> Result<Option<(Name, LateOutcome)>, StoreError> {
        let Some((prefix, step)) = key.split_once(':') else { return Ok(None) };
        let Ok(run) = prefix.split('.').next().unwrap_or(prefix).parse::<RunId>() else { return Ok(None) };
        let Some(log) = self.call_store(self.store.find_log(workspace, run)).await? else { return Ok(None) };
        let generation = log.head.generation;
        let step = StepId::from_stored(step);
        let is_same = EffectKey::new(run, generation, &step).as_str() == key;
        let Some(record) = log.steps.iter().find(|record| record.id == step && is_same) else {
            return Ok(None);
        };
        // Attempts under a fence that was never given, or that were never begun, did not happen.
        if attempt == 0
            || attempt > record.attempts
            || fence > log.head.fence.get()
            || record.kind.effect_class().is_none()
        {
            return Ok(None);
        }
        let late = LateOutcome {
            workspace: workspace.clone(),
            run,
            generation,
            step,
            kind: record.kind,
            attempt,
            fence: Fence::new(fence),
            occurrence: Occurrence::Happened,
            output: Some(output),
        };
        Ok(Some((log.head.facts.workflow.name.clone(), late)))
    }
}

impl LateOutcome {
    fn note(&self, engine: &Inner, at: Timestamp) -> JournalEntry {
        let LateOutcome { run, generation, attempt, occurrence, .. } = *self;
        JournalEntry {
            workspace: self.workspace.clone(),
            run,
            generation,
            step: Some(self.step.clone()),
            at,
            fence: self.fence,
            owner: Some(engine.owner),
            by: None,
            what: JournalEvent::Refused { attempt, occurrence: Some(occurrence) },
            evidence: Evidence::for_step(run, generation, &self.step, self.kind, attempt, occurrence),
        }
    }

    /// Records the outcome in the journal and then resolves the doubt. Returns false if the doubt may still
    /// come: the next engine to take the run opens it.
    async fn tell(&self, engine: &Arc<Inner>, is_noted: &mut bool) -> Result<bool, StoreError> {
        if !*is_noted {
            let note = self.note(engine, engine.store.now());
            engine.call_store(engine.store.append_journal(vec![note])).await?;
            *is_noted = true;
        }
        let Some(output) = self.output.as_ref().filter(|_| self.occurrence == Occurrence::Happened) else {
            return Ok(true);
        };
        let Some(log) = engine.call_store(engine.store.find_log(&self.workspace, self.run)).await? else {
            return Ok(true);
        };
        let is_same = |record: &&StepRecord| record.id == self.step && record.attempts == self.attempt;
        let record = log.steps.iter().find(is_same).filter(|_| log.head.generation == self.generation);
        let Some(record) = record else { return Ok(true) };
        if record.state == StepState::Running {
            return Ok(false);
        }
        let is_in_doubt = matches!(record.state, StepState::InDoubt { .. });
        let promise = is_in_doubt.then(|| open_promise(&log, record)).flatten();
        let Some((promise, settlement)) = promise.zip(happened(output)) else { return Ok(true) };
        tracing::info!(run = %self.run, step = %self.step, attempt = self.attempt, "a late result settles a doubt");
        let wish = SettleRequest::new(settlement);
        // If another ruling came first, that one counts.
        let _ = engine.settle_promise(&self.workspace, PromiseRef::Id(promise), wish, None, None).await?;
        Ok(true)
    }
}

/// Settlement with the ruling that the effect happened with this output.
fn happened(output: &Payload) -> Option<Settlement> {
    let ruling = Ruling {
        resolution: Resolution::Happened { output: output.to().ok()? },
        by: Actor::new(ITS_OWN_WORKER, Role::Operator),
        seconded_by: None,
        reason: "it had the answer when the run was no longer its own".into(),
    };
    Payload::of(&ruling).ok().map(Settlement::Resolved)
}

impl Inner {
    /// Records late outcomes in the background. No caller waits, because the run now belongs to another
    /// engine.
    pub(crate) fn record_late_outcomes(self: &Arc<Self>, outcomes: Vec<LateOutcome>) {
        if outcomes.is_empty() || !self.options.ledger || self.phase() == Phase::Killed {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            for outcome in outcomes {
                engine.record_late_outcome(&outcome).await;
            }
        });
    }

    async fn record_late_outcome(self: &Arc<Self>, outcome: &LateOutcome) {
        let (mut wait, mut is_noted) = (FIRST_WAIT, false);
        for _ in 0..TRIES {
            match outcome.tell(self, &mut is_noted).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) if error.is_retryable() && self.phase() != Phase::Killed => {
                    tracing::warn!(run = %outcome.run, step = %outcome.step, %error, "a late outcome is not recorded yet; trying again");
                }
                Err(error) => {
                    tracing::warn!(run = %outcome.run, step = %outcome.step, %error, "a late outcome could not be recorded");
                    return;
                }
            }
            self.clock.sleep(wait).await;
            wait *= 2;
        }
    }
}

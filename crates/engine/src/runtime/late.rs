//! Outcomes that became known when their run belonged to somebody else. They change no record. They are evidence, and one that says that the
//! effect happened settles the doubt about it, if nobody was faster.

use std::sync::Arc;
use std::time::Duration;

use super::change::Change;
use super::doubts::open_promise;
use super::inner::{Inner, Phase};
use crate::model::{
    Actor, Evidence, Fence, Generation, JournalEntry, JournalEvent, Occurrence, Payload, PromiseRef,
    Resolution, Role, Ruling, RunId, SettleRequest, Settlement, StepId, StepKind, StepRecord, StepState,
    Timestamp, WorkspaceId,
};
use crate::store::StoreError;

/// How often it is tried to tell a late outcome.
const TRIES: u32 = 10;
/// How long to wait before it is tried for the second time; each time twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Who settles a doubt when the worker that vanished comes back with the answer.
const ITS_OWN_WORKER: &str = "the worker that made the attempt";

/// What a worker knows of one of its own attempts, after it lost the run.
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

/// The run and the lease that late outcomes belong to.
pub(crate) struct LostRun<'a> {
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) run: RunId,
    pub(crate) generation: Generation,
    pub(crate) fence: Fence,
}

impl LostRun<'_> {
    /// The outcomes among changes that will never be written. Only what an attempt itself came to counts: a probe or a person may have
    /// spoken of an attempt that somebody else has made since.
    pub(crate) fn outcomes<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Vec<LateOutcome> {
        let outcome = |change: &Change| {
            let Change::Step { id, kind, transition, state, attempts, .. } = change else { return None };
            kind.effect_class()?;
            let occurrence = Occurrence::of_state(state).filter(|_| transition.is_of_attempt())?;
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
            evidence: Evidence::of_step(run, generation, &self.step, self.kind, attempt, occurrence),
        }
    }

    /// First the journal, then the doubt. False if there is no doubt yet, but there may be: whoever takes the run over opens it.
    async fn tell(&self, engine: &Arc<Inner>, is_noted: &mut bool) -> Result<bool, StoreError> {
        if !*is_noted {
            let note = self.note(engine, engine.store.now());
            engine.answer(engine.store.append_journal(vec![note])).await?;
            *is_noted = true;
        }
        let Some(output) = self.output.as_ref().filter(|_| self.occurrence == Occurrence::Happened) else {
            return Ok(true);
        };
        let Some(log) = engine.answer(engine.store.find_log(&self.workspace, self.run)).await? else {
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
        // If somebody was faster, what they said counts.
        let _ = engine.settle_promise(&self.workspace, PromiseRef::Id(promise), wish, None, None).await?;
        Ok(true)
    }
}

/// That the effect happened with this output, as a ruling says it.
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
    /// Tells what became known too late. Nobody waits for it: the run is somebody else's now.
    pub(crate) fn tell_late(self: &Arc<Self>, outcomes: Vec<LateOutcome>) {
        if outcomes.is_empty() || !self.options.ledger || self.phase() == Phase::Killed {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            for outcome in outcomes {
                engine.tell_one_late(&outcome).await;
            }
        });
    }

    async fn tell_one_late(self: &Arc<Self>, outcome: &LateOutcome) {
        let (mut wait, mut is_noted) = (FIRST_WAIT, false);
        for _ in 0..TRIES {
            match outcome.tell(self, &mut is_noted).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) if error.is_retryable() && self.phase() != Phase::Killed => {
                    tracing::warn!(run = %outcome.run, step = %outcome.step, %error, "a late outcome could not be told yet");
                }
                Err(error) => {
                    tracing::warn!(run = %outcome.run, step = %outcome.step, %error, "a late outcome could not be told");
                    return;
                }
            }
            self.clock.sleep(wait).await;
            wait *= 2;
        }
    }
}

//! Steps in the store's own transaction.

use std::any::Any;

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::{Ctx, Home, checked_name, decoded, recorded_outcome};
use crate::model::{
    AttemptsMade, EffectClass, EffectKey, Failure, RetryDecision, RetryPolicy, StepKind, StepState,
    StepTransition, Timestamp, decide_retry,
};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::StepLookup;
use crate::runtime::transact::{PendingTransaction, TransactionReply};

impl Ctx {
    /// Runs a step whose effect and record are one commit.
    ///
    /// `make_work` creates the work in the form that the store requires; the store crates offer typed
    /// versions. The work may be created several times, but it takes effect once.
    pub async fn transact_step<T: DeserializeOwned>(
        &self,
        name: &str,
        policy: RetryPolicy,
        mut make_work: impl FnMut() -> Box<dyn Any + Send + Sync>,
    ) -> Result<T, Failure> {
        let name = checked_name("step name", name)?;
        let activation = match &self.home {
            Home::Engine(engine) => &*engine.activation,
            Home::Server(_) => {
                let why = format!(
                    "step {name} wants its effect and its record in one commit, and this program has no store to commit to: its \
                     runs are on a server. Embed Hapax in the program that has the database, or take a claimed step"
                );
                return Err(Failure::permanent(why).with_code("needs_engine"));
            }
        };
        self.check_effect(&name, EffectClass::Transactional, false)?;
        let step = activation.next_id(&name);
        // The policy counts from the last reset.
        let mut before = activation.replay().attempts_before(&step);
        let mut resumed_at = None;
        let (mut attempts, mut due_at, mut started_at) =
            match activation.look_up_step(&step, StepKind::Transaction) {
                StepLookup::Done(record) => return recorded_outcome(activation, &step, record.state).await,
                StepLookup::Cancelled => return activation.wait_as_cancelled().await,
                StepLookup::Open(record) => match record.state {
                    StepState::Pending { due_at, failure } => {
                        let made = AttemptsMade { count: record.attempts, since: record.started_at };
                        let decision = decide_retry(&policy, made, &failure, activation.now(), 1.0);
                        if decision == RetryDecision::Pause {
                            (before, resumed_at) = (record.attempts, Some(activation.now()));
                        }
                        (record.attempts, Some(due_at), Some(record.started_at))
                    }
                    _ => (record.attempts, None, Some(record.started_at)),
                },
                StepLookup::NotRecorded => (activation.replay().attempts_before(&step), None, None),
            };
        let key = || EffectKey::new(activation.facts.id, activation.generation, &step);
        let run = activation.facts.id;
        loop {
            if let Some(due_at) = due_at.take() {
                let due = move |_: &mut _, now: Timestamp| (now >= due_at).then_some(());
                activation.wait_for(step.clone(), Some(due_at), due).await;
            }
            activation.gate().await;
            let began = *started_at.get_or_insert_with(|| activation.now());
            attempts += 1;
            let failure = loop {
                let (reply, told) = oneshot::channel();
                let pending = PendingTransaction {
                    step: step.clone(),
                    work: make_work(),
                    attempts,
                    started_at: began,
                    reply,
                };
                activation.replay().transactions.push_back(pending);
                let told = told.await;
                activation.replay().end_turn();
                activation.wake_all();
                match told {
                    Ok(TransactionReply::Done(output)) => {
                        tracing::info!(key = %key(), %run, %step, attempt = attempts, outcome = "completed", "effect ended");
                        return decoded(step.as_str(), &output);
                    }
                    Ok(TransactionReply::Failed(failure)) => break failure,
                    // The run changed, or is being given up. The gate decides which.
                    Ok(TransactionReply::Resubmit) | Err(_) => activation.gate().await,
                }
            };
            tracing::info!(key = %key(), %run, %step, attempt = attempts, outcome = "failed", %failure, "effect ended");
            let now = activation.now();
            let change = |transition, state| {
                PendingChange::finished(&step, StepKind::Transaction, transition, state, attempts, began)
            };
            let made = AttemptsMade { count: attempts - before, since: resumed_at.unwrap_or(began) };
            let must_end = activation.replay().must_end();
            match decide_retry(&policy, made, &failure, now, fastrand::f64()) {
                RetryDecision::Pause if !must_end => {
                    let state = StepState::Pending { due_at: now, failure: failure.clone() };
                    activation.queue([change(StepTransition::ScheduleRetry, state)]);
                    activation.pause_exhausted(&step, &failure);
                    (before, resumed_at, due_at) = (attempts, Some(now), Some(now));
                }
                RetryDecision::GiveUp | RetryDecision::Pause => {
                    let state = StepState::Failed { at: now, failure: failure.clone() };
                    activation.queue([change(StepTransition::Fail, state)]);
                    return Err(failure);
                }
                RetryDecision::At(at) => {
                    activation.queue([change(
                        StepTransition::ScheduleRetry,
                        StepState::Pending { due_at: at, failure },
                    )]);
                    due_at = Some(at);
                }
            }
        }
    }
}

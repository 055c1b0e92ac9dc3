//! Steps in the store's own transaction.

use std::any::Any;

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::{Ctx, checked_name, decoded, recorded_outcome};
use crate::model::{
    AttemptsMade, EffectClass, EffectKey, Failure, RetryDecision, RetryPolicy, StepKind, StepState,
    StepTransition, Timestamp, decide_retry,
};
use crate::runtime::change::Change;
use crate::runtime::replay_state::Entered;
use crate::runtime::transact::{Pending, Reply};

impl Ctx {
    /// Takes a step whose effect and record are one commit. `make_work` makes the work in the form the store asks for;
    /// the store crates give this a typed face. It may be made several times, but takes effect once.
    pub async fn transact_step<T: DeserializeOwned>(
        &self,
        name: &str,
        policy: RetryPolicy,
        mut make_work: impl FnMut() -> Box<dyn Any + Send + Sync>,
    ) -> Result<T, Failure> {
        let activation = &*self.activation;
        let name = checked_name("step name", name)?;
        self.check_effect(&name, EffectClass::Transactional, false)?;
        let step = activation.next_id(&name);
        // The policy counts from where people last let it begin anew.
        let mut before = activation.desk().attempts_before(&step);
        let mut resumed_at = None;
        let (mut attempts, mut due_at, mut started_at) = match activation.enter(&step, StepKind::Transaction)
        {
            Entered::Done(record) => return recorded_outcome(activation, &step, record.state).await,
            Entered::GivenUp => return activation.stay_given_up().await,
            Entered::Open(record) => match record.state {
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
            Entered::Fresh => (activation.desk().attempts_before(&step), None, None),
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
                let pending =
                    Pending { step: step.clone(), work: make_work(), attempts, started_at: began, reply };
                activation.desk().transactions.push_back(pending);
                let told = told.await;
                activation.desk().end_turn();
                activation.wake_all();
                match told {
                    Ok(Reply::Done(output)) => {
                        tracing::info!(key = %key(), %run, %step, attempt = attempts, outcome = "completed", "effect ended");
                        return decoded(step.as_str(), &output);
                    }
                    Ok(Reply::Failed(failure)) => break failure,
                    // The run changed under it, or is being given up: the gate knows which.
                    Ok(Reply::Again) | Err(_) => activation.gate().await,
                }
            };
            tracing::info!(key = %key(), %run, %step, attempt = attempts, outcome = "failed", %failure, "effect ended");
            let now = activation.now();
            let change = |transition, state| {
                Change::finished(&step, StepKind::Transaction, transition, state, attempts, began)
            };
            let made = AttemptsMade { count: attempts - before, since: resumed_at.unwrap_or(began) };
            let is_to_end = activation.desk().is_to_end();
            match decide_retry(&policy, made, &failure, now, fastrand::f64()) {
                RetryDecision::Pause if !is_to_end => {
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

//! Select: the first of several branches to finish.

use std::future::poll_fn;
use std::task::Poll;

use serde::{Deserialize, Serialize};

use super::{Branch, Branches, Ctx, Home, checked_name, recorded_value};
use crate::model::{Failure, Payload, StepKind, StepState, StepTransition};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::StepLookup;

/// Recorded choice.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct RecordedChoice {
    /// Index of the branch that finished first.
    first: usize,
    /// Number of branches that had a turn. Branches after one that finishes at once never request anything,
    /// so they must not in a replay either.
    polled: usize,
}

impl Ctx {
    /// Runs branches concurrently and returns the index and the outcome of the first to finish. The other branches
    /// are dropped. The choice is recorded, so a replay makes the same one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use hapax_engine::{Ctx, Failure};
    /// # async fn decide(ctx: Ctx) -> Result<bool, Failure> {
    /// let approved = ctx.signal::<bool>("approved");
    /// let too_late = async { ctx.sleep(Duration::from_secs(86_400)).await.map(|()| false) };
    /// let (_, answer) = ctx.select((approved, too_late)).await?;
    /// # answer
    /// # }
    /// ```
    pub async fn select<'a, T>(&self, branches: impl Branches<'a, T>) -> Result<(usize, T), Failure> {
        let branches = branches.into_branches();
        let activation = match &self.home {
            Home::Engine(engine) => &*engine.activation,
            Home::Server(_) => return select_remotely(branches).await,
        };
        let id = activation.next_id(&checked_name("step name", "select")?);
        let began = activation.now();
        let recorded: Option<RecordedChoice> = match activation.look_up_step(&id, StepKind::Select) {
            StepLookup::Done(record) => Some(recorded_value(activation, id.as_str(), record.state)?),
            StepLookup::Cancelled => return activation.wait_as_cancelled().await,
            StepLookup::Open(_) | StepLookup::NotRecorded => None,
        };
        let polled = recorded.map_or(branches.len(), |choice| choice.polled);
        if branches.is_empty() || polled > branches.len() || recorded.is_some_and(|c| c.first >= polled) {
            let text = format!(
                "select needs at least one branch, and as many as when it was recorded ({})",
                branches.len()
            );
            return Err(Failure::permanent(text).with_code("invalid"));
        }
        let mut branches: Vec<_> = branches.into_iter().take(polled).map(Some).collect();
        let mut is_first_turn = true;
        let (choice, outcome) = poll_fn(|cx| {
            let mut ended = None;
            for (place, slot) in branches.iter_mut().enumerate() {
                let Some(branch) = slot else { continue };
                let queued = activation.replay().queued();
                let polled_branch = branch.as_mut().poll(cx);
                if recorded.is_some_and(|choice| choice.first != place) {
                    // A losing branch never does anything more. It must not repeat steps whose records a
                    // retry dropped.
                    activation.drop_changes_since(queued);
                }
                let Poll::Ready(outcome) = polled_branch else { continue };
                *slot = None;
                match recorded {
                    // The first branch to finish wins. Branches after it do not get this turn.
                    None => {
                        let polled = if is_first_turn { place + 1 } else { polled };
                        return Poll::Ready((RecordedChoice { first: place, polled }, outcome));
                    }
                    // In a replay every branch gets the turn, so that losing branches request their records.
                    Some(choice) if choice.first == place => ended = Some((choice, outcome)),
                    Some(_) => {}
                }
            }
            is_first_turn = false;
            ended.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let waiting = activation.waiting_steps();
        drop(branches);
        let left = activation.waiting_steps();
        if recorded.is_none() {
            let now = activation.now();
            let state = StepState::Completed {
                at: now,
                output: Payload::of(&choice).map_err(super::invalid_failure)?,
            };
            let given_up = waiting.difference(&left).cloned().map(PendingChange::CancelIfOpen);
            let chosen =
                PendingChange::finished(&id, StepKind::Select, StepTransition::Complete, state, 1, began);
            activation.queue(given_up.chain([chosen]));
        }
        Ok((choice.first, outcome))
    }
}

/// Runs branches until one finishes. The server's order of outcomes decides, so a replay makes the same
/// choice without a record of it.
async fn select_remotely<T>(mut branches: Vec<Branch<'_, T>>) -> Result<(usize, T), Failure> {
    if branches.is_empty() {
        return Err(Failure::permanent("select needs at least one branch (0)").with_code("invalid"));
    }
    let first = poll_fn(|cx| {
        for (place, branch) in branches.iter_mut().enumerate() {
            if let Poll::Ready(outcome) = branch.as_mut().poll(cx) {
                return Poll::Ready((place, outcome));
            }
        }
        Poll::Pending
    })
    .await;
    drop(branches);
    Ok(first)
}

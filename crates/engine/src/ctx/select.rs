//! The first of several branches.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use serde::{Deserialize, Serialize};

use super::{Ctx, checked_name, recorded_value};
use crate::model::{Failure, Payload, StepKind, StepState, StepTransition};
use crate::runtime::change::Change;
use crate::runtime::replay_state::Entered;

/// What is remembered of a choice.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Choice {
    /// The place of the branch that came first.
    first: usize,
    /// How many branches had a turn: those after one that ends at once never ask for anything, nor may they in a replay.
    polled: usize,
}

impl Ctx {
    /// Runs branches side by side, gives the outcome of the first to end and its place, and drops the others. Which
    /// one it was is remembered, so that a replay goes the same way.
    pub async fn select<'a, T>(
        &self,
        branches: Vec<Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
    ) -> Result<(usize, T), Failure> {
        let activation = &*self.activation;
        let id = activation.next_id(&checked_name("step name", "select")?);
        let began = activation.now();
        let recorded: Option<Choice> = match activation.enter(&id, StepKind::Select) {
            Entered::Done(record) => Some(recorded_value(activation, id.as_str(), record.state)?),
            Entered::GivenUp => return activation.stay_given_up().await,
            Entered::Open(_) | Entered::Fresh => None,
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
                let queued = activation.desk().queued();
                let polled_branch = branch.as_mut().poll(cx);
                if recorded.is_some_and(|choice| choice.first != place) {
                    // A loser has done all it ever will: what a retry took from the records it must not do again.
                    activation.forget_since(queued);
                }
                let Poll::Ready(outcome) = polled_branch else { continue };
                *slot = None;
                match recorded {
                    // The first to end wins; those after it do not get the turn in which it did.
                    None => {
                        let polled = if is_first_turn { place + 1 } else { polled };
                        return Poll::Ready((Choice { first: place, polled }, outcome));
                    }
                    // In a replay all get it, the losers so that they ask for what they have on record.
                    Some(choice) if choice.first == place => ended = Some((choice, outcome)),
                    Some(_) => {}
                }
            }
            is_first_turn = false;
            ended.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let waiting = activation.waiting();
        drop(branches);
        let left = activation.waiting();
        if recorded.is_none() {
            let now = activation.now();
            let state =
                StepState::Completed { at: now, output: Payload::of(&choice).map_err(super::refused)? };
            let given_up = waiting.difference(&left).cloned().map(Change::GiveUp);
            let chosen = Change::finished(&id, StepKind::Select, StepTransition::Complete, state, 1, began);
            activation.queue(given_up.chain([chosen]));
        }
        Ok((choice.first, outcome))
    }
}

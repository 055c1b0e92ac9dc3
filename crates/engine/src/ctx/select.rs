//! The first of several branches.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::{Ctx, checked_name, recorded_outcome};
use crate::model::{Failure, Payload, StepKind, StepState, StepTransition};
use crate::runtime::change::Change;
use crate::runtime::desk::Entered;

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
        let recorded: Option<usize> = match activation.enter(&id, StepKind::Select) {
            Entered::Done(record) => Some(recorded_outcome(activation, id.as_str(), record.state)?),
            Entered::Open(_) | Entered::Fresh => None,
        };
        if branches.is_empty() || recorded.is_some_and(|first| first >= branches.len()) {
            let text = format!(
                "select needs at least one branch, and as many as when it was recorded ({})",
                branches.len()
            );
            return Err(Failure::permanent(text).with_code("invalid"));
        }
        let mut branches = branches;
        let (first, outcome) = poll_fn(|cx| {
            // In a replay the others are polled, too, so that they ask for what they have on record.
            let mut ended = None;
            for (place, branch) in branches.iter_mut().enumerate() {
                let counts = recorded.is_none_or(|first| first == place);
                if (ended.is_some() && recorded.is_none()) || (!counts && ended.is_some()) {
                    continue;
                }
                if let Poll::Ready(outcome) = branch.as_mut().poll(cx)
                    && counts
                {
                    ended = Some((place, outcome));
                }
            }
            ended.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        drop(branches);
        if recorded.is_none() {
            let now = activation.now();
            let state =
                StepState::Completed { at: now, output: Payload::of(&first).map_err(super::refused)? };
            activation.queue([Change::finished(
                &id,
                StepKind::Select,
                StepTransition::Complete,
                state,
                1,
                began,
            )]);
        }
        Ok((first, outcome))
    }
}

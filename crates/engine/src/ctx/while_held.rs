//! Runs code only while this process holds the run.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::model::StepId;
use crate::runtime::Activation;

/// Runs `work`, and continues it after each await, only while the lease holds. If the lease is renewed after
/// all, the work continues. If it is lost, the driver drops the work.
pub(super) async fn while_held<F: Future>(activation: &Activation, step: &StepId, work: F) -> F::Output {
    let hold = activation.watched_hold(step);
    let mut work = pin!(work);
    let (mut is_entered, mut place) = (false, 0);
    poll_fn(|cx| {
        // The watcher is called before the code starts, because a pause at this point is the worst one.
        let is_held = if is_entered { hold.stands() } else { hold.is_held() };
        if !is_held {
            activation.replay().await_change(&mut place, cx);
            return Poll::Pending;
        }
        is_entered = true;
        work.as_mut().poll(cx)
    })
    .await
}

//! Futures that workflow code waits at: the gate before an effect, its turn, and outside events.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::activation::Activation;
use super::replay_state::ReplayState;
use crate::model::{StepId, Timestamp};

/// Future of [`Activation::gate`].
pub(crate) struct Gate<'a> {
    pub(super) activation: &'a Activation,
    pub(super) need: u64,
    pub(super) obeys_stop: bool,
    pub(super) counted: bool,
    pub(super) place: u64,
}

impl Future for Gate<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let activation = self.activation;
        let mut replay = activation.replay();
        let blocked = replay.replaying
            || replay.effects_blocked
            || replay.releasing_lease
            || replay.durable < self.need
            || replay.violation.is_some();
        let stopped = self.obeys_stop && replay.is_stopped();
        if !blocked && !stopped && activation.engine.may_start_effects(&activation.slot()) {
            if self.counted {
                self.uncount(&mut replay);
                return Poll::Ready(());
            }
            // Never in the turn of the request: see `WaitFor`.
            cx.waker().wake_by_ref();
        }
        if !self.counted {
            replay.gated += 1;
            replay.gated_through += usize::from(!self.obeys_stop);
            self.counted = true;
        }
        replay.await_change(&mut self.place, cx);
        Poll::Pending
    }
}

impl Gate<'_> {
    fn uncount(&mut self, replay: &mut ReplayState) {
        replay.gated -= 1;
        replay.gated_through -= usize::from(!self.obeys_stop);
        self.counted = false;
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if self.counted {
            let activation = self.activation;
            self.uncount(&mut activation.replay());
        }
    }
}

/// Future of [`Activation::wait_for_turn`].
pub(crate) struct TurnWait<'a> {
    pub(super) activation: &'a Activation,
    pub(super) id: &'a StepId,
    pub(super) place: u64,
}

impl Future for TurnWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut replay = self.activation.replay();
        let is_its_own = replay.turn_of.as_ref() == Some(self.id);
        if is_its_own {
            replay.turn_of = None;
        }
        if is_its_own || (!replay.replaying && replay.turn_of.is_none()) {
            return Poll::Ready(());
        }
        match replay.replaying {
            true => drop(replay.outcome_waiters.insert(self.id.clone(), cx.waker().clone())),
            false => replay.await_change(&mut self.place, cx),
        }
        Poll::Pending
    }
}

/// Guard of [`Activation::begin_effect`].
pub(crate) struct EffectInFlight<'a> {
    pub(super) _in_flight: InFlightGuard<'a>,
    pub(super) activation: &'a Activation,
    pub(super) step: StepId,
}

impl Drop for EffectInFlight<'_> {
    fn drop(&mut self) {
        self.activation.replay().running_effects.retain(|step| *step != self.step);
    }
}

/// Guard of [`Activation::count_unrecorded`].
pub(crate) struct UnrecordedStepGuard<'a>(pub(super) &'a Activation);

impl Drop for UnrecordedStepGuard<'_> {
    fn drop(&mut self) {
        self.0.replay().unrecorded_steps -= 1;
    }
}

/// Guard of [`Activation::block_parking`].
pub(crate) struct InFlightGuard<'a> {
    pub(super) activation: &'a Activation,
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.activation.replay().in_flight -= 1;
    }
}

/// Guard of [`Activation::wait_as_cancelled`].
pub(crate) struct CancelledStepGuard<'a>(pub(super) &'a Activation);

impl Drop for CancelledStepGuard<'_> {
    fn drop(&mut self) {
        self.0.replay().cancelled_waits -= 1;
    }
}

/// Guard of [`Activation::hold_for_doubt`].
pub(crate) struct DoubtGuard<'a>(pub(super) &'a Activation);

impl Drop for DoubtGuard<'_> {
    fn drop(&mut self) {
        self.0.replay().doubts_held -= 1;
    }
}

/// Conditions of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(super) until: Option<Timestamp>,
    pub(super) obeys_stop: bool,
}

/// Future of [`Activation::wait_for`].
pub(crate) struct WaitFor<'a, C> {
    pub(super) activation: &'a Activation,
    pub(super) id: StepId,
    pub(super) wait: Wait,
    pub(super) check: C,
    pub(super) place: u64,
}

impl<R, C> Future for WaitFor<'_, C>
where
    C: FnMut(&mut ReplayState, Timestamp) -> Option<R> + Unpin,
{
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let activation = self.activation;
        let now = activation.now();
        let mut replay = activation.replay();
        // A stopped run takes no further turn: the awaited event may be here, but the run must not act on it.
        // A replaying run waits until every branch has requested its records.
        let stopped = self.wait.obeys_stop && replay.is_stopped();
        let held = stopped || replay.replaying || replay.is_others_turn(&self.id);
        // Never in the turn of the request, even if the event is already here. A replay could not
        // distinguish that from an event in the next turn, after the turns of other branches.
        let is_first_look = self.place == 0;
        if is_first_look {
            cx.waker().wake_by_ref();
        }
        if !held
            && !is_first_look
            && let Some(found) = (self.check)(&mut replay, now)
        {
            replay.waits.remove(&self.id);
            return Poll::Ready(found);
        }
        replay.waits.insert(self.id.clone(), self.wait);
        replay.await_change(&mut self.place, cx);
        Poll::Pending
    }
}

impl<C> Drop for WaitFor<'_, C> {
    fn drop(&mut self) {
        self.activation.replay().waits.remove(&self.id);
    }
}

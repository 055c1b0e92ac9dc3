//! What a workflow's code waits at: the gate before an effect, its turn, and whatever comes from outside.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::activation::Activation;
use super::replay_state::ReplayState;
use crate::model::{StepId, Timestamp};

/// See [`Activation::gate`].
pub(crate) struct Gate<'a> {
    pub(super) activation: &'a Activation,
    pub(super) need: u64,
    pub(super) heeds_stops: bool,
    pub(super) counted: bool,
    pub(super) place: u64,
}

impl Future for Gate<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let activation = self.activation;
        let mut desk = activation.desk();
        let blocked = desk.replaying
            || desk.is_held
            || desk.leaving
            || desk.durable < self.need
            || desk.violation.is_some();
        let stopped = self.heeds_stops && desk.is_stopped();
        if !blocked && !stopped && activation.engine.may_start_effects(&activation.active()) {
            if self.counted {
                self.uncount(&mut desk);
                return Poll::Ready(());
            }
            // Not in the turn in which it is asked for: see `WaitFor`.
            cx.waker().wake_by_ref();
        }
        if !self.counted {
            desk.gated += 1;
            desk.gated_through += usize::from(!self.heeds_stops);
            self.counted = true;
        }
        desk.await_change(&mut self.place, cx);
        Poll::Pending
    }
}

impl Gate<'_> {
    fn uncount(&mut self, desk: &mut ReplayState) {
        desk.gated -= 1;
        desk.gated_through -= usize::from(!self.heeds_stops);
        self.counted = false;
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if self.counted {
            let activation = self.activation;
            self.uncount(&mut activation.desk());
        }
    }
}

/// See [`Activation::its_turn`].
pub(crate) struct ItsTurn<'a> {
    pub(super) activation: &'a Activation,
    pub(super) id: &'a StepId,
    pub(super) place: u64,
}

impl Future for ItsTurn<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut desk = self.activation.desk();
        let is_its_own = desk.turn_of.as_ref() == Some(self.id);
        if is_its_own {
            desk.turn_of = None;
        }
        if is_its_own || (!desk.replaying && desk.turn_of.is_none()) {
            return Poll::Ready(());
        }
        match desk.replaying {
            true => drop(desk.asked_for.insert(self.id.clone(), cx.waker().clone())),
            false => desk.await_change(&mut self.place, cx),
        }
        Poll::Pending
    }
}

/// See [`Activation::begin_effect`].
pub(crate) struct EffectInFlight<'a> {
    pub(super) _staying: InFlight<'a>,
    pub(super) activation: &'a Activation,
    pub(super) step: StepId,
}

impl Drop for EffectInFlight<'_> {
    fn drop(&mut self) {
        self.activation.desk().entered.retain(|step| *step != self.step);
    }
}

/// See [`Activation::hide`].
pub(crate) struct Hidden<'a>(pub(super) &'a Activation);

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        self.0.desk().hidden -= 1;
    }
}

/// See [`Activation::stay`].
pub(crate) struct InFlight<'a> {
    pub(super) activation: &'a Activation,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.activation.desk().in_flight -= 1;
    }
}

/// See [`Activation::stay_given_up`].
pub(crate) struct GivenUpHere<'a>(pub(super) &'a Activation);

impl Drop for GivenUpHere<'_> {
    fn drop(&mut self) {
        self.0.desk().given_up -= 1;
    }
}

/// See [`Activation::hold_doubt`].
pub(crate) struct DoubtHeld<'a>(pub(super) &'a Activation);

impl Drop for DoubtHeld<'_> {
    fn drop(&mut self) {
        self.0.desk().doubts_held -= 1;
    }
}

/// What a step waits by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(super) until: Option<Timestamp>,
    pub(super) heeds_stops: bool,
}

/// See [`Activation::wait_for`].
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
        let mut desk = activation.desk();
        // A stopped run takes no further turn: what it waits for may be there, but it must not act on it. Nor does one
        // that replays, until every branch of it has asked for what it has on record.
        let stopped = self.wait.heeds_stops && desk.is_stopped();
        let held = stopped || desk.replaying || desk.is_others_turn(&self.id);
        // Not in the turn in which it is asked for, even if it is there already: a replay could not tell that from what
        // came in the next turn, after other branches had theirs.
        let is_first_look = self.place == 0;
        if is_first_look {
            cx.waker().wake_by_ref();
        }
        if !held
            && !is_first_look
            && let Some(found) = (self.check)(&mut desk, now)
        {
            desk.waits.remove(&self.id);
            return Poll::Ready(found);
        }
        desk.waits.insert(self.id.clone(), self.wait);
        desk.await_change(&mut self.place, cx);
        Poll::Pending
    }
}

impl<C> Drop for WaitFor<'_, C> {
    fn drop(&mut self) {
        self.activation.desk().waits.remove(&self.id);
    }
}

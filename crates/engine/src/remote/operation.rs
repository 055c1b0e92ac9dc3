//! An operation that the code waits for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;

use super::items::{AttemptOrder, AttemptOutcome};
use super::machine::{Machine, Outcome};
use crate::model::Failure;

/// An operation that the code asked for. Its outcome comes once, in its turn. Dropping it before ends the wait.
pub(crate) struct Operation {
    machine: Arc<Machine>,
    /// `None` if it never gets an outcome: its branch lost a race, say.
    op: Option<u32>,
    id: String,
    is_awaited: bool,
}

impl Operation {
    pub(super) fn new(machine: Arc<Machine>, op: u32, id: String) -> Self {
        Operation { machine, op: Some(op), id, is_awaited: true }
    }

    pub(super) fn never(machine: Arc<Machine>) -> Self {
        Operation { machine, op: None, id: String::new(), is_awaited: false }
    }

    /// The same operation, which is not abandoned if nobody ever waits for it.
    pub(crate) fn not_awaited_yet(mut self) -> Self {
        self.is_awaited = false;
        self
    }

    pub(crate) fn number(&self) -> Option<u32> {
        self.op
    }

    /// Id of the step; empty if it never gets an outcome.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// It needs no end any more.
    pub(super) fn forget(&mut self) {
        self.op = None;
    }

    pub(crate) fn poll_outcome(&mut self, cx: &Context<'_>) -> Poll<(Outcome, bool)> {
        let Some(op) = self.op else { return Poll::Pending };
        self.is_awaited = true;
        match self.machine.poll_outcome(op, cx.waker()) {
            Some(outcome) => {
                self.op = None;
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }

    /// The outcome, in the type that the code asks for.
    pub(crate) async fn value<T: DeserializeOwned>(mut self) -> Result<T, Failure> {
        let (outcome, is_recorded) = std::future::poll_fn(|cx| self.poll_outcome(cx)).await;
        self.decode(outcome?, is_recorded).await
    }

    /// Reads an outcome. If a recorded one does not fit, other code recorded it, and the code goes no further.
    pub(crate) async fn decode<T: DeserializeOwned>(
        &self,
        output: crate::model::Payload,
        is_recorded: bool,
    ) -> Result<T, Failure> {
        match crate::ctx::decoded(&self.id, &output) {
            Err(failure) if is_recorded => {
                self.machine.violate(failure.message().to_string());
                std::future::pending().await
            }
            decoded => decoded,
        }
    }

    /// Next action of its code: stop an attempt, begin one.
    pub(crate) fn take_order(&self) -> (bool, Option<AttemptOrder>) {
        self.op.map_or((true, None), |op| self.machine.take_order(op))
    }

    pub(crate) fn end_attempt(&self, order: &AttemptOrder, outcome: AttemptOutcome) {
        self.machine.end_attempt(order, outcome);
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(op) = self.op
            && self.is_awaited
        {
            self.machine.abandon(op);
        }
    }
}

/// A compensation under way. It is entered, and goes on after each wait, only while its right holds.
pub(super) struct RunningAttempt<'a> {
    pub(super) order: AttemptOrder,
    code: Pin<Box<dyn Future<Output = AttemptOutcome> + Send + 'a>>,
}

impl<'a> RunningAttempt<'a> {
    pub(super) fn new(
        order: AttemptOrder,
        code: Pin<Box<dyn Future<Output = AttemptOutcome> + Send + 'a>>,
    ) -> Self {
        RunningAttempt { order, code }
    }

    pub(super) fn poll(&mut self, machine: &Machine, cx: &mut Context<'_>) -> Poll<AttemptOutcome> {
        match machine.may_go_on(cx) {
            true => self.code.as_mut().poll(cx),
            false => Poll::Pending,
        }
    }
}

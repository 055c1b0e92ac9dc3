//! Compensations that the server asks for. Their code is no part of the function: it may have ended.

use std::task::{Context, Poll};

use super::items::{AttemptKind, AttemptOrder, AttemptOutcome, Item, RunMessage};
use super::machine::Machine;
use super::operation::RunningAttempt;
use crate::ctx::{Undo, attempt_of, caught};
use crate::model::Payload;

/// Compensations under way.
#[derive(Default)]
pub(super) struct RunningCompensations(Vec<RunningAttempt<'static>>);

impl RunningCompensations {
    pub(super) fn begin(&mut self, machine: &Machine, order: AttemptOrder, undo: &Undo) {
        let attempt = attempt_of(&order, machine.hold.clone());
        let output = order.output.clone().unwrap_or_else(Payload::null);
        let undo = undo.clone();
        let code = Box::pin(async move {
            match caught(undo.call(attempt, output)).await {
                Ok(()) => AttemptOutcome::Output(Payload::null()),
                Err(failure) => AttemptOutcome::Failed(failure),
            }
        });
        self.0.retain(|running| running.order.op != order.op);
        self.0.push(RunningAttempt::new(order, code));
    }

    /// Stops what a message stops. Returns whether it did.
    pub(super) fn stop(&mut self, message: &RunMessage) -> Option<u32> {
        let RunMessage::Abort { op, attempt } = message else { return None };
        let is_meant =
            |running: &RunningAttempt<'_>| running.order.op == *op && running.order.number == *attempt;
        let place = self.0.iter().position(is_meant)?;
        self.0.remove(place);
        Some(*op)
    }

    pub(super) fn poll(&mut self, machine: &Machine, cx: &mut Context<'_>) {
        self.0.retain_mut(|running| match running.poll(machine, cx) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                let AttemptOrder { op, number, kind, .. } = &running.order;
                debug_assert_eq!(*kind, AttemptKind::Undo);
                machine.push(Item::Outcome {
                    op: *op,
                    kind: *kind,
                    attempt: *number,
                    outcome,
                    evidence: None,
                });
                false
            }
        });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

//! Steps whose effect is a write in the store's own database: effect and record are one commit.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::change::{Base, Change, Closing, build};
use super::drive::{Driver, End};
use super::inner::Inner;
use super::point::Point;
use super::stats::Counters;
use crate::model::{Failure, Payload, StepId, StepKind, StepState, StepTransition, Timestamp};
use crate::store::{StoreError, StoreResult, Transact, TransactOutcome};

/// A step's work, waiting to be done by the driver when no other write is in flight.
pub(crate) struct Pending {
    pub(crate) step: StepId,
    pub(crate) work: Box<dyn Any + Send + Sync>,
    pub(crate) attempts: u32,
    pub(crate) started_at: Timestamp,
    pub(crate) reply: oneshot::Sender<Reply>,
}

/// What the step is told.
pub(crate) enum Reply {
    /// It is done and recorded.
    Done(Payload),
    /// The work failed, or cannot be done on this store.
    Failed(Failure),
    /// Nothing happened, through no fault of the work: submit it again.
    Again,
}

/// A transaction in flight.
pub(crate) struct InFlight {
    future: Pin<Box<dyn Future<Output = StoreResult<TransactOutcome>> + Send>>,
    reply: oneshot::Sender<Reply>,
    changes: Vec<Change>,
    covers: u64,
}

impl Driver {
    /// Begins the next transaction, if one waits and nothing else is being written.
    pub(crate) fn begin_transaction(&mut self, engine: &Arc<Inner>) -> bool {
        let mut desk = self.activation.desk();
        if desk.is_stopped() || !engine.may_start_effects(&self.activation.active()) {
            return false;
        }
        let Some(pending) = desk.transactions.pop_front() else { return false };
        // Its record is made now, so nothing that comes to its end meanwhile may be told to the code before it is.
        desk.give_turn_to(pending.step.clone());
        let changes = std::mem::take(&mut desk.changes);
        let covers = desk.queued();
        let (head, open) = (desk.head.clone(), desk.open.clone());
        let now = self.activation.now();
        drop(desk);
        let announce = engine.subscribers(&head.facts.workspace);
        let collected = changes.clone();
        let Pending { step, work, attempts, started_at, reply } = pending;
        let record = Box::new(move |output: Payload| {
            let mut changes = collected.clone();
            changes.push(Change::finished(
                &step,
                StepKind::Transaction,
                StepTransition::Complete,
                StepState::Completed { at: now, output },
                attempts,
                started_at,
            ));
            // It does not end the run, but another branch may have come into doubt.
            let base = Base { head: &head, open: &open, is_hiding: false, heeds_cancel: false };
            build(&base, &changes, &Closing::GoOn, announce.clone(), now)
        });
        engine.reached(|| Point::BeforeRecord(self.activation.facts.id));
        let store = engine.store.clone();
        let (watched, active) = (engine.clone(), self.activation.active());
        let future = Box::pin(async move {
            active.write_sent(watched.clock.monotonic());
            let answer = store.transact(Transact { work, record }).await;
            active.write_answered();
            answer
        });
        self.transaction = Some(InFlight { future, reply, changes, covers });
        true
    }

    /// Looks how the transaction in flight is getting on.
    pub(crate) fn poll_transaction(&mut self, engine: &Arc<Inner>, cx: &mut Context<'_>) -> Option<End> {
        let in_flight = self.transaction.as_mut()?;
        let Poll::Ready(outcome) = in_flight.future.as_mut().poll(cx) else { return None };
        let InFlight { reply, changes, covers, .. } = self.transaction.take().expect("polled just now");
        let mut again = Some(changes);
        let (answer, end) = match outcome {
            Ok(TransactOutcome::Done { output, commit: advance, woken }) => {
                again = None;
                engine.wake(&woken);
                let end = self.written(engine, *advance, Closing::GoOn, covers);
                (Reply::Done(output), end)
            }
            Ok(TransactOutcome::WorkFailed(failure)) => (Reply::Failed(failure), None),
            Ok(TransactOutcome::Stale(head)) => {
                Counters::add(&engine.counters.stale_writes);
                self.activation.desk().take_over(*head);
                (Reply::Again, None)
            }
            Ok(TransactOutcome::LeaseLost) => {
                Counters::add(&engine.counters.fenced_writes);
                (Reply::Again, Some(End::Lost))
            }
            // Nobody knows whether it took effect; the log does.
            Err(StoreError::Unknown(_)) => (Reply::Again, Some(End::Reread)),
            Err(error @ StoreError::Unavailable(_)) => (Reply::Failed(Failure::retryable(error)), None),
            Err(error) => (Reply::Failed(Failure::permanent(error).with_code("transaction_refused")), None),
        };
        if let Some(changes) = again {
            let mut desk = self.activation.desk();
            let later = std::mem::replace(&mut desk.changes, changes);
            desk.changes.extend(later);
        }
        // A step that was given up meanwhile is no loss: its record stands.
        let _ = reply.send(answer);
        match end {
            Some(End::Lost) => self.tell_late(engine, &self.activation.active(), &[]),
            Some(End::Reread) => self.read_again(engine, &self.activation.active(), &[]),
            Some(End::Parked(_) | End::Closed(_) | End::LetGo) | None => {}
        }
        end
    }
}

//! Runs steps whose effect is a write in the store's own database. Effect and record are one commit.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::crash_point::CrashPoint;
use super::drive::{DriveEnd, Driver};
use super::inner::Inner;
use super::pending_change::{CommitAction, CommitBase, PendingChange, build};
use super::stats::Counters;
use crate::model::{Failure, Payload, StepId, StepKind, StepState, StepTransition, Timestamp};
use crate::store::{StoreError, StoreResult, Transact, TransactOutcome};

/// Work of a step that waits until no other commit is in flight.
pub(crate) struct PendingTransaction {
    pub(crate) step: StepId,
    pub(crate) work: Box<dyn Any + Send + Sync>,
    pub(crate) attempts: u32,
    pub(crate) started_at: Timestamp,
    pub(crate) reply: oneshot::Sender<TransactionReply>,
}

/// Reply to the step.
pub(crate) enum TransactionReply {
    /// The work is committed and recorded.
    Done(Payload),
    /// The work failed, or this store cannot do it.
    Failed(Failure),
    /// Nothing happened, and the work is not at fault. Submit it again.
    Resubmit,
}

/// Transaction in flight.
pub(crate) struct TransactionInFlight {
    future: Pin<Box<dyn Future<Output = StoreResult<TransactOutcome>> + Send>>,
    reply: oneshot::Sender<TransactionReply>,
    changes: Vec<PendingChange>,
    covers: u64,
}

impl Driver {
    /// Begins the next transaction, if one waits and nothing else is being committed.
    pub(crate) fn begin_transaction(&mut self, engine: &Arc<Inner>) -> bool {
        let mut replay = self.activation.replay();
        if replay.is_stopped() || !engine.may_start_effects(&self.activation.slot()) {
            return false;
        }
        let Some(pending) = replay.transactions.pop_front() else { return false };
        // The record is made now. The code must not receive any other outcome first.
        replay.give_turn_to(pending.step.clone());
        let changes = std::mem::take(&mut replay.changes);
        let covers = replay.queued();
        let (head, open) = (replay.head.clone(), replay.open.clone());
        let now = self.activation.now();
        drop(replay);
        let announce = engine.subscribers(&head.facts.workspace);
        let collected = changes.clone();
        let PendingTransaction { step, work, attempts, started_at, reply } = pending;
        let record = Box::new(move |output: Payload| {
            let mut changes = collected.clone();
            changes.push(PendingChange::finished(
                &step,
                StepKind::Transaction,
                StepTransition::Complete,
                StepState::Completed { at: now, output },
                attempts,
                started_at,
            ));
            // The commit does not end the run, but another branch may have come into doubt.
            let base =
                CommitBase { head: &head, open: &open, has_unrecorded_steps: false, ends_by_cancel: false };
            build(&base, &changes, &CommitAction::KeepRunning, announce.clone(), now)
        });
        engine.reached(|| CrashPoint::BeforeRecord(self.activation.facts.id));
        let store = engine.store.clone();
        let (watched, slot) = (engine.clone(), self.activation.slot());
        let future = Box::pin(async move {
            slot.write_sent(watched.clock.monotonic());
            let answer = store.transact(Transact { work, record }).await;
            slot.write_answered();
            answer
        });
        self.transaction = Some(TransactionInFlight { future, reply, changes, covers });
        true
    }

    /// Polls the transaction in flight.
    pub(crate) fn poll_transaction(&mut self, engine: &Arc<Inner>, cx: &mut Context<'_>) -> Option<DriveEnd> {
        let in_flight = self.transaction.as_mut()?;
        let Poll::Ready(outcome) = in_flight.future.as_mut().poll(cx) else { return None };
        let TransactionInFlight { reply, changes, covers, .. } =
            self.transaction.take().expect("polled just now");
        let mut again = Some(changes);
        let (answer, end) = match outcome {
            Ok(TransactOutcome::Done { output, commit: advance, woken }) => {
                again = None;
                engine.wake_scheduler_for(&woken);
                let end = self.on_committed(engine, *advance, CommitAction::KeepRunning, covers);
                (TransactionReply::Done(output), end)
            }
            Ok(TransactOutcome::WorkFailed(failure)) => (TransactionReply::Failed(failure), None),
            Ok(TransactOutcome::Stale(head)) => {
                Counters::add(&engine.counters.stale_writes);
                self.activation.replay().adopt_head(*head);
                (TransactionReply::Resubmit, None)
            }
            Ok(TransactOutcome::LeaseLost) => {
                Counters::add(&engine.counters.fenced_writes);
                (TransactionReply::Resubmit, Some(DriveEnd::Lost))
            }
            // Only the log shows whether the transaction took effect.
            Err(StoreError::Unknown(_)) => (TransactionReply::Resubmit, Some(DriveEnd::Reload)),
            Err(error @ StoreError::Unavailable(_)) => {
                (TransactionReply::Failed(Failure::retryable(error)), None)
            }
            Err(error) => {
                (TransactionReply::Failed(Failure::permanent(error).with_code("transaction_refused")), None)
            }
        };
        if let Some(changes) = again {
            let mut replay = self.activation.replay();
            let later = std::mem::replace(&mut replay.changes, changes);
            replay.changes.extend(later);
        }
        // If the step was dropped, its record is still valid.
        let _ = reply.send(answer);
        match end {
            Some(DriveEnd::Lost) => self.record_late_outcomes(engine, &self.activation.slot(), &[]),
            Some(DriveEnd::Reload) => self.prepare_reload(engine, &self.activation.slot(), &[]),
            Some(DriveEnd::Parked(_) | DriveEnd::Closed(_) | DriveEnd::Released) | None => {}
        }
        end
    }
}

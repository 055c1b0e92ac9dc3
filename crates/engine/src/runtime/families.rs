//! Cancelling a root together with everything that descends from it.

use std::sync::Arc;

use super::inner::{Inner, Phase};
use super::run_slot::RunMessage;
use super::{Engine, Error};
use crate::limits::{MAX_SWEEP, SWEEP_EVERY};
use crate::model::{Actor, HumanText, JournalEntry, JournalEvent, RunHead, RunId, Version, WorkspaceId};
use crate::store::{CancelFamily, CancelFamilyOutcome, FamilyStore, StoreError, StoreResult, SweepFamily};

/// What the audit log calls it.
const COMMAND: &str = "cancel with descendants";

impl Engine {
    /// Cancels a root run and all its descendants, abandoned ones as well. From then on they start no more children, whatever
    /// crashes; those that are open are asked to cancel, in batches. The root may have ended.
    pub async fn cancel_family(&self, root: RunId, reason: &str) -> Result<RunHead, Error> {
        self.cancel_family_noted(root, reason, None, None).await
    }

    /// The same for a person, whose name and reason go to the audit log, if the root still has the `expected` version.
    pub async fn cancel_family_by(
        &self,
        root: RunId,
        expected: Option<Version>,
        by: Actor,
        reason: &str,
    ) -> Result<RunHead, Error> {
        HumanText::Actor.check(&by.name)?;
        if !reason.is_empty() {
            HumanText::Reason.check(reason)?;
        }
        let head = self.get(root).await?.head;
        let note = JournalEntry {
            workspace: self.workspace.clone(),
            run: root,
            generation: head.generation,
            step: None,
            at: self.inner.store.now(),
            fence: head.fence,
            owner: None,
            by: Some(by),
            what: JournalEvent::Commanded { command: COMMAND.into(), reason: reason.into() },
            evidence: None,
        };
        self.cancel_family_noted(root, reason, expected, Some(note)).await
    }

    async fn cancel_family_noted(
        &self,
        root: RunId,
        reason: &str,
        expected: Option<Version>,
        note: Option<JournalEntry>,
    ) -> Result<RunHead, Error> {
        let inner = &self.inner;
        let book = inner.store.family_store().ok_or_else(no_families)?;
        let (workspace, reason) = (self.workspace.clone(), reason.to_owned());
        let request = CancelFamily { workspace, root, reason, expected, note };
        let head = match inner.answer(book.cancel_family(request)).await? {
            CancelFamilyOutcome::Cancelled(head) => head,
            CancelFamilyOutcome::NotRoot(root_of_it) => {
                return Err(Error::NotRoot { run: root, root: root_of_it });
            }
            CancelFamilyOutcome::Stale(version) => return Err(Error::Concurrency { run: root, version }),
            CancelFamilyOutcome::NoSuchRun => return Err(Error::NoSuchRun(root)),
        };
        // It is durable now; that the rest takes longer must not sound as if it were not.
        let swept = sweep_batch(inner, book, &self.workspace, root, None).await;
        inner.swept.notify_one();
        match swept {
            Ok((_, steered)) => Ok(steered.into_iter().find(|head| head.id() == root).unwrap_or(head)),
            Err(_) => Ok(head),
        }
    }
}

fn no_families() -> Error {
    Error::Store(StoreError::Refused("this store cannot cancel runs together with their descendants".into()))
}

/// Sweeps cancelled families until the engine stops: at once when one was cancelled here, and from time to time for what a crash left.
pub(crate) async fn sweep(inner: Arc<Inner>) {
    while inner.phase() == Phase::Running {
        let asked = inner.swept.notified();
        let stopped = inner.changed.notified();
        if let Some(book) = inner.store.family_store()
            && let Err(error) = sweep_all(&inner, book).await
        {
            tracing::warn!(%error, "a cancelled family could not be swept; trying again");
        }
        if inner.phase() != Phase::Running {
            return;
        }
        tokio::select! {
            biased;
            () = stopped => {}
            () = asked => {}
            () = inner.clock.sleep(SWEEP_EVERY) => {}
        }
    }
}

async fn sweep_all(inner: &Arc<Inner>, book: &dyn FamilyStore) -> StoreResult<()> {
    for (workspace, root) in inner.answer(book.list_unswept_families(MAX_SWEEP)).await? {
        let mut after = None;
        loop {
            let (next, _) = sweep_batch(inner, book, &workspace, root, after).await?;
            if next.is_none() || inner.phase() != Phase::Running {
                break;
            }
            after = next;
        }
    }
    Ok(())
}

/// One batch; answers where the next one begins, and who was asked to cancel.
async fn sweep_batch(
    inner: &Arc<Inner>,
    book: &dyn FamilyStore,
    workspace: &WorkspaceId,
    root: RunId,
    after: Option<RunId>,
) -> StoreResult<(Option<RunId>, Vec<RunHead>)> {
    let announce = inner.subscribers(workspace);
    let request = SweepFamily { workspace: workspace.clone(), root, after, limit: MAX_SWEEP, announce };
    let swept = inner.answer(book.sweep_family(request)).await?;
    for head in &swept.steered {
        if let Some(active) = inner.active.find(head.id()) {
            active.post(RunMessage::Steered(Box::new(head.clone())));
        }
    }
    inner.nudge.notify_one();
    Ok((swept.next, swept.steered))
}

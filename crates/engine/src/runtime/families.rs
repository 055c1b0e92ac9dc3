//! Cancels a root run together with all its descendants.

use std::sync::Arc;

use super::background::LoopReporter;
use super::inner::{Inner, Phase};
use super::run_slot::RunMessage;
use super::{Engine, Error};
use crate::limits::{MAX_SWEEP, SWEEP_EVERY};
use crate::model::{Actor, JournalEntry, RunHead, RunId, Version, WorkspaceId};
use crate::store::{CancelFamily, CancelFamilyOutcome, FamilyStore, StoreError, StoreResult, SweepFamily};

/// Name of the command in the audit log.
const COMMAND: &str = "cancel with descendants";

impl Engine {
    /// Cancels a root run and all its descendants, including abandoned ones.
    ///
    /// From this point on none of them can start a child, even after a crash. Open members are then cancelled
    /// in batches. The root itself may already be closed.
    pub async fn cancel_family(&self, root: RunId, reason: &str) -> Result<RunHead, Error> {
        self.cancel_family_journaled(root, reason, None, None).await
    }

    /// Like [`Engine::cancel_family`], for a person: records the name and reason in the audit log, and fails
    /// unless the root has the `expected` version.
    pub async fn cancel_family_by(
        &self,
        root: RunId,
        expected: Option<Version>,
        by: Actor,
        reason: &str,
    ) -> Result<RunHead, Error> {
        let entry = self.command_entry(root, COMMAND, by, reason).await?;
        self.cancel_family_journaled(root, reason, expected, Some(entry)).await
    }

    async fn cancel_family_journaled(
        &self,
        root: RunId,
        reason: &str,
        expected: Option<Version>,
        note: Option<JournalEntry>,
    ) -> Result<RunHead, Error> {
        let inner = &self.inner;
        let store = inner.store.family_store().ok_or_else(no_families)?;
        let (workspace, reason) = (self.workspace.clone(), reason.to_owned());
        let request = CancelFamily { workspace, root, reason, expected, note };
        let head = match inner.call_store(store.cancel_family(request)).await? {
            CancelFamilyOutcome::Cancelled(head) => head,
            CancelFamilyOutcome::NotRoot(root_of_it) => {
                return Err(Error::NotRoot { run: root, root: root_of_it });
            }
            CancelFamilyOutcome::Stale(version) => return Err(Error::Concurrency { run: root, version }),
            CancelFamilyOutcome::NoSuchRun => return Err(Error::NoSuchRun(root)),
        };
        // The cancellation is durable now. A failure to sweep at once must not look like a failed
        // cancellation.
        let batch = sweep_batch(inner, store, &self.workspace, root, None).await;
        inner.family_cancelled.notify_one();
        match batch {
            Ok((_, steered)) => Ok(steered.into_iter().find(|head| head.id() == root).unwrap_or(head)),
            Err(_) => Ok(head),
        }
    }
}

fn no_families() -> Error {
    Error::Store(StoreError::Refused("this store cannot cancel runs together with their descendants".into()))
}

/// Sweeps cancelled families until the engine stops: at once after a local cancellation, and periodically for
/// sweeps that a crash interrupted.
pub(crate) async fn sweep(inner: Arc<Inner>, reporter: LoopReporter) {
    while inner.phase() == Phase::Running {
        let asked = inner.family_cancelled.notified();
        let stopped = inner.changed.notified();
        if let Some(store) = inner.store.family_store()
            && let Err(error) = sweep_all(&inner, store).await
        {
            tracing::warn!(%error, "a cancelled family could not be swept; trying again");
        }
        reporter.pass();
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

async fn sweep_all(inner: &Arc<Inner>, store: &dyn FamilyStore) -> StoreResult<()> {
    for (workspace, root) in inner.call_store(store.list_unswept_families(MAX_SWEEP)).await? {
        let mut after = None;
        loop {
            let (next, _) = sweep_batch(inner, store, &workspace, root, after).await?;
            if next.is_none() || inner.phase() != Phase::Running {
                break;
            }
            after = next;
        }
    }
    Ok(())
}

/// Sweeps one batch. Returns the start of the next batch and the runs that were asked to cancel.
async fn sweep_batch(
    inner: &Arc<Inner>,
    store: &dyn FamilyStore,
    workspace: &WorkspaceId,
    root: RunId,
    after: Option<RunId>,
) -> StoreResult<(Option<RunId>, Vec<RunHead>)> {
    let announce = inner.subscribers(workspace);
    let request = SweepFamily { workspace: workspace.clone(), root, after, limit: MAX_SWEEP, announce };
    let batch = inner.call_store(store.sweep_family(request)).await?;
    for head in &batch.steered {
        if let Some(slot) = inner.slots.find(head.id()) {
            slot.send(RunMessage::Steered(Box::new(head.clone())));
        }
    }
    inner.scheduler_wakeup.notify_one();
    Ok((batch.next, batch.steered))
}

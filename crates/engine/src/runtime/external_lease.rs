//! Optional lease outside the store: taken before a run is executed, renewed during it, and released
//! afterwards.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::inner::{Inner, Phase};
use super::run_slot::{RunMessage, RunSlot};
use crate::lease::{Lease, LeaseError, LeaseToken};
use crate::timeout::answer_within;

/// External lease of a run in execution. Dropping it releases the lease.
pub(crate) struct ExternalLease {
    inner: Arc<Inner>,
    handle: LeaseHandle,
    keeper: JoinHandle<()>,
}

#[derive(Clone)]
struct LeaseHandle {
    lease: Arc<dyn Lease>,
    name: String,
    token: LeaseToken,
}

/// The run must not be executed here: its store lease is lost, or the engine is stopping.
pub(crate) struct LeaseUnavailable;

/// Waits for the external lease of a run that the store has granted. The store's lease is renewed during the
/// wait, so no other engine can claim the run.
pub(crate) async fn take(
    inner: &Arc<Inner>,
    slot: &Arc<RunSlot>,
) -> Result<Option<ExternalLease>, LeaseUnavailable> {
    let Some(lease) = inner.options.lease.clone() else { return Ok(None) };
    let name = format!("{}/{}", slot.workspace.as_str(), slot.run);
    let handle = LeaseHandle { lease, name, token: LeaseToken::fresh() };
    let ttl = inner.options.lease_for;
    loop {
        let changed = inner.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if inner.phase() != Phase::Running || slot.is_lost() {
            // If the reply to the last request is still on its way, the lease expires by itself.
            return Err(LeaseUnavailable);
        }
        let since = inner.clock.monotonic();
        match within(inner, ttl / 3, handle.lease.acquire(&handle.name, &handle.token, ttl)).await {
            Ok(true) => {
                slot.hold.extend_outside(inner.lease_deadline(since));
                let keeper = tokio::spawn(keep(inner.clone(), slot.clone(), handle.clone()));
                return Ok(Some(ExternalLease { inner: inner.clone(), handle, keeper }));
            }
            Ok(false) => {
                tracing::debug!(run = %slot.run, "the lease outside is held by another; waiting for it")
            }
            Err(error) => tracing::warn!(run = %slot.run, %error, "the run waits for its lease outside"),
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = inner.clock.sleep(inner.options.poll_every) => {}
        }
    }
}

/// Renews the lease three times per lease time. If the lease is lost, the run stops at once.
async fn keep(inner: Arc<Inner>, slot: Arc<RunSlot>, handle: LeaseHandle) {
    let ttl = inner.options.lease_for;
    loop {
        inner.clock.sleep(ttl / 3).await;
        let since = inner.clock.monotonic();
        match within(&inner, ttl / 3, handle.lease.renew(&handle.name, &handle.token, ttl)).await {
            Ok(true) => {
                let ran_out = slot.deadline() <= inner.clock.monotonic();
                slot.hold.extend_outside(inner.lease_deadline(since));
                if ran_out {
                    slot.send(RunMessage::Renewed);
                }
            }
            Ok(false) => {
                tracing::warn!(run = %slot.run, "the lease outside was lost; the run is given up here");
                slot.hold.extend_outside(Duration::ZERO);
                slot.send(RunMessage::LeaseLost);
                return;
            }
            Err(error) => {
                tracing::warn!(run = %slot.run, %error, "the lease outside could not be renewed; trying again");
            }
        }
        if slot.deadline() <= inner.clock.monotonic() {
            slot.send(RunMessage::LeaseLost);
            return;
        }
    }
}

/// Limits the wait for a lease service that does not answer.
async fn within<T>(
    inner: &Inner,
    span: Duration,
    call: impl Future<Output = Result<T, LeaseError>>,
) -> Result<T, LeaseError> {
    let answer = answer_within(&*inner.clock, span, call).await;
    answer.unwrap_or_else(|| Err(LeaseError("no answer in time".into())))
}

impl Drop for ExternalLease {
    fn drop(&mut self) {
        self.keeper.abort();
        // A killed engine does nothing more, like a crashed one.
        if self.inner.phase() == Phase::Killed {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let handle = self.handle.clone();
            runtime.spawn(async move {
                if let Err(error) = handle.lease.release(&handle.name, &handle.token).await {
                    tracing::debug!(%error, "a lease outside was not given back; it ends by itself");
                }
            });
        }
    }
}

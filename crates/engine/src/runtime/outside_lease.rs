//! The lease outside the store, if one is asked for: taken before a run is driven, kept meanwhile, given back afterwards.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::inner::{Inner, Phase};
use super::run_slot::{RunMessage, RunSlot};
use crate::lease::{Lease, LeaseError, LeaseToken};
use crate::timeout::answer_within;

/// Held while a run is driven; dropped, it is given back.
pub(crate) struct OutsideLease {
    inner: Arc<Inner>,
    hold: Hold,
    keeper: JoinHandle<()>,
}

#[derive(Clone)]
struct Hold {
    lease: Arc<dyn Lease>,
    name: String,
    token: LeaseToken,
}

/// The run must not be driven here: its own lease is lost, or the engine stops.
pub(crate) struct GivenUp;

/// Waits for the outside lease of a run that the store has granted. Meanwhile the store's lease is renewed as ever, so the run is
/// nobody else's to take, and asking again costs the store nothing.
pub(crate) async fn take(inner: &Arc<Inner>, active: &Arc<RunSlot>) -> Result<Option<OutsideLease>, GivenUp> {
    let Some(lease) = inner.options.lease.clone() else { return Ok(None) };
    let name = format!("{}/{}", active.workspace.as_str(), active.run);
    let hold = Hold { lease, name, token: LeaseToken::fresh() };
    let ttl = inner.options.lease_for;
    loop {
        let changed = inner.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if inner.phase() != Phase::Running || active.is_lost() {
            // If the answer to the last question is still on its way, the lease ends by itself.
            return Err(GivenUp);
        }
        let since = inner.clock.monotonic();
        match within(inner, ttl / 3, hold.lease.acquire(&hold.name, &hold.token, ttl)).await {
            Ok(true) => {
                active.hold.extend_outside(inner.lease_deadline(since));
                let keeper = tokio::spawn(keep(inner.clone(), active.clone(), hold.clone()));
                return Ok(Some(OutsideLease { inner: inner.clone(), hold, keeper }));
            }
            Ok(false) => {
                tracing::debug!(run = %active.run, "the lease outside is held by another; waiting for it")
            }
            Err(error) => tracing::warn!(run = %active.run, %error, "the run waits for its lease outside"),
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = inner.clock.sleep(inner.options.poll_every) => {}
        }
    }
}

/// Renews the lease three times in its life; a run whose lease is gone stops at once.
async fn keep(inner: Arc<Inner>, active: Arc<RunSlot>, hold: Hold) {
    let ttl = inner.options.lease_for;
    loop {
        inner.clock.sleep(ttl / 3).await;
        let since = inner.clock.monotonic();
        match within(&inner, ttl / 3, hold.lease.renew(&hold.name, &hold.token, ttl)).await {
            Ok(true) => {
                let ran_out = active.deadline() <= inner.clock.monotonic();
                active.hold.extend_outside(inner.lease_deadline(since));
                if ran_out {
                    active.post(RunMessage::Renewed);
                }
            }
            Ok(false) => {
                tracing::warn!(run = %active.run, "the lease outside was lost; the run is given up here");
                active.hold.extend_outside(Duration::ZERO);
                active.post(RunMessage::LeaseLost);
                return;
            }
            Err(error) => {
                tracing::warn!(run = %active.run, %error, "the lease outside could not be renewed; trying again");
            }
        }
        if active.deadline() <= inner.clock.monotonic() {
            active.post(RunMessage::LeaseLost);
            return;
        }
    }
}

/// An outside that does not answer must not keep anything waiting for ever.
async fn within<T>(
    inner: &Inner,
    span: Duration,
    call: impl Future<Output = Result<T, LeaseError>>,
) -> Result<T, LeaseError> {
    let answer = answer_within(&*inner.clock, span, call).await;
    answer.unwrap_or_else(|| Err(LeaseError("no answer in time".into())))
}

impl Drop for OutsideLease {
    fn drop(&mut self) {
        self.keeper.abort();
        // A killed engine does nothing more, as a crashed one could not.
        if self.inner.phase() == Phase::Killed {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let hold = self.hold.clone();
            runtime.spawn(async move {
                if let Err(error) = hold.lease.release(&hold.name, &hold.token).await {
                    tracing::debug!(%error, "a lease outside was not given back; it ends by itself");
                }
            });
        }
    }
}

//! Keeps the leases of driven runs alive, and stops what can no longer be held.

use std::sync::Arc;

use super::active::Mail;
use super::inner::{Inner, Phase};
use crate::limits::MAX_RENEWALS;
use crate::store::{HeldLease, RenewLeases};

/// Renews all leases three times per lease; a run whose lease cannot be renewed stops itself before it ends.
pub(crate) async fn renew(inner: Arc<Inner>) {
    let every = inner.options.lease_for / 3;
    loop {
        let changed = inner.changed.notified();
        // Looked at before the wait as well: the engine may have stopped before anybody listened.
        if inner.phase() == Phase::Killed {
            return;
        }
        tokio::select! {
            biased;
            () = inner.clock.sleep_until(inner.clock.now().plus(every)) => {}
            () = changed => {}
        }
        if inner.phase() == Phase::Killed {
            return;
        }
        let held = inner.active.all();
        for batch in held.chunks(MAX_RENEWALS) {
            let leases = batch
                .iter()
                .map(|active| HeldLease {
                    workspace: active.workspace.clone(),
                    run: active.run,
                    fence: active.fence,
                })
                .collect();
            let since = inner.clock.monotonic();
            let request = RenewLeases { owner: inner.owner, lease_for: inner.options.lease_for, leases };
            match inner.store.renew_leases(request).await {
                Ok(lost) => {
                    for active in batch {
                        match lost.contains(&active.run) {
                            true => active.post(Mail::LeaseLost),
                            false => {
                                let ran_out = active.deadline() <= inner.clock.monotonic();
                                active.set_deadline(inner.lease_deadline(since));
                                if ran_out {
                                    active.post(Mail::Renewed);
                                }
                            }
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "leases could not be renewed; trying again"),
            }
        }
        // A lease that ran out here is given up, whatever the store may say later.
        let now = inner.clock.monotonic();
        for active in held.iter().filter(|active| active.deadline() <= now) {
            tracing::warn!(run = %active.run, "the lease could not be kept; the run is given up here");
            active.post(Mail::LeaseLost);
        }
    }
}

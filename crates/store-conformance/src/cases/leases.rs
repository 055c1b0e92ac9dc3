//! Lease renewal.

use hapax_engine::limits::MAX_RENEWALS;
use hapax_engine::model::{Fence, RunHead};
use hapax_engine::store::{HeldLease, RenewLeases, StoreError};

use crate::fixture::*;
use crate::must;

/// CONTRACT 5: a renewal extends the lease, and changes nothing else about the run.
pub(super) async fn a_renewed_lease_ends_later(t: &TestStore) {
    let held = t.driven().await;
    t.pass(LEASE / 2);
    assert!(t.renew(ANN, &[&held]).await.is_empty());
    let now = t.head(&held).await;
    assert_eq!(now.state.lease().unwrap().until, t.now().plus(LEASE));
    assert_eq!((now.version, now.fence, now.changed_at), (held.version, held.fence, held.changed_at));
    assert_eq!(t.events(&held).await.len(), 1);
    t.pass(LEASE - SECOND);
    assert!(t.claim(BOB).await.is_empty(), "the old end does not count");
    t.write(&held).await.does("charge").done().await;
}

/// Invariant 20: a write by the holder does not shorten a lease that was renewed in between.
pub(super) async fn a_write_does_not_shorten_a_renewed_lease(t: &TestStore) {
    let held = t.driven().await;
    t.pass(LEASE / 2);
    assert!(t.renew(ANN, &[&held]).await.is_empty());
    let renewed = t.head(&held).await.state.lease();
    let after = t.write(&held).await.does("charge").done().await;
    assert_eq!(after.state.lease(), renewed);
    t.pass(LEASE / 2);
    let after = t.write(&held_at(&held, &after)).await.continues_with("2").done().await;
    assert_eq!(after.state.lease(), renewed);
    assert!(t.claim(BOB).await.is_empty());
}

/// The run as seen by a holder that missed the renewal.
fn held_at(first: &RunHead, now: &RunHead) -> RunHead {
    RunHead { state: first.state, ..now.clone() }
}

/// The store's clock counts: a holder can still renew an expired lease that no other worker has claimed.
pub(super) async fn an_ended_lease_that_nobody_took_is_prolonged(t: &TestStore) {
    let held = t.driven().await;
    t.pass(2 * LEASE);
    assert!(t.renew(ANN, &[&held]).await.is_empty());
    assert!(t.claim(BOB).await.is_empty());
}

/// Invariants 17, 21: a worker that lost the run learns so, and its renewal changes nothing.
pub(super) async fn a_lease_that_was_taken_is_lost(t: &TestStore) {
    let held = t.driven().await;
    t.pass(LEASE);
    let taken = t.claim_one(BOB).await;
    assert_eq!(t.renew(ANN, &[&held]).await, [held.id()]);
    assert_eq!(t.head(&held).await, taken);
    t.pass(LEASE);
    let back = t.claim_one(ANN).await;
    assert_eq!(t.renew(ANN, &[&held]).await, [held.id()], "the fence counts, not only the owner");
    assert_eq!(t.renew(BOB, &[&back]).await, [held.id()], "the owner counts, not only the fence");
    assert_eq!(t.head(&held).await, back);
}

/// A released lease cannot be renewed.
pub(super) async fn a_released_lease_is_not_renewed(t: &TestStore) {
    let released = t.driven().await;
    t.write(&released).await.releases().done().await;
    let parked = t.driven().await;
    t.write(&parked).await.awaits_signal("go").parks().done().await;
    let closed = t.driven().await;
    t.write(&closed).await.completes("1").done().await;
    let pending = t.pending().await;
    let all = [&released, &parked, &closed, &pending];
    assert_eq!(t.renew(ANN, &all).await, all.map(|run| run.id()));
    let mut granted: Vec<_> = t.claim(BOB).await.iter().map(|run| run.id()).collect();
    granted.sort();
    assert_eq!(granted, [released.id(), pending.id()]);
}

/// A renewal of several leases returns exactly the lost ones, in the requested order.
pub(super) async fn each_lease_is_judged_by_itself(t: &TestStore) {
    let (first, second, third) = (t.driven().await, t.driven().await, t.driven().await);
    t.write(&second).await.releases().done().await;
    assert_eq!(t.renew(ANN, &[&third, &second, &first]).await, [second.id()]);
    let mut abroad = first.clone();
    std::sync::Arc::make_mut(&mut abroad.facts).workspace =
        hapax_engine::model::WorkspaceId::new("abroad").unwrap();
    assert_eq!(t.renew(ANN, &[&abroad]).await, [first.id()]);
    assert!(t.renew(ANN, &[]).await.is_empty());
}

/// A batch of renewals has a maximum size.
pub(super) async fn too_many_renewals_are_refused(t: &TestStore) {
    let held = t.driven().await;
    let lease = HeldLease { workspace: held.facts.workspace.clone(), run: held.id(), fence: Fence::new(1) };
    let renewal = |count| RenewLeases { owner: ANN, lease_for: LEASE, leases: vec![lease.clone(); count] };
    assert!(t.store.renew_leases(renewal(MAX_RENEWALS)).await.unwrap().is_empty());
    must!(t.store.renew_leases(renewal(MAX_RENEWALS + 1)).await, Err(StoreError::Refused(_)));
}

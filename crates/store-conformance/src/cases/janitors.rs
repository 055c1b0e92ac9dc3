//! Crashed holders: heartbeats, the operations that the janitor reverts or leaves to people, and stray rows.

use std::time::Duration;

use hapax_engine::limits::{MAX_HEARTBEATS, MAX_STALE_CLAIMS};
use hapax_engine::model::{
    BeginOperationOutcome, EntityStorage, FinishBy, FinishOperation, FinishOperationOutcome, JournalEvent,
    OperationEnd, OperationId, OperationState, OperationStatus, WorkspaceId,
};
use hapax_engine::store::{HeldOperation, RevertStrays, StoreError};

use crate::fixture::*;
use crate::must;

const WINDOW: Duration = Duration::from_secs(300);

/// G1.2: a heartbeat is recorded, and its sender keeps its operations.
pub(super) async fn a_heartbeat_keeps_an_operation_alive(t: &TestStore) {
    for home in t.homes().await {
        let (slow, dead) = (t.closing(&home, "i1").await, t.closing(&home, "i2").await);
        for _ in 0..3 {
            t.pass(WINDOW);
            assert!(t.hear(ANN, &[&slow]).await.is_empty());
            assert_eq!(slow.now().await.state, OperationState::Pending { heard_at: t.now() });
        }
        assert_eq!(t.stale(t.now()).await, [dead.id()]);
        let heard =
            hapax_engine::model::Operation { state: slow.now().await.state, ..slow.operation.clone() };
        assert_eq!(slow.now().await, heard, "nothing else of it changes");
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
        must!(slow.done("1").await, FinishOperationOutcome::Finished { .. });
        dead.reverted().await;
    }
}

/// A heartbeat returns the operations that its sender has lost, and does not record them as alive.
pub(super) async fn a_holder_learns_what_it_lost(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "held").await;
        let done_one = t.closing(&home, "done").await;
        must!(done_one.done("1").await, FinishOperationOutcome::Finished { .. });
        t.invoice(&home, "again", "approved").await;
        let close = t.close(&home, "again").key("k");
        let reverted = close.begins().await;
        reverted.reverted().await;
        let next = close.again().seen(3).begins().await;
        let doubted = t.closing(&home, "doubt").await;
        doubted.doubted().await;
        t.invoice(&home, "bob", "approved").await;
        let bobs = t.close(&home, "bob").owner(BOB).begins().await;
        let at = t.now();
        t.pass(SECOND);
        let lost = t.hear(ANN, &[&held, &done_one, &reverted, &doubted, &bobs]).await;
        let mut lost: Vec<OperationId> = lost;
        lost.sort();
        let mut expected = vec![done_one.id(), reverted.id(), doubted.id(), bobs.id()];
        expected.sort();
        assert_eq!(lost, expected);
        assert_eq!(next.now().await, next.operation, "the earlier attempt does not speak for this one");
        assert_eq!(bobs.now().await.state, OperationState::Pending { heard_at: at });
        assert_eq!(held.now().await.state.at(), t.now());
        let elsewhere = HeldOperation { workspace: WorkspaceId::new("abroad").unwrap(), ..held.held() };
        let nowhere = HeldOperation { operation: OperationId::from_u128(u128::MAX), ..held.held() };
        let lost = t.entities().heartbeat_operations(ANN, vec![elsewhere, nowhere]).await.unwrap();
        assert_eq!(lost.len(), 2);
        assert!(t.hear(ANN, &[]).await.is_empty());
        for held in [held, next, bobs] {
            held.reverted().await;
        }
    }
}

/// A heartbeat for too many operations is refused.
pub(super) async fn too_many_heartbeats_are_refused(t: &TestStore) {
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await.held();
    let heard = t.entities().heartbeat_operations(ANN, vec![held.clone(); MAX_HEARTBEATS]).await;
    assert_eq!(heard.unwrap(), []);
    let refused = t.entities().heartbeat_operations(ANN, vec![held; MAX_HEARTBEATS + 1]).await;
    must!(refused, Err(StoreError::Refused(_)));
}

/// S1.40: the janitor finds operations of its module without a recent heartbeat, the oldest heartbeat first.
pub(super) async fn a_janitor_finds_operations_without_a_heartbeat(t: &TestStore) {
    for home in t.homes().await {
        let mut held = Vec::new();
        for id in ["i1", "i2", "i3", "i4"] {
            held.push(t.closing(&home, id).await);
            t.pass(SECOND);
        }
        t.invoice(&home, "other", "approved").await;
        let other = t.close(&home, "other").module("shipping").begins().await;
        t.invoice(&home, "bare", "approved").await;
        let bare = t.close(&home, "bare").unclaimed().begins().await;
        // Send another heartbeat, so the order differs from the order of the ids.
        t.pass(SECOND);
        assert!(t.hear(ANN, &[&held[0]]).await.is_empty());
        let doubted = t.closing(&home, "doubt").await;
        doubted.doubted().await;
        must!(held[2].done("1").await, FinishOperationOutcome::Finished { .. });
        t.pass(SECOND);
        let all = [held[1].id(), held[3].id(), bare.id(), held[0].id()];
        assert_eq!(t.stale(t.now()).await, all);
        let list = |module, since, limit| t.entities().list_stale_operations(module, since, limit);
        let billing = name("billing");
        let two = list(&billing, t.now(), 2).await.unwrap();
        assert_eq!(two, [held[1].now().await, held[3].now().await], "as they are recorded");
        let heard_at = held[0].now().await.state.at();
        assert_eq!(
            t.stale(heard_at).await,
            all[..3],
            "those heard of at that very instant are not among them"
        );
        assert_eq!(t.stale(held[1].operation.state.at()).await, []);
        let shipping = list(&name("shipping"), t.now(), 10).await.unwrap();
        assert_eq!(shipping.iter().map(|operation| operation.id).collect::<Vec<_>>(), [other.id()]);
        for held in [&held[0], &held[1], &held[3], &bare, &other] {
            held.reverted().await;
        }
        assert!(t.stale(t.now()).await.is_empty());
    }
}

/// A janitor covers every workspace, in bounded batches.
pub(super) async fn a_janitor_looks_after_every_workspace_in_bounds(t: &TestStore) {
    must!(t.create("i1", "approved", "{}").await, hapax_engine::store::CreateEntityOutcome::Created(_));
    for _ in 0..MAX_STALE_CLAIMS {
        t.close(&EntityStorage::BuiltIn, "i1").unclaimed().begins().await;
    }
    let abroad = WorkspaceId::new("abroad").unwrap();
    let new = hapax_engine::store::NewEntity {
        workspace: abroad.clone(),
        entity: entity_in(&EntityStorage::BuiltIn, "i1"),
        status: name("approved"),
        data: json("{}"),
    };
    must!(
        t.entities().create_entity(new).await.unwrap(),
        hapax_engine::store::CreateEntityOutcome::Created(_)
    );
    t.pass(SECOND);
    let there = t.close(&EntityStorage::BuiltIn, "i1").workspace("abroad").begins().await;
    t.pass(SECOND);
    let list = |limit| async move {
        t.entities().list_stale_operations(&name("billing"), t.now(), limit).await.unwrap()
    };
    let first = list(usize::MAX).await;
    assert_eq!(first.len(), MAX_STALE_CLAIMS);
    assert!(first.iter().all(|operation| operation.workspace == WorkspaceId::default()), "the oldest first");
    for operation in &first {
        let request = FinishOperation {
            workspace: operation.workspace.clone(),
            operation: operation.id,
            ..there.end(FinishBy::Janitor { unheard_since: t.now() }, OperationEnd::Reverted)
        };
        must!(there.send(request).await, FinishOperationOutcome::Finished { entity: None, .. });
    }
    assert_eq!(list(usize::MAX).await, [there.operation]);
}

/// S1.38, S1.40, S1.41: the janitor reverts abandoned operations, and the history records it (G1.6).
pub(super) async fn a_janitor_reverts_abandoned_operations(t: &TestStore) {
    for home in t.homes().await {
        let dead = t.closing(&home, "i1").await;
        t.pass(WINDOW);
        let request = FinishOperation {
            posts: vec![dead.post("mail")],
            notes: vec![dead.remark("given back")],
            ..dead.end(FinishBy::Janitor { unheard_since: t.now() }, OperationEnd::Reverted)
        };
        let finished = dead.send(request.clone()).await;
        let (operation, entity) = must!(finished, FinishOperationOutcome::Finished { operation, entity: Some(entity), .. } => (*operation, entity));
        assert_eq!(operation.state, OperationState::Reverted { at: t.now(), settled: false });
        assert_eq!((entity.status.as_str(), entity.version.get()), ("approved", 3));
        assert_eq!(entity.updated_at, t.now());
        assert_eq!((dead.now().await, t.entity(&home, "i1").await), (operation.clone(), entity));
        // A second janitor that saw the same state learns that the revert is done.
        t.pass(SECOND);
        must!(dead.send(request).await, FinishOperationOutcome::Again(again) if *again == operation);
        assert_eq!(t.noted_on(&home, "i1").await.len(), 1);
        t.close(&home, "i1").seen(3).begins().await;
    }
}

/// G1.2: a holder whose heartbeat arrived in between keeps its claim.
pub(super) async fn a_holder_whose_heartbeat_arrives_in_time_keeps_its_claim(t: &TestStore) {
    for home in t.homes().await {
        let slow = t.closing(&home, "i1").await;
        t.pass(WINDOW);
        let unheard_since = t.now();
        assert_eq!(t.stale(unheard_since).await, [slow.id()]);
        assert!(t.hear(ANN, &[&slow]).await.is_empty());
        let heard = slow.now().await;
        for end in [OperationEnd::Reverted, OperationEnd::InDoubt] {
            must!(slow.swept(end, unheard_since).await, FinishOperationOutcome::Lost(Some(found)) if *found == heard);
        }
        assert_eq!(slow.now().await, heard);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
        must!(slow.done("1").await, FinishOperationOutcome::Finished { .. });
        t.pass(WINDOW);
        for end in [OperationEnd::Reverted, OperationEnd::InDoubt, done("2")] {
            must!(slow.swept(end, t.now()).await, FinishOperationOutcome::Lost(Some(_)));
        }
        assert_eq!(t.standing(&home, "i1").await, ("closed".into(), 3));
    }
}

/// G1.4: an operation that must not be repeated is left to people: the entity stays claimed, and others learn which
/// operation holds it.
pub(super) async fn an_operation_that_must_not_repeat_is_left_to_people(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let dead = t.close(&home, "i1").holding().begins().await;
        t.pass(WINDOW);
        let request = FinishOperation {
            notes: vec![dead.remark("held")],
            ..dead.end(FinishBy::Janitor { unheard_since: t.now() }, OperationEnd::InDoubt)
        };
        must!(dead.send(request.clone()).await, FinishOperationOutcome::Finished { entity: None, .. });
        let doubted = dead.now().await;
        assert_eq!(doubted.state, OperationState::InDoubt { since: t.now() });
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
        must!(t.close(&home, "i1").seen(2).send().await, BeginOperationOutcome::ClaimFailed(Some(found)) if *found == doubted);
        must!(dead.send(request).await, FinishOperationOutcome::Again(_));
        assert_eq!(t.noted_on(&home, "i1").await.len(), 1);
        assert!(t.stale(t.now().plus(HOUR)).await.is_empty(), "the janitor is through with it");
        assert_eq!(t.hear(ANN, &[&dead]).await, [dead.id()]);
        must!(
            dead.swept(OperationEnd::Reverted, t.now().plus(HOUR)).await,
            FinishOperationOutcome::Lost(Some(_))
        );
        for end in [done("1"), OperationEnd::Failed(failure()), OperationEnd::TryAgain] {
            must!(dead.finish(end).await, FinishOperationOutcome::Lost(Some(found)) if *found == doubted);
        }
        must!(dead.finish(OperationEnd::InDoubt).await, FinishOperationOutcome::Again(found) if *found == doubted);
        assert_eq!(dead.now().await, doubted, "its holder comes too late");
        must!(dead.send(dead.end(FinishBy::Run, done("1"))).await, FinishOperationOutcome::Lost(Some(_)));
    }
}

/// S2.48: people rule whether the operation in doubt happened. The entity moves forward or back, and is free.
pub(super) async fn people_resolve_operations_in_doubt(t: &TestStore) {
    let decisions = [
        (done(r#"{"seen":true}"#), "closed", OperationStatus::Done),
        (OperationEnd::Reverted, "approved", OperationStatus::Reverted),
        (OperationEnd::Failed(failure()), "approved", OperationStatus::Failed),
    ];
    for home in t.homes().await {
        for (n, (end, status, expected)) in decisions.clone().into_iter().enumerate() {
            let id = format!("i{n}");
            let held = t.closing(&home, &id).await;
            held.doubted().await;
            t.pass(SECOND);
            let request = FinishOperation {
                posts: vec![held.post("mail")],
                notes: vec![held.remark("decided")],
                ..held.end(FinishBy::People, end)
            };
            must!(held.send(request.clone()).await, FinishOperationOutcome::Finished { entity: Some(_), .. });
            assert_eq!(t.standing(&home, &id).await, (status.into(), 3));
            assert_eq!(held.now().await.state.at(), t.now());
            assert_eq!(held.status().await, expected);
            must!(held.send(request).await, FinishOperationOutcome::Again(_));
            let other = held.end(FinishBy::People, OperationEnd::Rejected(failure()));
            must!(held.send(other).await, FinishOperationOutcome::Lost(Some(_)));
            assert_eq!(t.noted_on(&home, &id).await.len(), 1);
            let next = t.close(&home, &id).seen(3).with(|request| request.from.push(name("closed")));
            next.begins().await;
        }
    }
}

/// A run that executes an operation reports its end, whichever engine sees it. For an operation without a run,
/// such a report is refused.
pub(super) async fn a_run_says_how_its_operation_ended(t: &TestStore) {
    for home in t.homes().await {
        for (id, end, status) in
            [("i1", done("1"), "closed"), ("i2", OperationEnd::Failed(failure()), "approved")]
        {
            t.invoice(&home, id, "approved").await;
            let held = t.close(&home, id).by_run().begins().await;
            let request = held.end(FinishBy::Run, end);
            must!(held.send(request.clone()).await, FinishOperationOutcome::Finished { .. });
            assert_eq!(t.standing(&home, id).await, (status.into(), 3));
            must!(held.send(request).await, FinishOperationOutcome::Again(_));
            must!(held.send(held.end(FinishBy::Run, done("2"))).await, FinishOperationOutcome::Lost(Some(_)));
        }
        let bare = t.closing(&home, "i3").await;
        must!(bare.send(bare.end(FinishBy::Run, done("1"))).await, FinishOperationOutcome::Lost(Some(_)));
        assert_eq!(bare.now().await, bare.operation);
    }
}

/// An unclaimed operation of a crashed holder ends, and the entity is unchanged.
pub(super) async fn an_unclaimed_operation_is_reverted_without_a_change(t: &TestStore) {
    for home in t.homes().await {
        let entity = t.invoice(&home, "i1", "approved").await;
        let dead = t.close(&home, "i1").unclaimed().begins().await;
        t.pass(WINDOW);
        must!(
            dead.swept(OperationEnd::Reverted, t.now()).await,
            FinishOperationOutcome::Finished { entity: None, .. }
        );
        assert_eq!(t.entity(&home, "i1").await, entity);
        assert_eq!(dead.status().await, OperationStatus::Reverted);
    }
}

/// The janitor does not change a row that the user's code moved out of the transient status.
pub(super) async fn a_janitor_does_not_change_a_row_that_others_moved(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    let dead = t.closing(&home, "i1").await;
    t.put_row("i1", "paid", 7).await;
    t.pass(WINDOW);
    must!(
        dead.swept(OperationEnd::Reverted, t.now()).await,
        FinishOperationOutcome::Finished { entity: None, .. }
    );
    assert_eq!(t.standing(&home, "i1").await, ("paid".into(), 7));
    assert_eq!(dead.status().await, OperationStatus::Reverted);
}

async fn strays(t: &TestStore, request: RevertStrays) -> Vec<String> {
    let reverted = t.entities().revert_strays(request).await.unwrap();
    let mut ids: Vec<String> = reverted.iter().map(ToString::to_string).collect();
    ids.sort();
    ids
}

/// S1.40: stray rows in a transient status are reverted if no operation holds them and they are old enough.
pub(super) async fn stray_rows_are_reverted(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    t.invoice(&home, "stray", "closing").await;
    t.invoice(&home, "paying", "paying").await;
    t.invoice(&home, "resting", "approved").await;
    let held = t.closing(&home, "held").await;
    t.closing(&home, "doubted").await.doubted().await;
    let ended = t.closing(&home, "ended").await;
    ended.reverted().await;
    t.put_row("ended", "closing", 9).await;
    t.pass(WINDOW);
    let before = t.now();
    t.invoice(&home, "young", "closing").await;
    t.pass(SECOND);
    assert_eq!(strays(t, t.strays(before)).await, ["ended", "stray"]);
    let stray = t.entity(&home, "stray").await;
    assert_eq!((stray.status.as_str(), stray.version.get(), stray.updated_at), ("approved", 2, t.now()));
    assert_eq!(stray.data.as_str(), r#"{"total":7}"#);
    assert_eq!(t.standing(&home, "ended").await, ("approved".into(), 10));
    let standing = [("paying", "paying", 1), ("resting", "approved", 1), ("held", "closing", 2)];
    for (id, status, version) in
        standing.into_iter().chain([("doubted", "closing", 2), ("young", "closing", 1)])
    {
        assert_eq!(t.standing(&home, id).await, (status.into(), version), "{id}");
    }
    let placed = t.placed_entity_notes(t.all_notes_on(&home, "stray")).await;
    let note = must!(placed.as_slice(), [placed] => &placed.note);
    assert_eq!(note.what, JournalEvent::StrayReverted { status: "approved".into() });
    assert_eq!((note.operation, note.at, &note.by), (None, t.now(), &None));
    assert!(t.noted_on(&home, "held").await.is_empty());
    assert!(strays(t, t.strays(before)).await.is_empty(), "they are given back once");
    must!(held.done("1").await, FinishOperationOutcome::Finished { .. });
    t.close(&home, "stray").seen(2).begins().await;
}

/// Stray rows are reverted in bounded batches.
pub(super) async fn stray_rows_are_reverted_in_bounded_batches(t: &TestStore) {
    if t.tables.is_none() {
        return;
    }
    let home = t.homes().await.into_iter().find(is_table).expect("there are tables");
    for n in 0..MAX_STALE_CLAIMS + 5 {
        t.put_row(&format!("i{n:04}"), "closing", 1).await;
    }
    t.pass(WINDOW);
    let mut all = strays(t, RevertStrays { limit: 3, ..t.strays(t.now()) }).await;
    assert_eq!(all.len(), 3);
    let many = strays(t, RevertStrays { limit: usize::MAX, ..t.strays(t.now()) }).await;
    assert_eq!(many.len(), MAX_STALE_CLAIMS);
    all.extend(many);
    all.extend(strays(t, t.strays(t.now())).await);
    all.sort();
    assert_eq!(all, (0..MAX_STALE_CLAIMS + 5).map(|n| format!("i{n:04}")).collect::<Vec<_>>());
    let left = hapax_engine::store::ListEntities { status: Some(name("closing")), ..t.all_invoices(&home) };
    assert!(t.entity_ids(left).await.is_empty());
}

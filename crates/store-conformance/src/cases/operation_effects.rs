//! Effects of operations: their evidence, their effect keys, and the document version they begin under.

use hapax_engine::model::{
    BeginOperationOutcome, CatalogKind, EntityStorage, Failure, FinishBy, FinishOperation,
    FinishOperationOutcome, OperationEnd, OperationState, Version, WorkspaceId,
};
use hapax_engine::store::{
    CreateEntityOutcome, FindLatestOperations, NewEntity, OpenClaim, PutCatalogItem, PutOutcome,
};

use crate::fixture::*;
use crate::must;

async fn ended(held: &BegunOperation<'_>, end: OperationEnd) {
    must!(held.finish(end).await, FinishOperationOutcome::Finished { .. });
}

/// Ends with an unknown outcome.
fn unknown_ends(t: &TestStore) -> Vec<(FinishBy, OperationEnd)> {
    vec![
        (FinishBy::Holder(ANN), OperationEnd::Failed(Failure::unknown("no answer"))),
        (FinishBy::Janitor { unheard_since: t.now().plus(SECOND) }, OperationEnd::Reverted),
    ]
}

/// CONTRACT 8: if an operation of a claimed step may have happened, the next one reuses its effect key, whatever its
/// input.
pub(super) async fn an_operation_that_may_have_happened_keeps_its_effect_key(t: &TestStore) {
    for home in t.homes().await {
        for (n, (by, end)) in unknown_ends(t).into_iter().enumerate() {
            let id = format!("i{n}");
            t.invoice(&home, &id, "approved").await;
            let first = t.close(&home, &id).begins().await;
            assert_eq!((first.operation.effect_of, first.operation.may_repeat), (first.id(), false));
            let request = FinishOperation { tries: Some(3), ..first.end(by, end) };
            must!(first.send(request).await, FinishOperationOutcome::Finished { .. });
            assert_eq!(first.now().await.tries, 3);
            let second = t.close(&home, &id).input("2").seen(3).begins().await;
            assert_ne!(second.id(), first.id());
            let second = second.now().await;
            assert_eq!(second.effect_key(), first.operation.effect_key());
            assert_eq!((second.may_repeat, second.tries, second.tries_before), (true, 1, 3));
        }
    }
}

/// A result, a rejection or a known failure ends the effect: the next operation gets a new effect key.
pub(super) async fn a_known_end_begins_a_new_effect(t: &TestStore) {
    let ends = [
        done("1"),
        OperationEnd::Rejected(Failure::permanent("no")),
        OperationEnd::Failed(Failure::retryable("busy")),
    ];
    for home in t.homes().await {
        for (n, end) in ends.clone().into_iter().enumerate() {
            let id = format!("i{n}");
            t.invoice(&home, &id, "approved").await;
            ended(&t.close(&home, &id).to("overdue").begins().await, end).await;
            let second = t.close(&home, &id).seen(3).begins().await.now().await;
            assert_eq!((second.effect_of, second.may_repeat), (second.id, false));
            assert_eq!((second.done_before, second.tries_before), (n == 0, 0));
        }
    }
}

/// A later operation that did not happen says nothing about an earlier one under the same key.
pub(super) async fn a_doubt_is_passed_on_over_known_failures(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let first = t.close(&home, "i1").begins().await;
        ended(&first, OperationEnd::Failed(Failure::unknown("no answer"))).await;
        ended(&t.close(&home, "i1").seen(3).begins().await, OperationEnd::Rejected(Failure::permanent("no")))
            .await;
        let third = t.close(&home, "i1").seen(5).begins().await;
        assert_eq!(third.operation.effect_key(), first.operation.effect_key());
        ended(&third, done("1")).await;
        assert!(!third.now().await.leaves_doubt());
    }
}

/// CONTRACT 8: a ruling or probe that it did not happen frees the step for every caller.
pub(super) async fn a_ruling_that_it_did_not_happen_frees_the_step(t: &TestStore) {
    for home in t.homes().await {
        for (n, by) in [FinishBy::People, FinishBy::Probe].into_iter().enumerate() {
            let id = format!("i{n}");
            t.invoice(&home, &id, "approved").await;
            let first = t.close(&home, &id).irreversible().holding().begins().await;
            ended(&first, OperationEnd::InDoubt).await;
            let request = first.end(by, OperationEnd::DidNotHappen);
            must!(
                first.send(request.clone()).await,
                FinishOperationOutcome::Finished { entity: Some(_), .. }
            );
            assert_eq!(first.now().await.state, OperationState::Reverted { at: t.now(), settled: true });
            must!(first.send(request).await, FinishOperationOutcome::Again(_));
            assert_eq!(t.standing(&home, &id).await, ("approved".into(), 3));
            let second = t.close(&home, &id).irreversible().seen(3).begins().await.now().await;
            assert!(!second.may_repeat);
            assert_eq!(second.effect_key(), first.operation.effect_key(), "should somebody have erred");
        }
    }
}

/// CONTRACT 8: a `once` step is barred after it is done, even if another operation followed. An `each` step is not.
pub(super) async fn a_once_step_happens_once_and_an_each_step_repeats(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let once = |seen| t.close(&home, "i1").irreversible().to("overdue").seen(seen);
        let first = once(1).begins().await;
        ended(&first, done("1")).await;
        let done_once = first.now().await;
        must!(once(3).send().await, BeginOperationOutcome::OverrideRequired(found) if *found == done_once);
        assert_eq!(t.standing(&home, "i1").await, ("overdue".into(), 3));
        let second = once(3).overridden("they paid twice").begins().await;
        assert_eq!(second.operation.effect_of, second.id(), "a new effect");
        ended(&second, OperationEnd::Rejected(Failure::permanent("no"))).await;
        must!(once(5).send().await, BeginOperationOutcome::OverrideRequired(found) if found.id == second.id());
        t.close(&home, "i1").irreversible_each().seen(5).begins().await;
    }
}

/// The holder records a retry. The operation stays pending, and the retry counts as a heartbeat.
pub(super) async fn a_holder_may_try_again_and_nobody_else(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        t.pass(SECOND);
        let again = |by| FinishOperation { tries: Some(2), ..held.end(by, OperationEnd::TryAgain) };
        for by in [FinishBy::Holder(BOB), FinishBy::People, FinishBy::Janitor { unheard_since: t.now() }] {
            must!(held.send(again(by)).await, FinishOperationOutcome::Lost(Some(_)));
        }
        for _ in 0..2 {
            must!(
                held.send(again(FinishBy::Holder(ANN))).await,
                FinishOperationOutcome::Finished { entity: None, .. }
            );
            let now = held.now().await;
            assert_eq!((now.tries, now.state), (2, OperationState::Pending { heard_at: t.now() }));
        }
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
        ended(&held, done("1")).await;
        must!(held.send(again(FinishBy::Holder(ANN))).await, FinishOperationOutcome::Lost(Some(_)));
    }
}

/// CONTRACT 6: a late result can only settle an open doubt as happened. After a ruling it changes nothing.
pub(super) async fn a_late_result_settles_a_doubt_only_as_happened(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        let late = |end| held.end(FinishBy::LateResult, end);
        must!(held.send(late(done("1"))).await, FinishOperationOutcome::Lost(Some(_)));
        ended(&held, OperationEnd::InDoubt).await;
        for end in [OperationEnd::DidNotHappen, OperationEnd::Failed(failure()), OperationEnd::Reverted] {
            must!(held.send(late(end)).await, FinishOperationOutcome::Lost(Some(_)));
        }
        must!(held.send(late(done("1"))).await, FinishOperationOutcome::Finished { entity: Some(_), .. });
        assert_eq!(t.standing(&home, "i1").await, ("closed".into(), 3));
        let ruled = t.closing(&home, "i2").await;
        ended(&ruled, OperationEnd::InDoubt).await;
        must!(
            ruled.send(ruled.end(FinishBy::People, OperationEnd::DidNotHappen)).await,
            FinishOperationOutcome::Finished { .. }
        );
        must!(
            ruled.send(ruled.end(FinishBy::LateResult, done("1"))).await,
            FinishOperationOutcome::Lost(Some(_))
        );
        assert_eq!(t.standing(&home, "i2").await, ("approved".into(), 3));
    }
}

fn document(expected: Option<u64>) -> PutCatalogItem {
    PutCatalogItem {
        workspace: WorkspaceId::default(),
        kind: CatalogKind::EntityWorkflow,
        id: name("doc"),
        name: "billing".into(),
        body: json("{}"),
        expected: expected.map(Version::new),
        note: None,
    }
}

async fn put(t: &TestStore, expected: Option<u64>) {
    let catalog = t.store.catalog().expect("the store has a catalog");
    must!(catalog.put_item(document(expected)).await.unwrap(), PutOutcome::Put(_));
}

/// CONTRACT 8: an operation begins only under the current document version, and ends under the version it began with.
pub(super) async fn an_operation_begins_only_under_the_document_as_it_is(t: &TestStore) {
    let homes = t.homes().await;
    for home in &homes {
        t.invoice(home, "i1", "approved").await;
        t.invoice(home, "i2", "approved").await;
        must!(
            t.close(home, "i1").document("doc", 1).send().await,
            BeginOperationOutcome::DocumentChanged(None)
        );
    }
    put(t, None).await;
    let mut begun = Vec::new();
    for home in &homes {
        let held = t.close(home, "i1").document("doc", 1).key("k").begins().await;
        assert_eq!(held.now().await.document, Some(Version::new(1)));
        begun.push(held);
    }
    put(t, Some(1)).await;
    for (home, held) in homes.iter().zip(&begun) {
        let two = Some(Version::new(2));
        for old in
            [t.close(home, "i2").document("doc", 1), t.close(home, "i2").document("doc", 1).unclaimed()]
        {
            must!(old.send().await, BeginOperationOutcome::DocumentChanged(found) if found == two);
        }
        assert_eq!(t.standing(home, "i2").await, ("approved".into(), 1));
        ended(held, done("1")).await;
        // A recorded result is returned whatever document version the caller names.
        must!(
            t.close(home, "i1").document("doc", 1).key("k").send().await,
            BeginOperationOutcome::Recorded(_)
        );
        t.close(home, "i2").document("doc", 2).begins().await;
    }
}

/// Starts under the old document race with its replacement. Once the replacement is acknowledged, none begins any more.
pub(super) async fn replacing_a_document_is_serialised_with_starts(t: &TestStore) {
    put(t, None).await;
    for n in 0..40 {
        t.invoice(&EntityStorage::BuiltIn, &format!("i{n}"), "approved").await;
    }
    let store = t.store.clone();
    let begin = |n: u32| {
        let request =
            t.close(&EntityStorage::BuiltIn, &format!("i{n}")).unclaimed().document("doc", 1).request();
        let store = store.clone();
        tokio::spawn(async move { store.entity_store().unwrap().begin_operation(request).await.unwrap() })
    };
    let early: Vec<_> = (0..20).map(begin).collect();
    let replacing = put(t, Some(1));
    replacing.await;
    let late: Vec<_> = (20..40).map(begin).collect();
    for outcome in late {
        must!(outcome.await.unwrap(), BeginOperationOutcome::DocumentChanged(Some(_)));
    }
    for outcome in early {
        let outcome = outcome.await.unwrap();
        assert!(
            matches!(
                outcome,
                BeginOperationOutcome::Begun { .. } | BeginOperationOutcome::DocumentChanged(Some(_))
            ),
            "{outcome:?}"
        );
    }
}

/// Operations in doubt are listed for their module, the oldest doubt first, page by page.
pub(super) async fn operations_in_doubt_are_listed_by_module(t: &TestStore) {
    let mut expected = Vec::new();
    for n in 0..3 {
        let held = t.closing(&EntityStorage::BuiltIn, &format!("i{n}")).await;
        ended(&held, OperationEnd::InDoubt).await;
        expected.push(held.id());
        t.pass(SECOND);
    }
    t.invoice(&EntityStorage::BuiltIn, "other", "approved").await;
    let other = t.close(&EntityStorage::BuiltIn, "other").module("shipping").begins().await;
    ended(&other, OperationEnd::InDoubt).await;
    t.closing(&EntityStorage::BuiltIn, "pending").await;
    let book = t.entities();
    let all = book.list_doubted_operations(&name("billing"), None, 10).await.unwrap();
    assert_eq!(all.iter().map(|operation| operation.id).collect::<Vec<_>>(), expected);
    let after = Some((all[0].state.at(), all[0].id));
    let page = book.list_doubted_operations(&name("billing"), after, 1).await.unwrap();
    assert_eq!(page, all[1..2]);
    assert_eq!(book.list_doubted_operations(&name("nobody"), None, 10).await.unwrap(), []);
}

/// Active operations are listed once each, in all workspaces. Operations in doubt, unclaimed or ended are not.
pub(super) async fn open_claims_are_listed_once_each(t: &TestStore) {
    assert_eq!(t.entities().list_open_claims(None, 10).await.unwrap(), []);
    for id in ["i1", "i2"] {
        t.closing(&EntityStorage::BuiltIn, id).await;
    }
    t.invoice(&EntityStorage::BuiltIn, "i3", "approved").await;
    t.close(&EntityStorage::BuiltIn, "i3").unclaimed().begins().await;
    let over = t.closing(&EntityStorage::BuiltIn, "i4").await;
    ended(&over, done("1")).await;
    let doubted = t.closing(&EntityStorage::BuiltIn, "i5").await;
    ended(&doubted, OperationEnd::InDoubt).await;
    t.invoice(&EntityStorage::BuiltIn, "i6", "approved").await;
    t.close(&EntityStorage::BuiltIn, "i6").module("archive").begins().await;
    let open =
        |module| OpenClaim { module: name(module), workflow: name("billing"), claim_into: name("closing") };
    let all = [open("archive"), open("billing")];
    assert_eq!(t.entities().list_open_claims(None, 10).await.unwrap(), all);
    assert_eq!(t.entities().list_open_claims(None, 1).await.unwrap(), all[..1]);

    let abroad = WorkspaceId::new("abroad").unwrap();
    assert_eq!(t.entities().list_open_claims(Some(&abroad), 10).await.unwrap(), []);
    let new = NewEntity {
        workspace: abroad.clone(),
        entity: entity_in(&EntityStorage::BuiltIn, "i1"),
        status: name("approved"),
        data: json("{}"),
    };
    must!(t.entities().create_entity(new).await.unwrap(), CreateEntityOutcome::Created(_));
    t.close(&EntityStorage::BuiltIn, "i1").workspace("abroad").module("customs").begins().await;
    let home = WorkspaceId::default();
    assert_eq!(t.entities().list_open_claims(Some(&abroad), 10).await.unwrap(), [open("customs")]);
    assert_eq!(t.entities().list_open_claims(Some(&home), 10).await.unwrap(), all);
    let nowhere = WorkspaceId::new("nowhere").unwrap();
    assert_eq!(t.entities().list_open_claims(Some(&nowhere), 10).await.unwrap(), []);
    assert_eq!(t.entities().list_open_claims(None, 10).await.unwrap().len(), 3);
}

/// However many operations an entity has had, one call finds the holder and the newest operation of each step.
pub(super) async fn the_holder_and_the_newest_of_each_step_are_found(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let latest = |steps: &[&str]| {
            let steps = steps.iter().map(|step| name(step)).collect();
            let request = FindLatestOperations {
                workspace: WorkspaceId::default(),
                entity: entity_in(&home, "i1"),
                steps,
            };
            async move { t.entities().find_latest_operations(request).await.unwrap() }
        };
        assert_eq!(latest(&["close", "pay"]).await, Default::default());
        ended(&t.close(&home, "i1").begins().await, OperationEnd::Rejected(Failure::permanent("no"))).await;
        ended(&t.close(&home, "i1").seen(3).begins().await, OperationEnd::Rejected(Failure::permanent("no")))
            .await;
        let pay = t.close(&home, "i1").step("pay").seen(5).begins().await;
        let found = latest(&["pay", "close", "never"]).await;
        assert_eq!(found.holder.as_ref(), Some(&pay.operation));
        assert_eq!(found.last.len(), 2);
        assert_eq!(found.last[0], pay.operation);
        assert_eq!((found.last[1].step.as_str(), found.last[1].version.get()), ("close", 4));
        assert_eq!(latest(&[]).await.last, []);
    }
}

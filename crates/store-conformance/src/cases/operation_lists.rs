//! Lists of operations and notes, and the audit log.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    Actor, EntityJournalEntry, EntityStorage, Failure, FinishOperation, FinishOperationOutcome, JournalEvent,
    OperationEnd, OperationId, OperationStatus, Resolution, Role, WorkspaceId,
};
use hapax_engine::store::{ListEntityJournal, ListJournal, ListOperations};

use crate::fixture::*;
use crate::must;

/// G1.6: operations are listed newest first, filtered by entity, step and status.
pub(super) async fn operations_are_listed_by_what_is_asked_for(t: &TestStore) {
    for home in t.homes().await {
        let rejected = t.closing(&home, "i1").await;
        must!(
            rejected.finish(OperationEnd::Rejected(failure())).await,
            FinishOperationOutcome::Finished { .. }
        );
        let failed = t.close(&home, "i1").seen(3).begins().await;
        must!(failed.finish(OperationEnd::Failed(failure())).await, FinishOperationOutcome::Finished { .. });
        let reverted = t.close(&home, "i1").seen(5).step("pay").begins().await;
        reverted.reverted().await;
        let closed = t.close(&home, "i1").seen(7).begins().await;
        must!(closed.done("1").await, FinishOperationOutcome::Finished { .. });
        let doubted = t.closing(&home, "i2").await;
        doubted.doubted().await;
        let pending = t.closing(&home, "i3").await;
        let all = [&pending, &doubted, &closed, &reverted, &failed, &rejected].map(BegunOperation::id);
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, all, "newest first");
        let listed = t.entities().list_operations(t.all_operations(&home)).await.unwrap();
        assert_eq!(listed[2], closed.now().await, "as they are found");
        let of =
            |id: &str| ListOperations { entity: Some(entity_in(&home, id).id), ..t.all_operations(&home) };
        assert_eq!(t.operation_ids(of("i1")).await, all[2..]);
        assert_eq!(t.operation_ids(of("i2")).await, [doubted.id()]);
        assert!(t.operation_ids(of("i")).await.is_empty());
        let step = |step: &str| ListOperations { step: Some(name(step)), ..of("i1") };
        assert_eq!(t.operation_ids(step("pay")).await, [reverted.id()]);
        assert_eq!(t.operation_ids(step("close")).await, [closed.id(), failed.id(), rejected.id()]);
        let standing = [
            (OperationStatus::Pending, &pending),
            (OperationStatus::Done, &closed),
            (OperationStatus::Rejected, &rejected),
            (OperationStatus::Failed, &failed),
            (OperationStatus::Reverted, &reverted),
            (OperationStatus::InDoubt, &doubted),
        ];
        for (status, held) in standing {
            let request = ListOperations { status: Some(status), ..t.all_operations(&home) };
            assert_eq!(t.operation_ids(request).await, [held.id()], "{status:?}");
        }
        let together = ListOperations { status: Some(OperationStatus::Failed), ..step("close") };
        assert_eq!(t.operation_ids(together.clone()).await, [failed.id()]);
        let none = ListOperations { before: Some(failed.id()), ..together };
        assert!(t.operation_ids(none).await.is_empty());
    }
}

/// Operations are separated by workspace and kind.
pub(super) async fn operations_are_seen_in_their_workspace_and_kind(t: &TestStore) {
    let mut ids = Vec::new();
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [held.id()]);
        ids.insert(0, held.id());
    }
    let any = ListOperations { kind: None, ..t.all_operations(&EntityStorage::BuiltIn) };
    assert_eq!(t.operation_ids(any.clone()).await, ids);
    let abroad = ListOperations { workspace: WorkspaceId::new("abroad").unwrap(), ..any };
    assert!(t.operation_ids(abroad).await.is_empty());
    let found = t.entities().find_operation(&WorkspaceId::default(), OperationId::from_u128(1)).await;
    assert_eq!(found.unwrap(), None);
}

/// Operations are listed in bounded pages.
pub(super) async fn operations_are_listed_page_by_page(t: &TestStore) {
    t.invoice(&EntityStorage::BuiltIn, "i1", "approved").await;
    let requests: Vec<_> =
        (0..=MAX_PAGE).map(|_| t.close(&EntityStorage::BuiltIn, "i1").unclaimed().request()).collect();
    let mut ids: Vec<OperationId> = requests.iter().map(|request| request.id).collect();
    ids.reverse();
    let begun = at_once(requests.into_iter().map(|request| {
        let store = t.store.clone();
        async move { begun(store.entity_store().unwrap().begin_operation(request).await.unwrap()) }
    }));
    assert_eq!(begun.await.len(), ids.len());
    let page = |before, limit| ListOperations { before, limit, ..t.all_operations(&EntityStorage::BuiltIn) };
    assert_eq!(t.operation_ids(page(None, usize::MAX)).await, ids[..MAX_PAGE]);
    assert_eq!(t.operation_ids(page(None, 3)).await, ids[..3]);
    assert_eq!(t.operation_ids(page(Some(ids[2]), 3)).await, ids[3..6]);
    assert_eq!(t.operation_ids(page(Some(ids[MAX_PAGE - 1]), 3)).await, ids[MAX_PAGE..]);
    let entity = Some(entity_in(&EntityStorage::BuiltIn, "i1").id);
    let of_entity = ListOperations { entity, ..page(Some(ids[2]), 3) };
    assert_eq!(t.operation_ids(of_entity).await, ids[3..6]);
    let pending = ListOperations { status: Some(OperationStatus::Pending), ..page(Some(ids[2]), 3) };
    assert_eq!(t.operation_ids(pending).await, ids[3..6]);
}

fn every_kind(t: &TestStore, home: &EntityStorage) -> Vec<EntityJournalEntry> {
    let tom = Actor::new("Tom O'Hara 💶", Role::Operator);
    let all = [
        JournalEvent::Remarked { text: "\"quoted\"\nü 💶".into() },
        JournalEvent::Reverted { attempt: 1, last_heard_at: "then".into(), status: Some("approved".into()) },
        JournalEvent::Reverted { attempt: u32::MAX, last_heard_at: "then".into(), status: None },
        JournalEvent::StrayReverted { status: "approved".into() },
        JournalEvent::Held { attempt: 2, last_heard_at: "then".into() },
        JournalEvent::TriedAgain { attempt: 2 },
        JournalEvent::Overridden { operation: Some("op_1".into()), reason: String::new() },
        JournalEvent::Failed {
            attempt: 1,
            failure: Failure::unknown("no").with_code("408").retry_after(SECOND),
        },
        JournalEvent::Refused { attempt: 3, occurrence: None },
        JournalEvent::Resolved {
            resolution: Resolution::Happened { output: serde_json::json!({ "id": 7 }) },
            seconded_by: Some(tom.clone()),
            reason: "seen".into(),
            request: None,
        },
    ];
    let note = |(n, what): (usize, JournalEvent)| EntityJournalEntry {
        operation: (n % 2 == 0).then(|| OperationId::from_u128(1 + n as u128 / 4)),
        by: [None, Some(tom.clone()), Some(manager())][n % 3].clone(),
        what,
        ..t.remark(home, "i1", "")
    };
    all.into_iter().enumerate().map(note).collect()
}

/// S2.3: notes keep all their fields and their order, also while an operation is pending.
pub(super) async fn notes_on_entities_are_kept(t: &TestStore) {
    for home in t.homes().await {
        t.closing(&home, "i1").await;
        let notes = every_kind(t, &home);
        t.entities().append_entity_journal(notes[..4].to_vec()).await.unwrap();
        t.entities().append_entity_journal(Vec::new()).await.unwrap();
        t.entities().append_entity_journal(notes[4..].to_vec()).await.unwrap();
        let placed = t.placed_entity_notes(t.all_notes_on(&home, "i1")).await;
        assert_eq!(placed.into_iter().map(|placed| placed.note).collect::<Vec<_>>(), notes);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
    }
}

/// Notes are listed by entity and operation, in bounded pages.
pub(super) async fn notes_on_entities_are_listed_page_by_page(t: &TestStore) {
    let home = EntityStorage::BuiltIn;
    let notes = every_kind(t, &home);
    let elsewhere = [
        EntityJournalEntry {
            workspace: WorkspaceId::new("abroad").unwrap(),
            ..t.remark(&home, "i1", "abroad")
        },
        EntityJournalEntry { entity: entity_of("order", "i1"), ..t.remark(&home, "i1", "order") },
        t.remark(&home, "i2", "other"),
    ];
    for (n, note) in notes.iter().enumerate() {
        let both = vec![note.clone(), elsewhere[n % 3].clone()];
        t.entities().append_entity_journal(both).await.unwrap();
    }
    let all = t.all_notes_on(&home, "i1");
    let placed = t.placed_entity_notes(all.clone()).await;
    assert_eq!(placed.iter().map(|placed| placed.note.clone()).collect::<Vec<_>>(), notes);
    let page = ListEntityJournal { after: placed[2].place, limit: 3, ..all.clone() };
    assert_eq!(t.placed_entity_notes(page).await, placed[3..6]);
    let end = ListEntityJournal { after: placed[9].place, ..all.clone() };
    assert!(t.placed_entity_notes(end).await.is_empty());
    let operation = Some(OperationId::from_u128(2));
    let of_operation = ListEntityJournal { operation, ..all.clone() };
    let expected: Vec<_> =
        placed.iter().filter(|placed| placed.note.operation == operation).cloned().collect();
    assert_eq!(expected.len(), 2);
    assert_eq!(t.placed_entity_notes(of_operation.clone()).await, expected);
    let rest = ListEntityJournal { after: expected[0].place, limit: 1, ..of_operation };
    assert_eq!(t.placed_entity_notes(rest).await, expected[1..]);
    let abroad = ListEntityJournal { workspace: WorkspaceId::new("abroad").unwrap(), ..all.clone() };
    assert!(t.placed_entity_notes(abroad).await.iter().all(|placed| placed.note == elsewhere[0]));
    assert_eq!(t.noted_on(&home, "i2").await.len(), 3);
    let many = (0..=MAX_PAGE).map(|n| t.remark(&home, "i3", &n.to_string())).collect();
    t.entities().append_entity_journal(many).await.unwrap();
    let page = ListEntityJournal { limit: usize::MAX, ..t.all_notes_on(&home, "i3") };
    assert_eq!(t.placed_entity_notes(page).await.len(), MAX_PAGE);
}

/// S2.44, S2.46: people's actions are in the audit log in order. Actions of engines are not.
pub(super) async fn what_people_did_is_audited(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        let before = t.notes().await.len();
        let notes = every_kind(t, &home);
        t.entities().append_entity_journal(notes[..3].to_vec()).await.unwrap();
        let request = FinishOperation { notes: notes[3..].to_vec(), ..held.own_end(done("1")) };
        must!(held.send(request).await, FinishOperationOutcome::Finished { .. });
        let audited: Vec<_> = notes.iter().filter_map(EntityJournalEntry::to_audit_entry).collect();
        assert_eq!(audited.len(), 6);
        assert_eq!(t.notes().await[before..], audited);
        let people = t.placed_notes(ListJournal { by_people: true, ..t.all_notes() }).await;
        assert_eq!(people.len(), before + 6);
    }
    let abroad = ListJournal { workspace: WorkspaceId::new("abroad").unwrap(), ..t.all_notes() };
    assert!(t.placed_notes(abroad).await.is_empty());
}
